"""From an attempt to a verdict: not attempted, correct, a mistake known by name, or the first thing amiss."""

from dataclasses import replace
from typing import Any

from transformer_course.checker import (
    invariants,
    messages,
    mistake_pairs,
    monkeypatch_guard,
    robustness,
    source,
)
from transformer_course.checker.compare import VALUE, Difference
from transformer_course.checker.exercise_types import Exercise, Mistake, ValueExercise
from transformer_course.checker.sandbox import Outcome, alike
from transformer_course.checker.time_limit import TimeLimit, TimeLimitExceeded
from transformer_course.checker.verdict import CORRECT, Verdict


def judge(exercise: Exercise, attempt: Any) -> Verdict:
    """The verdict on an attempt. A mistake known by name is worth more than any general remark."""
    if source.is_empty(attempt):
        return Verdict.not_attempted(exercise.id)
    if attempt is exercise.reference and not isinstance(exercise, ValueExercise):
        return Verdict.not_attempted(exercise.id, messages.already_reference(exercise))
    if not exercise.accepts(attempt):
        return Verdict.not_yet(exercise.id, "wrong type", [messages.wrong_kind(exercise, attempt)])
    with monkeypatch_guard.whole() as replaced, TimeLimit() as patience:
        verdict = _verdict(exercise, attempt, patience)
    told = [messages.about_replaced(replaced)] if replaced else []
    return replace(verdict, lines=(*told, *verdict.lines))


def _verdict(exercise: Exercise, attempt: Any, patience: TimeLimit) -> Verdict:
    outcomes = exercise.outcomes(attempt, patience)
    if any(map(_is_stub, outcomes)):
        return _still_a_stub(exercise, attempt)
    everywhere = {*monkeypatch_guard.replaced()}.union(*(outcome.everywhere for outcome in outcomes))
    if everywhere and not isinstance(outcomes[-1].error, TimeLimitExceeded):
        return _not_yet(exercise, 0, messages.about_everywhere(sorted(everywhere)), outcomes[0].printed)
    troubles = (_trouble(exercise, attempt, i, outcome) for i, outcome in enumerate(outcomes))
    first, trouble = next(((i, found) for i, found in enumerate(troubles) if found), (None, None))
    misnamed = exercise.misnamed(attempt)
    if first is None and not misnamed:
        found = robustness.trouble(exercise, attempt, patience)
        if found is None:
            return right(exercise, outcomes)
        return _not_yet(exercise, *found, outcomes[0].printed)
    mistakes = [] if first is None else recognised(exercise, outcomes)
    if mistakes:
        known, printed = mistakes[0], outcomes[first].printed
        return Verdict.not_yet(exercise.id, known.name, [known.effect], printed, known.cure)
    if misnamed and (first is None or isinstance(outcomes[first].error, TypeError)):
        remark = messages.about_name(*misnamed)
        return Verdict.not_yet(exercise.id, remark.name, [remark.text])
    return _unknown(exercise, attempt, outcomes, first, trouble, patience)


def right(exercise: Exercise, outcomes: list[Outcome]) -> Verdict:
    """What is said of a right answer."""
    lines, honour = tuple(exercise.beyond(outcomes)), exercise.deserves_honour(outcomes)
    return Verdict(exercise.id, CORRECT, lines=lines, printed=outcomes[0].printed, honour=honour)


def _unknown(
    exercise: Exercise,
    attempt: Any,
    outcomes: list[Outcome],
    i: int,
    trouble: Difference,
    patience: TimeLimit,
) -> Verdict:
    """No mistake explains it: two at once may, or a property that is lacking; else the first number amiss."""
    printed = outcomes[i].printed
    found = [] if outcomes[i].error else mistake_pairs.explaining(exercise, outcomes)
    if len(found) == 2 and not mistake_pairs.are_counts(outcomes):
        return _two(exercise, found, printed)
    guess, cure = ([messages.perhaps(found)], _cures(found)) if found else ([], "")
    lines = [trouble.text, *guess, *messages.where(exercise, i)]
    lack = trouble.name == VALUE and invariants.lacking(exercise, attempt, i, outcomes[i].result, patience)
    if lack:
        return Verdict.not_yet(exercise.id, lack[0], [lack[1], *lines], printed, cure)
    return Verdict.not_yet(exercise.id, trouble.name, lines, printed, cure)


def _two(exercise: Exercise, found: list[Mistake], printed: str) -> Verdict:
    """Two slips at once: what is certain is that together they do the same."""
    name = " + ".join(each.name for each in found)
    lines = ["Your answer does what two slips do together. Each by itself:", *(each.effect for each in found)]
    return Verdict.not_yet(exercise.id, name, lines, printed, _cures(found))


def _cures(found: list[Mistake]) -> str:
    return " ".join(each.cure for each in found)


def _not_yet(exercise: Exercise, i: int, trouble: Difference, printed: str) -> Verdict:
    lines = [trouble.text, *messages.where(exercise, i)]
    return Verdict.not_yet(exercise.id, trouble.name, lines, printed=printed)


def recognised(exercise: Exercise, outcomes: list[Outcome]) -> list[Mistake]:
    """The mistakes of the bank that do the same in every single case; the tests see to it that they agree."""
    if isinstance(outcomes[-1].error, TimeLimitExceeded):
        return []
    return [
        mistake for mistake, wrong in exercise.wrong_outcomes if alike(exercise.comparison, outcomes, wrong)
    ]


def _is_stub(outcome: Outcome) -> bool:
    # A bare `raise NotImplementedError`. Torch's own ("… not implemented for 'Long'") carry a message.
    return isinstance(outcome.error, NotImplementedError) and not outcome.error.args


def _still_a_stub(exercise: Exercise, attempt: Any) -> Verdict:
    if source.is_text_of(attempt, exercise.stub):
        return Verdict.not_attempted(exercise.id)
    line = "Your code still runs into `raise NotImplementedError`. Remove that line, and return your result."
    return Verdict.not_yet(exercise.id, "the stub's last line is still there", [line])


def _trouble(exercise: Exercise, attempt: Any, i: int, outcome: Outcome) -> Difference | None:
    """The first thing amiss in one case."""
    if outcome.error is not None:
        return messages.about_error(outcome.error, attempt)
    difference = exercise.difference(i, outcome.result)
    if outcome.changed and (difference is None or difference.name == VALUE):
        changed = {name: part for name, part in outcome.changed.items() if name not in exercise.may_change}
        if changed:
            return messages.about_changes(changed)
    return difference
