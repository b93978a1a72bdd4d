"""Further looks at an answer that is right in every case: would it be right in a lesson as well?

Each look treats the attempt and the solution in one more way, and compares what comes of it.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transformer_course.checker import forbidden_calls
from transformer_course.checker.arguments import optional
from transformer_course.checker.compare import Comparison, Difference
from transformer_course.checker.exercise_types import Exercise, ModuleExercise
from transformer_course.checker.input_mutation import parts, with_tensors
from transformer_course.checker.messages import about_ban, about_error
from transformer_course.checker.sandbox import Outcome, observe
from transformer_course.checker.time_limit import TimeLimit, TimeLimitExceeded

SLOPES_AGREE = 1e-6  # gradients gather more rounding than values do


class RobustnessCheck(NamedTuple):
    """A name for the trouble, what was done, how to do it, and how to compare.

    treat: (exercise, answer, case, an equal case) → anything
    compare: (exercise, what came of the attempt, what came of the solution) → a difference or None
    """

    name: str
    done: str
    treat: Callable[..., Any]
    compare: Callable[..., Difference | None]
    applies: Callable[[Exercise], bool] = lambda exercise: True

    def about(self, found: Difference) -> Difference:
        """What was found, and how."""
        return Difference(self.name or found.name, f"{self.done} {found.text}".strip())


def trouble(exercise: Exercise, attempt: Any, patience: TimeLimit) -> tuple[int, Difference] | None:
    """The first difference that a look finds, and in which case."""
    if not exercise.takes_tensors:
        return None
    return next(_troubles(exercise, attempt, patience), None)


def _troubles(exercise: Exercise, attempt: Any, patience: TimeLimit) -> Iterator[tuple[int, Difference]]:
    for look in (look for look in CHECKS if look.applies(exercise)):
        pairs = zip(_seen(exercise, attempt, look, patience), _solutions(exercise, look), strict=True)
        for i, (mine, theirs) in enumerate(pairs):
            if theirs.error is not None:  # the solution promises nothing here
                continue
            if isinstance(mine.error, TimeLimitExceeded):
                yield i, about_error(mine.error, attempt)
            elif mine.error is not None:
                yield i, look.about(about_error(mine.error, attempt))
            elif found := look.compare(exercise, mine.result, theirs.result):
                yield i, look.about(found)


def _seen(
    exercise: Exercise, answer: Any, look: RobustnessCheck, patience: TimeLimit | None = None
) -> Iterator[Outcome]:
    for case, same in zip(exercise.fresh_cases(), exercise.fresh_cases(), strict=True):
        yield observe(partial(look.treat, exercise, answer, case, same), patience=patience)


@cache
def _solutions(exercise: Exercise, look: RobustnessCheck) -> list[Outcome]:
    return list(_seen(exercise, exercise.reference, look))


# ----------------------------------------------------------------------------------------------- treatments


def _watched(exercise: Exercise, answer: Any, case: Any, same: Any) -> str | None:
    return forbidden_calls.done_by(partial(exercise.call, answer, case), exercise.forbidden)


def _twice(exercise: Exercise, answer: Any, case: Any, same: Any) -> Any:
    ready = exercise.ready(answer, case)
    others = _changed(exercise.inputs(case), _other_numbers)
    with suppress(Exception):  # these numbers may be none that the exercise allows
        exercise.use(ready, others)
    return exercise.use(ready, exercise.inputs(same))


def _other_numbers(x: Tensor) -> Tensor:
    """What is kept of these does not fit the next call; integers, which may be sizes or ids, stay."""
    return ~x if x.dtype == torch.bool else -x if x.is_floating_point() else x


def _without_options(exercise: Exercise, answer: Any, case: Any, same: Any) -> Any:
    """After a call with all arguments, one with only those that have to be given."""
    ready, inputs = exercise.ready(answer, case), exercise.inputs(case)
    exercise.use(ready, inputs)
    few = {name: value for name, value in exercise.inputs(same).items() if name not in _options(exercise)}
    return exercise.use(ready, few)


def _options(exercise: Exercise) -> set[str]:
    return optional(getattr(exercise.reference, "forward", exercise.reference))


def _by_columns(exercise: Exercise, answer: Any, case: Any, same: Any) -> Any:
    given = exercise.inputs(case)
    turned = _changed(given, lambda x: x.mT.contiguous().mT if x.ndim > 1 else x)
    inputs = {name: given[name] if "weight" in name else turned[name] for name in given}
    return exercise.use(exercise.ready(answer, case), inputs)


def _in_training(exercise: Exercise, answer: Any, case: Any, same: Any) -> Any:
    ready = exercise.ready(answer, case)
    result = exercise.use(ready.train(), exercise.inputs(case))
    return result, exercise.use(ready.eval(), exercise.inputs(same))


def _with_slopes(exercise: Exercise, answer: Any, case: Any, same: Any) -> tuple[Any, dict[str, Tensor]]:
    return _result_and_slopes(exercise, exercise.ready(answer, case), exercise.inputs(case))


def _fresh(exercise: Exercise, answer: Any, case: Any, same: Any) -> tuple | None:
    """What a fresh module does, and what the solution does with the same parameters."""
    module = exercise.build(answer, case[0]).eval()
    own = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    mine = _result_and_slopes(exercise, module, exercise.inputs(case))
    solution = exercise.ready(exercise.reference, same, own)
    return mine, _result_and_slopes(exercise, solution, exercise.inputs(same))


def _result_and_slopes(exercise: Exercise, ready: Callable, inputs: dict) -> tuple[Any, dict[str, Tensor]]:
    """And the gradients of all results, mixed into one number: of each input and parameter they reach."""
    inputs = _changed(inputs, lambda x: x.clone().requires_grad_() if x.is_floating_point() else x)
    among = {**inputs, "self": ready} if isinstance(exercise, ModuleExercise) else inputs
    found = [each for name, value in among.items() for each in parts(value, name)]
    leaves = {path: part for path, part in found if isinstance(part, Tensor) and part.requires_grad}
    result = exercise.use(ready, inputs)
    mixture = _mixture(result)
    if not (leaves and mixture.requires_grad):
        return result, {}
    slopes = torch.autograd.grad(mixture, list(leaves.values()), allow_unused=True)
    return result, {path: slope for path, slope in zip(leaves, slopes, strict=True) if slope is not None}


def _mixture(result: Any) -> Tensor:
    """All floats of the result, each with a weight of its own, in one sum."""
    generator = torch.Generator().manual_seed(0)
    tensors = [part for _, part in parts(result) if isinstance(part, Tensor)]
    floats = [tensor for tensor in tensors if tensor.is_floating_point()]
    weighted = [part * torch.randn(part.shape, generator=generator).to(part) for part in floats]
    return sum((part.sum() for part in weighted), torch.zeros(()))


def _changed(inputs: dict[str, Any], change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """The same with all its tensors changed; one that asks for a gradient stays, for it may hold one."""
    return with_tensors(inputs, lambda x: x if x.requires_grad else change(x))


# ---------------------------------------------------------------------------------------------- comparisons


def _ban(exercise: Exercise, mine: str | None, theirs: str | None) -> Difference | None:
    return mine and about_ban(mine)


def _results(exercise: Exercise, mine: Any, theirs: Any) -> Difference | None:
    return replace(exercise.comparison, names=exercise.returns).difference(mine, theirs, "Your result")


def _numbers(exercise: Exercise, mine: Any, theirs: Any) -> Difference | None:
    wanted = dict(parts(theirs))
    for path, part in parts(mine):
        if isinstance(part, Tensor) and part.requires_grad and isinstance(wanted.get(path), int | float):
            text = "The values are tensors that hold all they were computed from."
            return Difference("tensors for numbers", f"{text} `.item()` or `float(…)` makes a number.")
    return None


def _trained(exercise: Exercise, mine: Any, theirs: Any) -> Difference | None:
    if _results(exercise, *theirs):  # there is dropout, or another thing of training
        return None
    return _results(exercise, mine[0], theirs[0]) or _results(exercise, mine[1], theirs[1])


def _gradients(exercise: Exercise, mine: tuple, theirs: tuple) -> Difference | None:
    comparison = Comparison(max(SLOPES_AGREE, exercise.comparison.tolerance))
    for path, wanted in theirs[1].items():
        if path not in mine[1]:
            stops = "`.detach()`, `.data`, `.item()`, `.tolist()` and `torch.no_grad()` stop it"
            new = "a new tensor, such as `torch.tensor(0.0)`, has none: compute it from what came in"
            return Difference("no gradient", f"None reaches `{path}`: {stops}; {new}.")
        if wanted.isfinite().all():
            if mine[1][path].isnan().any():
                return Difference("NaN in the gradient", _NAN_ON_THE_WAY_BACK.format(path))
            difference = comparison.difference(mine[1][path], wanted, f"That of `{path}`")
            if difference is not None:
                return difference
    return None


_NAN_ON_THE_WAY_BACK = (
    "That of `{}` is NaN. Zeros written over a NaN mend the value only: on the way back 0 · NaN is NaN. "
    "See to it that 0/0, or the softmax of −∞ only, is never computed: mend divisor or scores before."
)


def _both(exercise: Exercise, mine: tuple, theirs: tuple) -> Difference | None:
    fresh, solution = mine
    found = _results(exercise, fresh[0], solution[0])
    return found or (_gradients(exercise, fresh, solution) if exercise.gradients else None)


def _is_module(exercise: Exercise) -> bool:
    return isinstance(exercise, ModuleExercise)


CHECKS = (
    RobustnessCheck("", "", _watched, _ban, lambda exercise: bool(exercise.forbidden)),
    RobustnessCheck("", "", lambda exercise, answer, case, same: exercise.call(answer, case), _numbers),
    RobustnessCheck(
        "a second call gives something else",
        "Called once with other numbers, then with the ones above:",
        _twice,
        _results,
    ),
    RobustnessCheck(
        "it remembers an earlier call",
        "Called with all arguments, then with only those that must be given:",
        _without_options,
        _results,
        lambda exercise: bool(_options(exercise)),
    ),
    RobustnessCheck(
        "it depends on the order in memory",
        "Called with equal numbers that lie in memory column by column, as a transpose leaves them:",
        _by_columns,
        _results,
    ),
    RobustnessCheck(
        "it differs in training mode", "Called in training mode:", _in_training, _trained, _is_module
    ),
    RobustnessCheck(
        "another gradient",
        "The values are right, but the gradients flow otherwise.",
        _with_slopes,
        _gradients,
        lambda exercise: exercise.gradients,
    ),
    RobustnessCheck(
        "a fresh module is wrong", "With the parameters that its constructor made:", _fresh, _both, _is_module
    ),
)
