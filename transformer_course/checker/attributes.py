"""What torch, numpy and math held when the engine was imported: no cell can patch the truth."""

import builtins
import math
import operator
import random
import sys
from collections.abc import Iterable, Iterator, ValuesView
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

MODULES = builtins, math, random, np, torch, F, torch.linalg, torch.special, nn, nn.init
CLASSES = Tensor, *{each for each in vars(nn).values() if isinstance(each, type)}
PRISTINE = {owner: dict(vars(owner)) for owner in (*MODULES, *CLASSES)}
LIVE = [(owner, vars(owner).values(), list(noted.values())) for owner, noted in PRISTINE.items()]
MISSING = object()


class Patch(NamedTuple):
    """An attribute that is not what it was; `value` is what it is now."""

    owner: Any
    name: str
    value: Any


def patches() -> list[Patch]:
    """All that was changed since the engine was imported."""
    return [
        patch for owner, now, noted in LIVE if _may_differ(owner, now, noted) for patch in _patches(owner)
    ]


def _may_differ(owner: Any, now: ValuesView, noted: list) -> bool:
    """Cheap, for nothing is patched as a rule: what is new stands at the end, and matters in a class only."""
    return not all(map(operator.is_, now, noted)) or (len(now) > len(noted) and isinstance(owner, type))


def _patches(owner: Any) -> Iterator[Patch]:
    now, noted = vars(owner), PRISTINE[owner]
    for name, value in noted.items():
        if now.get(name, MISSING) is not value and name != "Storage":  # which follows the default dtype
            yield Patch(owner, name, now.get(name, MISSING))
    for name in now.keys() - noted.keys() if isinstance(owner, type) else ():
        if any(name in vars(base) for base in owner.__mro__[1:]):  # it hides what was inherited
            yield Patch(owner, name, now[name])


def put(wanted: Iterable[Patch]) -> None:
    """Patch what is unpatched."""
    for owner, name, value in wanted:
        if value is not MISSING:
            setattr(owner, name, value)
        elif name in vars(owner):
            delattr(owner, name)


def undo(found: Iterable[Patch]) -> None:
    """Take these patches back."""
    put(Patch(owner, name, PRISTINE[owner].get(name, MISSING)) for owner, name, _ in found)


class _Hands:
    are_clean = False  # as long as nobody else's code runs, there is nothing to look for


@contextmanager
def pristine() -> Iterator[list[Patch]]:
    """All as it was at first; yields what the session had patched, and puts it back afterwards."""
    if _Hands.are_clean:
        yield []
        return
    session = patches()
    undo(session)
    _Hands.are_clean = True
    try:
        yield session
    finally:
        _Hands.are_clean = False
        put(session)


@contextmanager
def patched(session: list[Patch]) -> Iterator[list[str]]:
    """As the session had it; whatever else is patched meanwhile is taken back too, and its names told."""
    put(session)
    _Hands.are_clean = False
    told: list[str] = []
    before, imported = patches(), len(sys.modules)
    try:
        yield told
    finally:
        found = patches()
        undo(found)
        _Hands.are_clean = True
        if len(sys.modules) == imported:  # a library that is imported may patch another one
            told += [name_of(patch) for patch in found if not any(map(partial(_is, patch), before))]


def _is(one: Patch, other: Patch) -> bool:
    return all(map(operator.is_, one, other))


def is_foreign(patch: Patch) -> bool:
    """Whether it was not the library itself that patched its own, as torch does when it compiles."""
    made_in, belongs_to = (
        str(getattr(thing, "__module__", None) or getattr(thing, "__name__", "")).split(".")[0]
        for thing in (patch.value, patch.owner)
    )
    return made_in != belongs_to


def name_of(patch: Patch) -> str:
    """As a reader knows it: `math.cos`."""
    module = "" if isinstance(patch.owner, type(math)) else f"{patch.owner.__module__}."
    return f"{module}{patch.owner.__name__}.{patch.name}"
