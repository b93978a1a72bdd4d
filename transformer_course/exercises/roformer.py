"""Exercises of lesson 11."""

import math

import torch
from torch import nn

from transformer_course.checker import exercise
from transformer_course.checker.parts import norm_by_hand
from transformer_lab.roformer import ExpandingMultiHeadAttention, FeedForwardUnit

F = nn.functional

# ------------------------------------------------------------------------------------------------------ 11.1


@exercise(
    "11.1",
    "The fusion, from its numbers",
    hints=[
        """`torch.cat([first, second], dim=-1)` lays two tensors side by side on their last axis. Which of
        the two comes first here?""",
        """What you have then is 2 · d_model wide, and `weight` is as `nn.Linear` keeps it, (features out,
        features in): multiply by `weight.mT`, and add the bias.""",
    ],
)
def fuse(attended, x, weight, bias):
    """W [A ‖ x] + b: what attention brought and x, side by side, through one matrix.

    attended, x: (batch, position, d_model)
    weight: (d_model, 2 · d_model), as in an nn.Linear
    bias: (d_model,)
    returns (batch, position, d_model)
    """
    raise NotImplementedError


@fuse.cases
def fuse(normal):
    for batch, length, d_model in [(2, 3, 5), (3, 7, 2), (2, 2, 2), (1, 1, 3)]:
        yield {
            "attended": normal(batch, length, d_model),
            "x": normal(batch, length, d_model),
            "weight": normal(d_model, 2 * d_model),
            "bias": normal(d_model),
        }


@fuse.specification
def fuse(attended, x, weight, bias):
    batch, length, d_model = x.shape
    result = torch.zeros(batch, length, d_model)
    for b in range(batch):
        for position in range(length):
            for out in range(d_model):
                total = bias[out]
                for i in range(d_model):
                    total = total + weight[out, i] * attended[b, position, i]
                    total = total + weight[out, d_model + i] * x[b, position, i]
                result[b, position, out] = total
    return result


@fuse.solution
def fuse(attended, x, weight, bias):
    beside = torch.cat([attended, x], dim=-1)  # (batch, position, 2 · d_model)
    return beside @ weight.mT + bias


@fuse.alternative
def fuse(a, x, weight, bias):
    for_attended, for_x = weight.chunk(2, dim=-1)
    return F.linear(a, for_attended) + F.linear(x, for_x, bias)


# ------------------------------------------------------------------------------------------------------ 11.2


@exercise(
    "11.2",
    "A weight that chooses",
    hints=[
        """Row i of W makes feature i of the result. Which two numbers of that row are not
        zero, if only feature i of A and feature i of x count?""",
        """`torch.diag(v)` is a square matrix with v on its diagonal: a vector times it is scaled feature by
        feature. Two such squares stand side by side.""",
    ],
)
def choosing_weight(take, keep):
    """The W with W [A ‖ x] = take ⊙ A + keep ⊙ x: for each feature, how much of A and how much of x.

    take, keep: (d_model,)
    returns (d_model, 2 · d_model)
    """
    raise NotImplementedError


@choosing_weight.cases
def choosing_weight(normal):
    yield {"take": normal(3), "keep": normal(3)}
    yield {"take": normal(5), "keep": normal(5)}
    yield {"take": torch.ones(2), "keep": torch.ones(2)}  # the residual connection
    yield {"take": torch.tensor([2.0]), "keep": torch.tensor([3.0])}


@choosing_weight.specification
def choosing_weight(take, keep):
    d_model = len(take)
    weight = torch.zeros(d_model, 2 * d_model)
    for feature in range(d_model):
        weight[feature, feature] = take[feature]
        weight[feature, d_model + feature] = keep[feature]
    return weight


@choosing_weight.solution
def choosing_weight(take, keep):
    return torch.cat([torch.diag(take), torch.diag(keep)], dim=1)


@choosing_weight.alternative
def choosing_weight(take, keep):
    one = torch.eye(len(take))
    return torch.hstack([one * take, keep[:, None] * one])


# ------------------------------------------------------------------------------------------------------ 11.3


@exercise(
    "11.3",
    "The tutorial's masks, translated",
    hints=[
        """Two things are to be done: numbers become booleans, and missing axes are added. In which case does
        1 mean True?""",
        """`mask[None]` adds an axis in front, `mask[:, None]` one behind the first. Wanted are (batch or 1,
        1, query_pos, key_pos): which axes does a mask with two lack, and which one with three?""",
        """`mask.bool()`, then `[None, None]` if there are two axes and `[:, None]` if there are three.""",
    ],
)
def to_may_attend(mask):
    """From the tutorial's mask, numbers with 0 = hidden and 1 = visible, to this course's.

    mask: (query_pos, key_pos), the same for every text, or (batch, query_pos, key_pos)
    returns booleans (1, 1, query_pos, key_pos) or (batch, 1, query_pos, key_pos), True = may attend
    """
    raise NotImplementedError


@to_may_attend.cases
def to_may_attend(normal):
    yield {"mask": (normal(3, 5) > 0).long()}
    yield {"mask": (normal(2, 3, 5) > 0).long()}
    yield {"mask": (normal(3, 3, 3) > 0).double()}  # as many texts as queries and keys
    yield {"mask": torch.tensor([[[1, 0, 1]]])}  # one text, one query


@to_may_attend.specification
def to_may_attend(mask):
    texts = [mask] if len(mask.shape) == 2 else list(mask)
    rows, columns = mask.shape[-2:]
    result = torch.zeros(len(texts), 1, rows, columns, dtype=torch.bool)
    for b, text in enumerate(texts):
        for i in range(rows):
            for j in range(columns):
                result[b, 0, i, j] = bool(text[i, j] == 1)
    return result


@to_may_attend.solution
def to_may_attend(mask):
    visible = mask.bool()
    return visible[None, None] if mask.dim() == 2 else visible[:, None]


@to_may_attend.alternative
def to_may_attend(mask):
    return (mask != 0).reshape(-1, 1, mask.shape[-2], mask.shape[-1])


# ------------------------------------------------------------------------------------------------------ 11.4


@exercise(
    "11.4",
    "Write the block",
    returns=("output", "weights"),
    by_name=("may_attend",),
    hints=[
        """Four steps: attend, lay beside, feed forward, map back. What does attention get, and what is laid
        beside its result?""",
        """`attended, weights = self.attention(self.norm(x), may_attend=may_attend)`; the norm is for the
        attention alone. Beside its result comes x itself.""",
        """`self.feed_forward` takes 2 · d_model features and returns as many; `self.output_projection` brings
        them back to d_model. Nothing is added to x.""",
    ],
)
class RoFormerBlock(nn.Module):
    """The tutorial's block. All four parts are given; the attention returns (output, weights)."""

    def __init__(self, norm, attention, feed_forward, output_projection):
        super().__init__()
        self.norm = norm
        self.attention = attention
        self.feed_forward = feed_forward
        self.output_projection = output_projection

    def forward(self, x, may_attend=None):
        """x: (batch, position, d_model). Hand may_attend on to the attention, under the same name.

        returns output (batch, position, d_model), and the attention weights
        """
        raise NotImplementedError


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
    """The last map that a case plugs in."""

    def __repr__(self):
        return "…"


@RoFormerBlock.cases
def RoFormerBlock(normal):
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


class Parts(nn.Module):
    """The parts that every answer is given."""

    def __init__(self, norm, attention, feed_forward, output_projection):
        super().__init__()
        self.norm, self.attention = norm, attention
        self.feed_forward, self.output_projection = feed_forward, output_projection


@RoFormerBlock.specification
class RoFormerBlock(Parts):
    def forward(self, x, may_attend=None):
        calm = torch.stack([torch.stack([norm_by_hand(self.norm, token) for token in text]) for text in x])
        attended, weights = self.attention(calm, may_attend=may_attend)
        result = torch.zeros_like(x)
        weight, bias = self.output_projection.weight, self.output_projection.bias
        for text in range(x.shape[0]):
            for position in range(x.shape[1]):
                beside = torch.stack([*attended[text, position], *x[text, position]])
                for unit in self.feed_forward:
                    update = unit.feed_forward(norm_by_hand(unit.norm, beside))
                    beside = torch.stack([a + b for a, b in zip(beside, update, strict=True)])
                for out in range(x.shape[2]):
                    products = [w * number for w, number in zip(weight[out], beside, strict=True)]
                    result[text, position, out] = sum(products) + bias[out]
        return result, weights


@RoFormerBlock.solution
class RoFormerBlock(nn.Module):
    def __init__(self, norm, attention, feed_forward, output_projection):
        super().__init__()
        self.norm = norm
        self.attention = attention
        self.feed_forward = feed_forward
        self.output_projection = output_projection

    def forward(self, x, may_attend=None):
        attended, weights = self.attention(self.norm(x), may_attend=may_attend)
        beside = torch.cat([attended, x], dim=-1)  # (batch, position, 2 · d_model)
        return self.output_projection(self.feed_forward(beside)), weights


@RoFormerBlock.alternative
class RoFormerBlock(Parts):
    def forward(self, stream, **options):
        results = self.attention(query=self.norm(stream), **options)
        wide = torch.stack([results[0], stream], dim=-2).flatten(-2)
        for unit in self.feed_forward:
            wide = unit(wide)
        return [wide @ self.output_projection.weight.mT + self.output_projection.bias, results[1]]


# ------------------------------------------------------------------------------------------------------ 11.5


@exercise(
    "11.5",
    "The whole bill",
    returns=("attention", "feed_forward", "rest"),
    hints=[
        """Begin with one unit of width d: a norm (2 · d numbers), a `Linear` up to expansion · d, one number
        for PReLU, a `Linear` down. An `nn.Linear(a, b)` has a·b weights and b biases.""",
        """Each head has three stacks of one unit each, all of width d_model. Around the heads there are two
        `Linear`: d_model → n_heads · d_model and back.""",
        """The stack of the block is twice as wide: its units have width 2 · d_model. The rest is the norm in
        front and the last `Linear`, 2 · d_model → d_model.""",
    ],
)
def parameters(d_model, n_heads, ffn_layers, expansion):
    """Count the trained numbers of the tutorial's encoder; every Linear has a bias, no unit is shared.

    expansion: an integer; every unit of width d has expansion · d features in between
    returns three ints:
    attention: the heads (each: three units, for queries, keys and values) and the two maps around them
    feed_forward: the `ffn_layers` units through which [A ‖ x] goes, each 2 · d_model wide
    rest: the norm in front, and the last Linear
    """
    raise NotImplementedError


@parameters.cases
def parameters(normal):
    for d_model, n_heads, layers, expansion in [(6, 3, 2, 5), (10, 2, 3, 4), (512, 12, 4, 4), (2, 1, 1, 3)]:
        yield {"d_model": d_model, "n_heads": n_heads, "ffn_layers": layers, "expansion": expansion}


@parameters.specification
def parameters(d_model, n_heads, ffn_layers, expansion):
    def unit(width):
        inner = expansion * width
        return [nn.LayerNorm(width), nn.Linear(width, inner), nn.PReLU(), nn.Linear(inner, width)]

    with torch.device("meta"):
        attention = [nn.Linear(d_model, n_heads * d_model), nn.Linear(n_heads * d_model, d_model)]
        for _ in range(n_heads):
            for _ in ("query", "key", "value"):
                attention += unit(d_model)
        stack = [layer for _ in range(ffn_layers) for layer in unit(2 * d_model)]
        rest = [nn.LayerNorm(d_model), nn.Linear(2 * d_model, d_model)]
    return tuple(
        sum(p.numel() for each in part for p in each.parameters()) for part in (attention, stack, rest)
    )


@parameters.solution
def parameters(d_model, n_heads, ffn_layers, expansion):
    def linear(wide_in, wide_out):
        return wide_in * wide_out + wide_out

    def unit(d):
        return 2 * d + linear(d, expansion * d) + 1 + linear(expansion * d, d)

    around = linear(d_model, n_heads * d_model) + linear(n_heads * d_model, d_model)
    attention = n_heads * 3 * unit(d_model) + around
    return attention, ffn_layers * unit(2 * d_model), 2 * d_model + linear(2 * d_model, d_model)


@parameters.alternative
def parameters(d, h, n, e):
    small, wide = 2 * e * d**2 + (e + 3) * d + 1, 8 * e * d**2 + 2 * (e + 3) * d + 1
    return [h * (3 * small + 2 * d**2 + d) + d, n * wide, 2 * d**2 + 3 * d]


# ------------------------------------------------------------------------------------------------------ 11.6


@exercise(
    "11.6",
    "Where will a fresh head look? (stretch)",
    hints=[
        """Begin with a token's score on itself: the squares of d_model numbers, each `variance` on average,
        added up; then the root under it.""",
        """A score on another token has the mean 0 and, after the division, the variance `variance`². Softmax
        takes exponentials: the mean of e^s is e^(its variance / 2).""",
        """The weight is the token's own exponential, divided by it plus those of the n_tokens − 1 others.""",
    ],
)
def weight_on_itself(d_model, n_tokens, variance):
    """Predict the weight of a token on itself, if queries and keys are the tokens' vectors themselves.

    The features are independent normal numbers of mean 0 and the given variance. Use averages:
    for the own score its mean; for each other token the mean of e^score. A normal number of
    mean 0 and variance v has e^(v / 2) as the mean of its exponentials.
    d_model: features of a token; n_tokens: how many there are, itself among them, at least two
    returns a float: own / (own + all others)
    """
    raise NotImplementedError


@weight_on_itself.cases
def weight_on_itself(normal):
    for d_model, n_tokens, variance in [
        (7, 5, 0.7),
        (64, 32, 1 / 3),
        (512, 32, 1 / 3),
        (11, 3, 1.3),
        (4, 2, 0.5),
    ]:
        yield {"d_model": d_model, "n_tokens": n_tokens, "variance": variance}


@weight_on_itself.specification
def weight_on_itself(d_model, n_tokens, variance):
    own_score = sum(variance for _ in range(d_model)) / math.sqrt(d_model)
    spread = sum(variance * variance for _ in range(d_model)) / d_model
    grown = [math.exp(own_score)] + [math.exp(spread / 2) for _ in range(n_tokens - 1)]
    return grown[0] / sum(grown)


@weight_on_itself.solution
def weight_on_itself(d_model, n_tokens, variance):
    own = math.exp(variance * math.sqrt(d_model))  # d_model · variance / √d_model
    other = math.exp(variance**2 / 2)
    return own / (own + (n_tokens - 1) * other)


@weight_on_itself.alternative
def weight_on_itself(d, n, v):
    return 1 / (1 + (n - 1) * math.exp(v * v / 2 - v * d**0.5))
