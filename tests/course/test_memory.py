"""Memory is counted as one counts it by hand."""

import torch
from torch import nn

from transformer_course.memory import added_bytes, kept_numbers


def test_the_most_that_is_held_at_once_is_told():
    def run():
        first = torch.zeros(3000, dtype=torch.float32)
        del first
        second = torch.zeros(2000, dtype=torch.float64)
        third = torch.zeros(500, dtype=torch.float32)
        return second, third

    assert added_bytes(run) == 2000 * 8 + 500 * 4  # the first had 12,000, and was given back
    assert added_bytes(lambda: None) == 0


def test_a_linear_map_keeps_its_input_once():
    x = torch.randn(7, 5)
    assert kept_numbers(nn.Linear(5, 3), x) == 7 * 5
    assert (
        kept_numbers(nn.Sequential(nn.Flatten(0, 0), nn.Linear(5, 3)), x) == 7 * 5
    )  # a view: the same memory
    with torch.no_grad():
        assert kept_numbers(nn.Linear(5, 3), x) == 0


def test_a_softmax_keeps_its_output():
    x = torch.randn(11, 3, requires_grad=True)
    assert kept_numbers(nn.Softmax(dim=-1), x) == 33
