"""Usual mistakes in an encoder layer, each as a change of some of the steps."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lab.diagnostics.divergence.steps import STEPS, EncoderLayerSteps
from transformer_lab.masking import causal_mask
from transformer_lab.rotary_embedding import rotate_half_split, rotate_interleaved


@dataclass(frozen=True)
class Mistake:
    """A mistake in words, and as a subclass of the steps.

    in_one_place: whether its first effect proves it. If not, only the output does: a layer without its first
    norm, say, begins as one that has its norms elsewhere.
    """

    words: str
    wrong_steps: type[EncoderLayerSteps]
    in_one_place: bool = True

    def build(self, right: EncoderLayerSteps) -> EncoderLayerSteps | None:
        """The steps with the mistake; None where it makes no sense, such as a wrong mask without a mask."""
        steps = self.wrong_steps(right.layer, right.x, right.may_attend)
        try:
            _ = steps.output
        except (AttributeError, RuntimeError, TypeError):
            return None
        return steps


def mistake(words: str, *, in_one_place: bool = True, **changes: Callable) -> Mistake:
    """A mistake that replaces steps, or methods that the steps use."""
    properties = {*STEPS, "norm_first", "residual_stream"}
    members = {name: cached_property(f) if name in properties else f for name, f in changes.items()}
    return Mistake(words, type("WrongSteps", (EncoderLayerSteps,), members), in_one_place)


def projections_as(words: str, order: tuple[int, int, int]) -> Mistake:
    """PyTorch's projections (0: query, 1: key, 2: value) that are used for queries, keys and values."""
    return mistake(
        f"{words} are exchanged: PyTorch stacks the projections in the order query, key, value",
        in_one_place=order[2] == 2,
        project=lambda s, part: EncoderLayerSteps.project(s, order[part]),
    )


def scores_times(words: str, factor: Callable[[EncoderLayerSteps], float]) -> Mistake:
    """Scores multiplied by something else than 1 / √d_head."""
    return mistake(f"the scores are {words}", scores=lambda s: s.queries @ s.keys.mT * factor(s))


def attention_along(words: str, axis: int) -> Mistake:
    """Attention over another axis than the positions, without a mask."""
    return mistake(
        f"attention runs along the wrong axis, {words}",
        scores=lambda s: s.queries.transpose(axis, 2) @ s.keys.transpose(axis, 2).mT / math.sqrt(s.d_head),
        weights=lambda s: s.scores.softmax(-1),
        heads=lambda s: (s.weights @ s.values.transpose(axis, 2)).transpose(axis, 2),
    )


# The usual ways to apply a mask. They differ for a query that may attend to nothing.
WAYS_TO_MASK = [
    lambda scores, may_attend: scores.masked_fill(~may_attend, -math.inf),
    lambda scores, may_attend: scores.masked_fill(~may_attend, -1e9),
    lambda scores, may_attend: scores - 1e9 * ~may_attend,
    lambda scores, may_attend: scores - 1e4 * ~may_attend,
]


def softmax_over(words: str, dim: int) -> list[Mistake]:
    """Softmax over another axis than the keys, whichever way the mask is applied."""
    words = f"softmax runs over the {words}, wanted dim=-1"
    masked = [lambda s, mask=mask: mask(s.scores, s.may_attend) for mask in WAYS_TO_MASK]
    masked.append(lambda s: s.apply_mask(s.scores))  # or without a mask
    return [mistake(words, weights=lambda s, f=f: f(s).softmax(dim)) for f in masked]


def wrong_mask(words: str, change: Callable[[EncoderLayerSteps, Tensor], Tensor]) -> list[Mistake]:
    """Another mask, whichever way it is applied; a query that may attend to nothing may get zeros, too."""

    def zeros_instead_of_nan(s: EncoderLayerSteps) -> Tensor:
        return WAYS_TO_MASK[0](s.scores, change(s, s.may_attend)).softmax(-1).nan_to_num(0.0)

    masks = [lambda s, scores, mask=mask: mask(scores, change(s, s.may_attend)) for mask in WAYS_TO_MASK]
    return [
        *(mistake(words, apply_mask=mask) for mask in masks),
        mistake(words, weights=zeros_instead_of_nan),
    ]


def repeated_in_another_order(s: EncoderLayerSteps, may_attend: Tensor) -> Tensor:
    """All sequences' masks for head 0, then for head 1, …, where scores have those of sequence 0 first."""
    each = may_attend.expand(len(s.x), 1, *may_attend.shape[2:])
    return each.repeat(s.n_heads, 1, 1, 1).view(len(s.x), s.n_heads, *may_attend.shape[2:])


def repeated_sequence_by_sequence(s: EncoderLayerSteps, may_attend: Tensor) -> Tensor:
    """All masks of sequence 0, then of sequence 1, …, where scores have head 0 of all sequences first."""
    each = may_attend.expand(len(s.x), 1, *may_attend.shape[2:])[:, 0].repeat_interleave(s.n_heads, dim=0)
    return each.unflatten(0, (s.n_heads, len(s.x))).transpose(0, 1)


def rotated(
    s: EncoderLayerSteps, part: int, rotate: Callable, angles_in: torch.dtype, waves_in: torch.dtype
) -> Tensor:
    """Queries or keys (0, 1), rotated by their positions; of an odd width the last feature is left."""
    x = s.split(s.project(part))
    width = s.d_head // 2 * 2
    frequency = 10_000 ** (-torch.arange(0, width, 2, dtype=angles_in) / max(width, 1))
    angle = torch.arange(x.shape[-2], dtype=angles_in)[:, None] * frequency
    cos, sin = angle.cos().to(waves_in).double(), angle.sin().to(waves_in).double()
    return torch.cat([rotate(x[..., :width], cos, sin), x[..., width:]], dim=-1)


def rotary(rotate: Callable, angles_in: torch.dtype, waves_in: torch.dtype) -> Mistake:
    """Positions where PyTorch's layer has none, in one of the usual ways and formats."""
    return mistake(
        "queries and keys are rotated by their positions (RoPE), and PyTorch's layer knows no positions: "
        "to compare the rest, leave out the rotation",
        queries=lambda s: rotated(s, 0, rotate, angles_in, waves_in),
        keys=lambda s: rotated(s, 1, rotate, angles_in, waves_in),
    )


def wrong_norm(words: str, normalise: Callable[[Tensor, float], Tensor]) -> Mistake:
    """Both norms with another way to normalise: normalise(x, eps) without weight and bias."""
    return mistake(words, norm=norm_that(normalise))


def norm_that(normalise: Callable[[Tensor, float], Tensor]) -> Callable:
    """The method `norm` of the steps, with another way to normalise."""

    def norm(s: EncoderLayerSteps, norm: nn.LayerNorm, x: Tensor) -> Tensor:
        return normalise(x, norm.eps) * norm.weight + (0 if norm.bias is None else norm.bias)

    return norm


def wrong_norm_any_eps(words: str, normalise: Callable[[Tensor, float], Tensor]) -> list[Mistake]:
    """The same with the reference's eps, and with another one, which many implementations have."""
    others = [
        wrong_norm(
            f"{words}; eps is {name}, too, another one in the reference's", partial(_with_eps, normalise, eps)
        )
        for eps, name in EPS.items()
    ]
    return [wrong_norm(words, normalise), *others]


def _with_eps(normalise: Callable[[Tensor, float], Tensor], eps: float, x: Tensor, own: float) -> Tensor:
    if eps == own:
        raise RuntimeError("makes no sense: it is no other eps")
    return normalise(x, eps)


def standardise(x: Tensor, eps: float, *, dims: tuple[int, ...] = (-1,), unbiased: bool = False) -> Tensor:
    """(x − mean) / √(variance + eps)"""
    variance = x.var(dim=dims, keepdim=True, unbiased=unbiased)
    return (x - x.mean(dim=dims, keepdim=True)) / (variance + eps).sqrt()


def root_mean_square(x: Tensor, eps: float) -> Tensor:
    """x / √(mean of squares + eps)"""
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def root_mean_square_in_float32(x: Tensor, eps: float, *, divides: bool) -> Tensor:
    """The same, rounded as published code rounds: by a division, or by a product with the inverse root."""
    x = x.float()
    squared = x.square().mean(-1, keepdim=True) + eps
    return (x / squared.sqrt() if divides else x * squared.rsqrt()).double()


def norm_over(words: str, dims: tuple[int, ...]) -> Mistake:
    """Both norms over other axes than the features."""
    words = f"the norm runs over {words}; each token is normalised by itself, dim=-1"
    return wrong_norm(words, partial(standardise, dims=dims))


EPS = {1e-5: "1e-5", 1e-6: "1e-6", 1e-8: "1e-8 or smaller", 1e-12: "1e-8 or smaller"}
ACTIVATIONS = {
    "ReLU": F.relu,
    "GELU": F.gelu,
    "GELU's tanh approximation": partial(F.gelu, approximate="tanh"),
    "SiLU": F.silu,
}

MISTAKES = [
    mistake(
        "the norms stand elsewhere: pre-norm is x + sublayer(norm(x)), post-norm is norm(x + sublayer(x)); "
        "PyTorch's norm_first tells which",
        in_one_place=False,
        norm_first=lambda s: not s.layer.norm_first,
    ),
    # Projections and heads
    mistake(
        "the projections' weights are not transposed: nn.Linear computes x @ weight.T + bias",
        project=lambda s, part: (
            s.attention_input @ s.layer.self_attn.in_proj_weight.chunk(3)[part]
            + s.layer.self_attn.in_proj_bias.chunk(3)[part]
        ),
    ),
    projections_as("queries and keys (or the scores' axes)", (1, 0, 2)),
    projections_as("keys and values", (0, 2, 1)),
    projections_as("queries and values", (2, 1, 0)),
    mistake(
        "the heads are split by one reshape, which mixes positions with features: "
        "unflatten(-1, (n_heads, d_head)).transpose(1, 2)",
        split=lambda s, x: x.reshape(len(x), s.n_heads, x.shape[1], -1),
    ),
    mistake(
        "the heads are split and merged by one reshape each, which mix positions with features: "
        "unflatten(-1, (n_heads, d_head)).transpose(1, 2), and transpose(1, 2).flatten(-2)",
        split=lambda s, x: x.reshape(len(x), s.n_heads, x.shape[1], -1),
        merge=lambda s, heads: heads.reshape(len(heads), heads.shape[2], -1),
    ),
    mistake(
        "your projection holds each head's queries, keys and values together: PyTorch stacks all queries, "
        "then all keys, then all values; chunk(3, dim=-1) first",
        project=lambda s, part: s.project_all().unflatten(-1, (s.n_heads, 3, -1))[..., part, :].flatten(-2),
    ),
    mistake(
        "the keys are reshaped to (…, d_head, position), wanted transposed: keys.transpose(-2, -1)",
        scores=lambda s: s.queries @ s.keys.reshape(s.keys.mT.shape) / math.sqrt(s.d_head),
    ),
    mistake(
        "an activation follows the projections of queries, keys and values, which are linear",
        project=lambda s, part: EncoderLayerSteps.project(s, part).relu(),
    ),
    mistake(
        "an activation follows the projections, which are linear, the output projection as well",
        project=lambda s, part: EncoderLayerSteps.project(s, part).relu(),
        attention_output=lambda s: s.layer.self_attn.out_proj(s.merge(s.heads)).relu(),
    ),
    mistake(
        "an activation follows the projections, which are linear, and there is no output projection",
        project=lambda s, part: EncoderLayerSteps.project(s, part).relu(),
        attention_output=lambda s: s.merge(s.heads),
    ),
    # Scores and weights
    scores_times("not divided by √d_head", lambda s: 1),
    scores_times("divided by d_head, without the root", lambda s: 1 / s.d_head),
    scores_times(
        "divided by √d_model; each sums over the d_head features of one head",
        lambda s: 1 / math.sqrt(s.d_head * s.n_heads),
    ),
    scores_times(
        "divided by the root of the number of positions, wanted √d_head: the last axis",
        lambda s: 1 / math.sqrt(s.x.shape[1]),
    ),
    *(
        rotary(rotate, angles_in, waves_in)
        for rotate in (rotate_half_split, rotate_interleaved)
        for angles_in, waves_in in [
            (torch.float64, torch.float64),
            (torch.float64, torch.float32),
            (torch.float32, torch.float32),
        ]
    ),
    *softmax_over("queries", -2),
    *softmax_over("heads", 1),
    attention_along("the sequences of the batch: give nn.MultiheadAttention batch_first=True", axis=0),
    attention_along("the heads of each token: transpose(1, 2) first, so that positions stand last", axis=1),
    mistake("the mask is not used", apply_mask=lambda s, scores: scores),
    mistake(
        "a causal mask is at work, which nobody gave",
        apply_mask=lambda s, scores: WAYS_TO_MASK[0](
            EncoderLayerSteps.apply_mask(s, scores), causal_mask(scores.shape[-1])
        ),
    ),
    *wrong_mask(
        "the mask is inverted: True means may attend, and masked_fill wants ~may_attend",
        lambda _, may_attend: ~may_attend,
    ),
    *wrong_mask(
        "the mask hides rows, the queries, wanted columns, the keys: the last axis is the key's",
        lambda _, may_attend: may_attend.mT,
    ),
    *wrong_mask(
        "the mask hides rows, the queries, as well as columns, the keys",
        lambda _, may_attend: may_attend & may_attend.mT,
    ),
    *wrong_mask("the first sequence's mask is used for all", lambda _, may_attend: may_attend[:1]),
    *wrong_mask(
        "the mask of one sequence is used for another: where batch and heads share one axis, "
        "repeat masks with mask.repeat_interleave(n_heads, dim=0), not with mask.repeat(n_heads, 1, 1)",
        repeated_in_another_order,
    ),
    *wrong_mask(
        "the mask of one sequence is used for another: where heads and batch share one axis, heads first, "
        "repeat masks with mask.repeat(n_heads, 1, 1), not with mask.repeat_interleave(n_heads, dim=0)",
        repeated_sequence_by_sequence,
    ),
    mistake(
        "hidden scores are set to 0, which is no low score: set them to −inf before softmax",
        apply_mask=lambda s, scores: scores.masked_fill(~s.may_attend, 0.0),
    ),
    mistake(
        "the mask comes after softmax, so the rows no longer sum to 1: hide scores before it",
        weights=lambda s: s.scores.softmax(dim=-1) * s.may_attend,
    ),
    mistake(
        "the mask is added as numbers, so a visible key gains 1: use masked_fill(~may_attend, −inf)",
        apply_mask=lambda s, scores: scores + s.may_attend,
    ),
    # From the heads to the first norm
    mistake(
        "the heads are merged without moving them behind the positions: transpose(1, 2).flatten(-2)",
        merge=lambda s, heads: heads.reshape(len(heads), heads.shape[2], -1),
    ),
    mistake(
        "the heads are merged feature by feature, wanted head by head: transpose(1, 2).flatten(-2)",
        merge=lambda s, heads: heads.permute(0, 2, 3, 1).flatten(-2),
    ),
    mistake(
        "the output projection's weight is not transposed: nn.Linear computes x @ weight.T + bias",
        attention_output=lambda s: (
            s.merge(s.heads) @ s.layer.self_attn.out_proj.weight + s.layer.self_attn.out_proj.bias
        ),
    ),
    mistake("there is no output projection", attention_output=lambda s: s.merge(s.heads)),
    mistake(
        "the first residual is missing: x + attention(…)",
        residual_after_attention=lambda s: s.attention_output,
    ),
    mistake(
        "the first residual adds the normalised x, wanted x itself: in pre-norm the stream stays as it is",
        residual_after_attention=lambda s: s.attention_input + s.attention_output,
    ),
    mistake(
        "both residuals add the normalised stream, wanted the stream itself: x = norm(x) loses it; "
        "write x + attention(norm(x))",
        in_one_place=False,
        residual_after_attention=lambda s: s.attention_input + s.attention_output,
        residual_stream=lambda s: s.feed_forward_input,
    ),
    # Norms
    mistake("there are no norms at all", in_one_place=False, norm=lambda s, norm, x: x),
    mistake(
        "the norm is missing between attention and feed-forward",
        feed_forward_input=lambda s: s.residual_after_attention,
    ),
    mistake(
        "the two norms are swapped, or one module serves for both",
        norm=lambda s, norm, x: (s.layer.norm1 if norm is s.layer.norm2 else s.layer.norm2)(x),
    ),
    mistake("the first norm serves in both places", norm=lambda s, norm, x: s.layer.norm1(x)),
    mistake("the second norm serves in both places", norm=lambda s, norm, x: s.layer.norm2(x)),
    # Before those below, which a small eps makes alike.
    *(
        wrong_norm(
            f"eps is {words} in your layer norms, another one in the reference's; nn.LayerNorm takes 1e-5",
            lambda x, _, eps=eps: standardise(x, eps),
        )
        for eps, words in EPS.items()
    ),
    *wrong_norm_any_eps(
        "the norm divides by the unbiased variance (n − 1), the default of torch.var and torch.std",
        partial(standardise, unbiased=True),
    ),
    *wrong_norm_any_eps(
        "the norm takes the unbiased standard deviation and adds eps outside the root, "
        "as a well-known annotated implementation does",
        lambda x, eps: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps),
    ),
    *wrong_norm_any_eps(
        "the norm adds eps outside the root: it is x − mean, over √(variance + eps)",
        lambda x, eps: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, unbiased=False) + eps),
    ),
    *wrong_norm_any_eps("the norm does not subtract the mean: that is RMSNorm", root_mean_square),
    *wrong_norm_any_eps(
        "the norm does not subtract the mean: that is RMSNorm, computed in float32",
        partial(root_mean_square_in_float32, divides=False),
    ),
    *wrong_norm_any_eps(
        "the norm does not subtract the mean: that is RMSNorm, computed in float32 by a division",
        partial(root_mean_square_in_float32, divides=True),
    ),
    norm_over("the positions", (1,)),
    norm_over("positions and features at once", (1, 2)),
    norm_over("sequences and positions, as a batch norm does", (0, 1)),
    mistake(
        "the norm's weight and bias are not used",
        norm=lambda s, norm, x: F.layer_norm(x, x.shape[-1:], eps=norm.eps),
    ),
    # Feed-forward
    mistake(
        "the activation is missing: two linear maps in a row are one linear map",
        activated=lambda s: s.hidden,
    ),
    *(
        mistake(
            f"the activation is {name}, another one in PyTorch's layer"
            + " (whose default is ReLU)" * (name == "GELU"),
            activated=lambda s, function=function: function(s.hidden),
        )
        for name, function in ACTIVATIONS.items()
    ),
    mistake(
        "the vectors of padding are set to 0 after each half, which PyTorch's layer leaves as they come; "
        "harmless where nothing reads them",
        in_one_place=False,
        feed_forward_input=lambda s: (
            EncoderLayerSteps.feed_forward_input.func(s) * s.may_attend[:, 0, 0, :, None]
        ),
        output=lambda s: EncoderLayerSteps.output.func(s) * s.may_attend[:, 0, 0, :, None],
    ),
    # The second residual and the end
    mistake(
        "the second residual is missing: x + feed_forward(…)",
        residual_after_feed_forward=lambda s: s.feed_forward_output,
    ),
    mistake(
        "the second residual adds the layer's input, wanted what came out of the first half",
        residual_stream=lambda s: s.x,
    ),
    mistake(
        "the second residual adds the normalised stream, wanted the stream itself",
        residual_stream=lambda s: s.feed_forward_input,
    ),
    mistake("the norm at the end is missing", output=lambda s: s.residual_after_feed_forward),
    mistake(
        "there is a norm at the end; in pre-norm the stream leaves the layer as it is",
        output=lambda s: s.layer.norm2(s.residual_after_feed_forward),
    ),
]


def other_options(right: EncoderLayerSteps) -> Iterator[tuple[str, EncoderLayerSteps]]:
    """The steps of references that were made with two or more other options, or with other heads."""
    d_model, own_heads = right.n_heads * right.d_head, right.n_heads
    heads = sorted(divisors(d_model), key=lambda n: n != own_heads)  # the reference's own first
    orders = (right.norm_first, not right.norm_first)
    for n_heads, norm_first, activation, eps in product(heads, orders, (None, *ACTIVATIONS), (None, *EPS)):
        changes = [f"{n_heads} heads"] if n_heads != own_heads else []
        changes += [f"norm_first={norm_first}"] if norm_first != right.norm_first else []
        changes += [f"activation {activation}"] if activation else []
        changes += [f"eps {EPS[eps]}"] if eps else []
        members = {"norm_first": norm_first}
        if activation:
            function = ACTIVATIONS[activation]
            members["activated"] = cached_property(lambda s, function=function: function(s.hidden))
        if eps:
            members["norm"] = norm_that(lambda x, _, eps=eps: standardise(x, eps))
        steps = type("OtherOptions", (EncoderLayerSteps,), members)(right.layer, right.x, right.may_attend)
        steps.n_heads, steps.d_head = n_heads, d_model // n_heads
        if changes:
            yield f"your layer has other options than the reference: {', '.join(changes)}", steps


def divisors(number: int) -> list[int]:
    """1, …, the number itself: of d_model, every number of heads."""
    return [n for n in range(1, number + 1) if number % n == 0]
