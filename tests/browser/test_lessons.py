"""Lessons can be read in JupyterLab, in a wide and a narrow window; the explorer works; faults are found."""

import re
import sys
from base64 import b64decode
from collections.abc import Callable
from io import BytesIO

import matplotlib.pyplot as plt
import pytest
from playwright.sync_api import expect

import transformer_lab
from tests.browser.conftest import LESSONS, Open, OpenCells
from tests.browser.lab import OpenLesson
from transformer_course.figures.png import DENSITY

SMALLEST = 0.75  # of a picture's own size; its letters are 10 pixels high or more


@pytest.mark.parametrize("name", sorted(path.name for path in LESSONS.glob("*.ipynb")))
def test_everything_is_legible_in_a_wide_and_in_a_narrow_window(open_lesson: Open, name: str) -> None:
    lesson = open_lesson(name)
    assert unreadable(lesson, SMALLEST) == []
    lesson.resize(width=900)
    assert unreadable(lesson, smallest=0) == []
    lesson.close()


def unreadable(lesson: OpenLesson, smallest: float) -> list[str]:
    """Return what a reader cannot see as it is meant."""
    faults: dict[str, Callable[[dict], bool]] = {
        "a broken picture": lambda picture: picture["size"] == 0,
        "a picture without words": lambda picture: not picture["alt"].strip(),
        "a picture wider than its room": lambda picture: picture["shown"] > picture["room"],
        "a picture too small": lambda picture: picture["shown"] < smallest * picture["size"] / DENSITY,
        "a picture that a dark page shines through": lambda picture: is_see_through(picture["source"]),
    }
    return [
        *(
            f"{picture['cell']}: {fault}"
            for picture in lesson.ask("pictures")
            for fault, is_so in faults.items()
            if is_so(picture)
        ),
        *lesson.ask("rawFormulas"),
        *lesson.ask("cutOff"),
        *lesson.ask("overlapping"),
    ]


def is_see_through(source: str) -> bool:
    pixels = plt.imread(BytesIO(b64decode(source.partition("base64,")[2])))
    return pixels.shape[-1] == 4 and pixels[..., 3].min() < 1


WHERE = "import sys, transformer_lab; print(sys.executable, transformer_lab.__file__)"
DRAWN_PLAINLY = """\
import matplotlib.pyplot as plt
plt.figure(figsize=(3, 2), facecolor="none")
plt.plot([1, 2])
plt.show()"""
TOO_WIDE = """\
from IPython.display import HTML
HTML('<div style="overflow: hidden"><p style="width: 3000px">A long line.</p></div>')"""


def test_lessons_run_in_this_python_and_faults_are_found(open_cells: OpenCells) -> None:
    lesson = open_cells(
        "faulty.ipynb", where=WHERE, drawn=DRAWN_PLAINLY, wide=TOO_WIDE, fails="1 / 0", never_run="1"
    )
    lesson.run_all()
    expect(lesson.cell("where")).to_contain_text(f"{sys.executable} {transformer_lab.__file__}")
    assert lesson.ask("errors") == ["fails: division by zero"]
    lesson.page.wait_for_function("lesson.notRun().length < 2")  # a cell's count comes after its error
    assert lesson.ask("notRun") == ["never_run"]
    assert unreadable(lesson, SMALLEST) == [
        "drawn: a picture without words",
        "drawn: a picture that a dark page shines through",
        "wide: cut off: A long line.",
    ]
    lesson.close()


EXPLORER = """\
from transformer_course import figures, lesson
from transformer_lab.pretrained_encoder import attention_maps, load_minilm
lesson.begin(9)
encoder, tokenizer = load_minilm()
figures.head_explorer(
    lambda text: attention_maps(encoder, tokenizer, text),
    "The old cat met the young cat.", strip=[(2, 9), (0, 2)], title="Two heads")"""


def test_the_explorer_shows_every_head(open_cells: OpenCells) -> None:
    lesson = open_cells("explorer.ipynb", explorer=EXPLORER)
    lesson.run_all()
    assert lesson.ask("errors") == []
    explorer = lesson.cell("explorer")
    table, words = explorer.get_by_role("table"), explorer.get_by_role("status")
    expect(table).to_contain_text("L2.H9")
    expect(words).to_contain_text("“cat” (token 3)")
    row = explorer.get_by_role("row", name=re.compile("^old"))
    expect(row.get_by_role("cell")).to_have_count(10)
    explorer.get_by_label("layer").select_option("0")
    explorer.get_by_role("button", name="H2", exact=True).click()
    expect(table).to_contain_text("L0.H2")
    expect(words).to_contain_text("L0.H2")
    expect(row.get_by_role("cell").nth(1)).to_have_text("1.00")
    assert unreadable(lesson, SMALLEST) == []
    lesson.close()
