"""The drawing of two encoders of one name tells where x goes in each, and who adds."""

from itertools import pairwise

import pytest
from matplotlib.patches import Circle, FancyBboxPatch

from transformer_lab.course import figures
from transformer_lab.course.figures.publications import END, PAPER, ROAD, SIDE, TUTORIAL, X_COLOUR
from transformer_lab.course.figures.words import describe


def panels():
    return figures.two_blocks(title="one name").axes


def boxes(ax):
    """The words in each box, from left to right, and whether x runs through it."""
    texts = {tuple(round(each, 6) for each in text.get_position()): text.get_text() for text in ax.texts}
    found = []
    for patch in ax.patches:
        if isinstance(patch, FancyBboxPatch):
            box = patch.get_bbox()
            middle = round((box.x0 + box.x1) / 2, 6), round((box.y0 + box.y1) / 2, 6)
            found.append((middle[0], texts[middle].split("\n")[0], middle[1] == ROAD))
    return [(label, on_road) for _, label, on_road in sorted(found)]


def test_the_parts_stand_in_the_order_in_which_they_work():
    paper, tutorial = panels()
    assert boxes(paper) == [("attention", False), ("norm", True), ("feed-", False), ("norm", True)]
    assert boxes(tutorial) == [
        ("norm", False),
        ("attention", False),
        ("A ‖ x", True),
        ("feed-forward", True),
        ("W", True),
    ]


def test_only_the_paper_adds():
    paper, tutorial = panels()
    for ax, sums in ((paper, 2), (tutorial, 0)):
        assert sum(isinstance(patch, Circle) for patch in ax.patches) == sums
        assert [text.get_text() for text in ax.texts].count("+") == sums


@pytest.mark.parametrize(("plan", "ends"), [(PAPER, END), (TUTORIAL, 4.45)], ids=["paper", "tutorial"])
def test_x_runs_through_the_paper_s_layer_and_ends_where_the_other_joins(plan, ends):
    ax = panels()[(PAPER, TUTORIAL).index(plan)]
    thick = [
        text for text in ax.texts if getattr(text, "arrow_patch", None) and text.arrow_patch.get_lw() == 4
    ]
    (road,) = thick
    assert (road.xy, road.arrow_patch.get_edgecolor()[:3]) == (
        (ends, ROAD),
        pytest.approx(tuple(int(X_COLOUR[i : i + 2], 16) / 255 for i in (1, 3, 5))),
    )


@pytest.mark.parametrize("plan", [PAPER, TUTORIAL], ids=["paper", "tutorial"])
def test_every_line_turns_at_right_angles_between_the_two_heights(plan):
    for line in plan.lines:
        assert {height for _, height in line[:-1]} <= {ROAD, SIDE}
        for (left, low), (right, high) in pairwise(line):
            assert (left == right) != (low == high)
    boxed = [
        (place - width / 2, place + width / 2) for _, place, height, width, _ in plan.boxes if height == SIDE
    ]
    for left, right in boxed:
        assert any(line[0][0] < left and right < line[-1][0] for line in plan.lines)


def test_it_is_told_in_words():
    words = describe(figures.two_blocks(title="one name"))
    for part in ("one name", "attention", "A ‖ x", "W", PAPER.name, TUTORIAL.name):
        assert part in words
