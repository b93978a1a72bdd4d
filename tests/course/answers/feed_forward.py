"""Lesson 06: independent and alternative answers to its exercises."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import alternative, independent, on_meta, parameter_count
from transformer_course.exercises.encoder import InARow
from transformer_lab.feed_forward import FeedForward, GatedFeedForward


@independent("06.1")
def independent_feed_forward(x, up_weight, up_bias, down_weight, down_bias):
    return F.linear(F.relu(F.linear(x, up_weight, up_bias)), down_weight, down_bias)


@alternative("06.1")
def other_feed_forward(x, up_weight, up_bias, down_weight, down_bias):
    asked = torch.einsum("fi,...i->...f", up_weight, x) + up_bias
    hidden = torch.where(asked > 0, asked, 0.0)
    return F.linear(hidden, down_weight, down_bias)


@independent("06.2")
class IndependentFeedForward(FeedForward):
    def __init__(self, d_model, d_ff, activation):
        super().__init__(d_model, d_ff, activation=activation)


alternative("06.2")(InARow)


independent("06.3")(GatedFeedForward)


@alternative("06.3")
class OtherGatedFeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate_projection = nn.Linear(d_model, d_ff, bias=False)
        self.up_projection = nn.Linear(d_model, d_ff, bias=False)
        self.down_projection = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        both = torch.cat([self.gate_projection.weight, self.up_projection.weight])
        asked, offered = (x @ both.mT).chunk(2, dim=-1)
        return self.down_projection(asked * torch.sigmoid(asked) * offered)


@independent("06.4")
@on_meta
def independent_parameters(d_model, d_ff):
    return parameter_count(FeedForward(d_model, d_ff)), parameter_count(GatedFeedForward(d_model, d_ff))


@alternative("06.4")
def other_parameters(d, f):
    up, down = (d + 1) * f, (f + 1) * d
    return [up + down, d * f * 3]


@alternative("06.5")
@independent("06.5")
def other_gated_width(d_ff, multiple):
    return next(width for width in range(0, d_ff + multiple, multiple) if 3 * width >= 2 * d_ff)


class Units(nn.Module):
    """The right list of units."""

    def unit(self, width, expansion):
        up = nn.Linear(width, expansion * width)
        down = nn.Linear(expansion * width, width)
        return nn.Sequential(nn.LayerNorm(width, eps=1e-9), up, nn.PReLU(init=5e-3), down)

    def __init__(self, width, expansion, n_units):
        super().__init__()
        self.units = self.build(width, expansion, n_units)

    def build(self, width, expansion, n_units):
        return nn.ModuleList(self.unit(width, expansion) for _ in range(n_units))


@independent("06.6")
class IndependentFeedForwardStack(Units):
    def forward(self, x):
        for norm, up, bend, down in self.units:
            normed = F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, 1e-9)
            hidden = F.prelu(F.linear(normed, up.weight, up.bias), bend.weight)
            x = x + F.linear(hidden, down.weight, down.bias)
        return x


@alternative("06.6")
class OtherFeedForwardStack(Units):
    def build(self, width, expansion, n_units):
        first = self.unit(width, expansion)
        return nn.Sequential(first, *[copy.deepcopy(first) for _ in range(n_units - 1)])

    def forward(self, x):
        for i in range(len(self.units)):
            update = self.units[i](x)
            x = update + x
        return x


@alternative("06.7")
@independent("06.7")
def other_sizes(units):
    everywhere = nn.ModuleList(units).named_parameters(remove_duplicate=False)
    listed = sum(parameter.numel() for _, parameter in everywhere)
    return listed, parameter_count(nn.Sequential(*units))


@alternative("06.8")
@independent("06.8")
def other_bends(x, y):
    up_bias = -x[:-1]
    hidden = torch.relu(x[1:, None] + up_bias)  # (points − 1, neurons): a triangle
    return up_bias, torch.linalg.solve(hidden, y[1:] - y[0])
