"""The explorer of lesson 09: type a sentence, choose a head, and see another picture."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import Open, OpenCells

EXPLORER = """\
from transformer_course import figures, lesson
from transformer_lab.pretrained_encoder import attention_maps, load_minilm
lesson.begin(9)
encoder, tokenizer = load_minilm()
figures.explorer(
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


def test_bad_input_is_answered_with_a_sentence(explorer: Locator) -> None:
    words, box = explorer.get_by_role("status"), explorer.locator(".widget-text input")
    box.fill("")
    box.press("Enter")
    expect(words).to_contain_text("type a sentence")
    box.fill("word " * 600)
    box.press("Enter")
    expect(words).to_contain_text("too long")
    box.fill("Short again.")
    box.press("Enter")
    expect(words).to_contain_text("L2.H9")


def test_the_last_tokens_of_a_long_text_can_be_shown(explorer: Locator) -> None:
    words, box = explorer.get_by_role("status"), explorer.locator(".widget-text input")
    box.fill("a cat sat " * 12 + "on the very last mat")
    box.press("Enter")
    expect(words).to_contain_text("weight to tokens outside the map")
    picture = explorer.locator(".widget-html img").first
    before, said = picture.get_attribute("src"), words.inner_text()
    explorer.locator(".widget-dropdown select").nth(2).select_option("11")
    expect(picture).not_to_have_attribute("src", before)
    expect(words).not_to_have_text(said)  # another page, another share of the weight


def test_strip_is_shown_before_the_lesson_runs(open_lesson: Open) -> None:
    lesson = open_lesson("09_pretrained_encoder.ipynb")
    cell = lesson.cell("see-explorer")
    expect(cell.locator(".widget-text")).to_have_count(0)
    expect(cell.locator("img")).to_have_count(1)
    assert cell.locator("img").evaluate("image => image.naturalWidth") > 500
    lesson.close()
