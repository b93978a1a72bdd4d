"""Write the cells of a declared exercise into its lesson, or update them.

    .venv/bin/python -m tools.author exercise 03.4
    .venv/bin/python -m tools.author exercise 03.4 ID   insert new cells after the cell ID

CONTRIBUTING.md says what is left to do by hand.
"""

import re
import subprocess
import sys

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from tests.gate import lint_exercises
from tests.gate.lesson_length import DEEPER
from tests.gate.lint_notebooks import is_stable
from tests.gate.notebook_io import ROOT, Lesson, as_text
from transformer_course import lessons
from transformer_course.exercises import exercise_cells

EXERCISES_END = "## See your code at work"
EXERCISES = "transformer_course/exercises"
TASK = "The task, in words."


def put_exercise(exercise_id: str, notebook: NotebookNode, behind: str = "") -> str:
    """Update an exercise's cells in the notebook, or add them; return what was done.

    New cells come after the path's last exercise, or after the cell whose id is given.
    """
    texts, key = exercise_cells(exercise_id), exercise_id.replace(".", "-")
    wanted = {f"exercise-{key}": texts.exercise, f"check-{key}": texts.check, f"help-{key}": texts.help}
    known = {cell.id: cell for cell in notebook.cells}
    task = known.get(f"exercise-{key}-task")
    if task:
        heading = re.compile(rf"^(#+) {re.escape(exercise_id)} .*$", re.MULTILINE)
        wanted[task.id] = heading.sub(rf"\1{texts.heading.lstrip('#')}", task.source)
    if wanted.keys() <= known.keys():
        changed = [id for id, text in wanted.items() if known[id].source != text]
        for id in changed:
            known[id].source = wanted[id]
        return f"brought up to date: {', '.join(changed)}" if changed else "is as declared"
    headings = [cell.source.partition("\n")[0] for cell in notebook.cells]
    end = [cell.id for cell in notebook.cells].index(behind) + 1 if behind else _exercises_end(headings)
    heading = f"#{texts.heading}" if DEEPER in headings[:end] else texts.heading  # in Deeper one level lower
    task = new_markdown_cell(f"{heading}\n\n*● · 0 minutes*\n\n{TASK}", id=f"exercise-{key}-task")
    stub = new_code_cell(texts.exercise, id=f"exercise-{key}", metadata={"tags": [f"exercise:{exercise_id}"]})
    check = new_code_cell(texts.check, id=f"check-{key}", metadata={"tags": [f"check:{exercise_id}"]})
    notebook.cells[end:end] = [task, stub, check, new_markdown_cell(texts.help, id=f"help-{key}")]
    return f"put in behind {notebook.cells[end - 1].id}: write the task in the cell {task.id}"


def _exercises_end(headings: list[str]) -> int:
    return next(i for i, heading in enumerate(headings) if heading.startswith(EXERCISES_END))


def is_sound(exercise_id: str) -> bool:
    """Whether the declaration passes the linter, and the tests of its answers and mistakes pass."""
    place = f"{EXERCISES}/{lessons.LESSONS[int(exercise_id[:2])].name}.py"
    judging = ["tests/course/test_exercises.py", "-k", exercise_id]
    commands = ["ruff", "check", place], ["pytest", "--quiet", *judging]
    runs = [subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=False) for command in commands]
    return not any(run.returncode for run in runs)


def name_cells(notebook: NotebookNode, raw_cells: list[dict]) -> list[str]:
    """Give each cell without a readable id an id made from its section's heading; return the new ids."""
    taken, section, new = {cell.get("id") for cell in raw_cells}, "cell", []
    for cell, raw in zip(notebook.cells, raw_cells, strict=True):
        heading = re.search(r"^#+ (.*)$", cell.source, re.MULTILINE) if cell.cell_type == "markdown" else None
        section = _slug(heading[1]) if heading else section
        if not is_stable(raw.get("id", "")):
            free = (f"{section}-{i}" for i in range(1, 1000))
            cell.id = next(name for name in (section, *free) if name not in taken)
            taken.add(cell.id)
            new.append(cell.id)
    return new


def _slug(heading: str) -> str:
    words = re.findall(r"[a-z0-9]+", re.sub(r"[`*$]|\[|\]\([^)]*\)", "", heading.lower()))
    letters = [word for word in words if not word.isdigit()] or ["cell"]
    return "-".join(letters[:4])


def main(kind: str = "", what: str = "", behind: str = "") -> None:
    if kind == "exercise" and re.fullmatch(r"\d\d\.\d+", what):
        lesson = Lesson.load(lessons.notebook(int(what[:2])))
        print(f"{what} {put_exercise(what, lesson.notebook, behind)}")
        lesson.path.write_text(as_text(lesson.notebook), encoding="utf-8", newline="\n")
        for complaint in lint_exercises.of_exercise(what, Lesson.load(lesson.path)):
            print(f"still to do: {complaint}")
        if not is_sound(what):
            sys.exit(f"fix what is listed above, then run this again: author exercise {what}")
        print(f"then: make refresh LESSON={what[:2]}, which tells what else the lesson lacks")
    else:
        sys.exit(f"wanted: exercise 03.4, got: {kind} {what}\n\n{__doc__}")


if __name__ == "__main__":
    main(*sys.argv[1:4])
