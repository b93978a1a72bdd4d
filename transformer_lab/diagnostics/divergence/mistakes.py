"""Usual mistakes in an encoder layer, each as a change of some steps: its words, and what comes out then."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lab.diagnostics.divergence.steps import STEPS, PostNormSteps, PreNormSteps
from transformer_lab.masking import causal_mask


@dataclass(frozen=True)
class Mistake:
    """Its words, and how to build it into the steps that are right."""

    words: str
    build: Callable[[PostNormSteps], PostNormSteps]


def mistake(words: str, **changes: Callable) -> Mistake:
    """A mistake that changes some of the steps, or of the methods that they use."""
    members = {name: cached_property(f) if name in STEPS else f for name, f in changes.items()}

    def build(right: PostNormSteps) -> PostNormSteps:
        return type("WrongSteps", (type(right),), members)(right.layer, right.x, right.may_attend)

    return Mistake(words, build)


def other_order(right: PostNormSteps) -> PostNormSteps:
    """Pre-norm in place of post-norm, and the other way round."""
    order = PostNormSteps if isinstance(right, PreNormSteps) else PreNormSteps
    return order(right.layer, right.x, right.may_attend)


def reordered(words: str, order: tuple[int, int, int]) -> Mistake:
    """Which of PyTorch's projections stand in the places of queries, keys and values."""
    return mistake(words, project=lambda s, part: PostNormSteps.project(s, order[part]))


def scores_times(words: str, factor: Callable[[PostNormSteps], float]) -> Mistake:
    """Scores multiplied by something else than 1 / √d_head."""
    return mistake(f"the scores are {words}", scores=lambda s: s.queries @ s.keys.mT * factor(s))


def attention_along(words: str, axis: int) -> Mistake:
    """Attention with another axis in the place of the positions, without a mask."""
    return mistake(
        f"attention runs along the wrong axis, {words}",
        scores=lambda s: s.queries.transpose(axis, 2) @ s.keys.transpose(axis, 2).mT / math.sqrt(s.d_head),
        weights=lambda s: s.scores.softmax(-1),
        heads=lambda s: (s.weights @ s.values.transpose(axis, 2)).transpose(axis, 2),
    )


# The usual ways to hide; they differ where a query sees nothing.
HIDINGS = [
    lambda scores, seen: scores.masked_fill(~seen, -math.inf),
    lambda scores, seen: scores.masked_fill(~seen, -1e9),
    lambda scores, seen: scores - 1e9 * ~seen,
]


def weights_with(words: str, wrong: Callable[[Tensor], Tensor]) -> list[Mistake]:
    """Other weights, made of the hidden scores, whichever way hides them."""
    others = [lambda s, hide=hide: hide(s.scores, s.may_attend) for hide in HIDINGS[1:]]
    return [
        mistake(words, weights=lambda s, hidden=hidden: wrong(hidden(s)))
        for hidden in (lambda s: s.hide(s.scores), *others)
    ]


def mask_mistakes(words: str, wrong: Callable[[Tensor], Tensor]) -> list[Mistake]:
    """Another mask, whichever way hides the scores; a query that sees nothing may have zeros, too."""

    def zeros_where_blind(s: PostNormSteps) -> Tensor:
        return HIDINGS[0](s.scores, wrong(s.may_attend)).softmax(-1).nan_to_num(0.0)

    hides = [lambda s, scores, hide=hide: hide(scores, wrong(s.may_attend)) for hide in HIDINGS]
    return [*(mistake(words, hide=hide) for hide in hides), mistake(words, weights=zeros_where_blind)]


def normalised(
    norm: nn.LayerNorm,
    x: Tensor,
    *,
    eps: float | None = None,
    unbiased: bool = False,
    dims: tuple[int, ...] = (-1,),
) -> Tensor:
    """(x − mean) / √(variance + eps), over the last axis or over others, with the norm's weight and bias."""
    deviation = x - x.mean(dim=dims, keepdim=True)
    variance = x.var(dim=dims, keepdim=True, unbiased=unbiased)
    return scaled(norm, deviation / (variance + (norm.eps if eps is None else eps)).sqrt())


def scaled(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    """The norm's own weight and bias."""
    return x * norm.weight + (0 if norm.bias is None else norm.bias)


def with_norm(words: str, **options: object) -> Mistake:
    """Both norms, with other options."""
    return mistake(words, norm=lambda s, norm, x: normalised(norm, x, **options))


def eps_outside(norm: nn.LayerNorm, x: Tensor, unbiased: bool) -> Tensor:
    """(x − mean) / (√variance + eps)"""
    deviation = x - x.mean(-1, keepdim=True)
    return scaled(norm, deviation / (x.std(-1, keepdim=True, unbiased=unbiased) + norm.eps))


ORDER = "PyTorch stacks the projections in the order query, key, value"
EACH = "wanted a projection for each of the three"
INVERTED = "the mask is inverted: True means may attend, and masked_fill wants ~may_attend"
EPS = {1e-5: "1e-5", 1e-6: "1e-6", 1e-7: "1e-7", 1e-8: "1e-8 or smaller", 1e-12: "1e-8 or smaller"}
ACTIVATIONS = {
    "missing: two linear maps in a row are one linear map": lambda x: x,
    "ReLU, another one in PyTorch's layer": F.relu,
    "GELU, another one in PyTorch's layer (whose default is ReLU)": F.gelu,
    "GELU's tanh approximation, another one in PyTorch's layer": partial(F.gelu, approximate="tanh"),
    "SiLU, another one in PyTorch's layer": F.silu,
}

MISTAKES = [
    Mistake(
        "the norms stand elsewhere: pre-norm is x + sublayer(norm(x)), post-norm is norm(x + sublayer(x)); "
        "PyTorch's norm_first tells which",
        other_order,
    ),
    # Projections and heads
    mistake(
        "the projections of queries, keys and values have no bias",
        project=lambda s, part: PostNormSteps.project(s, part, bias=False),
    ),
    mistake("there is no projection of queries, keys, values", project=lambda s, part: s.attention_input),
    mistake(
        "the projections' weights are not transposed: nn.Linear computes x @ weight.T + bias",
        project=lambda s, part: (
            s.attention_input @ s.layer.self_attn.in_proj_weight.chunk(3)[part]
            + s.layer.self_attn.in_proj_bias.chunk(3)[part]
        ),
    ),
    reordered(f"queries and keys (or the scores are transposed) change places: {ORDER}", (1, 0, 2)),
    reordered(f"keys and values change places: {ORDER}", (0, 2, 1)),
    reordered(f"queries and values change places: {ORDER}", (2, 1, 0)),
    reordered(f"the keys are also the values, {EACH}", (0, 1, 1)),
    reordered(f"the values are also the keys, {EACH}", (0, 2, 2)),
    reordered(f"the queries are also the keys, {EACH}", (0, 0, 2)),
    reordered(f"the keys are also the queries, {EACH}", (1, 1, 2)),
    mistake(
        "the heads are cut by one reshape, which mixes positions with features: "
        "unflatten(-1, (n_heads, d_head)).transpose(1, 2)",
        split=lambda s, x: x.reshape(len(x), s.n_heads, x.shape[1], -1),
    ),
    mistake(
        "the features are dealt to the heads like cards; head 0 takes the first d_head of them: "
        "unflatten(-1, (n_heads, d_head))",
        split=lambda s, x: x.unflatten(-1, (-1, s.n_heads)).movedim(-1, 1),
    ),
    mistake(
        "your projection holds each head's queries, keys and values together: PyTorch stacks all queries, "
        "then all keys, then all values; chunk(3, dim=-1) first",
        project=lambda s, part: s.stacked().unflatten(-1, (s.n_heads, 3, -1))[..., part, :].flatten(-2),
    ),
    mistake(
        "the keys are reshaped to (…, d_head, position), wanted transposed: keys.transpose(-2, -1)",
        scores=lambda s: s.queries @ s.keys.reshape(s.keys.mT.shape) / math.sqrt(s.d_head),
    ),
    mistake(
        "there is one head for all features, wanted as many as PyTorch's layer has",
        split=lambda s, x: x[:, None],
        scores=lambda s: s.queries @ s.keys.mT / math.sqrt(s.queries.shape[-1]),
    ),
    # Scores and weights
    scores_times("not divided by √d_head", lambda s: 1),
    scores_times("divided by d_head, without the root", lambda s: 1 / s.d_head),
    scores_times(
        "divided by √d_model; each sums over the d_head features of one head",
        lambda s: 1 / math.sqrt(s.d_head * s.n_heads),
    ),
    scores_times("multiplied by √d_head, wanted a division", lambda s: math.sqrt(s.d_head)),
    *weights_with("softmax runs over the queries, wanted dim=-1", lambda scores: scores.softmax(-2)),
    *weights_with("softmax runs over the heads, wanted dim=-1", lambda scores: scores.softmax(1)),
    *weights_with("there is no softmax", lambda scores: scores),
    attention_along("the sequences of the batch: give nn.MultiheadAttention batch_first=True", axis=0),
    attention_along("the heads of each token: transpose(1, 2) first, so that positions stand last", axis=1),
    mistake("the mask is not used", hide=lambda s, scores: scores),
    mistake(
        "a causal mask is at work, which nobody gave",
        hide=lambda s, scores: HIDINGS[0](PostNormSteps.hide(s, scores), causal_mask(scores.shape[-1])),
    ),
    *mask_mistakes(INVERTED, lambda may_attend: ~may_attend),
    *mask_mistakes(
        "the mask hides rows, the queries, wanted columns, the keys: the last axis is the key's",
        lambda may_attend: may_attend.mT,
    ),
    *mask_mistakes(
        "the mask hides rows, the queries, as well as columns, the keys",
        lambda may_attend: may_attend & may_attend.mT,
    ),
    mistake(
        "hidden scores are set to 0, which is no low score: set them to −inf before softmax",
        hide=lambda s, scores: scores.masked_fill(~s.may_attend, 0.0),
    ),
    mistake(
        "the mask comes after softmax, so the rows no longer sum to 1: hide scores before it",
        weights=lambda s: s.scores.softmax(dim=-1) * s.may_attend,
    ),
    mistake(
        "the mask is added as numbers, so a visible key gains 1: use masked_fill(~may_attend, −inf)",
        hide=lambda s, scores: scores + s.may_attend,
    ),
    # From the heads to the first norm
    mistake(
        "the heads are merged without moving them behind the positions: transpose(1, 2).flatten(-2)",
        merge=lambda s, heads: heads.reshape(len(heads), heads.shape[2], -1),
    ),
    mistake("there is no output projection", attention_output=lambda s: s.merge(s.heads)),
    mistake(
        "the output projection has no bias",
        attention_output=lambda s: F.linear(s.merge(s.heads), s.layer.self_attn.out_proj.weight),
    ),
    mistake("the first residual is missing: x + attention(…)", first_sum=lambda s: s.attention_output),
    mistake(
        "the first residual adds the normalised x, wanted x itself: in pre-norm the stream stays as it is",
        first_sum=lambda s: s.attention_input + s.attention_output,
    ),
    mistake(
        "both residuals add the normalised stream, wanted the stream itself: x = norm(x) loses it; "
        "write x + attention(norm(x))",
        first_sum=lambda s: s.attention_input + s.attention_output,
        second_sum=lambda s: s.feed_forward_input + s.feed_forward_output,
    ),
    mistake(
        "both residuals are missing: x + attention(…), and x + feed_forward(…)",
        first_sum=lambda s: s.attention_output,
        second_sum=lambda s: s.feed_forward_output,
    ),
    # Norms
    mistake(
        "the norms stand behind the sublayers, inside the sums: x + norm(sublayer(x)) is neither order",
        attention_input=lambda s: s.x,
        first_sum=lambda s: s.x + s.norm(s.layer.norm1, s.attention_output),
        feed_forward_input=lambda s: s.first_sum,
        second_sum=lambda s: s.first_sum + s.norm(s.layer.norm2, s.feed_forward_output),
        output=lambda s: s.second_sum,
    ),
    mistake(
        "the norm is missing between attention and feed-forward", feed_forward_input=lambda s: s.first_sum
    ),
    mistake("there are no norms at all", norm=lambda s, norm, x: x),
    mistake(
        "the two norms are swapped, or one module serves for both",
        norm=lambda s, norm, x: (s.layer.norm1 if norm is s.layer.norm2 else s.layer.norm2)(x),
    ),
    mistake("the first norm serves in both places", norm=lambda s, norm, x: s.layer.norm1(x)),
    mistake("the second norm serves in both places", norm=lambda s, norm, x: s.layer.norm2(x)),
    with_norm(
        "the norm divides by the unbiased variance (n − 1), the default of torch.var and torch.std",
        unbiased=True,
    ),
    mistake(
        "the norm adds eps to the standard deviation; it belongs under the root: √(variance + eps)",
        norm=lambda s, norm, x: eps_outside(norm, x, unbiased=False),
    ),
    mistake(
        "the norm takes the unbiased standard deviation and adds eps outside the root, "
        "as a well-known annotated implementation does",
        norm=lambda s, norm, x: eps_outside(norm, x, unbiased=True),
    ),
    mistake(
        "the norm does not subtract the mean: that is RMSNorm",
        norm=lambda s, norm, x: scaled(norm, x / (x.square().mean(-1, keepdim=True) + norm.eps).sqrt()),
    ),
    *(
        with_norm(f"the norm runs over {axes}; each token is normalised by itself, dim=-1", dims=dims)
        for axes, dims in (
            ("the positions", (1,)),
            ("positions and features at once", (1, 2)),
            ("sequences and positions, as a batch norm does", (0, 1)),
        )
    ),
    mistake(
        "the norm's weight and bias are not used",
        norm=lambda s, norm, x: F.layer_norm(x, x.shape[-1:], eps=norm.eps),
    ),
    *(
        with_norm(
            f"eps is {words} in your layer norms, another one in PyTorch's; nn.LayerNorm takes 1e-5", eps=eps
        )
        for eps, words in EPS.items()
    ),
    # Feed-forward
    *(
        mistake(f"the activation is {words}", activated=lambda s, function=function: function(s.hidden))
        for words, function in ACTIVATIONS.items()
    ),
    mistake(
        "the activation comes after the second linear map, wanted between the two",
        activated=lambda s: s.hidden,
        feed_forward_output=lambda s: s.layer.activation(s.layer.linear2(s.hidden)),
    ),
    mistake(
        "the feed-forward reads the layer's input, wanted what came out of the first half",
        hidden=lambda s: s.layer.linear1(s.x),
    ),
    mistake(
        "the feed-forward reads the attention's output, wanted what came out of the first half",
        hidden=lambda s: s.layer.linear1(s.attention_output),
    ),
    mistake(
        "the first linear map has no bias",
        hidden=lambda s: F.linear(s.feed_forward_input, s.layer.linear1.weight),
    ),
    mistake(
        "the second linear map has no bias",
        feed_forward_output=lambda s: F.linear(s.activated, s.layer.linear2.weight),
    ),
    # From there to the end
    mistake("there is no feed-forward", second_sum=lambda s: s.road, output=lambda s: s.road),
    mistake("there is no feed-forward", second_sum=lambda s: s.road),
    mistake(
        "the second residual is missing: x + feed_forward(…)", second_sum=lambda s: s.feed_forward_output
    ),
    mistake(
        "the second residual adds the layer's input, wanted what came out of the first half",
        second_sum=lambda s: s.x + s.feed_forward_output,
    ),
    mistake(
        "the second residual adds what entered the norm, wanted what came out of it",
        second_sum=lambda s: s.first_sum + s.feed_forward_output,
    ),
    mistake(
        "the second residual adds the normalised stream, wanted the stream itself",
        second_sum=lambda s: s.feed_forward_input + s.feed_forward_output,
    ),
    mistake("the norm at the end is missing", output=lambda s: s.second_sum),
    mistake(
        "there is a norm at the end; in pre-norm the stream leaves the layer as it is",
        output=lambda s: s.layer.norm2(s.second_sum),
    ),
]
