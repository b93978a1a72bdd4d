"""Low-rank adaptation (LoRA): train a small update beside a frozen projection. Used in lesson 12."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lab.checks import check_positive


class LowRankLinear(nn.Module):
    """W x + (alpha / rank) · B A x with W frozen: Eq. 3 of arXiv:2106.09685 (LoRA).

    A is random and B zero, so that at first nothing changes.

    Args:
        linear: the trained map; it is kept, and frozen.
        rank: features between A and B.
        alpha: the scale of the update is alpha / rank; `rank` if None, which is a scale of 1.
    """

    def __init__(self, linear: nn.Linear, rank: int, *, alpha: float | int | None = None) -> None:
        super().__init__()
        check_positive(rank=rank)
        if not isinstance(linear, nn.Linear):
            raise TypeError(f"linear must be an nn.Linear, got {type(linear).__name__}; adapt a projection")
        self.linear = linear.requires_grad_(False)
        self.scale = 1.0 if alpha is None else alpha / rank
        like = {"device": linear.weight.device, "dtype": linear.weight.dtype}
        self.down = nn.Parameter(torch.empty(rank, linear.in_features, **like))  # A
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank, **like))  # B
        nn.init.normal_(self.down, std=linear.in_features**-0.5)

    def forward(self, x: Float[Tensor, "*batch d_in"]) -> Float[Tensor, "*batch d_out"]:
        """The frozen map plus the update."""
        return self.linear(x) + F.linear(F.linear(x, self.down), self.up) * self.scale

    @property
    def weight(self) -> Tensor:
        """The frozen weight: whoever asks a projection for its dtype, device or width finds it here."""
        return self.linear.weight

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """Return one nn.Linear that computes the same: no cost is left when the model is used."""
        linear = nn.Linear(
            self.linear.in_features,
            self.linear.out_features,
            bias=self.linear.bias is not None,
            device=self.linear.weight.device,
            dtype=self.linear.weight.dtype,
        )
        linear.weight.copy_(self.linear.weight + self.scale * self.up @ self.down)
        if self.linear.bias is not None:
            linear.bias.copy_(self.linear.bias)
        return linear


def adapt(
    model: nn.Module,
    rank: int,
    *,
    projections: Sequence[str] = ("query_projection", "value_projection"),
    alpha: float | int | None = None,
) -> nn.Module:
    """Freeze a model, and give each of its chosen projections a low-rank update, which alone is trained.

    Args:
        model: changed in place, and returned.
        rank, alpha: as in `LowRankLinear`.
        projections: names of the projections; those of the paper's experiments by default.

    Raises:
        ValueError: the model has no projection of such a name.
    """
    chosen = [
        (parent, name)
        for parent in model.modules()
        for name, part in parent.named_children()
        if name in projections and isinstance(part, nn.Linear)
    ]
    if not chosen:
        raise ValueError(
            f"the model has no nn.Linear named {' or '.join(projections)}; look at named_modules()"
        )
    model.requires_grad_(False)
    for parent, name in chosen:
        setattr(parent, name, LowRankLinear(getattr(parent, name), rank, alpha=alpha))
    return model


def merge(model: nn.Module) -> nn.Module:
    """Replace every `LowRankLinear` in a model by one nn.Linear that computes the same; in place."""
    for parent in list(model.modules()):
        for name, part in list(parent.named_children()):
            if isinstance(part, LowRankLinear):
                setattr(parent, name, part.merged())
    return model
