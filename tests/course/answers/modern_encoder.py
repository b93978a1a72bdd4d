"""Lesson 12: independent and alternative answers to its exercises."""

import math

import torch
from torch import nn

from tests.course.answers import alternative, independent
from transformer_course.exercises.modern_encoder import (
    F,
    GeGLU,
    ModernAttention,
    PreNormEncoderLayer,
    modern_layer,
    turned,
)
from transformer_lab import RotaryEmbedding


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
        batch, length, d_model = x.shape
        d_head = d_model // self.n_heads
        allowed = torch.ones(batch, 1, length, length, dtype=torch.bool)
        allowed = allowed if may_attend is None else allowed & may_attend
        output, weights = (
            torch.zeros(batch, length, d_model),
            torch.zeros(batch, self.n_heads, length, length),
        )
        for b in range(batch):
            query, key, value = (x[b] @ matrix.mT for matrix in self.Wqkv.weight.split(d_model))
            for h in range(self.n_heads):
                own = slice(h * d_head, (h + 1) * d_head)
                asked, found = (self.rotary(each[None, None, :, own])[0, 0] for each in (query, key))
                for i in range(length):
                    seen = [j for j in range(length) if self.sees(i, j) and allowed[b, 0, i, j]]
                    scores = [asked[i] @ found[j] / math.sqrt(d_head) for j in seen]
                    grown = [(score - max(scores)).exp() for score in scores]
                    for j, each in zip(seen, grown, strict=True):
                        weights[b, h, i, j] = each / sum(grown)
                output[b, :, own] = weights[b, h].clone() @ value[:, own]
        return output @ self.Wo.weight.mT, weights

    def sees(self, i, j):
        return self.window is None or abs(i - j) <= self.window


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
    attention = IndependentModernAttention(
        d_model, n_heads, RotaryEmbedding(d_model // n_heads, base=base), seen
    )
    first = nn.Identity() if number == 0 else nn.LayerNorm(d_model, bias=False)
    last = nn.LayerNorm(d_model, bias=False)
    return PreNormEncoderLayer(attention, IndependentGeGLU(d_model, d_ff), first, last)


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
        rows = [torch.stack([self.embedding.weight[token] for token in text]) for text in token_ids]
        streams = [self.embedding_norm(torch.stack(rows))]
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


@independent("12.4")
def independent_packed(model, token_ids, may_attend):
    batch, length = token_ids.shape
    places = [(b, i) for b in range(batch) for i in range(length) if may_attend[b, 0, 0, i]]
    mask = torch.zeros(1, 1, len(places), len(places), dtype=torch.bool)
    for i, (text, _) in enumerate(places):
        for j, (other, _) in enumerate(places):
            mask[0, 0, i, j] = text == other
    hidden = model(torch.stack([token_ids[place] for place in places])[None], mask)
    output = torch.zeros(batch, length, hidden.shape[-1])
    for place, vector in zip(places, hidden[0], strict=True):
        output[place] = vector
    return output


@alternative("12.4")
def other_packed(model, token_ids, may_attend):
    lengths = may_attend.sum(dim=-1).flatten().tolist()
    blocks = torch.block_diag(*[torch.ones(length, length) for length in lengths]).bool()
    row = torch.cat([ids[own[0, 0]] for ids, own in zip(token_ids, may_attend, strict=True)])
    hidden = model(row[None], may_attend=blocks[None, None])
    real = may_attend[:, 0, 0, :, None]
    return torch.zeros(*token_ids.shape, hidden.shape[-1]).masked_scatter(real, hidden)


@independent("12.5")
class IndependentGeGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.Wi, self.Wo = nn.Linear(d_model, 2 * d_ff, bias=False), nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        d_ff, rows = len(self.Wi.weight) // 2, []
        for token in x.reshape(-1, x.shape[-1]):
            answers = [
                sum(w * number for w, number in zip(row, token, strict=True)) for row in self.Wi.weight
            ]
            bent = [z * (1 + torch.erf(z / math.sqrt(2))) / 2 for z in answers[:d_ff]]
            hidden = [one * other for one, other in zip(bent, answers[d_ff:], strict=True)]
            row = [sum(w * number for w, number in zip(row, hidden, strict=True)) for row in self.Wo.weight]
            rows.append(torch.stack(row))
        return torch.stack(rows).reshape(x.shape)


@alternative("12.5")
class OtherGeGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.d_ff, self.bend = d_ff, nn.GELU()
        self.Wi, self.Wo = nn.Linear(d_model, d_ff + d_ff, False), nn.Linear(d_ff, d_model, False)

    def forward(self, x):
        first, second = self.Wi.weight[: self.d_ff], self.Wi.weight[self.d_ff :]
        return self.Wo(self.bend(x @ first.mT) * (x @ second.mT))


@independent("12.6")
def independent_near(length, window=None):
    rows = [[window is None or -window <= i - j <= window for j in range(length)] for i in range(length)]
    return torch.tensor(rows)[None, None]


@alternative("12.6")
def other_near(length, window=None):
    everything = torch.ones(1, 1, length, length, dtype=torch.bool)
    return everything if window is None else everything.tril(window).triu(-window)


@independent("12.7")
def independent_rms_norm(x, weight, eps):
    rows = []
    for row in x.reshape(-1, x.shape[-1]):
        square = sum(feature**2 for feature in row) / len(row)
        rows.append(
            torch.stack([each / (square + eps) ** 0.5 * w for each, w in zip(row, weight, strict=True)])
        )
    return torch.stack(rows).reshape(x.shape)


@alternative("12.7")
def other_rms_norm(x, weight, eps):
    return torch.einsum("...d,...,d->...d", x, torch.rsqrt((x * x).sum(-1) / x.shape[-1] + eps), weight)


@independent("12.8")
def independent_cache_bytes(n_layers, d_model, n_heads, n_kv_heads, n_tokens, n_texts, bytes_per_number):
    total = 0
    for _text in range(n_texts):
        for _token in range(n_tokens):
            for _layer in range(n_layers):
                for _kind in ("key", "value"):
                    total += n_kv_heads * (d_model // n_heads) * bytes_per_number
    return total


@alternative("12.8")
def other_cache_bytes(layers, width, heads, groups, tokens, texts, size):
    return math.prod((layers, groups, width // heads, tokens, texts, 2 * size))


@independent("12.9")
def independent_share(heads, n_heads):
    batch, n_kv_heads, length, d_head = heads.shape
    result = torch.zeros(batch, n_heads, length, d_head)
    for head in range(n_heads):
        result[:, head] = heads[:, head // (n_heads // n_kv_heads)]
    return result


@alternative("12.9")
def other_share(heads, n_heads):
    times = n_heads // heads.shape[1]
    return heads[:, :, None].expand(-1, -1, times, -1, -1).flatten(1, 2)


@independent("12.10")
def independent_step(query, key, value, old_keys, old_values, turn):
    batch, n_heads, new, d_head = query.shape
    old = old_keys.shape[2]
    keys, values, output = (torch.zeros(batch, n_heads, n, d_head) for n in (old + new, old + new, new))
    for b in range(batch):
        for h in range(n_heads):
            new_keys = torch.stack([turned(key[b, h, i], old + i) for i in range(new)])
            keys[b, h] = torch.cat([old_keys[b, h], new_keys])
            values[b, h] = torch.cat([old_values[b, h], value[b, h]])
            for i in range(new):
                asking = turned(query[b, h, i], old + i)
                scores = [asking @ seen / math.sqrt(d_head) for seen in keys[b, h, : old + i + 1].clone()]
                grown = [(score - max(scores)).exp() for score in scores]
                for each, seen in zip(grown, values[b, h, : old + i + 1].clone(), strict=True):
                    output[b, h, i] += each / sum(grown) * seen
    return output, keys, values


@alternative("12.10")
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
def independent_layer_parameters(d_model, n_heads, n_kv_heads, d_ff):
    def numbers(*maps):
        return sum(nn.Linear(*sizes, bias=False).weight.numel() for sizes in maps)

    with torch.device("meta"):
        keys = n_kv_heads * (d_model // n_heads)
        attention = numbers((d_model, d_model), (d_model, keys), (d_model, keys), (d_model, d_model))
        feed_forward = numbers((d_model, d_ff), (d_model, d_ff), (d_ff, d_model))
        norms = sum(nn.RMSNorm(d_model).weight.numel() for _ in range(2))
    return attention, feed_forward, norms


@alternative("12.11")
def other_layer_parameters(d, h, kv, f):
    return [2 * d * d * (h + kv) // h, f * d * 3, d + d]


class Adapter(nn.Module):
    """The parts that every answer has: the frozen map, a random A and a B of zeros."""

    def __init__(self, linear, rank, alpha):
        super().__init__()
        self.linear, self.rank, self.alpha = linear, rank, alpha
        self.freeze()
        self.down = nn.Parameter(torch.randn(rank, linear.in_features))
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))

    def freeze(self):
        self.linear.requires_grad_(False)


@independent("12.12")
class IndependentLowRankLinear(Adapter):
    def forward(self, x):
        rows = []
        for token in x.reshape(-1, x.shape[-1]):
            small = [sum(a * feature for a, feature in zip(row, token, strict=True)) for row in self.down]
            row = []
            for i, weights in enumerate(self.linear.weight):
                number = sum(w * feature for w, feature in zip(weights, token, strict=True))
                number = number + (0 if self.linear.bias is None else self.linear.bias[i])
                update = sum(b * each for b, each in zip(self.up[i], small, strict=True))
                row.append(number + update * self.alpha / self.rank)
            rows.append(torch.stack(row))
        return torch.stack(rows).reshape(*x.shape[:-1], -1)


@alternative("12.12")
class OtherLowRankLinear(Adapter):
    def freeze(self):
        for parameter in self.linear.parameters():
            parameter.requires_grad = False

    def forward(self, x):
        weight = self.linear.weight + self.alpha * (self.up @ self.down) / self.rank
        return F.linear(x, weight, self.linear.bias)


@independent("12.13")
def independent_fewer_heads(weight, n_heads, n_kv_heads):
    d_head, group = len(weight) // n_heads, n_heads // n_kv_heads
    result = torch.zeros(n_kv_heads * d_head, weight.shape[1])
    for head in range(n_heads):
        for feature in range(d_head):
            result[head // group * d_head + feature] += weight[head * d_head + feature] / group
    return result


@alternative("12.13")
def other_fewer_heads(weight, n_heads, n_kv_heads):
    heads = weight.chunk(n_heads)
    size = n_heads // n_kv_heads
    return torch.cat([sum(heads[i : i + size]) / size for i in range(0, n_heads, size)])
