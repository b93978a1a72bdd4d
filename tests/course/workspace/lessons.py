"""A made-up lesson, its newer version, and a learner at work in a copy of it."""

import json
from collections.abc import Callable
from pathlib import Path

import nbformat

from transformer_course.workspace import copies

NAME = "03_doubling.ipynb"


def cell(id: str, source: str, kind: str = "code", **more: object) -> dict:
    made = {"cell_type": kind, "id": id, "metadata": {}, "source": source}
    return made | ({"outputs": [], "execution_count": None} if kind == "code" else {}) | more


def lesson(*cells: dict) -> dict:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


STUB = "def double(x):\n    raise NotImplementedError"
ANSWER = "def double(x):\n    return x + x"
RUN = {"outputs": [{"output_type": "stream", "name": "stdout", "text": "7"}], "execution_count": 3}
CELLS = {
    "title": cell("title", "# Doubling", "markdown"),
    "begin": cell("begin", "lesson.begin(3)"),
    "hand": cell("hand", "print(3 + 3)", **RUN),
    "exercise-03-1-task": cell("exercise-03-1-task", "### 03.1 Double", "markdown"),
    "exercise-03-1": cell("exercise-03-1", STUB, metadata={"tags": ["exercise:03.1"]}),
    "check-03-1": cell("check-03-1", 'double = check("03.1", double)', metadata={"tags": ["check:03.1"]}),
    "end": cell("end", "## Summary", "markdown"),
}
SHIPPED = lesson(*CELLS.values())


class Course:
    """A folder of shipped lessons and a desk."""

    def __init__(self, folder: Path) -> None:
        self.notebooks, self.desk = folder / "notebooks", folder / "my_lessons"
        self.notebooks.mkdir()
        self.copy = self.desk / NAME
        self.ship(SHIPPED)

    def ship(self, notebook: dict) -> None:
        (self.notebooks / NAME).write_text(json.dumps(notebook), encoding="utf-8")

    def update(self) -> list[str]:
        return list(copies.update(self.notebooks, self.desk))

    def work(self, change: Callable[[list[dict]], object]) -> None:
        """Change the copy's cells, as an editor does."""
        notebook = json.loads(self.copy.read_text(encoding="utf-8"))
        change(notebook["cells"])
        self.copy.write_text(json.dumps(notebook), encoding="utf-8")

    def ship_newer(self, **changed: str | None) -> None:
        """Ship a next version: these cells say something else; None takes one away; a new one stands last."""
        cells = {
            id: each | {"source": changed.pop(id.replace("-", "_"), each["source"])}
            for id, each in CELLS.items()
        }
        new = [cell(id, text) for id, text in changed.items()]
        self.ship(lesson(*(each for each in cells.values() if each["source"] is not None), *new))

    def receive(self, **changed: str | None) -> list[str]:
        """Ship a next version, bring the copy up to date, and return what is said."""
        self.ship_newer(**changed)
        return self.update()

    def cells(self) -> list[dict]:
        """The copy's cells; it is a notebook that JupyterLab opens."""
        notebook = json.loads(self.copy.read_text(encoding="utf-8"))
        nbformat.validate(notebook)
        return notebook["cells"]

    def sources(self) -> dict[str, str]:
        """What the copy's cells say, by their ids, in order."""
        assert len({each["id"] for each in self.cells()}) == len(self.cells())
        return {each["id"]: "".join(each["source"]) for each in self.cells()}


def write(id: str, text: str) -> Callable[[list[dict]], None]:
    """The learner writes into a cell."""

    def change(cells: list[dict]) -> None:
        next(each for each in cells if each["id"] == id)["source"] = text

    return change


def add(behind: str, text: str, id: str = "0b5c7f1e") -> Callable[[list[dict]], None]:
    """The learner adds a cell of their own."""

    def change(cells: list[dict]) -> None:
        place = next(i for i, each in enumerate(cells) if each["id"] == behind)
        cells.insert(place + 1, cell(id, text))

    return change
