"""Exercises of lesson 01."""

import math

import torch
from torch import nn

from transformer_course.checker import exercise
from transformer_course.checker.exercise_types import ModuleExercise
from transformer_course.checker.parameters import require_buffer

# ------------------------------------------------------------------------------------------------------ 01.1


@exercise(
    "01.1",
    "How fast does each hand turn?",
    difficulty=1,
    forbidden=("transformer_lab",),
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
    returns (d_model / 2,), float64: ω_i for the pairs i = 0, 1, 2, …
    Write it yourself, without `transformer_lab`.
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


# ------------------------------------------------------------------------------------------------------ 01.2


@exercise(
    "01.2",
    "Write the table",
    difficulty=2,
    forbidden=("transformer_lab",),
    hints=[
        """Angles first: position p and pair i give the angle p · ω_i. Positions as a column, `[:, None]`,
        times the frequencies of 01.1 as a row gives them all, (length, d_model / 2).""",
        """Make a tensor of the final shape, `torch.empty(length, d_model)`, and fill it in two steps. The
        even features are `table[:, 0::2]`, the odd ones `table[:, 1::2]`.""",
    ],
)
def position_table(length, d_model):
    """Sinusoidal position vectors, base 10000: row p is the vector of position p, counted from 0.

    returns (length, d_model), float64: sin(p · ω_i) in feature 2i, cos(p · ω_i) in feature 2i + 1,
    where the ω_i are those of 01.1, with base 10000
    Write it yourself, without `transformer_lab`.
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
    angle = position * frequencies(d_model, 10_000)  # (length, d_model/2)
    table = torch.empty(length, d_model)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()
    return table


@position_table.alternative
def position_table(length, d_model):
    turns = torch.exp(-math.log(10_000) * torch.arange(d_model // 2) * 2 / d_model)
    hands = torch.polar(torch.ones(length, d_model // 2), torch.outer(torch.arange(length) * 1.0, turns))
    return torch.view_as_real(hands).flip(-1).flatten(1)


# ------------------------------------------------------------------------------------------------------ 01.3


@exercise(
    "01.3",
    "Add it, from any position on",
    difficulty=1,
    forbidden=("transformer_lab",),
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
    table: (max_length, d_model), row p for position p, at least start + x.shape[1] rows
    start: 0 for a whole text, more for a piece from the middle of one
    returns (batch, position, d_model)
    Write it yourself, without `transformer_lab`.
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
    result = torch.zeros_like(x)
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


# ------------------------------------------------------------------------------------------------------ 01.4


@exercise(
    "01.4",
    "A matrix that moves k positions on",
    difficulty=3,
    hints=[
        """One pair at a time. Its hand stands at the angle a, at p + k it stands at a + kω. School formulas:
        sin(a + b) = cos b · sin a + sin b · cos a, and cos(a + b) = −sin b · sin a + cos b · cos a.""",
        """So a pair's block, for (sin, cos) in this order, is [[cos kω, sin kω], [−sin kω, cos kω]], with
        the ω of 01.1. Put it at rows and columns 2i and 2i + 1.""",
        "`torch.block_diag(*blocks)` sets matrices along the diagonal of a large one, zeros elsewhere.",
    ],
)
def shift_matrix(k, d_model):
    """The matrix M with M @ table[p] = table[p + k] for every position p of the sinusoidal table.

    k: how far to move, also negative
    d_model: even; pair i sits in features 2i (sine) and 2i + 1 (cosine), its frequency is
        10000 ** (−2i / d_model)
    returns (d_model, d_model), float64
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
    for turn in k * frequencies(d_model, 10_000):
        blocks.append(torch.stack([turn.cos(), turn.sin(), -turn.sin(), turn.cos()]).view(2, 2))
    return torch.block_diag(*blocks)


@shift_matrix.alternative
def shift_matrix(k, d_model):
    speed = 10_000 ** (-torch.arange(0, d_model, 2) / d_model)
    quarter_turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    return torch.matrix_exp(k * torch.kron(torch.diag(speed), quarter_turn))


# ------------------------------------------------------------------------------------------------------ 01.5


class MovedExercise(ModuleExercise):
    """Its module has a buffer `table`, and is moved to the format of its tokens before it is called."""

    def ready(self, answer, case, parameters=None):
        module = super().ready(answer, case, parameters)
        require_buffer(module, "table")
        return module

    def use(self, ready, inputs):
        return super().use(ready.to(inputs["x"].dtype), inputs)


@exercise(
    "01.5",
    "Keep the table in a module",
    kind=MovedExercise,
    difficulty=2,
    keyword_arguments=("offset",),
    forbidden=("transformer_lab",),
    hints=[
        """`self.register_buffer(name, tensor)` gives the module a buffer; from then on it is an attribute of
        that name. The tensor is your 01.2, with max_length rows.""",
        """What a module saves is its state dict. A third argument of `register_buffer`,
        `persistent=False`, keeps the buffer out of it.""",
        "`forward` is 01.3, with this table. `offset` is what is called `start` there.",
    ],
)
class SinusoidalEncoding(nn.Module):
    """Adds the sinusoidal vector of its position to each token. Nothing in it is trained."""

    def __init__(self, d_model, max_length):
        super().__init__()
        # self.table: the positions 0 to max_length − 1, a buffer that is not saved
        raise NotImplementedError

    def forward(self, x, offset=0):
        """x (batch, position, d_model); its first token stands at position `offset`.

        Returns (batch, position, d_model). Write it yourself, without `transformer_lab`.
        """
        raise NotImplementedError


@SinusoidalEncoding.cases
def SinusoidalEncoding(normal):
    yield {"d_model": 6, "max_length": 11}, {"x": normal(2, 5, 6)}
    yield {"d_model": 10, "max_length": 13}, {"x": normal(3, 2, 10), "offset": 7}
    yield {"d_model": 14, "max_length": 17}, {"x": normal(5, 3, 14).float(), "offset": 2}  # as models compute
    yield {"d_model": 2, "max_length": 3}, {"x": torch.zeros(1, 1, 2), "offset": 2}  # by hand: sin 2, cos 2


@SinusoidalEncoding.specification
class SinusoidalEncoding(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        self.register_buffer("table", position_table.specified(max_length, d_model), persistent=False)

    def forward(self, x, offset=0):
        return add_positions.specified(x, self.table, offset)


def solution():
    """In a function: `inspect` finds the first class of a name in a module, and that is the stub."""

    class SinusoidalEncoding(nn.Module):
        def __init__(self, d_model, max_length):
            super().__init__()
            self.register_buffer("table", position_table(max_length, d_model), persistent=False)

        def forward(self, x, offset=0):
            return add_positions(x, self.table, offset)

    return SinusoidalEncoding


SinusoidalEncoding.solution(solution())


def alternative():
    class SinusoidalEncoding(nn.Module):
        def __init__(self, width, longest):
            super().__init__()
            self.table = nn.Buffer(self.hands(width, torch.arange(longest)), persistent=False)

        @staticmethod
        def hands(width, places):
            even = torch.arange(width) // 2 * 2
            angle = torch.outer(places * 1.0, torch.exp(even * (-math.log(10_000) / width)))
            return torch.where(torch.arange(width) % 2 == 0, angle.sin(), angle.cos())

        def forward(self, tokens, offset=0):
            return tokens + self.table.narrow(0, offset, tokens.size(1))

    return SinusoidalEncoding


SinusoidalEncoding.alternative(alternative())


# ------------------------------------------------------------------------------------------------------ 01.6


@exercise(
    "01.6",
    "Read the position off again",
    difficulty=2,
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
