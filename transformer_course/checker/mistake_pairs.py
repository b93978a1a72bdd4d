"""Two slips in one answer: pairs of changes of the shown solution, tried where no single one explains it."""

import ast
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from itertools import combinations
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from transformer_course.checker import mistake_guide
from transformer_course.checker.compare import plain
from transformer_course.checker.exercise_types import Exercise, Mistake, ModuleExercise
from transformer_course.checker.input_mutation import with_tensors
from transformer_course.checker.sandbox import Outcome, alike, isolated

SECONDS = 3.0  # of computing, for all pairs of one attempt: the dearest, of modules, take one
ENOUGH = 16  # bits: of hundreds of pairs one would fit a few truth values by chance
Pair = tuple[Mistake, Mistake]


def explaining(exercise: Exercise, outcomes: list[Outcome]) -> list[Mistake]:
    """The two slips that together do what the answer does, or of several such pairs what they share.

    Nothing if the answer changes its arguments, which is told by itself, if its results say too little to
    tell pairs apart, or if it takes too long to be sure.
    """
    if any(outcome.changed.keys() - exercise.may_change for outcome in outcomes):
        return []
    if sum(_bits(part) for outcome in outcomes for part in _flat(outcome.result)) < ENOUGH:
        return []
    known = pairs(exercise)
    deadline = time.process_time() + SECONDS
    found: dict[frozenset[str], Pair] = {}
    with isolated():
        for pair, code in known:
            if time.process_time() > deadline:
                return []  # another pair might explain it as well
            if agrees(exercise, code, outcomes):
                found.setdefault(frozenset(each.name for each in pair), pair)
    if not found:
        return []
    shared = frozenset.intersection(*found)
    return [each for each in next(iter(found.values())) if each.name in shared]


def _bits(part: Any) -> int:
    """About how much a part says: a number a byte, a word half of one, a truth value a bit."""
    if isinstance(part, Tensor):
        return part.numel() * (1 if part.dtype == torch.bool else 8)
    return 4 if isinstance(part, str) else 1 if part is None or isinstance(part, bool) else 8


def are_counts(outcomes: list[Outcome]) -> bool:
    """Whether all results are integers: two slips in a formula often come to the same number as a third."""
    return all(isinstance(plain(part), int) for outcome in outcomes for part in _flat(outcome.result))


def _flat(result: Any) -> Iterator[Any]:
    if isinstance(result, tuple | list | dict):
        for each in result.values() if isinstance(result, dict) else result:
            yield from _flat(each)
    else:
        yield result


@cache
def pairs(exercise: Exercise) -> list[tuple[Pair, CodeType]]:
    """Every two changes that fit together, with the code that they make of the solution."""
    known = {_program(each.text): each for each in reversed([*exercise.mistakes, *exercise.shared])}
    shared = []
    for each in exercise.shared:
        # By the name of the first with the same program: else one slip would be two.
        first = known[_program(each.text)]
        shared.append(replace(each, name=first.name, effect=first.effect, cure=first.cure))
    singles = [each for each in [*exercise.mistakes, *shared] if each.changes]
    made = {mistake_guide.changed(exercise.shown, each.changes): None for each in singles}
    for one, other in combinations(singles, 2):
        text = one.name != other.name and _both(exercise.shown, one, other)
        if text and text not in made:
            made[text] = (one, other), compiled(text)
    return [pair for pair in made.values() if pair and pair[1]]


def _program(text: str) -> str:
    """The text without what does not matter, such as brackets round a name."""
    with suppress(SyntaxError):
        return ast.unparse(ast.parse(text))
    return text


def compiled(text: str) -> CodeType | None:
    """The code, without Python's warnings; None where two changes make no Python together."""
    with suppress(SyntaxError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(text, "<string>", "exec")
    return None


def _both(text: str, one: Mistake, other: Mistake) -> str | None:
    """The text with both changes, in the order in which they fit; None if the second undoes the first."""
    for first, second in ((one.changes, other.changes), (other.changes, one.changes)):
        if all(change.right for change in second):  # else it replaces the result, whatever stood there
            both = mistake_guide.changed(mistake_guide.changed(text, first), second)
            if both:
                return both
    return None


def agrees(exercise: Exercise, code: CodeType, outcomes: list[Outcome]) -> bool:
    """Whether the answer does in each case what the attempt has done; the first other ends it."""
    answer = answer_of(exercise, code)
    for (case, parameters), outcome in zip(_prepared(exercise), outcomes, strict=True):
        torch.default_generator.manual_seed(0)
        result = error = None
        try:
            if parameters:  # which parts among the settings are given again, whatever an answer has done
                module = exercise.ready(answer, case, parameters)
                result = exercise.use(module, _copy(exercise.inputs(case)))
            else:
                result = exercise.call(answer, _copy(case))
        except Exception as raised:
            error = raised
        if not alike(exercise.comparison, [outcome], [Outcome(result, error)]):
            return False
    return True


def _copy(case: Any) -> Any:
    """As `deepcopy`, which of tensors takes longer than computing; an optimizer keeps its model."""
    copied = partial(deepcopy, memo={})
    return with_tensors(case, lambda x: copied(x) if x.requires_grad else x.clone(), copied)


answer_of = cache(mistake_guide.answer)


@cache
def _prepared(exercise: Exercise) -> list[tuple[Any, dict[str, Tensor]]]:
    """The cases, and the parameters that a module has in each."""
    is_plain = isinstance(exercise, ModuleExercise) and type(exercise).call is Exercise.call
    found = []
    for case in exercise.fresh_cases():
        module = exercise.ready(exercise.reference, deepcopy(case)) if is_plain else nn.Module()
        found.append((case, {name: value.detach().clone() for name, value in module.named_parameters()}))
    return found
