"""The place for a prediction: a cell with the comment `# Your prediction:`, after which a learner may write.

What they write is kept in their folder, and shown again above the result. It is never judged.
"""

import ast
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path

from IPython import InteractiveShell
from IPython.core.interactiveshell import ExecutionInfo
from IPython.display import display

from transformer_course.workspace import atomic_files

PLACE = "# Your prediction:"
SHOWN = "You predicted:"


def watch(shell: InteractiveShell, lesson: int) -> None:
    """From now on, note this lesson's predictions, and show each one above its result."""
    global _lesson
    _lesson = lesson
    shell.events.register("pre_run_cell", _before_cell)
    if _as_comment not in shell.input_transformers_cleanup:
        shell.input_transformers_cleanup.append(_as_comment)


_lesson = 0
_open = ""  # the prediction whose result has not been shown yet
_shown: dict[str, str] = {}  # predictions, by the text of the cell that shows the result


def _before_cell(info: ExecutionInfo) -> None:
    global _open
    cell = info.raw_cell
    if cell.startswith(PLACE):
        _open = _kept(cell.removeprefix(PLACE).strip(), getattr(info, "cell_id", None) or "")
        return
    if _open and shows_something(cell):
        _shown[cell], _open = _open, ""
    if cell in _shown:
        display(Prediction(_shown[cell]))


@dataclass(frozen=True)
class Prediction:
    """What a learner predicted, as it is shown again."""

    text: str

    def __repr__(self) -> str:
        return f"{SHOWN} {self.text}"

    def _repr_html_(self) -> str:
        style = "border-left:5px solid;padding:0 .9em;white-space:pre-line"
        return f'<p style="{style}">{escape(repr(self))}</p>'


def _kept(prediction: str, cell_id: str) -> str:
    """Keep a prediction in the learner's folder; if it is empty, return the one that was kept."""
    if not (
        atomic_files.IN_WORKSPACE and cell_id.startswith("predict-")
    ):  # JupyterLab's ids are those of the file
        return prediction
    file = Path(atomic_files.WORKSPACE, "predictions", f"{_lesson:02}-{cell_id}.txt")
    with suppress(OSError, ValueError):
        if not prediction:
            return file.read_text(encoding="utf-8")
        atomic_files.replace(file, prediction.encode())
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
