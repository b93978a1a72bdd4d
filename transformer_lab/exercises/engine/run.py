"""Running an answer so that nothing it does is felt outside, and everything it does is seen."""

import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from IPython.utils.capture import CapturedIO, capture_output

from transformer_lab.exercises.engine import attributes
from transformer_lab.exercises.engine.changes import changed_parts
from transformer_lab.exercises.engine.patience import Patience
from transformer_lab.exercises.engine.surroundings import FOR_ALL, FOR_ATTEMPTS, Setting, restored


@dataclass(frozen=True)
class Session:
    """The learner's: what it has patched, and how long its code may run."""

    patches: list[attributes.Patch]
    patience: Patience

    def run(self, call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """As in the learner's own cells."""
        with attributes.patched(self.patches):
            return self.patience.run(call)


@dataclass(frozen=True)
class Outcome:
    """What one call did: its result or its error, and what else happened on the way."""

    result: Any
    error: BaseException | None
    printed: str = ""
    changed: dict[str, str] = field(default_factory=dict)  # arguments that changed: the first part of each


@contextmanager
def isolated(*more: Setting) -> Iterator[CapturedIO]:
    """float64, gradients on, fixed seeds, output captured; afterwards all is as before."""
    with (
        restored(*FOR_ALL, *more),
        warnings.catch_warnings(),
        torch.inference_mode(False),
        torch.enable_grad(),
        capture_output() as captured,
    ):
        warnings.simplefilter("ignore")
        torch.default_generator.manual_seed(0)
        random.seed(0)
        np.random.seed(0)
        yield captured


def observe(
    call: Callable[[], Any], inputs: Any = None, before: Any = None, session: Session | None = None
) -> Outcome:
    """Make the call and report on it: as in the learner's session, or else in clean hands."""
    with isolated(*FOR_ATTEMPTS if session else ()) as captured:
        result, error = (session.run if session else _run)(call)
    return Outcome(
        result, error, captured.stdout + captured.stderr, changed_parts(before or {}, inputs or {})
    )


def _run(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        return None, raised
