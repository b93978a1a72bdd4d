"""Lesson 01: independent and alternative answers to its exercises."""

import math

import torch
from torch import nn

from tests.course.answers import alternative, independent


@independent("01.1")
def independent_frequencies(d_model, base):
    return torch.tensor([1 / math.pow(base, 2 * i / d_model) for i in range(d_model // 2)])


@alternative("01.1")
def other_frequencies(d_model, base):
    return torch.exp(torch.arange(0, d_model, 2) * (-math.log(base) / d_model))


@independent("01.2")
def independent_position_table(length, d_model):
    table = torch.zeros(length, d_model)
    for p in range(length):
        for feature in range(d_model):
            wave = math.cos if feature % 2 else math.sin
            table[p, feature] = wave(p / math.pow(10_000, feature // 2 * 2 / d_model))
    return table


@alternative("01.2")
def other_position_table(length, d_model):
    turns = torch.exp(-math.log(10_000) * torch.arange(d_model // 2) * 2 / d_model)
    hands = torch.polar(torch.ones(length, d_model // 2), torch.outer(torch.arange(length) * 1.0, turns))
    return torch.view_as_real(hands).flip(-1).flatten(1)


@independent("01.3")
def independent_add_positions(x, table, start):
    result = torch.zeros_like(x)
    for text in range(x.shape[0]):
        for place in range(x.shape[1]):
            for feature in range(x.shape[2]):
                result[text, place, feature] = x[text, place, feature] + table[start + place, feature]
    return result


@alternative("01.3")
def other_add_positions(x, table, start):
    where = torch.arange(start, start + x.size(1)).expand(x.shape[:2])
    return torch.nn.functional.embedding(where, table).add(x)


@independent("01.4")
def independent_shift_matrix(k, d_model):
    matrix = torch.zeros(d_model, d_model)
    for even in range(0, d_model, 2):
        turn = k / math.pow(10_000, even / d_model)
        matrix[even, even], matrix[even, even + 1] = math.cos(turn), math.sin(turn)
        matrix[even + 1, even], matrix[even + 1, even + 1] = -math.sin(turn), math.cos(turn)
    return matrix


@alternative("01.4")
def other_shift_matrix(k, d_model):
    speed = 10_000 ** (-torch.arange(0, d_model, 2) / d_model)
    quarter_turn = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    return torch.matrix_exp(k * torch.kron(torch.diag(speed), quarter_turn))


@independent("01.5")
class IndependentSinusoidalEncoding(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        self.register_buffer("table", independent_position_table(max_length, d_model), persistent=False)

    def forward(self, x, offset=0):
        return independent_add_positions(x, self.table, offset)


@alternative("01.5")
class OtherSinusoidalEncoding(nn.Module):
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


@independent("01.6")
def independent_nearest_position(x, table):
    result = []
    for vector in x.tolist():
        distances = [math.dist(vector, row) for row in table.tolist()]
        result.append(distances.index(min(distances)))
    return torch.tensor(result)


@alternative("01.6")
def other_nearest_position(x, table):
    return (x @ table.mT - table.square().sum(-1) / 2).topk(1).indices.squeeze(-1)
