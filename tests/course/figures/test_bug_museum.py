"""The five kinds of tests show what the bug gives."""

import torch

from transformer_course import figures
from transformer_course.figures.layout import two_decimals


def given_out(ax, x):
    """What stands in the lowest box of a run, row by row."""
    places = [(text.get_position(), text.get_text()) for text in ax.texts]
    return [word for (across, up), word in places if abs(across - x) < 0.45 and -0.28 < up < 0.28 and word]


def test_what_the_five_tests_are_shown_is_what_the_bug_gives():
    scores = torch.tensor([[1.0, 3], [2, 1]]).log()  # of lesson 14, by hand
    changed = torch.tensor([[3.0, 1], [2, 1]]).log()
    _, loop, promise, _, nudge = figures.kinds_of_tests(title="").axes
    for ax, table, x in (
        (loop, scores.softmax(0), 0),
        (loop, scores.softmax(1), 1),
        (nudge, changed.softmax(0), 1),
    ):
        assert [two_decimals(number) for number in table.flatten().tolist()] == given_out(ax, x)
    rows = ["+".join(map(two_decimals, row)) + " =" for row in scores.softmax(0).tolist()]
    first, second = map(two_decimals, scores.softmax(0).sum(1).tolist())
    assert given_out(promise, 0) == [rows[0], first, rows[1], second]
    assert not torch.allclose(scores.softmax(0)[1], changed.softmax(0)[1])  # row 1 moves with row 0
