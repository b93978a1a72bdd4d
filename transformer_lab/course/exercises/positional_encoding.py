"""Exercises of lesson 01: frequencies, the table, adding it, moving along it, reading it off."""

import math

import torch
from torch.nn.functional import normalize

from transformer_lab.course.checker import exercise

# ------------------------------------------------------------------------------------------------------ 01.1


@exercise(
    "01.1",
    "How fast does each hand turn?",
    hints=[
        """There is one frequency for each pair of features, so d_model / 2 of them. `torch.arange(0, d_model,
        2)` gives the numbers 2i.""",
        "The exponent is −2i / d_model: 0 for the first pair, just short of −1 for the last.",
        "`base ** exponent` works with a number on the left and a tensor on the right.",
    ],
)
def frequencies(d_model, base):
    """How many radians does each pair of features turn from one position to the next?

    d_model: the number of features, even
    base: 10000 in the paper
    returns (d_model / 2,): base ** (−2i / d_model) for the pairs i = 0, 1, 2, …
    """
    raise NotImplementedError


@frequencies.cases
def frequencies(normal):
    yield {"d_model": 6, "base": 1000.0}
    yield {"d_model": 10, "base": 10_000}  # an int, as in the lesson
    yield {"d_model": 2, "base": 7.0}
    yield {"d_model": 4, "base": 100.0}  # by hand: 1 and a tenth


@frequencies.specification
def frequencies(d_model, base):
    return torch.tensor([1 / math.pow(base, 2 * i / d_model) for i in range(d_model // 2)])


@frequencies.solution
def frequencies(d_model, base):
    exponent = -torch.arange(0, d_model, 2) / d_model  # 0, −2/d, −4/d, …
    return base**exponent


@frequencies.alternative
def frequencies(d_model, base):
    return torch.exp(torch.arange(0, d_model, 2) * (-math.log(base) / d_model))


def falling(d_model, base=10_000.0, *, step=2.0):
    """d_model / 2 powers of the base, each exponent lower by step / d_model: right if the step is 2."""
    return base ** (-step * torch.arange(d_model // 2) / d_model)


frequencies.mistake(
    "exponent i/d",
    """Your exponent is i / d_model, half of what it should be: your slowest hand turns √base times slower
    than the first, not nearly base times. The formula has 2i / d_model; `torch.arange(0, d_model, 2)`
    is that 2i.""",
    lambda d, base: falling(d, base, step=1),
)

frequencies.mistake(
    "2i doubled",
    """Your exponent is 4i / d_model: `torch.arange(0, d_model, 2)` is 2i already, and you double it once
    more. The slow half of your hands would hardly move in any text. Leave out the factor 2.""",
    lambda d, base: falling(d, base, step=4),
)

frequencies.mistake(
    "minus sign lost",
    """Your frequencies grow from pair to pair. With a frequency near 10000, neighbouring positions land
    anywhere on the circle, and nothing tells near from far. The exponent is negative: −2i / d_model.""",
    lambda d, base: 1 / falling(d, base),
)

frequencies.mistake(
    "the last one on the mark",
    """You spread the exponents from 0 to −1 with the end included, i / (d_model/2 − 1). The paper divides 2i
    by d_model, so the last hand stays a little faster than 1 / base.""",
    lambda d, base: base ** (-torch.arange(d // 2) / (d // 2 - 1)),
    lambda d, base: torch.logspace(0, -1, d // 2, base=base),
    lambda d, base: base ** -torch.linspace(0, 1, d // 2),
)

frequencies.mistake(
    "one per feature",
    """You give every feature a frequency of its own. Sine and cosine of a pair must share one, or they are
    no longer the two coordinates of one hand. Return one per pair: use every second number.""",
    lambda d, base: base ** (-torch.arange(d) / d),
)

frequencies.mistake(
    "each one twice",
    """The values are right, but each stands there twice. The table will need them for sine and for cosine;
    here one per pair is asked for, d_model / 2 in all.""",
    lambda d, base: falling(d, base).repeat_interleave(2),
    lambda d, base: falling(d, base).repeat(2),
)

frequencies.mistake(
    "wavelengths, not frequencies",
    """These are wavelengths: after how many positions a hand is round. A frequency says how far it turns
    in one position, in radians: 2π / wavelength, which is base ** (−2i / d_model).""",
    lambda d, base: 2 * math.pi / falling(d, base),
)

frequencies.mistake(
    "a factor of 2π",
    """You bring in 2π. The paper's angle is position · frequency in radians as it stands: the first hand
    turns one radian per position, and needs 6.28 of them for a full circle. Leave out the 2π.""",
    lambda d, base: 2 * math.pi * falling(d, base),
    lambda d, base: falling(d, base) / (2 * math.pi),
)

frequencies.mistake(
    "starting at i = 1",
    """Your first frequency is not 1: you count the pairs from 1. With i = 0 the exponent is 0 and the
    first hand turns one radian per position. Start at 0.""",
    lambda d, base: base ** (-torch.arange(2, d + 2, 2) / d),
)

frequencies.mistake(
    "base not used",
    """You write 10000, whatever `base` is. It fits the paper's table and no other. Use the argument
    `base`.""",
    lambda d, base: falling(d),
)

frequencies.mistake(
    "logarithm left out",
    """base ** x is exp(x · log(base)), and you left out the logarithm: exp(x · base) falls to zero at
    once. Write `math.log(base)`, or use `base ** exponent`.""",
    lambda d, base: torch.exp(-torch.arange(0, d, 2) * base / d),
)

frequencies.mistake(
    "the wrong logarithm",
    """`math.log10` and `math.log2` do not belong to `exp`: exp(x · log(base)) is base ** x only with the
    natural logarithm, `math.log`. Your hands slow down at another rate.""",
    lambda d, base: torch.exp(-torch.arange(0, d, 2) * math.log10(base) / d),
    lambda d, base: torch.exp(-torch.arange(0, d, 2) * math.log2(base) / d),
)

frequencies.mistake(
    "multiplied, not raised",
    """You multiply the base by the exponent, where it has to be raised to it: `**`, not `*`. Each hand is
    slower than the last by the same factor, which only a power gives.""",
    lambda d, base: 1 / (base * torch.arange(0, d, 2) / d),
    lambda d, base: -base * torch.arange(0, d, 2) / d,
)

frequencies.mistake(
    "brackets missing",
    """`**` comes before `/`, so base ** x / d is (base ** x) / d: you divide the power by d_model, not the
    exponent. Your first frequency should be 1. Put brackets round the exponent.""",
    lambda d, base: base ** -torch.arange(0, d, 2) / d,
    lambda d, base: base ** -torch.arange(0.0, d, 2) / d,
)

frequencies.mistake(
    "whole-number division",
    """`//` cuts the exponents off to whole numbers, so they are 0 or −1 and nothing between. Divide with
    `/`.""",
    lambda d, base: base ** (-torch.arange(0, d, 2) // d),
    lambda d, base: base ** -(torch.arange(0, d, 2) // d * 1.0),
)

frequencies.mistake(
    "the exponent, not the power",
    """You return the exponents, −2i / d_model. The frequency is `base` raised to them: `base ** exponent`,
    1 for the first pair.""",
    lambda d, base: -torch.arange(0, d, 2) / d,
)

frequencies.mistake(
    "computed in float32",
    """The formula is right, but a conversion such as `.float()` makes the numbers float32, with 7 digits.
    The lessons compute in float64, and a division has that format by itself: leave the conversion out.""",
    lambda d, base: base ** -(torch.arange(0, d, 2).float() / d),
    lambda d, base: 1 / base ** (torch.arange(0, d, 2).float() / d),
    lambda d, base: torch.exp(torch.arange(0, d, 2).float() * (-math.log(base) / d)),
    lambda d, base: torch.exp(torch.arange(0, d, 2).float() / d * -math.log(base)),
    lambda d, base: torch.exp(-torch.arange(0, d, 2).float() * math.log(base) / d),
)

# ------------------------------------------------------------------------------------------------------ 01.2


@exercise(
    "01.2",
    "Write the table",
    hints=[
        """Angles first: position p and pair i give the angle p · ω_i. Positions as a column, `[:, None]`,
        times frequencies as a row gives them all, (length, d_model / 2).""",
        """Make a tensor of the final shape, `torch.empty(length, d_model)`, and fill it in two steps. The
        even features are `table[:, 0::2]`, the odd ones `table[:, 1::2]`.""",
    ],
)
def position_table(length, d_model):
    """Sinusoidal position vectors, base 10000: row p is the vector of position p, counted from 0.

    returns (length, d_model): sin(p · ω_i) in feature 2i, cos(p · ω_i) in feature 2i + 1,
    where ω_i = 10000 ** (−2i / d_model)
    """
    raise NotImplementedError


@position_table.cases
def position_table(normal):
    yield {"length": 7, "d_model": 6}
    yield {"length": 5, "d_model": 10}
    yield {"length": 1, "d_model": 4}  # by hand: 0, 1, 0, 1
    yield {"length": 1031, "d_model": 2}  # longer than a table of fixed length


@position_table.specification
def position_table(length, d_model):
    table = torch.zeros(length, d_model)
    for p in range(length):
        for feature in range(d_model):
            wave = math.cos if feature % 2 else math.sin
            table[p, feature] = wave(p / math.pow(10_000, feature // 2 * 2 / d_model))
    return table


@position_table.solution
def position_table(length, d_model):
    position = torch.arange(length)[:, None]  # (length, 1)
    frequency = 10_000 ** (-torch.arange(0, d_model, 2) / d_model)  # (d_model/2,)
    angle = position * frequency  # (length, d_model/2)
    table = torch.empty(length, d_model)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()
    return table


@position_table.alternative
def position_table(length, d_model):
    turns = torch.exp(-math.log(10_000) * torch.arange(d_model // 2) * 2 / d_model)
    hands = torch.polar(torch.ones(length, d_model // 2), torch.outer(torch.arange(length) * 1.0, turns))
    return torch.view_as_real(hands).flip(-1).flatten(1)


def angles(length, d_model, first=0, **options):
    """(length, d_model/2): the right angles of the positions from the first on."""
    return torch.arange(first, first + length)[:, None] * falling(d_model, **options)


def woven(even, odd):
    """Two tables (length, d_model/2) with their columns in turn."""
    return torch.stack([even, odd], dim=-1).flatten(1)


def waves(angle):
    """The right table of these angles: mistakes in the angles end here."""
    return woven(angle.sin(), angle.cos())


def beside(angle):
    """All sines, then all cosines."""
    return torch.cat([angle.sin(), angle.cos()], dim=-1)


def single(length, d_model, frequency):
    """A table computed in float32, from the numbers 0, 2, 4, … and d_model."""
    return waves(torch.arange(length)[:, None] * frequency(torch.arange(0, d_model, 2).float(), d_model))


def single_divided(length, d_model):
    """The same, the positions divided by 10000 ** (2i / d_model) as the formula has it."""
    even = torch.arange(0, d_model, 2).float()
    return waves(torch.arange(length)[:, None] / 10_000 ** (even / d_model))


position_table.mistake(
    "sine and cosine swapped",
    """Your even features are cosines and the odd ones sines. Such a table works as well, but it is not the
    published one: weights trained with the other read nonsense. Sine goes to 0::2, cosine to 1::2.""",
    lambda n, d: woven(angles(n, d).cos(), angles(n, d).sin()),
)

position_table.mistake(
    "concatenated, not interleaved",
    """You put all sines into the first half and all cosines into the second. That is the same table with its
    features in another order, and some libraries do it; but weights trained with one do not fit the
    other. Here they take turns: 0::2 and 1::2.""",
    lambda n, d: torch.cat([angles(n, d).sin(), angles(n, d).cos()], dim=-1),
)

position_table.mistake(
    "concatenated, cosine first",
    """You put all cosines into the first half and all sines into the second. Two things differ from the
    paper: sine comes first, and the two take turns, 0::2 and 1::2.""",
    lambda n, d: torch.cat([angles(n, d).cos(), angles(n, d).sin()], dim=-1),
)

position_table.mistake(
    "positions counted from 1",
    """Your first row belongs to position 1. Every vector is off by one against a table counted from 0, such
    as a published model's. Row 0 is 0, 1, 0, 1, …: start `arange` at 0.""",
    lambda n, d: waves(angles(n, d, first=1)),
)

position_table.mistake(
    "exponent i/d",
    """Your exponent is i / d_model, half of what it should be, which is the same as base 100: the slowest
    hand is too fast by far. The formula has 2i / d_model; `torch.arange(0, d_model, 2)` is that 2i.""",
    lambda n, d: waves(angles(n, d, step=1)),
)

position_table.mistake(
    "2i doubled",
    """Your exponent is 4i / d_model: `torch.arange(0, d_model, 2)` is 2i already, and you double it. Half
    of the features then stand still in any text. Leave out the factor 2.""",
    lambda n, d: waves(angles(n, d, step=4)),
)

position_table.mistake(
    "a frequency for every feature",
    """Sine and cosine of a pair have different frequencies in your table. They are the two coordinates of
    one hand, and must share one: feature 2i and feature 2i + 1 both take the exponent 2i / d_model.""",
    lambda n, d: woven(
        torch.sin(torch.arange(n)[:, None] * 10_000 ** (-torch.arange(0, d, 2) / d)),
        torch.cos(torch.arange(n)[:, None] * 10_000 ** (-torch.arange(1, d, 2) / d)),
    ),
    lambda n, d: woven(
        torch.sin(torch.arange(n)[:, None] * 10_000 ** (-2 * torch.arange(0, d, 2) / d)),
        torch.cos(torch.arange(n)[:, None] * 10_000 ** (-2 * torch.arange(1, d, 2) / d)),
    ),
)

position_table.mistake(
    "only sines",
    """All your features are sines. From the sine alone one cannot tell a hand that goes up from one that
    comes down, and moving along is no longer a rotation. The odd features are cosines.""",
    lambda n, d: torch.sin(torch.arange(n)[:, None] * 10_000 ** (-torch.arange(d) / d)),
    lambda n, d: woven(angles(n, d).sin(), angles(n, d).sin()),
)

position_table.mistake(
    "only cosines",
    """All your features are cosines. From the cosine alone one cannot tell a hand that goes up from one
    that comes down, and moving along is no longer a rotation. The even features are sines.""",
    lambda n, d: woven(angles(n, d).cos(), angles(n, d).cos()),
)

position_table.mistake(
    "odd features left at zero",
    """Your odd features are all zero: the cosines are missing. Fill `table[:, 1::2]` too.""",
    lambda n, d: woven(angles(n, d).sin(), 0 * angles(n, d)),
)

position_table.mistake(
    "transposed",
    """Your table lies on its side: positions are its columns. Tokens are rows, (position, d_model), so the
    table must be too. Positions as a column, `[:, None]`, times frequencies as a row.""",
    lambda n, d: waves(angles(n, d)).mT,
    lambda n, d: waves(angles(n, d)).mT.contiguous(),
)

position_table.mistake(
    "an axis for the batch",
    """Your table has an axis of size 1 in front, as some modules keep it. Adding it to a batch works without:
    shapes are matched from the right. Return (length, d_model).""",
    lambda n, d: waves(angles(n, d))[None],
    lambda n, d: waves(angles(n, d))[:, None],
)

position_table.mistake(
    "minus sign lost",
    """Your hands get faster from pair to pair, up to thousands of radians per position, so that neighbours
    land anywhere on the circle. Divide by 10000 ** (2i / d_model), or make the exponent negative.""",
    lambda n, d: waves(torch.arange(n)[:, None] / falling(d)),
)

position_table.mistake(
    "the wave divided, not the angle",
    """You divide the sine by 10000 ** (2i / d_model), not the angle inside it. All your waves have the same
    length, and the later ones are almost flat. Divide first, then take the sine.""",
    lambda n, d: woven(
        torch.arange(n)[:, None].sin() * falling(d), torch.arange(n)[:, None].cos() * falling(d)
    ),
)

position_table.mistake(
    "degrees",
    """You turn the angles from degrees into radians. They are radians already: the first hand turns one
    radian, 57 degrees, per position. Leave out the conversion.""",
    lambda n, d: waves(angles(n, d) * math.pi / 180),
)

position_table.mistake(
    "a factor of 2π",
    """You multiply the angles by 2π. The first hand would then be round at every position, and its two
    features constant. The angle is position · frequency, in radians as it stands.""",
    lambda n, d: waves(angles(n, d) * 2 * math.pi),
)

position_table.mistake(
    "position as a fraction",
    """You divide the positions by the length. Neighbours then differ by less in a longer table, and position
    3 of one is not position 3 of another. Use the numbers 0, 1, 2, … as they are.""",
    lambda n, d: waves(angles(n, d) / n),
    lambda n, d: waves(angles(n, d) / (n - 1)),
)

position_table.mistake(
    "angles, no waves",
    """You return the angles. They grow with the position and would drown the token; the table holds their
    sines and cosines, which stay between −1 and 1, two features for each angle.""",
    lambda n, d: angles(n, d),
)

position_table.mistake(
    "positions not a column",
    """Positions and frequencies are both flat, so they are matched one by one, which does not fit. Every
    position meets every frequency: make the positions a column, `[:, None]`.""",
    lambda n, d: torch.arange(n) * falling(d),
    lambda n, d: torch.arange(n) / 10_000 ** (torch.arange(0, d, 2) / d),
)

position_table.mistake(
    "another base",
    """The waves are right but for their base: the paper's is 10000, written 10_000 or 1e4. With another one
    every wavelength but the first is different.""",
    lambda n, d: waves(angles(n, d, base=1000)),
    lambda n, d: waves(angles(n, d, base=100_000)),
)

position_table.mistake(
    "the last one on the mark",
    """You spread the exponents from 0 to −1 with the end included, i / (d_model/2 − 1). The paper divides 2i
    by d_model, so the last pair stays a little faster than 1 / 10000.""",
    lambda n, d: waves(torch.arange(n)[:, None] * 10_000 ** -torch.linspace(0, 1, d // 2)),
)

position_table.mistake(
    "the last one on the mark, concatenated",
    """Two things differ from the paper: your exponents go from 0 to −1 with the end included, where the
    paper has −2i / d_model; and sines and cosines fill one half each, where they should take turns, 0::2
    and 1::2.""",
    lambda n, d: beside(torch.arange(n)[:, None] * 10_000 ** -torch.linspace(0, 1, d // 2)),
)

position_table.mistake(
    "stacked, then reshaped",
    """`reshape` fills row after row with the numbers in the order in which they lie, and here all sines lie
    before all cosines: a row gets several positions. Stack along a new last axis, `dim=-1`, then flatten.""",
    lambda n, d: torch.stack([angles(n, d).sin(), angles(n, d).cos()]).reshape(n, d),
)

position_table.mistake(
    "computed in float32",
    """The formula is right, but a conversion such as `.float()` or `dtype=torch.float` leaves only 7 correct
    digits. The lessons compute in float64, and a division has that format by itself: leave the conversion
    out.""",
    lambda n, d: single_divided(n, d),
    lambda n, d: single_divided(n, d).double(),
    lambda n, d: single(n, d, lambda even, d: torch.exp(even * (-math.log(10_000) / d))),
    lambda n, d: single(n, d, lambda even, d: torch.exp(even * (-math.log(10_000) / d))).double(),
    lambda n, d: single(n, d, lambda even, d: 10_000 ** (-even / d)),
    lambda n, d: single(n, d, lambda even, d: 10_000 ** (-even / d)).double(),
    lambda n, d: single(n, d, lambda even, d: 1 / 10_000 ** (even / d)),
    lambda n, d: single(n, d, lambda even, d: 1 / 10_000 ** (even / d)).double(),
)

# ------------------------------------------------------------------------------------------------------ 01.3


@exercise(
    "01.3",
    "Add it, from any position on",
    hints=[
        """Which rows? The first token stands at position `start`, and there are `x.shape[1]` tokens. A slice
        takes rows from its first number up to, not including, its second.""",
        """Those rows have the shape (position, d_model), x has (batch, position, d_model). Shapes are matched
        from the right, so a plain `+` gives every text of the batch the same rows.""",
    ],
)
def add_positions(x, table, start):
    """Add to each token the vector of its position; the first token of x stands at position `start`.

    x: (batch, position, d_model), token vectors
    table: (max_length, d_model), row p for position p, at least start + position rows
    start: 0 for a whole text, more for a piece from the middle of one
    returns (batch, position, d_model)
    """
    raise NotImplementedError


@add_positions.cases
def add_positions(normal):
    yield {"x": normal(2, 3, 5), "table": normal(7, 5), "start": 0}
    yield {"x": normal(3, 2, 7), "table": normal(11, 7), "start": 4}
    yield {"x": normal(2, 5, 3), "table": normal(13, 3), "start": 1}
    one = torch.tensor([[[1.0, 2.0]]])  # one text of one token, at the last position of the table
    yield {"x": one, "table": torch.tensor([[5.0, 7.0], [10.0, 30.0]]), "start": 1}


@add_positions.specification
def add_positions(x, table, start):
    result = torch.zeros(x.shape)
    for text in range(x.shape[0]):
        for place in range(x.shape[1]):
            for feature in range(x.shape[2]):
                result[text, place, feature] = x[text, place, feature] + table[start + place, feature]
    return result


@add_positions.solution
def add_positions(x, table, start):
    length = x.shape[1]
    return x + table[start : start + length]  # (position, d_model) goes to every text


@add_positions.alternative
def add_positions(x, table, start):
    where = torch.arange(start, start + x.size(1)).expand(x.shape[:2])
    return torch.nn.functional.embedding(where, table).add(x)


def rows(x, table, start):
    """The right rows: mistakes after the slice start here."""
    return table[start : start + x.shape[1]]


add_positions.mistake(
    "along the batch",
    """You take as many rows as there are texts, and give each text one row for all its tokens. The order of
    the words is lost, and a text's result depends on its place in the batch. Positions are axis 1:
    `x.shape[1]`.""",
    lambda x, table, start: x + table[start : start + len(x)][:, None],
    lambda x, table, start: x + table[: len(x)][:, None],
)

add_positions.mistake(
    "too few or too many rows",
    """You take a number of rows that does not belong to the tokens: all of them, or as many as there are
    texts, or features, or one more or less. Take `x.shape[1]` rows, beginning with row `start`.""",
    lambda x, table, start: x + table,
    lambda x, table, start: x + table[start:],
    lambda x, table, start: x + table[: len(x)],
    lambda x, table, start: x + table[start : start + len(x)],
    lambda x, table, start: x + table[start : start + x.shape[2]],
    lambda x, table, start: x + table[start : start + x.shape[1] + 1],
    lambda x, table, start: x + table[start : start + x.shape[1] - 1],
)

add_positions.mistake(
    "start counts pieces",
    """You begin with row `start` times the length, as if `start` were the number of the piece. It is the
    position of the first token itself: begin with row `start`.""",
    lambda x, table, start: x + table[start * x.shape[1] : (start + 1) * x.shape[1]],
)

add_positions.mistake(
    "start ignored",
    """You always begin with row 0. A piece from the middle of a text then looks as if it stood at the
    beginning. Begin with row `start`.""",
    lambda x, table, start: x + table[: x.shape[1]],
)

add_positions.mistake(
    "slice ends too early",
    """The second number of a slice is where it ends, not how many rows it takes: `table[start:length]` is
    right only for start 0. End at `start + length`.""",
    lambda x, table, start: x + table[start : x.shape[1]],
)

add_positions.mistake(
    "off by one",
    """Every token gets the vector of its neighbour. The first token of x stands at position `start` itself:
    begin with row `start`, and end before row `start + length`.""",
    lambda x, table, start: x + table[start + 1 : start + 1 + x.shape[1]],
    lambda x, table, start: x + table[torch.arange(start - 1, start - 1 + x.shape[1])],
)

add_positions.mistake(
    "one row for all tokens",
    """Every token gets the same row, `table[start]`, so the order of the words is lost. Take a slice of as
    many rows as there are tokens.""",
    lambda x, table, start: x + table[start],
)

add_positions.mistake(
    "positions run on through the batch",
    """Your second text goes on counting where the first one ended, so the same text is read differently in
    another place of the batch. Each text begins at `start`: add the same rows to all.""",
    lambda x, table, start: x + table[start : start + x.shape[0] * x.shape[1]].view_as(x),
)

add_positions.mistake(
    "concatenated",
    """You put the position's features beside the token's. Models that do so exist, but the vectors get wider,
    and here they are to keep their width. Add.""",
    lambda x, table, start: torch.cat([x, rows(x, table, start).expand_as(x)], dim=-1),
)

add_positions.mistake(
    "multiplied",
    """You multiply by the position's vector. Where it is 0, as a sine is at position 0, the token is
    wiped out. Add.""",
    lambda x, table, start: x * rows(x, table, start),
)

add_positions.mistake(
    "subtracted",
    """You subtract the position's vector. A model could learn with that, but one that was trained by adding
    reads the wrong positions. Add.""",
    lambda x, table, start: x - rows(x, table, start),
)

add_positions.mistake(
    "the number added, not the vector",
    """You add the number of the position itself. It is the same for all features and soon larger than the
    token; the table holds the vectors to add.""",
    lambda x, table, start: x + start,
    lambda x, table, start: x + (start + torch.arange(x.shape[1]))[:, None],
)

add_positions.mistake(
    "only the rows returned",
    """You return the positions alone: the tokens have got lost. Add the rows to `x`.""",
    lambda x, table, start: rows(x, table, start).expand_as(x),
    lambda x, table, start: rows(x, table, start),
)

add_positions.mistake(
    "tokens scaled",
    """You multiply the tokens by √d_model. In the paper that is done once, where the tokens are looked up;
    done here again it would drown the positions. Only add.""",
    lambda x, table, start: x * math.sqrt(x.shape[-1]) + rows(x, table, start),
)

add_positions.mistake(
    "positions scaled",
    """You multiply the positions by √d_model. In the paper it is the tokens that are multiplied, and
    elsewhere: where they are looked up. Only add.""",
    lambda x, table, start: x + math.sqrt(x.shape[-1]) * rows(x, table, start),
)

# ------------------------------------------------------------------------------------------------------ 01.4


@exercise(
    "01.4",
    "A matrix that moves k positions on",
    hints=[
        """One pair at a time. Its hand stands at the angle a, at p + k it stands at a + kω. School formulas:
        sin(a + b) = cos b · sin a + sin b · cos a, and cos(a + b) = −sin b · sin a + cos b · cos a.""",
        """So a pair's block, for (sin, cos) in this order, is [[cos kω, sin kω], [−sin kω, cos kω]]. Put it
        at rows and columns 2i and 2i + 1.""",
        "`torch.block_diag(*blocks)` sets matrices along the diagonal of a large one, zeros elsewhere.",
    ],
)
def shift_matrix(k, d_model):
    """The matrix M with M @ table[p] = table[p + k] for every position p of the sinusoidal table.

    k: how far to move, also negative
    d_model: even; pair i sits in features 2i (sine) and 2i + 1 (cosine), its frequency is
        10000 ** (−2i / d_model)
    returns (d_model, d_model)
    """
    raise NotImplementedError


@shift_matrix.cases
def shift_matrix(normal):
    yield {"k": 3, "d_model": 6}
    yield {"k": -2, "d_model": 10}
    yield {"k": 1, "d_model": 2}
    yield {"k": 0, "d_model": 4}  # by hand: nothing moves


@shift_matrix.specification
def shift_matrix(k, d_model):
    matrix = torch.zeros(d_model, d_model)
    for even in range(0, d_model, 2):
        turn = k / math.pow(10_000, even / d_model)
        matrix[even, even], matrix[even, even + 1] = math.cos(turn), math.sin(turn)
        matrix[even + 1, even], matrix[even + 1, even + 1] = -math.sin(turn), math.cos(turn)
    return matrix


@shift_matrix.solution
def shift_matrix(k, d_model):
    blocks = []
    for i in range(d_model // 2):
        turn = torch.tensor(k * 10_000 ** (-2 * i / d_model))
        blocks.append(torch.stack([turn.cos(), turn.sin(), -turn.sin(), turn.cos()]).view(2, 2))
    return torch.block_diag(*blocks)


@shift_matrix.alternative
def shift_matrix(k, d_model):
    speed = 10_000 ** (-torch.arange(0, d_model, 2) / d_model)
    quarter_turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    return torch.matrix_exp(k * torch.kron(torch.diag(speed), quarter_turn))


def turned(turns, block=lambda c, s: [[c, s], [-s, c]]):
    """One block for each angle along the diagonal: mistakes in the angles end here."""
    return torch.block_diag(*[torch.tensor(block(math.cos(t), math.sin(t))) for t in turns.tolist()])


def stacked(turns):
    """The right blocks, (d_model / 2, 2, 2), not yet put together."""
    return torch.stack([turns.cos(), turns.sin(), -turns.sin(), turns.cos()], dim=-1).view(-1, 2, 2)


def overlapping(turns):
    """Block i written to the rows and columns i and i + 1, in turn."""
    matrix = torch.zeros(2 * len(turns), 2 * len(turns))
    for i, block in enumerate(stacked(turns)):
        matrix[i : i + 2, i : i + 2] = block
    return matrix


shift_matrix.mistake(
    "turned back",
    """Your matrix moves k positions back: the signs of its sines are exchanged (or it is transposed, which is
    the same for a rotation). The minus belongs to the row that makes the cosine.""",
    lambda k, d: turned(-k * falling(d)),
)

shift_matrix.mistake(
    "minus sign lost",
    """Both sines in your blocks have the same sign. cos(a + b) is cos b · cos a − sin b · sin a: without the
    minus the vectors grow or shrink, and no rotation does that.""",
    lambda k, d: turned(k * falling(d), lambda c, s: [[c, s], [s, c]]),
    lambda k, d: turned(k * falling(d), lambda c, s: [[c, -s], [-s, c]]),
)

shift_matrix.mistake(
    "sine and cosine swapped",
    """Your blocks have sines on the diagonal. For k = 0 nothing moves, so a block must then be the identity:
    the cosines stand on the diagonal.""",
    lambda k, d: turned(k * falling(d), lambda c, s: [[s, c], [-c, s]]),
    lambda k, d: turned(k * falling(d), lambda c, s: [[s, c], [c, -s]]),
    lambda k, d: turned(k * falling(d), lambda c, s: [[s, -c], [c, s]]),
)

shift_matrix.mistake(
    "only the diagonal",
    """Your matrix has numbers on its diagonal only, so each feature is just made larger or smaller. The new
    sine needs the old cosine too: fill the places beside the diagonal.""",
    lambda k, d: turned(k * falling(d), lambda c, s: [[c, 0.0], [0.0, c]]),
    lambda k, d: turned(k * falling(d), lambda c, s: [[s, 0.0], [0.0, c]]),
)

shift_matrix.mistake(
    "the same turn for every pair",
    """All your blocks turn by the angle k. Each pair has its own speed: pair i turns by k · 10000 ** (−2i /
    d_model).""",
    lambda k, d: turned(torch.full((d // 2,), float(k))),
)

shift_matrix.mistake(
    "the halves as pairs",
    """You pair feature i with feature i + d_model/2. That fits a table with all sines in its first half; in
    this one the partners are neighbours, 2i and 2i + 1.""",
    lambda k, d: turned(k * falling(d))[order(d)][:, order(d)],
)

shift_matrix.mistake(
    "blocks overlap",
    """You put block i at rows and columns i and i + 1, so each block overwrites a part of the one before.
    Each takes two rows: block i belongs at 2i and 2i + 1.""",
    lambda k, d: overlapping(k * falling(d)),
)

shift_matrix.mistake(
    "blocks not put together",
    """You return the blocks one upon the other, (d_model / 2, 2, 2). A matrix is asked for, with the blocks
    along its diagonal: `torch.block_diag(*blocks)`.""",
    lambda k, d: stacked(k * falling(d)),
    lambda k, d: list(stacked(k * falling(d))),
)

shift_matrix.mistake(
    "the star left out",
    """`torch.block_diag` wants each block as an argument of its own, not one list or one tensor of them.
    A star hands them over one by one: `torch.block_diag(*blocks)`.""",
    lambda k, d: torch.block_diag(stacked(k * falling(d))),
    lambda k, d: torch.block_diag(list(stacked(k * falling(d)))),
)

shift_matrix.mistake(
    "exponent i/d",
    """Your frequencies have the exponent i / d_model, where the table has 2i / d_model, so all pairs but the
    first turn too far.""",
    lambda k, d: turned(k * falling(d, step=1)),
)

shift_matrix.mistake(
    "2i doubled",
    """Your frequencies have the exponent 4i / d_model: the loop variable or `arange` counts in twos already.
    All pairs but the first turn too little.""",
    lambda k, d: turned(k * falling(d, step=4)),
)

shift_matrix.mistake(
    "always one step",
    """Your matrix moves by one position, whatever k is. The angles are k times the frequencies.""",
    lambda k, d: turned(falling(d)),
)

shift_matrix.mistake(
    "k times one step",
    """You multiply the matrix of one step by k. To go k steps it has to be applied k times (a power), or its
    angles multiplied by k; k times the matrix only makes vectors longer.""",
    lambda k, d: k * turned(falling(d)),
)

shift_matrix.mistake(
    "minus sign in the exponent lost",
    """Your pairs turn faster and faster, by k · 10000 ** (+2i / d_model). Frequencies fall: the exponent is
    −2i / d_model.""",
    lambda k, d: turned(k / falling(d)),
)


def order(d_model):
    """Where a feature of the interleaved table stands in the concatenated one: 0, 2, 4, …, 1, 3, 5, …"""
    return torch.arange(d_model).view(-1, 2).mT.flatten()


# ------------------------------------------------------------------------------------------------------ 01.5


@exercise(
    "01.5",
    "Read the position off again",
    hints=[
        """Every vector is compared with every row: `x[:, None] - table` has the shape (n, max_length,
        d_model), one difference for each pair.""",
        """The squared distance is the sum of the squared differences over the features, the last axis. A
        square root would not change which one is smallest.""",
        "`argmin(dim=…)` tells where the smallest is. Which axis are the positions?",
    ],
)
def nearest_position(x, table):
    """For each vector: which row of the table is nearest, by the ordinary (Euclidean) distance?

    x: (n, d_model), for example tokens with their positions added
    table: (max_length, d_model), its rows not all equally long
    returns (n,): integers, the position for each vector
    """
    raise NotImplementedError


@nearest_position.cases
def nearest_position(normal):
    yield {"x": normal(31, 3), "table": normal(11, 3) * 2}
    yield {"x": normal(29, 5), "table": normal(13, 5)}
    yield {"x": torch.tensor([[2.0, 1.0]]), "table": torch.tensor([[9.0, 9.0], [2.0, 0.0], [0.0, 0.0]])}


@nearest_position.specification
def nearest_position(x, table):
    result = []
    for vector in x.tolist():
        distances = [math.dist(vector, row) for row in table.tolist()]
        result.append(distances.index(min(distances)))
    return torch.tensor(result)


@nearest_position.solution
def nearest_position(x, table):
    squared = (x[:, None] - table).square().sum(dim=-1)  # (n, max_length)
    return squared.argmin(dim=-1)


@nearest_position.alternative
def nearest_position(x, table):
    return (x @ table.mT - table.square().sum(-1) / 2).topk(1).indices.squeeze(-1)


nearest_position.mistake(
    "dot product",
    """You take the row with the largest dot product. That favours long rows: in a real table one long row
    can win nearly every time. Take the smallest distance.""",
    lambda x, table: (x @ table.mT).argmax(dim=-1),
)

nearest_position.mistake(
    "cosine",
    """You take the row with the most similar direction. Lengths then play no part, and a short row far away
    may win. Take the smallest distance.""",
    lambda x, table: (x @ normalize(table, dim=-1).mT).argmax(dim=-1),
)

nearest_position.mistake(
    "the farthest",
    """`argmax` of a distance finds the row that is farthest away. Use `argmin`.""",
    lambda x, table: torch.cdist(x, table).argmax(dim=-1),
)

nearest_position.mistake(
    "smallest dot product",
    """You take the smallest dot product: that row points away from the vector. The smaller the distance, the
    better, but a dot product is no distance.""",
    lambda x, table: (x @ table.mT).argmin(dim=-1),
)

nearest_position.mistake(
    "the nearest vector to each position",
    """You look along the wrong axis: for each position your answer names a vector. For each vector a
    position is asked for. In (n, max_length) the positions are the last axis.""",
    lambda x, table: torch.cdist(x, table).argmin(dim=0),
)

nearest_position.mistake(
    "differences not squared",
    """You add up the differences as they are, so positive and negative ones cancel. Square them first.""",
    lambda x, table: (x[:, None] - table).sum(-1).argmin(dim=-1),
    lambda x, table: (x[:, None] - table).sum(-1).abs().argmin(dim=-1),
    lambda x, table: (table - x[:, None]).sum(-1).argmin(dim=-1),
)

nearest_position.mistake(
    "absolute differences",
    """You add up absolute differences, as a taxi measures the way along the streets. The ordinary distance
    adds up squares.""",
    lambda x, table: torch.cdist(x, table, p=1).argmin(dim=-1),
)

nearest_position.mistake(
    "only the largest difference",
    """Your distance is the largest of the differences; the others play no part. The ordinary distance adds
    up the squares of all.""",
    lambda x, table: (x[:, None] - table).abs().amax(-1).argmin(dim=-1),
)

nearest_position.mistake(
    "the distance, not the position",
    """You return how far the nearest row is. Asked for is which row it is: `argmin` in place of `min`.""",
    lambda x, table: torch.cdist(x, table).amin(dim=-1),
    lambda x, table: torch.cdist(x, table).square().amin(dim=-1),
    lambda x, table: (x[:, None] - table).square().sum(-1).min(dim=-1),
    lambda x, table: torch.cdist(x, table).min(dim=-1),
)

nearest_position.mistake(
    "the row, not its number",
    """You return the nearest rows themselves. Asked for are their numbers, the result of `argmin`.""",
    lambda x, table: table[torch.cdist(x, table).argmin(dim=-1)],
)

nearest_position.mistake(
    "one number for all",
    """`argmin` without an axis looks at all pairs at once and returns a single number. Each vector needs its
    own: `argmin(dim=-1)`.""",
    lambda x, table: torch.cdist(x, table).argmin(),
    lambda x, table: (x[:, None] - table).square().sum(-1).argmin(),
)

nearest_position.mistake(
    "not every pair compared",
    """`x - table` subtracts row from row, and there are not as many vectors as positions. Every vector meets
    every row: give x an axis for the positions, `x[:, None] - table`.""",
    lambda x, table: x - table,
)

nearest_position.mistake(
    "differences not added up",
    """You look for the smallest difference within each pair, feature by feature. First add up the squares
    over the features, `.sum(dim=-1)`: that is one distance per pair. Then `argmin`.""",
    lambda x, table: (x[:, None] - table).square().argmin(dim=-1),
    lambda x, table: (x[:, None] - table).abs().argmin(dim=-1),
)

nearest_position.mistake(
    "differences added up over the positions",
    """You add up over the wrong axis. The differences are (n, max_length, d_model): the last axis, the
    features, makes one distance, `.sum(dim=-1)`; the positions, axis 1, are what `argmin` chooses from.""",
    lambda x, table: (x[:, None] - table).square().sum(1).argmin(dim=-1),
    lambda x, table: (x[:, None] - table).norm(dim=1).argmin(dim=-1),
)

nearest_position.mistake(
    "a factor 2 lost",
    """Your formula is nearly right. The squared distance of x and a row t is |x|² − 2 x·t + |t|²: the dot
    product counts twice, and yours counts once.""",
    lambda x, table: (x @ table.mT - table.square().sum(-1)).argmax(dim=-1),
)

nearest_position.mistake(
    "counted from 1",
    """All your positions are one too high. They are counted from 0, as `argmin` does: its result is the
    answer as it stands.""",
    lambda x, table: torch.cdist(x, table).argmin(dim=-1) + 1,
)

nearest_position.mistake(
    "distances returned",
    """You return all the distances, one for each pair. Asked for is the position of the smallest in each row:
    `argmin(dim=-1)`.""",
    lambda x, table: torch.cdist(x, table),
    lambda x, table: torch.cdist(x, table).square(),
)
