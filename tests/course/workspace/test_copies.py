"""A learner's copy is made, and brought up to date without losing a word of theirs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.course.workspace.lessons import (
    ANSWER,
    CELLS,
    NAME,
    RUN,
    SHIPPED,
    STUB,
    Course,
    add,
    cell,
    lesson,
    write,
)
from transformer_course.workspace import atomic_files, copies


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A desk with a copy in which nobody has worked."""
    made = Course(tmp_path)
    assert made.update() == ["03 copied."]
    return made


@pytest.fixture
def answered(course: Course) -> Course:
    """A desk with a copy in which the exercise was answered."""
    course.work(write("exercise-03-1", ANSWER))
    return course


# What a copy is


def test_a_copy_has_the_same_cells_and_no_outputs(course: Course) -> None:
    assert course.sources() == {id: each["source"] for id, each in CELLS.items()}
    cells = course.cells()
    assert all(not each.get("outputs") and not each.get("execution_count") for each in cells)
    tags = [each["metadata"] for each in cells if each["metadata"]]
    assert tags == [{"tags": ["exercise:03.1"]}, {"tags": ["check:03.1"]}]


def test_a_lesson_that_is_not_newer_is_left_to_the_last_byte(answered: Course) -> None:
    before = answered.copy.read_bytes()
    assert answered.update() == []
    assert answered.copy.read_bytes() == before


# What a newer version does


def test_the_course_changes_adds_and_takes_away(course: Course) -> None:
    assert course.receive(hand="print(5 + 5)", end=None, why="print(2 * 5)") == ["03 is newer: 2 cells new."]
    sources = course.sources()
    assert (sources["hand"], sources["why"]) == ("print(5 + 5)", "print(2 * 5)")
    assert "end" not in sources


def test_what_the_learner_wrote_stays_in_its_place(answered: Course) -> None:
    answered.work(write("hand", "print(30 + 30)"))
    answered.work(lambda cells: cells.insert(0, cell("00000000", "above = 1")))
    answered.work(add("begin", "first = 1", "11111111"))
    answered.work(add("11111111", "second = 2", "22222222"))
    said = answered.receive(end="## The end")
    assert said == ["03 is newer: 1 cell new; 1 answer and 1 changed cell and 3 cells of your own kept."]
    sources = answered.sources()
    assert list(sources) == ["00000000", "title", "begin", "11111111", "22222222", *list(CELLS)[2:]]
    assert (sources["exercise-03-1"], sources["hand"]) == (ANSWER, "print(30 + 30)")


def test_what_was_run_keeps_its_outputs_if_the_cell_is_the_same(course: Course) -> None:
    course.work(lambda cells: [each.update(RUN) for each in cells if each["cell_type"] == "code"])
    course.receive(begin="lesson.begin(3)  # newer")
    cells = {each["id"]: each for each in course.cells()}
    assert cells["hand"]["execution_count"] == 3
    assert (cells["begin"]["execution_count"], cells["begin"]["outputs"]) == (None, [])


def test_where_both_have_changed_a_cell_the_learners_stays_and_a_note_has_the_courses(course: Course) -> None:
    course.work(write("hand", "print(30 + 30)"))
    said = course.receive(hand="print(5 + 5)")
    assert said == ["03 is newer: 1 changed cell kept; 1 note above what both have changed."]
    names = list(course.sources())
    assert names[names.index("hand") - 1] == "hand-newer"
    assert "print(5 + 5)" in course.sources()["hand-newer"]
    assert course.sources()["hand"] == "print(30 + 30)"


@pytest.mark.parametrize(
    ("changed", "noted"),
    [
        ({"exercise_03_1_task": "### 03.1 Double, without `+`"}, "The task of 03.1 has changed"),
        ({"exercise_03_1": STUB.replace("(x)", "(x, times)")}, "def double(x, times)"),
    ],
)
def test_an_answer_whose_task_or_stub_has_changed_is_kept_and_marked(
    answered: Course, changed: dict[str, str], noted: str
) -> None:
    answered.receive(**changed)
    assert answered.sources()["exercise-03-1"] == ANSWER
    assert noted in answered.sources()["exercise-03-1-newer"]


def test_a_cell_that_the_learner_took_away_stays_away_until_it_changes(course: Course) -> None:
    course.work(lambda cells: cells.pop(2))
    course.receive(end="## The end")
    assert "hand" not in course.sources()
    course.receive(hand="print(5 + 5)")
    assert "hand" in course.sources()


def test_a_changed_cell_that_the_course_takes_away_becomes_the_learners(course: Course) -> None:
    course.work(write("hand", "print(30 + 30)"))
    course.receive(hand=None)
    assert course.sources()["hand"] == "print(30 + 30)"


def test_cells_of_ones_own_follow_theirs_when_the_course_moves_it(course: Course) -> None:
    course.work(add("hand", "mine = 1"))
    course.ship(lesson(*(CELLS[id] for id in CELLS if id != "hand"), CELLS["hand"]))
    course.update()
    assert list(course.sources())[-2:] == ["hand", "0b5c7f1e"]


def test_a_copy_two_versions_behind_as_an_open_browser_saves_it(answered: Course) -> None:
    behind = answered.copy.read_bytes()
    answered.receive(hand="print(5 + 5)")
    answered.copy.write_bytes(behind)
    answered.work(add("hand", "mine = 1"))
    answered.receive(hand="print(7 + 7)", why="1")
    sources = answered.sources()
    assert (sources["hand"], sources["exercise-03-1"]) == ("print(7 + 7)", ANSWER)
    assert "mine = 1" in sources.values()


def test_the_copy_before_is_kept_beside_and_the_new_one_keeps_its_time(answered: Course) -> None:
    before = answered.copy.read_bytes()
    os.utime(answered.copy, (10**9, 10**9))
    answered.receive(end="## The end")
    assert (answered.desk / "before" / "03_doubling (1).ipynb").read_bytes() == before
    assert answered.copy.stat().st_mtime == 10**9


def test_many_updates_never_lose_an_earlier_copy(course: Course) -> None:
    for number in (1, 2, 3):
        course.work(write("exercise-03-1", f"answer = {number}"))
        course.receive(hand=f"print({number})")
    kept = "".join(path.read_text(encoding="utf-8") for path in (course.desk / "before").iterdir())
    assert all(f"answer = {number}" in kept for number in (1, 2, 3))


# Files as they may be


def test_ids_twice_over(course: Course) -> None:
    course.work(add("hand", "mine = 1", "hand"))
    course.work(add("hand", "mine = 2", "end"))
    course.receive(begin="lesson.begin(3)  # newer")
    assert {"mine = 1", "mine = 2", "print(3 + 3)", "## Summary"} <= set(course.sources().values())


@pytest.mark.parametrize("behind", ["begin", "hand"])  # before the lesson's cell, and after it
def test_of_two_cells_with_one_id_the_unchanged_one_is_the_lessons(course: Course, behind: str) -> None:
    course.work(add(behind, "mine = 1", "hand"))
    course.receive(hand="print(3 * 3)")
    sources = course.sources()
    assert sources["hand"] == "print(3 * 3)"  # nobody had changed it
    assert "mine = 1" in sources.values()
    assert not any(id.endswith("newer") for id in sources)


def test_other_ids_for_every_cell_or_none_at_all(answered: Course) -> None:
    before = answered.copy.read_bytes()
    answered.work(lambda cells: [each.update(id=f"x{place}") for place, each in enumerate(cells)])
    answered.receive(end="## The end")
    sources = answered.sources()
    assert (sources["exercise-03-1"], sources["hand"]) == (ANSWER, "print(3 + 3)")
    assert list(sources.values()).count("print(3 + 3)") == 1
    answered.copy.write_bytes(before)
    answered.work(lambda cells: [each.pop("id") for each in cells])
    answered.update()
    assert answered.sources()["exercise-03-1"] == ANSWER


def test_a_shipped_lesson_that_was_worked_in_is_laid_on_the_desk(course: Course) -> None:
    course.copy.write_text(json.dumps(SHIPPED), encoding="utf-8")
    course.work(write("exercise-03-1", ANSWER))
    course.work(write("hand", "print(30 + 30)"))
    course.update()
    sources = course.sources()
    assert (sources["exercise-03-1"], sources["hand"]) == (ANSWER, "print(30 + 30)")
    assert "print(3 + 3)" in sources["hand-newer"]


def test_line_ends_do_not_count_as_changes(course: Course) -> None:
    course.work(lambda cells: [each.update(source=each["source"].replace("\n", "\r\n")) for each in cells])
    assert course.receive(hand="print(5 + 5)") == ["03 is newer: 1 cell new."]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"cells": [5]}',
        b'{"cells": [{"source": {"a": 1}, "cell_type": "code"}]}',
        b'{"worksheets": [], "nbformat": 3}',
        b"\x89PNG\r\n",
    ],
    ids=["nothing", "cells", "source", "version", "picture"],
)
def test_a_file_that_is_no_notebook_is_set_aside_and_named(course: Course, data: bytes) -> None:
    course.copy.write_bytes(data)
    assert course.update() == [
        "03 could not be read: it lies in before/03_doubling (1).ipynb, and a new copy in its place."
    ]
    assert (course.desk / "before" / "03_doubling (1).ipynb").read_bytes() == data
    assert list(course.sources()) == list(CELLS)


def test_words_of_any_script_and_half_a_character(course: Course) -> None:
    course.work(add("hand", "# 你好 ☃ مرحبا \ud83d"))
    course.receive(end="## The end")
    assert "# 你好 ☃ مرحبا \ud83d" in course.sources().values()


def test_a_copy_that_is_a_link_stays_one(answered: Course, tmp_path: Path) -> None:
    elsewhere = answered.copy.rename(tmp_path / "elsewhere.ipynb")
    answered.copy.symlink_to(elsewhere)
    answered.receive(end="## The end")
    assert answered.copy.is_symlink()
    assert "## The end" in elsewhere.read_text(encoding="utf-8")
    assert answered.sources()["exercise-03-1"] == ANSWER


def test_a_shipped_lesson_that_cannot_be_read_leaves_the_copy_alone(course: Course) -> None:
    (course.notebooks / NAME).write_text("<<<<<<< HEAD", encoding="utf-8")
    before = course.copy.read_bytes()
    (said,) = course.update()
    assert said.startswith("03 cannot be read as it is shipped.")
    assert course.copy.read_bytes() == before


# Trouble halfway

UPDATE = """
import os, sys
from pathlib import Path
from transformer_course.workspace import atomic_files, copies
"""
KILLED = """
CHANGES = "os.rename", "os.remove", "os.mkdir", "os.utime"
left = int(sys.argv[3])

def step(halfway=None):
    global left
    left -= 1
    if left < 0:
        if halfway is not None:
            os.ftruncate(halfway, os.fstat(halfway).st_size // 2)
        os._exit(9)

def watch(event, args):
    changes = "w" in str(args[1]) if event == "open" else event in CHANGES
    if changes and "my_lessons" in str(args[0]):
        step()

sync = os.fsync
os.fsync = lambda number: step(number) or sync(number)
sys.addaudithook(watch)
"""
UPDATED = "print(*copies.update(Path(sys.argv[1]), Path(sys.argv[2])))"


def test_killed_at_every_step(tmp_path: Path) -> None:
    """The process dies before each change, and with each file half written; then a whole run follows."""
    for step in range(100):
        folder_of_step = tmp_path / str(step)
        folder_of_step.mkdir()
        course = Course(folder_of_step)
        course.update()
        course.work(write("exercise-03-1", ANSWER))
        course.work(add("hand", "mine = 1"))
        course.ship_newer(hand="print(5 + 5)")
        program = [sys.executable, "-c", UPDATE + KILLED + UPDATED, course.notebooks, course.desk, str(step)]
        run = subprocess.run(program, capture_output=True, text=True)
        assert run.returncode in (0, 9), run.stderr
        assert course.sources()["exercise-03-1"] == ANSWER  # whole, the old one or the new one
        course.update()
        assert course.sources()["hand"] == "print(5 + 5)"
        assert "mine = 1" in course.sources().values()
        assert not list(course.desk.rglob(f"*{atomic_files.UNFINISHED}"))
        if run.returncode == 0:
            break
    assert 4 < step < 99  # it was killed now and then, and came through in the end


@pytest.mark.parametrize(("thing", "refused"), [(Path, "open"), (Path, "replace")])
def test_a_full_disk_or_a_read_only_folder(
    answered: Course, thing: object, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = answered.copy.read_bytes(), getattr(thing, refused)
    answered.ship_newer(hand="print(5 + 5)")

    def refuse(*args: object, **kwargs: object) -> object:
        if refused == "open" and "wb" not in args:
            return real(*args, **kwargs)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(thing, refused, refuse)
        assert answered.update() == [
            "03 could not be brought up to date (No space left on device). Your copy is as it was."
        ]
    assert answered.copy.read_bytes() == before
    answered.update()
    assert answered.sources()["hand"] == "print(5 + 5)"


def test_saved_by_jupyterlab_in_the_same_moment(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = copies.keep_beside

    def save_meanwhile(path: Path, data: bytes) -> Path:
        course.work(write("exercise-03-1", ANSWER))
        return keep(path, data)

    monkeypatch.setattr(copies, "keep_beside", save_meanwhile)
    said = course.receive(hand="print(5 + 5)")
    assert said == ["03 is being saved by another program. It is brought up to date the next time."]
    monkeypatch.undo()
    course.update()
    assert (course.sources()["exercise-03-1"], course.sources()["hand"]) == (ANSWER, "print(5 + 5)")


def test_two_updates_at_once(answered: Course) -> None:
    answered.ship_newer(hand="print(5 + 5)")
    program = [sys.executable, "-c", UPDATE + UPDATED, answered.notebooks, answered.desk]
    both = [subprocess.Popen(program) for _ in range(2)]
    assert [each.wait() for each in both] == [0, 0]
    assert (answered.sources()["exercise-03-1"], answered.sources()["hand"]) == (ANSWER, "print(5 + 5)")


# A new copy on demand, and where one left off


def test_a_new_copy_sets_the_old_one_aside(answered: Course) -> None:
    before = answered.copy.read_bytes()
    said = copies.renew("03", answered.notebooks, answered.desk)
    assert said == "03: your copy lies in before/03_doubling (1).ipynb now."
    answered.update()
    assert answered.sources()["exercise-03-1"] == STUB
    assert (answered.desk / "before" / "03_doubling (1).ipynb").read_bytes() == before
    copies.renew("03", answered.notebooks, answered.desk)
    assert copies.renew("03", answered.notebooks, answered.desk) == "03 had no copy."
    assert len(list((answered.desk / "before").iterdir())) == 2


@pytest.mark.parametrize("number", ["99", "*"])
def test_refuses_a_lesson_that_is_not_there(course: Course, number: str) -> None:
    with pytest.raises(ValueError, match=r"there is no lesson .*: give the number of a lesson, such as 03"):
        copies.renew(number, course.notebooks, course.desk)


def test_the_lesson_worked_in_last_is_found_again(course: Course) -> None:
    other = lesson(cell("title", "# Another", "markdown"), cell("begin", "1"))
    (course.notebooks / "04_other.ipynb").write_text(json.dumps(other), encoding="utf-8")
    course.update()
    assert copies.last_worked_in(course.desk) is None
    course.work(write("hand", "print(30 + 30)"))
    os.utime(course.desk / "04_other.ipynb", (2 * 10**9, 2 * 10**9))  # newer, and nobody has touched it
    assert copies.last_worked_in(course.desk) == course.copy
    (course.desk / "05_broken.ipynb").write_text("{")
    assert copies.last_worked_in(course.desk) == course.copy
