"""A figure in words tells what a reader who cannot see it wants, and changes just when the figure changes."""

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from transformer_course import figures
from transformer_course.figures.words import describe, told

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


def test_heatmap_is_told_by_its_tokens() -> None:
    assert describe(attention()).splitlines() == [
        "Figure “Attention”: a heatmap of 3 rows by 3 columns.",
        "Largest in each row: the: the 0.500; cat: sat 0.625; sat: 3 alike 0.333.",
        "Values from 0.125 to 0.625.",
        "  Colour map viridis from 0 to 1",
        "  Columns: the | cat | sat",
        "  the: 0.500 0.300 0.200",
        "  cat: 0.125 0.250 0.625",
        "  sat: 0.333 0.333 0.333",
        "x axis “key”: the; cat; sat.",
        "y axis “query”: the; cat; sat.",
        "Colours show “weight”.",
        "  Size in inches: 6.40 by 4.80",
    ]


def test_alternative_text_leaves_out_the_tables() -> None:
    assert told(describe(attention())) == (
        "Figure “Attention”: a heatmap of 3 rows by 3 columns. "
        "Largest in each row: the: the 0.500; cat: sat 0.625; sat: 3 alike 0.333. "
        "Values from 0.125 to 0.625. x axis “key”: the; cat; sat. y axis “query”: the; cat; sat. "
        "Colours show “weight”."
    )


def test_alternative_text_ends_with_a_sentence_before_it_is_too_long_to_hear() -> None:
    words = "\n".join(f"This is sentence {number}, and no more than a sentence." for number in range(99))
    assert len(told(words)) < 1250
    assert told(words).endswith("than a sentence. And more, not told here.")


def test_last_digits_do_not_change_the_words() -> None:
    noise = np.array([[1, -1, 1], [-1, 1, -1], [1, -1, 1]]) * 2e-16
    assert describe(attention(WEIGHTS + noise)) == describe(attention(WEIGHTS - noise))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.125, "0.125"),
        (2.675, "2.67"),  # between two digits: which way it goes must not hang on the last bit
        (-1e-9, "-1.00e-09"),
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
    assert words.startswith("Figure: a heatmap of 60 rows by 60 columns.\nValues from 0 to 11.\n")
    assert "\n  55 to 59: 11 11 11 11 11 11 11 11 11 11 11 11\n" in words
    assert "Largest" not in words


def test_hidden_cells_are_blank() -> None:
    causal = np.where(np.tri(3) > 0, WEIGHTS, np.nan)
    words = describe(drawn(lambda ax: ax.pcolormesh(causal)))
    assert "Values from 0.125 to 0.500, 3 blank." in words
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
    assert "y axis “loss” from 1.75e-05 to 1.68 (log)." in words
    assert "Line “train”, blue #1f77b4, solid, 100 points from (0, 1) to (99, 2.95e-05)" in words
    assert "\n  (0, 1); (9, 0.387); (18, 0.150); " in words
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
        (lambda ax: ax.bar(TOKENS, [0.5, 0.25, 1]), "3 bars, blue #1f77b4: the 0.50; cat 0.25; sat 1.00."),
        (lambda ax: ax.barh(TOKENS, [1, 2, 3]), "3 bars, blue #1f77b4: the 1; cat 2; sat 3."),
        (lambda ax: ax.plot([1, 2], [3, 4], "o", ls=""), "no line, circle marks: (1, 3); (2, 4)."),
        (lambda ax: ax.plot([], []), "Line, blue #1f77b4, solid: nothing."),
        (lambda ax: ax.scatter([1, 2], [3, 4], label="a"), "2 points “a”, blue #1f77b4: (1, 3); (2, 4)."),
        (lambda ax: ax.scatter([1, 2], [3, 4], c=[5, 6]), "\n  Values: 5 6\n"),
        (lambda ax: ax.vlines([1], 0, 2), "1 line, blue #1f77b4: (1, 0) to (1, 2)."),
        (lambda ax: ax.fill_between([0, 1], [1, 2]), "1 area, blue #1f77b4, within (0, 0) to (1, 2)."),
        (lambda ax: ax.annotate("here", (1, 1), (0, 0), arrowprops={}), "\n  Arrows: (0, 0) to (1, 1)\n"),
        (encoder_parts, "2 blocks.\nWritten: “embedding”; “attention” on yellow #ffd700."),
        (encoder_parts, "Shapes: 1 white block, 1 yellow block, 1 blue arrow."),
        (lambda ax: ax.inset_axes([0, 0, 1, 1]).set_title("close"), "Figure, inset “close”."),
        (lambda ax: ax.set_xlabel("$\\sqrt{d}$\nof a head"), "x axis “$\\sqrt{d}$ of a head” from"),
        (lambda ax: ax.set(xlabel="time", xticks=[]), "x axis “time”, without numbers."),
        (lambda ax: ax.bar_label(ax.bar(TOKENS, [1, 2, 3])), "Written: “1”; “2”; “3”."),  # above the bars
        (lambda ax: [ax.plot([n]) for n in range(20)], "\n20 lines.\n  Line, "),
        (lambda ax: ax.pie([1, 2]), "Figure"),  # a kind that no lesson draws is told without an error
        (lambda ax: ax.boxplot([1, 2]), "Figure"),
    ],
)
def test_whatever_is_drawn_is_told(draw: Callable[[Axes], object], told: str) -> None:
    assert told in describe(drawn(draw))


def test_what_panels_share_is_told_once_and_what_a_mask_hides_is_told() -> None:
    maps = [WEIGHTS, WEIGHTS.T]
    titles, hidden = ["one", "two"], [None, np.eye(3)]
    words = describe(figures.head_grid(maps, TOKENS, titles, title="Heads", hidden=hidden)).splitlines()
    assert words[0] == "Figure “Heads” of 2 panels, in each a heatmap of 3 rows by 3 columns."
    assert words.count("y axis “query”: the; cat; sat.") == words.count("x axis “key”: the; cat; sat.") == 1
    assert words.index("Hidden: the–the; cat–cat; sat–sat.") > words.index("Panel 2 “two”.")
    assert "  sat: 0.200 0.625 0.333" in words  # its row has a name, though the panel leaves it to the first
    framed = describe(figures.head_grid([WEIGHTS], TOKENS, [""], framed=[np.argwhere(np.eye(3))]))
    assert "\nFramed: the–the; cat–cat; sat–sat.\n" in framed


def test_a_name_at_the_end_of_its_line_is_told_with_the_line_alone() -> None:
    words = describe(figures.lines([1, 2], {"a": [1, 2], "b": [2, 1]}, xlabel="", ylabel=""))
    assert words.count("“a”") == 1 and "Written" not in words
