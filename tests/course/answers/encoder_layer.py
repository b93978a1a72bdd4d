"""Lesson 07: independent and alternative answers to its exercises."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.course.answers import alternative, independent, norm_by_hand


@independent("07.1")
def independent_layer_norm(x, weight, bias, eps):
    result = torch.zeros(x.shape)
    for b, text in enumerate(x):
        for position, features in enumerate(text):
            mean = sum(features) / len(features)
            variance = sum((number - mean) ** 2 for number in features) / len(features)
            for i, number in enumerate(features):
                normalised = (number - mean) / torch.sqrt(variance + eps)
                result[b, position, i] = normalised * weight[i] + bias[i]
    return result


@alternative("07.1")
def other_layer_norm(x, weight, bias, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(bias, weight, (x - mean) * torch.rsqrt(variance + eps))


@independent("07.2")
class IndependentLayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        return torch.stack([torch.stack([norm_by_hand(self, token) for token in text]) for text in x])


class Registered(nn.Module):
    """Another right answer, which needs no function."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.register_parameter("bias", nn.Parameter(torch.zeros(d_model)))
        self.register_parameter("weight", nn.Parameter(torch.full((d_model,), 1.0)))
        self.eps = eps

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, unbiased=False, keepdim=True)
        return torch.addcmul(self.bias, self.weight, (x - mean) * (variance + self.eps).rsqrt())


alternative("07.2")(Registered)


class Parts(nn.Module):
    """The parts that every answer is given."""

    def __init__(self, attention, feed_forward, attention_norm, feed_forward_norm):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.attention_norm, self.feed_forward_norm = attention_norm, feed_forward_norm


@independent("07.3")
class IndependentEncoderLayer(Parts):
    def forward(self, x, may_attend=None):
        attended, weights = self.attention(x, may_attend=may_attend)
        result = torch.zeros_like(x)
        for text in range(x.shape[0]):
            for position in range(x.shape[1]):
                token = x[text, position]
                middle = norm_by_hand(
                    self.attention_norm, [a + b for a, b in zip(token, attended[text, position], strict=True)]
                )
                update = self.feed_forward(middle)
                summed = [a + b for a, b in zip(middle, update, strict=True)]
                result[text, position] = norm_by_hand(self.feed_forward_norm, summed)
        return result, weights


@alternative("07.3")
class OtherEncoderLayer(Parts):
    def forward(self, stream, **how_to_attend):
        result = self.attention(stream, stream, stream, **how_to_attend)
        update = F.layer_norm(
            torch.stack([stream, result[0]]).sum(dim=0),
            stream.shape[-1:],
            self.attention_norm.weight,
            self.attention_norm.bias,
            self.attention_norm.eps,
        )
        return [self.feed_forward_norm(self.feed_forward(update).add(update)), result[1]]


@independent("07.4")
class IndependentPreNormEncoderLayer(Parts):
    def forward(self, x, may_attend=None):
        ready = torch.zeros_like(x)
        for text in range(x.shape[0]):
            for position in range(x.shape[1]):
                ready[text, position] = norm_by_hand(self.attention_norm, list(x[text, position]))
        attended, weights = self.attention(ready, may_attend=may_attend)
        result = torch.zeros_like(x)
        for text in range(x.shape[0]):
            for position in range(x.shape[1]):
                middle = [a + b for a, b in zip(x[text, position], attended[text, position], strict=True)]
                update = self.feed_forward(norm_by_hand(self.feed_forward_norm, middle))
                result[text, position] = torch.stack(middle) + update
        return result, weights


@alternative("07.4")
class OtherPreNormEncoderLayer(Parts):
    def forward(self, stream, may_attend=None):
        ready = self.attention_norm(stream)
        update, weights = self.attention(ready, ready, ready, may_attend=may_attend)
        road = [stream, update]
        road.append(self.feed_forward(self.feed_forward_norm(sum(road))))
        return torch.stack(road).sum(dim=0), weights


@independent("07.5")
def independent_dropout(x, p, draw, training):
    if not training:
        return x.clone()
    result = torch.zeros(x.shape)
    for b in range(x.shape[0]):
        for position in range(x.shape[1]):
            for i in range(x.shape[2]):
                if not draw[b, position, i] < p:
                    result[b, position, i] = x[b, position, i] / (1 - p)
    return result


@alternative("07.5")
def other_dropout(x, p, draw, training):
    kept = (draw >= p).to(x.dtype)
    return x * kept / (1 - p) if training else 1 * x


@independent("07.6")
def independent_parameters(d_model, n_heads, d_ff):
    with torch.device("meta"):
        square, up, down = (
            nn.Linear(*sizes) for sizes in [(d_model, d_model), (d_model, d_ff), (d_ff, d_model)]
        )
        norm = nn.LayerNorm(d_model)
    parts = [square] * 4, [up, down], [norm] * 2
    return tuple(sum(p.numel() for each in part for p in each.parameters()) for part in parts)


@alternative("07.6")
def other_parameters(d, h, f):
    return [4 * d * (d + 1), 2 * d * f + d + f, 4 * d]


@independent("07.7")
def independent_diagnosis():
    return {
        "Anna": "no residual, first half",
        "Ben": "unbiased variance",
        "Chen": "another eps",
        "Dora": "norms elsewhere (pre-norm)",
    }


@alternative("07.7")
def other_diagnosis():
    found = ["norms elsewhere (pre-norm)", "another eps", "unbiased variance"]
    return dict(zip(["Dora", "Chen", "Ben", "Anna"], [*found, "no residual, first half"], strict=True))
