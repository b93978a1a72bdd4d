"""What a page costs and how it shows: requests and bytes, heads, icons, code on a phone, forced colours."""

import re
from html import unescape

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.site import SITE, SitePage, pages

LESSON = "lessons/03_scaled_dot_product_attention.html"
NAMES = sorted(str(file.relative_to(SITE)) for file in pages())
CODE = [
    LESSON,
    "field_guide/05_multi_head_attention.html",
    "_modules/transformer_lab/masking.html",
    "start.html",
]
PHONE = {"viewport": {"width": 390, "height": 844}}


def asked_for(page: SitePage) -> dict[str, int]:
    """Return what the page has loaded, and how many bytes of it."""
    page.view.wait_for_load_state("networkidle")
    found = page.view.evaluate(
        "() => performance.getEntries().filter((each) => each.decodedBodySize)"
        ".map((each) => [each.name, each.decodedBodySize])"
    )
    return {name.removeprefix(page.address): size for name, size in found}


def test_a_lesson_asks_for_little_and_for_no_icons_and_no_search(visit: Visit) -> None:
    loaded = asked_for(visit(LESSON, viewport={"width": 1280, "height": 900}))
    assert not [
        name for name in loaded if re.search("fontawesome|searchindex|searchtools|language_data", name)
    ]
    assert len(loaded) <= 26 and sum(loaded.values()) < 2_200_000, loaded  # 1.2 MB are the setter of formulas


def test_the_search_comes_when_somebody_asks_for_it(visit: Visit) -> None:
    page = visit(LESSON)
    page.view.keyboard.press("Control+k")
    page.view.get_by_role("searchbox").fill("padding")
    page.view.keyboard.press("Enter")
    page.view.wait_for_url("**/search.html?q=padding")
    assert any("searchindex" in name for name in asked_for(page))
    expect(page.view.locator("#search-results li").nth(1)).to_contain_text("Masking")


def test_no_page_loads_an_icon_of_the_theme() -> None:
    texts = [(SITE / name).read_text("utf-8") for name in NAMES]
    texts += [file.read_text("utf-8") for file in (SITE / "_static" / "styles").glob("*.css")]
    assert not [text for text in texts if re.search(r"fontawesome\.js|/fontawesome/", text)]
    drawn = set(re.findall(r"\.(fa-[\w-]+) \{ --icon", (SITE / "_static" / "course.css").read_text("utf-8")))
    shown = {
        name
        for text in texts
        for of in re.findall(r'class="[^"]*fa-solid ([^"]*)"', text)
        for name in of.split()
    }
    assert {name for name in shown if name.startswith("fa-")} - {"fa-lg", "fa-fw"} == drawn


def test_every_page_has_a_title_and_a_description_of_its_own() -> None:
    seen: dict[str, set[str]] = {"title": set(), "description": set()}
    for name in NAMES:
        text = (SITE / name).read_text("utf-8")
        tags = dict(re.findall(r'<meta (?:name|property)="([\w:]+)" content="([^"]*)"', text))
        title, about = unescape(tags["og:title"]), unescape(tags["description"])
        assert text.count('name="description"') == 1 and tags["og:description"] == tags["description"], name
        assert 40 <= len(about) <= 220 and not re.search(r"[<\\]", about), (name, about)
        assert len(title) <= 85, (name, title)
        seen["title"].add(title)
        seen["description"].add(about)
    assert {kind: len(words) for kind, words in seen.items()} == {kind: len(NAMES) for kind in seen}


def test_no_words_of_a_picture_are_longer_than_one_can_listen_to() -> None:
    texts = [(SITE / name).read_text("utf-8") for name in NAMES]
    assert max(len(unescape(alt)) for text in texts for alt in re.findall(r'alt="([^"]*)"', text)) <= 600


@pytest.mark.parametrize("name", CODE)
@pytest.mark.parametrize("width", [320, 390, 768])
def test_code_is_never_wider_than_its_box(visit: Visit, name: str, width: int) -> None:
    view = visit(name, viewport={"width": width, "height": 800}).view
    wide, lines = view.evaluate(
        """() => {
          for (const fold of document.querySelectorAll(".bd-article details")) fold.open = true;
          const code = [...document.querySelectorAll(".bd-article .highlight pre")];
          const written = code.filter((each) => innerWidth < 600 || !each.closest(".cell_output"));
          const left = (each) => each.getBoundingClientRect().left;
          const cut = (each) => [...each.querySelectorAll("span")].some((word) => left(word) < left(each));
          const wide = written.filter((each) => each.scrollWidth > each.clientWidth || cut(each));
          return [wide.map((each) => each.textContent.slice(0, 60)), written.length];
        }"""
    )
    assert wide == [] and lines > 0


def test_a_broken_line_goes_on_behind_its_indentation(visit: Visit) -> None:
    view = visit(LESSON, **PHONE).view
    lines = view.evaluate(
        """() => [...document.querySelectorAll(".cell_input .hang")].map((line) => {
          const text = document.createRange();
          text.selectNodeContents(line);
          const left = {};  // of each row
          for (const box of text.getClientRects()) {
            const row = Math.round(box.bottom / 10);
            left[row] = Math.min(left[row] ?? Infinity, box.left);
          }
          const sign = parseFloat(getComputedStyle(line).fontSize) * 0.55;
          return [sign * line.style.getPropertyValue("--indent"), Object.values(left)];
        })"""
    )
    broken = [(indent, first, rest) for indent, (first, *rest) in lines if rest]
    assert len(broken) > 50
    assert all(min(rest) > first + indent for indent, first, rest in broken)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_icons_are_seen_and_their_buttons_named_and_worked_by_keys(visit: Visit, scheme: str) -> None:
    page = visit(LESSON, **PHONE)
    page.theme(scheme)
    for name, key in (
        ("Toggle primary sidebar", "#pst-primary-sidebar-modal"),
        ("Search", "#pst-search-dialog"),
    ):
        button = page.view.get_by_role("button", name=name, exact=True).locator("visible=true").first
        icon = button.locator(".fa-solid")
        assert icon.evaluate("icon => getComputedStyle(icon, '::before').maskImage").startswith("url")
        assert min(icon.bounding_box()[side] for side in ("width", "height")) >= 12
        button.press("Enter")
        expect(page.view.locator(key)).to_be_visible()
        page.view.keyboard.press("Escape")
        expect(page.view.locator(key)).to_be_hidden()


def test_dark_and_light_can_be_chosen_with_the_keyboard(visit: Visit) -> None:
    view = visit(LESSON, viewport={"width": 1280, "height": 900}).view
    for theme in ("Dark", "Light"):
        button = view.locator(".theme-switch-button:visible").first
        button.press("Enter")
        view.get_by_role("button", name=theme, exact=True).locator("visible=true").press("Enter")
        assert view.evaluate("document.documentElement.dataset.theme") == theme.lower()


def test_in_forced_colours_what_backgrounds_say_is_said_by_lines(visit: Visit) -> None:
    view = visit(LESSON, viewport={"width": 1280, "height": 900}, forced_colors="active").view
    style = "(each, pseudo) => getComputedStyle(each, pseudo)"
    icon = view.locator(".primary-toggle .fa-solid")
    colour = icon.evaluate(f"each => ({style})(each, '::before').backgroundColor")
    assert colour != view.locator("body").evaluate(f"each => ({style})(each).backgroundColor")
    exercise = view.locator(".cell.tag_exercise > .cell_input").first
    assert exercise.evaluate(f"each => ({style})(each).borderLeftStyle") == "double"
    for box in (".cell_input", "details.answer", ".admonition.run-this"):
        assert (
            view.locator(f".bd-article {box}").first.evaluate(f"each => ({style})(each).borderLeftStyle")
            == "solid"
        )
    here = view.locator(".bd-sidebar .current > a").first
    assert here.evaluate(f"each => ({style})(each).outlineStyle") == "solid"
    assert "gradient" not in view.locator(".bd-article mjx-container[display=true]").first.evaluate(
        f"each => ({style})(each).backgroundImage"
    )
