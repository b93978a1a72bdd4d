"""Exercises of lesson 11."""

import math

import torch
from torch import nn

from transformer_course.checker import exercise
from transformer_course.checker.shared_modules import norm_by_hand
from transformer_lab.encoder_layer import EncoderLayer, PreNormEncoderLayer
from transformer_lab.feed_forward import FeedForward
from transformer_lab.multi_head_attention import MultiHeadAttention
from transformer_lab.roformer import ExpandingMultiHeadAttention, FeedForwardUnit, RoFormerEncoder
from transformer_lab.rotary_embedding import RotaryEmbedding

F = nn.functional

# ------------------------------------------------------------------------------------------------------ 11.1


@exercise(
    "11.1",
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


# ------------------------------------------------------------------------------------------------------ 11.2


@exercise(
    "11.2",
    "Write the block",
    returns=("output", "weights"),
    keyword_arguments=("may_attend",),
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


# ------------------------------------------------------------------------------------------------------ 11.3


@exercise(
    "11.3",
    "A projection that turns",
    difficulty=2,
    hints=[
        """`super().forward(x)` is the plain projection. What must stand in the last two axes when `rotary`
        gets it, and which axis of heads must be somewhere else?""",
        """Cut the features into heads, (batch, position, n_heads, d_head), and bring the heads in front of
        the positions. `rotary` turns row after row of each head.""",
        """Then go back the way you came: `transpose(1, 2)` once more, and `flatten(-2)`.""",
    ],
)
class TurnedLinear(nn.Linear):
    """A projection, d_model to d_model, that turns each head's slice of each token by its position."""

    def __init__(self, d_model, n_heads, rotary):
        """rotary: as your Rotary of 02.4, for n_heads heads: (…, position, d_head) → the same shape"""
        super().__init__(d_model, d_model)  # makes self.weight and self.bias
        self.n_heads, self.rotary = n_heads, rotary

    def forward(self, x):
        """(batch, position, d_model) → the same shape: projected, then turned, head by head.

        super().forward(x) is what nn.Linear returns.
        """
        raise NotImplementedError


class GivenRotary(RotaryEmbedding):
    """The rotary that a case plugs in."""

    def __repr__(self):
        return "…"


@TurnedLinear.cases
def TurnedLinear(normal):
    # The first has as many positions as heads: who turns by the head gets numbers, and no error.
    for batch, length, n_heads, d_head in [(2, 3, 3, 4), (5, 7, 2, 6), (2, 5, 3, 2), (1, 1, 1, 2)]:
        settings = {"d_model": n_heads * d_head, "n_heads": n_heads, "rotary": GivenRotary(d_head)}
        yield settings, {"x": normal(batch, length, n_heads * d_head)}


@TurnedLinear.specification
class TurnedLinear(nn.Linear):
    def __init__(self, d_model, n_heads, rotary):
        super().__init__(d_model, d_model)
        self.n_heads, self.rotary = n_heads, rotary

    def forward(self, x):
        d_head = len(self.bias) // self.n_heads
        result = torch.zeros(x.shape)
        for text in range(x.shape[0]):
            for head in range(self.n_heads):
                first = head * d_head
                features = range(first, first + d_head)
                rows = [
                    torch.stack([(self.weight[f] * token).sum() + self.bias[f] for f in features])
                    for token in x[text]
                ]
                turned = self.rotary(torch.stack(rows))  # one head of one text: (position, d_head)
                result[text, :, first : first + d_head] = turned
        return result


@TurnedLinear.solution
class TurnedLinear(nn.Linear):
    def __init__(self, d_model, n_heads, rotary):
        super().__init__(d_model, d_model)  # makes self.weight and self.bias
        self.n_heads, self.rotary = n_heads, rotary

    def forward(self, x):
        heads = super().forward(x).unflatten(-1, (self.n_heads, -1))
        turned = self.rotary(heads.transpose(1, 2))  # (batch, n_heads, position, d_head)
        return turned.transpose(1, 2).flatten(-2)


@TurnedLinear.alternative
class TurnedLinear(nn.Linear):
    def __init__(self, d_model, n_heads, rotary):
        super().__init__(d_model, d_model)
        self.heads, self.rotary = n_heads, rotary

    def forward(self, tokens):
        slices = F.linear(tokens, self.weight, self.bias).chunk(self.heads, dim=2)
        return torch.cat([self.rotary(each) for each in slices], dim=2)


# ------------------------------------------------------------------------------------------------------ 11.4


@exercise(
    "11.4",
    "Ask a block for its departures",
    difficulty=2,
    returns=("heads_cost", "looks_at_itself", "loses_x", "leaves_unnormalised"),
    hints=[
        """One block with 2 heads answers three of the four; a second one with 4 heads is needed for the
        first. `with torch.no_grad():` keeps gradients out.""",
        """A token's weight on itself stands on the diagonal of the last two axes:
        `weights.diagonal(dim1=-2, dim2=-1)`. With nothing to tell tokens apart it would be 1 / position.""",
        """Size says nothing about x: a norm behind may have set it. `F.cosine_similarity(…, dim=-1)` asks
        for the direction. And a norm's variance divides by d_model: `unbiased=False`.""",
    ],
)
def departures(make_block, x):
    """Ask a fresh block four questions. No case is a near miss; where to draw the line is yours to say.

    make_block(d_model, n_heads): builds a fresh block; block(x) gives (output, weights)
    x: (batch, position, d_model), random tokens; use 2 heads, or 2 and 4, with its d_model
    returns four, each True or False:
    heads_cost: does a block with more heads have more parameters?
    looks_at_itself: does a token give itself clearly more weight than an even share, on average?
    loses_x: does the output point nowhere near where x points, token by token?
    leaves_unnormalised: does any row of the output have a variance that no fresh layer norm leaves?
    """
    raise NotImplementedError


class Builder:
    """What a case hands in to build blocks with."""

    def __init__(self, name, build):
        self.name, self.build = name, build

    def __call__(self, d_model, n_heads):
        return self.build(d_model, n_heads).eval()

    def __repr__(self):
        return f"({self.name})"


class Ended(nn.Module):
    """A block with something else at its end."""

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
    """The paper's attention, side by side with x; a norm at the end."""

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
    """Each row of mean 0, all numbers together of variance 1: no row by itself."""

    def end(x):
        centred = x - x.mean(dim=-1, keepdim=True)
        return centred / centred.std(correction=0)

    return Ended(papers(d_model, n_heads), lambda x: end(x * 1.5 ** torch.arange(x.shape[1])[:, None]))


def halved(d_model, n_heads):
    """Each row smaller than a norm leaves it."""
    return Ended(papers(d_model, n_heads), lambda x: x / 2)


def centred(d_model, n_heads):
    """Each row of mean 0, and of any variance."""
    layer = papers(d_model, n_heads, PreNormEncoderLayer)
    return Ended(layer, lambda x: x - x.mean(dim=-1, keepdim=True))


BUILDERS = [
    Builder("the paper's layer", papers),
    Builder("the tutorial's block", RoFormerEncoder),
    Builder("the paper's layer, with full-width heads", with_wide_heads),
    Builder("the paper's layer, with a sum in queries and keys", with_sums_inside),
    Builder("the paper's layer, with a fusion for its first sum", with_fusion),
    Builder("a pre-norm layer", lambda d, h: papers(d, h, PreNormEncoderLayer)),
    Builder("the tutorial's block, started as a sum", started_as_sum),
    Builder("the paper's layer, its output normalised all together", normalised_together),
    Builder("a pre-norm layer, its rows centred", centred),
    Builder("the paper's layer, its output halved", halved),
]


@departures.cases
def departures(normal):
    for make_block in BUILDERS:
        yield {"make_block": make_block, "x": 2 * normal(2, 31, 64)}


@departures.specification
def departures(make_block, x):
    texts, length, d_model = x.shape
    two, four = make_block(d_model, 2), make_block(d_model, 4)
    with torch.no_grad():
        output, weights = two(x)
    sizes = [sum(p.numel() for p in block.parameters()) for block in (two, four)]
    own, cosines, variances = [], [], []
    for text in range(texts):
        for i in range(length):
            own += [weights[text, head, i, i].item() for head in range(weights.shape[1])]
            row, entered = output[text, i], x[text, i]
            cosines.append(((row * entered).sum() / row.norm() / entered.norm()).item())
            mean = sum(row) / d_model
            variances.append((sum((number - mean) ** 2 for number in row) / d_model).item())
    return (
        sizes[1] > sizes[0],
        sum(own) / len(own) > 2 / length,
        sum(cosines) / len(cosines) < 0.5,
        any(abs(variance - 1) > 0.01 for variance in variances),
    )


@departures.solution
def departures(make_block, x):
    block, larger = (make_block(x.shape[-1], n_heads) for n_heads in (2, 4))
    few, many = (sum(p.numel() for p in each.parameters()) for each in (block, larger))
    with torch.no_grad():
        output, weights = block(x)
    own = weights.diagonal(dim1=-2, dim2=-1).mean()
    cosine = F.cosine_similarity(output, x, dim=-1).mean()
    off = (output.var(dim=-1, unbiased=False) - 1).abs().max()
    return many > few, bool(own > 2 / x.shape[1]), bool(cosine < 0.5), bool(off > 0.01)


@departures.alternative
def departures(build, tokens):
    blocks = [build(tokens.shape[-1], heads) for heads in (4, 2)]
    output, weights = blocks[1](tokens)
    more, fewer = (sum(p.numel() for p in block.parameters()) for block in blocks)
    here = torch.eye(tokens.shape[1], dtype=torch.bool)
    unit, other = F.normalize(output, dim=-1), F.normalize(tokens, dim=-1)
    spread = output.std(dim=-1, correction=0)
    return [
        more != fewer,
        (weights[..., here].mean() > 2 * weights[..., ~here].mean()).item(),
        not (unit * other).sum(-1).mean() > 0.4,
        not torch.allclose(spread, torch.ones_like(spread), atol=0.01),
    ]


# ------------------------------------------------------------------------------------------------------ 11.5


@exercise(
    "11.5",
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


# ------------------------------------------------------------------------------------------------------ 11.6


@exercise(
    "11.6",
    "Where will a fresh head look? (stretch)",
    difficulty=3,
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


# ------------------------------------------------------------------------------------------------------ 11.7


@exercise(
    "11.7",
    "The whole bill",
    difficulty=2,
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
