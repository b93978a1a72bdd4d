"""What a cell has put in the place of a library's own, by accident: `math.sqrt = 3`, `F.softmax = mine`."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

KEPT = {library: dict(vars(library)) for library in (math, np, torch, F, nn)}
KEPT[torch].pop("Storage")  # it follows the default dtype
Place = tuple[ModuleType, str]


@contextmanager
def whole() -> Iterator[list[str]]:
    """All as it was at first, so that the truth is the truth; yields what the notebook has replaced."""
    of_the_notebook = _replaced()
    _put_back(of_the_notebook)
    try:
        yield _names(of_the_notebook)
    finally:
        _put_back(_replaced())
        for (library, name), thing in of_the_notebook.items():
            setattr(library, name, thing)


def replaced() -> list[str]:
    """The names of what was replaced since."""
    return _names(_replaced())


def _names(found: dict[Place, Any]) -> list[str]:
    return [f"{library.__name__}.{name}" for library, name in found]


def _replaced() -> dict[Place, Any]:
    """What stands now in the place of a library's own."""
    found = {}
    for library, own in KEPT.items():
        now = vars(library)
        others = [name for name, thing in own.items() if now.get(name, thing) is not thing]
        found |= {(library, name): now[name] for name in others if not _is_its_own(library, name)}
    return found


def _is_its_own(library: ModuleType, name: str) -> bool:
    """Whether the library itself has wrapped it, as torch does with `manual_seed` when it compiles."""
    now = vars(library)[name]
    made_in = getattr(now, "__module__", None) or ""
    return getattr(now, "__name__", "") == name and made_in.startswith(library.__name__.split(".")[0])


def _put_back(found: dict[Place, Any]) -> None:
    for library, name in found:
        setattr(library, name, KEPT[library][name])
