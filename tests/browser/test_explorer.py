"""The explorer of lesson 09: type a sentence, choose a head, and see another picture."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import OpenCells

EXPLORER = """\
from transformer_course import figures, lesson
from transformer_lab.pretrained_encoder import attention_maps, load_minilm
lesson.begin(9)
encoder, tokenizer = load_minilm()
figures.head_explorer(
    lambda text: attention_maps(encoder, tokenizer, text),
    "The old cat met the young cat.", strip=[(2, 9), (0, 2)], title="Two heads")"""


@pytest.fixture
def explorer(open_cells: OpenCells) -> Iterator[Locator]:
    lesson = open_cells("explorer.ipynb", explorer=EXPLORER)
    lesson.run_all()
    yield lesson.cell("explorer")
    lesson.close()


def test_sentence_and_head_change_the_picture(explorer: Locator) -> None:
    picture = explorer.locator(".widget-html img").first
    words = explorer.get_by_role("status")
    expect(picture).to_have_attribute("alt", re.compile("L2.H9"))
    expect(words).to_contain_text("“cat” (token 3)")

    before = picture.get_attribute("src")
    box = explorer.locator(".widget-text input")
    box.fill("My neighbour sold a green bicycle.")
    box.press("Enter")
    expect(picture).to_have_attribute("alt", re.compile("bicycle"))
    expect(picture).not_to_have_attribute("src", before)

    before = picture.get_attribute("src")
    layer, head = (explorer.locator(".widget-dropdown select").nth(i) for i in range(2))
    layer.select_option("0")
    head.select_option("2")
    expect(picture).to_have_attribute("alt", re.compile("L0.H2"))
    expect(picture).not_to_have_attribute("src", before)
    expect(words).to_contain_text("L0.H2")
