"""Turn an attempt into a verdict: not attempted, correct, a known mistake, or the first difference."""

from typing import Any

from transformer_course.checker import (
    error_cures,
    invariants,
    messages,
    mistake_pairs,
    precision,
    robustness,
    source,
)
from transformer_course.checker.compare import VALUE, Difference
from transformer_course.checker.exercise_types import Exercise, Mistake, ValueExercise
from transformer_course.checker.parameters import ParameterMismatch
from transformer_course.checker.sandbox import Outcome, alike
from transformer_course.checker.time_limit import TimeLimitExceeded
from transformer_course.checker.verdict import CORRECT, Verdict


def judge(exercise: Exercise, attempt: Any) -> Verdict:
    """The verdict on an attempt. A known mistake takes precedence over a general message."""
    if source.is_empty(attempt):
        return Verdict.not_attempted(exercise.id)
    if attempt is exercise.reference and not isinstance(exercise, ValueExercise):
        return Verdict.not_attempted(exercise.id, messages.already_reference(exercise))
    if not exercise.accepts(attempt):
        return Verdict.not_yet(exercise.id, "wrong type", [messages.wrong_kind(exercise, attempt)])
    return grade(exercise, attempt, exercise.outcomes(attempt))


def grade(exercise: Exercise, attempt: Any, outcomes: list[Outcome]) -> Verdict:
    """The verdict on an attempt, given its outcome for every case."""
    if any(map(_is_stub, outcomes)):
        return _still_a_stub(exercise, attempt)
    settings = {name for outcome in outcomes for name in outcome.changed_settings}
    if settings and not _is_endless(outcomes):
        return _not_yet(exercise, 0, messages.about_settings(sorted(settings)), outcomes[0].printed)
    problems = (_problem(exercise, attempt, i, outcome) for i, outcome in enumerate(outcomes))
    first, problem = next(((i, problem) for i, problem in enumerate(problems) if problem), (None, None))
    misnamed = exercise.misnamed(attempt)
    if first is None and not misnamed:
        fragile = robustness.problem(exercise, attempt)
        return _not_yet(exercise, *fragile, outcomes[0].printed) if fragile else right(exercise, outcomes)
    mistakes = [] if first is None else recognised(exercise, outcomes) or _same_parameters(exercise, outcomes)
    if mistakes:
        known, printed = mistakes[0], outcomes[first].printed
        return Verdict.not_yet(exercise.id, known.name, [known.effect], printed, known.cure)
    if misnamed and (first is None or isinstance(outcomes[first].error, TypeError)):
        remark = messages.about_name(*misnamed)
        return Verdict.not_yet(exercise.id, remark.name, [remark.text])
    return _unknown(exercise, attempt, outcomes, first, problem)


def right(exercise: Exercise, outcomes: list[Outcome]) -> Verdict:
    """The verdict on a correct answer."""
    lines, honour = tuple(exercise.beyond(outcomes)), exercise.deserves_honour(outcomes)
    return Verdict(exercise.id, CORRECT, lines=lines, printed=outcomes[0].printed, honour=honour)


def recognised(exercise: Exercise, outcomes: list[Outcome]) -> list[Mistake]:
    """The guide's mistakes with the same outcome in every case. A test checks that they share one name."""
    if _is_endless(outcomes):
        return []
    return [
        mistake for mistake, wrong in exercise.wrong_outcomes if alike(exercise.comparison, outcomes, wrong)
    ]


def _same_parameters(exercise: Exercise, outcomes: list[Outcome]) -> list[Mistake]:
    """The mistake whose parameters differ from the expected ones in the same way in the first case.

    The forward pass of such an answer was never run, so it may contain other mistakes. Returns an empty list
    if mistakes with different names match.
    """
    if not isinstance(outcomes[0].error, ParameterMismatch):
        return []
    found = [
        mistake
        for mistake, wrong in exercise.wrong_outcomes
        if alike(exercise.comparison, outcomes[:1], wrong[:1])
    ]
    return found[:1] if len({mistake.name for mistake in found}) == 1 else []


def _unknown(
    exercise: Exercise, attempt: Any, outcomes: list[Outcome], i: int, problem: Difference
) -> Verdict:
    """The verdict if no single mistake explains the answer.

    It names a pair of mistakes, a violated invariant, or the first difference.
    """
    printed, error = outcomes[i].printed, outcomes[i].error
    slips = _besides_float32(exercise, attempt, outcomes) if problem.name == VALUE else []
    if slips == [precision.FLOAT32]:
        lines = [precision.FLOAT32.effect, *messages.where(exercise, i)]
        return Verdict.not_yet(exercise.id, precision.NAME, lines, printed, precision.FLOAT32.cure)
    pair = slips or (None if error else mistake_pairs.explanation(exercise, outcomes))
    cure = error_cures.cure(error) if error else " ".join(mistake.cure for mistake in pair or ())
    if pair and (slips or not mistake_pairs.are_counts(outcomes)):
        name = " + ".join(mistake.name for mistake in pair)
        lines = ["Your answer contains two mistakes:"]
        lines += [mistake.effect for mistake in pair]
        return Verdict.not_yet(exercise.id, name, lines, printed, cure)
    guess = [messages.perhaps(*pair)] if pair else []
    lines = [problem.text, *guess, *messages.where(exercise, i)]
    if problem.name == VALUE:
        lacking = invariants.lacking(exercise, attempt, i, outcomes[i].result)
        if lacking:
            name, sentence = lacking
            return Verdict.not_yet(exercise.id, name, [sentence, *lines], printed, cure)
    return Verdict.not_yet(exercise.id, problem.name, lines, printed, cure)


def _besides_float32(exercise: Exercise, attempt: Any, outcomes: list[Outcome]) -> list[Mistake]:
    """The mistakes that remain if the answer is computed in float64.

    Only float32 if the answer is then correct, float32 and a known mistake if it then matches one, otherwise
    an empty list.
    """
    longer = precision.without_float32(exercise, attempt, outcomes)
    if longer is None:
        return []
    if not any(_problem(exercise, attempt, i, outcome) for i, outcome in enumerate(longer)):
        return [precision.FLOAT32]
    known = recognised(exercise, longer)[:1]
    return [*known, precision.FLOAT32] if known and known[0].name != precision.NAME else []


def _not_yet(exercise: Exercise, i: int, problem: Difference, printed: str) -> Verdict:
    return Verdict.not_yet(exercise.id, problem.name, [problem.text, *messages.where(exercise, i)], printed)


def _is_stub(outcome: Outcome) -> bool:
    # A bare `raise NotImplementedError`; the errors that PyTorch raises carry a message.
    return isinstance(outcome.error, NotImplementedError) and not outcome.error.args


def _is_endless(outcomes: list[Outcome]) -> bool:
    return isinstance(outcomes[-1].error, TimeLimitExceeded)


def _still_a_stub(exercise: Exercise, attempt: Any) -> Verdict:
    if source.is_text_of(attempt, exercise.stub):
        return Verdict.not_attempted(exercise.id)
    line = "Your code still reaches `raise NotImplementedError`. Remove that line, and return your result."
    return Verdict.not_yet(exercise.id, "the stub's last line is still there", [line])


def _problem(exercise: Exercise, attempt: Any, i: int, outcome: Outcome) -> Difference | None:
    """The first problem in one case: an error, an argument changed in place, or a difference."""
    if outcome.error is not None:
        return messages.about_error(outcome.error, attempt)
    difference = exercise.difference(i, outcome.result)
    if outcome.changed and (difference is None or difference.name == VALUE):
        changed = {name: part for name, part in outcome.changed.items() if name not in exercise.may_change}
        if changed:
            return messages.about_changes(changed)
    return difference
