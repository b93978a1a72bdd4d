"""The explorer answers whatever is typed with a picture or a sentence, and shows the head that was chosen."""

import sys

import ipywidgets
import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle

from transformer_lab.course import figures
from transformer_lab.course.figures.explorer import LEGIBLE, TILE, Explorer, in_words

explore_module = sys.modules["transformer_lab.course.figures.explore"]
explorer_module = sys.modules[
    "transformer_lab.course.figures.explorer"
]  # the package gives the function that name

N_LAYERS, N_HEADS = 2, 5
SENTENCE = "one two three"


def read(text):
    """A reader for tests: words are tokens, maps are seeded by their number."""
    words = text.split()
    if len(words) > 100:
        raise ValueError(f"texts[0] has {len(words)} tokens, wanted at most 102; split it into shorter texts")
    if "?" in words:
        raise KeyError("no such token")
    tokens = ["[CLS]", *words, "[SEP]"]
    generator = torch.Generator().manual_seed(len(tokens))
    return tokens, torch.rand(N_LAYERS, N_HEADS, len(tokens), len(tokens), generator=generator)


@pytest.fixture
def box():
    return Explorer(read, SENTENCE, place=(1, 3), most_tokens=102)


def large_map(figure):
    return figure.axes[1]


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_the_view_has_tokens_on_both_axes_and_the_weights_of_the_chosen_head():
    tokens, maps = read(SENTENCE)
    ax = large_map(figures.head_view(tokens, maps[1], 1, 3))
    assert labels(ax.xaxis) == labels(ax.yaxis) == tokens
    np.testing.assert_allclose(ax.collections[0].get_array().reshape(5, 5), maps[1, 3].numpy())
    assert ax.collections[0].get_clim() == (0, 1)
    assert ax.get_title() == "L1.H3"
    assert "query" in ax.get_ylabel() and "key" in ax.get_xlabel()


def test_the_small_maps_are_all_heads_of_the_layer_and_the_chosen_one_is_framed():
    tokens, maps = read(SENTENCE)
    ax = figures.head_view(tokens, maps[0], 0, 3).axes[0]
    picture = ax.images[0].get_array()
    for number, text in enumerate(ax.texts):
        x, y = text.get_position()
        top, left = round(y + 0.8), round(x - 2)
        np.testing.assert_allclose(picture[top : top + 5, left : left + 5], maps[0, number].numpy())
        assert text.get_text() == str(number)
        if number == 3:
            (frame,) = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
            assert frame.get_xy() == (left - 0.5, top - 0.5)
    assert len(ax.texts) == N_HEADS
    assert np.isfinite(np.ma.filled(picture, np.nan)).sum() == N_HEADS * 25


def test_a_thin_line_survives_in_the_small_map_of_a_long_text():
    n = 3 * TILE + 1
    line = torch.eye(n).roll(-1, 0)[None]
    picture = figures.head_view(["a"] * n, line, 0, 0).axes[0].images[0].get_array()
    shown = np.ma.filled(picture, np.nan)
    cells = shown[np.isfinite(shown)].reshape(-(-n // 4), -1)
    assert (cells.max(axis=1) == 1).all()


def test_a_long_text_is_shown_a_page_at_a_time(box):
    words = [f"w{i}" for i in range(80)]
    box.sentence.value = " ".join(words)
    assert list(box.first.options) == [0, 32, 50]
    assert box.first.layout.visibility == "visible"
    assert f"82 tokens are too many for one map: it shows {LEGIBLE}" in box.words.value
    before = box.picture.value
    box.first.value = 32
    assert box.picture.value != before
    box.sentence.value = SENTENCE
    assert (list(box.first.options), box.first.layout.visibility) == ([0], "hidden")


@pytest.mark.parametrize("n_words", [30, 31, 40, 62, 63, 98])
def test_every_token_of_a_long_text_is_on_a_page(box, n_words):
    box.sentence.value = " ".join(f"w{i}" for i in range(n_words))
    n, pages = n_words + 2, list(box.first.options)
    assert {token for page in pages for token in range(page, page + LEGIBLE)} >= set(range(n))
    assert pages[-1] == max(0, n - LEGIBLE)  # the last page is full
    assert (box.first.layout.visibility == "visible") == (n > LEGIBLE) == (len(pages) > 1)


def test_the_words_tell_how_much_weight_goes_to_tokens_outside_the_map():
    n = LEGIBLE + 8
    weights = torch.zeros(n, n)
    weights[:, 0] = 1  # everybody rests on the first token
    tokens = ["[CLS]"] * n
    assert "give 0.00 of their weight to tokens outside the map" in in_words(tokens, weights, 0, 0)
    assert "give 1.00 of their weight to tokens outside the map" in in_words(tokens, weights, 0, 0, first=8)


def test_a_page_shows_its_own_tokens_and_weights():
    tokens, maps = read(" ".join(f"w{i}" for i in range(80)))
    ax = large_map(figures.head_view(tokens, maps[0], 0, 4, first=64))
    assert labels(ax.xaxis) == labels(ax.yaxis) == tokens[64:]
    shown = ax.collections[0].get_array().reshape(18, 18)
    np.testing.assert_allclose(shown, maps[0, 4, 64:, 64:].numpy())


def test_a_character_without_a_glyph_is_shown_by_its_number():
    ax = large_map(figures.head_view(["[CLS]", "日本", "é"], torch.rand(1, 3, 3), 0, 0))
    assert labels(ax.xaxis) == ["[CLS]", "U+65E5 U+672C", "é"]


def test_typing_a_sentence_changes_the_picture(box):
    before = box.picture.value
    box.sentence.value = "four five"
    assert box.picture.value != before
    assert "four" in box.picture.value and "three" not in box.picture.value


def test_choosing_a_head_or_a_layer_changes_picture_and_words(box):
    assert "L1.H3" in box.picture.value and "L1.H3" in box.words.value
    box.head.value = 0
    assert "L1.H0" in box.picture.value and "L1.H0" in box.words.value
    box.layer.value = 0
    assert "L0.H0" in box.picture.value and "<img alt=" in box.picture.value


@pytest.mark.parametrize(
    "text, answer",
    [
        ("", "There is nothing to read yet: type a sentence"),
        ("   ", "There is nothing to read yet: type a sentence"),
        ("word " * 600, "too long: the model has places for 102 tokens"),
        ("what ?", "no such token"),
    ],
)
def test_bad_input_is_answered_with_a_sentence_and_the_picture_stays(box, text, answer):
    before = box.picture.value
    box.sentence.value = text
    assert answer in box.words.value
    assert "The picture still shows your last sentence." in box.words.value
    assert box.picture.value == before
    box.head.value = 0  # what is shown still belongs together
    assert "three" in box.picture.value


@pytest.mark.parametrize("text", ["a", "$x$ and $y", "<b>bold</b> & so on", "日本語", "😀"])
def test_odd_input_is_shown(box, text):
    box.sentence.value = text
    assert "last sentence" not in box.words.value
    assert "<b>" not in box.words.value.replace('<p role="status">', "")


def test_the_words_tell_the_largest_weight_between_words():
    weights = torch.zeros(5, 5)
    weights[:, 0] = 0.25
    weights[3, 1] = 0.5
    weights[2, 4] = 0.75  # to [SEP], which is no word
    said = in_words(["[CLS]", "one", "two", "three", "[SEP]"], weights, 2, 9)
    assert said == (
        "L2.H9, between words: “three” (token 3) gives most, 0.50, to “one” (token 1); "
        "on average a word gives 0.25 to [CLS]."
    )


def test_the_words_say_itself_and_explain_an_unknown_sign():
    weights = torch.zeros(4, 4)
    weights[2, 2] = 0.5
    said = in_words(["[CLS]", "one", "[UNK]", "[SEP]"], weights, 0, 0)
    assert "“[UNK]” (token 2) gives most, 0.50, to itself;" in said
    assert said.endswith("[UNK] stands for a sign that the tokenizer does not know.")


def test_a_strip_is_published_where_no_kernel_runs(monkeypatch):
    published, boxes = [], []
    monkeypatch.setattr(explore_module, "publish_display_data", lambda *bundle: published.append(bundle))
    monkeypatch.setattr(
        explorer_module, "Explorer", lambda *args, **named: boxes.append(named) or ipywidgets.VBox()
    )
    figures.explorer(read, SENTENCE, strip=[(0, 2), (1, 4)], title="Two heads")
    (live,), (data, metadata) = published
    assert "application/vnd.jupyter.widget-view+json" in live and "image/png" not in live
    assert "L0.H2" in data["text/plain"] and "L1.H4" in data["text/plain"]
    assert "Two heads" in metadata["image/png"]["alt"]
    assert boxes == [{"place": (0, 2), "most_tokens": 512}]
