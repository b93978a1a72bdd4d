"""Every part is a point where its numbers are, and no name hides one."""

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Annotation, Text

from transformer_course import figures
from transformer_course.figures.colours import GREY, HERO


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
    names = [text for text in ax.texts if isinstance(text, Annotation)]
    boxes = [Text.get_window_extent(text) for text in names]  # without the line to the point
    points = ax.transData.transform(ax.collections[0].get_offsets())
    assert len(boxes) == 7
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])
        assert not any(box.contains(*point) for point in points)


def test_searches_name_what_is_furthest():
    answers = {"a": 0, "b": 1}
    (ax,) = figures.search_results(
        [[0.5, 0.2, 0.7], [0.1, 0.9, 0.3]], answers, ["x", "y", "z"], title=""
    ).axes
    assert ax.get_legend() is None and len(ax.figure.legends) == 1  # below the panel, once
    *strips, wrong = (each.get_offsets().tolist() for each in ax.collections)
    assert strips == [
        [[0.2, 0], [0.7, 0]],
        [[0.1, 1], [0.3, 1]],
        [[0.5, 0]],
        [[0.9, 1]],
    ]  # others, then right
    assert wrong == [[0.7, 0]]  # where the row's furthest is
    written = {text.get_text().strip(): text.get_color() for text in ax.texts}
    assert written[".70  z ✗"] == HERO and written[".90  y ✓"] == "black" and "should be: .50  x" in written


def test_means_of_real_tokens_and_of_all_have_their_cosines():
    texts = {"A": ([[3, 0], [3, 8]], [[0, -9]]), "C": ([[5, -1], [3, -1], [4, -1]], [])}
    figure = figures.mean_pooling(texts, title="")
    told = [ax.get_xlabel().rpartition("cosine: ")[2] for ax in figure.axes]
    assert told == ["A and C .39", "A and C 1.00"]
    lines = [[line for line in ax.lines if len(line.get_xdata()) == 2] for ax in figure.axes]
    ends = [{tuple(line.get_xydata()[-1]) for line in of_panel} for of_panel in lines]
    assert {(3, 4), (4, -1)} <= ends[0] and {(2, -1 / 3), (4, -1)} <= ends[1]
    squares = [
        [each for each in ax.lines if each.get_marker() == "s" and len(each.get_xdata())]
        for ax in figure.axes
    ]
    assert [each.get_markerfacecolor() for (each,) in squares] == ["white", GREY]  # left out, counted


def test_vectors_seen_from_another_keep_their_length_and_their_angle_to_it():
    asked, vectors = (
        torch.tensor([0.0, 2.0, 0.0]),
        torch.tensor([[3.0, 0, 4], [0, 3, 0], [0, 3, 0], [0, -1, 0]]),
    )
    names = ["square", "along", "the same", ""]
    figure = figures.seen_from_reference(
        {"p": (asked, vectors)}, names, reference="one", number="cosine", length="", title=""
    )
    (ax,) = figure.axes
    tips = {text.xy: text.arrow_patch.get_linewidth() for text in ax.texts if text.arrow_patch}
    assert set(tips) == {(0, 10), (6, 0), (-2, 0)}  # across: the dot product; each 2 times as long as it is
    assert tips[-2, 0] < tips[6, 0] == tips[0, 10]  # who has no name is thin
    assert {text.get_text() for text in ax.texts} == {"", "square: .00", "along: 6.00", "the same: 6.00"}
