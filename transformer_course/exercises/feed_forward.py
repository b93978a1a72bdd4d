"""Exercises of lesson 06."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from transformer_course.checker import exercise


@exercise("06.1", difficulty=1, forbidden=("nn.Module",))
def feed_forward(x, up_weight, up_bias, down_weight, down_bias):
    """Apply the feed-forward network to each token separately: linear, ReLU, linear, and nothing more.

    x: (…, d_model)
    up_weight, up_bias: (d_ff, d_model) and (d_ff), as nn.Linear stores them
    down_weight, down_bias: (d_model, d_ff) and (d_model)
    returns (…, d_model)
    """
    hidden = (x @ up_weight.mT + up_bias).clamp(min=0)  # (…, d_ff)
    return hidden @ down_weight.mT + down_bias  # (…, d_model)


@feed_forward.cases
def feed_forward_cases(normal):
    for leading, d_model, d_ff in [((5,), 3, 7), ((1, 3), 5, 11), ((7,), 3, 3), ((), 2, 3)]:  # one is square
        yield {
            "x": normal(*leading, d_model),
            "up_weight": normal(d_ff, d_model),
            "up_bias": normal(d_ff),
            "down_weight": normal(d_model, d_ff),
            "down_bias": normal(d_model),
        }


@exercise("06.2", difficulty=2)
class FeedForward(nn.Module):
    """Two linear layers with an activation function between them, applied to each token separately."""

    def __init__(self, d_model, d_ff, activation):
        """activation: a module, for example nn.GELU()

        The linear layers are called up_projection and down_projection.
        """
        # yours:
        super().__init__()
        self.up_projection = nn.Linear(d_model, d_ff)
        self.activation = activation
        self.down_projection = nn.Linear(d_ff, d_model)

    def forward(self, x):
        """(batch, position, d_model) → (batch, position, d_model)"""
        return self.down_projection(self.activation(self.up_projection(x)))


@FeedForward.cases
def feed_forward_module_cases(normal):
    yield {"d_model": 3, "d_ff": 7, "activation": nn.GELU()}, {"x": normal(2, 5, 3)}
    yield {"d_model": 5, "d_ff": 11, "activation": nn.Tanh()}, {"x": normal(3, 2, 5)}
    yield {"d_model": 2, "d_ff": 3, "activation": nn.ReLU()}, {"x": normal(1, 1, 2)}


@exercise("06.3", difficulty=2)
class GatedFeedForward(nn.Module):
    """FFN(x) = (SiLU(x W) ⊙ x V) W_2, where ⊙ multiplies feature by feature.

    gate_projection is W, up_projection is V, both from d_model to d_ff features;
    down_projection is W_2, from d_ff to d_model. No layer has a bias.
    """

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate_projection = nn.Linear(d_model, d_ff, bias=False)
        self.up_projection = nn.Linear(d_model, d_ff, bias=False)
        self.down_projection = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        """x: (…, d_model), returns (…, d_model)"""
        gate = F.silu(self.gate_projection(x))  # (…, d_ff)
        return self.down_projection(gate * self.up_projection(x))


@GatedFeedForward.cases
def gated_feed_forward_cases(normal):
    yield {"d_model": 3, "d_ff": 7}, {"x": normal(2, 5, 3)}
    yield {"d_model": 5, "d_ff": 5}, {"x": normal(7, 5)}  # square: exchanged layers would fit
    yield {"d_model": 2, "d_ff": 1}, {"x": normal(1, 1, 2)}  # a single token


@exercise("06.4", difficulty=1, returns=("plain", "gated"))
def parameters(d_model, d_ff):
    """Count the parameters of both kinds of feed-forward network, without building them.

    plain: up projection, activation, down projection; both linear layers have a bias
    gated: gate, up and down projection, as in Eq. 6 of arXiv:2002.05202; no linear layer has a bias
    returns plain, gated: two ints
    """
    one_matrix = d_model * d_ff
    plain = 2 * one_matrix + d_ff + d_model
    gated = 3 * one_matrix
    return plain, gated


@parameters.cases
def parameters_cases(normal):
    for d_model, d_ff in [(3, 7), (5, 11), (6, 24), (512, 2048), (384, 1536), (4096, 11008)]:
        yield {"d_model": d_model, "d_ff": d_ff}


@exercise("06.5", difficulty=1)
def gated_width(d_ff, multiple):
    """Return the width at which a gated network has as many weights as a plain one of width d_ff.

    The smallest multiple of `multiple` that is at least ⅔ of d_ff. (Hardware likes round widths.)
    returns an int
    """
    width = 2 * d_ff / 3
    return math.ceil(width / multiple) * multiple


@gated_width.cases
def gated_width_cases(normal):
    for d_ff, multiple in [(16384, 256), (2048, 64), (100, 7), (12, 4), (96, 3), (7, 5), (3072, 128)]:
        yield {"d_ff": d_ff, "multiple": multiple}
    for d_ff in (3002, 5999):  # just above a multiple, just below one: .666 and .667 miss it
        yield {"d_ff": d_ff, "multiple": 100}
    yield {"d_ff": 97, "multiple": 64}  # ⅔ of it is 64⅔, just above a multiple
    yield {"d_ff": 8, "multiple": 1}


@exercise("06.6", difficulty=2)
class FeedForwardStack(nn.Module):
    """x = x + unit(x), n_units times; every unit has its own parameters. Call the list `units`."""

    def unit(self, width, expansion):
        up = nn.Linear(width, expansion * width)
        down = nn.Linear(expansion * width, width)
        return nn.Sequential(nn.LayerNorm(width, eps=1e-9), up, nn.PReLU(init=5e-3), down)
        # yours:

    def __init__(self, width, expansion, n_units):
        super().__init__()
        self.units = nn.ModuleList(self.unit(width, expansion) for _ in range(n_units))

    def forward(self, x):
        """x: (…, width), returns (…, width)"""
        for unit in self.units:
            x = x + unit(x)
        return x


@FeedForwardStack.cases
def feed_forward_stack_cases(normal):
    yield {"width": 3, "expansion": 2, "n_units": 2}, {"x": normal(2, 5, 3)}
    yield {"width": 5, "expansion": 1, "n_units": 3}, {"x": normal(7, 5)}


@exercise("06.7", difficulty=2, returns=("listed", "own"))
def sizes(units):
    """Count the parameters of a stack, entry by entry, in two ways. Frozen ones count, buffers do not.

    units: a list of modules of any kind, applied one after the other; some may share parameters
    listed: every parameter counts as often as it occurs
    own: every parameter counts once, however often it occurs
    returns listed, own: two ints
    """
    every = [parameter for unit in units for parameter in unit.parameters()]
    different = {id(parameter): parameter for parameter in every}
    return sum(p.numel() for p in every), sum(p.numel() for p in different.values())


class Listed(list):
    """A list that says in words what a case has in it: printed, one unit four times looks like four."""

    def __init__(self, units, words):
        super().__init__(units)
        self.words = words

    def __repr__(self):
        return self.words


@sizes.cases
def sizes_cases(normal):
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


@exercise("06.8", difficulty=3, returns=("up_bias", "down_weight"))
def bends(x, y):
    """Find a ReLU network that passes through all points, with a straight line from each to the next.

    The network is f(t) = y[0] + Σ down_weight[i] · relu(t + up_bias[i]),
    with a neuron for every point but the last, and f(x[i]) = y[i].
    x, y: (points,), x increasing
    returns up_bias, down_weight: both (points − 1,)
    """
    slopes = y.diff() / x.diff()
    down_weight = torch.cat([slopes[:1], slopes.diff()])  # each neuron changes the slope
    return -x[:-1], down_weight


@bends.cases
def bends_cases(normal):
    for points in (5, 7, 2):
        yield {"x": normal(points).abs().cumsum(0) - 1, "y": normal(points)}
    by_hand = torch.tensor([0.0, 1, 3]), torch.tensor([0.0, 2, 2])  # up with slope 2, then flat
    yield dict(zip(("x", "y"), by_hand, strict=True))
