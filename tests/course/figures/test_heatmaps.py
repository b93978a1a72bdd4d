"""Maps show every number in its place, on the scale that they name, in colours on which it can be read."""

import numpy as np
import pytest
import torch
from matplotlib import colors
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from tests.course.figures.colours import contrast
from transformer_course import figures
from transformer_course.figures.layout import cell_texts

TOKENS = ["the", "old", "cat"]
MAPS = torch.rand(4, 3, 3, generator=torch.Generator().manual_seed(3)).softmax(-1)
NAMED = {f"map {i}": each for i, each in enumerate(MAPS)}


def values(figure):
    """The numbers of every map, panel by panel."""
    meshes = [ax.collections[0] for ax in figure.axes if ax.axison and not hasattr(ax, "_colorbar")]
    return [
        np.asarray(mesh.get_array()).reshape([n - 1 for n in mesh.get_coordinates().shape[:2]])
        for mesh in meshes
    ]


def ticks(axis):
    """The labels, also of a panel that leaves them to its neighbour."""
    return axis.get_major_formatter().format_ticks(axis.get_majorticklocs())


def frames(ax):
    """Row and column of every framed cell: white, with a dark edge around it."""
    assert {colors.to_hex(patch.get_edgecolor()) for patch in ax.patches} <= {"#ffffff"}
    assert all(patch.get_path_effects() for patch in ax.patches)
    return [(int(frame.get_y()), int(frame.get_x())) for frame in ax.patches]


LAID = {
    "head_grid": lambda: figures.head_grid(list(MAPS), TOKENS, list(NAMED)),
    "likeness_grid": lambda: figures.cosine_heatmaps(NAMED, TOKENS),
    "matrices": lambda: figures.matrices(NAMED, TOKENS, TOKENS, limits=(0, 1)),
}


@pytest.mark.parametrize("name", LAID)
def test_maps_side_by_side_are_drawn_as_given_and_panels_without_a_map_are_blank(name):
    figure = LAID[name]()
    np.testing.assert_array_equal(values(figure), MAPS)
    drawn = [ax for ax in figure.axes if ax.axison and not hasattr(ax, "_colorbar")]
    assert [ax.get_title() for ax in drawn] == list(NAMED)
    assert all(ticks(ax.xaxis) == ticks(ax.yaxis) == TOKENS and ax.yaxis_inverted() for ax in drawn)
    at_left = {ax.get_subplotspec().is_first_col() for ax in drawn if ax.yaxis.get_tick_params()["labelleft"]}
    assert name == "matrices" or at_left == {True}  # tokens stand once for all panels that share them


def test_a_hidden_cell_is_hatched_and_has_no_number():
    figure, ax = plt.subplots()
    figures.draw_matrix(ax, MAPS[0], TOKENS, TOKENS, hidden=torch.eye(3).bool())
    assert [(patch.get_y(), patch.get_x()) for patch in ax.patches if patch.get_hatch()] == [
        (0, 0), (1, 1), (2, 2)
    ]  # fmt: skip
    assert [text.get_text() for text in ax.texts][::4] == [""] * 3
    plt.close(figure)
    (one, two), mask = MAPS[:2], torch.tril(torch.ones(3, 3)) == 0
    figure = figures.head_grid([one, two], TOKENS, ["a", "b"], per_panel=[{}, {"hidden": mask}])
    assert [len(ax.patches) for ax in figure.axes[:2]] == [0, 3]


def limits(figure, count=2):
    return [pytest.approx(ax.collections[0].get_clim()) for ax in figure.axes[:count]]


def test_maps_share_a_scale_unless_each_has_its_own():
    per_panel = figures.head_grid(list(MAPS[:2]), TOKENS, ["a", "b"], per_panel=[{}, {"limits": (-1, 2)}])
    assert limits(per_panel) == [(0, 1), (-1, 2)]
    alike = figures.cosine_heatmaps({"a": MAPS[0], "b": MAPS[1] - 0.5}, TOKENS)
    assert limits(alike) == [(-1, 1)] * 2  # every cosine


def test_of_likenesses_the_nearest_may_be_framed_above_numbers_for_names():
    likeness = [[1, 0.2, 0.5], [0.2, 1, -0.3], [0.5, -0.3, 1]]
    (ax, *_) = figures.cosine_heatmaps({"": likeness}, TOKENS, nearest=True).axes
    across, down = ([label.get_text() for label in axis.get_ticklabels()] for axis in (ax.xaxis, ax.yaxis))
    assert (across, down[0]) == (["1", "2", "3"], f"1  {TOKENS[0]}")
    boxed = [(int(frame.get_y()), int(frame.get_x())) for frame in ax.patches]
    assert boxed == [(0, 2), (1, 0), (2, 0)]
    drawn = np.ma.filled(ax.collections[0].get_array(), np.nan)
    assert np.isfinite(drawn).tolist() == (~np.eye(3, dtype=bool)).tolist()


@pytest.mark.parametrize("colours", ["viridis", "RdBu_r"])
def test_numbers_contrast_with_their_cells(colours):
    figure, ax = plt.subplots()
    labels = [str(i) for i in range(12)]
    figures.draw_matrix(ax, torch.linspace(0.01, 1, 144).reshape(12, 12), labels, labels, colours=colours)
    cells = ax.collections[0].get_facecolors()
    assert len(ax.texts) == 144
    assert min(contrast(text.get_color(), cell) for text, cell in zip(ax.texts, cells, strict=True)) >= 4.5
    plt.close(figure)


WRITTEN = {0.666: ".67", 0.2: ".20", -0.5: "−.50", 0.996: "1.00", 4: "4.00", 9.1: "9.10", -10.5: "−10.50"}
NEARLY_NOTHING = {0: ".00", 0.004: ".00", -0.004: ".00"}


def test_cells_are_written_like_the_prose_and_all_of_a_matrix_alike():
    numbers = WRITTEN | NEARLY_NOTHING
    assert cell_texts(np.array([list(numbers)])).tolist() == [list(numbers.values())]
    assert cell_texts(np.array([[0.0, 4.0], [-2.0, 10.0]])).tolist() == [["0", "4"], ["-2", "10"]]


def test_matrices_have_signs_between_them_and_frames_around_rows():
    named, labels = {"a": [[1.0, 2], [3, 4]], "b": [[5.0, 6], [7, 8]]}, ["0", "1"]
    first, second = figures.matrices(named, labels, labels, limits=(0, 8), signs="=", boxed=[1]).axes
    assert ["=" in [text.get_text() for text in ax.texts] for ax in (first, second)] == [False, True]
    for ax in first, second:
        (frame,) = ax.patches
        assert (frame.get_xy(), frame.get_width(), frame.get_height()) == ((0, 1), 2, 1)


def test_small_weights_may_go_without_their_number():
    ax = figures.attention_heatmap([[0.96, 0.04], [0.5, 0.5]], ["a", "b"], least=0.05).axes[0]
    assert [text.get_text() for text in ax.texts] == [".96", "", ".50", ".50"]


def test_matrices_of_one_scale_are_written_alike_and_frames_may_have_names():
    half, whole = [[0.5, 1]], [[0.0, 1]]
    ax = figures.matrices({"a": half, "b": whole}, ["a"], ["b", "c"], limits=(0, 1)).axes[1]
    assert [text.get_text() for text in ax.texts] == [".00", "1.00"]
    style = {"boxed": [{(0, 1): "2 sum"}], "queries": ["q"]}
    ax = figures.head_grid([whole], ["k", "l"], [""], **style).axes[0]
    told = [text.get_text() for text in ax.texts]
    assert told == ["", "1", "2", "sum"] and frames(ax) == [(0, 1)]  # the number in the frame, then its name
    tall = figures.head_grid([[[0.5, 0], [0.25, 0]]], ["k", "l"], [""], boxed=[{(0, 0, 1, 2): ""}]).axes[0]
    assert [text.get_text() for text in tall.texts if text.get_text()] == [".50", ".25"]  # down the column


def test_words_may_stand_in_cells_but_for_hidden_ones():
    ax = Figure().subplots()
    style = {"numbers": [["a", "", "b"]], "hidden": [[0, 0, 1]]}
    figures.draw_matrix(ax, [[1, 2, 3]], ["r"], ["k", "l", "m"], **style)
    assert [text.get_text() for text in ax.texts] == ["a", "", ""]
