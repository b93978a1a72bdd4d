"""A learner's predictions: kept, shown above the result, and no trouble for anybody who writes none."""

import pytest

from transformer_course.workspace import atomic_files, predictions

RESULT = 'print("the cat")'


@pytest.fixture
def lesson(notebook):
    predictions.watch(notebook.shell, 3)
    predictions.watch(notebook.shell, 3)  # the first cell was run again
    yield notebook
    predictions._open, predictions._shown, predictions._noted = "", {}, set()


def predict(lesson, text, cell_id="predict-mine"):
    """Run the place for a prediction as JupyterLab does."""
    result = lesson.shell.run_cell(f"{predictions.PLACE}{text}", store_history=True, cell_id=cell_id)
    assert result.success
    assert lesson.capsys.readouterr().out == ""


def run(lesson, code, cell_id):
    """Run a cell with an id, and return what it prints."""
    lesson.shell.run_cell(code, store_history=True, cell_id=cell_id)
    return lesson.capsys.readouterr().out


def test_a_prediction_is_shown_above_its_own_result_only(lesson):
    predict(lesson, " four times\n# as long", "predict-hand")
    assert run(lesson, RESULT, "see") == "the cat\n"  # a look back
    assert run(lesson, RESULT, "hand-loops") == "You predicted: four times\nas long\nthe cat\n"
    assert run(lesson, "print(1)  # changed", "hand-loops").startswith("You predicted: four")


def test_a_prediction_before_the_lessons_first_cell_is_shown_but_not_kept(lesson):
    predictions.watch(lesson.shell)
    predict(lesson, "\nisn't it the cat?")
    assert lesson.run(RESULT).startswith("You predicted: isn't it")
    assert not (atomic_files.WORKSPACE / "predictions").exists()


@pytest.mark.parametrize("text", [" cat, isn't it?", "\ncat, isn't it?", "\n\ncat, isn't it?\nOr *sat*.\n"])
def test_a_prediction_is_shown_above_its_result_and_kept(lesson, text):
    predict(lesson, text)
    assert lesson.run("x = 2", "def f(): ...", "draw = print") == ""
    assert lesson.run(RESULT) == f"You predicted: {text.strip()}\nthe cat\n"
    assert lesson.run("print(2)") == "2\n"
    assert lesson.run(RESULT).startswith("You predicted: ")  # run once more
    kept = atomic_files.WORKSPACE / "predictions" / "03-predict-mine.txt"
    assert kept.read_text() == text.strip()


def test_an_empty_place_recalls_a_kept_prediction_unless_it_was_taken_back(lesson):
    for text in ("", " dog", ""):
        predict(lesson, text, "predict-hand")
        shown = "You predicted: dog\n" if text else ""
        assert run(lesson, RESULT, "hand-loops") == f"{shown}the cat\n"
    for text in (" cat", " dog"):
        predict(lesson, text, "predict-hand")
    predictions._noted.clear()  # another day, in a new copy of the lesson
    predict(lesson, "", "predict-hand")
    assert run(lesson, RESULT, "hand-loops") == "You predicted: dog\nthe cat\n"
    before = atomic_files.WORKSPACE / "predictions" / "before" / "03-predict-hand (2).txt"
    assert before.read_text() == "cat"


def test_elsewhere_than_in_the_learners_folder_nothing_is_written(lesson, monkeypatch):
    monkeypatch.setattr(atomic_files, "IN_WORKSPACE", False)
    predict(lesson, " cat")
    assert lesson.run(RESULT).startswith("You predicted: cat")
    assert not (atomic_files.WORKSPACE / "predictions").exists()
