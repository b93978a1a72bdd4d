"""Compare two results without broadcasting, and describe the first difference."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

VALUE = "wrong value"
FORMAT_TOLERANCE = {torch.float32: 1e-6}  # the smallest tolerance for this dtype, whatever the exercise says
MAX_LISTED = 4  # correct entries that a message lists by name


@dataclass(frozen=True)
class Difference:
    """A difference: its kind in a word or two, and a sentence that describes it."""

    name: str
    text: str


@dataclass(frozen=True)
class Comparison:
    """How to compare: the tolerance, the names of several results, and whether to reveal the expected value.

    any_integer: accept int32 where int64 is expected, and so on
    explain: whether to write sentences about wrong numbers, which takes longer than the comparison
    """

    tolerance: float
    names: Sequence[str] = ()
    reveal: bool = True
    any_integer: bool = True
    explain: bool = True

    def difference(self, got: Any, wanted: Any, label: str) -> Difference | None:
        """The first difference, or None. `label` is the name of the result in the sentence."""
        if got is ... and wanted is not ...:
            return Difference("unfinished", f"{label} is still `...`.")
        if isinstance(wanted, Tensor):
            return self._tensors(got, wanted, label)
        got = plain(got)
        if isinstance(wanted, tuple | list):
            return self._sequences(got, wanted, label)
        if isinstance(wanted, dict):
            return self._dicts(got, wanted, label)
        if isinstance(wanted, Real) and not isinstance(wanted, bool):
            return self._numbers(got, wanted, label)
        return self._others(got, wanted, label)

    def _sequences(self, got: Any, wanted: Sequence, label: str) -> Difference | None:
        names = [f"`{name}`" for name in self.names] or [f"{label}[{i}]" for i in range(len(wanted))]
        if not isinstance(got, tuple | list) or len(got) != len(wanted):
            count = "one value is" if len(wanted) == 1 else f"{len(wanted)} values are"
            which = f": {', '.join(names)}" if self.names else f", in a {type(wanted).__name__}"
            return Difference(
                "wrong structure", f"{label} is {_description(got)}, but {count} expected{which}."
            )
        inner = replace(self, names=())
        pairs = zip(names, got, wanted, strict=True)
        return self._first_difference((name, inner.difference(*pair, name)) for name, *pair in pairs)

    def _dicts(self, got: Any, wanted: dict, label: str) -> Difference | None:
        if not isinstance(got, dict):
            text = (
                f"{label} is {_description(got)}, but a dict is expected, with the keys {_some_keys(wanted)}."
            )
            return Difference("wrong structure", text)
        missing = {key: None for key in wanted if key not in got}
        unknown = {key: None for key in got if key not in wanted}
        if missing or unknown:
            lists = {"missing": missing, "unexpected": unknown}
            parts = [f"{words}: {_some_keys(keys)}" for words, keys in lists.items() if keys]
            return Difference("wrong keys", f"{label} has the wrong keys: {'; '.join(parts)}.")
        names = {key: f"{label}[{shown(key)}]" for key in wanted}
        return self._first_difference(
            (name, self.difference(got[key], wanted[key], name)) for key, name in names.items()
        )

    def _first_difference(self, entries: Iterator[tuple[str, Difference | None]]) -> Difference | None:
        if not self.explain:  # a yes or no is enough
            return next((difference for _, difference in entries if difference), None)
        differences = dict(entries)
        wrong = [difference for difference in differences.values() if difference]
        first = min(wrong, key=lambda difference: difference.name == VALUE, default=None)  # a shape says more
        right = [name for name, difference in differences.items() if difference is None]
        if first is None or not right:
            return first
        listed = f"{', '.join(right)} {'is' if len(right) == 1 else 'are'}"
        if len(right) > MAX_LISTED:
            listed = f"{len(right)} of the {len(differences)} entries are"
        return replace(first, text=f"{first.text} {listed} right.")

    def _numbers(self, got: Any, wanted: Real, label: str) -> Difference | None:
        if not isinstance(got, Real) or isinstance(got, bool):
            return Difference("wrong type", f"{label} is {_description(got)}, but a number is expected.")
        if isinstance(wanted, Integral) and not isinstance(got, Integral):
            return Difference(
                "not an integer",
                f"{label} is {round(got, 6)}, a float, but a count is an int. `/` and factors such as `2.0` "
                "make a float; `//` and `2` don't.",
            )
        if got == wanted or (got != got and wanted != wanted):  # NaN equals nothing
            return None
        exact = isinstance(wanted, Integral)
        if not exact and math.isclose(got, wanted, rel_tol=self.tolerance, abs_tol=self.tolerance):
            return None
        hint = f"too {'small' if got < wanted else 'large'}"
        if self.reveal:
            hint = f"expected {_number(wanted, got)}"
        return Difference(VALUE, f"{label} is {_number(got, wanted)}, {hint}.")

    def _others(self, got: Any, wanted: Any, label: str) -> Difference | None:
        if type(got) is not type(wanted):
            return Difference(
                "wrong type", f"{label} is {_description(got)}, but a `{type(wanted).__name__}` is expected."
            )
        if got == wanted or (isinstance(got, str) and self.tolerance and _bare(got) == _bare(wanted)):
            return None
        wanted_value = f", expected {shown(wanted)}." if self.reveal else "."
        return Difference(VALUE, f"{label} is {shown(got)}{wanted_value}")

    def _tensors(self, got: Any, wanted: Tensor, label: str) -> Difference | None:
        if not isinstance(got, Tensor):
            return Difference("wrong type", f"{label} is {_description(got)}, but a tensor is expected.")
        if got.shape != wanted.shape:
            shapes = f"{label} has shape {tuple(got.shape)}, expected {tuple(wanted.shape)}"
            return Difference("wrong shape", f"{shapes}{_shape_hint(got.shape, wanted.shape)}.")
        if got.dtype != wanted.dtype and not (self.any_integer and _is_integer(got) and _is_integer(wanted)):
            dtypes = f"{label} is {got.dtype}, expected {wanted.dtype}"
            return Difference("wrong dtype", f"{dtypes}. {_dtype_hint(got, wanted)}")
        if got.device != wanted.device:
            return Difference(
                "wrong device",
                f"{label} is on {got.device}, expected {wanted.device}. Create it on the input's `device`.",
            )
        return self._tensor_values(got.detach(), wanted.detach(), label)

    def _tensor_values(self, got: Tensor, wanted: Tensor, label: str) -> Difference | None:
        if got.is_meta:  # a meta tensor has a shape but no values
            return None
        if wanted.is_floating_point() or wanted.is_complex():
            room = max(self.tolerance, FORMAT_TOLERANCE.get(wanted.dtype, 0))
            agrees = torch.isclose(got, wanted, rtol=room, atol=room, equal_nan=True)
        else:
            agrees = got == wanted
        if agrees.all():
            return None
        if not self.explain:
            return Difference(VALUE, "")
        broken = ~got.isfinite() & wanted.isfinite()
        if broken.any():
            return _not_finite(got, broken, label)
        place = _first_place(~agrees)
        text = f"{label}{_index(place)} is {_number(got[place].item(), wanted[place].item())}"
        if self.reveal:
            text += f", expected {_number(wanted[place].item(), got[place].item())}"
        if got.ndim:
            text += f"; {(~agrees).sum()} of {got.numel()} values differ"
        return Difference(VALUE, f"{text}.{_precision(got, wanted) or _pattern(got, wanted)}")


def _bare(text: str) -> str:
    """The text without surrounding punctuation and white space, in lower case: "c. " is equal to "C"."""
    return re.sub(r"^\W+|\W+$", "", " ".join(text.casefold().split())) or text


def _some_keys(keys: dict, most: int = 6) -> str:
    listed = ", ".join(f"`{shorten(str(key), 60)}`" for key in list(keys)[:most])
    return listed if len(keys) <= most else f"{listed} and {len(keys) - most} more"


def plain(value: Any) -> Any:
    """The Python number or bool if the value is a zero-dimensional tensor; otherwise the value itself."""
    is_single = isinstance(value, Tensor | np.generic) and value.ndim == 0
    return value.item() if is_single and not getattr(value, "is_meta", False) else value


def _not_finite(got: Tensor, broken: Tensor, label: str) -> Difference:
    place = _first_place(broken)
    if got[place].isnan():
        cause = "NaN comes from 0/0, ∞/∞, ∞ − ∞, 0·∞, or the logarithm or root of a negative number"
        name = "NaN"
    else:
        cause = "Infinity comes from a division by 0, log 0, or an exponential above about 700 in float64"
        name = "infinity"
    count = f"{broken.sum()} of {got.numel()} values are not finite"
    return Difference(name, f"{label}{_index(place)} is {got[place].item()}; {count}. {cause}.")


def _precision(got: Tensor, wanted: Tensor) -> str:
    """A hint if the results agree to float32 precision but not beyond."""
    if not wanted.is_floating_point() or not torch.allclose(got, wanted, rtol=1e-5, atol=1e-6):
        return ""
    return (
        " The values agree to five or six digits: was something computed in float32, or a small number added?"
    )


def _pattern(got: Tensor, wanted: Tensor) -> str:
    """A sentence about a constant factor or offset between all values, if there is one."""
    if got.numel() < 2 or not got.is_floating_point() or not wanted.isfinite().all():
        return ""
    factor, offset = got / wanted, got - wanted
    if factor.isfinite().all() and factor.any() and torch.allclose(factor, factor.flatten()[0]):
        return f" Every value is {factor.flatten()[0]:.6g} times the expected one."
    if torch.allclose(offset, offset.flatten()[0]):
        return f" Every value is the expected one plus {offset.flatten()[0]:.6g}."
    return ""


def _shape_hint(got: torch.Size, wanted: torch.Size) -> str:
    same_but_ones = [size for size in got if size != 1] == [size for size in wanted if size != 1]
    if sorted(got) == sorted(wanted):
        if same_but_ones:
            return ": an axis of size 1 is in the wrong place (`None` or `unsqueeze` at another axis)"
        return ": the axes are in another order (a transpose is missing, or there's one too many)"
    if same_but_ones:
        surplus = "many" if len(got) > len(wanted) else "few"
        return f": one axis of size 1 too {surplus} (`keepdim`, `unsqueeze`)"
    return ""


def _dtype_hint(got: Tensor, wanted: Tensor) -> str:
    if wanted.dtype == torch.bool:
        return "A comparison (`==`, `<`, …) makes booleans; `~`, `&` and `|` keep them."
    if got.is_complex():
        return "Convert the complex numbers to real ones: `.real`, `torch.view_as_real`."
    if wanted.is_floating_point() and not got.is_floating_point():
        return "Counts, positions and comparisons are not floats. Did you return one of those?"
    if wanted.dtype == torch.float64:
        return "The inputs are float64. What in your code converts them (`.float()`, `dtype=…`, NumPy)?"
    return "Keep the dtype of the inputs. What in your code converts it (`.float()`, `dtype=…`, NumPy)?"


def _is_integer(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _first_place(where: Tensor) -> tuple[int, ...]:
    return tuple(where.nonzero()[0].tolist())


def _index(place: tuple[int, ...]) -> str:
    return str(list(place)) if place else ""


def _number(value: Any, other: Any) -> str:
    """Six digits, or as many as are needed to distinguish the value from the other one."""
    if isinstance(value, Integral):
        return shown(value)
    short = f"{value:.6g}"
    return short if short != f"{other:.6g}" else repr(value)


def shown(value: Any) -> str:
    """The value's `repr`, shortened; a description of the value if `repr` raises an error."""
    try:
        return shorten(repr(value), 100)
    except Exception:
        return _description(value)


def shorten(text: str, width: int) -> str:
    """The text, cut off after `width` characters."""
    return text if len(text) <= width else f"{text[:width]} …"


def _description(thing: Any) -> str:
    """A description in words; never the `repr`, which may contain an address or raise an error."""
    if isinstance(thing, Tensor):
        return "one tensor"
    if isinstance(thing, tuple | list | dict):
        name = "tuple" if isinstance(thing, tuple) else type(thing).__name__  # `x.max(-1)` is a tuple, too
        return f"a {name} of {len(thing)}"
    if thing is None:
        return "`None`"
    return f"of type `{type(thing).__name__}`"
