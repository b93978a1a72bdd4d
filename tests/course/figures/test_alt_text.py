"""A figure in words tells what a reader who cannot see it wants, and changes just when the figure changes."""

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures.alt_text import alt_text, describe

WEIGHTS = np.array([[0.5, 0.3, 0.2], [0.125, 0.25, 0.625], [1 / 3, 1 / 3, 1 / 3]])
TOKENS = ["the", "cat", "sat"]


def drawn(draw: Callable[[Axes], object]) -> Figure:
    """Return a figure with one panel."""
    figure = Figure()
    draw(figure.subplots())
    return figure


def attention(weights: np.ndarray = WEIGHTS) -> Figure:
    figure = Figure()
    ax = figure.subplots()
    mesh = ax.pcolormesh(weights, vmin=0, vmax=1)
    ax.set_xticks([0.5, 1.5, 2.5], TOKENS)
    ax.set_yticks([0.5, 1.5, 2.5], TOKENS)
    ax.set(title="Attention", xlabel="key", ylabel="query")
    figure.colorbar(mesh, label="weight")
    return figure


def test_a_heatmap_is_told_by_its_tokens() -> None:
    figure = attention(WEIGHTS[[0, 1, 1]])
    figure.suptitle("Twins")
    figure.set_label("A row for each query.")
    assert describe(figure).splitlines() == [
        "Figure “Twins”: “Attention”, a heatmap of 3 × 3 cells. A row for each query. "
        "Across: key, the, cat, sat. Upwards: query, the, cat, sat. Colours: weight. "
        "Largest in each row: the: the 0.500; cat: sat 0.625; sat: sat 0.625.",
        "  6.40 by 4.80 inches",
        "  panel 1: “Attention”",
        "  x “key” linear 0 to 3: the | cat | sat",
        "  y “query” linear 0 to 3: the | cat | sat",
        "  heatmap viridis 0 to 1",
        "  columns: the | cat | sat",
        "  the: 0.500 0.300 0.200",
        "  cat: 0.125 0.250 0.625",
        "  sat: 0.125 0.250 0.625",
        "  written: ",
        "  colours: weight",
    ]
    assert alt_text(describe(figure)) == describe(figure).splitlines()[0]


def test_where_two_are_alike_none_is_called_the_largest() -> None:
    assert "Largest" not in alt_text(describe(attention()))


def test_what_is_read_aloud_ends_with_a_sentence_before_it_is_too_long() -> None:
    figure = drawn(lambda ax: [ax.plot([n, n + 1], label=f"the line of the number {n}") for n in range(99)])
    words = alt_text(describe(figure))
    assert 550 < len(words) <= 600
    assert words.startswith("Figure: 99 lines. “the line of the number 0” from 0 to 1. ") and words[-1] == "."


def test_last_digits_do_not_change_the_words() -> None:
    noise = np.array([[1, -1, 1], [-1, 1, -1], [1, -1, 1]]) * 2e-16
    assert describe(attention(WEIGHTS + noise)) == describe(attention(WEIGHTS - noise))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.125, "0.125"),
        (2.675, "2.67"),  # between two digits: which way it goes must not hang on the last bit
        (-1e-9, "-1.00e-09"),
        (9.16e-18, "0"),  # equal numbers, subtracted
        (123456.7, "123457"),
        (3.0, "3"),
        (1e12, "1000000000000"),
        (float("nan"), "blank"),
    ],
)
def test_numbers_are_told_with_three_digits(value: float, written: str) -> None:
    for same in (value, np.nextafter(value, np.inf), np.nextafter(value, -np.inf)):
        figure = drawn(lambda ax, same=same: ax.imshow([[same]], vmin=0, vmax=1))
        assert f"  0: {written}" in describe(figure).splitlines()


def test_no_zero_has_a_minus() -> None:
    figure = drawn(lambda ax: ax.imshow([[-1e-4, 1.5]]))
    assert "  0: 0.00 1.50" in describe(figure).splitlines()


def test_hidden_cells_are_blank() -> None:
    causal = np.where(np.tri(3) > 0, WEIGHTS, np.nan)
    words = describe(drawn(lambda ax: ax.pcolormesh(causal)))
    assert "  0: 0.500 blank blank" in words


@pytest.mark.parametrize("draw", [lambda ax: ax.pie([1, 2]), lambda ax: ax.boxplot([1, 2])])
def test_a_kind_that_no_lesson_draws_is_described_without_an_error(draw: Callable[[Axes], object]) -> None:
    assert "Figure" in describe(drawn(draw))
