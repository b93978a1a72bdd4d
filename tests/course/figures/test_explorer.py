"""The explorer answers whatever is typed or chosen."""

import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle

from transformer_course.figures.explorer import LEGIBLE, TILE, Explorer, describe_head, head_view

N_LAYERS, N_HEADS = 2, 5
SENTENCE = "one two three"


def numbered(n):
    return " ".join(f"w{i}" for i in range(n))


def read(text):
    """A reader for tests: words are tokens, maps are seeded by their number."""
    words = text.split()
    if len(words) > 100:
        raise ValueError(
            f"texts[0] has {len(words)} tokens, expected at most 102; split it into shorter texts"
        )
    if "unknown" in words:
        raise KeyError("found no tokens for this word")
    tokens = ["[CLS]", *words, "[SEP]"]
    generator = torch.Generator().manual_seed(len(tokens))
    return tokens, torch.rand(N_LAYERS, N_HEADS, len(tokens), len(tokens), generator=generator)


@pytest.fixture
def box(quick):
    return Explorer(read, SENTENCE, place=(1, 3))


def test_the_small_maps_are_all_heads_of_the_layer_and_the_chosen_one_is_framed():
    tokens, maps = read(SENTENCE)
    ax = head_view(tokens, maps[0].numpy(), 0, 3).axes[0]
    picture = ax.collections[0].get_array()
    assert [text.get_text() for text in ax.texts] == [str(number) for number in range(N_HEADS)]
    corners = []
    for number, text in enumerate(ax.texts):
        x, y = text.get_position()
        top, left = round(y + 0.9), round(x - 2.5)
        corners.append((left - 0.5, top - 0.5))
        np.testing.assert_allclose(picture[top : top + 5, left : left + 5], maps[0, number].numpy())
    assert [patch.get_xy() for patch in ax.patches if isinstance(patch, Rectangle)] == [corners[3]]


def test_a_thin_line_survives_in_the_small_map_of_a_long_text():
    n = 3 * TILE + 1
    line = np.roll(np.eye(n), -1, axis=0)[None]
    picture = head_view(["a"] * n, line, 0, 0).axes[0].collections[0].get_array()
    shown = np.ma.filled(picture, np.nan)
    cells = shown[np.isfinite(shown)].reshape(-(-n // 4), -1)
    assert (cells.max(axis=1) == 1).all()


@pytest.mark.parametrize(("n_words", "pages"), [(30, [0]), (31, [0, 1]), (80, [0, 32, 50])])
def test_a_long_text_is_shown_a_page_at_a_time(box, n_words, pages):
    box.sentence.value = numbered(n_words)
    assert list(box.first.options) == pages  # the last page is full
    assert (box.first.layout.visibility == "visible") == (len(pages) > 1)
    assert (f"{n_words + 2} tokens are too many for one map" in box.words.value) == (len(pages) > 1)
    assert "w29" in box.picture.value
    box.first.value = pages[-1]
    assert f"w{n_words - 1}" in box.picture.value
    box.sentence.value = SENTENCE
    assert (list(box.first.options), box.first.layout.visibility) == ([0], "hidden")


@pytest.mark.parametrize(("first", "outside"), [(0, "0.00"), (8, "1.00")])
def test_the_words_tell_how_much_weight_goes_to_tokens_outside_the_map(first, outside):
    n = LEGIBLE + 8
    weights = np.zeros((n, n))
    weights[:, 0] = 1  # everybody rests on the first token
    said = describe_head(["[CLS]"] * n, weights, "L0.H0", first=first)
    assert f"give {outside} of their weight to tokens outside the map" in said


def test_a_page_shows_its_own_tokens_and_weights_and_a_character_without_a_glyph_by_its_number():
    tokens, maps = read(numbered(80))
    tokens[66:68] = "日本", "é"
    large = head_view(tokens, maps[0].numpy(), 0, 4, first=64).axes[1]
    np.testing.assert_allclose(large.collections[0].get_array().reshape(18, 18), maps[0, 4, 64:, 64:])
    for axis in (large.xaxis, large.yaxis):
        shown = [label.get_text() for label in axis.get_ticklabels()]
        assert shown == [*tokens[64:66], "U+65E5 U+672C", *tokens[67:]]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("   ", "There is nothing to read yet: type a sentence"),
        ("word " * 600, "texts[0] has 600 tokens, expected at most 102; split it into shorter texts."),
        ("unknown", "found no tokens for this word"),
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


@pytest.mark.parametrize(
    ("looked_at", "last", "words"),
    [
        (1, "three", "“three” (token 3) gives most, 0.50, to “one” (token 1); "
         "on average a word gives 0.25 to [CLS]."),
        (3, "[UNK]", "“[UNK]” (token 3) gives most, 0.50, to itself; on average a word "
         "gives 0.25 to [CLS]. [UNK] stands for a sign that the tokenizer does not know."),
    ],
)  # fmt: skip
def test_the_words_tell_the_largest_weight_between_words(looked_at, last, words):
    weights = np.zeros((5, 5))
    weights[:, 0] = 0.25
    weights[3, looked_at] = 0.5
    weights[2, 4] = 0.75  # to [SEP], which is no word
    tokens = ["[CLS]", "one", "two", last, "[SEP]"]
    assert describe_head(tokens, weights, "L2.H9") == f"L2.H9, between words: {words}"
