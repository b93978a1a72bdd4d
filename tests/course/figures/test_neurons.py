"""The figures about neurons show the functions, activations and counts that they were given."""

import numpy as np
import pytest
import torch
from matplotlib import colors

from transformer_lab.course import figures
from transformer_lab.course.figures.neurons import OTHERS, OWN


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def lines_of(ax):
    return {line.get_label(): line.get_xydata().T for line in ax.lines}


def test_activation_curves_draw_each_function_beside_its_slope():
    figure = figures.activation_curves({"square": torch.square, "ReLU": torch.relu}, title="bends")
    values, slopes = map(lines_of, figure.axes)
    x, y = values["square"]
    np.testing.assert_allclose(y, x**2)
    np.testing.assert_allclose(slopes["square"][1], 2 * x)
    np.testing.assert_allclose(slopes["ReLU"][1], (x > 0).astype(float))
    assert figure.get_suptitle() == "bends"


def test_activation_curves_ask_for_no_gradient_of_a_modules_parameters():
    bend = torch.nn.PReLU(init=0.25).double()
    figures.activation_curves({"PReLU": bend}, title="")
    assert bend.weight.grad is None


def test_planes_share_one_signed_scale():
    figure = figures.planes(
        {"sum": lambda x, y: x + y, "first": lambda x, y: 4 * x},
        xlabel="across",
        ylabel="up",
        title="two",
        bar="value",
        limits=(-1, 1),
        points={"here": (0.5, -0.5)},
    )
    first, second = figure.axes[:2]
    for ax in (first, second):
        (image,) = ax.images
        assert image.get_clim() == (-4, 4)
        assert image.get_cmap().name == "RdBu_r"
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("across", "up")
        assert [text.get_text() for text in ax.texts] == ["here"]
        assert [line.get_xydata().tolist() for line in ax.lines] == [[[0.5, -0.5]]]
    values = first.images[0].get_array()
    # Rows go up and columns across, as the axes say.
    np.testing.assert_allclose([values[0, 0], values[-1, 0], values[-1, -1]], [-2, 0, 2], atol=1e-12)
    assert second.images[0].get_array()[0, -1] == pytest.approx(4)
    assert first.images[0].origin == "lower"


def test_the_scale_of_planes_can_be_told():
    steep = {"steep": lambda x, y: 10 * x}
    figure = figures.planes(steep, xlabel="", ylabel="", title="", bar="", reach=1.5)
    assert figure.axes[0].images[0].get_clim() == (-1.5, 1.5)


def test_planes_take_a_function_that_is_the_same_everywhere():
    flat = {"flat": lambda x, y: torch.tensor(0.5)}
    figure = figures.planes(flat, xlabel="", ylabel="", title="", bar="")
    assert np.unique(figure.axes[0].images[0].get_array()).tolist() == [0.5]


def test_strips_put_each_kind_on_a_line_of_its_own():
    named = {"days": ([2.0, 3.0], [0.5]), "months": (torch.tensor([1.0]), [0.1, 0.2])}
    ax = figures.word_strips(named, legend=("its own", "others"), title="apart").axes[0]
    drawn = {points.get_label(): points for points in ax.collections}
    assert drawn["its own"].get_offsets().tolist() == [[2, 0], [3, 0], [1, 1]]
    assert drawn["others"].get_offsets().tolist() == [[0.5, 0], [0.1, 1], [0.2, 1]]
    assert colors.to_hex(drawn["its own"].get_facecolor()[0]) == OWN
    assert colors.to_hex(drawn["others"].get_facecolor()[0]) == OTHERS
    assert ticks(ax.yaxis) == ["days", "months"]
    assert ax.yaxis_inverted()  # the first kind is on top


def test_a_neuron_map_has_neurons_down_and_tokens_across_and_nothing_below_zero():
    figure = figures.neuron_map([[1.0, -0.1, 2.0], [0.0, 3.0, -0.2]], ["a", "b"], ["x", "y", "z"], title="t")
    ax = figure.axes[0]
    mesh = ax.collections[0]
    np.testing.assert_allclose(mesh.get_array().reshape(2, 3), [[1, 0, 2], [0, 3, 0]])
    assert (ticks(ax.yaxis), ticks(ax.xaxis)) == (["a", "b"], ["x", "y", "z"])
    assert mesh.get_clim() == (0, 3)
    assert mesh.get_cmap().name == "viridis"
    assert not ax.texts


def test_parameter_bars_are_shares_that_follow_one_another():
    models = {"one": {"table": 2, "network": 6, "norms": 0}, "two": {"table": 5, "network": 90, "norms": 5}}
    ax = figures.parameter_bars(models, title="where").axes[0]
    shares = {group.get_label(): [bar.get_width() for bar in group] for group in ax.containers}
    assert shares == {
        "table": pytest.approx([0.25, 0.05]),
        "network": pytest.approx([0.75, 0.9]),
        "norms": pytest.approx([0, 0.05]),
    }
    starts = [[bar.get_x() for bar in group] for group in ax.containers]
    assert starts == [pytest.approx([0, 0]), pytest.approx([0.25, 0.05]), pytest.approx([1, 0.95])]
    assert [text.get_text() for text in ax.texts] == ["25%", "5%", "75%", "90%", "", "5%"]
    assert ticks(ax.yaxis) == ["one", "two"]


def test_numbers_on_the_bars_can_be_read():
    models = {"one": {"a": 1, "b": 1, "c": 1, "d": 0}}
    ax = figures.parameter_bars(models, title="").axes[0]
    written = [group for group in ax.containers if group[0].get_width() > 0]
    for group in written:
        red, green, blue = colors.to_rgb(group[0].get_facecolor())
        assert 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5  # black text on a pale bar
