"""Property checks: experiments on a function or module of yours, each with a result of one line.

The function maps x to an output, or to (output, weights), of which only the output is checked. x contains
vectors (batch, position, features) or token ids (batch, position). Modules are run in eval mode. A function
is called as it is, so set modules inside it to eval mode yourself.

ValueError is raised if x is of another kind; if x cannot reveal anything, for example equal tokens where the
order is tested; and if the output has other sequences or positions than x (a single position is allowed: a
mean, or [CLS]). TypeError is raised if the function does not return vectors.
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

# The largest difference that counts as rounding, for values of the magnitude after a layer norm.
ROUNDING = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-1}
INVERTED = (
    "is your mask inverted? In may_attend, True means may attend; in PyTorch's masks, True means hidden"
)
BY_ID = "it holds if the padding has the id {0}; set this id: ids.masked_fill(~may_attend[:, 0, 0], {0})"
PAD_IDS = (0, 1)  # of most tokenizers
IGNORED = "the output is the same with and without the mask: does the function use it?"
ONE_FOR_ALL = "it holds if all sequences have equally much padding: does each sequence get its own mask?"
TRAINING = (
    "the same x gives different outputs: is something random, or a module in training mode, with dropout?"
)
KEPT = (
    "the same x gives different outputs, even with the same random seed: is state kept between calls, as in "
    "a counter or a cache, or are random numbers drawn without torch's generator?"
)
# Calls are repeated until this many values have been compared, so that rare random events are detected.
NUMBERS_TO_COMPARE = 1000


@dataclass(frozen=True)
class PropertyCheck:
    """The result of a property check: the largest difference, its position, and the tolerance for rounding.

    hint: the likely cause, if one is known.
    """

    name: str
    difference: float
    where: str
    tolerance: float
    hint: str = ""

    @property
    def holds(self) -> bool:
        """Whether the largest difference is within the tolerance."""
        return self.difference <= self.tolerance

    def __repr__(self) -> str:
        if self.holds:  # rounding differs between processors, so only the tolerance is printed
            return f"✓ {self.name} holds: largest difference below {self.tolerance:.0e}"
        hint = self.hint and f"; {self.hint}"
        if math.isinf(self.difference):
            return f"✗ {self.name} cannot be checked: the output is NaN or infinite, at {self.where}{hint}"
        return f"✗ {self.name} does not hold: largest difference {self.difference:.2g}, at {self.where}{hint}"


def leak_map(function: Callable, x: Tensor) -> Float[Tensor, "output_pos input_pos"]:
    """Return how much each output position changes when one input position is changed.

    Column j is the effect of position j; 0 at [i, j] means that output i does not depend on input j. Vectors
    are changed twice, by a small and by a large amount, in opposite directions.

    Args:
        function: maps x to (…, position, features).
        x: vectors (…, position, features), or token ids (batch, position).

    Raises:
        ValueError: if two calls give different outputs, because every position would seem to leak.
    """
    before = _run(function, x)
    if not torch.equal(before.nan_to_num(), _run(function, x).nan_to_num()):
        raise ValueError(
            "the function must return the same output for the same x, got different outputs in two calls; "
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
    """Check that padding does not change the output at real positions: `function(x, may_attend=…)`.

    The padding consists of ordinary tokens, so only the mask distinguishes it from real tokens.

    Wrap a function whose mask has another name (lambda x, may_attend: model(x, mask=may_attend)) or another
    format (see mask_conventions). For a model that detects padding by an id, insert this id:
    lambda ids, may_attend: model(ids.masked_fill(~may_attend[:, 0, 0], pad_id)).

    Raises:
        ValueError: if `pads` is less than 1, or all ids are 0.
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
    """Return whether the output is the same for two different masks."""
    length, padded = x.shape[_position_axis(x)], _with_other_tokens(x, pads)
    hidden, visible = (torch.full((len(x),), real, device=x.device) for real in (length, length + pads))
    masks = [padding_mask_from_lengths(real, length + pads) for real in (hidden, visible)]
    return torch.equal(*(_run(function, padded, may_attend=mask).nan_to_num() for mask in masks))


def _holds(function: Callable, x: Tensor, pads: int) -> bool:
    with suppress(Exception):  # this variant of the call may be invalid for the function
        return _compare_padded(function, x, pads).holds
    return False


def _with_other_tokens(x: Tensor, pads: int) -> Tensor:
    """Return x followed by `pads` copies of a token that differs from its tokens, so that a mean changes."""
    axis = _position_axis(x)
    return torch.cat([x, *[_other_tokens(x)[-1].narrow(axis, 0, 1)] * pads], axis)


def _compare_padded(function: Callable, x: Tensor, pads: int) -> PropertyCheck:
    axis = _position_axis(x)
    length = x.shape[axis]
    lengths = torch.full((len(x),), length, device=x.device)
    without_pads = _run(function, x, may_attend=padding_mask_from_lengths(lengths))

    copies = x.index_select(axis, torch.arange(pads, device=x.device) % length)
    # Copies of all tokens would leave a mean unchanged; a different token changes it.
    paddings = [(torch.cat([x, copies], axis), lengths), (_with_other_tokens(x, pads), lengths)]
    if len(x) > 1:
        # Padding in every second sequence only, since each sequence has its own mask. Skipped if sequences
        # influence each other, because their padding does as well; batch_invariance detects that.
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
    """Check that reordering the input only reorders the output: reversed, shifted by one, and shuffled.

    Raises:
        ValueError: if all tokens are equal.
    """
    _check_input(x)
    axis = _position_axis(x)
    length = x.shape[axis]
    if (x == x.narrow(axis, 0, 1)).all():
        raise ValueError(f"x must contain different tokens, got {length} equal tokens, which have no order")
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
    """Check that the output for a sequence is the same in a batch and alone.

    Raises:
        ValueError: if there is only one sequence, or all sequences are equal.
    """
    _check_input(x, axes=3)
    if (x == x[:1]).all():
        raise ValueError(
            f"x must contain different sequences, got {len(x)} equal: an influence of one on another would "
            "not be visible"
        )
    alone = torch.cat([_run(function, sequence[None]) for sequence in x])
    return _explained(_compare("batch invariance", _run(function, x), alone), function, x)


def eval_determinism(function: Callable, x: Tensor) -> PropertyCheck:
    """Check that the same input gives the same output, even with different random seeds.

    Two calls are compared, and more if the output is small, because dropout may happen to keep a few values.
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
    """Check that the score of a query and a key depends on their positions only by the distance.

    Both vectors are placed at every position; all scores on a diagonal must then equal its first score.

    Args:
        rotate: maps (position, d_head) to the same shape, rotated by the positions 0, 1, 2, …
        query, key: the two vectors.
        length: number of positions, at least 2; errors of bfloat16 angles appear from position 257 on.

    Raises:
        ValueError: if a vector is zero, so that all its scores are 0; if there is only one position, which
            has no distance; if the output of `rotate` is the same at all positions.
    """
    if length < 2:
        raise ValueError(f"length must be at least 2, got {length}: one position has no distance")
    if not (query.any() and key.any()):
        raise ValueError("query and key must not be 0, got zeros; all scores would be equal: pass others")
    queries, keys = (_run(rotate, vector.expand(length, -1)) for vector in (query, key))
    if queries.shape != (length, len(query)):
        raise ValueError(f"rotate must keep the shape {(length, len(query))}, got {tuple(queries.shape)}")
    if (queries == queries[:1]).all() and (keys == keys[:1]).all():
        raise ValueError(
            "rotate must rotate, got the same vector at every position; the position is the last axis but "
            "one: does your code use another axis?"
        )
    scores = queries @ keys.mT  # (query_pos, key_pos)
    position = torch.arange(length, device=scores.device)
    ahead = position - position[:, None]  # key position − query position
    first_of_diagonal = scores[(-ahead).clamp(min=0), ahead.clamp(min=0)]
    return _compare("distance only", scores, first_of_diagonal, ("query", "key"))


# --- one experiment -------------------------------------------------------------------------------


def _run(function: Callable, x: Tensor, *, seed: int = 0, **arguments: Tensor) -> Tensor:
    """Return the output for a copy of x, with a fixed random seed, in eval mode, without gradients."""
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
            f"got {_describe(output)}; return one vector per sequence as output[:, None]"
        )
    length = x.shape[_position_axis(x)]
    if output.shape[-2] not in (1, length) or (axes > 2 and len(output) != len(x)):
        raise ValueError(
            f"the function must return {len(x)} sequences of {length} positions, or of one, got shape "
            f"{tuple(output.shape)}; return a vector for each token"
        )
    return output


def output_of(result: object) -> object:
    """Return the output of a module that may return (output, weights)."""
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
    largest = difference >= difference.max() * (1 - 1e-6)  # rounding must not decide between equal maxima
    place = largest.nonzero()[0].tolist()
    named = zip(axes or _axes(wanted), place, wanted.shape, strict=True)
    where = ", ".join(f"{axis} {i}" for axis, i, size in named if axis != "position" or size > 1)
    size = _size(wanted)
    scale = 1 if 0.01 <= size <= 100 else size
    tolerance = ROUNDING[wanted.dtype] * scale
    check = PropertyCheck(name, difference.max().item(), where, tolerance)
    if wanted.dtype == torch.float64 and check.difference <= ROUNDING[torch.float32] * scale:
        return replace(check, hint="does it compute in float32 internally? then pass x in float32")
    return check


def _explained(check: PropertyCheck, function: Callable, x: Tensor, **arguments: Tensor) -> PropertyCheck:
    """Return the check, with a hint if it does not hold because two calls give different outputs."""
    hint = "" if check.holds else _why_two_outputs(function, x, **arguments)
    return replace(check, hint=hint) if hint else check


def _why_two_outputs(function: Callable, x: Tensor, **arguments: Tensor) -> str:
    """Return a hint if two calls with the same input give different outputs, otherwise ""."""
    first, again, other = (_run(function, x, seed=seed, **arguments).nan_to_num() for seed in (0, 0, 1))
    if not _compare("two calls", again, first).holds:
        return KEPT
    return "" if torch.equal(first, other) else TRAINING


def _difference(got: Tensor, wanted: Tensor) -> Tensor:
    """Return |got − wanted|; infinite where either is NaN or infinite."""
    return (got - wanted).abs().nan_to_num(nan=torch.inf, posinf=torch.inf)


def _size(x: Tensor) -> float:
    """Return the mean absolute value; 1 if it is 0 or not finite."""
    size = x.double().abs().mean().item()
    return size if size and math.isfinite(size) else 1.0


def _axes(output: Tensor) -> tuple[str, ...]:
    inner = (f"axis {axis}" for axis in range(1, output.dim() - 2))
    return ("sequence", *inner, "position", "feature")[-output.dim() :]


def _position_axis(x: Tensor) -> int:
    return -2 if x.is_floating_point() else -1


def _other_tokens(x: Tensor, seed: int = 0) -> list[Tensor]:
    """Return replacements for all tokens of x: vectors changed by a little and by a lot, or other ids."""
    if x.is_floating_point():
        # Random features, since a layer norm removes a constant. Also large and in the opposite direction,
        # since a maximum or a ReLU may not respond to a small change.
        noise = torch.randn(x.shape[-1], generator=torch.Generator().manual_seed(seed), dtype=x.dtype)
        noise = noise.to(x.device) * 10 * _size(x)
        return [x + noise / 10, x - noise]
    if not x.any():
        raise ValueError("x must contain other ids than 0, got only 0; the vocabulary size is unknown")
    # The previous id certainly exists. Id 0 may be the padding id, so it is used only if there is no other.
    least = 1 if x.max() > 1 else 0
    return [torch.where(x > least, x - 1, x.max())]


def _check_input(x: Tensor, axes: int = 2) -> None:
    """Raise unless x contains ids, or vectors with at least `axes` axes."""
    is_tensor = isinstance(x, Tensor)
    ids = is_tensor and not x.is_floating_point() and x.dtype != torch.bool and x.dim() == 2
    vectors = is_tensor and x.dtype in ROUNDING and x.dim() >= axes
    if not (ids or vectors) or 0 in x.shape:
        raise ValueError(
            "x must contain vectors (batch, position, features) or ids (batch, position), "
            f"got {_describe(x)}; add a missing axis with [None]"
        )
    if not x.isfinite().all():
        raise ValueError("x must contain finite numbers, got NaN or infinity")


def _describe(value: object) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return type(value).__name__
