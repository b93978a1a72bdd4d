"""Property certificates: experiments on a function or module of yours, each answered in one line.

What is examined maps x to an output, or to (output, weights), of which the output is judged. x holds vectors
(batch, position, features) or token ids (batch, position). A module is examined in eval mode; a function runs
as it is, so put the modules inside it into eval mode yourself.

An x of another kind is a ValueError, and so are one with which nothing could be found, such as equal tokens
where the order is asked for, and an output of other sequences or positions than x has, unless it is one
position for the whole; a function that does not return vectors is a TypeError.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lab.masking import padding_mask_from_lengths
from transformer_lab.validation import check_integer, check_positive, described

# The largest difference that rounding explains, for numbers of the size that a norm leaves.
ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-1}
IDS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# Calls are repeated until so many numbers were looked at, so that a rare draw has its chance.
NUMBERS_TO_COMPARE = 1000


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
        if math.isinf(self.difference):
            return f"✗ {self.name} is not certified: NaN or infinity, at {self.where}"
        return f"✗ {self.name} is broken: largest difference {self.difference:.2g}, at {self.where}"


def leak_map(function: Callable, x: Tensor) -> Float[Tensor, "output_pos input_pos"]:
    """Change one input position at a time, and return by how much each output position moves.

    Column j tells who hears of position j; a 0 at [i, j] means that output i did not move: it does not hear
    of input j. Vectors are changed twice, a little and much, in opposite directions.

    Args:
        function: maps x to (…, position, features).
        x: vectors (…, position, features), or token ids (batch, position).

    Raises:
        ValueError: two calls differ, so everything would seem to leak.
    """
    before = _run(function, x)
    if not torch.equal(before.nan_to_num(), _run(function, x).nan_to_num()):
        raise ValueError(
            "the function must give the same output for the same x, got two outputs in two calls; "
            "see eval_determinism, and mend that first"
        )
    columns = []
    positions = torch.arange(_length(x), device=x.device)
    for position in positions:
        here = positions == position
        here = here[:, None] if x.is_floating_point() else here
        changed = [torch.where(here, other, x) for other in _others(x, seed=int(position))]
        moved = [_difference(_run(function, each), before) for each in changed]
        columns.append(torch.stack(moved).movedim(-2, 0).flatten(1).amax(dim=1))  # (output_pos)
    return torch.stack(columns, dim=1)


def padding_invariance(function: Callable, x: Tensor, *, pads: int = 5) -> Certificate:
    """Does padding leave the real positions alone?  Called as `function(x, may_attend=…)`, with and without.

    The pads look like real tokens, so that only the mask tells them apart: copies of real ones, then another
    one, which a mean hears too, then that in every second sequence only.

    Wrap a function whose mask has another name, lambda x, may_attend: model(x, mask=may_attend), or another
    form, see mask_conventions.

    Raises:
        ValueError: there are no pads, or no ids but 0.
    """
    check_positive(pads=pads)
    _check_input(x, axes=3)
    length = torch.full((len(x),), _length(x), device=x.device)
    alone = _run(function, x, may_attend=padding_mask_from_lengths(length))
    for padded, lengths in _paddings(function, x, pads, length, alone):
        mask = padding_mask_from_lengths(lengths, _length(padded))
        beside_pads = _run(function, padded, may_attend=mask)[..., : _length(x), :]
        certificate = _certify("padding invariance", beside_pads, alone, judged=lengths == length)
        if not certificate.holds:
            break
    return certificate


def permutation_equivariance(function: Callable, x: Tensor) -> Certificate:
    """Does another order of the input only reorder the output?  Reversed, shifted by one, and shuffled.

    Raises:
        ValueError: all tokens are equal.
    """
    _check_input(x)
    axis = _position_axis(x)
    if (x == x.narrow(axis, 0, 1)).all():
        raise ValueError(
            f"x must hold different tokens, got {_length(x)} equal ones: they have no order; give other ones"
        )
    positions = torch.arange(_length(x), device=x.device)
    shuffled = torch.randperm(len(positions), generator=torch.Generator().manual_seed(0)).to(x.device)
    orders = (positions.flip(0), positions.roll(1), shuffled)
    output = _run(function, x)
    got = [_run(function, x.index_select(axis, order))[..., order.argsort(), :] for order in orders]
    got = torch.stack(got)  # back in the old order
    return _certify("permutation equivariance", got, output.expand_as(got), ("order", *_axes(output)))


def batch_invariance(function: Callable, x: Tensor) -> Certificate:
    """Does a sequence come out the same by itself as among others?

    Raises:
        ValueError: there is only one sequence, or all are equal.
    """
    _check_input(x, axes=3)
    if (x == x[:1]).all():
        raise ValueError(
            f"x must hold different sequences, got {len(x)}, all equal: what one takes from another would "
            "not show; give other ones"
        )
    alone = torch.cat([_run(function, one[None]) for one in x])
    return _certify("batch invariance", _run(function, x), alone)


def eval_determinism(function: Callable, x: Tensor) -> Certificate:
    """Do calls with the same input, and other random numbers, give the same output?

    Two calls, and more where the output is small: few numbers are often all spared by dropout.
    """
    first = _run(function, x)
    for seed in range(1, 2 + NUMBERS_TO_COMPARE // first.numel()):
        certificate = _certify("eval determinism", _run(function, x, seed=seed), first)
        if not certificate.holds:
            break
    return certificate


def distance_only(
    rotate: Callable, query: Float[Tensor, " d_head"], key: Float[Tensor, " d_head"], *, length: int = 64
) -> Certificate:
    """Does the score of one query and one key depend on the distance of their positions only?

    Both are put at every position; then all scores on a diagonal must equal the one that it begins with.

    Args:
        rotate: maps (position, d_head) to the same shape, rotated by the positions 0, 1, 2, …
        query, key: the two vectors.
        length: number of positions, at least 2.

    Raises:
        ValueError: a vector of zeros, whose scores are all 0; a single position, which has no distance.
    """
    check_integer(length=length, at_least=2)
    if not (query.any() and key.any()):
        raise ValueError("query and key must not be 0, got zeros; all scores would be alike: give others")
    queries, keys = (_run(rotate, vector.expand(length, -1)) for vector in (query, key))
    if queries.shape != (length, len(query)):
        raise ValueError(
            f"rotate must keep the shape {(length, len(query))}, got {tuple(queries.shape)}; "
            "return one vector per position, as wide as it came"
        )
    scores = queries @ keys.mT  # (query_pos, key_pos)
    position = torch.arange(length, device=scores.device)
    ahead = position - position[:, None]  # key position − query position
    at_the_edge = scores[(-ahead).clamp(min=0), ahead.clamp(min=0)]
    return _certify("distance only", scores, at_the_edge, ("query", "key"))


# --- one experiment -------------------------------------------------------------------------------


def _certify(
    name: str,
    got: Tensor,
    wanted: Tensor,
    axes: tuple[str, ...] | None = None,
    *,
    judged: Tensor | None = None,
) -> Certificate:
    """Compare, of the judged sequences only."""
    difference = _difference(got, wanted)
    if judged is not None:
        difference[~judged] = 0
    largest = difference >= difference.max() * (1 - 1e-6)  # rounding must not choose among equals
    place = largest.nonzero()[0]
    axes = axes or _axes(wanted)
    where = ", ".join(f"{axis} {int(index)}" for axis, index in zip(axes, place, strict=True))
    size = _size(wanted)
    tolerance = ROUNDING[wanted.dtype] * (1 if 0.01 <= size <= 100 else size)
    return Certificate(name, difference.max().item(), where, tolerance)


def _axes(output: Tensor) -> tuple[str, ...]:
    inner = (f"axis {axis}" for axis in range(1, output.dim() - 2))
    return ("sequence", *inner, "position", "feature")[-output.dim() :]


def _difference(got: Tensor, wanted: Tensor) -> Tensor:
    """|got − wanted|; infinite where either is no finite number."""
    return (got - wanted).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)


def _size(x: Tensor) -> float:
    """The mean size of the numbers; 1 if all are 0, or some are no numbers."""
    size = x.double().abs().mean().item()
    return size if size and math.isfinite(size) else 1.0


def _run(function: Callable, x: Tensor, *, seed: int = 0, **arguments: Tensor) -> Tensor:
    """Call on a copy, with fixed random numbers and without a trace."""
    _check_input(x)
    with torch.random.fork_rng(devices=[]), torch.no_grad(), _in_eval_mode(function):
        torch.manual_seed(seed)
        result = function(x.clone(), **arguments)
    output = result[0] if isinstance(result, tuple | list) and result else result
    _check_output(output, x)
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


def _position_axis(x: Tensor) -> int:
    """The last axis of token ids, the last but one of vectors."""
    return -2 if x.is_floating_point() else -1


def _length(x: Tensor) -> int:
    return x.shape[_position_axis(x)]


# --- other tokens ---------------------------------------------------------------------------------


def _paddings(
    function: Callable, x: Tensor, pads: int, length: Tensor, alone: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield x with pads behind it, and how many positions of each sequence are real."""
    axis = _position_axis(x)
    copies = x.index_select(axis, torch.arange(pads, device=x.device) % _length(x))
    yield torch.cat([x, copies], dim=axis), length
    # Not the first token again, so that the mean is another one, and so is what attention finds.
    other = _others(x)[-1].narrow(axis, 0, 1)
    padded = torch.cat([x, *[other] * pads], dim=axis)
    yield padded, length
    if len(x) == 1:
        return
    # Each sequence has a mask of its own. Sequences that hear each other would hear each other's pads too;
    # that is for batch_invariance to find.
    equal = _run(function, x[:1].expand_as(x), may_attend=padding_mask_from_lengths(length))
    if _certify("", equal[:1], alone[:1]).holds:
        for first in (0, 1):
            lengths = length.clone()
            lengths[first::2] += pads
            yield padded, lengths


def _others(x: Tensor, seed: int = 0) -> list[Tensor]:
    """Other tokens for all of x: vectors moved a little, and much; or the ids before, which surely exist."""
    if x.is_floating_point():
        # Random features: a constant would be taken out by a layer norm, and a leak would go unseen.
        noise = torch.randn(x.shape[-1], generator=torch.Generator().manual_seed(seed), dtype=x.dtype)
        noise = noise.to(x.device) * 10 * _size(x)
        # Much, and the other way: a maximum or a ReLU may not hear of a little.
        return [x + noise / 10, x - noise]
    if not x.any():
        raise ValueError("x must hold other ids than 0, got only that; no other is known to exist: give some")
    least = 1 if x.max() > 1 else 0  # 0 may be a pad's own id, so it is taken only if there is no other
    return [torch.where(x > least, x - 1, x.max())]


# --- checks ---------------------------------------------------------------------------------------


def _check_input(x: Tensor, axes: int = 2) -> None:
    """Raise unless x holds ids, or vectors with as many axes at least."""
    ids = isinstance(x, Tensor) and x.dtype in IDS and x.dim() == 2
    vectors = isinstance(x, Tensor) and x.dtype in ROUNDING and x.dim() >= axes
    if not (ids or vectors) or 0 in x.shape:
        raise ValueError(
            "x must hold vectors (batch, position, features) or ids (batch, position), "
            f"got {described(x)}; add a missing axis with [None]"
        )
    if not x.isfinite().all():
        raise ValueError(
            "x must hold finite numbers, got NaN or infinity; nothing could be told: replace them"
        )


def _check_output(output: object, x: Tensor) -> None:
    axes = x.dim() if x.is_floating_point() else x.dim() + 1
    if not (
        isinstance(output, Tensor) and output.dtype in ROUNDING and output.dim() >= axes and output.numel()
    ):
        raise TypeError(
            f"the function must return a tensor (…, position, features) with {axes} axes, floating-point, "
            f"got {described(output)}; one vector per sequence becomes output[:, None]"
        )
    # What is left out is not examined. One position may stand for all: a mean, say, or [CLS].
    if output.shape[-2] not in (1, _length(x)) or (axes > 2 and len(output) != len(x)):
        raise ValueError(
            f"the function must return {len(x)} sequences of {_length(x)} positions, or of one, got shape "
            f"{tuple(output.shape)}; return a vector for each token"
        )
