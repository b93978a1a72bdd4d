"""Lesson 04: independent and alternative answers to its exercises."""

import math

import torch

from tests.course.answers import alternative, independent, torch_attention
from transformer_lab import mean_pool, padding_mask

independent("04.1")(padding_mask)


@alternative("04.1")
def other_hide_padding(ids, pad):
    return torch.logical_not(ids.eq(pad)).unsqueeze(1).unsqueeze(1)


@alternative("04.2")
@independent("04.2")
def other_look_back_mask(length, window):
    return torch.ones(1, 1, length, length, dtype=torch.bool).tril().triu(-window)


independent("04.3")(torch_attention)


@alternative("04.3")
def other_masked_attention(q, k, v, m):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    weights = torch.where(m, scores, -torch.inf).softmax(-1).nan_to_num(0.0)
    return weights @ v, weights


@alternative("04.3")
def other_masked_attention_2(q, k, v, m):
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~m, -1e30)
    grown = torch.exp(scores - scores.amax(dim=-1, keepdim=True)) * m
    weights = grown / (grown.sum(-1, keepdim=True) + 1e-9)
    return [torch.einsum("bhij,bhjd->bhid", weights, v), weights]


independent("04.4")(mean_pool)


@alternative("04.4")
def other_mean_of_real(h, m):
    real = m.flatten(1).to(h.dtype)
    return torch.einsum("bpd,bp->bd", h, real) / (real.sum(1, keepdim=True) + 1e-9)


@independent("04.5")
def independent_who_moves(function, x):
    derivatives = torch.autograd.functional.jacobian(function, x)  # (position, feature, position, feature)
    return (derivatives != 0).any(3).any(1)


@alternative("04.5")
def other_who_moves(f, x):
    table = torch.zeros(len(x), len(x), dtype=torch.bool)
    for j, row in enumerate(x):
        other = torch.cat([x[:j], (row + torch.arange(3, 3 + len(row)))[None], x[j + 1 :]])
        table[:, j] = (f(other) - f(x)).pow(2).amax(-1).sqrt() > 1e-9
    return table


@independent("04.6")
def independent_from_torch(key_padding_mask, attn_mask):
    def visible(padding):
        return [[not (pad or hidden) for pad, hidden in zip(padding, row, strict=True)] for row in attn_mask]

    return torch.tensor([[visible(padding)] for padding in key_padding_mask])


@alternative("04.6")
def other_from_torch(padding, pairs):
    return torch.logical_or(padding.unsqueeze(1), pairs).logical_not().unsqueeze(1)


@alternative("04.7")
@independent("04.7")
def other_reach(mask, n):
    hop = torch.maximum(mask.long(), torch.eye(len(mask), dtype=torch.long))
    return torch.linalg.matrix_power(hop.double(), n).bool()


@alternative("04.7")
def other_reach_2(mask, n):
    known = mask | torch.eye(len(mask), dtype=torch.bool)
    for _ in range(n - 1):
        known = known | (mask[:, :, None] & known[None]).any(dim=1)
    return known
