"""When the gate's tests of itself are run, and when not."""

import subprocess
from pathlib import Path

import pytest

from tests.gate import itself


def test_they_run_where_the_gate_has_changed_where_git_does_not_know_and_where_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("CI", "GATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(itself, "ROOT", tmp_path)
    assert itself.is_to_be_tried()
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    assert not itself.is_to_be_tried()
    (tmp_path / "Makefile").touch()
    assert itself.is_to_be_tried()
    (tmp_path / "Makefile").unlink()
    for name in ("CI", "GATE"):
        with monkeypatch.context() as patch:
            patch.setenv(name, "1")
            assert itself.is_to_be_tried()
