"""What a process holds beside its objects: an answer may change it, and afterwards it is as it was."""

import copy
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

KEEP = object()


class Setting(NamedTuple):
    """How to read it, how to write it, and what it is while an answer runs."""

    get: Callable[[], Any]
    put: Callable[[Any], Any]
    meanwhile: Any = KEEP


def _device() -> torch.device | None:
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return context and context.device


def _put_threads(count: int) -> None:
    if count != torch.get_num_threads():
        torch.set_num_threads(count)


def _put_device(device: torch.device | None) -> None:
    if device != _device():
        torch.set_default_device(device)


def _put_environment(wanted: dict[str, str]) -> None:
    if wanted != dict(os.environ):
        os.environ.clear()
        os.environ.update(wanted)


def _put_path(noted: tuple[list, list]) -> None:
    sys.path, sys.path[:] = noted


def _handlers() -> dict:
    return {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}


def _put_handlers(handlers: dict) -> None:
    if threading.current_thread() is threading.main_thread() and handlers != _handlers():
        for number, handler in handlers.items():
            signal.signal(number, handler)


# What every later cell computes with: an answer that changes it would change them all.
SHARED = {
    "the default dtype": torch.get_default_dtype,
    "the default device": _device,
    "the switch of gradients": torch.is_grad_enabled,
    "the working directory": os.getcwd,
}


def shared() -> dict[str, Any]:
    """What these are now."""
    return {name: get() for name, get in SHARED.items()}


# Of these every run needs its own:
FOR_ALL = (
    Setting(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    Setting(_device, _put_device, None),
    Setting(torch.get_num_threads, _put_threads, 1),
    Setting(torch.is_anomaly_enabled, torch.set_anomaly_enabled, False),
    Setting(
        lambda: torch.is_autocast_enabled("cpu"), lambda on: torch.set_autocast_enabled("cpu", on), False
    ),
    Setting(torch.get_rng_state, torch.set_rng_state),
    Setting(random.getstate, random.setstate),
    Setting(np.random.get_state, np.random.set_state),
)
# These only a learner's code may change:
FOR_ATTEMPTS = (
    Setting(torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    Setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    Setting(lambda: copy.copy(vars(torch._tensor_str.PRINT_OPTS)), lambda how: torch.set_printoptions(**how)),
    Setting(np.get_printoptions, lambda how: np.set_printoptions(**how)),
    Setting(os.getcwd, os.chdir),
    Setting(lambda: dict(os.environ), _put_environment),
    Setting(lambda: (sys.path, sys.path[:]), _put_path),
    Setting(sys.getrecursionlimit, sys.setrecursionlimit),
    Setting(_handlers, _put_handlers),
)


@contextmanager
def restored(*settings: Setting) -> Iterator[None]:
    """Set what an answer finds; put everything back afterwards."""
    before = [setting.get() for setting in settings]
    try:
        for setting in settings:
            if setting.meanwhile is not KEEP:
                setting.put(setting.meanwhile)
        yield
    finally:
        for setting, value in zip(settings, before, strict=True):
            setting.put(value)
