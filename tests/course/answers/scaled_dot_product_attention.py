"""Lesson 03: independent and alternative answers to its exercises."""

import math

import torch
from torch import nn

from tests.course.answers import alternative, independent, measured_flops, torch_attention
from transformer_lab.scaled_dot_product_attention import scaled_dot_product_attention


@alternative("03.1")
@independent("03.1")
def other_scaled_scores(query, key):
    return torch.einsum("id,jd->ij", query * query.size(-1) ** -0.5, key)


independent("03.2")(torch_attention)


@alternative("03.2")
def other_attention(q, k, v):
    exponentials = torch.einsum("...id,...jd->...ij", q * q.size(-1) ** -0.5, k).exp()
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return [torch.einsum("...ij,...jd->...id", weights, v), weights]


independent("03.3")(nn.Softmax(dim=-1))


@alternative("03.3")
def other_softmax(scores):
    return torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))


@independent("03.4")
class IndependentSelfAttention(nn.Module):
    def __init__(self, d_model, d_head):
        super().__init__()
        for name in ("query", "key", "value"):
            self.add_module(f"{name}_projection", nn.Linear(d_model, d_head))

    def forward(self, x):
        return torch_attention(self.query_projection(x), self.key_projection(x), self.value_projection(x))


@alternative("03.4")
class OtherSelfAttention(nn.Module):
    def __init__(self, d_model, d_head):
        super().__init__()
        self.query_projection, self.key_projection, self.value_projection = (
            nn.Linear(d_model, d_head) for _ in range(3)
        )

    def forward(self, tokens):
        q, k, v = (each(tokens) for each in self.children())
        weights = torch.einsum("...id,...jd->...ij", q * q.size(-1) ** -0.5, k).softmax(-1)
        return weights @ v, weights


@independent("03.5")
def independent_draw_map(weights, tokens):
    from matplotlib import pyplot as plt

    plt.imshow(weights, vmin=0, vmax=1)
    plt.xticks(range(len(tokens)), tokens)
    plt.yticks(range(len(tokens)), tokens)


@alternative("03.5")
def other_draw_map(weights, tokens):
    from matplotlib import pyplot as plt

    _, ax = plt.subplots()
    ax.pcolormesh(weights, vmin=0.0, vmax=1.0)
    places = [place + 0.5 for place in range(len(tokens))]
    ax.set_xticks(places, tokens, rotation=90)
    ax.set_yticks(places, tokens)
    ax.invert_yaxis()
    return ax


@independent("03.6")
def independent_effective_tokens(weights):
    return torch.distributions.Categorical(probs=weights).perplexity()


@alternative("03.6")
def other_effective_tokens(weights):
    return 2 ** torch.where(weights > 0, -weights * torch.log2(weights), 0.0).sum(-1)


@alternative("03.6")
def other_effective_tokens_2(weights):
    return torch.exp(-(weights * torch.log(weights + 1e-9)).sum(-1))


@independent("03.7")
def independent_attention_flops(n_query, n_key, d_head, d_value):
    def run():
        query, key, value = torch.ones(n_query, d_head), torch.ones(n_key, d_head), torch.ones(n_key, d_value)
        scaled_dot_product_attention(query, key, value)

    return measured_flops(run)


@alternative("03.7")
def other_attention_flops(n_query, n_key, d_head, d_value):
    return (d_head + d_value) * n_key * n_query << 1


@alternative("03.8")
def other_streaming_attention(query, pairs):
    key, value = next(pairs)
    largest, total, output = query @ key / math.sqrt(len(query)), torch.tensor(1.0), value.clone()
    for key, value in pairs:
        score = query @ key / math.sqrt(len(query))
        if score > largest:
            total *= torch.exp(largest - score)
            output *= torch.exp(largest - score)
            largest = score
        total += torch.exp(score - largest)
        output += torch.exp(score - largest) * value
    return output / total


@alternative("03.8")
@independent("03.8")
def other_streaming_attention_2(query, pairs):
    log_total, output = -math.inf, 0  # output is the average so far, log_total the logarithm of its weight
    for key, value in pairs:
        score = float(query @ key) / len(query) ** 0.5
        higher, lower = max(log_total, score), min(log_total, score)
        log_total = higher + math.log1p(math.exp(lower - higher))
        output = output + math.exp(score - log_total) * (value - output)
    return output
