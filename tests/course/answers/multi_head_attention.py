"""Lesson 05: independent and alternative answers to its exercises."""

import math

import torch
from torch import nn

from tests.course.answers import alternative, independent
from transformer_course.exercises.pretrained_encoder import Projections


@independent("05.1")
class IndependentHeadsSideBySide(nn.Module):
    def __init__(self, d_model, n_heads, Head):
        super().__init__()
        self.heads = nn.ModuleList()
        for _ in range(n_heads):
            self.heads.append(Head(d_model, d_model // n_heads))
        self.output_projection = nn.Linear(d_model, d_model)

    def forward(self, x):
        batch, length, d_model = x.shape
        joined = torch.zeros(batch, length, d_model)
        weights = torch.zeros(batch, len(self.heads), length, length)
        d_head = d_model // len(self.heads)
        for b in range(batch):
            for i in range(len(self.heads)):
                mixed, shares = self.heads[i](x[b])
                for position in range(length):
                    for feature in range(d_head):
                        joined[b, position, i * d_head + feature] = mixed[position, feature]
                    for key in range(length):
                        weights[b, i, position, key] = shares[position, key]
        return self.output_projection(joined), weights


@alternative("05.1")
class OtherHeadsSideBySide(nn.Module):
    def __init__(self, width, count, kind):
        super().__init__()
        self.output_projection = nn.Linear(width, width)
        self.heads = nn.ModuleList()
        while len(self.heads) < count:
            self.heads.append(kind(width, width // count))

    def forward(self, tokens):
        pairs = [head(tokens) for head in self.heads]
        columns = self.output_projection.weight.chunk(len(self.heads), dim=1)  # each head's own
        parts = [mixed @ each.mT for (mixed, _), each in zip(pairs, columns, strict=True)]
        maps = torch.cat([weights[:, None] for _, weights in pairs], dim=1)
        return sum(parts) + self.output_projection.bias, maps


@independent("05.2")
def independent_split_heads(x, n_heads):
    batch, length, d_model = x.shape
    d_head = d_model // n_heads
    result = torch.zeros(batch, n_heads, length, d_head)
    for b in range(batch):
        for position in range(length):
            for feature in range(d_model):
                result[b, feature // d_head, position, feature % d_head] = x[b, position, feature]
    return result


@alternative("05.2")
def other_split_heads(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


@independent("05.3")
def independent_merge_heads(heads):
    batch, n_heads, length, d_head = heads.shape
    result = torch.zeros(batch, length, n_heads * d_head)
    for b in range(batch):
        for head in range(n_heads):
            for position in range(length):
                for feature in range(d_head):
                    result[b, position, head * d_head + feature] = heads[b, head, position, feature]
    return result


@alternative("05.3")
def other_merge_heads(heads):
    return torch.cat([heads[:, i] for i in range(heads.shape[1])], dim=-1)


@independent("05.4")
class IndependentMultiHeadAttention(Projections):
    def forward(self, query, key=None, value=None, may_attend=None):
        key = query if key is None else key
        value = key if value is None else value
        allowed = torch.tensor(True) if may_attend is None else may_attend
        allowed = allowed.expand(len(query), self.n_heads, query.shape[1], key.shape[1])
        each = [self.one_text(*text) for text in zip(query, key, value, allowed, strict=True)]
        return tuple(torch.stack(results) for results in zip(*each, strict=True))

    def one_text(self, query, key, value, allowed):
        queries, keys = self.query_projection(query), self.key_projection(key)
        values = self.value_projection(value)
        mixed = torch.zeros(query.shape)
        weights = torch.zeros(self.n_heads, len(query), len(key))
        for head in range(self.n_heads):
            features = range(head * self.d_head, (head + 1) * self.d_head)
            for i in range(len(query)):
                seen = [j for j in range(len(key)) if allowed[head, i, j]]
                scores = [sum(queries[i, f] * keys[j, f] for f in features) for j in seen]
                scores = [score / math.sqrt(self.d_head) for score in scores]
                exponentials = [torch.exp(score - max(scores)) for score in scores]
                for j, exponential in zip(seen, exponentials, strict=True):
                    weights[head, i, j] = weight = exponential / sum(exponentials)
                    for f in features:
                        mixed[i, f] += weight * values[j, f]
        return self.output_projection(mixed), weights


@alternative("05.4")
class OtherMultiHeadAttention(Projections):
    def forward(self, q, k=None, v=None, may_attend=None):
        k = q if k is None else k
        v = k if v is None else v
        chunks = [
            projection(x).chunk(self.n_heads, dim=-1)
            for projection, x in [
                (self.query_projection, q),
                (self.key_projection, k),
                (self.value_projection, v),
            ]
        ]
        hidden = torch.zeros(len(q), self.n_heads, q.shape[1], k.shape[1])
        if may_attend is not None:
            hidden = hidden.masked_fill(~may_attend, -torch.inf)
        outputs, maps = [], []
        for q_head, k_head, v_head, bias in zip(*chunks, hidden.unbind(1), strict=True):
            weights = torch.softmax(torch.bmm(q_head, k_head.mT) * self.d_head**-0.5 + bias, dim=2)
            outputs.append(torch.bmm(weights, v_head))
            maps.append(weights)
        return self.output_projection(torch.cat(outputs, dim=-1)), torch.stack(maps, dim=1)


RIGHT = {
    "query": ("batch query_pos d_model", "asks"),
    "key": ("batch key_pos d_model", "is compared"),
    "value": ("batch key_pos d_model", "is taken"),
    "may_attend": ("batch n_heads query_pos key_pos", "permits"),
    "output": ("batch query_pos d_model", "mixture"),
    "weights": ("batch n_heads query_pos key_pos", "shares"),
}


@independent("05.5")
def independent_interface():
    return RIGHT


@alternative("05.5")
def other_interface():
    return {name: list(entry) for name, entry in reversed(RIGHT.items())}


@independent("05.6")
def independent_parameters(d_model, n_heads):
    def count(*layers):
        return sum(parameter.numel() for layer in layers for parameter in layer.parameters())

    with torch.device("meta"):
        square = nn.Linear(d_model, d_model)
        output = nn.Linear(n_heads * d_model, d_model)
    return count(square, square, square, square), count(*[square] * 3 * n_heads, output)


@alternative("05.6")
def other_parameters(d, h):
    return [4 * d * (d + 1), 4 * h * d**2 + (3 * h + 1) * d]


@independent("05.7")
def independent_contributions(heads, weight):
    batch, n_heads, length, d_head = heads.shape
    result = torch.zeros(batch, n_heads, length, len(weight))
    for b in range(batch):
        for head in range(n_heads):
            for position in range(length):
                for feature in range(d_head):
                    column = weight[:, head * d_head + feature]
                    result[b, head, position] += heads[b, head, position, feature] * column
    return result


@alternative("05.7")
def other_contributions(heads, weight):
    each = []
    for head in range(heads.shape[1]):
        alone = torch.zeros_like(heads)
        alone[:, head] = heads[:, head]  # silence all others
        each.append(alone.transpose(1, 2).flatten(-2) @ weight.T)
    return torch.stack(each, dim=1)
