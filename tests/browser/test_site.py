"""The built site as a reader meets it: every page opens, can be read, and leads where it says."""

import json
import re
import tomllib
from html import unescape
from pathlib import Path
from zipfile import ZipFile

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visit
from tests.browser.site import ROOT, SITE, broken, pages

DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 360, "height": 740}}
NAMES = sorted(str(file.relative_to(SITE)) for file in pages())
LESSONS = [name for name in NAMES if name.startswith("lessons/")]
LESSON = "lessons/03_scaled_dot_product_attention.html"
GUIDE = "field_guide/index.html"
SYMPTOM = "field_guide/symptoms/runtimeerror-mat1-and-mat2-shapes-cannot-be-multiplied.html"
PASTED = tomllib.loads((ROOT / "tests" / "site" / "messages.toml").read_text("utf-8"))["message"]
TRACEBACK = max((message["said"] for message in PASTED), key=len)
# One page of each kind: the other pages are made of the same parts.
OTHERS = ["index.html", "field_guide/scale.html", "glossary.html", "search.html", "live.html"]
KINDS = [LESSON, GUIDE, SYMPTOM, *OTHERS]
CODE = [
    LESSON,
    "field_guide/05_multi_head_attention.html",
    "_modules/transformer_lab/masking.html",
    "start.html",
]
# Rules of axe that hold on every lesson, light and dark.
RULES = ["color-contrast", "image-alt", "link-name", "button-name", "summary-name", "document-title"]


# What the files say, read without a browser


def test_the_site_is_whole_and_every_link_and_anchor_exists() -> None:
    assert len(LESSONS) == 15
    assert {"index.html", "live.html", "glossary.html", "diagnostics.html"} <= set(NAMES)
    assert len(NAMES) > 90
    assert broken(pages()) == []


def test_a_broken_link_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "there.html").write_text('<p id="here">')
    links = ["there.html#here", "there.html#gone", "gone.html", "https://example.org"]
    text = "".join(f'<a href="{link}">' for link in links) + '<img src="https://example.org/a.png">'
    (tmp_path / "page.html").write_text(text)
    found = [line.partition("> ")[2] for line in broken(pages(tmp_path))]
    assert found == ["there.html#gone", "gone.html", "https://example.org/a.png"]


def test_no_page_loads_an_icon_of_the_theme() -> None:
    texts = [(SITE / name).read_text("utf-8") for name in NAMES]
    texts += [file.read_text("utf-8") for file in (SITE / "_static" / "styles").glob("*.css")]
    assert not [text for text in texts if re.search(r"fontawesome\.js|/fontawesome/", text)]
    style = (SITE / "_static" / "course.css").read_text("utf-8")
    drawn = set(re.findall(r"\.(fa-[\w-]+) \{ --icon", style))
    classes = [name for text in texts for name in re.findall(r'class="[^"]*fa-solid ([^"]*)"', text)]
    shown = {name for names in classes for name in names.split() if name.startswith("fa-")}
    assert shown - {"fa-lg", "fa-fw"} == drawn


def test_every_page_has_a_title_and_a_description_of_its_own() -> None:
    titles, descriptions = set(), set()
    for name in NAMES:
        text = (SITE / name).read_text("utf-8")
        tags = dict(re.findall(r'<meta (?:name|property)="([\w:]+)" content="([^"]*)"', text))
        title, about = unescape(tags["og:title"]), unescape(tags["description"])
        assert text.count('name="description"') == 1 and tags["og:description"] == tags["description"], name
        assert 40 <= len(about) <= 220 and not re.search(r"[<\\]", about), (name, about)
        assert len(title) <= 85, (name, title)
        titles.add(title)
        descriptions.add(about)
    assert len(titles) == len(descriptions) == len(NAMES)


# Every page, on every screen


def test_pages_fit_a_phone_and_are_legible_in_light_and_in_dark(visit: Visit) -> None:
    page = visit("index.html", **PHONE)
    for name in NAMES:
        if "/symptoms/" in name and name != SYMPTOM:  # all of one kind
            continue
        page.go(name)
        assert page.overhang() <= 0, name
        for theme in ("light", "dark") if name in (*LESSONS, *KINDS) else ():
            page.theme(theme)
            assert page.violations(*RULES) == []


def test_pages_obey_every_rule_of_accessibility(visit: Visit) -> None:
    page = visit("index.html", **DESKTOP)
    for name in KINDS:
        page.go(name)
        # The theme's side bar stands in no landmark.
        assert [fault for fault in page.violations() if ": region: .sidebar" not in fault] == []


def test_code_is_never_wider_than_its_box(visit: Visit) -> None:
    page = visit("index.html", **PHONE)
    for name in CODE:
        page.go(name)
        for width in (320, 390, 768):
            page.view.set_viewport_size({"width": width, "height": 800})
            wide, lines = page.view.evaluate(
                """() => {
                  for (const fold of document.querySelectorAll(".bd-article details")) fold.open = true;
                  const code = [...document.querySelectorAll(".bd-article .highlight pre")];
                  const written = code.filter((each) => innerWidth < 600 || !each.closest(".cell_output"));
                  const left = (each) => each.getBoundingClientRect().left;
                  const words = (each) => [...each.querySelectorAll("span")];
                  const cut = (each) => words(each).some((word) => left(word) < left(each));
                  const wide = written.filter((each) => each.scrollWidth > each.clientWidth || cut(each));
                  return [wide.map((each) => each.textContent.slice(0, 60)), written.length];
                }"""
            )
            assert wide == [] and lines > 0, (name, width)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_icons_are_seen_and_their_buttons_named_and_worked_by_keys(visit: Visit, scheme: str) -> None:
    page = visit(LESSON, **PHONE)
    page.theme(scheme)
    for name, opened in (
        ("Toggle primary sidebar", "#pst-primary-sidebar-modal"),
        ("Search", "#pst-search-dialog"),
    ):
        button = page.view.get_by_role("button", name=name, exact=True).locator("visible=true").first
        icon = button.locator(".fa-solid")
        assert icon.evaluate("icon => getComputedStyle(icon, '::before').maskImage").startswith("url")
        assert min(icon.bounding_box()[side] for side in ("width", "height")) >= 12
        button.press("Enter")
        expect(page.view.locator(opened)).to_be_visible()
        page.view.keyboard.press("Escape")
        expect(page.view.locator(opened)).to_be_hidden()


def test_in_forced_colours_what_backgrounds_say_is_said_by_lines(visit: Visit) -> None:
    view = visit(LESSON, **DESKTOP, forced_colors="active").view
    style = "(each, pseudo) => getComputedStyle(each, pseudo)"
    icon = view.locator(".primary-toggle .fa-solid")
    colour = icon.evaluate(f"each => ({style})(each, '::before').backgroundColor")
    assert colour != view.locator("body").evaluate(f"each => ({style})(each).backgroundColor")
    for box, border in {".cell.tag_exercise > .cell_input": "double", "details.answer": "solid"}.items():
        left = view.locator(f".bd-article {box}").first.evaluate(f"each => ({style})(each).borderLeftStyle")
        assert left == border, box
    here = view.locator(".bd-sidebar .current > a").first
    assert here.evaluate(f"each => ({style})(each).outlineStyle") == "solid"


# A lesson


def test_a_lesson_loads_little_and_no_icons_and_no_search_until_it_is_used(visit: Visit) -> None:
    page = visit(LESSON, **DESKTOP)

    def loaded() -> dict[str, int]:
        page.view.wait_for_load_state("networkidle")
        entries = page.view.evaluate(
            "() => performance.getEntries().filter((each) => each.decodedBodySize)"
            ".map((each) => [each.name, each.decodedBodySize])"
        )
        return {name.removeprefix(page.address): size for name, size in entries}

    sizes = loaded()
    assert not re.search("fontawesome|search", " ".join(sizes))
    assert len(sizes) <= 26 and sum(sizes.values()) < 2_200_000, sizes  # 1.2 MB set the formulas
    expect(page.view.locator("mjx-container").first).to_be_visible()
    assert "$" not in page.view.locator("section[id^='the-idea'] > p").first.inner_text()
    for theme in ("Dark", "Light"):
        page.view.locator(".theme-switch-button:visible").first.press("Enter")
        page.view.get_by_role("button", name=theme, exact=True).locator("visible=true").press("Enter")
        assert page.view.evaluate("document.documentElement.dataset.theme") == theme.lower()
    deeper = page.view.locator('.page-toc li:has(> a[href="#deeper"])')
    note = deeper.evaluate("item => getComputedStyle(item.firstElementChild, '::after').content")
    assert "optional" in note

    page.view.keyboard.press("Control+k")
    page.view.get_by_role("searchbox").fill("padding")
    page.view.keyboard.press("Enter")
    page.view.wait_for_url("**/search.html?q=padding")
    expect(page.view.locator("#search-results li").first).to_contain_text("adding")
    needed = {name: size for name, size in loaded().items() if re.search("search|desk", name)}
    assert len(needed) == 6 and sum(needed.values()) < 520_000, needed  # 20 kB of them are the page


def test_what_a_lesson_folds_opens_with_a_click_all_at_once_and_on_paper(visit: Visit) -> None:
    view = visit(LESSON).view
    fold = view.locator(".cell.tag_hide-output:has(+ details.answer)").first
    output, answer = fold.locator(".output").first, fold.locator("+ details.answer p").first
    expect(output).to_be_hidden()
    expect(answer).to_be_hidden()
    view.emulate_media(media="print")
    view.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(output).to_be_visible()
    solution = view.locator("details", has_text="Solution").first
    expect(solution.locator("pre")).to_be_hidden()
    view.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(output).to_be_hidden()
    for button in (".run-this", ".bd-sidebar-primary"):
        expect(view.locator(button).first).to_be_hidden()
    expect(view.get_by_role("heading", level=1)).to_be_visible()
    view.emulate_media(media="screen")

    fold.locator("summary").first.click()
    expect(output).to_be_visible()
    expect(answer).to_be_visible()
    fold.locator("summary").first.click()
    folds = view.locator(".cell.tag_hide-output details.hide, details.answer")
    closed = view.locator("details.hide:not([open]), details.answer:not([open])")
    expect(closed).to_have_count(folds.count())
    assert folds.count() > 10
    view.get_by_role("button", name="Open all answers").click()
    expect(closed).to_have_count(0)
    expect(solution.locator("pre")).to_be_hidden()
    view.get_by_role("button", name="Close all answers").click()
    expect(closed).to_have_count(folds.count())
    solution.locator("summary").click()
    expect(solution.locator("pre")).to_contain_text("key.mT / math.sqrt(d_head)")


def test_a_slider_moves_with_the_keyboard_and_says_so_without_a_kernel(visit: Visit) -> None:
    slider = visit(LESSON).view.locator(".stops:visible").first
    stop = slider.get_by_role("slider")
    stop.scroll_into_view_if_needed()
    picture = slider.locator("img")
    alone = slider.get_by_role("link", name="Open this picture alone")
    before, source = slider.inner_text(), picture.get_attribute("src")
    for key in ("ArrowRight", "ArrowLeft"):
        stop.press(key)
        expect(picture).to_have_count(1)
        assert stop.get_attribute("aria-valuetext") in slider.inner_text()
        assert (slider.inner_text() != before) == (key == "ArrowRight")
        assert (picture.get_attribute("src") != source) == (key == "ArrowRight")
        assert alone.get_attribute("href").endswith(picture.get_attribute("src").removeprefix(".."))
    assert picture.evaluate("image => image.naturalWidth") > 300


def test_the_glossary_is_filtered_by_beginnings_of_words_and_by_abbreviations(visit: Visit) -> None:
    view = visit("glossary.html").view
    terms, field = view.locator("dl.glossary dt:visible"), view.get_by_role("searchbox", name="Filter")
    count = terms.count()
    assert count > 100
    for typed, found in {
        "LN": "Layer norm",
        "mha": "Head",
        "rope": "Rotary",
        "residual str": "Residual",
    }.items():
        field.fill(typed)
        expect(terms.filter(has_text=re.compile(f"^{found}"))).to_have_count(1)
        assert terms.count() < 12
        expect(view.get_by_role("status")).to_have_text(f"{terms.count()} of {count} terms")
    field.fill("(no such term")
    expect(terms).to_have_count(0)
    field.fill("")
    expect(terms).to_have_count(count)


def test_the_course_and_a_notebook_can_be_taken_along(visit: Visit) -> None:
    page = visit("start.html")
    with page.view.expect_download() as download:
        page.view.get_by_role("link", name="transformer-lab.zip").click()
    names = set(ZipFile(download.value.path()).namelist())
    files = ("README.md", "Makefile", "notebooks/00_start_here.ipynb")
    assert {f"transformer-lab/{name}" for name in files} <= names
    assert not any("my_lessons" in name or ".venv" in name for name in names)
    page.go(LESSON)
    with page.view.expect_download() as download:
        page.view.get_by_role("link", name="this notebook").click()
    assert json.loads(download.value.path().read_text("utf-8"))["nbformat"] == 4


# The search, and the field guide's


def test_search_has_the_section_among_the_first_three_for_28_of_30_queries(visit: Visit) -> None:
    page = visit("search.html")
    field, links = (
        page.view.get_by_role("searchbox").locator("visible=true"),
        page.view.locator("#search-results a"),
    )
    anchors = {str(file.relative_to(SITE)): about.ids for file, about in pages().items()}
    queries = tomllib.loads(Path(__file__).with_name("queries.toml").read_text("utf-8"))["query"]
    missed = []
    for query in queries:
        field.fill(query["text"])
        expect(page.view.get_by_role("status")).to_contain_text(re.compile("best"))
        found = links.evaluate_all("links => links.map((link) => link.getAttribute('href'))")
        assert all(anchor in anchors[name] for name, _, anchor in (link.partition("#") for link in found))
        if not any(re.search(right, link, re.IGNORECASE) for right in query["right"] for link in found[:3]):
            missed.append((query["text"], found[:3]))
    assert len(queries) == 30 and len(missed) <= 2, missed
    field.fill("xylophone")
    expect(links).to_have_count(0)
    expect(page.view.get_by_role("status")).to_have_text("Nothing contains these words. Try others.")


def test_search_leads_to_a_mistake_and_to_the_field_guide(visit: Visit) -> None:
    page = visit("search.html?q=softmax+over+the+queries")
    page.view.locator("#search-results a", has_text="softmax over the queries").first.click()
    page.view.wait_for_url("**/field_guide/**")
    expect(page.view.locator(":target")).to_be_in_viewport()
    expect(page.view.locator(":target")).to_contain_text("softmax over the queries")
    page.go("search.html?q=columns+sum+to+1")
    page.view.get_by_role("link", name="Look for it in the field guide").click()
    expect(page.view.get_by_role("textbox", name="What do you see?")).to_have_value("columns sum to 1")
    expect(page.view.locator(".symptoms-found li").first).to_be_visible()


def test_a_mistake_or_a_symptom_is_found_by_its_words_and_leads_to_its_page(visit: Visit) -> None:
    """Which words find what is tested in tests/site, without a browser."""
    view = visit(GUIDE).view
    field, count = view.get_by_role("textbox", name="What do you see?"), view.locator(".symptoms-count")
    first = view.locator(".symptoms-found li").first
    field.fill("softmax over the queries")
    expect(first.locator("a").first).to_have_text("softmax over the queries")
    expect(first).to_contain_text("03.2 Write scaled dot-product attention")  # and where else it is met
    expect(first.get_by_role("link", name="09.4")).to_be_visible()
    field.fill("purple elephants")
    expect(count).to_contain_text("Nothing contains these words")
    field.fill("")
    expect(count).to_have_text("")
    expect(first).to_have_count(0)
    field.fill(TRACEBACK)
    expect(first).to_contain_text("RuntimeError: the size of tensor a must match")
    field.fill("missing scale")
    expect(first).to_contain_text("missing scale")
    expect(count).to_contain_text("found, best match first")
    first.locator("a").first.click()
    view.wait_for_url("**/field_guide/0*#m-*")
    expect(view.get_by_role("heading", name="missing scale").first).to_be_in_viewport()


def test_the_search_is_loaded_when_it_is_used_and_asked_for_again_when_that_failed(visit: Visit) -> None:
    page = visit(GUIDE)
    requests = []
    page.view.on("request", lambda request: requests.append(request.url))
    page.view.route("**/minisearch.js", lambda route: route.abort())
    field = page.view.get_by_role("textbox", name="What do you see?")
    expect(field).to_be_visible()
    assert requests == []
    field.fill("no")
    expect(page.view.locator(".symptoms-count")).to_contain_text("could not be loaded")
    field.fill("missing scale")
    expect(page.view.locator(".symptoms-found a").first).to_have_text("missing scale")
    page.complaints = [complaint for complaint in page.complaints if "ERR_FAILED" not in complaint]


def test_without_a_script_there_is_no_field_but_the_list(visit: Visit) -> None:
    view = visit(GUIDE, java_script_enabled=False).view
    expect(view.locator(".symptoms")).to_be_hidden()
    expect(view.get_by_role("link", name="symptoms and error messages").first).to_be_visible()


def test_the_search_by_meaning_runs_the_courses_encoder(visit: Visit) -> None:
    view = visit(GUIDE).view
    field, count = view.get_by_role("textbox", name="What do you see?"), view.locator(".symptoms-count")
    field.fill("xyzzyx")
    expect(count).to_contain_text("Nothing contains these words")
    button = view.get_by_role("button", name=re.compile(r"Also search by meaning \(\d\d MB, once\)"))
    button.click()
    expect(button).to_have_count(0, timeout=60_000)
    expect(view.locator(".symptoms-found a").nth(9)).to_be_visible(timeout=60_000)  # meaning finds something
    field.fill("The verdict does not stay put from one call to another")
    expect(view.locator(".symptoms-found")).to_contain_text("The same input gives different results")
