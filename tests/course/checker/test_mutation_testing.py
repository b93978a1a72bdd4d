"""Mutation exercises: what the checker says of a test, tried on correct code and on mutants."""

import copy

import pytest
import torch
from torch import nn

from tests.course.cells import cell, said
from tests.gate.copies import PERSONAL
from transformer_course.checker import exercise, judge
from transformer_course.checker.mistake_guide import attach, read
from transformer_course.checker.mutation_testing import Mutants, MutationExercise
from transformer_course.checker.verdict import CORRECT, NOT_YET


def doubles(x):
    return x + x


def doubles_positive(x):
    return x + x.abs()


@exercise("99.1", kind=MutationExercise)
def keeps_1(double):
    """True if `double`, (n,) → (n,), doubles."""
    x = torch.tensor([-1.0, -1.0])
    return torch.equal(double(x), 2 * x)


@keeps_1.mutants
def keeps_1_mutants():
    return Mutants(
        correct={"x + x": doubles, "row by row": lambda x: torch.stack([2 * row for row in x])},
        target=doubles_positive,
        reference=doubles,
        variants={
            "the neighbour is added": lambda x: x + x.roll(1),
            "it raises an error": lambda x: x.not_this_one,
            "nothing": torch.clone,
        },
        unrelated={"the type is changed": lambda x: (x + x).float()},
        argument_names=["x"],
    )


GUIDE = """## 99.1 It doubles

- **positive numbers only.** Positive numbers cannot tell, since they are their own absolute value.
  - `[-1.0, -1.0]` → `[1.0, 1.0]`
"""
attach({"99.1": keeps_1}, read(GUIDE), [], {"torch": torch})


def attempt(body):
    return cell(f"import torch\n\ndef keeps_1(double):\n    {body}\n", "keeps_1")


@pytest.mark.parametrize(
    ("numbers", "symbol", "lines"),
    [
        (
            "[-1.0, -1.0]",
            "✓",
            [
                "Your test also kills: it raises an error, nothing",
                "Mutants that survive: the neighbour is added",
            ],
        ),
        (
            "[-1.0, 3.0]",
            "✓✓",
            ["Your test also kills: the neighbour is added, it raises an error, nothing"],
        ),  # each time
        (
            "[-1.0, random.choice([-1.0, 3.0])]",
            "✓",
            [
                "Your test also kills: it raises an error, nothing",
                "It sometimes kills: the neighbour is added",
            ],
        ),
    ],
)
def test_a_right_test_is_told_what_else_it_notices(numbers, symbol, lines):
    body = f"import random; x = torch.tensor({numbers}); return torch.equal(double(x), 2 * x)"
    verdict = judge(keeps_1, attempt(body))
    assert verdict.headline == f"{symbol} 99.1 correct."
    assert [line.removeprefix("It notices ") for line in verdict.lines] == [f"{line}." for line in lines]
    assert PERSONAL.match(repr(verdict))


def test_a_test_that_kills_one_alone_is_asked_for_more():
    @exercise("99.3", kind=MutationExercise)
    def keeps_3(number):
        return number > 0

    keeps_3.mutants(lambda: Mutants({"1": 1, "2": 2}, 0, variants={"negative": -1}, unrelated={"even": 4}))
    alone = "Your test kills this mutant only. Can you make it kill more? Mutants that survive: negative."
    assert judge(keeps_3, lambda number: number != 0).lines == (alone,)
    assert judge(keeps_3, lambda number: number >= 1).lines == ("Your test also kills: negative.",)


@pytest.mark.parametrize(
    ("body", "remark"),
    [
        ("return True", "the mutant survives"),
        ("return double(torch.ones(2)) is None", "a correct implementation is rejected"),
        ("assert double(torch.ones(1)) == 3; return True", "a correct implementation is rejected"),
        (
            "x = -torch.ones(2); return torch.equal(double(x), 1.9999999 * x)",
            "a correct implementation is rejected",
        ),
        ("x = -torch.ones(2); return torch.allclose(double(x), 2 * x, atol=9)", "wrong outputs pass"),
        ("return (double(torch.rand(3)) > 0).all()", "inputs on which the mutant is right"),
        ("return double(-torch.ones(2)).shape == (2,)", "wrong outputs pass"),
        ("x = torch.randn(1); return torch.equal(double(x), 2 * x)", "a flaky test"),
        (
            "import random; return random.random() < .7",
            "the same code (x + x), your test sometimes returns True and",
        ),
        ("return double.__name__ != 'doubles_positive'", "the mutant survives"),
        ("double(torch.ones(2))", "nothing returned"),
        (
            "return double(torch.ones(2))",
            "returns tensor([2., 2.], dtype=torch.float64), but it must return True or False",
        ),
        ("return double(torch.ones(2), 3)", "raises an error"),
        ("x = torch.ones(2); return torch.equal(double(x), 2 * x)", "positive numbers only"),
    ],
)
def test_a_weak_test_is_told_why(body, remark):
    assert judge(keeps_1, attempt(body)).state == NOT_YET
    assert remark in said(keeps_1, attempt(body))


@pytest.mark.parametrize(
    "body",
    [
        "return (double(-torch.rand(50)) < 0).all()",  # a tensor of one truth value
        "assert double(torch.tensor([-1.0])) == -2; return True",  # an error is as good as False
        "x = -torch.ones(2); return torch.equal(double(x=x), 2 * x)",  # by the name that the stub has
        "double(torch.tensor([-1.0]))[0] == -2 or 1 / 0; return True",
    ],
)
def test_a_test_may_be_written_in_many_ways(body):
    assert judge(keeps_1, attempt(body)).state == CORRECT


def test_a_test_may_do_with_a_suspect_what_it_likes():
    @exercise("99.2", kind=MutationExercise)
    def keeps_2(module):
        return module.bias is not None

    @keeps_2.mutants
    def keeps_2_mutants():
        broken = nn.Linear(2, 3)
        broken.bias = None
        return Mutants({"whole": nn.Linear(2, 3)}, broken)

    def keeps(module):
        found = module.bias is not None
        module.bias = None
        module.to(torch.bfloat16)
        return found

    assert judge(keeps_2, keeps).headline == "✓ 99.2 correct."  # without variants there is no honour
    assert judge(keeps_2, keeps).lines == ()


class Named(nn.Module):
    def __init__(self, kept=True):
        super().__init__()
        self.kept, self.line = kept, nn.Linear(2, 2)

    def forward(self, x):
        return self.line(x) if self.kept else x


@exercise("99.4", kind=MutationExercise)
def keeps_4(module):
    return not torch.equal(module(torch.ones(1, 2)), torch.ones(1, 2))


@keeps_4.mutants
def keeps_4_mutants():
    return Mutants({"a line": Named()}, Named(kept=False), variants={"a function": torch.clone})


@pytest.mark.parametrize(
    ("keeps", "name"),
    [
        (lambda module: not torch.equal(module(torch.ones(1, 2)), torch.ones(1, 2)), ""),
        (lambda module: (copy.deepcopy(module).half()(torch.ones(1, 2).half()) != 1).any(), ""),
        (lambda module: "Named" not in str(type(module)), "the mutant survives"),
        (lambda module: not isinstance(module, Named), "the mutant survives"),
    ],
)
def test_a_module_in_disguise_does_what_it_did_and_tells_nothing(keeps, name):
    assert judge(keeps_4, keeps).name == name


def test_what_a_test_prints_is_told_once():
    assert said(keeps_1, attempt("print('here'); return True")).count("here") == 1


def test_an_error_on_a_right_one_says_so():
    told = "'Suspect' object has no attribute 'inner' (The code under test is correct: a line.)"
    assert told in said(keeps_4, lambda module: module.inner is None)
