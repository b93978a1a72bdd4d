"""What a figure is given becomes numbers; a slip that a picture would hide is refused with a remedy."""

import math

import numpy as np
import pytest
import torch

from transformer_course.figures.inputs import labelled, numbers_of


def test_numbers_come_from_everything_that_holds_them():
    given = [[1, 2], (1.0, 2.0), np.array([1, 2]), torch.tensor([1.0, 2.0], requires_grad=True), range(1, 3)]
    given += [torch.tensor([1, 2]).bfloat16(), [torch.tensor(1.0), np.float32(2)]]
    for values in given:
        assert numbers_of(values, 1).tolist() == [1.0, 2.0]
    assert np.isnan(numbers_of([math.nan, 1.0], gaps=True)[0])  # a curve may have them


@pytest.mark.parametrize(
    ("values", "axes", "words"),
    [
        ([[1.0]], 1, r"the values must have 1 axes, .* got shape \(1, 1\); pick one head"),
        ([[]], 2, "none of them empty"),
        ([1.0, math.nan], 1, "the values must be finite, got nan or inf"),
    ],
)
def test_what_a_picture_would_hide_is_refused(values, axes, words):
    with pytest.raises(ValueError, match=words):
        numbers_of(values, axes)


def test_labels_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"of shape \(2, 3\), the labels fit \(2, 2\)"):
        labelled(torch.ones(2, 3), "ab", "ab")
