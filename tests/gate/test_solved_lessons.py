"""Every lesson shows its exercises word for word. (The gate runs them a second time, solved.)"""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from tests.gate.solved import solved, tagged, with_exercises_solved
from tests.gate.stored import NOTEBOOKS, ROOT, Lesson, code_cells
from transformer_course.exercises import exercise_cells, exercise_titles

EVERY = [Lesson.load(path) for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))]
LESSONS = [lesson for lesson in EVERY if any(tagged(cell, "exercise") for cell in lesson.notebook.cells)]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.path.stem)
def test_a_lesson_shows_its_exercises_word_for_word(lesson: Lesson) -> None:
    cells = lesson.notebook.cells
    places = {tagged(cell, "exercise"): i for i, cell in enumerate(cells) if tagged(cell, "exercise")}
    guide = [id for id in exercise_titles() if id[:2] == lesson.path.name[:2]]
    assert list(places) == guide, "the guide's order is the lesson's, by which it is told what comes next"
    for id, i in places.items():
        heading, *wanted = exercise_cells(id)
        shown = [cell.source for cell in cells[i : i + 3]]
        headings = {
            line.lstrip("#") for c in cells[:i] for line in c.source.splitlines() if f"## {id} " in line
        }
        assert shown == wanted, f"{id} was changed: .venv/bin/python -m tests.gate.author exercise {id}"
        assert headings <= {heading.lstrip("#")}, f"{id} is called otherwise: the same command"


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.path.stem)
def test_every_exercise_is_run_a_second_time_solved(lesson: Lesson) -> None:
    shipped = code_cells(lesson.notebook)
    twice = with_exercises_solved(shipped)[len(shipped) :]
    ids = [tagged(cell, "exercise") for cell in shipped if tagged(cell, "exercise")]
    assert [tagged(cell, "exercise") for cell in twice if tagged(cell, "exercise")] == ids
    assert [tagged(cell, "check") for cell in twice if tagged(cell, "check")] == ids
    assert not any("NotImplementedError" in cell.source for cell in twice)


def test_only_what_uses_an_answer_runs_a_second_time() -> None:
    sources = {
        "begin": "import math\nx = 3",
        "exercise": "def double(x): ...",
        "check": 'double = check("03.1", double)',
        "uses": "def twice(x):\n    return double(x)\ny = 1",
        "beside": "print(math.pi)",
        "local": "def f(double, twice):\n    y = double(twice)\n    return [twice for twice in y]",
        "uses-what-uses": "z = twice(x)",
        "changes": "total = 0\nfor i in range(3):\n    total += double(x)",
        "gives-anew": "double = max",
        "uses-the-new": "print(double(z, y))",
    }
    cells = [nbformat.v4.new_code_cell(source, id=id) for id, source in sources.items()]
    cells[1].metadata["tags"], cells[2].metadata["tags"] = ["exercise:03.1"], ["check:03.1"]
    again = with_exercises_solved(cells)[len(cells) :]
    ids = [cell.id.removeprefix("solved-") for cell in again]
    assert ids == ["exercise", "check", "uses", "changes"]


# --- by a whole run -----------------------------------------------------------------------------------


def gate(cells: Iterable[NotebookNode], path: Path) -> str:
    """What the strict run of these cells, in a process of its own, reports; empty if all is well."""
    nbformat.write(nbformat.v4.new_notebook(cells=list(cells)), path)
    strict = [sys.executable, "-m", "pytest", "-p", "tests.gate.plugin", "-p", "no:cacheprovider"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    run = subprocess.run(
        [*strict, "--override-ini=addopts=", str(path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if run.returncode == 0 else run.stdout


@pytest.mark.gate_itself
def test_a_half_solved_lesson_prints_the_same(tmp_path: Path) -> None:
    """Answers and references must fit each other. One lesson with many exercises shows that."""
    lesson = next(lesson for lesson in LESSONS if lesson.path.name.startswith("03"))
    cells = [
        solved(cell) if int((tagged(cell, "exercise") or tagged(cell, "check") or "03.0")[3:]) % 2 else cell
        for cell in lesson.notebook.cells
    ]
    assert gate(cells, tmp_path / lesson.path.name) == ""


@pytest.mark.gate_itself
def test_a_cell_that_shows_whether_an_exercise_is_solved_is_caught(tmp_path: Path) -> None:
    lesson = next(lesson for lesson in LESSONS if lesson.path.name.startswith("03"))
    needed = ("begin", "exercises-import", "exercise-03-2", "check-03-2")
    cells = [cell for cell in lesson.notebook.cells if cell.id in needed]
    answer = cells[-1].source.split()[0]
    imports = nbformat.v4.new_code_cell("import math", id="imports", execution_count=1)
    seen = nbformat.v4.new_code_cell(
        f"from transformer_course.exercises import find\n{answer} is find('03.2').reference",
        id="tell-tale",
        execution_count=1,
        outputs=[nbformat.v4.new_output("execute_result", {"text/plain": "True"}, execution_count=1)],
    )
    report = gate([imports, *cells, seen], tmp_path / lesson.path.name)
    assert "::solved-tell-tale" in report
    assert "::tell-tale" not in report
