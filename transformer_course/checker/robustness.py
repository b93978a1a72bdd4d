"""Robustness checks for an answer that is correct in every case: would it also work in a lesson?

Each check runs the attempt and the reference under one further condition, and compares the results.
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
from transformer_course.checker.messages import NO_WAY_BACK, about_error, about_forbidden_call
from transformer_course.checker.sandbox import Outcome, observe
from transformer_course.checker.time_limit import TimeLimitExceeded

GRADIENT_TOLERANCE = 1e-6  # gradients accumulate more rounding error than values


class RobustnessCheck(NamedTuple):
    """What to run for the attempt and the reference, how to compare the results, and how to describe it.

    name: the name of the problem; empty if the difference has its own name
    done: a phrase that says what was run
    compare: (exercise, result of the attempt, result of the reference) → a difference or None
    applies: whether the check is meaningful for an exercise
    run: (exercise, answer, case, an equal case) → anything
    """

    name: str
    done: str
    compare: Callable[..., Difference | None]
    applies: Callable[[Exercise], Any]
    run: Callable[..., Any]


CHECKS: list[RobustnessCheck] = []


def problem(exercise: Exercise, attempt: Any) -> tuple[int, Difference] | None:
    """The first problem that a check finds, with the index of its case."""
    checks = CHECKS if exercise.takes_tensors else []
    for check in (check for check in checks if check.applies(exercise)):
        pairs = zip(_outcomes(exercise, attempt, check), _of_reference(exercise, check), strict=True)
        for i, (mine, reference) in enumerate(pairs):
            if reference.error is not None:  # the reference does not support this condition
                continue
            if isinstance(mine.error, TimeLimitExceeded):
                return i, about_error(mine.error, attempt)
            if mine.error is not None:
                difference = about_error(mine.error, attempt)
                if difference.name == NO_WAY_BACK:
                    return i, difference
            else:
                difference = check.compare(exercise, mine.result, reference.result)
            if difference:
                return i, Difference(check.name or difference.name, f"{check.done} {difference.text}".strip())
    return None


def _outcomes(exercise: Exercise, answer: Any, check: RobustnessCheck) -> Iterator[Outcome]:
    for case, same in zip(exercise.fresh_cases(), exercise.fresh_cases(), strict=True):
        yield observe(partial(check.run, exercise, answer, case, same))


@cache
def _of_reference(exercise: Exercise, check: RobustnessCheck) -> list[Outcome]:
    return list(_outcomes(exercise, exercise.reference, check))


# ---------------------------------------------------------------------------------------------- comparisons


def _compare(exercise: Exercise, mine: Any, reference: Any) -> Difference | None:
    return replace(exercise.comparison, names=exercise.returns).difference(mine, reference, "Your result")


def _compare_each(exercise: Exercise, mine: list, reference: list) -> Difference | None:
    differences = (_compare(exercise, *pair) for pair in zip(mine, reference, strict=True))
    return next(filter(None, differences), None)


def _compare_numbers(exercise: Exercise, mine: Any, reference: Any) -> Difference | None:
    wanted = dict(parts(reference))
    for path, part in parts(mine):
        if isinstance(part, Tensor) and part.requires_grad and isinstance(wanted.get(path), int | float):
            text = "The values are tensors, which keep the whole graph that computed them in memory."
            return Difference(
                "tensors for numbers", f"{text} Turn each one into a number with `.item()` or `float(…)`."
            )
    return None


def _compare_training(exercise: Exercise, mine: tuple, reference: tuple) -> Difference | None:
    training, _, evaluation = reference
    if _compare(exercise, training, evaluation):  # it has dropout, for example
        return None
    if _compare(exercise, mine[1], mine[0]):
        text = (
            "the results are random, as with dropout. This exercise doesn't ask for dropout: leave it out, "
            "or let its probability default to 0.0."
        )
        return Difference("random", text)
    return _compare(exercise, mine[0], training) or _compare(exercise, mine[2], evaluation)


def _compare_devices(exercise: Exercise, mine: bool, reference: bool) -> Difference | None:
    if mine or not reference:
        return None
    text = (
        "a tensor that it computes with stays on the old device, because it's neither a buffer nor a "
        "parameter. Use the registered buffer: `self.` and its name in `register_buffer`."
    )
    return Difference("left behind", text)


def _compare_gradients(exercise: Exercise, mine: tuple, reference: tuple) -> Difference | None:
    comparison = Comparison(max(GRADIENT_TOLERANCE, exercise.comparison.tolerance))
    for path, wanted in reference[1].items():
        if path not in mine[1]:
            stops = "`.detach()`, `.data`, `.item()`, `.tolist()` and `torch.no_grad()` stop gradients"
            new = "a new tensor, such as `torch.tensor(0.0)`, has none; compute it from the inputs"
            return Difference("no gradient", f"No gradient reaches `{path}`. {stops}, and {new}.")
        if not wanted.isfinite().all():
            continue
        if mine[1][path].isnan().any():
            text = (
                f"The gradient of `{path}` is NaN. Overwriting a NaN with zero repairs the value only: in "
                "the backward pass, 0 × NaN is NaN. Make sure that 0/0, or a softmax of only −∞, is never "
                "computed: change the divisor or the scores first."
            )
            return Difference("NaN in the gradient", text)
        difference = comparison.difference(mine[1][path], wanted, f"The gradient of `{path}`")
        if difference is not None:
            return difference
    return None


def _compare_own_parameters(exercise: Exercise, mine: tuple, reference: tuple) -> Difference | None:
    attempt, same_parameters = mine
    difference = _compare(exercise, attempt[0], same_parameters[0])
    return difference or (
        _compare_gradients(exercise, attempt, same_parameters) if exercise.gradients else None
    )


# --------------------------------------------------------------------------------------------------- checks


def _check(
    name: str = "",
    done: str = "",
    compare: Callable[..., Difference | None] = _compare,
    applies: Callable[[Exercise], Any] = lambda exercise: True,
) -> Callable[[Callable], Callable]:
    """Register the decorated function as the `run` of a check."""
    return lambda run: CHECKS.append(RobustnessCheck(name, done, compare, applies, run)) or run


def _options(exercise: Exercise) -> set[str]:
    return optional(getattr(exercise.reference, "forward", exercise.reference))


def _is_module(exercise: Exercise) -> bool:
    return isinstance(exercise, ModuleExercise)


@_check(
    compare=lambda exercise, mine, reference: mine and about_forbidden_call(mine),
    applies=lambda exercise: exercise.forbidden,
)
def _forbidden_call(exercise: Exercise, answer: Any, case: Any, same: Any) -> str | None:
    return forbidden_calls.first_in(partial(exercise.call, answer, case), exercise.forbidden)


@_check(compare=_compare_numbers)
def _call(exercise: Exercise, answer: Any, case: Any, same: Any) -> Any:
    return exercise.call(answer, case)


@_check("a second call differs", "Called a second time, after a call with other values:")
def _second_call(exercise: Exercise, answer: Any, case: Any, same: Any) -> Any:
    def negated(x: Tensor) -> Tensor:  # leave integers unchanged: they may be sizes or ids
        return ~x if x.dtype == torch.bool else -x if x.is_floating_point() else x

    ready = exercise.ready(answer, case)
    with suppress(Exception):  # the changed inputs may be invalid for this exercise
        exercise.use(ready, _with_changed(exercise.inputs(case), negated))
    return exercise.use(ready, exercise.inputs(same))


@_check(
    "a second call differs",
    "Called a second time, after a call with a smaller input:",
    _compare_each,
    _is_module,
)
def _smaller_first(exercise: Exercise, answer: Any, case: Any, same: Any) -> list[Any]:
    """Call with one axis shorter, then as usual, for each axis that the reference accepts shorter."""
    inputs, results = exercise.inputs(case), []
    sizes = {size for _, part in parts(inputs) for size in getattr(part, "shape", ()) if size > 1}
    for size in sorted(sizes):
        smaller = partial(_with_changed, inputs, partial(_shortened, size=size))
        try:
            exercise.use(exercise.ready(exercise.reference, same), smaller())
        except Exception:  # an axis of fixed size, such as d_model
            continue
        ready = exercise.ready(answer, case)
        with suppress(Exception):
            exercise.use(ready, smaller())
        results.append(exercise.use(ready, inputs))
    return results


def _shortened(x: Tensor, size: int) -> Tensor:
    """A copy without the last entry along each axis of this size."""
    for dim in (dim for dim, length in enumerate(x.shape) if length == size):
        x = x.narrow(dim, 0, size - 1)
    return x.clone()


@_check(
    "it remembers an earlier call",
    "Called with all arguments, then again with only the required ones:",
    applies=_options,
)
def _without_options(exercise: Exercise, answer: Any, case: Any, same: Any) -> Any:
    ready, options = exercise.ready(answer, case), _options(exercise)
    exercise.use(ready, exercise.inputs(case))
    required = {name: value for name, value in exercise.inputs(same).items() if name not in options}
    return exercise.use(ready, required)


@_check(
    "it depends on the memory layout",
    "Called with the same values stored column by column, as after a transpose:",
)
def _column_by_column(exercise: Exercise, answer: Any, case: Any, same: Any) -> Any:
    inputs = exercise.inputs(case)
    by_column = _with_changed(inputs, lambda x: x.mT.contiguous().mT if x.ndim > 1 else x)
    by_column |= {name: value for name, value in inputs.items() if "weight" in name}
    return exercise.use(exercise.ready(answer, case), by_column)


@_check("it differs in training mode", "Called in training mode:", _compare_training, _is_module)
def _training_mode(exercise: Exercise, answer: Any, case: Any, same: Any) -> Any:
    ready = exercise.ready(answer, case)
    training = [exercise.use(ready.train(), exercise.inputs(copy)) for copy in (case, same)]
    return *training, exercise.use(ready.eval(), exercise.inputs(same))


@_check(
    "a copy of the buffer",
    "When the module moves to another device,",
    _compare_devices,
    lambda exercise: _is_module(exercise) and [*exercise.model.buffers(recurse=False)],  # if it has any
)
def _other_device(exercise: Exercise, answer: Any, case: Any, same: Any) -> bool:
    """Whether the module runs on the device "meta", which every machine has.

    Tensors that the call creates are on this device too, so an error means that a tensor was not moved.
    """
    ready = exercise.ready(answer, case).to("meta")
    inputs = with_tensors(exercise.inputs(case), lambda x: x.to("meta"))
    with torch.device("meta"):
        try:
            exercise.use(ready, inputs)
        except Exception as error:  # other errors come from missing values, not from devices
            return "is not on the expected device" not in str(error)
    return True


def _result_and_gradients(exercise: Exercise, ready: Callable, inputs: dict) -> tuple[Any, dict[str, Tensor]]:
    """The result, and the gradients of its weighted sum with respect to inputs and parameters."""
    inputs = _with_changed(inputs, lambda x: x.clone().requires_grad_() if x.is_floating_point() else x)
    holders = {**inputs, "self": ready} if isinstance(exercise, ModuleExercise) else inputs
    candidates = [part for name, value in holders.items() for part in parts(value, name)]
    leaves = {path: part for path, part in candidates if isinstance(part, Tensor) and part.requires_grad}
    result = exercise.use(ready, inputs)
    generator = torch.Generator().manual_seed(0)
    tensors = [part for _, part in parts(result) if isinstance(part, Tensor) and part.is_floating_point()]
    weighted = [(part * torch.randn(part.shape, generator=generator).to(part)).sum() for part in tensors]
    total = sum(weighted, torch.zeros(()))
    if not (leaves and total.requires_grad):
        return result, {}
    gradients = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    return result, {path: grad for path, grad in zip(leaves, gradients, strict=True) if grad is not None}


def _with_changed(inputs: dict[str, Any], change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    """A copy with all tensors changed, except if they require a gradient, which they may hold already."""
    return with_tensors(inputs, lambda x: x if x.requires_grad else change(x))


@_check(
    "another gradient",
    "The values are right, but the gradients differ.",
    _compare_gradients,
    lambda exercise: exercise.gradients,
)
def _gradients(exercise: Exercise, answer: Any, case: Any, same: Any) -> tuple[Any, dict[str, Tensor]]:
    return _result_and_gradients(exercise, exercise.ready(answer, case), exercise.inputs(case))


@_check(
    "wrong right after initialisation",
    "With the parameters from its constructor:",
    _compare_own_parameters,
    _is_module,
)
def _own_parameters(exercise: Exercise, answer: Any, case: Any, same: Any) -> tuple:
    """The results of the module with its initial parameters, and of the reference with the same ones."""
    module = exercise.build(answer, case[0]).eval()
    own = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    mine = _result_and_gradients(exercise, module, exercise.inputs(case))
    reference = exercise.ready(exercise.reference, same, own)
    return mine, _result_and_gradients(exercise, reference, exercise.inputs(same))
