"""Bad calls of all parts: each is refused by us, in words, before a library meets it.

The other files test a refusal only where it has a reason of its own, or leaves something as it was.
"""

import math
import re
import traceback
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from tests.references import randn
from transformer_lab import mask_conventions as c
from transformer_lab import masking as m
from transformer_lab.encoder import Encoder, EncoderConfig, SequenceHead, TokenEmbedding, TokenHead, mean_pool
from transformer_lab.encoder_layer import EncoderLayer, PreNormEncoderLayer, from_torch_layer, to_torch_layer
from transformer_lab.feed_forward import FeedForward, GatedFeedForward
from transformer_lab.low_rank_adaptation import LowRankLinear, adapt, merge
from transformer_lab.modern_bert import LocalAttention, ModernBertConfig, load_hugging_face, modern_bert
from transformer_lab.modern_encoder import (
    GroupedQueryAttention,
    KeyValueCache,
    RMSNorm,
    cache_bytes_per_token,
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
from transformer_lab.roformer import (
    ExpandingMultiHeadAttention,
    FeedForwardUnit,
    FullWidthHead,
    RoFormerEncoder,
    feed_forward_stack,
    summary,
)
from transformer_lab.rotary_embedding import (
    RotaryEmbedding,
    half_split_to_interleaved,
    interleaved_to_half_split,
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


def parts(order=EncoderLayer, **changes):
    built = {
        "attention": MultiHeadAttention(8, 2),
        "feed_forward": FeedForward(8, 12),
        "attention_norm": nn.LayerNorm(8),
        "feed_forward_norm": nn.LayerNorm(8),
    }
    return order(**{**built, **changes})


def torch_layer(**changes):
    return nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, **changes)


def with_another_forward():
    layer = torch_layer()
    layer.forward = lambda x: 2 * x
    return layer


class Derived(nn.TransformerEncoderLayer):
    def forward(self, *inputs, **options):
        return 2 * super().forward(*inputs, **options)


class Bare(nn.Module):
    def forward(self, x, **options):
        return x


def with_uneven_dropout():
    layer = torch_layer()
    layer.dropout2.p = 0.5
    return layer


def with_keys_of_its_own(**which):
    layer = torch_layer()
    layer.self_attn = nn.MultiheadAttention(8, 2, batch_first=True, **which)
    return layer


def filled_cache():
    cache = KeyValueCache()
    cache.keys = cache.values = torch.zeros(2, 2, 5, 4)
    return cache


# --- sizes and numbers ----------------------------------------------------------------------------

NOT_SIZES = ("8", None, 8.0, True, [8], -8, 0, torch.tensor(8))
NOT_NUMBERS = ("0.1", None, [0.1], True, math.nan, torch.tensor(0.1), math.inf, -0.5)


def config_of(name):
    return lambda bad: EncoderConfig(**{"vocab_size": 5, name: bad})


def roformer_of(name):
    return lambda bad: RoFormerEncoder(**{"d_model": 8, name: bad})


SIZES = {
    "sinusoidal_encoding": lambda bad: sinusoidal_encoding(bad, 4),
    "sinusoidal_encoding d_model": lambda bad: sinusoidal_encoding(3, bad),
    "angular_frequencies": angular_frequencies,
    "SinusoidalEncoding": SinusoidalEncoding,
    "SinusoidalEncoding max_length": lambda bad: SinusoidalEncoding(8, bad),
    "LearnedEncoding": lambda bad: LearnedEncoding(bad, 9),
    "LearnedEncoding max_length": lambda bad: LearnedEncoding(8, bad),
    "RotaryEmbedding": RotaryEmbedding,
    "interleaved_to_half_split": interleaved_to_half_split,
    "half_split_to_interleaved": half_split_to_interleaved,
    "causal_mask": m.causal_mask,
    "local_mask": lambda bad: m.local_mask(bad, 1),
    "to_attn_mask": lambda bad: c.to_attn_mask(opened(2, 1, 3, 3), bad),
    "from_attn_mask": lambda bad: c.from_attn_mask(opened(4, 3, 3), bad),
    "MultiHeadAttention": lambda bad: MultiHeadAttention(bad, 2),
    "MultiHeadAttention heads": lambda bad: MultiHeadAttention(8, bad),
    "split_heads": lambda bad: split_heads(X, bad),
    "FeedForward": lambda bad: FeedForward(bad, 12),
    "FeedForward d_ff": lambda bad: FeedForward(8, bad),
    "GatedFeedForward": lambda bad: GatedFeedForward(bad, 12),
    "GatedFeedForward d_ff": lambda bad: GatedFeedForward(8, bad),
    "TokenEmbedding": lambda bad: TokenEmbedding(bad, 8),
    "TokenEmbedding d_model": lambda bad: TokenEmbedding(5, bad),
    **{
        f"EncoderConfig {name}": config_of(name)
        for name in ("vocab_size", "d_model", "n_heads", "d_ff", "n_layers", "max_length")
    },
    "TokenHead": lambda bad: TokenHead(bad, 2),
    "SequenceHead": lambda bad: SequenceHead(8, bad),
    "RMSNorm": RMSNorm,
    "GroupedQueryAttention": lambda bad: GroupedQueryAttention(bad, 2),
    "GroupedQueryAttention heads": lambda bad: GroupedQueryAttention(8, bad),
    "a cache's layers": lambda bad: cache_bytes_per_token(bad, 2, 4),
    "a cache's heads": lambda bad: cache_bytes_per_token(1, bad, 4),
    "a cache's d_head": lambda bad: cache_bytes_per_token(1, 2, bad),
    "a cache's numbers": lambda bad: cache_bytes_per_token(1, 2, 4, bad),
    "FeedForwardUnit": FeedForwardUnit,
    "feed_forward_stack": lambda bad: feed_forward_stack(8, bad),
    **{
        f"RoFormerEncoder {name}": roformer_of(name)
        for name in ("d_model", "n_heads", "ffn_layers", "attention_layers")
    },
    "ExpandingMultiHeadAttention": lambda bad: ExpandingMultiHeadAttention(bad, 2),
    "LowRankLinear": lambda bad: LowRankLinear(nn.Linear(8, 8), bad),
    "LocalAttention": lambda bad: LocalAttention(bad, 2, 1),
    "ModernBertConfig window": lambda bad: ModernBertConfig(window=bad),
    "ModernBertConfig global_every": lambda bad: ModernBertConfig(global_every=bad),
}
SIZES_OR_NONE = {
    "causal_mask keys": lambda bad: m.causal_mask(1, bad),
    "local_mask keys": lambda bad: m.local_mask(1, 1, bad),
    "padding_mask_from_lengths": lambda bad: m.padding_mask_from_lengths(torch.tensor([0, 0]), bad),
    "to_attn_mask batch": lambda bad: c.to_attn_mask(opened(1, 2, 3, 3), 2, bad),
    "GroupedQueryAttention key heads": lambda bad: GroupedQueryAttention(8, 2, bad),
    "modern_encoder": lambda bad: modern_encoder(CONFIG, bad),
}
NUMBERS = {
    "base": lambda bad: sinusoidal_encoding(3, 4, base=bad),
    "SinusoidalEncoding base": lambda bad: SinusoidalEncoding(8, base=bad),
    "RotaryEmbedding base": lambda bad: RotaryEmbedding(4, base=bad),
    "dropout": lambda bad: FeedForward(8, 12, dropout=bad),
    "gated dropout": lambda bad: GatedFeedForward(8, 12, dropout=bad),
    "attention dropout": lambda bad: scaled_dot_product_attention(X, X, X, dropout=bad),
    "fused dropout": lambda bad: scaled_dot_product_attention(X, X, X, dropout=bad, need_weights=False),
    "heads' dropout": lambda bad: MultiHeadAttention(8, 2, dropout=bad),
    "grouped dropout": lambda bad: GroupedQueryAttention(8, 2, dropout=bad),
    "layer dropout": lambda bad: parts(dropout=bad),
    "EncoderConfig dropout": config_of("dropout"),
    "EncoderConfig attention_dropout": config_of("attention_dropout"),
    "EncoderConfig norm_eps": config_of("norm_eps"),
    "RoFormerEncoder dropout": roformer_of("dropout"),
    "expanding dropout": lambda bad: ExpandingMultiHeadAttention(8, 2, dropout=bad),
    "RoFormerEncoder ffn_expansion": roformer_of("ffn_expansion"),
    "FeedForwardUnit expansion": lambda bad: FeedForwardUnit(8, bad),
    "RMSNorm eps": lambda bad: RMSNorm(8, eps=bad),
    "window": lambda bad: m.local_mask(4, bad),
    "LocalAttention window": lambda bad: LocalAttention(8, 2, bad),
    "ModernBertConfig global_base": lambda bad: ModernBertConfig(global_base=bad),
    "ModernBertConfig local_base": lambda bad: ModernBertConfig(local_base=bad),
    "pad_id": lambda bad: m.padding_mask(IDS, bad),
    "hidden": lambda bad: c.to_additive_mask(MASK, hidden=bad),
    "offset": lambda bad: RotaryEmbedding(8)(X, offset=bad),
    "table offset": lambda bad: LearnedEncoding(8, 9)(X, offset=bad),
}
ODD = {
    "sinusoidal_encoding": lambda bad: sinusoidal_encoding(3, bad),
    "SinusoidalEncoding": SinusoidalEncoding,
    "angular_frequencies": angular_frequencies,
    "RotaryEmbedding": RotaryEmbedding,
    "interleaved_to_half_split": interleaved_to_half_split,
    "half_split_to_interleaved": half_split_to_interleaved,
    "RoFormerEncoder": RoFormerEncoder,
    "ExpandingMultiHeadAttention": ExpandingMultiHeadAttention,
}

# --- vectors --------------------------------------------------------------------------------------

NOT_TENSORS = ("a text", None, [[1.0, 2.0]], 3)
THREE_AXES = {
    "SinusoidalEncoding()": SinusoidalEncoding(8),
    "LearnedEncoding()": LearnedEncoding(8, 9),
    "MultiHeadAttention()": MultiHeadAttention(8, 2),
    "EncoderLayer()": parts(),
    "PreNormEncoderLayer()": parts(PreNormEncoderLayer),
    "TokenHead()": TokenHead(8, 2),
    "SequenceHead()": SequenceHead(8, 2),
    "GroupedQueryAttention()": GroupedQueryAttention(8, 2),
    "RoFormerEncoder()": RoFormerEncoder(8, 2),
    "ExpandingMultiHeadAttention()": ExpandingMultiHeadAttention(8, 2),
}
THREE_AXES_OR_NONE = {
    "key": lambda bad: MultiHeadAttention(8, 2)(X, bad),
    "value": lambda bad: MultiHeadAttention(8, 2)(X, X, bad),
    "another text": lambda bad: ExpandingMultiHeadAttention(8, 2)(X, bad),
}
ANY_AXES = {
    "FeedForward()": FeedForward(8, 12),
    "GatedFeedForward()": GatedFeedForward(8, 12),
    "RMSNorm()": RMSNorm(8),
    "FeedForwardUnit()": FeedForwardUnit(8),
    "LowRankLinear()": LowRankLinear(nn.Linear(8, 8), 2),
}
ANY_WEIGHTS = {"RotaryEmbedding()": RotaryEmbedding(8)}
ANY_WIDTH = {"split_heads": lambda bad: split_heads(bad, 2), "mean_pool": mean_pool}
CORE = {
    "attention query": lambda bad: scaled_dot_product_attention(bad, X, X),
    "attention key": lambda bad: scaled_dot_product_attention(X, bad, X),
    "weights query": lambda bad: attention_weights(bad, X),
    "weights key": lambda bad: attention_weights(X, bad),
}
VALUE = {"attention value": lambda bad: scaled_dot_product_attention(X, X, bad)}
OTHERS = {
    "rotate_half_split": lambda bad: rotate_half_split(bad, rotations(torch.arange(3), 8)),
    "rotate_interleaved": lambda bad: rotate_interleaved(X, bad),
    "rotations": lambda bad: rotations(bad, 8),
    "merge_heads": merge_heads,
    "padding_mask": m.padding_mask,
    "lengths": m.padding_mask_from_lengths,
    "from_torch_layer": from_torch_layer,
    "to_torch_layer": to_torch_layer,
    "Encoder": Encoder,
    "modern_encoder": modern_encoder,
    "modern_bert": modern_bert,
    "load_hugging_face": lambda bad: load_hugging_face(bad, {}),
    "summary": summary,
    "adapt": lambda bad: adapt(bad, 2),
    "merge": merge,
    "LowRankLinear": lambda bad: LowRankLinear(bad, 2),
    "continue_text": lambda bad: continue_text(bad, IDS, [KeyValueCache()]),
    "caches": lambda bad: continue_text(modern_encoder(CONFIG), IDS, bad),
    "encode_packed": lambda bad: encode_packed(bad, IDS, MASK),
}
VECTORS = {
    "one sequence": X[0],
    "narrow": X[..., :7],
    "transposed": X.mT,
    "no positions": X[:, :0],
    "other dtype": X.double(),
    "integers": X.long(),
    "a mask": MASK.expand(2, 1, 3, 3)[:, 0],
    "other device": X.to("meta"),
    "sparse": X.to_sparse(),
    "nested": torch.nested.nested_tensor([randn(2, 8), randn(3, 8)], layout=torch.jagged),
}
MULTIPLIED = {name: x for name, x in VECTORS.items() if name != "one sequence"}
UNWEIGHTED = {
    name: VECTORS[name] for name in ("narrow", "transposed", "no positions", "integers", "sparse", "nested")
}

# --- ids and masks --------------------------------------------------------------------------------

# As many sequences as heads, queries and keys: PyTorch would broadcast any of the smaller masks.
SHORT, FIT = X[:, :2], opened(2, 1, 1, 2)
HEADS = SHORT.unflatten(-1, (2, 4)).transpose(1, 2)
ENCODER = Encoder(CONFIG)
MASKED = {
    f"{name}, {path}": partial(call, **{"need_weights": path == "explicit"})
    for path in ("explicit", "fused")
    for name, call in {
        "attention": lambda bad, **path: scaled_dot_product_attention(HEADS, HEADS, HEADS, bad, **path),
        "MultiHeadAttention": lambda bad, **path: MultiHeadAttention(8, 2)(SHORT, may_attend=bad, **path),
        "EncoderLayer": lambda bad, **path: parts()(SHORT, may_attend=bad, **path),
        "PreNormEncoderLayer": lambda bad, **path: parts(PreNormEncoderLayer)(SHORT, may_attend=bad, **path),
        "Encoder": lambda bad, **path: ENCODER(IDS[:, :2], bad, **path),
        "grouped": lambda bad, **path: GroupedQueryAttention(8, 2)(SHORT, may_attend=bad, **path),
        "RoFormerEncoder": lambda bad, **path: RoFormerEncoder(8, 2)(SHORT, may_attend=bad, **path),
    }.items()
}
MASKED["attention_weights"] = lambda bad: attention_weights(HEADS, HEADS, bad)
POOLED = {
    "mean_pool": lambda bad: mean_pool(SHORT, bad),
    "SequenceHead": lambda bad: SequenceHead(8, 2)(SHORT, bad),
    "encode_packed": lambda bad: encode_packed(ENCODER, IDS[:, :2], bad),
}
CONVERTED = {
    "combine_masks": m.combine_masks,
    "to_key_padding_mask": c.to_key_padding_mask,
    "to_attention_mask": c.to_attention_mask,
    "to_additive_mask": c.to_additive_mask,
    "to_attn_mask": lambda bad: c.to_attn_mask(bad, 2),
}
NOT_BOOLEAN = {"integers": FIT.long(), "floats": FIT.float(), "list": FIT.tolist(), "number": 1}
AXES = {f"{len(shape)} axes": opened(*shape) for shape in [(2,), (2, 2), (2, 2, 2), (1, 1, 1, 1, 2)]}
LENGTHS = {
    str(shape): opened(*shape)
    for shape in [(3, 1, 1, 2), (1, 3, 1, 2), (1, 1, 3, 2), (2, 1, 1, 3), (0, 1, 1, 2), (2, 2, 2, 4)]
}
PER_QUERY = {"causal": m.causal_mask(2), "fewer sequences": FIT[:1]}
TOKENS = {
    "Encoder()": ENCODER,
    "TokenEmbedding()": TokenEmbedding(5, 8),
    "encode_packed ids": lambda bad: encode_packed(ENCODER, bad, MASK),
    "continue_text ids": lambda bad: continue_text(modern_encoder(CONFIG), bad, [KeyValueCache()]),
}
WRONG_IDS = {
    "floats": IDS.double(),
    "bools": IDS.bool(),
    "list": IDS.tolist(),
    "one axis": IDS[0],
    "three axes": IDS[None],
    "no positions": IDS[:, :0],
    "too large": IDS + 1,
    "negative": IDS - 1,
    "other device": IDS.to("meta"),
}
FRACTIONS = {"floats": IDS.float(), "list": IDS.tolist()}
SIZED = {str(shape): opened(*shape) for shape in [(3, 1, 1, 7), (2, 2, 1, 7), (2, 1, 4, 7), (2, 1, 1, 5)]}
NUMBERED = {"padding_mask": m.padding_mask, "from_attention_mask": c.from_attention_mask}
FROM_TORCH = {"from_key_padding_mask": c.from_key_padding_mask, "from_attn_mask": c.from_attn_mask}

# --- one by one -----------------------------------------------------------------------------------

ATTENTION_OF = [
    ((2, 3, 5, 11), (2, 3, 7, 13), (2, 3, 7, 13)),  # other widths
    ((2, 3, 5, 0), (2, 3, 7, 0), (2, 3, 7, 13)),
    ((2, 3, 5, 11), (2, 3, 7, 11), (2, 3, 5, 13)),  # other lengths
    ((2, 3, 5, 11), (3, 2, 7, 11), (3, 2, 7, 13)),  # other leading axes
    ((2, 3, 5, 11), (2, 1, 7, 11), (2, 1, 7, 13)),
    ((2, 3, 5, 11), (2, 3, 7, 11), (1, 3, 7, 13)),
    ((2, 3, 5, 11), (3, 7, 11), (3, 7, 13)),
    ((11,), (7, 11), (7, 13)),  # no position axis
]
ONE_BY_ONE = {
    "a base of zero": lambda: sinusoidal_encoding(3, 4, base=0.0),
    "an eps of zero": lambda: RMSNorm(8, eps=0.0),
    "a config's eps of zero": lambda: EncoderConfig(vocab_size=5, norm_eps=0.0),
    "hidden above": lambda: c.to_additive_mask(MASK, hidden=5.0),
    "hidden that float16 cannot hold": lambda: c.to_additive_mask(MASK, torch.float16, -1e9),
    "integer additive mask": lambda: c.to_additive_mask(MASK, torch.int64),
    "integer table": lambda: sinusoidal_encoding(3, 4, dtype=torch.int64),
    "table past its end": lambda: SinusoidalEncoding(8, 4)(X, offset=2),
    "a text longer than the table": lambda: ENCODER(torch.zeros(1, 10, dtype=torch.int64)),
    "a negative offset": lambda: RotaryEmbedding(8)(X, offset=-1),
    "a negative table offset": lambda: LearnedEncoding(8, 9)(X, offset=-1),
    "offset and positions": lambda: RotaryEmbedding(8)(X, offset=1, positions=torch.arange(3)),
    "positions of floats": lambda: RotaryEmbedding(8)(X, positions=torch.arange(3.0)),
    "positions as a list": lambda: RotaryEmbedding(8)(X, positions=[0, 1, 2]),
    "a table on a device that is none": lambda: sinusoidal_encoding(3, 4, device="gpu"),
    "a device that is none": lambda: m.causal_mask(3, device="gpu"),
    "fewer local keys than queries": lambda: m.local_mask(5, 1, 3),
    "a negative window": lambda: m.local_mask(3, -1),
    "a pad_id that uint8 cannot hold": lambda: m.padding_mask(IDS.to(torch.uint8), 259),
    "lengths of floats": lambda: m.padding_mask_from_lengths(torch.tensor([1.0, 0.0])),
    "lengths of bools": lambda: m.padding_mask_from_lengths(torch.tensor([True, False])),
    "lengths of two axes": lambda: m.padding_mask_from_lengths(IDS),
    "no lengths": lambda: m.padding_mask_from_lengths(IDS[0, :0]),
    "a length too large": lambda: m.padding_mask_from_lengths(torch.tensor([3, 5]), 4),
    "a negative length": lambda: m.padding_mask_from_lengths(torch.tensor([-1, 2]), 4),
    "no masks": lambda: m.combine_masks(),
    "masks on two devices": lambda: m.combine_masks(MASK, MASK.to("meta")),
    "an attention mask of 2": lambda: c.from_attention_mask(torch.tensor([[0, 2]])),
    "an attention mask of -1": lambda: c.from_attention_mask(torch.tensor([[-1, 1]])),
    "a batch of half a sequence": lambda: c.to_attn_mask(MASK, 2, 0.5),
    "an attn_mask of other heads": lambda: c.to_attn_mask(opened(2, 3, 5, 7), 4),
    "an attn_mask of other sequences": lambda: c.to_attn_mask(opened(2, 3, 5, 7), 3, 4),
    "fewer values than keys": lambda: MultiHeadAttention(8, 2)(X, X, X[:, 1:]),
    "fewer sequences of keys": lambda: MultiHeadAttention(8, 2)(X, X[:1]),
    "an activation that narrows": lambda: GatedFeedForward(8, 12, activation=nn.Linear(12, 1))(X),
    "a rotation that narrows": lambda: RotaryEmbedding(8, rotate=lambda x, r: x[..., :2])(X),
    "a rotation of the whole width": lambda: MultiHeadAttention(8, 2, rotary=RotaryEmbedding(8))(X),
    "one rotation for all positions": lambda: rotate_interleaved(X, rotations(torch.arange(1), 8)),
    "odd width": lambda: rotate_half_split(randn(2, 3), rotations(torch.arange(2), 2)),
    "too few pairs": lambda: rotate_interleaved(X, rotations(torch.arange(3), 6)),
    "other positions": lambda: rotate_half_split(X, rotations(torch.arange(2), 8)),
    "a vector alone": lambda: rotate_half_split(X[0, 0], rotations(torch.arange(3), 8)),
    "rotate is no function": lambda: RotaryEmbedding(8, rotate="half"),
    "rotary is no part": lambda: MultiHeadAttention(8, 2, rotary=True),
    "rotary is a class": lambda: MultiHeadAttention(8, 2, rotary=RotaryEmbedding),
    "grouped rotary is a class": lambda: GroupedQueryAttention(8, 2, rotary=RotaryEmbedding),
    "a head's rotary is a class": lambda: FullWidthHead(8, rotary=RotaryEmbedding),
    "activation by name": lambda: FeedForward(8, 12, activation="gelu"),
    "activation as a class": lambda: GatedFeedForward(8, 12, activation=nn.GELU),
    "a part as a class": lambda: parts(feed_forward=FeedForward),
    "a part as text": lambda: parts(attention="attention"),
    "a norm that is missing": lambda: parts(attention_norm=None),
    "a sublayer without a tensor": lambda: parts(feed_forward=lambda x: (x, None))(X),
    "heads of three axes": lambda: merge_heads(X),
    "heads of integers": lambda: merge_heads(HEADS.long()),
    "heads that do not divide": lambda: split_heads(X, 3),
    "a config whose heads do not divide": lambda: EncoderConfig(vocab_size=5, d_model=20, n_heads=3),
    "an odd config": lambda: EncoderConfig(vocab_size=5, d_model=15, n_heads=3),
    "an odd head": lambda: EncoderConfig(vocab_size=5, d_model=30, n_heads=2, positions="rotary"),
    "norm_first as text": lambda: EncoderConfig(vocab_size=5, norm_first="pre"),
    "scale_embedding as a number": lambda: EncoderConfig(vocab_size=5, scale_embedding=1),
    "no embedding_norm": lambda: EncoderConfig(vocab_size=5, embedding_norm=None),
    "a config as a dict": lambda: Encoder({"vocab_size": 5}),
    "no build_layer": lambda: Encoder(CONFIG, None),
    "build_layer as text": lambda: Encoder(CONFIG, "standard"),
    "a built layer": lambda: Encoder(CONFIG, parts()),
    "an output with its weights": lambda: TokenHead(8, 3)(parts()(X)),
    "a second mask, as PyTorch's layer takes it": lambda: parts()(X, None, MASK),
    "attend that returns no pair": lambda: MultiHeadAttention(8, 2)(X, attend=lambda query, *_, **__: query),
    "build_layer without a module": lambda: Encoder(CONFIG, lambda config: None),
    "a layer without weights": lambda: Encoder(CONFIG, lambda config: Bare())(IDS),
    "scale as text": lambda: TokenEmbedding(5, 8, scale="no"),
    "a derived layer": lambda: from_torch_layer(Derived(8, 2, 12)),
    "a layer with a forward of its own": lambda: from_torch_layer(with_another_forward()),
    "a sinusoidal table from before its begin": lambda: SinusoidalEncoding(8, 9)(X, offset=-1),
    "a learned table from before its begin": lambda: LearnedEncoding(8, 9)(X, offset=-1),
    "torch's layer with a function": lambda: from_torch_layer(torch_layer(activation=torch.tanh)),
    "another dropout2": lambda: from_torch_layer(with_uneven_dropout()),
    "add_zero_attn": lambda: from_torch_layer(with_keys_of_its_own(add_zero_attn=True)),
    "add_bias_kv": lambda: from_torch_layer(with_keys_of_its_own(add_bias_kv=True)),
    "rotary in torch": lambda: to_torch_layer(
        parts(attention=MultiHeadAttention(8, 2, rotary=RotaryEmbedding(4)))
    ),
    "another norm in torch": lambda: to_torch_layer(parts(feed_forward_norm=nn.Identity())),
    "a gate in torch": lambda: to_torch_layer(parts(feed_forward=GatedFeedForward(8, 12))),
    "adapted": lambda: to_torch_layer(adapt(parts(), 2)),
    "an adapted network": lambda: to_torch_layer(adapt(parts(), 2, projections=["up_projection"])),
    "a mask by another name": lambda: parts()(X, mask=MASK),
    "a mask by another name in pre-norm": lambda: parts(PreNormEncoderLayer)(X, attention_mask=MASK),
    "attend=None": lambda: MultiHeadAttention(8, 2)(X, attend=None),
    "attend by name": lambda: GroupedQueryAttention(8, 2)(X, attend="sdpa"),
    "keys of another length than values": lambda: KeyValueCache().joined(HEADS, HEADS[:, :, :1]),
    "keys without heads": lambda: KeyValueCache().joined(X, X),
    "a table that never ends": lambda: sinusoidal_encoding(10**13, 8),
    "layers without an end": lambda: Encoder(EncoderConfig(vocab_size=5, n_layers=10**13)),
    "stacks without an end": lambda: feed_forward_stack(8, 10**13),
    "a position at the end of the world": lambda: RotaryEmbedding(8)(X, offset=10**13),
    "positions without numbers": lambda: RotaryEmbedding(8)(X, positions=torch.arange(3, device="meta")),
    "a sparse rotation": lambda: rotate_interleaved(X, rotations(torch.arange(3), 8).to_sparse()),
    "a sparse bias": lambda: c.from_additive_mask(torch.zeros(1, 1, 3, 3).to_sparse()),
    "bias as text": lambda: MultiHeadAttention(8, 2, bias="no"),
    "a network's bias as a number": lambda: FeedForward(8, 12, bias=0),
    "grouped bias as text": lambda: GroupedQueryAttention(8, 2, bias="no"),
    "expanding bias as text": lambda: ExpandingMultiHeadAttention(8, 2, bias="no"),
    "float8": lambda: parts()(X.to(torch.float8_e4m3fn)),
    "a base that no float holds": lambda: RotaryEmbedding(8, base=10**400),
    "two eps": lambda: to_torch_layer(parts(attention_norm=nn.LayerNorm(8, eps=0.1))),
    "two kinds of bias": lambda: to_torch_layer(parts(feed_forward=FeedForward(8, 12, bias=False))),
    "a norm without weight": lambda: to_torch_layer(
        parts(attention_norm=nn.LayerNorm(8, elementwise_affine=False))
    ),
    "a cache as a list": lambda: GroupedQueryAttention(8, 2)(X, cache=[]),
    "a cache of another dtype": lambda: GroupedQueryAttention(8, 2).double()(
        X.double(), cache=filled_cache()
    ),
    "a mask without the cached": lambda: GroupedQueryAttention(8, 2)(
        X, may_attend=m.causal_mask(3), cache=filled_cache()
    ),
    "an encoder without caches": lambda: continue_text(ENCODER, IDS, [KeyValueCache()]),
    "caches of numbers": lambda: continue_text(modern_encoder(CONFIG), IDS, [5]),
    "a packed mask on another device": lambda: encode_packed(ENCODER, IDS, MASK.to("meta")),
    "an encoder as a class": lambda: encode_packed(Encoder, IDS, MASK),
    "rotary as text": lambda: ExpandingMultiHeadAttention(8, 2, rotary="yes"),
    "rotary as a number": lambda: ExpandingMultiHeadAttention(8, 2, rotary=1),
    "no rotary": lambda: ExpandingMultiHeadAttention(8, 2, rotary=None),
    "attention without width": lambda: RoFormerEncoder(8, attention_expansion=-2),
    "a stack that shrinks to nothing": lambda: FeedForwardUnit(8, 0.1),
    "a summary of another module": lambda: summary(nn.Linear(8, 8)),
    "adapting a class": lambda: adapt(nn.Linear, 2),
    "merging a list of modules": lambda: merge([nn.Linear(8, 8)]),
    "a low rank beside another module": lambda: LowRankLinear(nn.ReLU(), 2),
}

BAD = [
    each(SIZES, NOT_SIZES),
    each(SIZES_OR_NONE, [bad for bad in NOT_SIZES if bad is not None]),
    each(NUMBERS, NOT_NUMBERS),
    each(ODD, (1, 7)),
    each(THREE_AXES | ANY_AXES | ANY_WEIGHTS | ANY_WIDTH | CORE | VALUE | OTHERS, NOT_TENSORS),
    each(TOKENS | CONVERTED | NUMBERED | FROM_TORCH, NOT_TENSORS),
    each(THREE_AXES_OR_NONE, [bad for bad in NOT_TENSORS if bad is not None]),
    each(THREE_AXES | THREE_AXES_OR_NONE | CORE, VECTORS),
    each(ANY_AXES, MULTIPLIED),
    each(ANY_WEIGHTS, UNWEIGHTED),
    each(ANY_WIDTH, [X[0], X[:, :0], X.long()]),
    each(VALUE, {name: x for name, x in VECTORS.items() if name != "narrow"}),
    each(
        {"attention": lambda shapes: scaled_dot_product_attention(*(randn(*shape) for shape in shapes))},
        ATTENTION_OF,
    ),
    each(MASKED, NOT_BOOLEAN | AXES | LENGTHS | {"other device": FIT.to("meta")}),
    each(POOLED, NOT_BOOLEAN | AXES | LENGTHS | PER_QUERY),
    each(CONVERTED, NOT_BOOLEAN | AXES),
    each(TOKENS, WRONG_IDS),
    each(NUMBERED, FRACTIONS | {"bools": IDS.bool(), "no axis": IDS[0, 0], "four axes": MASK.long()}),
    each(FROM_TORCH, FRACTIONS | {"integers": IDS, "one axis": MASK[0, 0, 0], "four axes": MASK}),
    each({"from_key_padding_mask": c.from_key_padding_mask}, {"three axes": MASK[0]}),
    each({"from_additive_mask": c.from_additive_mask}, [MASK, IDS, IDS.float(), [[0.0]]]),
    each({"combined": partial(m.combine_masks, opened(2, 3, 5, 7))}, SIZED),
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


@pytest.mark.parametrize("call", (SIZES | SIZES_OR_NONE).values(), ids=(SIZES | SIZES_OR_NONE).keys())
def test_sizes_may_be_numpys(call):
    """As good as Python's: neither refused, nor another result."""
    outcomes = []
    for kind in (int, np.int64, np.int32):
        torch.manual_seed(0)
        try:
            outcome = str(call(kind(4)))
        except ValueError as error:  # some calls want another size
            outcome = str(error)
        outcomes.append(re.sub(r"np\.int\d\d\((\d+)\)", r"\1", outcome))
    assert outcomes[0] == outcomes[1] == outcomes[2]
