"""Every figure draws all that it is given, as it stands, or says what it wants instead."""

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from matplotlib.text import Text

from transformer_lab.course import figures
from transformer_lab.course.figures.base import numbers_of
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
    "activation_curves": {"functions": {"$x$": torch.relu}, "title": ""},
    "aimed_maps": {"named": {"$x$": WEIGHTS}, "targets": {"$x$": [0, 2, 1]}, "labels": TOKENS, "title": ""},
    "attention_heatmap": {"weights": WEIGHTS, "query_tokens": TOKENS},
    "cache_steps": {"tokens": TOKENS, "title": ""},
    "catch_map": {"noticed": YES, "bugs": TOKENS, "tests": TOKENS},
    "cost_shares": {"parts": {"$x$": [1, 2]}, "lengths": [2, 4], "marks": {"$m$": 3}, "title": ""},
    "data_flow": {"n_layers": 3, "title": "$x$"},
    "depth_curves": {"named": {"$x$": [1, 2]}, "xlabel": "", "ylabel": "", "title": ""},
    "draw_clocks": {"angles": [1.0, 2.0, 3.0], "names": TOKENS},
    "draw_mask": {"matrix": YES, "tokens": TOKENS},
    "draw_matrix": {"matrix": WEIGHTS, "rows": TOKENS, "columns": TOKENS},
    "draw_memory": {"models": {"$x$": (2**30, 2**20)}, "tokens": 7, "room": 5, "limit": 11},
    "draw_turns": {"arrows": {"$x$": [[1.0, 0.0]] * 3}, "names": TOKENS},
    "encoder_map": {"lesson": 3},
    "error_curves": {"panels": {"$x$": {"$y$": [[1.0] * 20]}}, "title": ""},
    "head_atlas": {"maps": torch.rand(2, 3, 5, 5), "marked": {(0, 1): "$x$"}},
    "head_blocks": {"panels": {"$x$": PLACES}, "tokens": TOKENS, "d_model": 4, "n_heads": 2},
    "head_grid": {"maps": [WEIGHTS], "tokens": TOKENS, "titles": ["$x$"]},
    "head_scatter": {"named": {"$x$": (WEIGHTS, WEIGHTS)}, "ylabel": "", "marked": {(0, 1): "$x$"}},
    "head_values": {"named": {"$x$": WEIGHTS}, "marked": [(0, 1)]},
    "head_view": {"maps": torch.rand(2, 3, 3), "tokens": TOKENS, "layer": 0, "head": 1},
    "image_attention": {
        **{"images": torch.rand(2, 4, 4), "maps": torch.rand(2, 3, 4), "names": TOKENS},
        **{"patch": (2, 2), "title": "", "bar": ""},
    },
    "key_sharing": {"n_kv_heads": {"$x$": 2}, "n_heads": 4, "title": ""},
    "layer_maps": {
        **{"maps": [WEIGHTS], "rows": TOKENS, "columns": TOKENS, "titles": ["$x$"], "title": "", "bar": ""},
    },
    "likeness_grid": {"named": {"$x$": WEIGHTS}, "tokens": TOKENS},
    "lines": {"named": {"$x$": [1, 2], "b": [2, 1]}, "x": [1, 2], **LABELS, "logarithmic": "y"},
    "masks": {"named": {"$x$": YES}, "tokens": TOKENS},
    "matrices": {"named": {"$x$": WEIGHTS}, "rows": TOKENS, "columns": {"$x$": TOKENS}},
    "neuron_map": {"activations": WEIGHTS, "names": TOKENS, "tokens": TOKENS, "title": ""},
    "pairings": {"named": {"$x$": [[0, 1], [2, 3]]}},
    "parameter_bars": {"models": {"$x$": {"$y$": 1, "b": 2}}, "title": ""},
    "planes": {
        **{"functions": {"$x$": torch.mul}, "points": {"$p$": (0.0, 0.0)}},
        **{"xlabel": "", "ylabel": "", "title": "", "bar": ""},
    },
    "position_circles": {"named": {"$x$": torch.rand(5, 2)}, "title": ""},
    "position_curves": {"named": {"$x$": [1, 2], "b": [2, 1]}, "x": [1, 2], **LABELS},
    "position_tables": {"named": {"$x$": WEIGHTS}, "xlabel": "", "title": "", "bar": ""},
    "score_maps": {"named": {"$x$": WEIGHTS}, "title": ""},
    "seed_spread": {"named": {"$x$": [1.0, 2.0]}, "xlabel": "", "title": ""},
    "token_depth": {"values": WEIGHTS, "rows": TOKENS, "tokens": TOKENS, "title": "", "bar": ""},
    "training_curves": {"histories": {"$x$": HISTORY, "b": HISTORY}},
    "turns": {"panels": {"$x$": {"$y$": [[1.0, 0.0]]}}, "names": ["$z$"]},
    "wanted_maps": {"named": {"$x$": WEIGHTS}, "wanted": YES, "tokens": TOKENS, "title": ""},
    "word_strips": {"named": {"$x$": ([1.0], [2.0])}, "legend": ("$y$", "b"), "title": ""},
}  # fmt: skip
ALONE = {"norm_orders", "then_and_now", "two_blocks", "live_curve"}  # these are given nothing but a title
WIDGETS = {"explore", "explorer"}
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
    assert set(GOOD) | ALONE | WIDGETS == set(figures.__all__)


def is_power(text):
    return "10^" in text.get_text()


@every_figure
def test_a_dollar_is_a_dollar(name):
    figure = drawn(name)
    texts = [
        text
        for text in figure.findobj(Text)
        if "$" in text.get_text() and "mathdefault" not in text.get_text()
    ]
    assert (
        texts
        or name == "encoder_map"
        or name in ("head_values", "seed_spread", "draw_memory", "parameter_bars")
    )
    figure.canvas.draw()  # ticks are named while they are drawn
    texts = [
        text
        for text in figure.findobj(Text)
        if "$" in text.get_text() and "mathdefault" not in text.get_text()
    ]
    assert texts or name == "encoder_map"
    assert not any(text.get_parse_math() for text in texts)


def test_powers_on_a_logarithmic_axis_are_still_formulas():
    figure = figures.depth_curves({"a": [0.01, 100.0]}, xlabel="", ylabel="", title="", logarithmic=True)
    figure.canvas.draw()
    powers = [text for text in figure.findobj(Text) if is_power(text) and text.get_visible()]
    assert powers and all(text.get_parse_math() for text in powers)


@every_figure
@pytest.mark.parametrize("bad", [None, "text", 5.5, [], {}, [[]], {"a": None}, {"a": []}, {5: [1]}, object()])
def test_what_cannot_be_drawn_is_refused_in_words(name, bad):
    first = next(iter(GOOD[name]))
    with pytest.raises((TypeError, ValueError), match="got"):
        drawn(name, **{first: bad})
    if not name.startswith("draw_"):
        assert plt.get_fignums() == []  # nothing half drawn is shown


def curves(count, points=3):
    return {f"name {i}": [1.0 + i] * points for i in range(count)}


def looks(ax):
    return {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in ax.lines}


@pytest.mark.parametrize("count", [5, 9, 10])
def test_every_curve_is_drawn_and_told_from_the_others(count):
    drawings = [
        figures.depth_curves(curves(count), **LABELS),
        figures.lines([1, 2, 3], curves(count), **LABELS),
        figures.position_curves([1, 2, 3], curves(count), **LABELS),
        figures.error_curves({"task": {name: [run] for name, run in curves(count, 20).items()}}, title=""),
        figures.activation_curves(dict.fromkeys(curves(count), torch.tanh), title=""),
    ]
    for figure in drawings:
        (ax, *_) = figure.axes
        legend = ax.get_legend() or figure.legends[0]
        assert len(ax.lines) == len(looks(ax)) == len(legend.get_texts()) == count


def test_a_name_looks_the_same_in_every_panel():
    tasks = {"one": {"a": [[1.0] * 10], "b": [[2.0] * 10]}, "two": {"b": [[3.0] * 10]}}
    one, two = figures.error_curves(tasks, title="").axes
    assert one.lines[1].get_color() == two.lines[0].get_color()
    assert one.lines[1].get_linestyle() == two.lines[0].get_linestyle()


def test_no_error_is_above_or_below_the_panel():
    one, two = figures.error_curves(
        {"one": {"a": [[1.0] * 10]}, "two": {"a": [[-3.0] * 10 + [7.0] * 10]}}, title=""
    ).axes
    assert one.get_ylim() == two.get_ylim()
    assert one.get_ylim()[0] <= -3 and one.get_ylim()[1] >= 7


def test_no_score_is_outside_the_panel():
    history = History(
        loss=[0.5, -2.0], learning_rate=[0.1] * 2, gradient_norm=[0.2] * 2, scores={1: 0.5, 2: 3.0}
    )
    losses, scores = figures.training_curves({"a": history}).axes
    assert losses.get_ylim()[0] <= -2 and scores.get_ylim()[1] >= 3
    usual = figures.training_curves({"a": HISTORY}, chance=0.25).axes[1]
    assert usual.get_ylim() == (0, 1.03)


def test_the_last_steps_of_a_run_count():
    (ax,) = figures.error_curves({"task": {"a": [[1.0] * 10 + [2.0] * 10 + [5.0] * 3]}}, title="").axes
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [[10, 1], [20, 2], [23, 5]])
    (ax,) = figures.error_curves({"task": {"a": [[1.0, 3.0]]}}, title="").axes
    np.testing.assert_allclose(ax.lines[0].get_xydata(), [[2, 2]])


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("depth_curves", {"named": curves(41)}, "at most (20|40) lines, got 41"),
        ("training_curves", {"histories": {f"{i}": HISTORY for i in range(11)}}, "at most 10 runs, got 11"),
        ("parameter_bars", {"models": {"m": {f"{i}": 1 for i in range(5)}}}, "at most 4 parts, got 5"),
        (
            "parameter_bars",
            {"models": {"m": {"a": 1}, "n": {"b": 2}}},
            r"n has the parts \['b'\], wanted \['a'\]",
        ),
        ("parameter_bars", {"models": {"m": {"a": 0}}}, "nor all 0"),
        ("cost_shares", {"parts": {name: [1, 2] for name in "abcd"}}, "at most 3 parts, got 4"),
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
        ("encoder_map", {"lesson": 15}, "lesson must be from 0 to 14, got 15"),
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
        ("head_view", "maps", lambda m: torch.stack([m, WEIGHTS])),
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


EXPLORED = {"draw": lambda ax, value: None, "name": "v", "values": [1, 2, 3], "strip": [1, 3], "title": ""}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"draw": None}, "draw must be a function of axes and a value, got None"),
        ({"strip": []}, r"the strip must show some of the values, got \[\]"),
        ({"strip": [7]}, r"the strip must show some of the values, got \[7\]"),
        ({"values": None}, "values must be a list of numbers or names, got None"),
        ({"values": [1, 3, 3]}, r"values must differ, got \[1, 3, 3\]"),
        ({"values": [1, float("nan"), 3]}, "values must hold numbers or names, got nan"),
        ({"name": 3}, "name, title and bar must be a list of strings, got 3"),
        ({"bar": "weight"}, "got the colour bar 'weight', but draw shows no colours"),
        ({"values": [None]}, "values must hold numbers or names, got None"),
        ({"size": 3}, "size must be a width and a height in inches, got 3"),
    ],
)
def test_the_slider_refuses_in_words(changes, words):
    with pytest.raises((TypeError, ValueError), match=words):
        figures.explore(**(EXPLORED | changes))


@pytest.mark.parametrize(
    "values",
    [None, "1.5", ["1.5"], [1, None], [[1], [2, 3]], torch.tensor([1j]), {"a": 1}, object()],
)
def test_what_is_no_number_is_refused(values):
    with pytest.raises(TypeError, match="the values must be real numbers, got"):
        numbers_of(values)


def test_numbers_come_from_everything_that_holds_them():
    given = [[1, 2], (1.0, 2.0), np.array([1, 2]), torch.tensor([1.0, 2.0], requires_grad=True), range(1, 3)]
    given += [torch.tensor([1, 2]).bfloat16(), [torch.tensor(1.0), np.float32(2)]]
    for values in given:
        assert numbers_of(values, 1).tolist() == [1.0, 2.0]
