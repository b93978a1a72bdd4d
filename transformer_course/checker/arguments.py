"""Handing arguments over: by position, since an answer may name its own; by name where later cells do so."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn


def hand_over(answer: Callable, values: dict[str, Any], by_name: Sequence[str], *, like: Callable) -> Any:
    """Call the answer. What `values` leaves out is left to the answer's default.

    An argument of `by_name` goes by its name, and so does one behind an argument left out. An answer that
    names it otherwise gets it in its place all the same: so what else it does can be told.
    """
    own, takes_any = _names(answer)
    places = {name: place for place, name in enumerate(_names(like)[0])}
    positional, named = [], {}
    for name, value in values.items():
        place, takes = places.get(name, len(positional)), takes_any or name in own
        if place == len(positional) and not named and not (takes and name in by_name):
            positional.append(value)
        else:
            named[name if takes or place >= len(own) else own[place]] = value
    return answer(*positional, **named)


def first_not_taken(answer: Callable, names: Sequence[str]) -> str | None:
    """The first of the names that is no argument of the answer."""
    own, takes_any = _names(answer)
    return next((name for name in names if not takes_any and name not in own), None)


def optional(answer: Callable) -> set[str]:
    """The arguments that have a default."""
    parameters = inspect.signature(answer).parameters.values()
    return {each.name for each in parameters if each.default is not each.empty}


def _names(answer: Callable) -> tuple[list[str], bool]:
    """The names of its arguments, and whether it takes all others."""
    try:
        signature = inspect.signature(answer.forward if isinstance(answer, nn.Module) else answer)
    except ValueError:  # what is written in C may have none
        return [], False
    parameters = signature.parameters.values()
    own = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    return own, any(each.kind is each.VAR_KEYWORD for each in parameters)
