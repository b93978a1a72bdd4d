"""The live page: its encoder gives PyTorch's numbers, and every oddity is answered in words."""

import copy
import json
import re
from collections.abc import Iterator
from functools import partial
from itertools import product

import nbformat
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from playwright.sync_api import Browser, Locator, Page, Route, expect
from torch import Tensor, nn

from tests.browser.conftest import Visit
from tests.browser.site import ROOT, SITE, SitePage
from transformer_course.lessons import notebook
from transformer_lab import Encoder, padding_mask_from_lengths
from transformer_lab.diagnostics import attention_on
from transformer_lab.pretrained_encoder import Tokenizer, load_minilm, sentence_embeddings

LIVE = SITE / "_static" / "live"
SIZES = json.loads((LIVE / "about.json").read_text("utf-8"))["files"]
TRIES = json.loads((ROOT / "site" / "live" / "tries.json").read_text("utf-8"))
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
MAPS = """(run, texts) => [0, 1, 2, 3, 4, 5].map((layer) => texts.map((_, text) =>
    [...Array(12).keys()].map((head) => run.map(text, layer, head).map((row) => [...row]))))"""
RUN = f"""([texts, taken]) => live.run(texts, taken).then((run) => ({{
    tokens: run.cuts.map(({{tokens}}) => tokens), ids: run.cuts.map(({{ids}}) => ids),
    maps: ({MAPS})(run, texts), vectors: texts.map((_, text) => [...run.vector(text)]),
}}))"""
NUMBERS = (
    "(items) => items.flatMap(({values, stripes = []}) => [values, ...stripes]).map((each) => [...each])"
)
STEPS = f"""([text, token, layer, head]) => live.run([text]).then((run) =>
    live.steps({{run, text: 0, token, layer, head}}).map({NUMBERS}))"""
SHOWN = f"""() => ({{steps: live.steps(live.view()).map({NUMBERS}),
    ids: live.view().run.cuts.map(({{ids}}) => ids),
    maps: ({MAPS})(live.view().run, live.view().run.cuts)}})"""

Step = tuple[list[Tensor], float]  # a token's vectors, and the largest number that any token has there


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


def unfold(view: Page, opened: bool = True) -> None:
    """Open what is folded away: one's own sentence and the examples, and what can be switched off."""
    view.evaluate("live.ready")
    folds = "opened => document.querySelectorAll('#live details').forEach((fold) => (fold.open = opened))"
    view.evaluate(folds, opened)


def load(view: Page) -> None:
    unfold(view)
    view.locator("#live-load").click()
    expect(view.locator("#live-status")).to_contain_text("Computed in", timeout=60_000)


def press(view: Page, name: str) -> None:
    view.get_by_role("button", name=name).click()


def value_of(button: Locator) -> float:
    return float(button.get_attribute("data-value"))


def in_browser(view: Page, texts: list[str], **taken: bool | list) -> dict:
    got = view.evaluate(RUN, [texts, taken])
    return got | {"maps": np.array(got["maps"])}


@torch.no_grad()
def in_pytorch(
    encoder: Encoder, ids: list[list[int]], mask: bool = True, positions: bool = True
) -> np.ndarray:
    """The maps (layers, batch, heads, query_pos, key_pos), with or without mask and positions."""
    if not positions:
        encoder = copy.deepcopy(encoder)
        encoder.positions.weight[:] = encoder.positions.weight.mean(dim=0)
    lengths = torch.tensor([len(each) for each in ids])
    padded = torch.tensor([each + [0] * (max(lengths) - len(each)) for each in ids])
    _, weights = encoder(padded, padding_mask_from_lengths(lengths) if mask else None)
    return torch.stack(weights).numpy()


# The numbers


def test_tokens_and_maps_of_a_text_are_pythons(loaded: Page, minilm: tuple) -> None:
    encoder, tokenizer = minilm
    for text in TEXTS:
        got = in_browser(loaded, [text])
        encoding = tokenizer.pieces.encode(text)
        ids, tokens = encoding.ids, encoding.tokens
        if len(ids) > 64:
            ids, tokens = [*ids[:63], ids[-1]], [*tokens[:63], tokens[-1]]
        assert (got["tokens"], got["ids"]) == ([tokens], [ids])
        assert_allclose(got["maps"], in_pytorch(encoder, [ids]), rtol=0, atol=2e-3, err_msg=text)


@torch.no_grad()
def test_maps_and_vectors_are_pytorchs_whatever_is_taken_away(loaded: Page, minilm: tuple) -> None:
    encoder, _ = minilm
    for texts, mask, positions in product(PAIRS, (True, False), (True, False)):
        got = in_browser(loaded, texts, mask=mask, positions=positions)
        assert_allclose(got["maps"], in_pytorch(encoder, got["ids"], mask, positions), rtol=0, atol=2e-3)
    got = torch.tensor(in_browser(loaded, PAIRS[0])["vectors"], dtype=torch.float32)
    assert torch.cosine_similarity(got, sentence_embeddings(*minilm, PAIRS[0])).min() > 0.9999

    without_head, without_layer = copy.deepcopy(encoder), copy.deepcopy(encoder)
    without_head.layers[2].attention.output_projection.weight[:, 8 * 32 : 9 * 32] = 0
    del without_layer.layers[3]
    got = in_browser(loaded, TEXTS[:1], heads=[[2, 8]])
    assert_allclose(got["maps"], in_pytorch(without_head, got["ids"]), rtol=0, atol=2e-3)
    got = in_browser(loaded, TEXTS[:1], layers=[3])
    shown = np.delete(got["maps"], 3, axis=0)
    assert_allclose(shown, in_pytorch(without_layer, got["ids"]), rtol=0, atol=2e-3)
    assert not np.allclose(got["vectors"], in_browser(loaded, TEXTS[:1])["vectors"], atol=1e-2)


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
    for role, wanted in names["keys_that_count"](tokens).items():
        expected = attention_on(weights, wanted)[:, 8]
        assert loaded.evaluate(score, [text, role]) == pytest.approx(expected.tolist(), abs=1e-6)


@torch.no_grad()
def steps_in_pytorch(encoder: Encoder, ids: list[int], token: int, layer: int, head: int) -> list[Step]:
    """What each step of the walk shows: what goes into the encoder's modules, and what comes out."""
    into: dict[nn.Module, Tensor] = {}
    out: dict[nn.Module, Tensor] = {}

    def note(module: nn.Module, inputs: tuple, output: Tensor | tuple) -> None:
        into[module], out[module] = inputs[0][0], output[0]

    with nn.modules.module.register_module_forward_hook(note):
        encoder(torch.tensor([ids]))
    word, sum_of_both = out[encoder.embedding], into[encoder.embedding_norm]
    one = encoder.layers[layer]
    attention, feed_forward = one.attention, one.feed_forward
    entering, middle = into[attention.query_projection], out[one.attention_norm]
    left, last = out[one.feed_forward_norm], out[encoder.layers[-1].feed_forward_norm]
    heads, attended = into[attention.output_projection], out[attention.output_projection]
    neurons, fed = into[feed_forward.down_projection], out[feed_forward.down_projection]
    q, k, v = (
        out[part].unflatten(-1, (12, 32))[:, head]
        for part in (attention.query_projection, attention.key_projection, attention.value_projection)
    )
    scores = q @ k.mT / 32**0.5
    weights = scores.softmax(dim=-1)
    key = weights[token].argmax()
    parts = [(weights[token, j] * v[j]).expand_as(v) for j in range(len(ids))]
    steps = [
        [weights],
        [word],
        [word, sum_of_both - word, sum_of_both],
        [sum_of_both, out[encoder.embedding_norm]],
        [entering, q, k[key].expand_as(k), q * k[key]],
        [scores],
        [weights],
        [weights, *parts, weights @ v],
        [heads, attended],
        [entering, attended, entering + attended, middle],
        [neurons.topk(8).values, fed],
        [middle, fed, middle + fed, left],
        [last.mean(dim=0).expand_as(last)],
        [],
    ]
    largest = [max([each.abs().max().item() for each in step], default=0) for step in steps]
    largest[7] = heads.abs().max().item()  # all heads are mixed at once
    return [([each[token] for each in step], most) for step, most in zip(steps, largest, strict=True)]


def furthest(got: list[list[list[float]]], wanted: list[Step]) -> float:
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
        ids = tokenizer.pieces.encode(text).ids
        place = (7 * number) % len(ids), number % 6, (5 * number) % 12
        got = loaded.evaluate(STEPS, [text, *place])
        assert furthest(got, steps_in_pytorch(encoder, ids, *place)) <= 1e-3, text
    stored = visit("live.html").view
    stored.evaluate("live.ready")
    shown = stored.evaluate(SHOWN)
    assert furthest(shown["steps"], steps_in_pytorch(encoder, *shown["ids"], 2, 2, 8)) <= 1e-3


def test_a_step_leads_to_the_exercise_in_which_one_writes_it() -> None:
    about = json.loads((LIVE / "about.json").read_text("utf-8"))
    for address in about["exercises"].values():
        page, anchor = address.split("#")
        assert f'id="{anchor}"' in (SITE / page).read_text("utf-8")


# A visit without the model


def test_the_first_visit_shows_the_walk_without_the_model(visit: Visit) -> None:
    view, asked = visit("live.html").view, []
    view.on("request", lambda request: asked.append(request.url))
    view.reload()
    view.evaluate("live.ready")
    expect(view.locator(".walk-name")).to_have_text("Start")
    expect(view.locator(".walk-says")).to_contain_text("“cat (3)” gets 0.71 of its attention")
    expect(view.locator(".walk-flow path")).to_have_count(10)
    expect(view.locator(".walk-on")).to_have_text("Next →")
    assert not any("encoder.onnx" in each or ".wasm" in each or "worker.js" in each for each in asked)
    assert (LIVE / "try-0.json").stat().st_size <= 150_000
    for _ in range(13):
        view.locator(".walk-on").click()
    expect(view.locator(".walk-name")).to_have_text("13. Compare")
    expect(view.locator(".walk-payoff")).to_be_visible()
    view.locator(".walk-on").click()
    expect(view.locator(".walk-name")).to_have_text("Start")
    expect(view.locator(".walk-payoff")).to_be_hidden()
    unfold(view)
    view.locator("#live-first").fill("Something else")
    expect(view.locator("#live-status")).to_contain_text("still the stored example: load the model (60 MB")
    view.locator("#live-layer-number").fill("4")
    expect(view.locator(".walk-unseen")).to_be_visible()
    expect(view.locator(".overview-layer")).to_contain_text("Layer 4")
    view.locator(".walk-on").click()
    view.locator(".walk-on").click()  # one can go on where there's nothing to see, and to where there is
    expect(view.locator(".walk-steps [aria-current]")).to_have_attribute("aria-label", "2 + position")
    view.locator(".walk-steps [role=button]").last.click()
    expect(view.locator(".walk-payoff")).to_be_visible()


def test_a_weight_can_be_asked_down_to_two_features(visit: Visit) -> None:
    view = visit("live.html#text=The+old+cat+met+the+young+cat.&head=2.8&token=2&step=5").view
    answer, title = view.locator(".walk-answer"), view.locator(".walk-answer h3")
    asked = view.locator(".walk-items button[data-value]").nth(3)
    weight = value_of(asked)
    asked.click()
    expect(title).to_have_text("The attention weight from “old” to “cat”: 0.71")
    asked = answer.locator("tbody tr[aria-current=true]")  # the asked key stands first, and is marked
    expect(asked.locator("th")).to_have_text("cat")
    assert asked.evaluate("row => row === row.parentNode.firstChild")
    scores = [value_of(each) for each in answer.locator("td button").all()]
    assert torch.tensor(scores).softmax(0)[0].item() == pytest.approx(weight, abs=1e-3)
    answer.locator("td button").first.click()
    products = [value_of(each) for each in answer.locator("button[data-value]").all()]
    assert len(products) == 32
    assert sum(products) / 32**0.5 == pytest.approx(scores[0], abs=1e-3)
    answer.locator("button[data-value]").nth(7).click()
    q, k = (value_of(each) for each in answer.locator("td span").all())
    assert q * k == pytest.approx(products[7], abs=1e-3)
    expect(answer).to_contain_text("Each is a sum of 384 products")
    answer.locator("ol button").first.click()  # back to the weight
    expect(title).to_contain_text("The attention weight from")
    answer.get_by_role("button", name="Close").click()
    expect(answer).to_be_hidden()
    expect(view.locator(".walk-on")).to_be_focused()

    view.locator(".walk-on").click()  # mixed: a feature is the sum of weight times value
    button = view.locator(".walk-grid button[data-value]").nth(5)
    feature = value_of(button)
    button.click()
    rows = answer.locator("tbody tr").all()
    pairs = [[value_of(each) for each in row.locator("[data-value]").all()] for row in rows]
    assert len(pairs) == 10
    assert sum(weight * value for weight, value, _ in pairs) == pytest.approx(feature, abs=1e-3)


def test_tokens_keys_and_weights_are_picked_and_an_answer_is_closed(visit: Visit) -> None:
    view = visit("live.html#head=2.8&token=2&step=3").view
    says, title = view.locator(".walk-says"), view.locator(".walk-answer h3")
    tokens, grid = view.locator(".live-tokens button"), view.locator(".live-maps .live-box")
    expect(says).to_contain_text("does the query of “old” match the key of “cat (3)”?")
    tokens.filter(has_text="young").click()
    expect(says).to_contain_text("does the query of “young” match the key of “cat (7)”?")
    view.locator(".walk-steps [role=button]").nth(4).click()
    view.locator(".walk-items li button", has_text="met").click()
    view.locator(".walk-back").click()
    expect(says).to_contain_text("does the query of “young” match the key of “met”?")
    view.locator(".live-map tbody tr").nth(2).locator("td").nth(3).click()
    expect(title).to_have_text("The attention weight from “old” to “cat”: 0.71")
    tokens.nth(6).click()
    expect(title).to_be_hidden()
    expect(tokens.nth(6)).to_be_focused()

    view.evaluate("location.hash = '#head=2.8&token=2&step=0'")
    expect(view.locator(".walk-name")).to_have_text("1. Embedding")
    grid.focus()
    view.keyboard.press("ArrowRight")  # from the strongest key, cat (3)
    expect(says).to_contain_text("“old” attends to “met” with 0.04.")
    expect(view.locator(".live-cell")).to_have_text("0.04")
    for key in ("ArrowLeft", "ArrowDown", "ArrowUp"):
        view.keyboard.press(key)
    expect(grid).to_be_focused()
    view.keyboard.press("Enter")
    expect(title).to_have_text("The attention weight from “old” to “cat”: 0.71")
    view.keyboard.press("Escape")
    expect(title).to_be_hidden()


def test_a_projector_shows_token_step_and_maps_without_scrolling(visit: Visit) -> None:
    view = visit("live.html", viewport={"width": 1280, "height": 720}).view
    lowest = """() => [...document.querySelectorAll(
        ".live-tokens [aria-checked=true], .walk-name, .walk-says, .walk-items, .live-map, .live-bar")]
        .map((part) => [part.className, part.getBoundingClientRect().bottom])
        .filter(([, bottom]) => bottom > 720)"""
    for shown in TRIES:
        unfold(view)
        press(view, shown["name"])
        expect(view.locator(".live-look")).to_have_text(shown["look"])
        expect(view.locator(".live-map")).to_have_count(len(shown["texts"]))
        unfold(view, False)
        for step in view.locator(".walk-steps [role=button]").all()[:-1]:
            step.click()
            assert view.evaluate(lowest) == [], shown["name"]
            assert view.evaluate("scrollY") == 0


def test_next_is_a_few_tab_stops_away_and_words_and_steps_are_one_each(visit: Visit) -> None:
    view = visit("live.html", reduced_motion="reduce").view
    view.evaluate("live.ready")
    tokens, steps = view.locator(".live-tokens"), view.locator(".walk-steps")
    says, name = view.locator(".walk-says"), view.locator(".walk-name")
    for box in (tokens, steps):
        expect(box.locator("[tabindex='0']")).to_have_count(1)
    tokens.locator("[tabindex='0']").focus()
    view.keyboard.press("ArrowRight")
    expect(tokens.get_by_role("radio", checked=True)).to_have_text("cat")
    expect(tokens.get_by_role("radio", checked=True)).to_be_focused()
    expect(says).to_contain_text("the more “cat (3)” attends")
    view.keyboard.press("Home")
    view.keyboard.press("ArrowLeft")  # around to the last
    expect(says).to_contain_text("the more “[SEP]” attends")
    for _ in range(7):
        view.keyboard.press("Tab")
    expect(view.locator(".walk-on")).to_be_focused()
    view.keyboard.press("Enter")
    expect(name).to_have_text("1. Embedding")
    steps.locator("[tabindex='0']").focus()
    view.keyboard.press("End")
    expect(name).to_have_text("1. Embedding")  # a toolbar: its keys lead, Enter presses
    view.keyboard.press("Enter")
    expect(name).to_have_text("13. Compare")
    expect(steps.locator("[aria-current]")).to_have_attribute("aria-label", "13 Compare")
    view.locator(".walk-on").press("Enter")
    expect(name).to_have_text("Start")
    expect(view.locator(".walk-on")).to_be_focused()
    expect(steps.locator("[aria-current]")).to_have_count(0)


def test_the_overview_has_a_box_for_each_step_and_says_in_which_layer_one_is(visit: Visit) -> None:
    view = visit("live.html#head=3.1").view
    view.evaluate("live.ready")
    steps = view.get_by_role("toolbar", name="Overview of the encoder")
    names = [each.get_attribute("aria-label") for each in steps.get_by_role("button").all()]
    assert [name.partition(" ")[0] for name in names] == [str(number) for number in range(1, 14)]
    parts = {each.get_attribute("aria-label"): each for each in steps.get_by_role("group").all()}
    assert list(parts) == ["Embeddings", "Attention", "Feed-forward", "Sentence vector"]
    expect(parts["Feed-forward"].get_by_role("button")).to_have_count(2)
    expect(view.locator(".overview-layer")).to_have_text("Layer 3, one of 6 (0 to 5)")
    boxes = steps.locator("[role=button] text")
    expect(boxes.last).to_have_text("Compare")
    for width in (390, 320):
        view.set_viewport_size({"width": width, "height": 844})
        expect(boxes.last).to_have_text("13")  # a narrow box has room for a number
        assert steps.evaluate("svg => svg.getBoundingClientRect().right <= innerWidth")


def test_the_overview_can_be_read_in_forced_colours(visit: Visit) -> None:
    view = visit("live.html#step=3", forced_colors="active").view
    view.evaluate("live.ready")
    fill = "each => getComputedStyle(each).fill"
    for step in (".walk-steps [aria-current]", ".walk-steps [role=button]:not([aria-current])"):
        box = view.locator(step).first
        rect, text = box.locator("rect"), box.locator("text").last
        assert rect.evaluate(fill) != text.evaluate(fill), step


def test_on_a_phone_next_brings_the_step_into_sight_and_stays_within_reach(visit: Visit) -> None:
    view = visit("live.html", viewport={"width": 390, "height": 844}, reduced_motion="reduce").view
    view.evaluate("live.ready")
    following, name = view.locator(".walk-on"), view.locator(".walk-name")
    for number in range(1, 14):
        view.evaluate("scrollTo(0, document.body.scrollHeight / 3)" if number % 2 else "scrollTo(0, 0)")
        following.click()
        expect(name).to_contain_text(f"{number}. ")
        expect(following).to_be_focused()
        top = name.bounding_box()["y"]
        assert 0 < top < 300, (number, top)
        box = following.bounding_box()
        assert 0 < box["y"] < top and box["y"] + box["height"] <= top
        assert view.evaluate(  # nothing, like the page's header, covers it
            "([x, y]) => document.elementFromPoint(x, y).matches('.walk-on')", [box["x"] + 9, box["y"] + 9]
        )


def test_strips_can_be_read_outliers_do_not_set_the_scale(visit: Visit) -> None:
    view = visit("live.html#head=2.8&token=2&step=0").view
    view.evaluate("live.ready")
    for number in range(1, 13):
        view.locator(".walk-steps [role=button]").nth(number - 1).click()
        made = view.evaluate(
            "number => live.steps(live.view())[number].filter(({form}) => form === 'strip')"
            ".map(({values}) => [...values])",
            number,
        )
        scale, labels = view.locator(".walk-scale"), view.locator(".walk-item:has(canvas) .walk-label small")
        if not made:
            expect(scale).to_have_text("")
            continue
        sizes = torch.tensor(made).abs()
        end = sizes.flatten().sort().values[int(0.95 * (sizes.numel() - 1))]
        expect(scale).to_contain_text(f"ends at ±{end:.2f}; the 5% of the features")
        for label, values in zip(labels.all(), made, strict=True):
            listed = [
                f"feature {place} ({values[place]:.2f})"
                for place in torch.tensor(values).abs().topk(3).indices
            ]
            expect(label).to_have_text(f" largest: {', '.join(listed).replace('-', '−')}")
        # The strip with the largest numbers isn't pale: a quarter of its features are clearly coloured.
        strip = view.locator(".walk-items canvas").nth(int(sizes.mean(dim=1).argmax()))
        clear = strip.evaluate("""canvas => {
            const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, 1);
            const least = (place) => Math.min(...data.slice(4 * place, 4 * place + 3));
            const places = [...Array(canvas.width).keys()];
            return places.filter((place) => least(place) < 200).length / canvas.width;
        }""")
        assert clear > 0.25, number


def test_zero_has_no_sign_anywhere(visit: Visit) -> None:
    view = visit("live.html").view
    unfold(view)
    assert (
        view.evaluate("""async () => {
        const { short } = await import("./_static/live/dom.js");
        return [-0.004, -0, 0, -0.006, -10.004].map((each) => short(each)).join() + short(-0.04, 1);
    }""")
        == "0.00,0.00,0.00,−0.01,−10.000.0"
    )
    for shown in TRIES:
        press(view, shown["name"])
        expect(view.locator(".live-look")).to_have_text(shown["look"])
        for step in view.locator(".walk-steps [role=button]").all():
            step.click()
            text = view.locator("#live").evaluate("live => live.innerText")
            assert re.findall(r"[−-]0?\.?0+(?![\d.])", text) == []


def test_lines_lead_from_the_token_to_what_it_attends_to(visit: Visit) -> None:
    view = visit("live.html#head=2.8&token=2&step=5").view
    view.evaluate("live.ready")
    bars, width = (
        view.locator(".walk-items .walk-bar"),
        "bars => bars.map((bar) => parseFloat(bar.style.width))",
    )
    before = bars.evaluate_all(width)
    view.locator(".walk-arrives input").check()
    expect(view.locator(".walk-label")).to_have_text("weight × length of the value")
    after = bars.evaluate_all(width)  # [CLS] gets much weight, and brings little
    assert before[0] / before[3] > 0.2 > 0.03 > after[0] / after[3]
    expect(view.locator(".walk-from.walk-chosen")).to_have_text("old")
    lines = view.locator(".walk-flow[aria-hidden=true] path").all()
    shown = [value_of(each) for each in view.locator("ul.walk-numbers [data-value]").all()]
    widths = [float(line.get_attribute("stroke-width")) for line in lines]
    assert widths == pytest.approx([20 * value / sum(shown) for value in shown], abs=1e-3)
    assert len(lines) == 10
    lines_lead_to_their_keys(view)


def lines_lead_to_their_keys(view: Page) -> None:
    """Each begins at the chosen token and ends at its key."""
    pairs = view.evaluate("""() => {
        const [lines, keys] = ["path", ".walk-token button"].map((each) =>
            [...document.querySelectorAll(`.walk-items ${each}`)]);
        const edges = (each) => { const box = each.getBoundingClientRect(); return [box.top, box.bottom]; };
        return lines.map((line, key) => [0, line.getTotalLength()].map((at) => [
            line.getPointAtLength(at).matrixTransform(line.getScreenCTM()).y,
            ...edges(at ? keys[key] : document.querySelector(".walk-chosen"))]));
    }""")
    for y, top, bottom in (end for line in pairs for end in line):
        assert top < y < bottom


@pytest.mark.parametrize("count", [2, 32, 62])
def test_the_lines_of_a_long_text_scroll_with_its_tokens(loaded: Page, count: int) -> None:
    text = "the " * (count - 2) or "\u200b"  # of which the tokenizer leaves nothing
    loaded.evaluate(f"location.hash = '#head=2.8&token={count - 2}&text={text}'")
    keys, chosen = loaded.locator(".walk-token button"), loaded.locator(".walk-chosen")
    expect(keys).to_have_count(count)
    lines_lead_to_their_keys(loaded)
    shown = loaded.locator("ul.walk-numbers").bounding_box()
    assert shown["y"] <= chosen.bounding_box()["y"] < shown["y"] + shown["height"]


# The examples to try


def test_a_try_is_stored_as_the_model_computes_it(loaded: Page, visit: Visit, minilm: tuple) -> None:
    view, requests = visit("live.html").view, []
    unfold(view)
    view.on("request", lambda request: requests.append(request.url.rpartition("/")[2]))
    for wanted in TRIES:
        for page in (view, loaded):
            press(page, wanted["name"])
            expect(page.locator(".live-look")).to_have_text(wanted["look"])
            expect(page.locator(".live-map")).to_have_count(len(wanted["texts"]))
            last = "13. Compare" if wanted["step"] == 13 else "6. Softmax"
            expect(page.locator(".walk-name")).to_have_text(last)
            expect(page.locator(".live-views")).to_have_attribute("aria-busy", "false")
        stored = f"a stored example, with every step of layer {wanted['layer']}."
        expect(view.locator("#live-status")).to_contain_text(stored)
        expect(loaded.locator("#live-status")).to_contain_text("Computed in")
        got, computed = view.evaluate(SHOWN), loaded.evaluate(SHOWN)
        steps = [[torch.tensor(each) for each in step] for step in computed["steps"]]
        largest = [(step, max([each.abs().max() for each in step], default=0)) for step in steps]
        assert furthest(got["steps"], largest) <= 1e-3, wanted["name"]
        maps = in_pytorch(minilm[0], got["ids"], wanted.get("mask", True), wanted.get("positions", True))
        assert_allclose(np.array(got["maps"]), maps, rtol=0, atol=1 / 255, err_msg=wanted["name"])
        assert view.locator("#live-words").text_content() == loaded.locator("#live-words").text_content()
    assert set(requests) - {"favicon.svg"} == {f"try-{number}.json" for number in range(1, len(TRIES))}
    # The last of them ends with its two texts compared.
    one, other = sentence_embeddings(*minilm, wanted["texts"])
    expect(view.locator(".walk-says")).to_contain_text(f"For your two sentences it’s {one @ other:.2f}.")
    expect(view.locator("#live-texts")).to_have_value("\n".join(wanted["texts"]))
    for page in (view, loaded):
        tables = page.locator(".live-meaning table")
        expect(tables.first.locator("td:not(:empty)")).to_have_text([f"{one @ other:.2f}"])
        expect(tables.nth(1)).to_contain_text("Cosine similarity of “bank” in two texts")
    computed = loaded.locator(".live-meaning").inner_text()
    assert view.locator(".live-meaning").inner_text() == computed
    view.locator(".walk-back").click()
    expect(view.locator(".walk-items canvas")).to_have_count(2)


@torch.no_grad()
def test_what_a_try_says_to_look_at_is_there(minilm: tuple) -> None:
    def maps(number: int, trained: bool = False, text: int = 0) -> np.ndarray:
        wanted, head = TRIES[number], (TRIES[number]["layer"], text, TRIES[number]["head"])
        ids = [minilm[1].pieces.encode(text).ids for text in wanted["texts"]]
        taken = {name: trained or wanted.get(name, True) for name in ("positions", "mask")}
        return in_pytorch(minilm[0], ids, **taken)[head]

    adjectives = maps(0)  # [CLS] the old cat met the young cat . [SEP]
    assert adjectives.argmax(axis=1)[[2, 6]].tolist() == [3, 7]
    twins = maps(1)  # [CLS] the boy saw the bear before the bear saw the boy . [SEP]
    assert twins.argmax(axis=1)[[2, 3, 5, 8, 9, 11]].tolist() == [11, 9, 8, 5, 3, 2]
    before = [maps(2, trained)[range(1, 13), range(12)].mean() for trained in (True, False)]
    assert before[0] > 0.9 > 0.2 > before[1]
    padding = maps(4)[:5, 5:].sum(axis=1)  # [CLS] snow fell . [SEP]
    assert padding[1:4].mean() > 0.5
    for text, word in enumerate(("river", "money")):
        tokens, rows = minilm[1].pieces.encode(TRIES[5]["texts"][text]).tokens, maps(5, text=text)
        others = [place for place, token in enumerate(tokens[1:-2], 1) if token != "bank"]
        assert tokens[max(others, key=lambda place: rows[tokens.index("bank"), place])] == word


def test_a_try_says_what_to_look_at_only_while_that_is_shown(visit: Visit, loaded: Page) -> None:
    view = visit("live.html").view
    unfold(view)
    look, layer = view.locator(".live-look"), view.locator("#live-layer-number")
    expect(look).to_have_text(TRIES[0]["look"])
    layer.fill("5")  # there, “old” gives “cat” 0.08
    expect(look).to_have_text("")
    layer.fill("2")
    expect(look).to_have_text(TRIES[0]["look"])
    view.locator(".live-heads button").nth(2 * 12 + 7).click()
    expect(look).to_have_text("")
    press(view, "Without positions")
    expect(look).to_have_text(TRIES[2]["look"])
    view.locator("#live-positions").check()  # “without positions it can’t work” is over
    expect(look).to_have_text("")
    press(view, TRIES[0]["name"])
    view.locator("#live-first").fill("The old cat met a young dog.")
    expect(view.locator("#live-status")).to_contain_text("still the stored example")
    expect(look).to_have_text("")
    press(loaded, TRIES[0]["name"])
    expect(loaded.locator(".live-look")).to_have_text(TRIES[0]["look"])
    loaded.locator("#live-head").uncheck()
    expect(loaded.locator(".live-look")).to_contain_text("This head is switched off")
    loaded.locator("#live-head").check()
    expect(loaded.locator(".live-look")).to_have_text(TRIES[0]["look"])


@torch.no_grad()
def test_the_walk_ends_with_three_banks_and_three_sentences_compared(visit: Visit, minilm: tuple) -> None:
    encoder, tokenizer = minilm
    view = visit("live.html#step=12").view
    view.evaluate("live.ready")
    expect(view.locator(".walk-name")).to_have_text("13. Compare")
    texts = view.locator("#live-texts").input_value().split("\n")
    batch = tokenizer(texts)
    hidden, _ = encoder(batch.token_ids, batch.may_attend)
    banks = torch.stack([hidden[i, tokens.index("bank")] for i, tokens in enumerate(batch.tokens)])
    pairs = [(0, 1), (0, 2), (1, 2)]
    last = [torch.cosine_similarity(banks[i], banks[j], dim=0).item() for i, j in pairs]
    sentences, words = view.locator(".live-meaning table").all()
    expect(words.locator("tbody tr td:last-child")).to_have_text([f"{each:.2f}" for each in last])
    vectors = sentence_embeddings(*minilm, texts)
    wanted = [vectors[i] @ vectors[j] for i, j in pairs]
    expect(sentences.locator("td:not(:empty)")).to_have_text([f"{each:.2f}" for each in wanted])
    # The two banks that keep money end closest, by far: it's what the page says.
    assert last[2] > max(last[:2]) + 0.1 and wanted[2] > max(wanted[:2]) + 0.1
    meaning = view.locator(".live-meaning")
    expect(meaning).to_contain_text(f"After layer 5 it’s {min(last):.2f} to {max(last):.2f}")
    expect(meaning).to_contain_text("“bank” is most similar in texts 2 and 3.")
    expect(meaning).to_contain_text("As a whole, texts 2 and 3 are the most similar.")
    expect(view.locator(".live-chart polyline")).to_have_count(3)
    assert view.locator(".live-chart").bounding_box()["y"] < 720


def test_what_a_try_takes_away_is_given_back_without_the_model(visit: Visit) -> None:
    view = visit("live.html").view
    unfold(view)
    press(view, "Who bit whom?")
    words = view.locator("#live-words")
    expect(words).to_contain_text("similarity 1.00; with everything switched on, 0.98")
    view.locator("#live-positions").check()
    expect(words).to_contain_text("have the cosine similarity 0.98 (1: the same")
    expect(view.get_by_role("button", name="Who bit whom")).to_have_attribute("aria-pressed", "true")
    expect(view.locator(".walk-stage")).to_be_visible()
    expect(view.locator("output[for=live-positions]")).to_have_text("")
    view.locator("#live-head").uncheck()
    expect(view.locator("#live-status")).to_contain_text("still the stored example: load the model")
    expect(view.locator("output[for=live-head]")).to_have_text("Load the model to see what changes.")


# With the model: one's own texts, and what is taken away


def test_typing_changes_the_map_and_odd_input_is_answered_in_words(loaded: Page) -> None:
    field, remark = loaded.locator("#live-first"), loaded.locator("#live-first-remark")
    names, words = loaded.locator(".live-map tbody th"), loaded.locator("#live-words")
    press(loaded, "Words attend to their twin")
    field.fill("Rain and wind, wind and rain")
    expect(names).to_have_text(["[CLS]", "rain", "and", "wind", ",", "wind", "and", "rain", "[SEP]"])
    expect(words).to_contain_text("Largest weight between two words: “")
    field.fill("Unbelievably plain.")
    expect(loaded.locator("#live-pieces")).to_have_text(
        "##bel continues the word before it: words that aren't in the vocabulary are split into pieces."
    )
    press(loaded, "Words attend to their twin")
    expect(loaded.locator("#live-pieces")).to_have_text("")
    field.fill("My own words here")
    expect(words).to_have_text(
        "No word attends to another word with a weight of 0.10 or more; "
        "on average, 0.93 of the attention goes to [CLS] and [SEP]."
    )

    answers = {
        "": "Type at least one word",
        "   \t ": "Type at least one word",
        "word " * 100: "It has 102 tokens; only the first 62",
        "a" * 5000: "It has 5,000 characters; only the first 4,000 are used",
        "I 😀 you": "1 of 3 tokens is [UNK]",
        "日本語": "split one by one",
        "الثعلب البني السريع يقفز": "split into pieces",
        "\u200b\u200d": "The tokenizer leaves nothing of it",
    }
    for text, answer in answers.items():
        field.fill("A plain text.")
        expect(remark).to_have_text("")
        field.fill(text)
        expect(remark).to_contain_text(answer)
    field.evaluate("f => { f.value = 'half \\ud83d a face'; f.dispatchEvent(new Event('input')); }")
    expect(remark).to_contain_text("half a character")


def test_a_long_text_is_one_picture_in_which_a_weight_is_picked(loaded: Page) -> None:
    loaded.evaluate("location.hash = '#head=2.8&text=' + encodeURIComponent('the cat sat '.repeat(20))")
    canvas = loaded.locator(".live-map canvas")
    expect(canvas).to_have_count(1)
    size = canvas.bounding_box()
    canvas.click(position={"x": size["width"] * 2.5 / 62, "y": size["height"] * 4.5 / 62})
    expect(loaded.locator(".walk-answer h3")).to_contain_text("The attention weight from “the” to “cat”")


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
    expect(loaded.get_by_role("button", name="Layer 0, head 2: previous-token head")).to_be_visible()


def test_positions_and_mask_are_taken_away_and_the_effect_is_told(loaded: Page) -> None:
    words, compare = loaded.locator("#live-words"), loaded.locator("#live-compare")
    press(loaded, "Who bit whom?")
    expect(words).to_contain_text("similarity 1.00; with everything switched on, 0.98")
    cost = loaded.locator("output[for=live-positions]")
    expect(cost).to_contain_text("Without positions, the sentence embeddings have cosine similarities of 0.")
    expect(cost).to_contain_text("with the whole model’s; 1 would mean no change.")
    expect(loaded.locator("#live-mask")).to_be_disabled()  # both texts are as long
    loaded.locator("#live-positions").check()
    expect(words).to_contain_text("have the cosine similarity 0.98 (1: the same")
    press(loaded, "Without the padding mask")
    expect(words).to_contain_text("Without the mask, 0.64 of the shorter text's attention in this head")
    expect(loaded.locator(".live-hidden")).to_have_count(0)
    compare.uncheck()
    # A single text has no padding: nothing is taken away, so there is nothing to compare with.
    expect(loaded.locator("#live-mask")).to_be_checked()
    expect(loaded.locator(".live-roles th[scope=col]")).to_have_text(["role", "ten sentences", "this text"])
    compare.check()
    expect(loaded.locator(".live-hidden")).to_have_count(6 * 11)  # [PAD], behind the mask of each query
    loaded.locator("#live-second").fill("")
    expect(loaded.locator("#live-second-remark")).to_contain_text("Type at least one word")
    compare.uncheck()
    expect(loaded.locator(".live-map")).to_have_count(1)
    press(loaded, "Words attend to their twin")
    compare.check()
    expect(loaded.locator("#live-second")).not_to_have_value("")  # one is offered
    expect(loaded.locator(".live-map")).to_have_count(2)
    compare.uncheck()

    previous = loaded.locator(".live-roles tr", has_text="previous").locator("td")
    press(loaded, "Without positions")
    expect(previous).to_have_text(["1.00", "0.10", "1.00"])
    loaded.locator("#live-positions").check()
    expect(previous).to_have_text(["1.00", "1.00"])
    loaded.locator("#live-positions").uncheck()
    loaded.locator("#live-first").fill("\u200b")
    expect(loaded.locator(".live-map td")).to_have_count(2 * 2)  # [CLS] and [SEP]
    expect(cost).to_contain_text("Without positions, the sentence embedding has a cosine similarity of")
    press(loaded, "Words attend to their twin")
    expect(loaded.locator("#live-positions")).to_be_checked()
    expect(words).to_contain_text("“saw” (token 9) attends to “saw” (token 3) with 0.97")


def test_what_is_taken_away_is_taken_from_the_walk(loaded: Page) -> None:
    press(loaded, "Adjectives attend to their noun")
    loaded.locator("#live-head").uncheck()
    told = loaded.locator(".live-off output:not(:empty)")
    expect(told).to_have_attribute("for", "live-head")
    with_all, without = (
        loaded.evaluate(
            "(heads) => live.run([document.querySelector('#live-first').value], {heads})"
            ".then((run) => [...run.vector(0)])",
            heads,
        )
        for heads in ([], [[2, 8]])
    )
    cosine = torch.cosine_similarity(torch.tensor(with_all), torch.tensor(without), dim=0)
    expect(told).to_have_text(
        f"Without this head, the sentence embedding has a cosine similarity of {cosine:.3f} with the whole "
        "model’s; 1 would mean no change."
    )
    loaded.locator(".walk-steps [role=button]").nth(6).click()
    mixed = loaded.locator(".walk-grid span[data-value]")  # nothing to ask: it is taken away
    expect(mixed).to_have_count(32)
    assert {value_of(each) for each in mixed.all()} == {0}
    loaded.locator("#live-head").check()
    loaded.locator("#live-layer").uncheck()
    expect(told).to_have_attribute("for", "live-layer")
    expect(loaded.locator(".walk-unseen")).to_contain_text("Layer 2 is switched off")
    expect(loaded.locator(".walk-stage")).to_be_hidden()
    loaded.locator("#live-layer").check()
    expect(loaded.locator(".walk-stage")).to_be_visible()


def test_texts_are_compared_by_meaning(loaded: Page, minilm: tuple) -> None:
    loaded.locator(".walk-steps [role=button]").last.click()
    field, status = loaded.locator("#live-texts"), loaded.locator("#live-meaning-status")
    tables = loaded.locator(".live-meaning table")
    texts = ["A cat sat on the mat.", "The kitten lay on the rug.", "Shares fell again."]
    field.fill("\n".join(texts))
    loaded.locator(".live-compare [type=submit]").click()
    vectors = sentence_embeddings(*minilm, texts)
    wanted = [f"{vectors[i] @ vectors[j]:.2f}" for i in range(3) for j in range(i)]
    shown = [each.replace("-0.00", "0.00").replace("-", "−") for each in wanted]
    expect(tables.first.locator("td:not(:empty)")).to_have_text(shown)
    field.fill("Only one.")
    loaded.locator(".live-compare [type=submit]").click()
    expect(status).to_contain_text("at least two texts")
    field.fill("\n".join(f"The bank number {number}." for number in range(8)))
    loaded.locator(".live-compare [type=submit]").click()
    expect(status).to_contain_text("first 6 of 8")
    expect(loaded.locator(".live-chart polyline")).to_have_count(15)
    expect(tables.nth(1)).to_contain_text("Cosine similarity of “number” in two texts")


@torch.no_grad()
def test_the_last_step_compares_what_is_shown_as_it_is_shown(loaded: Page, minilm: tuple) -> None:
    press(loaded, "Adjectives attend to their noun")
    loaded.locator("#live-first").fill("The river bank was muddy.")
    loaded.locator("#live-texts").evaluate("field => (field.value = '')")  # what earlier tests typed
    loaded.locator(".walk-steps [role=button]").last.click()
    field, cells = loaded.locator("#live-texts"), loaded.locator(".live-meaning table").first.locator("td")
    expect(field).to_have_value(re.compile("^The river bank was muddy.\nThey fished.*\n.*\n.*$"))
    first = cells.and_(loaded.locator("tr:nth-child(2) td:nth-child(2)"))
    model = copy.deepcopy(minilm[0])
    for is_whole in (True, False):
        vectors = sentence_embeddings(model, minilm[1], field.input_value().split("\n"))
        expect(first).to_have_text(f"{vectors[0] @ vectors[1]:.2f}")
        model.positions.weight[:] = model.positions.weight.mean(dim=0)
        loaded.locator("#live-positions").set_checked(not is_whole)
    expect(loaded.locator(".live-meaning")).not_to_contain_text("without positions")
    loaded.locator("#live-positions").uncheck()
    expect(loaded.locator(".live-meaning")).to_contain_text("Computed without positions.")
    expect(loaded.locator(".live-meaning")).to_contain_text("there are no positions to tell them apart")
    field.fill("What somebody typed here\nstays here")
    loaded.locator("#live-positions").check()
    expect(loaded.locator(".live-meaning tbody").first).to_contain_text("stays here")
    loaded.locator("#live-first").fill("Another sentence")
    expect(loaded.locator(".live-tokens")).to_contain_text("another")
    expect(field).to_have_value("What somebody typed here\nstays here")
    field.fill("")


def test_an_own_sentence_begins_with_the_word_that_attends_most_to_another(loaded: Page) -> None:
    press(loaded, "Adjectives attend to their noun")
    loaded.locator("#live-first").fill("We saw the big house and a tiny garden.")
    expect(loaded.locator(".live-tokens")).to_contain_text("garden")
    weights = np.array(loaded.evaluate(SHOWN)["maps"])[2, 0, 8][1:-1, 1:-1]
    np.fill_diagonal(weights, 0)
    query, key = np.unravel_index(weights.argmax(), weights.shape)
    tokens = loaded.locator(".live-tokens button").all_text_contents()
    expect(loaded.get_by_role("radio", checked=True)).to_have_text(tokens[query + 1])
    look = loaded.locator(".live-look")
    expect(look).to_contain_text(f"We begin with “{tokens[query + 1]}”")
    expect(look).to_contain_text(f"“{tokens[key + 1]}” gets {weights.max():.2f} of its attention.")
    loaded.get_by_role("radio", name="[CLS]").click()
    expect(look).to_have_text("")


def test_a_step_switches_off_what_it_names(loaded: Page) -> None:
    press(loaded, "Adjectives attend to their noun")
    flip, steps = loaded.locator(".walk-flip"), loaded.locator(".walk-steps [role=button]")
    for step, part in {1: "positions", 7: "head"}.items():
        steps.nth(step).click()
        unfold(loaded, False)
        flip.click()
        expect(loaded.locator(f"output[for=live-{part}]")).to_contain_text("Without ")
        expect(loaded.locator(f"#live-{part}")).to_be_visible()
        expect(flip).to_contain_text("on again")
        flip.click()
        expect(loaded.locator(f"#live-{part}")).to_be_checked()
    steps.nth(2).click()
    expect(flip).to_be_hidden()
    unfold(loaded)


# Addresses, downloads and other browsers


def test_a_view_can_be_handed_on_as_an_address(visit: Visit) -> None:
    view = visit("live.html#text=Snow+fell.&head=1.8&token=1&step=5&positions=off").view
    unfold(view)
    names, title = view.locator(".live-map tbody th"), view.locator("#live-head-title")
    expect(view.locator("#live-first")).to_have_value("Snow fell.")
    expect(view.locator("#live-positions")).not_to_be_checked()
    expect(view.locator("#live-status")).to_contain_text("still the stored example: load the model")
    expect(title).to_contain_text("Layer 1, head 8: next-token head")
    view.evaluate(
        """() => { window.longest = 0; new PerformanceObserver((list) => {
        for (const {duration} of list.getEntries()) window.longest = Math.max(window.longest, duration);
    }).observe({entryTypes: ["longtask"]}); }"""
    )
    load(view)
    assert view.evaluate("window.longest") < 1000  # the model is in a worker: the page answers meanwhile
    expect(names).to_have_text(["[CLS]", "snow", "fell", ".", "[SEP]"])
    expect(view.locator(".walk-name")).to_have_text("6. Softmax")
    view.evaluate("location.hash = '#text=Rain+fell.&head=0.2&token=2'")
    expect(names).to_have_text(["[CLS]", "rain", "fell", ".", "[SEP]"])
    expect(view.locator("#live-positions")).to_be_checked()
    expect(title).to_contain_text("Layer 0, head 2")


@pytest.mark.parametrize(
    "state",
    ["head=NaN.x&token=-1&step=99", "token=1e9", "text=<img src=x onerror=alert(1)>", "%E0%A4"],
)
def test_an_address_that_makes_no_sense_does_no_harm(visit: Visit, state: str) -> None:
    view = visit(f"live.html#{state}").view
    expect(view.locator("#live-head-title")).to_contain_text("Layer 2, head 8")
    expect(view.locator(".live-map td")).to_have_count(10 * 10)
    assert view.locator("#live img").count() == 0


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


def respond(answer: dict, route: Route) -> None:
    """Answer a request so, or not at all."""
    if answer:
        route.fulfill(**answer)
    else:
        route.abort()


@pytest.mark.parametrize(
    ("name", "answer", "told"),
    [
        ("worker.js", {}, "could not be loaded"),
        ("encoder.onnx", {}, "Failed to fetch"),
        ("tokenizer.json", {"body": b"only this"}, "was cut short: 9 of"),
        ("tokenizer.json", {"body": b"1" * (SIZES["tokenizer.json"] + 1)}, "is longer than it should be"),
        ("ort-wasm-simd-threaded.wasm", {"status": 404}, "(404)"),
        ("try-1.json", {}, "That could not be loaded: Failed to fetch"),
    ],
    ids=str,
)
def test_a_failed_download_is_told_and_can_be_tried_again(
    browser: Browser, site: str, name: str, answer: dict, told: str
) -> None:
    page = SitePage(browser.new_context(), site, "live.html")
    status, is_try = page.view.locator("#live-status"), name.startswith("try")
    page.window.route(f"**/{name}", partial(respond, answer))
    unfold(page.view)
    asked = (
        page.view.get_by_role("button", name=TRIES[1]["name"]) if is_try else page.view.locator("#live-load")
    )
    asked.click()
    expect(status).to_contain_text("could not be loaded:", timeout=120_000)
    expect(status).to_contain_text(told)
    expect(page.view.locator(".live-map td")).to_have_count(10 * 10)
    page.window.unroute(f"**/{name}")
    asked.click()
    expect(status).to_contain_text("This is a stored example" if is_try else "Computed in", timeout=60_000)
    page.window.close()


def test_a_second_visit_finds_the_model_kept(visit: Visit) -> None:
    view = visit("live.html").view
    load(view)
    requests: list[str] = []
    view.on("request", lambda request: requests.append(request.url))
    view.reload()
    expect(view.locator("#live-status")).to_contain_text("Computed in", timeout=60_000)
    expect(view.locator("#live-load")).to_have_text("Your browser kept the model: type your own sentence")
    assert not any(name in request for request in requests for name in SIZES)


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
    press(page.view, "Without the padding mask")
    expect(page.view.locator(".live-map")).to_have_count(2)
    expect(page.view.locator("output[for=live-mask]")).to_contain_text(
        "Without the padding mask, the sentence"
    )
    page.view.locator(".walk-items button[data-value]").first.click()
    expect(page.view.locator(".walk-answer")).to_be_visible()
    assert page.overhang() <= 0
    for theme in ("light", "dark"):
        page.theme(theme)
        assert [fault for fault in page.violations() if ": region: .sidebar" not in fault] == []
