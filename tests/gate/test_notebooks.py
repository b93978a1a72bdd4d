"""Every lesson satisfies the rules for stored notebooks; its outputs are tested in `notebooks/`.

The rules themselves are tested on a made-up lesson with planted faults.
"""

import base64
import io
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from nbconvert.exporters import ScriptExporter
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from tests.gate import lesson_length, lint_notebooks
from tests.gate.notebook_io import LESSONS, PAGE, PICTURE, Lesson, as_text, code_cells
from transformer_course.exercises import exercise_cells, find
from transformer_course.lessons import first_cell
from transformer_course.workspace.predictions import PLACE


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_lesson_keeps_every_rule(path: Path) -> None:
    complaints = [complaint for rule in lint_notebooks.ALL for complaint in rule(Lesson.shipped(path))]
    assert not complaints, "\n".join([path.name, *complaints])


TITLE = "# Doubling\n\n**It takes** about 15 minutes.\n\n```python\n# a comment, no heading\n```"
EXERCISE = exercise_cells("03.1")
DEEPER = "## Deeper\n\n### More\n\n*Good for:* you. *2 minutes.*"


def made_up_lesson() -> NotebookNode:
    """Return a lesson in which every rule finds something to check and nothing to complain about."""
    sections = [
        new_markdown_cell(f"## {name}: a subject", id=f"section-{n}")
        for n, name in enumerate(lesson_length.HEADINGS)
    ]
    sections[1].source += "\n" + "word " * 670 + "**Predict.**"
    verdict = new_output("display_data", {"text/plain": "○ 03.1 not attempted"})
    cells = [
        new_markdown_cell(TITLE, id="title"),
        new_code_cell(first_cell(3), id="begin"),
        *sections[:4],
        new_code_cell("draw()", id="figure", outputs=[_picture(4, 2)]),
        new_markdown_cell(f"{EXERCISE.heading}\n\n*● · 5 minutes*", id="exercise-task"),
        new_code_cell(EXERCISE.exercise, id="exercise", metadata={"tags": ["exercise:03.1"]}),
        new_code_cell(EXERCISE.check, id="check", outputs=[verdict]),
        new_markdown_cell(EXERCISE.help, id="help-03-1"),
        new_code_cell("line\n\n" * 9 + "line\n" * 7, id="code"),
        *sections[4:],
        new_markdown_cell("**Predict.** How many?", id="question"),
        new_code_cell(PLACE, id="predict-question"),
        new_code_cell("lesson.progress(3)", id="progress"),
        new_markdown_cell(DEEPER, id="deeper"),
        new_code_cell("line\n" * 21, id="more"),
        new_markdown_cell("### Less\n\n*Good for:* me. *1 minute.*", id="less"),
    ]
    cells[9].metadata.tags = ["check:03.1"]
    notebook = new_notebook(cells=cells)
    for count, cell in enumerate(code_cells(notebook), 1):
        cell.execution_count = count
    return notebook


def _picture(width: int, of_the_page: int, alt: str = "A.", words: str = "Figure.") -> NotebookNode:
    Image.new("P", (width, 2)).save(buffer := io.BytesIO(), "png")
    png = base64.b64encode(buffer.getvalue()).decode()
    data = {PICTURE: png, PAGE: f'<img alt="{alt}" src="data:image/png;base64,{png}">', "text/plain": words}
    about = {"alt": alt, "height": 1, "width": of_the_page}
    return new_output("display_data", data, metadata={PICTURE: about})


def _other_page(output: NotebookNode) -> NotebookNode:
    output.data[PAGE] = '<img alt="A." src="data:image/png;base64,AAAA">'
    return output


@pytest.fixture(autouse=True)
def a_guide_of_one_exercise(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "path" not in request.fixturenames:  # the made-up lesson
        monkeypatch.setattr(lint_notebooks, "exercise_titles", lambda **_: {"03.1": "", "04.1": ""})


def complaints_about(notebook: NotebookNode, text: str = "") -> list[str]:
    lesson = Lesson(Path("03_doubling.ipynb"), text or as_text(notebook), notebook)
    return [complaint for rule in lint_notebooks.ALL for complaint in rule(lesson)]


def test_made_up_lesson_keeps_every_rule() -> None:
    assert complaints_about(made_up_lesson()) == []


Plant = Callable[[NotebookNode], object]


def _cell(notebook: NotebookNode, name: str) -> NotebookNode:
    return next(cell for cell in notebook.cells if cell.id == name)


def _set(name: str, **changes: object) -> Plant:
    """Return a fault: the cell with this id gets other contents."""
    return lambda notebook: _cell(notebook, name).update(changes)


def _told(name: str, before: str, after: str) -> Plant:
    """Return a fault: a text in the cell with this id is replaced."""
    return lambda notebook: _set(name, source=_cell(notebook, name).source.replace(before, after))(notebook)


def _show(*outputs: NotebookNode) -> Plant:
    return _set("figure", outputs=list(outputs))


def _error(words: str) -> NotebookNode:
    return new_output("error", ename="E", evalue=words, traceback=[])


def _printed(text: str) -> Plant:
    return _show(new_output("stream", text=text))


def _added(count: int, place: int, name: str, source: str, **more: object) -> Plant:
    """Return a fault: this many cells are added."""
    made = [new_code_cell(source, id=f"{name}-{n}", **more) for n in range(count)]
    return lambda notebook: notebook.cells.__setitem__(slice(place, place), made)


FAULTS = {
    "random id": (_set("help-03-1", id="ab5c7f1e"), "the id 'ab5c7f1e'"),
    "long cell": (_set("figure", source="draw()\n" * 26), "figure has 26 lines"),
    "cell never run": (_set("figure", execution_count=None), "figure has the count None, not 2"),
    "empty cell": (_set("figure", source=" "), "figure is empty"),
    "skipping tag": (_set("figure", metadata={"tags": ["nbval-skip"]}), "the tag 'nbval-skip'"),
    "stderr": (_show(new_output("stream", name="stderr", text="Warning")), "written to stderr: 'Warning'"),
    "error": (_show(_error("")), "the tag raises-exception"),
    "missing error": (_set("figure", metadata={"tags": ["raises-exception"]}), "the tag raises-exception"),
    "odd output": (_show(new_output("display_data", {"application/json": {}})), "application/json"),
    "address": (_printed("<object at 0x7f3b8c0d1e50>"), "an address: '0x7f3b8c0d1e50'"),
    "path": (_show(_error("no /home/someone/x")), "a path: '/home/'"),
    "process": (_printed("ipykernel_123"), "the name of a process"),
    "time": (_printed("took 3.2 s"), "a time: '3.2 s'"),
    "progress bar": (_printed(" 50%|#####     |"), "a progress bar"),
    "picture without words": (_show(_picture(4, 2, words="")), "a picture without words"),
    "page without its picture": (_show(_other_page(_picture(4, 2))), "a picture whose page has another one"),
    "hidden result": (_set("figure", source="ax.set(title='');"), "figure ends in `;`"),
    "random error bar": (_set("figure", source="sns.lineplot(x=x, y=y)"), "sns.lineplot needs errorbar=None"),
    "random jitter": (_set("figure", source="sns.stripplot(x=x)"), "sns.stripplot needs jitter=False"),
    "picture undescribed": (_show(_picture(4, 2, words="<Figure size 640x480>")), "a picture without words"),
    "picture too wide": (_show(_picture(1802, 901)), "a picture 901 pixels wide, at most 900"),
    "no task": (_told("title", "takes", "\nThe task, in words.\n"), "title still has the skeleton's"),
    "unwritten": (_told("title", "**It", "**You need** …\n\n**It"), "title still has the skeleton's"),
    "large file": (_printed("x" * 2_600_000), "bytes, at most 2,500,000"),
    "other number": (_set("begin", source=first_cell(4)), "the first code cell must be as"),
    "two titles": (_told("deeper", "### More", "# More"), "one title, on top"),
    "heading added": (_set("section-2", source="## By hand\n\n## More"), "the headings must be"),
    "solved exercise": (_set("exercise", source=find("03.1").shown), "it is not as declared"),
    "another lesson's": (_set("exercise", metadata={"tags": ["exercise:04.1"]}), "its guide has, in this"),
    "exercise twice": (_added(1, 0, "x", "", metadata={"tags": ["exercise:03.1"]}), "are 03.1, 03.1;"),
    "other title": (_told("exercise-task", EXERCISE.heading, "#### 03.1 Other"), "it is not as declared"),
    "shown before": (_set("begin", source=f"{first_cell(3)}\n{find('03.1').shown}"), "stands above it"),
    "no difficulty": (_told("exercise-task", "*● · 5 minutes*", ""), "must say *● · 5 minutes*"),
    "other check": (_set("check", metadata={"tags": ["check:03.2"]}), "must have the tag check:03.1"),
    "check of another": (_told("check", "03.1", "03.2"), "it is not as declared"),
    "verdict": (_set("check", outputs=[new_output("display_data", {"text/plain": "✓ 03.1"})]), "attempted"),
    "no solution": (_told("help-03-1", "Solution", "More"), "it is not as declared"),
    "check alone": (_set("exercise", metadata={}), "check 03.1 has no exercise before it"),
    "stale number": (_told("section-1", "Predict", ".17"), "has .17"),
    "other minutes": (_told("title", "15 minutes", "20 minutes"), "about 15 minutes, got 20"),
    "no minutes": (_told("title", "15 minutes", "long"), "about 15 minutes, got nothing"),
    "exercise in Deeper": (_told("exercise-task", "### 03.1", "## Deeper\n\n### 03.1"), "line `# Deeper`"),
    "no place": (_set("predict-question", source="answer()"), "predict-question comes after a **Predict**"),
    "no progress": (_set("progress", source="lesson.progress(4)"), "put a code cell `lesson.progress(3)`"),
    "deeper minutes": (_told("deeper", "2 minutes", "9 minutes"), "*2 minutes.*, got 9"),
    "no use": (_told("deeper", "*2 minutes.*", ""), "*Good for:* … *2 minutes.*, got nothing"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_named(name: str) -> None:
    plant, named = FAULTS[name]
    notebook = made_up_lesson()
    plant(notebook)
    assert named in "\n".join(complaints_about(notebook))


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ('"id": "deeper",', "", "the id ''"),
        ('"id": "deeper"', '"id": "check"', "two cells have the id 'check'"),
        ('"metadata": {}', '"metadata": {"x": 1}', "in another layout"),
        ('"name": "python3"\n', '"name": "python3", "version": "3.11"\n', "in another layout"),
    ],
)
@pytest.mark.filterwarnings(
    "ignore::nbformat.warnings.MissingIDFieldWarning", "ignore::nbformat.warnings.DuplicateCellId"
)
def test_fault_in_the_file_is_named(before: str, after: str, named: str) -> None:
    text = as_text(made_up_lesson())
    assert before in text
    text = text.replace(before, after, 1)
    assert named in "\n".join(complaints_about(nbformat.reads(text, as_version=4), text))


def test_what_jupyterlab_says_of_the_language_is_no_change() -> None:
    text = as_text(made_up_lesson())
    lexer = '   "pygments_lexer": "ipython3"'
    saved = text.replace(lexer, f'{lexer},\n   "version": "3.14.1"', 1)
    assert saved != text
    assert complaints_about(nbformat.reads(saved, as_version=4), saved) == []


def test_a_stored_lesson_is_exported_as_a_python_file() -> None:
    notebook = nbformat.reads(as_text(made_up_lesson()), as_version=4)
    text, resources = ScriptExporter().from_notebook_node(notebook)
    assert resources["output_extension"] == ".py" and text.startswith("#!/usr/bin/env python")


def test_minutes_are_counted_from_words_lines_predictions_and_exercises_and_written_down() -> None:
    notebook = made_up_lesson()
    on_path, deeper = lesson_length.parts(Lesson(Path("03_doubling.ipynb"), "", notebook))
    solution = 1 + 2 + 2  # thinking, one level of difficulty, and the lines of 03.1 below the `def`
    assert lesson_length.minutes(on_path) == round(734 / 180 + 31 / 10 + 2 * 2 + solution)
    assert lesson_length.minutes(deeper) == round(17 / 180 + 21 / 10)
    for name, minutes in {"title": "15", "deeper": "2"}.items():
        _told(name, f"{minutes} minutes", "0 minutes")(notebook)
    lesson_length.write_minutes(Lesson(Path("03_doubling.ipynb"), "", notebook))
    assert complaints_about(notebook) == []
