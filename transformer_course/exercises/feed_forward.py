"""Exercises of lesson 06."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from transformer_course.checker import exercise
from transformer_course.checker.shared_modules import InARow

# ------------------------------------------------------------------------------------------------------ 06.1


@exercise(
    "06.1",
    "The network, from its numbers",
    difficulty=1,
    forbidden=("nn.Module",),
    hints=[
        """Three steps: up, bend, down. `nn.Linear` keeps its weight as (features out, features in), and
        computes `x @ weight.mT + bias`.""",
        """The bend is ReLU: what is negative becomes 0, `clamp(min=0)` or `torch.relu`. It stands between
        the two maps, and nowhere else.""",
    ],
)
def feed_forward(x, up_weight, up_bias, down_weight, down_bias):
    """Map each token by itself: linear up to d_ff features, ReLU, linear down again. Nothing more.

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


# ------------------------------------------------------------------------------------------------------ 06.2


@exercise(
    "06.2",
    "Write it as a module",
    difficulty=2,
    hints=[
        """Up, bend, down: `up_projection` from d_model to d_ff features, the activation, `down_projection`
        back again.""",
        """`activation` is a module that is handed in. Keep it, `self.activation = activation`, and call it
        like a function.""",
        """PyTorch finds the numbers of a module that is kept in `self`. It must be ready for that: begin
        `__init__` with `super().__init__()`.""",
    ],
)
class FeedForward(nn.Module):
    """Two linear maps with an activation between them, for each token by itself."""

    def __init__(self, d_model, d_ff, activation):
        """activation: a module, for example nn.GELU()

        The linear maps are called up_projection and down_projection.
        """
        raise NotImplementedError

    def forward(self, x):
        """(batch, position, d_model) → (batch, position, d_model)"""
        raise NotImplementedError


@FeedForward.cases
def FeedForward(normal):
    yield {"d_model": 3, "d_ff": 7, "activation": nn.GELU()}, {"x": normal(2, 5, 3)}
    yield {"d_model": 5, "d_ff": 11, "activation": nn.Tanh()}, {"x": normal(3, 2, 5)}
    yield {"d_model": 2, "d_ff": 3, "activation": nn.ReLU()}, {"x": normal(1, 1, 2)}


@FeedForward.specification
class FeedForward(nn.Module):
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


@FeedForward.solution
class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, activation):
        super().__init__()
        self.up_projection = nn.Linear(d_model, d_ff)
        self.activation = activation
        self.down_projection = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.down_projection(self.activation(self.up_projection(x)))


FeedForward.alternative(InARow)


# ------------------------------------------------------------------------------------------------------ 06.3


@exercise(
    "06.3",
    "Write the gated network",
    difficulty=2,
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

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.gate_projection = nn.Linear(d_model, d_ff, bias=False)
        self.up_projection = nn.Linear(d_model, d_ff, bias=False)
        self.down_projection = nn.Linear(d_ff, d_model, bias=False)


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


# ------------------------------------------------------------------------------------------------------ 06.4


@exercise(
    "06.4",
    "Count before you build",
    difficulty=1,
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


# ------------------------------------------------------------------------------------------------------ 06.5


@exercise(
    "06.5",
    "How wide, for the same price?",
    difficulty=1,
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


# ------------------------------------------------------------------------------------------------------ 06.6


@exercise(
    "06.6",
    "A stack whose units are its own",
    difficulty=2,
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


# ------------------------------------------------------------------------------------------------------ 06.7


@exercise(
    "06.7",
    "How many numbers are there really?",
    difficulty=2,
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


# ------------------------------------------------------------------------------------------------------ 06.8


@exercise(
    "06.8",
    "Draw a curve with bends (stretch)",
    difficulty=3,
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
