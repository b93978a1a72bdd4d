"""Figures of speed: each shows the numbers it is given, and no name covers another."""

import pytest
from matplotlib.text import Annotation

from transformer_course import figures


def test_the_roof_rises_with_the_bandwidth_and_ends_at_the_speed():
    figure = figures.roofline(100e9, 20e9, {"a part": (2.0, 30e9)}, title="")
    roof, ridge = figure.axes[0].lines
    for x, y in zip(*roof.get_data(), strict=True):
        assert y == pytest.approx(min(100, 20 * x))
    assert 5 in roof.get_xdata() and list(ridge.get_xdata()) == [5, 5]
    assert figure.axes[0].collections[0].get_offsets().tolist() == [[2.0, 30.0]]


def test_names_on_the_roofline_cover_neither_each_other_nor_a_point():
    rates = {"norm, residual": (0.4, 9e9), "GELU": (0.62, 9.9e9), "softmax": (0.62, 9.4e9)}
    rates |= {"scores": (25.6, 76e9), "mixing": (25.6, 78e9), "projections": (171, 93e9)}
    figure = figures.roofline(95e9, 36e9, rates | {"feed-forward maps": (171, 97e9)}, title="")
    figure.canvas.draw()
    ax = figure.axes[0]
    boxes = [text.get_window_extent() for text in ax.texts if isinstance(text, Annotation)]
    points = ax.transData.transform(ax.collections[0].get_offsets())
    assert len(boxes) == 7
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])
        assert not any(box.contains(*point) for point in points)


def test_bars_have_their_numbers_written():
    figure = figures.bars({"time": {"a": 0.123, "b": 45.6}}, xlabel="", title="")
    assert {text.get_text() for text in figure.axes[0].texts} == {".12", "46"}
