"""What a cell has put in the place of a library's own, by accident: `math.sqrt = 3`, `F.softmax = mine`."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import compress
from operator import is_not
from types import ModuleType

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

KEPT = {library: dict(vars(library)) for library in (math, np, torch, F, nn)}
KEPT[torch].pop("Storage")  # it follows the default dtype


@contextmanager
def whole() -> Iterator[list[str]]:
    """All as it was at first, so that the truth is the truth; yields what the notebook has replaced."""
    of_the_notebook = [(library, name, vars(library)[name]) for library, name in _replaced()]
    _put_back(of_the_notebook)
    try:
        yield [_full(library, name) for library, name, _ in of_the_notebook]
    finally:
        _put_back(_replaced())
        for library, name, value in of_the_notebook:
            setattr(library, name, value)


def replaced() -> list[str]:
    """The names of what was replaced since."""
    return [_full(*each) for each in _replaced()]


def _replaced() -> list[tuple[ModuleType, str]]:
    others = [
        (library, name)
        for library, own in KEPT.items()
        for name in compress(own, map(is_not, own.values(), map(vars(library).get, own, own.values())))
    ]
    return [(library, name) for library, name in others if not _is_its_own(library, name)]


def _is_its_own(library: ModuleType, name: str) -> bool:
    """Whether the library itself has wrapped it, as torch does with `manual_seed` when it compiles."""
    now = vars(library)[name]
    made_in = getattr(now, "__module__", None) or ""
    return getattr(now, "__name__", "") == name and made_in.startswith(library.__name__.split(".")[0])


def _put_back(found: list[tuple]) -> None:
    for library, name, *_ in found:
        setattr(library, name, KEPT[library][name])


def _full(library: ModuleType, name: str) -> str:
    return f"{library.__name__}.{name}"
