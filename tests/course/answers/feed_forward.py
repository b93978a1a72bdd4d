"""Lesson 06: independent and alternative answers to its exercises."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import alternative, independent
from transformer_course.exercises.encoder import InARow


@independent("06.1")
def independent_feed_forward(x, up_weight, up_bias, down_weight, down_bias):
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


@alternative("06.1")
def other_feed_forward(x, up_weight, up_bias, down_weight, down_bias):
    asked = torch.einsum("fi,...i->...f", up_weight, x) + up_bias
    hidden = torch.where(asked > 0, asked, 0.0)
    return F.linear(hidden, down_weight, down_bias)


@independent("06.2")
class IndependentFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, activation):
        super().__init__()
        self.up_projection = nn.Linear(d_model, d_ff)
        self.down_projection = nn.Linear(d_ff, d_model)
        self.bend = activation

    def forward(self, x):
        result = torch.zeros_like(x)
        up, down = self.up_projection, self.down_projection
        for b in range(len(x)):
            for position in range(x.shape[1]):
                token = x[b, position]
                hidden = [(up.weight[j] * token).sum() + up.bias[j] for j in range(len(up.weight))]
                bent = self.bend(torch.stack(hidden))
                for f in range(len(down.weight)):
                    result[b, position, f] = (down.weight[f] * bent).sum() + down.bias[f]
        return result


alternative("06.2")(InARow)


class Maps(nn.Module):
    """The three projections that every answer has."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate_projection = nn.Linear(d_model, d_ff, bias=False)
        self.up_projection = nn.Linear(d_model, d_ff, bias=False)
        self.down_projection = nn.Linear(d_ff, d_model, bias=False)


@independent("06.3")
class IndependentGatedFeedForward(Maps):
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


@alternative("06.3")
class OtherGatedFeedForward(Maps):
    def forward(self, x):
        both = torch.cat([self.gate_projection.weight, self.up_projection.weight])
        asked, offered = (x @ both.mT).chunk(2, dim=-1)
        return self.down_projection(asked * torch.sigmoid(asked) * offered)


@independent("06.4")
def independent_parameters(d_model, d_ff):
    def count(*layers):
        return sum(parameter.numel() for layer in layers for parameter in layer.parameters())

    with torch.device("meta"):
        plain = count(nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model))
        gate, up = (nn.Linear(d_model, d_ff, bias=False) for _ in range(2))
        return plain, count(gate, up, nn.Linear(d_ff, d_model, bias=False))


@alternative("06.4")
def other_parameters(d, f):
    up, down = (d + 1) * f, (f + 1) * d
    return [up + down, d * f * 3]


@independent("06.5")
def independent_gated_width(d_ff, multiple):
    width = 0
    while 3 * width < 2 * d_ff:
        width += multiple
    return width


@alternative("06.5")
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


@independent("06.7")
def independent_sizes(units):
    listed, met = 0, []
    for unit in units:
        for parameter in unit.parameters():
            listed += parameter.numel()
            if not any(parameter is known for known in met):
                met.append(parameter)
    return listed, sum(parameter.numel() for parameter in met)


@alternative("06.7")
def other_sizes(units):
    listed = sum(parameter.numel() for _, parameter in everywhere(nn.ModuleList(units)))
    own = sum(parameter.numel() for parameter in nn.Sequential(*units).parameters())
    return listed, own


def everywhere(module):
    """Names and parameters of a module, those that are shared at every place."""
    return module.named_parameters(remove_duplicate=False)


@independent("06.8")
def independent_bends(x, y):
    weights = []
    for i in range(len(x) - 1):
        # where the neurons so far arrive at the next point
        reached = y[0] + sum(weight * (x[i + 1] - x[j]) for j, weight in enumerate(weights))
        weights.append((y[i + 1] - reached) / (x[i + 1] - x[i]))
    return torch.stack([-x[i] for i in range(len(weights))]), torch.stack(weights)


@alternative("06.8")
def other_bends(x, y):
    up_bias = -x[:-1]
    hidden = torch.relu(x[1:, None] + up_bias)  # (points − 1, neurons): a triangle
    return up_bias, torch.linalg.solve(hidden, y[1:] - y[0])
