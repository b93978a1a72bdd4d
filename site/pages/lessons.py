"""A lesson as a page: the stored notebook, its pictures as files, folds around what a reader is to guess."""

import base64
import html
import re
from copy import deepcopy
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_output

from pages import links
from transformer_lab.course.lessons import LESSONS, ROOT, notebook

# In the title cell the word is explained, and not asked.
PREDICTION = re.compile(r"^\*\*Predict\b", re.MULTILINE)


def page(number: int, pictures: Path) -> NotebookNode:
    """Return a lesson's notebook as the site shows it; its pictures are written into a folder.

    pictures: a folder beside the pages' root, `_static/figures`, to which the page links.
    """
    lesson = deepcopy(nbformat.read(notebook(number), as_version=4))
    guess = False
    for place, cell in enumerate(lesson.cells):
        if cell.cell_type == "markdown":
            guess = place > 0 and bool(PREDICTION.search(cell.source))
            continue
        exercise = _tagged(cell, "check")
        if exercise:
            cell.outputs = [_to_the_guide(number, exercise)]
        else:
            cell.outputs = [_shown(each, f"{number:02}-{cell.id}", pictures) for each in cell.outputs]
        tags = ["hide-output"] if guess and cell.outputs else []
        cell.metadata = {"tags": tags + ["exercise"] * bool(_tagged(cell, "exercise"))}
    lesson.cells.insert(1, new_markdown_cell(how_to_run(number)))
    return lesson


def how_to_run(number: int) -> str:
    """Return the box beneath a lesson's title: how to run it, and what belongs to it."""
    file, name = notebook(number).name, LESSONS[number].name
    parts = [
        "[How to run the course](../start.md)",
        f'<a href="../notebooks/{file}" download>this notebook</a>',
    ]
    if (ROOT / "transformer_lab" / f"{name}.py").exists():
        parts.append(f"[its code, with shapes](../reference/{name}.md)")
        parts.append(f'<a href="../_modules/transformer_lab/{name}.html">the source</a>')
    if (ROOT / "transformer_lab" / "course" / "exercises" / f"{name}.md").exists():
        parts.append(f"[all mistakes that its checker knows](../{links.guide(number)}.md)")
    return (
        ":::{admonition} Run this lesson\n:class: run-this\n"
        f"In a clone of the course: `make lab`, then open `{file}`. There you write the exercises, and a "
        "checker answers with the name of the mistake.\n\n" + " · ".join(parts) + "\n:::"
    )


def _tagged(cell: NotebookNode, kind: str) -> str | None:
    tags = cell.metadata.get("tags", [])
    return next((tag.partition(":")[2] for tag in tags if tag.startswith(f"{kind}:")), None)


def _to_the_guide(number: int, exercise: str) -> NotebookNode:
    """Return what stands in place of a verdict: on a page there is nobody to judge."""
    address = f"../{links.guide(number)}.html#{links.exercise(exercise)}"
    text = f"In the notebook the checker answers here. The mistakes that it knows: field guide, {exercise}"
    return _html(f'<p class="verdict"><a href="{address}">{text}</a></p>')


def _shown(output: NotebookNode, name: str, pictures: Path) -> NotebookNode:
    """Return an output with its picture, if it is one, as a file with its size and its text."""
    data = output.get("data", {})
    if "image/png" not in data:
        return output
    about = output.metadata["image/png"]
    picture = base64.b64decode(data["image/png"])
    file = pictures / f"{name}-{sum(1 for _ in pictures.glob(f'{name}-*')) + 1}.png"
    file.write_bytes(picture)
    alt, size = html.escape(about["alt"]), f'width="{about["width"]}" height="{about["height"]}"'
    source = f"../_static/figures/{file.name}"
    values = html.escape(data["text/plain"])
    return _html(
        f'<figure class="drawn"><img src="{source}" alt="{alt}" {size} loading="lazy">'
        f"<details><summary>In words and numbers</summary><pre>{values}</pre></details></figure>"
    )


def _html(text: str) -> NotebookNode:
    return new_output("display_data", data={"text/html": text})
