"""Exercises of lesson 02."""

import math

import numpy as np
import torch
from torch import nn

from transformer_course.checker import exercise
from transformer_course.checker.exercise_types import ModuleExercise
from transformer_course.checker.parameters import require_buffer
from transformer_lab import RotaryEmbedding, rotate_half_split, rotate_interleaved

# ------------------------------------------------------------------------------------------------------ 02.1


@exercise(
    "02.1",
    "Turn one pair",
    hints=[
        """Do it on paper for (1, 0): turned by θ it becomes (cos θ, sin θ). And (0, 1), a quarter turn
        further on, becomes (−sin θ, cos θ). A pair (a, b) is a times the first plus b times the second.""",
        """The first features are `pairs[..., 0]`, the second `pairs[..., 1]`. Compute both new ones from
        the old ones, then put them side by side on a new last axis: `torch.stack([…, …], dim=-1)`.""",
    ],
)
def turn(pairs, angle):
    """Turn each pair counter-clockwise.

    pairs: (…, 2)
    angle: a Python number, in radians: math.cos(angle)
    returns (…, 2): (a, b) becomes (a·cos − b·sin, a·sin + b·cos)
    """
    raise NotImplementedError


@turn.cases
def turn(normal):
    yield {"pairs": normal(3, 2), "angle": 0.7}
    yield {"pairs": normal(5, 7, 2), "angle": -2.0}
    yield {"pairs": normal(2, 2), "angle": 41.0}
    yield {"pairs": torch.tensor([3.0, 4.0]), "angle": math.pi}  # a single pair, by hand: half a turn


@turn.specification
def turn(pairs, angle):
    result = torch.zeros(pairs.numel() // 2, 2)
    for i, (a, b) in enumerate(pairs.reshape(-1, 2)):
        result[i, 0] = a * math.cos(angle) - b * math.sin(angle)
        result[i, 1] = a * math.sin(angle) + b * math.cos(angle)
    return result.view(pairs.shape)


@turn.solution
def turn(pairs, angle):
    cos, sin = math.cos(angle), math.sin(angle)
    a, b = pairs[..., 0], pairs[..., 1]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)


@turn.alternative
def turn(pairs, angle):
    turned = torch.view_as_complex(pairs.contiguous()) * complex(math.cos(angle), math.sin(angle))
    return torch.view_as_real(turned)


# ------------------------------------------------------------------------------------------------------ 02.2


@exercise(
    "02.2",
    "Rotary embedding",
    difficulty=2,
    forbidden=("transformer_lab",),
    hints=[
        """Angles first, as in lesson 01: positions as a column, `torch.arange(length)[:, None]`, times
        the d_head / 2 frequencies as a row. They are the same for every text and every head.""",
        """`a, b = x.chunk(2, dim=-1)` gives the first members of all pairs, and the second ones. Each is
        (batch, heads, position, d_head / 2), and the angles (position, d_head / 2) fit from the right.""",
        """Turn as in 02.1, and write the new a and the new b one after the other: `torch.cat([…, …],
        dim=-1)`.""",
    ],
)
def rotary(x, base):
    """Turn the pairs (i, i + d_head/2) by position · base ** (−2i / d_head), counter-clockwise.

    x: (batch, heads, position, d_head), the first position is 0
    base: 10000 in the paper
    returns a tensor of the same shape; compute the angles in float64 (the default here): in a shorter
    format their error grows with the position
    Write it yourself, without `transformer_lab`.
    """
    raise NotImplementedError


@rotary.cases
def rotary(normal):
    yield {"x": normal(2, 3, 7, 10), "base": 10_000.0}
    yield {"x": normal(3, 5, 5, 6), "base": 100.0}  # as many heads as positions: a wrong axis fits
    yield {"x": normal(5, 2, 3, 14), "base": 500_000.0}
    yield {"x": normal(5, 2, 3, 14), "base": 100.0}  # angles kept for a length, or a width, are other ones
    yield {"x": normal(1, 1, 1031, 2), "base": 10_000}  # longer than a table of fixed length


@rotary.specification
def rotary(x, base):
    result = torch.zeros(x.shape)
    batch, heads, length, d_head = x.shape
    half = d_head // 2
    for text in range(batch):
        for head in range(heads):
            for m in range(length):
                for i in range(half):
                    angle = m / math.pow(base, i / half)
                    a, b = x[text, head, m, i], x[text, head, m, i + half]
                    result[text, head, m, i] = a * math.cos(angle) - b * math.sin(angle)
                    result[text, head, m, i + half] = a * math.sin(angle) + b * math.cos(angle)
    return result


@rotary.solution
def rotary(x, base):
    length, d_head = x.shape[-2:]
    frequency = base ** (-torch.arange(0, d_head, 2) / d_head)  # (d_head/2,)
    angle = torch.arange(length)[:, None] * frequency  # (position, d_head/2)
    a, b = x.chunk(2, dim=-1)  # (batch, heads, position, d_head/2) each
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)


@rotary.alternative
def rotary(x, base):
    half = x.shape[-1] // 2
    theta = torch.outer(
        torch.arange(x.shape[2]) * 1.0, torch.exp(-math.log(base) * torch.arange(half) / half)
    )
    cos, sin = torch.cat([theta, theta], dim=-1).cos(), torch.cat([theta, theta], dim=-1).sin()
    swapped = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos + swapped * sin


# ------------------------------------------------------------------------------------------------------ 02.3


@exercise(
    "02.3",
    "What is turned, and from where",
    returns=("query", "key", "value"),
    hints=[
        """Two of the three are compared with each other, one is only handed over. Which ones need to
        know where they stand?""",
        """`rotary(x, offset=start)` turns the first vector of x by position `start`, the next by `start
        + 1`, and so on. Query and key of one token stand at the same position.""",
    ],
)
def prepare(query, key, value, start, rotary):
    """Make the queries, keys and values of a piece of text ready for the comparison.

    query, key, value: (heads, position, d_head), of the same tokens
    start: position of the first of them in the whole text
    rotary: a module; rotary(x, offset=m) turns the first vector of x by position m, the next by m + 1, …
    returns query, key, value as they enter the attention
    """
    raise NotImplementedError


@prepare.cases
def prepare(normal):
    for heads, length, d_head, start in [(2, 5, 6, 7), (3, 1, 10, 40), (3, 7, 2, 0)]:
        pairing = rotate_interleaved if length == 5 else rotate_half_split
        rotate = RotaryEmbedding(d_head, base=100.0, rotate=pairing)
        query, key, value = (normal(heads, length, d_head) for _ in range(3))
        yield {"query": query, "key": key, "value": value, "start": start, "rotary": rotate}


@prepare.specification
def prepare(query, key, value, start, rotary):
    half = rotary.d_head // 2
    neighbours = rotary.rotate is rotate_interleaved
    pairs = [(2 * i, 2 * i + 1) if neighbours else (i, i + half) for i in range(half)]
    results = []
    for x in (query, key):
        turned = torch.zeros(x.shape)
        for head in range(x.shape[0]):
            for place in range(x.shape[1]):
                for i, (one, other) in enumerate(pairs):
                    angle = (start + place) / math.pow(rotary.base, i / half)
                    a, b = x[head, place, one], x[head, place, other]
                    turned[head, place, one] = a * math.cos(angle) - b * math.sin(angle)
                    turned[head, place, other] = a * math.sin(angle) + b * math.cos(angle)
        results.append(turned)
    return (*results, value)


@prepare.solution
def prepare(query, key, value, start, rotary):
    return rotary(query, offset=start), rotary(key, offset=start), value


@prepare.alternative
def prepare(query, key, value, start, rotary):
    positions = torch.arange(query.shape[-2]) + start
    turned = rotary(torch.cat([query, key]), positions=positions)
    return *turned.chunk(2), value.clone()


# ------------------------------------------------------------------------------------------------------ 02.4


class WithFrequency(ModuleExercise):
    """Asks as well for the buffer that goes with the module, which no result on one machine tells."""

    def ready(self, answer, case, parameters=None):
        module = super().ready(answer, case, parameters)
        require_buffer(module, "frequency")
        return module


@exercise(
    "02.4",
    "Write rotary embedding as a module",
    kind=WithFrequency,
    difficulty=2,
    forbidden=("transformer_lab",),
    keyword_arguments=("offset",),
    hints=[
        """In `__init__` make the frequencies as in 02.2, and keep them with
        `self.register_buffer("frequency", …, persistent=False)`. From then on they are `self.frequency`.""",
        """In `forward` the positions are not 0, 1, 2, … but `offset`, `offset + 1`, …, as many as x has:
        `torch.arange(offset, offset + x.shape[-2])`. Made a column, and multiplied by the frequencies, they
        are the angles.""",
        """The rest is 02.2, line by line. Count axes from the end, and any number may stand in front. Angles
        in float64 make the product float64, too: `.to(x.dtype)` gives it back in the format of x.""",
    ],
)
class Rotary(nn.Module):
    """Turns queries or keys by their positions, half-split. Nothing in it is trained."""

    def __init__(self, d_head, base=10_000.0):
        super().__init__()
        # self.frequency: (d_head/2,), a buffer, saved in no file
        raise NotImplementedError

    def forward(self, x, offset=0):
        """x (…, position, d_head), with any axes in front. Its first position is `offset`.

        Returns the same shape and dtype; the angles are in float64. Write it yourself, without
        transformer_lab.
        """
        raise NotImplementedError


@Rotary.cases
def Rotary(normal):
    yield {"d_head": 10, "base": 100.0}, {"x": normal(2, 3, 7, 10), "offset": 11}
    yield {"d_head": 6}, {"x": normal(5, 5, 6)}  # as many in front as positions: a wrong axis fits
    yield {"d_head": 14, "base": 500_000.0}, {"x": normal(3, 14), "offset": 2}
    yield {"d_head": 4}, {"x": normal(2, 3, 4).float(), "offset": 1}  # what most models compute in
    yield {"d_head": 2}, {"x": normal(1, 1, 1, 2), "offset": 5003}  # far behind a table of fixed length


@Rotary.specification
class Rotary(nn.Module):
    def __init__(self, d_head, base=10_000.0):
        super().__init__()
        self.half, self.base = d_head // 2, base
        self.register_buffer("frequency", torch.zeros(self.half), persistent=False)

    def forward(self, x, offset=0):
        result = torch.zeros_like(x)
        for index in np.ndindex(*x.shape[:-1]):
            for i in range(self.half):
                angle = (offset + index[-1]) / math.pow(self.base, i / self.half)
                a, b = x[index][i], x[index][i + self.half]
                result[index][i] = a * math.cos(angle) - b * math.sin(angle)
                result[index][i + self.half] = a * math.sin(angle) + b * math.cos(angle)
        return result


def solution():
    """In a function: `inspect` finds the first class of a name in a module, and that is the stub."""

    class Rotary(nn.Module):
        def __init__(self, d_head, base=10_000.0):
            super().__init__()
            frequency = base ** (-torch.arange(0, d_head, 2) / d_head)  # (d_head/2,)
            self.register_buffer("frequency", frequency, persistent=False)

        def forward(self, x, offset=0):
            position = torch.arange(offset, offset + x.shape[-2], device=x.device)
            angle = position[:, None] * self.frequency  # (position, d_head/2)
            a, b = x.chunk(2, dim=-1)  # (…, position, d_head/2) each
            turned = torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)
            return turned.to(x.dtype)

    return Rotary


Rotary.solution(solution())


def alternative():
    class Rotary(nn.Module):
        def __init__(self, d_head, base=10_000.0):
            super().__init__()
            half = torch.arange(d_head // 2) * 2 / d_head
            self.register_buffer("frequency", torch.exp(-math.log(base) * half), persistent=False)

        def forward(self, tokens, offset=0):
            angle = torch.outer(offset + torch.arange(tokens.size(-2)), self.frequency).repeat(1, 2)
            first, second = tokens.tensor_split(2, -1)
            cos, sin = angle.cos().type_as(tokens), angle.sin().type_as(tokens)
            return tokens * cos + torch.cat([-second, first], -1) * sin

    return Rotary


Rotary.alternative(alternative())


# ------------------------------------------------------------------------------------------------------ 02.5


@exercise(
    "02.5",
    "The complex form, heads last",
    difficulty=2,
    forbidden=("transformer_lab",),
    hints=[
        """`x.unflatten(-1, (-1, 2))` makes pairs of neighbours, (batch, position, heads, d_head/2, 2),
        and `torch.view_as_complex` one complex number of each pair. `view_as_real` and `flatten(-2)`
        lead back.""",
        """`torch.polar(torch.ones_like(angle), angle)` is e^(i·angle), for the angles (position,
        d_head/2). Shapes are matched from the right, and there the heads stand before the pairs: the
        rotation must be (position, 1, d_head/2).""",
        "The positions are `torch.arange(start, start + x.shape[1])`.",
    ],
)
def rotary_complex(x, start):
    """Turn the pairs (2i, 2i + 1) by position · 10000 ** (−2i / d_head), as complex numbers.

    x: (batch, position, heads, d_head): the heads stand behind the positions
    start: the position of the first token
    returns a tensor of the same shape; compute the angles in float64 (the default here): in a shorter
    format their error grows with the position
    Write it yourself, without `transformer_lab`.
    """
    raise NotImplementedError


@rotary_complex.cases
def rotary_complex(normal):
    yield {"x": normal(2, 7, 3, 10), "start": 0}
    yield {"x": normal(2, 5, 5, 6), "start": 11}  # as many heads as positions: a wrong axis fits
    yield {"x": normal(3, 1, 2, 6), "start": 5003}  # a single token, far behind a table of fixed length


@rotary_complex.specification
def rotary_complex(x, start):
    result = torch.zeros(x.shape)
    batch, length, heads, d_head = x.shape
    for text in range(batch):
        for place in range(length):
            for head in range(heads):
                for i in range(d_head // 2):
                    angle = (start + place) / math.pow(10_000, 2 * i / d_head)
                    a, b = x[text, place, head, 2 * i], x[text, place, head, 2 * i + 1]
                    result[text, place, head, 2 * i] = a * math.cos(angle) - b * math.sin(angle)
                    result[text, place, head, 2 * i + 1] = a * math.sin(angle) + b * math.cos(angle)
    return result


@rotary_complex.solution
def rotary_complex(x, start):
    length, d_head = x.shape[1], x.shape[-1]
    frequency = 10_000 ** (-torch.arange(0, d_head, 2) / d_head)
    angle = torch.arange(start, start + length)[:, None] * frequency  # (position, d_head/2)
    rotation = torch.polar(torch.ones_like(angle), angle)[:, None]  # (position, 1, d_head/2)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))  # (batch, position, heads, d_head/2)
    return torch.view_as_real(pairs * rotation).flatten(-2)


@rotary_complex.alternative
def rotary_complex(x, start):
    where = start + torch.arange(x.size(1)).view(1, -1, 1, 1)
    angle = where * torch.exp(-math.log(10_000) * torch.arange(0, x.size(-1), 2) / x.size(-1))
    a, b = x[..., ::2], x[..., 1::2]
    result = torch.empty_like(x)
    result[..., ::2] = a * angle.cos() - b * angle.sin()
    result[..., 1::2] = b * angle.cos() + a * angle.sin()
    return result


# ------------------------------------------------------------------------------------------------------ 02.6


@exercise(
    "02.6",
    "A checkpoint for the other pairing",
    difficulty=2,
    returns=("weight", "bias"),
    hints=[
        """A feature of the query is one row of the weight, and one entry of the bias: `nn.Linear` keeps
        its weight as (features out, features in). So reorder rows.""",
        """Inside one head the new order takes the even features first, then the odd ones. That is
        `interleaved_to_half_split(d_head)`, or `[0::2]` and `[1::2]`.""",
        """Cut the rows into heads first: `weight.unflatten(0, (n_heads, -1))` is (n_heads, d_head,
        d_model). Reorder axis 1, and `flatten(0, 1)`.""",
    ],
)
def to_half_split(weight, bias, n_heads):
    """Turn a query or key projection for pairs (2i, 2i + 1) into one for pairs (i, i + d_head/2).

    weight: (n_heads · d_head, d_model), head 0 has the first d_head rows
    bias: (n_heads · d_head,)
    returns the new weight and the new bias
    """
    raise NotImplementedError


@to_half_split.cases
def to_half_split(normal):
    yield {"weight": normal(18, 5), "bias": normal(18), "n_heads": 3}
    yield {"weight": normal(20, 20), "bias": normal(20), "n_heads": 2}
    yield {"weight": torch.arange(8.0).view(4, 2), "bias": torch.arange(4.0), "n_heads": 1}  # by hand


@to_half_split.specification
def to_half_split(weight, bias, n_heads):
    d_head = len(bias) // n_heads
    new_weight, new_bias = torch.zeros(weight.shape), torch.zeros(bias.shape)
    for head in range(n_heads):
        for i in range(d_head // 2):
            for member in (0, 1):  # of pair i
                old = head * d_head + 2 * i + member
                new = head * d_head + i + member * (d_head // 2)
                new_weight[new], new_bias[new] = weight[old], bias[old]
    return new_weight, new_bias


@to_half_split.solution
def to_half_split(weight, bias, n_heads):
    def reorder(rows):
        heads = rows.unflatten(0, (n_heads, -1))  # (n_heads, d_head, …)
        return torch.cat([heads[:, 0::2], heads[:, 1::2]], dim=1).flatten(0, 1)

    return reorder(weight), reorder(bias)


@to_half_split.alternative
def to_half_split(weight, bias, n_heads):
    half = len(bias) // n_heads // 2
    rows = torch.arange(len(bias)).view(n_heads, half, 2).transpose(1, 2).reshape(-1)
    return weight[rows], bias[rows]


# ------------------------------------------------------------------------------------------------------ 02.7


class Unknown:
    """A rotation whose pairs the learner has to find out."""

    def __init__(self, d_head, order, rotate=rotate_interleaved):
        self.rotary, self.order = RotaryEmbedding(d_head, rotate=rotate), torch.tensor(order)

    def __call__(self, x):
        return self.rotary(x[..., self.order])[..., self.order.argsort()]

    def __repr__(self):
        return "an unknown rotation"


@exercise(
    "02.7",
    "Ask a code for its pairing (stretch)",
    difficulty=3,
    hints=[
        """Feed a vector that is 1 in one feature and 0 in all others, at position 1: what comes out is 0
        except in that feature and in its partner. `torch.eye(d_head)` holds all these vectors.""",
        """`rotate` counts positions from 0, and at position 0 nothing moves. Give each vector twice, (2,
        d_head), and look at the second row of the result.""",
        """The slowest pairs turn by a thousandth of a radian or less: do not compare with a tolerance
        that swallows them. Exact zeros stay exact: `!= 0` will do, or choose a late position.""",
    ],
)
def find_pairs(rotate, d_head):
    """Which features does an unknown code turn together?

    rotate: maps (position, d_head) to the same shape, turned by the positions 0, 1, 2, …
    returns a list of d_head / 2 pairs (feature, partner), the smaller number first, sorted
    """
    raise NotImplementedError


@find_pairs.cases
def find_pairs(normal):
    for order in ([0, 3, 1, 4, 2, 5], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [5, 1, 0, 3, 2, 4]):
        yield {"rotate": Unknown(len(order), order), "d_head": len(order)}


@find_pairs.specification
def find_pairs(rotate, d_head):
    found = []
    for first in range(d_head):
        for second in range(first + 1, d_head):
            x = torch.zeros(2, d_head)
            x[:, first] = 1
            if rotate(x)[1, second].item() != 0:
                found.append((first, second))
    return found


@find_pairs.solution
def find_pairs(rotate, d_head):
    pairs = []
    for feature, one in enumerate(torch.eye(d_head)):  # 1 in one feature, 0 in the others
        turned = rotate(torch.stack([one, one]))[1]  # at position 1
        partner = (turned * (1 - one)).abs().argmax().item()
        if feature < partner:
            pairs.append((feature, partner))
    return pairs


@find_pairs.alternative
def find_pairs(rotate, d_head):
    at_one = torch.stack([rotate(one.expand(4, -1))[3] for one in torch.eye(d_head)])  # (feature, feature)
    return [tuple(pair) for pair in at_one.triu(diagonal=1).nonzero().tolist()]
