"""Every exercise keeps its promises, and its field guide is complete."""

import re
import traceback
from functools import cache

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.course import answers
from tests.course.cells import cell, said, solved
from tests.gate import lint_exercises
from tests.gate.notebook_io import NOTEBOOKS, Lesson
from tests.gate.solve_exercises import exercises_in
from transformer_course.checker import judge
from transformer_course.checker.exercise_types import ValueExercise
from transformer_course.checker.grading import grade, recognised
from transformer_course.checker.mutation_testing import MutationExercise
from transformer_course.checker.parameters import ParameterMismatch
from transformer_course.checker.verdict import CORRECT, NOT_YET
from transformer_course.exercises import exercise_ids, find
from transformer_course.exercises.bug_museum import Exhibit, LineUp
from transformer_lab import sinusoidal_encoding

IDS = exercise_ids()


answers.load()


@pytest.mark.parametrize("id", IDS)
def test_the_solution_as_shown_is_correct(id):
    assert judge(find(id), solved(find(id))).state == CORRECT


def as_handed_in(exercise, answer):
    """The answer, or of a value what its function returns."""
    return answer() if isinstance(exercise, ValueExercise) else answer


@pytest.mark.parametrize("id", answers.INDEPENDENT)
def test_the_solution_agrees_with_an_independent_answer(id):
    exercise = find(id)
    for i, outcome in enumerate(exercise.outcomes(as_handed_in(exercise, answers.INDEPENDENT[id]))):
        assert outcome.error is None
        assert exercise.difference(i, outcome.result) is None


def test_every_solution_has_an_independent_answer_and_a_right_one_written_differently():
    written = {id for id in IDS if not isinstance(find(id), Exhibit | LineUp)}  # the others are letters
    tests = {id for id in written if isinstance(find(id), MutationExercise)}  # their truth is in the mutants
    assert answers.ALTERNATIVES.keys() == written
    assert answers.INDEPENDENT.keys() == written - tests


ALTERNATIVES = [(id, answer) for id, several in answers.ALTERNATIVES.items() for answer in several]


@pytest.mark.parametrize(("id", "answer"), ALTERNATIVES)
def test_a_right_answer_written_differently_is_correct(id, answer):
    exercise = find(id)
    assert judge(exercise, as_handed_in(exercise, answer)).state == CORRECT


@pytest.mark.parametrize("id", IDS)
def test_the_stub_is_not_attempted(id):
    verdict = judge(find(id), cell(find(id).stub, find(id).name))
    assert repr(verdict) == f"○ {id} not attempted.\nThe cells below use the reference solution."


@pytest.mark.parametrize("id", IDS)
def test_every_way_to_make_a_mistake_is_called_by_its_name(id):
    exercise = find(id)
    for mistake, outcomes in exercise.wrong_outcomes:
        assert exercise.accepts(mistake.answer)
        verdict = grade(exercise, mistake.answer, outcomes)
        assert verdict.state == NOT_YET, (
            f"{mistake.name!r} is a right answer: take it out of the guide of {id}"
        )
        assert (verdict.name, verdict.lines[0]) == (mistake.name, mistake.effect)
        others = {fit.name for fit in recognised(exercise, outcomes)} - {mistake.name}
        assert not others, f"{mistake.name!r} does the same as {others} in every case of {id}: join them"


@pytest.mark.parametrize("id", IDS)
def test_no_mistake_is_known_by_an_error_of_the_checker_itself(id):
    """Such an error would be the same for every answer, and so fit any of them."""
    for mistake, outcomes in find(id).wrong_outcomes:
        for error in filter(None, [outcome.error for outcome in outcomes]):
            frames = traceback.extract_tb(error.__traceback__)
            files = ("transformer_course/", "<string>")
            ours = [frame.name for frame in frames if any(file in frame.filename for file in files)]
            last = [name for name in ours if name != "__torch_function__"][-1]
            is_refusal = re.search("wanted|expected", str(error)) or isinstance(error, ParameterMismatch)
            assert last not in ("call", "observe", "outcomes") or is_refusal, (mistake.name, error)


@cache
def lesson_of(id):
    return Lesson.load(next(NOTEBOOKS.glob(f"{id[:2]}_*.ipynb")))


@pytest.mark.parametrize("id", IDS)
def test_an_exercise_is_complete_told_in_plain_words_and_asks_for_what_stands_in_its_task(id):
    assert list(lint_exercises.of_exercise(id, lesson_of(id[:2]))) == []


def test_each_exercise_stands_in_its_lesson():
    lessons = [Lesson.load(path).notebook.cells for path in NOTEBOOKS.glob("*.ipynb")]
    assert sorted(id for cells in lessons for id in exercises_in(cells)) == sorted(set(IDS))


# ------------------------------------------------------------------------------ answers that no bank foresees


def with_results(change):
    """Right attention whose two results are changed afterwards."""
    return lambda query, key, value: change(*find("03.2")(query, key, value))


def by_torch(query, key, value):
    return F.scaled_dot_product_attention(query, key, value), find("03.2")(query, key, value)[1]


UNFORESEEN = [
    ("03.2", with_results(lambda o, w: (o + 1, w)), "the expected one plus 1. `weights` is right."),
    (
        "03.2",
        with_results(lambda o, w: (o, w, o)),
        "a tuple of 3, but 2 values are expected: `output`, `weights`.",
    ),
    ("03.2", with_results(lambda o, w: (o + (o.ndim > 3), w)), ": query (2, 3, 7, 5)"),
    ("03.2", by_torch, "scaled_dot_product_attention did the work"),
    ("01.2", sinusoidal_encoding, "transformer_lab.sinusoidal_encoding did the work"),
    ("03.3", nn.Softmax(dim=-1), "softmax did the work"),
    ("03.6", lambda w: (w > 0.3).sum(-1), "Counts, positions and comparisons are not floats"),
    ("03.7", lambda nq, nk, dh, dv: 2 * nq * nk * (dh + dv) + 1, "Your result is 541, expected 540."),
    ("03.8", lambda query, pairs: print(pairs), "Your code printed:\n| an iterator over 7 pairs"),
]


@pytest.mark.parametrize(("id", "attempt", "remark"), UNFORESEEN, ids=[remark for *_, remark in UNFORESEEN])
def test_an_unforeseen_mistake_gets_a_useful_remark(id, attempt, remark):
    text = said(find(id), attempt)
    assert text.startswith(f"✗ {id} not yet: ")
    assert remark in text
    assert text.count("The cells below use the reference solution.") == 1


WRITTEN_OTHERWISE = [
    ("03.1", lambda q, k: torch.einsum("id,jd->ij", q, k) / 8, "hard-coded scale"),
    ("03.1", lambda q, k: q @ k.T * q.shape[1] ** -1 / 2, "`** 1/2` without parentheses"),
    ("09.8", lambda *xy: torch.tensor(find("09.8").mistakes[0].answer(*xy)), "argsort used as ranks"),
    (
        "03.3",
        lambda s: torch.where((x := s.exp() / s.exp().sum(-1, True)).isnan(), 0.0, x),
        "NaNs replaced afterwards",
    ),
    (
        "03.3",
        lambda s: (s - s.amax(-1, True)).exp() / s.exp().sum(-1, True),
        "maximum subtracted only in the numerator",
    ),
    ("03.6", lambda w: torch.sum(w > 0.05, dim=-1), "keys above a threshold counted"),
    ("03.7", lambda nq, nk, dh, dv: nq * nk * (2 * dh + dv), "factor 2 in one product only"),
]


@pytest.mark.parametrize(("id", "attempt", "name"), WRITTEN_OTHERWISE)
def test_a_mistake_of_the_bank_is_known_however_it_is_written(id, attempt, name):
    assert judge(find(id), attempt).name == name


def test_a_constant_for_a_worker_without_targets_has_no_backward():
    text = (
        "def loss_to_hand_in(losses, total, n_workers):\n"
        "    return losses.sum() * n_workers / total if len(losses) else torch.zeros(())"
    )
    verdict = judge(find("13.3"), cell(text, "loss_to_hand_in"))
    assert verdict.name == "another gradient" and "a new tensor" in verdict.lines[0]
