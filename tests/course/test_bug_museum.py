"""Lesson 14: correct code has its property, mutants don't, and one of each five candidates is correct."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.course import answers
from tests.course.cells import solved
from transformer_course.bugs import candidates, mutants, parameters_of
from transformer_course.checker import judge
from transformer_course.checker.mutation_testing import MutationExercise
from transformer_course.checker.verdict import CORRECT, NOT_YET
from transformer_course.exercises import exercise_ids, find
from transformer_course.exercises.bug_museum import Exhibit
from transformer_lab import diagnostics

EXERCISES = [find(id) for id in exercise_ids() if id.startswith("14.")]
answers.load()
ATTENTION, ROTATION, LAYER = CANDIDATE_SETS = ["14.7", "14.20", "14.8"]


def of_type(exercise_type):
    exercises = [exercise for exercise in EXERCISES if isinstance(exercise, exercise_type)]
    return pytest.mark.parametrize("exercise", exercises, ids=lambda exercise: exercise.id)


@pytest.fixture(autouse=True)
def double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


# --- mutants next to correct code -----------------------------------------------------------------


def test_correct_code_has_the_property_and_the_mutant_gives_other_numbers():
    for mutant in mutants():
        assert mutant.has_property(mutant.correct, mutant.x), mutant.number
        correct, mutated = mutant.correct(mutant.x), mutant.mutated(mutant.x)
        assert correct.isfinite().all(), mutant.number
        assert mutated.shape != correct.shape or not torch.allclose(mutated, correct), mutant.number
        assert parameters_of(mutant.correct) == mutant.parameters, mutant.number


# --- mutation testing -----------------------------------------------------------------------------


@of_type(MutationExercise)
def test_some_test_kills_the_mutant_and_every_hidden_variant_of_it(exercise):
    tests = [solved(exercise), *answers.ALTERNATIVES[exercise.id]]
    assert any(judge(exercise, test).headline.startswith("✓✓ ") for test in tests)


# --- five candidates, one of them correct ---------------------------------------------------------


def padding_is_ignored(candidate, width):
    x, real = torch.randn(2, 5, width), torch.arange(5) < 3
    other = torch.where(real[:, None], x, x + 1)
    before, after = (candidate(y, may_attend=real.expand(2, 1, 1, 5))[:, :3] for y in (x, other))
    return torch.allclose(before, after)


def is_attention(candidate):
    x = torch.randn(2, 5, 12)
    heads = x.unflatten(-1, (2, 6)).transpose(1, 2)
    wanted = F.scaled_dot_product_attention(heads, heads, heads)
    return torch.allclose(candidate(x), wanted.transpose(1, 2).flatten(-2))


def lengths_are_kept(candidate):
    x = torch.randn(2, 7, 3, 6)
    return torch.allclose(candidate(x).norm(dim=-1), x.norm(dim=-1))


def heads_are_independent(candidate):
    x = torch.randn(2, 7, 3, 6)
    return torch.allclose(candidate(x)[:, :, 2:], candidate(x[:, :, 2:]))


def texts_are_independent(candidate):
    x = torch.randn(2, 7, 3, 6)
    return torch.allclose(candidate(x)[1:], candidate(x[1:]))


def positions_differ(candidate, length=600):
    same = torch.randn(6).expand(1, length, 1, 6)
    return len(candidate(same)[0, :, 0].unique(dim=0)) == length


def variance_is_one(candidate):
    variance = candidate(torch.randn(2, 5, 16)).var(dim=-1, correction=0)
    return torch.allclose(variance, torch.ones(2, 5), atol=1e-3)


def has(name):
    return lambda candidate: getattr(diagnostics, name)(candidate, torch.randn(3, 5, 16)).holds


REVEALED_BY = {
    ATTENTION: {"ADE": is_attention, "BDE": lambda candidate: padding_is_ignored(candidate, 12)},
    ROTATION: {
        "A": heads_are_independent,
        "AB": positions_differ,
        "C": texts_are_independent,
        "D": lengths_are_kept,
    },
    LAYER: {
        "A": has("permutation_equivariance"),
        "C": variance_is_one,
        "D": has("batch_invariance"),
        "E": lambda candidate: padding_is_ignored(candidate, 16),
    },
}


@pytest.mark.parametrize("id", CANDIDATE_SETS)
def test_each_property_is_violated_by_its_candidates_and_one_candidate_has_them_all(id):
    left = set("ABCDE")
    for letters, has_property in REVEALED_BY[id].items():
        broken = {letter for letter, candidate in candidates(id).items() if not has_property(candidate)}
        assert broken == set(letters)
        left -= broken
    assert [find(id).reference[letter] for letter in left] == ["right"]


@pytest.mark.parametrize("id", CANDIDATE_SETS)
def test_neither_shape_nor_name_gives_a_candidate_away(id):
    x = torch.randn(2, 5, 3, 6) if id == ROTATION else torch.randn(2, 5, 12 if id == ATTENTION else 16)
    given = candidates(id).values()
    assert len({candidate.__qualname__ for candidate in given}) == 1
    for candidate in given:
        assert candidate(x).shape == x.shape and candidate(x).isfinite().all()


def test_the_sentences_about_faults_that_are_easily_mistaken_are_true():
    attention, rotation, x = candidates(ATTENTION), candidates(ROTATION), torch.randn(2, 5, 12)
    shuffled = {
        name for name, candidate in attention.items() if candidate(x.flip(1)).allclose(candidate(x).flip(1))
    }
    assert shuffled == set("ABCE")
    sums = {name for name, candidate in attention.items() if candidate(x).sum(dim=1).allclose(x.sum(dim=1))}
    assert sums == {"E"}
    assert positions_differ(rotation["B"], 257) and not positions_differ(rotation["B"])


@pytest.mark.parametrize("id", CANDIDATE_SETS)
def test_the_answer_names_the_bug_of_each_candidate(id):
    exercise = find(id)
    same = {letter.lower(): f" {name.capitalize()}." for letter, name in reversed(exercise.reference.items())}
    assert judge(exercise, same).state == CORRECT
    assert set(exercise.reference.values()) < exercise.faults.keys()
    for letter in exercise.reference:
        for other in exercise.faults.keys() - {*exercise.reference.values()}:  # names that are left over
            verdict = judge(exercise, exercise.reference | {letter: other})
            assert verdict.state == NOT_YET and verdict.name


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("C", "not a name for each"),
        ({"A": "scale"}, "not a name for each"),
        (dict.fromkeys("ABCDE", "right"), "one name twice"),
        (dict(zip("ABCDE", ["scale", "inverted", "right", "view", "rows"], strict=True)), "not in the list"),
        (dict(zip("ABCDE", ["scale", "view", "right", "merge", "columns"], strict=True)), "not B"),
    ],
)
def test_an_answer_of_another_kind_is_named(answer, name):
    assert judge(find(ATTENTION), answer).name == name


# --- letters and lines ----------------------------------------------------------------------------


@of_type(Exhibit)
def test_an_answer_counts_that_can_mean_one_thing_only(exercise):
    right = exercise.reference
    if isinstance(right, str):
        others = [f"{right} ", f"{right}. ".lower(), f"({right})", np.str_(right)]
    else:
        others = [f" {right}", f"line {right}", float(right), torch.tensor(right)]
    assert {judge(exercise, other).state for other in others} == {CORRECT}
    for mistake in exercise.mistakes:
        for other in (f" {mistake.answer}. ".lower(), f"({mistake.answer})"):
            assert judge(exercise, other).name == mistake.name
    for unclear in ("", "A or C", "1 or 2", None, True, 2.5):
        assert judge(exercise, unclear).state == NOT_YET
