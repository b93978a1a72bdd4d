"""What the search by meaning compares with: a vector for each entry of the field guide, in bytes."""

import re

import torch

from transformer_lab.pretrained_encoder import load_minilm, sentence_embeddings

Entry = dict[str, str | list[str]]


def text(entry: Entry) -> str:
    """Return an entry in short: a symptom and other words for it, or a mistake and what it does."""
    more = entry.get("words") or re.split(r"(?<=[.:!?]) ", entry["effect"])[0]
    return f"{entry['name']}. {more}".replace("`", "")


def vectors(entries: list[Entry]) -> bytes:
    """Return 384 signed bytes for each entry, in order, as the course's own encoder reads it.

    Each row has a scale of its own, so a cosine is the product with a row, divided by the row's length.
    """
    encoder, tokenizer = load_minilm(dtype=torch.float32)
    texts = [text(entry) for entry in entries]
    by_length = sorted(range(len(texts)), key=lambda place: len(texts[place]))  # little padding
    exact = torch.empty(len(texts), encoder.config.d_model)
    exact[by_length] = sentence_embeddings(encoder, tokenizer, [texts[place] for place in by_length])
    rows = exact / exact.abs().amax(dim=1, keepdim=True) * 127
    return rows.round().to(torch.int8).numpy().tobytes()
