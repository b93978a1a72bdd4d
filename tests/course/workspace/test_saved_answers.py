"""A right answer is kept as text that runs by itself, and later lessons get it, judged anew."""

import math
import re
from urllib.parse import unquote

import pytest
import torch
from torch import nn

from transformer_course.exercises import exercise_titles, find
from transformer_course.lessons import ROOT
from transformer_course.workspace import atomic_files, progress, saved_answers

RIGHT = """\
def attention(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = soft(scores)
    return weights @ value, weights
"""
SOFT = "def soft(scores):\n    return scores.softmax(dim=AXIS)"
CELLS = ["import math\nimport torch", "AXIS = -1", SOFT, "x = torch.randn(3, 2)", RIGHT]


# --- as text -------------------------------------------------------------------------------------------


def test_an_answer_takes_along_what_it_needs_and_nothing_else():
    text = saved_answers.self_contained("attention", CELLS)
    assert text == f"import math\n\n\nAXIS = -1\n\n\n{SOFT}\n\n\n{RIGHT}"
    names = {}
    exec(text, names)
    query = torch.randn(3, 2)
    wanted = (query @ query.mT / math.sqrt(2)).softmax(-1)
    torch.testing.assert_close(names["attention"](query, query, query)[1], wanted)


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (["from os import path as p", "f = p.join"], "from os import path as p\n\n\nf"),
        (["import torch, math as m", "def f(): return m.pi"], "import math as m\n\n\ndef f"),
        (["from torch import Tensor", "def f(x: Tensor): ..."], "from torch import Tensor\n"),
        (["def f(): return 1", "def f(): return 2", "f = check('03.2', f)"], "def f(): return 2\n"),
        (["import functools", "@functools.cache\ndef f(): ..."], "@functools.cache\ndef f(): ..."),
        (["def g(): return f\ndef f(): return g"], "def g(): return f\n"),
        (["class A: pass", "class f(A):\n    def g(self): return super()"], "class A: pass\n\n\nclass f(A):"),
        (["x, f = 1, 2"], "x, f = 1, 2\n"),
        (["x = int(3)", "def f(): return x"], "# Defined only in the lesson's cells: x.\ndef f"),
    ],
)  # fmt: skip
def test_whatever_an_answer_is_made_of(cells, wanted):
    text = saved_answers.self_contained("f", cells)
    assert wanted in text
    exec(text, {"__name__": "__main__"})


@pytest.mark.parametrize("cells", [[], ["def other(): ..."], ["%%time\ndef attention(): ..."]])
def test_an_answer_that_nobody_has_written_is_not_kept(cells):
    assert saved_answers.self_contained("attention", cells) == ""


def test_local_names_are_not_taken_for_the_lessons():
    text = "def f(x, *, k=1):\n    y = [z for z in x]\n    def g(): return y\n    return g, len(y), k"
    assert saved_answers.needed_names(text) == set()


# --- in the notebook -----------------------------------------------------------------------------------

CHECK, CHECK_00 = 'attention = check("03.2", attention)', 'd_head = check("00.1", d_head)'
MINE = 'attention = mine("03.2")'
HANDED_BACK = "`d_head` is still the reference solution. Run the cell with your answer first, then this one."


def kept(id):
    return saved_answers.answer_file(id).read_text(encoding="utf-8")


def set_aside():
    return [
        path.read_text(encoding="utf-8") for path in saved_answers.answer_file("").parent.glob("before/*")
    ]


def headlines(said):
    """The verdicts on 00.1, and the line about what was handed back."""
    return [line for line in said.splitlines() if "00.1" in line or line == HANDED_BACK]


def test_a_right_answer_is_kept_and_a_later_lesson_runs_on_it(notebook):
    notebook.run(*CELLS, CHECK)
    assert saved_answers.solved() == {"03.2"}
    assert notebook.run("attention = None", MINE) == "✓ 03.2 correct.\n`attention` is your own.\n"
    assert notebook.names["attention"] is not find("03.2").reference
    assert notebook.names["attention"].__module__ == "__main__"


@pytest.mark.parametrize("first", ["d_head = 30", "d_head = ..."])
def test_what_check_handed_back_is_not_judged_as_an_answer(notebook, first):
    notebook.run(first, CHECK_00)
    again = notebook.run(CHECK_00, "print(d_head)", CHECK_00)
    assert headlines(again) == ["○ 00.1 not attempted.", HANDED_BACK] * 2
    assert HANDED_BACK not in notebook.run(first, CHECK_00)
    assert saved_answers.solved() == set()


def test_a_right_answer_is_kept_however_often_it_is_checked(notebook):
    said = notebook.run("d_head = 30", CHECK_00, CHECK_00, "d_head = 32", CHECK_00, CHECK_00)
    assert headlines(said)[-2:] == ["✓ 00.1 correct."] * 2
    notebook.run("d_head = 30", CHECK_00, CHECK_00)
    assert "d_head = 32" in kept("00.1")


@pytest.mark.parametrize(
    ("given", "fails"),
    [
        (f"d_head = 32\n{CHECK_00}", False),
        ("if True:\n    d_head = 32", False),
        ("d_head = 384 // 12\nd_heads", True),  # below it
        ("get_ipython().run_cell_magic('time', '', 'd_head = 32')", False),
    ],
)
def test_an_answer_counts_however_its_cell_gives_it(notebook, given, fails):
    notebook.run("d_head = ...", CHECK_00)
    notebook.run(given, fails=fails)
    assert headlines(notebook.run(CHECK_00)) == ["✓ 00.1 correct."]
    assert saved_answers.solved() == {"00.1"}


@pytest.mark.parametrize(
    "failing", ["undefined\nd_head = 384 // 12", "d_head = (\n    384\n    // n_heads\n)"]
)
def test_a_cell_that_fails_before_it_gives_an_answer_gives_none(notebook, failing):
    notebook.run("d_head = ...", CHECK_00)
    notebook.run(failing, fails=True)
    assert headlines(notebook.run(CHECK_00)) == ["○ 00.1 not attempted.", HANDED_BACK]
    notebook.run("d_head = 32", CHECK_00)
    notebook.run(failing, fails=True)
    assert headlines(notebook.run(CHECK_00)) == ["✓ 00.1 correct."]
    assert kept("00.1").endswith("\nd_head = 32\n")


def test_a_cell_that_changes_what_was_handed_back_leaves_the_reference_as_it_is(notebook, monkeypatch):
    exercise = find("00.1")
    monkeypatch.setattr(exercise, "reference", [3, 5])
    monkeypatch.setattr(exercise, "wanted", [[3, 5]])
    said = notebook.run("d_head = ...", CHECK_00, "d_head.append(7)", CHECK_00)
    assert exercise.reference == [3, 5]
    assert headlines(said)[-1].startswith("✗ 00.1 not yet")


def test_nothing_is_saved_or_looked_for_outside_the_learners_folder(notebook, monkeypatch):
    monkeypatch.setattr(atomic_files, "IN_WORKSPACE", False)
    notebook.run(*CELLS, CHECK)
    assert saved_answers.solved() == set()
    saved_answers.answer_file("03.2").parent.mkdir()
    saved_answers.answer_file("03.2").write_text("raise SystemExit")
    assert notebook.run(MINE) == "○ 03.2 not attempted.\n`attention` is the reference.\n"
    assert notebook.names["attention"] is find("03.2").reference


def test_another_right_answer_replaces_the_first_which_is_kept_beside(notebook):
    notebook.run(*CELLS, CHECK)
    first = kept("03.2")
    notebook.run(RIGHT.replace("soft(scores)", "scores.softmax(-1)"), CHECK, CHECK)
    assert "scores.softmax(-1)" in kept("03.2")
    assert set_aside() == [first]
    assert saved_answers.solved() == {"03.2"}


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"def attention(query, key, value):\n    return query", "wrong structure"),
        (b"raise SystemExit", "SystemExit"),
        (b"\xff\xfe\x00", "UnicodeDecodeError"),
    ],
)
def test_a_kept_answer_that_is_not_right_any_more_is_told_and_the_reference_stands_in(notebook, data, named):
    place = saved_answers.answer_file("03.2")
    place.parent.mkdir()
    place.write_bytes(data)
    said = notebook.run(MINE)
    assert said.startswith("✗ 03.2 not yet: ")
    assert named in said and "Your kept answer is not right any more" in said
    assert notebook.names["attention"] is find("03.2").reference
    assert place.read_bytes() == data


def test_a_disk_that_is_full_is_told_and_the_answer_is_right_all_the_same(notebook, monkeypatch):
    def refuse(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files, "write", refuse)
    said = notebook.run(*CELLS, CHECK)
    assert "It could not be kept for later lessons: No space left on device." in said
    assert notebook.names["attention"] is not find("03.2").reference


def test_a_number_and_a_module_can_be_kept_and_taken_up(notebook):
    layer = find("07.3")
    notebook.run("d_head = 384 // 12", CHECK_00, layer.shown, f'check("07.3", {layer.name})')
    notebook.run('number, module = mine("00.1"), mine("07.3")')
    assert saved_answers.solved() == {"00.1", "07.3"}
    assert notebook.names["number"] == 32
    assert issubclass(notebook.names["module"], nn.Module)
    assert notebook.names["module"] is not layer.reference


# --- progress ------------------------------------------------------------------------------------------

TITLES = exercise_titles()
ALL, PATH = len(TITLES), exercise_titles(only_path=True)


@pytest.mark.parametrize(
    ("solved", "id"),
    [
        ({"03.1", "03.3"}, "03.4"),  # not 03.2, which was skipped
        ({"03.1", "03.2", "03.3", "03.4", "03.5"}, "04.1"),  # 03.6 is in Deeper
        ({"03.7"}, "00.1"),
        (set(PATH) - {"02.4"}, "02.4"),
        (set(PATH), ""),
    ],
)
def test_the_next_exercise_is_on_the_path(solved, id):
    assert progress.upcoming(solved) == id


def test_the_link_to_the_next_exercise_leads_to_a_cell():
    for id in PATH:
        link = progress._next(set(PATH) - {id}).markdown
        file, cell = re.search(r"\]\((.*)#cell-id=(.*)\)", link).groups()
        text = (ROOT / "notebooks" / file).read_text(encoding="utf-8")
        assert f'"id": "{cell}"' in text
        if id != "00.1":  # within its lesson, to the heading
            here = progress._next(set(PATH) - {id}, int(id[:2])).markdown
            heading = unquote(re.search(r"\]\(.*#(.*)\)", here)[1])
            assert heading in text.replace(" ", "-")


def test_at_the_end_of_a_lesson_its_first_exercise_is_next_if_none_is_solved():
    assert progress.upcoming(set(), lesson=12) == "12.1" and progress.upcoming({"00.1"}, lesson=12) == "01.1"


def test_progress_counts_what_is_saved_in_the_learners_folder_alone(notebook, monkeypatch):
    show = "from transformer_course.workspace.progress import progress\nprogress({})"
    notebook.run(*CELLS, CHECK)
    saved_answers.answer_file("99.9").write_text("")
    said = notebook.run(show.format(""))
    assert said.startswith(f"Solved: 1 of {len(PATH)} exercises on the path, and 0 of {ALL - len(PATH)} in")
    assert said.count("■") == 1 and said.count("□") == ALL - 1
    assert "□■□□□ 1 of 5" in next(line for line in said.splitlines() if "■" in line)
    said = notebook.run(show.format(3))
    assert "1 of 5 exercises on this lesson's path □■□□□, and 0 of 3 in Deeper □□□.\nNext: 03.3 " in said
    monkeypatch.setattr(atomic_files, "IN_WORKSPACE", False)
    assert notebook.run(show.format("")).startswith(f"Solved: 0 of {len(PATH)}")
