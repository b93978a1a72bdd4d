"""Every lesson is stored as it has to be; that its outputs come out again is tested in `notebooks/`.

The rules themselves are tried first, on a made-up lesson with planted faults.
"""

import base64
import io
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from tests.gate import path, rules
from tests.gate.stored import NOTEBOOKS, Lesson, as_text

LESSONS = [
    pytest.param(Lesson.load(path), id=path.stem) for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
]


@pytest.mark.parametrize("rule", rules.ALL, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("lesson", LESSONS)
def test_lesson_keeps_the_rule(lesson: Lesson, rule: rules.Rule) -> None:
    complaints = list(rule(lesson))
    assert not complaints, "\n".join([lesson.path.name, *complaints])


TIME = "**It takes** about 5 minutes."
STUB = "def double(x):\n    raise NotImplementedError"
HELP = "<details><summary>Hint</summary>Add.</details>\n<details><summary>Solution</summary>x + x</details>"


def png(width: int) -> str:
    """Return a picture so many pixels wide, and two high."""
    Image.new("P", (width, 2)).save(buffer := io.BytesIO(), "png")
    return base64.b64encode(buffer.getvalue()).decode()


def made_up_lesson() -> NotebookNode:
    """Return a lesson in which every rule has something to look at, and nothing to complain about."""
    picture = {"image/png": png(4), "text/plain": "Figure “Weights”."}
    alt = {"image/png": {"alt": "Figure “Weights”.", "height": 1, "width": 2}}
    sections = [new_markdown_cell(f"## {name}", id=f"section-{n}") for n, name in enumerate(path.HEADINGS)]
    cells = [
        new_markdown_cell(f"# Doubling\n\n{TIME}\n\n```python\n# a comment, not a heading\n```", id="title"),
        new_code_cell("from transformer_course import lesson\n\nlesson.begin(3)", id="begin"),
        *sections[:4],
        new_code_cell("draw()", id="figure", outputs=[new_output("display_data", picture, metadata=alt)]),
        new_code_cell(STUB, id="exercise", metadata={"tags": ["exercise:03.1"]}),
        new_code_cell('double = check("03.1", double)', id="check", metadata={"tags": ["check:03.1"]}),
        new_markdown_cell(HELP, id="help"),
    ]
    cells[-2].outputs = [new_output("display_data", {"text/plain": "○ 03.1 not attempted"})]
    for count, cell in enumerate((cell for cell in cells if cell.cell_type == "code"), 1):
        cell.execution_count = count
    cells += sections[4:]
    notebook = new_notebook(cells=cells)
    return notebook


def complaints_about(notebook: NotebookNode, text: str = "") -> list[str]:
    lesson = Lesson(Path("03_doubling.ipynb"), text or as_text(notebook), notebook)
    return [complaint for rule in rules.ALL for complaint in rule(lesson)]


def test_made_up_lesson_keeps_every_rule() -> None:
    assert complaints_about(made_up_lesson()) == []


def _set(name: str, **changes: object) -> Callable[[NotebookNode], None]:
    """Return a fault: the cell of that id with other contents."""

    def plant(notebook: NotebookNode) -> None:
        next(cell for cell in notebook.cells if cell.id == name).update(changes)

    return plant


def _show(*outputs: NotebookNode) -> Callable[[NotebookNode], None]:
    return _set("figure", outputs=list(outputs))


def _printed(text: str) -> Callable[[NotebookNode], None]:
    return _show(new_output("stream", text=text))


def _drop(name: str) -> Callable[[NotebookNode], None]:
    """Return a fault: the cell of that id is missing."""

    def plant(notebook: NotebookNode) -> None:
        notebook.cells = [cell for cell in notebook.cells if cell.id != name]

    return plant


def _exercise_before(name: str) -> Callable[[NotebookNode], None]:
    """Return a fault: another exercise of that number, before the first."""

    def plant(notebook: NotebookNode) -> None:
        notebook.cells.insert(0, new_code_cell(STUB, id="more", metadata={"tags": [f"exercise:{name}"]}))

    return plant


def _picture(width: int, of_the_page: int | None, words: str | None = "Figure.") -> NotebookNode:
    data = {"image/png": png(width)} | ({"text/plain": words} if words else {})
    about = {"alt": words, "height": 1, "width": of_the_page} if of_the_page else {}
    return new_output("display_data", data, metadata={"image/png": about} if about else {})


PICTURE_ALONE, PICTURE_UNDESCRIBED = _picture(4, None, None), _picture(4, None, "<Figure size 640x480>")
FAULTS = {
    "random id": (_set("help", id="0b5c7f1e"), "the id '0b5c7f1e'"),
    "random long id": (_set("help", id="f47ac10b-58cc-4372-a567-0e02b2c3d479"), "choose words"),
    "long cell": (_set("figure", source="draw()\n" * 26), "figure has 26 lines"),
    "cell never run": (_set("figure", execution_count=None), "figure has the count None, not 2"),
    "cell run twice": (_set("figure", execution_count=9), "figure has the count 9, not 2"),
    "empty cell": (_set("figure", source=" "), "figure is empty"),
    "skipping tag": (_set("figure", metadata={"tags": ["nbval-skip"]}), "the tag 'nbval-skip'"),
    "ignoring tag": (_set("figure", metadata={"tags": ["nbval-ignore-output"]}), "'nbval-ignore-output'"),
    "marker": (_set("figure", source="# NBVAL_IGNORE_OUTPUT\ndraw()"), "a marker for nbval"),
    "stderr": (_show(new_output("stream", name="stderr", text="Warning")), "written to stderr: 'Warning'"),
    "error": (_show(new_output("error", ename="E", evalue="", traceback=[])), "the tag raises-exception"),
    "missing error": (_set("figure", metadata={"tags": ["raises-exception"]}), "the tag raises-exception"),
    "odd output": (_show(new_output("display_data", {"application/json": {}})), "application/json"),
    "address": (_printed("<object at 0x7f3b8c0d1e50>"), "an address: '0x7f3b8c0d1e50'"),
    "printed path": (_printed("saved in /home/someone/x"), "a path: '/home/'"),
    "time": (_printed("took 3.2 s"), "a time: '3.2 s'"),
    "speed": (_printed("100 it/s"), "a time"),
    "progress bar": (_printed(" 50%|#####     |"), "a progress bar"),
    "picture alone": (_show(PICTURE_ALONE), "a picture without words"),
    "picture undescribed": (_show(PICTURE_UNDESCRIBED), "a picture without words"),
    "picture too wide": (_show(_picture(1802, 901)), "a picture 901 pixels wide, at most 900"),
    "picture too coarse": (_show(_picture(500, 500)), "a picture of 500 pixels for 500 of the page"),
    "picture without a size": (_show(_picture(500, None)), "a picture of 500 pixels for 0 of the page"),
    "path": (_set("figure", source="draw('/Users/someone/x.png')"), "a path of one machine: '/Users/'"),
    "no task": (_set("title", source="# Doubling\n\nThe task, in words."), "title still has the skeleton's"),
    "unwritten": (_set("title", source="# Doubling\n\n**You need** …"), "title still has the skeleton's"),
    "large file": (_printed("x" * 1_600_000), "bytes, at most 1,500,000"),
    "other number": (_set("begin", source="lesson.begin(4)"), "must call lesson.begin(3)"),
    "no title": (_set("title", source="Doubling"), "one title, on top"),
    "other heading": (_set("section-1", source="## By foot"), "the headings must be"),
    "heading added": (_set("help", source=f"## More\n{HELP}"), "the headings must be"),
    "solved exercise": (_set("exercise", source="def double(x):\n    return x + x"), "it is solved"),
    "misnumbered exercise": (
        _set("exercise", metadata={"tags": ["exercise:03.2"]}),
        "the exercises must be 03.1; got 03.2",
    ),
    "exercise before another": (_exercise_before("03.2"), "exercise 03.1 must stand before 03.2"),
    "exercise twice": (_exercise_before("03.1"), "the exercises must be 03.1, 03.2; got 03.1, 03.1"),
    "other check": (_set("check", metadata={"tags": ["check:03.2"]}), "must have the tag check:03.1"),
    "rewritten check": (_set("check", source='check("03.1", double)'), "its check must read"),
    "stored verdict": (_set("check", outputs=[]), "not attempted"),
    "no help": (_drop("help"), "a folded Hint and a folded Solution"),
    "check alone": (_drop("exercise"), "check 03.1 has no exercise before it"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_named(name: str) -> None:
    plant, named = FAULTS[name]
    notebook = made_up_lesson()
    plant(notebook)
    assert any(named in complaint for complaint in complaints_about(notebook))


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ('"id": "help",', "", "the id ''"),
        ('"id": "help"', '"id": "check"', "two cells have the id 'check'"),
        ('"id": "help",\n   "metadata": {}', '"id": "help",\n   "metadata": {"x": 1}', "in another layout"),
        ('"name": "python3"\n', '"name": "python3", "version": "3.11"\n', "in another layout"),
        ("\n ", "\n  ", "in another layout"),
    ],
)
@pytest.mark.filterwarnings(
    "ignore::nbformat.warnings.MissingIDFieldWarning", "ignore::nbformat.warnings.DuplicateCellId"
)
def test_fault_in_the_file_is_named(before: str, after: str, named: str) -> None:
    text = as_text(made_up_lesson())
    assert before in text
    text = text.replace(before, after, 1)
    complaints = complaints_about(nbformat.reads(text, as_version=4), text)
    assert any(named in complaint for complaint in complaints)


def test_what_jupyterlab_says_of_the_language_is_no_change() -> None:
    text = as_text(made_up_lesson())
    more = '{\n   "codemirror_mode": {\n    "name": "ipython"\n   },\n   "name": "python"\n  }'
    text = text.replace('{\n   "name": "python"\n  }', more, 1)
    assert "codemirror" in text
    assert complaints_about(nbformat.reads(text, as_version=4), text) == []


def test_entry_of_the_allow_list_without_a_cell_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rules.NOT_COMPARED, "03_doubling.ipynb::gone", "a reason")
    assert any("the allow list names 'gone'" in complaint for complaint in complaints_about(made_up_lesson()))


def test_allow_list_is_empty() -> None:
    assert rules.NOT_COMPARED == {}


# --- one path ---------------------------------------------------------------------------------------------

ANSWER = "<details><summary>Hint</summary>Add.</details><details><summary>Solution</summary>x</details>"


def lesson_of_one_path() -> NotebookNode:
    """Return a lesson in the form of one path, with a prediction, an exercise and something deeper."""
    cells = [new_markdown_cell("# Doubling\n\n**It takes** about 15 minutes.", id="title")]
    cells.append(new_code_cell("lesson.begin(3)", id="begin"))
    cells += [new_markdown_cell(f"## {heading}", id=f"part-{n}") for n, heading in enumerate(path.HEADINGS)]
    cells[3].source += "\n" + "word " * 680 + "**Predict.**"
    tag = {"tags": ["exercise:03.1"]}
    cells.insert(6, new_code_cell("stub\n\nof two lines", id="exercise-03-1", metadata=tag))
    cells.insert(7, new_markdown_cell(ANSWER, id="help-03-1"))
    cells.insert(8, new_code_cell("line\n\n" * 21, id="code"))
    cells.append(new_markdown_cell("## Deeper\n\n### More\n\n*Good for:* you. *2 minutes.*", id="deeper"))
    cells.append(new_code_cell("line\n" * 21, id="more"))
    return new_notebook(cells=cells)


def complaints_about_path(notebook: NotebookNode) -> list[str]:
    lesson = Lesson(Path("03_doubling.ipynb"), as_text(notebook), notebook)
    assert list(rules.has_the_headings(lesson)) == []
    return list(rules.keeps_to_its_path(lesson))


def test_minutes_are_counted_from_words_lines_predictions_and_exercises() -> None:
    notebook = lesson_of_one_path()
    lesson = Lesson(Path("03_doubling.ipynb"), "", notebook)
    on_path, deeper = path.parts(lesson)
    assert (path.words(on_path), path.lines(on_path)) == (718, 24)
    solution = 3 + 3  # minutes of thinking, and lines of 03.1's solution
    assert path.minutes(on_path) == round(718 / 180 + 24 / 10 + 2 + solution)
    assert path.minutes(deeper) == round(10 / 180 + 21 / 10)
    assert complaints_about_path(notebook) == []


def _told(name: str, before: str, after: str) -> Callable[[NotebookNode], None]:
    """Return a fault: the cell of that id with other words."""

    def plant(notebook: NotebookNode) -> None:
        cell = next(cell for cell in notebook.cells if cell.id == name)
        cell.source = cell.source.replace(before, after)

    return plant


PATH_FAULTS = {
    "other minutes": (_told("title", "15 minutes", "20 minutes"), "about 15 minutes, got 20"),
    "no minutes": (_set("title", source="# Doubling"), "about 15 minutes, got nothing"),
    "deeper minutes": (_told("deeper", "2 minutes", "9 minutes"), "*2 minutes.*, got 9"),
    "no use": (_set("deeper", source="## Deeper\n\n### More"), "*Good for:* … *2 minutes.*, got nothing"),
    "many words": (_set("part-0", source="## Recall\n" + "word " * 3000), "words, at most 3500"),
    "many lines": (_set("code", source="line\n" * 310), "lines of code, at most 300"),
    "many bugs": (_told("part-7", "wrong", "wrong" + "\n\n**A bug.** Text." * 5), "5 bugs, at most 4"),
}


@pytest.mark.parametrize("name", PATH_FAULTS)
def test_a_lesson_that_leaves_its_path_is_named(name: str) -> None:
    plant, named = PATH_FAULTS[name]
    notebook = lesson_of_one_path()
    plant(notebook)
    assert any(named in complaint for complaint in complaints_about_path(notebook))


def test_an_exercise_far_behind_the_idea_is_named() -> None:
    notebook = lesson_of_one_path()
    notebook.cells.insert(-2, notebook.cells.pop(6))
    assert any("the first exercise belongs to The idea" in each for each in complaints_about_path(notebook))


def test_the_minutes_are_written_where_some_are_told() -> None:
    notebook = lesson_of_one_path()
    notebook.cells[0].source = notebook.cells[0].source.replace("15", "0")
    notebook.cells[-2].source = notebook.cells[-2].source.replace("2 minutes", "0 minutes")
    path.tell_minutes(Lesson(Path("03_doubling.ipynb"), "", notebook))
    assert complaints_about_path(notebook) == []
