"""The lessons run in this Python, with this package; and faults that are there are found."""

import sys

from playwright.sync_api import expect

import transformer_lab
from tests.browser.conftest import OpenCells
from tests.browser.test_lessons import SMALLEST, unreadable

WHERE = "import sys, transformer_lab; print(sys.executable, transformer_lab.__file__)"
DRAWN_PLAINLY = """\
import matplotlib.pyplot as plt
plt.figure(figsize=(3, 2), facecolor="none")
plt.plot([1, 2])
plt.show()"""
TOO_WIDE = """\
from IPython.display import HTML
HTML('<div style="overflow: hidden"><p style="width: 3000px">A long line.</p></div>')"""


def test_kernel_is_this_python_with_this_package(open_cells: OpenCells) -> None:
    lesson = open_cells("where.ipynb", where=WHERE)
    lesson.run_all()
    expect(lesson.cell("where")).to_contain_text(f"{sys.executable} {transformer_lab.__file__}")


def test_faults_are_found(open_cells: OpenCells) -> None:
    lesson = open_cells("faulty.ipynb", drawn=DRAWN_PLAINLY, wide=TOO_WIDE, fails="1 / 0", never_run="1")
    lesson.run_all()
    assert lesson.ask("errors") == ["fails: division by zero"]
    lesson.page.wait_for_function("lesson.notRun().length < 2")  # a cell's count comes after its error
    assert lesson.ask("notRun") == ["never_run"]
    assert unreadable(lesson, SMALLEST) == [
        "drawn: a picture without words",
        "drawn: a picture that a dark page shines through",
        "wide: cut off: A long line.",
    ]
