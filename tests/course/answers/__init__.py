"""Right answers to the exercises: independent ones, with which the solutions must agree, and alternatives.

An independent answer computes the same by other means: plain loops, PyTorch, or the package. An alternative
is one that the checker must accept, because a learner may write it so. Of a value both are functions that
return it.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

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


def norm_by_hand(norm: nn.LayerNorm, numbers: Sequence[Tensor] | Tensor) -> Tensor:
    """The norm of one token, number by number."""
    mean = sum(numbers) / len(numbers)
    root = (sum((number - mean) ** 2 for number in numbers) / len(numbers) + norm.eps) ** 0.5
    scaled = [w * (number - mean) / root for w, number in zip(norm.weight, numbers, strict=True)]
    return torch.stack([s + b for s, b in zip(scaled, norm.bias, strict=True)])
