"""Keys fall where their dot product says, and each cell of the walk is the sum that is written above it."""

import math

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from transformer_course import figures
from transformer_course.figures.attention import HUES, LIGHT, PLACES, STEPS
from transformer_course.figures.colours import GREY, LIT, pale

X = [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
MAPS = {
    "W_Q": [[0, 1, 0, 0], [1, 1, 0, 0], [-1, 1, 1, 1]],
    "W_K": [[2, 0, 0, 0], [-2, 2, 0, 0], [2, -2, 2, 0]],
    "W_V": [[10, 0], [-10, 10], [20, 0]],
}


def test_a_key_falls_at_a_right_angle_on_the_line_of_the_query() -> None:
    keys = {"a": [1.0, 2.0], "b": [-3.0, 1.0]}
    plane = figures.query_and_keys({"a": [2.0, 0.0]}, keys, "a", title="").axes[0]
    feet = [line.get_xydata()[0] for line in plane.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(feet, [[1, 0], [-3, 0]], atol=1e-12)
    assert {"a's query", "a 1.00", "b −3.00"} <= {text.get_text() for text in plane.texts}
    assert plane.get_title() == "reach along the query, 2.00 long"


def test_a_key_without_a_part_in_the_plane_is_a_point_and_counts_in_the_scores() -> None:
    keys = {"a": [0.0, 2.0, 0.0, 0.0], "up": [0.0, 0.0, 2.0, 0.0]}
    plane, scores, _ = figures.query_and_keys({"a": [1.0, 2.0, 0.0, 0.0]}, keys, "a", title="").axes
    assert "key of “up”: out of the page, .00" in {text.get_text() for text in plane.texts}
    assert [bar.get_width() for bar in scores.patches] == pytest.approx([2, 0])


def test_what_softmax_makes_of_the_scores_stands_beside_them() -> None:
    keys = {
        "a": [0.0, 1.0],
        "b": [math.log(3), 5.0],
    }  # the query is √2 long: a score is a key's first feature
    _, scores, weights = figures.query_and_keys({"a": [math.sqrt(2), 0.0]}, keys, "a", title="").axes
    assert [bar.get_width() for bar in scores.patches] == pytest.approx([0, math.log(3)])
    assert [bar.get_width() for bar in weights.patches] == pytest.approx([0.25, 0.75])


def walked(step: str):
    ax = Figure().add_subplot()
    figures.draw_attention_steps(ax, step, X, MAPS, ["the", "cat", "sat"])
    return ax


@pytest.mark.parametrize(
    ("step", "arithmetic"),
    [
        ("query = x W_Q", "1 · 1 + 1 · 1 + 0 · 1 = 2"),
        ("key = x W_K", "1 · 0 + 1 · 2 + 0 · −2 = 2"),
        ("value = x W_V", "1 · 0 + 1 · 10 + 0 · 0 = 10"),
        ("scores = query · keyᵀ", "1 · 2 + 2 · 0 + 0 · 0 + 0 · 0 = 2"),
        (
            "weights = softmax(scores ÷ √4)",
            "exp(2 ÷ √4) ≈ 2.72,  2.72 ÷ (2.72 + 7.39 + 1) ≈ .245",
        ),
        ("output = weights · value", ".245 · 0 + .665 · 10 + .090 · 10 ≈ 7.55"),
    ],
)
def test_the_marked_cell_is_the_sum_written(step: str, arithmetic: str) -> None:
    ax = walked(step)
    made, made_of = STEPS[step]
    assert f"{made}:  {arithmetic}" in [text.get_text() for text in ax.texts]
    places = {to_hex(patch.get_facecolor()): patch.get_xy() for patch in ax.patches}
    (left, top), (x, y) = PLACES[made], places[LIT]
    number = arithmetic.split()[-1]
    assert number in [t.get_text() for t in ax.texts if t.get_position() == (x + 0.5, y + 0.5)]
    assert left <= x < left + 3 and top <= y < top + 3
    highlight = [pale(HUES.get(name, GREY), LIGHT) for name in made_of]
    assert [
        colour for patch in ax.patches if (colour := to_hex(patch.get_facecolor())) in highlight
    ] == highlight


def test_what_is_not_known_yet_is_empty() -> None:
    written = [len(walked(step).texts) for step in STEPS]
    assert np.diff(written).tolist() == [12, 6, 9, 9, 6]


def test_all_steps_mark_one_cell_each_and_write_its_sum() -> None:
    ax = walked("all steps")
    lines = next(text.get_text() for text in ax.texts if text.get_text().startswith("① query: "))
    assert lines.split("\n")[1:3] == [
        "② scores:  1 · 2 + 2 · 0 + 0 · 0 + 0 · 0 = 2",
        "③ weights:  exp(2 ÷ √4) ≈ 2.72,  2.72 ÷ (2.72 + 7.39 + 1) ≈ .245",
    ]
    marked = [patch.get_xy() for patch in ax.patches if to_hex(patch.get_facecolor()) == LIT]
    boxed = {patch.get_xy(): patch.get_height() for patch in ax.patches if not patch.get_fill()}
    whole = {PLACES[name]: 3 for name in ("x", "key", "value")}  # what cat gets is made of all rows of these
    rows = {(left, top + 1): 1 for left, top in PLACES.values() if top and (left, top) not in whole}
    assert boxed == rows | whole
    cells = {"query": (1, 1), "scores": (0, 1), "weights": (0, 1), "output": (1, 1)}
    assert marked == [tuple(np.add(PLACES[name], cell)) for name, cell in cells.items()]


def test_a_masked_row_ends_at_the_softmax_of_what_is_left():
    scores, seen = [[0, 0, 0], [0, 0, 0], [0, 2, 1]], [[True, False, True]] * 3
    figure = figures.masked_row(scores, seen, ["the", "cat", "sat"], "sat")
    weights = [1 / (1 + math.e), 0.0, math.e / (1 + math.e)]
    before, after = ([bar.get_height() for bar in row] for row in figure.axes[-2].containers)
    without = np.exp([0, 2, 1]) / np.exp([0, 2, 1]).sum()
    most = max(weights)  # one scale for both
    assert after == pytest.approx(np.divide(weights, most))
    assert before == pytest.approx(without / most)
    _, added, summed, *_, last = ([t.get_text() for t in ax.texts if t.get_text()] for ax in figure.axes)
    assert added == ["0", "0"] * 3 + ["−∞"] * 3 + ["+"]
    assert summed == ["0", "0"] * 2 + ["0", "1"] + ["−∞"] * 3 + ["="]
    assert last[4:9] == [".27", ".73", "0", "0", "0"] and "sat: sum 1" in last
    told = {text.get_text() for text in figure.axes[-2].texts}
    assert {"no mask: ÷ 11.11", "mask: ÷ 3.72", ".67", ".73", "0"} < told


def test_bars_have_their_numbers_and_signs_between_their_columns():
    columns = [{"a": [0.5, 0.25]}, {"b": [0.5, 4]}, {"c": [0.25, 1]}]
    figure = figures.bar_plot(columns, ["x", "y"], "×=", title="")
    widths = [[bar.get_width() for bar in ax.patches] for ax in figure.axes]
    assert widths == [[0.5, 0.25], [0.5, 4], [0.25, 1]]
    assert [ax.get_title() for ax in figure.axes] == ["a", "b", "c"]
    assert {".25", "1.00", "="} <= {text.get_text() for text in figure.axes[2].texts}


def test_a_factor_too_small_for_two_decimals_has_three():
    columns = [{"a": [0.004, 0.25]}, {"b": [2.5, 4]}, {"c": [0.01, 1]}]
    told = [
        [text.get_text() for text in ax.texts]
        for ax in figures.bar_plot(columns, ["x", "y"], "×=", title="").axes
    ]
    assert {".004", ".250"} <= set(told[0]) and {"2.50", "=", ".01"} <= {*told[1], *told[2]}


def test_columns_of_one_quantity_share_colour_and_scale():
    figure = figures.bar_plot([{"a": [0.5, 1]}, {"b": [0.1, 0.2], "c": [0.4, 0]}], ["x", "y"], title="")
    first, second, third = figure.axes
    assert second.get_xlim() == third.get_xlim() != first.get_xlim()
    colours = [ax.patches[0].get_facecolor() for ax in figure.axes]
    assert colours[1] == colours[2] != colours[0]
    assert [bar.get_width() for bar in third.patches] == [0.4, 0]


def test_rows_that_are_lit_have_a_legend():
    figure = figures.bar_plot(
        [{"a": [0.5, 1], "b": [2, 3]}], ["x", "y"], title="", highlight=[["x"], ["x", "y"]], legend=["ok"]
    )
    colours = [[patch.get_facecolor() for patch in ax.patches] for ax in figure.axes]
    assert colours[0][0] == colours[1][0] == colours[1][1] != colours[0][1]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ok"]
