"""A right answer is kept as text that runs by itself, and later lessons get it, judged anew."""

import math

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from torch import nn

from tests.course.workspace.conftest import run
from transformer_course import exercises
from transformer_course.exercises import exercise_titles, find
from transformer_course.lessons import NAMES
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


def text_of(*cells: str, name: str = "attention") -> str:
    names: dict = {"__name__": "__main__", "check": lambda id, answer: answer}
    for cell in cells:
        exec(cell, names)
    return saved_answers.self_contained(name, cells)


def test_an_answer_takes_along_what_it_needs_and_nothing_else() -> None:
    text = text_of(*CELLS)
    assert text == f"import math\n\n\nAXIS = -1\n\n\n{SOFT}\n\n\n{RIGHT}"
    names: dict = {}
    exec(text, names)
    query = torch.randn(3, 2)
    wanted = (query @ query.mT / math.sqrt(2)).softmax(-1)
    assert names["attention"](query, query, query)[1].allclose(wanted)


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (
            ["from torch.nn import functional as F", "f = F.softmax"],
            "from torch.nn import functional as F\n\n\nf",
        ),
        (["import torch, math as m", "def f(): return m.pi"], "import math as m\n\n\ndef f"),
        (["from torch import nn", "f = nn.GELU"], "from torch import nn\n\n\nf"),
        (["from torch import Tensor", "def f(x: Tensor): ..."], "from torch import Tensor\n"),
        (["def f(): return 1", "def f(): return 2", "f = check('03.2', f)"], "def f(): return 2\n"),
        (["import functools", "@functools.cache\ndef f(): ..."], "@functools.cache\ndef f(): ..."),
        (["def g(): return f\ndef f(): return g"], "def g(): return f\n"),
        (["class A: pass", "class f(A):\n    def g(self): return super()"], "class A: pass\n\n\nclass f(A):"),
        (["x, f = 1, 2"], "x, f = 1, 2\n"),
        (
            ["import torch", "x = torch.ones(3)", "def f(): return x"],
            "# It needs what only the lesson's cells have: x.\ndef f",
        ),
    ],
)
def test_whatever_an_answer_is_made_of(cells: list[str], wanted: str) -> None:
    found = text_of(*cells, name="f")
    assert wanted in found
    exec(found, {"__name__": "__main__"})


@pytest.mark.parametrize("cells", [[], ["def other(): ..."], ["%%time\ndef attention(): ..."]])
def test_an_answer_that_nobody_has_written_is_not_kept(cells: list[str]) -> None:
    assert saved_answers.self_contained("attention", cells) == ""


def test_local_names_are_not_taken_for_the_lessons() -> None:
    text = "def f(x, *, k=1):\n    y = [z for z in x]\n    def g(): return y\n    return g, len(y), k"
    assert saved_answers.needed_names(text) == set()


# --- in the notebook ---------------------------------------------------------------------------------------


def said(capsys: pytest.CaptureFixture) -> str:
    return capsys.readouterr().out


CHECK = 'attention = check("03.2", attention)'
MINE = 'attention = mine("03.2")'


def test_a_right_answer_is_kept_and_a_later_lesson_runs_on_it(
    shell: InteractiveShell, capsys: pytest.CaptureFixture
) -> None:
    run(shell, *CELLS, CHECK)
    assert saved_answers.solved() == {"03.2"}
    said(capsys)
    run(shell, "attention = None", MINE)
    assert said(capsys) == "✓ 03.2 correct.\n`attention` is your own.\n"
    assert shell.user_ns["attention"] is not find("03.2").reference
    assert shell.user_ns["attention"].__module__ == "__main__"


HANDED_BACK = "`d_head` is the reference at the moment: run the cell with your answer, then this one."
CHECK_00 = 'd_head = check("00.1", d_head)'


def of_00(capsys: pytest.CaptureFixture) -> list[str]:
    """The headlines of all that was said, and the line about what was handed back."""
    return [line for line in said(capsys).splitlines() if "00.1" in line or line == HANDED_BACK]


@pytest.mark.parametrize("first", ["d_head = 30", "d_head = ..."])
def test_what_check_handed_back_is_not_judged_as_an_answer(
    shell: InteractiveShell, capsys: pytest.CaptureFixture, first: str
) -> None:
    run(shell, first, CHECK_00)
    said(capsys)
    run(shell, CHECK_00, "print(d_head)", CHECK_00)
    assert of_00(capsys) == ["○ 00.1 not attempted.", HANDED_BACK] * 2
    run(shell, first, CHECK_00)
    assert of_00(capsys)[-1:] != [HANDED_BACK]
    assert saved_answers.solved() == set()


def test_a_right_answer_is_kept_however_often_it_is_checked(
    shell: InteractiveShell, capsys: pytest.CaptureFixture
) -> None:
    run(shell, "d_head = 30", CHECK_00, CHECK_00, "d_head = 32", CHECK_00, CHECK_00)
    assert of_00(capsys)[-2:] == ["✓ 00.1 correct."] * 2
    run(shell, "d_head = 30", CHECK_00, CHECK_00)
    assert "d_head = 32" in saved_answers.answer_file("00.1").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "given",
    [
        f"d_head = 32\n{CHECK_00}",
        "if True:\n    d_head = 32",
        "d_head = 384 // 12\nd_heads",  # fails below it
        "get_ipython().run_cell_magic('time', '', 'd_head = 32')",
    ],
)
def test_an_answer_counts_however_its_cell_gives_it(
    shell: InteractiveShell, capsys: pytest.CaptureFixture, given: str
) -> None:
    run(shell, "d_head = ...", CHECK_00)
    shell.run_cell(given, store_history=True)
    said(capsys)
    run(shell, CHECK_00)
    assert of_00(capsys)[-1] == "✓ 00.1 correct."
    assert saved_answers.solved() == {"00.1"}


@pytest.mark.parametrize(
    "failing", ["undefined\nd_head = 384 // 12", "d_head = (\n    384\n    // n_heads\n)"]
)
def test_a_cell_that_fails_before_it_gives_an_answer_gives_none(
    shell: InteractiveShell, capsys: pytest.CaptureFixture, failing: str
) -> None:
    run(shell, "d_head = ...", CHECK_00)
    shell.run_cell(failing, store_history=True)
    said(capsys)
    run(shell, CHECK_00)
    assert of_00(capsys) == ["○ 00.1 not attempted.", HANDED_BACK]
    run(shell, "d_head = 32", CHECK_00)
    shell.run_cell(failing, store_history=True)
    run(shell, CHECK_00)
    assert of_00(capsys)[-1] == "✓ 00.1 correct."
    assert saved_answers.answer_file("00.1").read_text(encoding="utf-8").endswith("\nd_head = 32\n")


def test_a_cell_that_changes_what_was_handed_back_leaves_the_reference_as_it_is(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    exercise = find("00.1")
    monkeypatch.setattr(exercise, "reference", [3, 5])
    monkeypatch.setattr(exercise, "wanted", [[3, 5]])
    run(shell, "d_head = ...", CHECK_00, "d_head.append(7)", CHECK_00)
    assert exercise.reference == [3, 5]
    assert of_00(capsys)[-1].startswith("✗ 00.1 not yet")


def test_nothing_is_saved_or_looked_for_outside_the_learners_folder(
    shell: InteractiveShell, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic_files, "IN_WORKSPACE", False)
    run(shell, *CELLS, CHECK)
    assert saved_answers.solved() == set()
    saved_answers.answer_file("03.2").parent.mkdir()
    saved_answers.answer_file("03.2").write_text("raise SystemExit")
    said(capsys)
    run(shell, MINE)
    assert said(capsys) == "○ 03.2 not attempted.\n`attention` is the reference.\n"
    assert shell.user_ns["attention"] is find("03.2").reference


def test_another_right_answer_replaces_the_first_which_is_kept_beside(shell: InteractiveShell) -> None:
    run(shell, *CELLS, CHECK)
    first = saved_answers.answer_file("03.2").read_text(encoding="utf-8")
    run(shell, RIGHT.replace("soft(scores)", "scores.softmax(-1)"), CHECK, CHECK)
    assert "scores.softmax(-1)" in saved_answers.answer_file("03.2").read_text(encoding="utf-8")
    beside = saved_answers.answer_file("").parent / "before"
    assert [path.read_text(encoding="utf-8") for path in beside.iterdir()] == [first]
    assert saved_answers.solved() == {"03.2"}


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"def attention(query, key, value):\n    return query", "wrong structure"),
        (b"raise SystemExit", "SystemExit"),
        (b"\xff\xfe\x00", "UnicodeDecodeError"),
    ],
)
def test_a_kept_answer_that_is_not_right_any_more_is_told_and_the_reference_stands_in(
    data: bytes, named: str, shell: InteractiveShell, capsys: pytest.CaptureFixture
) -> None:
    place = saved_answers.answer_file("03.2")
    place.parent.mkdir()
    place.write_bytes(data)
    run(shell, MINE)
    told = said(capsys)
    assert told.startswith("✗ 03.2 not yet: ")
    assert named in told and "Your kept answer is not right any more" in told
    assert shell.user_ns["attention"] is find("03.2").reference
    assert place.read_bytes() == data


def test_a_disk_that_is_full_is_told_and_the_answer_is_right_all_the_same(
    shell: InteractiveShell, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files, "write", refuse)
    run(shell, *CELLS, CHECK)
    assert "It could not be kept for later lessons: No space left on device." in said(capsys)
    assert shell.user_ns["attention"] is not find("03.2").reference


def test_a_number_and_a_module_can_be_kept_and_taken_up(shell: InteractiveShell) -> None:
    run(shell, "d_head = 384 // 12", CHECK_00, 'taken = mine("00.1")')
    assert shell.user_ns["taken"] == 32
    exercise = find("07.3")
    run(shell, "from torch import nn", exercise.shown, f'{exercise.name} = check("07.3", {exercise.name})')
    run(shell, 'taken = mine("07.3")')
    assert saved_answers.solved() == {"00.1", "07.3"}
    assert issubclass(shell.user_ns["taken"], nn.Module)
    assert shell.user_ns["taken"] is not exercise.reference


# --- progress ------------------------------------------------------------------------------------------

IDS = exercises.exercise_ids()
ALL = len(IDS)
LAST = {id for id in IDS if id[:2] == f"{len(NAMES) - 1:02}"}  # those of the last lesson


def test_titles_are_those_of_the_exercises_and_all_may_be_solved() -> None:
    titles = exercise_titles()
    assert titles == {id: find(id).title for id in exercises.exercise_ids()}
    assert progress.summary(titles, set(titles)).endswith("All of them.")


@pytest.mark.parametrize(
    ("solved", "words"),
    [
        ({"03.1", "03.3"}, f"Solved: 2 of {ALL} exercises. Next: 03.2 "),
        (LAST, f"Solved: {len(LAST)} of {ALL} exercises. Next: 00.1 "),
        # 02.5 lies behind the summary
        ({"02.1", "02.2", "02.3"}, f"Solved: 3 of {ALL} exercises. Next: 02.4 "),
    ],
)
def test_progress_summary(solved: set[str], words: str) -> None:
    assert progress.summary(exercise_titles(), solved).startswith(words)


def test_progress_counts_what_is_saved_in_the_learners_folder_alone(
    shell: InteractiveShell, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(shell, *CELLS, CHECK)
    (saved_answers.answer_file("").parent / "99.9.py").write_text("")
    said(capsys)
    progress.progress()
    told = said(capsys)
    assert told.startswith(f"Solved: 1 of {ALL}") and told.count("■") == 1 and told.count("□") == ALL - 1
    assert "1 of 8" in next(line for line in told.splitlines() if "■" in line)
    monkeypatch.setattr(atomic_files, "IN_WORKSPACE", False)
    progress.progress()
    assert said(capsys).startswith(f"Solved: 0 of {ALL}")
