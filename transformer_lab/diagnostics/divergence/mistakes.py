"""Usual mistakes in an encoder layer, each as a change of some steps: its words, and what comes out then."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt

import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lab.diagnostics.divergence.steps import STEPS, PostNormSteps, PreNormSteps
from transformer_lab.masking import causal_mask


@dataclass(frozen=True)
class Mistake:
    """Its words, and how to build it into the steps that are right."""

    words: str
    build: Callable[[PostNormSteps], PostNormSteps]


def other_order(right: PostNormSteps) -> PostNormSteps:
    """Pre-norm in place of post-norm, and the other way round."""
    order = PostNormSteps if isinstance(right, PreNormSteps) else PreNormSteps
    return order(right.layer, right.x, right.may_attend)


def scaled(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """The norm's own weight and bias."""
    return x * norm.weight + (0 if norm.bias is None else norm.bias)


def normalised(
    norm: nn.LayerNorm,
    x: Tensor,
    *,
    eps: float | None = None,
    unbiased: bool = False,
    dims: tuple[int, ...] = (-1,),
) -> Tensor:
    """(x − mean) / √(variance + eps), over the last axis or over others, then weight and bias."""
    deviation = x - x.mean(dim=dims, keepdim=True)
    variance = x.var(dim=dims, keepdim=True, unbiased=unbiased)
    return scaled(norm, deviation / (variance + (norm.eps if eps is None else eps)).sqrt())


def written(table: str) -> list[Mistake]:
    """Read mistakes: lines of words, then, indented, each step that changes = what is computed instead.

    An expression that goes on stands further right; "or" begins another way to make the same mistake.
    """
    mistakes = []
    for words, ways in re.findall(r"((?:^\S.*\n)+)((?:^ .*\n)+)", table, re.MULTILINE):
        for way in re.split(r"^ +or ", ways, flags=re.MULTILINE):
            changes = re.sub(r"\n {5,}", " ", way).strip().splitlines()
            members = dict(member(*change.strip().split(" = ", 1)) for change in changes)
            mistakes.append(mistake(" ".join(words.splitlines()), members))
    return mistakes


# What an expression may use, and what the methods among the steps are given.
KNOWN = {"F": F, "inf": inf, "sqrt": sqrt, "causal_mask": causal_mask, "PostNormSteps": PostNormSteps}
KNOWN |= {"scaled": scaled, "normalised": normalised}
GIVEN = {"project": "part", "split": "x", "merge": "heads", "hide": "scores", "norm": "norm, x"}


def member(name: str, expression: str) -> tuple[str, Callable | cached_property]:
    """A step, or a method that the steps use, which computes the expression; `s` are the steps."""
    function = eval(f"lambda s, {GIVEN.get(name, '')}: {expression}", KNOWN)
    return name, cached_property(function) if name in STEPS else function


def mistake(words: str, members: dict[str, Callable | cached_property]) -> Mistake:
    """A mistake that changes some of the steps, or of the methods that they use."""

    def build(right: PostNormSteps) -> PostNormSteps:
        return type("WrongSteps", (type(right),), members)(right.layer, right.x, right.may_attend)

    return Mistake(words, build)


PROJECTIONS_AND_HEADS = r"""
the projections of queries, keys and values have no bias
    project = PostNormSteps.project(s, part, bias=False)
there is no projection of queries
    project = s.attention_input if part == 0 else PostNormSteps.project(s, part)
there is no projection of keys
    project = s.attention_input if part == 1 else PostNormSteps.project(s, part)
there is no projection of values
    project = s.attention_input if part == 2 else PostNormSteps.project(s, part)
there is no projection of queries, keys
    project = s.attention_input if part < 2 else PostNormSteps.project(s, part)
there is no projection of queries, keys, values
    project = s.attention_input
the projections' weights are not transposed: nn.Linear computes x @ weight.T + bias
    project = (s.attention_input @ s.layer.self_attn.in_proj_weight.chunk(3)[part]
        + s.layer.self_attn.in_proj_bias.chunk(3)[part])
queries and keys (or the scores are transposed) change places: PyTorch stacks the projections in the order
query, key, value
    project = PostNormSteps.project(s, (1, 0, 2)[part])
keys and values change places: PyTorch stacks the projections in the order query, key, value
    project = PostNormSteps.project(s, (0, 2, 1)[part])
queries and values change places: PyTorch stacks the projections in the order query, key, value
    project = PostNormSteps.project(s, (2, 1, 0)[part])
the keys are also the values, wanted a projection for each of the three
    project = PostNormSteps.project(s, (0, 1, 1)[part])
the values are also the keys, wanted a projection for each of the three
    project = PostNormSteps.project(s, (0, 2, 2)[part])
the queries are also the keys, wanted a projection for each of the three
    project = PostNormSteps.project(s, (0, 0, 2)[part])
the keys are also the queries, wanted a projection for each of the three
    project = PostNormSteps.project(s, (1, 1, 2)[part])
the heads are cut by one reshape, which mixes positions with features:
unflatten(-1, (n_heads, d_head)).transpose(1, 2)
    split = x.reshape(len(x), s.n_heads, x.shape[1], -1)
the features are dealt to the heads like cards; head 0 takes the first d_head of them:
unflatten(-1, (n_heads, d_head))
    split = x.unflatten(-1, (-1, s.n_heads)).movedim(-1, 1)
your projection holds each head's queries, keys and values together: PyTorch stacks all queries, then all
keys, then all values; chunk(3, dim=-1) first
    project = s.stacked().unflatten(-1, (s.n_heads, 3, -1))[..., part, :].flatten(-2)
your projection holds queries, keys and values in turn, feature by feature: PyTorch stacks all queries, then
all keys, then all values; chunk(3, dim=-1) first
    project = s.stacked().unflatten(-1, (-1, 3))[..., part]
the queries alone are cut into heads by one reshape, which mixes positions with features:
unflatten(-1, (n_heads, d_head)).transpose(1, 2)
    queries = s.project(0).reshape(len(s.x), s.n_heads, s.x.shape[1], s.d_head)
the keys alone are cut into heads by one reshape, which mixes positions with features:
unflatten(-1, (n_heads, d_head)).transpose(1, 2)
    keys = s.project(1).reshape(len(s.x), s.n_heads, s.x.shape[1], s.d_head)
the values alone are cut into heads by one reshape, which mixes positions with features:
unflatten(-1, (n_heads, d_head)).transpose(1, 2)
    values = s.project(2).reshape(len(s.x), s.n_heads, s.x.shape[1], s.d_head)
the keys are reshaped to (…, d_head, position), wanted transposed: keys.transpose(-2, -1)
    scores = s.queries @ s.keys.reshape(s.keys.mT.shape) / sqrt(s.d_head)
there is one head for all features, wanted as many as PyTorch's layer has
    split = x[:, None]
    scores = s.queries @ s.keys.mT / sqrt(s.queries.shape[-1])
"""

SCORES_AND_WEIGHTS = r"""
the scores are not divided by √d_head
    scores = s.queries @ s.keys.mT
the scores are divided by d_head, without the root
    scores = s.queries @ s.keys.mT / s.d_head
the scores are divided by √d_model; each sums over the d_head features of one head
    scores = s.queries @ s.keys.mT / sqrt(s.d_head * s.n_heads)
the scores are multiplied by √d_head, wanted a division
    scores = s.queries @ s.keys.mT * sqrt(s.d_head)
softmax runs over the queries, wanted dim=-1
    weights = s.hide(s.scores).softmax(-2)
    or weights = s.scores.masked_fill(~s.may_attend, -1e9).softmax(-2)
    or weights = (s.scores - 1e9 * ~s.may_attend).softmax(-2)
softmax runs over the heads, wanted dim=-1
    weights = s.hide(s.scores).softmax(1)
    or weights = s.scores.masked_fill(~s.may_attend, -1e9).softmax(1)
    or weights = (s.scores - 1e9 * ~s.may_attend).softmax(1)
there is no softmax
    weights = s.hide(s.scores)
    or weights = s.scores.masked_fill(~s.may_attend, -1e9)
the weights are divided by √d_head after softmax, wanted the scores before it
    scores = s.queries @ s.keys.mT
    weights = s.hide(s.scores).softmax(-1) / sqrt(s.d_head)
attention runs along the wrong axis, the sequences of the batch: give nn.MultiheadAttention batch_first=True
    scores = s.queries.transpose(0, 2) @ s.keys.transpose(0, 2).mT / sqrt(s.d_head)
    weights = s.scores.softmax(-1)
    heads = (s.weights @ s.values.transpose(0, 2)).transpose(0, 2)
attention runs along the wrong axis, the heads of each token: transpose(1, 2) first, so that positions stand
last
    scores = s.queries.transpose(1, 2) @ s.keys.transpose(1, 2).mT / sqrt(s.d_head)
    weights = s.scores.softmax(-1)
    heads = (s.weights @ s.values.transpose(1, 2)).transpose(1, 2)
"""

# The ways to hide differ where a query sees nothing.
MASKS = r"""
the mask is not used
    hide = scores
a causal mask is at work, which nobody gave
    hide = PostNormSteps.hide(s, scores).masked_fill(~causal_mask(scores.shape[-1]), -inf)
the mask is inverted: True means may attend, and masked_fill wants ~may_attend
    hide = scores.masked_fill(s.may_attend, -inf)
    or hide = scores.masked_fill(s.may_attend, -1e9)
    or hide = scores - 1e9 * s.may_attend
    or weights = s.scores.masked_fill(s.may_attend, -inf).softmax(-1).nan_to_num(0.0)
    or hide = scores - 1e4 * s.may_attend
the mask hides rows, the queries, wanted columns, the keys: the last axis is the key's
    hide = scores.masked_fill(~s.may_attend.mT, -inf)
    or hide = scores.masked_fill(~s.may_attend.mT, -1e9)
    or hide = scores - 1e9 * ~s.may_attend.mT
    or weights = s.scores.masked_fill(~s.may_attend.mT, -inf).softmax(-1).nan_to_num(0.0)
the mask hides rows, the queries, as well as columns, the keys
    hide = scores.masked_fill(~(s.may_attend & s.may_attend.mT), -inf)
    or hide = scores.masked_fill(~(s.may_attend & s.may_attend.mT), -1e9)
    or hide = scores - 1e9 * ~(s.may_attend & s.may_attend.mT)
    or weights = s.scores.masked_fill(~(s.may_attend & s.may_attend.mT), -inf).softmax(-1).nan_to_num(0.0)
hidden scores are set to 0, which is no low score: set them to −inf before softmax
    hide = scores.masked_fill(~s.may_attend, 0.0)
the mask comes after softmax, so the rows no longer sum to 1: hide scores before it
    weights = s.scores.softmax(dim=-1) * s.may_attend
the mask is added as numbers, so a visible key gains 1: use masked_fill(~may_attend, −inf)
    hide = scores + s.may_attend
"""

FROM_THE_HEADS_TO_THE_FIRST_NORM = r"""
the heads are merged without moving them behind the positions: transpose(1, 2).flatten(-2)
    merge = heads.reshape(len(heads), heads.shape[2], -1)
the output projection's weight is not transposed: nn.Linear computes x @ weight.T + bias
    attention_output = s.merge(s.heads) @ s.layer.self_attn.out_proj.weight + s.layer.self_attn.out_proj.bias
there is no output projection
    attention_output = s.merge(s.heads)
the output projection has no bias
    attention_output = F.linear(s.merge(s.heads), s.layer.self_attn.out_proj.weight)
the first residual is missing: x + attention(…)
    first_sum = s.attention_output
the first residual adds the normalised x, wanted x itself: in pre-norm the stream stays as it is
    first_sum = s.attention_input + s.attention_output
both residuals add the normalised stream, wanted the stream itself: x = norm(x) loses it;
write x + attention(norm(x))
    first_sum = s.attention_input + s.attention_output
    second_sum = s.feed_forward_input + s.feed_forward_output
the first residual is added twice
    first_sum = 2 * s.x + s.attention_output
the first residual is a mean, wanted a sum
    first_sum = (s.x + s.attention_output) / 2
both residuals are missing: x + attention(…), and x + feed_forward(…)
    first_sum = s.attention_output
    second_sum = s.feed_forward_output
"""

NORMS = r"""
the norms stand behind the sublayers, inside the sums: x + norm(sublayer(x)) is neither order
    attention_input = s.x
    first_sum = s.x + s.norm(s.layer.norm1, s.attention_output)
    feed_forward_input = s.first_sum
    second_sum = s.first_sum + s.norm(s.layer.norm2, s.feed_forward_output)
    output = s.second_sum
the first half is pre-norm, the second post-norm; one order for both
    attention_input = s.norm(s.layer.norm1, s.x)
    feed_forward_input = s.first_sum
    second_sum = s.first_sum + s.feed_forward_output
    output = s.norm(s.layer.norm2, s.second_sum)
the first half is post-norm, the second pre-norm; one order for both
    attention_input = s.x
    first_sum = s.norm(s.layer.norm1, s.x + s.attention_output)
    feed_forward_input = s.norm(s.layer.norm2, s.first_sum)
    second_sum = s.first_sum + s.feed_forward_output
    output = s.second_sum
the norm is missing between attention and feed-forward
    feed_forward_input = s.first_sum
there are no norms at all
    norm = x
the two norms are swapped, or one module serves for both
    norm = (s.layer.norm1 if norm is s.layer.norm2 else s.layer.norm2)(x)
the first norm serves in both places
    norm = s.layer.norm1(x)
the second norm serves in both places
    norm = s.layer.norm2(x)
the norm divides by the unbiased variance (n − 1), the default of torch.var and torch.std
    norm = normalised(norm, x, unbiased=True)
the norm adds eps to the standard deviation; it belongs under the root: √(variance + eps)
    norm = scaled(norm, (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, unbiased=False) + norm.eps))
the norm takes the unbiased standard deviation and adds eps outside the root, as a well-known annotated
implementation does
    norm = scaled(norm, (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + norm.eps))
the norm does not subtract the mean: that is RMSNorm
    norm = scaled(norm, x / (x.square().mean(-1, keepdim=True) + norm.eps).sqrt())
the norm runs over the positions; each token is normalised by itself, dim=-1
    norm = normalised(norm, x, dims=(1,))
the norm runs over positions and features at once; each token is normalised by itself, dim=-1
    norm = normalised(norm, x, dims=(1, 2))
the norm runs over sequences and positions, as a batch norm does; each token is normalised by itself, dim=-1
    norm = normalised(norm, x, dims=(0, 1))
the norm's weight and bias are not used
    norm = F.layer_norm(x, x.shape[-1:], eps=norm.eps)
the norm's bias is not used
    norm = F.layer_norm(x, x.shape[-1:], norm.weight, eps=norm.eps)
eps is 1e-5 in your layer norms, another one in PyTorch's; nn.LayerNorm takes 1e-5
    norm = normalised(norm, x, eps=1e-5)
eps is 1e-6 in your layer norms, another one in PyTorch's; nn.LayerNorm takes 1e-5
    norm = normalised(norm, x, eps=1e-6)
eps is 1e-7 in your layer norms, another one in PyTorch's; nn.LayerNorm takes 1e-5
    norm = normalised(norm, x, eps=1e-7)
eps is 1e-8 or smaller in your layer norms, another one in PyTorch's; nn.LayerNorm takes 1e-5
    norm = normalised(norm, x, eps=1e-8)
    or norm = normalised(norm, x, eps=1e-12)
"""

FEED_FORWARD = r"""
the activation is missing: two linear maps in a row are one linear map
    activated = s.hidden
the activation is ReLU, another one in PyTorch's layer
    activated = F.relu(s.hidden)
the activation is GELU, another one in PyTorch's layer (whose default is ReLU)
    activated = F.gelu(s.hidden)
the activation is GELU's tanh approximation, another one in PyTorch's layer
    activated = F.gelu(s.hidden, approximate="tanh")
the activation is SiLU, another one in PyTorch's layer
    activated = F.silu(s.hidden)
the activation comes after the second linear map, wanted between the two
    activated = s.hidden
    feed_forward_output = s.layer.activation(s.layer.linear2(s.hidden))
the activation comes after both linear maps, wanted after the first only
    feed_forward_output = s.layer.activation(s.layer.linear2(s.activated))
the feed-forward reads the layer's input, wanted what came out of the first half
    hidden = s.layer.linear1(s.x)
the feed-forward reads the attention's output, wanted what came out of the first half
    hidden = s.layer.linear1(s.attention_output)
the first linear map has no bias
    hidden = F.linear(s.feed_forward_input, s.layer.linear1.weight)
the second linear map has no bias
    feed_forward_output = F.linear(s.activated, s.layer.linear2.weight)
"""

TO_THE_END = r"""
there is no feed-forward
    second_sum = s.road
    output = s.road
    or second_sum = s.road
the second residual is missing: x + feed_forward(…)
    second_sum = s.feed_forward_output
the second residual is added twice
    second_sum = 2 * s.road + s.feed_forward_output
the second residual adds the layer's input, wanted what came out of the first half
    second_sum = s.x + s.feed_forward_output
the second residual adds the attention's output alone, wanted what came out of the first half
    second_sum = s.attention_output + s.feed_forward_output
the second residual adds what entered the norm, wanted what came out of it
    second_sum = s.first_sum + s.feed_forward_output
the second residual adds the normalised stream, wanted the stream itself
    second_sum = s.feed_forward_input + s.feed_forward_output
the norm at the end is missing
    output = s.second_sum
there is a norm at the end; in pre-norm the stream leaves the layer as it is
    output = s.layer.norm2(s.second_sum)
"""

MISTAKES = [
    Mistake(
        "the norms stand elsewhere: pre-norm is x + sublayer(norm(x)), post-norm is norm(x + sublayer(x)); "
        "PyTorch's norm_first tells which",
        other_order,
    ),
    *written(PROJECTIONS_AND_HEADS),
    *written(SCORES_AND_WEIGHTS),
    *written(MASKS),
    *written(FROM_THE_HEADS_TO_THE_FIRST_NORM),
    *written(NORMS),
    *written(FEED_FORWARD),
    *written(TO_THE_END),
]
