"""The live page: its encoder gives PyTorch's numbers, and every oddity is answered in words."""

import copy
from collections.abc import Iterator

import nbformat
import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.conftest import Visit
from tests.browser.site import SitePage
from transformer_course.lessons import notebook
from transformer_lab import Encoder, padding_mask_from_lengths
from transformer_lab.diagnostics import attention_on
from transformer_lab.pretrained_encoder import Tokenizer, load_minilm, sentence_embeddings

MOST_DIFFERENCE = 2e-3
TEXTS = [
    "The old cat met the young cat.",
    "x",
    "Unbelievably, antidisestablishmentarianism!",
    "She paid money into the bank; the bank paid her nothing.",
    "日本語のテキスト",
    "الثعلب البني السريع",
    "😀 and 👩‍👩‍👧 smile",
    "é è ñ ü – naïve café",
    "  many   spaces\tand\nlines  ",
    "1 + 1 = 2; f(x) = x² ≥ 0 <b>&amp;</b>",
    "word after word " * 40,
    "the " * 62,
]
PAIRS = [
    ("Snow fell.", "Snow fell on the quiet town all night."),
    ("The dog bit the man.", "The man bit the dog."),
]
RUN = """([texts, options]) => live.run(texts, options).then(({cuts, dims, maps, vectors}) => ({
    tokens: cuts.map(({tokens}) => tokens), ids: cuts.map(({ids}) => ids), dims, maps: Array.from(maps),
    vectors: vectors.map((vector) => Array.from(vector)),
}))"""


@pytest.fixture(scope="module")
def minilm() -> tuple[Encoder, Tokenizer]:
    return load_minilm(dtype=torch.float32)


@pytest.fixture(scope="module")
def loaded(browser: Browser, site: str) -> Iterator[Page]:
    """The live page with its model."""
    page = SitePage(browser.new_context(viewport={"width": 1280, "height": 1000}), site, "live.html")
    load(page.view)
    yield page.view
    assert page.complaints == []
    page.window.close()


def load(view: Page) -> None:
    view.evaluate("live.ready")
    view.locator("#live-load").click()
    expect(view.locator("#live-status")).to_contain_text("Computed in", timeout=60_000)


def in_browser(view: Page, texts: list[str], **options: bool) -> dict:
    got = view.evaluate(RUN, [texts, options])
    got["maps"] = np.array(got["maps"]).reshape(got["dims"])
    return got


@torch.no_grad()
def in_pytorch(
    encoder: Encoder, ids: list[list[int]], mask: bool = True, positions: bool = True
) -> np.ndarray:
    """The maps (layers, batch, heads, query_pos, key_pos), with or without mask and positions."""
    if not positions:
        encoder = copy.deepcopy(encoder)
        encoder.positions.table.copy_(encoder.positions.table.mean(dim=0).expand_as(encoder.positions.table))
    lengths = torch.tensor([len(each) for each in ids])
    padded = torch.tensor([each + [0] * (max(lengths) - len(each)) for each in ids])
    _, weights = encoder(padded, padding_mask_from_lengths(lengths) if mask else None)
    return torch.stack(weights).numpy()


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_and_maps_of_a_text_are_pythons(loaded: Page, minilm: tuple, text: str) -> None:
    encoder, tokenizer = minilm
    got = in_browser(loaded, [text])
    encoding = tokenizer.pieces.encode(text)
    ids, tokens = encoding.ids, encoding.tokens
    if len(ids) > 64:
        ids, tokens = [*ids[:63], ids[-1]], [*tokens[:63], tokens[-1]]
    assert got["tokens"] == [tokens]
    assert got["ids"] == [ids]
    assert np.abs(got["maps"] - in_pytorch(encoder, [ids])).max() <= MOST_DIFFERENCE


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("mask", [True, False])
@pytest.mark.parametrize("texts", PAIRS)
def test_maps_of_a_pair_are_pytorchs_whatever_is_taken_away(
    loaded: Page, minilm: tuple, texts: tuple[str, str], mask: bool, positions: bool
) -> None:
    got = in_browser(loaded, list(texts), mask=mask, positions=positions)
    wanted = in_pytorch(minilm[0], got["ids"], mask, positions)
    assert got["maps"].shape == wanted.shape
    assert np.abs(got["maps"] - wanted).max() <= MOST_DIFFERENCE


def test_vectors_of_texts_are_pythons(loaded: Page, minilm: tuple) -> None:
    texts = list(PAIRS[0])
    got = torch.tensor(in_browser(loaded, texts)["vectors"], dtype=torch.float32)
    cosines = torch.cosine_similarity(got, sentence_embeddings(*minilm, texts))
    assert cosines.min() > 0.9999


def test_roles_are_scored_as_in_lesson_09(loaded: Page) -> None:
    text = "The dog chased the ball and the ball rolled away."
    got = in_browser(loaded, [text])
    tokens, weights = got["tokens"][0], torch.tensor(got["maps"][:, 0])  # (layers, heads, query_pos, key_pos)
    cells = {cell.id: cell.source for cell in nbformat.read(notebook(9), as_version=4).cells}
    names: dict = {"torch": torch}
    exec(cells["see-wanted"].partition("\n\n\n")[0], names)
    score = """async ([text, role]) => {
        const { score } = await import("./_static/live/roles.js");
        const { headMap } = await import("./_static/live/model.js");
        const result = await live.run([text]);
        const { tokens } = result.cuts[0];
        return [0, 1, 2, 3, 4, 5].map((layer) => score(headMap(result, layer, 0, 8), tokens, role));
    }"""
    for role, wanted in names["wanted_keys"](tokens).items():
        expected = attention_on(weights, wanted)[:, 8]
        assert loaded.evaluate(score, [text, role]) == pytest.approx(expected.tolist(), abs=1e-6)


def test_before_the_model_is_loaded_a_stored_example_is_shown(visit: Visit, minilm: tuple) -> None:
    view = visit("live.html").view
    expect(view.locator(".live-heads button")).to_have_count(72)
    cells = view.locator(".live-map td")
    expect(cells).to_have_count(14 * 14)
    ids = minilm[1].pieces.encode(view.locator("#live-first").input_value()).ids
    shown = [float(cell.get_attribute("title")) for cell in cells.all()]
    wanted = in_pytorch(minilm[0], [ids])[2, 0, 9]
    assert np.abs(np.array(shown).reshape(14, 14) - wanted).max() < 1e-4
    view.locator("#live-first").fill("Something else")
    expect(view.locator("#live-status")).to_contain_text("still the stored example: load the model")


def test_typing_changes_the_map(loaded: Page) -> None:
    loaded.locator("#live-first").fill("Rain and wind, wind and rain")
    expect(loaded.locator(".live-map tbody th")).to_have_text(
        ["[CLS]", "rain", "and", "wind", ",", "wind", "and", "rain", "[SEP]"]
    )
    expect(loaded.locator("#live-words")).to_contain_text("Strongest between two words: “")


def test_heads_are_picked_by_keyboard(loaded: Page) -> None:
    buttons, title = loaded.locator(".live-heads button"), loaded.locator("#live-head-title")
    buttons.nth(0).click()
    for key, heading in [
        ("ArrowRight", "Layer 0, head 1"),
        ("ArrowDown", "Layer 1, head 1"),
        ("End", "Layer 5, head 11"),
        ("ArrowRight", "Layer 5, head 11"),  # there is none behind it
        ("ArrowUp", "Layer 4, head 11"),
        ("Home", "Layer 0, head 0"),
    ]:
        loaded.keyboard.press(key)
        expect(title).to_contain_text(heading)
    expect(buttons.nth(0)).to_be_focused()
    expect(loaded.locator(".live-heads [tabindex='0']")).to_have_count(1)
    expect(loaded.locator(".live-heads [aria-pressed='true']")).to_have_count(1)
    expect(loaded.get_by_role("button", name="Layer 0, head 2: previous token")).to_be_visible()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("", "Type at least one word"),
        ("   \t ", "Type at least one word"),
        ("word " * 100, "It has 102 tokens; only the first 62"),
        ("a" * 5000, "It has 5,000 characters; the first 4000 are read"),
        ("I 😀 you", "1 of 3 tokens is [UNK]"),
        ("日本語", "cut one by one"),
        ("الثعلب البني السريع يقفز", "cut into pieces"),
        ("\u200b\u200d", "Nothing of it is left"),
    ],
)
def test_odd_input_is_answered_in_words(loaded: Page, text: str, answer: str) -> None:
    loaded.locator("#live-first").fill("A plain text.")
    expect(loaded.locator("#live-first-remark")).to_have_text("")
    loaded.locator("#live-first").fill(text)
    expect(loaded.locator("#live-first-remark")).to_contain_text(answer)


def test_half_a_character_is_replaced_and_told(loaded: Page) -> None:
    field = loaded.locator("#live-first")
    field.evaluate("f => { f.value = 'half \\ud83d a face'; f.dispatchEvent(new Event('input')); }")
    expect(loaded.locator("#live-first-remark")).to_contain_text("half a character")


def test_positions_and_mask_are_taken_away_and_the_effect_is_told(loaded: Page) -> None:
    words = loaded.locator("#live-words")
    loaded.get_by_role("button", name="Without positions, who bit whom?").click()
    expect(words).to_contain_text("cosine 1.00; with nothing taken away, .98")
    expect(loaded.locator("#live-mask")).to_be_disabled()  # both texts are as long
    loaded.locator("#live-positions").check()
    expect(words).to_contain_text("have the cosine .98 (1: the same")
    loaded.get_by_role("button", name="Without the mask, words look at padding").click()
    expect(words).to_contain_text("Without the mask the shorter text gives .64 of this head's weight to")
    expect(loaded.locator(".live-hidden")).to_have_count(0)
    loaded.locator("#live-compare").uncheck()
    # A single text has no padding: nothing is taken away, so there is nothing to compare with.
    expect(loaded.locator("#live-mask")).to_be_checked()
    expect(loaded.locator(".live-roles th[scope=col]")).to_have_text(["role", "ten sentences", "this text"])
    loaded.locator("#live-compare").check()
    expect(loaded.locator(".live-hidden")).to_have_count(6 * 11)  # [PAD], behind the mask of each query
    loaded.locator("#live-compare").uncheck()
    expect(loaded.locator(".live-map")).to_have_count(1)


def test_a_try_sets_text_head_and_switches_and_is_seen_in_the_roles(loaded: Page) -> None:
    previous = loaded.locator(".live-roles tr", has_text="previous").locator("td")
    loaded.get_by_role("button", name="A head looks at the token before").click()
    expect(previous).to_have_text(["1.00", "1.00"])
    loaded.get_by_role("button", name="Take the positions away: the diagonal is lost").click()
    expect(previous).to_have_text(["1.00", ".10", "1.00"])
    changed = "To the role “previous” the head gives .10 of its weight; with nothing taken away, 1.00."
    expect(loaded.locator("#live-words")).to_contain_text(changed)
    loaded.get_by_role("button", name="A word looks at its twin").click()
    expect(loaded.locator("#live-positions")).to_be_checked()
    expect(loaded.locator("#live-words")).to_contain_text("“saw”, token 9, looks at “saw”, token 3, with .97")


def test_a_head_that_looks_at_no_word_is_told_as_such(loaded: Page) -> None:
    loaded.get_by_role("button", name="A word looks at its twin").click()
    loaded.locator("#live-first").fill("My own words here")
    words = "No word gives .10 of its weight to another one; [CLS] and [SEP] get .93 in the mean."
    expect(loaded.locator("#live-words")).to_have_text(words)
    resting = loaded.locator(".live-roles tr", has_text="[CLS] or [SEP]").locator("td").last
    expect(resting).to_have_text(".93")


def test_a_text_without_words_is_computed_without_positions_too(loaded: Page) -> None:
    loaded.get_by_role("button", name="Take the positions away: the diagonal is lost").click()
    loaded.locator("#live-first").fill("\u200b")
    expect(loaded.locator(".live-map td")).to_have_count(2 * 2)  # [CLS] and [SEP]
    expect(loaded.locator("#live-words")).to_have_text("")
    expect(loaded.locator("#live-status")).to_contain_text("Computed in")


def test_a_try_loads_the_model_and_leads_to_its_map(visit: Visit) -> None:
    view = visit("live.html", viewport={"width": 1366, "height": 650}).view
    expect(view.locator(".live-map td").first).not_to_be_in_viewport()
    view.get_by_role("button", name="Take the positions away: the diagonal is lost").click()
    expect(view.locator("#live-status")).to_contain_text("Computed in", timeout=60_000)
    expect(view.locator("#live-words")).to_contain_text("The positions are taken away.")
    expect(view.locator(".live-map td").first).to_be_in_viewport()


def test_a_view_can_be_handed_on_as_an_address(visit: Visit) -> None:
    page = visit("live.html#text=Snow+fell.&head=1.8&positions=off")
    view = page.view
    expect(view.locator("#live-first")).to_have_value("Snow fell.")
    expect(view.locator("#live-positions")).not_to_be_checked()
    expect(view.locator("#live-status")).to_contain_text("still the stored example: load the model")
    expect(view.locator("#live-head-title")).to_contain_text("Layer 1, head 8: next token")
    load(view)
    expect(view.locator(".live-map tbody th")).to_have_text(["[CLS]", "snow", "fell", ".", "[SEP]"])


@pytest.mark.parametrize("state", ["head=NaN.x", "text=<img src=x onerror=alert(1)>", "%E0%A4"])
def test_an_address_that_makes_no_sense_does_no_harm(visit: Visit, state: str) -> None:
    view = visit(f"live.html#{state}").view
    expect(view.locator("#live-head-title")).to_contain_text("Layer 2, head 9: same word")
    expect(view.locator(".live-map td")).to_have_count(14 * 14)
    assert view.locator("#live img").count() == 0


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        ("offline", "Failed to fetch"),
        ("cut short", "encoder.onnx was cut short: 9 of"),
        ("gone", "encoder.onnx is not there (404)"),
    ],
)
def test_a_failed_download_is_told_and_can_be_tried_again(
    browser: Browser, site: str, failure: str, words: str
) -> None:
    page = SitePage(browser.new_context(), site, "live.html")

    def answer(route: Route) -> None:
        if failure == "offline":
            route.abort()
        else:
            route.fulfill(status=404 if failure == "gone" else 200, body=b"only this")

    page.view.route("**/encoder.onnx", answer)
    page.view.evaluate("live.ready")
    page.view.locator("#live-load").click()
    status = page.view.locator("#live-status")
    expect(status).to_contain_text(f"The model could not be loaded: {words}")
    expect(page.view.locator(".live-map td")).to_have_count(14 * 14)
    page.view.unroute("**/encoder.onnx")
    load(page.view)
    page.window.close()


def test_a_browser_without_webassembly_is_told_so(browser: Browser, site: str) -> None:
    window = browser.new_context()
    window.add_init_script("delete window.WebAssembly")
    page = SitePage(window, site, "live.html")
    page.view.locator("#live-load").click()
    expect(page.view.locator("#live-status")).to_contain_text("does not run WebAssembly")
    expect(page.view.locator(".live-map td")).to_have_count(14 * 14)
    window.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_two_compared_texts_obey_every_rule_on_a_phone(visit: Visit, theme: str) -> None:
    page = visit("live.html", viewport={"width": 360, "height": 740})
    page.theme(theme)
    load(page.view)
    page.view.get_by_role("button", name="Without the mask").click()
    expect(page.view.locator(".live-map")).to_have_count(2)
    assert page.overhang() <= 0
    assert [each for each in page.violations() if ": region: .sidebar" not in each] == []
