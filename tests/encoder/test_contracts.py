"""Bad calls that would pass in silence, or surface far from their cause: each is refused by us, in words.

Two bad values of different kinds at each place: that the place asks is tested here, what is asked in
`test_validation`. What Python or PyTorch says clearly enough is theirs to say.
"""

import math
import traceback
from functools import partial

import pytest
import torch
from torch import nn

from tests.reference_loops import randn
from transformer_lab import mask_conventions as c
from transformer_lab import masking as m
from transformer_lab.encoder import Encoder, EncoderConfig, SequenceHead, TokenEmbedding, TokenHead, mean_pool
from transformer_lab.encoder_layer import EncoderLayer, PreNormEncoderLayer, from_torch_layer, to_torch_layer
from transformer_lab.feed_forward import FeedForward, GatedFeedForward
from transformer_lab.low_rank_adaptation import LowRankLinear
from transformer_lab.modern_bert import LocalAttention
from transformer_lab.modern_encoder import (
    GroupedQueryAttention,
    KeyValueCache,
    RMSNorm,
    continue_text,
    modern_encoder,
)
from transformer_lab.multi_head_attention import MultiHeadAttention, merge_heads, split_heads
from transformer_lab.packing import encode_packed
from transformer_lab.positional_encoding import (
    LearnedEncoding,
    SinusoidalEncoding,
    angular_frequencies,
    sinusoidal_encoding,
)
from transformer_lab.roformer import ExpandingMultiHeadAttention, RoFormerEncoder
from transformer_lab.rotary_embedding import (
    RotaryEmbedding,
    rotate_half_split,
    rotate_interleaved,
    rotations,
)
from transformer_lab.scaled_dot_product_attention import attention_weights, scaled_dot_product_attention


def each(parts, bad):
    """Return a call of every part with every bad argument, by their names."""
    bad = bad if isinstance(bad, dict) else {repr(thing): thing for thing in bad}
    return {
        f"{part}({name})": partial(call, thing) for part, call in parts.items() for name, thing in bad.items()
    }


def opened(*shape):
    return torch.ones(shape, dtype=torch.bool)


IDS = torch.tensor([[3, 1, 2], [4, 0, 0]])
MASK = m.padding_mask(IDS)
X = randn(2, 3, 8, dtype=torch.float32)
CONFIG = EncoderConfig(vocab_size=5, d_model=8, n_heads=2, d_ff=12, n_layers=1, max_length=9)
ENCODER = Encoder(CONFIG)


def parts(order=EncoderLayer, attention=None, feed_forward=None, norm=None):
    return order(
        attention or MultiHeadAttention(8, 2),
        feed_forward or FeedForward(8, 12),
        norm or nn.LayerNorm(8),
        nn.LayerNorm(8),
    )


class Derived(nn.TransformerEncoderLayer):
    """It might compute anything."""


class Bare(nn.Module):
    def forward(self, x, **options):
        return x


# --- sizes and numbers ----------------------------------------------------------------------------

SIZES = {
    "sinusoidal_encoding": lambda bad: sinusoidal_encoding(bad, 4),
    "causal_mask": m.causal_mask,
    "lengths": lambda bad: m.padding_mask_from_lengths(torch.tensor([0, 0]), bad),
    "MultiHeadAttention": lambda bad: MultiHeadAttention(8, bad),
    "GroupedQueryAttention": lambda bad: GroupedQueryAttention(8, 2, bad),
    "FeedForward": lambda bad: FeedForward(8, bad),
    **{
        f"EncoderConfig {name}": lambda bad, name=name: EncoderConfig(
            **{"vocab_size": 5, "n_heads": 1, name: bad}
        )
        for name in ("vocab_size", "d_model", "n_heads", "d_ff", "n_layers", "max_length")
    },
    "ExpandingMultiHeadAttention": lambda bad: ExpandingMultiHeadAttention(8, bad),
    "LowRankLinear": lambda bad: LowRankLinear(nn.Linear(8, 8), bad),
}
ODD = {
    "sinusoidal_encoding": lambda bad: sinusoidal_encoding(3, bad),
    "angular_frequencies": angular_frequencies,
    "RotaryEmbedding": RotaryEmbedding,
}
NUMBERS = {
    "sinusoidal_encoding base": lambda bad: sinusoidal_encoding(3, 4, base=bad),
    "RotaryEmbedding base": lambda bad: RotaryEmbedding(4, base=bad),
    "EncoderConfig norm_eps": lambda bad: EncoderConfig(5, norm_eps=bad),
    "RMSNorm eps": lambda bad: RMSNorm(8, eps=bad),
    "alpha": lambda bad: LowRankLinear(nn.Linear(8, 8), 2, alpha=bad),
    "window": lambda bad: m.local_mask(4, bad),
    "LocalAttention window": lambda bad: LocalAttention(8, 2, bad),
    "hidden": lambda bad: c.to_additive_mask(MASK, hidden=bad),
    "offset": lambda bad: RotaryEmbedding(8)(X, offset=bad),
    "table offset": lambda bad: LearnedEncoding(8, 9)(X, offset=bad),
}

# --- vectors, ids and masks -----------------------------------------------------------------------

# Whatever has three axes would take a sequence alone for a batch; PyTorch's Linear takes a ragged batch.
THREE_AXES = {
    "SinusoidalEncoding": SinusoidalEncoding(8),
    "LearnedEncoding": LearnedEncoding(8, 9),
    "MultiHeadAttention": MultiHeadAttention(8, 2),
    "key": lambda bad: MultiHeadAttention(8, 2)(X, bad),
    "value": lambda bad: MultiHeadAttention(8, 2)(X, X, bad),
    "EncoderLayer": parts(),
    "PreNormEncoderLayer": parts(PreNormEncoderLayer),
    "TokenHead": TokenHead(8, 2),
    "SequenceHead": SequenceHead(8, 2),
    "GroupedQueryAttention": GroupedQueryAttention(8, 2),
    "RoFormerEncoder": RoFormerEncoder(8, 2),
    "ExpandingMultiHeadAttention": ExpandingMultiHeadAttention(8, 2),
    "another text": lambda bad: ExpandingMultiHeadAttention(8, 2)(X, bad),
    "mean_pool": mean_pool,
    "split_heads": lambda bad: split_heads(bad, 2),
}
ANY_AXES = {
    "FeedForward": FeedForward(8, 12),
    "GatedFeedForward": GatedFeedForward(8, 12),
    "RMSNorm": RMSNorm(8),
    "LowRankLinear": LowRankLinear(nn.Linear(8, 8), 2),
    "RotaryEmbedding": RotaryEmbedding(8),
    "attention query": lambda bad: scaled_dot_product_attention(bad, X, X),
    "attention value": lambda bad: scaled_dot_product_attention(X, X, bad),
    "attention_weights": lambda bad: attention_weights(X, bad),
}
RAGGED = {
    "nested": torch.nested.nested_tensor([randn(2, 8), randn(3, 8)], layout=torch.jagged),
    "integers": X.long(),
}

# As many sequences as heads, queries and keys: PyTorch would broadcast any of the smaller masks.
SHORT, FIT = X[:, :2], opened(2, 1, 1, 2)
HEADS = SHORT.unflatten(-1, (2, 4)).transpose(1, 2)
MASKED = {
    f"{name}, {path}": partial(call, **{"need_weights": path == "explicit"})
    for path in ("explicit", "fused")
    for name, call in {
        "attention": lambda bad, **path: scaled_dot_product_attention(HEADS, HEADS, HEADS, bad, **path),
        "Encoder": lambda bad, **path: ENCODER(IDS[:, :2], bad, **path),
        "pre-norm": lambda bad, **path: parts(PreNormEncoderLayer)(SHORT, may_attend=bad, **path),
        "grouped": lambda bad, **path: GroupedQueryAttention(8, 2)(SHORT, may_attend=bad, **path),
        "local": lambda bad, **path: LocalAttention(8, 2, 1)(SHORT, may_attend=bad, **path),
        "RoFormerEncoder": lambda bad, **path: RoFormerEncoder(8, 2)(SHORT, may_attend=bad, **path),
    }.items()
} | {"attention_weights": lambda bad: attention_weights(HEADS, HEADS, bad)}
POOLED = {
    "mean_pool": lambda bad: mean_pool(SHORT, bad),
    "SequenceHead": lambda bad: SequenceHead(8, 2)(SHORT, bad),
    "encode_packed": lambda bad: encode_packed(ENCODER, IDS[:, :2], bad),
}
CONVERTED = {
    "combine_masks": lambda bad: m.combine_masks(FIT, bad),
    "to_key_padding_mask": c.to_key_padding_mask,
    "to_attention_mask": c.to_attention_mask,
    "to_additive_mask": c.to_additive_mask,
    "to_attn_mask": lambda bad: c.to_attn_mask(bad, 2),
    "from_key_padding_mask": lambda bad: c.from_key_padding_mask(bad[None] if bad.dim() == 2 else bad),
}
WRONG_MASKS = {"floats": FIT.float(), "two axes": opened(2, 2)}
TOKENS = {
    "TokenEmbedding": TokenEmbedding(5, 8),
    "encode_packed ids": lambda bad: encode_packed(ENCODER, bad, MASK),
    "continue_text ids": lambda bad: continue_text(modern_encoder(CONFIG), bad, [KeyValueCache()]),
}
WRONG_IDS = {"floats": IDS.double(), "too large": IDS + 1}

# --- one by one -----------------------------------------------------------------------------------

ATTENTION_OF = [
    ((2, 3, 5, 11), (2, 3, 7, 11), (2, 3, 5, 13)),  # other lengths: the fused kernel drops the last keys
    ((2, 3, 5, 11), (2, 1, 7, 11), (2, 1, 7, 13)),  # other leading axes: both paths would broadcast
]
ONE_BY_ONE = {
    "integer table": lambda: sinusoidal_encoding(3, 4, dtype=torch.int64),
    "a table of another dtype": lambda: SinusoidalEncoding(8)(X.double()),
    "a width that would broadcast": lambda: SinusoidalEncoding(8)(X[..., :1]),
    "offset and positions": lambda: RotaryEmbedding(8)(X, offset=1, positions=torch.arange(3)),
    "positions of floats": lambda: RotaryEmbedding(8)(X, positions=torch.arange(3.0)),
    "a head's rotation of another width": lambda: MultiHeadAttention(8, 2, rotary=RotaryEmbedding(8))(X),
    "a rotation that is real": lambda: rotate_half_split(X, torch.ones(3, 4)),
    "one rotation for all positions": lambda: rotate_interleaved(X, rotations(torch.arange(1), 8)),
    "a rotation that narrows": lambda: RotaryEmbedding(8, rotate=lambda x, r: x[..., :1])(X),
    "fewer local keys than queries": lambda: m.local_mask(5, 1, 3),
    "a pad_id by name": lambda: m.padding_mask(IDS, "[PAD]"),
    "ids of floats": lambda: m.padding_mask(IDS.float()),
    "lengths of bools": lambda: m.padding_mask_from_lengths(torch.tensor([True, False])),
    "lengths of two axes": lambda: m.padding_mask_from_lengths(IDS),
    "a length too large": lambda: m.padding_mask_from_lengths(torch.tensor([3, 5]), 4),
    "an attention mask of 2": lambda: c.from_attention_mask(torch.tensor([[0, 2]])),
    "an attention mask of four axes": lambda: c.from_attention_mask(MASK.long()),
    "an additive mask of two axes": lambda: c.from_additive_mask(torch.zeros(3, 3)),
    "an attn_mask of floats": lambda: c.from_attn_mask(torch.zeros(3, 3)),
    "masks on two devices": lambda: m.combine_masks(MASK, MASK.to("meta")),
    "attention on two devices": lambda: attention_weights(X.to("meta"), X),
    "an activation that narrows": lambda: GatedFeedForward(8, 12, activation=nn.Linear(12, 1))(X),
    "a sublayer that narrows": lambda: parts(feed_forward=nn.Linear(8, 1))(X),
    "one norm twice": lambda: EncoderLayer(Bare(), Bare(), *[nn.LayerNorm(8)] * 2),
    "heads of three axes": lambda: merge_heads(X),
    "a derived layer of ours in torch": lambda: to_torch_layer(parts(type("Own", (EncoderLayer,), {}))),
    "an odd config": lambda: EncoderConfig(vocab_size=5, d_model=15, n_heads=3),
    "an odd head": lambda: EncoderConfig(vocab_size=5, d_model=30, n_heads=2, positions="rotary"),
    "norm_first as text": lambda: EncoderConfig(vocab_size=5, norm_first="post"),
    "scale as a factor": lambda: TokenEmbedding(5, 8, scale=2.8),
    "a layer without weights": lambda: Encoder(CONFIG, lambda config: Bare())(IDS),
    "an output with its weights": lambda: TokenHead(8, 3)(parts()(X)),
    "a derived layer": lambda: from_torch_layer(Derived(8, 2, 12)),
    "rotary in torch": lambda: to_torch_layer(
        parts(attention=MultiHeadAttention(8, 2, rotary=RotaryEmbedding(4)))
    ),
    "local in torch": lambda: to_torch_layer(parts(attention=LocalAttention(8, 2, 1))),
    "a gate in torch": lambda: to_torch_layer(parts(feed_forward=GatedFeedForward(8, 12))),
    "two eps in torch": lambda: to_torch_layer(parts(norm=nn.LayerNorm(8, eps=0.1))),
    "groups that do not divide": lambda: GroupedQueryAttention(12, 6, 4),
    "a packed mask on another device": lambda: encode_packed(ENCODER, IDS, MASK.to("meta")),
    "a stack that shrinks to nothing": lambda: RoFormerEncoder(8, ffn_expansion=0.01),
    "a stack of no units": lambda: RoFormerEncoder(8, ffn_layers=0),
    "a low rank beside another": lambda: LowRankLinear(LowRankLinear(nn.Linear(8, 8), 2), 2),
}
BAD = [
    each(SIZES, (0, 2.5)),
    each(ODD, (7,)),
    each(NUMBERS, (math.nan, -0.5)),
    each(THREE_AXES, {"one sequence": X[0], "no positions": X[:, :0]} | RAGGED),
    each(ANY_AXES, RAGGED | {"no positions": X[:, :0]}),
    each(MASKED, WRONG_MASKS | {"other sequences": opened(3, 1, 1, 2)}),
    each(POOLED | CONVERTED, WRONG_MASKS),
    each(TOKENS, WRONG_IDS),
    each(
        {"attention": lambda shapes: scaled_dot_product_attention(*(randn(*shape) for shape in shapes))},
        ATTENTION_OF,
    ),
    ONE_BY_ONE,
]


@pytest.mark.parametrize(
    "call", [pytest.param(call, id=name) for calls in BAD for name, call in calls.items()]
)
def test_is_refused_in_words(call):
    with pytest.raises((TypeError, ValueError)) as refused:
        call()
    raised_in = traceback.extract_tb(refused.value.__traceback__)[-1].filename
    assert "transformer_lab" in raised_in, f"from the depths: {refused.value}"
    assert ";" in str(refused.value), f"no remedy: {refused.value}"
