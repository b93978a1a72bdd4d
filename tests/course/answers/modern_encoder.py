"""Lesson 12: independent and alternative answers to its exercises."""

import math

import torch
from torch import nn

from tests.course.answers import alternative, independent, on_meta, parameter_count, torch_attention
from transformer_course.exercises.modern_encoder import (
    F,
    GeGLU,
    ModernAttention,
    PreNormEncoderLayer,
    modern_layer,
)
from transformer_lab import RotaryEmbedding, local_mask
from transformer_lab.feed_forward import GatedFeedForward
from transformer_lab.modern_encoder import GroupedQueryAttention, RMSNorm, cache_bytes_per_token


class Projected(nn.Module):
    """What every answer has: the number of heads, what turns, the window, and two maps."""

    def __init__(self, d_model, n_heads, rotary, window=None):
        super().__init__()
        self.n_heads, self.rotary, self.window = n_heads, rotary, window
        self.Wqkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.Wo = nn.Linear(d_model, d_model, bias=False)


@independent("12.1")
class IndependentModernAttention(Projected):
    def forward(self, x, may_attend=None):
        heads = (matrix.unflatten(0, (self.n_heads, -1)) for matrix in self.Wqkv.weight.chunk(3))
        query, key, value = (torch.einsum("bpi,hoi->bhpo", x, each) for each in heads)
        allowed = local_mask(x.shape[1], x.shape[1] if self.window is None else self.window)
        allowed = allowed if may_attend is None else allowed & may_attend
        output, weights = torch_attention(self.rotary(query), self.rotary(key), value, allowed)
        return torch.einsum("bhpd,ohd->bpo", output, self.Wo.weight.unflatten(1, (self.n_heads, -1))), weights


@alternative("12.1")
class OtherModernAttention(Projected):
    def forward(self, x, may_attend=None):
        batch, length, width = x.shape
        q, k, v = self.Wqkv(x).view(batch, length, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        place = torch.arange(length)
        hidden = torch.zeros(length, length, dtype=torch.bool)
        if self.window is not None:
            hidden = (place - place[:, None]).abs() > self.window
        if may_attend is not None:
            hidden = hidden | ~may_attend
        scores = self.rotary(q) @ self.rotary(k).mT / (width // self.n_heads) ** 0.5
        weights = scores.masked_fill(hidden, -math.inf).softmax(-1).nan_to_num(0.0)
        return self.Wo((weights @ v).permute(0, 2, 1, 3).reshape(batch, length, width)), weights


@independent("12.2")
def independent_modern_layer(number, d_model, n_heads, d_ff, window):
    base, seen = (160_000.0, None) if number in range(0, 99, 3) else (10_000.0, window)
    rotary = RotaryEmbedding(d_model // n_heads, base=base)
    attention = IndependentModernAttention(d_model, n_heads, rotary, seen)
    first = nn.Identity() if number == 0 else nn.LayerNorm(d_model, bias=False)
    last = nn.LayerNorm(d_model, bias=False)
    return PreNormEncoderLayer(attention, OtherGeGLU(d_model, d_ff), first, last)


@alternative("12.2")
def other_modern_layer(n, d, h, f, w):
    attention = ModernAttention(d, h, RotaryEmbedding(d // h, base=[160_000.0, 1e4, 1e4][n % 3]))
    if n % 3:
        attention.window = w
    norms = [nn.LayerNorm((d,), 1e-5, bias=False) for _ in range(2)]
    layer = PreNormEncoderLayer(attention, GeGLU(d, f), *norms)
    if n == 0:
        layer.attention_norm = nn.Identity()
    return layer


@independent("12.3")
class IndependentModernBert(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, window):
        super().__init__()
        sizes = (d_model, n_heads, d_ff, window)
        self.embedding, self.layers = nn.Embedding(vocab_size, d_model), nn.ModuleList()
        self.embedding_norm = nn.LayerNorm(d_model, bias=False)
        for number in range(n_layers):
            self.layers.append(independent_modern_layer(number, *sizes))
        self.final_norm = nn.LayerNorm(d_model, bias=False)

    def forward(self, token_ids, may_attend=None):
        streams = [self.embedding_norm(self.embedding.weight[token_ids])]
        for layer in self.layers:
            stream, _ = layer(streams[-1], may_attend=may_attend)
            streams.append(stream)
        return self.final_norm(streams[-1])


@alternative("12.3")
class OtherModernBert(nn.Module):
    def __init__(self, v, d, h, f, n, w):
        super().__init__()
        self.embedding, self.layers = nn.Embedding(v, d), nn.ModuleList()
        while len(self.layers) < n:
            self.layers.append(modern_layer(len(self.layers), d, h, f, w))
        self.embedding_norm, self.final_norm = (nn.LayerNorm(d, bias=False) for _ in range(2))

    def forward(self, ids, may_attend=None):
        x = self.embedding_norm(F.embedding(ids, self.embedding.weight))
        for each in self.layers:
            x = each(x, may_attend=may_attend)[0]
        return self.final_norm(x)


@alternative("12.4")
@independent("12.4")
def other_packed(model, token_ids, may_attend):
    lengths = may_attend.sum(dim=-1).flatten().tolist()
    blocks = torch.block_diag(*[torch.ones(length, length) for length in lengths]).bool()
    row = torch.cat([ids[own[0, 0]] for ids, own in zip(token_ids, may_attend, strict=True)])
    hidden = model(row[None], may_attend=blocks[None, None])
    real = may_attend[:, 0, 0, :, None]
    return torch.zeros(*token_ids.shape, hidden.shape[-1]).masked_scatter(real, hidden)


@alternative("12.5")
@independent("12.5")
class OtherGeGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.d_ff, self.bend = d_ff, nn.GELU()
        self.Wi, self.Wo = nn.Linear(d_model, d_ff + d_ff, False), nn.Linear(d_ff, d_model, False)

    def forward(self, x):
        first, second = self.Wi.weight[: self.d_ff], self.Wi.weight[self.d_ff :]
        return self.Wo(self.bend(x @ first.mT) * (x @ second.mT))


@alternative("12.6")
@independent("12.6")
def other_near(length, window=None):
    everything = torch.ones(1, 1, length, length, dtype=torch.bool)
    return everything if window is None else everything.tril(window).triu(-window)


@independent("12.7")
def independent_rms_norm(x, weight, eps):
    return F.rms_norm(x, weight.shape, weight, eps)


@alternative("12.7")
def other_rms_norm(x, weight, eps):
    return torch.einsum("...d,...,d->...d", x, torch.rsqrt((x * x).sum(-1) / x.shape[-1] + eps), weight)


@independent("12.8")
def independent_cache_bytes(n_layers, d_model, n_heads, n_kv_heads, n_tokens, n_texts, bytes_per_number):
    token = cache_bytes_per_token(n_layers, n_kv_heads, d_model // n_heads, bytes_per_number)
    return token * n_tokens * n_texts


@alternative("12.8")
def other_cache_bytes(layers, width, heads, groups, tokens, texts, size):
    return math.prod((layers, groups, width // heads, tokens, texts, 2 * size))


@alternative("12.9")
@independent("12.9")
def other_share(heads, n_heads):
    times = n_heads // heads.shape[1]
    return heads[:, :, None].expand(-1, -1, times, -1, -1).flatten(1, 2)


@alternative("12.10")
@independent("12.10")
def other_step(query, key, value, old_keys, old_values, turn):
    keys, values, outputs = old_keys, old_values, []
    for i in range(query.shape[2]):  # one new token after the other: then no mask is needed
        position = keys.shape[2]
        keys = torch.cat((keys, turn(key[:, :, i : i + 1], offset=position)), 2)
        values = torch.cat((values, value[:, :, i : i + 1]), 2)
        asking = turn(query[:, :, i : i + 1], offset=position)
        outputs.append(F.scaled_dot_product_attention(asking, keys, values))
    return torch.cat(outputs, 2), keys, values


@independent("12.11")
@on_meta
def independent_layer_parameters(d_model, n_heads, n_kv_heads, d_ff):
    attention = [GroupedQueryAttention(d_model, n_heads, n_kv_heads)]
    parts = attention, [GatedFeedForward(d_model, d_ff)], [RMSNorm(d_model), RMSNorm(d_model)]
    return tuple(parameter_count(*part) for part in parts)


@alternative("12.11")
def other_layer_parameters(d, h, kv, f):
    return [2 * d * d * (h + kv) // h, f * d * 3, d + d]


@alternative("12.12")
@independent("12.12")
class OtherLowRankLinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        self.linear, self.rank, self.alpha = linear, rank, alpha
        for parameter in self.linear.parameters():
            parameter.requires_grad = False
        self.down = nn.Parameter(torch.randn(rank, linear.in_features))
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        weight = self.linear.weight + self.alpha * (self.up @ self.down) / self.rank
        return F.linear(x, weight, self.linear.bias)


@alternative("12.13")
@independent("12.13")
def other_fewer_heads(weight, n_heads, n_kv_heads):
    heads = weight.chunk(n_heads)
    size = n_heads // n_kv_heads
    return torch.cat([sum(heads[i : i + size]) / size for i in range(0, n_heads, size)])
