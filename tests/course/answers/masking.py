"""Lesson 04: independent and alternative answers to its exercises."""

import math

import torch

from tests.course.answers import alternative, independent


@independent("04.1")
def independent_hide_padding(token_ids, pad_id):
    batch, length = token_ids.shape
    mask = torch.zeros(batch, 1, 1, length, dtype=torch.bool)
    for b in range(batch):
        for j in range(length):
            mask[b, 0, 0, j] = token_ids[b, j].item() != pad_id
    return mask


@alternative("04.1")
def other_hide_padding(ids, pad):
    return torch.logical_not(ids.eq(pad)).unsqueeze(1).unsqueeze(1)


@independent("04.2")
def independent_look_back_mask(length, window):
    mask = torch.zeros(1, 1, length, length, dtype=torch.bool)
    for i in range(length):
        for j in range(max(0, i - window), i + 1):
            mask[0, 0, i, j] = True
    return mask


@alternative("04.2")
def other_look_back_mask(length, window):
    return torch.ones(1, 1, length, length, dtype=torch.bool).tril().triu(-window)


@independent("04.3")
def independent_masked_attention(query, key, value, may_attend):
    batch, heads, queries, _ = query.shape
    n_keys = key.shape[2]
    visible = may_attend.expand(batch, heads, queries, n_keys)
    weights = torch.zeros(batch, heads, queries, n_keys)
    output = torch.zeros(batch, heads, queries, value.shape[3])
    for b, h, i in torch.ones(batch, heads, queries).nonzero().tolist():
        seen = [j for j in range(n_keys) if visible[b, h, i, j]]
        scores = {j: query[b, h, i] @ key[b, h, j] / math.sqrt(key.shape[3]) for j in seen}
        grown = {j: torch.exp(scores[j] - max(scores.values())) for j in seen}
        for j in seen:
            weights[b, h, i, j] = weight = grown[j] / sum(grown.values())
            output[b, h, i] += weight * value[b, h, j]
    return output, weights


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


@independent("04.4")
def independent_mean_of_real(hidden, may_attend):
    result = torch.zeros(len(hidden), hidden.shape[2])
    for b in range(len(hidden)):
        real = [hidden[b, i] for i in range(hidden.shape[1]) if may_attend[b, 0, 0, i]]
        for vector in real:
            result[b] += vector / len(real)
    return result


@alternative("04.4")
def other_mean_of_real(h, m):
    real = m.flatten(1).to(h.dtype)
    return torch.einsum("bpd,bp->bd", h, real) / (real.sum(1, keepdim=True) + 1e-9)


@independent("04.5")
def independent_who_moves(function, x):
    moves = torch.zeros(len(x), len(x), dtype=torch.bool)
    for j in range(len(x)):
        another = torch.stack([row * row + 2 * i + 3 if i == j else row for i, row in enumerate(x)])
        another[j] *= torch.arange(1, x.shape[1] + 1)
        for i, (now, then) in enumerate(zip(function(another), function(x), strict=True)):
            moves[i, j] = any(abs(a - b) > 1e-9 for a, b in zip(now, then, strict=True))
    return moves


@alternative("04.5")
def other_who_moves(f, x):
    table = torch.zeros(len(x), len(x), dtype=torch.bool)
    for j, row in enumerate(x):
        other = torch.cat([x[:j], (row + torch.arange(3, 3 + len(row)))[None], x[j + 1 :]])
        table[:, j] = (f(other) - f(x)).pow(2).amax(-1).sqrt() > 1e-9
    return table


@independent("04.6")
def independent_from_torch(key_padding_mask, attn_mask):
    (batch, length), queries = key_padding_mask.shape, len(attn_mask)
    mask = torch.zeros(batch, 1, queries, length, dtype=torch.bool)
    for b in range(batch):
        for i in range(queries):
            for j in range(length):
                mask[b, 0, i, j] = not key_padding_mask[b, j] and not attn_mask[i, j]
    return mask


@alternative("04.6")
def other_from_torch(padding, pairs):
    return torch.logical_or(padding.unsqueeze(1), pairs).logical_not().unsqueeze(1)


@independent("04.7")
def independent_reach(may_attend, n_layers):
    n = len(may_attend)
    heard = [{i} for i in range(n)]
    for _layer in range(n_layers):
        before = [set(inputs) for inputs in heard]
        for i in range(n):
            for k in range(n):
                if may_attend[i, k]:
                    heard[i] |= before[k]
    return torch.tensor([[j in heard[i] for j in range(n)] for i in range(n)])


@alternative("04.7")
def other_reach(mask, n):
    hop = torch.maximum(mask.long(), torch.eye(len(mask), dtype=torch.long))
    return torch.linalg.matrix_power(hop.double(), n).bool()


@alternative("04.7")
def other_reach_2(mask, n):
    known = mask | torch.eye(len(mask), dtype=torch.bool)
    for _ in range(n - 1):
        known = known | (mask[:, :, None] & known[None]).any(dim=1)
    return known
