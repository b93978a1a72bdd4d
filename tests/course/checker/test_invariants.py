"""What a wrong result lacks is said in words: for each property an answer that lacks just that."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.course.cells import said
from transformer_course.checker import exercise


def with_truth(truth):
    """An exercise about x: (batch, position, features)."""
    made = exercise("95.1")(truth)
    made.cases(lambda normal: [{"x": normal(2, 3, 5)}])
    return made


ROWS = with_truth(lambda x: x.softmax(-1))
PLAIN = with_truth(lambda x: x + x.sin())
SQUARE = lambda x: x[..., :3] * torch.arange(1.0, 4.0)  # noqa: E731


@pytest.mark.parametrize(
    ("exercise", "attempt", "words"),
    [
        (ROWS, lambda x: x.softmax(-1) * 0.9, "the first that doesn't sums to 0.9"),
        (
            with_truth(lambda x: F.normalize(x, dim=-1)),
            lambda x: F.normalize(x, dim=-2),
            "should have length 1",
        ),
        (with_truth(lambda x: x - x.mean(-1, keepdim=True)), lambda x: x - x.mean(), "should have mean 0"),
        (with_truth(lambda x: x.exp()), lambda x: x.exp() - 1, "should have no negative values"),
        (PLAIN, lambda x: (x + x.sin()).flip(-1), "values of your result are right, but in the wrong order"),
        (with_truth(SQUARE), lambda x: SQUARE(x).mT, "axes 1 and 2 are swapped"),
    ],
)
def test_a_property_that_is_lacking_is_told_before_numbers(exercise, attempt, words):
    text = said(exercise, attempt)
    assert words in text.partition("expected")[0]


@exercise("95.10")
def masked(x, may_attend):
    """Any attention over x: (batch, position, features)."""
    scores = (x @ x.mT).masked_fill(~may_attend[:, 0], -torch.inf)
    return scores.softmax(-1) @ x


@masked.cases
def masked_cases(normal):
    may_attend = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    may_attend[0, ..., 3:] = False
    yield {"x": normal(2, 5, 3), "may_attend": may_attend}


def test_a_hidden_token_that_is_heard_is_told():
    attempt = lambda x, m: (x @ x.mT - 3 * ~m[:, 0]).softmax(-1) @ x  # noqa: E731
    words = "not yet: masked tokens affect the output.\nYour result depends on a token that the mask hides"
    assert words in said(masked, attempt)


@pytest.mark.parametrize("exercise", [ROWS, PLAIN])
def test_chance_is_told_before_all_that_it_may_cause(exercise):
    assert "not yet: a different result at every call." in said(exercise, lambda x: nn.Linear(5, 5)(x))


def test_chance_is_no_fault_where_it_is_wanted():
    noisy = with_truth(F.dropout)
    assert "at every call" not in said(noisy, lambda x: 3 * F.dropout(x))


def test_what_lacks_no_property_gets_numbers():
    text = said(PLAIN, lambda x: x + x.cos())
    assert "wrong value" in text and "expected" in text.splitlines()[1]
