"""The bug desk: symptoms, PyTorch's words, and what is found for what people paste and say."""

import json
import re
import shutil
import subprocess
import tomllib
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pages import field_guide, meaning, symptoms
from pages.symptoms import GAP, Symptom
from transformer_course.lessons import ROOT
from transformer_lab.pretrained_encoder import load_minilm, sentence_embeddings

MESSAGES = tomllib.loads((Path(__file__).parent / "messages.toml").read_text("utf-8"))["message"]
KNOWN = {(entry.exercise.id, entry.name) for entry in field_guide.entries()}
SYMPTOMS = symptoms.read(KNOWN)
ERRORS = [(symptom, says, code) for symptom in SYMPTOMS for says, code in symptom.errors.items()]

Ask = Callable[..., list[dict]]


def raised(code: str) -> str:
    """Return the traceback that the code ends in; without a GPU, code for one is skipped."""
    if '"cuda"' in code and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    try:
        exec(compile(code, "<cell>", "exec"), {"torch": torch, "nn": nn, "F": F})
    except Exception:
        return traceback.format_exc()
    return ""


@pytest.fixture(scope="module")
def entries() -> list[dict]:
    return json.loads(field_guide.pages()[f"_static/{field_guide.SEARCHED}"])["entries"]


@pytest.fixture(scope="module")
def ask(entries: list[dict]) -> Ask:
    """What the desk finds for texts, and its steps; it runs in Node.js, as in a browser."""
    if not shutil.which("node"):
        pytest.skip("Node.js is not installed")
    if not (ROOT / "site" / "node_modules" / "minisearch").exists():
        pytest.skip("the site's packages are not installed: run `make site`")

    def ask(*texts: str, near: list[dict] | None = None) -> list[dict]:
        asked = {"entries": entries, "texts": [{"text": text, "near": near or []} for text in texts]}
        command = ["node", Path(__file__).with_name("desk.mjs")]
        done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    return ask


@pytest.mark.parametrize(("symptom", "says", "code"), ERRORS, ids=lambda each: getattr(each, "slug", None))
@pytest.mark.filterwarnings("ignore")
def test_pytorch_still_says_so(symptom: Symptom, says: str, code: str) -> None:
    pattern = ".*".join(re.escape(piece) for piece in says.split(GAP))
    assert re.search(pattern, raised(code), re.DOTALL)


@pytest.mark.filterwarnings("ignore")
def test_each_real_traceback_finds_its_symptom_first(ask: Ask) -> None:
    real = [(symptom.see, raised(code)) for symptom, _, code in ERRORS if '"cuda"' not in code]
    answers = ask(*(text for _, text in real))
    wrong = [(text, answer["found"][:3]) for (see, text), answer in zip(real, answers, strict=True)
             if answer["found"][0] != see]  # fmt: skip
    assert wrong == []


def test_what_people_paste_and_say_is_found_among_the_first_three(ask: Ask, entries: list[dict]) -> None:
    names = {entry["name"] for entry in entries}
    assert [want for message in MESSAGES for want in message["wants"] if want not in names] == []
    behind = {symptom.see: {name for _, name in symptom.mistakes} for symptom in SYMPTOMS}
    answers = ask(*(message["said"] for message in MESSAGES))
    missed = [
        message["said"]
        for message, answer in zip(MESSAGES, answers, strict=True)
        # The page of a symptom that names the mistake leads to it, too.
        if not any(({name} | behind.get(name, set())) & set(message["wants"]) for name in answer["found"][:3])
    ]
    assert len(missed) <= len(MESSAGES) * 0.03, missed


FIRST = {
    "the order of words makes no difference": "The order of the words makes no difference",
    "weights: the columns sum to 1, not the rows": "The rows of the attention weights do not sum",
    "The shape of the 2D attn_mask is torch.Size([4, 4]), but should be (5, 5).": "of the attn_mask is wrong",
    "Expected floating point type": "RuntimeError: expected target dtype to be Long",
    "atention is unifrom": "Attention is almost uniform",
    "-inf": "∞",
}


def test_a_symptom_is_found_first_in_many_words(ask: Ask) -> None:
    answers = ask(*FIRST)
    found = {words: answer["found"][0] for words, answer in zip(FIRST, answers, strict=True)}
    assert {words: name for words, name in found.items() if FIRST[words] not in name} == {}


def test_of_a_traceback_the_last_error_counts(ask: Ask) -> None:
    first = "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'\n\n"
    again = "During handling of the above exception, another exception occurred:\n\n"
    last = 'RuntimeError: Error(s) in loading state_dict for Encoder:\n\tMissing key(s) in state_dict: "a.b".'
    plain, coloured, words = ask(f"{first}{again}{last}\n", f"\x1b[31mE   {last}\x1b[0m", "my rows sum to 2")
    assert plain["message"] == last
    assert coloured["message"] == f"E   {last}"
    assert words["message"] == "my rows sum to 2"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "RuntimeError: a torch.Size([3, 4]) b [3, 4] c (3) d (2x3 and 4x5) e",
            "RuntimeError: a b c d ( and ) e",
        ),
        ("TypeError: at 0x7f3a in /home/someone/a.py or C:\\me\\a.py, 12 or 0.5", "TypeError: at in or , or"),
        ("KeyError: 'layers.0.weight' of 'tuple'", "KeyError: of 'tuple'"),
        ("rows sum to 1, not 'd_model'", "rows sum to 1, not 'd_model'"),
    ],
)
def test_numbers_shapes_paths_and_names_are_stripped(ask: Ask, text: str, left: str) -> None:
    [answer] = ask(text)
    assert re.sub(r"\s+", " ", answer["stripped"]) == left


def test_identifiers_are_words_whole_and_in_parts(ask: Ask) -> None:
    [answer] = ask('√d_head nn.LayerNorm float("-inf") −∞ 03.2')
    assert answer["words"] == [
        "√", "d_head", "d", "head", "nn.LayerNorm", "nn", "Layer", "Norm", "float", "neginf", "neginf", "03.2"
    ]  # fmt: skip


def test_nothing_is_found_for_nothing(ask: Ask) -> None:
    assert [answer["found"] for answer in ask("", " \n", "purple elephants", "[3, 4]")] == [[]] * 4


def test_a_short_word_is_no_other_short_word(ask: Ask) -> None:
    # bask is not mask, and lass is not loss
    assert [answer["found"] for answer in ask("bask", "lass")] == [[]] * 2


def test_endings_of_words_do_not_count(ask: Ask) -> None:
    one, other = ask("scaled embedding", "scale embeddings")
    assert one["found"] == other["found"]


def test_meaning_adds_to_words_and_does_not_go_before_them(ask: Ask, entries: list[dict]) -> None:
    # Two that the words below don't find.
    names = ["Image patches are scrambled", "Two workers train otherwise than one"]
    places = [[entry["name"] for entry in entries].index(name) for name in names]
    near = [{"index": place, "cosine": 0.9} for place in places]
    [alone] = ask("purple elephants", near=near)
    assert alone["found"] == names
    [words], [both] = ask("softmax over the queries"), ask("softmax over the queries", near=near)
    assert both["found"][:3] == words["found"][:3]
    assert names[0] in both["found"]


def test_vectors_of_meaning_are_the_encoders_in_bytes(entries: list[dict]) -> None:
    some = entries[::300]
    rows = np.frombuffer(meaning.vectors(some), np.int8).reshape(len(some), 384).astype(float)
    exact = sentence_embeddings(*load_minilm(dtype=torch.float32), [meaning.text(entry) for entry in some])
    cosines = (rows / np.linalg.norm(rows, axis=1, keepdims=True) * exact.numpy()).sum(axis=1)
    assert cosines.min() > 0.999


def test_each_symptom_has_a_page_with_a_description(entries: list[dict]) -> None:
    pages = field_guide.pages()
    index = pages[f"{symptoms.FOLDER}.md"]
    slugs = [symptom.slug for symptom in SYMPTOMS]
    assert len(set(slugs)) == len(slugs)
    for symptom in SYMPTOMS:
        page = pages[f"{symptoms.FOLDER}/{symptom.slug}.md"]
        assert re.search(r'"description": ".{30,}"\n', page)
        assert f"(s-{symptom.slug})=\n" in index  # where it stood before it had a page
        assert f"](symptoms/{symptom.slug}.md)" in index
        assert symptom.mistakes or symptom.why
    assert [entry["page"] for entry in entries[: len(slugs)]] == [f"symptoms/{slug}.html" for slug in slugs]
