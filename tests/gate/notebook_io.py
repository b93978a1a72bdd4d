"""Read and write lessons in one format, whatever program has changed them."""

import json
import re
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import nbformat
from ipykernel.ipkernel import IPythonKernel
from nbformat import NotebookNode

from transformer_course.workspace.predictions import PLACE

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
LESSONS = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))

PICTURE = "image/png"
PAGE = "text/html"  # of a picture: an <img> with its alternative text, for exported pages
WORDS = "text/plain"
# Of a picture: its text, its size, and all its numbers, which are for the gate only.
ABOUT = ("alt", "height", "width", "contents")
EMBEDDED = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]*)")
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
# As a kernel describes it, but for the version of Python: it differs between machines.
LANGUAGE = {name: value for name, value in IPythonKernel.language_info.items() if name != "version"}


@dataclass(frozen=True)
class Lesson:
    """A notebook with the text of its file."""

    path: Path
    text: str
    notebook: NotebookNode

    @classmethod
    def load(cls, path: Path) -> "Lesson":
        """Read the notebook without validating it."""
        text = path.read_text(encoding="utf-8")
        return cls(path, text, nbformat.reads(text, as_version=4))

    @classmethod
    @cache
    def shipped(cls, path: Path) -> "Lesson":
        """Return a lesson from the cache; do not modify it."""
        return cls.load(path)

    @property
    def raw_cells(self) -> list[dict]:
        """The cells as they are in the file, before nbformat adds missing ids."""
        return json.loads(self.text)["cells"]


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """Return the code cells, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def is_personal(cell: NotebookNode) -> bool:
    """Whether a cell is a place for a prediction, or shows the learner's progress: nothing in it is read."""
    return cell.source.startswith((PLACE, "lesson.progress("))


def tags(cell: NotebookNode) -> list[str]:
    """Return the cell's tags."""
    return cell.get("metadata", {}).get("tags", [])


def as_text(notebook: NotebookNode) -> str:
    """Return the text of the file, which contains only sources, outputs, ids and tags."""
    notebook = deepcopy(notebook)
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": LANGUAGE})
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict({"tags": tags(cell)} if tags(cell) else {})
    for cell in code_cells(notebook):
        cell.outputs = as_stored(cell.outputs)
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def as_stored(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """Return the parts of a cell's outputs that are stored; the gate compares only these.

    A picture is stored with its text, and the HTML that contains its alternative text and a slider's frames.
    What was shown only during the run is not stored: a `PassingOutput`, and what is left of it, without data.
    """
    return [_kept(output) for output in _merge_streams(outputs) if not _is_passing(output)]


def _is_passing(output: NotebookNode) -> bool:
    return output.get("data") == {} or "passing" in output.get("metadata", {})


def _merge_streams(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """Join consecutive stream outputs, because the split into messages is random."""
    merged: list[NotebookNode] = []
    for output in outputs:
        last = merged[-1] if merged else {}
        if output.output_type == "stream" == last.get("output_type") and output.name == last.name:
            last.text += output.text
        else:
            merged.append(deepcopy(output))
    return merged


def without_pictures(text: str) -> str:
    """Return HTML without the data of embedded pictures, which are compared as pictures."""
    return EMBEDDED.sub("data:image/png", text)


def _kept(output: NotebookNode) -> NotebookNode:
    if output.output_type == "error":
        output.traceback = [f"{output.ename}: {output.evalue}"]  # frames contain paths of this machine
    if output.output_type not in ("display_data", "execute_result"):
        return output
    about = output.metadata.get(PICTURE, {})
    about = {name: about[name] for name in ABOUT if name in about}
    output.metadata = nbformat.from_dict({PICTURE: about} if about else {})
    if PICTURE in output.data:
        kept = {mime: output.data[mime] for mime in (PICTURE, PAGE, WORDS) if mime in output.data}
        output.data = nbformat.from_dict(kept)
        output.data[PICTURE] = output.data[PICTURE].strip()
    return output
