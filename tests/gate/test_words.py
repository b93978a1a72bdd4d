"""The word list: no prose may contain a word that the style guide replaces."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from tests.gate.notebook_io import ROOT

LIST = tomllib.loads((Path(__file__).parent / "word_list.toml").read_text("utf-8"))
CODE = re.compile(r"```.*?```|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]*\$|\]\([^)]*\)", re.DOTALL)
FILES = sorted(path for pattern in LIST["files"] for path in ROOT.glob(pattern))


def prose(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each piece of prose with its location, without code, formulas and addresses."""
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, as_version=4).cells
        yield from ((cell.id, CODE.sub(" ", cell.source)) for cell in cells if cell.cell_type == "markdown")
    else:
        paragraphs = CODE.sub(" ", path.read_text("utf-8")).split("\n\n")
        yield from ((str(number), text) for number, text in enumerate(paragraphs))


def complaints(texts: Iterator[tuple[str, str]]) -> list[str]:
    """The complaints of the word list about these texts."""
    return [
        f"{place}: {match[0]!r}: write {word['instead']}"
        for place, text in texts
        for word in LIST["word"]
        for match in re.finditer(rf"(?<!\w)(?:{word['pattern']})(?!\w)", text)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_prose_keeps_to_the_word_list(path):
    assert complaints(prose(path)) == []


def test_a_word_of_the_list_is_found_in_prose_and_not_in_code():
    text = "It stands behind `beside`. It stands for ```shall``` a key it has not."
    told = complaints([("cell", CODE.sub(" ", text))])
    assert [line.split("'")[1] for line in told] == ["behind", "has not.", "stands"]
