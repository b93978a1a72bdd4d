"""Property certificates: experiments on a function or module of yours, each answered in one line.

What is examined maps x to an output, or to (output, weights), of which the output is judged. x holds vectors
(batch, position, features) or token ids (batch, position). A module is examined in eval mode; a function runs
as it is, so put the modules inside it into eval mode yourself.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lab.checks import check_positive
from transformer_lab.masking import padding_mask_from_lengths

# The largest difference that rounding explains, for numbers of the size that a norm leaves.
ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-1}
AXES = ("sequence", "position", "feature")


@dataclass(frozen=True)
class Certificate:
    """What an experiment found: the largest difference, where it is, and the most that counts as rounding."""

    name: str
    difference: float
    where: str
    tolerance: float

    @property
    def holds(self) -> bool:
        """Whether there is nothing but rounding."""
        return self.difference <= self.tolerance

    def __repr__(self) -> str:
        # Rounding differs from one processor to the next, so of a property that holds only the bound is told.
        if self.holds:
            return f"✓ {self.name} holds: largest difference below {self.tolerance:.0e}"
        return f"✗ {self.name} is broken: largest difference {self.difference:.2g}, at {self.where}"


def leak_map(function: Callable, x: Tensor) -> Float[Tensor, "output_pos input_pos"]:
    """Change one input position at a time, and return by how much each output position moves.

    Column j tells who hears of position j; a 0 at [i, j] means that output i knows nothing of input j.

    Args:
        function: maps x to (…, position, features).
        x: vectors (…, position, features), or token ids (batch, position).
    """
    before = _run(function, x)
    columns = []
    for position in range(_length(x)):
        moved = _difference(_run(function, _with_change(x, position)), before)
        columns.append(moved.movedim(-2, 0).flatten(1).amax(dim=1))  # (output_pos)
    return torch.stack(columns, dim=1)


def padding_invariance(function: Callable, x: Tensor, *, pads: int = 5) -> Certificate:
    """Does padding leave the real positions alone?  Called as `function(x, may_attend=…)`, with and without.

    The pads are copies of real positions: nothing but the mask tells them apart.
    """
    check_positive(pads=pads)
    length, batch = _length(x), len(x)
    padded = torch.cat([x, x[:, torch.arange(pads) % length]], dim=1)
    lengths = torch.full((batch,), length, device=x.device)
    alone = _run(function, x, may_attend=padding_mask_from_lengths(lengths))
    beside_pads = _run(function, padded, may_attend=padding_mask_from_lengths(lengths, length + pads))
    return _certify("padding invariance", beside_pads[:, :length], alone)


def permutation_equivariance(function: Callable, x: Tensor) -> Certificate:
    """Does another order of the input only reorder the output?  Reversed, shifted by one, and shuffled."""
    positions = torch.arange(_length(x))
    shuffled = torch.randperm(len(positions), generator=torch.Generator().manual_seed(0))
    orders = (positions.flip(0), positions.roll(1), shuffled)
    output = _run(function, x)
    got = [_run(function, x[:, order])[:, order.argsort()] for order in orders]  # back in the old order
    return _certify("permutation equivariance", torch.stack(got), output, ("order", *AXES))


def batch_invariance(function: Callable, x: Tensor) -> Certificate:
    """Does a sequence come out the same by itself as among others?

    Raises:
        ValueError: there is only one sequence.
    """
    _check_input(x)
    if len(x) < 2:
        raise ValueError(f"x must hold several sequences, got shape {tuple(x.shape)}; give at least two")
    alone = torch.cat([_run(function, one[None]) for one in x])
    return _certify("batch invariance", _run(function, x), alone)


def eval_determinism(function: Callable, x: Tensor) -> Certificate:
    """Do two calls with the same input, and other random numbers, give the same output?"""
    return _certify("eval determinism", _run(function, x, seed=1), _run(function, x, seed=0))


def distance_only(
    rotate: Callable, query: Float[Tensor, " d_head"], key: Float[Tensor, " d_head"], *, length: int = 64
) -> Certificate:
    """Does the score of one query and one key depend on the distance of their positions only?

    Both are put at every position; then all scores on a diagonal must equal the one that it begins with.

    Args:
        rotate: maps (position, d_head) to the same shape, rotated by the positions 0, 1, 2, …
        query, key: the two vectors.
        length: number of positions.
    """
    check_positive(length=length)
    queries, keys = (_run(rotate, vector.expand(length, -1)) for vector in (query, key))
    scores = queries @ keys.mT  # (query_pos, key_pos)
    position = torch.arange(length, device=scores.device)
    ahead = position - position[:, None]  # key position − query position
    at_the_edge = scores[(-ahead).clamp(min=0), ahead.clamp(min=0)]
    return _certify("distance only", scores, at_the_edge, ("query", "key"))


def _certify(name: str, got: Tensor, wanted: Tensor, axes: Sequence[str] = AXES) -> Certificate:
    difference = _difference(got, wanted)
    largest = difference >= difference.max() * (1 - 1e-6)  # rounding must not choose among equals
    place = largest.nonzero()[0]
    where = ", ".join(f"{axis} {int(index)}" for axis, index in zip(axes, place, strict=False))
    return Certificate(name, difference.max().item(), where, ROUNDING[wanted.dtype])


def _difference(got: Tensor, wanted: Tensor) -> Tensor:
    """|got − wanted|; where either is no number, nothing is promised any more: infinite."""
    if got.shape[-wanted.dim() :] != wanted.shape:
        raise ValueError(
            f"the output must keep its shape {tuple(wanted.shape)} here, got {tuple(got.shape)}; "
            "return one vector per position, (batch, position, features)"
        )
    return (got - wanted).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)


def _run(function: Callable, x: Tensor, *, seed: int = 0, **arguments: Tensor) -> Tensor:
    """Call on a copy, with fixed random numbers and without a trace."""
    _check_input(x)
    with torch.random.fork_rng(devices=[]), torch.no_grad(), _in_eval_mode(function):
        torch.manual_seed(seed)
        result = function(x.clone(), **arguments)
    output = result[0] if isinstance(result, tuple | list) else result
    axes = x.dim() if x.is_floating_point() else x.dim() + 1
    if not isinstance(output, Tensor) or output.dim() < axes:
        got = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise TypeError(
            f"the function must return a tensor (…, position, features) with {axes} axes, got {got}; "
            "one vector per sequence becomes output[:, None]"
        )
    return output


@contextmanager
def _in_eval_mode(function: Callable) -> Iterator[None]:
    modules = list(function.modules()) if isinstance(function, nn.Module) else []
    modes = [module.training for module in modules]
    try:
        for module in modules:
            module.training = False
        yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode


def _length(x: Tensor) -> int:
    """Number of positions: the last axis of token ids, the last but one of vectors."""
    _check_input(x)
    return x.shape[-2] if x.is_floating_point() else x.shape[-1]


def _check_input(x: Tensor) -> None:
    if not isinstance(x, Tensor) or x.dim() < 2 or 0 in x.shape:
        got = f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        raise ValueError(
            f"x must hold vectors (batch, position, features) or ids (batch, position), got {got}; "
            "add a missing axis with [None]"
        )


def _with_change(x: Tensor, position: int) -> Tensor:
    """A copy with another token at one position: random features, or the id before (1 in place of 0)."""
    changed = x.clone()
    if x.is_floating_point():
        # Not a constant added: a layer norm would take it out again, and a leak would go unseen.
        noise = torch.randn(x.shape[-1], generator=torch.Generator().manual_seed(position), dtype=x.dtype)
        changed[..., position, :] += noise.to(x.device)
    else:
        changed[..., position] = torch.where(x[..., position] > 0, x[..., position] - 1, 1)
    return changed
