"""A learner's predictions: kept, shown above the result, and no trouble for anybody who writes none."""

import pytest

from transformer_course.workspace import atomic_files, predictions

RESULT = 'print("the cat")'


@pytest.fixture
def lesson(notebook):
    predictions.watch(notebook.shell, 3)
    predictions.watch(notebook.shell, 3)  # the first cell was run again
    yield notebook
    predictions._open, predictions._shown = "", {}


def predict(lesson, text):
    """Run the place for a prediction as JupyterLab does."""
    result = lesson.shell.run_cell(f"{predictions.PLACE}{text}", store_history=True, cell_id="predict-hand")
    assert result.success
    assert lesson.capsys.readouterr().out == ""


@pytest.mark.parametrize("text", [" cat, isn't it?", "\ncat, isn't it?", "\n\ncat, isn't it?\nOr *sat*.\n"])
def test_a_prediction_is_shown_above_its_result_and_kept(lesson, text):
    predict(lesson, text)
    assert lesson.run("x = 2", "def f(): ...", "draw = print") == ""
    assert lesson.run(RESULT) == f"You predicted: {text.strip()}\nthe cat\n"
    assert lesson.run("print(2)") == "2\n"
    assert lesson.run(RESULT).startswith("You predicted: ")  # run once more
    kept = atomic_files.WORKSPACE / "predictions" / "03-predict-hand.txt"
    assert kept.read_text() == text.strip()


def test_an_empty_place_does_nothing_but_recall_a_kept_prediction(lesson):
    predict(lesson, "")
    assert lesson.run(RESULT) == "the cat\n"
    predict(lesson, " cat")
    predict(lesson, " dog")
    predict(lesson, "")  # in a new copy of the lesson
    assert lesson.run(RESULT) == "You predicted: dog\nthe cat\n"
    before = atomic_files.WORKSPACE / "predictions" / "before" / "03-predict-hand (1).txt"
    assert before.read_text() == "cat"


def test_elsewhere_than_in_the_learners_folder_nothing_is_written(lesson, monkeypatch):
    monkeypatch.setattr(atomic_files, "IN_WORKSPACE", False)
    predict(lesson, " cat")
    assert lesson.run(RESULT).startswith("You predicted: cat")
    assert not (atomic_files.WORKSPACE / "predictions").exists()
