"""The exercises once more, solved: who has solved them sees what is stored, but for the verdicts.

They run in the lesson's own kernel after its last cell, from the state that its first exercise found.
"""

import inspect
from collections.abc import Iterable
from copy import deepcopy

import nbformat
from nbformat import NotebookNode

from tests.gate.stored import tags
from transformer_lab.course.checker.verdict import Verdict
from transformer_lab.course.exercises import find


def _keep(names: dict) -> tuple:
    """Return what a lesson's names and its random numbers are now."""
    import random

    import numpy
    import torch

    return dict(names), torch.get_rng_state(), numpy.random.get_state(), random.getstate()


def _go_back(names: dict, kept: tuple) -> None:
    """Make them what they were; names that begin with _ are IPython's and ours."""
    import random

    import numpy
    import torch

    before, of_torch, of_numpy, of_python = kept
    for name in [name for name in names if name[0] != "_" and name not in before]:
        del names[name]
    names.update({name: thing for name, thing in before.items() if name[0] != "_"})
    torch.set_rng_state(of_torch)
    numpy.random.set_state(of_numpy)
    random.setstate(of_python)


# They run in the lesson's kernel, which has no path to this file: so their text goes there.
KEEP = f"{inspect.getsource(_keep)}\n_kept = _keep(globals())\n"
GO_BACK = f"{inspect.getsource(_go_back)}\n_go_back(globals(), _kept)\n"


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
