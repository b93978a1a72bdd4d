"""Cures for the errors of Python and PyTorch that beginners run into most."""

import math
import re

import pytest
import torch
from torch import nn

from transformer_course.checker import error_cures

# Code as beginners write it, and words of the cure. The errors are real ones.
SLIPS = {
    "None @ x": "without `return`",
    "~None": "is not None",
    "[].append(x).mT": "such as `append`",
    "def f(): self.x = 1\nf()": "first parameter is `self`",
    "d_haed": "defines `d_haed`",
    "np.sqrt(2)": "`np` is a module",
    "2.0^0.5": "x ** 0.5",
    "def softmax(x): return softmax(x)\nsoftmax(1)": "calls itself",
    "(x is not None).sum()": "entry by entry",
    "class A(nn.Module):\n  def foward(self): ...\nA()(1)": "exactly `forward`",
    "nn.Linear(2, 2).mT": "Call it",
    "nn.Linear(2, 2) @ nn.Linear(2, 2)": "Call it",
    "x.view(2, 6 / 2)": "`//`",
    "class A:\n  def f(x): ...\nA().f(x)": "has to be `self`",
    "x.mean(-1, keep_dim=True)": "called `keep_dim`",
    "nn.Linear(2, 3, biases=True)": "called `biases`",
    "x.softmax()": "softmax(dim=-1)",
    "nn.Linear(2)": "leaves out",
    "a, b, c = x.shape": "as many names as values",
    "a, b = x[None].shape": "as many names as values",
    "for i in 3: ...": "`range(n)`",
    "x.size[-1]": "x.shape[-1]",
    "x / x.sqrt": "x.sqrt()",
    "x.shape(-1)": "square brackets",
    "1 + x.shape": "x.shape[1]",
    "x(2)": "`*` multiplies",
    "class A(nn.Module):\n  def __init__(self): self.a = nn.Linear(2, 2)\nA()": "Begin `__init__`",
    "class A(nn.Module):\n  def __init__(self): self.a = 1\nlist(A().parameters())": "Begin `__init__`",
    "class A(nn.Module):\n  def __init__(self): super.__init__()\nA()": "parentheses after `super`",
    "nn.Sequential([nn.GELU()])": "nn.Sequential(*layers)",
    "torch.sqrt(3)": "`math.sqrt`",
    "torch.cos(0.3)": "`math.cos`",
    "torch.stack(x, x)": "into a list",
    "torch.exp([1.0])": "`torch.tensor`",
    "[x, x].mT": "unpack them",
    "x.softmux(-1)": "called `softmux`",
    "nn.Linear(2, 2).weights": "check the spelling",
    "class A(nn.Module): ...\nA().layer": "called `layer`",
    "math.sqrt(x)": "x.sqrt()",
    "x.item()": "x.sqrt()",
    "if x > 0: ...": "`.any()`",
    "x > 0 and x < 1": "`&`",
    "x.masked_fill(x, 0)": "mask != 0",
    "1 - (x > 0)": "~mask",
    "-(x > 0)": "~mask",
    "nn.Linear(3, 3)(x.float())": "dtypes",
    "x.float() @ x.double().mT": "dtypes",
    "x.long().softmax(-1)": "x.double()",
    "(x > 0).mean()": "x.double()",
    "x[: 2 / 1]": "`//`",
    "x[1.5]": "`//`",
    "x[x]": ".long()",
    "nn.Embedding(3, 3)(x)": ".long()",
    "range(4 / 2)": "`//`",
    "x @ x": ".mT",
    "x[None] @ x[None]": ".mT",
    "x @ x[0, :2]": ".mT",
    "nn.Linear(4, 3)(x)": "another width",
    "x + x.mT": "lined up from the right",
    "x.sum(dim=2)": "`dim=-1` is the last",
    "x[0, 0, 0]": "count from the end",
    "x[None].t()": "`.mT` swaps the last two",
    "x.mT.view(6)": ".reshape",
    "x.view(4, 2)": "-1",
    "x.unflatten(-1, (2, 2))": "-1",
}


def raised(code):
    names = {"math": math, "torch": torch, "nn": nn, "x": torch.arange(6, dtype=torch.float64).view(2, 3)}
    try:
        exec(code, names)
    except Exception as error:
        return error
    raise AssertionError(f"no error: {code}")


@pytest.fixture(autouse=True)
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("code", "words"), SLIPS.items(), ids=SLIPS)
def test_a_beginners_error_has_a_cure(code, words):
    cure = error_cures.cure(raised(code))
    assert words in cure and "\\" not in cure
    assert len(re.split(r"(?<=[.?]) (?=[A-Z`])", cure)) <= 3  # sentences


def test_no_cure_is_without_an_error_that_it_is_for():
    raise_errors = [f"{type(error).__name__}: {error}" for error in map(raised, SLIPS)]
    first = {
        next((says for says, _ in error_cures.known() if re.search(says, it)), "") for it in raise_errors
    }
    assert first == {says for says, _ in error_cures.known()}


@pytest.mark.parametrize("code", ["1 / 0", "{}['a']", "assert False", "'a' + 1", "torch.zeros(-1)"])
def test_an_error_that_may_be_anything_has_none(code):
    assert error_cures.cure(raised(code)) == ""
