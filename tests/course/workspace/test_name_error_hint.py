"""A cell that is run before those that it needs says so, and no other error is touched."""

import json
from pathlib import Path

import pytest

from transformer_course.workspace.name_error_hint import defining_line, watch

CELLS = [
    "import math\nfrom torch import nn",
    "%%time\nx = 1",  # no Python
    "first, second = 1, 2",
    "def attend(query): ...",
]


def test_the_line_that_gives_a_name():
    lines = {"second": CELLS[2], "attend": CELLS[3], "query": ""}
    assert {name: defining_line(name, CELLS) for name in lines} == lines


@pytest.fixture
def error_of(shell, tmp_path, monkeypatch, capsys):
    """What a cell raises, and what is said with it."""
    cells = [{"cell_type": "code", "source": [cell]} for cell in CELLS]
    (tmp_path / "03.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JPY_SESSION_NAME", "somewhere/03.ipynb")
    watch(shell)

    def run(cell):
        error = shell.run_cell(cell).error_in_exec
        said = capsys.readouterr().out
        assert type(error).__name__ in said
        return type(error), said

    return run


def test_a_name_of_another_cell_is_told_beside_the_error(error_of):
    error, said = error_of("def f():\n    return nn\nf()")
    assert error is NameError
    assert "`nn` comes from another cell of this lesson, the one with `from torch import nn`." in said


@pytest.mark.parametrize("cell", ["atend(1)", "def f():\n    nn += 1\nf()"])
def test_other_errors_are_as_they_were(error_of, cell):
    assert "comes from another cell" not in error_of(cell)[1]


@pytest.mark.parametrize("text", [None, "{", '{"cells": [{}]}'])
def test_without_a_file_that_can_be_read_there_is_the_error_alone(error_of, text):
    Path("03.ipynb").unlink()
    if text is not None:
        Path("03.ipynb").write_text(text)
    error, said = error_of("nn")
    assert error is NameError and "comes from another cell" not in said
