"""The field guide: every mistake with the change that makes it, at an address of its own."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from pages import field_guide, links, symptoms
from pages.field_guide import Entry
from pages.themes import THEMES
from transformer_course.exercises import exercise_ids, find

DIFF = re.compile(r"^```diff\n(.*?)\n```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def known() -> list[Entry]:
    return field_guide.entries()


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return field_guide.pages()


def test_every_mistake_of_every_exercise_is_told_once(known: list[Entry], pages: dict[str, str]) -> None:
    names = [(id, mistake.name) for id in exercise_ids() for mistake in find(id).mistakes]
    assert [(entry.exercise.id, entry.name) for entry in known] == list(dict.fromkeys(names))
    headings = Counter(
        line for text in lesson_pages(pages) for line in text.splitlines() if line.endswith(")=")
    )
    assert all(headings[f"({entry.anchor})="] == 1 for entry in known)


def lesson_pages(pages: dict[str, str]) -> list[str]:
    return [text for path, text in pages.items() if re.search(r"/\d\d_", path)]


def test_changes_read_backwards_are_the_solution_and_forwards_the_mistake(pages: dict[str, str]) -> None:
    for id in exercise_ids():
        exercise = find(id)
        page = pages[f"{links.guide(int(id[:2]))}.md"]
        part = page.partition(f"({links.exercise(id)})=")[2].partition("\n(e-")[0]
        changes = [diff.split("\n") for diff in DIFF.findall(part)]
        before = [[line[1:] for line in diff if line[0] in " -"] for diff in changes]
        after = [[line[1:] for line in diff if line[0] in " +"] for diff in changes]
        assert before == [exercise.shown.splitlines()] * len(changes), id
        assert sorted(after) == sorted(mistake.text.splitlines() for mistake in exercise.mistakes), id


def test_what_is_searched_leads_to_each_mistake(known: list[Entry], pages: dict[str, str]) -> None:
    entries = json.loads(pages["_static/field_guide.json"])["entries"]
    searched = [entry for entry in entries if "exercise" in entry]
    assert len(searched) == len(known)
    for entry in searched:
        page, _, anchor = entry["page"].partition("#")
        assert f"({anchor})=" in pages[f"field_guide/{page.removesuffix('.html')}.md"]
        assert entry["effect"]


def test_every_symptom_is_told_with_its_mistakes(pages: dict[str, str]) -> None:
    of_symptoms = [text for path, text in pages.items() if path.startswith("field_guide/symptoms/")]
    assert len(of_symptoms) >= 80
    links = [link for text in of_symptoms for link in re.findall(r"\(\.\./(\w+)\.md#(m-[^)]+)\)", text)]
    assert len(links) > 250
    assert all(f"({anchor})=" in pages[f"field_guide/{lesson}.md"] for lesson, anchor in links)


@pytest.mark.parametrize(
    ("entry", "missing"),
    [('mistakes = [["03.2", "no skale"]]', "03.2 no skale"), ('mistakes = []\nask = "oracle"', "oracle")],
)
def test_a_symptom_of_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, missing: str
) -> None:
    file = tmp_path / "symptoms.toml"
    file.write_text(f'[[symptom]]\nsee = "Odd"\nwords = ""\n{entry}\n', "utf-8")
    monkeypatch.setattr(symptoms, "FILE", file)
    with pytest.raises(ValueError, match=f"'Odd' names {missing}, which there is not"):
        symptoms.read({("03.2", "no scale")})


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_a_theme_gathers_mistakes_of_several_lessons(
    theme, known: list[Entry], pages: dict[str, str]
) -> None:
    members = [entry for entry in known if theme.has(entry.name)]
    assert len({entry.lesson for entry in members}) >= 5
    page = pages[f"field_guide/{theme.name}.md"]
    assert all(f"#{entry.anchor})" in page for entry in members)
    assert page.count("\n## ") == len({entry.name for entry in members})


def test_names_that_differ_in_a_sign_become_anchors_that_differ() -> None:
    names = ["multiplied by 1 − p", "multiplied by 1 + p", "√d_model", "d_model"]
    assert len({links.mistake("03.2", name) for name in names}) == len(names)
