"""The live page: its encoder gives PyTorch's numbers, and every oddity is answered in words."""

import copy
import json
from collections.abc import Iterator
from functools import partial
from itertools import product

import nbformat
import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, Route, expect
from torch import Tensor

from tests.browser.conftest import Visit
from tests.browser.site import ROOT, SitePage
from transformer_course.lessons import notebook
from transformer_lab import Encoder, padding_mask_from_lengths
from transformer_lab.diagnostics import attention_on
from transformer_lab.pretrained_encoder import Tokenizer, load_minilm, sentence_embeddings

MOST_DIFFERENCE = 2e-3  # of a weight
LIVE = ROOT / "build" / "site" / "_static" / "live"
TRIES = json.loads((ROOT / "site" / "live" / "tries.json").read_text("utf-8"))
SENSELESS = ["head=NaN.x&token=-1&step=99", "token=1e9", "text=<img src=x onerror=alert(1)>", "%E0%A4"]
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
    ["Snow fell.", "Snow fell on the quiet town all night."],
    ["The dog bit the man.", "The man bit the dog."],
]
RUN = """([texts, taken]) => live.run(texts, taken).then((run) => ({
    tokens: run.cuts.map(({tokens}) => tokens), ids: run.cuts.map(({ids}) => ids),
    maps: [0, 1, 2, 3, 4, 5].map((layer) => texts.map((_, text) =>
        [...Array(12).keys()].map((head) => run.map(text, layer, head).map((row) => Array.from(row))))),
    vectors: texts.map((_, text) => Array.from(run.vector(text))),
}))"""
NUMBERS = (
    """(items) => items.flatMap(({values, stripes = []}) => [values, ...stripes]).map((each) => [...each])"""
)
STEPS = f"""([text, token, layer, head]) => live.run([text]).then((run) =>
    live.steps({{run, text: 0, token, layer, head}}).map({NUMBERS}))"""

SHOWN = f"() => live.steps(live.view()).map({NUMBERS})"


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


def in_browser(view: Page, texts: list[str], **taken: bool | list) -> dict:
    got = view.evaluate(RUN, [texts, taken])
    got["maps"] = np.array(got["maps"])
    return got


@torch.no_grad()
def in_pytorch(
    encoder: Encoder, ids: list[list[int]], mask: bool = True, positions: bool = True
) -> np.ndarray:
    """The maps (layers, batch, heads, query_pos, key_pos), with or without mask and positions."""
    if not positions:
        encoder = copy.deepcopy(encoder)
        encoder.positions.weight.copy_(
            encoder.positions.weight.mean(dim=0).expand_as(encoder.positions.weight)
        )
    lengths = torch.tensor([len(each) for each in ids])
    padded = torch.tensor([each + [0] * (max(lengths) - len(each)) for each in ids])
    _, weights = encoder(padded, padding_mask_from_lengths(lengths) if mask else None)
    return torch.stack(weights).numpy()


def test_tokens_and_maps_of_a_text_are_pythons(loaded: Page, minilm: tuple) -> None:
    encoder, tokenizer = minilm
    for text in TEXTS:
        got = in_browser(loaded, [text])
        encoding = tokenizer.pieces.encode(text)
        ids, tokens = encoding.ids, encoding.tokens
        if len(ids) > 64:
            ids, tokens = [*ids[:63], ids[-1]], [*tokens[:63], tokens[-1]]
        assert (got["tokens"], got["ids"]) == ([tokens], [ids])
        assert np.abs(got["maps"] - in_pytorch(encoder, [ids])).max() <= MOST_DIFFERENCE, text


@torch.no_grad()
def test_maps_and_vectors_are_pytorchs_whatever_is_taken_away(loaded: Page, minilm: tuple) -> None:
    encoder, _ = minilm
    for texts in PAIRS:
        for mask, positions in product((True, False), repeat=2):
            got = in_browser(loaded, texts, mask=mask, positions=positions)
            wanted = in_pytorch(encoder, got["ids"], mask, positions)
            assert got["maps"].shape == wanted.shape
            assert np.abs(got["maps"] - wanted).max() <= MOST_DIFFERENCE, (texts, mask, positions)
    got = torch.tensor(in_browser(loaded, PAIRS[0])["vectors"], dtype=torch.float32)
    assert torch.cosine_similarity(got, sentence_embeddings(*minilm, PAIRS[0])).min() > 0.9999

    whole = in_browser(loaded, TEXTS[:1])
    ids = torch.tensor(whole["ids"])
    without = copy.deepcopy(encoder)
    without.layers[2].attention.output_projection.weight[:, 8 * 32 : 9 * 32] = 0
    got = in_browser(loaded, TEXTS[:1], heads=[[2, 8]])
    assert np.abs(got["maps"] - torch.stack(without(ids)[1]).numpy()).max() <= MOST_DIFFERENCE
    without = copy.deepcopy(encoder)
    del without.layers[3]
    got = in_browser(loaded, TEXTS[:1], layers=[3])
    shown = np.delete(got["maps"], 3, axis=0)
    assert np.abs(shown - torch.stack(without(ids)[1]).numpy()).max() <= MOST_DIFFERENCE
    assert not np.allclose(got["vectors"], whole["vectors"], atol=1e-2)


def test_roles_are_scored_as_in_lesson_09(loaded: Page) -> None:
    text = "The dog chased the ball and the ball rolled away."
    got = in_browser(loaded, [text])
    tokens, weights = got["tokens"][0], torch.tensor(got["maps"][:, 0])  # (layers, heads, query_pos, key_pos)
    cells = {cell.id: cell.source for cell in nbformat.read(notebook(9), as_version=4).cells}
    names: dict = {"torch": torch}
    exec(cells["see-wanted"].partition("\n\n\n")[0], names)
    score = """async ([text, role]) => {
        const { score } = await import("./_static/live/roles.js");
        const run = await live.run([text]);
        return [0, 1, 2, 3, 4, 5].map((layer) => score(run.map(0, layer, 8), run.cuts[0].tokens, role));
    }"""
    for role, wanted in names["wanted_keys"](tokens).items():
        expected = attention_on(weights, wanted)[:, 8]
        assert loaded.evaluate(score, [text, role]) == pytest.approx(expected.tolist(), abs=1e-6)


@torch.no_grad()
def steps_by_hand(
    encoder: Encoder, ids: list[int], token: int, layer: int, head: int
) -> list[tuple[list[Tensor], float]]:
    """What each step of the walk shows, computed anew from the published weights alone.

    Beside it the largest number that the step has, of all tokens (and heads, where they are mixed).
    """
    w, F, d = encoder.state_dict(), torch.nn.functional, 32

    def part(name: str, x: Tensor) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def normed(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, (384,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-12)

    word = w["embedding.weight"][ids]
    position = w["positions.weight"][: len(ids)]
    x = entrance = normed("embedding_norm", word + position)
    for number in range(6):
        at, entering = f"layers.{number}.", x
        q, k, v = (
            part(f"{at}attention.{name}_projection", x).unflatten(-1, (12, d)).transpose(0, 1)
            for name in ("query", "key", "value")
        )  # (heads, position, features)
        scores = q @ k.mT / d**0.5
        weights = scores.softmax(dim=-1)
        heads = (weights @ v).transpose(0, 1).flatten(1)
        attended = part(f"{at}attention.output_projection", heads)
        middle = normed(f"{at}attention_norm", x + attended)
        neurons = F.gelu(part(f"{at}feed_forward.up_projection", middle))
        fed = part(f"{at}feed_forward.down_projection", neurons)
        x = normed(f"{at}feed_forward_norm", middle + fed)
        if number == layer:
            row = weights[head, token]
            key, parts = row.argmax(), [(row[j] * v[head, [j]]).expand(len(ids), d) for j in range(len(ids))]
            found = [
                [entering, q[head], k[head], q[head] * k[head, key]],
                [scores[head]],
                [weights[head]],
                [weights[head], *parts, weights[head] @ v[head]],
                [heads, attended],
                [entering, attended, entering + attended, middle],
                [neurons.topk(8).values, fed],
                [middle, fed, middle + fed, x],
            ]
            shown = [walked(step, token) for step in found]
            shown[0][0][2] = k[head, key]
            shown[3] = shown[3][0], heads.abs().max().item()
    first = [[word], [word, position, word + position], [word + position, entrance]]
    mean = x.mean(dim=0)
    return [*(walked(step, token) for step in first), *shown, ([mean], mean.abs().max().item())]


def walked(step: list[Tensor], token: int) -> tuple[list[Tensor], float]:
    """A token's part of a step, and the largest number of the whole step."""
    return [each[token] for each in step], max(each.abs().max().item() for each in step)


def furthest(got: list[list[list[float]]], wanted: list[tuple[list[Tensor], float]]) -> float:
    """By how much, of its largest number, a step is away at most."""
    assert [len(step) for step in got] == [len(step) for step, _ in wanted]
    return max(
        (torch.tensor(one) - other).abs().max().item() / largest
        for ours, (pytorchs, largest) in zip(got, wanted, strict=True)
        for one, other in zip(ours, pytorchs, strict=True)
    )


def test_every_step_of_the_walk_is_pytorchs(loaded: Page, visit: Visit, minilm: tuple) -> None:
    encoder, tokenizer = minilm
    for number, text in enumerate(TEXTS[:10]):
        ids = tokenizer.pieces.encode(text).ids[:63]
        ids = ids if ids[-1] == 102 else [*ids, 102]
        token, layer, head = (7 * number) % len(ids), number % 6, (5 * number) % 12
        got = loaded.evaluate(STEPS, [text, token, layer, head])
        assert len(got) == 12
        assert furthest(got, steps_by_hand(encoder, ids, token, layer, head)) <= 1e-3, text
    stored = visit("live.html").view
    stored.evaluate("live.ready")
    ids = tokenizer.pieces.encode(stored.locator("#live-first").input_value()).ids
    assert furthest(stored.evaluate(SHOWN), steps_by_hand(encoder, ids, 2, 2, 8)) <= 1e-3


def test_a_step_leads_to_the_exercise_in_which_one_writes_it() -> None:
    about = json.loads((LIVE / "about.json").read_text("utf-8"))
    for address in about["exercises"].values():
        page, anchor = address.split("#")
        assert f'id="{anchor}"' in (ROOT / "build" / "site" / page).read_text("utf-8")


def value_of(button: Locator) -> float:
    return float(button.get_attribute("data-value"))


def test_a_weight_can_be_asked_down_to_two_features(visit: Visit) -> None:
    view = visit("live.html#text=The+old+cat+met+the+young+cat.&head=2.8&token=2&step=5").view
    answer, title = view.locator(".walk-answer"), view.locator(".walk-answer h3")
    asked = view.locator(".walk-items button[data-value]").nth(3)
    weight = value_of(asked)
    asked.click()
    expect(title).to_have_text("The weight from “old” to “cat”: .71")
    asked = answer.locator("tbody tr[aria-current=true]")  # the asked key stands first, and is marked
    expect(asked.locator("th")).to_have_text("cat")
    assert asked.evaluate("row => row === row.parentNode.firstChild")
    scores = [value_of(each) for each in answer.locator("td button").all()]
    grown = np.exp(np.array(scores) - max(scores))
    assert grown[0] / grown.sum() == pytest.approx(weight, abs=1e-3)
    answer.locator("td button").first.click()
    products = [value_of(each) for each in answer.locator("button[data-value]").all()]
    assert len(products) == 32
    assert sum(products) / 32**0.5 == pytest.approx(scores[0], abs=1e-3)
    answer.locator("button[data-value]").nth(7).click()
    q, k = (value_of(each) for each in answer.locator("td span").all())
    assert q * k == pytest.approx(products[7], abs=1e-3)
    expect(answer).to_contain_text("Each is a sum of 384 products")
    answer.locator("ol button").first.click()  # back to the weight
    expect(title).to_contain_text("The weight from")
    answer.get_by_role("button", name="Close").click()
    expect(answer).to_be_hidden()
    expect(view.locator(".walk-on")).to_be_focused()

    view.locator(".walk-on").click()  # mixed: a feature is the sum of weight times value
    button = view.locator(".walk-grid button[data-value]").nth(5)
    feature = value_of(button)
    button.click()
    rows = answer.locator("tbody tr")
    expect(rows).to_have_count(10)
    pairs = [[value_of(each) for each in row.locator("[data-value]").all()] for row in rows.all()]
    assert sum(weight * value for weight, value, _ in pairs) == pytest.approx(feature, abs=1e-3)


def test_the_first_visit_shows_the_walk_without_the_model(visit: Visit, minilm: tuple) -> None:
    page = visit("live.html")
    view, asked = page.view, []
    view.on("request", lambda request: asked.append(request.url))
    view.reload()
    view.evaluate("live.ready")
    expect(view.locator(".walk-name")).to_have_text("1. Token")
    expect(view.locator(".walk-on")).to_have_text("Next: + position →")
    assert not any("encoder.onnx" in each or ".wasm" in each or "worker.js" in each for each in asked)
    assert (LIVE / "try-0.json").stat().st_size <= 150_000
    cells = view.locator(".live-map td")
    expect(cells).to_have_count(10 * 10)
    ids = minilm[1].pieces.encode(view.locator("#live-first").input_value()).ids
    shown = [float(cell.get_attribute("title")) for cell in cells.all()]
    wanted = in_pytorch(minilm[0], [ids])[2, 0, 8]
    assert np.abs(np.array(shown).reshape(10, 10) - wanted).max() < 1e-3
    for name in view.evaluate("document.querySelectorAll('.walk-steps button').length") * [".walk-on"]:
        if view.locator(name).is_enabled():
            view.locator(name).click()
    expect(view.locator(".walk-name")).to_have_text("12. Out")
    view.locator("#live-first").fill("Something else")
    expect(view.locator("#live-status")).to_contain_text("still the stored example: load the model (60 MB")
    view.locator("#live-layer-number").fill("4")
    expect(view.locator(".walk-unseen")).to_be_visible()


def test_a_projector_shows_token_step_and_maps_without_scrolling(visit: Visit) -> None:
    view = visit("live.html", viewport={"width": 1280, "height": 720}).view
    view.evaluate("live.ready")
    lowest = """() => [...document.querySelectorAll(
        ".live-tokens [aria-pressed=true], .walk-name, .walk-says, .walk-items, .live-map, .live-bar")]
        .map((part) => [part.className, part.getBoundingClientRect().bottom])
        .filter(([, bottom]) => bottom > 720)"""
    for shown in TRIES:
        view.get_by_role("button", name=shown["name"]).click()
        expect(view.locator(".live-look")).to_have_text(shown["look"])
        expect(view.locator(".live-map")).to_have_count(len(shown["texts"]))
        for step in view.locator(".walk-steps button").all():
            step.click()
            assert view.evaluate(lowest) == [], shown["name"]
            assert view.evaluate("scrollY") == 0


@pytest.mark.parametrize("arrives", [False, True])
def test_lines_lead_from_the_token_to_what_it_attends_to(visit: Visit, arrives: bool) -> None:
    view = visit("live.html#head=2.8&token=2&step=5").view
    view.evaluate("live.ready")
    if arrives:  # weight × length of the value: [CLS] gets much weight, and brings little
        bars, width = (
            view.locator(".walk-items .walk-bar"),
            "bars => bars.map((bar) => parseFloat(bar.style.width))",
        )
        before = bars.evaluate_all(width)
        view.locator(".walk-arrives input").check()
        expect(view.locator(".walk-label")).to_have_text("weight × length of the value")
        after = bars.evaluate_all(width)
        assert before[0] / before[3] > 0.2 > 0.03 > after[0] / after[3]
    expect(view.locator(".walk-from.walk-chosen")).to_have_text("old")
    lines = view.locator(".walk-flow path").all()
    shown = [value_of(each) for each in view.locator("ul.walk-numbers [data-value]").all()]
    widths = [float(line.get_attribute("stroke-width")) for line in lines]
    assert widths == pytest.approx([20 * value / sum(shown) for value in shown], abs=1e-3)
    keys = view.locator(".walk-token button").all()
    assert len(lines) == len(keys) == 10
    for line, key in zip(lines, keys, strict=True):  # it begins at “old” and ends at its key
        start, end = (
            line.evaluate(
                """(line, share) => line.getPointAtLength(share * line.getTotalLength())
                    .matrixTransform(line.getScreenCTM()).y""",
                share,
            )
            for share in (0, 1)
        )
        box, query = key.bounding_box(), view.locator(".walk-chosen").bounding_box()
        assert query["y"] < start < query["y"] + query["height"]
        assert box["y"] < end < box["y"] + box["height"]
    assert view.locator(".walk-flow[aria-hidden=true]").count() == 1


def test_the_last_step_shows_the_vectors_of_both_texts(visit: Visit, minilm: tuple) -> None:
    view = visit("live.html").view
    view.get_by_role("button", name="Two banks").click()
    expect(view.locator(".walk-items canvas")).to_have_count(2)
    expect(view.locator(".walk-label")).to_contain_text(["vector of text 1", "vector of text 2"])
    one, other = sentence_embeddings(
        *minilm, next(each["texts"] for each in TRIES if each["name"] == "Two banks")
    )
    cosine = f"{one @ other:.2f}".lstrip("0")
    expect(view.locator(".walk-says")).to_contain_text(f"The two have the cosine {cosine} (1: the same")


def test_a_piece_of_a_word_is_explained_where_there_is_one(loaded: Page) -> None:
    explained = loaded.locator("#live-pieces")
    loaded.locator("#live-first").fill("Unbelievably plain.")
    expect(explained).to_have_text(
        "##bel continues the word before it: a word that the vocabulary lacks is cut into pieces."
    )
    loaded.get_by_role("button", name="An adjective finds its noun").click()
    expect(explained).to_have_text("")


def test_tokens_keys_and_cells_are_picked(visit: Visit) -> None:
    view = visit("live.html#head=2.8&token=2&step=3").view
    says = view.locator(".walk-says")
    expect(says).to_contain_text("“old” asks (query), “cat (3)” offers (key)")
    view.locator(".live-tokens button", has_text="young").click()
    expect(says).to_contain_text("“young” asks (query), “cat (7)” offers (key)")
    view.locator(".walk-steps button").nth(4).click()
    view.locator(".walk-items li button", has_text="met").click()
    view.locator(".walk-back").click()
    expect(says).to_contain_text("“young” asks (query), “met” offers (key)")
    view.locator(".live-map tbody tr").nth(2).locator("td").nth(3).click()
    expect(view.locator(".walk-answer h3")).to_have_text("The weight from “old” to “cat”: .71")


def test_texts_are_compared_by_meaning(loaded: Page, minilm: tuple) -> None:
    texts = ["A cat sat on the mat.", "The kitten lay on the rug.", "Shares fell again."]
    loaded.locator("#live-texts").fill("\n".join(texts))
    loaded.get_by_role("button", name="Compare").click()
    table = loaded.locator(".live-meaning table").first
    vectors = sentence_embeddings(*minilm, texts)
    wanted = [f"{vectors[i] @ vectors[j]:.2f}".lstrip("0") for i in range(3) for j in range(i)]
    shown = [each.replace("-0.", "−.").replace("-", "−") for each in wanted]
    expect(table.locator("td:not(:empty)")).to_have_text(shown)
    expect(table.locator("tbody tr")).to_have_count(3)
    loaded.locator("#live-texts").fill("Only one.")
    loaded.get_by_role("button", name="Compare").click()
    expect(loaded.locator("#live-meaning-status")).to_contain_text("Two texts at least")
    loaded.locator("#live-texts").fill("\n".join(f"The bank number {number}." for number in range(8)))
    loaded.get_by_role("button", name="Compare").click()
    expect(loaded.locator("#live-meaning-status")).to_contain_text("The first 6 of 8")
    expect(loaded.locator(".live-meaning table").nth(1)).to_contain_text("How alike “number” is in two texts")


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
    expect(loaded.get_by_role("button", name="Layer 0, head 2: often the previous token")).to_be_visible()


def test_odd_input_is_answered_in_words(loaded: Page) -> None:
    answers = {
        "": "Type at least one word",
        "   \t ": "Type at least one word",
        "word " * 100: "It has 102 tokens; only the first 62",
        "a" * 5000: "It has 5,000 characters; the first 4000 are read",
        "I 😀 you": "1 of 3 tokens is [UNK]",
        "日本語": "cut one by one",
        "الثعلب البني السريع يقفز": "cut into pieces",
        "\u200b\u200d": "Nothing of it is left",
    }
    field, remark = loaded.locator("#live-first"), loaded.locator("#live-first-remark")
    for text, answer in answers.items():
        field.fill("A plain text.")
        expect(remark).to_have_text("")
        field.fill(text)
        expect(remark).to_contain_text(answer)
    field.evaluate("f => { f.value = 'half \\ud83d a face'; f.dispatchEvent(new Event('input')); }")
    expect(remark).to_contain_text("half a character")


def test_positions_and_mask_are_taken_away_and_the_effect_is_told(loaded: Page) -> None:
    words = loaded.locator("#live-words")
    loaded.get_by_role("button", name="Who bit whom?").click()
    expect(words).to_contain_text("cosine 1.00; with nothing taken away, .98")
    expect(words).to_contain_text("with those of the whole model (1: nothing is lost)")
    expect(loaded.locator("#live-mask")).to_be_disabled()  # both texts are as long
    loaded.locator("#live-positions").check()
    expect(words).to_contain_text("have the cosine .98 (1: the same")
    loaded.get_by_role("button", name="Without the padding mask").click()
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
    loaded.get_by_role("button", name="Without positions").click()
    expect(previous).to_have_text(["1.00", ".10", "1.00"])
    loaded.locator("#live-positions").check()
    expect(previous).to_have_text(["1.00", "1.00"])
    loaded.locator("#live-positions").uncheck()
    expect(previous).to_have_text(["1.00", ".10", "1.00"])
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
    loaded.get_by_role("button", name="Without positions").click()
    loaded.locator("#live-first").fill("\u200b")
    expect(loaded.locator(".live-map td")).to_have_count(2 * 2)  # [CLS] and [SEP]
    expect(loaded.locator("#live-words")).to_contain_text("It costs")
    expect(loaded.locator("#live-status")).to_contain_text("Computed in")


def test_a_try_is_stored_as_the_model_computes_it(loaded: Page, visit: Visit, minilm: tuple) -> None:
    view, requests = visit("live.html").view, []
    view.evaluate("live.ready")
    view.on("request", lambda request: requests.append(request.url.rpartition("/")[2]))
    of_view = f"""() => ({{
        steps: ({SHOWN})(), ids: live.view().run.cuts.map(({{ids}}) => ids),
        maps: [0, 1, 2, 3, 4, 5].map((layer) => live.view().run.cuts.map((_, text) => [...Array(12).keys()]
            .map((head) => live.view().run.map(text, layer, head).map((row) => [...row]))))}})"""
    for wanted in TRIES:
        for page in (view, loaded):
            page.get_by_role("button", name=wanted["name"]).click()
            expect(page.locator(".live-look")).to_have_text(wanted["look"])
            expect(page.locator(".live-map")).to_have_count(len(wanted["texts"]))
            last = "12. Out" if wanted["step"] == 11 else "6. Softmax"
            expect(page.locator(".walk-name")).to_have_text(last)
            expect(page.locator(".live-views")).to_have_attribute("aria-busy", "false")
        expect(view.locator("#live-status")).to_contain_text(
            f"A stored example, layer {wanted['layer']} of 0 to 5."
        )
        expect(loaded.locator("#live-status")).to_contain_text("Computed in")
        got, computed = view.evaluate(of_view), loaded.evaluate(of_view)
        steps = [[torch.tensor(each) for each in step] for step in computed["steps"]]
        largest = [(step, max(each.abs().max() for each in step)) for step in steps]
        assert furthest(got["steps"], largest) <= 1e-3, wanted["name"]
        maps = in_pytorch(minilm[0], got["ids"], wanted.get("mask", True), wanted.get("positions", True))
        assert np.abs(np.array(got["maps"]) - maps).max() <= 1 / 255, wanted["name"]
        assert view.locator("#live-words").text_content() == loaded.locator("#live-words").text_content()
    assert set(requests) - {"favicon.svg"} == {f"try-{number}.json" for number in range(1, len(TRIES))}


@torch.no_grad()
def test_what_a_try_says_to_look_at_is_there(minilm: tuple) -> None:
    def maps(number: int, trained: bool = False, text: int = 0) -> np.ndarray:
        wanted, head = TRIES[number], (TRIES[number]["layer"], text, TRIES[number]["head"])
        ids = [minilm[1].pieces.encode(text).ids for text in wanted["texts"]]
        taken = {name: trained or wanted.get(name, True) for name in ("positions", "mask")}
        return in_pytorch(minilm[0], ids, **taken)[head]

    adjectives = maps(0)  # [CLS] the old cat met the young cat . [SEP]
    assert adjectives[2].argmax() == 3
    assert adjectives[6].argmax() == 7
    twins = maps(1)  # [CLS] the boy saw the bear before the bear saw the boy . [SEP]
    assert [twins[place].argmax() for place in (2, 3, 5, 8, 9, 11)] == [11, 9, 8, 5, 3, 2]
    before = [maps(2, trained)[range(1, 13), range(12)].mean() for trained in (True, False)]
    assert before[0] > 0.9 > 0.2 > before[1]
    for text, word in enumerate(("river", "money")):
        tokens, rows = minilm[1].pieces.encode(TRIES[5]["texts"][text]).tokens, maps(5, text=text)
        others = [place for place, token in enumerate(tokens[1:-2], 1) if token != "bank"]
        assert tokens[max(others, key=lambda place: rows[tokens.index("bank"), place])] == word
    padding = maps(4)[:5, 5:].sum(axis=1)  # [CLS] snow fell . [SEP]
    assert padding[1:4].mean() > 0.5


def test_what_a_try_takes_away_is_given_back_without_the_model(visit: Visit) -> None:
    view = visit("live.html").view
    view.get_by_role("button", name="Who bit whom?").click()
    words = view.locator("#live-words")
    expect(words).to_contain_text("cosine 1.00; with nothing taken away, .98")
    view.locator("#live-positions").check()
    expect(words).to_contain_text("have the cosine .98 (1: the same")
    expect(view.get_by_role("button", name="Who bit whom")).to_have_attribute("aria-pressed", "true")
    expect(view.locator(".walk-stage")).to_be_visible()
    view.locator("#live-head").uncheck()
    expect(view.locator("#live-status")).to_contain_text("still the stored example: load the model")


def test_a_try_that_is_not_there_is_told_and_can_be_tried_again(browser: Browser, site: str) -> None:
    page = SitePage(browser.new_context(), site, "live.html")
    button = page.view.get_by_role("button", name="A word looks at its twin")
    page.window.route("**/try-1.json", lambda route: route.abort())
    button.click()
    expect(page.view.locator("#live-status")).to_contain_text("That could not be loaded: Failed to fetch")
    page.window.unroute("**/try-1.json")
    button.click()
    expect(page.view.locator("#live-status")).to_contain_text("A stored example")
    page.window.close()


def test_nothing_can_be_pressed_before_the_page_listens(browser: Browser, site: str) -> None:
    window = browser.new_context()
    held: list[Route] = []
    window.route("**/about.json", lambda route: held.append(route))
    page = SitePage(window, site, "live.html")
    buttons = page.view.locator("#live [type=submit]")
    expect(buttons.and_(page.view.locator(":disabled"))).to_have_count(2)
    page.view.wait_for_function("() => document.readyState === 'complete'")
    assert len(held) == 1
    held[0].continue_()
    expect(buttons.and_(page.view.locator(":enabled"))).to_have_count(2)
    window.close()


def test_a_weight_is_picked_on_the_map_by_keyboard(visit: Visit) -> None:
    view = visit("live.html#head=2.8&token=2&step=0").view
    view.locator(".live-maps .live-box").focus()
    view.keyboard.press("ArrowRight")  # from the strongest key, cat (3)
    expect(view.locator(".walk-says")).to_contain_text("“old” gives “met” .04.")
    expect(view.locator(".live-cell")).to_have_text(".04")
    view.keyboard.press("ArrowLeft")
    view.keyboard.press("ArrowDown")
    view.keyboard.press("ArrowUp")
    expect(view.locator(".live-maps .live-box")).to_be_focused()
    view.keyboard.press("Enter")
    expect(view.locator(".walk-answer h3")).to_have_text("The weight from “old” to “cat”: .71")


def test_a_view_can_be_handed_on_as_an_address(visit: Visit) -> None:
    page = visit("live.html#text=Snow+fell.&head=1.8&token=1&step=5&positions=off")
    view = page.view
    expect(view.locator("#live-first")).to_have_value("Snow fell.")
    expect(view.locator("#live-positions")).not_to_be_checked()
    expect(view.locator("#live-status")).to_contain_text("still the stored example: load the model")
    expect(view.locator("#live-head-title")).to_contain_text("Layer 1, head 8: often the next token")
    view.evaluate(
        """() => { window.longest = 0; new PerformanceObserver((list) => {
        for (const {duration} of list.getEntries()) window.longest = Math.max(window.longest, duration);
    }).observe({entryTypes: ["longtask"]}); }"""
    )
    load(view)
    assert (
        view.evaluate("window.longest") < 1000
    )  # the model is in a worker: the page answers while it starts
    expect(view.locator(".live-map tbody th")).to_have_text(["[CLS]", "snow", "fell", ".", "[SEP]"])
    expect(view.locator(".walk-name")).to_have_text("6. Softmax")
    view.evaluate("location.hash = '#text=Rain+fell.&head=0.2&token=2'")
    expect(view.locator(".live-map tbody th")).to_have_text(["[CLS]", "rain", "fell", ".", "[SEP]"])
    expect(view.locator("#live-positions")).to_be_checked()
    expect(view.locator("#live-head-title")).to_contain_text("Layer 0, head 2")


@pytest.mark.parametrize("state", SENSELESS)
def test_an_address_that_makes_no_sense_does_no_harm(visit: Visit, state: str) -> None:
    view = visit(f"live.html#{state}").view
    expect(view.locator("#live-head-title")).to_contain_text("Layer 2, head 8")
    expect(view.locator(".live-map td")).to_have_count(10 * 10)
    assert view.locator("#live img").count() == 0


def test_a_second_sentence_is_offered_and_an_empty_one_is_told(loaded: Page) -> None:
    loaded.get_by_role("button", name="A word looks at its twin").click()
    loaded.locator("#live-compare").check()
    expect(loaded.locator("#live-second")).not_to_have_value("")
    expect(loaded.locator(".live-map")).to_have_count(2)
    loaded.locator("#live-second").fill("")
    expect(loaded.locator("#live-second-remark")).to_contain_text("Type at least one word")
    loaded.locator("#live-compare").uncheck()
    expect(loaded.locator(".live-map")).to_have_count(1)


def test_what_is_taken_away_is_taken_from_the_walk(loaded: Page) -> None:
    loaded.get_by_role("button", name="An adjective finds its noun").click()
    loaded.locator("#live-head").uncheck()
    expect(loaded.locator("#live-words")).to_contain_text("those of the whole model (1: nothing is lost)")
    loaded.locator(".walk-steps button").nth(6).click()
    mixed = loaded.locator(".walk-grid span[data-value]")  # nothing to ask: it is taken away
    expect(mixed).to_have_count(32)
    assert {value_of(each) for each in mixed.all()} == {0}
    loaded.locator("#live-head").check()
    loaded.locator("#live-layer").uncheck()
    expect(loaded.locator(".walk-unseen")).to_contain_text("Layer 2 is taken away")
    expect(loaded.locator(".walk-stage")).to_be_hidden()
    loaded.locator("#live-layer").check()
    expect(loaded.locator(".walk-stage")).to_be_visible()


def test_an_open_answer_is_closed_by_another_token_and_by_escape(loaded: Page) -> None:
    loaded.get_by_role("button", name="An adjective finds its noun").click()
    number = loaded.locator(".walk-items button[data-value]").nth(3)
    expect(number).to_have_text(".71")
    number.click()
    expect(loaded.locator(".walk-answer")).to_be_visible()
    loaded.locator(".live-tokens button").nth(6).click()
    expect(loaded.locator(".walk-answer")).to_be_hidden()
    expect(loaded.locator(".live-tokens button").nth(6)).to_be_focused()
    number.click()
    loaded.keyboard.press("Escape")
    expect(loaded.locator(".walk-answer")).to_be_hidden()


def respond(answer: dict, route: Route) -> None:
    """Answer a request so, or not at all."""
    if answer:
        route.fulfill(**answer)
    else:
        route.abort()


def test_a_failed_download_is_told_and_can_be_tried_again(browser: Browser, site: str) -> None:
    sizes = json.loads((LIVE / "about.json").read_text("utf-8"))["files"]
    failures: list[tuple[str, dict, str]] = [
        ("worker.js", {}, "could not be loaded"),
        ("encoder.onnx", {}, "Failed to fetch"),
        ("tokenizer.json", {"body": b"only this"}, "was cut short: 9 of"),
        ("tokenizer.json", {"body": b"1" * (sizes["tokenizer.json"] + 1)}, "is longer than it should be"),
        ("ort-wasm-simd-threaded.wasm", {"status": 404}, "(404)"),
    ]
    for name, answer, words in failures:  # each in a new browser, which has kept nothing
        page = SitePage(browser.new_context(), site, "live.html")
        page.window.route(f"**/{name}", partial(respond, answer))
        page.view.evaluate("live.ready")
        page.view.locator("#live-load").click()
        status = page.view.locator("#live-status")
        expect(status).to_contain_text("The model could not be loaded:", timeout=120_000)
        expect(status).to_contain_text(words)
        expect(page.view.locator(".live-map td")).to_have_count(10 * 10)
        if (name, answer, words) == failures[-1]:
            page.window.unroute(f"**/{name}")
            load(page.view)
        page.window.close()


def test_a_second_visit_finds_the_model_kept(browser: Browser, site: str) -> None:
    page = SitePage(browser.new_context(), site, "live.html")
    load(page.view)
    requests: list[str] = []
    page.view.on("request", lambda request: requests.append(request.url))
    page.view.reload()
    expect(page.view.locator("#live-status")).to_contain_text("Computed in", timeout=60_000)
    expect(page.view.locator("#live-load")).to_have_text("Your browser has kept the model: type your own")
    files = json.loads((LIVE / "about.json").read_text("utf-8"))["files"]
    assert not any(name in request for request in requests for name in files)
    assert page.complaints == []
    page.window.close()


def test_a_long_text_is_one_picture_in_which_a_weight_is_picked(loaded: Page) -> None:
    loaded.evaluate("location.hash = '#head=2.8&text=' + encodeURIComponent('the cat sat '.repeat(20))")
    canvas = loaded.locator(".live-map canvas")
    expect(canvas).to_have_count(1)
    size = canvas.bounding_box()
    canvas.click(position={"x": size["width"] * 2.5 / 62, "y": size["height"] * 4.5 / 62})
    expect(loaded.locator(".walk-answer h3")).to_contain_text("The weight from “the” to “cat”")


def test_a_browser_without_webassembly_is_told_so(browser: Browser, site: str) -> None:
    window = browser.new_context()
    window.add_init_script("delete window.WebAssembly")
    page = SitePage(window, site, "live.html")
    page.view.locator("#live-load").click()
    expect(page.view.locator("#live-status")).to_contain_text("does not run WebAssembly")
    expect(page.view.locator(".live-map td")).to_have_count(10 * 10)
    window.close()


def test_two_compared_texts_obey_every_rule_on_a_phone(visit: Visit) -> None:
    page = visit("live.html", viewport={"width": 360, "height": 740})
    load(page.view)
    page.view.get_by_role("button", name="Without the padding mask").click()
    expect(page.view.locator(".live-map")).to_have_count(2)
    page.view.locator(".walk-items button[data-value]").first.click()
    expect(page.view.locator(".walk-answer")).to_be_visible()
    assert page.overhang() <= 0
    for theme in ("light", "dark"):
        page.theme(theme)
        assert [fault for fault in page.violations() if ": region: .sidebar" not in fault] == []
