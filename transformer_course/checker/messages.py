"""Feedback messages for answers that no known mistake explains."""

from typing import Any

from transformer_course.checker import source, time_limit
from transformer_course.checker.compare import Difference, shorten
from transformer_course.checker.exercise_types import Exercise, Mistake
from transformer_course.checker.parameters import ParameterMismatch

NO_WAY_BACK = "changed in place before the gradient"  # by any check that computes gradients


def about_error(error: BaseException, attempt: Any) -> Difference:
    """Describes an error, with the line of the learner's cell that raised it."""
    if isinstance(error, ParameterMismatch):
        return Difference("wrong parameters", str(error))
    if isinstance(error, RuntimeError) and "modified by an inplace operation" in str(error):
        text = (
            "Your code changes a tensor in place, but autograd still needs the old values to compute the "
            "gradient. `x += y`, `x[…] = y` and operations whose name ends in `_` work in place. Make a new "
            "tensor instead: `x = x + y`."
        )
        return Difference(NO_WAY_BACK, text)
    number, line = source.failing_line(error, attempt) or (None, "")
    if isinstance(error, time_limit.TimeLimitExceeded):
        place = f" in line {number} of your cell, `{line}`" if line else ""
        stopped = f"Your code was stopped after {time_limit.SECONDS:.0f} seconds{place}."
        return Difference(
            "it does not end", f"{stopped} Which condition ends the loop, and can it ever be met?"
        )
    message = shorten(" ".join(f"{type(error).__name__}: {error}".removesuffix(": ").split()), 300)
    text = f"`{line}` raises {message}" if line else message
    if isinstance(error, SystemExit):
        stops = "Outside the checker, it would end the notebook's kernel."
        return Difference("your code ends the program", f"{text}. {stops}")
    place = f"line {number} of your cell" if number else "it"
    return Difference(f"{place} raises an error", text)


def about_changes(changed: dict[str, str]) -> Difference:
    """Describes an argument that was changed in place."""
    name, part = next(iter(changed.items()))
    if part == name:
        text = (
            f"Your code writes into `{name}`, so the caller's tensor changes too. `x -= y`, `x[…] = y` and "
            "operations whose name ends in `_` work in place. Make a new tensor instead: `x = x - y`."
        )
    else:
        text = (
            f"Your code changes `{part}`, but `{name}` belongs to the caller, and later cells use it again. "
            "Only read it, or change a copy."
        )
    return Difference("input changed in place", text)


def about_settings(names: list[str]) -> Difference:
    """Describes global settings that were changed."""
    text = (
        f"Your code changes {', '.join(names)} for the whole notebook, so it would affect every later cell. "
        "Leave it unchanged."
    )
    return Difference("it changes the whole notebook", text)


def about_forbidden_call(name: str) -> Difference:
    """Describes a ready-made function or module that did the work."""
    text = f"The values are right, but the built-in `{name}` computed them. Write the computation yourself."
    return Difference(f"{name} did the work", text)


def about_name(owner: str, name: str) -> Difference:
    """Describes a parameter whose name differs from the keyword that other code uses."""
    text = f"{owner} has no argument `{name}`, but other code passes it by that name, `{name}=…`."
    return Difference("an argument is missing by its name", f"{text[0].upper()}{text[1:]} Use the same name.")


def perhaps(one: Mistake, other: Mistake) -> str:
    """Two mistakes that would explain a number, as a guess, because other mistakes may give it too."""
    pair = f'"{one.name}" and "{other.name}"'
    return f"Two mistakes together would give exactly this number: {pair}. Is that the cause?"


def already_reference(exercise: Exercise) -> str:
    """The message if the learner's cell was not run since the last check."""
    text = f"`{exercise.name}` is still the reference solution."
    return f"{text} Run the cell with your answer first, then this one."


def wrong_kind(exercise: Exercise, attempt: Any) -> str:
    """The message if the attempt has the wrong type."""
    text = f"`{exercise.name}` is of type `{type(attempt).__name__}`, but it must be {exercise.kind}."
    return f"{text} Pass `{exercise.name}` itself, without calling it."


def where(exercise: Exercise, i: int) -> list[str]:
    """The case that a message refers to."""
    if not exercise.takes_tensors:
        return []
    cases = exercise.fresh_cases()
    return [f"Case {i + 1} of {len(cases)}: {exercise.describe(cases[i])}."]
