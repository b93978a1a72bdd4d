"""A lesson's path, and what lies deeper: how long each is, computed and not guessed."""

import re
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

from tests.gate.notebook_io import Lesson
from tests.gate.solve_exercises import exercises_in
from transformer_course.checker import Exercise
from transformer_course.exercises import find

HEADINGS = (  # of the lessons from 01 on, below the title
    "Recall",
    "The problem",
    "By hand",
    "The idea",
    "Write it",
    "See it, yours",
    "Why so",
    "Where people go wrong",
    "In the package",
    "An open question",
    "Summary",
)
DEEPER = "## Deeper"

# A learner reads so many words of prose, or lines of code, in a minute, and thinks so long of a prediction.
WORDS, LINES, PREDICTION = 180, 10, 2
# Minutes about an exercise; two more for each degree of difficulty, and one for each line that is written.
THINKING = 1

MOST_LINES, MOST_CELLS, MOST_MINUTES = 210, 54, 100
MOST_BUGS = 4


def has_one_path(lesson: Lesson) -> bool:
    """Whether it teaches; lesson 00 shows the way round, and has a form of its own."""
    return not lesson.path.name.startswith("00")


def parts(lesson: Lesson) -> tuple[list[NotebookNode], list[NotebookNode]]:
    """Return the cells of the path, and those behind it."""
    cells = lesson.notebook.cells
    end = next((i for i, cell in enumerate(cells) if cell.source.startswith(DEEPER)), len(cells))
    return cells[:end], cells[end:]


def words(cells: Iterable[NotebookNode]) -> int:
    """Count the words of prose; hints and solutions are opened by few."""
    return sum(len(cell.source.split()) for cell in _prose(cells))


def lines(cells: Iterable[NotebookNode]) -> int:
    """Count the lines of code that are not blank."""
    code = (cell.source for cell in cells if cell.cell_type == "code")
    return sum(1 for source in code for line in source.splitlines() if line.strip())


def minutes(cells: list[NotebookNode]) -> int:
    """Return how long a learner takes for these cells, exercises included."""
    predictions = sum(cell.source.count("**Predict.") for cell in _prose(cells))
    reading = words(cells) / WORDS + lines(cells) / LINES
    writing = sum(map(minutes_of_exercise, exercises_in(cells)))
    return round(reading + PREDICTION * predictions + writing)


def minutes_of_exercise(id: str) -> int:
    """Return how long a learner takes for one exercise."""
    exercise = find(id)
    return THINKING + 2 * exercise.difficulty + len(written(exercise))


def written(exercise: Exercise) -> list[str]:
    """Return the lines of the solution that the stub does not give: those are read, with all other code."""
    given = {line.strip() for line in exercise.stub.splitlines()}
    return [line for line in exercise.shown.splitlines() if line.strip() not in {"", *given}]


def _prose(cells: Iterable[NotebookNode]) -> list[NotebookNode]:
    return [cell for cell in cells if cell.cell_type == "markdown" and not cell.id.startswith("help-")]


# Rules


TOLD = re.compile(r"(?<=\*\*It takes\*\* about )\d+ minutes")
TOLD_EXERCISE = re.compile(r"(?<=^\*)●+ · \d+ minutes(?=\*$)", re.MULTILINE)
TOLD_DEEPER = re.compile(r"(?<=\*)\d+ minutes?(?=\.\*)")


def tells_its_minutes(lesson: Lesson) -> Iterator[str]:
    """Of the path in the title; of each section behind it under its heading."""
    for cell, form, wanted in _promises(lesson):
        told = form.search(cell.source)
        if not told or told[0] != wanted:
            words = {TOLD: "**It takes** about {}", TOLD_EXERCISE: "*{}*"}.get(form, "*Good for:* … *{}.*")
            yield f"{cell.id} must say {words.format(wanted)}, got {told[0] if told else 'nothing of it'}"


def tell_minutes(lesson: Lesson) -> None:
    """Write the right minutes where some are told."""
    for cell, form, wanted in _promises(lesson):
        cell.source = form.sub(wanted, cell.source)


def _promises(lesson: Lesson) -> Iterator[tuple[NotebookNode, re.Pattern, str]]:
    path, deeper = parts(lesson)
    yield path[0], TOLD, f"{5 * round(minutes(path) / 5)} minutes"
    for section in sections(deeper):
        count = max(1, minutes(section))
        yield section[0], TOLD_DEEPER, f"{count} minute{'s' * (count > 1)}"
    if has_one_path(lesson):
        for task, id in tasks(lesson.notebook.cells):
            wanted = f"{'●' * find(id).difficulty} · {minutes_of_exercise(id)} minutes"
            yield task, TOLD_EXERCISE, wanted


def tasks(cells: list[NotebookNode]) -> Iterator[tuple[NotebookNode, str]]:
    """Yield the cell with each exercise's heading, and its id."""
    for id in exercises_in(cells):
        yield from ((cell, id) for cell in cells if re.search(rf"^#+ {id} ", cell.source, re.MULTILINE))


def sections(cells: list[NotebookNode]) -> list[list[NotebookNode]]:
    """Return the sections behind the path, each with its cells."""
    found: list[list[NotebookNode]] = []
    for cell in cells:
        if cell.cell_type == "markdown" and re.search(r"^### ", cell.source, re.MULTILINE):
            found.append([])
        if found:
            found[-1].append(cell)
    return found


def is_no_longer_than_a_path(lesson: Lesson) -> Iterator[str]:
    """Whoever adds has to take something away, or to put it deeper."""
    path, _ = parts(lesson)
    cells = [cell for cell in path if not re.match("(exercise|check|help)-", cell.id)]
    counted = {
        "lines of code": (lines(path), MOST_LINES),
        "cells beside the exercises": (len(cells), MOST_CELLS),
        "minutes": (minutes(path), MOST_MINUTES),
        "bugs": (len(_bugs(path)), MOST_BUGS),
    }
    for what, (count, most) in counted.items():
        if count > most:
            yield f"the path has {count} {what}, at most {most}: put some behind the summary"


def _bugs(path: list[NotebookNode]) -> list[str]:
    text = "\n".join(cell.source for cell in path if cell.cell_type == "markdown")
    part = text.partition("## Where people go wrong")[2].partition("## In the package")[0]
    return re.findall(r"^\*\*(?!Predict)[^*]+\.\*\*", part, re.MULTILINE)


ALL = (tells_its_minutes, is_no_longer_than_a_path)
