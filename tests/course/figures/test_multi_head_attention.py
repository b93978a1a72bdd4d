"""Two heads choose each for itself."""

from tests.course.figures.drawn import boxed
from transformer_course import figures


def test_two_heads_choose_each_for_itself_and_add_up_by_their_rows_of_w_o():
    query, keys = [2.0, 0, 0, 2], [[2.0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 2]]
    values = [[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1]]
    mixing = [[1, 0, 1, 0], [0, 1, 0, 1], [-1, 0, 1, 0], [0, -1, 0, 1]]
    jobs = {"one head": "", "head 0": "", "head 1": ""}
    (ax,) = figures.two_heads(
        query, keys, values, mixing, ["dog", "bites", "man"], jobs, ("is", "was"), title=""
    ).axes
    numbers = " ".join(text for text, _ in boxed(ax))
    assert "4 0 4 2 0 2 .47 .06 .47" in numbers and ".47 .47 .47 .47" in numbers
    assert "4 0 0 2.8 0 0 .89 .05 .05" in numbers and "0 0 4 0 0 2.8 .05 .05 .89" in numbers
    assert ".89 .05 .89 .05 −.05 −.89 .05 .89 .84 −.84 .94 .94" in numbers  # head 0, head 1, their sum
    assert numbers.endswith(".05 .89 .89 .05 −.84 .84 .94 .94")  # man bites dog
