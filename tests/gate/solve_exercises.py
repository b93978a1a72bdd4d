"""Run the exercises a second time with their solutions: apart from verdicts, all outputs must be the same.

The solved cells run in the kernel of the lesson after its last cell, each with the state in which it ran the
first time. Only cells that depend on an answer run again: exercises, checks, and cells that use a name which
these define.
"""

import ast
import inspect
import symtable
from collections.abc import Iterable, Iterator
from copy import deepcopy

import nbformat
from nbformat import NotebookNode

from tests.gate.notebook_io import tags
from transformer_course.checker.grading import right
from transformer_course.exercises import find

# These cells train for ten seconds or longer; they are compared once, with the reference solution.
TRAINING = ("why-train-seeds", "see-grid")


def _keep(id: str, names: dict, kept: dict) -> None:
    """Save the names and the random state of the lesson; all random numbers come from torch."""
    import torch

    kept[id] = dict(names), torch.get_rng_state()


def _go_back(id: str, names: dict, kept: dict, answered: set) -> None:
    """Restore the names and the random state, except for the answers; IPython's own names begin with _."""
    import torch

    before, random_numbers = kept[id]
    for name in [name for name in names if name[0] != "_" and name not in before and name not in answered]:
        del names[name]
    names.update({name: it for name, it in before.items() if name[0] != "_" and name not in answered})
    torch.set_rng_state(random_numbers)


# These functions run in the kernel of the lesson, which cannot import this file: pass their source.
TOOLS = f"{inspect.getsource(_keep)}\n{inspect.getsource(_go_back)}\n_kept = {{}}\n"


def tagged(cell: NotebookNode, kind: str) -> str:
    """Return the exercise whose stub or check the cell is; empty if it is neither."""
    return next((tag.partition(":")[2] for tag in tags(cell) if tag.startswith(f"{kind}:")), "")


def exercises_in(cells: Iterable[NotebookNode]) -> list[str]:
    """Return the ids of the exercises among these cells, in order."""
    return [id for cell in cells if (id := tagged(cell, "exercise"))]


def with_exercises_solved(cells: Iterable[NotebookNode]) -> list[NotebookNode]:
    """Return the code cells as they run: the cells of the lesson, then the solved ones that use an answer.

    The id of a cell begins with `solved-` the second time.
    """
    cells = deepcopy(list(cells))
    again = []
    for i, answered in _reached(cells):
        if cells[i].id in TRAINING:
            continue
        cell = solved(cells[i])
        cell.source = f"_go_back({cells[i].id!r}, globals(), _kept, {answered!r})\n{cell.source}"
        tools = "" if again else TOOLS
        cells[i].source = f"{tools}_keep({cells[i].id!r}, globals(), _kept)\n{cells[i].source}"
        again.append(cell)
    return cells + again


def _reached(cells: list[NotebookNode]) -> Iterator[tuple[int, set[str]]]:
    """Yield the index of each cell that uses an answer directly, and the names of all answers before it."""
    answers: set[str] = set()
    for i, cell in enumerate(cells):
        if tagged(cell, "exercise") or tagged(cell, "check"):
            yield i, set(answers)
            answers |= _names(cell.source)[1]
        else:
            used, given = _names(cell.source)
            if used & answers:
                yield i, set(answers)
            answers -= given


def _names(source: str) -> tuple[set[str], set[str]]:
    """The names that a cell uses, also inside functions, and the names that it defines for later cells."""
    used = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    symbols = symtable.symtable(source, "", "exec").get_symbols()
    return used, {each.get_name() for each in symbols if each.is_assigned() or each.is_imported()}


def solved(cell: NotebookNode) -> NotebookNode:
    """Return a copy of a code cell in which a stub is replaced by the solution."""
    cell = deepcopy(cell)
    cell.id = f"solved-{cell.id}"
    if tagged(cell, "exercise"):
        cell.source = find(tagged(cell, "exercise")).shown
    return cell


def verdict_of(id: str) -> NotebookNode:
    """Return the output of the check of an exercise that is solved."""
    exercise = find(id)
    verdict = right(exercise, exercise.outcomes(exercise.reference))
    data = {"text/plain": repr(verdict), "text/html": verdict._repr_html_()}
    return nbformat.v4.new_output("display_data", data=data)
