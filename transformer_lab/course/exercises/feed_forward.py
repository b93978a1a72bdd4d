"""Exercises of lesson 06: the network, its bill, the gated kind, its width, a stack, its true size, bends."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from transformer_lab.course.checker import exercise

# ------------------------------------------------------------------------------------------------------ 06.1


@exercise(
    "06.1",
    "The network, from its numbers",
    without=("nn.Module",),
    hints=[
        """Three steps: up, bend, down. `nn.Linear` keeps its weight as (features out, features in), and
        computes `x @ weight.mT + bias`.""",
        """The bend is ReLU: what is negative becomes 0, `clamp(min=0)` or `torch.relu`. It stands between
        the two maps, and nowhere else.""",
    ],
)
def feed_forward(x, up_weight, up_bias, down_weight, down_bias):
    """Map every token by itself: linear up to d_ff features, ReLU, linear down again. No residual.

    x: (…, d_model)
    up_weight, up_bias: (d_ff, d_model) and (d_ff), as nn.Linear keeps them
    down_weight, down_bias: (d_model, d_ff) and (d_model)
    returns (…, d_model)
    """
    raise NotImplementedError


@feed_forward.cases
def feed_forward(normal):
    for leading, d_model, d_ff in [((5,), 3, 7), ((1, 3), 5, 11), ((7,), 3, 3), ((), 2, 3)]:  # one is square
        yield {
            "x": normal(*leading, d_model),
            "up_weight": normal(d_ff, d_model),
            "up_bias": normal(d_ff),
            "down_weight": normal(d_model, d_ff),
            "down_bias": normal(d_model),
        }


@feed_forward.specification
def feed_forward(x, up_weight, up_bias, down_weight, down_bias):
    d_ff, d_model = up_weight.shape
    rows = []
    for token in x.reshape(-1, d_model):
        hidden = []
        for neuron in range(d_ff):
            total = up_bias[neuron] + sum(up_weight[neuron, i] * token[i] for i in range(d_model))
            hidden.append(total if total > 0 else 0 * total)
        row = [
            down_bias[i] + sum(down_weight[i, neuron] * hidden[neuron] for neuron in range(d_ff))
            for i in range(d_model)
        ]
        rows.append(torch.stack(row))
    return torch.stack(rows).reshape(x.shape)


@feed_forward.solution
def feed_forward(x, up_weight, up_bias, down_weight, down_bias):
    hidden = (x @ up_weight.mT + up_bias).clamp(min=0)  # (…, d_ff)
    return hidden @ down_weight.mT + down_bias  # (…, d_model)


@feed_forward.alternative
def feed_forward(x, up_weight, up_bias, down_weight, down_bias):
    asked = torch.einsum("fi,...i->...f", up_weight, x) + up_bias
    hidden = torch.where(asked > 0, asked, 0.0)
    return F.linear(hidden, down_weight, down_bias)


feed_forward.mistake(
    "no activation",
    """You go up and down without a bend between. Two linear maps in a row are one linear map: all the
    features in between are wasted, and nothing new can be computed. `clamp(min=0)` after the first map.""",
    lambda x, u, b, d, c: (x @ u.mT + b) @ d.mT + c,
)

feed_forward.mistake(
    "activation after the second map",
    """Your bend comes at the end. Then the two maps before it are still one linear map, and the output can
    never be negative, so it can only add to a feature and never take away. The bend stands between the
    maps.""",
    lambda x, u, b, d, c: ((x @ u.mT + b) @ d.mT + c).relu(),
)

feed_forward.mistake(
    "activation after both maps",
    """Between the maps your ReLU is right; there is a second one at the end. It cuts off all that is
    negative in the output, so the network could only ever add. Leave the output as it comes.""",
    lambda x, u, b, d, c: ((x @ u.mT + b).relu() @ d.mT + c).relu(),
)

feed_forward.mistake(
    "activation on the input",
    """You bend x before the first map. That throws away what is negative in the token itself, and leaves
    the two maps one linear map. Bend what comes out of the first map.""",
    lambda x, u, b, d, c: (x.relu() @ u.mT + b) @ d.mT + c,
)

feed_forward.mistake(
    "activation on the input as well",
    """Between the maps your ReLU is right; there is another one before the first map. It throws away what
    is negative in the token, before any neuron could ask for it. Use x as it comes.""",
    lambda x, u, b, d, c: (x.relu() @ u.mT + b).relu() @ d.mT + c,
)

feed_forward.mistake(
    "first bias forgotten",
    """You leave out `up_bias`. Without it every neuron bends at zero: it could not ask whether a feature is
    above 2, or fire when all features are 0. Add it before the ReLU.""",
    lambda x, u, b, d, c: (x @ u.mT).relu() @ d.mT + c,
)

feed_forward.mistake(
    "second bias forgotten",
    """You leave out `down_bias`. A token for which no neuron fires would then get nothing at all. Add it
    after the second map.""",
    lambda x, u, b, d, c: (x @ u.mT + b).relu() @ d.mT,
)

feed_forward.mistake(
    "both biases forgotten",
    """You multiply by the two weights and leave out both biases. Without them every neuron bends at zero,
    and a token of zeros gets zeros. Add `up_bias` before the ReLU and `down_bias` at the end.""",
    lambda x, u, b, d, c: (x @ u.mT).relu() @ d.mT,
)

feed_forward.mistake(
    "first bias added after the ReLU",
    """You add `up_bias` after the bend. Its work is to move the place where the neuron bends; added
    afterwards, it only shifts what comes out. Add it first, then ReLU.""",
    lambda x, u, b, d, c: ((x @ u.mT).relu() + b) @ d.mT + c,
)

feed_forward.mistake(
    "weight not transposed",
    """`nn.Linear` keeps its weight as (features out, features in) and multiplies by the transpose: `x @
    weight.mT`. Without it the shapes do not fit, or, if d_ff equals d_model, fit silently and give another
    map.""",
    lambda x, u, b, d, c: (x @ u + b).relu() @ d.mT + c,
    lambda x, u, b, d, c: (x @ u.mT + b).relu() @ d + c,
    lambda x, u, b, d, c: (x @ u + b).relu() @ d + c,
)

feed_forward.mistake(
    "the two weights exchanged",
    """You go up with `down_weight` and down with `up_weight`. `x @ down_weight` has the right shape, which
    makes this one hard to see. `nn.Linear` multiplies by the transpose: `x @ up_weight.mT` first.""",
    lambda x, u, b, d, c: (x @ d + b).relu() @ u + c,
    lambda x, u, b, d, c: (x @ d.mT + b).relu() @ u.mT + c,
)

feed_forward.mistake(
    "the two biases exchanged",
    """You add `down_bias` in between and `up_bias` at the end. Each bias is as wide as what its map puts
    out: `up_bias` d_ff, `down_bias` d_model. Where both are equally wide, nothing warns you.""",
    lambda x, u, b, d, c: (x @ u.mT + c).relu() @ d.mT + b,
)

feed_forward.mistake(
    "residual inside",
    """You add x to the result. That belongs to the layer around the network (lesson 07), which would add it
    a second time. The network returns only what is to be added.""",
    lambda x, u, b, d, c: x + (x @ u.mT + b).relu() @ d.mT + c,
)

feed_forward.mistake(
    "another activation",
    """You bend with another function than ReLU. Several would do (GELU, SiLU, …), but trained weights go
    with the one they were trained with. ReLU keeps what is positive and makes the rest 0:
    `clamp(min=0)`.""",
    lambda x, u, b, d, c: F.gelu(x @ u.mT + b) @ d.mT + c,
    lambda x, u, b, d, c: F.gelu(x @ u.mT + b, approximate="tanh") @ d.mT + c,
    lambda x, u, b, d, c: F.silu(x @ u.mT + b) @ d.mT + c,
    lambda x, u, b, d, c: F.leaky_relu(x @ u.mT + b) @ d.mT + c,
    lambda x, u, b, d, c: F.elu(x @ u.mT + b) @ d.mT + c,
    lambda x, u, b, d, c: F.softplus(x @ u.mT + b) @ d.mT + c,
)

feed_forward.mistake(
    "an activation that saturates",
    """Your activation is a sigmoid, a tanh, or cut off at 1 as well. Such a neuron cannot tell large from
    very large, and has no slope there to learn from. ReLU has no upper end: `clamp(min=0)`.""",
    lambda x, u, b, d, c: (x @ u.mT + b).sigmoid() @ d.mT + c,
    lambda x, u, b, d, c: (x @ u.mT + b).tanh() @ d.mT + c,
    lambda x, u, b, d, c: (x @ u.mT + b).clamp(0, 1) @ d.mT + c,
    lambda x, u, b, d, c: F.relu6(x @ u.mT + b) @ d.mT + c,
)

feed_forward.mistake(
    "absolute value for ReLU",
    """You make negative numbers positive. ReLU makes them 0: a neuron whose question is answered with no is
    silent. `clamp(min=0)`.""",
    lambda x, u, b, d, c: (x @ u.mT + b).abs() @ d.mT + c,
)

feed_forward.mistake(
    "the wrong half kept",
    """You keep what is negative and make the rest 0. ReLU is max(0, z). In PyTorch that is `clamp(min=0)`,
    the smallest value allowed; `clamp(max=0)` is the other half.""",
    lambda x, u, b, d, c: (x @ u.mT + b).clamp(max=0) @ d.mT + c,
)

feed_forward.mistake(
    "one or zero",
    """You hand on whether a neuron fires, and not how strongly. A step has slope 0 everywhere, so nothing
    in front of it could learn. ReLU keeps the positive numbers as they are.""",
    lambda x, u, b, d, c: (x @ u.mT + b > 0).to(x.dtype) @ d.mT + c,
    lambda x, u, b, d, c: (x @ u.mT + b).sign() @ d.mT + c,
)

feed_forward.mistake(
    "softmax in between",
    """You let the neurons share a total of 1, as attention lets the keys. Neurons do not compete: each one
    answers its own question. Use ReLU, `clamp(min=0)`.""",
    lambda x, u, b, d, c: (x @ u.mT + b).softmax(-1) @ d.mT + c,
)

feed_forward.mistake(
    "a whole tensor compared at once",
    """Python's `max` and `if` want a single yes or no, and there are many numbers here, each with an answer
    of its own. Take torch's tools, which go through them all: `clamp(min=0)` or `torch.relu`.""",
    lambda x, u, b, d, c: max(0, x @ u.mT + b) @ d.mT + c,
    lambda x, u, b, d, c: torch.maximum(0, x @ u.mT + b) @ d.mT + c,
    lambda x, u, b, d, c: torch.max(0, x @ u.mT + b) @ d.mT + c,
)

feed_forward.mistake(
    "stopped half-way",
    """You return the features in between, (…, d_ff). The second map brings them back to d_model, so that
    the result can be added to the token: `hidden @ down_weight.mT + down_bias`.""",
    lambda x, u, b, d, c: (x @ u.mT + b).relu(),
    lambda x, u, b, d, c: x @ u.mT + b,
    lambda x, u, b, d, c: x @ u.mT,
)

feed_forward.mistake(
    "maps of your own",
    """You make new `nn.Linear` layers inside the function. At every call they have other random weights,
    and the four tensors that you were given are not used. Multiply with those.""",
    lambda x, u, b, d, c: own_maps(*u.shape[::-1], up_first=True)(x),
    lambda x, u, b, d, c: own_maps(*u.shape[::-1], up_first=False)(x),
)


def own_maps(d_model, d_ff, *, up_first):
    """A network with weights of its own: which map is made first decides the random numbers."""
    if up_first:
        up, down = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
    else:
        down, up = nn.Linear(d_ff, d_model), nn.Linear(d_model, d_ff)
    return nn.Sequential(up, nn.ReLU(), down)


feed_forward.mistake(
    "normalised first",
    """You normalise the token before the first map. A norm belongs to the layer around the network (lesson
    07); here x goes into the map as it is.""",
    lambda x, u, b, d, c: (F.layer_norm(x, x.shape[-1:]) @ u.mT + b).relu() @ d.mT + c,
)

feed_forward.mistake(
    "the result lies on its side",
    """You write the weight first, `up_weight @ x.mT`, as textbooks do for one column vector. Tokens are
    rows here, and rows they should be in the result: `x @ up_weight.mT`.""",
    lambda x, u, b, d, c: d @ (u @ x.mT + b[:, None]).relu() + c[:, None],
)


# ------------------------------------------------------------------------------------------------------ 06.2


@exercise(
    "06.2",
    "Count before you build",
    returns=("plain", "gated"),
    hints=[
        """A linear map from a to b features has a · b weights. Its bias has one number for every feature
        that comes **out**.""",
        """Plain: one map up, one map down, two biases of different widths. Gated: how many matrices are
        there, and which shapes have they?""",
    ],
)
def parameters(d_model, d_ff):
    """Count the trained numbers of both kinds of feed-forward network, without building them.

    plain: up, activation, down; both maps have a bias
    gated: gate, up, down, as in Eq. 6 of arXiv:2002.05202; no map has a bias
    returns plain, gated: two ints
    """
    raise NotImplementedError


@parameters.cases
def parameters(normal):
    for d_model, d_ff in [(3, 7), (5, 11), (6, 24), (512, 2048), (384, 1536), (4096, 11008)]:
        yield {"d_model": d_model, "d_ff": d_ff}


@parameters.specification
def parameters(d_model, d_ff):
    def count(*layers):
        return sum(parameter.numel() for layer in layers for parameter in layer.parameters())

    with torch.device("meta"):
        plain = count(nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model))
        gate, up = (nn.Linear(d_model, d_ff, bias=False) for _ in range(2))
        return plain, count(gate, up, nn.Linear(d_ff, d_model, bias=False))


@parameters.solution
def parameters(d_model, d_ff):
    one_matrix = d_model * d_ff
    plain = 2 * one_matrix + d_ff + d_model
    gated = 3 * one_matrix
    return plain, gated


@parameters.alternative
def parameters(d, f):
    up, down = (d + 1) * f, (f + 1) * d
    return [up + down, d * f * 3]


parameters.mistake(
    "biases forgotten",
    """You count the weights of the plain network and leave out its biases: one number for each feature that
    comes out of a map, d_ff for the first and d_model for the second.""",
    lambda d, f: (2 * d * f, 3 * d * f),
)

parameters.mistake(
    "one bias forgotten",
    """You count one bias. Both maps of the plain network have one: d_ff numbers for the map up, d_model
    numbers for the map down.""",
    lambda d, f: (2 * d * f + f, 3 * d * f),
    lambda d, f: (2 * d * f + d, 3 * d * f),
)

parameters.mistake(
    "both biases equally wide",
    """You take both biases of one width. A bias has as many numbers as features come out of its map: d_ff
    for the map up, d_model for the map down.""",
    lambda d, f: (2 * d * f + 2 * f, 3 * d * f),
    lambda d, f: (2 * d * f + 2 * d, 3 * d * f),
)

parameters.mistake(
    "one bias number for each map",
    """You give each map a single number as its bias. A bias has one number for every feature that comes
    out.""",
    lambda d, f: (2 * d * f + 2, 3 * d * f),
)

parameters.mistake(
    "biases in the gated network",
    """Your gated network has biases. In the paper, and in Llama, none of its three maps has one: count the
    weights only.""",
    lambda d, f: (2 * d * f + d + f, 3 * d * f + 2 * f + d),
    lambda d, f: (2 * d * f + d + f, 3 * d * f + f + d),
    lambda d, f: (2 * d * f + d + f, 3 * (d * f + f)),
)

parameters.mistake(
    "the gate forgotten",
    """You count two matrices for the gated network. The gate has a matrix of its own, as large as the map
    up: gate, up and down make three.""",
    lambda d, f: (2 * d * f + d + f, 2 * d * f),
    lambda d, f: (2 * d * f + d + f, 2 * d * f + d + f),
)

parameters.mistake(
    "two thirds taken off already",
    """You shrink the gated network to ⅔ of the width. That is what one does to compare the two kinds
    (exercise 06.4). Here both have the d_ff that is given.""",
    lambda d, f: (2 * d * f + d + f, 3 * d * (2 * f // 3)),
    lambda d, f: (2 * d * f + d + f, 3 * d * round(2 * f / 3)),
)

parameters.mistake(
    "a map from d_ff to d_ff",
    """You count a map that stays at d_ff features. There is none: the network goes up in one step and down
    in the next, and the activation between has no parameters.""",
    lambda d, f: (2 * d * f + f * f + 2 * f + d, 3 * d * f),
    lambda d, f: (2 * d * f + f * f + f + d, 3 * d * f),
    lambda d, f: (2 * d * f + d + f, 2 * d * f + f * f),
)

parameters.mistake(
    "d_ff taken as 4 · d_model",
    """You compute with d_ff = 4 · d_model. The paper has it so, but d_ff is an argument here, and gated
    networks choose another one.""",
    lambda d, f: (8 * d * d + 5 * d, 12 * d * d),
    lambda d, f: (8 * d * d, 12 * d * d),
)

parameters.mistake(
    "one matrix for both directions",
    """You count d_model · d_ff once. Up and down have a matrix each: they have mirrored shapes, but numbers
    of their own.""",
    lambda d, f: (d * f + d + f, 2 * d * f),
    lambda d, f: (d * f + d + f, 3 * d * f),
)

parameters.mistake(
    "sizes added, not multiplied",
    """You add d_model and d_ff. A matrix has a number for every pair of a feature that goes in and one that
    comes out: d_model · d_ff.""",
    lambda d, f: (2 * (d + f), 3 * (d + f)),
    lambda d, f: (3 * (d + f), 3 * (d + f)),
)

parameters.mistake(
    "a gate of another shape",
    """You give the gate another shape than the map up. It asks the token a question for every neuron, so it
    has d_model · d_ff weights.""",
    lambda d, f: (2 * d * f + d + f, 2 * d * f + d * d),
    lambda d, f: (2 * d * f + d + f, 2 * d * f + f),
    lambda d, f: (2 * d * f + d + f, 3 * d * f + f * f),
)

parameters.mistake(
    "three matrices in the plain network",
    """You count three matrices for the plain network. It has no gate: one matrix up and one down.""",
    lambda d, f: (3 * d * f + d + f, 3 * d * f),
    lambda d, f: (3 * d * f + d + 2 * f, 3 * d * f),
)

parameters.mistake(
    "biases in the wrong network",
    """You give biases to the gated network and none to the plain one. It is the other way round: the
    paper's network has two, the gated one of Eq. 6 has none.""",
    lambda d, f: (2 * d * f, 3 * d * f + 2 * f + d),
    lambda d, f: (2 * d * f, 3 * d * f + d + f),
)

parameters.mistake(
    "results in the wrong order",
    """Both counts are right, in the wrong order: first the plain network, then the gated one.""",
    lambda d, f: (3 * d * f, 2 * d * f + d + f),
)


# ------------------------------------------------------------------------------------------------------ 06.3


@exercise(
    "06.3",
    "Write the gated network",
    hints=[
        """Three `nn.Linear` with `bias=False`: two of them go from d_model to d_ff, one comes back. The
        names are given, because the checker fills in the weights.""",
        """The gate is `F.silu(self.gate_projection(x))`. It is multiplied, feature by feature, with
        `self.up_projection(x)`, to which no activation is applied.""",
    ],
)
class GatedFeedForward(nn.Module):
    """FFN(x) = (SiLU(x W) ⊙ x V) W_2, where ⊙ multiplies feature by feature.

    gate_projection is W, up_projection is V, both from d_model to d_ff features;
    down_projection is W_2, from d_ff to d_model. No map has a bias.
    """

    def __init__(self, d_model, d_ff):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        """x: (…, d_model), returns (…, d_model)"""
        raise NotImplementedError


@GatedFeedForward.cases
def GatedFeedForward(normal):
    yield {"d_model": 3, "d_ff": 7}, {"x": normal(2, 5, 3)}
    yield {"d_model": 5, "d_ff": 5}, {"x": normal(7, 5)}  # square: exchanged maps would fit
    yield {"d_model": 2, "d_ff": 1}, {"x": normal(1, 1, 2)}  # a single token


class Maps(nn.Module):
    """The three projections that every answer has."""

    def __init__(self, d_model, d_ff, bias=False):
        super().__init__()
        self.gate_projection = nn.Linear(d_model, d_ff, bias=bias)
        self.up_projection = nn.Linear(d_model, d_ff, bias=bias)
        self.down_projection = nn.Linear(d_ff, d_model, bias=bias)

    def project(self, x):
        """Gate and value, before any activation."""
        return self.gate_projection(x), self.up_projection(x)


@GatedFeedForward.specification
class GatedFeedForward(Maps):
    def forward(self, x):
        gate, up, down = (
            each.weight for each in (self.gate_projection, self.up_projection, self.down_projection)
        )
        rows = []
        for token in x.reshape(-1, x.shape[-1]):
            products = []
            for neuron in range(len(gate)):
                asked = sum(w * feature for w, feature in zip(gate[neuron], token, strict=True))
                offered = sum(w * feature for w, feature in zip(up[neuron], token, strict=True))
                products.append(asked / (1 + torch.exp(-asked)) * offered)
            row = [sum(w * each for w, each in zip(column, products, strict=True)) for column in down]
            rows.append(torch.stack(row))
        return torch.stack(rows).reshape(x.shape)


@GatedFeedForward.solution
class GatedFeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate_projection = nn.Linear(d_model, d_ff, bias=False)
        self.up_projection = nn.Linear(d_model, d_ff, bias=False)
        self.down_projection = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        gate = F.silu(self.gate_projection(x))  # (…, d_ff)
        return self.down_projection(gate * self.up_projection(x))


@GatedFeedForward.alternative
class GatedFeedForward(Maps):
    def forward(self, x):
        both = torch.cat([self.gate_projection.weight, self.up_projection.weight])
        asked, offered = (x @ both.mT).chunk(2, dim=-1)
        return self.down_projection(asked * torch.sigmoid(asked) * offered)


def gated(combine, after=lambda output, x: output):
    """A class that combines gate and value otherwise, or does something to the output."""

    def forward(self, x):
        return after(self.down_projection(combine(*self.project(x))), x)

    return type("Wrong", (Maps,), {"forward": forward})


GatedFeedForward.mistake(
    "gate without activation",
    """You multiply the two projections, and neither is bent. That can multiply features, but it has no gate
    that closes: a negative value opens it as wide as a positive one. `F.silu` around the gate.""",
    gated(lambda g, u: g * u),
)

GatedFeedForward.mistake(
    "gate and value exchanged",
    """You bend `up_projection(x)` and leave the gate as it is. With weights of your own you would never
    notice; trained weights give other results. `F.silu(self.gate_projection(x))`.""",
    gated(lambda g, u: g * F.silu(u)),
)

GatedFeedForward.mistake(
    "both bent",
    """You bend gate and value. Then hardly anything negative is left to hand on. The gate says how far to
    open and is bent; the value is what passes, and stays as it is.""",
    gated(lambda g, u: F.silu(g) * F.silu(u)),
    gated(lambda g, u: F.silu(g) * F.relu(u)),
)

GatedFeedForward.mistake(
    "the product bent",
    """You multiply first and bend then. A gate and a value that are both negative would open it. Bend the
    gate alone, and multiply afterwards.""",
    gated(lambda g, u: F.silu(g * u)),
)

GatedFeedForward.mistake(
    "gate added",
    """You add gate and value. A sum cannot close: where the gate is 0, the value passes all the same.
    Multiply them, feature by feature.""",
    gated(lambda g, u: F.silu(g) + u),
    gated(lambda g, u: F.silu(g + u)),
    gated(lambda g, u: g + F.silu(u)),
)

GatedFeedForward.mistake(
    "a sigmoid gate",
    """Your gate is a sigmoid, between 0 and 1. That is the first gated unit, GLU (Eq. 4 of the paper). Here
    it is SiLU, z · sigmoid(z): it closes on the left, and on the right it has no upper end.""",
    gated(lambda g, u: torch.sigmoid(g) * u),
    gated(lambda g, u: torch.sigmoid(g) * F.silu(u)),
)

GatedFeedForward.mistake(
    "a matrix product",
    """You multiply gate and value with `@`. In the formula ⊙ stands for a product feature by feature, which
    is `*`: each neuron is opened or closed by its own gate.""",
    gated(lambda g, u: F.silu(g) @ u.mT),
    gated(lambda g, u: F.silu(g) @ u),
    gated(lambda g, u: F.silu(g).mT @ u),
)

GatedFeedForward.mistake(
    "gate and value side by side",
    """You join gate and value with `cat`, and get twice d_ff features. They are multiplied, feature by
    feature, and d_ff wide they stay.""",
    gated(lambda g, u: torch.cat([F.silu(g), u], dim=-1)),
    gated(lambda g, u: torch.cat([u, F.silu(g)], dim=-1)),
)

GatedFeedForward.mistake(
    "another activation",
    """Your gate is bent by another function than SiLU. With GELU it is called GeGLU, with ReLU ReGLU: good
    networks too, but weights go with the one they were trained with. `F.silu`.""",
    gated(lambda g, u: F.gelu(g) * u),
    gated(lambda g, u: F.gelu(g, approximate="tanh") * u),
    gated(lambda g, u: F.relu(g) * u),
    gated(lambda g, u: torch.tanh(g) * u),
)

GatedFeedForward.mistake(
    "softmax for a gate",
    """Your gates share a total of 1. Then one opens only if another closes. Each gate answers for itself:
    `F.silu`.""",
    gated(lambda g, u: g.softmax(-1) * u),
)

GatedFeedForward.mistake(
    "no gate",
    """You never use `gate_projection`: this is the plain network. The gate is a second question about the
    same token, and it is multiplied with what `up_projection` says.""",
    gated(lambda g, u: F.silu(u)),
    gated(lambda g, u: F.relu(u)),
)

GatedFeedForward.mistake(
    "no value",
    """You never use `up_projection`: only the gate goes on. What passes the gate has a projection of its
    own: `F.silu(self.gate_projection(x)) * self.up_projection(x)`.""",
    gated(lambda g, u: F.silu(g)),
)

GatedFeedForward.mistake(
    "one projection for gate and value",
    """Gate and value come from the same projection in your code. To open and to pass are two different
    questions, with a matrix each: `gate_projection` and `up_projection`.""",
    gated(lambda g, u: F.silu(g) * g),
    gated(lambda g, u: F.silu(u) * u),
)

GatedFeedForward.mistake(
    "the output bent",
    """You bend what comes out of `down_projection`. The result is added to the token, and must be free to
    add or to take away. Only the gate is bent.""",
    gated(lambda g, u: g * u, after=lambda output, x: F.silu(output)),
    gated(lambda g, u: F.silu(g) * u, after=lambda output, x: F.silu(output)),
)

GatedFeedForward.mistake(
    "residual inside",
    """You add x to the result. That belongs to the layer around the network (lesson 07), which would add it
    a second time.""",
    gated(lambda g, u: F.silu(g) * u, after=lambda output, x: x + output),
)


@GatedFeedForward.mistake(
    "biases left in",
    """Your maps have biases, which `nn.Linear` makes unless told otherwise. The paper and Llama have none
    here, and a checkpoint without them could not be loaded. `bias=False`, three times.""",
)
class GatedFeedForward(Maps):
    def __init__(self, d_model, d_ff):
        super().__init__(d_model, d_ff, bias=True)


@GatedFeedForward.mistake(
    "the gate on the output",
    """You gate what comes out of `down_projection`. That is d_model wide, and the gate is d_ff wide. The
    gate stands in between: multiply it with `up_projection(x)`, then go down.""",
)
class GatedFeedForward(Maps):
    def forward(self, x):
        return F.silu(self.gate_projection(x)) * self.down_projection(self.up_projection(x))


@GatedFeedForward.mistake(
    "stopped half-way",
    """You return the products, d_ff wide. `down_projection` brings them back to d_model, so that the result
    can be added to the token.""",
)
class GatedFeedForward(Maps):
    def forward(self, x):
        gate, value = self.project(x)
        return F.silu(gate) * value


@GatedFeedForward.mistake(
    "one after the other",
    """You put the gate into `up_projection`, one map after the other. Both ask the token itself, which is
    d_model wide; then their answers are multiplied.""",
)
class GatedFeedForward(Maps):
    def forward(self, x):
        return self.down_projection(self.up_projection(F.silu(self.gate_projection(x))))


@GatedFeedForward.mistake(
    "the gate asks the neurons",
    """You hand `up_projection(x)` to the gate. The gate asks the token itself: `gate_projection` takes x,
    which is d_model wide.""",
)
class GatedFeedForward(Maps):
    def forward(self, x):
        up = self.up_projection(x)
        return self.down_projection(F.silu(self.gate_projection(up)) * up)


# ------------------------------------------------------------------------------------------------------ 06.4


@exercise(
    "06.4",
    "How wide, for the same price?",
    hints=[
        """Three matrices of width w cost as much as two of width d_ff if 3 · w = 2 · d_ff. Then round w up
        to the next whole multiple; if it is one already, it stays.""",
        """`math.ceil(w / multiple) * multiple` rounds up. With whole numbers alone: `-(-2 * d_ff // (3 *
        multiple)) * multiple`.""",
    ],
)
def gated_width(d_ff, multiple):
    """Which width gives a gated network as many weights as a plain one of width d_ff has?

    The smallest multiple of `multiple` that is at least ⅔ of d_ff. (Hardware likes round widths.)
    returns an int
    """
    raise NotImplementedError


@gated_width.cases
def gated_width(normal):
    for d_ff, multiple in [(16384, 256), (2048, 64), (100, 7), (12, 4), (96, 3), (7, 5), (3072, 128)]:
        yield {"d_ff": d_ff, "multiple": multiple}
    for d_ff in (3002, 5999):  # just above a multiple, just below one: .666 and .667 miss it
        yield {"d_ff": d_ff, "multiple": 100}
    yield {"d_ff": 97, "multiple": 64}  # ⅔ of it is 64⅔, just above a multiple
    yield {"d_ff": 8, "multiple": 1}


@gated_width.specification
def gated_width(d_ff, multiple):
    width = 0
    while 3 * width < 2 * d_ff:
        width += multiple
    return width


@gated_width.solution
def gated_width(d_ff, multiple):
    width = 2 * d_ff / 3
    return math.ceil(width / multiple) * multiple


@gated_width.alternative
def gated_width(d_ff, multiple):
    return next(width for width in range(0, d_ff + multiple, multiple) if 3 * width >= 2 * d_ff)


gated_width.mistake(
    "rounded down",
    """You round down to a multiple, so the gated network gets too narrow, and the comparison unfair to it.
    Round up: `math.ceil(width / multiple) * multiple`.""",
    lambda f, m: 2 * f // 3 // m * m,
)

gated_width.mistake(
    "two thirds made whole first",
    """You make ⅔ of d_ff a whole number, with `int`, `//` or `round`, and go up to a multiple afterwards.
    What was cut off may have been just above a multiple: of 97, ⅔ is 64⅔, and 64 is less. Keep the fraction
    until `math.ceil`.""",
    lambda f, m: math.ceil(2 * f // 3 / m) * m,
    lambda f, m: math.ceil(round(2 * f / 3) / m) * m,
)

gated_width.mistake(
    "rounded to the nearest",
    """You round to the nearest multiple, which is sometimes below ⅔. Asked is the smallest multiple that is
    at least ⅔ of d_ff: `math.ceil`.""",
    lambda f, m: round(2 * f / 3 / m) * m,
)

gated_width.mistake(
    "one multiple too many",
    """You always add a multiple, also where ⅔ of d_ff is one already: of 12, ⅔ is 8, and 8 is a multiple of
    4. `math.ceil` adds nothing to a whole number.""",
    lambda f, m: (2 * f // 3 // m + 1) * m,
)

gated_width.mistake(
    "not rounded to a multiple",
    """You return ⅔ of d_ff and do nothing about the multiple. Bring it up to the next one: `math.ceil(width
    / multiple) * multiple`.""",
    lambda f, m: 2 * f // 3,
    lambda f, m: round(2 * f / 3),
    lambda f, m: math.ceil(2 * f / 3),
    lambda f, m: 2 * f / 3,
)

gated_width.mistake(
    "two thirds as a rounded decimal",
    """You write ⅔ as a decimal, such as .66 or .667. Near a multiple that lands on the wrong side. Let Python
    divide: `2 * d_ff / 3`.""",
    lambda f, m: math.ceil(0.66 * f / m) * m,
    lambda f, m: math.ceil(0.67 * f / m) * m,
    lambda f, m: math.ceil(0.666 * f / m) * m,
    lambda f, m: math.ceil(0.667 * f / m) * m,
)

gated_width.mistake(
    "two thirds cut to 0",
    """Your result is 0: in whole numbers `2 // 3` is 0, and 0 times anything stays 0. Multiply first:
    `2 * d_ff / 3`.""",
    lambda f, m: 0,
)

gated_width.mistake(
    "a multiple added",
    """You add a multiple, or nearly one, to ⅔ of d_ff. That is a larger number, but not a multiple of
    `multiple`. Divide by it, round up, and multiply again.""",
    lambda f, m: 2 * f // 3 + m,
    lambda f, m: 2 * f // 3 + m - 1,
)

gated_width.mistake(
    "three halves",
    """You make the gated network wider. It has three matrices where the plain one has two, so for the same
    price it must be narrower: 3 · w = 2 · d_ff, and w is ⅔ of d_ff.""",
    lambda f, m: math.ceil(3 * f / 2 / m) * m,
    lambda f, m: math.ceil(3 * f // 2 / m) * m,
)

gated_width.mistake(
    "half",
    """You take half of d_ff. Gate and up have two matrices where the plain network has one, but the map
    down is there in both: three against two, so ⅔.""",
    lambda f, m: math.ceil(f / 2 / m) * m,
    lambda f, m: math.ceil(f // 2 / m) * m,
)

gated_width.mistake(
    "one third",
    """You divide by 3 and forget the 2. From 3 · w = 2 · d_ff follows w = 2 · d_ff / 3.""",
    lambda f, m: math.ceil(f / 3 / m) * m,
    lambda f, m: math.ceil(f // 3 / m) * m,
)

gated_width.mistake(
    "the same width",
    """You round d_ff itself. A gated network of the same width has half as many weights again: three
    matrices instead of two. Take ⅔ first.""",
    lambda f, m: math.ceil(f / m) * m,
)

gated_width.mistake(
    "rounded before the division",
    """You bring d_ff to a multiple and take ⅔ of that, and ⅔ of a multiple need not be one. First ⅔, then
    the rounding.""",
    lambda f, m: 2 * (math.ceil(f / m) * m) // 3,
    lambda f, m: math.ceil(2 * (math.ceil(f / m) * m) / 3),
)

gated_width.mistake(
    "the number of multiples",
    """You return how many multiples it takes. Asked is the width itself: times `multiple`.""",
    lambda f, m: math.ceil(2 * f / 3 / m),
    lambda f, m: -(-2 * f // (3 * m)),
)

gated_width.mistake(
    "the difference to the multiple",
    """You return, or add, the remainder. `%` says how far beyond a multiple you are. To get up to the next
    one, divide, round up, and multiply again.""",
    lambda f, m: 2 * f // 3 % m,
    lambda f, m: 2 * f // 3 + 2 * f // 3 % m,
)

gated_width.mistake(
    "multiplied without dividing",
    """You multiply by `multiple` without having divided by it. To round w up to a multiple: divide by it,
    `math.ceil`, multiply by it again.""",
    lambda f, m: math.ceil(f * 2 / 3) * m,
    lambda f, m: 2 * f // 3 * m,
    lambda f, m: round(2 * f / 3) * m,
)

gated_width.mistake(
    "a power of two",
    """You go up to the next power of two. That makes the network far too wide most of the time. Asked is
    the next whole multiple of `multiple`.""",
    lambda f, m: 2 ** math.ceil(math.log2(2 * f / 3)),
)

gated_width.mistake(
    "a float",
    """The number is right, but it is a float, and no `nn.Linear` is 8.0 features wide. `math.ceil` gives an
    int; a multiplication by a float makes a float again.""",
    lambda f, m: float(math.ceil(2 * f / 3 / m) * m),
)


# ------------------------------------------------------------------------------------------------------ 06.5


@exercise(
    "06.5",
    "A stack whose units are its own",
    hints=[
        """`self.unit(width, expansion)` builds one unit. Call it once for every unit that you want, for
        example in a list comprehension.""",
        """A plain list hides its modules from PyTorch: no parameters, nothing to train, nothing saved.
        `nn.ModuleList([...])` shows them.""",
        """In `forward`, each unit gets what the last one left: `x = x + unit(x)`, in a loop.""",
    ],
)
class FeedForwardStack(nn.Module):
    """x = x + unit(x), n_units times; every unit has parameters of its own. Call the list `units`."""

    def unit(self, width, expansion):
        up = nn.Linear(width, expansion * width)
        down = nn.Linear(expansion * width, width)
        return nn.Sequential(nn.LayerNorm(width, eps=1e-9), up, nn.PReLU(init=5e-3), down)

    def __init__(self, width, expansion, n_units):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        """x: (…, width), returns (…, width)"""
        raise NotImplementedError


@FeedForwardStack.cases
def FeedForwardStack(normal):
    yield {"width": 3, "expansion": 2, "n_units": 2}, {"x": normal(2, 5, 3)}
    yield {"width": 5, "expansion": 1, "n_units": 3}, {"x": normal(7, 5)}


class Units(nn.Module):
    """The right list of units: a mistake builds it, or walks through it, otherwise."""

    def unit(self, width, expansion):
        up = nn.Linear(width, expansion * width)
        down = nn.Linear(expansion * width, width)
        return nn.Sequential(nn.LayerNorm(width, eps=1e-9), up, nn.PReLU(init=5e-3), down)

    def __init__(self, width, expansion, n_units):
        super().__init__()
        self.units = self.build(width, expansion, n_units)

    def build(self, width, expansion, n_units):
        return nn.ModuleList(self.unit(width, expansion) for _ in range(n_units))

    def forward(self, x):
        for unit in self.units:
            x = x + unit(x)
        return x


@FeedForwardStack.specification
class FeedForwardStack(Units):
    def forward(self, x):
        rows = []
        for token in x.reshape(-1, x.shape[-1]):
            for norm, up, bend, down in self.units:
                mean = sum(token) / len(token)
                variance = sum((feature - mean) ** 2 for feature in token) / len(token)
                normed = (token - mean) / (variance + 1e-9).sqrt() * norm.weight + norm.bias
                hidden = torch.stack([(row * normed).sum() for row in up.weight]) + up.bias
                hidden = torch.stack([h if h > 0 else bend.weight[0] * h for h in hidden])
                token = token + torch.stack([(row * hidden).sum() for row in down.weight]) + down.bias
            rows.append(token)
        return torch.stack(rows).reshape(x.shape)


@FeedForwardStack.solution
class FeedForwardStack(nn.Module):
    def unit(self, width, expansion):
        up = nn.Linear(width, expansion * width)
        down = nn.Linear(expansion * width, width)
        return nn.Sequential(nn.LayerNorm(width, eps=1e-9), up, nn.PReLU(init=5e-3), down)

    def __init__(self, width, expansion, n_units):
        super().__init__()
        self.units = nn.ModuleList(self.unit(width, expansion) for _ in range(n_units))

    def forward(self, x):
        for unit in self.units:
            x = x + unit(x)
        return x


@FeedForwardStack.alternative
class FeedForwardStack(Units):
    def build(self, width, expansion, n_units):
        first = self.unit(width, expansion)
        return nn.Sequential(first, *[copy.deepcopy(first) for _ in range(n_units - 1)])

    def forward(self, x):
        for i in range(len(self.units)):
            update = self.units[i](x)
            x = update + x
        return x


def stack(**changed):
    """A class that builds its units otherwise, or walks through them otherwise."""
    return type("Wrong", (Units,), changed)


def several(make):
    """`build` from the one unit and the number of units."""
    return stack(build=lambda self, width, expansion, n: make(self.unit(width, expansion), n))


FeedForwardStack.mistake(
    "one unit, listed n times",
    """There is one set of parameters in your stack. `[unit] * n`, or a unit made once before the list, puts
    the same unit in every place; printed, it still looks like n units. Call `self.unit(…)` anew for
    each.""",
    several(lambda unit, n: nn.ModuleList([unit] * n)),
    several(lambda unit, n: nn.Sequential(*[unit] * n)),
    several(lambda unit, n: nn.ModuleList([unit])),
)

FeedForwardStack.mistake(
    "a plain list",
    """Your units stand in a plain Python list, and PyTorch does not look into lists: no parameters, so
    nothing is trained, saved or moved to a device. Use `nn.ModuleList`.""",
    stack(build=lambda self, width, expansion, n: [self.unit(width, expansion) for _ in range(n)]),
    stack(build=lambda self, width, expansion, n: tuple(self.unit(width, expansion) for _ in range(n))),
    several(lambda unit, n: [unit] * n),
)

FeedForwardStack.mistake(
    "one unit too many",
    """You build n_units + 1 units. `range(n)` has n steps, from 0 to n − 1.""",
    stack(build=lambda self, width, expansion, n: Units.build(self, width, expansion, n + 1)),
)


def walk(step):
    """`forward` with another step."""

    def forward(self, x):
        start = x
        for unit in self.units:
            x = step(x, unit, start)
        return x

    return stack(forward=forward)


FeedForwardStack.mistake(
    "no residual",
    """You replace x by what the unit returns. A unit says what to add: `x = x + unit(x)`. Without it, what
    one unit drops is lost for all the others.""",
    walk(lambda x, unit, start: unit(x)),
)

FeedForwardStack.mistake(
    "the units say nothing",
    """You return the x that came in. A line such as `x + unit(x)` works out the sum and forgets it: keep it,
    `x = x + unit(x)`.""",
    stack(forward=lambda self, x: x),
)

FeedForwardStack.mistake(
    "the first x added every time",
    """You add the x that came in at the start, at every unit. What the units between have added is then
    gone. Each unit adds to what the last one left: `x = x + unit(x)`.""",
    walk(lambda x, unit, start: start + unit(x)),
)

FeedForwardStack.mistake(
    "one residual around all",
    """You add x once, after all units. Each unit has a residual of its own: `x = x + unit(x)`, inside the
    loop.""",
    stack(forward=lambda self, x: x + nn.Sequential(*self.units)(x)),
)

FeedForwardStack.mistake(
    "side by side",
    """Every unit of yours gets the first x, and their results are added up. In a stack each unit reads what
    the last one left: put the new x into the next unit.""",
    walk(lambda x, unit, start: x + unit(start)),
    stack(forward=lambda self, x: sum(unit(x) for unit in self.units)),
)

FeedForwardStack.mistake(
    "the norm outside the residual path",
    """You add the unit's result to the normalised x. The way around the unit stays untouched: add to x
    itself.""",
    walk(lambda x, unit, start: unit[0](x) + unit(x)),
)

FeedForwardStack.mistake(
    "the same unit in every step",
    """You call the same unit in every step, the first or the last. The others are never trained. In `for
    unit in self.units:` call `unit`.""",
    stack(forward=lambda self, x: repeated(self.units, x, 0)),
    stack(forward=lambda self, x: repeated(self.units, x, -1)),
)

FeedForwardStack.mistake(
    "only the first unit is used",
    """Only the first unit has a say in your result. Perhaps your `return` stands inside the loop, so that
    it ends after one step: it belongs below the loop, one level out.""",
    stack(forward=lambda self, x: x + self.units[0](x)),
)

FeedForwardStack.mistake(
    "only the last unit is used",
    """Only the last unit has a say in your result. Perhaps each step starts from the first x again and
    overwrites what the step before has found: `x = x + unit(x)`, with x on both sides.""",
    stack(forward=lambda self, x: x + self.units[-1](x)),
)


def repeated(units, x, which):
    """One unit in every step."""
    for _ in units:
        x = x + units[which](x)
    return x


FeedForwardStack.mistake(
    "in the opposite order",
    """You walk through the units from the last to the first. The first in the list comes first; a
    checkpoint numbers them so.""",
    stack(forward=lambda self, x: backwards(self.units, x)),
)


def backwards(units, x):
    """From the last unit to the first."""
    for unit in list(units)[::-1]:
        x = x + unit(x)
    return x


# ------------------------------------------------------------------------------------------------------ 06.6


@exercise(
    "06.6",
    "How many numbers are there really?",
    returns=("listed", "own"),
    hints=[
        """For `listed`, two loops: over the units, and over each unit's `parameters()`. Nothing is
        remembered, so a parameter that is met twice counts twice.""",
        """For `own`, remember which parameters you have met. What makes two of them the same is not that
        their numbers are equal, but that they are **one tensor**: the same `id(…)`.""",
    ],
)
def sizes(units):
    """Count the numbers in the parameters of a stack, in two ways. Frozen ones count, buffers do not.

    units: a list of modules of any kind, called one after the other; some may share parameters
    listed: every parameter counts as often as it is met
    own: every parameter counts once, however often it is met
    returns listed, own: two ints
    """
    raise NotImplementedError


class Listed(list):
    """A list that says in words what a case has in it: printed, one unit four times looks like four."""

    def __init__(self, units, words):
        super().__init__(units)
        self.words = words

    def __repr__(self):
        return self.words


@sizes.cases
def sizes(normal):
    one = nn.Linear(3, 5)
    yield {"units": Listed([one] * 4, "one Linear(3, 5) in all four places")}
    yield {"units": [nn.Linear(3, 5), nn.Linear(3, 5), nn.Linear(5, 7)]}
    several = [one, copy.deepcopy(one), one]  # equal numbers are not the same parameter
    yield {"units": Listed(several, "a Linear(3, 5), its copy, and the first one again")}
    other = nn.Linear(3, 5)
    other.weight = one.weight  # the weight is shared, the bias is not
    several = [one, other, nn.Linear(3, 2)]
    yield {"units": Listed(several, "two Linear(3, 5) with one weight and two biases, and a Linear(3, 2)")}
    units = [nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 5)), nn.Linear(5, 2).requires_grad_(False)]
    yield {"units": units}  # a unit of several parts, with buffers; a frozen one
    with torch.device("meta"):  # sizes without values, as the lesson counts large models
        yield {"units": Listed([nn.Linear(3, 5), nn.Linear(5, 2)], "two Linear on the device meta")}


@sizes.specification
def sizes(units):
    listed, met = 0, []
    for unit in units:
        for parameter in unit.parameters():
            listed += parameter.numel()
            if not any(parameter is known for known in met):
                met.append(parameter)
    return listed, sum(parameter.numel() for parameter in met)


@sizes.solution
def sizes(units):
    every = [parameter for unit in units for parameter in unit.parameters()]
    different = {id(parameter): parameter for parameter in every}
    return sum(p.numel() for p in every), sum(p.numel() for p in different.values())


@sizes.alternative
def sizes(units):
    listed = sum(parameter.numel() for _, parameter in everywhere(nn.ModuleList(units)))
    own = sum(parameter.numel() for parameter in nn.Sequential(*units).parameters())
    return listed, own


def everywhere(module):
    """Names and parameters of a module, those that are shared at every place."""
    return module.named_parameters(remove_duplicate=False)


def listed(units):
    """Every parameter as often as it is met."""
    return [parameter for unit in units for parameter in unit.parameters()]


def numbers(parameters):
    """How many numbers they hold."""
    return sum(parameter.numel() for parameter in parameters)


def own_ones(units):
    """Every parameter once."""
    return {id(parameter): parameter for parameter in listed(units)}.values()


def own(units):
    """How many numbers there are."""
    return numbers(own_ones(units))


sizes.mistake(
    "every parameter counts every time",
    """Your `own` is as large as `listed`: a shared parameter counts again at every place. (`state_dict`
    lists it at every place, too.) Remember the `id` of each parameter that you have met.""",
    lambda units: (numbers(listed(units)), numbers(listed(units))),
)

sizes.mistake(
    "every parameter counts once",
    """Your `listed` leaves out what it has met before. `parameters()` of the whole stack does that by
    itself, which is why it is the right answer to `own`. Ask every unit separately for `listed`.""",
    lambda units: (own(units), own(units)),
)

sizes.mistake(
    "equal numbers taken for the same",
    """You compare the values. Two units that were copied start with equal numbers and are different
    parameters: after one step of training they differ. What counts is whether it is one tensor, `is` or
    `id(…)`.""",
    lambda units: (numbers(listed(units)), numbers(by_value(listed(units)))),
)


def by_value(parameters):
    """Of several with the same numbers, one."""
    return {str(parameter.tolist()): parameter for parameter in parameters}.values()


sizes.mistake(
    "equal shapes taken for the same",
    """You take parameters of one shape for one parameter. In a stack all units have the same shapes. What
    counts is whether it is one tensor: `id(parameter)`.""",
    lambda units: (numbers(listed(units)), numbers({p.shape: p for p in listed(units)}.values())),
)

sizes.mistake(
    "different units counted, not parameters",
    """You look for units that occur twice. Two different units can still share a parameter: embedding and
    output layer of many models do. Compare the parameters themselves.""",
    lambda units: (numbers(listed(units)), numbers(listed({id(unit): unit for unit in units}.values()))),
)

sizes.mistake(
    "tensors counted, not numbers",
    """You count parameters, or units, and each parameter is a whole tensor. Add up their `numel()`.""",
    lambda units: (len(listed(units)), len({id(p) for p in listed(units)})),
    lambda units: (numbers(listed(units)), len({id(p) for p in listed(units)})),
    lambda units: (len(units), len({id(unit) for unit in units})),
)

sizes.mistake(
    "found by comparison, not by identity",
    """`in` compares with `==`, and for tensors that compares their numbers: an error where the shapes
    differ, and no answer about identity where they do not. Keep the `id(…)` of each parameter in a set.""",
    lambda units: (numbers(listed(units)), numbers(met_with_in(listed(units)))),
)


def met_with_in(parameters):
    """What a list finds new."""
    seen = []
    for parameter in parameters:
        if parameter not in seen:
            seen.append(parameter)
    return seen


sizes.mistake(
    "equal names taken for the same",
    """You collect parameters by their names. The units of a stack all use the same names, `weight` and
    `bias`, for different tensors. Collect them by `id(…)`.""",
    lambda units: (numbers(listed(units)), numbers(by_name(units).values())),
)


def by_name(units):
    """Of several with the same name, the last."""
    return {name: parameter for unit in units for name, parameter in unit.named_parameters()}


sizes.mistake(
    "the surplus",
    """Your `own` is what is counted more than once: `listed` minus the right answer. Asked is what is there
    when each parameter counts once.""",
    lambda units: (numbers(listed(units)), numbers(listed(units)) - own(units)),
)

sizes.mistake(
    "the first unit for all",
    """You count one unit and multiply by their number. Units may differ in size, and they may share: look
    at each of them.""",
    lambda units: (len(units) * numbers(units[0].parameters()), numbers(units[0].parameters())),
    lambda units: (len(units) * numbers(units[0].parameters()), own(units)),
)

sizes.mistake(
    "weights only",
    """You count the weights and leave out the biases. A unit's `parameters()` gives both.""",
    lambda units: (numbers(weights(units)), numbers({id(w): w for w in weights(units)}.values())),
)


def weights(units):
    """What is called so, as often as it is met."""
    named = [pair for unit in units for pair in unit.named_parameters()]
    return [parameter for name, parameter in named if name.endswith("weight")]


def trained(parameters):
    """Those that are not frozen."""
    return [parameter for parameter in parameters if parameter.requires_grad]


sizes.mistake(
    "frozen parameters left out",
    """You count only what requires a gradient. A frozen parameter is not trained at the moment, but its
    numbers are there, stored and multiplied with. Count every parameter.""",
    lambda units: (numbers(trained(listed(units))), numbers(trained(own_ones(units)))),
    lambda units: (numbers(listed(units)), numbers(trained(own_ones(units)))),
)

sizes.mistake(
    "buffers counted",
    """You count buffers too: `state_dict` holds parameters and buffers, such as the running mean of a
    BatchNorm. Nobody trains those. A unit's `parameters()` leaves them out.""",
    lambda units: (numbers(in_state_dicts(units)), own(units)),
    lambda units: (numbers(in_state_dicts(units)), numbers(in_state_dicts(units))),
)


def in_state_dicts(units):
    """Parameters and buffers."""
    return [tensor for unit in units for tensor in unit.state_dict().values()]


sizes.mistake(
    "results in the wrong order",
    """Both counts are right, in the wrong order: first `listed`, the larger one, then `own`.""",
    lambda units: (own(units), numbers(listed(units))),
)

sizes.mistake(
    "what is shared, left out altogether",
    """You drop a parameter that occurs several times. It is still there, once: count it at its first place
    and at no other.""",
    lambda units: (numbers(listed(units)), numbers(met_once(listed(units)))),
)


def met_once(parameters):
    """Those that occur at a single place."""
    ids = [id(parameter) for parameter in parameters]
    return [parameter for parameter in parameters if ids.count(id(parameter)) == 1]


# ------------------------------------------------------------------------------------------------------ 06.7


@exercise(
    "06.7",
    "Draw a curve with bends",
    returns=("up_bias", "down_weight"),
    hints=[
        """Neuron i is to begin at x[i]: there `t + up_bias[i]` must be 0. To the left of it the neuron is
        silent.""",
        """Let the slopes between the points be `y.diff() / x.diff()`. Left of x[1] only neuron 0 is awake,
        so its weight is the first slope.""",
        """At x[1] neuron 1 joins in. Its weight is **added** to the slope that is there already, so it must
        be the difference between the second slope and the first.""",
    ],
)
def bends(x, y):
    """Find a ReLU network that passes through all points, in a straight line from each to the next.

    The network is f(t) = y[0] + Σ down_weight[i] · relu(t + up_bias[i]),
    with a neuron for every point but the last, and f(x[i]) = y[i].
    x, y: (points,), x increasing
    returns up_bias, down_weight: both (points − 1,)
    """
    raise NotImplementedError


@bends.cases
def bends(normal):
    for points in (5, 7, 2):
        yield {"x": normal(points).abs().cumsum(0) - 1, "y": normal(points)}
    by_hand = torch.tensor([0.0, 1, 3]), torch.tensor([0.0, 2, 2])  # up with slope 2, then flat
    yield dict(zip(("x", "y"), by_hand, strict=True))


@bends.specification
def bends(x, y):
    weights = []
    for i in range(len(x) - 1):
        # where the neurons so far arrive at the next point
        reached = y[0] + sum(weight * (x[i + 1] - x[j]) for j, weight in enumerate(weights))
        weights.append((y[i + 1] - reached) / (x[i + 1] - x[i]))
    return torch.stack([-x[i] for i in range(len(weights))]), torch.stack(weights)


@bends.solution
def bends(x, y):
    slopes = y.diff() / x.diff()
    down_weight = torch.cat([slopes[:1], slopes.diff()])  # each neuron changes the slope
    return -x[:-1], down_weight


@bends.alternative
def bends(x, y):
    up_bias = -x[:-1]
    hidden = torch.relu(x[1:, None] + up_bias)  # (points − 1, neurons): a triangle
    return up_bias, torch.linalg.solve(hidden, y[1:] - y[0])


def slope(x, y):
    """The slopes between the points."""
    return y.diff() / x.diff()


def changes(slopes):
    """The first slope, and by how much each later one differs from the one before."""
    return torch.cat([slopes[:1], slopes.diff()])


bends.mistake(
    "slopes, not changes of slope",
    """Your weights are the slopes themselves. But all neurons to the left stay awake and keep adding
    theirs, so the slopes would pile up. A neuron adds the change: the new slope minus the one before.""",
    lambda x, y: (-x[:-1], slope(x, y)),
)

bends.mistake(
    "bias with the wrong sign",
    """Your biases are +x[i]: then neuron i wakes up at −x[i]. It bends where `t + up_bias[i]` is 0, and
    that is to be at t = x[i].""",
    lambda x, y: (x[:-1], changes(slope(x, y))),
)

bends.mistake(
    "a neuron for every point",
    """You have as many neurons as points. The last one would only wake up at the last point, where nothing
    is left to do. `x[:-1]` leaves it out.""",
    lambda x, y: (-x, torch.cat([changes(slope(x, y)), torch.zeros(1)])),
    lambda x, y: (-x, torch.cat([changes(slope(x, y)), -slope(x, y)[-1:]])),
    lambda x, y: (-x, changes(slope(x, y))),
)

bends.mistake(
    "a step too late",
    """Your neurons begin at the end of their piece, `x[1:]`. To bring the line from x[i] to x[i + 1], a
    neuron must wake up at x[i].""",
    lambda x, y: (-x[1:], changes(slope(x, y))),
)

bends.mistake(
    "differences, not slopes",
    """You use the differences of y alone. How steep a piece is depends on how wide it is, too: divide by
    `x.diff()`.""",
    lambda x, y: (-x[:-1], changes(y.diff())),
    lambda x, y: (-x[:-1], y.diff()),
)

bends.mistake(
    "changes first, widths afterwards",
    """You take the changes of the heights, and divide by the widths afterwards. Each slope has a width of its
    own: first the slopes, `y.diff() / x.diff()`, and then their changes.""",
    lambda x, y: (-x[:-1], changes(y.diff()) / x.diff()),
)

bends.mistake(
    "slopes upside down",
    """You divide the step in x by the step in y. A slope says how far y goes for one step in x: `y.diff() /
    x.diff()`.""",
    lambda x, y: (-x[:-1], changes(x.diff() / y.diff())),
)

bends.mistake(
    "the first slope forgotten",
    """Your first neuron has the weight 0, or there is none: the curve starts flat. Before the first bend
    there is no slope, so the first neuron adds the whole first slope.""",
    lambda x, y: (-x[:-1], torch.cat([torch.zeros(1), slope(x, y).diff()])),
    lambda x, y: (-x[1:-1], slope(x, y).diff()),
    lambda x, y: (-x[:-1], slope(x, y).diff()),
)

bends.mistake(
    "old minus new",
    """Your changes have the wrong sign: the slope before minus the slope after. What a neuron adds is the
    new slope minus the old one, as `diff()` has it.""",
    lambda x, y: (-x[:-1], torch.cat([slope(x, y)[:1], -slope(x, y).diff()])),
)

bends.mistake(
    "slopes added up",
    """You add up the slopes. That is what the network does by itself, as one neuron after the other wakes
    up. Your weights must undo it: `diff`, not `cumsum`.""",
    lambda x, y: (-x[:-1], slope(x, y).cumsum(0)),
)

bends.mistake(
    "heights for weights",
    """Your weights are the heights of the points. A neuron's weight is a slope: how much the curve rises,
    from its bend on, for one step in t.""",
    lambda x, y: (-x[:-1], y[1:]),
    lambda x, y: (-x[:-1], y[:-1]),
    lambda x, y: (-x[:-1], y[1:] - y[0]),
)

bends.mistake(
    "slopes from the first point",
    """You take every slope from the first point. The line runs from each point to the next: `y.diff() /
    x.diff()`, and then the changes.""",
    lambda x, y: (-x[:-1], (y[1:] - y[0]) / (x[1:] - x[0])),
    lambda x, y: (-x[:-1], changes((y[1:] - y[0]) / (x[1:] - x[0]))),
)

bends.mistake(
    "changes at the wrong end",
    """Your list of changes is one place off: the first neuron must add the first slope, and only the later
    ones a difference. `torch.cat([slopes[:1], slopes.diff()])`.""",
    lambda x, y: (-x[:-1], torch.cat([slope(x, y).diff(), slope(x, y)[-1:]])),
    lambda x, y: (-x[:-1], torch.cat([slope(x, y).diff(), torch.zeros(1)])),
    lambda x, y: (-x[:-1], torch.diff(slope(x, y), append=torch.zeros(1))),
    lambda x, y: (-x[:-1], slope(x, y) - slope(x, y).roll(1)),
    lambda x, y: (-x[:-1], slope(x, y).roll(-1) - slope(x, y)),
)

bends.mistake(
    "the first slope measured from a height",
    """You subtract y[0], or another height, from the first slope. Before the first neuron wakes up the
    curve is flat, so the first change is the first slope itself, minus 0.""",
    lambda x, y: (-x[:-1], torch.diff(slope(x, y), prepend=y[:1])),
)

bends.mistake(
    "bends in the middle",
    """Your neurons wake up half-way between the points. The straight pieces run from point to point, so the
    bends are at the points: `-x[:-1]`.""",
    lambda x, y: (-(x[:-1] + x[1:]) / 2, changes(slope(x, y))),
)

bends.mistake(
    "slope inside the neuron",
    """Your bias is −x[i] times a slope, as for a neuron relu(slope · t + bias). Here each neuron is relu(t
    + bias), and the slope comes afterwards, as its weight: the bias is −x[i].""",
    lambda x, y: (-x[:-1] * slope(x, y), slope(x, y)),
    lambda x, y: (-x[:-1] * changes(slope(x, y)), changes(slope(x, y))),
    lambda x, y: (y[:-1] - x[:-1] * slope(x, y), slope(x, y)),
)

bends.mistake(
    "results in the wrong order",
    """Both results are right, in the wrong order: first `up_bias`, then `down_weight`.""",
    lambda x, y: (changes(slope(x, y)), -x[:-1]),
)
