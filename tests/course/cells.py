"""What the tests of exercises and of their checker share."""

import itertools
import linecache
import math

import torch
from torch import nn
from torch.nn import functional as F

from transformer_course.checker import judge

IMPORTS = {"math": math, "torch": torch, "nn": nn, "F": F}
CELL_NUMBERS = itertools.count(1)


def cell(text, name):
    """What a notebook's cell leaves under a name; its source can be looked up, as IPython arranges it."""
    file = f"cell {next(CELL_NUMBERS)}"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = dict(IMPORTS)
    exec(compile(text, file, "exec"), namespace)
    return namespace[name]


def said(exercise, attempt):
    """The verdict's text, which is the same at a second look."""
    text = repr(judge(exercise, attempt))
    assert repr(judge(exercise, attempt)) == text
    return text
