"""Low-rank adaptation (LoRA): train a small update next to a frozen projection. Used in lesson 12."""

from collections.abc import Collection, Mapping
from copy import deepcopy

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lab.validation import check_positive

# These read the weights of their linear layers and do not call them: an update of one would be ignored.
READS_WEIGHTS = nn.MultiheadAttention, nn.TransformerEncoderLayer


class LowRankLinear(nn.Module):
    """W x + (alpha / rank) · B A x with W frozen: Eq. 3 of arXiv:2106.09685 (LoRA).

    A is random and B zero, so that at first nothing changes.

    Args:
        linear: the trained projection; it is kept, and frozen.
        rank: features between A and B.
        alpha: the scale of the update is alpha / rank; `rank` if None, which is a scale of 1.
    """

    def __init__(self, linear: nn.Linear, rank: int, *, alpha: float | int | None = None) -> None:
        super().__init__()
        check_positive(rank=rank)
        if not isinstance(linear, nn.Linear):  # of another LowRankLinear, `merged` would forget the update
            raise TypeError(f"linear must be an nn.Linear, got {type(linear).__name__}; adapt a projection")
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.linear = linear.requires_grad_(False)
        self.scale = 1.0 if alpha is None else alpha / rank
        like = {"device": linear.weight.device, "dtype": linear.weight.dtype}
        self.down = nn.Parameter(torch.empty(rank, linear.in_features, **like))  # A
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank, **like))  # B
        nn.init.normal_(self.down, std=linear.in_features**-0.5)

    def forward(self, x: Float[Tensor, "*batch d_in"]) -> Float[Tensor, "*batch d_out"]:
        """Return the frozen projection of x plus its update."""
        return self.linear(x) + F.linear(F.linear(x, self.down), self.up) * self.scale

    @property
    def weight(self) -> Tensor:
        """The frozen weight, for code that asks a projection for its dtype, device or width."""
        return self.linear.weight

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """Return one nn.Linear that computes the same, so that inference costs nothing more."""
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
    """Freeze a model, and give each of its chosen projections a low-rank update, which alone is trained.

    A projection that is used in several places gets one update, which is used in all of them.

    Args:
        model: changed in place, and returned.
        rank, alpha: as in `LowRankLinear`.
        projections: names of the projections; those of the paper's experiments by default.

    Raises:
        TypeError: one name instead of a list of names.
        ValueError: a name that no projection of the model has, or a projection whose update would be ignored
            or doubled. The model is as before then, as after every error.
    """
    if isinstance(projections, str):  # the letters of which would be looked for in it
        raise TypeError(f"projections must be a list of names, got {projections!r}; try [{projections!r}]")
    places = {
        path: part
        for path, part in model.named_modules(remove_duplicate=False)
        if isinstance(part, nn.Linear) and path.rpartition(".")[2] in projections
    }
    found = {path.rpartition(".")[2] for path in places}
    if not places or not found.issuperset(projections):
        raise ValueError(
            f"the model has nn.Linear modules named {sorted(found)} of {list(projections)}, wanted all"
        )
    for path in places:
        parent = model.get_submodule(path.rpartition(".")[0])
        if isinstance(parent, (*READS_WEIGHTS, LowRankLinear)):
            raise ValueError(
                f"an update of {path} would be ignored: {type(parent).__name__} does not call it"
            )
    if len({part.weight for part in places.values()}) < len(set(places.values())):
        raise ValueError(
            "two of the projections share one weight, which two updates would change; make them one"
        )
    updated = {part: LowRankLinear(part, rank, alpha=alpha) for part in places.values()}
    model.requires_grad_(False)
    return exchange(model, places, updated)


def merge(model: nn.Module) -> nn.Module:
    """Replace every `LowRankLinear` in a model by one nn.Linear that computes the same; in place."""
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
    """Put another module into each of the places; return the model."""
    for path, part in places.items():
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, new[part])
    return model
