"""Lesson 07: independent and alternative answers to its exercises."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.course.answers import alternative, independent, on_meta, parameter_count
from transformer_lab import FeedForward, MultiHeadAttention, encoder_layer


@independent("07.1")
def independent_layer_norm(x, weight, bias, eps):
    return F.layer_norm(x, weight.shape, weight, bias, eps)


@alternative("07.1")
def other_layer_norm(x, weight, bias, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(bias, weight, (x - mean) * torch.rsqrt(variance + eps))


independent("07.2")(nn.LayerNorm)


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


independent("07.3")(encoder_layer.EncoderLayer)


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


independent("07.4")(encoder_layer.PreNormEncoderLayer)


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
        return x
    pairs = zip(x.flatten().tolist(), draw.flatten().tolist(), strict=True)
    return torch.tensor([0.0 if drawn < p else number / (1 - p) for number, drawn in pairs]).view(x.shape)


@alternative("07.5")
def other_dropout(x, p, draw, training):
    kept = (draw >= p).to(x.dtype)
    return x * kept / (1 - p) if training else 1 * x


@independent("07.6")
@on_meta
def independent_parameters(d_model, n_heads, d_ff):
    norms = [nn.LayerNorm(d_model) for _ in range(2)]
    parts = [MultiHeadAttention(d_model, n_heads)], [FeedForward(d_model, d_ff)], norms
    return tuple(parameter_count(*part) for part in parts)


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
