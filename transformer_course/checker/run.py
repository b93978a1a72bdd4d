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

from transformer_course.checker import attributes
from transformer_course.checker.changes import changed_parts
from transformer_course.checker.compare import Comparison
from transformer_course.checker.patience import Patience
from transformer_course.checker.surroundings import FOR_ALL, FOR_ATTEMPTS, Setting, restored, shared


@dataclass(frozen=True)
class Session:
    """The learner's: what it has patched, and how long its code may run."""

    patches: list[attributes.Patch]
    patience: Patience

    def run(self, call: Callable[[], Any]) -> tuple[Any, BaseException | None, list[str]]:
        """As in the learner's own cells: the result, the error, and what was changed for every other cell."""
        with attributes.patched(self.patches) as changed:
            before = shared()
            result, error = self.patience.run(call)
            changed += [name for name, value in shared().items() if value != before[name]]
        return result, error, changed


@dataclass(frozen=True)
class Outcome:
    """What one call did: its result or its error, and what else happened on the way."""

    result: Any
    error: BaseException | None
    printed: str = ""
    changed: dict[str, str] = field(default_factory=dict)  # arguments that changed: the first part of each
    everywhere: list[str] = field(default_factory=list)  # what was changed for every other cell


def alike(comparison: Comparison, mine: list[Outcome], theirs: list[Outcome]) -> bool:
    """Whether two answers do the same in every case."""
    pairs = zip(mine, theirs, strict=True)
    return all(_same(comparison, *pair) for pair in pairs)


def _same(comparison: Comparison, mine: Outcome, theirs: Outcome) -> bool:
    if mine.error is None and theirs.error is None:
        return comparison.difference(_bare(mine.result), _bare(theirs.result), "") is None
    return type(mine.error) is type(theirs.error) and str(mine.error) == str(theirs.error)


def _bare(result: Any) -> Any:
    """A single number without its tensor: the mistake is the same with `.item()` and without."""
    is_single = isinstance(result, torch.Tensor) and result.ndim == 0 and not result.is_meta
    return result.item() if is_single else result


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
        result, error, everywhere = (session.run if session else _run)(call)
    printed = captured.stdout + captured.stderr
    return Outcome(result, error, printed, changed_parts(before or {}, inputs or {}), everywhere)


def _run(call: Callable[[], Any]) -> tuple[Any, BaseException | None, list[str]]:
    try:
        return call(), None, []
    except KeyboardInterrupt:
        raise
    except BaseException as raised:
        return None, raised, []
