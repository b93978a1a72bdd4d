"""Find two mistakes in one answer: pairs of the guide's changes, tried if no single mistake explains it.

Each pair is first applied to the shown solution. A pair that agrees with the answer in some but not all cases
is then applied to solutions that are written differently, for example with −1e9 instead of −∞.
"""

import ast
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from functools import cache, partial
from itertools import combinations
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from transformer_course.checker import mistake_guide, time_limit
from transformer_course.checker.compare import plain
from transformer_course.checker.exercise_types import Exercise, Mistake, ModuleExercise
from transformer_course.checker.input_mutation import parts, with_tensors
from transformer_course.checker.sandbox import Outcome, alike, isolated

SECONDS = 5.0  # of CPU time per search
ENOUGH_BITS = 16  # with fewer, one of hundreds of pairs would match by chance
Pair = tuple[Mistake, Mistake]


def explanation(exercise: Exercise, outcomes: list[Outcome]) -> Pair | None:
    """The only pair of mistakes that has the same outcome as the answer in every case.

    None if several pairs match and none is the simplest; if the answer changes its arguments, which has a
    message of its own; if the results contain too little information to distinguish pairs; or if the search
    runs out of time.
    """
    if any(outcome.changed.keys() - exercise.may_change for outcome in outcomes):
        return None
    if sum(_bits(part) for outcome in outcomes for _, part in parts(outcome.result)) < ENOUGH_BITS:
        return None

    def search() -> Pair | None:
        candidates = pairs(exercise)
        deadline = time.process_time() + SECONDS
        cases = _cases_with_parameters(exercise)
        near: list[Pair] = []  # pairs that agree only in the first case or cases
        for ways in (candidates, _written_otherwise(exercise, near)):
            agreeing: dict[frozenset[str], Pair] = {}
            for pair, code in ways:
                if time.process_time() > deadline:
                    return None
                names = frozenset(mistake.name for mistake in pair)
                agreements = 0 if names in agreeing else _agreements(exercise, code, cases, outcomes)
                if agreements == len(cases):
                    agreeing[names] = pair
                elif agreements and ways is candidates:
                    near.append(pair)
                if agreeing and not _simplest([*agreeing.values()]):
                    return None
            if agreeing:
                return _simplest([*agreeing.values()])
        return None

    with isolated():
        pair, _ = time_limit.run(search)  # two changes together may cause an endless loop
    return pair


def _simplest(found: list[Pair]) -> Pair | None:
    """The pair whose changes are all contained in every other pair; None if there is none."""
    changes = [{change for mistake in pair for change in mistake.changes} for pair in found]
    return next(
        (pair for pair, own in zip(found, changes, strict=True) if all(map(own.issubset, changes))), None
    )


def _bits(part: Any) -> int:
    """A rough measure of information in bits: 8 for a number, 4 for a word, 1 for a bool."""
    if isinstance(part, Tensor):
        return part.numel() * (1 if part.dtype == torch.bool else 8)
    return 4 if isinstance(part, str) else 1 if part is None or isinstance(part, bool) else 8


def are_counts(outcomes: list[Outcome]) -> bool:
    """Whether all results are integers: two mistakes in a formula often give the same number as a third."""
    return all(isinstance(plain(part), int) for outcome in outcomes for _, part in parts(outcome.result))


@cache
def pairs(exercise: Exercise) -> list[tuple[Pair, CodeType]]:
    """All pairs of changes of the shown solution that can be combined, with the resulting code."""
    mistakes = [mistake for mistake in [*exercise.mistakes, *exercise.shared] if mistake.changes]
    singles: dict[str, Mistake] = {}  # by syntax tree; if it occurs twice, the guide's own mistake is kept
    # Pairs explain answers that run in the first case, so both mistakes have to run there too.
    stopped = {mistake.text for mistake, outcomes in exercise.wrong_outcomes if outcomes[0].error}
    for mistake in (mistake for mistake in mistakes if mistake.text not in stopped):
        singles.setdefault(ast.dump(ast.parse(mistake.text)), mistake)
    texts = {mistake.text: None for mistake in mistakes}
    for one, other in combinations(singles.values(), 2):
        text = one.name != other.name and _with_both(exercise.shown, one, other)
        if text and text not in texts:
            texts[text] = (one, other)
    compiled = [(pair, _compiled(text)) for text, pair in texts.items() if pair]
    return [(pair, code) for pair, code in compiled if code]


def _with_both(text: str, one: Mistake, other: Mistake) -> str | None:
    """The text with both changes, in an order in which both apply; None if the second undoes the first."""
    for first, second in ((one.changes, other.changes), (other.changes, one.changes)):
        if all(change.right for change in second):  # otherwise it replaces the result, whatever comes before
            both = mistake_guide.changed(mistake_guide.changed(text, first), second)
            if both:
                return both
    return None


def _written_otherwise(exercise: Exercise, found: list[Pair]) -> Iterator[tuple[Pair, CodeType]]:
    """The pairs applied to solutions that are written in another way, if their changes apply there."""
    for pair in found:  # `found` is filled before this generator starts
        for way in exercise.other_ways:
            text = mistake_guide.changed(_with_both(exercise.shown, *pair), way)
            code = text and _compiled(text)
            if code:
                yield pair, code


def _compiled(text: str) -> CodeType | None:
    with suppress(SyntaxError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(text, "<string>", "exec")
    return None


def _cases_with_parameters(exercise: Exercise) -> list[tuple[Any, dict[str, Tensor]]]:
    """Each case with the parameters of a module in it.

    They are drawn once, because drawing takes the most time.
    """
    is_plain = isinstance(exercise, ModuleExercise) and type(exercise).call is Exercise.call
    cases = []
    for case, same in zip(exercise.fresh_cases(), exercise.fresh_cases(), strict=True):
        module = exercise.ready(exercise.reference, same) if is_plain else nn.Module()
        cases.append((case, {name: value.detach() for name, value in module.named_parameters()}))
    return cases


def _agreements(exercise: Exercise, code: CodeType, cases: list[tuple], outcomes: list[Outcome]) -> int:
    """The number of cases, from the first on, in which the code has the same outcome as the attempt."""
    answer = mistake_guide.answer(exercise, code)
    for i, ((case, parameters), outcome) in enumerate(zip(cases, outcomes, strict=True)):
        torch.default_generator.manual_seed(0)
        result = error = None
        try:
            if parameters:
                module = exercise.ready(answer, case, parameters)
                result = exercise.use(module, _copy(exercise.inputs(case)))
            else:
                result = exercise.call(answer, _copy(case))
        except Exception as raised:
            error = raised
        if not alike(exercise.comparison, [outcome], [Outcome(result, error)]):
            return i
    return len(cases)


def _copy(case: Any) -> Any:
    """A deep copy, in which tensors are cloned because that is faster."""
    copied = partial(deepcopy, memo={})
    return with_tensors(case, lambda x: copied(x) if x.requires_grad else x.clone(), copied)
