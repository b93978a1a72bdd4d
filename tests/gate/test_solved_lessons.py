"""Every lesson shows its exercises word for word. (The gate runs them a second time, solved.)"""

from pathlib import Path

import nbformat
import pytest

from tests.gate.solved import tagged, with_exercises_solved
from tests.gate.stored import LESSONS, Lesson, code_cells
from transformer_course.exercises import exercise_cells, exercise_titles

every_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


@every_lesson
def test_a_lesson_shows_its_exercises_word_for_word(path: Path) -> None:
    cells = Lesson.shipped(path).notebook.cells
    places = {tagged(cell, "exercise"): i for i, cell in enumerate(cells) if tagged(cell, "exercise")}
    guide = [id for id in exercise_titles() if id[:2] == path.name[:2]]
    assert list(places) == guide, "the guide's order is the lesson's, by which it is told what comes next"
    for id, i in places.items():
        heading, *wanted = exercise_cells(id)
        shown = [cell.source for cell in cells[i : i + 3]]
        headings = {
            line.lstrip("#") for c in cells[:i] for line in c.source.splitlines() if f"## {id} " in line
        }
        assert shown == wanted, f"{id} was changed: .venv/bin/python -m tests.gate.author exercise {id}"
        assert headings <= {heading.lstrip("#")}, f"{id} is called otherwise: the same command"


@every_lesson
def test_every_exercise_is_run_a_second_time_solved(path: Path) -> None:
    shipped = code_cells(Lesson.shipped(path).notebook)
    twice = with_exercises_solved(shipped)[len(shipped) :]
    stubs, stubs_again, checks_again = (
        [id for cell in cells if (id := tagged(cell, kind))]
        for cells, kind in ((shipped, "exercise"), (twice, "exercise"), (twice, "check"))
    )
    assert stubs == stubs_again == checks_again
    assert not any("NotImplementedError" in cell.source for cell in twice)


def test_only_what_uses_an_answer_runs_a_second_time() -> None:
    sources = {
        "begin": "import math\nx = 3",
        "exercise": "def double(x): ...\nhalf = third = ...",
        "check": 'double = check("03.1", double)',
        "uses": "def twice(x):\n    return double(x)\ny = 1",
        "beside": "print(math.pi)",
        "local": "def f(third):\n    double = 3",  # a name alike is enough
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
