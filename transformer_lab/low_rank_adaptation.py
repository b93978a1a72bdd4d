"""Low-rank adaptation (LoRA): train a small update beside a frozen projection. Used in lesson 12."""

from collections.abc import Collection, Mapping
from copy import deepcopy

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lab.validation import check_number, check_positive, check_vectors

# These read the weights of their linear maps and do not call them: an update beside one would be ignored.
READS_WEIGHTS = nn.MultiheadAttention, nn.TransformerEncoderLayer


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
        check_number(alpha=rank if alpha is None else alpha, above=0)
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
        """The frozen map plus the update."""
        check_vectors("x", x, rank=None)
        return self.linear(x) + F.linear(F.linear(x, self.down), self.up) * self.scale

    @property
    def weight(self) -> Tensor:
        """The frozen weight: whoever asks a projection for its dtype, device or width finds it here."""
        return self.linear.weight

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """Return one nn.Linear that computes the same: no cost is left when the model is used."""
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

    A projection that stands in several places gets one update, which stands in all of them.

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
    check_places(model, places, projections)
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


def check_places(model: nn.Module, places: Mapping[str, nn.Linear], projections: Collection[str]) -> None:
    """Raise unless every name has its place, and every update will count, once."""
    found = {path.rpartition(".")[2] for path in places}
    if missing := [name for name in projections if name not in found] or not projections:
        named = " or ".join(missing) if projections else "in an empty list"
        raise ValueError(f"the model has no nn.Linear named {named}; look at named_modules()")
    for path in places:
        parent = model.get_submodule(path.rpartition(".")[0])
        if isinstance(parent, (*READS_WEIGHTS, LowRankLinear)):
            raise ValueError(
                f"{path} got an update, but {type(parent).__name__} would not call it, wanted a projection "
                "that is called; from_torch_layer makes such a layer"
            )
    parts = list(dict.fromkeys(places.values()))
    if len({id(part.weight) for part in parts}) < len(parts):
        raise ValueError(
            "two of the projections are tied (they share one weight), and each would get an update of its "
            "own, wanted one weight each; make them one module, or choose one of them"
        )
