"""Estimate how many minutes a lesson takes; `refresh` writes the estimate, and the tests compare it."""

import re
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

from tests.gate.notebook_io import Lesson, is_personal
from tests.gate.solve_exercises import exercises_in
from transformer_course.checker import Exercise
from transformer_course.exercises import find

HEADINGS = (  # of lessons 01 and later, below the title
    "Recall",
    "The problem",
    "By hand",
    "The idea",
    "Write it",
    "See your code at work",
    "Why it works",
    "Where people go wrong",
    "In the package",
    "An open question",
    "Summary",
)
DEEPER = "## Deeper"

WORDS, LINES = 180, 10  # words of prose and lines of code that a learner reads per minute
PREDICTION, THINKING = 2, 1  # minutes for a prediction, and for an exercise before writing

IN_TITLE = re.compile(r"(?<=\*\*It takes\*\* about )\d+ minutes")
IN_EXERCISE = re.compile(r"(?<=^\*)●+ · \d+ minutes(?=\*$)", re.MULTILINE)
IN_DEEPER = re.compile(r"(?<=\*)\d+ minutes?(?=\.\*)")
FORMS = {IN_TITLE: "**It takes** about {}", IN_EXERCISE: "*{}*", IN_DEEPER: "*Good for:* … *{}.*"}


def has_one_path(lesson: Lesson) -> bool:
    """Whether the lesson has the usual form; lesson 00, the introduction, has its own."""
    return not lesson.path.name.startswith("00")


def parts(lesson: Lesson) -> tuple[list[NotebookNode], list[NotebookNode]]:
    """Return the cells of the path, and the cells of Deeper."""
    cells = lesson.notebook.cells
    end = next((i for i, cell in enumerate(cells) if cell.source.startswith(DEEPER)), len(cells))
    return cells[:end], cells[end:]


def minutes(cells: list[NotebookNode]) -> int:
    """Return how many minutes these cells take, exercises included.

    Hints and solutions are not counted, nor what is personal.
    """
    prose = [
        cell.source for cell in cells if cell.cell_type == "markdown" and not cell.id.startswith("help-")
    ]
    code = [cell.source for cell in cells if cell.cell_type == "code" and not is_personal(cell)]
    words = sum(len(text.split()) for text in prose)
    lines = sum(1 for text in code for line in text.splitlines() if line.strip())
    predictions = sum(text.count("**Predict.") for text in prose)
    writing = sum(map(minutes_of_exercise, exercises_in(cells)))
    return round(words / WORDS + lines / LINES + PREDICTION * predictions + writing)


def minutes_of_exercise(id: str) -> int:
    """Return how many minutes one exercise takes: two more per level of difficulty."""
    exercise = find(id)
    return THINKING + 2 * exercise.difficulty + len(written(exercise))


def written(exercise: Exercise) -> list[str]:
    """Return the lines of the solution that the stub does not give."""
    stub = {line.strip() for line in exercise.stub.splitlines()}
    return [line for line in exercise.shown.splitlines() if line.strip() not in {"", *stub}]


def minutes_are_counted(lesson: Lesson) -> Iterator[str]:
    """Yield wrong minutes: in the title, below the heading of an exercise, or in a section of Deeper."""
    for cell, form, wanted in _minutes(lesson):
        match = form.search(cell.source)
        if not match or match[0] != wanted:
            got = match[0] if match else "nothing of it"
            yield f"{cell.id} must say {FORMS[form].format(wanted)}, got {got}"


def write_minutes(lesson: Lesson) -> None:
    """Update the minutes wherever a cell states them."""
    for cell, form, wanted in _minutes(lesson):
        cell.source = form.sub(wanted, cell.source)


def _minutes(lesson: Lesson) -> Iterator[tuple[NotebookNode, re.Pattern, str]]:
    """Yield each cell that states a duration, the pattern of the statement, and the correct text."""
    path, deeper = parts(lesson)
    yield path[0], IN_TITLE, f"{5 * round(minutes(path) / 5)} minutes"
    for section in _sections(deeper):
        count = max(1, minutes(section))
        yield section[0], IN_DEEPER, f"{count} minute{'s' * (count > 1)}"
    for id in exercises_in(lesson.notebook.cells):
        for cell in lesson.notebook.cells:
            if re.search(rf"^#+ {id} ", cell.source, re.MULTILINE):
                difficulty = "●" * find(id).difficulty
                yield cell, IN_EXERCISE, f"{difficulty} · {minutes_of_exercise(id)} minutes"


def _sections(cells: Iterable[NotebookNode]) -> list[list[NotebookNode]]:
    sections: list[list[NotebookNode]] = []
    for cell in cells:
        if cell.cell_type == "markdown" and re.search(r"^### ", cell.source, re.MULTILINE):
            sections.append([])
        if sections:
            sections[-1].append(cell)
    return sections
