"""Lesson 02: independent and alternative answers to its exercises."""

import math

import numpy as np
import torch
from torch import nn

from tests.course.answers import alternative, independent
from transformer_lab import rotate_interleaved


@independent("02.1")
def independent_turn(pairs, angle):
    result = torch.zeros(pairs.numel() // 2, 2)
    for i, (a, b) in enumerate(pairs.reshape(-1, 2)):
        result[i, 0] = a * math.cos(angle) - b * math.sin(angle)
        result[i, 1] = a * math.sin(angle) + b * math.cos(angle)
    return result.view(pairs.shape)


@alternative("02.1")
def other_turn(pairs, angle):
    turned = torch.view_as_complex(pairs.contiguous()) * complex(math.cos(angle), math.sin(angle))
    return torch.view_as_real(turned)


@independent("02.2")
def independent_rotary(x, base):
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


@alternative("02.2")
def other_rotary(x, base):
    half = x.shape[-1] // 2
    theta = torch.outer(
        torch.arange(x.shape[2]) * 1.0, torch.exp(-math.log(base) * torch.arange(half) / half)
    )
    cos, sin = torch.cat([theta, theta], dim=-1).cos(), torch.cat([theta, theta], dim=-1).sin()
    swapped = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos + swapped * sin


@independent("02.3")
def independent_prepare(query, key, value, start, rotary):
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


@alternative("02.3")
def other_prepare(query, key, value, start, rotary):
    positions = torch.arange(query.shape[-2]) + start
    turned = rotary(torch.cat([query, key]), positions=positions)
    return *turned.chunk(2), value.clone()


@independent("02.4")
class IndependentRotary(nn.Module):
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


@alternative("02.4")
class OtherRotary(nn.Module):
    def __init__(self, d_head, base=10_000.0):
        super().__init__()
        half = torch.arange(d_head // 2) * 2 / d_head
        self.register_buffer("frequency", torch.exp(-math.log(base) * half), persistent=False)

    def forward(self, tokens, offset=0):
        angle = torch.outer(offset + torch.arange(tokens.size(-2)), self.frequency).repeat(1, 2)
        first, second = tokens.tensor_split(2, -1)
        cos, sin = angle.cos().type_as(tokens), angle.sin().type_as(tokens)
        return tokens * cos + torch.cat([-second, first], -1) * sin


@independent("02.5")
def independent_rotary_complex(x, start):
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


@alternative("02.5")
def other_rotary_complex(x, start):
    where = start + torch.arange(x.size(1)).view(1, -1, 1, 1)
    angle = where * torch.exp(-math.log(10_000) * torch.arange(0, x.size(-1), 2) / x.size(-1))
    a, b = x[..., ::2], x[..., 1::2]
    result = torch.empty_like(x)
    result[..., ::2] = a * angle.cos() - b * angle.sin()
    result[..., 1::2] = b * angle.cos() + a * angle.sin()
    return result


@independent("02.6")
def independent_to_half_split(weight, bias, n_heads):
    d_head = len(bias) // n_heads
    new_weight, new_bias = torch.zeros(weight.shape), torch.zeros(bias.shape)
    for head in range(n_heads):
        for i in range(d_head // 2):
            for member in (0, 1):  # of pair i
                old = head * d_head + 2 * i + member
                new = head * d_head + i + member * (d_head // 2)
                new_weight[new], new_bias[new] = weight[old], bias[old]
    return new_weight, new_bias


@alternative("02.6")
def other_to_half_split(weight, bias, n_heads):
    half = len(bias) // n_heads // 2
    rows = torch.arange(len(bias)).view(n_heads, half, 2).transpose(1, 2).reshape(-1)
    return weight[rows], bias[rows]


@independent("02.7")
def independent_find_pairs(rotate, d_head):
    found = []
    for first in range(d_head):
        for second in range(first + 1, d_head):
            x = torch.zeros(2, d_head)
            x[:, first] = 1
            if rotate(x)[1, second].item() != 0:
                found.append((first, second))
    return found


@alternative("02.7")
def other_find_pairs(rotate, d_head):
    at_one = torch.stack([rotate(one.expand(4, -1))[3] for one in torch.eye(d_head)])  # (feature, feature)
    return [tuple(pair) for pair in at_one.triu(diagonal=1).nonzero().tolist()]
