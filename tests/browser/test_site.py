"""The built site as a reader meets it: every page opens, can be read, and leads where it says."""

import json
import re
import tomllib
from pathlib import Path
from urllib.parse import urlencode
from zipfile import ZipFile

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.site import ROOT, SITE, broken, pages

PHONE = {"viewport": {"width": 360, "height": 740}}
NAMES = sorted(str(file.relative_to(SITE)) for file in pages())
LESSON = "lessons/03_scaled_dot_product_attention.html"
GUIDE = "field_guide/index.html"
SYMPTOM = "field_guide/symptoms/runtimeerror-mat1-and-mat2-shapes-cannot-be-multiplied.html"
DESK = tomllib.loads((ROOT / "tests" / "site" / "messages.toml").read_text("utf-8"))["message"]
TRACEBACK = max((message["said"] for message in DESK), key=len)
# What every rule of axe is asked of; the other pages are made of the same parts.
KINDS = [
    "index.html",
    LESSON,
    GUIDE,
    SYMPTOM,
    "field_guide/scale.html",
    "glossary.html",
    "search.html",
    "live.html",
]
# Pages of symptoms are all of one kind.
READ = [name for name in NAMES if "/symptoms/" not in name or name == SYMPTOM]
# What is asked of every page.
RULES = ["color-contrast", "image-alt", "link-name", "button-name", "summary-name", "document-title"]


def test_the_site_is_whole() -> None:
    assert len([name for name in NAMES if name.startswith("lessons/")]) == 15
    assert {"index.html", "live.html", "glossary.html", "diagnostics.html"} <= set(NAMES)
    assert len(NAMES) > 90


def test_every_link_and_every_anchor_exists() -> None:
    assert broken(pages()) == []


def test_a_broken_link_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "there.html").write_text('<p id="here">')
    links = ["there.html#here", "there.html#gone", "gone.html", "https://example.org"]
    text = "".join(f'<a href="{link}">' for link in links) + '<img src="https://example.org/a.png">'
    (tmp_path / "page.html").write_text(text)
    found = [line.partition("> ")[2] for line in broken(pages(tmp_path))]
    assert found == ["there.html#gone", "gone.html", "https://example.org/a.png"]


@pytest.mark.parametrize("name", READ)
def test_every_page_can_be_read_on_a_phone_in_light_and_in_dark(visit: Visit, name: str) -> None:
    page = visit(name, **PHONE)
    assert page.overhang() <= 0
    for theme in ("light", "dark"):
        page.theme(theme)
        assert page.violations(*RULES) == []


@pytest.mark.parametrize("name", KINDS)
def test_pages_obey_every_rule_of_accessibility(visit: Visit, name: str) -> None:
    found = visit(name, viewport={"width": 1280, "height": 900}).violations()
    # The theme's side bar stands in no landmark.
    assert [each for each in found if ": region: .sidebar" not in each] == []


def test_a_prediction_is_folded_until_it_is_clicked(visit: Visit) -> None:
    view = visit(LESSON).view
    fold = view.locator("details.hide").first
    output = fold.locator(".output").first
    expect(output).to_be_hidden()
    fold.locator("summary").first.click()
    expect(output).to_be_visible()


def test_the_words_about_what_came_out_open_with_it(visit: Visit) -> None:
    view = visit(LESSON).view
    fold = view.locator(".cell.tag_hide-output:has(+ details.answer)").first
    answer = fold.locator("+ details.answer")
    expect(answer.locator("p").first).to_be_hidden()
    fold.locator("summary").first.click()
    expect(answer.locator("p").first).to_be_visible()


def test_who_only_reads_opens_all_answers_at_once(visit: Visit) -> None:
    view = visit(LESSON).view
    folds = view.locator(".cell.tag_hide-output details.hide, details.answer")
    closed = view.locator("details.hide:not([open]), details.answer:not([open])")
    assert folds.count() == closed.count() > 10
    view.get_by_role("button", name="Open all answers").click()
    expect(closed).to_have_count(0)
    expect(view.locator("details", has_text="Solution").first.locator("pre")).to_be_hidden()
    view.get_by_role("button", name="Close all answers").click()
    expect(closed).to_have_count(folds.count())


def test_a_slider_moves_with_the_keyboard_and_says_so_without_a_kernel(visit: Visit) -> None:
    view = visit(LESSON).view
    slider = view.locator(".stops:visible").first
    stop = slider.get_by_role("slider")
    stop.scroll_into_view_if_needed()
    said, seen = slider.get_by_role("status"), slider.locator("img:visible")
    before, picture = said.inner_text(), seen.get_attribute("src")
    for key in ("ArrowRight", "ArrowLeft"):
        stop.press(key)
        expect(seen).to_have_count(1)
        assert stop.get_attribute("aria-valuetext") == said.inner_text()
        assert (said.inner_text() != before) == (key == "ArrowRight")
        assert (seen.get_attribute("src") != picture) == (key == "ArrowRight")
    assert seen.evaluate("image => image.naturalWidth") > 300


def test_hints_and_solution_are_folded(visit: Visit) -> None:
    view = visit(LESSON).view
    solution = view.locator("details", has_text="Solution").first
    expect(solution.locator("pre")).to_be_hidden()
    solution.locator("summary").click()
    expect(solution.locator("pre")).to_contain_text("key.mT / math.sqrt(d_head)")


def test_the_contents_tell_the_path_from_what_lies_deeper(visit: Visit) -> None:
    view = visit(LESSON, viewport={"width": 1400, "height": 900}).view
    deeper = view.locator('.page-toc li:has(> a[href="#deeper"])')
    assert deeper.evaluate("item => getComputedStyle(item).borderTopStyle") == "dotted"
    note = deeper.evaluate("item => getComputedStyle(item.firstElementChild, '::after').content")
    assert "nothing on the path needs it" in note


def test_search_finds_a_mistake_by_its_name_and_leads_to_it(visit: Visit) -> None:
    page = visit("search.html?q=softmax+over+the+queries")
    found = page.view.locator("#search-results a", has_text="softmax over the queries").first
    found.click()
    page.view.wait_for_url("**/field_guide/**")
    expect(page.view.get_by_role("heading", name="softmax over the queries").first).to_be_in_viewport()


def test_search_puts_lessons_first_and_shows_their_words(visit: Visit) -> None:
    found = visit("search.html?q=padding").view.locator("#search-results li")
    expect(found.nth(1)).to_contain_text("Lesson 04 · Masking")
    expect(found.nth(1)).to_contain_text("able to keep padding")
    expect(found.nth(1)).not_to_contain_text("System Settings")


def test_a_mistake_is_found_by_its_name_and_leads_to_its_change(visit: Visit) -> None:
    view = visit(GUIDE).view
    field, count = view.get_by_role("textbox", name="What do you see?"), view.locator(".symptoms-count")
    first = view.locator(".symptoms-found li").first
    field.fill("softmax over the queries")
    expect(first.locator("a").first).to_have_text("softmax over the queries")
    expect(first).to_contain_text("03.2 Write scaled dot-product attention")  # and where else it is met
    expect(first.get_by_role("link", name="09.4")).to_be_visible()
    field.fill("purple elephants")
    expect(count).to_contain_text("Nothing has these words")
    field.fill("")
    expect(count).to_have_text("")
    expect(first).to_have_count(0)
    field.fill("no scale")
    expect(first).to_contain_text("no scale")
    expect(count).to_contain_text("found, the best first")
    first.locator("a").first.click()
    view.wait_for_url("**/field_guide/0*#m-*")
    expect(view.get_by_role("heading", name="no scale").first).to_be_in_viewport()


@pytest.mark.parametrize(
    ("said", "first"),
    [
        (
            "The shape of the 2D attn_mask is torch.Size([4, 4]), but should be (5, 5).",
            "of the attn_mask is wrong",
        ),
        ("index out of range in self", "IndexError: index out of range in self"),
        ("Expected floating point type", "RuntimeError: expected target dtype to be Long"),
        ("mask shape error", "RuntimeError: the shape of the attn_mask is wrong"),
        ("atention is unifrom", "Attention is almost uniform"),
        ("einsum wrong", "RuntimeError: einsum()"),
        ("-inf", "∞"),
        (TRACEBACK, "RuntimeError: the size of tensor a must match"),
    ],
    ids=lambda text: text[:20],
)
def test_what_is_pasted_finds_its_symptom_first(visit: Visit, said: str, first: str) -> None:
    view = visit(GUIDE).view
    view.get_by_role("textbox", name="What do you see?").fill(said)
    expect(view.locator(".symptoms-found a").first).to_contain_text(first)


def test_the_search_is_loaded_when_it_is_used_and_asked_for_again_when_that_failed(visit: Visit) -> None:
    page = visit(GUIDE)
    asked = []
    page.view.on("request", lambda request: asked.append(request.url))
    page.view.route("**/minisearch.js", lambda route: route.abort())
    field = page.view.get_by_role("textbox", name="What do you see?")
    expect(field).to_be_visible()
    assert asked == []
    field.fill("no")
    expect(page.view.locator(".symptoms-count")).to_contain_text("could not be loaded")
    field.fill("no scale")
    expect(page.view.locator(".symptoms-found a").first).to_have_text("no scale")
    page.complaints = [each for each in page.complaints if "ERR_FAILED" not in each]


def test_without_a_script_there_is_no_field_but_the_list(visit: Visit) -> None:
    view = visit(GUIDE, java_script_enabled=False).view
    expect(view.locator(".symptoms")).to_be_hidden()
    expect(view.get_by_role("link", name="symptoms and error messages").first).to_be_visible()


def test_the_search_by_meaning_runs_the_courses_encoder(visit: Visit) -> None:
    view = visit(GUIDE).view
    field, count = view.get_by_role("textbox", name="What do you see?"), view.locator(".symptoms-count")
    field.fill("xyzzyx")
    expect(count).to_contain_text("Nothing has these words")
    button = view.get_by_role("button", name=re.compile(r"Also search by meaning \(\d\d MB, once\)"))
    button.click()
    expect(button).to_have_count(0, timeout=60_000)
    expect(view.locator(".symptoms-found a").nth(9)).to_be_visible(timeout=60_000)  # meaning finds something
    field.fill("The verdict does not stay put from one call to another")
    expect(view.locator(".symptoms-found")).to_contain_text("The same input gives different results")


@pytest.mark.parametrize(
    ("said", "symptom"),
    [
        ("same sentence gives different results every time", "The same input gives different results"),
        ("loss does not go down", "The loss does not go down"),
        ("future tokens leak", "Tokens see the future"),
        ("the order of words makes no difference", "The order of the words makes no difference"),
        ("weights: the columns sum to 1, not the rows", "The rows of the attention weights do not sum"),
        ("padding changes output", "Results change with the padding"),
        ("my loss is nan after a few steps", "The loss jumps, or becomes NaN"),
        ("RuntimeError: view size is not compatible with", "RuntimeError: view size"),
        ("same output for every token", "Every token gets the same output"),
        ("the mask has no effect", "The mask has no effect"),
        ("CUDA out of memory", "Out of memory"),
        ("validation loss goes up", "Good in training, bad in the test"),
        ("generation repeats the same token", "With a key-value cache it writes something else"),
        ("my LoRA is not learning", "An adapter (LoRA) learns nothing"),
    ],
)
def test_what_people_say_finds_the_symptom_first(visit: Visit, said: str, symptom: str) -> None:
    view = visit(f"{GUIDE}?{urlencode({'symptom': said})}").view
    first = view.locator(".symptoms-found a").first
    expect(first).to_contain_text(symptom)
    first.click()
    expect(view.get_by_role("heading", name=symptom)).to_be_in_viewport()


def test_the_search_of_the_site_hands_on_to_the_field_guide(visit: Visit) -> None:
    view = visit("search.html?q=columns+sum+to+1").view
    view.get_by_role("link", name="Looking for a mistake?").click()
    expect(view.get_by_role("textbox", name="What do you see?")).to_have_value("columns sum to 1")
    expect(view.locator(".symptoms-found li").first).to_be_visible()


def test_formulas_are_set(visit: Visit) -> None:
    view = visit(LESSON).view
    expect(view.locator("mjx-container").first).to_be_visible()
    assert "$" not in view.locator("section#the-idea > p").first.inner_text()


def test_on_paper_there_are_no_buttons_and_folds_are_open_but_for_hints_and_solutions(visit: Visit) -> None:
    view = visit(LESSON).view
    view.emulate_media(media="print")
    outputs = view.locator("details.hide .output")
    expect(outputs.first).to_be_hidden()
    view.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(outputs.first).to_be_visible()
    expect(view.locator("details", has_text="Solution").first.locator("pre")).to_be_hidden()
    view.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(outputs.first).to_be_hidden()
    expect(view.locator(".run-this").first).to_be_hidden()
    expect(view.locator(".bd-sidebar-primary")).to_be_hidden()
    expect(view.get_by_role("heading", level=1)).to_be_visible()


def test_the_course_can_be_taken_along(visit: Visit) -> None:
    view = visit("start.html").view
    with view.expect_download() as download:
        view.get_by_role("link", name="transformer-lab.zip").click()
    names = set(ZipFile(download.value.path()).namelist())
    for name in ("README.md", "Makefile", "notebooks/00_start_here.ipynb"):
        assert f"transformer-lab/{name}" in names
    assert not any("my_lessons" in name or ".venv" in name for name in names)


def test_the_notebook_can_be_taken_along(visit: Visit) -> None:
    view = visit(LESSON).view
    with view.expect_download() as download:
        view.get_by_role("link", name="this notebook").click()
    assert json.loads(download.value.path().read_text("utf-8"))["nbformat"] == 4
