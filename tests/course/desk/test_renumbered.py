"""An exhibit's answer goes with its exhibit to the number of today; what has no place stays the learner's."""

import json
from pathlib import Path

import pytest

from tests.course.desk.lessons import cell, lesson
from transformer_course.desk import copies

NAME = "14_bug_museum.ipynb"


def answer(number: int, text: str) -> list[dict]:
    tagged = {"metadata": {"tags": [f"exercise:14.{number}"]}}
    return [
        cell(f"exercise-14-{number}-task", f"### 14.{number}", "markdown"),
        cell(f"exercise-14-{number}", text, **tagged),
    ]


def keeps(number: int) -> str:
    return f"def keeps_{number:02}(part):\n    raise NotImplementedError"


OLD = lesson(
    *answer(33, keeps(33)),
    *answer(46, "right_46 = ..."),
    *answer(1, "bug_01 = ..."),
    *answer(8, "bug_08 = ..."),
)
NEW = lesson(*answer(1, keeps(1)), *answer(8, "faults_08 = ..."), *answer(9, "bug_09 = ..."))
MINE = {
    "exercise-14-33": "def keeps_33(part):\n    return part is not None",
    "exercise-14-46": "right_46 = 'C'",
    "exercise-14-1": "bug_01 = 4",
    "exercise-14-8": "bug_08 = 2",
}


def ship(folder: Path, made: dict) -> list[str]:
    (folder / "notebooks").mkdir(exist_ok=True)
    (folder / "notebooks" / NAME).write_text(json.dumps(made), encoding="utf-8")
    return list(copies.update(folder / "notebooks", folder / "desk"))


def written(folder: Path, solved: dict[str, str]) -> list[dict]:
    """What a copy of the old lesson becomes in which this was written."""
    ship(folder, OLD)
    copy = folder / "desk" / NAME
    notebook = json.loads(copy.read_text(encoding="utf-8"))
    for each in notebook["cells"]:
        each["source"] = solved.get(each["id"], each["source"])
    copy.write_text(json.dumps(notebook), encoding="utf-8")
    ship(folder, NEW)
    return json.loads(copy.read_text(encoding="utf-8"))["cells"]


def test_answers_stand_where_their_exhibits_stand_now(tmp_path: Path) -> None:
    found = {each["id"]: "".join(each["source"]) for each in written(tmp_path, MINE)}
    assert found["exercise-14-1"] == "def keeps_01(part):\n    return part is not None"
    assert found["exercise-14-9"] == "bug_09 = 2"
    assert found["exercise-14-8"] == "faults_08 = ..."
    assert found["exercise-14-46-before"] == "right_46 = 'C'"
    assert found["exercise-14-1-before"] == "bug_01 = 4"


def test_what_nobody_answered_is_the_new_lesson(tmp_path: Path) -> None:
    found = written(tmp_path, {})
    assert [(each["id"], each["source"]) for each in found] == [(e["id"], e["source"]) for e in NEW["cells"]]


def test_kept_answers_follow_once(tmp_path: Path) -> None:
    answers = tmp_path / "desk" / "answers"
    answers.mkdir(parents=True)
    for number, text in ((33, MINE["exercise-14-33"]), (1, "bug_01 = 4"), (8, "bug_08 = 2")):
        (answers / f"14.{number}.py").write_text(f"# 14.{number} A title\n{text}\n", encoding="utf-8")
    written(tmp_path, MINE)
    found = {path.name: path.read_text(encoding="utf-8") for path in answers.glob("*.py")}
    assert found == {
        "14.1.py": "# 14.1 A title\ndef keeps_01(part):\n    return part is not None\n",
        "14.9.py": "# 14.9 A title\nbug_09 = 2\n",
    }
    assert len(list((answers / "before").glob("14.*.py"))) == 3
    NEWER = NEW | {"cells": [*NEW["cells"], cell("end", "## Summary", "markdown")]}
    ship(tmp_path, NEWER)
    assert {path.name for path in answers.glob("*.py")} == found.keys()


def test_a_copy_that_another_program_saves_leaves_the_answers_for_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(tmp_path, OLD)
    copy, answers = tmp_path / "desk" / NAME, tmp_path / "desk" / "answers"
    answers.mkdir()
    (answers / "14.33.py").write_text(f"# 14.33 A title\n{MINE['exercise-14-33']}\n", encoding="utf-8")
    (answers / "14.notes.py").write_text("# the learner's own", encoding="utf-8")

    def save(path: Path, data: bytes) -> None:
        copy.write_bytes(data + b" ")

    monkeypatch.setattr(copies, "keep_beside", save)
    assert "is being saved by another program" in ship(tmp_path, NEW)[0]
    assert (answers / "14.33.py").exists()
    monkeypatch.undo()
    ship(tmp_path, NEW)
    assert {path.name for path in answers.glob("*.py")} == {"14.1.py", "14.notes.py"}
