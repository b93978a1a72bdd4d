"""Lesson 01: independent and alternative answers to its exercises."""

import math

import torch
from torch import nn

from tests.course.answers import alternative, independent
from transformer_lab import sinusoidal_encoding


@independent("01.1")
def independent_frequencies(d_model, base):
    return torch.tensor([1 / math.pow(base, 2 * i / d_model) for i in range(d_model // 2)])


@alternative("01.1")
def other_frequencies(d_model, base):
    return torch.exp(torch.arange(0, d_model, 2) * (-math.log(base) / d_model))


independent("01.2")(sinusoidal_encoding)


@alternative("01.2")
def other_position_table(length, d_model):
    turns = torch.exp(-math.log(10_000) * torch.arange(d_model // 2) * 2 / d_model)
    hands = torch.polar(torch.ones(length, d_model // 2), torch.outer(torch.arange(length) * 1.0, turns))
    return torch.view_as_real(hands).flip(-1).flatten(1)


@alternative("01.3")
@independent("01.3")
def other_add_positions(x, table, start):
    where = torch.arange(start, start + x.size(1)).expand(x.shape[:2])
    return torch.nn.functional.embedding(where, table).add(x)


@alternative("01.4")
@independent("01.4")
def other_shift_matrix(k, d_model):
    speed = 10_000 ** (-torch.arange(0, d_model, 2) / d_model)
    quarter_turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    return torch.matrix_exp(k * torch.kron(torch.diag(speed), quarter_turn))


@independent("01.5")
class IndependentSinusoidalEncoding(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        self.register_buffer("table", sinusoidal_encoding(max_length, d_model), persistent=False)

    def forward(self, x, offset=0):
        return other_add_positions(x, self.table, offset)


@alternative("01.5")
class OtherSinusoidalEncoding(nn.Module):
    def __init__(self, width, longest):
        super().__init__()
        self.table = nn.Buffer(other_position_table(longest, width), persistent=False)

    def forward(self, tokens, offset=0):
        return tokens + self.table.narrow(0, offset, tokens.size(1))


@alternative("01.6")
@independent("01.6")
def other_nearest_position(x, table):
    return (x @ table.mT - table.square().sum(-1) / 2).topk(1).indices.squeeze(-1)
