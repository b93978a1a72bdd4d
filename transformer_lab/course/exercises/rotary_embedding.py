"""Exercises of lesson 02: one pair, all pairs, what is turned, the complex form, a checkpoint, a probe."""

import math

import torch

from transformer_lab import RotaryEmbedding, rotate_half_split, rotate_interleaved
from transformer_lab.course.checker import exercise

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
    angle: in radians, one number for all
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


def turned_pairs(pairs, angle):
    """The right answer: mistakes before and after it end or start here."""
    a, b = pairs[..., 0], pairs[..., 1]
    cos, sin = math.cos(angle), math.sin(angle)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)


def combined(pairs, angle, form):
    """`form(a, b, cos, sin)` gives the two new features."""
    a, b = pairs[..., 0], pairs[..., 1]
    return torch.stack(form(a, b, math.cos(angle), math.sin(angle)), dim=-1)


turn.mistake(
    "the other way round",
    """You turn clockwise, by −θ. Scores would still depend on the distance only, but published weights
    expect the other direction. The minus belongs to the first feature: a·cos − b·sin. (With a matrix:
    rows are multiplied from the left, so it is `pairs @ R.mT`.)""",
    lambda p, t: turned_pairs(p, -t),
)

turn.mistake(
    "cos and sin swapped",
    """You exchanged cosine and sine. An angle of 0 must leave the pair as it is, and cos 0 = 1: each
    feature keeps its own part with the cosine, and takes from its partner with the sine.""",
    lambda p, t: combined(p, t, lambda a, b, c, s: [a * s - b * c, a * c + b * s]),
)

turn.mistake(
    "the two features exchanged",
    """Both new features are there, but the second stands first. The line with the minus, a·cos − b·sin,
    makes the new a and comes first; a·sin + b·cos is the new b.""",
    lambda p, t: turned_pairs(p, t).flip(-1),
)

turn.mistake(
    "no minus",
    """Both your lines have a plus. Then the pair is not turned: it changes its length. The sign is what
    makes a rotation: a·cos − b·sin.""",
    lambda p, t: combined(p, t, lambda a, b, c, s: [a * c + b * s, a * s + b * c]),
)

turn.mistake(
    "two minuses",
    """Both your lines have a minus. Then the pair is not turned: it changes its length. Only the first
    one has it; the second is a·sin + b·cos.""",
    lambda p, t: combined(p, t, lambda a, b, c, s: [a * c - b * s, a * s - b * c]),
)

turn.mistake(
    "a reflection",
    """The lengths are right, but you mirror the pair: left and right change places. Mirroring twice
    leads back, so positions 1 and 3 would not be two steps apart. Second line: a·sin + b·cos.""",
    lambda p, t: combined(p, t, lambda a, b, c, s: [a * c + b * s, a * s - b * c]),
    lambda p, t: combined(p, t, lambda a, b, c, s: [a * c - b * s, -a * s - b * c]),
)

turn.mistake(
    "the new a used for b",
    """You overwrite a, and the second line uses the new a. Both new features come from the two old ones:
    keep them until both lines are done.""",
    lambda p, t: combined(p, t, lambda a, b, c, s: [a * c - b * s, (a * c - b * s) * s + b * c]),
)

turn.mistake(
    "a and b exchanged in the second line",
    """Your second line is a·cos + b·sin. At the angle 0 it gives a, and it should give b: the new b keeps
    its own part with the cosine, a·sin + b·cos.""",
    lambda p, t: combined(p, t, lambda a, b, c, s: [a * c - b * s, a * c + b * s]),
)

turn.mistake(
    "not multiplied by e^(iθ)",
    """You multiply the complex numbers by e^θ, or by i·θ. That changes their lengths. A turn is e^(iθ) =
    cos θ + i·sin θ, in Python `cmath.exp(1j * angle)`.""",
    lambda p, t: p * math.exp(t),
    lambda p, t: torch.view_as_real(torch.view_as_complex(p) * 1j * t),
)

turn.mistake(
    "nothing taken from the partner",
    """You multiply each feature by a number of its own. A turn mixes the two: the second feature of (1,
    0) must become sin θ, and it has nothing of its own to make that from.""",
    lambda p, t: combined(p, t, lambda a, b, c, s: [a * c, b * s]),
    lambda p, t: combined(p, t, lambda a, b, c, s: [a * c, b * c]),
)

turn.mistake(
    "degrees",
    """You take the angle for degrees, or turn it into degrees. It is in radians, as `math.cos` wants it:
    1.57 is a quarter turn. Leave out the conversion.""",
    lambda p, t: turned_pairs(p, math.radians(t)),
    lambda p, t: turned_pairs(p, math.degrees(t)),
)

turn.mistake(
    "a factor of 2π",
    """You multiply the angle by 2π, or divide by it. The angle counts radians, not whole rounds: use it
    as it stands.""",
    lambda p, t: turned_pairs(p, 2 * math.pi * t),
    lambda p, t: turned_pairs(p, t / (2 * math.pi)),
)

turn.mistake(
    "not put together",
    """The two new features are right, but they are two tensors. Lay them side by side on a new last
    axis: `torch.stack([first, second], dim=-1)`.""",
    lambda p, t: tuple(turned_pairs(p, t).unbind(-1)),
    lambda p, t: list(turned_pairs(p, t).unbind(-1)),
)

turn.mistake(
    "stacked in front",
    """`torch.stack` makes its new axis in front unless told otherwise, so your result is (2, …). A pair
    is the last axis: `dim=-1`.""",
    lambda p, t: torch.stack(turned_pairs(p, t).unbind(-1)),
)

turn.mistake(
    "concatenated",
    """`torch.cat` has put all first features before all second ones. They belong side by side, pair by
    pair: `torch.stack(…, dim=-1)` makes a new axis for them.""",
    lambda p, t: torch.cat(turned_pairs(p, t).unbind(-1), dim=-1),
    lambda p, t: torch.cat(turned_pairs(p, t).unbind(-1)),
)

turn.mistake(
    "left as complex numbers",
    """The turn is right, but you return complex numbers. `torch.view_as_real` makes two real features of
    each, on a new last axis.""",
    lambda p, t: torch.view_as_complex(p) * complex(math.cos(t), math.sin(t)),
)

turn.mistake(
    "rows for features",
    """You take `pairs[0]` and `pairs[1]`: the first two pairs, not the first and the second feature.
    Features are on the last axis: `pairs[..., 0]`.""",
    lambda p, t: torch.stack(
        [p[0] * math.cos(t) - p[1] * math.sin(t), p[0] * math.sin(t) + p[1] * math.cos(t)], dim=-1
    ),
    lambda p, t: torch.stack(
        [p[0] * math.cos(t) - p[1] * math.sin(t), p[0] * math.sin(t) + p[1] * math.cos(t)]
    ),
)


def unpacked(pairs, angle):
    a, b = pairs
    cos, sin = math.cos(angle), math.sin(angle)
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)


turn.mistake(
    "unpacked along the first axis",
    """`a, b = pairs` takes the tensor apart along its first axis: two vectors, if there are two, and an
    error otherwise. The two features of each pair are on the last axis: `a, b = pairs.unbind(-1)`.""",
    unpacked,
)

turn.mistake(
    "matrix on the wrong side",
    """You multiply with the matrix on the left. It turns columns, and your pairs are rows: the shapes do
    not fit. For rows it is `pairs @ R.mT`, with R = [[cos, −sin], [sin, cos]].""",
    lambda p, t: torch.tensor([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]]) @ p,
    lambda p, t: torch.tensor([[math.cos(t), math.sin(t)], [-math.sin(t), math.cos(t)]]) @ p,
)

turn.mistake(
    "lengths lost",
    """You turn the direction and forget the length: all your arrows have length 1. Multiply cosine and
    sine of the new direction by the old length, or mix the features as in the formula.""",
    lambda p, t: turned_pairs(torch.nn.functional.normalize(p, dim=-1), t),
)

turn.mistake(
    "only one feature mixed",
    """One of your two features takes nothing from its partner. Then the pair is sheared, not turned:
    both take a part of the other, the first with a minus.""",
    lambda p, t: combined(p, t, lambda a, b, c, s: [a * c - b * s, b * c]),
    lambda p, t: combined(p, t, lambda a, b, c, s: [a * c, a * s + b * c]),
)

turn.mistake(
    "the angle added",
    """You add the angle to the features. A turn by θ adds θ to the angle in which the arrow points, not
    to its coordinates; those are mixed with cos θ and sin θ.""",
    lambda p, t: p + t,
)

# ------------------------------------------------------------------------------------------------------ 02.2


@exercise(
    "02.2",
    "Rotary embedding",
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
    returns a tensor of the same shape
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


def speeds(x, base, *, step=2.0):
    """d_head/2 frequencies, each exponent lower by step / d_head: right if the step is 2."""
    d = x.shape[-1]
    return base ** (-step * torch.arange(d // 2) / d)


def angles(x, base, *, first=0, axis=-2, **options):
    """(position, pair): the right angles, along the right axis, from position 0."""
    return torch.arange(first, first + x.shape[axis])[:, None] * speeds(x, base, **options)


def halves_turned(x, angle):
    """Pairs (i, i + d_head/2) turned by angles that fit from the right."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)


def neighbours_turned(x, angle):
    """Pairs (2i, 2i + 1) turned."""
    a, b = x[..., 0::2], x[..., 1::2]
    new = [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()]
    return torch.stack(new, dim=-1).flatten(-2)


def twice(angle):
    """(…, d_head): each angle for both halves."""
    return torch.cat([angle, angle], dim=-1)


def swapped_halves(x):
    """(−b, a): every pair a quarter turn on."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([-b, a], dim=-1)


def by_cos_and_sin(x, cos, sin, partner):
    return x * cos + partner * sin


rotary.mistake(
    "the other way round",
    """You turn by −θ: the minus is in the wrong half, or the angle is negative. Scores still depend on
    the distance only, so no property test will tell you; but published weights expect a·cos − b·sin in
    the first half.""",
    lambda x, base: halves_turned(x, -angles(x, base)),
)

rotary.mistake(
    "neighbours paired",
    """You pair feature 2i with 2i + 1. The RoFormer paper does that too; asked here is the half-split
    pairing, i with i + d_head/2. Weights trained with one read nonsense in the other. Take `x.chunk(2,
    dim=-1)`.""",
    lambda x, base: neighbours_turned(x, angles(x, base)),
)

rotary.mistake(
    "halves not swapped",
    """Each feature takes the sine part from itself, not from its partner. That is no turn: lengths
    change. The sine goes with the other half: x · cos + (−b, a) · sin.""",
    lambda x, base: by_cos_and_sin(x, twice(angles(x, base)).cos(), twice(angles(x, base)).sin(), x),
    lambda x, base: by_cos_and_sin(
        x,
        twice(angles(x, base)).cos(),
        twice(angles(x, base)).sin(),
        torch.cat([-x.chunk(2, -1)[0], x.chunk(2, -1)[1]], -1),
    ),
)

rotary.mistake(
    "no minus",
    """You swap the halves, (b, a), but leave out the minus. Then a pair changes its length as it moves
    along. A quarter turn of (a, b) is (−b, a).""",
    lambda x, base: by_cos_and_sin(
        x, twice(angles(x, base)).cos(), twice(angles(x, base)).sin(), torch.cat(x.chunk(2, -1)[::-1], -1)
    ),
)

rotary.mistake(
    "both halves negated",
    """The halves you multiply by the sine are (−b, −a). Only the first has a minus: a quarter turn of
    (a, b) is (−b, a).""",
    lambda x, base: by_cos_and_sin(
        x, twice(angles(x, base)).cos(), twice(angles(x, base)).sin(), -torch.cat(x.chunk(2, -1)[::-1], -1)
    ),
)

rotary.mistake(
    "a reflection",
    """Lengths are kept, but you mirror each pair: one sign is wrong. Position 0 shows it, where one half
    comes back negated. First half a·cos − b·sin, second half a·sin + b·cos.""",
    lambda x, base: (
        halves_turned(x, angles(x, base)) * torch.tensor([1.0, -1.0]).repeat_interleave(x.shape[-1] // 2)
    ),
    lambda x, base: (
        halves_turned(x, -angles(x, base)) * torch.tensor([1.0, -1.0]).repeat_interleave(x.shape[-1] // 2)
    ),
)

rotary.mistake(
    "a and b exchanged in the second half",
    """Your second half is a·cos + b·sin. At position 0 it gives a, and it should give b: each half keeps
    its own part with the cosine, a·sin + b·cos.""",
    lambda x, base: torch.cat(
        [
            halves_turned(x, angles(x, base)).chunk(2, -1)[0],
            halves_turned(x, -angles(x, base)).chunk(2, -1)[0],
        ],
        -1,
    ),
)

rotary.mistake(
    "cos and sin swapped",
    """You exchanged cosine and sine. At position 0 nothing may change, and cos 0 = 1: the cosine goes
    with the feature itself, the sine with its partner.""",
    lambda x, base: by_cos_and_sin(
        x, twice(angles(x, base)).sin(), twice(angles(x, base)).cos(), swapped_halves(x)
    ),
)

rotary.mistake(
    "angles repeated for the other pairing",
    """You repeat the angles as 0, 0, 1, 1, … but pair the halves. The two members of a pair then get
    different angles, and it is no turn any more. With halves the angles are 0, 1, …, 0, 1, …:
    `torch.cat([angle, angle], dim=-1)`.""",
    lambda x, base: by_cos_and_sin(
        x,
        angles(x, base).repeat_interleave(2, -1).cos(),
        angles(x, base).repeat_interleave(2, -1).sin(),
        swapped_halves(x),
    ),
)

rotary.mistake(
    "halves of angles, neighbours of features",
    """You pair neighbours but lay the angles out in two halves. The two members of a pair then get
    different angles, and it is no turn any more. Pair the halves too: `x.chunk(2, dim=-1)`.""",
    lambda x, base: by_cos_and_sin(
        x,
        twice(angles(x, base)).cos(),
        twice(angles(x, base)).sin(),
        torch.stack([-x[..., 1::2], x[..., 0::2]], -1).flatten(-2),
    ),
)

rotary.mistake(
    "put back in another order",
    """The pairs are turned rightly, and then written back in turn: new a, new b, new a, … Feature i must
    stay feature i. What you took apart with `chunk` goes together with `torch.cat`.""",
    lambda x, base: torch.stack(halves_turned(x, angles(x, base)).chunk(2, -1), dim=-1).flatten(-2),
)

rotary.mistake(
    "neighbours put back as halves",
    """You take neighbours apart, 0::2 and 1::2, and put them together as halves. Some code does so on
    purpose, and scores come out right; but here the pairs are (i, i + d_head/2), and feature i stays
    feature i.""",
    lambda x, base: torch.cat(
        [neighbours_turned(x, angles(x, base))[..., 0::2], neighbours_turned(x, angles(x, base))[..., 1::2]],
        -1,
    ),
)

rotary.mistake(
    "turned by the head",
    """Your angle grows along the heads, not along the text: all tokens of a head are turned alike, so
    positions are lost. It only runs where heads and positions are equally many, or where you counted the
    heads. Positions are axis −2.""",
    lambda x, base: halves_turned(x, angles(x, base, axis=1)[:, None]),
    lambda x, base: halves_turned(x, angles(x, base)[:, None]),
)

rotary.mistake(
    "turned by the text",
    """Your angle grows along the batch: all tokens of a text are turned alike, and a text's result
    depends on its place in the batch. Positions are axis −2.""",
    lambda x, base: halves_turned(x, angles(x, base, axis=0)[:, None, None]),
)

rotary.mistake(
    "another axis counted",
    """You count the positions along another axis than −2, so there are too many angles or too few. x is
    (batch, heads, position, d_head): the length is `x.shape[-2]`.""",
    lambda x, base: halves_turned(x, angles(x, base, axis=1)),
    lambda x, base: halves_turned(x, angles(x, base, axis=0)),
    lambda x, base: halves_turned(x, angles(x, base, axis=-1)),
)

rotary.mistake(
    "positions counted from 1",
    """Your first token is turned already. Scores do not notice, since only distances count; but keys
    from other code, or from a cache, would be off by one. The first position is 0, and nothing moves
    there.""",
    lambda x, base: halves_turned(x, angles(x, base, first=1)),
)

rotary.mistake(
    "positions run on through heads and texts",
    """You number all vectors of x through, so the second head begins where the first one ended. Each
    head of each text begins at 0: the angles are (position, d_head/2), the same for all.""",
    lambda x, base: halves_turned(
        x, (torch.arange(x[..., 0].numel())[:, None] * speeds(x, base)).view(*x.shape[:-1], -1)
    ),
)

rotary.mistake(
    "exponent i/d",
    """Your exponent is i / d_head, half of what it should be: the slow pairs turn much too fast. The
    formula has 2i / d_head; `torch.arange(0, d_head, 2)` is that 2i.""",
    lambda x, base: halves_turned(x, angles(x, base, step=1)),
)

rotary.mistake(
    "2i doubled",
    """Your exponent is 4i / d_head: `torch.arange(0, d_head, 2)` is 2i already, and you double it. Half
    of the pairs would hardly turn in any text. Leave out the factor 2.""",
    lambda x, base: halves_turned(x, angles(x, base, step=4)),
)

rotary.mistake(
    "minus sign of the exponent lost",
    """Your frequencies grow from pair to pair, up to nearly `base` radians per position, so neighbours
    land anywhere on the circle. The exponent is negative: −2i / d_head.""",
    lambda x, base: halves_turned(x, torch.arange(x.shape[-2])[:, None] / speeds(x, base)),
)

rotary.mistake(
    "exponent not divided by d_head",
    """Your exponent is −2i, not −2i / d_head: from the second pair on hardly anything turns. Divide the 2i
    by d_head.""",
    lambda x, base: halves_turned(
        x, torch.arange(x.shape[-2])[:, None] * base ** -torch.arange(0.0, x.shape[-1], 2)
    ),
)

rotary.mistake(
    "slowest first",
    """Your frequencies are in the opposite order: pair 0 is the slowest. Pair 0 turns by 1 radian per
    position, and each next pair more slowly.""",
    lambda x, base: halves_turned(x, angles(x, base).flip(-1)),
)

rotary.mistake(
    "one speed for all",
    """All your pairs turn by the position itself, 1 radian each. Then distance 44 looks almost like
    distance 0, which is seven full rounds away. Each pair has its own frequency: base ** (−2i / d_head).""",
    lambda x, base: halves_turned(x, torch.arange(x.shape[-2])[:, None].expand(-1, x.shape[-1] // 2) * 1.0),
)

rotary.mistake(
    "base not used",
    """You write 10000, whatever `base` is. It fits the paper and no other model: Llama 3, for one, has
    500000. Use the argument `base`.""",
    lambda x, base: halves_turned(x, angles(x, 10_000.0)),
)

rotary.mistake(
    "a frequency for every feature",
    """You make d_head frequencies, one for each feature. A pair must share one, or it is not a turn:
    d_head / 2 of them, `torch.arange(0, d_head, 2)`.""",
    lambda x, base: by_cos_and_sin(
        x,
        (torch.arange(x.shape[-2])[:, None] * base ** (-torch.arange(x.shape[-1]) / x.shape[-1])).cos(),
        (torch.arange(x.shape[-2])[:, None] * base ** (-torch.arange(x.shape[-1]) / x.shape[-1])).sin(),
        swapped_halves(x),
    ),
)

rotary.mistake(
    "added, not turned",
    """You add the sines and cosines to x. That is lesson 01, and its scores depend on where the pair
    stands. Here they multiply: a·cos − b·sin and a·sin + b·cos.""",
    lambda x, base: x + torch.cat([angles(x, base).cos(), angles(x, base).sin()], -1),
    lambda x, base: x + torch.cat([angles(x, base).sin(), angles(x, base).cos()], -1),
    lambda x, base: x + torch.stack([angles(x, base).sin(), angles(x, base).cos()], -1).flatten(-2),
)

rotary.mistake(
    "only the cosine",
    """You multiply by the cosine and leave out the sine part. A pair then shrinks and grows in place.
    The missing half of a turn is what each feature takes from its partner: (−b, a) · sin.""",
    lambda x, base: x * twice(angles(x, base)).cos(),
)

rotary.mistake(
    "the new a used for b",
    """You overwrite the first half, and the second half uses the new values. Both come from the two old
    halves: keep them until both lines are done.""",
    lambda x, base: torch.cat(
        [
            halves_turned(x, angles(x, base)).chunk(2, -1)[0],
            halves_turned(x, angles(x, base)).chunk(2, -1)[0] * angles(x, base).sin()
            + x.chunk(2, -1)[1] * angles(x, base).cos(),
        ],
        -1,
    ),
)

rotary.mistake(
    "position as a fraction",
    """You divide the positions by the length. Then one step is another angle in every text, and
    distances mean nothing. Use the numbers 0, 1, 2, … as they are.""",
    lambda x, base: halves_turned(x, angles(x, base) / x.shape[-2]),
    lambda x, base: halves_turned(x, angles(x, base) / (x.shape[-2] - 1)),
)

rotary.mistake(
    "degrees, or whole rounds",
    """You convert the angles, by π/180 or by 2π. They are radians as they stand: the fastest pair turns
    by one radian, 57 degrees, per position. Leave out the factor.""",
    lambda x, base: halves_turned(x, angles(x, base) * math.pi / 180),
    lambda x, base: halves_turned(x, angles(x, base) * 2 * math.pi),
)

rotary.mistake(
    "positions not a column",
    """Positions and frequencies are both flat, so they are matched one by one, which does not fit. Every
    position meets every frequency: make the positions a column, `[:, None]`, or use `torch.outer`.""",
    lambda x, base: torch.arange(x.shape[-2]) * speeds(x, base),
    lambda x, base: torch.arange(x.shape[-2]) * (1 / base ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])),
)

rotary.mistake(
    "the last one on the mark",
    """You spread the exponents from 0 to −1 with the end included, i / (d_head/2 − 1). The formula
    divides 2i by d_head, so the slowest pair stays a little faster than 1 / base.""",
    lambda x, base: halves_turned(
        x, torch.arange(x.shape[-2])[:, None] * base ** -torch.linspace(0, 1, x.shape[-1] // 2)
    ),
)

rotary.mistake(
    "brackets missing",
    """`**` comes before `/`, so base ** x / d is (base ** x) / d: you divide the power by d_head, not
    the exponent. The first frequency should be 1. Put brackets round the exponent.""",
    lambda x, base: halves_turned(
        x, torch.arange(x.shape[-2])[:, None] * (1 / (base ** torch.arange(0, x.shape[-1], 2) / x.shape[-1]))
    ),
    lambda x, base: halves_turned(
        x, torch.arange(x.shape[-2])[:, None] * (base ** -torch.arange(0.0, x.shape[-1], 2) / x.shape[-1])
    ),
)

rotary.mistake(
    "partners from the other pairing",
    """The sine goes with (−odd features, even features): neighbours, laid out as halves. Feature i then
    meets a feature that is not its partner. For halves it is (−b, a), with a and b from `x.chunk(2,
    dim=-1)`.""",
    lambda x, base: by_cos_and_sin(
        x,
        twice(angles(x, base)).cos(),
        twice(angles(x, base)).sin(),
        torch.cat([-x[..., 1::2], x[..., 0::2]], -1),
    ),
)

rotary.mistake(
    "stacked, not joined",
    """The turn is right, but the two halves stand on a new axis of their own. Write one after the other
    on the last axis: `torch.cat([…, …], dim=-1)`.""",
    lambda x, base: torch.stack(halves_turned(x, angles(x, base)).chunk(2, -1), dim=-1),
    lambda x, base: torch.stack(halves_turned(x, angles(x, base)).chunk(2, -1)),
)

rotary.mistake(
    "computed in float32",
    """The formula is right, but a conversion such as `.float()` leaves 7 digits, and the error of an
    angle grows with the position. Compute angles in float64, and convert cosine and sine at the very
    end, if at all.""",
    lambda x, base: halves_turned(
        x,
        torch.arange(x.shape[-2]).float()[:, None]
        * base ** -(torch.arange(0, x.shape[-1], 2).float() / x.shape[-1]),
    ),
    lambda x, base: halves_turned(
        x,
        torch.arange(x.shape[-2]).float()[:, None]
        * (1.0 / base ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])),
    ),
    lambda x, base: halves_turned(
        x,
        torch.arange(x.shape[-2])[:, None]
        * (1.0 / base ** (torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])),
    ),
)

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
    rotary: a RotaryEmbedding
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


def backwards(x, start, rotary):
    """Turned by the negative positions."""
    return rotary(x, positions=-torch.arange(start, start + x.shape[-2]))


prepare.mistake(
    "value turned too",
    """You turn the value as well. It is not compared with anything: it is handed over, and mixed with
    others. Turned, the same word would hand over something else at every place. Leave it as it is.""",
    lambda q, k, v, start, r: (r(q, offset=start), r(k, offset=start), r(v, offset=start)),
    lambda q, k, v, start, r: (r(q, offset=start), r(k, offset=start), r(v)),
)

prepare.mistake(
    "key not turned",
    """Only the query is turned. Then the score depends on where the query stands, not on the distance:
    it needs both angles, so that their difference is left. Turn the key too, by its own positions.""",
    lambda q, k, v, start, r: (r(q, offset=start), k, v),
)

prepare.mistake(
    "query not turned",
    """Only the key is turned. Then the score depends on where the key stands, not on the distance: it
    needs both angles, so that their difference is left. Turn the query too.""",
    lambda q, k, v, start, r: (q, r(k, offset=start), v),
)

prepare.mistake(
    "value turned, key not",
    """You turn query and value. Compared are query and key; the value is only handed over. Turn the key,
    and leave the value alone.""",
    lambda q, k, v, start, r: (r(q, offset=start), k, r(v, offset=start)),
)

prepare.mistake(
    "value turned, query not",
    """You turn key and value. Compared are query and key; the value is only handed over. Turn the query,
    and leave the value alone.""",
    lambda q, k, v, start, r: (q, r(k, offset=start), r(v, offset=start)),
)

prepare.mistake(
    "turned by the head",
    """Your angle grows along the heads: all tokens of a head are turned alike. Here x is (heads,
    position, d_head), and `rotary` takes the last axis but one for the position: no transpose is needed.""",
    lambda q, k, v, start, r: (*(r(x.transpose(0, 1), offset=start).transpose(0, 1) for x in (q, k)), v),
)

prepare.mistake(
    "another rotary than the one given",
    """You make a `RotaryEmbedding` of your own, with the usual base. The model may have another base or
    another pairing: use the `rotary` that is handed in.""",
    lambda q, k, v, start, r: (*(RotaryEmbedding(x.shape[-1])(x, offset=start) for x in (q, k)), v),
)

prepare.mistake(
    "offset not named",
    """`rotary(query, start)` is refused: a second argument could be an offset or positions, so it has to
    be named. Write `rotary(query, offset=start)`.""",
    lambda q, k, v, start, r: (r(q, start), r(k, start), v),
)

prepare.mistake(
    "start forgotten",
    """You always count from 0. A piece from the middle of a text then stands at its beginning, and a
    token that comes alone is never turned at all: position 0 is no turn. Say `offset=start`.""",
    lambda q, k, v, start, r: (r(q), r(k), v),
)

prepare.mistake(
    "start for the query only",
    """The query counts from `start`, the key from 0. All distances are then too large by `start`. They
    are query and key of the same tokens, at the same positions.""",
    lambda q, k, v, start, r: (r(q, offset=start), r(k), v),
)

prepare.mistake(
    "start for the key only",
    """The key counts from `start`, the query from 0. All distances are then wrong by `start`. They are
    query and key of the same tokens, at the same positions.""",
    lambda q, k, v, start, r: (r(q), r(k, offset=start), v),
)

prepare.mistake(
    "off by one",
    """You begin at `start + 1`. Inside this piece nothing changes, since only distances count, but
    towards keys that were stored earlier every distance is wrong by one. The first token stands at
    `start` itself.""",
    lambda q, k, v, start, r: (r(q, offset=start + 1), r(k, offset=start + 1), v),
)

prepare.mistake(
    "key turned backwards",
    """You turn the query forwards and the key backwards. The dot product takes the difference of the two
    angles by itself; now it takes m + n. Turn both the same way.""",
    lambda q, k, v, start, r: (r(q, offset=start), backwards(k, start, r), v),
)

prepare.mistake(
    "start counts pieces",
    """You begin at `start` times the length, as if `start` were the number of the piece. It is the
    position of the first token: `offset=start`.""",
    lambda q, k, v, start, r: (*(r(x, offset=start * x.shape[-2]) for x in (q, k)), v),
)

prepare.mistake(
    "every token at start",
    """All tokens of the piece are turned alike, by position `start`. Inside the piece nobody can tell
    who stands where. The positions count on: `start`, `start + 1` and so on.""",
    lambda q, k, v, start, r: (*(r(x, positions=torch.full((x.shape[-2],), start)) for x in (q, k)), v),
)

prepare.mistake(
    "value turned too, and all from 0",
    """Two things at once: the value is turned as well, and everything counts from 0. Turn query and key
    only, and begin at `start`: `rotary(query, offset=start)`.""",
    lambda q, k, v, start, r: (r(q), r(k), r(v)),
)

prepare.mistake(
    "length for start",
    """You begin at the length of the piece, which is where it would end if it began at 0. The first
    token stands at `start`: `offset=start`.""",
    lambda q, k, v, start, r: (*(r(x, offset=x.shape[-2]) for x in (q, k)), v),
)

prepare.mistake(
    "start added to the vectors",
    """You add `start` to the features themselves, and turn by 0, 1, 2, … It belongs to the positions,
    not to the vectors: `rotary(query, offset=start)`.""",
    lambda q, k, v, start, r: (r(q + start), r(k + start), v),
)

prepare.mistake(
    "cut off at start",
    """You drop the first `start` tokens of the piece. All of it is wanted: `start` only says where in
    the whole text the piece begins.""",
    lambda q, k, v, start, r: (*(r(x[:, start:]) for x in (q, k)), v[:, start:]),
    lambda q, k, v, start, r: (*(r(x[:, start:], offset=start) for x in (q, k)), v[:, start:]),
)

prepare.mistake(
    "value dropped",
    "You return query and key only. The caller unpacks three: hand the value on as it came.",
    lambda q, k, v, start, r: (r(q, offset=start), r(k, offset=start)),
)

prepare.mistake(
    "turned twice",
    """Each vector is turned twice, by twice its angle: all distances count double. Happens where a cache
    keeps keys that were turned already. Turn once.""",
    lambda q, k, v, start, r: (*(r(r(x, offset=start), offset=start) for x in (q, k)), v),
)

prepare.mistake(
    "nothing turned",
    """All three come back as they were. Without the turn the score of two words is the same at any
    distance. Turn query and key: `rotary(query, offset=start)`.""",
    lambda q, k, v, start, r: (q, k, v),
)

prepare.mistake(
    "query and key exchanged",
    """You return the key in place of the query. Both are turned rightly, but who asks and who is asked
    have changed places. The order is query, key, value.""",
    lambda q, k, v, start, r: (r(k, offset=start), r(q, offset=start), v),
)

# ------------------------------------------------------------------------------------------------------ 02.4


@exercise(
    "02.4",
    "The complex form, heads last",
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
    returns a tensor of the same shape
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


def wave(x, start, *, axis=1, base=10_000.0, step=2.0):
    """(position, pair): the right rotations, with no axis for the heads yet."""
    angle = torch.arange(start, start + x.shape[axis])[:, None] * speeds(x, base, step=step)
    return torch.polar(torch.ones_like(angle), angle)


def wave_angle(x, start, more=0):
    """(position, pair): the angles alone."""
    return torch.arange(start, start + x.shape[1] + more)[:, None] * speeds(x, 10_000.0)


def as_complex(x):
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())


def as_features(pairs):
    return torch.view_as_real(pairs).flatten(-2)


rotary_complex.mistake(
    "no axis for the heads",
    """Your rotations are (position, d_head/2). Matched from the right, the positions meet the heads: an
    error, or, where both are equally many, every token turned by the number of its head. (With one token
    it is right by accident.) Insert an axis: `rotation[:, None]`.""",
    lambda x, start: as_features(as_complex(x) * wave(x, start)),
)

rotary_complex.mistake(
    "turned by the head",
    """The angle grows along the heads, not along the text. Here x is (batch, position, heads, d_head):
    count `x.shape[1]` positions, and give the rotations the shape (position, 1, d_head/2).""",
    lambda x, start: as_features(as_complex(x) * wave(x, start, axis=2)),
)

rotary_complex.mistake(
    "turned by the text",
    """The angle grows along the batch. The rotations need the shape (position, 1, d_head/2), so that the
    positions meet axis 1.""",
    lambda x, start: as_features(as_complex(x) * wave(x, start, axis=0)[:, None, None]),
)

rotary_complex.mistake(
    "start forgotten",
    """You always count from 0. A token that comes alone then stands at position 0 and is never turned:
    text generation breaks, and nothing complains. The positions are `start`, `start + 1` and so on.""",
    lambda x, start: as_features(as_complex(x) * wave(x, 0)[:, None]),
)

rotary_complex.mistake(
    "off by one",
    """Every token is turned as if it stood one place further on. The first one stands at `start` itself.""",
    lambda x, start: as_features(as_complex(x) * wave(x, start + 1)[:, None]),
)

rotary_complex.mistake(
    "every token at start",
    """All tokens are turned alike, by position `start`, so nobody can tell who stands where. The
    positions count on: `start`, `start + 1` and so on.""",
    lambda x, start: as_features(as_complex(x) * wave(x, start)[:1, None]),
)

rotary_complex.mistake(
    "the other way round",
    """You turn by −θ, as the conjugate does. Distances keep their meaning, so no property test will tell
    you; but published weights expect e^(+i·m·ω).""",
    lambda x, start: as_features(as_complex(x) * wave(x, start)[:, None].conj()),
)

rotary_complex.mistake(
    "halves paired",
    """You pair feature i with i + d_head/2. Llama in Hugging Face does that; asked here is the pairing
    of the paper, 2i with 2i + 1: `x.unflatten(-1, (-1, 2))`.""",
    lambda x, start: torch.cat(
        [
            (torch.complex(*x.chunk(2, -1)) * wave(x, start)[:, None]).real,
            (torch.complex(*x.chunk(2, -1)) * wave(x, start)[:, None]).imag,
        ],
        -1,
    ),
    lambda x, start: as_features(
        torch.complex(*(half.contiguous() for half in x.chunk(2, -1))) * wave(x, start)[:, None]
    ),
)

rotary_complex.mistake(
    "real parts first, then imaginary",
    """The turn is right, but you write all real parts into the first half and all imaginary ones into
    the second. Feature 2i must stay feature 2i: `torch.view_as_real(…).flatten(-2)`.""",
    lambda x, start: torch.cat(
        [(as_complex(x) * wave(x, start)[:, None]).real, (as_complex(x) * wave(x, start)[:, None]).imag], -1
    ),
)

rotary_complex.mistake(
    "pairs not flattened",
    """The turn is right; the result still has an axis of two for the pairs. Join it with the one before:
    `flatten(-2)`.""",
    lambda x, start: torch.view_as_real(as_complex(x) * wave(x, start)[:, None]),
)

rotary_complex.mistake(
    "left as complex numbers",
    """You return complex numbers, half as many as there were features.
    `torch.view_as_real(…).flatten(-2)` makes real features of them again.""",
    lambda x, start: as_complex(x) * wave(x, start)[:, None],
)

rotary_complex.mistake(
    "only the real part",
    """You keep the real parts and lose the imaginary ones: half of the features are gone. `view_as_real`
    gives both, on a new last axis.""",
    lambda x, start: (as_complex(x) * wave(x, start)[:, None]).real,
)

rotary_complex.mistake(
    "heads counted, not positions",
    """You count as many positions as there are heads. x is (batch, position, heads, d_head): the length
    is `x.shape[1]`, not `x.shape[2]` or `x.shape[-2]`.""",
    lambda x, start: as_features(as_complex(x) * wave(x, start, axis=2)[:, None]),
)

rotary_complex.mistake(
    "multiplied by the angle",
    """You multiply by the angle itself. That stretches every pair, and at position 0 it leaves nothing.
    A turn is e^(i·angle): `torch.polar(torch.ones_like(angle), angle)`.""",
    lambda x, start: as_features(as_complex(x) * wave_angle(x, start)[:, None]),
)

rotary_complex.mistake(
    "i forgotten",
    """You multiply by e^angle, which stretches every pair and turns none. A turn is e^(i·angle):
    `torch.exp(1j * angle)`, or `torch.polar(torch.ones_like(angle), angle)`.""",
    lambda x, start: as_features(as_complex(x) * wave_angle(x, start).exp()[:, None]),
)

rotary_complex.mistake(
    "cos and sin swapped",
    """Your rotations are sin + i·cos. At position 0 nothing may move, and cos 0 = 1: the real part is the
    cosine. Write `torch.complex(angle.cos(), angle.sin())`.""",
    lambda x, start: as_features(
        as_complex(x) * torch.complex(wave_angle(x, start).sin(), wave_angle(x, start).cos())[:, None]
    ),
)

rotary_complex.mistake(
    "start added to the angle",
    """You add `start` to the angles, so every pair is turned by `start` radians more, the slow ones too.
    It belongs to the positions: add it before they are multiplied by the frequencies.""",
    lambda x, start: as_features(as_complex(x) * torch.exp(1j * (wave_angle(x, 0) + start))[:, None]),
)

rotary_complex.mistake(
    "polar the wrong way round",
    """`torch.polar` takes the length first, then the angle. You gave the angle as the length: every pair
    is turned by one radian and stretched by its angle. Write `torch.polar(torch.ones_like(angle),
    angle)`.""",
    lambda x, start: as_features(
        as_complex(x) * torch.polar(wave_angle(x, start), torch.ones_like(wave_angle(x, start)))[:, None]
    ),
)

rotary_complex.mistake(
    "no pairs on the last axis",
    """`view_as_complex` wants a last axis of length 2: one pair. Cut the features into neighbours first,
    `x.unflatten(-1, (-1, 2))`. The other way round, `(2, -1)`, would cut them into two halves.""",
    lambda x, start: torch.view_as_complex(x.unflatten(-1, (2, -1))),
)

rotary_complex.mistake(
    "heads joined",
    """The turn is right, but you join the heads too: (batch, position, heads · d_head). Only the axis of
    two goes: `flatten(-2)`, and the heads stay apart.""",
    lambda x, start: as_features(as_complex(x) * wave(x, start)[:, None]).flatten(-2),
)

rotary_complex.mistake(
    "too many positions",
    """You make the positions from 0 to start + length and take them all. Wanted are the last `length` of
    them: `torch.arange(start, start + length)`.""",
    lambda x, start: as_features(
        as_complex(x)
        * torch.polar(torch.ones(start + x.shape[1], x.shape[-1] // 2), wave_angle(x, 0, start))[:, None]
    ),
)

rotary_complex.mistake(
    "exponent i/d",
    """Your exponent is i / d_head, half of what it should be: the slow pairs turn much too fast. The
    formula has 2i / d_head; `torch.arange(0, d_head, 2)` is that 2i.""",
    lambda x, start: as_features(as_complex(x) * wave(x, start, step=1)[:, None]),
)

rotary_complex.mistake(
    "slice instead of positions",
    """You end the positions at the length, not at start + length: `torch.arange(start, length)` is right
    only for start 0, and empty or too short otherwise.""",
    lambda x, start: as_features(as_complex(x) * wave(x, 0)[start:][:, None]),
    lambda x, start: as_features(
        as_complex(x)
        * torch.exp(1j * torch.arange(start, x.shape[1])[:, None] * speeds(x, 10_000.0))[:, None]
    ),
)

# ------------------------------------------------------------------------------------------------------ 02.5


@exercise(
    "02.5",
    "A checkpoint for the other pairing",
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


def even_first(rows, n_heads):
    """The right order: in each head the even rows, then the odd ones."""
    heads = rows.unflatten(0, (n_heads, -1))
    return torch.cat([heads[:, 0::2], heads[:, 1::2]], dim=1).flatten(0, 1)


def in_turn(rows, n_heads):
    """The inverse order: in each head a row of the first half, one of the second, and so on."""
    heads = rows.unflatten(0, (n_heads, -1))
    return torch.stack(heads.chunk(2, dim=1), dim=2).flatten(1, 2).flatten(0, 1)


to_half_split.mistake(
    "the way back",
    """You apply the opposite order: it makes a half-split checkpoint interleaved. From pairs (2i, 2i +
    1) to (i, i + d_head/2) the even rows of a head come first, then the odd ones.""",
    lambda w, b, n: (in_turn(w, n), in_turn(b, n)),
)

to_half_split.mistake(
    "bias left as it was",
    """The rows of the weight have moved, the bias has not: each feature now gets another one's bias.
    Reorder both in the same way.""",
    lambda w, b, n: (even_first(w, n), b),
)

to_half_split.mistake(
    "weight left as it was",
    """Only the bias has moved. A query's feature is a row of the weight plus an entry of the bias:
    reorder both in the same way.""",
    lambda w, b, n: (w, even_first(b, n)),
)

to_half_split.mistake(
    "all heads at once",
    """You take the even rows of the whole weight, then the odd ones. That mixes the heads: each head's
    rows have to stay together. Cut into heads first, `unflatten(0, (n_heads, -1))`, and reorder inside
    each.""",
    lambda w, b, n: (torch.cat([w[0::2], w[1::2]]), torch.cat([b[0::2], b[1::2]])),
)

to_half_split.mistake(
    "columns, not rows",
    """You reorder the columns of the weight: those are the features that come in, and nobody turns them.
    A feature of the query is a row: `nn.Linear` keeps (features out, features in).""",
    lambda w, b, n: (torch.cat([w[:, 0::2], w[:, 1::2]], dim=1), even_first(b, n)),
    lambda w, b, n: (torch.cat([w[:, 0::2], w[:, 1::2]], dim=1), b),
    lambda w, b, n: (even_first(w.mT, n).mT, even_first(b, n)),
)

to_half_split.mistake(
    "columns too",
    """The rows are right, but you reorder the columns of the weight as well: those are the features that
    come in, and they have not changed. Rows only.""",
    lambda w, b, n: (torch.cat([even_first(w, n)[:, 0::2], even_first(w, n)[:, 1::2]], 1), even_first(b, n)),
)

to_half_split.mistake(
    "odd ones first",
    """You put the odd rows before the even ones. The first member of a pair becomes its second: every
    turn would go the other way. Even rows first.""",
    lambda w, b, n: tuple(
        torch.cat([rows.unflatten(0, (n, -1))[:, 1::2], rows.unflatten(0, (n, -1))[:, 0::2]], 1).flatten(0, 1)
        for rows in (w, b)
    ),
)

to_half_split.mistake(
    "heads not joined again",
    """The order is right; the heads are still an axis of their own. A checkpoint has one axis for all
    rows: join the first two, `flatten(0, 1)`.""",
    lambda w, b, n: (even_first(w, n).unflatten(0, (n, -1)), even_first(b, n).unflatten(0, (n, -1))),
)

to_half_split.mistake(
    "n_heads and d_head exchanged",
    """You cut into d_head pieces of n_heads rows each. In `unflatten(0, (a, b))` or `view(a, b, …)` the
    first number counts the heads: `(n_heads, -1)`.""",
    lambda w, b, n: tuple(
        torch.cat([rows.unflatten(0, (-1, n))[:, 0::2], rows.unflatten(0, (-1, n))[:, 1::2]], 1).flatten(0, 1)
        for rows in (w, b)
    ),
    lambda w, b, n: (even_first(w, len(b) // n), even_first(b, len(b) // n)),
)

to_half_split.mistake(
    "moved twice",
    """You reorder twice. Even rows first, then even rows of that first: it is another order again. Once
    is enough.""",
    lambda w, b, n: (even_first(even_first(w, n), n), even_first(even_first(b, n), n)),
)

to_half_split.mistake(
    "heads reordered",
    """You reorder the heads, not the rows inside a head. The heads stay where they are: axis 1 of
    (n_heads, d_head, …) is the one to reorder.""",
    lambda w, b, n: tuple(
        torch.cat([rows.unflatten(0, (n, -1))[0::2], rows.unflatten(0, (n, -1))[1::2]]).flatten(0, 1)
        for rows in (w, b)
    ),
)

to_half_split.mistake(
    "one head's order for all rows",
    """You use an order of d_head numbers for all rows at once, so only the first head's rows are left.
    Cut into heads first, `unflatten(0, (n_heads, -1))`, and reorder axis 1.""",
    lambda w, b, n: (even_first(w, n)[: len(b) // n], even_first(b, n)[: len(b) // n]),
)

to_half_split.mistake(
    "halves exchanged",
    """You exchange the two halves of each head. That changes no pairing from neighbours to halves: the
    even rows of a head come first, then the odd ones.""",
    lambda w, b, n: tuple(
        rows.unflatten(0, (n, -1)).roll(len(b) // n // 2, dims=1).flatten(0, 1) for rows in (w, b)
    ),
)

to_half_split.mistake(
    "bias dropped",
    """You return the weight alone. The bias has one entry for each row, and must move with it: return
    both.""",
    lambda w, b, n: even_first(w, n),
)

to_half_split.mistake(
    "nothing moved",
    """The rows are where they were. `view` and `reshape` alone never move a number. In each head the
    even rows come first, then the odd ones.""",
    lambda w, b, n: (w, b),
    lambda w, b, n: (w.clone(), b.clone()),
)

# ------------------------------------------------------------------------------------------------------ 02.6


class Unknown:
    """A rotation whose pairs the learner has to find out."""

    def __init__(self, d_head, order, rotate=rotate_interleaved):
        self.rotary, self.order = RotaryEmbedding(d_head, rotate=rotate), torch.tensor(order)

    def __call__(self, x):
        return self.rotary(x[..., self.order])[..., self.order.argsort()]

    def __repr__(self):
        return "an unknown rotation"


@exercise(
    "02.6",
    "Ask a code for its pairing (stretch)",
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
    returns a list of d_head / 2 tuples (feature, partner), the smaller number first, sorted
    """
    raise NotImplementedError


@find_pairs.cases
def find_pairs(normal):
    for order in ([0, 3, 1, 4, 2, 5], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [3, 0, 5, 1, 2, 4]):
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


def touched(rotate, d_head, position=1, more_than=0.0):
    """[feature, other]: does the feature reach the other one, at this position?"""
    rows = torch.stack([rotate(one.expand(position + 1, -1))[position] for one in torch.eye(d_head)])
    return rows.abs() > more_than


def largest(rotate, d_head, own=False, size=torch.abs):
    """For each feature the one with the largest entry at position 1."""
    rows = torch.stack([rotate(one.expand(2, -1))[1] for one in torch.eye(d_head)])
    return size(rows if own else rows - torch.diag(rows.diagonal())).argmax(dim=-1).tolist()


def listed(reached):
    return [tuple(pair) for pair in reached.nonzero().tolist()]


find_pairs.mistake(
    "no pairs at all",
    """Your list is empty. At position 0 nothing is turned, so no feature reaches another: give the vector at
    least twice and look at a later row. (If you do, your threshold is too high, or nothing is ever
    appended.)""",
    lambda rotate, d: [],
)

find_pairs.mistake(
    "asked at position 0",
    """You look at position 0, where nothing is turned, so no feature reaches another. Give the vector at
    least twice and look at a later row.""",
    lambda rotate, d: [(0, i) for i in range(d)],
    lambda rotate, d: [(0, i) for i in range(1, d)],
    lambda rotate, d: [(i, 0) for i in range(d)],
)


def at_own_positions(rotate, d_head):
    """For each feature of an identity matrix, handed over at once, the largest other one."""
    turned = rotate(torch.eye(d_head))
    return (turned - torch.diag(turned.diagonal())).abs().argmax(dim=-1).tolist()


find_pairs.mistake(
    "each feature at another position",
    """You hand over `torch.eye(d_head)` at once: feature i is then asked at position i, and feature 0 at
    position 0, where nothing moves. Ask one feature at a time, at the same position.""",
    lambda rotate, d: listed((rotate(torch.eye(d)) != 0).triu(1)),
    lambda rotate, d: sorted(
        {tuple(sorted(pair)) for pair in listed((rotate(torch.eye(d)) != 0) & ~torch.eye(d).bool())}
    )[1:],
    lambda rotate, d: sorted({tuple(sorted(pair)) for pair in enumerate(at_own_positions(rotate, d))}),
    lambda rotate, d: [pair for pair in enumerate(at_own_positions(rotate, d)) if pair[0] <= pair[1]],
)

find_pairs.mistake(
    "the feature itself not left out",
    """You take the largest entry of what comes out. For a slow pair that is the feature itself, which
    has hardly moved. Set that entry to 0 first; the largest of the rest is the partner.""",
    lambda rotate, d: sorted({tuple(sorted(pair)) for pair in enumerate(largest(rotate, d, own=True))}),
    lambda rotate, d: [pair for pair in enumerate(largest(rotate, d, own=True)) if pair[0] < pair[1]],
)

find_pairs.mistake(
    "sign forgotten",
    """Half of the partners have a negative entry, and you miss those. Take `abs()` before `argmax()`, or
    ask for `!= 0` in place of `> 0`.""",
    lambda rotate, d: [pair for pair in enumerate(largest(rotate, d, size=lambda x: x)) if pair[0] < pair[1]],
    lambda rotate, d: sorted(
        {tuple(sorted(pair)) for pair in enumerate(largest(rotate, d, size=lambda x: x))}
    ),
)

find_pairs.mistake(
    "a set, not a list",
    """The pairs are right, in a set, which has no order. Make a sorted list of it: `sorted(pairs)`.""",
    lambda rotate, d: set(listed(touched(rotate, d).triu(1))),
)

find_pairs.mistake(
    "asked at position 0, so paired with itself",
    """You look at position 0, or take the largest entry, which is the feature itself: nobody is his own
    partner. Look at a later position, and leave the feature itself out.""",
    lambda rotate, d: [(i, i) for i in range(d)],
)

find_pairs.mistake(
    "each pair twice",
    """Each pair is there twice, as (i, j) and as (j, i). Keep the one with the smaller number first.""",
    lambda rotate, d: listed(touched(rotate, d) & ~torch.eye(d, dtype=torch.bool)),
)

find_pairs.mistake(
    "features paired with themselves too",
    """Besides the partners you list each feature with itself, since a part of it stays where it is.
    Leave the diagonal out.""",
    lambda rotate, d: listed(touched(rotate, d).triu()),
    lambda rotate, d: listed(touched(rotate, d)),
)

find_pairs.mistake(
    "half-split taken for granted",
    """You return (i, i + d_head/2) without asking. It is the commonest pairing, not the only one. Let
    `rotate` tell you.""",
    lambda rotate, d: [(i, i + d // 2) for i in range(d // 2)],
)

find_pairs.mistake(
    "interleaved taken for granted",
    """You return (2i, 2i + 1) without asking. It is the paper's pairing, not the only one. Let `rotate`
    tell you.""",
    lambda rotate, d: [(2 * i, 2 * i + 1) for i in range(d // 2)],
)

find_pairs.mistake(
    "slow pairs missed",
    """You ask for a change larger than some tolerance, and the slow pairs turn by less. Compare with 0,
    which is exact here, or look at a later position.""",
    lambda rotate, d: listed(touched(rotate, d, more_than=0.001).triu(1)),
    lambda rotate, d: listed(touched(rotate, d, more_than=0.01).triu(1)),
    lambda rotate, d: listed(touched(rotate, d, more_than=0.1).triu(1)),
)

find_pairs.mistake(
    "not sorted",
    """The pairs are right, their order is not: sorted by the first number is asked for. `sorted(pairs)`.""",
    lambda rotate, d: listed(touched(rotate, d).triu(1))[::-1],
)

find_pairs.mistake(
    "the larger number first",
    """The partners are right, but each tuple has the larger number first. Write (smaller, larger), and
    sort.""",
    lambda rotate, d: [pair[::-1] for pair in listed(touched(rotate, d).triu(1))],
    lambda rotate, d: listed(touched(rotate, d).tril(-1)),
)

find_pairs.mistake(
    "a tensor, not a list",
    """The pairs are right, as the rows of a tensor. Make a list of tuples of it: `[tuple(pair) for pair in
    pairs.tolist()]`.""",
    lambda rotate, d: touched(rotate, d).triu(1).nonzero(),
)

find_pairs.mistake(
    "partners, not pairs",
    """You return the partner of each feature, d_head numbers. Asked are the d_head / 2 pairs, each as a
    tuple of two numbers.""",
    lambda rotate, d: [
        (row & (torch.arange(d) != i)).nonzero()[0].item() for i, row in enumerate(touched(rotate, d))
    ],
)
