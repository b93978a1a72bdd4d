"""The steps of the live page's walk: each has its line of the package's code, and an exercise that exists."""

import re

import pytest
from torch import nn

from live.code_lines import line_of_code, with_code
from transformer_course.exercises import find
from transformer_course.lessons import ROOT
from transformer_lab import MultiHeadAttention

STEPS = (ROOT / "site" / "live" / "steps.js").read_text("utf-8")


def test_each_step_has_a_line_of_code_and_an_exercise():
    lines = re.findall(r'code: "((?:[^"\\]|\\.)+)"', with_code(STEPS))
    exercises = re.findall(r'exercise: "([^"]+)"', STEPS)
    assert (
        len(lines)
        == len(exercises)
        == len(re.findall(r"^    name: .* exercise: ", STEPS, re.MULTILINE))
        == 13
    )
    assert "scores = (query / math.sqrt(query.shape[-1])) @ key.mT" in lines
    assert all(re.match(r"return |\w+ = ", line) for line in lines)
    # MiniLM has no rotary embedding: what its attention calls instead returns its input.
    assert "queries = split_heads(self.query_projection(query), self.n_heads)" in lines
    assert not any("rotary" in line for line in lines)
    assert type(MultiHeadAttention(4, 2).rotary) is nn.Identity
    assert all(find(exercise).title for exercise in exercises)


@pytest.mark.parametrize("beginning", ["scores =", "nothing"])
def test_one_line_begins_so(beginning: str):
    with pytest.raises(ValueError, match=r"attention_weights has [02] lines .* wanted 1; see steps\.js"):
        line_of_code("attention_weights", beginning)
