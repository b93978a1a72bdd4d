"""Properties that the reference's result has, to explain a wrong result that matches no known mistake."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from transformer_course.checker.exercise_types import Exercise
from transformer_course.checker.sandbox import observe


def _near(x: Tensor, wanted: float | Tensor) -> bool:
    return bool(torch.isclose(x, torch.as_tensor(wanted, dtype=x.dtype), rtol=1e-7, atol=1e-7).all())


# Properties of one tensor, the most telling first: the name of the violation, a sentence, the test.
PROPERTIES = (
    (
        "rows that do not sum to 1",
        "Each row of {label} should sum to 1; the first that doesn't sums to {sum}.",
        lambda x: x.shape[-1] > 1 and _near(x.sum(-1), 1),
    ),
    (
        "vectors whose length is not 1",
        "The vectors of {label} should have length 1, and yours don't.",
        lambda x: x.shape[-1] > 1 and _near(x.norm(dim=-1), 1),
    ),
    (
        "vectors whose mean is not 0",
        "Each vector of {label} should have mean 0, and yours don't.",
        lambda x: x.shape[-1] > 1 and _near(x.mean(-1), 0),
    ),
    (
        "negative numbers",
        "{label} should have no negative values, and yours has some.",
        lambda x: bool((x >= 0).all()),
    ),
)
RANDOM = (
    "The same input gives a different result each time. Either something is random in every call, by "
    "dropout or by layers created in `forward`, or you read uninitialised memory, as from `torch.empty`."
)


def lacking(exercise: Exercise, attempt: Any, i: int, result: Any) -> tuple[str, str] | None:
    """Name and sentence of the first property that the reference has in case i and the attempt lacks."""
    if not exercise.takes_tensors:
        return None
    wanted, got = _tensors(exercise, exercise.wanted[i]), _tensors(exercise, result)
    if {label: x.shape for label, x in wanted.items()} != {label: x.shape for label, x in got.items()}:
        return None
    if _is_repeatable(exercise, exercise.reference, i) and not _is_repeatable(exercise, attempt, i):
        return "a different result at every call", RANDOM  # any other violation may be due to chance
    for label, right in wanted.items():
        lack = next(_of_tensor(label, right, got[label]), None)
        if lack:
            return lack
    has_it = _ignores_hidden_token(exercise, exercise.reference, i)
    if has_it and _ignores_hidden_token(exercise, attempt, i) is False:
        sentence = "Your result depends on a token that the mask hides."
        return "masked tokens affect the output", sentence
    return None


def _tensors(exercise: Exercise, result: Any) -> dict[str, Tensor]:
    """The non-empty floating-point tensors of a result, by their name in a sentence."""
    several = result if isinstance(result, tuple | list) else [result]
    names = exercise.returns or [f"result[{i}]" for i in range(len(several))]
    labels = [f"`{name}`" for name in names] if len(several) > 1 else ["your result"]
    return {
        label: x.detach()
        for label, x in zip(labels, several, strict=False)
        if isinstance(x, Tensor) and x.is_floating_point() and x.ndim and x.numel() and not x.is_meta
    }


def _of_tensor(label: str, right: Tensor, got: Tensor) -> Iterator[tuple[str, str]]:
    if _near(got, right) or not got.isfinite().all():
        return
    for name, sentence, holds in PROPERTIES:
        if holds(right) and not holds(got):
            sums = got.sum(-1).flatten()
            wrong = sums[(sums - 1).abs() > 1e-7]
            text = sentence.format(label=label, sum=f"{wrong[0]:.4g}" if wrong.numel() else "")
            yield name, text[0].upper() + text[1:]
    for one in range(right.ndim):
        for other in range(one):
            swapped = right.transpose(one, other)
            if swapped.shape == got.shape and _near(got, swapped):
                yield "two axes swapped", f"In {label}, axes {other} and {one} are swapped."
    if right.numel() > 2 and _near(got.flatten().sort().values, right.flatten().sort().values):
        yield (
            "the right values in the wrong order",
            f"All values of {label} are right, but in the wrong order: something was split, concatenated "
            "or transposed differently.",
        )


def _is_repeatable(exercise: Exercise, answer: Any, i: int) -> bool:
    """Whether two calls without reseeding agree; True if an error prevents the test."""
    with suppress(Exception):
        first, second = _two_results(exercise, answer, i)
        return all(torch.equal(x.nan_to_num(), second[label].nan_to_num()) for label, x in first.items())
    return True


def _ignores_hidden_token(exercise: Exercise, answer: Any, i: int) -> bool | None:
    """Whether the output ignores large values at a hidden position; None if the case has no such position."""
    with suppress(Exception):
        inputs = exercise.inputs(exercise.fresh_cases()[i]).values()
        mask = next(x for x in inputs if isinstance(x, Tensor) and x.dtype == torch.bool and x.ndim == 4)
        visible = mask[0].flatten(0, 1).any(dim=0)  # (key_pos): visible to any query of the first sequence
        count, hidden = len(visible), int((~visible).nonzero()[0])
        first, second = _two_results(exercise, answer, i, hidden, count)
        rest = torch.tensor([position for position in range(count) if position != hidden])
        for label, x in first.items():
            before, after = x[0], second[label][0]
            for axis in [axis for axis, size in enumerate(before.shape) if size == count]:
                before, after = before.index_select(axis, rest), after.index_select(axis, rest)
            if not before.isfinite().all():
                return None
            if not _near(after, before):
                return False
        return True
    return None


def _two_results(exercise: Exercise, answer: Any, i: int, hidden: int | None = None, count: int = 0) -> list:
    """The results for case i, and the results for the same case with large values at one position.

    hidden: this position, among `count` keys; if None, both calls have the same inputs
    """

    def call() -> list:
        first, second = (exercise.fresh_cases()[i] for _ in range(2))
        ready, changed = exercise.ready(answer, first), dict(exercise.inputs(second))
        for name, x in changed.items():
            is_vectors = isinstance(x, Tensor) and x.is_floating_point() and x.ndim >= 3
            if hidden is not None and is_vectors and x.shape[-2] == count:
                changed[name] = x.clone()
                changed[name][0, ..., hidden, :] += 1000 * (1 + torch.arange(x.shape[-1]))
        return [_tensors(exercise, exercise.use(ready, x)) for x in (exercise.inputs(first), changed)]

    return observe(call).result
