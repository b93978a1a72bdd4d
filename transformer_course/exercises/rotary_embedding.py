"""Exercises of lesson 02."""

import math

import torch
from torch import nn

from transformer_course.checker import exercise
from transformer_course.checker.exercise_types import ModuleExercise
from transformer_course.checker.parameters import require_buffer
from transformer_lab import RotaryEmbedding, rotate_half_split, rotate_interleaved


@exercise("02.1")
def rotate_pairs(pairs, angle):
    """Rotate each pair counter-clockwise.

    pairs: (…, 2)
    angle: a Python number, in radians; use math.cos(angle)
    returns (…, 2): (a, b) becomes (a × cos − b × sin, a × sin + b × cos)
    """
    cos, sin = math.cos(angle), math.sin(angle)
    a, b = pairs[..., 0], pairs[..., 1]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)


@rotate_pairs.cases
def rotate_pairs_cases(normal):
    yield {"pairs": normal(3, 2), "angle": 0.7}
    yield {"pairs": normal(5, 7, 2), "angle": -2.0}
    yield {"pairs": normal(2, 2), "angle": 41.0}
    yield {"pairs": torch.tensor([3.0, 4.0]), "angle": math.pi}  # a single pair, by hand: half a turn


@exercise("02.2", difficulty=2, forbidden=("transformer_lab",))
def rotary(x, base):
    """Rotate the pairs (i, i + d_head/2) by position × base ** (−2i / d_head) radians, counter-clockwise.

    x: (batch, heads, position, d_head); the first position is 0
    base: 10000 in the paper
    returns a tensor of the same shape; compute the angles in float64 (the default here), because in a
    shorter format their error grows with the position
    Write it yourself, without `transformer_lab`.
    """
    length, d_head = x.shape[-2:]
    frequency = base ** (-torch.arange(0, d_head, 2) / d_head)  # (d_head/2,)
    angle = torch.arange(length)[:, None] * frequency  # (position, d_head/2)
    a, b = x.chunk(2, dim=-1)  # (batch, heads, position, d_head/2) each
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)


@rotary.cases
def rotary_cases(normal):
    yield {"x": normal(2, 3, 7, 10), "base": 10_000.0}
    yield {"x": normal(3, 5, 5, 6), "base": 100.0}  # as many heads as positions: a wrong axis fits
    yield {"x": normal(5, 2, 3, 14), "base": 500_000.0}
    yield {"x": normal(5, 2, 3, 14), "base": 100.0}  # catches angles kept for another length or width
    yield {"x": normal(1, 1, 1031, 2), "base": 10_000}  # longer than a table of fixed length


@exercise("02.3", returns=("query", "key", "value"))
def prepare(query, key, value, start, rotary):
    """Prepare the queries, keys and values of a piece of text for attention.

    query, key, value: (heads, position, d_head), of the same tokens
    start: the position, in the whole text, of the first token of the piece
    rotary: a module; rotary(x, offset=m) rotates the first vector of x by position m, the next by m + 1, …
    returns query, key and value, ready for attention
    """
    return rotary(query, offset=start), rotary(key, offset=start), value


@prepare.cases
def prepare_cases(normal):
    for heads, length, d_head, start in [(2, 5, 6, 7), (3, 1, 10, 40), (3, 7, 2, 0)]:
        pairing = rotate_interleaved if length == 5 else rotate_half_split
        rotate = RotaryEmbedding(d_head, base=100.0, rotate=pairing)
        query, key, value = (normal(heads, length, d_head) for _ in range(3))
        yield {"query": query, "key": key, "value": value, "start": start, "rotary": rotate}


class WithFrequency(ModuleExercise):
    """Also requires the frequencies to be a buffer, which no result on a single device can show."""

    def ready(self, answer, case, parameters=None):
        module = super().ready(answer, case, parameters)
        require_buffer(module, "frequency")
        return module


@exercise(
    "02.4", kind=WithFrequency, difficulty=2, forbidden=("transformer_lab",), keyword_arguments=("offset",)
)
class Rotary(nn.Module):
    """Rotates queries or keys by their positions, half-split. It has no parameters to train."""

    def __init__(self, d_head, base=10_000.0):
        super().__init__()
        # yours:
        # self.frequency: (d_head/2,), a buffer that is not saved with the weights
        frequency = base ** (-torch.arange(0, d_head, 2) / d_head)  # (d_head/2,)
        self.register_buffer("frequency", frequency, persistent=False)

    def forward(self, x, offset=0):
        """Rotate x: (…, position, d_head), with any axes in front. Its first position is `offset`.

        Return the same shape and dtype; compute the angles in float64. Write it yourself, without
        transformer_lab.
        """
        position = torch.arange(offset, offset + x.shape[-2], device=x.device)
        angle = position[:, None] * self.frequency  # (position, d_head/2)
        a, b = x.chunk(2, dim=-1)  # (…, position, d_head/2) each
        rotated = torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)
        return rotated.to(x.dtype)


@Rotary.cases
def rotary_module_cases(normal):
    yield {"d_head": 10, "base": 100.0}, {"x": normal(2, 3, 7, 10), "offset": 11}
    yield {"d_head": 6}, {"x": normal(5, 5, 6)}  # as many in front as positions: a wrong axis fits
    yield {"d_head": 14, "base": 500_000.0}, {"x": normal(3, 14), "offset": 2}
    yield {"d_head": 4}, {"x": normal(2, 3, 4).float(), "offset": 1}  # what most models compute in
    yield {"d_head": 2}, {"x": normal(1, 1, 1, 2), "offset": 5003}  # far beyond a table of fixed length


@exercise("02.5", difficulty=2, forbidden=("transformer_lab",))
def rotary_complex(x, start):
    """Rotate the pairs (2i, 2i + 1) by position × 10000 ** (−2i / d_head) radians, as complex numbers.

    x: (batch, position, heads, d_head): the axis of the heads comes after the positions
    start: the position of the first token
    returns a tensor of the same shape; compute the angles in float64 (the default here), because in a
    shorter format their error grows with the position
    Write it yourself, without `transformer_lab`.
    """
    length, d_head = x.shape[1], x.shape[-1]
    frequency = 10_000 ** (-torch.arange(0, d_head, 2) / d_head)
    angle = torch.arange(start, start + length)[:, None] * frequency  # (position, d_head/2)
    rotation = torch.polar(torch.ones_like(angle), angle)[:, None]  # (position, 1, d_head/2)
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))  # (batch, position, heads, d_head/2)
    return torch.view_as_real(pairs * rotation).flatten(-2)


@rotary_complex.cases
def rotary_complex_cases(normal):
    yield {"x": normal(2, 7, 3, 10), "start": 0}
    yield {"x": normal(2, 5, 5, 6), "start": 11}  # as many heads as positions: a wrong axis fits
    yield {"x": normal(3, 1, 2, 6), "start": 5003}  # a single token, far beyond a table of fixed length


@exercise("02.6", difficulty=2, returns=("weight", "bias"))
def to_half_split(weight, bias, n_heads):
    """Convert a query or key projection from pairs (2i, 2i + 1) to pairs (i, i + d_head/2).

    weight: (n_heads × d_head, d_model); the first d_head rows belong to head 0
    bias: (n_heads × d_head,)
    returns the new weight and the new bias
    """

    def reorder(rows):
        heads = rows.unflatten(0, (n_heads, -1))  # (n_heads, d_head, …)
        return torch.cat([heads[:, 0::2], heads[:, 1::2]], dim=1).flatten(0, 1)

    return reorder(weight), reorder(bias)


@to_half_split.cases
def to_half_split_cases(normal):
    yield {"weight": normal(18, 5), "bias": normal(18), "n_heads": 3}
    yield {"weight": normal(20, 20), "bias": normal(20), "n_heads": 2}
    yield {"weight": torch.arange(8.0).view(4, 2), "bias": torch.arange(4.0), "n_heads": 1}  # by hand


class Unknown:
    """A rotation whose pairs the learner has to find out."""

    def __init__(self, d_head, order, rotate=rotate_interleaved):
        self.rotary, self.order = RotaryEmbedding(d_head, rotate=rotate), torch.tensor(order)

    def __call__(self, x):
        return self.rotary(x[..., self.order])[..., self.order.argsort()]

    def __repr__(self):
        return "an unknown rotation"


@exercise("02.7", difficulty=3)
def find_pairs(rotate, d_head):
    """Find out which features an unknown implementation rotates together.

    rotate: a function from (position, d_head) to the same shape; it rotates by the positions 0, 1, 2, …
    returns a list of d_head / 2 pairs (feature, partner), the smaller index first, sorted
    """
    pairs = []
    for feature, one in enumerate(torch.eye(d_head)):  # 1 in one feature, 0 in the others
        turned = rotate(torch.stack([one, one]))[1]  # at position 1
        partner = (turned * (1 - one)).abs().argmax().item()
        if feature < partner:
            pairs.append((feature, partner))
    return pairs


@find_pairs.cases
def find_pairs_cases(normal):
    for order in ([0, 3, 1, 4, 2, 5], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [5, 1, 0, 3, 2, 4]):
        yield {"rotate": Unknown(len(order), order), "d_head": len(order)}
