"""The cells that the author commands write satisfy the rules."""

from types import SimpleNamespace

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.gate import lint_exercises
from tests.gate.notebook_io import tags
from tools import author


def test_an_exercises_cells_are_put_in_and_brought_up_to_date() -> None:
    names = {
        "write": "## Write it",
        "see": "## See your code at work",
        "deeper": "## Deeper",
        "more": "### More",
    }
    notebook = new_notebook(cells=[new_markdown_cell(text, id=id) for id, text in names.items()])
    assert "write the task in the cell exercise-03-1-task" in author.put_exercise("03.1", notebook)
    author.put_exercise("03.2", notebook, "more")
    first = ["exercise-03-1-task", "exercise-03-1", "check-03-1", "help-03-1"]
    assert [cell.id for cell in notebook.cells[:8]] == ["write", *first, "see", "deeper", "more"]
    assert [tags(cell) for cell in notebook.cells[2:4]] == [["exercise:03.1"], ["check:03.1"]]
    # In Deeper, an exercise is part of a section, so its heading is one level lower.
    assert notebook.cells[8].source.startswith("#### 03.2 Write scaled dot-product attention\n")
    assert author.put_exercise("03.1", notebook) == "is as declared"

    task, stub = notebook.cells[1:3]
    written = task.source
    task.source, stub.source = written.replace("Compute the scaled scores", "Another title"), "changed"
    assert author.put_exercise("03.1", notebook) == "brought up to date: exercise-03-1, exercise-03-1-task"
    assert "raise NotImplementedError" in stub.source and task.source == written


def mistakes(names: str, effect: str = "It does something else than it should, and nobody sees it.") -> list:
    return [SimpleNamespace(name=name, effect=effect, cure="Mend it.") for name in names]


WHOLE = {"hints": ["", ""], "mistakes": mistakes("abc"), "stub": "x = ...", "shown": "x = 3"}
FAULTS = {
    "give it 2 or 3 hints": {"hints": [""]},
    "knows 2 mistakes; describe at least 3": {"mistakes": mistakes("ab")},
    "more than 24 lines": {"shown": "x\n" * 25},
    "a line of 108 characters": {"stub": "x" * 108},
    "its task must tell of einsum": {"forbidden": ("einsum",)},
    "its task must tell of task": {"forbidden": ("task",)},  # the task mentions it, but does not forbid it
    "asks for gradients, the stub does not": {"gradients": True},
    "two texts": {"mistakes": mistakes("abc") + mistakes("c", "Other words." * 5)},
    "say what it does": {"mistakes": mistakes("abc", "Short.")},
    "ends in a full stop": {"mistakes": mistakes("abc", "No end " * 9)},
    "a backtick too many": {"mistakes": mistakes("abc", "One `backtick. " * 4 + "`One.")},
    "as asterisks": {"mistakes": mistakes("abc", "Some *emphasis*. " * 4 + "All.")},
}


@pytest.mark.parametrize("named", ["", *FAULTS])
def test_an_author_is_told_what_an_exercise_lacks(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exercise = SimpleNamespace(**({"forbidden": (), "gradients": False} | WHOLE | FAULTS.get(named, {})))
    monkeypatch.setattr(lint_exercises, "find", lambda id: exercise)
    task = new_markdown_cell("### 03.1 T\n\nA task.", id="task")
    stub = new_code_cell("x = ...", id="exercise", metadata={"tags": ["exercise:03.1"]})
    lesson = SimpleNamespace(notebook=new_notebook(cells=[task, stub]))
    complaints = list(lint_exercises.of_exercise("03.1", lesson))
    assert bool(complaints) == bool(named)
    assert named in " ".join(complaints)
