"""A learner's copy is made, and brought up to date without losing a word of theirs."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.course.desk.lessons import (
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
    newer,
    write,
)
from transformer_course.desk import copies, folder
from transformer_course.lessons import ROOT


@pytest.fixture
def course(tmp_path: Path) -> Course:
    made = Course(tmp_path)
    assert made.update() == ["03 copied."]
    return made


# What a copy is


def test_a_copy_has_the_same_cells_and_no_outputs(course: Course) -> None:
    assert course.sources() == {id: each["source"] for id, each in CELLS.items()}
    cells = json.loads(course.copy.read_text(encoding="utf-8"))["cells"]
    assert all(not each.get("outputs") and not each.get("execution_count") for each in cells)
    assert [each["metadata"] for each in cells if each["metadata"]] == [
        {"tags": ["exercise:03.1"]},
        {"tags": ["check:03.1"]},
    ]


def test_a_lesson_that_is_not_newer_is_left_to_the_last_byte(course: Course) -> None:
    course.work(write("exercise-03-1", ANSWER))
    before = course.copy.read_bytes()
    assert course.update() == []
    assert course.copy.read_bytes() == before


# What a newer version does


def test_the_course_changes_adds_and_takes_away(course: Course) -> None:
    course.ship(newer(hand="print(5 + 5)", end=None, why="print(2 * 5)"))
    assert course.update() == ["03 is newer: 2 cells new."]
    sources = course.sources()
    assert (sources["hand"], sources["why"]) == ("print(5 + 5)", "print(2 * 5)")
    assert "end" not in sources


def test_what_the_learner_wrote_stays_in_its_place(course: Course) -> None:
    course.work(write("exercise-03-1", ANSWER))
    course.work(write("hand", "print(30 + 30)"))
    course.work(add("begin", "first = 1", "11111111"))
    course.work(add("11111111", "second = 2", "22222222"))
    course.ship(newer(end="## The end"))
    assert course.update() == [
        "03 is newer: 1 cell new; 1 answer and 1 changed cell and 2 cells of your own kept."
    ]
    assert list(course.sources()) == ["title", "begin", "11111111", "22222222", *list(CELLS)[2:]]
    assert course.sources()["exercise-03-1"] == ANSWER
    assert course.sources()["hand"] == "print(30 + 30)"


def test_what_was_run_keeps_its_outputs_if_the_cell_is_the_same(course: Course) -> None:
    course.work(lambda cells: [each.update(RUN) for each in cells if each["cell_type"] == "code"])
    course.ship(newer(begin="lesson.begin(3)  # newer"))
    course.update()
    cells = {each["id"]: each for each in json.loads(course.copy.read_text(encoding="utf-8"))["cells"]}
    assert cells["hand"]["execution_count"] == 3
    assert (cells["begin"]["execution_count"], cells["begin"]["outputs"]) == (None, [])


def test_both_have_changed_a_cell(course: Course) -> None:
    course.work(write("hand", "print(30 + 30)"))
    course.ship(newer(hand="print(5 + 5)"))
    assert course.update() == ["03 is newer: 1 changed cell kept; 1 note above what both have changed."]
    names = list(course.sources())
    assert names[names.index("hand") - 1] == "hand-newer"
    assert "print(5 + 5)" in course.sources()["hand-newer"]
    assert course.sources()["hand"] == "print(30 + 30)"


def test_an_answer_whose_task_has_changed_is_kept_and_marked(course: Course) -> None:
    course.work(write("exercise-03-1", ANSWER))
    course.ship(newer(exercise_03_1_task="### 03.1 Double, without `+`"))
    course.update()
    assert course.sources()["exercise-03-1"] == ANSWER
    assert "The task of 03.1 has changed" in course.sources()["exercise-03-1-newer"]


def test_an_answer_whose_stub_has_changed_is_kept_and_marked(course: Course) -> None:
    course.work(write("exercise-03-1", ANSWER))
    course.ship(newer(exercise_03_1=STUB.replace("(x)", "(x, times)")))
    course.update()
    assert "def double(x, times)" in course.sources()["exercise-03-1-newer"]


def test_a_cell_that_the_learner_took_away_stays_away_until_it_changes(course: Course) -> None:
    course.work(lambda cells: cells.pop(2))
    course.ship(newer(end="## The end"))
    course.update()
    assert "hand" not in course.sources()
    course.ship(newer(hand="print(5 + 5)"))
    course.update()
    assert "hand" in course.sources()


def test_a_changed_cell_that_the_course_takes_away_becomes_the_learners(course: Course) -> None:
    course.work(write("hand", "print(30 + 30)"))
    course.ship(newer(hand=None))
    course.update()
    assert course.sources()["hand"] == "print(30 + 30)"


def test_cells_of_ones_own_follow_theirs_when_the_course_moves_it(course: Course) -> None:
    course.work(add("hand", "mine = 1"))
    moved = [CELLS[id] for id in CELLS if id != "hand"]
    course.ship(lesson(*moved, CELLS["hand"]))
    course.update()
    assert list(course.sources())[-2:] == ["hand", "0b5c7f1e"]


def test_two_updates_behind(course: Course) -> None:
    course.work(write("exercise-03-1", ANSWER))
    behind = course.copy.read_bytes()
    course.ship(newer(hand="print(5 + 5)"))
    course.update()
    course.copy.write_bytes(behind)
    course.ship(newer(hand="print(7 + 7)", why="1"))
    course.update()
    assert course.sources()["hand"] == "print(7 + 7)"
    assert course.sources()["exercise-03-1"] == ANSWER


def test_the_copy_before_is_kept_beside_and_the_new_one_keeps_its_time(course: Course) -> None:
    course.work(write("exercise-03-1", ANSWER))
    before = course.copy.read_bytes()
    os.utime(course.copy, (10**9, 10**9))
    course.ship(newer(end="## The end"))
    course.update()
    assert (course.desk / "before" / "03_doubling (1).ipynb").read_bytes() == before
    assert course.copy.stat().st_mtime == 10**9


# Files as they may be


def test_ids_twice_over(course: Course) -> None:
    course.work(add("hand", "mine = 1", "hand"))
    course.work(add("hand", "mine = 2", "end"))
    course.ship(newer(begin="lesson.begin(3)  # newer"))
    course.update()
    assert {"mine = 1", "mine = 2", "print(3 + 3)", "## Summary"} <= set(course.sources().values())


def test_of_two_cells_with_one_id_the_unchanged_one_is_the_lessons(course: Course) -> None:
    course.work(add("hand", "mine = 1", "hand"))
    course.ship(newer(hand="print(3 * 3)"))
    course.update()
    sources = course.sources()
    assert sources["hand"] == "print(3 * 3)"  # nobody had changed it
    assert "mine = 1" in sources.values()
    assert not any(id.endswith("newer") for id in sources)


def test_other_ids_for_every_cell(course: Course) -> None:
    course.work(write("exercise-03-1", ANSWER))
    course.work(lambda cells: [each.update(id=f"x{place}") for place, each in enumerate(cells)])
    course.ship(newer(end="## The end"))
    course.update()
    sources = course.sources()
    assert sources["exercise-03-1"] == ANSWER
    assert sources["hand"] == "print(3 + 3)"
    assert list(sources.values()).count("print(3 + 3)") == 1


def test_no_ids_at_all(course: Course) -> None:
    course.work(write("exercise-03-1", ANSWER))
    course.work(lambda cells: [each.pop("id") for each in cells])
    course.ship(newer(end="## The end"))
    course.update()
    assert course.sources()["exercise-03-1"] == ANSWER


def test_a_shipped_lesson_that_was_worked_in_is_laid_on_the_desk(course: Course) -> None:
    course.copy.write_text(json.dumps(SHIPPED), encoding="utf-8")
    course.work(write("exercise-03-1", ANSWER))
    course.work(write("hand", "print(30 + 30)"))
    course.update()
    assert course.sources()["exercise-03-1"] == ANSWER
    assert course.sources()["hand"] == "print(30 + 30)"
    assert "print(3 + 3)" in course.sources()["hand-newer"]


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
def test_line_ends_do_not_count_as_changes(course: Course, ending: bytes) -> None:
    course.work(lambda cells: [each.update(source=each["source"].replace("\n", "\r\n")) for each in cells])
    course.copy.write_bytes(course.copy.read_bytes().replace(b"\n", ending))
    course.ship(newer(hand="print(5 + 5)"))
    assert course.update() == ["03 is newer: 1 cell new."]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"my notes",
        b"{",
        b"[]",
        b"null",
        b'{"cells": 5}',
        b'{"cells": [5]}',
        b'{"cells": [{"source": {"a": 1}, "cell_type": "code"}]}',
        b'{"worksheets": [], "nbformat": 3}',
        b"<<<<<<< HEAD\n{}\n=======\n",
        b"\x89PNG\r\n",
        b'{"cells": ' + b"[" * 100_000,
    ],
    ids=lambda data: repr(data[:20]),
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
    course.ship(newer(end="## The end"))
    course.update()
    assert "# 你好 ☃ مرحبا \ud83d" in course.sources().values()


def test_a_lesson_of_20_megabytes(course: Course) -> None:
    course.work(add("hand", "mine = 1"))
    course.work(lambda cells: cells[2].update(RUN, outputs=[{"text": "x" * 20_000_000}]))
    course.ship(newer(end="## The end"))
    began = time.monotonic()
    course.update()
    assert "mine = 1" in course.sources().values()
    assert course.copy.stat().st_size > 20_000_000
    assert time.monotonic() - began < 30  # a generous bound: it takes a part of a second


def test_a_copy_that_is_a_link_stays_one(course: Course, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.ipynb"
    course.copy.rename(elsewhere)
    course.copy.symlink_to(elsewhere)
    course.work(write("exercise-03-1", ANSWER))
    course.ship(newer(end="## The end"))
    course.update()
    assert course.copy.is_symlink()
    assert ANSWER.splitlines()[1] in elsewhere.read_text(encoding="utf-8")


def test_a_renamed_copy_is_left_alone_and_a_new_one_made(course: Course) -> None:
    course.work(write("exercise-03-1", ANSWER))
    renamed = course.copy.rename(course.desk / "my_third.ipynb")
    before = renamed.read_bytes()
    course.ship(newer(end="## The end"))
    assert course.update() == ["03 copied."]
    assert renamed.read_bytes() == before


def test_a_deleted_copy_is_made_anew(course: Course) -> None:
    course.copy.unlink()
    assert course.update() == ["03 copied."]


def test_a_folder_of_a_copys_name_is_named(course: Course) -> None:
    course.copy.unlink()
    course.copy.mkdir()
    assert course.update() == ["03 could not be brought up to date (Is a directory). Your copy is as it was."]


def test_a_shipped_lesson_that_cannot_be_read_leaves_the_copy_alone(course: Course) -> None:
    (course.notebooks / NAME).write_text("<<<<<<< HEAD", encoding="utf-8")
    before = course.copy.read_bytes()
    (said,) = course.update()
    assert said.startswith("03 cannot be read as it is shipped.")
    assert course.copy.read_bytes() == before


# Trouble halfway

# Loads the desk alone, and not torch.
QUICKLY = f"""
import sys
from types import ModuleType
sys.modules["transformer_lab"] = ModuleType("transformer_lab")
sys.modules["transformer_lab"].__path__ = [{str(ROOT / "transformer_lab")!r}]
from pathlib import Path
from transformer_course.desk import copies
"""
KILLED = """
import os

left = int(sys.argv[2])
def counting(name):
    real = getattr(os, name)
    def call(*args, **kwargs):
        global left
        if "my_lessons" in str(args[0]) or isinstance(args[0], int):
            left -= 1
            if left < 0:
                os._exit(9)
        return real(*args, **kwargs)
    setattr(os, name, call)
for name in ("open", "replace", "rename", "fsync", "utime", "unlink", "mkdir"):
    counting(name)
import io
real_open = io.open
def opening(path, mode="r", *args, **kwargs):
    global left
    if "my_lessons" in str(path) and "w" in mode:
        left -= 1
        if left < 0:
            os._exit(9)
    file = real_open(path, mode, *args, **kwargs)
    if "my_lessons" in str(path) and "w" in mode:
        write = file.write
        def halfway(data):
            global left
            left -= 1
            if left < 0:
                write(data[: len(data) // 2])
                file.flush()
                os._exit(9)
            return write(data)
        class Halfway:
            def __enter__(self): return self
            def __exit__(self, *error): file.close()
            def __getattr__(self, name): return halfway if name == "write" else getattr(file, name)
        return Halfway()
    return file
io.open = opening
folder = Path(sys.argv[1])
for sentence in copies.update(folder / "notebooks", folder / "my_lessons"):
    print(sentence)
"""


def test_killed_at_every_step(tmp_path: Path) -> None:
    """The process dies before each of its writes, and halfway through each; then a whole run follows."""
    for step in range(100):
        folder_of_step = tmp_path / str(step)
        folder_of_step.mkdir()
        course = Course(folder_of_step)
        course.update()
        course.work(write("exercise-03-1", ANSWER))
        course.work(add("hand", "mine = 1"))
        course.ship(newer(hand="print(5 + 5)"))
        run = subprocess.run(
            [sys.executable, "-c", QUICKLY + KILLED, folder_of_step, str(step)],
            capture_output=True,
            text=True,
        )
        assert run.returncode in (0, 9), run.stderr
        assert course.sources()["exercise-03-1"] == ANSWER  # whole, the old one or the new one
        course.update()
        assert course.sources()["hand"] == "print(5 + 5)"
        assert "mine = 1" in course.sources().values()
        assert not list(course.desk.rglob(f"*{folder.UNFINISHED}"))
        if run.returncode == 0:
            break
    assert 4 < step < 99  # it was killed now and then, and came through in the end


@pytest.mark.parametrize("refused", ["write", "fsync", "replace"])
def test_a_full_disk_or_a_read_only_folder(
    course: Course, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    course.work(write("exercise-03-1", ANSWER))
    before = course.copy.read_bytes()
    course.ship(newer(hand="print(5 + 5)"))

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    def refuse_to_write(path: Path, mode: str = "r", *args: object, **kwargs: object) -> object:
        return refuse() if "w" in mode else real_open(path, mode, *args, **kwargs)

    real_open = Path.open
    places = {
        "write": (Path, "open", refuse_to_write),
        "fsync": (os, "fsync", refuse),
        "replace": (Path, "replace", refuse),
    }
    with monkeypatch.context() as patch:
        patch.setattr(*places[refused])
        assert course.update() == [
            "03 could not be brought up to date (No space left on device). Your copy is as it was."
        ]
    assert course.copy.read_bytes() == before
    course.update()
    assert course.sources()["hand"] == "print(5 + 5)"


def test_saved_by_jupyterlab_in_the_same_moment(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    course.ship(newer(hand="print(5 + 5)"))
    keep = copies.keep_beside

    def save_meanwhile(path: Path, data: bytes) -> Path:
        course.work(write("exercise-03-1", ANSWER))
        return keep(path, data)

    monkeypatch.setattr(copies, "keep_beside", save_meanwhile)
    assert course.update() == [
        "03 is being saved by another program. It is brought up to date the next time."
    ]
    monkeypatch.undo()
    course.update()
    assert course.sources()["exercise-03-1"] == ANSWER
    assert course.sources()["hand"] == "print(5 + 5)"


def test_an_open_browser_saves_the_old_version_over_the_new_one(course: Course) -> None:
    course.work(write("exercise-03-1", ANSWER))
    open_in_browser = course.copy.read_bytes()
    course.ship(newer(hand="print(5 + 5)"))
    course.update()
    course.copy.write_bytes(open_in_browser)
    course.work(add("hand", "mine = 1"))
    course.update()
    assert course.sources()["exercise-03-1"] == ANSWER
    assert course.sources()["hand"] == "print(5 + 5)"
    assert "mine = 1" in course.sources().values()


def test_two_updates_at_once(course: Course) -> None:
    course.work(write("exercise-03-1", ANSWER))
    course.ship(newer(hand="print(5 + 5)"))
    program = f"{QUICKLY}list(copies.update(Path(sys.argv[1]), Path(sys.argv[2])))"
    both = [
        subprocess.Popen([sys.executable, "-c", program, course.notebooks, course.desk]) for _ in range(2)
    ]
    assert [each.wait() for each in both] == [0, 0]
    assert course.sources()["exercise-03-1"] == ANSWER
    assert course.sources()["hand"] == "print(5 + 5)"


def test_many_updates_never_lose_an_earlier_copy(course: Course) -> None:
    for number in range(1, 6):
        course.work(write("exercise-03-1", f"answer = {number}"))
        course.ship(newer(hand=f"print({number})"))
        course.update()
    assert len(list((course.desk / "before").iterdir())) == 5
    assert all(f"answer = {number}" in course.everything() for number in range(1, 6))


# A new copy on demand, and where one left off


def test_a_new_copy_sets_the_old_one_aside(course: Course) -> None:
    course.work(write("exercise-03-1", ANSWER))
    before = course.copy.read_bytes()
    said = copies.renew("03", course.notebooks, course.desk)
    assert said == "03: your copy lies in before/03_doubling (1).ipynb now."
    course.update()
    assert course.sources()["exercise-03-1"] == STUB
    assert (course.desk / "before" / "03_doubling (1).ipynb").read_bytes() == before
    copies.renew("03", course.notebooks, course.desk)
    assert copies.renew("03", course.notebooks, course.desk) == "03 had no copy."
    assert len(list((course.desk / "before").iterdir())) == 2


@pytest.mark.parametrize("number", ["3", "99", "", "*", "../x", "three"])
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
