"""The steps of the live page's walk: their lines of code are the package's, their exercises exist."""

import re

import pytest

from transformer_course.exercises import find
from transformer_course.lessons import ROOT

STEPS = (ROOT / "site" / "live" / "steps.js").read_text("utf-8")
LINES = re.findall(r'code: "([^"]+)"', STEPS)
EXERCISES = sorted(set(re.findall(r'exercise: "([^"]+)"', STEPS)))
PACKAGE = "\n".join(file.read_text("utf-8") for file in (ROOT / "transformer_lab").glob("*.py"))


def test_each_step_has_a_line_of_code_and_an_exercise():
    steps = len(re.findall(r"^    name: ", STEPS, re.MULTILINE))
    assert steps == len(LINES) == len(re.findall(r'exercise: "', STEPS)) == 12


@pytest.mark.parametrize("line", LINES)
def test_a_steps_line_of_code_stands_in_the_package(line: str):
    assert line in PACKAGE


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_steps_exercise_exists(exercise: str):
    assert find(exercise).title
