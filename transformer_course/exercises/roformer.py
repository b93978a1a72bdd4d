"""Exercises of lesson 11."""

import math

import torch
from torch import nn

from transformer_course.checker import exercise
from transformer_lab.encoder_layer import EncoderLayer, PreNormEncoderLayer
from transformer_lab.feed_forward import FeedForward
from transformer_lab.multi_head_attention import MultiHeadAttention
from transformer_lab.roformer import ExpandingMultiHeadAttention, FeedForwardUnit, RoFormerEncoder
from transformer_lab.rotary_embedding import RotaryEmbedding

F = nn.functional


@exercise("11.1")
def fusion_weight(take, keep):
    """Return the W for which W [A ‖ x] = take ⊙ A + keep ⊙ x.

    take, keep: (d_model,): for each feature, how much of A and how much of x to add
    returns (d_model, 2 · d_model)
    """
    return torch.cat([torch.diag(take), torch.diag(keep)], dim=1)


@fusion_weight.cases
def fusion_weight_cases(normal):
    yield {"take": normal(3), "keep": normal(3)}
    yield {"take": normal(5), "keep": normal(5)}
    yield {"take": torch.ones(2), "keep": torch.ones(2)}  # the residual connection
    yield {"take": torch.tensor([2.0]), "keep": torch.tensor([3.0])}


@exercise("11.2", returns=("output", "weights"), keyword_arguments=("may_attend",))
class RoFormerBlock(nn.Module):
    """The tutorial's block, made of four given modules; the attention returns (output, weights)."""

    def __init__(self, norm, attention, feed_forward, output_projection):
        super().__init__()
        self.norm = norm
        self.attention = attention
        self.feed_forward = feed_forward
        self.output_projection = output_projection
        # yours:

    def forward(self, x, may_attend=None):
        """x: (batch, position, d_model). Pass may_attend to the attention as a keyword argument.

        returns the output (batch, position, d_model), and the attention weights
        """
        attended, weights = self.attention(self.norm(x), may_attend=may_attend)
        joined = torch.cat([attended, x], dim=-1)  # (batch, position, 2 · d_model)
        return self.output_projection(self.feed_forward(joined)), weights


class GivenNorm(nn.LayerNorm):
    """The norm that a case plugs in."""

    def __repr__(self):
        return "…"


class GivenAttention(ExpandingMultiHeadAttention):
    """The attention that a case plugs in."""

    def __repr__(self):
        return "…"


class GivenStack(nn.Sequential):
    """The feed-forward stack that a case plugs in."""

    def __repr__(self):
        return "…"


class GivenLinear(nn.Linear):
    """The output projection that a case plugs in."""

    def __repr__(self):
        return "…"


@RoFormerBlock.cases
def ro_former_block_cases(normal):
    for batch, length, n_heads, d_model in [(2, 5, 3, 4), (3, 7, 2, 6), (1, 1, 2, 4)]:
        parts = {
            "norm": GivenNorm(d_model, eps=0.1),
            "attention": GivenAttention(d_model, n_heads),
            "feed_forward": GivenStack(FeedForwardUnit(2 * d_model), FeedForwardUnit(2 * d_model)),
            "output_projection": GivenLinear(2 * d_model, d_model),
        }
        may_attend = torch.ones(batch, 1, 1, length, dtype=torch.bool)
        for text in range(batch):
            may_attend[text, ..., length - 1 - text :] = False
        given = {"x": 2 * normal(batch, length, d_model), "may_attend": may_attend}
        yield parts, given if length > 1 else {"x": given["x"]}


@exercise("11.3", difficulty=2)
class RotaryLinear(nn.Linear):
    """A linear layer from d_model to d_model features that rotates each head of its output by position."""

    def __init__(self, d_model, n_heads, rotary):
        """rotary: rotates one head, like your Rotary of 02.4: (…, position, d_head) → the same shape"""
        super().__init__(d_model, d_model)  # makes self.weight and self.bias
        self.n_heads, self.rotary = n_heads, rotary
        # yours:

    def forward(self, x):
        """(batch, position, d_model) → the same shape: project x, then rotate each head separately.

        super().forward(x) is the output of the plain nn.Linear.
        """
        heads = super().forward(x).unflatten(-1, (self.n_heads, -1))
        rotated = self.rotary(heads.transpose(1, 2))  # (batch, n_heads, position, d_head)
        return rotated.transpose(1, 2).flatten(-2)


class GivenRotary(RotaryEmbedding):
    """The rotary embedding that a case plugs in."""

    def __repr__(self):
        return "…"


@RotaryLinear.cases
def rotary_linear_cases(normal):
    # The first has as many positions as heads: rotating by the head index gives numbers, and no error.
    for batch, length, n_heads, d_head in [(2, 3, 3, 4), (5, 7, 2, 6), (2, 5, 3, 2), (1, 1, 1, 2)]:
        settings = {"d_model": n_heads * d_head, "n_heads": n_heads, "rotary": GivenRotary(d_head)}
        yield settings, {"x": normal(batch, length, n_heads * d_head)}


@exercise("11.4", difficulty=2, returns=("heads_cost", "attends_to_itself", "loses_x", "output_unnormalised"))
def find_differences(make_block, x):
    """Answer four questions about an untrained block. You choose the thresholds; no case is close to one.

    make_block(d_model, n_heads): builds an untrained block; block(x) returns (output, weights)
    x: (batch, position, d_model), random tokens; build blocks with its d_model, and with 2 and 4 heads
    returns four booleans:
    heads_cost: does a block with more heads have more parameters?
    attends_to_itself: is the mean weight of a token on itself clearly larger than 1 / number of tokens?
    loses_x: for each token, is the direction of the output far from the direction of x?
    output_unnormalised: does any output vector have a variance that an untrained layer norm never returns?
    """
    block, larger = (make_block(x.shape[-1], n_heads) for n_heads in (2, 4))
    few, many = (sum(p.numel() for p in each.parameters()) for each in (block, larger))
    with torch.no_grad():
        output, weights = block(x)
    own = weights.diagonal(dim1=-2, dim2=-1).mean()
    cosine = F.cosine_similarity(output, x, dim=-1).mean()
    off = (output.var(dim=-1, unbiased=False) - 1).abs().max()
    return many > few, bool(own > 2 / x.shape[1]), bool(cosine < 0.5), bool(off > 0.01)


class Builder:
    """A named function that builds blocks of one kind."""

    def __init__(self, name, build):
        self.name, self.build = name, build

    def __call__(self, d_model, n_heads):
        return self.build(d_model, n_heads).eval()

    def __repr__(self):
        return f"({self.name})"


class Ended(nn.Module):
    """A block with a further function applied to its output."""

    def __init__(self, block, end):
        super().__init__()
        self.block, self.end = block, end

    def forward(self, x):
        output, weights = self.block(x)
        return self.end(output), weights


def papers(d_model, n_heads, layer=EncoderLayer, attention=None):
    if attention is None:
        attention = MultiHeadAttention(d_model, n_heads, rotary=RotaryEmbedding(d_model // n_heads))
    return layer(attention, FeedForward(d_model, 2 * d_model), nn.LayerNorm(d_model), nn.LayerNorm(d_model))


def with_wide_heads(d_model, n_heads):
    attention = ExpandingMultiHeadAttention(d_model, n_heads)
    for head in attention.heads:
        head.to_query, head.to_key = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
    return papers(d_model, n_heads, attention=attention)


class WideInOne(nn.Module):
    """Full-width heads with their projections in one Linear: more heads, larger tensors, not more tensors."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.projections = nn.Linear(d_model, 3 * n_heads * d_model)
        with torch.no_grad():
            self.projections.weight /= 2  # so that attention is even, whatever was drawn
        self.output_projection = nn.Linear(n_heads * d_model, d_model)

    def forward(self, x, **options):
        heads = self.projections(x).unflatten(-1, (3 * self.n_heads, -1)).transpose(1, 2)
        query, key, value = heads.chunk(3, dim=1)
        weights = (query @ key.mT / math.sqrt(x.shape[-1])).softmax(dim=-1)
        return self.output_projection((weights @ value).transpose(1, 2).flatten(-2)), weights


def with_sums_inside(d_model, n_heads):
    layer = papers(d_model, n_heads)
    with torch.no_grad():
        for each in (layer.attention.query_projection, layer.attention.key_projection):
            each.weight += torch.eye(d_model)
    return layer


def with_fusion(d_model, n_heads):
    layer = papers(d_model, n_heads)
    return Fused(layer.attention, nn.Linear(2 * d_model, d_model), nn.LayerNorm(d_model))


class Fused(nn.Module):
    """The paper's attention, concatenated with x; a norm at the end."""

    def __init__(self, attention, fusion, norm):
        super().__init__()
        self.attention, self.fusion, self.norm = attention, fusion, norm

    def forward(self, x):
        attended, weights = self.attention(x)
        return self.norm(self.fusion(torch.cat([attended, x], dim=-1))), weights


def started_as_sum(d_model, n_heads):
    block = RoFormerEncoder(d_model, n_heads)
    both = torch.eye(d_model).repeat(1, 2)
    with torch.no_grad():
        block.output_projection.weight.copy_(both)
    return block


def normalised_together(d_model, n_heads):
    """Each row has mean 0, and all values together have variance 1, but no single row has."""

    def end(x):
        centred = x - x.mean(dim=-1, keepdim=True)
        return centred / centred.std(correction=0)

    return Ended(papers(d_model, n_heads), lambda x: end(x * 1.5 ** torch.arange(x.shape[1])[:, None]))


def halved(d_model, n_heads):
    """Each row has a smaller variance than after a norm."""
    return Ended(papers(d_model, n_heads), lambda x: x / 2)


def centred(d_model, n_heads):
    """Each row has mean 0, and any variance."""
    layer = papers(d_model, n_heads, PreNormEncoderLayer)
    return Ended(layer, lambda x: x - x.mean(dim=-1, keepdim=True))


BUILDERS = [
    Builder("the paper's layer", papers),
    Builder("the tutorial's block", RoFormerEncoder),
    Builder("the paper's layer, with full-width heads", with_wide_heads),
    Builder("the paper's layer, with a residual connection in queries and keys", with_sums_inside),
    Builder("the paper's layer, with a fusion instead of its first residual connection", with_fusion),
    Builder("a pre-norm layer", lambda d, h: papers(d, h, PreNormEncoderLayer)),
    Builder("the tutorial's block, initialised as a residual connection", started_as_sum),
    Builder("the paper's layer, its output normalised as a whole", normalised_together),
    Builder("a pre-norm layer, its rows centred", centred),
    Builder("the paper's layer, its output halved", halved),
    Builder(
        "the paper's layer, with full-width heads in one Linear",
        lambda d, h: papers(d, h, attention=WideInOne(d, h)),
    ),
]


@find_differences.cases
def find_differences_cases(normal):
    for make_block in BUILDERS:
        yield {"make_block": make_block, "x": 2 * normal(2, 31, 64)}


@exercise("11.5")
def to_may_attend(mask):
    """Convert the tutorial's mask, numbers with 0 = hidden and 1 = visible, to this course's convention.

    mask: (query_pos, key_pos), the same for the whole batch, or (batch, query_pos, key_pos)
    returns a boolean mask (1 or batch, 1, query_pos, key_pos), True = may attend
    """
    visible = mask.bool()
    return visible[None, None] if mask.dim() == 2 else visible[:, None]


@to_may_attend.cases
def to_may_attend_cases(normal):
    yield {"mask": (normal(3, 5) > 0).long()}
    yield {"mask": (normal(2, 3, 5) > 0).long()}
    yield {"mask": (normal(3, 3, 3) > 0).double()}  # as many texts as queries and keys
    yield {"mask": torch.tensor([[[1, 0, 1]]])}  # one text, one query


@exercise("11.6", difficulty=3)
def weight_on_itself(d_model, n_tokens, variance):
    """Predict the attention weight of a token on itself, if queries and keys are the tokens' own vectors.

    The features are independent and normal, with mean 0 and the given variance. Use averages: for the
    token's score with itself, the mean of the score; for each other token, the mean of e^score. If s is
    normal with mean 0 and variance v, the mean of e^s is e^(v / 2).
    d_model: features of a token; n_tokens: the number of tokens, at least two, including this one
    returns a float: own / (own + sum over all other tokens)
    """
    own = math.exp(variance * math.sqrt(d_model))  # d_model · variance / √d_model
    other = math.exp(variance**2 / 2)
    return own / (own + (n_tokens - 1) * other)


@weight_on_itself.cases
def weight_on_itself_cases(normal):
    for d_model, n_tokens, variance in [
        (7, 5, 0.7),
        (64, 32, 1 / 3),
        (512, 32, 1 / 3),
        (11, 3, 1.3),
        (4, 2, 0.5),
    ]:
        yield {"d_model": d_model, "n_tokens": n_tokens, "variance": variance}


@exercise("11.7", difficulty=2, returns=("attention", "feed_forward", "rest"))
def parameters(d_model, n_heads, ffn_layers, expansion):
    """Count the parameters of the tutorial's encoder. Every Linear has a bias, and no unit is shared.

    expansion: an integer; the hidden layer of every unit of width d has expansion · d features
    returns three ints:
    attention: the heads (three units each, for queries, keys and values), and the two Linear around them
    feed_forward: the `ffn_layers` units that are applied to [A ‖ x], each of width 2 · d_model
    rest: the norm before the attention, and the fusion (the last Linear)
    """

    def linear(wide_in, wide_out):
        return wide_in * wide_out + wide_out

    def unit(d):
        return 2 * d + linear(d, expansion * d) + 1 + linear(expansion * d, d)

    around = linear(d_model, n_heads * d_model) + linear(n_heads * d_model, d_model)
    attention = n_heads * 3 * unit(d_model) + around
    return attention, ffn_layers * unit(2 * d_model), 2 * d_model + linear(2 * d_model, d_model)


@parameters.cases
def parameters_cases(normal):
    for d_model, n_heads, layers, expansion in [(6, 3, 2, 5), (10, 2, 3, 4), (512, 12, 4, 4), (2, 1, 1, 3)]:
        yield {"d_model": d_model, "n_heads": n_heads, "ffn_layers": layers, "expansion": expansion}
