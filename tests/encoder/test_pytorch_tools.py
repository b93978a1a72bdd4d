"""What PyTorch offers for any model works for every encoder: compile and export."""

import pytest
import torch
from torch.export import Dim, export

from tests.tensors import assert_equal
from transformer_lab import Encoder, EncoderConfig, padding_mask
from transformer_lab.modern_bert import ModernBertConfig, modern_bert
from transformer_lab.modern_encoder import modern_encoder

VOCABULARY, MAX_LENGTH = 31, 61
SIZES = {"vocab_size": VOCABULARY, "d_model": 12, "n_heads": 2, "d_ff": 17, "max_length": MAX_LENGTH}


def configured(positions="sinusoidal", norm_first=False):
    return EncoderConfig(**SIZES, n_layers=1, dropout=0.0, positions=positions, norm_first=norm_first)


# Each kind of positions and each order of the norms at least once: compiling takes seconds.
BUILDERS = {
    "sinusoidal, post-norm": lambda: Encoder(configured("sinusoidal")),
    "learned, pre-norm": lambda: Encoder(configured("learned", norm_first=True)),
    "rotary, post-norm": lambda: Encoder(configured("rotary")),
    "modern": lambda: modern_encoder(configured(), n_kv_heads=1),
    "modern, with windows": lambda: modern_bert(ModernBertConfig(**SIZES, n_layers=2, window=2)),
}
every_encoder = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)


def some_ids(batch, length):
    """The last of the first sequence is padding."""
    ids = torch.randint(1, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(batch))
    ids[0, -1] = 0
    return ids


@every_encoder
def test_compiles_whole_and_once_for_all_lengths(build):
    graphs = []

    def count(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    encoder = build().eval()
    compiled = torch.compile(encoder, fullgraph=True, dynamic=True, backend=count)
    for batch, length in ((3, 5), (2, 7), (5, 11)):
        ids = some_ids(batch, length)
        assert_equal(compiled(ids, padding_mask(ids)), encoder(ids, padding_mask(ids)))
    assert len(graphs) == 1


@every_encoder
def test_compiles_whole_with_a_mask_after_calls_without_at_two_lengths(build):
    """Then the lengths are symbols: a check that Dynamo cannot follow would refuse a right mask."""
    torch.compiler.reset()
    encoder = build().eval()
    compiled = torch.compile(encoder, fullgraph=True, backend="eager")
    for batch, length in ((3, 5), (3, 7)):
        compiled(some_ids(batch, length))
    for ids in (some_ids(3, 7), some_ids(2, 11)):
        assert_equal(compiled(ids, padding_mask(ids)), encoder(ids, padding_mask(ids)))


@every_encoder
def test_exports_with_dynamic_batch_and_length(build):
    encoder = build().eval()
    batch, length = Dim("batch"), Dim("length", max=MAX_LENGTH)
    ids = some_ids(3, 5)
    axes = {"token_ids": {0: batch, 1: length}, "may_attend": {0: batch, 3: length}}
    before = encoder(ids)  # what it keeps for the next call must not be what the export leaves behind
    exported = export(encoder, (ids, padding_mask(ids)), dynamic_shapes=axes).module()
    assert_equal(encoder(ids), before)
    for ids in (some_ids(2, 7), some_ids(5, 11)):
        assert_equal(exported(ids, padding_mask(ids)), encoder(ids, padding_mask(ids)))
