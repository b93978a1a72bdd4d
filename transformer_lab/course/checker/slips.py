"""Two slips in one answer: pairs of changes of the shown solution, tried where no single one explains it."""

import time
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from itertools import combinations
from typing import Any

import torch

from transformer_lab.course.checker import field_guide
from transformer_lab.course.checker.kinds import Exercise, Mistake
from transformer_lab.course.checker.run import Outcome, alike, isolated

SECONDS = 1.0  # for all pairs of one attempt


def explaining(exercise: Exercise, outcomes: list[Outcome]) -> list[Mistake]:
    """The two slips that together do what the answer does, or of several such pairs what they share.

    Nothing if the answer raises an error, for that is told by its line, or if it takes too long to be sure.
    """
    if any(outcome.error for outcome in outcomes):
        return []
    deadline = time.monotonic() + SECONDS
    found: dict[frozenset[str], tuple[Mistake, Mistake]] = {}
    with isolated():
        for pair, text in pairs(exercise):
            if time.monotonic() > deadline:
                return []  # another pair might explain it as well
            if _agrees(exercise, text, outcomes):
                found.setdefault(frozenset(each.name for each in pair), pair)
    if not found:
        return []
    shared = frozenset.intersection(*found)
    first = next(iter(found.values()))
    return [each for each in first if each.name in shared]


@cache
def pairs(exercise: Exercise) -> list[tuple[tuple[Mistake, Mistake], str]]:
    """Every two changes that fit together, with the text that they make of the solution."""
    return list(_pairs(exercise))


def _pairs(exercise: Exercise) -> Iterator[tuple[tuple[Mistake, Mistake], str]]:
    singles = [each for each in [*exercise.mistakes, *exercise.shared] if each.changes]
    made = {field_guide.changed(exercise.shown, each.changes) for each in singles}
    for one, other in combinations(singles, 2):
        text = one.name != other.name and _both(exercise.shown, one, other)
        if text and text not in made:
            made.add(text)
            yield (one, other), text


def _both(text: str, one: Mistake, other: Mistake) -> str | None:
    """The text with both changes, in the order in which they fit; None if the second undoes the first."""
    for first, second in ((one.changes, other.changes), (other.changes, one.changes)):
        if all(change.right for change in second):  # else it replaces the result, whatever stood there
            both = field_guide.changed(field_guide.changed(text, first), second)
            if both:
                return both
    return None


def _agrees(exercise: Exercise, text: str, outcomes: list[Outcome]) -> bool:
    """Whether an answer of this text does in each case what the attempt has done; the first other ends it."""
    answer = _answer(exercise, text)
    for case, outcome in zip(_cases(exercise), outcomes, strict=True):
        torch.default_generator.manual_seed(0)
        try:
            result = exercise.call(answer, deepcopy(case))
        except Exception:
            return False
        if not alike(exercise.comparison, [Outcome(result, None)], [outcome]):
            return False
    return True


@cache
def _answer(exercise: Exercise, text: str) -> Any:
    return field_guide.answer(exercise, text)


@cache
def _cases(exercise: Exercise) -> list[Any]:
    return exercise.fresh_cases()
