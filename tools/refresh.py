"""Run the lessons and store their outputs: `python -m tools.refresh [03 04 ...]`.

Cells without an id get one; existing ids never change, because translations depend on them.
"""

import subprocess
import sys
from pathlib import Path

from nbclient import NotebookClient
from nbformat import NotebookNode
from nbval.kernel import CURRENT_ENV_KERNEL_NAME

from tests.gate import lint_exercises
from tests.gate.kernel import CELL_TIMEOUT, ThisPython, clean_environment
from tests.gate.lesson_length import has_one_path, write_minutes
from tests.gate.notebook_io import NOTEBOOKS, Lesson, as_text, code_cells
from tools.author import name_cells


def refresh(path: Path) -> bool:
    """Run one notebook and store it; return whether its file has changed.

    Cells without a readable id get one, and the minutes are counted. A figure is stored even if it differs
    only slightly, which our gate accepts, because nbval alone compares the HTML picture byte by byte.

    Raises:
        CellExecutionError, DeadKernelError: from nbclient; the file is unchanged.
    """
    lesson = Lesson.load(path)
    for name in name_cells(lesson.notebook, lesson.raw_cells):
        print(f"a new cell is called {name}; ", end="")
    if has_one_path(lesson):
        write_minutes(lesson)
    _run(lesson.notebook, path.parent)
    text = as_text(lesson.notebook)
    if text != lesson.text:
        path.write_text(text, encoding="utf-8", newline="\n")
    return text != lesson.text


def _run(notebook: NotebookNode, folder: Path) -> None:
    for cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    client = NotebookClient(
        notebook,
        kernel_manager_class=ThisPython,
        kernel_name=CURRENT_ENV_KERNEL_NAME,
        timeout=CELL_TIMEOUT,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    with clean_environment():
        client.execute(stderr=subprocess.DEVNULL)  # discard ipykernel's log; a cell's stderr is an output


def chosen(numbers: list[str]) -> list[Path]:
    """Return the lessons with these numbers, or all of them; exit if there is no such lesson."""
    paths = {number: sorted(NOTEBOOKS.glob(f"{number}_*.ipynb")) for number in numbers or ["*"]}
    unknown = [number for number in paths if not paths[number]]
    if unknown:
        sys.exit(f"no lesson {', '.join(unknown)} in notebooks/; give a lesson's number, such as 03")
    return [path for number in paths for path in paths[number]]


def main(numbers: list[str]) -> None:
    for path in chosen(numbers):
        print(f"{path.name}: ", end="", flush=True)
        print("stored" if refresh(path) else "unchanged")
        for complaint in lint_exercises.complaints(Lesson.load(path)):
            print(f"  still to do: {complaint}")


if __name__ == "__main__":
    main(sys.argv[1:])
