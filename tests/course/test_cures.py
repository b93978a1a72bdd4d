"""A cure, followed to the letter, makes the wrong answer right.

Code in a cure goes into the wrong answer, at one place or two: one of the texts that come of it has to be
right. So a name that is not in scope, another width or a wrong method is found. Names alone, signs, and code
with … in it only point at something.
"""

import ast
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import islice

import pytest
import torch

from tests.course.cures import followed, is_code, pieces
from transformer_course.checker import mistake_pairs
from transformer_course.checker.sandbox import isolated
from transformer_course.exercises import exercise_ids, find

TRIES, BATCH = 800, 100


def is_mended(exercise, mistake):
    """Whether one of the texts that follow the cure does what the solution does."""
    right, tried = ast.unparse(ast.parse(exercise.shown)), {}
    outcomes = right_outcomes(exercise)
    texts = islice(followed(mistake.text, exercise.shown, mistake.cure), 10 * TRIES)
    with isolated():
        while batch := [*islice(texts, BATCH)]:  # to run a text is cheaper than to make ten more
            new = [text for text in dict.fromkeys(batch) if text not in tried][: TRIES - len(tried)]
            if right in batch or any(does_the_same(exercise, text, outcomes) for text in new):
                return True
            tried |= dict.fromkeys(new)
    return False


@cache
def right_outcomes(exercise):
    return exercise.outcomes(exercise.reference)


def does_the_same(exercise, text, outcomes):
    code = not spoils_others(text) and mistake_pairs.compiled(text)
    with suppress(Exception):  # what is put at a wrong place may not even make a class
        return bool(code) and mistake_pairs.agrees(exercise, code, outcomes)
    return False


def spoils_others(text):
    """Whether it writes into what is not its own: a place may be what is assigned to, `nn.Linear = 3`."""
    nodes = [*ast.walk(ast.parse(text))]
    own = {node.arg for node in nodes if isinstance(node, ast.arg)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    written = [node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)]
    places = [node for node in written if isinstance(node, ast.Attribute | ast.Subscript)]
    return any(
        not own & {each.id for each in ast.walk(place) if isinstance(each, ast.Name)} for place in places
    )


@pytest.mark.parametrize("id", exercise_ids())
def test_a_cure_followed_to_the_letter_mends(id):
    exercise = find(id)
    cures = {each.name: each for each in reversed([*exercise.mistakes, *exercise.shared])}
    with_code = [each for each in cures.values() if any(map(is_code, pieces(each.cure)))]
    failing = [f"{each.name}: {each.cure}" for each in with_code if not is_mended(exercise, each)]
    assert not failing, "\n".join(
        ["put into the wrong answer, the code of these cures mends nothing:", *failing]
    )


@pytest.mark.parametrize(
    ("wrong", "cure"),
    [
        ("def f(q):\n    return q", "Divide by `math.sqrt(q.shape[-1])`."),
        ("def f(q):\n    return q * math.sqrt(q.shape[-1])", "Divide by `math.sqrt(q.shape[-1])`."),
        ("def f(q):\n    return q / math.sqrt(q.shape[0])", "Count from the end: `q.shape[-1]`."),
        ("def f(q):\n    return q / q.shape[-1]", "Take `math.sqrt(q.shape[-1])`."),
    ],
)
def test_code_goes_where_it_is_meant(wrong, cure):
    right = "def f(q):\n    return q / math.sqrt(q.shape[-1])"
    assert right in followed(wrong, right, cure)


def test_code_at_a_wrong_place_spoils_nothing():
    exercise, linear = find("05.4"), torch.nn.Linear
    for statement in ("nn.Linear = 3", "del nn.Linear", "vars(nn)['Linear'] = 3"):
        assert not does_the_same(exercise, f"{statement}\nclass MultiHeadAttention: pass", [])
    assert torch.nn.Linear is linear


def test_a_name_that_is_not_in_scope_mends_nothing():
    exercise = find("03.2")
    mistake = next(each for each in exercise.mistakes if each.name == "softmax over the queries")
    assert is_mended(exercise, mistake)
    assert not is_mended(exercise, replace(mistake, cure="Use `scored.softmax(dim=-1)`."))
