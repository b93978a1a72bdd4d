"""Lesson 02: independent and alternative answers to its exercises."""

import math

import torch
from torch import nn

from tests.course.answers import alternative, independent
from transformer_lab.rotary_embedding import RotaryEmbedding, interleaved_to_half_split, rotate_interleaved


@alternative("02.1")
@independent("02.1")
def other_turn(pairs, angle):
    turned = torch.view_as_complex(pairs.contiguous()) * complex(math.cos(angle), math.sin(angle))
    return torch.view_as_real(turned)


@independent("02.2")
def independent_rotary(x, base):
    return RotaryEmbedding(x.shape[-1], base=base)(x)


@alternative("02.2")
def other_rotary(x, base):
    half = x.shape[-1] // 2
    theta = torch.outer(
        torch.arange(x.shape[2]) * 1.0, torch.exp(-math.log(base) * torch.arange(half) / half)
    )
    cos, sin = torch.cat([theta, theta], dim=-1).cos(), torch.cat([theta, theta], dim=-1).sin()
    swapped = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
    return x * cos + swapped * sin


@alternative("02.3")
@independent("02.3")
def other_prepare(query, key, value, start, rotary):
    positions = torch.arange(query.shape[-2]) + start
    turned = rotary(torch.cat([query, key]), positions=positions)
    return *turned.chunk(2), value.clone()


@independent("02.4")
class IndependentRotary(nn.Module):
    def __init__(self, d_head, base=10_000.0):
        super().__init__()
        self.rotary = RotaryEmbedding(d_head, base=base)
        self.register_buffer("frequency", torch.zeros(d_head // 2), persistent=False)

    def forward(self, x, offset=0):
        return self.rotary(x, offset=offset)


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
    rotary = RotaryEmbedding(x.shape[-1], rotate=rotate_interleaved)
    return rotary(x.transpose(1, 2), offset=start).transpose(1, 2)


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
    order = torch.cat([head * d_head + interleaved_to_half_split(d_head) for head in range(n_heads)])
    return weight[order], bias[order]


@alternative("02.6")
def other_to_half_split(weight, bias, n_heads):
    half = len(bias) // n_heads // 2
    rows = torch.arange(len(bias)).view(n_heads, half, 2).transpose(1, 2).reshape(-1)
    return weight[rows], bias[rows]


@alternative("02.7")
@independent("02.7")
def other_find_pairs(rotate, d_head):
    at_one = torch.stack([rotate(one.expand(4, -1))[3] for one in torch.eye(d_head)])  # (feature, feature)
    return [tuple(pair) for pair in at_one.triu(diagonal=1).nonzero().tolist()]
