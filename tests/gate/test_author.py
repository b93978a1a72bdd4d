"""What the author's commands write is what the rules want."""

from types import SimpleNamespace

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.gate import lint_exercises, lint_notebooks
from tools import author


def test_an_exercises_cells_are_put_in_and_brought_up_to_date() -> None:
    notebook = new_notebook(cells=[new_markdown_cell("## See it, yours", id="see")])
    assert "write the task in the cell exercise-03-1-task" in author.put_exercise("03.1", notebook)
    names = [cell.id for cell in notebook.cells]
    assert names == ["exercise-03-1-task", "exercise-03-1", "check-03-1", "help-03-1", "see"]
    assert [lint_notebooks.tags(cell) for cell in notebook.cells[1:3]] == [["exercise:03.1"], ["check:03.1"]]
    assert author.put_exercise("03.1", notebook) == "is as declared"
    notebook.cells[1].source = "changed"
    assert author.put_exercise("03.1", notebook) == "brought up to date: exercise-03-1"
    assert "raise NotImplementedError" in notebook.cells[1].source
    task = notebook.cells[0].source
    notebook.cells[0].source = task.replace("### 03.1 Compute the scaled scores", "## 03.1 Another title")
    author.put_exercise("03.1", notebook)
    assert notebook.cells[0].source.lstrip("#") == task.lstrip("#")


def test_an_exercise_goes_behind_a_named_cell_and_in_deeper_has_a_heading_of_its_section() -> None:
    names = {"write": "## Write it", "see": "## See it, yours", "deeper": "## Deeper", "more": "### More"}
    notebook = new_notebook(cells=[new_markdown_cell(text, id=id) for id, text in names.items()])
    author.put_exercise("03.1", notebook, "more")
    author.put_exercise("03.2", notebook, "write")
    headings = [cell.source.partition("\n")[0] for cell in notebook.cells]
    assert headings[-4] == "#### 03.1 Compute the scaled scores"
    assert headings[1] == "### 03.2 Write scaled dot-product attention"


def test_an_author_is_told_of_the_lesson_its_terms_and_its_exercises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lint_notebooks, "ALL", [lambda lesson: ["a rule"]])
    monkeypatch.setattr(lint_exercises.glossary, "complaints", lambda lesson: ["a term"])
    monkeypatch.setattr(lint_exercises, "of_exercise", lambda id, lesson: [id])
    cell = new_code_cell("", metadata={"tags": ["exercise:03.1"]})
    lesson = SimpleNamespace(notebook=new_notebook(cells=[cell]))
    assert list(lint_exercises.complaints(lesson)) == ["a rule", "a term", "03.1"]


def mistake(name: str, effect: str = "It does something else than it should, and nobody sees it.") -> object:
    return SimpleNamespace(name=name, effect=effect, cure="Mend it.")


def flawed(**changes: object) -> SimpleNamespace:
    """An exercise that lacks nothing, but for what is changed."""
    mistakes = [mistake(name) for name in "abc"]
    whole = {"hints": ["", ""], "mistakes": mistakes, "stub": "x = ..."}
    return SimpleNamespace(**(whole | {"shown": "x = 3", "forbidden": (), "gradients": False} | changes))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        ({"hints": [""]}, "give it 2 or 3 hints"),
        ({"mistakes": [mistake("a"), mistake("b")]}, "knows 2 mistakes; describe at least 3"),
        ({"shown": "x\n" * 25}, "more than 24 lines"),
        ({"stub": "x" * 108}, "a line of 108 characters"),
        ({"forbidden": ("einsum",)}, "its task must tell of einsum"),
        ({"gradients": True}, "asks for gradients, the stub does not"),
        ({"forbidden": ("task",)}, "its task must tell of task"),  # it does, but not that it is not allowed
        ({"mistakes": [*map(mistake, "abcc"), mistake("c", "Other words." * 5)]}, "two texts"),
        *(
            ({"mistakes": [*map(mistake, "abc"), mistake("d", effect)]}, told)
            for effect, told in {
                "Short.": "say what it does",
                "Long. " * 60: "characters, at most 340",
                "No end " * 9: "ends in a full stop",
                "One `backtick. " * 4 + "`One.": "a backtick too many",
                "Some *emphasis*. " * 4 + "All.": "as asterisks",
            }.items()
        ),
    ],
)
def test_an_author_is_told_what_an_exercise_lacks(
    changes: dict, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lint_exercises, "find", lambda id: flawed(**changes))
    cells = [
        new_markdown_cell("### 03.1 T\n\nA task.", id="task"),
        new_code_cell("x = ...", id="exercise", metadata={"tags": ["exercise:03.1"]}),
    ]
    lesson = SimpleNamespace(notebook=new_notebook(cells=cells))
    complaints = list(lint_exercises.of_exercise("03.1", lesson))
    assert bool(complaints) == bool(told)
    assert told in " ".join(complaints)
