"""Lesson 05: independent and alternative answers to its exercises."""

import torch
from torch import nn

from tests.course.answers import alternative, independent, on_meta, parameter_count
from tests.third_party import to_torch_attention
from transformer_course.exercises.pretrained_encoder import Projections


@independent("05.1")
class IndependentHeadsSideBySide(nn.Module):
    def __init__(self, width, count, kind):
        super().__init__()
        self.output_projection = nn.Linear(width, width)
        self.heads = nn.ModuleList()
        while len(self.heads) < count:
            self.heads.append(kind(width, width // count))

    def forward(self, x):
        (batch, length, _), count = x.shape, len(self.heads)
        joined, weights = torch.zeros(x.shape), torch.zeros(batch, count, length, length)
        for i, head in enumerate(self.heads):
            joined.unflatten(2, (count, -1))[:, :, i], weights[:, i] = head(x)
        return self.output_projection(joined), weights


@alternative("05.1")
class OtherHeadsSideBySide(IndependentHeadsSideBySide):
    def forward(self, tokens):
        pairs = [head(tokens) for head in self.heads]
        columns = self.output_projection.weight.chunk(len(self.heads), dim=1)  # each head's own
        parts = [mixed @ each.mT for (mixed, _), each in zip(pairs, columns, strict=True)]
        maps = torch.cat([weights[:, None] for _, weights in pairs], dim=1)
        return sum(parts) + self.output_projection.bias, maps


@alternative("05.2")
@independent("05.2")
def other_split_heads(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


@alternative("05.3")
@independent("05.3")
def other_merge_heads(heads):
    return torch.cat([heads[:, i] for i in range(heads.shape[1])], dim=-1)


@independent("05.4")
class IndependentMultiHeadAttention(Projections):
    def forward(self, query, key=None, value=None, may_attend=None):
        key = query if key is None else key
        value = key if value is None else value
        theirs = nn.MultiheadAttention(query.shape[-1], self.n_heads, batch_first=True)
        theirs.load_state_dict(to_torch_attention(self.state_dict()))
        hidden = torch.zeros(len(query), self.n_heads, query.shape[1], key.shape[1], dtype=torch.bool)
        if may_attend is not None:
            hidden = hidden | ~may_attend
        return theirs(query, key, value, attn_mask=hidden.flatten(0, 1), average_attn_weights=False)


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
@on_meta
def independent_parameters(d_model, n_heads):
    square, output = nn.Linear(d_model, d_model), nn.Linear(n_heads * d_model, d_model)
    return 4 * parameter_count(square), parameter_count(*[square] * 3 * n_heads, output)


@alternative("05.6")
def other_parameters(d, h):
    return [4 * d * (d + 1), 4 * h * d**2 + (3 * h + 1) * d]


@alternative("05.7")
@independent("05.7")
def other_contributions(heads, weight):
    each = []
    for head in range(heads.shape[1]):
        alone = torch.zeros_like(heads)
        alone[:, head] = heads[:, head]  # silence all others
        each.append(alone.transpose(1, 2).flatten(-2) @ weight.T)
    return torch.stack(each, dim=1)
