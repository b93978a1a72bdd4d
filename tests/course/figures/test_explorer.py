"""The explorer has the weights of every head, and says what each of them does."""

import numpy as np
import pytest
import torch

from tests.course.figures.drawn import still_and_data
from transformer_course import figures
from transformer_course.figures.explorer import LEGIBLE, describe_head

N_LAYERS, N_HEADS = 2, 5


def read(text):
    """A reader for tests: words are tokens, maps are seeded by their number."""
    tokens = ["[CLS]", *text.split(), "[SEP]"]
    generator = torch.Generator().manual_seed(len(tokens))
    return tokens, torch.rand(N_LAYERS, N_HEADS, len(tokens), len(tokens), generator=generator)


def explorer(published, text):
    figures.head_explorer(read, text, strip=[(1, 3), (0, 2)], title="Two heads")
    ((data, _),) = published
    still, explorer = still_and_data(data["text/html"], "explorer")
    assert "L1.H3" in still["alt"] and "L0.H2" in still["alt"]
    return explorer


def test_every_head_is_there_in_hundredths_and_the_first_of_the_strip_is_chosen(published):
    box, (tokens, maps) = explorer(published, "one two <three>"), read("one two <three>")
    assert (box["tokens"], box["layer"], box["head"], box["more"]) == (tokens, 1, 3, "")
    weights = np.array([[head["weights"] for head in layer] for layer in box["heads"]])
    np.testing.assert_allclose(weights.reshape(maps.shape) / 100, maps.numpy(), atol=0.00501)
    assert box["heads"][1][3]["said"].startswith("L1.H3, between words: ")


def test_of_a_long_text_the_beginning_is_shown_and_a_sentence_says_so(published):
    box = explorer(published, " ".join(["word"] * 60 + ["[UNK]"]))
    assert len(box["tokens"]) == LEGIBLE and len(box["heads"][0][0]["weights"]) == LEGIBLE**2
    assert "[UNK] stands for a character" in box["more"]
    assert box["more"].endswith(f"The maps show the first {LEGIBLE} of 63 tokens.")


@pytest.mark.parametrize(("looked_at", "to"), [(1, "“one” (token 1)"), (3, "itself")])
def test_the_words_tell_the_largest_weight_between_words(looked_at, to):
    weights = np.zeros((5, 5))
    weights[:, 0] = 0.25
    weights[3, looked_at] = 0.5
    weights[2, 4] = 0.75  # to [SEP], which is no word
    said = describe_head(["[CLS]", "one", "two", "three", "[SEP]"], weights, "L2.H9")
    gives = f"“three” (token 3) gives most, 0.50, to {to}"
    assert said == f"L2.H9, between words: {gives}; on average a word gives 0.25 to [CLS]."


def test_one_word_has_no_other_to_attend_to():
    assert "no two words" in describe_head(["[CLS]", "one", "[SEP]"], np.eye(3), "L0.H0")
