"""The glossary of lesson 00: every new term of every lesson is in it, in order, under its lesson."""

import re

import pytest

from tests.gate import glossary
from tests.gate.notebook_io import LESSONS, Lesson


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_new_term_is_in_the_glossary_with_its_lesson(path):
    assert list(glossary.complaints(Lesson.shipped(path))) == []


def test_a_term_that_nobody_explains_is_told(monkeypatch):
    lesson = Lesson.shipped(LESSONS[3])
    other = next(entry.names[0] for entry in glossary.entries() if "03" not in entry.lessons)
    monkeypatch.setattr(glossary, "new_terms", lambda lesson: ["softmax", other, "no such term"])
    told = f"enter in lesson 00's glossary, with (03): {other}, no such term"
    assert list(glossary.complaints(lesson)) == [told]
    monkeypatch.setattr(glossary, "new_terms", lambda lesson: [])
    assert list(glossary.complaints(lesson)) == ["the summary must have the line **New terms:** …"]


def test_the_glossary_is_in_alphabetical_order_and_explains_nothing_twice():
    heads = [re.sub(r"[^a-z0-9]", "", entry.head.lower()) for entry in glossary.entries()]
    assert heads == sorted(heads)
    every = [name for entry in glossary.entries() for name in entry.names]
    assert len(every) == len(set(every))


def test_the_lessons_that_an_entry_names_use_its_term():
    lessons = map(Lesson.shipped, LESSONS)
    prose = {each.path.name[:2]: "\n".join(glossary.words_of(each).values()).lower() for each in lessons}
    for entry in glossary.entries():
        for number in entry.lessons:
            assert any(re.sub(r"s$", "", name) in prose[number] for name in entry.names), (entry.head, number)
