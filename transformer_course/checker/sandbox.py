"""Running an answer so that nothing it does is felt outside, and everything it does is seen."""

import copy
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from IPython.utils.capture import CapturedIO, capture_output

from transformer_course.checker.compare import Comparison, plain
from transformer_course.checker.input_mutation import changed_parts
from transformer_course.checker.time_limit import TimeLimit


@dataclass(frozen=True)
class Outcome:
    """What one call did: its result or its error, and what else happened on the way."""

    result: Any
    error: BaseException | None
    printed: str = ""
    changed: dict[str, str] = field(default_factory=dict)  # arguments that changed: the first part of each
    everywhere: list[str] = field(default_factory=list)  # what was changed for every other cell


def alike(comparison: Comparison, mine: list[Outcome], theirs: list[Outcome]) -> bool:
    """Whether two answers do the same in every case; a number is the same with `.item()` and without."""
    terse = replace(comparison, in_words=False)
    return all(_same(terse, *pair) for pair in zip(mine, theirs, strict=True))


def _same(comparison: Comparison, mine: Outcome, theirs: Outcome) -> bool:
    if mine.error is None and theirs.error is None:
        return comparison.difference(plain(mine.result), plain(theirs.result), "") is None
    return type(mine.error) is type(theirs.error) and str(mine.error) == str(theirs.error)


def _device() -> torch.device | None:
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return context and context.device


def _put_device(device: torch.device | None) -> None:
    if device != _device():
        torch.set_default_device(device)


# What every later cell computes with: an answer that changes it would change them all, and is told.
SHARED = {
    "the default dtype": torch.get_default_dtype,
    "the default device": _device,
    "the switch of gradients": torch.is_grad_enabled,
}
# How to read what a process holds beside its objects, and how to put it back.
SETTINGS = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (_device, _put_device),
    (torch.get_rng_state, torch.set_rng_state),
    (random.getstate, random.setstate),
    (np.random.get_state, np.random.set_state),
    (lambda: copy.copy(vars(torch._tensor_str.PRINT_OPTS)), lambda how: torch.set_printoptions(**how)),
    (np.get_printoptions, lambda how: np.set_printoptions(**how)),
)


@contextmanager
def isolated() -> Iterator[CapturedIO]:
    """float64, gradients on, fixed seeds, output captured; afterwards all is as before."""
    before = [(put, get()) for get, put in SETTINGS]
    try:
        with (
            warnings.catch_warnings(),
            torch.inference_mode(False),
            torch.enable_grad(),
            capture_output() as captured,
        ):
            warnings.simplefilter("ignore")
            torch.set_default_dtype(torch.float64)
            _put_device(None)
            torch.default_generator.manual_seed(0)
            random.seed(0)
            np.random.seed(0)
            yield captured
    finally:
        for put, value in before:
            put(value)


def observe(
    call: Callable[[], Any], inputs: Any = None, before: Any = None, patience: TimeLimit | None = None
) -> Outcome:
    """Make the call and report on it; only a learner's needs patience."""
    figures = _figures()
    with isolated() as captured:
        shared = {name: get() for name, get in SHARED.items()}
        result, error = (patience or TimeLimit()).run(call)
        everywhere = [name for name, get in SHARED.items() if get() != shared[name]]
    for number in _figures() - figures:  # else each call's would be shown below the verdict
        sys.modules["matplotlib.pyplot"].close(number)
    printed = captured.stdout + captured.stderr
    return Outcome(result, error, printed, changed_parts(before or {}, inputs or {}), everywhere)


def _figures() -> set[int]:
    """The numbers of those that are open."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return set(pyplot.get_fignums()) if pyplot else set()
