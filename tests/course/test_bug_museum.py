"""The museum's specimens: what is called right is right, and what is called wrong is wrong."""

import pytest
import torch

from transformer_lab.course.checker import judge
from transformer_lab.course.exercises import exercise_ids, find
from transformer_lab.course.exercises.bug_museum import parameters_of, specimens
from transformer_lab.diagnostics.certificates import leak_map

NUMBERS = [10, 11, 12, 16, 30, 31, 32, 33, 34, 36, 38, 39, 40, 41, 42, 43]


@pytest.fixture(autouse=True)
def double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def cases(double):
    return {case.number: case for case in specimens()}


def differs(case):
    got, wanted = case.wrong(case.x), case.right(case.x)
    return got.shape != wanted.shape or not torch.allclose(got, wanted)


def test_the_specimens_belong_to_exhibits(cases):
    assert sorted(cases) == NUMBERS
    assert {f"14.{number}" for number in cases} <= set(exercise_ids())


@pytest.mark.parametrize("number", NUMBERS)
def test_the_right_code_keeps_its_promise_and_takes_all_sizes(cases, number):
    case = cases[number]
    assert case.keeps(case.right, case.x)
    assert torch.isfinite(case.right(case.primes)).all()


@pytest.mark.parametrize("number", sorted({*NUMBERS} - {40}))
def test_the_wrong_code_runs_and_gives_other_numbers(cases, number):
    assert differs(cases[number])


def test_what_was_built_by_a_misspelt_order_works_and_is_too_small(cases):
    assert not differs(cases[40])
    assert parameters_of(cases[40].wrong) < cases[40].parameters


def test_the_pencil_counts_what_the_right_modules_have(cases):
    for number in (38, 43):
        assert parameters_of(cases[number].right) == cases[number].parameters


def test_a_missing_mask_lets_every_position_hear_of_the_padding(cases):
    case = cases[39]
    assert (leak_map(case.wrong, case.x)[:, -1] > 1e-9).all()
    assert (leak_map(case.right, case.x)[:-1, -1] == 0).all()


def test_specimens_are_always_the_same_and_leave_the_seed_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second = specimens(), specimens()
    assert torch.equal(torch.get_rng_state(), before)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one.right(one.x), other.right(other.x))


@pytest.mark.parametrize("id", [id for id in exercise_ids() if id.startswith("14.")])
def test_a_wrong_letter_may_come_small_and_a_wrong_number_in_quotes(id):
    exhibit = find(id)
    for mistake in exhibit.mistakes:
        answer = mistake.answer
        if answer in (exhibit.reference, exhibit.also) or str(answer).isspace():
            continue
        other = answer.lower() if isinstance(answer, str) else str(answer)
        meant = {str(exhibit.reference), str(exhibit.reference).lower(), str(exhibit.also).lower()}
        if other not in meant:
            assert judge(exhibit, other).name == mistake.name
