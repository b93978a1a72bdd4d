"""A cell that is run before those that it needs says so, and no other error is touched."""

import json
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from transformer_course.workspace.name_error_hint import defining_line, watch

CELLS = [
    "import math\nfrom torch import nn",
    "%%time\nx = 1",  # no Python
    "first, second = 1, 2",
    "def attend(query): ...",
]


def test_the_line_that_gives_a_name() -> None:
    assert defining_line("second", CELLS) == "first, second = 1, 2"
    assert defining_line("attend", CELLS) == "def attend(query): ..."
    assert defining_line("query", CELLS) == ""


@pytest.fixture
def shell(shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InteractiveShell:
    cells = [{"cell_type": "code", "source": [cell]} for cell in CELLS]
    (tmp_path / "03.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JPY_SESSION_NAME", "somewhere/03.ipynb")
    watch(shell)
    return shell


def test_a_name_of_another_cell_is_told_beside_the_error(
    shell: InteractiveShell, capsys: pytest.CaptureFixture
) -> None:
    result = shell.run_cell("def f():\n    return nn\nf()")
    out = capsys.readouterr().out
    assert "`nn` comes from another cell of this lesson, the one with `from torch import nn`." in out
    assert "NameError" in out
    assert isinstance(result.error_in_exec, NameError)


@pytest.mark.parametrize("cell", ["atend(1)", "def f():\n    nn += 1\nf()"])
def test_other_errors_are_as_they_were(
    shell: InteractiveShell, cell: str, capsys: pytest.CaptureFixture
) -> None:
    result = shell.run_cell(cell)
    assert "comes from another cell" not in capsys.readouterr().out
    assert result.error_in_exec is not None


@pytest.mark.parametrize("text", [None, "{", '{"cells": [{}]}'])
def test_without_a_file_that_can_be_read_there_is_the_error_alone(
    shell: InteractiveShell, text: str | None, capsys: pytest.CaptureFixture
) -> None:
    Path("03.ipynb").unlink()
    if text is not None:
        Path("03.ipynb").write_text(text)
    assert isinstance(shell.run_cell("nn").error_in_exec, NameError)
    out = capsys.readouterr().out
    assert "comes from another cell" not in out and "NameError" in out
