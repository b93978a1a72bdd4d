"""From an attempt to a verdict: not attempted, correct, a mistake known by name, or the first thing amiss."""

import textwrap
from typing import Any

from torch import Tensor

from transformer_lab.exercises.engine import source
from transformer_lab.exercises.engine.compare import VALUE, Comparison, Difference
from transformer_lab.exercises.engine.exercise import Exercise, Mistake, ValueExercise
from transformer_lab.exercises.engine.parameters import ParameterMismatch
from transformer_lab.exercises.engine.run import Outcome
from transformer_lab.exercises.engine.verdict import Verdict


def judge(exercise: Exercise, attempt: Any) -> Verdict:
    """The verdict on an attempt. A mistake known by name is worth more than any general remark."""
    if source.is_empty(attempt):
        return Verdict.not_attempted(exercise.id)
    if attempt is exercise.reference and not isinstance(exercise, ValueExercise):
        return Verdict.not_attempted(exercise.id, _already_reference(exercise))
    if not exercise.accepts(attempt):
        return Verdict.not_yet(exercise.id, "wrong type", [_wrong_kind(exercise, attempt)])
    outcomes = exercise.outcomes(attempt)
    if any(map(_is_stub, outcomes)):
        return _still_a_stub(exercise, attempt)
    troubles = [_trouble(exercise, attempt, i, outcome) for i, outcome in enumerate(outcomes)]
    first = next((i for i, trouble in enumerate(troubles) if trouble), None)
    misnamed = exercise.misnamed(attempt)
    if first is None and not misnamed:
        return Verdict.correct(exercise.id, printed=outcomes[0].printed)
    mistakes = [] if first is None else recognised(exercise, outcomes)
    if mistakes:
        name, text, printed = mistakes[0].name, mistakes[0].diagnosis, outcomes[first].printed
        return Verdict.not_yet(exercise.id, name, [text], printed=printed)
    if misnamed and (first is None or isinstance(outcomes[first].error, TypeError)):
        return Verdict.not_yet(exercise.id, "an argument is missing by its name", [_misnamed(misnamed)])
    printed = outcomes[first].printed
    lines = [troubles[first].text, *_where(exercise, first)]
    return Verdict.not_yet(exercise.id, troubles[first].name, lines, printed=printed)


def recognised(exercise: Exercise, outcomes: list[Outcome]) -> list[Mistake]:
    """The mistakes of the bank that do the same in every single case; the tests see to it that they agree."""
    comparison = Comparison(exercise.tolerance)
    return [
        mistake
        for mistake, wrong in exercise.wrong_outcomes
        if all(_same(comparison, *pair) for pair in zip(outcomes, wrong, strict=True))
    ]


def _same(comparison: Comparison, mine: Outcome, theirs: Outcome) -> bool:
    if mine.error is None and theirs.error is None:
        return comparison.difference(_bare(mine.result), _bare(theirs.result), "") is None
    return type(mine.error) is type(theirs.error) and str(mine.error) == str(theirs.error)


def _bare(result: Any) -> Any:
    """A single number without its tensor: the mistake is the same with `.item()` and without."""
    is_single = isinstance(result, Tensor) and result.ndim == 0 and not result.is_meta
    return result.item() if is_single else result


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
        return _error(outcome.error, attempt)
    is_value = isinstance(exercise, ValueExercise)
    if outcome.result is None and not is_value:
        return Difference("nothing returned", "Your code returns `None`. Did you forget `return`?")
    label = f"`{exercise.name}`" if is_value else "Your result"
    comparison = Comparison(exercise.tolerance, exercise.returns, reveal=not is_value)
    difference = comparison.difference(outcome.result, exercise.wanted[i], label)
    if outcome.changed and (difference is None or difference.name == VALUE):
        return _changed(outcome.changed)
    if difference is None and outcome.called & exercise.without:
        return _forbidden(outcome.called & exercise.without)
    return difference


def _error(error: BaseException, attempt: Any) -> Difference:
    if isinstance(error, ParameterMismatch):
        return Difference("wrong parameters", str(error))
    message = textwrap.shorten(f"{type(error).__name__}: {error}", 300, placeholder=" …")
    line = source.failing_line(error, attempt)
    if line is None:
        return Difference("it raises an error", message)
    number, text = line
    return Difference(
        f"line {number} of your cell raises an error", f"`{text}` gives {message}" if text else message
    )


def _changed(names: list[str]) -> Difference:
    return Difference(
        "input changed in place",
        f"Your code writes into `{names[0]}`, and the caller's tensor changes with it. `x -= y`, `x[…] = y` "
        "and operations whose name ends in `_` work in place: make a new tensor instead, `x = x - y`.",
    )


def _forbidden(names: set[str]) -> Difference:
    name = min(names)
    return Difference(
        f"{name} did the work",
        f"The values are right, but torch's own `{name}` made them. Write it out: that is the exercise.",
    )


def _misnamed(name: str) -> str:
    return (
        f"`forward` has no argument `{name}`, and the code around it hands it over by that name, "
        f"`{name}=…`. Call yours so too."
    )


def _already_reference(exercise: Exercise) -> str:
    return f"`{exercise.name}` is the reference at the moment: run the cell with your answer, then this one."


def _wrong_kind(exercise: Exercise, attempt: Any) -> str:
    text = f"`{exercise.name}` is of type `{type(attempt).__name__}`; {exercise.kind} is wanted."
    return f"{text} Hand over `{exercise.name}` itself, without calling it."


def _where(exercise: Exercise, i: int) -> list[str]:
    if isinstance(exercise, ValueExercise):
        return []
    cases = exercise.fresh_cases()
    return [f"Case {i + 1} of {len(cases)}: {exercise.describe(cases[i])}."]
