"""What is looked up is all there, and taken from where it is declared."""

import doctest
import re
from pathlib import Path

import pytest

from pages import lookup, start, texts
from transformer_course.lessons import LESSONS, ROOT

PACKAGE = ROOT / "transformer_lab"


def test_every_term_of_lesson_00_is_in_the_glossary_with_its_lessons() -> None:
    page = lookup.glossary()
    terms = re.findall(r"^\*\*(.+?)\.\*\*", lookup._cell("glossary"), re.MULTILINE)
    assert len(terms) > 100
    assert all(f"\n{term}\n: " in page for term in terms)
    assert "([00](lessons/00_start_here.ipynb), [04](lessons/04_masking.ipynb))" in page  # Broadcast


ABBREVIATIONS = "RoPE MHA FFN LN SDPA GQA MLP CLS BERT PE QKV MLM MQA"


@pytest.mark.parametrize("short", [*ABBREVIATIONS.split(), "residual stream"])
def test_an_abbreviation_is_in_the_entry_of_its_term(short: str) -> None:
    entries = lookup.glossary().split("\n\n")
    assert any(re.search(rf"\b{short}\b", entry, re.IGNORECASE) for entry in entries[3:])


def test_a_term_without_a_lesson_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_cell", lambda _: "**Key.** What answers. (03)\n\n**Query.** What asks.")
    with pytest.raises(ValueError, match=r"^1 terms .* `\*\*Term\.\*\* text \(03\)`$"):
        lookup.glossary()


def test_every_module_but_the_lessons_own_machinery_has_a_reference() -> None:
    pages = lookup.reference()
    encoder = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    around = {
        f"{folder}.{path.stem}"
        for folder in ("training", "diagnostics")
        for path in (PACKAGE / folder).glob("*.py")
        if path.stem not in ("__init__", "__main__", "digits")  # digits is a file that describes a training
    }
    expected = encoder | around | {"diagnostics.divergence.search"}
    assert set(pages) == {f"reference/{name}.md" for name in expected | {"index"}}
    assert ".. automodule:: transformer_lab.masking\n" in pages["reference/masking.md"]
    assert "(../lessons/04_masking.ipynb)" in pages["reference/masking.md"]


def test_the_start_page_leads_to_every_lesson_and_says_how_long_they_take() -> None:
    page = start.index()
    assert all(f"(lessons/{number:02}_{lesson.name}.ipynb)" in page for number, lesson in enumerate(LESSONS))
    assert f"About {round(sum(map(start.minutes, range(len(LESSONS)))) / 60)} hours" in page


def test_how_to_run_is_what_the_readme_says(tmp_path: Path) -> None:
    course = tmp_path / "course.zip"
    course.write_bytes(bytes(3_400_000))
    page = start.how_to_run(course)
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "transformer-lab.zip</a> (3 MB)" in page
    assert "make lab" in page and "make faults" not in page
    added = [line for line in page.splitlines() if line not in readme and not line.startswith("# ")]
    assert len(added) <= 3, added


@pytest.mark.parametrize(("name", "least"), [("diagnostics.md", 15), ("check_your_encoder.md", 8)])
def test_the_examples_of_a_page_run(name: str, least: int) -> None:
    page = texts.FOLDER / name
    result = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.ELLIPSIS, encoding="utf-8"
    )
    assert result.failed == 0
    assert result.attempted >= least
