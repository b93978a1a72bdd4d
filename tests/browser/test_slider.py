"""The temperature of lesson 03: a slider where a kernel has made one, a strip of pictures everywhere else."""

import re

from playwright.sync_api import Locator, expect

from tests.browser.conftest import Open, OpenCells
from tests.browser.lab import OpenLesson

SLIDER = """\
from transformer_course import figures
figures.slider(lambda ax, x: ax.plot([0, x]), "x", [1, 2], strip=[1, 2], title="A line")"""


def test_slider_moves_with_the_keyboard(my_lesson: OpenLesson) -> None:
    cell = my_lesson.cell("see-slider")
    picture = cell.locator(".widget-html img").first
    before = picture.get_attribute("src")
    expect(cell.locator(".widget-readout")).to_have_text(".25")
    cell.get_by_role("slider").press("ArrowRight")
    expect(cell.locator(".widget-readout")).to_have_text(".5")
    expect(picture).to_have_attribute("alt", re.compile("temperature = \\.5”"))
    expect(picture).not_to_have_attribute("src", before)


def test_strip_is_shown_before_the_lesson_runs(open_lesson: Open) -> None:
    lesson = open_lesson("03_scaled_dot_product_attention.ipynb")
    shows_strip(lesson.cell("see-slider"))
    lesson.close()


def test_strip_is_shown_when_the_kernel_has_gone(open_lesson: Open, open_cells: OpenCells) -> None:
    lesson = open_cells("kept.ipynb", slider=SLIDER)
    lesson.run_all()
    expect(lesson.cell("slider").get_by_role("slider")).to_be_visible()
    lesson.choose("File", "Save Notebook")
    lesson.page.wait_for_function("lesson.isSaved()")
    lesson.close()
    shows_strip(open_lesson("kept.ipynb").cell("slider"))


def shows_strip(cell: Locator) -> None:
    expect(cell.get_by_role("slider")).to_have_count(0)
    expect(cell.locator("img")).to_have_count(1)
    assert cell.locator("img").evaluate("image => image.naturalWidth") > 500
