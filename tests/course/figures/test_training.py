"""A step of training is drawn with the numbers that PyTorch comes to."""

import pytest
import torch
from torch.nn import functional as F

from transformer_course import figures
from transformer_course.figures.layout import number, two_decimals


@pytest.mark.parametrize("allowed", [1.0, 100.0])
def test_a_step_is_that_of_torch(allowed):
    weights, x = torch.tensor([[0.0, 1.0], [1.0, 0.5]], requires_grad=True), torch.tensor([3.0, 4.0])
    step = {"rate": 0.1, "allowed": allowed, "title": ""}
    written = [text.get_text() for text in figures.one_step(weights, x, 1, **step).axes[0].texts]
    optimiser = torch.optim.SGD([weights], lr=0.1)
    before = F.cross_entropy(weights @ x, torch.tensor(1))
    before.backward()
    torch.nn.utils.clip_grad_norm_([weights], allowed)
    gradient = weights.grad.clone()
    optimiser.step()
    after = F.cross_entropy(weights @ x, torch.tensor(1))
    assert {two_decimals(loss.item()) for loss in (before, after)} < set(written)
    told = [*gradient.flatten().tolist(), *weights.flatten().tolist(), *(weights @ x).tolist()]
    assert {number(value, 2) for value in told} < set(written)
