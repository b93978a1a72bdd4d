"""A newer lesson and a learner's copy of the older one become one: cell by cell, by their ids.

What the learner has changed or added stays; everything else is new. Where both have changed a cell, the
learner's stays and a note above it holds the course's.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain, count
from typing import Any

Cell = dict[str, Any]
TAG = "newer"  # of the notes


def text(cell: Cell) -> str:
    """A cell's text, however its lines end and whether it is stored in lines or in one piece."""
    return "".join(cell.get("source", "")).replace("\r\n", "\n").rstrip()


def tags(cell: Cell) -> list[str]:
    """A cell's tags."""
    return cell.get("metadata", {}).get("tags", [])


def exercise_of(cell: Cell) -> str:
    """The exercise whose answer a cell holds; empty if none."""
    return next((tag.partition(":")[2] for tag in tags(cell) if tag.startswith("exercise:")), "")


def digest(cell: Cell) -> str:
    """What a cell says, in a few letters."""
    return sha256(f"{cell.get('cell_type')}\n{text(cell)}".encode(errors="replace")).hexdigest()[:16]


def without_outputs(cell: Cell) -> Cell:
    """A cell as it comes onto the desk: nobody has run it."""
    bare = {name: value for name, value in cell.items() if name in ("cell_type", "id", "source")}
    bare["metadata"] = {"tags": tags(cell)} if tags(cell) else {}
    return bare | ({"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {})


@dataclass
class Merge:
    """The cells of the copy, and what became of which."""

    cells: list[Cell] = field(default_factory=list)
    new: int = 0  # cells that the course has brought or changed
    answers: list[str] = field(default_factory=list)  # exercises whose answers were kept
    changed: int = 0  # other cells that the learner has changed
    own: int = 0  # cells that the learner has added
    notes: int = 0  # on cells that both have changed


def merge(mine: list[Cell], base: dict[str, str], shipped: list[Cell]) -> Merge:
    """Merge a learner's cells with the lesson as it is shipped now.

    Args:
        mine: the cells of the copy.
        base: of each cell of the lesson that the copy was made from, by id, the digest; empty if unknown.
        shipped: the lesson's cells, each with an id.
    """
    placed, following = _parted(_named(mine, base, shipped), base, {cell["id"] for cell in shipped})
    found = Merge(list(following.pop("", [])))
    texts = {cell["id"]: digest(cell) for cell in shipped}
    for cell in shipped:
        was, own = base.get(cell["id"]), placed.get(cell["id"])
        if own is None:
            if was != texts[cell["id"]]:  # else the learner has taken it away
                found.cells.append(without_outputs(cell))
                found.new += 1
        else:
            _put(found, cell, own, was, _task_has_changed(own, base, texts))
        found.cells += following.pop(cell["id"], [])
    known = texts.keys()
    found.own = sum(cell.get("id") not in known and TAG not in tags(cell) for cell in found.cells)
    _name_apart(found.cells, texts.keys())
    return found


def _named(mine: list[Cell], base: dict[str, str], shipped: list[Cell]) -> list[Cell]:
    """Some programs give every cell another id, or none: then its text or its tag tells which it is."""
    taken = {cell.get("id") for cell in mine}
    missing = [cell for cell in shipped if cell["id"] not in taken]
    by_text = {digest(cell): cell["id"] for cell in missing}
    by_exercise = {exercise_of(cell): cell["id"] for cell in missing if exercise_of(cell)}
    named, known = [], base.keys() | {cell["id"] for cell in shipped}
    for cell in mine:
        if cell.get("id") not in known:
            id = by_exercise.pop(exercise_of(cell), None) or by_text.pop(digest(cell), None)
            cell = cell | {"id": id} if id else cell
        named.append(cell)
    return named


def _parted(
    mine: list[Cell], base: dict[str, str], ids: set[str]
) -> tuple[dict[str, Cell], dict[str, list[Cell]]]:
    """The lesson's cells by id; and the learner's own, by the id of the lesson's cell that they follow."""
    # Of several cells with one id, the one that nobody has changed is the lesson's.
    places: dict[str, int] = {}
    for place, cell in enumerate(mine):
        id = cell.get("id", "")
        if id in ids and (id not in places or digest(cell) == base.get(id)):
            places[id] = place
    following: dict[str, list[Cell]] = {}
    last = ""
    for place, cell in enumerate(mine):
        id = cell.get("id", "")
        if places.get(id) == place:
            last = id
        elif id in ids:
            following.setdefault(last, []).append(cell | {"id": ""})
        elif base.get(id) != digest(cell):  # else the course has taken it away
            following.setdefault(last, []).append(cell)
    placed = {id: mine[place] for id, place in places.items()}
    return placed, following


def _task_has_changed(mine: Cell, base: dict[str, str], texts: dict[str, str]) -> bool:
    task = f"exercise-{exercise_of(mine).replace('.', '-')}-task"
    return task in base and task in texts and base[task] != texts[task]


def _put(found: Merge, cell: Cell, mine: Cell, was: str | None, task_changed: bool) -> None:
    """Put the course's cell or the learner's, with a note above it where both have changed."""
    now, number = digest(cell), exercise_of(cell)
    if digest(mine) == now:
        found.cells.append(_with_tags(mine, cell))
    elif digest(mine) == was:
        found.cells.append(without_outputs(cell))
        found.new += 1
    else:
        if was not in (None, now) or task_changed or (was is None and not number):
            found.cells.append(_note(cell, mine, task_changed and was in (None, now)))
            found.notes += 1
        found.cells.append(_with_tags(mine, cell))
        if number:
            found.answers.append(number)
        else:
            found.changed += 1


def _with_tags(mine: Cell, cell: Cell) -> Cell:
    """The learner's cell, run or not, under the id and the tags that the lesson needs."""
    metadata = {**mine.get("metadata", {}), **({"tags": tags(cell)} if tags(cell) else {})}
    return mine | {"id": cell["id"], "metadata": metadata}


def _note(cell: Cell, mine: Cell, task_only: bool) -> Cell:
    number = exercise_of(cell)
    if task_only:
        words = f"**Newer in the course.** The task of {number} has changed since you wrote the answer below."
    else:
        language = "python" if cell["cell_type"] == "code" else "markdown"
        words = (
            f"**Newer in the course.** You have changed the cell below, and so has the course. Yours stays; "
            f"this is the course's:\n\n````{language}\n{text(cell)}\n````"
        )
    words += "\n\nDelete this note when you need it no more."
    return {
        "cell_type": "markdown",
        "id": f"{cell['id']}-{TAG}",
        "metadata": {"tags": [TAG]},
        "source": words,
    }


def _name_apart(cells: list[Cell], lesson: Iterable[str]) -> None:
    """Give each cell that is not the lesson's an id that no other has."""
    lesson = set(lesson)
    taken = set(lesson)
    for place, cell in enumerate(cells):
        if cell.get("id") not in lesson:
            name = cell.get("id") or "mine"
            free = (f"{name}-{number}" for number in count(2))
            unique = next(each for each in chain([name], free) if each not in taken)
            taken.add(unique)
            cells[place] = cell | {"id": unique}
