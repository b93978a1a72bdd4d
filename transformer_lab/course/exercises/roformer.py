"""Exercises of lesson 11: fusion, a weight that chooses, masks, the block, its bill, where a head looks."""

import math

import torch
from torch import nn

from transformer_lab.course.checker import exercise
from transformer_lab.course.checker.parts import norm_by_hand
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


def fused(attended, x, weight, bias):
    """The right answer."""
    return F.linear(torch.cat([attended, x], dim=-1), weight, bias)


fuse.mistake(
    "x in front",
    """You lay x first and attention's result second. Both are d_model wide, so nothing complains, but each
    half of the weight then meets the other one's features. `torch.cat([attended, x], dim=-1)`.""",
    lambda a, x, w, b: fused(x, a, w, b),
)

fuse.mistake(
    "added, not laid beside",
    """You add the two. Then nobody can tell them apart any more, and the matrix has nothing to choose from.
    Lay them side by side, `torch.cat([attended, x], dim=-1)`, and multiply by the weight.""",
    lambda a, x, w, b: a + x,
    lambda a, x, w, b: (a + x) @ w.mT + b,
    lambda a, x, w, b: F.linear(a + x, w, b),
)

fuse.mistake(
    "joined along another axis",
    """You join along texts or positions, or on a new axis in front: 0 is the default of `torch.cat`. Each
    token must get its own x beside it, on the last axis: `torch.cat([attended, x], dim=-1)`.""",
    lambda a, x, w, b: torch.stack([a, x]) @ w.mT + b,
    lambda a, x, w, b: torch.cat([a, x]) @ w.mT + b,
    lambda a, x, w, b: torch.cat([a, x], dim=1) @ w.mT + b,
    lambda a, x, w, b: F.linear(torch.cat([a, x]), w, b),
    lambda a, x, w, b: F.linear(torch.cat([a, x], dim=1), w, b),
)

fuse.mistake(
    "stacked, not joined",
    """`torch.stack` puts the two on a new axis. The matrix wants one row of 2 · d_model numbers for each
    token: `torch.cat([attended, x], dim=-1)`.""",
    lambda a, x, w, b: torch.stack([a, x], dim=-1) @ w.mT + b,
    lambda a, x, w, b: F.linear(torch.stack([a, x], dim=-1), w, b),
)

fuse.mistake(
    "features in turn",
    """You lay feature 0 of both first, then feature 1 of both. The weight's first d_model columns belong to
    attention, all of them, and the rest to x: `torch.cat([attended, x], dim=-1)`.""",
    lambda a, x, w, b: F.linear(torch.stack([a, x], dim=-1).flatten(-2), w, b),
)

fuse.mistake(
    "weight not transposed",
    """`nn.Linear` keeps its weight as (features out, features in). What stands on the left is 2 · d_model
    wide and must meet the features that go in: `@ weight.mT`.""",
    lambda a, x, w, b: torch.cat([a, x], dim=-1) @ w + b,
)

fuse.mistake(
    "bias forgotten",
    """The product is right and the bias is missing. A `Linear` is `x @ weight.mT + bias`.""",
    lambda a, x, w, b: F.linear(torch.cat([a, x], dim=-1), w),
)

fuse.mistake(
    "one of the two left out",
    """Only one half of the weight is used: what attention brought, or x, takes no part. In this block x has
    no other way to the next one. Multiply the whole of `torch.cat([attended, x], dim=-1)`.""",
    lambda a, x, w, b: F.linear(a, w[:, : a.shape[-1]], b),
    lambda a, x, w, b: F.linear(x, w[:, a.shape[-1] :], b),
)

fuse.mistake(
    "x added as well",
    """The fusion is right, and then you add x, or what attention brought. That is what everybody else's block
    does and what this one leaves out. Return the product and the bias, nothing more.""",
    lambda a, x, w, b: x + fused(a, x, w, b),
    lambda a, x, w, b: a + fused(a, x, w, b),
    lambda a, x, w, b: a + x + fused(a, x, w, b),
)

fuse.mistake(
    "a linear map of your own",
    """You make a new `nn.Linear` inside the function: it has other numbers at every call, and nothing can be
    learned or loaded. Use the weight and the bias that are handed in.""",
    lambda a, x, w, b: nn.Linear(2 * x.shape[-1], x.shape[-1])(torch.cat([a, x], dim=-1)),
)
fuse.mistake(
    "reshaped, not transposed",
    """You reshape the weight to make it fit. A reshape keeps the numbers in their order and cuts the rows
    elsewhere, so features in and out are mixed up. Turning it is `weight.mT`.""",
    lambda a, x, w, b: torch.cat([a, x], dim=-1) @ w.reshape(-1, len(w)) + b,
    lambda a, x, w, b: torch.cat([a, x], dim=-1) @ w.view(-1, len(w)) + b,
)

fuse.mistake(
    "bias twice",
    """You map the two halves one by one, which is right, and add the bias to each. It belongs to the sum,
    once.""",
    lambda a, x, w, b: F.linear(a, w[:, : a.shape[-1]], b) + F.linear(x, w[:, a.shape[-1] :], b),
)

fuse.mistake(
    "one half of the weight for both",
    """You use the same columns of the weight for attention's result and for x. The left half is for
    attention, the right half for x: that is how W can treat them differently.""",
    lambda a, x, w, b: F.linear(a + x, w[:, : a.shape[-1]], b),
    lambda a, x, w, b: F.linear(a + x, w[:, a.shape[-1] :], b),
)


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
    gradients=False,
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


def squares(first, second, dim=1):
    """Two diagonal matrices, joined."""
    return torch.cat([torch.diag(first), torch.diag(second)], dim=dim)


choosing_weight.mistake(
    "the halves exchanged",
    """Your left half scales x and your right half A. In [A ‖ x] attention comes first, so the left d_model
    columns of W are its own: `take` on the left, `keep` on the right.""",
    lambda take, keep: squares(keep, take),
)

choosing_weight.mistake(
    "one below the other",
    """Your squares stand one below the other: (2 · d_model, d_model). W has a row for each feature that
    comes out and a column for each that goes in: join them on axis 1.""",
    lambda take, keep: squares(take, keep, dim=0),
    lambda take, keep: squares(take, keep).mT,
    lambda take, keep: torch.vstack([torch.diag(take), torch.diag(keep)]),
)

choosing_weight.mistake(
    "a full square instead of a diagonal",
    """Your squares are full. Then each feature of the result is a sum over all features of A and of x. Only
    feature i may count for feature i: the numbers stand on a diagonal, `torch.diag(take)`.""",
    lambda take, keep: torch.cat([take.expand(len(take), -1), keep.expand(len(keep), -1)], dim=1),
    lambda take, keep: torch.cat([take, keep]).expand(len(take), -1),
    lambda take, keep: torch.cat(
        [take[:, None].expand(-1, len(take)), keep[:, None].expand(-1, len(keep))], dim=1
    ),
    lambda take, keep: torch.cat([torch.outer(take, take), torch.outer(keep, keep)], dim=1),
)

choosing_weight.mistake(
    "one long diagonal",
    """You put both vectors on one diagonal, (2 · d_model, 2 · d_model). That scales A and x, but leaves them
    side by side; nothing adds them up. Two squares side by side do: `torch.cat([…], dim=1)`.""",
    lambda take, keep: torch.diag(torch.cat([take, keep])),
    lambda take, keep: torch.block_diag(torch.diag(take), torch.diag(keep)),
)

choosing_weight.mistake(
    "vectors, not squares",
    """You join the vectors as they are. A weight needs a row for each feature that comes out. Make each
    vector the diagonal of a square, `torch.diag(take)`, and join the squares.""",
    lambda take, keep: torch.cat([take, keep]),
    lambda take, keep: torch.stack([take, keep]),
    lambda take, keep: torch.stack([take, keep], dim=1),
    lambda take, keep: torch.cat([take, keep])[None],
)

choosing_weight.mistake(
    "the plain sum",
    """That is [I I], the residual connection: it takes all of A and keeps all of x, whatever `take` and
    `keep` say. Put their numbers on the two diagonals in place of the ones.""",
    lambda take, keep: torch.cat([torch.eye(len(take))] * 2, dim=1),
)

choosing_weight.mistake(
    "x kept as it is",
    """Your right half is I: x goes through unscaled. `keep` says for each feature how much of x is to stay,
    and 0 means that it is forgotten: `torch.diag(keep)`.""",
    lambda take, keep: squares(take, torch.ones_like(keep)),
)

choosing_weight.mistake(
    "what is not taken is kept",
    """You keep 1 − take of x. Some gates are built like that; here the two are free, and both may be 1, as
    in a residual connection. The right half is `torch.diag(keep)`.""",
    lambda take, keep: squares(take, 1 - take),
)

choosing_weight.mistake(
    "columns in turn",
    """Your columns go A, x, A, x, … In [A ‖ x] all features of A come first, then all of x: two whole
    squares, one after the other.""",
    lambda take, keep: torch.stack([torch.diag(take), torch.diag(keep)], dim=-1).flatten(1),
)

choosing_weight.mistake(
    "squares added up",
    """You add the two squares: (d_model, d_model). That matrix would scale one thing by take + keep. A and x
    are two things, each with columns of its own: join the squares on axis 1.""",
    lambda take, keep: torch.diag(take) + torch.diag(keep),
    lambda take, keep: torch.diag(take + keep),
)
choosing_weight.mistake(
    "keep not used",
    """`keep` does not occur in your result: x is left out, or scaled by `take` too. The right half of W
    belongs to x: `torch.diag(keep)`.""",
    lambda take, keep: squares(take, torch.zeros_like(keep)),
    lambda take, keep: squares(take, take),
)

choosing_weight.mistake(
    "squares on a new axis",
    """Your two squares are right and lie one behind the other, (2, d_model, d_model). `torch.stack` and
    `diag_embed` make a new axis; `torch.cat([…], dim=1)` joins them side by side.""",
    lambda take, keep: torch.stack([torch.diag(take), torch.diag(keep)]),
    lambda take, keep: torch.diag_embed(torch.stack([take, keep])),
)


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


def four_axes(mask):
    """The right axes."""
    return mask[None, None] if mask.dim() == 2 else mask[:, None]


to_may_attend.mistake(
    "upside down",
    """True stands where the mask has 0. The tutorial hides the zeros, and so does this course with False: 1
    becomes True, `mask.bool()`. (The other way round is PyTorch's `key_padding_mask`.)""",
    lambda mask: four_axes(mask == 0),
    lambda mask: four_axes(~mask.bool()),
    lambda mask: four_axes(mask < 1),
)

to_may_attend.mistake(
    "still numbers",
    """The axes are right, and the entries are still numbers. A mask of numbers can be read in two ways, as
    visible or as something to add to scores, so the package refuses it: `mask.bool()`.""",
    lambda mask: four_axes(mask),
    lambda mask: four_axes(mask.double()),
    lambda mask: four_axes(mask.long()),
    lambda mask: four_axes(mask.int()),
    lambda mask: four_axes(mask.to(torch.uint8)),
)

to_may_attend.mistake(
    "something to add to the scores",
    """You make an additive mask, 0 and −∞ or a huge number. This course's masks are boolean: what becomes of
    a hidden score is the business of the attention. `mask.bool()` with the missing axes.""",
    lambda mask: four_axes(torch.zeros(mask.shape).masked_fill(mask == 0, -math.inf)),
    lambda mask: four_axes(torch.zeros(mask.shape).masked_fill(mask == 0, -1e9)),
    lambda mask: four_axes((1 - mask.double()) * -1e9),
)

to_may_attend.mistake(
    "no axes added",
    """The booleans are right; there are still two or three axes. Scores have four, (batch, heads, query_pos,
    key_pos), and PyTorch fits missing ones from the left: a text can become a head. Add them by hand.""",
    lambda mask: mask.bool(),
)

to_may_attend.mistake(
    "texts taken for heads",
    """With three axes you add one in front: (1, batch, query_pos, key_pos). Then the second axis, the texts,
    is read as heads. With as many heads as texts nobody complains. The missing axis is the second: `[:,
    None]`.""",
    lambda mask: mask.bool()[None, None] if mask.dim() == 2 else mask.bool()[None],
    lambda mask: mask.bool()[(None,) * (4 - mask.dim())],
)

to_may_attend.mistake(
    "the axis of the heads left out",
    """At least one of the two kinds of mask ends with three axes. Both need an axis of length
    1 for the heads: `[None, None]` with two axes, `[:, None]` with three.""",
    lambda mask: mask.bool()[None, None] if mask.dim() == 2 else mask.bool(),
    lambda mask: mask.bool()[None] if mask.dim() == 2 else mask.bool()[:, None],
    lambda mask: mask.bool()[None] if mask.dim() == 2 else mask.bool(),
)

to_may_attend.mistake(
    "two axes for every mask",
    """You add two axes in front in both cases, so that a mask with three gets five. With three axes the
    texts are there already, and only the heads are missing: `[:, None]`.""",
    lambda mask: mask.bool()[None, None],
    lambda mask: mask.bool().unsqueeze(0).unsqueeze(0),
)

to_may_attend.mistake(
    "one axis for every mask",
    """You add one axis in both cases, so that a mask with two gets three. A mask for every text lacks texts
    and heads: `[None, None]`.""",
    lambda mask: mask.bool()[:, None],
    lambda mask: mask.bool().unsqueeze(1),
    lambda mask: mask.bool()[None],
    lambda mask: mask.bool().unsqueeze(0),
)

to_may_attend.mistake(
    "rows taken for texts",
    """With two axes you read the first as the texts, (batch, 1, 1, key_pos). That is a padding mask. In this
    one the rows are queries: `[None, None]` puts both missing axes in front.""",
    lambda mask: mask.bool()[:, None, None] if mask.dim() == 2 else mask.bool()[:, None],
)

to_may_attend.mistake(
    "the axis of the heads in the wrong place",
    """The axes are (batch, heads, query_pos, key_pos), and yours has its 1 for the heads further back. The
    heads stand right behind the texts: `[:, None]`.""",
    lambda mask: mask.bool()[None, None] if mask.dim() == 2 else mask.bool()[:, :, None],
    lambda mask: mask.bool()[None, None] if mask.dim() == 2 else mask.bool()[..., None],
)

to_may_attend.mistake(
    "queries and keys exchanged",
    """You transpose the mask. Its rows are queries and its columns keys, as in the scores: only add axes,
    and leave those two as they are.""",
    lambda mask: four_axes(mask.bool()).mT,
)


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


class Steps(Parts):
    """The right answer, step by step: a mistake replaces one of them."""

    def forward(self, x, may_attend=None):
        attended, weights = self.attend(x, may_attend)
        return self.answer(self.back(self.join(attended, x), x), weights)

    def attend(self, x, may_attend):
        return self.attention(self.norm(x), may_attend=may_attend)

    def join(self, attended, x):
        return torch.cat([attended, x], dim=-1)

    def back(self, beside, x):
        return self.output_projection(self.feed_forward(beside))

    def answer(self, output, weights):
        return output, weights


def steps(**changed):
    """A class that takes some of the steps otherwise."""
    return type("Wrong", (Steps,), changed)


RoFormerBlock.mistake(
    "the norm laid beside",
    """You lay the normalised x beside attention's result, perhaps by overwriting the name: `x =
    self.norm(x)`. The norm is for the attention alone: the tutorial's code lays x itself beside the
    result.""",
    steps(join=lambda self, attended, x: torch.cat([attended, self.norm(x)], dim=-1)),
)

RoFormerBlock.mistake(
    "no norm in front",
    """Attention gets x as it is. Its scores then grow with the length of x, block after block. Give it
    `self.norm(x)`.""",
    steps(attend=lambda self, x, mask: self.attention(x, may_attend=mask)),
)

RoFormerBlock.mistake(
    "two inputs for the attention",
    """You hand two things to the attention, x and its norm. Then queries come from one, keys and values from
    the other. With one argument, `self.norm(x)`, the attention reads all three from it.""",
    steps(attend=lambda self, x, mask: self.attention(self.norm(x), x, may_attend=mask)),
    steps(attend=lambda self, x, mask: self.attention(x, self.norm(x), may_attend=mask)),
)

RoFormerBlock.mistake(
    "the norm behind the attention",
    """You normalise what attention brought, and it has read x unnormalised. The norm stands in front:
    `self.attention(self.norm(x), …)`.""",
    steps(
        attend=lambda self, x, mask: self.attention(x, may_attend=mask),
        join=lambda self, attended, x: torch.cat([self.norm(attended), x], dim=-1),
    ),
)

RoFormerBlock.mistake(
    "normalised once more",
    """The output goes through a norm at the end, as in a post-norm layer, or attention's result does. This
    block has one norm, in front of the attention.""",
    steps(back=lambda self, beside, x: self.norm(Steps.back(self, beside, x))),
    steps(join=lambda self, attended, x: torch.cat([self.norm(attended), x], dim=-1)),
)

RoFormerBlock.mistake(
    "x in front",
    """You lay x first and attention's result second. Both halves are d_model wide, so trained weights load
    and every shape fits; the numbers are another model's. `torch.cat([attended, x], dim=-1)`.""",
    steps(join=lambda self, attended, x: torch.cat([x, attended], dim=-1)),
)

RoFormerBlock.mistake(
    "the stack gets d_model features",
    """Your stack gets d_model features: the sum of attention's result and x, one of the two, or both after
    they have been mapped back. It wants both side by side, 2 · d_model wide: `torch.cat([attended, x],
    dim=-1)`, then the stack, then the map.""",
    steps(join=lambda self, attended, x: attended + x),
    steps(join=lambda self, attended, x: attended),
    steps(back=lambda self, beside, x: self.feed_forward(self.output_projection(beside))),
    steps(
        join=lambda self, attended, x: torch.cat([self.feed_forward(attended), x], dim=-1),
        back=lambda self, beside, x: self.output_projection(beside),
    ),
    steps(
        join=lambda self, attended, x: torch.cat([attended, self.feed_forward(x)], dim=-1),
        back=lambda self, beside, x: self.output_projection(beside),
    ),
)

RoFormerBlock.mistake(
    "features in turn",
    """You lay feature 0 of both first, then feature 1 of both. Attention's result comes first as a whole,
    and then x: `torch.cat([attended, x], dim=-1)`.""",
    steps(join=lambda self, attended, x: torch.stack([attended, x], dim=-1).flatten(-2)),
)

RoFormerBlock.mistake(
    "added and laid beside",
    """You add x to attention's result, and lay x beside the sum. That is two ways for x where the block has
    one. `torch.cat([attended, x], dim=-1)`.""",
    steps(join=lambda self, attended, x: torch.cat([attended + x, x], dim=-1)),
)

RoFormerBlock.mistake(
    "joined along another axis",
    """You join along texts or positions: 0 is the default of `torch.cat`. The stack wants 2 · d_model
    features for each token: `dim=-1`.""",
    steps(join=lambda self, attended, x: torch.cat([attended, x])),
    steps(join=lambda self, attended, x: torch.cat([attended, x], dim=1)),
)

RoFormerBlock.mistake(
    "the pair not unpacked",
    """The attention returns two things, output and weights, and you use the pair as if it were a tensor.
    `attended, weights = self.attention(…)`.""",
    steps(
        attend=lambda self, x, mask: (self.attention(self.norm(x), may_attend=mask), None),
    ),
    steps(
        attend=lambda self, x, mask: (self.attention(self.norm(x), may_attend=mask), None),
        join=lambda self, attended, x: attended + x,
    ),
)

RoFormerBlock.mistake(
    "x added at the end",
    """You add x to the result: a residual connection around the block. It would do the block good, as the
    lesson measures, but the tutorial's has none. Return the mapped features as they are.""",
    steps(back=lambda self, beside, x: x + Steps.back(self, beside, x)),
)

RoFormerBlock.mistake(
    "a sum around the stack",
    """You add the stack's input to its output. Each unit does that inside already, so everything that went
    in is there twice. `self.feed_forward(beside)` is enough.""",
    steps(back=lambda self, beside, x: self.output_projection(beside + self.feed_forward(beside))),
)

RoFormerBlock.mistake(
    "no feed-forward",
    """You map the two halves back at once and leave `feed_forward` out. Then nothing in the block computes
    with a token by itself. It stands between joining and mapping back.""",
    steps(back=lambda self, beside, x: self.output_projection(beside)),
)

RoFormerBlock.mistake(
    "the halves added up",
    """You bring 2 · d_model back to d_model by adding the halves. That is what W could do if it were [I I];
    but it is trained: `self.output_projection(…)`.""",
    steps(back=lambda self, beside, x: sum(self.feed_forward(beside).chunk(2, dim=-1))),
)

RoFormerBlock.mistake(
    "not mapped back",
    """Your output is 2 · d_model wide, so the next block could not take it. `output_projection` brings it
    back to d_model.""",
    steps(back=lambda self, beside, x: self.feed_forward(beside)),
)

RoFormerBlock.mistake(
    "the mask not handed on",
    """You call the attention without the mask, so real tokens look at padding, and no shape tells. Hand it
    on under its name: `may_attend=may_attend`.""",
    steps(attend=lambda self, x, mask: self.attention(self.norm(x))),
)

RoFormerBlock.mistake(
    "the mask upside down",
    """You turn the mask round. It comes as this course has it, True = may attend, and so the attention wants
    it: hand it on as it is.""",
    steps(attend=lambda self, x, mask: self.attention(self.norm(x), may_attend=~mask)),
    steps(attend=lambda self, x, mask: Steps.attend(self, x, mask if mask is None else ~mask)),
)

RoFormerBlock.mistake(
    "the mask as the key",
    """The attention's second argument is `key`, another text to read. The mask goes by its name:
    `may_attend=may_attend`.""",
    steps(attend=lambda self, x, mask: self.attention(self.norm(x), mask)),
)

RoFormerBlock.mistake(
    "only the output",
    """The output is right and the weights are missing. Whoever writes `x, weights = block(x)` with two texts
    gets one text in each name, and no error. `return output, weights`.""",
    steps(answer=lambda self, output, weights: output),
)

RoFormerBlock.mistake(
    "None for the weights",
    """The output is right, and the weights are `None`: you ask for none, `need_weights=False`, or throw them
    away. Return what the attention returns as its second result.""",
    steps(answer=lambda self, output, weights: (output, None)),
)

RoFormerBlock.mistake(
    "results in the wrong order",
    """Both results are right, in the wrong order. Return the output first: `return output, weights`.""",
    steps(answer=lambda self, output, weights: (weights, output)),
)


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
    attention: the heads with their stacks, and the two maps around them
    feed_forward: the stack behind the fusion
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


def unit_of(width, expansion, norm=2, bias=1, slope=1):
    """The numbers of one unit; the keywords leave something out."""
    inner = expansion * width
    return norm * width + 2 * width * inner + bias * (inner + width) + slope


def bill(d, h, n, e, *, stacks=3, expand=1, back=1, wide=2, last=1, front=1, **unit):
    """The right counts, with something changed."""
    bias = unit.get("bias", 1)
    attention = h * stacks * unit_of(d, e, **unit)
    attention += expand * (h * d * d + bias * h * d) + back * (h * d * d + bias * d)
    rest = front * 2 * d + last * (2 * d * d + bias * d)
    return attention, n * unit_of(wide * d, e, **unit), rest


def moved(counts, number, source, target):
    """The right counts, with a number of parameters moved from one part to another."""
    counts = list(counts)
    counts[source] -= number
    counts[target] += number
    return counts


parameters.mistake(
    "biases forgotten",
    """You count weights and leave out biases: every `Linear` has one more number for each feature that comes
    out of it.""",
    lambda d, h, n, e: bill(d, h, n, e, bias=0),
    lambda d, h, n, e: (bill(d, h, n, e, bias=0)[0], *bill(d, h, n, e)[1:]),
    lambda d, h, n, e: (bill(d, h, n, e)[0] - h * d - d, *bill(d, h, n, e)[1:]),
    lambda d, h, n, e: (*bill(d, h, n, e)[:2], bill(d, h, n, e, bias=0)[2]),
)

parameters.mistake(
    "the slopes forgotten",
    """You are off by one for each unit: PReLU's slope below zero is learned, one number in every unit.""",
    lambda d, h, n, e: bill(d, h, n, e, slope=0),
)

parameters.mistake(
    "a slope for each feature",
    """You give PReLU a slope for each feature in between. `nn.PReLU()` has one for all of them, and so has
    this encoder.""",
    lambda d, h, n, e: (
        bill(d, h, n, e)[0] + 3 * h * (e * d - 1),
        bill(d, h, n, e)[1] + n * (2 * e * d - 1),
        bill(d, h, n, e)[2],
    ),
)

parameters.mistake(
    "the norms of the units forgotten",
    """Every unit begins with a norm of its own: a weight and a bias for each of its features. Not all of
    these are in your attention and in your stack.""",
    lambda d, h, n, e: bill(d, h, n, e, norm=0),
    lambda d, h, n, e: bill(d, h, n, e, norm=1),
)

parameters.mistake(
    "norms and slopes forgotten",
    """You count the two `Linear` of a unit and leave out its norm and its PReLU: 2 · d + 1 more for each
    unit of width d.""",
    lambda d, h, n, e: bill(d, h, n, e, norm=0, slope=0),
)

parameters.mistake(
    "the stack as wide as the model",
    """Your stack has width d_model. It works on [A ‖ x], attention's result and x side by side: its units
    have width 2 · d_model, and four times as many weights.""",
    lambda d, h, n, e: bill(d, h, n, e, wide=1),
)

parameters.mistake(
    "two narrow units for a wide one",
    """You double a unit of width d_model. A unit of twice the width has twice as many features in and twice
    as many in between: its two matrices have four times as many weights.""",
    lambda d, h, n, e: (bill(d, h, n, e)[0], 2 * n * unit_of(d, e), bill(d, h, n, e)[2]),
)

parameters.mistake(
    "the stack too narrow inside",
    """In your stack a unit has expansion · d_model features in between. It reads 2 · d_model features, and
    expansion is meant of those: 2 · expansion · d_model.""",
    lambda d, h, n, e: (
        bill(d, h, n, e)[0],
        n * (4 * d + 4 * d * e * d + e * d + 2 * d + 1),
        bill(d, h, n, e)[2],
    ),
)

parameters.mistake(
    "the heads counted for every layer",
    """You multiply the heads by `ffn_layers`. That number is of the stack behind the fusion; the stacks in
    the heads have one unit each.""",
    lambda d, h, n, e: (
        n * 3 * h * unit_of(d, e) + bill(d, h, n, e, stacks=0)[0],
        *bill(d, h, n, e)[1:],
    ),
)

parameters.mistake(
    "one unit for all layers",
    """You count one unit, whatever `ffn_layers` says. That is `[unit] * n`, the bug of the tutorial's code:
    the same parameters n times. Here every unit is its own: times `ffn_layers`.""",
    lambda d, h, n, e: bill(d, h, 1, e),
)

parameters.mistake(
    "one stack in a head",
    """You count one stack for each head, or two. Queries, keys and values are made by three, each with
    parameters of its own.""",
    lambda d, h, n, e: bill(d, h, n, e, stacks=1),
    lambda d, h, n, e: bill(d, h, n, e, stacks=2),
)

parameters.mistake(
    "heads that share the features",
    """You make each head d_model / n_heads wide. Those are everybody else's heads. Here each one is as wide
    as the model: units of width d_model, n_heads times.""",
    lambda d, h, n, e: (
        3 * h * unit_of(d // h, e) + bill(d, h, n, e, stacks=0)[0],
        *bill(d, h, n, e)[1:],
    ),
)

parameters.mistake(
    "one head counted",
    """You count one head, however many there are. Each has three stacks of its own: times `n_heads`. (With
    cut heads the number would cancel out; these are not cut.)""",
    lambda d, h, n, e: (3 * unit_of(d, e) + bill(d, h, n, e, stacks=0)[0], *bill(d, h, n, e)[1:]),
)

parameters.mistake(
    "linear maps in the heads",
    """You count a plain `Linear` for queries, keys and values. In this encoder each is made by a unit, with
    a norm, a way up, PReLU and a way down.""",
    lambda d, h, n, e: (3 * h * (d * d + d) + bill(d, h, n, e, stacks=0)[0], *bill(d, h, n, e)[1:]),
)

parameters.mistake(
    "a map around the heads forgotten",
    """Two `Linear` stand around the heads: one makes n_heads copies of x, d_model → n_heads · d_model, and
    one brings their results back to d_model. At least one of them is missing.""",
    lambda d, h, n, e: bill(d, h, n, e, expand=0),
    lambda d, h, n, e: bill(d, h, n, e, back=0),
    lambda d, h, n, e: bill(d, h, n, e, expand=0, back=0),
)

parameters.mistake(
    "the maps around the heads in the rest",
    """The numbers are right, but you count the two `Linear` around the heads with the rest. They belong to
    the attention: one makes its copies of x, the other brings its heads together.""",
    lambda d, h, n, e: (
        bill(d, h, n, e, expand=0, back=0)[0],
        bill(d, h, n, e)[1],
        bill(d, h, n, e)[2] + bill(d, h, n, e, stacks=0)[0],
    ),
)

parameters.mistake(
    "the rest counted otherwise",
    """Attention and stack are right. The rest is the norm in front, 2 · d_model, and the last `Linear`, 2 ·
    d_model → d_model with its bias.""",
    lambda d, h, n, e: bill(d, h, n, e, front=0),
    lambda d, h, n, e: bill(d, h, n, e, last=0),
    lambda d, h, n, e: (*bill(d, h, n, e)[:2], 2 * d + d * d + d),
    lambda d, h, n, e: (*bill(d, h, n, e)[:2], 4 * d + 2 * d * d + d),
)

parameters.mistake(
    "the right total, divided otherwise",
    """The three numbers have the right sum, and something is counted in another part. `attention` is the
    heads with their stacks and the two maps around them, `feed_forward` the stack behind the fusion alone,
    `rest` the norm in front and the last `Linear`.""",
    lambda d, h, n, e: moved(bill(d, h, n, e), 2 * d, source=2, target=0),
    lambda d, h, n, e: moved(bill(d, h, n, e), 2 * d * d + d, source=2, target=1),
    lambda d, h, n, e: moved(bill(d, h, n, e), 3 * h * unit_of(d, e), source=0, target=1),
)

parameters.mistake(
    "results in the wrong order",
    """The numbers are right and stand in another order. Wanted are attention, feed_forward, rest.""",
    lambda d, h, n, e: [bill(d, h, n, e)[i] for i in (1, 0, 2)],
    lambda d, h, n, e: [bill(d, h, n, e)[i] for i in (2, 0, 1)],
    lambda d, h, n, e: [bill(d, h, n, e)[i] for i in (2, 1, 0)],
)

parameters.mistake(
    "one number",
    """You return a single total. Return the three parts, `attention, feed_forward, rest`: only then can you
    see where the parameters are.""",
    lambda d, h, n, e: sum(bill(d, h, n, e)),
)


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
        (4, 1, 0.5),
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


def share(own, other, others):
    """One exponential among equal others."""
    return 1 / (1 + others * math.exp(other - own))


weight_on_itself.mistake(
    "not scaled",
    """Your scores are not divided by √d_model: a token's own would be d_model · variance. Attention divides
    before the softmax, and the root is left: variance · √d_model.""",
    lambda d, n, v: share(v * d, v**2 / 2, n - 1),
    lambda d, n, v: share(v * d, d * v**2 / 2, n - 1),
)

weight_on_itself.mistake(
    "the others not scaled",
    """Your own score is right. The scores on others are divided by √d_model too: the variance of d_model
    products, d_model · variance², becomes variance².""",
    lambda d, n, v: share(v * math.sqrt(d), d * v**2 / 2, n - 1),
)

weight_on_itself.mistake(
    "divided by d_model",
    """You divide the scores by d_model. Attention divides by its root, so that a token's own score does not
    stay at `variance` but grows: variance · √d_model.""",
    lambda d, n, v: share(v, v**2 / 2, n - 1),
    lambda d, n, v: share(v, v**2 / (2 * d), n - 1),
)

weight_on_itself.mistake(
    "the others count one",
    """You take e⁰ = 1 for each other token. Their mean score is 0, but e^s is not 1 on average: what lies
    above gains more than what lies below loses. Take e^(variance² / 2).""",
    lambda d, n, v: share(v * math.sqrt(d), 0, n - 1),
)

weight_on_itself.mistake(
    "variance not squared",
    """For the other tokens you use `variance` where its square belongs. A product of two independent numbers
    has the product of their variances: e^(variance² / 2).""",
    lambda d, n, v: share(v * math.sqrt(d), v / 2, n - 1),
)

weight_on_itself.mistake(
    "the half forgotten",
    """For the other tokens you take e^(variance²). The mean of e^s is e to half the variance of s: a factor
    ½ is missing in the exponent.""",
    lambda d, n, v: share(v * math.sqrt(d), v**2, n - 1),
)

weight_on_itself.mistake(
    "variance squared in the own score",
    """A token's own score is a sum of squares x · x, and the mean of such a square is `variance` itself, not
    its square: variance · √d_model.""",
    lambda d, n, v: share(v**2 * math.sqrt(d), v**2 / 2, n - 1),
)

weight_on_itself.mistake(
    "a root taken of the variance",
    """You use the standard deviation, √variance, in the own score. The score multiplies each feature by
    itself, so its mean is the variance: variance · √d_model.""",
    lambda d, n, v: share(math.sqrt(v * d), v**2 / 2, n - 1),
)

weight_on_itself.mistake(
    "√ of the number of tokens",
    """You take the root of n_tokens. A score sums over features, and attention divides by the root of their
    number: variance · √d_model.""",
    lambda d, n, v: share(v * math.sqrt(n), v**2 / 2, n - 1),
    lambda d, n, v: share(v * d / math.sqrt(n), v**2 / 2, n - 1),
)

weight_on_itself.mistake(
    "variance left out",
    """You take √d_model for the own score, as if the features had variance 1. Each square is `variance` on
    average: variance · √d_model.""",
    lambda d, n, v: share(math.sqrt(d), v**2 / 2, n - 1),
    lambda d, n, v: share(math.sqrt(d), 1 / 2, n - 1),
)

weight_on_itself.mistake(
    "all tokens are others",
    """You count n_tokens others beside the token itself. There are n_tokens in all: n_tokens − 1 others.""",
    lambda d, n, v: share(v * math.sqrt(d), v**2 / 2, n),
)

weight_on_itself.mistake(
    "without itself in the sum",
    """You divide by the others alone. Softmax divides by the sum of all exponentials, the token's own
    included, or a weight could exceed 1.""",
    lambda d, n, v: math.exp(v * math.sqrt(d) - v**2 / 2) / (n - 1),
    lambda d, n, v: math.exp(v * math.sqrt(d) - v**2 / 2) / n,
)

weight_on_itself.mistake(
    "the own score averaged as the others",
    """For the token itself you also take the mean of e^score: its score has the variance 2 · variance², which
    gives a factor e^(variance²). The task asks for its mean score alone, and then e to that.""",
    lambda d, n, v: share(v * math.sqrt(d) + v**2, v**2 / 2, n - 1),
)

weight_on_itself.mistake(
    "scores without exponentials",
    """You divide the scores themselves. Softmax takes exponentials first: e^(variance · √d_model) for the
    token itself, e^(variance² / 2) for each other.""",
    lambda d, n, v: v * math.sqrt(d) / (v * math.sqrt(d) + (n - 1) * v**2 / 2),
    lambda d, n, v: v * math.sqrt(d) / (v * math.sqrt(d) + (n - 1) * math.exp(v**2 / 2)),
)

weight_on_itself.mistake(
    "the linear layer's answer",
    """That is 1 / n_tokens, what a head with unrelated queries and keys gives. Here queries and keys are the
    same vectors, and a token's score on itself is large: variance · √d_model.""",
    lambda d, n, v: 1 / n,
)
