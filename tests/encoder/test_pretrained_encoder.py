"""Lesson 09: the published model in our encoder gives what the original implementation gives."""

import copy
import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F

from tests.references import assert_equal, randn
from transformer_lab import Encoder, EncoderConfig
from transformer_lab.pretrained_encoder import (
    FOLDER_VARIABLE,
    IGNORED,
    MINILM,
    PACKAGE,
    SEGMENTS,
    SHA256,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    attention_maps,
    check_published,
    find_model,
    load_minilm,
    load_weights,
    minilm_available,
    parameter_names,
    sentence_embeddings,
)

TEXTS = [
    "",
    " ",
    ".",
    "Hi",
    "?!",
    "Dog bites man.",
    "Man bites dog.",
    "The cat sat on the mat.",
    "THE CAT SAT ON THE MAT.",
    "The boy saw the bear before the bear saw the boy.",
    "buffalo buffalo buffalo buffalo buffalo buffalo buffalo buffalo",
    "the the the the the the the the the the the the the the the the",
    "To be, or not to be: that is the question.",
    "What?! No... (really?) -- yes; \"quite\" so: 'fine'.",
    "3.14159 is close to 22/7, and 1,000,000 > 999,999.",
    "e^(i*pi) + 1 = 0",
    "for i in range(10): print(i ** 2)",
    "https://example.org/a/b?c=d#e",
    "someone@example.org",
    "Café, naïve, résumé, Zürich, Ærøskøbing, Łódź.",
    "El niño comió una piña en la montaña.",
    "Ça va très bien, merci beaucoup.",
    "Straße und Fußgängerübergänge",
    "Привет, как дела?",
    "Καλημέρα κόσμε",
    "مرحبا بالعالم",
    "नमस्ते दुनिया",
    "注意力就是你所需要的一切。",
    "我喜欢 PyTorch 和 Transformer 模型。",
    "これは日本語の文です。",
    "안녕하세요 세계",
    "I love this 😀🎉",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽",
    "tabs\tand\nnew lines\r\nand   spaces",
    "null\x00byte and a soft\u00adhyphen",
    "pneumonoultramicroscopicsilicovolcanoconiosis",
    "antidisestablishmentarianism hyperparameterisation untokenizable",
    "x" * 150,
    "[MASK] is a special token, and so is [SEP].",
    "A man is eating food.",
    "Someone is having a meal.",
    "The stock market fell sharply after the announcement of new tariffs on imported steel.",
    "In the beginning the Universe was created. This has made a lot of people very angry.",
    "It was a bright cold day in April, and the clocks were striking thirteen.",
    " ".join(f"number {n} follows number {n - 1}," for n in range(1, 5)),
]
# With [CLS] and [SEP] 230 tokens, and 512: all that the position table serves.
LONG = "the quick brown fox jumps over the lazy dog . " * 22 + "the " * 8
LONGEST = "once upon a time " * 127 + "a b"
# Texts of mixed lengths together, so that padding counts.
BATCHES = [TEXTS, ["A short text.", LONG], [LONGEST]]


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
    return model.eval()


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


def mean_of_real(hidden, real):
    """Mean over the real tokens, scaled to length one: the published recipe, one text at a time."""
    means = torch.stack([vectors[these].mean(0) for vectors, these in zip(hidden, real, strict=True)])
    return means / means.norm(dim=1, keepdim=True)


def cosine(ours, theirs):
    return F.cosine_similarity(ours, theirs, dim=-1).item()


DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


# --- the same numbers as the original


@DTYPES
def test_hidden_states_attention_maps_and_embeddings_equal_those_of_hugging_face_bert(bert, dtype):
    encoder, tokenizer = load_minilm(dtype=dtype)
    bert = copy.deepcopy(bert).to(dtype)
    for texts in BATCHES:
        batch = tokenizer(texts)
        real = batch.may_attend[:, 0, 0]
        (hidden, maps), (their_hidden, their_maps) = our_outputs(encoder, batch), bert_outputs(bert, batch)
        for ours, theirs in zip(hidden, their_hidden, strict=True):
            assert_equal(ours[real], theirs[real])
        for ours, theirs in zip(maps, their_maps, strict=True):
            ours, theirs = ours.transpose(1, 2), theirs.transpose(1, 2)  # (batch, query_pos, heads, key_pos)
            assert_equal(ours[real], theirs[real])
        assert_equal(sentence_embeddings(encoder, tokenizer, texts), mean_of_real(their_hidden[-1], real))


def test_an_embedding_has_length_one_and_depends_neither_on_the_batch_nor_on_its_size(minilm):
    texts = TEXTS[:7]
    together = sentence_embeddings(*minilm, texts)
    assert together.shape == (7, 384)
    assert_equal(together.norm(dim=1), torch.ones(7, dtype=torch.float64))
    assert_equal(together, torch.cat([sentence_embeddings(*minilm, [text]) for text in texts]))
    assert_equal(together, sentence_embeddings(*minilm, texts, batch_size=3))


def test_attention_maps_are_those_of_the_encoder(minilm):
    encoder, tokenizer = minilm
    tokens, weights = attention_maps(encoder, tokenizer, "Dog bites man.")
    assert tokens == ["[CLS]", "dog", "bites", "man", ".", "[SEP]"]
    assert weights.shape == (6, 12, 6, 6)
    assert_equal(weights, torch.cat(encoder(tokenizer(["Dog bites man."]).token_ids)[1]))


# --- what the lessons say about this model


def test_previous_token_head_looks_one_token_back_while_a_text_has_at_most_127_tokens(minilm):
    previous = (0, 2)
    for text in ("The old cat met the young cat.", "the cat sat on " * 31):
        weights = attention_maps(*minilm, text)[1][previous]
        assert weights.diagonal(-1).min() > 0.97
    weights = attention_maps(*minilm, "the cat sat on " * 60)[1][previous]
    assert weights.diagonal(-1)[:100].min() < 0.1


def test_noun_head_and_same_word_head_on_the_sentence_of_the_lessons(minilm):
    _, weights = attention_maps(*minilm, "The old cat met the young cat.")
    to_noun, same_word = weights[2, 8], weights[2, 9]
    assert_equal(to_noun[[1, 2, 5, 6], [3, 3, 7, 7]], torch.tensor([0.70, 0.71, 0.66, 0.69]).double(), 0.005)
    assert_equal(same_word[[3, 7], [7, 3]], torch.tensor([0.74, 0.61]).double(), 0.005)


def test_word_order_is_lost_without_positions(minilm):
    encoder, tokenizer = copy.deepcopy(minilm[0]), minilm[1]
    texts = ["Dog bites man.", "Man bites dog."]
    assert cosine(*sentence_embeddings(encoder, tokenizer, texts)) == pytest.approx(0.8812, abs=1e-4)
    encoder.positions.table.zero_()
    assert cosine(*sentence_embeddings(encoder, tokenizer, texts)) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("pads, wanted", [(1, 0.956), (4, 0.740), (16, 0.487), (64, 0.308)])
def test_padding_spoils_an_embedding_when_nothing_masks_it(minilm, pads, wanted):
    encoder, tokenizer = minilm
    padded = F.pad(tokenizer(["Dog bites man."]).token_ids, (0, pads))
    unmasked = encoder(padded)[0].mean(dim=1)
    masked = sentence_embeddings(encoder, tokenizer, ["Dog bites man."])
    assert cosine(unmasked, masked) == pytest.approx(wanted, abs=5e-4)


def test_tanh_gelu_passes_a_cosine_check_and_fails_a_comparison_of_numbers(minilm):
    encoder, tokenizer = minilm
    approximate = Encoder(dataclasses.replace(MINILM, activation="gelu_tanh")).double().eval()
    approximate.load_state_dict(encoder.state_dict())
    ours = sentence_embeddings(encoder, tokenizer, ["Dog bites man."])
    theirs = sentence_embeddings(approximate, tokenizer, ["Dog bites man."])
    assert cosine(ours, theirs) > 0.99999
    with pytest.raises(AssertionError):
        assert_equal(ours, theirs, 1e-5)


def test_queries_and_keys_swapped_load_strictly_and_still_look_like_an_embedding(minilm, published):
    swapped = {name: published[swap_query_and_key(name)] for name in published}
    encoder = Encoder(MINILM).double().eval()
    load_weights(encoder, swapped)
    right = sentence_embeddings(*minilm, ["Dog bites man."])
    wrong = sentence_embeddings(encoder, minilm[1], ["Dog bites man."])
    assert cosine(right, wrong) == pytest.approx(0.327, abs=1e-3)


def swap_query_and_key(name):
    old, new = (".query.", ".key.") if ".query." in name else (".key.", ".query.")
    return name.replace(old, new)


def test_parameters_are_the_published_ones_less_the_two_segment_rows(minilm, published):
    in_file = sum(tensor.numel() for name, tensor in published.items() if name not in IGNORED)
    ours = sum(parameter.numel() for parameter in minilm[0].parameters())
    assert in_file == 22_565_376
    assert ours == in_file - 2 * 384  # row 0 is folded into the positions, row 1 is never needed


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


def test_tokenizer_cuts_nothing_off(minilm):
    batch = minilm[1](["word " * 510])
    assert batch.token_ids.shape == (1, 512)
    assert batch.may_attend.all()


@pytest.mark.parametrize(
    "texts, error, message",
    [
        ("a sentence", TypeError, r"got 'a sentence'; put it in brackets: \[text\]"),
        ([], TypeError, r"must be a list of strings, got \[\]"),
        (["fine", 7], TypeError, "must be str"),  # by the library
        (["fine", "caf\ud83d"], ValueError, r"got half a character .*in texts\[1\].*; try 'caf\?'"),
        (["fine", "word " * 511], ValueError, r"texts\[1\] .* has 513 tokens, wanted at most 512; split it"),
    ],
)
def test_texts_that_are_refused(minilm, texts, error, message):
    encoder, tokenizer = minilm
    with pytest.raises(error, match=message):
        tokenizer(texts)
    with pytest.raises(error, match=message):
        sentence_embeddings(encoder, tokenizer, texts)


def test_a_batch_moves_to_another_device(minilm):
    batch = minilm[1](["Dog bites man."])
    moved = batch.to("meta")
    assert moved.token_ids.is_meta and moved.may_attend.is_meta
    assert moved.tokens == batch.tokens


# --- loading


def test_loading_disturbs_nothing():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    encoder, _ = load_minilm(dtype=torch.float64)
    assert_equal(torch.rand(3), wanted)
    assert torch.get_default_dtype() == torch.float32
    assert {parameter.dtype for parameter in encoder.parameters()} == {torch.float64}
    assert not encoder.training
    assert not any(parameter.requires_grad for parameter in encoder.parameters())


def test_parameters_take_the_default_dtype_and_keep_their_exact_values(published):
    vectors = published["embeddings.word_embeddings.weight"]
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        encoder, _ = load_minilm()
        assert_equal(encoder.embedding.vectors.data, vectors.to(dtype), 0)


def test_neither_the_models_package_nor_transformers_is_imported():
    code = (
        "import sys; from transformer_lab.pretrained_encoder import *; encoder, tokenizer = load_minilm();"
        "sentence_embeddings(encoder, tokenizer, ['a']);"
        f"print({{'transformers', 'sentence_transformers', '{PACKAGE}'}} & set(sys.modules))"
    )
    root = Path(__file__).parents[2]
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert result.stdout == "set()\n"
    assert result.stderr == ""


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr("transformer_lab.pretrained_encoder.PACKAGE", "a_package_that_is_not_installed")


@pytest.fixture
def model_folder(tmp_path):
    for name in (WEIGHTS_FILE, TOKENIZER_FILE):
        shutil.copy(find_model() / name, tmp_path)
    return tmp_path


def test_model_is_found_where_it_is_named(no_package, tmp_path, monkeypatch):
    for folder in ("argument", "variable"):
        (tmp_path / folder).mkdir()
        for name in (WEIGHTS_FILE, TOKENIZER_FILE):
            (tmp_path / folder / name).touch()
    assert not minilm_available()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "variable"))
    assert minilm_available()
    assert find_model() == tmp_path / "variable"
    assert find_model(tmp_path / "argument") == tmp_path / "argument"
    assert find_model(str(tmp_path / "argument")) == tmp_path / "argument"


def test_missing_model_says_what_to_run(no_package):
    with pytest.raises(FileNotFoundError, match=r"not installed: run `make lab`, or .*requirements-model"):
        load_minilm()


def test_wrong_folder_says_what_is_not_in_it(tmp_path, monkeypatch):
    message = f"no {WEIGHTS_FILE} and no {TOKENIZER_FILE}, wanted the folder of the pretrained model: name"
    with pytest.raises(FileNotFoundError, match=message):
        load_minilm(tmp_path)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match=f"nowhere' has {message}"):
        load_minilm()
    assert not minilm_available()
    with pytest.raises(FileNotFoundError, match=f"^'' has {message}"):  # not the installed one
        load_minilm("")
    (tmp_path / WEIGHTS_FILE).touch()
    with pytest.raises(FileNotFoundError, match=f"has no {TOKENIZER_FILE}, wanted"):
        load_minilm(tmp_path)


def cut_short(data):
    return data[:-1]


def flip_one_bit(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize("name", [WEIGHTS_FILE, TOKENIZER_FILE])
@pytest.mark.parametrize("damage", [cut_short, flip_one_bit])
def test_a_damaged_file_is_refused_before_anything_is_read(model_folder, monkeypatch, name, damage):
    check_published(model_folder / name)
    (model_folder / name).write_bytes(damage((model_folder / name).read_bytes()))
    monkeypatch.setattr("safetensors.torch.load_file", lambda path: pytest.fail("the weights were read"))
    monkeypatch.setattr("tokenizers.Tokenizer", None)
    message = rf"{name} is not the published file, .*got sha256 \w+, wanted {SHA256[name]}; install it anew"
    with pytest.raises(ValueError, match=message):
        load_minilm(model_folder)


# --- a file that is not this model's, made small: distinct sizes, so that nothing fits by accident

SMALL = EncoderConfig(
    vocab_size=17,
    d_model=6,
    n_heads=3,
    d_ff=11,
    n_layers=2,
    max_length=7,
    positions="learned",
    scale_embedding=False,
    embedding_norm=True,
)


@pytest.fixture
def small_file():
    """What the published file would hold if the model had the sizes of SMALL."""
    shapes = {name: tensor.shape for name, tensor in Encoder(SMALL).state_dict().items()}
    names = parameter_names(SMALL.n_layers)
    tensors = {theirs: randn(*shapes[ours], seed=i) for i, (ours, theirs) in enumerate(names.items())}
    return tensors | {SEGMENTS: randn(2, 6, seed=98)} | {name: randn(3, seed=99) for name in IGNORED}


def test_weights_go_where_their_names_say_and_segment_0_into_the_positions(small_file):
    encoder = Encoder(SMALL).double()
    load_weights(encoder, small_file)
    state = encoder.state_dict()
    positions = small_file["embeddings.position_embeddings.weight"]
    assert_equal(state.pop("positions.table"), positions + small_file[SEGMENTS][0])
    names = parameter_names(2)
    for ours, tensor in state.items():
        assert_equal(tensor, small_file[names[ours]], 0)


@pytest.mark.parametrize("name", ["encoder.layer.1.output.dense.bias", SEGMENTS, *IGNORED])
def test_a_file_without_one_of_its_tensors_is_refused(small_file, name):
    del small_file[name]
    with pytest.raises(ValueError, match=f"the parameters do not fit: missing {name}; unknown nothing; take"):
        load_weights(Encoder(SMALL), small_file)


def test_a_file_with_a_tensor_that_nobody_knows_is_refused(small_file):
    small_file["encoder.layer.2.output.dense.bias"] = torch.zeros(6)
    with pytest.raises(ValueError, match=r"missing nothing; unknown encoder.layer.2.output.dense.bias"):
        load_weights(Encoder(SMALL), small_file)


def test_a_tensor_of_another_shape_is_refused_even_if_it_would_broadcast(small_file):
    name = "encoder.layer.0.intermediate.dense.weight"
    small_file[name] = small_file[name].T
    message = rf"{name} is .*\(6, 11\), wanted the shape \(11, 6\); take the"
    with pytest.raises(ValueError, match=message):
        load_weights(Encoder(SMALL), small_file)
    small_file[name] = small_file[name].T
    small_file[SEGMENTS] = torch.zeros(2, 1)
    with pytest.raises(ValueError, match=r"token_type_embeddings.weight is .*, wanted .* \(2, 6\)"):
        load_weights(Encoder(SMALL), small_file)
    small_file[SEGMENTS] = torch.zeros(2, 6).to(torch.int8)  # of a quantised model
    with pytest.raises(TypeError, match=r"token_type_embeddings.weight is torch.int8 .*, wanted floating"):
        load_weights(Encoder(SMALL), small_file)
    small_file[SEGMENTS] = torch.full((2, 6), float("nan"))
    with pytest.raises(ValueError, match=r"token_type_embeddings.weight must hold finite numbers, got NaN"):
        load_weights(Encoder(SMALL), small_file)


def test_an_encoder_with_other_parts_is_refused(small_file):
    pre_norm = Encoder(dataclasses.replace(SMALL, norm_first=True))
    with pytest.raises(ValueError, match=r"do not fit: .*; unknown final_norm.bias, final"):
        load_weights(pre_norm, small_file)
    with pytest.raises(ValueError, match=r"do not fit: missing positions.table"):
        load_weights(Encoder(dataclasses.replace(SMALL, positions="sinusoidal")), small_file)


def test_a_refused_file_leaves_the_encoder_as_it_was(small_file):
    encoder = Encoder(SMALL)
    before = copy.deepcopy(encoder.state_dict())
    small_file["encoder.layer.1.output.dense.bias"] = torch.zeros(5)
    with pytest.raises(ValueError):
        load_weights(encoder, small_file)
    for name, tensor in encoder.state_dict().items():
        assert_equal(tensor, before[name], 0)
