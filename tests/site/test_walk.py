"""The steps of the live page's walk: their lines of code are the package's, their exercises exist."""

import re

from transformer_course.exercises import find
from transformer_course.lessons import ROOT

STEPS = (ROOT / "site" / "live" / "steps.js").read_text("utf-8")
PACKAGE = "\n".join(file.read_text("utf-8") for file in (ROOT / "transformer_lab").glob("*.py"))


def test_each_step_has_a_line_of_the_package_and_an_exercise() -> None:
    lines, exercises = re.findall(r'code: "([^"]+)"', STEPS), re.findall(r'exercise: "([^"]+)"', STEPS)
    steps = len(re.findall(r"^    name: ", STEPS, re.MULTILINE))
    assert steps == len(lines) == len(exercises) == 12
    assert [line for line in lines if line not in PACKAGE] == []
    assert all(find(exercise).title for exercise in exercises)
