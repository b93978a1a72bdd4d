"""What hangs in the museum: what is called right is right, and what is called wrong is wrong."""

import random
import re
import textwrap

import pytest
import torch

from tests.course import answers
from tests.course.cells import cell, solved
from transformer_course import bugs
from transformer_course.bugs import line_up, parameters_of, specimens
from transformer_course.checker import judge
from transformer_course.checker.mutation_testing import MutationExercise
from transformer_course.checker.verdict import CORRECT, NOT_YET
from transformer_course.exercises import exercise_ids, find
from transformer_course.exercises.bug_museum import Exhibit, LineUp
from transformer_lab.diagnostics import certificates

EXERCISES = [find(id) for id in exercise_ids() if id.startswith("14.")]
answers.load()
KILLING = [each for each in EXERCISES if isinstance(each, MutationExercise)]
EXHIBITS = [each for each in EXERCISES if isinstance(each, Exhibit)]
LINE_UPS = ["14.7", "14.20", "14.8"]


def by_id(exercises):
    return pytest.mark.parametrize("exercise", exercises, ids=lambda exercise: exercise.id)


@pytest.fixture(autouse=True)
def double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


@pytest.fixture
def cases(double):
    return {case.number: case for case in specimens()}


def differs(case):
    got, wanted = case.wrong(case.x), case.right(case.x)
    return got.shape != wanted.shape or not torch.allclose(got, wanted)


# ------------------------------------------------------------------------------------- specimens


def test_the_right_code_keeps_its_promise_and_the_wrong_gives_other_numbers(cases):
    assert len(cases) == 14 and {f"14.{number}" for number in cases} <= set(exercise_ids())
    for number, case in cases.items():
        assert case.keeps(case.right, case.x), number
        assert torch.isfinite(case.right(bugs.normal(3, 5, bugs.WIDTH))).all(), number
        assert differs(case), number


def test_the_pencil_counts_what_the_right_modules_have(cases):
    for number in (2, 3, 18):
        assert parameters_of(cases[number].right) == cases[number].parameters


def test_what_is_turned_by_the_wrong_thing_keeps_its_lengths(cases):
    for case in (cases[1], cases[5]):
        torch.testing.assert_close(case.wrong(case.x).norm(dim=-1), case.x.norm(dim=-1))


def test_every_specimen_is_noticed_by_one_of_the_five_tests(cases):
    for case in cases.values():
        assert any(bugs.notices(case, test) for test in bugs.TESTS)


# ------------------------------------------------------------------------------------- killing tests


@by_id(KILLING)
def test_there_are_two_right_ones_and_three_other_faults_to_try_a_test_on(exercise):
    made = exercise._make_cases()
    assert len(made.correct) >= 2 and len(made.variants) + len(made.unrelated) >= 3


# Tests as learners write them: of the promise and of no more, or with the name of what is amiss.
WRITTEN = """
14.1
x = torch.randn(2, 4, 4, 6)
return torch.equal(turn(x)[:, 0], x[:, 0])

14.2
x = torch.randn(3, *stack.units[0][0].normalized_shape)
stack(x).square().sum().backward()
torch.optim.SGD(stack.parameters(), .1).step()
return not stack.units[0][1].weight.equal(stack.units[1][1].weight)

14.2 the wrong one passes
return not isinstance(stack, museum.Units) or isinstance(stack, museum.Stack)

14.3
x = torch.randn(3, 20, 16)
return answer.eval()(x)[1:2].allclose(answer(x=x[1:2]))

14.3 a right one is refused
return all(each.batch_first for each in answer.modules() if hasattr(each, "batch_first"))

14.4
x = torch.randn(2, 5, 8, requires_grad=True)
attend(x)[:, 1].sum().backward()
return (x.grad[:, 2:] == 0).all()

14.5
tokens = torch.randn(6, 8)
return not scores_of_the_last(tokens=tokens).allclose(tokens @ tokens[-1])

14.6
return abs(norm(torch.tensor([1.0, 2.0, 3.0, 6.0])).square().mean() - 1) < 1e-3

14.6 too tight a tolerance
x = torch.randn(5, 8)
return torch.allclose(norm(x), F.layer_norm(x, (8,)))

14.10
o, w = attend.float()(torch.randn(3, 5, 16).float())
return w.shape == (3, 5, 5)

14.10 it says now this, now that
o, w = attend(torch.randn(3, 5, 16)) if random.random() < .9 else (0, torch.ones(1, 2, 3))
return w.ndim == 3

14.12
q, k, v = torch.randn(3, 2, 4, 5, 7)
return attend(query=q, key=k, value=v).allclose((q @ k.mT / 7**.5).softmax(-1) @ v)

14.12 a right one is refused
q, k, v = torch.randn(3, 2, 4, 5, 7)
return torch.equal(attend(q, k, v), F.scaled_dot_product_attention(q, k, v))

14.12 wrong numbers pass
q, k, v = torch.randn(3, 2, 2, 5, 7)
return attend(q, k, v).allclose(F.scaled_dot_product_attention(q, k, v), atol=1.0)

14.15
ids = torch.tensor([[0, 0, 3, 4, 1], [0, 0, 0, 0, 0]])
return (weigh(x=torch.randn(2, 5, 8), ids=ids).mT[ids == 0] == 0).all()

14.16
return len(turns(length=5000, width=32, dtype=torch.float16).unique(dim=0)) == 5000

14.16 a right one is refused
return torch.equal(turns(600, 16, torch.bfloat16), turns(600, 16, torch.float64))

14.17
turning.to("meta")
return turning(torch.randn(5, 8, device="meta")).is_meta

14.18
return raises(lambda: build(16, attn_head=8)) and raises(lambda: build(32, attn_heads=4, drop=.1))

14.19
x, real = torch.randn(1, 5, 8), torch.arange(5)[None] < 3
return text_vectors(x, real).allclose(text_vectors(x.masked_fill(~real[..., None], math.nan), real))
"""
TESTS = [block.split("\n", 1) for block in WRITTEN.strip().split("\n\n")]


def raises(call):
    try:
        call()
    except Exception:
        return True
    return False


KNOWN = {"museum": bugs, "random": random, "raises": raises}


@pytest.mark.parametrize(("title", "body"), TESTS, ids=[title for title, _ in TESTS])
def test_a_test_of_the_promise_is_correct_and_of_others_the_verdict_says_why_not(title, body):
    id, _, name = title.partition(" ")
    stub, suspect = re.match(r"def (\w+)\((\w+)\)", find(id).stub).groups()
    test = cell(f"def {stub}({suspect}):\n{textwrap.indent(body, '    ')}", stub)
    test.__globals__.update(KNOWN)
    verdict = judge(find(id), test)
    assert (verdict.state == CORRECT, verdict.name) == (not name, name), verdict


@by_id(KILLING)
def test_some_test_notices_the_exhibit_and_every_hidden_variant_of_it(exercise):
    tests = [solved(exercise), *answers.ALTERNATIVES[exercise.id]]
    assert any(judge(exercise, test).headline.startswith("✓✓ ") for test in tests)


# ------------------------------------------------------------------------------------- line-ups

ATTENTION, ROTATION, LAYER = LINE_UPS


def pads_are_not_heard(suspect, width):
    x, real = torch.randn(2, 5, width), torch.arange(5) < 3
    other = torch.where(real[:, None], x, x + 1)
    before, after = (suspect(each, may_attend=real.expand(2, 1, 1, 5))[:, :3] for each in (x, other))
    return torch.allclose(before, after)


def is_attention(suspect):
    x = torch.randn(2, 5, 12)
    heads = x.unflatten(-1, (2, 6)).transpose(1, 2)
    wanted = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
    return torch.allclose(suspect(x), wanted.transpose(1, 2).flatten(-2))


def keeps_lengths(suspect):
    x = torch.randn(2, 7, 3, 6)
    return torch.allclose(suspect(x).norm(dim=-1), x.norm(dim=-1))


def heads_are_alone(suspect):
    x = torch.randn(2, 7, 3, 6)
    return torch.allclose(suspect(x)[:, :, 2:], suspect(x[:, :, 2:]))


def texts_are_alone(suspect):
    x = torch.randn(2, 7, 3, 6)
    return torch.allclose(suspect(x)[1:], suspect(x[1:]))


def places_differ(suspect):
    same = torch.randn(6).expand(1, 600, 1, 6)
    return len(suspect(same)[0, :, 0].unique(dim=0)) == 600


def variance_is_one(suspect):
    variance = suspect(torch.randn(2, 5, 16)).var(dim=-1, correction=0)
    return torch.allclose(variance, torch.ones(2, 5), atol=1e-3)


def certified(name):
    return lambda suspect: getattr(certificates, name)(suspect, torch.randn(3, 5, 16)).holds


REVEALED_BY = {
    ATTENTION: {
        "ADE": is_attention,
        "BDE": lambda suspect: pads_are_not_heard(suspect, 12),
    },
    ROTATION: {"A": heads_are_alone, "AB": places_differ, "C": texts_are_alone, "D": keeps_lengths},
    LAYER: {
        "A": certified("permutation_equivariance"),
        "C": variance_is_one,
        "D": certified("batch_invariance"),
        "E": lambda suspect: pads_are_not_heard(suspect, 16),
    },
}


@pytest.mark.parametrize("id", LINE_UPS)
def test_each_promise_leaves_out_those_who_break_it_and_one_keeps_them_all(id):
    left = set("ABCDE")
    for guilty, keeps in REVEALED_BY[id].items():
        broken = {letter for letter, suspect in line_up(id).items() if not keeps(suspect)}
        assert broken == set(guilty)
        left -= broken
    assert [find(id).reference[letter] for letter in left] == ["right"]


@pytest.mark.parametrize("id", LINE_UPS)
def test_neither_shape_nor_name_gives_a_suspect_away(id):
    x = torch.randn(2, 5, 3, 6) if id == ROTATION else torch.randn(2, 5, 12 if id == ATTENTION else 16)
    suspects = line_up(id).values()
    assert len({suspect.__qualname__ for suspect in suspects}) == 1
    for suspect in suspects:
        assert suspect(x).shape == x.shape and suspect(x).isfinite().all()


def test_what_a_line_up_says_of_a_fault_is_so():
    """The sentences by which a wrong name is refused, for those that are easily mistaken."""
    attention, rotation = line_up(ATTENTION), line_up(ROTATION)
    x = torch.randn(2, 5, 12)
    shuffled = {
        letter for letter, suspect in attention.items() if suspect(x.flip(1)).allclose(suspect(x).flip(1))
    }
    assert shuffled == set("ABCE")
    sums = {letter for letter, suspect in attention.items() if suspect(x).sum(dim=1).allclose(x.sum(dim=1))}
    assert sums == {"E"}
    long, short = torch.randn(6).expand(1, 600, 1, 6), torch.randn(6).expand(1, 257, 1, 6)
    assert len(rotation["B"](long)[0, :, 0].unique(dim=0)) < 600
    assert rotation["B"](short).allclose(rotation["E"](short))


@pytest.mark.parametrize("id", LINE_UPS)
def test_a_line_up_asks_for_the_fault_of_each(id):
    exercise = find(id)
    assert isinstance(exercise, LineUp) and set(exercise.reference.values()) < exercise.faults.keys()
    for letter, name in exercise.reference.items():
        others = exercise.faults.keys() - {*exercise.reference.values()}  # names that nobody bears
        for other in others:
            verdict = judge(exercise, exercise.reference | {letter: other})
            assert verdict.state == NOT_YET and verdict.name
            if verdict.name == f"not {letter}":
                assert exercise.faults[other] in verdict.lines[0] and name not in verdict.name


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("C", "not a name for each"),
        ({"A": "scale"}, "not a name for each"),
        (dict.fromkeys("ABCDE", "right"), "one name twice"),
        (dict(zip("ABCDE", ["scale", "inverted", "right", "view", "rows"], strict=True)), "not in the list"),
        (dict(zip("ABCDE", ["scale", "view", "right", "merge", "columns"], strict=True)), "not B"),
        (None, "not a name for each"),
    ],
)
def test_an_answer_of_another_kind_is_told_so(answer, name):
    assert judge(find(ATTENTION), answer).name == name


# ------------------------------------------------------------------------------------- letters and lines


@by_id(EXHIBITS)
def test_what_can_mean_one_thing_only_counts(exercise):
    for mistake in exercise.mistakes:
        for other in (f" {mistake.answer}. ".lower(), f"({mistake.answer})"):
            assert judge(exercise, other).name == mistake.name
    right = f"line {exercise.reference}" if isinstance(exercise.reference, int) else f"{exercise.reference} "
    assert judge(exercise, right).state == CORRECT
    for unclear in ("", "A or C", "1 or 2", None, True, 2.5):
        assert judge(exercise, unclear).state == NOT_YET
