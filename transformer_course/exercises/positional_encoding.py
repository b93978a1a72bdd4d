"""Exercises of lesson 01."""

import torch
from torch import nn

from transformer_course.checker import exercise
from transformer_course.checker.exercise_types import ModuleExercise
from transformer_course.checker.parameters import require_buffer


@exercise("01.1", difficulty=1, forbidden=("transformer_lab",))
def frequencies(d_model, base):
    """Return the frequency of each pair of features: the radians by which it rotates per position.

    d_model: the number of features, even
    base: 10000 in the paper
    returns (d_model / 2,), float64: ω_i for the pairs i = 0, 1, 2, …
    Write it yourself, without `transformer_lab`.
    """
    exponent = -torch.arange(0, d_model, 2) / d_model  # 0, −2/d, −4/d, …
    return base**exponent


@frequencies.cases
def frequencies_cases(normal):
    yield {"d_model": 6, "base": 1000.0}
    yield {"d_model": 10, "base": 10_000}  # an int, as in the lesson
    yield {"d_model": 2, "base": 7.0}
    yield {"d_model": 4, "base": 100.0}  # by hand: 1 and a tenth


@exercise("01.2", difficulty=2, forbidden=("transformer_lab",))
def position_table(length, d_model):
    """Return the sinusoidal table with base 10000: row p is the vector of position p, counted from 0.

    returns (length, d_model), float64: sin(p × ω_i) in feature 2i, cos(p × ω_i) in feature 2i + 1,
    where the ω_i are the frequencies of 01.1 with base 10000
    Write it yourself, without `transformer_lab`.
    """
    position = torch.arange(length)[:, None]  # (length, 1)
    angle = position * frequencies(d_model, 10_000)  # (length, d_model/2)
    table = torch.empty(length, d_model)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()
    return table


@position_table.cases
def position_table_cases(normal):
    yield {"length": 7, "d_model": 6}
    yield {"length": 5, "d_model": 10}
    yield {"length": 1, "d_model": 4}  # by hand: 0, 1, 0, 1
    yield {"length": 1031, "d_model": 2}  # longer than a table of fixed length


@exercise("01.3", difficulty=1, forbidden=("transformer_lab",))
def add_positions(x, table, start):
    """Add to each token the vector of its position; the first token of x is at position `start`.

    x: (batch, position, d_model), token vectors
    table: (max_length, d_model), row p for position p; it has at least start + x.shape[1] rows
    start: 0 for a whole text, larger for a piece from the middle of a text
    returns (batch, position, d_model)
    Write it yourself, without `transformer_lab`.
    """
    length = x.shape[1]
    return x + table[start : start + length]  # (position, d_model) goes to every text


@add_positions.cases
def add_positions_cases(normal):
    yield {"x": normal(2, 3, 5), "table": normal(7, 5), "start": 0}
    yield {"x": normal(3, 2, 7), "table": normal(11, 7), "start": 4}
    yield {"x": normal(2, 5, 3), "table": normal(13, 3), "start": 1}
    one = torch.tensor([[[1.0, 2.0]]])  # one text of one token, at the last position of the table
    yield {"x": one, "table": torch.tensor([[5.0, 7.0], [10.0, 30.0]]), "start": 1}


@exercise("01.4", difficulty=3)
def shift_matrix(k, d_model):
    """Return the matrix M with M @ table[p] = table[p + k] for every position p of the sinusoidal table.

    k: how many positions to move on; may be negative
    d_model: even; pair i is in features 2i (sine) and 2i + 1 (cosine), and its frequency is
        10000 ** (−2i / d_model)
    returns (d_model, d_model), float64
    """
    blocks = []
    for turn in k * frequencies(d_model, 10_000):
        blocks.append(torch.stack([turn.cos(), turn.sin(), -turn.sin(), turn.cos()]).view(2, 2))
    return torch.block_diag(*blocks)


@shift_matrix.cases
def shift_matrix_cases(normal):
    yield {"k": 3, "d_model": 6}
    yield {"k": -2, "d_model": 10}
    yield {"k": 1, "d_model": 2}
    yield {"k": 0, "d_model": 4}  # by hand: nothing moves


class MovedExercise(ModuleExercise):
    """Its module has a buffer `table`, and is moved to the format of its tokens before it is called."""

    def ready(self, answer, case, parameters=None):
        module = super().ready(answer, case, parameters)
        require_buffer(module, "table")
        return module

    def use(self, ready, inputs):
        return super().use(ready.to(inputs["x"].dtype), inputs)


@exercise(
    "01.5", kind=MovedExercise, difficulty=2, keyword_arguments=("offset",), forbidden=("transformer_lab",)
)
class SinusoidalEncoding(nn.Module):
    """Add to each token the sinusoidal vector of its position. The module has no trained parameters."""

    def __init__(self, d_model, max_length):
        super().__init__()
        # yours:
        # self.table: the vectors of positions 0 to max_length − 1, a buffer that is not saved
        self.register_buffer("table", position_table(max_length, d_model), persistent=False)

    def forward(self, x, offset=0):
        """x (batch, position, d_model); its first token is at position `offset`.

        Returns (batch, position, d_model). Write it yourself, without `transformer_lab`.
        """
        return add_positions(x, self.table, offset)


@SinusoidalEncoding.cases
def sinusoidal_encoding_cases(normal):
    yield {"d_model": 6, "max_length": 11}, {"x": normal(2, 5, 6)}
    yield {"d_model": 10, "max_length": 13}, {"x": normal(3, 2, 10), "offset": 7}
    yield {"d_model": 14, "max_length": 17}, {"x": normal(5, 3, 14).float(), "offset": 2}  # as models compute
    yield {"d_model": 2, "max_length": 3}, {"x": torch.zeros(1, 1, 2), "offset": 2}  # by hand: sin 2, cos 2


@exercise("01.6", difficulty=2)
def nearest_position(x, table):
    """Return the index of the nearest row of the table for each vector, by Euclidean distance.

    x: (n, d_model), for example tokens with their positions added
    table: (max_length, d_model), whose rows differ in length (norm)
    returns (n,): integers, the position for each vector
    """
    squared = (x[:, None] - table).square().sum(dim=-1)  # (n, max_length)
    return squared.argmin(dim=-1)


@nearest_position.cases
def nearest_position_cases(normal):
    yield {"x": normal(31, 3), "table": normal(11, 3) * 2}
    yield {"x": normal(29, 5), "table": normal(13, 5)}
    yield {"x": torch.tensor([[2.0, 1.0]]), "table": torch.tensor([[9.0, 9.0], [2.0, 0.0], [0.0, 0.0]])}
