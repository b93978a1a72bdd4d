"""Run a learner's copy of a lesson (`make check`), and compare its outputs with the shipped lesson's."""

import re
from collections.abc import Iterable, Iterator

from nbformat import NotebookNode

from tests.gate.comparison import differences
from tests.gate.notebook_io import WORDS, Lesson, code_cells
from transformer_course.lessons import ROOT
from transformer_course.workspace.copies import KEY
from transformer_course.workspace.predictions import SHOWN

OURS = "the course's cell"  # key in a cell's metadata
# Verdicts, the number of solved exercises and predictions depend on the learner, so they may differ.
PERSONAL = re.compile(rf"[✓○✗]+ \d\d\.\d+ |Solved: \d+ of |{SHOWN}")


def is_copy(notebook: NotebookNode) -> bool:
    """Whether a notebook is a learner's copy of a lesson."""
    return KEY in notebook.metadata


def beside_shipped(copy: NotebookNode) -> list[NotebookNode]:
    """Return the copy's code cells, each with the outputs of the corresponding cell of the shipped lesson."""
    lesson = Lesson.load(ROOT / "notebooks" / copy.metadata[KEY]["lesson"])
    shipped = {cell.id: cell for cell in code_cells(lesson.notebook)}
    cells = code_cells(copy)
    for cell in cells:
        cell.execution_count = 1  # whether the learner has run it makes no difference
        ours = shipped.get(cell.id)
        cell.outputs = ours.outputs if ours else []
        cell.metadata[OURS] = ours.source if ours else None
    return cells


def is_beside(cell: NotebookNode) -> bool:
    """Whether a cell of the copy has a corresponding cell in the shipped lesson."""
    return cell.metadata.get(OURS) is not None


def is_own(cell: NotebookNode) -> bool:
    """Whether a cell of the copy is the learner's own: it is run, but its outputs are not compared."""
    return OURS in cell.metadata and not is_beside(cell)


def yours_and_ours(cell: NotebookNode, fresh: Iterable[NotebookNode]) -> Iterator[str]:
    """Yield how the outputs of the learner's cell differ from the shipped ones, ignoring personal ones."""
    lines = list(differences(_impersonal(cell.outputs), _impersonal(fresh), ("the course", "yours")))
    if lines and cell.source != cell.metadata[OURS]:
        yield f"{OURS}:\n{cell.metadata[OURS]}\n\nhow the outputs differ:"
    yield from lines


def _impersonal(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    return [
        output
        for output in outputs
        if not PERSONAL.match(output.get("data", output).get(WORDS, output.get("text", "")))
    ]
