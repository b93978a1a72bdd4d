"""Property checks: experiments on a function or module of yours, each answered in one line.

A function is examined that maps x to an output, or to (output, weights), of which the output counts. x holds
vectors (batch, position, features) or token ids (batch, position). A module is examined in eval mode; a
function runs as it is, so put the modules inside it into eval mode yourself.

Raises ValueError for an x of another kind, for an x that could show nothing, such as equal tokens where the
order is asked for, and for an output with other sequences or positions than x (one position may stand for all
of them: a mean, or [CLS]); TypeError for a function that does not return vectors.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_lab.masking import padding_mask_from_lengths

# The largest difference that rounding explains, for numbers of the size that a norm leaves.
ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-1}
INVERTED = (
    "is your mask inverted? may_attend is True where a token may be attended to, PyTorch's is True where not"
)
BY_ID = "where the padding has the id {0} it holds; give that id: ids.masked_fill(~may_attend[:, 0, 0], {0})"
PAD_IDS = (0, 1)  # of most models
IGNORED = "the output is the same with and without the mask: is it used?"
ONE_FOR_ALL = "it holds where all sequences have equally many pads: does each sequence get a mask of its own?"
TRAINING = (
    "the same x gives two outputs: is something random, or a module still in training mode, with dropout?"
)
KEPT = (
    "the same x gives two outputs, with the same random numbers, too: is something kept from one call to the "
    "next, such as a counter or a cache, or drawn without torch's generator?"
)
# Calls are repeated until so many numbers were compared, so that a rare draw has its chance.
NUMBERS_TO_COMPARE = 1000


@dataclass(frozen=True)
class PropertyCheck:
    """The result of an experiment: the largest difference, its place, and how much counts as rounding.

    hint: what to look at first, if something is known.
    """

    name: str
    difference: float
    where: str
    tolerance: float
    hint: str = ""

    @property
    def holds(self) -> bool:
        """Whether there is nothing but rounding."""
        return self.difference <= self.tolerance

    def __repr__(self) -> str:
        if self.holds:  # rounding differs between processors, so only its bound is printed
            return f"✓ {self.name} holds: largest difference below {self.tolerance:.0e}"
        hint = self.hint and f"; {self.hint}"
        if math.isinf(self.difference):
            return f"✗ {self.name} cannot be checked: the output is NaN or infinite, at {self.where}{hint}"
        return f"✗ {self.name} is broken: largest difference {self.difference:.2g}, at {self.where}{hint}"


def leak_map(function: Callable, x: Tensor) -> Float[Tensor, "output_pos input_pos"]:
    """How far each output position moves when one input position is changed.

    Column j is the effect of position j; a 0 at [i, j] means that output i does not depend on input j.
    Vectors are changed twice, a little and much, in opposite directions.

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
            "make it pass eval_determinism first"
        )
    axis = _position_axis(x)
    columns = []
    for position in range(x.shape[axis]):
        differences = []
        for other in _other_tokens(x, seed=position):
            changed = x.clone()
            changed.select(axis, position).copy_(other.select(axis, position))
            differences.append(_difference(_run(function, changed), before))
        columns.append(torch.stack(differences).movedim(-2, 0).flatten(1).amax(dim=1))  # (output_pos)
    return torch.stack(columns, dim=1)


def padding_invariance(function: Callable, x: Tensor, *, pads: int = 5) -> PropertyCheck:
    """Does padding leave the real positions alone?  Called as `function(x, may_attend=…)`, with and without.

    The pads look like real tokens, so that only the mask tells them apart.

    Wrap a function whose mask has another name, lambda x, may_attend: model(x, mask=may_attend), or another
    form, see mask_conventions. A model that finds its padding by an id gets that id:
    lambda ids, may_attend: model(ids.masked_fill(~may_attend[:, 0, 0], pad_id)).

    Raises:
        ValueError: there are no pads, or no ids but 0.
    """
    if pads < 1:
        raise ValueError(f"pads must be at least 1, got {pads}")
    _check_input(x, axes=3)

    def inverted(x: Tensor, may_attend: Tensor) -> Tensor:
        return function(x, may_attend=~may_attend)

    def with_pad_id(x: Tensor, may_attend: Tensor, pad_id: int) -> Tensor:
        return function(x.masked_fill(~may_attend[:, 0, 0], pad_id), may_attend=may_attend)

    with _in_eval_mode(function):
        try:
            check = _compare_padded(function, x, pads)
        except RuntimeError as error:
            if _holds(inverted, x, pads):
                error.add_note(INVERTED)
            raise
        if check.holds:
            return check
        if _holds(inverted, x, pads):
            return replace(check, hint=INVERTED)
        for pad_id in PAD_IDS if not x.is_floating_point() else ():
            if _holds(partial(with_pad_id, pad_id=pad_id), x, pads):
                return replace(check, hint=BY_ID.format(pad_id))
        mask = padding_mask_from_lengths(torch.full((len(x),), x.shape[_position_axis(x)], device=x.device))
        explained = _explained(check, function, x, may_attend=mask)
        is_ignored = explained.hint not in (TRAINING, KEPT) and _ignores_mask(function, x, pads)
        return replace(check, hint=IGNORED) if is_ignored else explained


def _ignores_mask(function: Callable, x: Tensor, pads: int) -> bool:
    """Whether the output is the same, whatever is hidden."""
    length, padded = x.shape[_position_axis(x)], _with_other_tokens(x, pads)
    hidden, visible = (torch.full((len(x),), real, device=x.device) for real in (length, length + pads))
    masks = [padding_mask_from_lengths(real, length + pads) for real in (hidden, visible)]
    return torch.equal(*(_run(function, padded, may_attend=mask).nan_to_num() for mask in masks))


def _holds(function: Callable, x: Tensor, pads: int) -> bool:
    with suppress(Exception):  # what it makes of another mask is its own affair
        return _compare_padded(function, x, pads).holds
    return False


def _with_other_tokens(x: Tensor, pads: int) -> Tensor:
    """x with as many copies of a token after it that is none of its own: they change a mean."""
    axis = _position_axis(x)
    return torch.cat([x, *[_other_tokens(x)[-1].narrow(axis, 0, 1)] * pads], axis)


def _compare_padded(function: Callable, x: Tensor, pads: int) -> PropertyCheck:
    axis = _position_axis(x)
    length = x.shape[axis]
    lengths = torch.full((len(x),), length, device=x.device)
    without_pads = _run(function, x, may_attend=padding_mask_from_lengths(lengths))

    copies = x.index_select(axis, torch.arange(pads, device=x.device) % length)
    # Copies of all tokens leave a mean as it is, and another token changes it.
    paddings = [(torch.cat([x, copies], axis), lengths), (_with_other_tokens(x, pads), lengths)]
    if len(x) > 1:
        # Pads in every second sequence only, since each sequence has a mask of its own. Not for sequences
        # that influence each other: their pads do so as well, and batch_invariance is what finds that.
        equal = _run(function, x[:1].expand_as(x), may_attend=padding_mask_from_lengths(lengths))
        if _compare("", equal[:1], without_pads[:1]).holds:
            odd = torch.arange(len(x), device=x.device) % 2
            paddings += [(paddings[1][0], lengths + pads * odd), (paddings[1][0], lengths + pads * (1 - odd))]
    for i, (padded, real) in enumerate(paddings):
        mask = padding_mask_from_lengths(real, length + pads)
        output = _run(function, padded, may_attend=mask)[..., :length, :]
        # A sequence with more real tokens than before is not compared.
        longer = (real > lengths).view(-1, *[1] * (output.dim() - 1))
        check = _compare("padding invariance", torch.where(longer, without_pads, output), without_pads)
        if not check.holds:
            return check if i < 2 or check.hint else replace(check, hint=ONE_FOR_ALL)
    return check


def permutation_equivariance(function: Callable, x: Tensor) -> PropertyCheck:
    """Does another order of the input only reorder the output?  Reversed, shifted by one, and shuffled.

    Raises:
        ValueError: all tokens are equal.
    """
    _check_input(x)
    axis = _position_axis(x)
    length = x.shape[axis]
    if (x == x.narrow(axis, 0, 1)).all():
        raise ValueError(f"x must hold different tokens, got {length} equal ones, which have no order")
    positions = torch.arange(length, device=x.device)
    shuffled = torch.randperm(length, generator=torch.Generator().manual_seed(0)).to(x.device)
    output, reordered = _run(function, x), []
    for order in (positions.flip(0), positions.roll(1), shuffled):
        result = _run(function, x.index_select(axis, order))
        if output.shape[-2] > 1:  # not one vector for the whole sequence
            result = result[..., order.argsort(), :]  # back in the old order
        reordered.append(result)
    wanted = output.expand(3, *output.shape)
    check = _compare("permutation equivariance", torch.stack(reordered), wanted, ("order", *_axes(output)))
    return _explained(check, function, x)


def batch_invariance(function: Callable, x: Tensor) -> PropertyCheck:
    """Is the output for a sequence the same in a batch and alone?

    Raises:
        ValueError: there is only one sequence, or all are equal.
    """
    _check_input(x, axes=3)
    if (x == x[:1]).all():
        raise ValueError(
            f"x must hold different sequences, got {len(x)}, all equal: an influence on each other would not "
            "show"
        )
    alone = torch.cat([_run(function, sequence[None]) for sequence in x])
    return _explained(_compare("batch invariance", _run(function, x), alone), function, x)


def eval_determinism(function: Callable, x: Tensor) -> PropertyCheck:
    """Do calls with the same input, and other random numbers, give the same output?

    Two calls, and more where the output is small: dropout may spare all of a few numbers.
    """
    first = _run(function, x)
    for seed in range(1, 2 + NUMBERS_TO_COMPARE // first.numel()):
        check = _compare("eval determinism", _run(function, x, seed=seed), first)
        if not check.holds:
            hint = "" if math.isinf(check.difference) else _why_two_outputs(function, x) or TRAINING
            return replace(check, hint=hint)
    return check


def distance_only(
    rotate: Callable, query: Float[Tensor, " d_head"], key: Float[Tensor, " d_head"], *, length: int = 1024
) -> PropertyCheck:
    """Does the score of one query and one key depend on the distance of their positions only?

    Both are put at every position; then all scores on a diagonal must equal the one that it begins with.

    Args:
        rotate: maps (position, d_head) to the same shape, rotated by the positions 0, 1, 2, …
        query, key: the two vectors.
        length: number of positions, at least 2; angles kept in bfloat16 go wrong from 257 on.

    Raises:
        ValueError: a vector of zeros, whose scores are all 0; a single position, which has no distance; a
            vector that comes out alike at all positions.
    """
    if length < 2:
        raise ValueError(f"length must be at least 2, got {length}: one position has no distance")
    if not (query.any() and key.any()):
        raise ValueError("query and key must not be 0, got zeros; all scores would be alike: give others")
    queries, keys = (_run(rotate, vector.expand(length, -1)) for vector in (query, key))
    if queries.shape != (length, len(query)):
        raise ValueError(f"rotate must keep the shape {(length, len(query))}, got {tuple(queries.shape)}")
    if (queries == queries[:1]).all() and (keys == keys[:1]).all():
        raise ValueError(
            "rotate must rotate, got the same vector at every position; positions are the last axis but one: "
            "does your code count another axis?"
        )
    scores = queries @ keys.mT  # (query_pos, key_pos)
    position = torch.arange(length, device=scores.device)
    ahead = position - position[:, None]  # key position − query position
    first_of_diagonal = scores[(-ahead).clamp(min=0), ahead.clamp(min=0)]
    return _compare("distance only", scores, first_of_diagonal, ("query", "key"))


# --- one experiment -------------------------------------------------------------------------------


def _run(function: Callable, x: Tensor, *, seed: int = 0, **arguments: Tensor) -> Tensor:
    """The output for a copy of x, with fixed random numbers, in eval mode, without a trace."""
    _check_input(x)
    with torch.random.fork_rng(devices=[]), torch.no_grad(), _in_eval_mode(function):
        torch.manual_seed(seed)
        result = function(x.clone(), **arguments)
    output = output_of(result)
    axes = x.dim() if x.is_floating_point() else x.dim() + 1
    if hasattr(output, "last_hidden_state"):
        raise TypeError(
            f"the function must return a tensor, got {_describe(output)}; take its .last_hidden_state: "
            "lambda x: model(x).last_hidden_state"
        )
    if not isinstance(output, Tensor) or output.dtype not in ROUNDING or output.dim() < axes:
        raise TypeError(
            f"the function must return a floating-point tensor (…, position, features) with {axes} axes, "
            f"got {_describe(output)}; one vector per sequence becomes output[:, None]"
        )
    length = x.shape[_position_axis(x)]
    if output.shape[-2] not in (1, length) or (axes > 2 and len(output) != len(x)):
        raise ValueError(
            f"the function must return {len(x)} sequences of {length} positions, or of one, got shape "
            f"{tuple(output.shape)}; return a vector for each token"
        )
    return output


def output_of(result: object) -> object:
    """The output of a module that returns (output, weights)."""
    return result[0] if isinstance(result, tuple | list) and result else result


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


def _compare(name: str, got: Tensor, wanted: Tensor, axes: tuple[str, ...] | None = None) -> PropertyCheck:
    difference = _difference(got, wanted)
    largest = difference >= difference.max() * (1 - 1e-6)  # rounding must not choose among equals
    place = largest.nonzero()[0].tolist()
    named = zip(axes or _axes(wanted), place, wanted.shape, strict=True)
    where = ", ".join(f"{axis} {i}" for axis, i, size in named if axis != "position" or size > 1)
    size = _size(wanted)
    scale = 1 if 0.01 <= size <= 100 else size
    tolerance = ROUNDING[wanted.dtype] * scale
    check = PropertyCheck(name, difference.max().item(), where, tolerance)
    if wanted.dtype == torch.float64 and check.difference <= ROUNDING[torch.float32] * scale:
        return replace(check, hint="does it compute in float32 inside? then give x in float32")
    return check


def _explained(check: PropertyCheck, function: Callable, x: Tensor, **arguments: Tensor) -> PropertyCheck:
    """The check, with a hint if it does not hold because two calls give two outputs."""
    hint = "" if check.holds else _why_two_outputs(function, x, **arguments)
    return replace(check, hint=hint) if hint else check


def _why_two_outputs(function: Callable, x: Tensor, **arguments: Tensor) -> str:
    """A hint where two calls with the same input give two outputs."""
    first, again, other = (_run(function, x, seed=seed, **arguments).nan_to_num() for seed in (0, 0, 1))
    if not _compare("two calls", again, first).holds:
        return KEPT
    return "" if torch.equal(first, other) else TRAINING


def _difference(got: Tensor, wanted: Tensor) -> Tensor:
    """|got − wanted|; infinite where either is NaN or infinite."""
    return (got - wanted).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)


def _size(x: Tensor) -> float:
    """The mean absolute value; 1 if that is 0, or not finite."""
    size = x.double().abs().mean().item()
    return size if size and math.isfinite(size) else 1.0


def _axes(output: Tensor) -> tuple[str, ...]:
    inner = (f"axis {axis}" for axis in range(1, output.dim() - 2))
    return ("sequence", *inner, "position", "feature")[-output.dim() :]


def _position_axis(x: Tensor) -> int:
    return -2 if x.is_floating_point() else -1


def _other_tokens(x: Tensor, seed: int = 0) -> list[Tensor]:
    """Other tokens for all of x: vectors moved a little, and much; or other ids of the vocabulary."""
    if x.is_floating_point():
        # Random features, since a layer norm takes out a constant. Much, and in the other direction, since a
        # maximum or a ReLU may not depend on a little.
        noise = torch.randn(x.shape[-1], generator=torch.Generator().manual_seed(seed), dtype=x.dtype)
        noise = noise.to(x.device) * 10 * _size(x)
        return [x + noise / 10, x - noise]
    if not x.any():
        raise ValueError("x must hold other ids than 0, got only that; no other is known to exist: give some")
    # The id before surely exists. 0 may be a pad's own id, so it is taken only if there is no other.
    least = 1 if x.max() > 1 else 0
    return [torch.where(x > least, x - 1, x.max())]


def _check_input(x: Tensor, axes: int = 2) -> None:
    """Raise unless x holds ids, or vectors with as many axes at least."""
    is_tensor = isinstance(x, Tensor)
    ids = is_tensor and not x.is_floating_point() and x.dtype != torch.bool and x.dim() == 2
    vectors = is_tensor and x.dtype in ROUNDING and x.dim() >= axes
    if not (ids or vectors) or 0 in x.shape:
        raise ValueError(
            "x must hold vectors (batch, position, features) or ids (batch, position), "
            f"got {_describe(x)}; add a missing axis with [None]"
        )
    if not x.isfinite().all():
        raise ValueError("x must hold finite numbers, got NaN or infinity")


def _describe(value: object) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return type(value).__name__
