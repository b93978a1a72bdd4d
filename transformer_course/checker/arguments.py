"""Passing arguments: by position, since an answer may name its own; by name where later cells do so."""

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from torch import nn


def call_with(answer: Callable, values: dict[str, Any], keywords: Sequence[str], *, like: Callable) -> Any:
    """Call the answer. What `values` leaves out is left to the answer's default.

    An argument of `keywords` is passed by its name, and so is one after an argument left out. An answer that
    names it otherwise gets it in its place all the same, so that its other mistakes can be found.
    """
    own, takes_any = _argument_names(answer)
    places = _places(like)
    args, kwargs = [], {}
    for name, value in values.items():
        place, takes = places.get(name, len(args)), takes_any or name in own
        if place == len(args) and not kwargs and not (takes and name in keywords):
            args.append(value)
        else:
            kwargs[name if takes or place >= len(own) else own[place]] = value
    return answer(*args, **kwargs)


def first_unknown(answer: Callable, names: Sequence[str]) -> str | None:
    """The first of the names that is no argument of the answer."""
    own, takes_any = _argument_names(answer)
    return next((name for name in names if not takes_any and name not in own), None)


def optional(answer: Callable) -> set[str]:
    """The arguments that have a default."""
    parameters = inspect.signature(answer).parameters.values()
    return {parameter.name for parameter in parameters if parameter.default is not parameter.empty}


@lru_cache(maxsize=256)  # of the exercises' own: a search for mistakes asks thousands of times
def _places(like: Callable) -> dict[str, int]:
    """The place of each argument of a reference."""
    return {name: place for place, name in enumerate(_argument_names(like)[0])}


def _argument_names(answer: Callable) -> tuple[list[str], bool]:
    """The names of its arguments, and whether it takes any other by keyword."""
    try:
        signature = inspect.signature(answer.forward if isinstance(answer, nn.Module) else answer)
    except ValueError:  # what is written in C may have none
        return [], False
    parameters = signature.parameters.values()
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    own = [parameter.name for parameter in parameters if parameter.kind in named]
    return own, any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
