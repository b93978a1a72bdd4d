"""The glossary of lesson 00: every new term of every lesson is in it, in order, under its lesson."""

import json
import re
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def words_of(path):
    """Return the lesson's prose."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {cell["id"]: "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"}


def entries():
    """Return (head, explanation, lessons) of each entry."""
    text = words_of(NOTEBOOKS[0])["glossary"]
    found = re.findall(r"^\*\*(.+?)\.\*\* (.+) \((\d\d(?:, \d\d)*)\)$", text, flags=re.MULTILINE)
    assert len(found) == text.count("\n\n**"), "an entry is not of the form **Term.** One sentence. (03)"
    return [(head, explanation, numbers.split(", ")) for head, explanation, numbers in found]


def names(head):
    """Return what an entry explains: "Post-norm, pre-norm" explains two terms."""
    return [plain(name) for name in head.split(", ")]


def plain(term):
    return re.sub(r"\s*\(.*?\)", "", term).strip().lower()


def new_terms(path):
    """Return the terms that the lesson says are new."""
    line = re.search(r"^\*\*New terms:\*\* (.+?)\.(?: |$)", "\n".join(words_of(path).values()), re.MULTILINE)
    return [plain(term) for term in line.group(1).split(", ")] if line else []


LESSONS = [path for path in NOTEBOOKS if new_terms(path)]


def test_every_lesson_but_the_first_names_its_terms():
    without = [path.name for path in NOTEBOOKS[1:] if path not in LESSONS]
    assert not without, f"add the line **New terms:** … to the summary of {', '.join(without)}"


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_new_term_is_in_the_glossary_with_its_lesson(path):
    explained = {name: numbers for head, _, numbers in entries() for name in names(head)}
    missing = [term for term in new_terms(path) if path.name[:2] not in explained.get(term, [])]
    assert not missing, f"enter in lesson 00's glossary, with ({path.name[:2]}): {', '.join(missing)}"


def test_the_glossary_is_in_alphabetical_order_and_explains_nothing_twice():
    heads = [re.sub(r"[^a-z0-9]", "", head.lower()) for head, *_ in entries()]
    assert heads == sorted(heads)
    every = [name for head, *_ in entries() for name in names(head)]
    assert len(every) == len(set(every))


def test_the_lessons_that_an_entry_names_use_its_term():
    prose = {path.name[:2]: "\n".join(words_of(path).values()).lower() for path in NOTEBOOKS}
    for head, _, numbers in entries():
        for number in numbers:
            assert any(re.sub(r"s$", "", name) in prose[number] for name in names(head)), (head, number)
