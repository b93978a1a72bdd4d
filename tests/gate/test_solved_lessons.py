"""The gate runs cells that use an answer a second time, with the solution."""

from pathlib import Path

import nbformat
import pytest

from tests.gate.notebook_io import LESSONS, Lesson, code_cells
from tests.gate.solve_exercises import exercises_in, tagged, with_exercises_solved


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_exercise_is_run_a_second_time_solved(path: Path) -> None:
    shipped = code_cells(Lesson.shipped(path).notebook)
    twice = with_exercises_solved(shipped)[len(shipped) :]
    checks = [id for cell in twice if (id := tagged(cell, "check"))]
    assert exercises_in(shipped) == exercises_in(twice) == checks
    assert not any("NotImplementedError" in cell.source for cell in twice)


def test_only_what_uses_an_answer_runs_a_second_time() -> None:
    sources = {
        "begin": "import math\nx = 3",
        "exercise": "def double(x): ...\nhalf = third = ...",
        "check": 'double = check("03.1", double)',
        "uses": "def twice(x):\n    return double(x)\ny = 1",
        "beside": "print(math.pi)",
        "local": "def f(third):\n    double = 3",  # an equal name is enough
        "uses-what-uses": "z = twice(x)",
        "changes-it": "half += 1",
        "uses-the-third": "print(third)",
        "gives-anew": "def double(x): ...\nfrom math import pi as third",
        "uses-the-new": "print(double(z, y), third)",
    }
    cells = [nbformat.v4.new_code_cell(source, id=id) for id, source in sources.items()]
    cells[1].metadata["tags"], cells[2].metadata["tags"] = ["exercise:03.1"], ["check:03.1"]
    again = with_exercises_solved(cells)[len(cells) :]
    ids = [cell.id.removeprefix("solved-") for cell in again]
    assert ids == ["exercise", "check", "uses", "local", "changes-it", "uses-the-third"]
