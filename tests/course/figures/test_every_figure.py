"""Every figure draws what it is given as it stands, in colours that can be read, and shows it once."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.text import Text

from tests.course.figures.colours import contrast
from tests.gate.lint_notebooks import random_plots
from transformer_course import figures
from transformer_course.figures import layout
from transformer_lab import EncoderConfig
from transformer_lab.encoder import standard_layer
from transformer_lab.roformer import RoFormerEncoder

TOKENS = ["$x$", "b", "$"]
WEIGHTS = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5]])
YES = torch.eye(3).bool()
PLACES = torch.arange(12).reshape(3, 4)
LABELS = {"xlabel": "", "ylabel": "", "title": ""}


# One good call of every figure; the first argument is what it draws.
GOOD = {
    "head_ablation": {
        **{"adds": {each: {"a": (1, 0), "b": (0, 2)} for each in ("$x$", "$y$")}, "silent": [["b"]]},
        **{"words": TOKENS[:2], "title": ""},
    },
    "arithmetic_table": {
        "rows": [["→ $x$", ([[0.5, 2]], ["A", "silenced"]), "↓ b"], ["", ([["b"]], ["part"]), "← c"]],
        **{"names": TOKENS, "title": "", "alt": "Rows of numbers, and words between them."},
    },
    "attention_heatmap": {"weights": WEIGHTS, "tokens": TOKENS},
    "data_flow": {"tokens": ["$x$", "b"], "ids": [7, 8], "layers": 3, "heads": 2, "title": "$x$"},
    "bar_plot": {"quantities": [{"$x$": [1, 2, 0]}, {"b": [3, 4, 5]}], "rows": TOKENS, "title": "$y$"},
    "clock_table": {"positions": [0, 1], "speeds": [1.0, 0.5], "title": "$t$"},
    "digits_and_waves": {"count": 2, "highlight": (1, 2), "title": "$t$"},
    "draw_matrix": {"matrix": WEIGHTS, "rows": TOKENS, "columns": TOKENS},
    "draw_network": {
        **{"features": {"$x$": 1}, "up": {"$y$": ([2], -1)}, "down": {"b": [3]}},
        "cases": {"$z$": [2]},
    },
    "draw_attention_steps": {
        **{"step": "scores = query · keyᵀ", "x": PLACES, "tokens": TOKENS},
        "maps": {name: [[1, 0], [0, 1], [1, 0], [0, 1]] for name in ("W_Q", "W_K", "W_V")},
    },
    "draw_tile": {"scores": WEIGHTS, "tile": 1, "size": (1, 3), "values": [1, 2, 3]},
    "draw_rotary": {
        **{"x": {"$x$": [1.0, 0.0], "b": [0.0, 1.0]}, "maps": [[[1, 0, 2, 1], [0, 1, 1, -1]]] * 2},
        "places": (3, 1),
    },
    "draw_turns": {"arrows": {"$x$": [[1.0, 0.0]] * 3}, "names": TOKENS},
    "draw_attention_arcs": {"weights": WEIGHTS, "tokens": TOKENS, "highlight": 1},
    "draw_attention_web": {"layers": [WEIGHTS, YES], "tokens": TOKENS, "highlight": 1},
    "encoder_map": {"lesson": 3},
    "two_heads_inside": {"d_model": 12, "n_heads": 3, "title": "$x$"},
    "head_blocks": {"panels": {"$x$": PLACES}, "tokens": TOKENS, "d_model": 4, "n_heads": 2},
    "head_grid": {"maps": [WEIGHTS], "tokens": TOKENS, "titles": ["$x$"]},
    "head_scatter": {"named": {"$x$": (WEIGHTS, WEIGHTS)}, "ylabel": "", "marked": {(0, 1): "$x$"}},
    "image_attention": {
        **{"images": torch.rand(2, 4, 4), "maps": torch.rand(2, 3, 4), "names": TOKENS},
        **{"patch": (2, 2), "digits": [7, 8], "title": "", "bar": ""},
    },
    "forward_pass": {
        **{"stages": [PLACES, PLACES, WEIGHTS, PLACES, WEIGHTS[:1]], "maps": [[WEIGHTS]], "tokens": TOKENS},
        **{"ids": [7, 8, 9], "highlight": 1, "note": "", "more": "", "title": "$x$"},
    },
    "layer_lanes": {"weights": WEIGHTS, "tokens": TOKENS, "highlight": 1, "title": ""},
    "cosine_heatmaps": {"named": {"$x$": WEIGHTS}, "tokens": TOKENS},
    "line_plot": {"named": {"$x$": [1, 2], "b": [2, 1]}, "x": [1, 2], **LABELS, "logarithmic": "y"},
    "masks": {"named": {"$x$": YES}, "tokens": TOKENS},
    "masked_row": {"scores": WEIGHTS, "may_attend": YES, "tokens": TOKENS, "query": "b", "title": "$x$"},
    "matrices": {"named": {"$x$": WEIGHTS}, "rows": TOKENS, "columns": TOKENS, "limits": (0, 1)},
    "memory_traffic": {"n": 6, "d_head": 2, "size": 2, "block": 3, "title": "$x$"},
    "shape_flow": {"texts": [TOKENS, TOKENS], "d_model": 12, "n_heads": 3, "title": "$x$"},
    "two_heads": {
        **{"query": [1, 0, 0, 1], "keys": PLACES, "values": [[1, 0] * 2, [0] * 4, [0, 1] * 2]},
        **{"mixing": torch.eye(4), "words": TOKENS, "says": ("", "found"), "title": "$x$"},
        "jobs": {"one head": "", "head 0": "", "head 1": ""},
    },
    "norm_steps": {
        **{"tokens": {"$x$": [1, 2], "b": [3, 3]}, "eps": 0.5, "title": ""},
        **{"weight": [1, 2], "bias": [0, 1]},
    },
    "one_neuron": {
        **{"asked": WEIGHTS, "worked": "$w$", "neuron": 1, "tokens": TOKENS, "title": ""},
        **{"asks": {"$y$": 0.5}, "writes": {"$z$": 0.4}, "bias": 0.1, "d_model": 4},
    },
    "gradient_step": {
        **{"weights": [[0, 0], [0, 1]], "x": [3, 4], "right": 0},
        **{"rate": 0.1, "allowed": 1, "title": "$x$"},
    },
    "query_and_keys": {
        **{"queries": {"$x$": [1, 0]}, "keys": {"$x$": [1, 2], "b": [2, 1]}},
        **{"token": "$x$", "title": ""},
    },
    "matching_shapes": {
        **{"fits": {(2, 3): (["$x$"], ["b"])}, "added": {"b": "$y$"}, "left": "$z$", "title": ""},
        "pairs": ("", "", ""),
    },
    "mean_pooling": {"texts": {"$x$": ([[1, 2], [3, 4]], [[0, 5]]), "b": ([[2, 1]], [])}, "title": "$y$"},
    "linear_probe": {
        **{"points": [[1, 0], [0, 1], [2, 1]], "truth": [1, -1, 1], "known": 2},
        **{"penalty": 0.1, "names": ("$x$", "b"), "title": "$y$"},
    },
    "position_tables": {"named": {"$x$": WEIGHTS}, "labels": ("", ""), "title": "", "bar": ""},
    "packing": {"lengths": [2, 3], "title": "$x$"},
    "receptive_field": {"named": {"$x$": [None, 2]}, "length": 9, "place": 4, "title": ""},
    "ring_of_three": {"title": "$x$"},
    "roofline": {"parts": {"$x$": (2.0, 1e9)}, "speed": 1e10, "bandwidth": 1e9, "title": ""},
    "neuron_activations": {"named": {"$x$": ([1.0], [2.0])}, "legend": ("$y$", "b"), "title": ""},
    "minilm_and_modernbert": {"title": "$x$"},
    "text_cosine": {
        **{"hidden": torch.rand(2, 3, 5), "may_attend": torch.ones(2, 1, 1, 3) > 0},
        **{"named": {"$y$": TOKENS, "b": TOKENS}, "features": [0, 1], "title": ""},
    },
    "two_stacks": {"handed_on": [PLACES + 1] * 3, "added": [WEIGHTS] * 3, "tokens": TOKENS, "title": ""},
    "weight_and_ablation": {
        **{"cases": {"$x$": {"$y$": [0.1, 0.2, float("nan")], "b": [0.3, 0, 1]}}, "rows": TOKENS},
        "title": "$z$",
    },
    "weighted_sum": {"weights": [0.5, 0.2, 0.3], "values": [[1, 0]] * 3, "tokens": TOKENS, "query": "b"},
    "seen_from_reference": {
        "panels": {"$x$": ([1, 0], [[1, 1], [0, 1]])},
        "names": ["$y$", ""],
        "reference": "$",
        "number": "$z$",
        "length": "$z$",
        "title": "",
    },
    "search_results": {
        **{"cosines": WEIGHTS, "answers": {"$x$": 0, "b": 0, "$": 2}},
        **{"texts": TOKENS, "title": ""},
    },
    "two_blocks": {
        **{"layer": standard_layer(EncoderConfig(9, d_model=6, n_heads=1, d_ff=7)), "title": ""},
        **{"block": RoFormerEncoder(6, 1), "x": torch.rand(1, 3, 6), "tokens": {"$x$": 0, "b": 2}},
    },
}  # fmt: skip
ALONE = {"kinds_of_tests", "norm_orders", "live_curve"}  # these are given nothing but a title
WIDGETS = {"slider", "head_explorer", "measured"}


def drawn(name, **changes):
    given = GOOD[name] | changes
    if name.startswith("draw_"):
        given["ax"] = Figure().add_subplot()
    return getattr(figures, name)(**given) or layout.finished(given["ax"].figure)


def test_no_figure_is_left_out():
    offered = {name for name, thing in vars(figures).items() if callable(thing)}
    known = set(GOOD) | ALONE | WIDGETS
    assert known == offered, f"give each a call in GOOD, above: {', '.join(known ^ offered)}"


@pytest.mark.parametrize("name", GOOD)
def test_a_figure_is_shown_once_and_all_its_words_can_be_read_as_they_stand(name):
    plt.close("all")
    figure = drawn(name)
    assert plt.get_fignums() == []  # closed: a notebook shows it once
    figure.draw_without_rendering()  # ticks are named while they are drawn
    texts = [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
    dollars = [text for text in texts if "$" in text.get_text() and "mathdefault" not in text.get_text()]
    assert dollars or name in ("encoder_map", "draw_tile")
    assert not any(text.get_parse_math() for text in dollars)  # a dollar is a dollar, and no formula
    for text in texts:
        if colour := ground(text):
            assert contrast(text.get_color(), colour) >= 4.5, (text.get_text(), text.get_color(), colour)


@pytest.mark.parametrize("name", sorted(set(GOOD) | ALONE - {"live_curve"}))
def test_a_sentence_says_what_there_is_to_see_without_naming_a_colour(name):
    if not name.startswith("draw_"):  # drawn into a panel of somebody else's
        figure = drawn(name) if name in GOOD else getattr(figures, name)(title="")
        alt = figure.get_label()
        assert 20 < len(alt) <= 160 and alt.endswith("."), alt
        assert not re.search(r"\b(red|blue|green|orange|yellow|pink|grey|purple|black|white)\b", alt), alt


def test_numbers_along_an_axis_are_written_as_those_in_cells():
    figure = figures.line_plot([1, 2000], {"a": [0.25, 0.5], "b": [0.0, -0.5]}, **LABELS, logarithmic="x")
    figure.draw_without_rendering()
    (ax,) = figure.axes
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2,000"]
    assert {"−.4", "0", ".4"} <= {label.get_text() for label in ax.get_yticklabels()}
    figure = figures.line_plot([1, 2], {"a": [0.02, 200.0]}, **LABELS, logarithmic="y")
    figure.draw_without_rendering()
    assert {".1", "1", "10"} <= {label.get_text() for label in figure.axes[0].get_yticklabels()}


def ground(text):
    """The colour that a text stands on; None in a heatmap, whose numbers have a test of their own."""
    place = text.get_window_extent().get_points().mean(axis=0)
    axes = [ax for ax in text.figure.axes if ax.bbox.contains(*place)]
    if any(ax.images or any(isinstance(each, QuadMesh) for each in ax.collections) for ax in axes):
        return None
    patches = [patch for ax in axes for patch in ax.patches if patch.get_fill()]
    under = [patch.get_facecolor() for patch in patches if patch.contains_point(place)]
    return under[-1] if under and under[-1][3] else "white"


@pytest.mark.parametrize(
    ("name", "first", "wrap"),
    [
        ("attention_heatmap", "weights", lambda m: m),
        ("cosine_heatmaps", "named", lambda m: {"a": m}),
    ],
)
def test_no_number_is_drawn_as_the_end_of_its_scale(name, first, wrap):
    drawn(name, **{first: wrap(WEIGHTS + 2e-7)})  # what rounding may do
    for off in [-WEIGHTS * 3, WEIGHTS * 3]:
        with pytest.raises(ValueError, match=r"on the scale from .* to .*, got .* to .*; widen"):
            drawn(name, **{first: wrap(off)})


def test_zeros_can_be_drawn():
    drawn("draw_matrix", matrix=WEIGHTS * 0)


@pytest.mark.parametrize("name", sorted(path.stem for path in Path(figures.__file__).parent.glob("*.py")))
def test_no_plot_draws_random_numbers(name):
    """An error bar over resampled runs, or a jitter, would be another one in the next run."""
    assert list(random_plots(Path(figures.__file__).with_name(f"{name}.py").read_text("utf-8"))) == []


def test_seaborn_is_imported_by_the_first_figure_that_needs_it():
    """It takes two seconds, which a lesson's first cell is not to pay."""
    program = "import sys; from transformer_course import figures, lesson; sys.exit('seaborn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_redraw_that_heatmaps_do_without_is_still_seaborns():
    """A private name: where it is gone, `draw_cells` would leave nothing out, and be slow."""
    import seaborn

    before = seaborn.matrix._draw_figure
    figures.attention_heatmap(WEIGHTS, TOKENS)
    assert seaborn.matrix._draw_figure is before
