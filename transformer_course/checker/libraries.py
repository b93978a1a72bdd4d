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


@contextmanager
def whole() -> Iterator[list[str]]:
    """All as it was at first, so that the truth is the truth; yields what the notebook has replaced."""
    told, of_the_notebook = replaced(), _replaced()
    _put_back()
    try:
        yield told
    finally:
        _put_back()
        for (library, name), thing in of_the_notebook.items():
            setattr(library, name, thing)


def replaced() -> list[str]:
    """The names of what was replaced since."""
    return [f"{library.__name__}.{name}" for library, name in _replaced()]


def _replaced() -> dict[tuple[ModuleType, str], Any]:
    """What stands now in the place of a library's own."""
    return {
        (library, name): vars(library)[name]
        for library, own in KEPT.items()
        for name, thing in own.items()
        if vars(library).get(name, thing) is not thing and not _is_its_own(library, name)
    }


def _is_its_own(library: ModuleType, name: str) -> bool:
    """Whether the library itself has wrapped it, as torch does with `manual_seed` when it compiles."""
    now = vars(library)[name]
    made_in = getattr(now, "__module__", None) or ""
    return getattr(now, "__name__", "") == name and made_in.startswith(library.__name__.split(".")[0])


def _put_back() -> None:
    for library, name in _replaced():
        setattr(library, name, KEPT[library][name])
