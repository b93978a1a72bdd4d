"""Run an answer without side effects on the notebook, and record everything that it does."""

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
from IPython import get_ipython
from IPython.utils.capture import CapturedIO, capture_output

from transformer_course.checker import time_limit
from transformer_course.checker.compare import Comparison, plain
from transformer_course.checker.input_mutation import changed_parts


@dataclass(frozen=True)
class Outcome:
    """The outcome of one call.

    changed: the arguments that were changed in place, each with the path of its first changed part
    changed_settings: the global settings that the call changed
    """

    result: Any
    error: BaseException | None
    printed: str = ""
    changed: dict[str, str] = field(default_factory=dict)
    changed_settings: list[str] = field(default_factory=list)


def alike(comparison: Comparison, some: list[Outcome], others: list[Outcome]) -> bool:
    """Whether two answers have the same outcome in every case; a number equals a tensor that holds it.

    Arguments that `others` change in place must be changed in `some` too, which may change more.
    """
    terse = replace(comparison, explain=False)

    def is_same(one: Outcome, other: Outcome) -> bool:
        if not other.changed.items() <= one.changed.items():
            return False
        if one.error is None and other.error is None:
            return terse.difference(plain(one.result), plain(other.result), "") is None
        return type(one.error) is type(other.error) and str(one.error) == str(other.error)

    return all(is_same(one, other) for one, other in zip(some, others, strict=True))


def _get_device() -> torch.device | None:
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return context and context.device


def _set_device(device: torch.device | None) -> None:
    if device != _get_device():
        torch.set_default_device(device)


# Global settings that affect every later cell: an answer must not change them.
GLOBAL_SETTINGS = {
    "the default dtype": torch.get_default_dtype,
    "the default device": _get_device,
    "whether gradients are computed": torch.is_grad_enabled,
}
# Getter and setter of each part of the process's state that is restored after a call.
PROCESS_STATE = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (_get_device, _set_device),
    (torch.get_rng_state, torch.set_rng_state),
    (random.getstate, random.setstate),
    (np.random.get_state, np.random.set_state),
    (
        lambda: copy.copy(vars(torch._tensor_str.PRINT_OPTS)),
        lambda options: torch.set_printoptions(**options),
    ),
    (np.get_printoptions, lambda options: np.set_printoptions(**options)),
)


@contextmanager
def isolated() -> Iterator[CapturedIO]:
    """Run a block in float64 with gradients, fixed seeds and captured output; then restore all settings."""
    before = [(setter, getter()) for getter, setter in PROCESS_STATE]
    try:
        with (
            warnings.catch_warnings(),
            torch.inference_mode(False),
            torch.enable_grad(),
            capture_output() as captured,
        ):
            warnings.simplefilter("ignore")
            torch.set_default_dtype(torch.float64)
            _set_device(None)
            seed_all(0)
            yield captured
    finally:
        for setter, value in before:
            setter(value)


def seed_all(seed: int) -> None:
    """Seed the generators of PyTorch, Python and NumPy."""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def observe(call: Callable[[], Any], inputs: Any = None, before: Any = None) -> Outcome:
    """Make the call and return its outcome. `before` is a copy of `inputs` that the call cannot reach."""
    open_figures = _open_figures()
    with isolated() as captured, _exit_refused():
        settings = {name: getter() for name, getter in GLOBAL_SETTINGS.items()}
        result, error = time_limit.run(call)
        changed_settings = [name for name, getter in GLOBAL_SETTINGS.items() if getter() != settings[name]]
    for number in _open_figures() - open_figures:  # the notebook would show them below the verdict
        sys.modules["matplotlib.pyplot"].close(number)
    printed = captured.stdout + captured.stderr
    return Outcome(result, error, printed, changed_parts(before or {}, inputs or {}), changed_settings)


@contextmanager
def _exit_refused() -> Iterator[None]:
    """Make `exit()` raise SystemExit at once, because IPython's own stops the kernel after the cell."""

    def refuse() -> None:
        raise SystemExit

    shell = get_ipython()
    if shell is not None:
        shell.ask_exit = refuse
    try:
        yield
    finally:
        if shell is not None:
            del shell.ask_exit


def _open_figures() -> set[int]:
    pyplot = sys.modules.get("matplotlib.pyplot")
    return set(pyplot.get_fignums()) if pyplot else set()
