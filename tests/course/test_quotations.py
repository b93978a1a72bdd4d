"""What a lesson says that somebody else's text says stands in quotations.toml, with place and numbers."""

import re
import tomllib
from pathlib import Path

import nbformat
import pytest

from tests.gate.notebook_io import NOTEBOOKS

ROOT = Path(__file__).parents[2]
LIST = tomllib.loads(Path(__file__).with_name("quotations.toml").read_text(encoding="utf-8"))
LESSONS = sorted(NOTEBOOKS.glob("*.ipynb"))
MODULES = sorted((ROOT / "transformer_lab").rglob("*.py"))

# A sentence that puts words into somebody's mouth …
SOMEBODY = r"(\b(papers?|authors?|tutorials?|technical report|model card)\b|arXiv:[\d.]+)"
SAYING = (
    r"\b(says?|said|writes?|wrote|prints?|printed|gives?|gave|states?|finds?|found|shows?|measures?|measured"
    r"|chose|chooses|calls?|proves?|derives?|explains?|offers?|argues?)\b"
)
QUOTES = re.compile(
    rf"\b(publish(es|ed)?|reported|quoted|claims|claimed)\b|{SOMEBODY}[^.;:,]{{0,60}}?{SAYING}", re.IGNORECASE
)
# … or names a numbered place in a text.
PLACE = re.compile(
    r"\b(sections?|equations?|eq\.|eqs\.|tables?|figures?|footnotes?|theorems?|appendix)\s+"
    r"(\d+(?:\.\d+)*|[A-Z](?:\.\d+)+)(?:\s*(?:to|and|–|,)\s*(\d{1,2}(?:\.\d+)*)(?!\d))?",
    re.IGNORECASE,
)
NUMBER = re.compile(r"(?<![\w.])[+−-]?\d*[.,]?\d+(?:,\d{3})*(?:\.\d+)?")
KINDS = {"eq": "equation", "eqs": "equation"}


def sentences(text):
    """The sentences of a markdown text, without headings; none goes on across a line, and code is none."""
    text = re.sub(r"```.*?```|^#.*$", "", text, flags=re.DOTALL | re.MULTILINE)
    for line in text.splitlines():
        yield from re.split(r"(?<=[.!?])[)\"*]*\s+(?=[A-Z*`(\[\"“])", line)


def words(sentence):
    """The sentence without code, and without the addresses of its links."""
    return re.sub(r"`[^`]*`|\]\([^)]*\)", " ", sentence)


def paragraphs(path):
    """The markdown of one lesson, by cell."""
    notebook = nbformat.read(path, as_version=4)
    return {cell.id: cell.source for cell in notebook.cells if cell.cell_type == "markdown"}


def numbers(sentence):
    """The numbers that somebody might have printed: those of links, code, years and places are none."""
    bare = re.sub(r"arXiv:\S+|\$[^$]*\$|\b\d{4}\b,? |\blessons? \d+", " ", PLACE.sub(" ", words(sentence)))
    return {number.lstrip("+−-") for number in NUMBER.findall(bare) if len(number.strip("+−-.,")) > 1}


def entry_for(sentence):
    """The quotations whose words stand in the sentence."""
    return [entry for entry in LIST["quotation"] if entry["words"] in sentence]


def unsupported(sentence):
    """What is wrong with a sentence: it quotes without an entry, or a number that no entry has."""
    if not QUOTES.search(words(sentence)):
        return None
    entries = entry_for(sentence)
    if not entries:
        return "no entry"
    said = " ".join(entry["says"] + " " + entry["place"] for entry in entries)
    missing = {number for number in numbers(sentence) if number not in said}
    return f"not in the entry: {', '.join(sorted(missing))}" if missing else None


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_whoever_is_quoted_said_so(path):
    found = [
        f"{cell}: {complaint}: {sentence}"
        for cell, text in paragraphs(path).items()
        for sentence in sentences(text)
        if (complaint := unsupported(sentence))
    ]
    assert not found, "\n".join(
        ["quoted without a place in tests/course/quotations.toml, or with other numbers:", *found]
    )


def places(text):
    """(kind, number) of each numbered place that a text names: Eq. 4 is ("equation", "4")."""
    for kind, first, last in PLACE.findall(text):
        kind = kind.lower().rstrip(".")
        kind = KINDS.get(kind, kind.removesuffix("s"))
        yield from ((kind, number) for number in (first, last) if number)


KNOWN = {
    (reference["paper"], *place) for reference in LIST["reference"] for place in places(reference["place"])
}


def texts(path):
    """A lesson's paragraphs, or a module's docstrings and other long strings."""
    if path.suffix == ".ipynb":
        return list(paragraphs(path).values())
    return path.read_text(encoding="utf-8").split('"""')[1::2]


def papers(path):
    """The papers that a module, its exercises or its lesson cite, and the one that is always "the paper"."""
    name = re.sub(r"^\d\d_", "", path.stem)
    around = [other for other in (*LESSONS, *MODULES) if re.sub(r"^\d\d_", "", other.stem) == name]
    return {"1706.03762"}.union(*(re.findall(r"\d{4}\.\d{5}", "".join(texts(other))) for other in around))


@pytest.mark.parametrize("path", [*LESSONS, *MODULES], ids=lambda path: path.stem)
def test_a_numbered_place_is_one_that_was_looked_up(path):
    unknown = [
        f"{kind} {number}: {text[:80]!r}"
        for text in texts(path)
        for kind, number in places(text)
        if not any((paper, kind, number) in KNOWN for paper in papers(path))
    ]
    assert not unknown, "\n".join(["looked up nowhere, so leave the number out:", *unknown])


def test_every_entry_is_used_and_complete():
    lessons = "\n".join(text for path in LESSONS for text in paragraphs(path).values())
    unused = [entry["words"] for entry in LIST["quotation"] if entry["words"] not in lessons]
    assert not unused, "no lesson has these words any more:\n" + "\n".join(unused)
    for entry in LIST["quotation"]:
        assert all(entry.get(part) for part in ("source", "place", "says")), entry
    for entry in LIST["reference"]:
        assert entry["title"], entry


@pytest.mark.parametrize(
    "sentence",
    [
        "It is published that padding moves tokens by 7.7%.",
        "[The paper](https://arxiv.org/abs/1706.03762) measured 26.1 points.",
    ],
)
def test_a_sentence_that_quotes_without_an_entry_is_found(sentence):
    assert unsupported(sentence) == "no entry"


def test_another_number_than_the_one_that_is_printed_is_found():
    entry = LIST["quotation"][0]
    assert unsupported(f"The tutorial prints this: {entry['words']}, and 98,765,432 of them.") is not None
