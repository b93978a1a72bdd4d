"""The buttons of lesson 13: an example from elsewhere at first, what was measured here after a press."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import OpenCells

BUTTON = """\
from transformer_course import figures, lesson
lesson.begin(13)
lengths = [128, 256, 512, 1024, 2048, 4096, 8192]
figures.measured(
    "beside", lambda: {"here": lengths},
    lambda numbers, where: figures.line_plot(
        lengths, numbers, xlabel="tokens", ylabel="MB", title=f"On {where}", logarithmic="xy"))"""


def test_a_press_measures_on_this_machine(open_cells: OpenCells) -> None:
    lesson = open_cells("button.ipynb", button=BUTTON)
    lesson.run_all()
    cell = lesson.cell("button")
    expect(cell.get_by_role("status")).to_contain_text("Press the button")
    expect(cell.locator(".widget-html img")).to_have_count(0)
    example = cell.locator(".jp-OutputArea-output > img, .jp-RenderedHTMLCommon img").last
    expect(example).to_have_attribute("alt", re.compile("torch.nn"))

    cell.get_by_role("button", name="Measure on this machine").click()
    expect(cell.locator(".widget-html img")).to_have_attribute(
        "alt", re.compile("On this machine.*here", re.S)
    )
    expect(cell.get_by_role("status")).to_contain_text("Measured on this machine")
    lesson.close()
