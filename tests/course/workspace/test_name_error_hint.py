"""A cell that is run before those that it needs says so, and no other error is touched."""

import json
from pathlib import Path

import pytest

from transformer_course.workspace.name_error_hint import defining_line, watch

CELLS = [
    "import math\nfrom torch import nn as layers",
    "%%time\nx = 1",  # no Python
    "first, second = 1, 2",
    "def attend(query): ...",
]
HINT = "is defined in another cell of this lesson"


def test_the_line_that_gives_a_name():
    lines = {"second": CELLS[2], "attend": CELLS[3], "query": ""}
    assert {name: defining_line(name, CELLS) for name in lines} == lines


@pytest.fixture
def watched(notebook, tmp_path, monkeypatch):
    cells = [{"cell_type": "code", "source": [cell]} for cell in CELLS]
    (tmp_path / "03.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JPY_SESSION_NAME", "somewhere/03.ipynb")
    watch(notebook.shell)
    return notebook


def test_a_name_of_another_cell_is_told_beside_the_error(watched):
    said = watched.run("def f():\n    return layers\nf()", fails=True)
    assert f"`layers` {HINT}: `from torch import nn as layers`." in said and "NameError" in said


@pytest.mark.parametrize("cell", ["atend(1)", "def f():\n    layers += 1\nf()"])
def test_other_errors_are_as_they_were(watched, cell):
    said = watched.run(cell, fails=True)
    assert HINT not in said and "Error" in said


@pytest.mark.parametrize("text", [None, "{", '{"cells": [{}]}'])
def test_without_a_file_that_can_be_read_there_is_the_error_alone(watched, text):
    Path("03.ipynb").unlink()
    if text is not None:
        Path("03.ipynb").write_text(text)
    said = watched.run("layers", fails=True)
    assert HINT not in said and "NameError" in said
