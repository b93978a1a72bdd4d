"""Parts that the specifications and banks of several lessons are built on; a learner never sees them."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Projections(nn.Module):
    """The four projections that every answer about multi-head attention has."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.output_projection = nn.Linear(d_model, d_model)


class InARow(nn.Sequential):
    """A right feed-forward; as a Sequential it takes no activation that is not a module."""

    def __init__(self, d_model: int, d_ff: int, activation: nn.Module) -> None:
        super().__init__()
        self.add_module("up_projection", nn.Linear(d_model, d_ff))
        self.add_module("bend", activation)
        self.add_module("down_projection", nn.Linear(d_ff, d_model))


def norm_by_hand(norm: nn.LayerNorm, numbers: Sequence[Tensor] | Tensor) -> Tensor:
    """The norm of one token, number by number."""
    mean = sum(numbers) / len(numbers)
    root = (sum((number - mean) ** 2 for number in numbers) / len(numbers) + norm.eps) ** 0.5
    scaled = [w * (number - mean) / root for w, number in zip(norm.weight, numbers, strict=True)]
    return torch.stack([s + b for s, b in zip(scaled, norm.bias, strict=True)])
