"""The shapes and dtypes in the signatures are true: calls of the ordinary tests are held to them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

# Left out: tests that break the annotations on purpose, by bad input or by a stand-in that returns something
# else than weights.
PARTS = [
    *("positional_encoding", "rotary_embedding", "scaled_dot_product_attention", "masking", "feed_forward"),
    *("mask_conventions", "multi_head_attention", "roformer", "modern_encoder", "modern_bert"),
    *("low_rank_adaptation", "encoder", "encoder_layer"),
]
CHOSEN = [
    *(f"tests/encoder/test_{name}.py" for name in PARTS),
    *("-k", "not refuse and not handed_on"),
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
