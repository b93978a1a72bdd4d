"""Lesson 03: independent and alternative answers to its exercises."""

import math

import torch
from torch import nn

from tests.course.answers import alternative, independent


@independent("03.1")
def independent_scaled_scores(query, key):
    d_head = query.shape[1]
    result = torch.zeros(len(query), len(key))
    for i in range(len(query)):
        for j in range(len(key)):
            for feature in range(d_head):
                result[i, j] += query[i, feature] * key[j, feature] / math.sqrt(d_head)
    return result


@alternative("03.1")
def other_scaled_scores(query, key):
    return torch.einsum("id,jd->ij", query * query.size(-1) ** -0.5, key)


@independent("03.2")
def independent_attention(query, key, value):
    if query.ndim > 2:
        each = [independent_attention(*one) for one in zip(query, key, value, strict=True)]
        return tuple(torch.stack(results) for results in zip(*each, strict=True))
    output, weights = torch.zeros(len(query), value.shape[1]), torch.zeros(len(query), len(key))
    for i in range(len(query)):
        exponentials = [torch.exp(sum(query[i] * key_j) / math.sqrt(len(key_j))) for key_j in key]
        for j in range(len(key)):
            weights[i, j] = weight = exponentials[j] / sum(exponentials)
            for feature in range(value.shape[1]):
                output[i, feature] += weight * value[j, feature]
    return output, weights


@alternative("03.2")
def other_attention(q, k, v):
    exponentials = torch.einsum("...id,...jd->...ij", q * q.size(-1) ** -0.5, k).exp()
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return [torch.einsum("...ij,...jd->...id", weights, v), weights]


@independent("03.3")
def independent_softmax(scores):
    if scores.ndim > 1:
        return torch.stack([independent_softmax(row) for row in scores])
    weights = []
    for score in scores:
        # 1 / Σ exp(other − score): beyond 700 the exponential overflows, and the weight is 0 either way
        weights.append(1 / sum(torch.exp((other - score).clamp(max=700)) for other in scores))
    return torch.stack(weights)


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
        return independent_attention(
            self.query_projection(x), self.key_projection(x), self.value_projection(x)
        )


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
    if weights.ndim > 1:
        return torch.stack([independent_effective_tokens(row) for row in weights])
    entropy = torch.tensor(0.0)
    for weight in weights:
        if weight > 0:
            entropy = entropy - weight * torch.log(weight)
    return torch.exp(entropy)


@alternative("03.6")
def other_effective_tokens(weights):
    return 2 ** torch.where(weights > 0, -weights * torch.log2(weights), 0.0).sum(-1)


@alternative("03.6")
def other_effective_tokens_2(weights):
    return torch.exp(-(weights * torch.log(weights + 1e-9)).sum(-1))


@independent("03.7")
def independent_attention_flops(n_query, n_key, d_head, d_value):
    operations = 0
    for _query in range(n_query):
        for _key in range(n_key):
            for _feature in range(d_head):
                operations += 2  # score += query · key
            for _feature in range(d_value):
                operations += 2  # output += weight · value
    return operations


@alternative("03.7")
def other_attention_flops(n_query, n_key, d_head, d_value):
    return (d_head + d_value) * n_key * n_query << 1


@independent("03.8")
def independent_streaming_attention(query, pairs):
    scores, values = [], []
    for key, value in pairs:
        scores.append(sum(q * k for q, k in zip(query.tolist(), key.tolist(), strict=True)) / len(key) ** 0.5)
        values.append(value.tolist())
    weights = [math.exp(score - max(scores)) for score in scores]
    output = [0.0] * len(values[0])
    for weight, value in zip(weights, values, strict=True):
        for feature in range(len(output)):
            output[feature] += weight / sum(weights) * value[feature]
    return torch.tensor(output)


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
def other_streaming_attention_2(query, pairs):
    log_total, output = -math.inf, 0  # output is the average so far, log_total the logarithm of its weight
    for key, value in pairs:
        score = float(query @ key) / len(query) ** 0.5
        higher, lower = max(log_total, score), min(log_total, score)
        log_total = higher + math.log1p(math.exp(lower - higher))
        output = output + math.exp(score - log_total) * (value - output)
    return output
