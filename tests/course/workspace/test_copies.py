"""A learner's copy is made, and merged with a newer lesson without losing a word of theirs."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ipykernel.ipkernel import IPythonKernel
from jupyter_client.manager import KernelManager

from transformer_course.workspace import atomic_files, copies

NAME = "03_doubling.ipynb"


def cell(id, source, kind="code", **more):
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
    "task": cell("task", STUB, metadata=TAGS),
    "end": cell("end", "## Summary", "markdown"),
}
TEXTS = {id: each["source"] for id, each in LESSON.items()}


# Merging


@st.composite
def edited(draw):
    """A lesson, a newer one, and the learner's copy of the first: each cell kept, changed or removed."""
    edits = st.sampled_from(["{}", "{}", "{} changed by {}", ""])
    base = [cell(id, f"text {id}") for id in "abcdef"]

    def edit(cells, who):
        texts = [draw(edits).format(each["source"], who) for each in cells]
        return [each | {"source": text} for each, text in zip(cells, texts, strict=True) if text]

    newer = draw(st.permutations([*edit(base, "the course"), cell("new", "text new")]))
    mine = edit(base, "the learner")
    for number, id in enumerate(draw(st.lists(st.sampled_from([None, "own", "a", "f", "new"]), max_size=4))):
        mine.insert(draw(st.integers(0, len(mine))), cell(id, f"the learner's {number}"))
    return base, newer, mine


@settings(deadline=None)
@given(edited())
def test_merging_keeps_what_the_learner_wrote_and_takes_everything_else(notebooks):
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


def merged(mine, newer):
    base = {each["id"]: copies.digest(each) for each in LESSON.values()}
    return {each["id"]: each for each in copies.merge(mine, base, newer)[0]}


def test_cells_of_ones_own_follow_theirs_when_the_course_moves_it():
    mine = [cell("mine-0", "first"), LESSON["title"], LESSON["hand"], cell("mine-1", "second"), LESSON["end"]]
    cells = merged(mine, [LESSON["title"], LESSON["end"], LESSON["hand"]])
    assert list(cells) == ["mine-0", "title", "end", "hand", "mine-1"]


def test_outputs_stay_with_the_text_that_made_them_and_tags_are_the_courses():
    mine = [LESSON["hand"], LESSON["task"] | RUN | {"source": ANSWER, "metadata": {"mine": 1}}]
    cells = merged(mine, [LESSON["hand"], LESSON["task"]])
    assert cells["hand"]["outputs"] and cells["task"]["outputs"]
    assert cells["task"]["metadata"] == TAGS | {"mine": 1}
    cells = merged(mine, [LESSON["hand"] | {"source": "print(5 + 5)"}])
    assert (cells["hand"]["outputs"], cells["hand"]["execution_count"]) == ([], None)


# Files


class Course:
    """A folder of shipped lessons, and a learner's copy."""

    def __init__(self, folder):
        self.notebooks, self.workspace = folder / "notebooks", folder / "my_lessons"
        self.notebooks.mkdir(parents=True)
        self.copy, self.before = self.workspace / NAME, self.workspace / "before"
        self.ship()
        assert self.update() == ["03 copied."]

    def ship(self, **texts):
        cells = [each | {"source": texts.get(id, each["source"])} for id, each in LESSON.items()]
        lesson = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (self.notebooks / NAME).write_text(json.dumps(lesson), encoding="utf-8")

    def update(self):
        return list(copies.update(self.notebooks, self.workspace))

    def renew(self, number="03"):
        return copies.renew(number, self.notebooks, self.workspace)

    def work(self, change):
        """Change the copy's cells, as an editor does."""
        notebook = json.loads(self.copy.read_text(encoding="utf-8"))
        change(notebook["cells"])
        self.copy.write_text(json.dumps(notebook), encoding="utf-8")

    def answer(self):
        self.work(lambda cells: cells[2].update(source=ANSWER))

    def sources(self):
        """The texts of the copy's cells by their ids, in order; it is a notebook that JupyterLab opens."""
        notebook = json.loads(self.copy.read_text(encoding="utf-8"))
        nbformat.validate(notebook)
        return {each["id"]: "".join(each["source"]) for each in notebook["cells"]}


@pytest.fixture
def course(tmp_path):
    return Course(tmp_path)


@pytest.fixture
def answered(course):
    course.answer()
    return course


def test_a_copy_has_the_same_cells_and_no_outputs(course):
    assert course.sources() == TEXTS
    cells = copies.read(course.copy)["cells"]
    assert not any(each.get("outputs") or each.get("execution_count") for each in cells)
    assert cells[2]["metadata"] == TAGS


def test_a_new_copy_describes_the_kernel_as_the_kernel_does(course):
    """JupyterLab writes this into a notebook that it opens, and an equal description is no change to save."""
    told = KernelManager()
    told.start_kernel()
    client = told.blocking_client()
    client.start_channels()
    said = client.kernel_info(reply=True, timeout=60)["content"]["language_info"]
    client.stop_channels()
    told.shutdown_kernel(now=True)
    course.copy.unlink()
    assert list(copies.update(course.notebooks, course.workspace, IPythonKernel.language_info)) == [
        "03 copied."
    ]
    assert copies.read(course.copy)["metadata"]["language_info"] == said


def test_a_lesson_that_is_not_newer_is_left_to_the_last_byte(answered):
    before = answered.copy.read_bytes()
    assert answered.update() == []
    assert answered.copy.read_bytes() == before and not answered.before.exists()


def test_a_newer_lesson_is_merged_and_the_copy_keeps_its_time(answered):
    os.utime(answered.copy, (10**9, 10**9))
    answered.ship(end="## The end")
    assert answered.update() == ["03 updated; your changes are kept."]
    assert answered.sources() == TEXTS | {"task": ANSWER, "end": "## The end"}
    assert answered.copy.stat().st_mtime == 10**9
    answered.ship(task="def double(x, times): ...", end="## The end")
    notes = "Notes show the course's new version of cells that you changed."
    assert answered.update() == [f"03 updated; your changes are kept. {notes}"]
    assert answered.sources()["task"] == ANSWER
    assert "def double(x, times)" in "".join(answered.sources().values())
    assert answered.update() == []


def test_however_many_updates_one_copy_is_kept_beside(answered):
    for number in range(3):
        before = answered.copy.read_bytes()
        answered.ship(hand=f"print({number})")
        answered.update()
    assert [path.read_bytes() for path in answered.before.iterdir()] == [before]


def test_a_shipped_lesson_that_was_worked_in_is_laid_among_the_copies(course):
    course.copy.write_bytes((course.notebooks / NAME).read_bytes())
    course.answer()
    course.ship(hand="print(5 + 5)")
    course.update()
    texts = course.sources()
    assert (texts["task"], texts["hand"]) == (ANSWER, "print(3 + 3)")
    assert STUB not in texts.values() and "print(5 + 5)" in "".join(texts.values())


def test_line_ends_do_not_count_as_changes(course):
    course.work(lambda cells: cells[2].update(source=STUB.replace("\n", "\r\n")))
    course.ship(task="double = ...")
    course.update()
    assert course.sources()["task"] == "double = ..."


def test_words_of_any_script_and_half_a_character(course):
    course.work(lambda cells: cells.append(cell("0b5c7f1e", "# 你好 ☃ مرحبا \ud83d")))
    course.ship(end="## The end")
    course.update()
    assert "# 你好 ☃ مرحبا \ud83d" in course.sources().values()


def test_a_copy_or_a_lesson_that_cannot_be_merged_leaves_the_copy_alone(answered):
    answered.work(lambda cells: [each.pop("id") for each in cells])
    before = answered.copy.read_bytes()
    answered.ship(end="## The end")
    (without_ids,) = answered.update()
    assert without_ids.startswith("03 cannot be merged with the newer lesson: its cells have no ids")
    (answered.notebooks / NAME).write_text("<<<<<<< HEAD", encoding="utf-8")
    (unreadable,) = answered.update()
    assert unreadable.startswith("03 cannot be read: the course's file is damaged.")
    assert answered.copy.read_bytes() == before


NO_NOTEBOOKS = [b"", b"\x89PNG", b'{"cells": [5], "metadata": {}}', b'{"cells": [], "metadata": []}', b"{}"]


@pytest.mark.parametrize("data", NO_NOTEBOOKS)
def test_a_file_that_is_no_notebook_is_set_aside_and_named(course, data):
    course.copy.write_bytes(data)
    assert course.update() == [
        "03 could not be read. Your file is now before/03_doubling (1).ipynb, and a new copy replaces it."
    ]
    assert (course.before / "03_doubling (1).ipynb").read_bytes() == data
    assert course.sources() == TEXTS


def test_a_copy_that_is_a_link_stays_one(answered, tmp_path):
    elsewhere = answered.copy.rename(tmp_path / "elsewhere.ipynb")
    answered.copy.symlink_to(elsewhere)
    answered.ship(end="## The end")
    answered.update()
    assert answered.copy.is_symlink() and not elsewhere.is_symlink()
    assert answered.sources() == TEXTS | {"task": ANSWER, "end": "## The end"}


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


def worked_and_merged(course):
    return course.sources() == TEXTS | {"task": ANSWER, "hand": "print(5 + 5)"}


def test_killed_at_every_step(tmp_path):
    """The process dies before each change, and with each file half written; then a whole run follows."""
    for step in range(100):
        course = Course(tmp_path / str(step))
        course.answer()
        course.ship(hand="print(5 + 5)")
        program = [sys.executable, "-c", PROGRAM, course.notebooks, course.workspace, str(step)]
        run = subprocess.run(program, capture_output=True, text=True)
        assert run.returncode in (0, 9), run.stderr
        assert course.sources()["task"] == ANSWER  # whole, the old one or the new one
        course.update()
        assert worked_and_merged(course)
        assert not list(course.workspace.rglob(f"*{atomic_files.UNFINISHED}"))
        if run.returncode == 0:
            break
    assert 4 < step < 99  # it was killed now and then, and came through in the end


@pytest.mark.parametrize("refused", ["open", "replace"])
def test_a_full_disk_or_a_read_only_folder(answered, refused, monkeypatch):
    before, real = answered.copy.read_bytes(), getattr(Path, refused)
    answered.ship(hand="print(5 + 5)")

    def refuse(*args, **kwargs):
        if refused == "open" and "wb" not in args:
            return real(*args, **kwargs)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, refused, refuse)
        assert answered.update() == [
            "03 could not be updated (No space left on device). Your copy is unchanged."
        ]
    assert answered.copy.read_bytes() == before
    answered.update()
    assert worked_and_merged(answered)


def test_saved_by_jupyterlab_in_the_same_moment(course, monkeypatch):
    merge = copies.merge

    def save_meanwhile(*args):
        course.answer()
        return merge(*args)

    course.ship(hand="print(5 + 5)")
    with monkeypatch.context() as patch:
        patch.setattr(copies, "merge", save_meanwhile)
        assert course.update() == ["03 is being saved by another program. It will be updated the next time."]
    course.update()
    assert worked_and_merged(course)


def test_two_updates_at_once(answered):
    answered.ship(hand="print(5 + 5)")
    program = [sys.executable, "-c", PROGRAM, answered.notebooks, answered.workspace, "1000"]
    both = [subprocess.Popen(program) for _ in range(2)]
    assert [each.wait() for each in both] == [0, 0]
    assert worked_and_merged(answered)


# A new copy on demand, and where one left off


def test_a_new_copy_sets_the_old_one_aside(answered):
    before = answered.copy.read_bytes()
    assert answered.renew() == "Your copy of lesson 03 is now before/03_doubling (1).ipynb."
    assert answered.renew() == "There is no copy of lesson 03 yet."
    answered.update()
    assert answered.sources() == TEXTS
    for _ in range(2):  # a copy in which nothing is new is set aside once
        answered.renew()
        answered.update()
    assert (answered.before / "03_doubling (1).ipynb").read_bytes() == before
    assert len(list(answered.before.iterdir())) == 2


@pytest.mark.parametrize("number", ["99", "*"])
def test_refuses_a_lesson_that_is_not_there(course, number):
    with pytest.raises(ValueError, match=r"there is no lesson .*: give the number of a lesson, such as 03"):
        course.renew(number)


def test_the_lesson_worked_in_last_is_found_again(course):
    assert copies.last_worked_in(course.workspace) is None
    course.work(lambda cells: cells[1].update(RUN))
    other = course.workspace / "04_other.ipynb"
    other.write_text('{"cells": [], "metadata": {}}')
    os.utime(other, (2 * 10**9, 2 * 10**9))  # newer, and nobody has touched it
    (course.workspace / "05_broken.ipynb").write_text("{")
    assert copies.last_worked_in(course.workspace) == course.copy
