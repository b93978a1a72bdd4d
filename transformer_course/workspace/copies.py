"""Copies of the lessons on the learner's desk: made, brought up to date, set aside.

A copy carries, in its own metadata, what the lesson was that it was made from. So it can be moved, mailed or
left alone for years, and is still merged rightly.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from transformer_course.workspace.atomic_files import keep_beside, set_aside, sweep, write
from transformer_course.workspace.merging import Merge, digest, merge, tags, text, without_outputs

Notebook = dict[str, Any]
KEY = "transformer_lab"  # in the copy's metadata


class NoNotebook(ValueError):
    """A file that is no notebook of this decade."""


def update(notebooks: Path, desk: Path) -> Iterator[str]:
    """Make the copies that are missing, bring the others up to date, and say what was done.

    A copy that cannot be read is set aside, one that cannot be written stays as it is.
    Neither stops the rest.
    """
    try:
        desk.mkdir(parents=True, exist_ok=True)
        sweep(desk)
    except OSError as error:
        yield f"{desk} cannot be written ({error.strerror})."
    told = defaultdict(list)
    for shipped in sorted(notebooks.glob("[0-9][0-9]_*.ipynb")):
        try:
            sentence = _update(shipped, desk / shipped.name)
        except OSError as error:
            sentence = f"could not be brought up to date ({error.strerror}). Your copy is as it was."
        except NoNotebook:
            sentence = "cannot be read as it is shipped. Get the course's file again; your copy is as it was."
        told[sentence].append(shipped.name[:2])
    told.pop("", None)
    yield from (f"{', '.join(numbers)} {sentence}" for sentence, numbers in told.items())


def _update(shipped: Path, copy: Path) -> str:
    """Bring one copy up to date; return what there is to say."""
    lesson = read(shipped)
    if not copy.exists():
        write(copy, as_bytes(fresh(lesson, shipped.name)))
        return "copied."
    data, times = copy.read_bytes(), (copy.stat().st_atime, copy.stat().st_mtime)
    try:
        mine = parsed(data)
    except NoNotebook:
        kept = set_aside(copy)
        write(copy, as_bytes(fresh(lesson, shipped.name)))
        return f"could not be read: it lies in {kept.parent.name}/{kept.name}, and a new copy in its place."
    made_from = mine["metadata"].get(KEY, {})
    if made_from.get("version") == version(lesson):
        return ""
    merged = merge(mine["cells"], made_from.get("cells", {}), lesson["cells"])
    mine["cells"], mine["metadata"][KEY] = merged.cells, origin(lesson, shipped.name)
    mine["nbformat"], mine["nbformat_minor"] = lesson["nbformat"], lesson["nbformat_minor"]
    keep_beside(copy, data)
    if copy.read_bytes() != data:
        return "is being saved by another program. It is brought up to date the next time."
    write(copy, as_bytes(mine))
    os.utime(copy, times)
    return in_words(merged)


def in_words(merged: Merge) -> str:
    """What a merge has done: `is newer: 4 cells new; 2 answers and 3 cells of your own kept.`"""
    kept = [
        _count(len(merged.answers), "answer"),
        _count(merged.changed, "changed cell"),
        _count(merged.own, "cell of your own", "cells of your own"),
    ]
    said = [f"{_count(merged.new, 'cell')} new"] if merged.new else []
    said += [f"{' and '.join(filter(None, kept))} kept"] if any(kept) else []
    said += [f"{_count(merged.notes, 'note')} above what both have changed"] if merged.notes else []
    return f"is newer: {'; '.join(said) or 'its order'}."


def _count(number: int, thing: str, things: str = "") -> str:
    return f"{number} {thing if number == 1 else things or thing + 's'}" if number else ""


def renew(number: str, notebooks: Path, desk: Path) -> str:
    """Set a lesson's copy aside, so that `update` makes a new one; return what there is to say.

    Raises:
        ValueError: there is no lesson of that number.
    """
    found = sorted(notebooks.glob(f"{number}_*.ipynb")) if number.isdigit() else []
    if not found:
        raise ValueError(f"there is no lesson {number!r}: give the number of a lesson, such as 03")
    copy = desk / found[0].name
    if not copy.exists():
        return f"{number} had no copy."
    kept = set_aside(copy)
    return f"{number}: your copy lies in {kept.parent.name}/{kept.name} now."


def last_worked_in(desk: Path) -> Path | None:
    """The copy that was saved last, of those in which something was run or written."""
    worked = [copy for copy in sorted(desk.glob("[0-9][0-9]_*.ipynb")) if _is_worked_in(copy)]
    return max(worked, key=lambda copy: copy.stat().st_mtime, default=None)


def _is_worked_in(copy: Path) -> bool:
    try:
        notebook = read(copy)
    except (OSError, NoNotebook):
        return False
    base = notebook["metadata"].get(KEY, {}).get("cells", {})
    return any(
        cell.get("outputs") or cell.get("execution_count") or base.get(cell.get("id")) != digest(cell)
        for cell in notebook["cells"]
    )


# Files


def read(path: Path) -> Notebook:
    """Read a notebook.

    Raises:
        NoNotebook, OSError
    """
    return parsed(path.read_bytes())


def parsed(data: bytes) -> Notebook:
    """The notebook in these bytes, its metadata and each cell's there, if empty."""
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
        cells = notebook["cells"]
        notebook["metadata"] = dict(notebook.get("metadata") or {})
        notebook["metadata"][KEY] = dict(notebook["metadata"].get(KEY) or {})
        for cell in cells:
            cell["metadata"] = dict(cell.get("metadata") or {})
            if not isinstance(cell.get("source", ""), str | list):
                raise TypeError(f"a cell's source is {cell['source']!r}")
            text(cell), tags(cell), cell["cell_type"].isalpha()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NoNotebook(str(error)) from error
    return notebook


def as_bytes(notebook: Notebook) -> bytes:
    """A notebook as Jupyter lays it out."""
    form = {"indent": 1, "sort_keys": True}
    try:
        return (json.dumps(notebook, ensure_ascii=False, **form) + "\n").encode()
    except UnicodeEncodeError:  # half of a character, which only JSON's escapes can say
        return (json.dumps(notebook, **form) + "\n").encode()


def fresh(lesson: Notebook, name: str) -> Notebook:
    """A copy of a lesson without outputs, and with what it was made from."""
    metadata = {name: value for name, value in lesson["metadata"].items() if name != KEY}
    cells = [without_outputs(cell) for cell in lesson["cells"]]
    return lesson | {"cells": cells, "metadata": metadata | {KEY: origin(lesson, name)}}


def origin(lesson: Notebook, name: str) -> dict[str, Any]:
    """What a copy was made from: the lesson's file and version, and of each cell by its id what it said."""
    cells = {cell["id"]: digest(cell) for cell in lesson["cells"]}
    return {"lesson": name, "version": version(lesson), "cells": cells}


def version(lesson: Notebook) -> str:
    """A few letters that change with any cell of a lesson, or with their order."""
    said = [(cell["id"], digest(cell), tags(cell)) for cell in lesson["cells"]]
    return sha256(repr(said).encode()).hexdigest()[:16]
