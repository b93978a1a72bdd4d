"""The exercises once more, solved: who has solved them sees what is stored, but for the verdicts.

They run in the lesson's own kernel after its last cell, from the state that its first exercise found.
"""

from collections.abc import Iterable
from copy import deepcopy

import nbformat
from nbformat import NotebookNode

from tests.gate.stored import tags
from transformer_lab.course.checker.verdict import Verdict
from transformer_lab.course.exercises import find

# Both in one statement, so that nothing of them stays behind but one name.
KEEP = """\
_kept = (lambda torch, numpy, random: (
    dict(globals()), torch.get_rng_state(), numpy.random.get_state(), random.getstate()
))(*map(__import__, ["torch", "numpy", "random"]))
"""
GO_BACK = """\
for _name in [name for name in globals() if name[0] != "_" and name not in _kept[0]]:
    del globals()[_name]
globals().update({name: thing for name, thing in _kept[0].items() if name[0] != "_"})
(lambda torch, numpy, random: (
    torch.set_rng_state(_kept[1]), numpy.random.set_state(_kept[2]), random.setstate(_kept[3])
))(*map(__import__, ["torch", "numpy", "random"]));
"""


def tagged(cell: NotebookNode, kind: str) -> str:
    """Return the exercise that a cell is the stub or the check of; empty if it is not."""
    return next((tag.partition(":")[2] for tag in tags(cell) if tag.startswith(f"{kind}:")), "")


def with_exercises_solved(cells: Iterable[NotebookNode]) -> list[NotebookNode]:
    """Return the code cells as they run: those of the lesson, then from its first exercise on, solved.

    A cell that runs twice has `solved-` before its id the second time.
    """
    cells = deepcopy(list(cells))
    first = next((i for i, cell in enumerate(cells) if tagged(cell, "exercise")), len(cells))
    again = [solved(cell) for cell in cells[first:]]
    if again:
        cells[first].source = KEEP + cells[first].source
        again[0].source = GO_BACK + again[0].source
    return cells + again


def solved(cell: NotebookNode) -> NotebookNode:
    """Return a copy of a code cell: the stub as its solution, the check with its verdict."""
    cell = deepcopy(cell)
    cell.id = f"solved-{cell.id}"
    if tagged(cell, "exercise"):
        cell.source = find(tagged(cell, "exercise")).shown
    if tagged(cell, "check"):
        verdict = Verdict.correct(tagged(cell, "check"))
        data = {"text/plain": repr(verdict), "text/html": verdict._repr_html_()}
        cell.outputs = [nbformat.v4.new_output("display_data", data=data)]
    return cell
