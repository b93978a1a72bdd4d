"""Lesson 12. Low-rank adaptation (LoRA): train a low-rank update of a frozen projection."""

from collections.abc import Collection, Mapping
from copy import deepcopy

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lab.validation import check_positive

# These modules read the weights of their linear layers instead of calling them, so an update has no effect.
READS_WEIGHTS = nn.MultiheadAttention, nn.TransformerEncoderLayer


class LowRankLinear(nn.Module):
    """W x + (alpha / rank) · B A x with W frozen: Eq. 3 of arXiv:2106.09685 (LoRA).

    A is initialised randomly and B with zeros, so the update is zero at first.

    Args:
        linear: the pretrained projection, which is kept and frozen.
        rank: rank of the update, the number of rows of A.
        alpha: the scale of the update is alpha / rank; if None, the scale is 1.
    """

    def __init__(self, linear: nn.Linear, rank: int, *, alpha: float | int | None = None) -> None:
        super().__init__()
        check_positive(rank=rank)
        if not isinstance(linear, nn.Linear):  # `merged` would lose the update of another LowRankLinear
            raise TypeError(f"linear must be an nn.Linear, got {type(linear).__name__}")
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.linear = linear.requires_grad_(False)
        self.scale = 1.0 if alpha is None else alpha / rank
        like = {"device": linear.weight.device, "dtype": linear.weight.dtype}
        self.down = nn.Parameter(torch.empty(rank, linear.in_features, **like))  # A
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank, **like))  # B
        nn.init.normal_(self.down, std=linear.in_features**-0.5)

    def forward(self, x: Float[Tensor, "*batch d_in"]) -> Float[Tensor, "*batch d_out"]:
        """Return the frozen projection of x plus the low-rank update."""
        return self.linear(x) + F.linear(F.linear(x, self.down), self.up) * self.scale

    @property
    def weight(self) -> Tensor:
        """The frozen weight, for code that reads the dtype, device or width of a projection."""
        return self.linear.weight

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """Return one nn.Linear with the update added to its weight, so that inference costs nothing extra."""
        linear = deepcopy(self.linear).requires_grad_(True)
        linear.weight += self.scale * self.up @ self.down
        return linear


def adapt(
    model: nn.Module,
    rank: int,
    *,
    projections: Collection[str] = ("query_projection", "value_projection"),
    alpha: float | int | None = None,
) -> nn.Module:
    """Freeze a model, and add a trainable low-rank update to each of the chosen projections.

    A projection that is used in several places has one update, which is used in all of them.

    Args:
        model: the model, which is changed in place and returned.
        rank, alpha: as in `LowRankLinear`.
        projections: names of the projections; by default the ones in the paper's experiments.

    Raises:
        TypeError: if `projections` is a string instead of a list of names.
        ValueError: if the model has no projection of a given name, or an update would be ignored or applied
            twice. The model is unchanged after any error.
    """
    if isinstance(projections, str):  # `in` would look for substrings
        raise TypeError(f"projections must be a list of names, got {projections!r}; try [{projections!r}]")
    places = {
        path: part
        for path, part in model.named_modules(remove_duplicate=False)
        if isinstance(part, nn.Linear) and path.rpartition(".")[2] in projections
    }
    found = {path.rpartition(".")[2] for path in places}
    if not places or not found.issuperset(projections):
        raise ValueError(
            f"the model has nn.Linear modules named {sorted(found)}, expected {list(projections)}"
        )
    for path in places:
        parent = model.get_submodule(path.rpartition(".")[0])
        if isinstance(parent, (*READS_WEIGHTS, LowRankLinear)):
            raise ValueError(
                f"an update of {path} would be ignored: {type(parent).__name__} does not call this module"
            )
    if len({part.weight for part in places.values()}) < len(set(places.values())):
        raise ValueError(
            "two of the projections share one weight, so it would be updated twice; make them one module"
        )
    updated = {part: LowRankLinear(part, rank, alpha=alpha) for part in places.values()}
    model.requires_grad_(False)
    return exchange(model, places, updated)


def merge(model: nn.Module) -> nn.Module:
    """Replace every `LowRankLinear` by an nn.Linear that includes the update, in place; return the model."""
    if isinstance(model, LowRankLinear):
        return model.merged()
    places = {
        path: part
        for path, part in model.named_modules(remove_duplicate=False)
        if isinstance(part, LowRankLinear)
    }
    return exchange(model, places, {part: part.merged() for part in places.values()})


def exchange(
    model: nn.Module, places: Mapping[str, nn.Module], new: Mapping[nn.Module, nn.Module]
) -> nn.Module:
    """Replace the module at each path by its counterpart in `new`; return the model."""
    for path, part in places.items():
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, new[part])
    return model
