"""`make check` runs a copy beside the shipped lesson; `make test` says where shipped ones were worked in."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gate import worked_in
from tests.gate.stored import NOTEBOOKS, ROOT
from transformer_course.desk import copies, folder

FIRST = "00_start_here.ipynb"


def cells_of(path: Path) -> dict[str, dict]:
    return {cell["id"]: cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]}


def write(path: Path, changes: dict[str, str]) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        cell["source"] = changes.get(cell["id"], cell["source"])
    path.write_text(json.dumps(notebook), encoding="utf-8")


def checked(copy: Path) -> str:
    """What `make check` says of a copy."""
    strict = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        ROOT / "pyproject.toml",
        "--rootdir",
        ROOT,
        "-n",
        "0",
        copy,
    ]
    settings = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    run = subprocess.run(
        [*strict, "-p", "no:cacheprovider", "--color=no"],
        cwd=ROOT,
        env=settings | {"MY_LESSONS": str(copy.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout


@pytest.mark.gate_itself
def test_a_copy_is_run_beside_the_shipped_lesson(tmp_path: Path) -> None:
    copy = tmp_path / FIRST
    copy.write_bytes(copies.as_bytes(copies.fresh(copies.read(NOTEBOOKS / FIRST), FIRST)))
    own = {"cell_type": "code", "id": "own", "metadata": {}, "source": "print('mine')"}
    notebook = json.loads(copy.read_text(encoding="utf-8"))
    notebook["cells"].append(own | {"outputs": [], "execution_count": None})
    copy.write_text(json.dumps(notebook), encoding="utf-8")
    write(copy, {"exercise-00-1": "d_head = 384 // 12", "after-00-1": "print('twelve')"})
    said = checked(copy)
    assert "1 failed" in said and "::after-00-1" in said
    assert 'our cell:\nprint("12 heads of"' in said
    assert "-12 heads of 32 features make 384\n+twelve" in said
    assert [path.name for path in (tmp_path / "answers").iterdir()] == ["00.1.py"]


# --- shipped lessons that were worked in -----------------------------------------------------------------


def test_nobody_has_worked_in_what_is_shipped() -> None:
    assert {
        path.name: found for path in NOTEBOOKS.glob("*.ipynb") if (found := worked_in.answers_in(path))
    } == {}


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one lesson, in which exercise 00.1 was answered."""
    notebooks = tmp_path / "clone" / "notebooks"
    notebooks.mkdir(parents=True)
    lesson = notebooks / FIRST
    lesson.write_bytes((NOTEBOOKS / FIRST).read_bytes())
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], cwd=notebooks, check=True)
    write(lesson, {"exercise-00-1": "d_head = 384 // 12"})
    monkeypatch.setattr(worked_in, "NOTEBOOKS", notebooks)
    monkeypatch.setattr(folder, "DESK", tmp_path / "my_lessons")
    return lesson


def test_work_in_a_shipped_lesson_is_named(clone: Path, capsys: pytest.CaptureFixture) -> None:
    assert worked_in.main([]) == 1
    said = capsys.readouterr().err
    assert f"{FIRST} in notebooks/ was worked in: 00.1." in said
    assert "--take" in said


def test_work_in_a_shipped_lesson_is_taken_to_the_desk(clone: Path, capsys: pytest.CaptureFixture) -> None:
    assert worked_in.main(["--take"]) == 0
    assert clone.read_bytes() == (NOTEBOOKS / FIRST).read_bytes()
    copy = folder.DESK / FIRST
    assert cells_of(copy)["exercise-00-1"]["source"] == "d_head = 384 // 12"
    assert list(copies.update(clone.parent, folder.DESK)) == []  # it is known from which version it is
    assert worked_in.main([]) == 0


def test_a_copy_that_is_there_is_set_aside(clone: Path, capsys: pytest.CaptureFixture) -> None:
    folder.DESK.mkdir()
    (folder.DESK / FIRST).write_text("my earlier work")
    worked_in.main(["--take"])
    assert "The copy that was there lies in before/00_start_here (1).ipynb" in capsys.readouterr().out
    assert (folder.DESK / "before" / "00_start_here (1).ipynb").read_text() == "my earlier work"


def test_without_git_nothing_is_touched(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = clone.read_bytes()
    subprocess.run(["git", "rm", "-q", "--cached", FIRST], cwd=clone.parent, check=True)
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "two"],
        cwd=clone.parent,
        check=True,
    )
    with pytest.raises(subprocess.CalledProcessError):
        worked_in.take(clone)
    assert clone.read_bytes() == before
    assert not folder.DESK.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_a_lesson_that_cannot_be_read_is_left_to_its_own_test(text: str, tmp_path: Path) -> None:
    path = tmp_path / FIRST
    path.write_text(text)
    assert worked_in.answers_in(path) == []
