"""What a figure is given becomes numbers, or is refused with what was got, what is wanted, and a remedy."""

import numpy as np
import pytest
import torch

from transformer_course.figures.given import numbers_of


@pytest.mark.parametrize(
    "values",
    [None, "1.5", ["1.5"], [1, None], [[1], [2, 3]], torch.tensor([1j]), {"a": 1}, object()],
)
def test_what_is_no_number_is_refused(values):
    with pytest.raises(TypeError, match="the values must be real numbers, got"):
        numbers_of(values)


def test_numbers_come_from_everything_that_holds_them():
    given = [[1, 2], (1.0, 2.0), np.array([1, 2]), torch.tensor([1.0, 2.0], requires_grad=True), range(1, 3)]
    given += [torch.tensor([1, 2]).bfloat16(), [torch.tensor(1.0), np.float32(2)]]
    for values in given:
        assert numbers_of(values, 1).tolist() == [1.0, 2.0]
