"""A learner's copy of a lesson, run beside the lesson as it is shipped: where they differ, yours and ours."""

import re
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

from tests.gate.comparison import differences
from tests.gate.notebook_io import WORDS, Lesson, code_cells
from transformer_course.lessons import ROOT
from transformer_course.workspace.copies import KEY

OURS = "the course's cell"  # in a cell's metadata
# Verdicts, and how much is solved: these tell of the learner, and differ with good reason.
PERSONAL = re.compile(r"[✓○✗]+ \d\d\.\d+ |Solved: \d+ of ")


def is_copy(notebook: NotebookNode) -> bool:
    """Whether a notebook is a learner's copy of a lesson."""
    return KEY in notebook.metadata


def beside_shipped(copy: NotebookNode) -> list[NotebookNode]:
    """Return the copy's code cells, each with the outputs that the shipped lesson has in its place."""
    lesson = Lesson.load(ROOT / "notebooks" / copy.metadata[KEY]["lesson"])
    shipped = {cell.id: cell for cell in code_cells(lesson.notebook)}
    cells = code_cells(copy)
    for cell in cells:
        cell.execution_count = 1  # whether the learner has run it does not matter
        ours = shipped.get(cell.id)
        cell.outputs = ours.outputs if ours else []
        cell.metadata[OURS] = ours.source if ours else None
    return cells


def is_beside(cell: NotebookNode) -> bool:
    """Whether a cell of the copy has one of the course's to be compared with."""
    return cell.metadata.get(OURS) is not None


def is_own(cell: NotebookNode) -> bool:
    """Whether a cell of the copy is the learner's own, which is run and compared with nothing."""
    return OURS in cell.metadata and not is_beside(cell)


def yours_and_ours(cell: NotebookNode, fresh: Iterable[NotebookNode]) -> Iterator[str]:
    """Yield how what the learner's cell shows differs from the shipped one, but for what is personal."""
    lines = list(differences(_impersonal(cell.outputs), _impersonal(fresh), ("ours", "yours")))
    if lines and cell.source != cell.metadata[OURS]:
        yield f"our cell:\n{cell.metadata[OURS]}\n\nwhat comes out:"
    yield from lines


def _impersonal(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    return [
        output
        for output in outputs
        if not PERSONAL.match(output.get("data", output).get(WORDS, output.get("text", "")))
    ]
