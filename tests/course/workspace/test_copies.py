"""A learner's copy is made, and merged with a newer lesson without losing a word of theirs."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_course.workspace import atomic_files, copies

NAME = "03_doubling.ipynb"


def cell(id: str | None, source: str, kind: str = "code", **more: object) -> dict:
    made = {"cell_type": kind, "metadata": {}, "source": source}
    made |= {"outputs": [], "execution_count": None} if kind == "code" else {}
    return made | ({"id": id} if id else {}) | more


STUB = "def double(x):\n    raise NotImplementedError"
ANSWER = "def double(x):\n    return x + x"
RUN = {"outputs": [{"output_type": "stream", "name": "stdout", "text": "7"}], "execution_count": 3}
TAGS = {"tags": ["exercise:03.1"]}
LESSON = {
    "title": cell("title", "# Doubling", "markdown"),
    "hand": cell("hand", "print(3 + 3)", **RUN),
    "exercise-03-1": cell("exercise-03-1", STUB, metadata=TAGS),
    "end": cell("end", "## Summary", "markdown"),
}


# Merging


@st.composite
def edited(draw: st.DrawFn) -> tuple[list[dict], list[dict], list[dict]]:
    """A lesson, a newer one, and the learner's copy of the first: each cell kept, changed or removed."""
    edits = st.sampled_from(["{}", "{}", "{} changed by {}", ""])
    base = [cell(id, f"text {id}") for id in "abcdef"]

    def edit(cells: list[dict], who: str) -> list[dict]:
        texts = [draw(edits).format(each["source"], who) for each in cells]
        return [each | {"source": text} for each, text in zip(cells, texts, strict=True) if text]

    newer = draw(st.permutations([*edit(base, "the course"), cell("new", "text new")]))
    mine = edit(base, "the learner")
    for number, id in enumerate(draw(st.lists(st.sampled_from([None, "own", "a", "f", "new"]), max_size=4))):
        mine.insert(draw(st.integers(0, len(mine))), cell(id, f"the learner's {number}"))
    return base, newer, mine


@settings(deadline=None)
@given(edited())
def test_merging_keeps_what_the_learner_wrote_and_takes_everything_else(notebooks: tuple) -> None:
    base, newer, mine = notebooks
    was, now = ({each["id"]: each["source"] for each in cells} for cells in (base, newer))
    merged = copies.merge(mine, {each["id"]: copies.digest(each) for each in base}, newer)
    if merged is None:
        assert not {each.get("id") for each in mine} & now.keys()
        return
    cells, notes = merged
    ids, texts = [each["id"] for each in cells], Counter(each["source"] for each in cells)
    assert len(set(ids)) == len(ids)
    theirs = Counter(each["source"] for each in mine if "the learner" in each["source"])
    assert theirs <= texts and texts.total() <= theirs.total() + len(newer) + notes
    assert [id for id in ids if id in now] == [id for id in now if id in ids]  # in the newer lesson's order
    copied = {each.get("id") for each in mine}
    assert {each["source"] for each in mine if each["source"] == now.get(each.get("id"))} <= texts.keys()
    for id, text in now.items():
        if id in copied or was.get(id) != text:
            (here,) = (each["source"] for each in cells if each["id"] == id)
            assert here == text or "the learner" in here
            if "the learner" in here and was.get(id) != text:
                above = cells[ids.index(id) - 1]
                assert above["cell_type"] == "markdown" and text in above["source"]
        else:
            assert id not in ids  # the learner has taken it away


def merged(mine: list[dict], newer: list[dict]) -> dict[str, dict]:
    base = {each["id"]: copies.digest(each) for each in LESSON.values()}
    return {each["id"]: each for each in copies.merge(mine, base, newer)[0]}


def test_cells_of_ones_own_follow_theirs_when_the_course_moves_it() -> None:
    mine = [cell("mine-0", "first"), LESSON["title"], LESSON["hand"], cell("mine-1", "second"), LESSON["end"]]
    cells = merged(mine, [LESSON["title"], LESSON["end"], LESSON["hand"]])
    assert list(cells) == ["mine-0", "title", "end", "hand", "mine-1"]


def test_outputs_stay_with_the_text_that_made_them_and_tags_are_the_courses() -> None:
    mine = [LESSON["hand"], LESSON["exercise-03-1"] | RUN | {"source": ANSWER, "metadata": {"mine": 1}}]
    cells = merged(mine, [LESSON["hand"], LESSON["exercise-03-1"]])
    assert cells["hand"]["outputs"] and cells["exercise-03-1"]["outputs"]
    assert cells["exercise-03-1"]["metadata"] == TAGS | {"mine": 1}
    cells = merged(mine, [LESSON["hand"] | {"source": "print(5 + 5)"}])
    assert (cells["hand"]["outputs"], cells["hand"]["execution_count"]) == ([], None)


# Files


class Course:
    """A folder of shipped lessons, and a learner's copy."""

    def __init__(self, folder: Path) -> None:
        self.notebooks, self.workspace = folder / "notebooks", folder / "my_lessons"
        self.notebooks.mkdir()
        self.copy, self.before = self.workspace / NAME, self.workspace / "before"
        self.ship()

    def ship(self, **texts: str) -> None:
        cells = [each | {"source": texts.get(id, each["source"])} for id, each in LESSON.items()]
        lesson = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (self.notebooks / NAME).write_text(json.dumps(lesson), encoding="utf-8")

    def update(self) -> list[str]:
        return list(copies.update(self.notebooks, self.workspace))

    def work(self, change: Callable[[list[dict]], object]) -> None:
        """Change the copy's cells, as an editor does."""
        notebook = json.loads(self.copy.read_text(encoding="utf-8"))
        change(notebook["cells"])
        self.copy.write_text(json.dumps(notebook), encoding="utf-8")

    def answer(self) -> None:
        self.work(lambda cells: cells[2].update(source=ANSWER))

    def sources(self) -> dict[str, str]:
        """The texts of the copy's cells by their ids, in order; it is a notebook that JupyterLab opens."""
        notebook = json.loads(self.copy.read_text(encoding="utf-8"))
        nbformat.validate(notebook)
        return {each["id"]: "".join(each["source"]) for each in notebook["cells"]}


@pytest.fixture
def course(tmp_path: Path) -> Course:
    made = Course(tmp_path)
    assert made.update() == ["03 copied."]
    return made


@pytest.fixture
def answered(course: Course) -> Course:
    course.answer()
    return course


def test_a_copy_has_the_same_cells_and_no_outputs(course: Course) -> None:
    assert course.sources() == {id: each["source"] for id, each in LESSON.items()}
    cells = copies.read(course.copy)["cells"]
    assert all(not each.get("outputs") and not each.get("execution_count") for each in cells)
    assert cells[2]["metadata"] == TAGS


def test_a_lesson_that_is_not_newer_is_left_to_the_last_byte(answered: Course) -> None:
    before = answered.copy.read_bytes()
    assert answered.update() == []
    assert answered.copy.read_bytes() == before and not answered.before.exists()


def test_a_newer_lesson_is_merged_and_the_copy_keeps_its_time(answered: Course) -> None:
    os.utime(answered.copy, (10**9, 10**9))
    answered.ship(end="## The end")
    assert answered.update() == ["03 updated; what you wrote is kept."]
    assert answered.sources() == {id: each["source"] for id, each in LESSON.items()} | {
        "exercise-03-1": ANSWER,
        "end": "## The end",
    }
    assert answered.copy.stat().st_mtime == 10**9
    answered.ship(**{"exercise-03-1": STUB.replace("(x)", "(x, times)"), "end": "## The end"})
    assert answered.update() == ["03 updated; what you wrote is kept, notes show what the course has there."]
    assert answered.sources()["exercise-03-1"] == ANSWER
    assert "def double(x, times)" in "".join(answered.sources().values())
    assert answered.update() == []


def test_however_many_updates_one_copy_is_kept_beside(answered: Course) -> None:
    for number in range(3):
        before = answered.copy.read_bytes()
        answered.ship(hand=f"print({number})")
        answered.update()
    assert [path.read_bytes() for path in answered.before.iterdir()] == [before]


def test_a_shipped_lesson_that_was_worked_in_is_laid_among_the_copies(course: Course) -> None:
    course.copy.write_bytes((course.notebooks / NAME).read_bytes())
    course.answer()
    course.ship(hand="print(5 + 5)")
    course.update()
    assert course.sources()["exercise-03-1"] == ANSWER
    assert {"print(3 + 3)", STUB} & set(course.sources().values()) == {"print(3 + 3)"}
    assert "print(5 + 5)" in "".join(course.sources().values())


def test_line_ends_do_not_count_as_changes(course: Course) -> None:
    course.work(lambda cells: [each.update(source=each["source"].replace("\n", "\r\n")) for each in cells])
    course.ship(**{"exercise-03-1": "double = ..."})
    course.update()
    assert course.sources()["exercise-03-1"] == "double = ..."


def test_words_of_any_script_and_half_a_character(course: Course) -> None:
    course.work(lambda cells: cells.append(cell("0b5c7f1e", "# 你好 ☃ مرحبا \ud83d")))
    course.ship(end="## The end")
    course.update()
    assert "# 你好 ☃ مرحبا \ud83d" in course.sources().values()


def test_a_copy_whose_cells_have_lost_their_ids_is_left_alone(answered: Course) -> None:
    answered.work(lambda cells: [each.pop("id") for each in cells])
    before = answered.copy.read_bytes()
    answered.ship(end="## The end")
    (said,) = answered.update()
    assert said.startswith("03 cannot be merged with the newer lesson: its cells have no ids")
    assert answered.copy.read_bytes() == before


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"cells": [5], "metadata": {}}',
        b'{"cells": [{"source": [1], "cell_type": "code"}], "metadata": {}}',
        b'{"worksheets": [], "nbformat": 3}',
        b"\x89PNG\r\n",
    ],
    ids=["nothing", "cells", "source", "version", "picture"],
)
def test_a_file_that_is_no_notebook_is_set_aside_and_named(course: Course, data: bytes) -> None:
    course.copy.write_bytes(data)
    assert course.update() == [
        "03 could not be read: it is in before/03_doubling (1).ipynb now, and a new copy in its place."
    ]
    assert (course.before / "03_doubling (1).ipynb").read_bytes() == data
    assert list(course.sources()) == list(LESSON)


def test_a_copy_that_is_a_link_stays_one(answered: Course, tmp_path: Path) -> None:
    elsewhere = answered.copy.rename(tmp_path / "elsewhere.ipynb")
    answered.copy.symlink_to(elsewhere)
    answered.ship(end="## The end")
    answered.update()
    assert answered.copy.is_symlink() and "## The end" in elsewhere.read_text(encoding="utf-8")
    assert answered.sources()["exercise-03-1"] == ANSWER


def test_a_shipped_lesson_that_cannot_be_read_leaves_the_copy_alone(course: Course) -> None:
    (course.notebooks / NAME).write_text("<<<<<<< HEAD", encoding="utf-8")
    before = course.copy.read_bytes()
    (said,) = course.update()
    assert said.startswith("03 cannot be read as it is shipped.")
    assert course.copy.read_bytes() == before


# Trouble halfway

PROGRAM = """
import os, sys
from pathlib import Path
from transformer_course.workspace import copies

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
print(*copies.update(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def test_killed_at_every_step(tmp_path: Path) -> None:
    """The process dies before each change, and with each file half written; then a whole run follows."""
    for step in range(100):
        folder_of_step = tmp_path / str(step)
        folder_of_step.mkdir()
        course = Course(folder_of_step)
        course.update()
        course.answer()
        course.ship(hand="print(5 + 5)")
        program = [sys.executable, "-c", PROGRAM, course.notebooks, course.workspace, str(step)]
        run = subprocess.run(program, capture_output=True, text=True)
        assert run.returncode in (0, 9), run.stderr
        assert course.sources()["exercise-03-1"] == ANSWER  # whole, the old one or the new one
        course.update()
        assert (course.sources()["hand"], course.sources()["exercise-03-1"]) == ("print(5 + 5)", ANSWER)
        assert not list(course.workspace.rglob(f"*{atomic_files.UNFINISHED}"))
        if run.returncode == 0:
            break
    assert 4 < step < 99  # it was killed now and then, and came through in the end


@pytest.mark.parametrize("refused", ["open", "replace"])
def test_a_full_disk_or_a_read_only_folder(
    answered: Course, refused: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = answered.copy.read_bytes(), getattr(Path, refused)
    answered.ship(hand="print(5 + 5)")

    def refuse(*args: object, **kwargs: object) -> object:
        if refused == "open" and "wb" not in args:
            return real(*args, **kwargs)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, refused, refuse)
        assert answered.update() == [
            "03 could not be brought up to date (No space left on device). Your copy is as it was."
        ]
    assert answered.copy.read_bytes() == before
    answered.update()
    assert answered.sources()["hand"] == "print(5 + 5)"


def test_saved_by_jupyterlab_in_the_same_moment(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    merge = copies.merge

    def save_meanwhile(*args: object) -> object:
        course.answer()
        return merge(*args)

    course.ship(hand="print(5 + 5)")
    with monkeypatch.context() as patch:
        patch.setattr(copies, "merge", save_meanwhile)
        assert course.update() == [
            "03 is being saved by another program. It is brought up to date the next time."
        ]
    course.update()
    assert (course.sources()["exercise-03-1"], course.sources()["hand"]) == (ANSWER, "print(5 + 5)")


def test_two_updates_at_once(answered: Course) -> None:
    answered.ship(hand="print(5 + 5)")
    program = [sys.executable, "-c", PROGRAM, answered.notebooks, answered.workspace, "1000"]
    both = [subprocess.Popen(program) for _ in range(2)]
    assert [each.wait() for each in both] == [0, 0]
    assert (answered.sources()["exercise-03-1"], answered.sources()["hand"]) == (ANSWER, "print(5 + 5)")


# A new copy on demand, and where one left off


def test_a_new_copy_sets_the_old_one_aside(answered: Course) -> None:
    before = answered.copy.read_bytes()
    said = copies.renew("03", answered.notebooks, answered.workspace)
    assert said == "03: your copy is in before/03_doubling (1).ipynb now."
    assert copies.renew("03", answered.notebooks, answered.workspace) == "03 had no copy."
    answered.update()
    assert answered.sources()["exercise-03-1"] == STUB
    for _ in range(2):  # a copy in which nothing is new is set aside once
        copies.renew("03", answered.notebooks, answered.workspace)
        answered.update()
    assert (answered.before / "03_doubling (1).ipynb").read_bytes() == before
    assert len(list(answered.before.iterdir())) == 2


@pytest.mark.parametrize("number", ["99", "*"])
def test_refuses_a_lesson_that_is_not_there(course: Course, number: str) -> None:
    with pytest.raises(ValueError, match=r"there is no lesson .*: give the number of a lesson, such as 03"):
        copies.renew(number, course.notebooks, course.workspace)


def test_the_lesson_worked_in_last_is_found_again(course: Course) -> None:
    assert copies.last_worked_in(course.workspace) is None
    course.work(lambda cells: cells[1].update(RUN))
    other = course.workspace / "04_other.ipynb"
    other.write_text('{"cells": [], "metadata": {}}')
    os.utime(other, (2 * 10**9, 2 * 10**9))  # newer, and nobody has touched it
    assert copies.last_worked_in(course.workspace) == course.copy
    (course.workspace / "05_broken.ipynb").write_text("{")
    assert copies.last_worked_in(course.workspace) == course.copy
