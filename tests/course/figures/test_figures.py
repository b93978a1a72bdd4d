"""The figures show what they were given: numbers, labels, colours that can be read."""

import io
import sys

import ipywidgets
import numpy as np
import pytest
import torch
from matplotlib import colors
from matplotlib import pyplot as plt

from transformer_lab.course import figures
from transformer_lab.course.figures.encoder_map import MAP
from transformer_lab.course.figures.heatmaps import _cell_text

explore_module = sys.modules[
    "transformer_lab.course.figures.explore"
]  # the package gives the function that name

QUERIES, KEYS = ["the", "old", "cat"], ["[CLS]", "the", "old", "cat", "."]


def weights(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3)).softmax(-1)


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def contrast(first, second):
    """WCAG 2.1's contrast ratio of two colours, written from its definition."""

    def luminance(colour):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colors.to_rgb(colour)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def test_attention_heatmap_puts_queries_down_and_keys_across():
    given = weights(3, 5)
    ax = figures.attention_heatmap(given, QUERIES, KEYS, title="who looks at whom").axes[0]
    mesh = ax.collections[0]
    assert (ticks(ax.yaxis), ticks(ax.xaxis)) == (QUERIES, KEYS)
    assert "query" in ax.get_ylabel() and "key" in ax.get_xlabel()
    np.testing.assert_allclose(mesh.get_array().reshape(3, 5), given.numpy())
    assert mesh.get_clim() == (0, 1)
    assert ax.yaxis_inverted()  # the first query is on top, as in the matrix


def test_one_list_of_tokens_serves_both_axes():
    ax = figures.attention_heatmap(weights(3, 3), QUERIES).axes[0]
    assert ticks(ax.yaxis) == ticks(ax.xaxis) == QUERIES


def test_refuses_labels_that_do_not_fit():
    with pytest.raises(ValueError, match=r"shape \(2, 3, 5\).*\(3, 5\); pick one head"):
        figures.attention_heatmap(weights(2, 3, 5), QUERIES, KEYS)


@pytest.mark.parametrize("colours", ["viridis", "RdBu_r"])
def test_numbers_contrast_with_their_cells(colours):
    figure, ax = plt.subplots()
    labels = [str(i) for i in range(12)]
    figures.draw_matrix(ax, torch.linspace(0.01, 1, 144).reshape(12, 12), labels, labels, colours=colours)
    cells = ax.collections[0].get_facecolors()
    assert len(ax.texts) == 144
    assert min(contrast(text.get_color(), cell) for text, cell in zip(ax.texts, cells, strict=True)) >= 4.5
    plt.close(figure)


WRITTEN = {
    0.666: ".67",
    0.2: ".20",
    -0.5: "−.50",
    0.996: "1",
    4: "4",
    9.1: "9.10",
    10.5: "10.50",
    -10.5: "−10.50",
}
NEARLY_NOTHING = {0: "0", 0.004: "", -0.004: ""}


@pytest.mark.parametrize(("value", "text"), (WRITTEN | NEARLY_NOTHING).items())
def test_cells_are_written_like_the_prose(value, text):
    assert _cell_text(value) == text


def test_large_heatmaps_have_no_numbers():
    labels = [str(i) for i in range(13)]
    assert not figures.attention_heatmap(weights(13, 13), labels).axes[0].texts


def test_matrices_diverge_only_if_signed():
    signed, positive = torch.tensor([[-2.0, 1.0]]), torch.tensor([[0.0, 3.0]])
    one, two = figures.matrices({"signed": signed, "positive": positive}).axes
    assert (one.collections[0].get_cmap().name, one.collections[0].get_clim()) == ("RdBu_r", (-2, 2))
    assert (two.collections[0].get_cmap().name, two.collections[0].get_clim()) == ("viridis", (0, 3))


def test_head_grid_shares_one_scale_and_hides_empty_panels():
    figure = figures.head_grid(list(weights(4, 3, 3)), QUERIES, ["a", "b", "c", "d"], columns=3)
    drawn = [ax for ax in figure.axes if ax.collections and ax.get_title()]
    assert [ax.get_title() for ax in drawn] == ["a", "b", "c", "d"]
    assert {ax.collections[0].get_clim() for ax in drawn} == {(0, 1)}
    assert sum(not ax.axison for ax in figure.axes) == 2


def test_lines_are_drawn_as_given():
    ax = figures.lines([1, 4], {"a": [3, 5], "b": [2, 7]}, xlabel="x", ylabel="y", logarithmic="xy").axes[0]
    assert [line.get_xydata().tolist() for line in ax.lines] == [[[1, 3], [4, 5]], [[1, 2], [4, 7]]]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ticks(ax.xaxis) == ["1", "4"]


@pytest.mark.parametrize("lesson", sorted({number for number, *_ in MAP if number}))
def test_the_map_lights_the_parts_of_its_lesson(lesson):
    figure = figures.encoder_map(lesson)
    lit = [colors.to_hex(box.get_facecolor()) == "#ffc425" for box in figure.axes[0].patches]
    assert lit == [number == lesson for number, *_ in MAP]
    assert f"Lesson {lesson:02d}" in figure.axes[0].get_title()


def test_the_map_of_lesson_00_lights_nothing():
    boxes = figures.encoder_map().axes[0].patches
    assert all(colors.to_hex(box.get_facecolor()) != "#ffc425" for box in boxes)


def test_no_text_of_the_map_leaves_its_box():
    figure = figures.encoder_map(3)
    figure.savefig(io.BytesIO())  # lays the figure out
    ax = figure.axes[0]
    labels = [text for text in ax.texts if text.get_text()]
    for text, (_, label, left, bottom, width, height) in zip(labels, MAP, strict=True):
        extent = text.get_window_extent().transformed(ax.transData.inverted())
        assert left <= extent.x0 and extent.x1 <= left + width, label
        assert bottom <= extent.y0 and extent.y1 <= bottom + height, label


def test_figures_are_closed_so_that_a_notebook_shows_them_once():
    plt.close("all")
    figures.attention_heatmap(weights(3, 3), QUERIES)
    figures.encoder_map()
    assert plt.get_fignums() == []


@pytest.fixture
def shown(monkeypatch):
    """What `explore` publishes, the box of widgets that it shows, and the values drawn so far."""
    published, boxes, drawn = [], [], []
    monkeypatch.setattr(explore_module, "publish_display_data", lambda *bundle: published.append(bundle))
    make_box = ipywidgets.VBox
    monkeypatch.setattr(ipywidgets, "VBox", lambda *parts: boxes.append(make_box(*parts)) or boxes[-1])
    draw = lambda ax, value: drawn.append(value) or ax.plot([0, value])  # noqa: E731
    figures.explore(draw, "angle", [1, 2, 3], strip=[1, 3], title="It turns")
    return published, boxes[0], drawn


def test_explore_shows_a_strip_where_no_kernel_runs(shown):
    ((live,), (data, metadata)), _, drawn = shown
    assert "application/vnd.jupyter.widget-view+json" in live and "image/png" not in live
    assert {"image/png", "text/plain"} <= set(data)
    assert "angle = 1" in data["text/plain"] and "angle = 3" in data["text/plain"]
    assert "It turns" in metadata["image/png"]["alt"]
    assert drawn == [1, 3, 1]  # the strip, then the slider's first picture


def test_moving_the_slider_redraws(shown):
    _, box, drawn = shown
    slider, picture, *_ = box.children
    before = picture.value
    slider.value = 2
    assert drawn[-1] == 2
    assert picture.value != before
    assert "angle = 2" in picture.value and "<img alt=" in picture.value
