"""No name hides a point."""

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from transformer_course import figures


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


def test_a_circle_has_the_mean_radius_of_its_points():
    points = [[3.0, 4.0], [0.0, 15.0]]
    ax = figures.position_circles({"a": points}, title="").axes[0]
    assert ax.patches[0].get_radius() == 10
    assert ax.get_title() == "a\nradius 10.00, varies by 50%"
