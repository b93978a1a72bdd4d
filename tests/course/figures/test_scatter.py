"""Every mark is where its numbers are, and no name hides one."""

import pytest
import torch
from matplotlib.text import Text

from tests.course.figures.drawn import words
from transformer_course import figures


def test_the_names_in_a_scatter_hide_no_head_and_no_other_name():
    random = torch.rand(2, 6, 12, generator=torch.Generator().manual_seed(11)) + 0.01
    across, up = random[0], random[0] * (1 + random[1])  # a cloud along the diagonal
    marked = {(0, 2): "previous", (1, 8): "next", (2, 9): "same word"}
    figure = figures.head_scatter({"one": (across, up)}, ylabel="damage", marked=marked)
    figure.canvas.draw()
    (ax,) = figure.axes
    boxes = [Text.get_window_extent(text) for text in ax.texts]  # without the line to the point
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


def test_the_roof_rises_with_the_bandwidth_and_ends_at_the_speed():
    (ax,) = figures.roofline(100e9, 20e9, {"a part": (2.0, 30e9)}, title="").axes
    roof, ridge = ax.lines
    assert roof.get_ydata() == pytest.approx([min(100, 20 * x) for x in roof.get_xdata()])
    assert 5 in roof.get_xdata() and list(ridge.get_xdata()) == [5, 5]
    assert ax.collections[0].get_offsets().tolist() == [[2.0, 30.0]]


def test_searches_name_what_is_furthest():
    cosines, answers = [[0.5, 0.2, 0.7], [0.1, 0.9, 0.3]], {"a": 0, "b": 1}
    (ax,) = figures.search_results(cosines, answers, ["x", "y", "z"], title="").axes
    *strips, wrong = (each.get_offsets().tolist() for each in ax.collections)
    others, right = [[[0.2, 0], [0.7, 0]], [[0.1, 1], [0.3, 1]]], [[[0.5, 0]], [[0.9, 1]]]
    assert strips == others + right
    assert wrong == [[0.7, 0]]  # where the row's furthest is
    assert {"0.70  z ✗", "0.90  y ✓", "should be: 0.50  x"} <= {word.strip() for word in words(ax)}
