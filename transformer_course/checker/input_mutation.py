"""Find out what a call has changed in its arguments, by comparing them with unused copies."""

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from transformer_course.checker.compare import Comparison

EXACT = Comparison(tolerance=0, any_integer=False)


def changed_parts(before: dict[str, Any], after: dict[str, Any]) -> dict[str, str]:
    """The arguments that were changed in place, each with the path of its first changed part."""
    changes = {
        name: _first_change(dict(parts(before[name], name)), dict(parts(after[name], name)))
        for name in before
    }
    return {name: part for name, part in changes.items() if part}


def parts(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every part of a value with its path. Parts of unknown types are skipped."""
    if isinstance(value, nn.Module):
        for name, part in value.named_modules(prefix=path):
            yield f"{name}.training", part.training
        for name, tensor in (*value.named_parameters(prefix=path), *value.named_buffers(prefix=path)):
            yield from parts(tensor, name)
    elif isinstance(value, Tensor):
        yield path, value
        yield f"{path}.requires_grad", value.requires_grad
        if value.is_leaf and value.grad is not None:
            yield f"{path}.grad", value.grad
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from parts(item, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from parts(item, f"{path}[{i}]")
    elif isinstance(value, int | float | str | None):
        yield path, value


def with_tensors(value: Any, change: Callable, other: Callable = lambda value: value) -> Any:
    """A copy of the value with `change` applied to every tensor in it.

    `other` is applied to anything that is not a tensor, dict, list or tuple.
    """
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: with_tensors(item, change, other) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(with_tensors(item, change, other) for item in value)
    return other(value)


def _first_change(before: dict[str, Any], after: dict[str, Any]) -> str | None:
    paths = [*before, *(path for path in after if path not in before)]
    return next((path for path in paths if not _same(before.get(path, ...), after.get(path, ...))), None)


def _same(one: Any, other: Any) -> bool:
    return one is other or EXACT.difference(one, other, "") is None
