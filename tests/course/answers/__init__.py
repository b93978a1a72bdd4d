"""Right answers to the exercises: independent ones, with which the solutions must agree, and alternatives.

An independent answer computes the same by other means: plain loops, PyTorch, or the package. An alternative
is one that the checker must accept, because a learner may write it so. Of a value both are functions that
return it.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

INDEPENDENT: dict[str, Any] = {}
ALTERNATIVES: dict[str, list[Any]] = defaultdict(list)


def independent(id: str) -> Callable[[Any], Any]:
    """Decorate the independent answer to an exercise."""
    return lambda answer: INDEPENDENT.setdefault(id, answer)


def alternative(id: str) -> Callable[[Any], Any]:
    """Decorate one more right answer to an exercise."""
    return lambda answer: ALTERNATIVES[id].append(answer) or answer


@cache
def load() -> None:
    """Import the answers of all lessons."""
    for path in Path(__file__).parent.glob("[!_]*.py"):
        import_module(f"{__name__}.{path.stem}")
