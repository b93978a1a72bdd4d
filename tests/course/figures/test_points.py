"""Points and bars stand where their numbers are, and no name hides a point."""

import numpy as np
import pytest
import torch
from matplotlib import colors
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from transformer_course import figures
from transformer_course.figures.points import GIB

SCORES, OTHER = torch.rand(2, 2, 5, generator=torch.Generator().manual_seed(9)) + 0.1


def test_each_seed_is_a_dot_and_the_stroke_is_their_mean():
    ax = figures.seed_spread({"a": [0.1, 0.1, 0.4], "b": [0.9]}, xlabel="", title="").axes[0]
    dots = [points.get_offsets().tolist() for points in ax.collections]
    assert [[x for x, _ in band] for band in dots] == [[0.1, 0.1, 0.4], [0.9]]
    assert [round(y) for band in dots for _, y in band] == [0, 0, 0, 1]
    assert dots[0][0][1] < dots[0][1][1]  # equal seeds do not hide each other
    assert [line.get_xdata()[0] for line in ax.lines] == pytest.approx([0.2, 0.9])


def test_every_head_is_a_point_and_some_are_named():
    named = {"score": (SCORES, OTHER), "other": (OTHER, OTHER)}
    figure = figures.head_scatter(named, ylabel="damage", marked={(1, 3): "a name"})
    for ax, across in zip(figure.axes, (SCORES, OTHER), strict=True):
        points = np.concatenate([layer.get_offsets() for layer in ax.collections])
        np.testing.assert_allclose(points.T, [across.flatten(), OTHER.flatten()])
        assert ax.get_yscale() == "log"
        (name,) = ax.texts
        assert (name.get_text(), name.xy) == ("a name", (across[1, 3].item(), OTHER[1, 3].item()))


def test_the_names_in_a_scatter_hide_no_head_and_no_other_name():
    random = torch.rand(2, 6, 12, generator=torch.Generator().manual_seed(11)) + 0.01
    across, up = random[0], random[0] * (1 + random[1])  # a cloud along the diagonal
    marked = {(0, 2): "previous", (1, 8): "next", (2, 9): "same word"}
    figure = figures.head_scatter({"one": (across, up)}, ylabel="damage", marked=marked)
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    (ax,) = figure.axes
    boxes = [Text.get_window_extent(text, renderer) for text in ax.texts]  # without the line to the point
    heads = ax.transData.transform(torch.stack([across.flatten(), up.flatten()], dim=1).numpy())
    for number, box in enumerate(boxes):
        assert not any(box.contains(*head) for head in heads)
        assert not any(box.overlaps(other) for other in boxes[:number])
        assert ax.get_window_extent().containsx(box.x0) and ax.get_window_extent().containsx(box.x1)


@pytest.mark.parametrize("heads", [(1, 1), (1, 2)])
def test_names_in_a_scatter_without_room_are_written_all_the_same(heads):
    alike = torch.ones(heads)
    (ax,) = figures.head_scatter({"one": (alike, alike)}, ylabel="", marked={(0, 0): "a" * 90}).axes
    assert len(ax.texts) == 1


def test_bars_are_shares_that_follow_one_another_and_can_be_read():
    models = {"one": {"table": 2, "network": 6, "norms": 0}, "two": {"table": 5, "network": 90, "norms": 5}}
    ax = figures.parameter_bars(models, title="").axes[0]
    lengths, starts = ([[get(bar) for bar in group] for group in ax.containers] for get in (
        lambda bar: bar.get_width(), lambda bar: bar.get_x()))  # fmt: skip
    np.testing.assert_allclose(lengths, [[0.25, 0.05], [0.75, 0.9], [0, 0.05]])
    np.testing.assert_allclose(starts, [[0, 0], [0.25, 0.05], [1, 0.95]])
    assert [text.get_text() for text in ax.texts] == ["25%", "5%", "75%", "90%", "", "5%"]
    for group in ax.containers:
        red, green, blue = colors.to_rgb(group[0].get_facecolor())
        assert 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5  # black text on a pale bar


def test_memory_is_told_in_gib_with_the_cache_behind_the_weights():
    figure, ax = plt.subplots()
    figures.draw_memory(ax, {"small": (GIB, 1024), "large": (4 * GIB, 2048)}, 2**20, room=3, limit=10)
    weights, cache = ax.containers
    assert [bar.get_width() for bar in weights] == [1, 4]
    assert [(bar.get_x(), bar.get_width()) for bar in cache] == [(1, 1), (4, 2)]
    assert ax.lines[0].get_xdata()[0] == 3
    plt.close(figure)
