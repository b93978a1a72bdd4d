"""Common mistakes in an encoder layer, each defined by the steps that it changes."""

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
    """A mistake: its description, and a subclass of the steps that contains it.

    in_one_place: whether its first effect identifies it. If not, only the output does: for example, a layer
    without its first norm starts like a layer with the other order of norms.
    """

    words: str
    wrong_steps: type[EncoderLayerSteps]
    in_one_place: bool = True

    def build(self, right: EncoderLayerSteps) -> EncoderLayerSteps | None:
        """Return the steps with the mistake; None if it is impossible, as a wrong mask without a mask is."""
        steps = self.wrong_steps(right.layer, right.x, right.may_attend)
        try:
            _ = steps.output
        except (AttributeError, RuntimeError, TypeError):
            return None
        return steps


def mistake(words: str, *, in_one_place: bool = True, **changes: Callable) -> Mistake:
    """Return a mistake that replaces steps, or methods of the steps."""
    properties = {*STEPS, "norm_first", "residual_stream"}
    members = {name: cached_property(f) if name in properties else f for name, f in changes.items()}
    return Mistake(words, type("WrongSteps", (EncoderLayerSteps,), members), in_one_place)


def projections_as(words: str, order: tuple[int, int, int]) -> Mistake:
    """Return the mistake of projections (0: query, 1: key, 2: value) in another order."""
    return mistake(
        f"{words} are swapped: PyTorch stacks the projections in the order query, key, value",
        in_one_place=order[2] == 2,
        project=lambda s, part: EncoderLayerSteps.project(s, order[part]),
    )


def scores_times(words: str, factor: Callable[[EncoderLayerSteps], float]) -> Mistake:
    """Return the mistake of scores that are multiplied by another factor than 1 / √d_head."""
    return mistake(f"the scores are {words}", scores=lambda s: s.queries @ s.keys.mT * factor(s))


def attention_along(words: str, axis: int) -> Mistake:
    """Return the mistake of attention over another axis than the positions, without a mask."""
    return mistake(
        f"attention runs along the wrong axis, {words}",
        scores=lambda s: s.queries.transpose(axis, 2) @ s.keys.transpose(axis, 2).mT / math.sqrt(s.d_head),
        weights=lambda s: s.scores.softmax(-1),
        heads=lambda s: (s.weights @ s.values.transpose(axis, 2)).transpose(axis, 2),
    )


# Common ways to apply a mask. They differ for a query that may attend to no key.
WAYS_TO_MASK = [
    lambda scores, may_attend: scores.masked_fill(~may_attend, -math.inf),
    lambda scores, may_attend: scores.masked_fill(~may_attend, -1e9),
    lambda scores, may_attend: scores - 1e9 * ~may_attend,
    lambda scores, may_attend: scores - 1e4 * ~may_attend,
]


def softmax_over(words: str, dim: int) -> list[Mistake]:
    """Return the mistakes of a softmax over another axis than the keys, one per way to apply the mask."""
    words = f"softmax runs over the {words}, expected dim=-1"
    masked = [lambda s, mask=mask: mask(s.scores, s.may_attend) for mask in WAYS_TO_MASK]
    masked.append(lambda s: s.apply_mask(s.scores))  # also without a mask
    return [mistake(words, weights=lambda s, f=f: f(s).softmax(dim)) for f in masked]


def wrong_mask(words: str, change: Callable[[EncoderLayerSteps, Tensor], Tensor]) -> list[Mistake]:
    """Return the mistakes of another mask, one per way to apply it, including zeros instead of NaN."""

    def zeros_instead_of_nan(s: EncoderLayerSteps) -> Tensor:
        return WAYS_TO_MASK[0](s.scores, change(s, s.may_attend)).softmax(-1).nan_to_num(0.0)

    masks = [lambda s, scores, mask=mask: mask(scores, change(s, s.may_attend)) for mask in WAYS_TO_MASK]
    return [
        *(mistake(words, apply_mask=mask) for mask in masks),
        mistake(words, weights=zeros_instead_of_nan),
    ]


def repeated_in_another_order(s: EncoderLayerSteps, may_attend: Tensor) -> Tensor:
    """Return masks repeated head by head, for scores that are ordered sequence by sequence."""
    each = may_attend.expand(len(s.x), 1, *may_attend.shape[2:])
    return each.repeat(s.n_heads, 1, 1, 1).view(len(s.x), s.n_heads, *may_attend.shape[2:])


def repeated_sequence_by_sequence(s: EncoderLayerSteps, may_attend: Tensor) -> Tensor:
    """Return masks repeated sequence by sequence, for scores that are ordered head by head."""
    each = may_attend.expand(len(s.x), 1, *may_attend.shape[2:])[:, 0].repeat_interleave(s.n_heads, dim=0)
    return each.unflatten(0, (s.n_heads, len(s.x))).transpose(0, 1)


def rotated(
    s: EncoderLayerSteps, part: int, rotate: Callable, angles_in: torch.dtype, waves_in: torch.dtype
) -> Tensor:
    """Return queries or keys (0, 1) rotated by their positions, except the last feature if d_head is odd."""
    x = s.split(s.project(part))
    width = s.d_head // 2 * 2
    frequency = 10_000 ** (-torch.arange(0, width, 2, dtype=angles_in) / max(width, 1))
    angle = torch.arange(x.shape[-2], dtype=angles_in)[:, None] * frequency
    cos, sin = angle.cos().to(waves_in).double(), angle.sin().to(waves_in).double()
    return torch.cat([rotate(x[..., :width], cos, sin), x[..., width:]], dim=-1)


def rotary(rotate: Callable, angles_in: torch.dtype, waves_in: torch.dtype) -> Mistake:
    """Return the mistake of rotary positions, which PyTorch's layer does not have."""
    return mistake(
        "queries and keys are rotated by their positions (RoPE), but PyTorch's layer has no positions: "
        "to compare the rest, disable the rotation",
        queries=lambda s: rotated(s, 0, rotate, angles_in, waves_in),
        keys=lambda s: rotated(s, 1, rotate, angles_in, waves_in),
    )


def wrong_norm(words: str, normalise: Callable[[Tensor, float], Tensor]) -> Mistake:
    """Return the mistake of both norms computing normalise(x, eps), before weight and bias."""
    return mistake(words, norm=norm_that(normalise))


def norm_that(normalise: Callable[[Tensor, float], Tensor]) -> Callable:
    """Return a replacement for the method `norm` of the steps, with another normalisation."""

    def norm(s: EncoderLayerSteps, norm: nn.LayerNorm, x: Tensor) -> Tensor:
        return normalise(x, norm.eps) * norm.weight + (0 if norm.bias is None else norm.bias)

    return norm


def wrong_norm_any_eps(words: str, normalise: Callable[[Tensor, float], Tensor]) -> list[Mistake]:
    """Return wrong norms with the eps of the reference, and with other common values of eps."""
    others = [
        wrong_norm(
            f"{words}; in addition, eps is {name}, unlike in the reference",
            partial(_with_eps, normalise, eps),
        )
        for eps, name in EPS.items()
    ]
    return [wrong_norm(words, normalise), *others]


def _with_eps(normalise: Callable[[Tensor, float], Tensor], eps: float, x: Tensor, own: float) -> Tensor:
    if eps == own:
        raise RuntimeError("not a different eps")
    return normalise(x, eps)


def standardise(x: Tensor, eps: float, *, dims: tuple[int, ...] = (-1,), unbiased: bool = False) -> Tensor:
    """Return (x − mean) / √(variance + eps)."""
    variance = x.var(dim=dims, keepdim=True, unbiased=unbiased)
    return (x - x.mean(dim=dims, keepdim=True)) / (variance + eps).sqrt()


def root_mean_square(x: Tensor, eps: float) -> Tensor:
    """Return x / √(mean of squares + eps)."""
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def root_mean_square_in_float32(x: Tensor, eps: float, *, divides: bool) -> Tensor:
    """Return the same in float32, by a division or a product with the inverse root, as in published code."""
    x = x.float()
    squared = x.square().mean(-1, keepdim=True) + eps
    return (x / squared.sqrt() if divides else x * squared.rsqrt()).double()


def norm_over(words: str, dims: tuple[int, ...]) -> Mistake:
    """Return the mistake of both norms over other axes than the features."""
    words = f"the norm runs over {words}, expected the features of each token, dim=-1"
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
        "the norms are in other places: pre-norm is x + sublayer(norm(x)), post-norm norm(x + sublayer(x)); "
        "compare PyTorch's norm_first",
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
        "your projection stacks queries, keys and values head by head: PyTorch stacks all queries, then all "
        "keys, then all values; chunk(3, dim=-1) first",
        project=lambda s, part: s.project_all().unflatten(-1, (s.n_heads, 3, -1))[..., part, :].flatten(-2),
    ),
    mistake(
        "the keys are reshaped to (…, d_head, position), expected transposed: keys.transpose(-2, -1)",
        scores=lambda s: s.queries @ s.keys.reshape(s.keys.mT.shape) / math.sqrt(s.d_head),
    ),
    mistake(
        "an activation follows the projections of queries, keys and values, which are linear",
        project=lambda s, part: EncoderLayerSteps.project(s, part).relu(),
    ),
    mistake(
        "an activation follows the projections, which are linear, including the output projection",
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
    scores_times("divided by d_head, expected √d_head", lambda s: 1 / s.d_head),
    scores_times(
        "divided by √d_model, expected √d_head: each score is a sum over the d_head features of one head",
        lambda s: 1 / math.sqrt(s.d_head * s.n_heads),
    ),
    scores_times(
        "divided by the square root of the sequence length, expected √d_head: the size of the last axis",
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
    attention_along(
        "over the sequences of the batch: pass batch_first=True to nn.MultiheadAttention", axis=0
    ),
    attention_along(
        "over the heads of each token: transpose(1, 2) first, so that the position is axis 2", axis=1
    ),
    mistake("the mask is not used", apply_mask=lambda s, scores: scores),
    mistake(
        "a causal mask is applied, but no causal mask was given",
        apply_mask=lambda s, scores: WAYS_TO_MASK[0](
            EncoderLayerSteps.apply_mask(s, scores), causal_mask(scores.shape[-1])
        ),
    ),
    *wrong_mask(
        "the mask is inverted: True means may attend, but masked_fill fills where True: use ~may_attend",
        lambda _, may_attend: ~may_attend,
    ),
    *wrong_mask(
        "the mask hides queries (rows), expected keys (columns): the last axis is the key axis",
        lambda _, may_attend: may_attend.mT,
    ),
    *wrong_mask(
        "the mask hides queries (rows) as well as keys (columns)",
        lambda _, may_attend: may_attend & may_attend.mT,
    ),
    *wrong_mask("the mask of the first sequence is used for all", lambda _, may_attend: may_attend[:1]),
    *wrong_mask(
        "the mask of one sequence is used for another: if batch and heads are merged into one axis, "
        "repeat masks with mask.repeat_interleave(n_heads, dim=0), not with mask.repeat(n_heads, 1, 1)",
        repeated_in_another_order,
    ),
    *wrong_mask(
        "the mask of one sequence is used for another: if heads and batch are merged, heads first, "
        "repeat masks with mask.repeat(n_heads, 1, 1), not with mask.repeat_interleave(n_heads, dim=0)",
        repeated_sequence_by_sequence,
    ),
    mistake(
        "hidden scores are set to 0, which is not a low score: set them to −inf before the softmax",
        apply_mask=lambda s, scores: scores.masked_fill(~s.may_attend, 0.0),
    ),
    mistake(
        "the mask is applied after the softmax, so the rows no longer sum to 1: mask the scores before it",
        weights=lambda s: s.scores.softmax(dim=-1) * s.may_attend,
    ),
    mistake(
        "the mask is added as 0 and 1, so a visible key gains 1: use masked_fill(~may_attend, −inf)",
        apply_mask=lambda s, scores: scores + s.may_attend,
    ),
    # From the heads to the first norm
    mistake(
        "the heads are merged without swapping heads and positions: transpose(1, 2).flatten(-2)",
        merge=lambda s, heads: heads.reshape(len(heads), heads.shape[2], -1),
    ),
    mistake(
        "the heads are merged feature by feature, expected head by head: transpose(1, 2).flatten(-2)",
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
        "the first residual connection is missing: x + attention(…)",
        residual_after_attention=lambda s: s.attention_output,
    ),
    mistake(
        "the first residual connection adds the normalised x, expected x itself, as in pre-norm",
        residual_after_attention=lambda s: s.attention_input + s.attention_output,
    ),
    mistake(
        "both residual connections add the normalised stream, expected the stream itself: x = norm(x) "
        "overwrites it; write x + attention(norm(x))",
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
        "the two norms are swapped, or one module is used for both",
        norm=lambda s, norm, x: (s.layer.norm1 if norm is s.layer.norm2 else s.layer.norm2)(x),
    ),
    mistake("the first norm is used in both places", norm=lambda s, norm, x: s.layer.norm1(x)),
    mistake("the second norm is used in both places", norm=lambda s, norm, x: s.layer.norm2(x)),
    # Before the mistakes below, from which they are indistinguishable with a small eps.
    *(
        wrong_norm(
            f"eps is {words} in your layer norms, unlike in the reference; nn.LayerNorm's default is 1e-5",
            lambda x, _, eps=eps: standardise(x, eps),
        )
        for eps, words in EPS.items()
    ),
    *wrong_norm_any_eps(
        "the norm divides by the unbiased variance (n − 1), the default of torch.var and torch.std",
        partial(standardise, unbiased=True),
    ),
    *wrong_norm_any_eps(
        "the norm divides by the unbiased standard deviation plus eps, with eps outside the root, "
        "as a well-known annotated implementation does",
        lambda x, eps: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + eps),
    ),
    *wrong_norm_any_eps(
        "the norm adds eps outside the root, expected (x − mean) / √(variance + eps)",
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
    norm_over("sequences and positions, as in batch normalisation", (0, 1)),
    mistake(
        "the norm's weight and bias are not used",
        norm=lambda s, norm, x: F.layer_norm(x, x.shape[-1:], eps=norm.eps),
    ),
    # Feed-forward
    mistake(
        "the activation is missing: two linear layers in a row are one linear layer",
        activated=lambda s: s.hidden,
    ),
    *(
        mistake(
            f"the activation is {name}, unlike in PyTorch's layer"
            + " (whose default is ReLU)" * (name == "GELU"),
            activated=lambda s, function=function: function(s.hidden),
        )
        for name, function in ACTIVATIONS.items()
    ),
    mistake(
        "the vectors of padding tokens are set to 0 after each sublayer, unlike in PyTorch's layer; harmless "
        "if nothing depends on them",
        in_one_place=False,
        feed_forward_input=lambda s: (
            EncoderLayerSteps.feed_forward_input.func(s) * s.may_attend[:, 0, 0, :, None]
        ),
        output=lambda s: EncoderLayerSteps.output.func(s) * s.may_attend[:, 0, 0, :, None],
    ),
    # The second residual and the end
    mistake(
        "the second residual connection is missing: x + feed_forward(…)",
        residual_after_feed_forward=lambda s: s.feed_forward_output,
    ),
    mistake(
        "the second residual connection adds the layer's input, expected the first sublayer's output",
        residual_stream=lambda s: s.x,
    ),
    mistake(
        "the second residual connection adds the normalised stream, expected the stream itself",
        residual_stream=lambda s: s.feed_forward_input,
    ),
    mistake("the final norm is missing", output=lambda s: s.residual_after_feed_forward),
    mistake(
        "there is a final norm; in pre-norm the layer returns the residual stream without a norm",
        output=lambda s: s.layer.norm2(s.residual_after_feed_forward),
    ),
]


def other_options(right: EncoderLayerSteps) -> Iterator[tuple[str, EncoderLayerSteps]]:
    """Yield the steps of references with two or more other options, or with another number of heads."""
    d_model, own_heads = right.n_heads * right.d_head, right.n_heads
    heads = sorted(divisors(d_model), key=lambda n: n != own_heads)  # the reference's own number first
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
    """Return all divisors of a number: for d_model, all possible numbers of heads."""
    return [n for n in range(1, number + 1) if number % n == 0]
