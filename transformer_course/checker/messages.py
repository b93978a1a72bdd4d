"""Feedback messages for answers that no known mistake explains."""

from typing import Any

from transformer_course.checker import source, time_limit
from transformer_course.checker.compare import Difference, shorten
from transformer_course.checker.exercise_types import Exercise, Mistake
from transformer_course.checker.parameters import ParameterMismatch

NO_WAY_BACK = "changed in place before the gradient"  # of whatever check computes gradients


def about_error(error: BaseException, attempt: Any) -> Difference:
    """The error, and the line of the learner's cell that raised it."""
    if isinstance(error, ParameterMismatch):
        return Difference("wrong parameters", str(error))
    if isinstance(error, RuntimeError) and "modified by an inplace operation" in str(error):
        text = (
            "Your code changes a tensor in place after a step whose gradient needs its old numbers, so no "
            "gradient can be computed. `x += y`, `x[…] = y` and operations whose name ends in `_` work in "
            "place: make a new tensor instead, `x = x + y`."
        )
        return Difference(NO_WAY_BACK, text)
    number, line = source.failing_line(error, attempt) or (None, "")
    if isinstance(error, time_limit.TimeLimitExceeded):
        place = f" in line {number} of your cell, `{line}`" if line else ""
        stopped = f"After {time_limit.SECONDS:.0f} seconds your code was stopped{place}."
        return Difference("it does not end", f"{stopped} What makes its loop end, and does that ever happen?")
    message = shorten(" ".join(f"{type(error).__name__}: {error}".removesuffix(": ").split()), 300)
    text = f"`{line}` gives {message}" if line else message
    if isinstance(error, SystemExit):
        stops = "Outside the checker the lesson would stop here."
        return Difference("your code ends the program", f"{text}. {stops}")
    place = f"line {number} of your cell" if number else "it"
    return Difference(f"{place} raises an error", text)


def about_changes(changed: dict[str, str]) -> Difference:
    """Arguments that were changed in place."""
    name, part = next(iter(changed.items()))
    if part == name:
        text = (
            f"Your code writes into `{name}`, and the caller's tensor changes with it. `x -= y`, `x[…] = y` "
            "and operations whose name ends in `_` work in place: make a new tensor instead, `x = x - y`."
        )
    else:
        text = (
            f"Your code changes `{name}`, which belongs to the caller: `{part}` is not what it was. Later "
            "cells use it again. Only read it, or change a copy."
        )
    return Difference("input changed in place", text)


def about_settings(names: list[str]) -> Difference:
    """Global settings that were changed."""
    text = (
        f"Your code changes {', '.join(names)} for the whole notebook: every later cell would compute with "
        "it. Leave it as it is."
    )
    return Difference("it changes the whole notebook", text)


def about_forbidden_call(name: str) -> Difference:
    """A ready-made function or module did the work."""
    text = f"The values are right, but `{name}` made them, ready-made. Write it out: that is the exercise."
    return Difference(f"{name} did the work", text)


def about_name(owner: str, name: str) -> Difference:
    """An argument that has another name than the one by which it is passed."""
    text = f"{owner} has no argument `{name}`, and the code around it hands it over by that name, `{name}=…`."
    return Difference("an argument is missing by its name", f"{text[0].upper()}{text[1:]} Call yours so too.")


def perhaps(one: Mistake, other: Mistake) -> str:
    """Two mistakes that would explain a number; a formula has many ways to it."""
    return f'Two slips together would give just this: "{one.name}" and "{other.name}". Is it that?'


def already_reference(exercise: Exercise) -> str:
    """The learner's cell was not run since the last check."""
    return f"`{exercise.name}` is the reference at the moment: run the cell with your answer, then this one."


def wrong_kind(exercise: Exercise, attempt: Any) -> str:
    """The attempt is of a type that no answer has."""
    text = f"`{exercise.name}` is of type `{type(attempt).__name__}`; {exercise.kind} is wanted."
    return f"{text} Hand over `{exercise.name}` itself, without calling it."


def where(exercise: Exercise, i: int) -> list[str]:
    """The case that a remark is about."""
    if not exercise.takes_tensors:
        return []
    cases = exercise.fresh_cases()
    return [f"Case {i + 1} of {len(cases)}: {exercise.describe(cases[i])}."]
