"""Every figure draws all that it is given, as it stands, or says what it wants instead."""

import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.collections import QuadMesh
from matplotlib.text import Text

from tests.course.figures.colours import contrast
from transformer_course import figures
from transformer_lab.training.loop import History

TOKENS = ["$x$", "b", "$"]
WEIGHTS = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5]])
YES = torch.eye(3).bool()
PLACES = torch.arange(12).reshape(3, 4)
LABELS = {"xlabel": "", "ylabel": "", "title": ""}
HISTORY = History(loss=[1.0, 0.5], learning_rate=[0.1, 0.1], gradient_norm=[0.2, 0.2], scores={2: 0.5})


def panel():
    return plt.figure().add_subplot()


# One good call of every figure; the first argument is what it draws.
GOOD = {
    "activation_curves": {"functions": {"$x$": torch.relu}, "title": "$t$"},
    "aimed_maps": {"named": {"$x$": WEIGHTS}, "targets": {"$x$": [0, 2, 1]}, "labels": TOKENS, "title": ""},
    "attention_heatmap": {"weights": WEIGHTS, "query_tokens": TOKENS},
    "bars": {"panels": {"$x$": {"$y$": 2.0}}, "xlabel": "", "title": ""},
    "cache_steps": {"tokens": TOKENS, "title": ""},
    "catch_map": {"noticed": YES, "bugs": TOKENS, "tests": TOKENS},
    "cost_shares": {"parts": {"$x$": [1, 2]}, "lengths": [2, 4], "marks": {"$m$": 3}, "title": ""},
    "curves_apart": {"named": {"$x$": [1, 2], "b": [2, 1]}, "x": [1, 2], **LABELS, "places": {"$p$": 1}},
    "data_flow": {"n_layers": 3, "title": "$x$"},
    "depth_curves": {"named": {"$x$": [1, 2], "b": [2, 1]}, **LABELS},
    "draw_clocks": {"angles": [1.0, 2.0, 3.0], "names": TOKENS},
    "draw_mask": {"matrix": YES, "tokens": TOKENS},
    "draw_matrix": {"matrix": WEIGHTS, "rows": TOKENS, "columns": TOKENS},
    "draw_memory": {"models": {"$x$": (2**30, 2**20)}, "tokens": 7, "room": 5, "limit": 11},
    "draw_turns": {"arrows": {"$x$": [[1.0, 0.0]] * 3}, "names": TOKENS},
    "encoder_map": {"lesson": 3},
    "error_curves": {"panels": {"$x$": {"$y$": [[1.0] * 20]}}, "title": ""},
    "file_parts": {"lines": [("$x$", "layers.N.attention_norm.*", (3,))]},
    "growth": {"panels": {"$x$": {"$y$": [1, 2]}}, "x": [1, 2], "xlabel": "", "title": ""},
    "head_atlas": {"maps": torch.rand(2, 3, 5, 5), "marked": {(0, 1): "$x$"}},
    "head_blocks": {"panels": {"$x$": PLACES}, "tokens": TOKENS, "d_model": 4, "n_heads": 2},
    "head_grid": {"maps": [WEIGHTS], "tokens": TOKENS, "titles": ["$x$"]},
    "head_scatter": {"named": {"$x$": (WEIGHTS, WEIGHTS)}, "ylabel": "", "marked": {(0, 1): "$x$"}},
    "head_values": {"named": {"$x$": WEIGHTS}, "marked": [(0, 1)]},
    "image_attention": {
        **{"images": torch.rand(2, 4, 4), "maps": torch.rand(2, 3, 4), "names": TOKENS},
        **{"patch": (2, 2), "title": "", "bar": ""},
    },
    "key_sharing": {"n_kv_heads": {"$x$": 2}, "n_heads": 4, "title": ""},
    "layer_maps": {
        **{"maps": [WEIGHTS], "rows": TOKENS, "columns": TOKENS, "titles": ["$x$"], "title": "", "bar": ""},
    },
    "likeness_grid": {"named": {"$x$": WEIGHTS}, "tokens": TOKENS},
    "length_curves": {
        **{"runs": {"$x$": [[1.0, 0.5]]}, "lengths": [2, 4], "trained": 2, "chance": 0.1, "title": ""},
    },
    "lines": {"named": {"$x$": [1, 2], "b": [2, 1]}, "x": [1, 2], **LABELS, "logarithmic": "y"},
    "low_rank": {"rows": 7, "columns": 5, "rank": 2, "title": "$x$"},
    "masks": {"named": {"$x$": YES}, "tokens": TOKENS},
    "matrices": {"named": {"$x$": WEIGHTS}, "rows": TOKENS, "columns": {"$x$": TOKENS}},
    "neuron_map": {"activations": WEIGHTS, "names": TOKENS, "tokens": TOKENS, "title": ""},
    "shape_flow": {"shapes": {"$x$": (2, 5, 12), "q": (2, 3, 5, 4)}, "steps": ["cut"]},
    "slopes": {"named": {"$x$": [1, 2], "b": [2, 1]}, "places": ["one", "two"], "ylabel": "", "title": ""},
    "solved_squares": {"solved": {"$01$ a lesson": [True, False, True], "02": [False]}},
    "padding": {"batches": {"$x$": [[3, 5], [2]]}, "title": ""},
    "pairings": {"named": {"$x$": [[0, 1], [2, 3]]}},
    "parameter_bars": {"models": {"$x$": {"$y$": 1, "b": 2}}, "title": ""},
    "planes": {
        **{"functions": {"$x$": torch.mul}, "points": {"$p$": (0.0, 0.0)}},
        **{"xlabel": "", "ylabel": "", "title": "", "bar": ""},
    },
    "position_circles": {"named": {"$x$": torch.rand(5, 2)}, "title": ""},
    "position_curves": {"named": {"$x$": [1, 2], "b": [2, 1]}, "x": [1, 2], **LABELS},
    "position_tables": {"named": {"$x$": WEIGHTS}, "xlabel": "", "title": "", "bar": ""},
    "roofline": {"parts": {"$x$": (2.0, 1e9)}, "speed": 1e10, "bandwidth": 1e9, "title": ""},
    "score_maps": {"named": {"$x$": WEIGHTS}, "title": ""},
    "row_maps": {"named": {"$x$": (WEIGHTS, TOKENS, [0, 1, 2])}, "rows": TOKENS, "title": ""},
    "seed_spread": {"named": {"$x$": [1.0, 2.0]}, "xlabel": "", "title": ""},
    "spectrum": {"strength": [1.0, 2.0], "length": 9, "bands": {"$x$": (4, 9)}, "title": ""},
    "token_depth": {"values": WEIGHTS, "rows": TOKENS, "tokens": TOKENS, "title": "", "bar": ""},
    "training_curves": {"histories": {"$x$": HISTORY, "b": HISTORY}},
    "turns": {"panels": {"$x$": {"$y$": [[1.0, 0.0]]}}, "names": ["$z$"]},
    "wanted_maps": {"named": {"$x$": WEIGHTS}, "wanted": YES, "tokens": TOKENS, "title": ""},
    "weighted_sum": {"weights": [0.5, 0.2, 0.3], "values": [[1, 0]] * 3, "tokens": TOKENS, "query": "b"},
    "word_strips": {"named": {"$x$": ([1.0], [2.0])}, "legend": ("$y$", "b"), "title": ""},
}  # fmt: skip
ALONE = {"norm_orders", "then_and_now", "two_blocks", "live_curve"}  # these are given nothing but a title
WIDGETS = {"explore", "explorer", "measured"}
every_figure = pytest.mark.parametrize("name", GOOD)


def drawn(name, **changes):
    given = GOOD[name] | changes
    if name.startswith("draw_"):
        given["ax"] = panel()
    return getattr(figures, name)(**given) or given["ax"].figure


@pytest.fixture(autouse=True)
def nothing_open():
    plt.close("all")
    yield
    plt.close("all")


def test_no_figure_is_left_out():
    offered = {name for name, thing in vars(figures).items() if callable(thing)}
    known = set(GOOD) | ALONE | WIDGETS
    assert known == offered, f"give each a call in GOOD, above: {', '.join(known ^ offered)}"


def test_a_figure_is_closed_so_that_a_notebook_shows_it_once():
    for name in GOOD.keys() - {name for name in GOOD if name.startswith("draw_")}:
        drawn(name)
    assert plt.get_fignums() == []


def written(figure):
    """Every text with a dollar that is no power of ten on a logarithmic axis."""
    texts = [text for text in figure.findobj(Text) if "$" in text.get_text()]
    return [text for text in texts if "mathdefault" not in text.get_text()]


@every_figure
def test_a_dollar_is_a_dollar(name):
    figure = drawn(name)
    figure.canvas.draw()  # ticks are named while they are drawn
    texts = written(figure)
    assert texts or name == "encoder_map"
    assert not any(text.get_parse_math() for text in texts)


def test_powers_on_a_logarithmic_axis_are_still_formulas():
    figure = figures.depth_curves({"a": [0.01, 100.0]}, xlabel="", ylabel="", title="", logarithmic=True)
    figure.canvas.draw()
    powers = [text for text in figure.findobj(Text) if "10^" in text.get_text() and text.get_visible()]
    assert powers and all(text.get_parse_math() for text in powers)


def ground(text):
    """The colour that a text stands on; None in a heatmap, whose numbers have a test of their own."""
    place = text.get_window_extent().get_points().mean(axis=0)
    axes = [ax for ax in text.figure.axes if ax.bbox.contains(*place)]
    if any(ax.images or any(isinstance(each, QuadMesh) for each in ax.collections) for ax in axes):
        return None
    patches = [patch for ax in axes for patch in ax.patches if patch.get_fill()]
    under = [patch.get_facecolor() for patch in patches if patch.contains_point(place)]
    return under[-1] if under and under[-1][3] else "white"


@every_figure
def test_every_label_contrasts_with_its_ground(name):
    figure = drawn(name)
    figure.canvas.draw()
    for text in figure.findobj(Text):
        if text.get_text().strip() and text.get_visible() and (colour := ground(text)):
            assert contrast(text.get_color(), colour) >= 4.5, (text.get_text(), text.get_color(), colour)


@every_figure
@pytest.mark.parametrize("bad", [None, "text", 5.5, [], {}, [[]], {"a": None}, {"a": []}, {5: [1]}, object()])
def test_what_cannot_be_drawn_is_refused_in_words(name, bad):
    first = next(iter(GOOD[name]))
    with pytest.raises((TypeError, ValueError), match="got"):
        drawn(name, **{first: bad})
    if not name.startswith("draw_"):
        assert plt.get_fignums() == []  # nothing half drawn is shown


def curves(count):
    return {f"name {i}": [1.0 + i] * 3 for i in range(count)}


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("depth_curves", {"named": curves(41)}, "at most 28 lines, got 41"),
        ("training_curves", {"histories": {f"{i}": HISTORY for i in range(9)}}, "at most 7 runs, got 9"),
        ("parameter_bars", {"models": {"m": {f"{i}": 1 for i in range(7)}}}, "at most 6 parts, got 7"),
        (
            "parameter_bars",
            {"models": {"m": {"a": 1}, "n": {"b": 2}}},
            r"n has the parts \['b'\], wanted \['a'\]",
        ),
        ("parameter_bars", {"models": {"m": {"a": 0}}}, "nor all 0"),
        ("cost_shares", {"parts": {name: [1, 2] for name in "abcde"}}, "at most 4 parts, got 5"),
        ("cost_shares", {"marks": {"far": 5}}, "the mark 'far' at 5 lies outside"),
        ("lines", {"named": {"a": [1, 2, 3]}}, "a has 3 points, wanted 2"),
        ("lines", {"named": {"_a": [1, 2]}}, "got the name '_a', which a legend hides"),
        ("lines", {"named": {"a": [0, 2]}}, "a holds 0, wanted numbers above 0 on a logarithmic axis"),
        ("lines", {"logarithmic": "z"}, "logarithmic must name axes, got 'z'"),
        ("depth_curves", {"named": {"a": [1, float("nan")]}}, "a must be finite, got nan"),
        ("head_grid", {"titles": ["1", "2"]}, "got 2 titles, wanted 1"),
        ("head_grid", {"limits": [(0, 1), (0, 1)]}, "got 2 limits, wanted 1"),
        ("head_grid", {"columns": 0}, "columns must be at least 1, got 0"),
        ("layer_maps", {"titles": ["1", "2"]}, "got 2 titles, wanted 1"),
        ("matrices", {"xlabels": {"y": "key"}}, r"xlabels name no matrix: got \['y'\]"),
        ("matrices", {"rows": ["a", "b"]}, "got 2 labels of rows"),
        ("aimed_maps", {"targets": {"$x$": [0, 1]}}, "got 2 targets for .*, wanted 3"),
        ("aimed_maps", {"targets": {"$x$": [0, 1, 3]}}, r"targets for .* must lie within \(3, 3\)"),
        ("aimed_maps", {"targets": {"y": [0, 1, 2]}}, r"got targets for \['y'\]"),
        ("head_values", {"marked": [(0, 3)]}, r"marked heads must lie within \(3, 3\), got \(0, 3\)"),
        ("head_scatter", {"marked": {(-1, 0): "last"}}, r"marked heads must lie within \(3, 3\)"),
        (
            "head_scatter",
            {"named": {"a": (WEIGHTS, WEIGHTS - 0.1)}},
            "a, up, holds 0, wanted numbers",
        ),
        ("head_atlas", {"marked": {(2, 0): "n"}}, r"must lie within \(2, 3\)"),
        ("head_blocks", {"n_heads": 3}, r"d_model \(4\) must be divisible by n_heads \(3\)"),
        ("head_blocks", {"panels": {"p": torch.arange(12, 24).reshape(3, 4)}}, "integers from 0 to 11"),
        ("head_blocks", {"tokens": ["a", "b", "c", "d"]}, "got 4 tokens, wanted 3"),
        ("head_atlas", {"marked": {(0, 1): 3}}, "names of marked heads must be a list of strings, got 3"),
        ("head_scatter", {"marked": {(0, 1): 3}}, "names of marked heads must be a list of strings, got 3"),
        ("aimed_maps", {"axes_named": "ab"}, "names of the axes must be a list of strings, got 'ab'"),
        ("aimed_maps", {"axes_named": ("key",)}, "got 1 names of the axes, wanted 2"),
        ("activation_curves", {"functions": {"f": torch.nn.ReLU}}, "f must be a function, got type"),
        ("draw_memory", {"models": {"m": (-1, 1)}}, "wanted bars from 0 to 11 GiB"),
        ("draw_memory", {"models": {"m": (2**33, 2**29)}}, "wanted bars from 0 to 11 GiB"),
        ("position_curves", {"named": {"a": [float("nan")] * 2}}, "a must be finite, got nan"),
        ("cache_steps", {"tokens": ["a"] * 13}, "at most 12 tokens, got 13"),
        ("encoder_map", {"lesson": 99}, r"lesson must be from 0 to \d+, got 99"),
        ("key_sharing", {"n_kv_heads": {"a": 3}}, "a: got 4 query heads that cannot share 3 equally"),
        ("masks", {"named": {"a": WEIGHTS}}, "the mask must hold only True and False, got 0.1 to 0.8"),
        ("catch_map", {"noticed": WEIGHTS}, "noticed must hold only True and False"),
        ("pairings", {"named": {"a": [[0, 1], [1, 2]]}}, "a must name each feature from 0 to 3 once"),
        ("image_attention", {"patch": (3, 2)}, r"wanted \(image, head, patches\)"),
        ("planes", {"points": {"far": (9.0, 0.0)}}, "the point 'far' at .* lies outside the plane"),
        ("attention_heatmap", {"query_tokens": "abc"}, "query tokens must be a list of strings, got 'abc'"),
        ("attention_heatmap", {"weights": WEIGHTS * float("nan")}, "the matrix must be finite, got nan"),
        ("attention_heatmap", {"query_tokens": ["a"] * 300}, "would be .* inches, wanted at most 120"),
        ("draw_turns", {"names": ["one"]}, r"must be 1 pairs of numbers, got shape \(3, 2\)"),
        ("encoder_map", {"lesson": -1}, "lesson must be at least 0, got -1"),
        ("training_curves", {"steps": 1}, "steps must be at least those of the longest run, got 1"),
        ("data_flow", {"n_layers": 0}, "n_layers must be at least 1, got 0"),
    ],
)
def test_what_would_be_left_out_is_refused(name, changes, words):
    with pytest.raises((TypeError, ValueError), match=words):
        drawn(name, **changes)


@pytest.mark.parametrize(
    ("name", "first", "wrap"),
    [
        ("aimed_maps", "named", lambda m: {"$x$": m}),
        ("attention_heatmap", "weights", lambda m: m),
        ("head_atlas", "maps", lambda m: m.expand(2, 3, 3, 3)),
        ("head_grid", "maps", lambda m: [m]),
        ("head_values", "named", lambda m: {"a": m}),
        ("image_attention", "maps", lambda m: m[:2, :1, None].expand(2, 3, 4)),
        ("likeness_grid", "named", lambda m: {"a": m}),
        ("position_tables", "named", lambda m: {"a": m}),
        ("score_maps", "named", lambda m: {"a": m}),
        ("token_depth", "values", lambda m: m),
        ("wanted_maps", "named", lambda m: {"a": m}),
    ],
)
def test_no_number_is_drawn_as_the_end_of_its_scale(name, first, wrap):
    own = {"score_maps": {"limits": (0, 1)}, "head_values": {"limit": 1}}
    drawn(name, **{first: wrap(WEIGHTS + 2e-7)}, **own.get(name, {}))  # what rounding may do
    too_much = [] if name == "image_attention" else [WEIGHTS * 3]  # its scale ends at the largest number
    for off in [-WEIGHTS * 3, *too_much]:
        with pytest.raises(ValueError, match=r"on the scale from .* to .*, got .* to .*; widen"):
            drawn(name, **{first: wrap(off)}, **own.get(name, {}))


@pytest.mark.parametrize("limits", [(0, 0), (1, 0)])
@pytest.mark.parametrize(
    "name", ["activation_curves", "draw_matrix", "head_grid", "planes", "position_tables", "score_maps"]
)
def test_a_scale_without_length_is_refused(name, limits):
    given = [limits] if name == "head_grid" else limits
    with pytest.raises(ValueError, match="limits must be a lower and a larger upper number, got"):
        drawn(name, limits=given)


@pytest.mark.parametrize("name", ["draw_matrix", "head_values", "layer_maps", "neuron_map", "score_maps"])
def test_zeros_can_be_drawn(name):
    first = next(iter(GOOD[name]))
    zeros = {"named": {"a": WEIGHTS * 0}, "maps": [WEIGHTS * 0]}.get(first, WEIGHTS * 0)
    drawn(name, **{first: zeros})
