"""`make test` says where shipped lessons were worked in, and takes such work to the desk."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.gate.notebook_io import NOTEBOOKS
from tools import worked_in
from transformer_course.workspace import atomic_files, copies

FIRST, ANSWER = "00_start_here.ipynb", "d_head = 384 // 12"
GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c")


@pytest.fixture
def lesson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one lesson of a repository, in which exercise 00.1 was answered."""
    lesson = tmp_path / "clone" / "notebooks" / FIRST
    lesson.parent.mkdir(parents=True)
    lesson.write_bytes((NOTEBOOKS / FIRST).read_bytes())
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*GIT, *command], cwd=lesson.parent, check=True)
    notebook = json.loads(lesson.read_bytes())
    answered(notebook)["source"] = ANSWER
    lesson.write_text(json.dumps(notebook), encoding="utf-8")
    monkeypatch.setattr(worked_in, "NOTEBOOKS", lesson.parent)
    monkeypatch.setattr(atomic_files, "DESK", tmp_path / "my_lessons")
    return lesson


def answered(notebook: dict) -> dict:
    return next(cell for cell in notebook["cells"] if cell["id"] == "exercise-00-1")


def test_work_in_a_shipped_lesson_is_named_and_taken_to_the_desk_where_an_earlier_copy_is_set_aside(
    lesson: Path, capsys: pytest.CaptureFixture
) -> None:
    assert worked_in.main([]) == 1
    assert f"{FIRST} in notebooks/ was worked in: 00.1." in capsys.readouterr().err
    atomic_files.DESK.mkdir()
    (atomic_files.DESK / FIRST).write_text("my earlier work")
    assert worked_in.main(["--take"]) == 0
    assert "The copy that was there lies in before/00_start_here (1).ipynb" in capsys.readouterr().out
    assert (atomic_files.DESK / "before" / "00_start_here (1).ipynb").read_text() == "my earlier work"
    assert lesson.read_bytes() == (NOTEBOOKS / FIRST).read_bytes()
    assert answered(json.loads((atomic_files.DESK / FIRST).read_bytes()))["source"] == ANSWER
    assert list(copies.update(lesson.parent, atomic_files.DESK)) == []  # it is known from which version it is
    assert worked_in.main([]) == 0


def test_without_git_nothing_is_touched(lesson: Path) -> None:
    before = lesson.read_bytes()
    for command in (["rm", "-q", "--cached", FIRST], ["commit", "-qm", "two"]):
        subprocess.run([*GIT, *command], cwd=lesson.parent, check=True)
    with pytest.raises(subprocess.CalledProcessError):
        worked_in.take(lesson)
    assert lesson.read_bytes() == before
    assert not atomic_files.DESK.exists()


@pytest.mark.parametrize("text", ["{", "{}"])
def test_a_lesson_that_cannot_be_read_is_left_to_its_own_test(text: str, tmp_path: Path) -> None:
    path = tmp_path / FIRST
    path.write_text(text)
    assert worked_in.answers_in(path) == []
