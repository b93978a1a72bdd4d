"""The shapes and dtypes in the signatures are true: calls of the ordinary tests are held to them."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transformer_lab import Encoder, EncoderConfig, SequenceHead, TokenHead, causal_mask, padding_mask
from transformer_lab.encoder import POSITIONS

ROOT = Path(__file__).parents[2]

# The tests of single parts. Left out: those that break the annotations on purpose, by bad input or by a
# stand-in that returns something else than weights; those that repeat the calls beside somebody else's parts;
# and this run itself.
PARTS = [
    *("positional_encoding", "rotary_embedding", "scaled_dot_product_attention", "masking", "feed_forward"),
    *("mask_conventions", "multi_head_attention", "roformer", "modern_encoder", "modern_bert"),
    *("low_rank_adaptation", "annotations"),
]
CHOSEN = [
    *(f"tests/encoder/test_{name}.py" for name in PARTS),
    *("-k", "not refuse and not replaced and not torch and not hugging and not llama and not are_true"),
    *("-m", "not hypothesis"),
    *("-q", "--tb=short", "--maxfail=5", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:nbval"),
]

# A process of its own, because the package has to be instrumented before anything imports it.
CHECKED_RUN = """
import sys, jaxtyping, pytest, torch
jaxtyping.install_import_hook("transformer_lab", "beartype.beartype")
from transformer_lab import padding_mask
with pytest.raises(jaxtyping.TypeCheckError):  # so the checks are on
    padding_mask(torch.zeros(7, dtype=torch.int64))
sys.exit(pytest.main(sys.argv[1:]))
"""


def test_annotations_are_true():
    command = [sys.executable, "-c", CHECKED_RUN, *CHOSEN]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
@pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])
@pytest.mark.parametrize("positions", POSITIONS)
def test_every_kind_of_encoder_returns_the_shapes_it_announces(positions, norm_first, need_weights):
    sizes = {"vocab_size": 17, "d_model": 22, "n_heads": 11, "d_ff": 13, "n_layers": 3, "max_length": 19}
    encoder = Encoder(EncoderConfig(**sizes, positions=positions, norm_first=norm_first, embedding_norm=True))
    token_ids = torch.arange(2 * 5).reshape(2, 5)
    padding = padding_mask(token_ids)
    for may_attend in (None, padding, causal_mask(5)):
        hidden, weights = encoder(token_ids, may_attend, need_weights=need_weights)
        assert hidden.shape == (2, 5, 22)
        assert [w.shape for w in weights or []] == [(2, 11, 5, 5)] * (3 if need_weights else 0)
    assert TokenHead(22, 7)(hidden).shape == (2, 5, 7)
    for may_attend in (None, padding):
        assert SequenceHead(22, 7)(hidden, may_attend).shape == (2, 7)
