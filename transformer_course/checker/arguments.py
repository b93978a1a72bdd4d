"""Pass arguments to an answer: by position, because its parameters may have other names than the solution's.

Arguments that later cells pass by keyword are passed by keyword here too.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from torch import nn


def call_with(answer: Callable, values: dict[str, Any], keywords: Sequence[str], *, like: Callable) -> Any:
    """Call the answer with these arguments; an argument that is not in `values` keeps its default.

    An argument in `keywords` is passed by keyword, and so is every argument after an omitted one. If the
    answer uses another name for it, it is passed under the name at the same position, so that the checker can
    still find the answer's other mistakes.
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
    """The first of these names that is not a parameter of the answer."""
    own, takes_any = _argument_names(answer)
    return next((name for name in names if not takes_any and name not in own), None)


def optional(answer: Callable) -> set[str]:
    """The parameters that have a default."""
    parameters = inspect.signature(answer).parameters.values()
    return {parameter.name for parameter in parameters if parameter.default is not parameter.empty}


@lru_cache(maxsize=256)  # only a few functions, called thousands of times in a search for mistakes
def _places(like: Callable) -> dict[str, int]:
    """The position of each parameter of a reference."""
    return {name: place for place, name in enumerate(_argument_names(like)[0])}


def _argument_names(answer: Callable) -> tuple[list[str], bool]:
    """The names of the parameters, and whether the answer accepts any other keyword argument."""
    try:
        signature = inspect.signature(answer.forward if isinstance(answer, nn.Module) else answer)
    except ValueError:  # a function written in C may have no signature
        return [], False
    parameters = signature.parameters.values()
    named = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    own = [parameter.name for parameter in parameters if parameter.kind in named]
    return own, any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
