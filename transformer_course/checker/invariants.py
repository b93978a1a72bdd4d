"""What a right result has and this one lacks: said in words, before numbers, where no mistake explains it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transformer_course.checker.exercise_types import Exercise
from transformer_course.checker.sandbox import observe
from transformer_course.checker.time_limit import TimeLimit


class Property(NamedTuple):
    """A name for its lack, a sentence about it, and how to see whether a result has it."""

    lack: str
    sentence: str
    holds: Callable[[Tensor], bool]


def _near(x: Tensor, wanted: float | Tensor) -> bool:
    return bool(torch.isclose(x, torch.as_tensor(wanted, dtype=x.dtype), rtol=1e-7, atol=1e-7).all())


# Of a tensor by itself, the most telling first.
OF_A_RESULT = (
    Property(
        "rows that do not add up to 1",
        "The rows of {label} add up to 1 if they are right; the first that does not adds up to {sum}.",
        lambda x: x.shape[-1] > 1 and _near(x.sum(-1), 1),
    ),
    Property(
        "vectors that have not length 1",
        "The vectors of {label} have length 1 if they are right, and yours have not.",
        lambda x: x.shape[-1] > 1 and _near(x.norm(dim=-1), 1),
    ),
    Property(
        "vectors whose mean is not 0",
        "The numbers of each vector of {label} have the mean 0 if they are right, and yours have not.",
        lambda x: x.shape[-1] > 1 and _near(x.mean(-1), 0),
    ),
    Property(
        "negative numbers",
        "{label} has no negative number if it is right, and yours has.",
        lambda x: bool((x >= 0).all()),
    ),
)


RANDOM = (
    "The same input gives another result each time. Something is drawn anew at every call, by dropout or by "
    "layers made in `forward`; or memory is read that was never written, as `torch.empty` leaves it."
)


def lacking(
    exercise: Exercise, attempt: Any, i: int, result: Any, patience: TimeLimit
) -> tuple[str, str] | None:
    """The name and the sentence of the first property that is lacking in case i, and that the truth has."""
    if not exercise.takes_tensors:
        return None
    wanted, got = _tensors(exercise, exercise.wanted[i]), _tensors(exercise, result)
    if {label: x.shape for label, x in wanted.items()} != {label: x.shape for label, x in got.items()}:
        return None
    if _is_steady(exercise, exercise.reference, i) and not _is_steady(exercise, attempt, i, patience):
        return "another result at every call", RANDOM  # whatever else it seems to lack may be chance
    return next(_of_results(wanted, got), None) or next(_of_behaviour(exercise, attempt, i, patience), None)


def _tensors(exercise: Exercise, result: Any) -> dict[str, Tensor]:
    """The floats of a result, by what they are called in a sentence."""
    several = result if isinstance(result, tuple | list) else [result]
    names = exercise.returns or [f"result[{i}]" for i in range(len(several))]
    labels = [f"`{name}`" for name in names] if len(several) > 1 else ["your result"]
    return {
        label: x.detach()
        for label, x in zip(labels, several, strict=False)
        if isinstance(x, Tensor) and x.is_floating_point() and x.ndim and x.numel() and not x.is_meta
    }


def _of_results(wanted: dict[str, Tensor], got: dict[str, Tensor]) -> Iterator[tuple[str, str]]:
    for label, right in wanted.items():
        mine = got[label]
        if _near(mine, right) or not mine.isfinite().all():
            continue
        for each in OF_A_RESULT:
            if each.holds(right) and not each.holds(mine):
                sums = mine.sum(-1).flatten()
                odd = sums[(sums - 1).abs() > 1e-7]
                sentence = each.sentence.format(label=label, sum=f"{odd[0]:.4g}" if odd.numel() else "")
                yield each.lack, sentence[0].upper() + sentence[1:]
        yield from _moved(label, right, mine)


def _moved(label: str, right: Tensor, mine: Tensor) -> Iterator[tuple[str, str]]:
    """The right numbers, elsewhere."""
    for one in range(right.ndim):
        for other in range(one):
            swapped = right.transpose(one, other)
            if swapped.shape == mine.shape and _near(mine, swapped):
                yield "two axes exchanged", f"You have {label} with its axes {other} and {one} exchanged."
    if right.numel() > 2 and _near(mine.flatten().sort().values, right.flatten().sort().values):
        yield (
            "the right numbers in other places",
            f"All numbers of {label} are right, and stand in other places: something was cut, joined or "
            "transposed in another order.",
        )


# ---------------------------------------------------------------------------------------------- behaviour


def _of_behaviour(exercise: Exercise, attempt: Any, i: int, patience: TimeLimit) -> Iterator[tuple[str, str]]:
    for change, lack, sentence in (
        (
            _alone,
            "sequences that hear each other",
            "The result for one sequence changes with the others in its batch, and should not.",
        ),
        (
            _other_at_hidden,
            "hidden tokens that are heard",
            "Your result changes with a token that the mask hides, and should not.",
        ),
    ):
        has_it = _stays(exercise, exercise.reference, i, change)
        if has_it and _stays(exercise, attempt, i, change, patience) is False:
            yield lack, sentence


def _is_steady(exercise: Exercise, answer: Any, i: int, patience: TimeLimit | None = None) -> bool:
    """Whether it gives the same twice, without a seed between the calls; true if that cannot be told."""
    with suppress(Exception):
        one, other, _ = _two_results(exercise, answer, i, lambda inputs: (inputs, None), patience)
        return all(torch.equal(x.nan_to_num(), other[label].nan_to_num()) for label, x in one.items())
    return True


def _stays(
    exercise: Exercise, answer: Any, i: int, change: Callable, patience: TimeLimit | None = None
) -> bool | None:
    """Whether the first sequence's result stays as it is under the change; None if that cannot be told."""
    with suppress(Exception):
        one, other, position = _two_results(exercise, answer, i, change, patience)
        kept = {label: _without(x[0], position) for label, x in one.items()}
        if all(x.isfinite().all() for x in kept.values()):
            return all(_near(_without(other[label][0], position), x) for label, x in kept.items())
    return None


def _two_results(
    exercise: Exercise, answer: Any, i: int, change: Callable, patience: TimeLimit | None
) -> tuple:
    """Its results for the inputs of case i and for changed ones, and what else the change tells."""

    def call() -> tuple:
        cases = [exercise.fresh_cases()[i] for _ in range(2)]
        ready = exercise.ready(answer, cases[0])
        others, position = change(exercise.inputs(cases[1]))
        results = exercise.use(ready, exercise.inputs(cases[0])), exercise.use(ready, others)
        return *(_tensors(exercise, result) for result in results), position

    return observe(call, patience=patience).result


def _without(x: Tensor, position: tuple[int, int] | None) -> Tensor:
    """Without what belongs to one of so many positions."""
    if position is not None:
        count, place = position
        rest = torch.tensor([i for i in range(count) if i != place])
        for axis in [axis for axis, size in enumerate(x.shape) if size == count]:
            x = x.index_select(axis, rest)
    return x


def _alone(inputs: dict[str, Any]) -> tuple[dict[str, Any], None]:
    """The first sequence by itself, if the inputs agree on a batch of more than one."""
    batched = {name: x for name, x in inputs.items() if isinstance(x, Tensor) and x.ndim >= 3}
    if len({len(x) for x in batched.values()} - {1}) != 1:
        raise LookupError("no batch")
    return {**inputs, **{name: x[:1] for name, x in batched.items()}}, None


def _other_at_hidden(inputs: dict[str, Any]) -> tuple[dict[str, Any], tuple[int, int]]:
    """Large numbers at the first position that no query of the first sequence may attend to; its place."""
    mask = next(x for x in inputs.values() if isinstance(x, Tensor) and x.dtype == torch.bool and x.ndim == 4)
    hidden = ~mask[0].flatten(0, 1).any(dim=0)  # (key_pos)
    position = int(hidden.nonzero()[0])
    keys = {name: x.clone() for name, x in inputs.items() if _has_keys(x, len(hidden))}
    for x in keys.values():
        x[0, ..., position, :] += 1000 * (1 + torch.arange(x.shape[-1]))
    return {**inputs, **keys}, (len(hidden), position)


def _has_keys(x: Any, count: int) -> bool:
    is_vectors = isinstance(x, Tensor) and x.is_floating_point() and x.ndim >= 3
    return is_vectors and x.shape[-2] == count
