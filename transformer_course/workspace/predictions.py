"""The place for a prediction: a cell with the comment `# Your prediction:`, after which a learner may write.

What they write is kept in their folder, and shown again above the result. It is never judged.
"""

import ast
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from IPython import InteractiveShell
from IPython.core.interactiveshell import ExecutionInfo
from IPython.display import display

from transformer_course.lessons import notebook
from transformer_course.workspace import atomic_files

PLACE = "# Your prediction:"
SHOWN = "You predicted:"


def watch(shell: InteractiveShell, lesson: int | None = None) -> None:
    """From now on, note predictions, and show each one above its result.

    They are kept only once the lesson is known, which its first cell says.
    """
    global _lesson
    _lesson = lesson
    shell.events.register("pre_run_cell", _before_cell)
    if _as_comment not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(_as_comment)


_lesson: int | None = None
_shown: dict[str, str] = {}  # predictions, by the cell that shows the result: its id, or its text without ids
_open = ""  # a prediction from a cell that the lesson doesn't have: it belongs to the next result
_noted: set[str] = set()  # the places that were used since the kernel was started


def _before_cell(info: ExecutionInfo) -> None:
    global _open
    cell, cell_id = info.raw_cell, getattr(info, "cell_id", None) or ""  # JupyterLab's ids are the file's
    if cell.startswith(PLACE):
        prediction = _kept(re.sub(r"^# ?", "", cell.removeprefix(PLACE).strip(), flags=re.M), cell_id)
        if result := _results(_lesson).get(cell_id):
            _shown[result] = prediction
        else:
            _open = prediction
        return
    name = cell_id or cell
    if _open and shows_something(cell):
        _shown[name], _open = _open, ""
    if _shown.get(name):
        display(Prediction(_shown[name]))


@cache
def _results(lesson: int | None) -> dict[str, str]:
    """The cell that shows the result of each place for a prediction, by ids; empty without its file."""
    results, waiting = {}, []
    with suppress(OSError, ValueError, TypeError):
        for cell in json.loads(notebook(lesson).read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if source.startswith(PLACE):
                waiting.append(cell["id"])
            elif waiting and cell["cell_type"] == "code" and shows_something(source):
                results |= dict.fromkeys(waiting, cell["id"])
                waiting = []
    return results


@dataclass(frozen=True)
class Prediction:
    """What a learner predicted, as it is shown again."""

    text: str

    def __repr__(self) -> str:
        return f"{SHOWN} {self.text}"

    def _repr_html_(self) -> str:
        style = "border-left:5px solid;padding:0 .9em;white-space:pre-line"
        return f'<p class="tex2jax_ignore mathjax_ignore" style="{style}">{escape(repr(self))}</p>'


def _kept(prediction: str, cell_id: str) -> str:
    """Keep a prediction in the learner's folder; if it is empty, return the one that was kept.

    A place that was used since the kernel was started and is empty now takes its prediction back.
    """
    if _lesson is None or not (atomic_files.IN_WORKSPACE and cell_id.startswith("predict-")):
        return prediction
    file = Path(atomic_files.WORKSPACE, "predictions", f"{_lesson:02}-{cell_id}.txt")
    with suppress(OSError, ValueError):
        if prediction:
            _noted.add(cell_id)
            atomic_files.replace(file, prediction.encode())
        elif cell_id in _noted:
            _noted.remove(cell_id)
            atomic_files.set_aside(file)
        else:
            return file.read_text(encoding="utf-8")
    return prediction


def shows_something(cell: str) -> bool:
    """Whether the last statement of a cell prints or draws; an assignment or a definition does not."""
    with suppress(SyntaxError):
        last = ast.parse(cell).body[-1:]
        definition = ast.FunctionDef | ast.ClassDef
        return any(not isinstance(it, definition) and _has_call(it) for it in last)
    return False


def _has_call(statement: ast.stmt) -> bool:
    return any(isinstance(node, ast.Expr) for node in ast.walk(statement))


def _as_comment(lines: Sequence[str]) -> Sequence[str]:
    """Make a prediction of several lines a comment, since it is not code."""
    return [f"# {line}" for line in lines] if lines and lines[0].startswith(PLACE) else lines
