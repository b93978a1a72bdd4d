"""Copies of the lessons in the learner's folder: made, and merged with newer lessons.

A copy's metadata says what it was made from: the lesson's file name, and a digest of each of its cells.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from transformer_course.workspace.atomic_files import remove_unfinished, set_aside, write

Notebook = dict[str, Any]
Cell = dict[str, Any]
KEY = "transformer_lab"  # in the copy's metadata
LESSONS = "[0-9][0-9]_*.ipynb"


def update(notebooks: Path, workspace: Path) -> Iterator[str]:
    """Copy the lessons that are missing, merge newer ones into the other copies, and say what was done.

    A lesson that cannot be read or a copy that cannot be written does not stop the rest.
    """
    remove_unfinished(workspace)
    numbers = defaultdict(list)  # by what was done
    for lesson in sorted(notebooks.glob(LESSONS)):
        try:
            done = _update_copy(lesson, workspace / lesson.name)
        except OSError as error:
            done = f"could not be brought up to date ({error.strerror}). Your copy is as it was."
        numbers[done].append(lesson.name[:2])
    numbers.pop("", None)
    yield from (f"{', '.join(numbers)} {done}" for done, numbers in numbers.items())


def _update_copy(shipped: Path, copy: Path) -> str:
    try:
        lesson = read(shipped)
    except ValueError:
        return "cannot be read as it is shipped. Get the course's file again; your copy is as it was."
    if not copy.exists():
        write(copy, as_bytes(fresh(lesson, shipped.name)))
        return "copied."
    data, times = copy.read_bytes(), (copy.stat().st_atime, copy.stat().st_mtime)
    try:
        mine = read(copy)
    except ValueError:
        kept = set_aside(copy)
        write(copy, as_bytes(fresh(lesson, shipped.name)))
        return f"could not be read: it is in before/{kept.name} now, and a new copy in its place."
    made_from = mine["metadata"].get(KEY, {})
    if made_from == origin(lesson, shipped.name):
        return ""
    merged = merge(mine["cells"], dict(made_from.get("cells", [])), lesson["cells"])
    if merged is None:
        return "cannot be merged with the newer lesson: its cells have no ids (for a new copy: FRESH=NN)."
    cells, notes = merged
    metadata = mine["metadata"] | {KEY: origin(lesson, shipped.name)}
    write(copy.parent / "before" / copy.name, data)
    if copy.read_bytes() != data:
        return "is being saved by another program. It is brought up to date the next time."
    write(copy, as_bytes(lesson | {"cells": cells, "metadata": metadata}))
    os.utime(copy, times)
    return "updated; what you wrote is kept" + (", notes show what the course has there." if notes else ".")


def merge(mine: list[Cell], base: dict[str, str], shipped: list[Cell]) -> tuple[list[Cell], int] | None:
    """Merge a copy's cells with those of the newer lesson, by their ids; None if no id is known.

    What the learner has changed or added stays in its place, everything else is the newer lesson's. Where
    both have changed a cell, a note above the learner's shows the lesson's. The notes are counted.

    Args:
        mine: the cells of the copy.
        base: digests of the cells of the lesson that the copy was made from, by id; empty if unknown.
        shipped: the cells of the newer lesson.
    """
    ids = {cell["id"] for cell in shipped}
    taken = set(ids)
    copied: dict[str, Cell] = {}  # the lesson's cells in the copy
    own = defaultdict(list)  # the learner's own cells, by the id of the lesson's cell that they follow
    last = ""
    for cell in mine:
        id = cell.get("id")
        if id in ids and id not in copied:
            copied[id], last = cell, id
        elif id in ids or base.get(id) != digest(cell):  # else the lesson has it no more
            own[last].append(cell if id and id not in taken else cell | {"id": _new_id()})
            taken.add(id)
    if not copied:
        return None
    cells, notes = own[""], 0
    for cell in shipped:
        copy, was, now = copied.get(cell["id"]), base.get(cell["id"]), digest(cell)
        if copy is None and was == now:
            pass  # the learner has taken it away
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
        "**Newer in the course.** You have changed the cell below, and so has the course. Yours stays; the "
        "course's is this one. Delete this note when you don't need it any more.\n\n"
        f"````{language}\n{_text(cell)}\n````"
    )
    return {"cell_type": "markdown", "id": _new_id(), "metadata": {}, "source": text}


def _new_id() -> str:
    return uuid4().hex[:8]  # as JupyterLab makes them


def renew(number: str, notebooks: Path, workspace: Path) -> str:
    """Set a lesson's copy aside, so that `update` makes a new one; return what there is to say.

    Raises:
        ValueError: there is no lesson of that number.
    """
    lessons = sorted(notebooks.glob(f"{number}_*.ipynb")) if number.isdigit() else []
    if not lessons:
        raise ValueError(f"there is no lesson {number!r}: give the number of a lesson, such as 03")
    copy = workspace / lessons[0].name
    if not copy.exists():
        return f"{number} had no copy."
    return f"{number}: your copy is in before/{set_aside(copy).name} now."


def last_worked_in(workspace: Path) -> Path | None:
    """The copy that was saved last, of those in which a cell was run."""
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
        OSError: there is no such file.
        ValueError: it is no notebook.
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
    """A notebook as a file; escapes say what UTF-8 cannot, such as half a character."""
    return (json.dumps(notebook, indent=1) + "\n").encode()


def fresh(lesson: Notebook, name: str) -> Notebook:
    """A copy of a lesson as nobody has run it, with what it was made from."""
    cells = [_without_outputs(cell) for cell in lesson["cells"]]
    return lesson | {"cells": cells, "metadata": lesson["metadata"] | {KEY: origin(lesson, name)}}


def origin(lesson: Notebook, name: str) -> dict[str, Any]:
    """What a copy was made from: the lesson's file, and its cells' ids and digests in order."""
    return {"lesson": name, "cells": [[cell.get("id"), digest(cell)] for cell in lesson["cells"]]}


def digest(cell: Cell) -> str:
    """A hash of a cell's kind and text, however its lines end."""
    return sha256(json.dumps([cell["cell_type"], _text(cell)]).encode()).hexdigest()[:16]


def _text(cell: Cell) -> str:
    return "\n".join("".join(cell["source"]).splitlines())


def _without_outputs(cell: Cell) -> Cell:
    return cell | ({"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {})
