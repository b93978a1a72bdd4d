"""Lesson 11: independent and alternative answers to its exercises."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.course.answers import alternative, independent, on_meta, parameter_count
from transformer_lab.roformer import ExpandingMultiHeadAttention, feed_forward_stack


@alternative("11.1")
@independent("11.1")
def other_fusion_weight(take, keep):
    one = torch.eye(len(take))
    return torch.hstack([one * take, keep[:, None] * one])


@alternative("11.2")
@independent("11.2")
class OtherRoFormerBlock(nn.Module):
    def __init__(self, norm, attention, feed_forward, output_projection):
        super().__init__()
        self.norm, self.attention = norm, attention
        self.feed_forward, self.output_projection = feed_forward, output_projection

    def forward(self, stream, **options):
        results = self.attention(query=self.norm(stream), **options)
        wide = torch.stack([results[0], stream], dim=-2).flatten(-2)
        for unit in self.feed_forward:
            wide = unit(wide)
        return [wide @ self.output_projection.weight.mT + self.output_projection.bias, results[1]]


@alternative("11.3")
@independent("11.3")
class OtherRotaryLinear(nn.Linear):
    def __init__(self, d_model, n_heads, rotary):
        super().__init__(d_model, d_model)
        self.heads, self.rotary = n_heads, rotary

    def forward(self, tokens):
        slices = F.linear(tokens, self.weight, self.bias).chunk(self.heads, dim=2)
        return torch.cat([self.rotary(each) for each in slices], dim=2)


@alternative("11.4")
@independent("11.4")
def other_find_differences(build, tokens):
    blocks = [build(tokens.shape[-1], heads) for heads in (4, 2)]
    output, weights = blocks[1](tokens)
    more, fewer = (sum(p.numel() for p in block.parameters()) for block in blocks)
    here = torch.eye(tokens.shape[1], dtype=torch.bool)
    unit, other = F.normalize(output, dim=-1), F.normalize(tokens, dim=-1)
    spread = output.std(dim=-1, correction=0)
    return [
        more != fewer,
        (weights[..., here].mean() > 2 * weights[..., ~here].mean()).item(),
        not (unit * other).sum(-1).mean() > 0.4,
        not torch.allclose(spread, torch.ones_like(spread), atol=0.01),
    ]


@alternative("11.5")
@independent("11.5")
def other_to_may_attend(mask):
    return (mask != 0).reshape(-1, 1, mask.shape[-2], mask.shape[-1])


@independent("11.6")
def independent_weight_on_itself(d_model, n_tokens, variance):
    scores = torch.full((n_tokens,), variance**2 / 2)  # of the mean exponential of a normal score
    scores[0] = d_model * variance / math.sqrt(d_model)
    return scores.softmax(0)[0].item()


@alternative("11.6")
def other_weight_on_itself(d, n, v):
    return 1 / (1 + (n - 1) * math.exp(v * v / 2 - v * d**0.5))


@independent("11.7")
@on_meta
def independent_parameters(d_model, n_heads, ffn_layers, expansion):
    attention = ExpandingMultiHeadAttention(d_model, n_heads, expansion=expansion)
    stack = feed_forward_stack(2 * d_model, ffn_layers, expansion, dropout=0.0)
    rest = nn.LayerNorm(d_model), nn.Linear(2 * d_model, d_model)
    return parameter_count(attention), parameter_count(stack), parameter_count(*rest)


@alternative("11.7")
def other_parameters(d, h, n, e):
    small, wide = 2 * e * d**2 + (e + 3) * d + 1, 8 * e * d**2 + 2 * (e + 3) * d + 1
    return [h * (3 * small + 2 * d**2 + d) + d, n * wide, 2 * d**2 + 3 * d]
