"""A lesson as a page: the stored notebook, its pictures as files, folds around what to predict."""

import base64
import html
import re
from copy import deepcopy
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output

from pages import links
from transformer_course.lessons import LESSONS, ROOT, first_cell, notebook
from transformer_course.workspace import copies
from transformer_course.workspace.predictions import PLACE

# At the beginning of a line: below the title the word is explained, and not asked.
PREDICTION = re.compile(r"^\*\*Predict\b", re.MULTILINE)
ANSWER = '<details class="answer"><summary>The result in words, and what it means</summary>'
# The next question, an answer that is folded already, a heading; and the bold words that begin a new matter.
NO_ANSWER = re.compile(r"\*\*Predict\b|<details|#")
NEW_MATTER = re.compile(NO_ANSWER.pattern + r"|\*\*(?!\d)")
# What makes sense only where a learner works: the place for a prediction, and a lesson's progress.
LEFT_OUT = re.compile(rf"{re.escape(PLACE)}|lesson\.progress\(\d")
EMBEDDED = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=]*)")
SOURCE = re.compile(r'src="([^"]*)"')
# What lives with a kernel, and what a page can say of it.
LIVE = {
    "figures.head_explorer(": "In the notebook, you can type your own sentence here. On this site, use the "
    '<a href="../live.html">live page</a>.',
}


def page(number: int, pictures: Path) -> NotebookNode:
    """Return a lesson's notebook as the site shows it; its pictures are written into a folder.

    pictures: a folder next to the pages' root, `_static/figures`, to which the page links.
    """
    lesson = deepcopy(nbformat.read(notebook(number), as_version=4))
    lesson.cells = [cell for cell in lesson.cells if not LEFT_OUT.match(cell.source)]
    guess = folded = False
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            guess = bool(PREDICTION.search(cell.source))
            cell.source = _answer_folded(cell.source) if folded else cell.source
            folded = False
            continue
        cell.source = cell.source.replace("  # fmt: skip", "")  # a word to the formatter, not to readers
        exercise = _tagged(cell, "check")
        if exercise:
            cell.outputs = [_to_the_guide(number, exercise)]
        else:
            cell.outputs = [_shown(each, cell, number, pictures) for each in cell.outputs]
        folded = guess and bool(cell.outputs)
        cell.metadata = {
            "tags": ["hide-output"] * folded + ["exercise"] * bool(_tagged(cell, "exercise")),
        }
    # A page begins with the lesson; the code that loads the course is in the box about running it.
    del lesson.cells[next(i for i, cell in enumerate(lesson.cells) if cell.cell_type == "code")]
    heading, _, rest = lesson.cells[0].source.partition("\n\n")
    texts = heading, how_to_run(number), rest
    lesson.cells[:1] = [new_markdown_cell(text) for text in texts]
    return lesson


def _answer_folded(text: str) -> str:
    """Return the text after a prediction with the answer folded: all up to what leads on."""
    first, *rest = text.split("\n\n")
    if NO_ANSWER.match(first):
        return text
    until = next((i for i, each in enumerate(rest) if NEW_MATTER.match(each)), len(rest))
    if until == len(rest) and rest and rest[-1].endswith((":", "?")):
        until -= 1  # it leads on to the next cell
    return "\n\n".join([ANSWER, first, *rest[:until], "</details>", *rest[until:]])


def alone(number: int) -> NotebookNode:
    """Return a lesson to be taken along: nothing run yet, so that no prediction is given away."""
    file = notebook(number)
    copy = copies.fresh(copies.read(file), file.name)
    lesson = nbformat.reads(copies.as_bytes(copy).decode(), as_version=4)
    if links.SITE:
        begin = next(cell for cell in lesson.cells if cell.cell_type == "code")
        begin.source = first_cell(number, course=f"{links.SITE}{links.COURSE}")
    return lesson


def how_to_run(number: int) -> str:
    """Return the box beneath a lesson's heading: how to run it, and what belongs to it."""
    file, name = notebook(number).name, LESSONS[number].name
    parts = [
        "[How to get and run the course](../start.md)",
        f'<a href="../notebooks/{file}" download>this notebook</a>',
    ]
    if (ROOT / "transformer_lab" / f"{name}.py").exists():
        parts.append(f"[reference of its code](../reference/{name}.md)")
        parts.append(f'<a href="../_modules/transformer_lab/{name}.html">its source code</a>')
    if (ROOT / "transformer_course" / "exercises" / f"{name}.md").exists():
        parts.append(f"[the mistakes that its checker knows](../{links.guide(number)}.md)")
    there = [f"[{name}]({address})" for name, address in links.elsewhere(file).items()]
    opened = f"Or open it without installing anything, in {', '.join(there)}.\n\n" if there else ""
    return (
        ":::{admonition} Run this lesson\n:class: run-this\n"
        "On this page you can only read the lesson. To run it and do the exercises, type `make lab` in the "
        f"course's folder on your own computer, and open `{file}`. There, a checker names your mistakes."
        f"\n\n{opened}" + " · ".join(parts) + "\n\n"
        "<details><summary>The notebook's first cell, which loads the course</summary>\n\n"
        f"```python\n{first_cell(number)}\n```\n\n</details>\n:::"
    )


def _tagged(cell: NotebookNode, kind: str) -> str | None:
    tags = cell.metadata.get("tags", [])
    return next((tag.partition(":")[2] for tag in tags if tag.startswith(f"{kind}:")), None)


def _to_the_guide(number: int, exercise: str) -> NotebookNode:
    """Return what replaces a verdict: on a page nothing is checked."""
    address = f"../{links.guide(number)}.html#{links.exercise(exercise)}"
    text = f"In the notebook, the checker answers here. Field guide: common mistakes in {exercise}"
    return _html(f'<p class="verdict"><a href="{address}">{text}</a></p>')


def _shown(output: NotebookNode, cell: NotebookNode, number: int, pictures: Path) -> NotebookNode:
    """Return an output with its picture, if it is one, as a file with its size and its text."""
    data = output.get("data", {})
    if "#cell-id=" in data.get("text/markdown", ""):  # a learner's progress: its links need JupyterLab
        del data["text/markdown"]
    if "image/png" not in data:
        return output

    def address(png: re.Match) -> str:
        name = f"{number:02}-{cell.id}"
        file = pictures / f"{name}-{sum(1 for _ in pictures.glob(f'{name}-*')) + 1}.png"
        file.write_bytes(base64.b64decode(png[1]))
        return f"../_static/figures/{file.name}"

    shown = EMBEDDED.sub(address, data["text/html"])
    shown = shown.replace("<img ", f'<img height="{output.metadata["image/png"]["height"]}" loading="lazy" ')
    if "onload=" not in shown:  # a picture that nothing replaces is also alone: a phone shows little of it
        shown = f'<a href="{SOURCE.search(shown)[1]}">{shown}</a>'
    captions = [f"<figcaption>{words}</figcaption>" for call, words in LIVE.items() if call in cell.source]
    return _html(
        f'<figure class="drawn">{shown}{"".join(captions)}'
        "<details><summary>The figure in words and numbers</summary>"
        f"<pre>{html.escape(data['text/plain'])}</pre></details></figure>"
    )


def _html(text: str) -> NotebookNode:
    return new_output("display_data", data={"text/html": text})
