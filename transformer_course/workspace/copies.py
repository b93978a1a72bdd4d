"""Copy the lessons into the learner's folder, and merge newer versions of them into these copies.

The metadata of a copy records its origin: the lesson's file name and a digest of each of its cells.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from transformer_course.workspace.atomic_files import remove_unfinished, set_aside, write

Notebook = dict[str, Any]
Cell = dict[str, Any]
KEY = "transformer_lab"  # in the copy's metadata
LESSONS = "[0-9][0-9]_*.ipynb"


def update(notebooks: Path, workspace: Path, language: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Copy the lessons that are missing, merge newer ones into the other copies, and yield what was done.

    A lesson that cannot be read, or a copy that cannot be written, does not stop the others. New copies have
    the `language` as this Python's kernel describes it; JupyterLab would write it, as an unsaved change.
    """
    remove_unfinished(workspace)
    numbers = defaultdict(list)  # the numbers of the lessons, by what was done
    for lesson in sorted(notebooks.glob(LESSONS)):
        try:
            done = _update_copy(lesson, workspace / lesson.name, language)
        except OSError as error:
            done = f"could not be updated ({error.strerror}). Your copy is unchanged."
        numbers[done].append(lesson.name[:2])
    numbers.pop("", None)
    yield from (f"{', '.join(numbers)} {done}" for done, numbers in numbers.items())


def _update_copy(shipped: Path, copy: Path, language: Mapping[str, Any] | None) -> str:
    try:
        lesson = read(shipped)
    except ValueError:
        return "cannot be read: the course's file is damaged. Download it again; your copy is unchanged."
    new = fresh(lesson, shipped.name)
    new["metadata"] |= {"language_info": language} if language else {}
    if not copy.exists():
        write(copy, as_bytes(new))
        return "copied."
    data, times = copy.read_bytes(), (copy.stat().st_atime, copy.stat().st_mtime)
    try:
        mine = read(copy)
    except ValueError:
        kept = set_aside(copy)
        write(copy, as_bytes(new))
        return f"could not be read. Your file is now before/{kept.name}, and a new copy replaces it."
    made_from = mine["metadata"].get(KEY, {})
    if made_from == origin(lesson, shipped.name):
        return ""
    merged = merge(mine["cells"], dict(made_from.get("cells", [])), lesson["cells"])
    if merged is None:
        return "cannot be merged with the newer lesson: its cells have no ids. For a new copy: FRESH=NN."
    cells, notes = merged
    metadata = mine["metadata"] | {KEY: origin(lesson, shipped.name)}
    write(copy.parent / "before" / copy.name, data)
    if copy.read_bytes() != data:
        return "is being saved by another program. It will be updated the next time."
    write(copy, as_bytes(lesson | {"cells": cells, "metadata": metadata}))
    os.utime(copy, times)
    conflicts = " Notes show the course's new version of cells that you changed." if notes else ""
    return f"updated; your changes are kept.{conflicts}"


def merge(mine: list[Cell], base: dict[str, str], shipped: list[Cell]) -> tuple[list[Cell], int] | None:
    """Merge a copy's cells with the cells of the newer lesson, by their ids; None if no id is known.

    Cells that the learner has changed or added stay where they are; all others come from the newer lesson. If
    both have changed a cell, a note above the learner's cell shows the lesson's. Also returns the number of
    notes.

    Args:
        mine: the cells of the copy.
        base: digests of the cells of the lesson that was copied, by id; empty if unknown.
        shipped: the cells of the newer lesson.
    """
    ids = {cell["id"] for cell in shipped}
    taken = set(ids)
    copied: dict[str, Cell] = {}  # cells of the lesson in the copy
    own = defaultdict(list)  # the learner's own cells, by the id of the lesson's cell that they follow
    last = ""
    for cell in mine:
        id = cell.get("id")
        if id in ids and id not in copied:
            copied[id], last = cell, id
        elif id in ids or base.get(id) != digest(cell):  # otherwise the lesson no longer has this cell
            own[last].append(cell if id and id not in taken else cell | {"id": _new_id()})
            taken.add(id)
    if not copied:
        return None
    cells, notes = own[""], 0
    for cell in shipped:
        copy, was, now = copied.get(cell["id"]), base.get(cell["id"]), digest(cell)
        if copy is None and was == now:
            pass  # the learner has deleted it
        elif copy is None or digest(copy) == was != now:
            cells.append(_without_outputs(cell))
        else:
            if was != now != digest(copy):
                cells.append(_note(cell))
                notes += 1
            cells.append(copy | {"metadata": copy["metadata"] | cell["metadata"]})
        cells += own[cell["id"]]
    return cells, notes


def _note(cell: Cell) -> Cell:
    language = "python" if cell["cell_type"] == "code" else "markdown"
    text = (
        "**A newer version from the course.** You've changed the cell below, and the course has changed it "
        "too. Your cell stays; this is the course's. Delete this note when you no longer need it.\n\n"
        f"````{language}\n{_text(cell)}\n````"
    )
    return {"cell_type": "markdown", "id": _new_id(), "metadata": {}, "source": text}


def _new_id() -> str:
    return uuid4().hex[:8]  # in the format of JupyterLab


def renew(number: str, notebooks: Path, workspace: Path) -> str:
    """Move a lesson's copy to the folder `before`, so that `update` makes a new one; return a message.

    Raises:
        ValueError: there is no lesson with this number.
    """
    lessons = sorted(notebooks.glob(f"{number}_*.ipynb")) if number.isdigit() else []
    if not lessons:
        raise ValueError(f"there is no lesson {number!r}: give the number of a lesson, such as 03")
    copy = workspace / lessons[0].name
    if not copy.exists():
        return f"There is no copy of lesson {number} yet."
    return f"Your copy of lesson {number} is now before/{set_aside(copy).name}."


def last_worked_in(workspace: Path) -> Path | None:
    """The copy that was saved last, among the copies in which a cell was run."""
    copies = [path for path in workspace.glob(LESSONS) if _was_run(path)]
    return max(copies, key=lambda copy: copy.stat().st_mtime, default=None)


def _was_run(copy: Path) -> bool:
    try:
        return any(cell.get("execution_count") for cell in read(copy)["cells"])
    except (OSError, ValueError):
        return False


def read(path: Path) -> Notebook:
    """Read a notebook.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is not a notebook.
    """
    try:
        notebook = json.loads(path.read_bytes())
        origin(notebook, "")
        dict(notebook["metadata"].get(KEY, {}).get("cells", []))
        notebook["cells"] = [{"metadata": {}} | cell for cell in notebook["cells"]]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{path.name} is no notebook") from error
    return notebook


def as_bytes(notebook: Notebook) -> bytes:
    """A notebook as the bytes of its file. ASCII only, since a lone surrogate has no UTF-8 encoding."""
    return (json.dumps(notebook, indent=1) + "\n").encode()


def fresh(lesson: Notebook, name: str) -> Notebook:
    """A copy of a lesson without outputs, with its origin in the metadata."""
    cells = [_without_outputs(cell) for cell in lesson["cells"]]
    return lesson | {"cells": cells, "metadata": lesson["metadata"] | {KEY: origin(lesson, name)}}


def origin(lesson: Notebook, name: str) -> dict[str, Any]:
    """The origin of a copy: the name of the lesson, and the ids and digests of its cells, in order."""
    return {"lesson": name, "cells": [[cell.get("id"), digest(cell)] for cell in lesson["cells"]]}


def digest(cell: Cell) -> str:
    """A hash of a cell's type and text, independent of the line endings."""
    return sha256(json.dumps([cell["cell_type"], _text(cell)]).encode()).hexdigest()[:16]


def _text(cell: Cell) -> str:
    return "\n".join("".join(cell["source"]).splitlines())


def _without_outputs(cell: Cell) -> Cell:
    return cell | ({"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {})
