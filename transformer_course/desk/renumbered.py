"""The museum's exhibits were numbered anew once. What a learner wrote for one goes where it stands now."""

import re
from pathlib import Path

from transformer_course.desk.folder import set_aside, write
from transformer_course.desk.merging import Cell, digest, tags, text

LAST = "exercise-14-46"  # a cell that only the older lesson has
# The old number of each exhibit that is still asked for. A line-up asks for something else now.
NOW = {33: 1, 38: 2, 43: 3, 32: 4, 34: 5, 42: 6, 8: 9, 10: 10, 11: 11, 12: 12, 36: 13, 35: 14, 30: 15}
NOW |= {16: 16, 17: 17, 40: 18, 41: 19}
ID = re.compile(r"(exercise|check|help)-14-(\d+)(.*)")


def followed(cells: list[Cell], base: dict[str, str]) -> tuple[list[Cell], dict[str, str]]:
    """Return a copy's cells, and what it was made from, with the ids of today's exhibits.

    What has no place in today's lesson gets an id of its own, so that it stays the learner's.
    """
    return [_followed(cell, base) for cell in cells], {_id(id): said for id, said in base.items()}


def _followed(cell: Cell, base: dict[str, str]) -> Cell:
    id = str(cell.get("id", ""))
    found = ID.fullmatch(id)
    if not found:
        return cell
    number = int(found[2])
    if number not in NOW:
        kept = [tag for tag in tags(cell) if not tag.endswith(f":14.{number}")]
        return cell | {"id": _id(id), "metadata": cell["metadata"] | {"tags": kept}}
    is_edited = base.get(id) != digest(cell)
    return cell | {"id": _id(id)} | ({"source": _named(text(cell), number)} if is_edited else {})


def follow_answers(folder: Path) -> None:
    """Give each kept answer the number of today, if it has one; all of before lie in `before`.

    Raises:
        OSError: a file cannot be moved or written.
    """
    old = {number: folder / f"14.{number}.py" for number in range(1, 47)}
    said = {number: path.read_bytes() for number, path in old.items() if path.exists()}
    for number in said:
        set_aside(old[number])
    for number in said.keys() & NOW.keys():
        content = (
            said[number].decode("utf-8", "replace").replace(f"# 14.{number} ", f"# 14.{NOW[number]} ", 1)
        )
        write(folder / f"14.{NOW[number]}.py", _named(content, number).encode())


def _id(id: str) -> str:
    found = ID.fullmatch(id)
    if not found:
        return id
    kind, number, rest = found[1], int(found[2]), found[3]
    return f"{kind}-14-{NOW[number]}{rest}" if number in NOW else f"{id}-before"


def _named(said: str, number: int) -> str:
    """An answer's name ends with its exhibit's number."""
    return re.sub(rf"\b(keeps|bug)_{number:02}\b", rf"\1_{NOW[number]:02}", said)
