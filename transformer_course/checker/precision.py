"""Detect float32: run an answer again with float64 in place of every float32 in its own code.

Published code usually computes in float32, so its mistakes give other digits than the guide's in float64.
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
    """A dispatch mode that replaces float32 by float64, and records whether any float32 occurred."""

    seen = False

    def __torch_dispatch__(self, function: Callable, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        args, kwargs = with_tensors([list(args), kwargs or {}], self.widened, self.widened)
        return function(*args, **kwargs)

    def float_tensor(self, *data: Any) -> Tensor:
        """A replacement for `torch.FloatTensor`, which does not pass through the dispatcher."""
        self.seen = True
        return torch.DoubleTensor(*data)

    def widened(self, value: Any) -> Any:
        """The tensor or dtype in float64 if it is float32; otherwise the value itself."""
        if isinstance(value, Tensor) and value.dtype == torch.float32:
            self.seen = True
            return value.double()
        if value is torch.float32:
            self.seen = True
            return torch.float64
        return value


def without_float32(exercise: Exercise, attempt: Any, outcomes: list[Outcome]) -> list[Outcome] | None:
    """The outcomes of the attempt in float64; None if it never uses float32 of its own."""
    found, seen = [], False
    if not exercise.takes_tensors or any(outcome.error for outcome in outcomes):
        return None
    for case, same, outcome in zip(exercise.fresh_cases(), exercise.fresh_cases(), outcomes, strict=True):
        given = exercise.arguments(case)
        if any(isinstance(x, Tensor) and x.dtype == torch.float32 for _, x in parts(given)):
            found.append(outcome)  # the case itself asks for float32
            continue
        with Float64Instead() as mode, mock.patch.object(torch, "FloatTensor", mode.float_tensor):
            found.append(observe(partial(exercise.call, attempt, case), given, exercise.arguments(same)))
        seen |= mode.seen
    return found if seen else None
