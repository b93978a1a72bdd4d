"""What to say of an answer that no mistake of the bank explains."""

from typing import Any

from transformer_course.checker import source, time_limit
from transformer_course.checker.compare import Difference, shorten
from transformer_course.checker.exercise_types import Exercise, Mistake
from transformer_course.checker.parameters import ParameterMismatch


def about_error(error: BaseException, attempt: Any) -> Difference:
    """The error, and the line of the learner's cell where it arose."""
    if isinstance(error, ParameterMismatch):
        return Difference("wrong parameters", str(error))
    number, text = source.failing_line(error, attempt) or (None, "")
    if isinstance(error, time_limit.TimeLimitExceeded):
        place = f" in line {number} of your cell, `{text}`" if text else ""
        stopped = f"After {time_limit.SECONDS:.0f} seconds your code was stopped{place}."
        return Difference("it does not end", f"{stopped} What makes its loop end, and does that ever happen?")
    message = " ".join(f"{type(error).__name__}: {error}".removesuffix(": ").split())
    told = f"`{text}` gives {shorten(message, 300)}" if text else shorten(message, 300)
    if isinstance(error, SystemExit):
        return Difference(
            "your code ends the program", f"{told}. Outside the checker the lesson would stop here."
        )
    place = f"line {number} of your cell" if number else "it"
    return Difference(f"{place} raises an error", told)


def about_changes(changed: dict[str, str]) -> Difference:
    """Arguments that are not what they were."""
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


def about_everywhere(names: list[str]) -> Difference:
    """Something that belongs to the whole notebook is not what it was."""
    listed = ", ".join(name if " " in name else f"`{name}`" for name in names)
    text = (
        f"Your code changes {listed} for the whole notebook: every later cell would compute with it. "
        "Leave it as it is; if you need another one, give your own a name of its own."
    )
    return Difference("it changes the whole notebook", text)


def perhaps(found: list[Mistake]) -> str:
    """Slips that would explain it, where others might as well: a formula has many ways to one number."""
    if len(found) == 2:
        both = " and ".join(f'"{each.name}"' for each in found)
        return f"Two slips together would give just this: {both}. Is it that?"
    return f'Several pairs of slips would do this; in each of them is "{found[0].name}". Is it that?'


def about_replaced(names: list[str]) -> str:
    """A cell has changed a library."""
    listed = ", ".join(f"`{name}`" for name in names)
    return (
        f"A cell of this notebook has replaced {listed}; here you are judged without that. Take that line "
        "out, restart the kernel, and run the cells again."
    )


def about_ban(name: str) -> Difference:
    """Something ready-made did the work."""
    text = f"The values are right, but `{name}` made them, ready-made. Write it out: that is the exercise."
    return Difference(f"{name} did the work", text)


def about_name(whose: str, name: str) -> Difference:
    """An argument that bears another name than the one it is handed over by."""
    text = f"{whose} has no argument `{name}`, and the code around it hands it over by that name, `{name}=…`."
    return Difference("an argument is missing by its name", f"{text[0].upper()}{text[1:]} Call yours so too.")


def already_reference(exercise: Exercise) -> str:
    """The learner's cell was not run since the last check."""
    return f"`{exercise.name}` is the reference at the moment: run the cell with your answer, then this one."


def wrong_kind(exercise: Exercise, attempt: Any) -> str:
    """What was handed over cannot be an answer."""
    text = f"`{exercise.name}` is of type `{type(attempt).__name__}`; {exercise.kind} is wanted."
    return f"{text} Hand over `{exercise.name}` itself, without calling it."


def where(exercise: Exercise, i: int) -> list[str]:
    """The case that a remark is about."""
    if not exercise.takes_tensors:
        return []
    cases = exercise.fresh_cases()
    return [f"Case {i + 1} of {len(cases)}: {exercise.describe(cases[i])}."]
