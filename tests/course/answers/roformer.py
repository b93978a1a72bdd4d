"""Lesson 11: independent and alternative answers to its exercises."""

import math

import torch
from torch import nn

from tests.course.answers import alternative, independent, norm_by_hand
from transformer_course.exercises.roformer import F


@independent("11.1")
def independent_choosing_weight(take, keep):
    d_model = len(take)
    weight = torch.zeros(d_model, 2 * d_model)
    for feature in range(d_model):
        weight[feature, feature] = take[feature]
        weight[feature, d_model + feature] = keep[feature]
    return weight


@alternative("11.1")
def other_choosing_weight(take, keep):
    one = torch.eye(len(take))
    return torch.hstack([one * take, keep[:, None] * one])


class Parts(nn.Module):
    """The parts that every answer is given."""

    def __init__(self, norm, attention, feed_forward, output_projection):
        super().__init__()
        self.norm, self.attention = norm, attention
        self.feed_forward, self.output_projection = feed_forward, output_projection


@independent("11.2")
class IndependentRoFormerBlock(Parts):
    def forward(self, x, may_attend=None):
        calm = torch.stack([torch.stack([norm_by_hand(self.norm, token) for token in text]) for text in x])
        attended, weights = self.attention(calm, may_attend=may_attend)
        result = torch.zeros_like(x)
        weight, bias = self.output_projection.weight, self.output_projection.bias
        for text in range(x.shape[0]):
            for position in range(x.shape[1]):
                beside = torch.stack([*attended[text, position], *x[text, position]])
                for unit in self.feed_forward:
                    update = unit.feed_forward(norm_by_hand(unit.norm, beside))
                    beside = torch.stack([a + b for a, b in zip(beside, update, strict=True)])
                for out in range(x.shape[2]):
                    products = [w * number for w, number in zip(weight[out], beside, strict=True)]
                    result[text, position, out] = sum(products) + bias[out]
        return result, weights


@alternative("11.2")
class OtherRoFormerBlock(Parts):
    def forward(self, stream, **options):
        results = self.attention(query=self.norm(stream), **options)
        wide = torch.stack([results[0], stream], dim=-2).flatten(-2)
        for unit in self.feed_forward:
            wide = unit(wide)
        return [wide @ self.output_projection.weight.mT + self.output_projection.bias, results[1]]


@independent("11.3")
class IndependentTurnedLinear(nn.Linear):
    def __init__(self, d_model, n_heads, rotary):
        super().__init__(d_model, d_model)
        self.n_heads, self.rotary = n_heads, rotary

    def forward(self, x):
        d_head = len(self.bias) // self.n_heads
        result = torch.zeros(x.shape)
        for text in range(x.shape[0]):
            for head in range(self.n_heads):
                first = head * d_head
                features = range(first, first + d_head)
                rows = [
                    torch.stack([(self.weight[f] * token).sum() + self.bias[f] for f in features])
                    for token in x[text]
                ]
                turned = self.rotary(torch.stack(rows))  # one head of one text: (position, d_head)
                result[text, :, first : first + d_head] = turned
        return result


@alternative("11.3")
class OtherTurnedLinear(nn.Linear):
    def __init__(self, d_model, n_heads, rotary):
        super().__init__(d_model, d_model)
        self.heads, self.rotary = n_heads, rotary

    def forward(self, tokens):
        slices = F.linear(tokens, self.weight, self.bias).chunk(self.heads, dim=2)
        return torch.cat([self.rotary(each) for each in slices], dim=2)


@independent("11.4")
def independent_departures(make_block, x):
    texts, length, d_model = x.shape
    two, four = make_block(d_model, 2), make_block(d_model, 4)
    with torch.no_grad():
        output, weights = two(x)
    sizes = [sum(p.numel() for p in block.parameters()) for block in (two, four)]
    own, cosines, variances = [], [], []
    for text in range(texts):
        for i in range(length):
            own += [weights[text, head, i, i].item() for head in range(weights.shape[1])]
            row, entered = output[text, i], x[text, i]
            cosines.append(((row * entered).sum() / row.norm() / entered.norm()).item())
            mean = sum(row) / d_model
            variances.append((sum((number - mean) ** 2 for number in row) / d_model).item())
    return (
        sizes[1] > sizes[0],
        sum(own) / len(own) > 2 / length,
        sum(cosines) / len(cosines) < 0.5,
        any(abs(variance - 1) > 0.01 for variance in variances),
    )


@alternative("11.4")
def other_departures(build, tokens):
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


@independent("11.5")
def independent_to_may_attend(mask):
    texts = [mask] if len(mask.shape) == 2 else list(mask)
    rows, columns = mask.shape[-2:]
    result = torch.zeros(len(texts), 1, rows, columns, dtype=torch.bool)
    for b, text in enumerate(texts):
        for i in range(rows):
            for j in range(columns):
                result[b, 0, i, j] = bool(text[i, j] == 1)
    return result


@alternative("11.5")
def other_to_may_attend(mask):
    return (mask != 0).reshape(-1, 1, mask.shape[-2], mask.shape[-1])


@independent("11.6")
def independent_weight_on_itself(d_model, n_tokens, variance):
    own_score = sum(variance for _ in range(d_model)) / math.sqrt(d_model)
    spread = sum(variance * variance for _ in range(d_model)) / d_model
    grown = [math.exp(own_score)] + [math.exp(spread / 2) for _ in range(n_tokens - 1)]
    return grown[0] / sum(grown)


@alternative("11.6")
def other_weight_on_itself(d, n, v):
    return 1 / (1 + (n - 1) * math.exp(v * v / 2 - v * d**0.5))


@independent("11.7")
def independent_parameters(d_model, n_heads, ffn_layers, expansion):
    def unit(width):
        inner = expansion * width
        return [nn.LayerNorm(width), nn.Linear(width, inner), nn.PReLU(), nn.Linear(inner, width)]

    with torch.device("meta"):
        attention = [nn.Linear(d_model, n_heads * d_model), nn.Linear(n_heads * d_model, d_model)]
        for _ in range(n_heads):
            for _ in ("query", "key", "value"):
                attention += unit(d_model)
        stack = [layer for _ in range(ffn_layers) for layer in unit(2 * d_model)]
        rest = [nn.LayerNorm(d_model), nn.Linear(2 * d_model, d_model)]
    return tuple(
        sum(p.numel() for each in part for p in each.parameters()) for part in (attention, stack, rest)
    )


@alternative("11.7")
def other_parameters(d, h, n, e):
    small, wide = 2 * e * d**2 + (e + 3) * d + 1, 8 * e * d**2 + 2 * (e + 3) * d + 1
    return [h * (3 * small + 2 * d**2 + d) + d, n * wide, 2 * d**2 + 3 * d]
