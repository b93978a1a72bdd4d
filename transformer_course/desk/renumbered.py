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
    followed, known = [], {_id(id): said for id, said in base.items()}
    for cell in cells:
        old = str(cell.get("id", ""))
        cell, number = cell | {"id": _id(old)}, _number(old)
        if number and base.get(old) != digest(cell):
            cell["source"] = _named(text(cell), number)
        if number and number not in NOW:
            kept = [tag for tag in tags(cell) if not tag.endswith(f":14.{number}")]
            cell["metadata"] = cell["metadata"] | {"tags": kept}
        followed.append(cell)
    return followed, known


def follow_answers(folder: Path) -> None:
    """Give each kept answer the number of today, if it has one; all of before lie in `before`.

    Raises:
        OSError: a file cannot be moved or written.
    """
    kept = {}
    for path in sorted(folder.glob("14.*.py")):
        number, said = int(path.stem.partition(".")[2]), path.read_text(encoding="utf-8")
        set_aside(path)
        if number in NOW:
            said = said.replace(f"# 14.{number} ", f"# 14.{NOW[number]} ", 1)
            kept[f"14.{NOW[number]}.py"] = _named(said, number)
    for name, said in kept.items():
        write(folder / name, said.encode())


def _number(id: str) -> int:
    found = ID.fullmatch(id)
    return int(found[2]) if found else 0


def _id(id: str) -> str:
    kind_of, number = ID.fullmatch(id), _number(id)
    if not kind_of:
        return id
    return f"{kind_of[1]}-14-{NOW[number]}{kind_of[3]}" if number in NOW else f"{id}-before"


def _named(said: str, number: int) -> str:
    """An answer's name ends with its exhibit's number."""
    return re.sub(rf"\b(keeps|bug)_{number:02}\b", rf"\1_{NOW.get(number, number):02}", said)
