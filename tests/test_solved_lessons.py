"""Every lesson shows its exercises word for word, and prints the same whether they are solved or not."""

import os
import subprocess
import sys
from copy import deepcopy

import nbformat
import pytest

from tests.notebook_gate.stored import NOTEBOOKS, ROOT, Lesson, tags
from transformer_lab.exercises import exercise_cells, exercise_ids, find
from transformer_lab.exercises.engine.verdict import Verdict

LESSONS = [
    lesson
    for lesson in map(Lesson.load, sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")))
    if any(tag.startswith("exercise:") for cell in lesson.notebook.cells for tag in tags(cell))
]


def positions(notebook, kind):
    """Where the cells tagged `exercise:ID`, or `check:ID`, stand."""
    return {
        tag.removeprefix(f"{kind}:"): i
        for i, cell in enumerate(notebook.cells)
        for tag in tags(cell)
        if tag.startswith(f"{kind}:")
    }


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.path.stem)
def test_a_lesson_shows_its_exercises_word_for_word(lesson):
    cells = lesson.notebook.cells
    places = positions(lesson.notebook, "exercise")
    assert list(places) == [id for id in exercise_ids() if id[:2] == lesson.path.name[:2]]
    for id, i in places.items():
        _heading, *wanted = exercise_cells(id)
        assert [cell.source for cell in cells[i : i + 3]] == wanted


def solved(notebook, ids):
    """The notebook with these exercises solved; of what is stored, only their verdicts differ."""
    notebook = deepcopy(notebook)
    for id in ids:
        notebook.cells[positions(notebook, "exercise")[id]].source = find(id).shown
        verdict = Verdict.correct(id)
        data = {"text/plain": repr(verdict), "text/html": verdict._repr_html_()}
        outputs = [nbformat.v4.new_output("display_data", data=data)]
        notebook.cells[positions(notebook, "check")[id]].outputs = outputs
    return notebook


def gate(path):
    """The strict run of one notebook, in a process of its own."""
    strict = [sys.executable, "-m", "pytest", "-p", "tests.notebook_gate.plugin", "-p", "no:cacheprovider"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    return subprocess.run(
        [*strict, "--override-ini=addopts=", str(path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def copy_of(lesson, step):
    """A copy with every exercise solved, or every second one."""
    name = f"{lesson.path.stem}-{'solved' if step == 1 else 'half-solved'}"
    return pytest.param(lesson, step, id=name, marks=pytest.mark.own_worker)


# Half solved, answers and references must fit each other. One lesson with many exercises shows that.
COPIES = [copy_of(lesson, 1) for lesson in LESSONS]
COPIES += [copy_of(lesson, 2) for lesson in LESSONS if lesson.path.name.startswith("03")]


@pytest.mark.parametrize(("lesson", "step"), COPIES)
def test_a_lesson_prints_the_same_whoever_solved_its_exercises(lesson, step, tmp_path):
    path = tmp_path / lesson.path.name
    nbformat.write(solved(lesson.notebook, list(positions(lesson.notebook, "exercise"))[::step]), path)
    run = gate(path)
    assert run.returncode == 0, run.stdout
