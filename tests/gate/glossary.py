"""Check the glossary of lesson 00 against the new terms that each lesson lists."""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tests.gate.notebook_io import NOTEBOOKS, Lesson


class Entry(NamedTuple):
    """One or several terms, explained together, and the numbers of the lessons that explain them."""

    head: str
    names: list[str]
    lessons: list[str]


def words_of(lesson: Lesson) -> dict[str, str]:
    """Return the lesson's prose, by cell id."""
    return {cell.id: cell.source for cell in lesson.notebook.cells if cell.cell_type == "markdown"}


@cache
def entries() -> list[Entry]:
    """Return all entries, in order.

    Raises:
        ValueError: an entry does not have the form **Term.** One sentence. (03)
    """
    text = words_of(Lesson.load(NOTEBOOKS / "00_start_here.ipynb"))["glossary"]
    found = re.findall(r"^\*\*(.+?)\.\*\* .+ \((\d\d(?:, \d\d)*)\)$", text, flags=re.MULTILINE)
    if len(found) != text.count("\n\n**"):
        raise ValueError("an entry of the glossary is not of the form **Term.** One sentence. (03)")
    # "Post-norm, pre-norm" explains two terms.
    return [Entry(head, [*map(plain, head.split(", "))], numbers.split(", ")) for head, numbers in found]


def plain(term: str) -> str:
    """Return a term in its normal form: in lower case, without parentheses."""
    return re.sub(r"\s*\(.*?\)", "", term).strip().lower()


def new_terms(lesson: Lesson) -> list[str]:
    """Return the terms that the lesson lists as new."""
    prose = "\n".join(words_of(lesson).values())
    line = re.search(r"^\*\*New terms:\*\* (.+?)\.(?: |$)", prose, re.MULTILINE)
    return [plain(term) for term in line.group(1).split(", ")] if line else []


def complaints(lesson: Lesson) -> Iterator[str]:
    """Yield what is missing for a lesson's terms."""
    number, terms = lesson.path.name[:2], new_terms(lesson)
    if number == "00":
        return
    if not terms:
        yield "the summary must have the line **New terms:** …"
    explained = {name: entry.lessons for entry in entries() for name in entry.names}
    missing = [term for term in terms if number not in explained.get(term, [])]
    if missing:
        yield f"enter in lesson 00's glossary, with ({number}): {', '.join(missing)}"
