"""Computed in float32: what a wrong answer would give if float64 stood wherever its own code takes float32.

Public code computes in float32 throughout, so each of its mistakes comes with other digits than the guide's.
"""

from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from transformer_course.checker.exercise_types import Exercise, Mistake
from transformer_course.checker.input_mutation import parts, with_tensors
from transformer_course.checker.sandbox import Outcome, observe

NAME = "computed in float32"
FLOAT32 = Mistake(
    NAME,
    "Your code computes something in float32, which has 7 digits. `.float()`, `dtype=torch.float32` and "
    "`torch.FloatTensor` do that. The inputs are float64, and so is the result of a division.",
    "Remove the conversion to float32.",
    None,
)


class Float64Instead(TorchDispatchMode):
    """Computes in float64 whatever is float32, and remembers whether anything was."""

    seen = False

    def __torch_dispatch__(self, function: Callable, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        args, kwargs = with_tensors([list(args), kwargs or {}], self.widened, self.widened)
        return function(*args, **kwargs)

    def float_tensor(self, *data: Any) -> Tensor:
        """In place of `torch.FloatTensor`, which is no operation that a mode sees."""
        self.seen = True
        return torch.DoubleTensor(*data)

    def widened(self, value: Any) -> Any:
        """A tensor, or a dtype, in the longer format."""
        if isinstance(value, Tensor) and value.dtype == torch.float32:
            self.seen = True
            return value.double()
        if value is torch.float32:
            self.seen = True
            return torch.float64
        return value


def without_float32(exercise: Exercise, attempt: Any, outcomes: list[Outcome]) -> list[Outcome] | None:
    """What the attempt does in float64; None if it never takes another format than its inputs have."""
    found, seen = [], False
    if not exercise.takes_tensors or any(outcome.error for outcome in outcomes):
        return None
    for case, same, outcome in zip(exercise.fresh_cases(), exercise.fresh_cases(), outcomes, strict=True):
        given = exercise.arguments(case)
        if any(isinstance(x, Tensor) and x.dtype == torch.float32 for _, x in parts(given)):
            found.append(outcome)  # a format that was asked for
            continue
        with Float64Instead() as mode, mock.patch.object(torch, "FloatTensor", mode.float_tensor):
            found.append(observe(partial(exercise.call, attempt, case), given, exercise.arguments(same)))
        seen |= mode.seen
    return found if seen else None
