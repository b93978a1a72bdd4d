"""A figure in words tells what a reader who cannot see it wants, and changes just when the figure changes."""

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from transformer_course import figures
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


def test_large_heatmap_is_averaged_over_blocks() -> None:
    words = describe(drawn(lambda ax: ax.imshow(np.repeat(np.arange(12.0), 5)[:, None] * np.ones(60))))
    assert words.startswith("Figure: a heatmap of 60 × 60 cells.")
    assert words.endswith("\n  55 to 59: 11 11 11 11 11 11 11 11 11 11 11 11\n  written: ")


def test_hidden_cells_are_blank() -> None:
    causal = np.where(np.tri(3) > 0, WEIGHTS, np.nan)
    words = describe(drawn(lambda ax: ax.pcolormesh(causal)))
    assert "  0: 0.500 blank blank" in words


def test_image_is_told_from_its_first_row_with_its_names() -> None:
    for origin in ("upper", "lower"):
        figure = drawn(lambda ax, origin=origin: ax.imshow([[1, 2], [3, 4]], origin=origin))
        figure.axes[0].set_yticks([0, 1], TOKENS[:2])
        assert "  the: 1 2\n  cat: 3 4" in describe(figure)


def test_line_is_told_by_its_course() -> None:
    def loss(ax: Axes) -> None:
        ax.plot(range(100), 0.9 ** np.arange(100), label="train")
        ax.set(xlabel="step", ylabel="loss", yscale="log")
        ax.legend()

    words = describe(drawn(loss))
    assert "Upwards: loss, 0.0001 to 1." in words
    assert "“train” from 1 to 2.95e-05." in words
    assert "\n  line “train” #1f77b4 - None, 100 points: (0, 1) (9, 0.387) (18, 0.150) " in words
    assert "Legend: train." in words


def encoder_parts(ax: Axes) -> None:
    for place, (part, colour) in enumerate({"embedding": "white", "attention": "gold"}.items()):
        ax.add_patch(FancyBboxPatch((place, 0), 0.5, 0.5, boxstyle="square,pad=0", facecolor=colour))
        ax.text(place + 0.25, 0.25, part)
    ax.add_patch(FancyArrowPatch((0.5, 0.25), (1, 0.25)))
    ax.set(xlim=(0, 2), ylim=(0, 1))
    ax.axis("off")


@pytest.mark.parametrize(
    ("draw", "told"),
    [
        (
            lambda ax: ax.bar(TOKENS, [0.5, 0.25, 1]),
            "\n  Rectangle #1f77b4: (0.60, 0.000) to (1.40, 0.250)\n",
        ),
        (
            lambda ax: ax.bar(TOKENS, [1, 2, 3], hatch="//"),
            "\n  Rectangle #1f77b4 //: (1.60, 0) to (2.40, 3)",
        ),
        (lambda ax: ax.plot([1, 2], [3, 4], "o", ls=""), "\n  line #1f77b4 None o, 2 points: (1, 3) (2, 4)"),
        (lambda ax: ax.plot([], []), "\n  line #1f77b4 - None, 0 points: "),
        (lambda ax: ax.scatter([1, 2], [3, 4], label="a"), "\n  2 points “a” #1f77b4: (1, 3) (2, 4)"),
        (lambda ax: ax.scatter([1, 2], [3, 4], c=[5, 6]), "\n  values: 5 6"),
        (lambda ax: ax.vlines([1], 0, 2), "\n  1 lines #1f77b4: (1, 0) to (1, 2)"),
        (lambda ax: ax.fill_between([0, 1], [1, 2]), "\n  1 shapes #1f77b4: (0, 0) to (1, 2)"),
        (
            lambda ax: ax.annotate("here", (1, 1), (0, 0), arrowprops={}),
            "\n  written: “here”\n  arrow (0, 0) to (1, 1)",
        ),
        (encoder_parts, "Figure: a drawing of 2 boxes. Written: “embedding”, “attention”.\n"),
        (encoder_parts, "\n  FancyBboxPatch #ffd700: (1.00, 0.000) to (1.50, 0.500)\n"),
        (lambda ax: ax.set_xlabel("$\\sqrt{d}$\nof a head"), "Across: $\\sqrt{d}$ of a head, 0.0 to 1.0."),
        (lambda ax: ax.set(xlabel="time", xticks=[]), "Across: time."),
        (lambda ax: ax.bar_label(ax.bar(TOKENS, [1, 2, 3])), "Written: “1”, “2”, “3”."),  # above the bars
        (lambda ax: ax.pie([1, 2]), "Figure"),  # a kind that no lesson draws is told without an error
        (lambda ax: ax.boxplot([1, 2]), "Figure"),
    ],
)
def test_whatever_is_drawn_is_told(draw: Callable[[Axes], object], told: str) -> None:
    assert told in describe(drawn(draw))


def test_what_panels_share_is_told_once_and_what_a_mask_hides_is_told() -> None:
    titles, per_panel = ["one", "two"], [{}, {"hidden": np.eye(3)}]
    words = describe(
        figures.head_grid([WEIGHTS, WEIGHTS.T], TOKENS, titles, title="Heads", per_panel=per_panel)
    ).splitlines()
    assert words[0].startswith("Figure “Heads”: 2 panels: “one”; “two”; each a heatmap of 3 × 3 cells. ")
    assert words[0].count("Across: key, the, cat, sat.") == words[0].count("Downwards: query") == 1
    hatched = "  Rectangle “hidden” #e4e4e4 ////: (0, 1) to (1, 0)"
    assert words.index(hatched) > words.index("  panel 2: “two”")
    assert "  sat: 0.200 0.625 0.333" in words  # its row has a name, though the panel leaves it to the first


def test_a_name_at_the_end_of_its_line_is_read_aloud_with_the_line_alone() -> None:
    words = alt_text(describe(figures.line_plot([1, 2], {"a": [1, 2], "b": [2, 1]}, xlabel="", ylabel="")))
    assert words.count("“a”") == 1 and "Written" not in words


def test_bars_that_are_stacked_or_drawn_over_each_other_are_one() -> None:
    def stacked(ax: Axes) -> None:
        ax.barh(["a", "b"], [1, 2])
        ax.barh(["a", "b"], [1, 1], left=[1, 2])

    assert "2 bars" in alt_text(describe(drawn(stacked)))


def test_labels_that_panels_share_are_read_aloud_once() -> None:
    figure = figures.masks({"x": np.eye(2), "y": np.eye(2)}, ["a", "b"])
    assert alt_text(describe(figure)).count("a, b") == 2  # across, and downwards
