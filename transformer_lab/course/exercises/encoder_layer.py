"""Exercises of lesson 07: layer norm, dropout, both orders of the layer, its parameters, reports to read."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from transformer_lab import encoder_layer
from transformer_lab.course.checker import exercise, value_exercise
from transformer_lab.course.checker.parts import norm_by_hand
from transformer_lab.feed_forward import FeedForward
from transformer_lab.multi_head_attention import MultiHeadAttention

# ------------------------------------------------------------------------------------------------------ 07.1


@exercise(
    "07.1",
    "Layer norm by hand",
    hints=[
        """Each token by itself: mean and variance run over the last axis only. `keepdim=True` keeps an axis
        of length 1, so that the result can be subtracted from x.""",
        """The variance divides by the number of features: `x.var(dim=-1, unbiased=False, keepdim=True)`.
        torch's default divides by one less.""",
        """eps stands under the root, beside the variance. At the end multiply by weight and add bias.""",
    ],
    without=["layer_norm"],
)
def layer_norm(x, weight, bias, eps):
    """Bring the features of each token to mean 0 and variance 1; then scale and shift each feature.

    x: (batch, position, d_model)
    weight, bias: (d_model,)
    eps: a number, added to the variance
    returns (batch, position, d_model)
    """
    raise NotImplementedError


@layer_norm.cases
def layer_norm(normal):
    for batch, length, d_model, eps in [(2, 3, 5, 0.1), (3, 5, 7, 0.5), (2, 5, 5, 0.3)]:
        x = 2 * normal(batch, length, d_model) + 1
        x[0, 1] = 3.0  # all features alike: variance 0
        x[1, 0] *= 0.1  # a variance smaller than eps
        yield {"x": x, "weight": normal(d_model), "bias": normal(d_model), "eps": eps}
    token = torch.tensor([[[1.0, 2, 3, 6]]])  # by hand: mean 3, variance 3.5, and the root of 4 is 2
    yield {"x": token, "weight": torch.ones(4), "bias": torch.zeros(4), "eps": 0.5}


@layer_norm.specification
def layer_norm(x, weight, bias, eps):
    result = torch.zeros(x.shape)
    for b, text in enumerate(x):
        for position, features in enumerate(text):
            mean = sum(features) / len(features)
            variance = sum((number - mean) ** 2 for number in features) / len(features)
            for i, number in enumerate(features):
                normalised = (number - mean) / torch.sqrt(variance + eps)
                result[b, position, i] = normalised * weight[i] + bias[i]
    return result


@layer_norm.solution
def layer_norm(x, weight, bias, eps):
    deviation = x - x.mean(dim=-1, keepdim=True)
    variance = (deviation**2).mean(dim=-1, keepdim=True)
    return weight * deviation / (variance + eps).sqrt() + bias


@layer_norm.alternative
def layer_norm(x, weight, bias, eps):
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return torch.addcmul(bias, weight, (x - mean) * torch.rsqrt(variance + eps))


def centred(x):
    """The deviations from each token's mean."""
    return x - x.mean(-1, keepdim=True)


def variance(x, unbiased=False):
    """Of each token's features; divided by one less where unbiased."""
    return x.var(-1, keepdim=True, unbiased=unbiased)


layer_norm.mistake(
    "unbiased variance",
    """You divide by n − 1, which is what `torch.var` and `torch.std` do unless told otherwise. A layer norm
    divides by n: `unbiased=False`. With few features the error is large, with 512 it is .1 %, and trained
    weights still do not fit.""",
    lambda x, w, b, eps: w * centred(x) / (variance(x, True) + eps).sqrt() + b,
)

layer_norm.mistake(
    "eps outside the root",
    """You add eps to the standard deviation. It belongs to the variance, under the root: √(variance + eps).
    Outside, eps itself would have to be its own root to protect as well.""",
    lambda x, w, b, eps: w * centred(x) / (variance(x).sqrt() + eps) + b,
)

layer_norm.mistake(
    "unbiased, and eps outside the root",
    """Both at once: `x.std()` divides by n − 1, and eps stands outside the root. A well-known annotated
    implementation does this. Divide by n (`unbiased=False`), and put eps under the root.""",
    lambda x, w, b, eps: w * centred(x) / (x.std(-1, keepdim=True) + eps) + b,
)

layer_norm.mistake(
    "no eps",
    """You leave eps out. A token whose features are all alike has variance 0, and 0/0 is NaN, which spreads
    to every other token in the next attention. `(variance + eps).sqrt()`.""",
    lambda x, w, b, eps: w * centred(x) / variance(x).sqrt() + b,
)

layer_norm.mistake(
    "unbiased, and no eps",
    """You divide by `x.std()` alone. It divides by n − 1, where a layer norm divides by n, and eps is
    missing: a token whose features are all alike gives 0/0. `(x.var(…, unbiased=False) + eps).sqrt()`.""",
    lambda x, w, b, eps: w * centred(x) / x.std(-1, keepdim=True) + b,
)

layer_norm.mistake(
    "a fixed eps",
    """You use an eps of your own, such as 1e-5, not the one that is handed in. Models differ: PyTorch takes
    1e-5, BERT 1e-12.""",
    lambda x, w, b, eps: w * centred(x) / (variance(x) + 1e-5).sqrt() + b,
    lambda x, w, b, eps: w * centred(x) / (variance(x) + 1e-6).sqrt() + b,
    lambda x, w, b, eps: w * centred(x) / (variance(x) + 1e-12).sqrt() + b,
)

layer_norm.mistake(
    "eps in both places",
    """You add eps under the root and outside it. Once is enough, under the root: √(variance + eps).""",
    lambda x, w, b, eps: w * centred(x) / ((variance(x) + eps).sqrt() + eps) + b,
)

layer_norm.mistake(
    "eps as a floor",
    """You take the larger one of variance and eps. eps is added, always: √(variance + eps). A floor would
    have a kink, and no gradient below it.""",
    lambda x, w, b, eps: w * centred(x) / variance(x).clamp(min=eps).sqrt() + b,
    lambda x, w, b, eps: w * centred(x) / variance(x).sqrt().clamp(min=eps) + b,
)

layer_norm.mistake(
    "the root of eps outside",
    """You add √eps to the standard deviation. A sum of roots is larger than the root of the sum: put eps
    beside the variance, and take one root of both.""",
    lambda x, w, b, eps: w * centred(x) / (variance(x).sqrt() + eps**0.5) + b,
)

layer_norm.mistake(
    "mean distance instead of standard deviation",
    """You divide by the mean of the absolute distances. The standard deviation is the root of their mean
    square; large distances count more in it.""",
    lambda x, w, b, eps: w * centred(x) / (centred(x).abs().mean(-1, keepdim=True) + eps) + b,
    lambda x, w, b, eps: w * centred(x) / centred(x).abs().mean(-1, keepdim=True) + b,
)

layer_norm.mistake(
    "from smallest to largest",
    """You divide by the distance from the smallest feature to the largest. A layer norm subtracts the mean
    and divides by √(variance + eps).""",
    lambda x, w, b, eps: w * (x - x.amin(-1, True)) / (x.amax(-1, True) - x.amin(-1, True) + eps) + b,
    lambda x, w, b, eps: w * centred(x) / (x.amax(-1, True) - x.amin(-1, True) + eps) + b,
)

layer_norm.mistake(
    "a fresh norm of torch's",
    """You build a new `nn.LayerNorm`. It has its own weight 1, bias 0 and eps 1e-5, and knows nothing of
    those that are handed in. Write the five steps out.""",
    lambda x, w, b, eps: nn.LayerNorm(x.shape[-1])(x),
    lambda x, w, b, eps: F.layer_norm(x, x.shape[-1:]),
)

layer_norm.mistake(
    "no root",
    """You divide by the variance. Its root, the standard deviation, has the size of the features; divided by
    the variance they would come out with variance 1/variance. `(variance + eps).sqrt()`.""",
    lambda x, w, b, eps: w * centred(x) / (variance(x) + eps) + b,
)

layer_norm.mistake(
    "the mean is not subtracted",
    """You divide by the standard deviation, but leave the mean in. Subtract it first: x − mean, then
    divide.""",
    lambda x, w, b, eps: w * x / (variance(x) + eps).sqrt() + b,
)

layer_norm.mistake(
    "root mean square",
    """You divide x by the root of its mean square, without subtracting the mean. That is RMSNorm, lesson 12.
    A layer norm takes the mean out first, and divides by the root of the variance.""",
    lambda x, w, b, eps: w * x / ((x**2).mean(-1, keepdim=True) + eps).sqrt() + b,
)

layer_norm.mistake(
    "mean square instead of variance",
    """You subtract the mean in the numerator only. Under the root stands the mean of x² with the mean still
    in it. Square the deviations: `(x - mean) ** 2`.""",
    lambda x, w, b, eps: w * centred(x) / ((x**2).mean(-1, keepdim=True) + eps).sqrt() + b,
)

layer_norm.mistake(
    "sum of squares",
    """You divide by the length of the vector: a sum of squares, where the mean is wanted. Each token would
    come out √d_model times too short.""",
    lambda x, w, b, eps: w * centred(x) / ((centred(x) ** 2).sum(-1, keepdim=True) + eps).sqrt() + b,
    lambda x, w, b, eps: w * F.normalize(centred(x), dim=-1) + b,
)

layer_norm.mistake(
    "over the positions",
    """You normalise over the positions: dim=1, or dim=-2. Each token then hears of all the others, and
    padding changes the result. A layer norm works inside one token: dim=-1.""",
    lambda x, w, b, eps: (
        w * (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, unbiased=False) + eps).sqrt() + b
    ),
    lambda x, w, b, eps: w * F.instance_norm(x.mT, eps=eps).mT + b,
)

layer_norm.mistake(
    "over the batch",
    """You normalise over the batch: dim=0. A text's result would then depend on the texts beside it. A layer
    norm works inside one token: dim=-1.""",
    lambda x, w, b, eps: (
        w * (x - x.mean(0, keepdim=True)) / (x.var(0, keepdim=True, unbiased=False) + eps).sqrt() + b
    ),
)

layer_norm.mistake(
    "over all tokens, as BatchNorm does",
    """You take mean and variance of each feature over batch and positions. That is BatchNorm: a token hears
    of every other one. A layer norm works inside one token, over its features: dim=-1.""",
    lambda x, w, b, eps: F.batch_norm(x.mT, None, None, w, b, training=True, eps=eps).mT,
)

layer_norm.mistake(
    "over the whole text",
    """You take one mean and variance for positions and features together, so tokens of one text change each
    other. Each token has its own: dim=-1 only.""",
    lambda x, w, b, eps: (
        w * (x - x.mean((1, 2), keepdim=True)) / (x.var((1, 2), keepdim=True, unbiased=False) + eps).sqrt()
        + b
    ),
)

layer_norm.mistake(
    "over the whole batch",
    """You take one mean and one variance of everything: `x.mean()` without an axis. Each token has its own:
    `dim=-1, keepdim=True`.""",
    lambda x, w, b, eps: w * (x - x.mean()) / (x.var(unbiased=False) + eps).sqrt() + b,
)

layer_norm.mistake(
    "an axis lost",
    """`mean` and `var` drop the axis that they run over. Then (batch, position) meets (batch, position,
    d_model): an error, or, where the sizes happen to fit, wrong numbers without one. `keepdim=True`.""",
    lambda x, w, b, eps: w * (x - x.mean(-1)) / (x.var(-1, unbiased=False) + eps).sqrt() + b,
    lambda x, w, b, eps: (
        w * (x - x.mean(dim=-1)) / (x.var(dim=-1, unbiased=False, keepdim=True) + eps) ** 0.5 + b
    ),
)

layer_norm.mistake(
    "weight and bias forgotten",
    """You stop at mean 0 and variance 1. Then each feature is scaled by its weight and shifted by its bias;
    in a fresh layer they are 1 and 0, so nobody would notice before a trained one is loaded.""",
    lambda x, w, b, eps: centred(x) / (variance(x) + eps).sqrt(),
)

layer_norm.mistake(
    "bias forgotten",
    """You multiply by the weight and do not add the bias. It is 0 in a fresh layer, so the error shows only
    with trained weights.""",
    lambda x, w, b, eps: w * centred(x) / (variance(x) + eps).sqrt(),
)

layer_norm.mistake(
    "weight forgotten",
    """You add the bias and do not multiply by the weight. It is 1 in a fresh layer, so the error shows only
    with trained weights.""",
    lambda x, w, b, eps: centred(x) / (variance(x) + eps).sqrt() + b,
)

layer_norm.mistake(
    "bias before weight",
    """You add the bias first and multiply then, which scales the bias too. First times weight, then plus
    bias.""",
    lambda x, w, b, eps: w * (centred(x) / (variance(x) + eps).sqrt() + b),
)

layer_norm.mistake(
    "weight and bias before the norm",
    """You scale and shift x before you normalise. The norm then takes a good part of that out again. They
    come last.""",
    lambda x, w, b, eps: centred(w * x + b) / (variance(w * x + b) + eps).sqrt(),
)


# ------------------------------------------------------------------------------------------------------ 07.2


@exercise(
    "07.2",
    "Dropout by hand",
    hints=[
        """When not training, there is nothing to do: return x.""",
        """`draw < p` is True for the share p of the numbers. `torch.where(draw < p, 0.0, …)` puts zeros
        there.""",
        """What is kept must make up for what is gone: of the sum, 1 − p is left. So divide by 1 − p.""",
    ],
)
def dropout(x, p, draw, training):
    """Drop single features at random, and keep the expected value of each.

    x: (batch, position, d_model)
    p: the probability of being dropped, from 0 to less than 1
    draw: random numbers, 0 ≤ draw < 1, of the same shape as x; drop where draw < p
    training: True or False; nothing is dropped if False
    returns (batch, position, d_model)
    """
    raise NotImplementedError


@dropout.cases
def dropout(normal):
    shapes = [(2, 3, 5, 0.3), (3, 5, 7, 0.6), (1, 1, 5, 0.0)]
    for training in (True, False):
        for *shape, p in shapes:
            draw = torch.rand(shape)
            draw[0, 0, 2] = p  # on the line: not below p, so it is kept
            yield {"x": normal(*shape), "p": p, "draw": draw, "training": training}


@dropout.specification
def dropout(x, p, draw, training):
    if not training:
        return x.clone()
    result = torch.zeros(x.shape)
    for b in range(x.shape[0]):
        for position in range(x.shape[1]):
            for i in range(x.shape[2]):
                if not draw[b, position, i] < p:
                    result[b, position, i] = x[b, position, i] / (1 - p)
    return result


@dropout.solution
def dropout(x, p, draw, training):
    if not training:
        return x
    return torch.where(draw < p, 0.0, x / (1 - p))


@dropout.alternative
def dropout(x, p, draw, training):
    kept = (draw >= p).to(x.dtype)
    return x * kept / (1 - p) if training else 1 * x


def dropped(x, p, draw, scale):
    """Zeros where draw < p, all else times scale."""
    return zeroed(x, draw < p, scale)


def zeroed(x, where, scale):
    """Zeros there, all else times scale."""
    return torch.where(where, torch.zeros_like(x), x * scale)


SCALES = (lambda p: 1 / (1 - p), lambda p: p and 1 / p, lambda p: 1)  # for what is kept


dropout.mistake(
    "no scale",
    """You drop, and leave what is kept as it is. On average a sum has lost the share p, and in eval mode
    everything would be larger than anything seen in training. Divide what is kept by 1 − p.""",
    lambda x, p, draw, t: dropped(x, p, draw, 1) if t else x,
)

dropout.mistake(
    "multiplied by 1 − p",
    """You make what is kept smaller, by 1 − p. It has to make up for what was dropped, so it must grow:
    divide by 1 − p.""",
    lambda x, p, draw, t: dropped(x, p, draw, 1 - p) if t else x,
)

dropout.mistake(
    "scaled in eval, not in training",
    """You drop in training without a scale, and multiply by 1 − p in eval mode. The first papers did so, and
    averages do agree; but then an eval pass needs to know p. Today training divides by 1 − p, and eval does
    nothing.""",
    lambda x, p, draw, t: dropped(x, p, draw, 1) if t else x * (1 - p),
)

dropout.mistake(
    "divided by p",
    """You divide by p, the share that is dropped. Of the sum the share 1 − p is left, so divide by that. At
    p = .5 nobody would notice.""",
    lambda x, p, draw, t: dropped(x, p, draw, 1 / p) if t else x,
)

dropout.mistake(
    "dropped in eval",
    """You drop whether training or not. Then two calls give two results, and a trained model works at its
    worst. `F.dropout(x, p)` does this unless you pass `training=self.training`. When not training return
    x.""",
    lambda x, p, draw, t: dropped(x, p, draw, 1 / (1 - p)),
)

dropout.mistake(
    "dropped in eval, without scale",
    """You drop whether training or not, and do not scale. When not training return x as it is; when training
    divide what is kept by 1 − p.""",
    lambda x, p, draw, t: dropped(x, p, draw, 1),
    lambda x, p, draw, t: x * (draw >= p),
)

dropout.mistake(
    "training and eval exchanged",
    """You drop when not training, and return x when training. Turn the condition around.""",
    lambda x, p, draw, t: x if t else dropped(x, p, draw, 1 / (1 - p)),
)

dropout.mistake(
    "the kept are dropped",
    """You keep where draw < p, and drop the others: the share 1 − p is gone. p is the probability of being
    dropped.""",
    *[
        lambda x, p, draw, t, below=below, scale=scale: zeroed(x, ~below(draw, p), scale(p)) if t else x
        for below in (torch.lt, torch.le)
        for scale in SCALES
    ],
    *[lambda x, p, draw, t, scale=scale: zeroed(x, ~(draw < p), scale(p)) for scale in SCALES],
)

dropout.mistake(
    "≤ in place of <",
    """You drop where draw ≤ p. A draw can be exactly 0, as `torch.rand` gives it, and never 1: with `<` the
    share that is dropped is exactly p, and with p = 0 nothing is. Drop where `draw < p`, so keep where `draw
    >= p`.""",
    lambda x, p, draw, t: zeroed(x, draw <= p, 1 / (1 - p)) if t else x,
)

dropout.mistake(
    "the draw compared with 1 − p",
    """You keep where draw < 1 − p. On average as many are kept as should be, but not the ones that are asked
    for. Drop where `draw < p`, so keep where `draw >= p`.""",
    lambda x, p, draw, t: dropped(x, p, 1 - draw, 1 / (1 - p)) if t else x,
    lambda x, p, draw, t: dropped(x, p, 1 - draw, 1) if t else x,
)

dropout.mistake(
    "a threshold of your own",
    """You drop half of the features, whatever p is: you round `draw`, or compare it with .5. Drop where
    `draw < p`.""",
    lambda x, p, draw, t: x * draw.round() / (1 - p) if t else x,
    lambda x, p, draw, t: x * draw.round() if t else x,
    lambda x, p, draw, t: 2 * x * draw.round() if t else x,
)

dropout.mistake(
    "multiplied by 1 + p",
    """You make what is kept larger by the share p. That is not enough: of the sum 1 − p is left, and
    (1 − p)(1 + p) is less than 1. Divide by 1 − p.""",
    lambda x, p, draw, t: dropped(x, p, draw, 1 + p) if t else x,
)

dropout.mistake(
    "divided by the root",
    """You divide by √(1 − p). That keeps the mean square; dropout keeps the mean. Divide by 1 − p.""",
    lambda x, p, draw, t: dropped(x, p, draw, 1 / (1 - p) ** 0.5) if t else x,
)

dropout.mistake(
    "−∞ instead of 0",
    """You put −∞ where a feature is dropped. That hides scores before a softmax; here a feature is dropped by
    making it 0, and it is added to the road.""",
    lambda x, p, draw, t: x.masked_fill(draw < p, -math.inf) / (1 - p) if t else x,
    lambda x, p, draw, t: x.masked_fill(draw < p, -math.inf) if t else x,
)

dropout.mistake(
    "scaled in eval too",
    """In training you are right. In eval mode you still divide by 1 − p, though nothing was dropped. Return
    x.""",
    lambda x, p, draw, t: dropped(x, p, draw, 1 / (1 - p)) if t else x / (1 - p),
)

dropout.mistake(
    "nothing dropped",
    """You never drop anything. When training, features with draw < p become 0, and the others are divided by
    1 − p.""",
    lambda x, p, draw, t: x,
    lambda x, p, draw, t: x / (1 - p) if t else x,
)

dropout.mistake(
    "whole tokens dropped",
    """You decide once for each token, and drop all its features together. Here each feature is drawn by
    itself: compare the whole of `draw` with p.""",
    lambda x, p, draw, t: dropped(x, p, draw[..., :1].expand_as(x), 1 / (1 - p)) if t else x,
)

dropout.mistake(
    "the same features in every token",
    """You draw once, and drop the same features of every token. Each token has its own draws: compare the
    whole of `draw` with p.""",
    lambda x, p, draw, t: dropped(x, p, draw[:1, :1].expand_as(x), 1 / (1 - p)) if t else x,
)

dropout.mistake(
    "other random numbers",
    """You draw random numbers of your own, or call torch's dropout, which does. Here they are given, so that
    the result can be checked: drop where draw < p.""",
    lambda x, p, draw, t: F.dropout(x, p, t),
    lambda x, p, draw, t: nn.Dropout(p)(x) if t else x,
    lambda x, p, draw, t: dropped(x, p, torch.rand_like(x), 1 / (1 - p)) if t else x,
    lambda x, p, draw, t: dropped(x, p, torch.rand(x.shape), 1 / (1 - p)) if t else x,
)

dropout.mistake(
    "scaled by what was kept",
    """You divide by the share that happened to be kept. Then how much one feature is scaled depends on the
    draws of the others. The expected value is kept by 1 − p, whatever was drawn.""",
    lambda x, p, draw, t: dropped(x, p, draw, 1 / (draw >= p).to(x.dtype).mean()) if t else x,
)

dropout.mistake(
    "the mask returned",
    """You return zeros and scales, not x times them. Multiply by x.""",
    lambda x, p, draw, t: (draw >= p) / (1 - p) if t else x,
    lambda x, p, draw, t: (draw >= p).to(x.dtype) if t else x,
)


# ------------------------------------------------------------------------------------------------------ 07.3


@exercise(
    "07.3",
    "Write the encoder layer",
    returns=("x", "weights"),
    by_name=("may_attend",),
    hints=[
        """Two halves of the same form: norm(x + sublayer(x)). The first sublayer is the attention; it
        returns two things.""",
        """`attended, weights = self.attention(x, may_attend=may_attend)`, and then
        `x = self.attention_norm(x + attended)`.""",
        """The second half starts from what came out of the first: x is no longer the x that came in.""",
    ],
)
class EncoderLayer(nn.Module):
    """Post-norm, as in the paper. All four parts are given; the attention returns (output, weights)."""

    def __init__(self, attention, feed_forward, attention_norm, feed_forward_norm):
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_norm = attention_norm
        self.feed_forward_norm = feed_forward_norm

    def forward(self, x, may_attend=None):
        """x: (batch, position, d_model). Hand may_attend on to the attention, under the same name.

        returns x after this layer, of the same shape, and the attention weights
        """
        raise NotImplementedError


class GivenAttention(MultiHeadAttention):
    """The attention that a case plugs in."""

    def __repr__(self):
        return "…"


class GivenFeedForward(FeedForward):
    """The feed-forward that a case plugs in."""

    def __repr__(self):
        return "…"


class GivenNorm(nn.LayerNorm):
    """The norms that a case plugs in."""

    def __repr__(self):
        return "…"


def layer_cases(normal):
    """Layers of different sizes; their masks are not symmetric, and no query is left without a key.

    The last one reads a single token, and gets no mask.
    """
    for batch, length, n_heads, d_model, d_ff in [(2, 5, 2, 6, 11), (3, 7, 3, 15, 13), (1, 1, 1, 2, 3)]:
        parts = {
            "attention": GivenAttention(d_model, n_heads),
            "feed_forward": GivenFeedForward(d_model, d_ff),
            "attention_norm": GivenNorm(d_model, eps=0.1),
            "feed_forward_norm": GivenNorm(d_model, eps=0.1),
        }
        may_attend = torch.ones(batch, 1, 1, length, dtype=torch.bool)
        for text in range(batch):
            may_attend[text, ..., length - 1 - text :] = False
        inputs = {"x": 2 * normal(batch, length, d_model), "may_attend": may_attend}
        yield parts, inputs if length > 1 else {"x": inputs["x"]}


class Parts(nn.Module):
    """The parts that every answer is given."""

    def __init__(self, attention, feed_forward, attention_norm, feed_forward_norm):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.attention_norm, self.feed_forward_norm = attention_norm, feed_forward_norm


EncoderLayer.cases(layer_cases)


@EncoderLayer.specification
class EncoderLayer(Parts):
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


@EncoderLayer.solution
class EncoderLayer(nn.Module):
    def __init__(self, attention, feed_forward, attention_norm, feed_forward_norm):
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_norm = attention_norm
        self.feed_forward_norm = feed_forward_norm

    def forward(self, x, may_attend=None):
        attended, weights = self.attention(x, may_attend=may_attend)
        x = self.attention_norm(x + attended)
        x = self.feed_forward_norm(x + self.feed_forward(x))
        return x, weights


@EncoderLayer.alternative
class EncoderLayer(Parts):
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


class PostSteps(Parts):
    """The right post-norm layer, step by step: a mistake replaces one of them."""

    def forward(self, x, may_attend=None):
        attended, weights = self.attend(x, may_attend)
        middle = self.first(x, attended)
        return self.give(self.second(x, middle, attended), weights)

    def attend(self, x, may_attend):
        return self.attention(x, may_attend=may_attend)

    def first(self, x, attended):
        return self.attention_norm(x + attended)

    def second(self, x, middle, attended):
        return self.feed_forward_norm(middle + self.feed_forward(middle))

    def give(self, x, weights):
        return x, weights


class PreSteps(PostSteps):
    """The right pre-norm layer, step by step."""

    def attend(self, x, may_attend):
        return self.attention(self.attention_norm(x), may_attend=may_attend)

    def first(self, x, attended):
        return x + attended

    def second(self, x, middle, attended):
        return middle + self.feed_forward(self.feed_forward_norm(middle))


def post(**changed):
    """A post-norm layer that takes some of the steps otherwise."""
    return type("Wrong", (PostSteps,), changed)


def pre(**changed):
    """A pre-norm layer that takes some of the steps otherwise."""
    return type("Wrong", (PreSteps,), changed)


EncoderLayer.mistake(
    "pre-norm",
    """You normalise what goes into the sublayers: x + sublayer(norm(x)). That is pre-norm, the next
    exercise. The paper normalises the sum: norm(x + sublayer(x)).""",
    PreSteps,
)

EncoderLayer.mistake(
    "half pre-norm, half post-norm",
    """One half is pre-norm and the other post-norm. Both have the same form here: norm(x + sublayer(x)).""",
    pre(second=PostSteps.second),
    post(second=PreSteps.second),
)

EncoderLayer.mistake(
    "no residual at all",
    """You hand on what a sublayer returns and forget x itself. Without the sum the tokens become alike from
    layer to layer, and soon nothing can be learned. `x + attended`, and `x + self.feed_forward(x)`.""",
    post(
        first=lambda self, x, a: self.attention_norm(a),
        second=lambda self, x, m, a: self.feed_forward_norm(self.feed_forward(m)),
    ),
)

EncoderLayer.mistake(
    "no residual around the attention",
    """The first half forgets x: you normalise the attention's output alone. Then a token keeps only what it
    took from the others. `self.attention_norm(x + attended)`.""",
    post(first=lambda self, x, a: self.attention_norm(a)),
)

EncoderLayer.mistake(
    "no residual around the feed-forward",
    """The second half forgets what came out of the first: you normalise the feed-forward's output alone.
    `self.feed_forward_norm(x + self.feed_forward(x))`.""",
    post(second=lambda self, x, m, a: self.feed_forward_norm(self.feed_forward(m))),
)

EncoderLayer.mistake(
    "norm before the residual",
    """You normalise the sublayer's output and add x then: x + norm(sublayer(x)). In the paper the sum is
    formed first, and the norm takes all of it: norm(x + sublayer(x)).""",
    post(
        first=lambda self, x, a: x + self.attention_norm(a),
        second=lambda self, x, m, a: m + self.feed_forward_norm(self.feed_forward(m)),
    ),
    post(first=lambda self, x, a: x + self.attention_norm(a)),
    post(second=lambda self, x, m, a: m + self.feed_forward_norm(self.feed_forward(m))),
)

EncoderLayer.mistake(
    "no norms",
    """You add, and never normalise. Layer by layer the numbers grow, and so do the gradients. Each of the
    two sums goes through its norm.""",
    post(first=lambda self, x, a: x + a, second=lambda self, x, m, a: m + self.feed_forward(m)),
)

EncoderLayer.mistake(
    "no norm in the middle",
    """The sum after the attention is not normalised: `attention_norm` is never used. Normalise both sums.""",
    post(first=lambda self, x, a: x + a),
)

EncoderLayer.mistake(
    "no norm at the end",
    """The sum after the feed-forward is not normalised: `feed_forward_norm` is never used. Normalise both
    sums.""",
    post(second=lambda self, x, m, a: m + self.feed_forward(m)),
)

EncoderLayer.mistake(
    "one norm for both",
    """You use the same norm in both places. Each has weights of its own, and the other one would never
    learn. `attention_norm` after the attention, `feed_forward_norm` after the feed-forward.""",
    post(second=lambda self, x, m, a: self.attention_norm(m + self.feed_forward(m))),
    post(first=lambda self, x, a: self.feed_forward_norm(x + a)),
)

EncoderLayer.mistake(
    "norms exchanged",
    """You use the right two norms in the wrong places. In a fresh layer they are equal and nobody would
    notice; with trained weights the output is another. `attention_norm` comes after the attention.""",
    post(
        first=lambda self, x, a: self.feed_forward_norm(x + a),
        second=lambda self, x, m, a: self.attention_norm(m + self.feed_forward(m)),
    ),
)

EncoderLayer.mistake(
    "the second residual starts from the layer's input",
    """In the second half you add the x that came into the layer, and so jump over the attention. Add what
    came out of the first half: put it into `x`, and go on with that.""",
    post(second=lambda self, x, m, a: self.feed_forward_norm(x + self.feed_forward(m))),
)

EncoderLayer.mistake(
    "the feed-forward reads the layer's input",
    """The feed-forward gets the x that came into the layer, so it never hears what attention brought. Give
    it what came out of the first half.""",
    post(second=lambda self, x, m, a: self.feed_forward_norm(m + self.feed_forward(x))),
    post(second=lambda self, x, m, a: self.feed_forward_norm(x + self.feed_forward(x))),
    post(second=lambda self, x, m, a: self.feed_forward_norm(x + a + self.feed_forward(x))),
)

EncoderLayer.mistake(
    "the feed-forward reads the bare attention output",
    """The feed-forward gets the attention's output, before residual and norm. The first half ends with the
    norm: what comes out of it is both added and fed in.""",
    post(second=lambda self, x, m, a: self.feed_forward_norm(m + self.feed_forward(a))),
    post(second=lambda self, x, m, a: self.feed_forward_norm(a + self.feed_forward(a))),
    post(second=lambda self, x, m, a: self.feed_forward_norm(x + self.feed_forward(a))),
)

EncoderLayer.mistake(
    "the second residual adds what entered the norm",
    """You add the sum as it was before `attention_norm`. In post-norm the stream itself is normalised: go on
    with what came out of the norm.""",
    post(second=lambda self, x, m, a: self.feed_forward_norm(x + a + self.feed_forward(m))),
)

EncoderLayer.mistake(
    "residual from the normalised x",
    """You normalise x first and add that to the sublayer's output. Post-norm adds x as it is, and normalises
    the sum.""",
    post(
        attend=PreSteps.attend,
        first=lambda self, x, a: self.attention_norm(x) + a,
        second=lambda self, x, m, a: self.feed_forward_norm(m) + self.feed_forward(self.feed_forward_norm(m)),
    ),
    post(
        first=lambda self, x, a: self.attention_norm(x) + a,
        second=lambda self, x, m, a: self.feed_forward_norm(m) + self.feed_forward(m),
    ),
)

EncoderLayer.mistake(
    "normalised in front and behind",
    """You normalise what goes into the sublayers and the sums as well. Post-norm has one norm for each half,
    behind the sum.""",
    post(
        attend=PreSteps.attend,
        second=lambda self, x, m, a: self.feed_forward_norm(m + self.feed_forward(self.feed_forward_norm(m))),
    ),
)

EncoderLayer.mistake(
    "both norms at the end",
    """You normalise twice at the end and not in between. Each norm has its place: the first after the
    attention's sum, the second after the feed-forward's.""",
    post(
        first=lambda self, x, a: x + a,
        second=lambda self, x, m, a: self.feed_forward_norm(self.attention_norm(m + self.feed_forward(m))),
    ),
)

EncoderLayer.mistake(
    "feed-forward first",
    """You run the feed-forward before the attention. In the paper tokens first exchange information, and
    then each works on what it got.""",
    type("Wrong", (Parts,), {"forward": lambda self, x, may_attend=None: turned_around(self, x, may_attend)}),
)


def turned_around(self, x, may_attend):
    """The two halves in the opposite order."""
    x = self.feed_forward_norm(x + self.feed_forward(x))
    attended, weights = self.attention(x, may_attend=may_attend)
    return self.attention_norm(x + attended), weights


EncoderLayer.mistake(
    "residual added twice",
    """You count x twice: perhaps once in your sum, and once more in a variable that already held it. Each
    half adds its input once.""",
    post(first=lambda self, x, a: self.attention_norm(x + x + a)),
    post(second=lambda self, x, m, a: self.feed_forward_norm(m + m + self.feed_forward(m))),
    post(
        first=lambda self, x, a: self.attention_norm(x + x + a),
        second=lambda self, x, m, a: self.feed_forward_norm(m + m + self.feed_forward(m)),
    ),
)

EncoderLayer.mistake(
    "mean instead of sum",
    """You take the mean of x and the update. The norm hides the factor nearly, but not its eps, and without
    a norm the stream would be halved at every step. Add.""",
    post(first=lambda self, x, a: self.attention_norm((x + a) / 2)),
    post(
        first=lambda self, x, a: self.attention_norm((x + a) / 2),
        second=lambda self, x, m, a: self.feed_forward_norm((m + self.feed_forward(m)) / 2),
    ),
)

EncoderLayer.mistake(
    "no feed-forward",
    """You return what comes out of the first half. The second half has the same form: the feed-forward, a
    residual around it, and `feed_forward_norm`.""",
    post(second=lambda self, x, m, a: m),
    post(second=lambda self, x, m, a: self.feed_forward_norm(m)),
)

EncoderLayer.mistake(
    "the second half is the bare feed-forward",
    """After the first half you return `self.feed_forward(x)` alone. It needs a residual around it, and a norm
    of the sum.""",
    post(second=lambda self, x, m, a: self.feed_forward(m)),
)

EncoderLayer.mistake(
    "one sum for both",
    """You add x once, at the end, and normalise once. Each sublayer has a sum and a norm of its own: two
    halves of the same form.""",
    post(second=lambda self, x, m, a: self.feed_forward_norm(x + self.feed_forward(x + a))),
)

EncoderLayer.mistake(
    "multiplied, not added",
    """You multiply x by the update. Then an update of 0 would wipe a feature out; added, it leaves it as it
    is. `x + …`.""",
    post(
        first=lambda self, x, a: self.attention_norm(x * a),
        second=lambda self, x, m, a: self.feed_forward_norm(m * self.feed_forward(m)),
    ),
)

EncoderLayer.mistake(
    "weights averaged over the heads",
    """x is right, but you return the mean of the heads' weights. In the mean no head can be read any more:
    hand out what the attention returned.""",
    post(give=lambda self, x, weights: (x, weights.mean(1))),
)

EncoderLayer.mistake(
    "mask not handed on",
    """The attention never hears of `may_attend`, so padding is read like words. Hand it on:
    `self.attention(x, may_attend=may_attend)`.""",
    post(attend=lambda self, x, may_attend: self.attention(x)),
)

EncoderLayer.mistake(
    "mask inverted",
    """You hand on `~may_attend`. True means may attend, here and in the attention; it is PyTorch's own layer
    that wants it the other way round. Hand it on as it is.""",
    post(attend=lambda self, x, may_attend: self.attention(x, may_attend=~may_attend)),
)

EncoderLayer.mistake(
    "mask in the key's place",
    """Attention's second argument is the key. Without a name your mask lands there. Write
    `self.attention(x, may_attend=may_attend)`.""",
    post(attend=lambda self, x, may_attend: self.attention(x, may_attend)),
)

EncoderLayer.mistake(
    "the attention's pair not unpacked",
    """The attention returns two things, and you add both to x at once. Unpack them:
    `attended, weights = self.attention(…)`.""",
    post(attend=lambda self, x, may_attend: (self.attention(x, may_attend=may_attend), None)),
)

EncoderLayer.mistake(
    "the weights added, not the output",
    """You add the attention's weights to x. The pair is (output, weights), in this order: add the first.""",
    post(attend=lambda self, x, may_attend: self.attention(x, may_attend=may_attend)[::-1]),
)

EncoderLayer.mistake(
    "only x",
    """x is right and the weights are missing. Beware: whoever writes `x, weights = layer(x)` with a batch of
    two gets one text in each name, and no error. `return x, weights`.""",
    post(give=lambda self, x, weights: x),
)

EncoderLayer.mistake(
    "None for the weights",
    """x is right; for the weights you return None. Keep what the attention returns beside its output, and
    hand it out: lessons plot it.""",
    post(give=lambda self, x, weights: (x, None)),
)

EncoderLayer.mistake(
    "results in the wrong order",
    """Both results are right, in the wrong order. First x, then the weights: `return x, weights`.""",
    post(give=lambda self, x, weights: (weights, x)),
)


# ------------------------------------------------------------------------------------------------------ 07.4


@exercise(
    "07.4",
    "The other order",
    returns=("x", "weights"),
    by_name=("may_attend",),
    hints=[
        """Again two halves of one form: x + sublayer(norm(x)). What is added to is x itself, never the
        normalised x.""",
        """`attended, weights = self.attention(self.attention_norm(x), may_attend=may_attend)`, and then
        `x = x + attended`. No name is given to the normalised x, so that nobody can add to it.""",
    ],
)
class PreNormEncoderLayer(nn.Module):
    """x + sublayer(norm(x)), twice, with the same parts as before."""

    def __init__(self, attention, feed_forward, attention_norm, feed_forward_norm):
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_norm = attention_norm
        self.feed_forward_norm = feed_forward_norm

    def forward(self, x, may_attend=None):
        """x: (batch, position, d_model). Returns x after this layer, and the weights, as before."""
        raise NotImplementedError


PreNormEncoderLayer.cases(layer_cases)


@PreNormEncoderLayer.specification
class PreNormEncoderLayer(Parts):
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


@PreNormEncoderLayer.solution
class PreNormEncoderLayer(nn.Module):
    def __init__(self, attention, feed_forward, attention_norm, feed_forward_norm):
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_norm = attention_norm
        self.feed_forward_norm = feed_forward_norm

    def forward(self, x, may_attend=None):
        attended, weights = self.attention(self.attention_norm(x), may_attend=may_attend)
        x = x + attended
        x = x + self.feed_forward(self.feed_forward_norm(x))
        return x, weights


@PreNormEncoderLayer.alternative
class PreNormEncoderLayer(Parts):
    def forward(self, stream, may_attend=None):
        ready = self.attention_norm(stream)
        update, weights = self.attention(ready, ready, ready, may_attend=may_attend)
        road = [stream, update]
        road.append(self.feed_forward(self.feed_forward_norm(sum(road))))
        return torch.stack(road).sum(dim=0), weights


PreNormEncoderLayer.mistake(
    "post-norm",
    """You normalise the sums: norm(x + sublayer(x)). That was the last exercise. Pre-norm normalises what
    goes into a sublayer, and leaves the sum alone: x + sublayer(norm(x)).""",
    PostSteps,
)

PreNormEncoderLayer.mistake(
    "residual from the normalised x",
    """You overwrite x with its norm and add to that: `x = norm(x); x = x + sublayer(x)`. Then the stream is
    normalised at every step, and what came in is lost. Add to the x that came in.""",
    pre(
        first=lambda self, x, a: self.attention_norm(x) + a,
        second=lambda self, x, m, a: self.feed_forward_norm(m) + self.feed_forward(self.feed_forward_norm(m)),
    ),
    pre(first=lambda self, x, a: self.attention_norm(x) + a),
    pre(
        second=lambda self, x, m, a: self.feed_forward_norm(m) + self.feed_forward(self.feed_forward_norm(m))
    ),
)

PreNormEncoderLayer.mistake(
    "a norm at the end",
    """The layer is right up to its end, where you normalise once more. That norm is needed once, after the
    last layer of the whole encoder; inside a layer it would break the road.""",
    pre(
        second=lambda self, x, m, a: self.feed_forward_norm(m + self.feed_forward(self.feed_forward_norm(m)))
    ),
    pre(second=lambda self, x, m, a: self.attention_norm(m + self.feed_forward(self.feed_forward_norm(m)))),
    pre(
        second=lambda self, x, m, a: F.layer_norm(
            m + self.feed_forward(self.feed_forward_norm(m)), m.shape[-1:]
        )
    ),
)

PreNormEncoderLayer.mistake(
    "norm behind the sublayer",
    """You normalise what comes out of a sublayer: x + norm(sublayer(x)). Pre-norm normalises what goes in:
    x + sublayer(norm(x)).""",
    post(
        first=lambda self, x, a: x + self.attention_norm(a),
        second=lambda self, x, m, a: m + self.feed_forward_norm(self.feed_forward(m)),
    ),
    pre(second=lambda self, x, m, a: m + self.feed_forward_norm(self.feed_forward(m))),
    pre(attend=PostSteps.attend, first=lambda self, x, a: x + self.attention_norm(a)),
)

PreNormEncoderLayer.mistake(
    "normalised in front and behind",
    """You normalise what goes into a sublayer and the sum as well. Pre-norm leaves the sum alone: nothing
    normalises the road itself. x + sublayer(norm(x)).""",
    pre(first=lambda self, x, a: self.attention_norm(x + a)),
    pre(
        first=lambda self, x, a: self.attention_norm(x + a),
        second=lambda self, x, m, a: self.feed_forward_norm(m + self.feed_forward(self.feed_forward_norm(m))),
    ),
)

PreNormEncoderLayer.mistake(
    "no norms",
    """You never normalise. Without a norm, what the sublayers read grows from layer to layer. Give them
    norm(x), and add what they return to x.""",
    post(first=lambda self, x, a: x + a, second=lambda self, x, m, a: m + self.feed_forward(m)),
)

PreNormEncoderLayer.mistake(
    "the attention reads the bare stream",
    """The attention gets x as it is; `attention_norm` is missing there. Only the sum takes the bare x; what
    a sublayer reads is normalised.""",
    pre(attend=PostSteps.attend),
)

PreNormEncoderLayer.mistake(
    "the feed-forward reads the bare stream",
    """The feed-forward gets x as it is; `feed_forward_norm` is missing there. Only the sum takes the bare x;
    what a sublayer reads is normalised.""",
    pre(second=lambda self, x, m, a: m + self.feed_forward(m)),
)

PreNormEncoderLayer.mistake(
    "half pre-norm, half post-norm",
    """One half is pre-norm and the other post-norm. Both have the same form here: x + sublayer(norm(x)).""",
    pre(second=PostSteps.second),
    post(second=PreSteps.second),
)

PreNormEncoderLayer.mistake(
    "no residual at all",
    """You hand on what a sublayer returns and forget x. The road through all layers is the sum: `x = x +
    attended`, and so again after the feed-forward.""",
    pre(
        first=lambda self, x, a: a,
        second=lambda self, x, m, a: self.feed_forward(self.feed_forward_norm(m)),
    ),
)

PreNormEncoderLayer.mistake(
    "no residual around the attention",
    """The first half forgets x: you go on with the attention's output alone. `x = x + attended`.""",
    pre(first=lambda self, x, a: a),
)

PreNormEncoderLayer.mistake(
    "no residual around the feed-forward",
    """The second half forgets x: you return the feed-forward's output alone. `x = x +
    self.feed_forward(self.feed_forward_norm(x))`.""",
    pre(second=lambda self, x, m, a: self.feed_forward(self.feed_forward_norm(m))),
)

PreNormEncoderLayer.mistake(
    "the second residual starts from the layer's input",
    """In the second half you add the x that came into the layer, so what attention brought reaches the
    feed-forward but drops off the road. Add what came out of the first half.""",
    pre(second=lambda self, x, m, a: x + self.feed_forward(self.feed_forward_norm(m))),
)

PreNormEncoderLayer.mistake(
    "the feed-forward reads the layer's input",
    """The feed-forward reads norm(x) of the x that came in, beside the attention and not behind it. Some
    models do that ("parallel"); here it reads what came out of the first half.""",
    pre(second=lambda self, x, m, a: m + self.feed_forward(self.feed_forward_norm(x))),
    pre(second=lambda self, x, m, a: m + self.feed_forward(self.attention_norm(x))),
    pre(second=lambda self, x, m, a: m + self.feed_forward(self.feed_forward_norm(self.attention_norm(x)))),
)

PreNormEncoderLayer.mistake(
    "the feed-forward reads the bare attention output",
    """The feed-forward reads the norm of the attention's output, before the residual. It should read the
    norm of the whole stream, x + attended.""",
    pre(second=lambda self, x, m, a: m + self.feed_forward(self.feed_forward_norm(a))),
)

PreNormEncoderLayer.mistake(
    "one norm for both",
    """You use the same norm in both places. Each has weights of its own, and the other one would never
    learn. `attention_norm` before the attention, `feed_forward_norm` before the feed-forward.""",
    pre(second=lambda self, x, m, a: m + self.feed_forward(self.attention_norm(m))),
    pre(attend=lambda self, x, mask: self.attention(self.feed_forward_norm(x), may_attend=mask)),
)

PreNormEncoderLayer.mistake(
    "norms exchanged",
    """You use the right two norms in the wrong places. In a fresh layer they are equal and nobody would
    notice. `attention_norm` stands before the attention.""",
    pre(
        attend=lambda self, x, mask: self.attention(self.feed_forward_norm(x), may_attend=mask),
        second=lambda self, x, m, a: m + self.feed_forward(self.attention_norm(m)),
    ),
)

PreNormEncoderLayer.mistake(
    "only the queries are normalised",
    """You normalise the query and hand the bare x on as key and value. All three come from the same
    normalised tokens: with one argument the attention takes it for all.""",
    pre(attend=lambda self, x, mask: self.attention(self.attention_norm(x), x, x, may_attend=mask)),
)

PreNormEncoderLayer.mistake(
    "residual added twice",
    """You count x twice. Each half adds its input once, and the second half's input already holds the
    first one's.""",
    pre(first=lambda self, x, a: x + x + a),
    pre(second=lambda self, x, m, a: x + m + self.feed_forward(self.feed_forward_norm(m))),
    pre(second=lambda self, x, m, a: m + m + self.feed_forward(self.feed_forward_norm(m))),
)

PreNormEncoderLayer.mistake(
    "mask not handed on",
    """The attention never hears of `may_attend`, so padding is read like words. Hand it on by its name.""",
    pre(attend=lambda self, x, may_attend: self.attention(self.attention_norm(x))),
)

PreNormEncoderLayer.mistake(
    "mask inverted",
    """You hand on `~may_attend`. True means may attend, here and in the attention. Hand it on as it is.""",
    pre(attend=lambda self, x, mask: self.attention(self.attention_norm(x), may_attend=~mask)),
)

PreNormEncoderLayer.mistake(
    "the attention's pair not unpacked",
    """The attention returns two things, and you add both to x at once. Unpack them:
    `attended, weights = self.attention(…)`.""",
    pre(attend=lambda self, x, mask: (self.attention(self.attention_norm(x), may_attend=mask), None)),
)

PreNormEncoderLayer.mistake(
    "only x",
    """x is right and the weights are missing. Whoever unpacks `x, weights = layer(x)` with a batch of two
    gets one text in each name, and no error. `return x, weights`.""",
    pre(give=lambda self, x, weights: x),
)

PreNormEncoderLayer.mistake(
    "None for the weights",
    """x is right; for the weights you return None. Keep what the attention returns beside its output, and
    hand it out.""",
    pre(give=lambda self, x, weights: (x, None)),
)

PreNormEncoderLayer.mistake(
    "results in the wrong order",
    """Both results are right, in the wrong order. First x, then the weights: `return x, weights`.""",
    pre(give=lambda self, x, weights: (weights, x)),
)


# ------------------------------------------------------------------------------------------------------ 07.5


@exercise(
    "07.5",
    "What a layer weighs",
    returns=("attention", "feed_forward", "norms"),
    hints=[
        """An `nn.Linear(a, b)` has a·b weights and b biases. Attention has four, the feed-forward two.""",
        """Do the heads appear in the count? They cut the projections into pieces; they add nothing.""",
        """An `nn.LayerNorm(d_model)` has a weight and a bias for each feature, and a layer has two norms.""",
    ],
)
def parameters(d_model, n_heads, d_ff):
    """Count the trained numbers of one encoder layer, by part; every projection has a bias.

    returns attention, feed_forward, norms: three ints
    """
    raise NotImplementedError


@parameters.cases
def parameters(normal):
    for d_model, n_heads, d_ff in [(6, 2, 11), (15, 3, 7), (512, 8, 2048), (384, 12, 1536)]:
        yield {"d_model": d_model, "n_heads": n_heads, "d_ff": d_ff}


@parameters.specification
def parameters(d_model, n_heads, d_ff):
    with torch.device("meta"):
        square, up, down = (
            nn.Linear(*sizes) for sizes in [(d_model, d_model), (d_model, d_ff), (d_ff, d_model)]
        )
        norm = nn.LayerNorm(d_model)
    parts = [square] * 4, [up, down], [norm] * 2
    return tuple(sum(p.numel() for each in part for p in each.parameters()) for part in parts)


@parameters.solution
def parameters(d_model, n_heads, d_ff):
    attention = 4 * (d_model * d_model + d_model)  # query, key, value, output
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norms = 2 * (d_model + d_model)  # a weight and a bias for each feature
    return attention, feed_forward, norms


@parameters.alternative
def parameters(d, h, f):
    return [4 * d * (d + 1), 2 * d * f + d + f, 4 * d]


def bill(d, f, attention=None, feed_forward=None, norms=None):
    """The right counts, some of them replaced."""
    right = (4 * d * (d + 1), 2 * d * f + d + f, 4 * d)
    given = (attention, feed_forward, norms)
    return tuple(r if g is None else g for r, g in zip(right, given, strict=True))


parameters.mistake(
    "biases forgotten",
    """You count weights, and leave out biases, all or some of them: each projection has one more number for
    every feature that comes out of it.""",
    lambda d, h, f: bill(d, f, attention=4 * d * d, feed_forward=2 * d * f),
    lambda d, h, f: bill(d, f, attention=4 * d * d, feed_forward=2 * d * f, norms=2 * d),
    lambda d, h, f: bill(d, f, attention=4 * d * d),
    lambda d, h, f: bill(d, f, feed_forward=2 * d * f),
    lambda d, h, f: bill(d, f, attention=4 * d * d + d),
    lambda d, h, f: bill(d, f, attention=4 * d * d + 3 * d),
    lambda d, h, f: bill(d, f, feed_forward=2 * d * f + f),
    lambda d, h, f: bill(d, f, feed_forward=2 * d * f + d),
)

parameters.mistake(
    "half of the norms' numbers",
    """Your norms have 2 · d_model numbers, which is one norm, or two without their biases. A layer has two,
    one for each half, and each has a weight and a bias of d_model numbers.""",
    lambda d, h, f: bill(d, f, norms=2 * d),
)

parameters.mistake(
    "a norm with one weight and one bias",
    """You give a norm two numbers. Mean and variance are computed, not trained; what is trained is a weight
    and a bias for each of the d_model features.""",
    lambda d, h, f: bill(d, f, norms=4),
    lambda d, h, f: bill(d, f, norms=2),
)

parameters.mistake(
    "three norms",
    """You count three norms. One layer has two. A third stands in a pre-norm encoder, once, behind the last
    layer; it belongs to no layer.""",
    lambda d, h, f: bill(d, f, norms=6 * d),
)

parameters.mistake(
    "d_ff taken as 4 · d_model",
    """You leave d_ff out and count 4 · d_model in its place. That is a usual choice, not a rule: take the
    d_ff that is handed in.""",
    lambda d, h, f: bill(d, f, feed_forward=8 * d * d + 5 * d),
)

parameters.mistake(
    "norms without parameters",
    """You count nothing for the norms. Each has a trained weight and a trained bias for every feature.""",
    lambda d, h, f: bill(d, f, norms=0),
)

parameters.mistake(
    "norms counted twice over",
    """You count 8 · d_model for the norms, twice what is there. Mean and variance are no parameters: a layer
    norm computes them from each token. Two norms with a weight and a bias each: 4 · d_model.""",
    lambda d, h, f: bill(d, f, norms=8 * d),
)

parameters.mistake(
    "a norm as wide as the feed-forward",
    """One of your norms is d_ff wide. Both stand on the road, behind a sum (or before a sublayer), where
    tokens have d_model features.""",
    lambda d, h, f: bill(d, f, norms=2 * (d + f)),
    lambda d, h, f: bill(d, f, norms=4 * f),
)

parameters.mistake(
    "multiplied by the heads",
    """You multiply by n_heads. The heads share the d_model features among them: each is d_model / n_heads
    wide, and n_heads cancels out.""",
    lambda d, h, f: bill(d, f, attention=4 * h * d * (d + 1)),
    lambda d, h, f: bill(d, f, attention=3 * h * d * (d + 1) + d * (d + 1)),
)

parameters.mistake(
    "one head only",
    """You divide the attention by n_heads: that is one head's share. The question is for all of them.""",
    lambda d, h, f: bill(d, f, attention=4 * d * (d + 1) // h),
    lambda d, h, f: bill(d, f, attention=4 * (d * (d // h) + d // h)),
)

parameters.mistake(
    "output projection forgotten",
    """You count three projections in the attention. There is a fourth, the output projection, which brings
    the heads together.""",
    lambda d, h, f: bill(d, f, attention=3 * d * (d + 1)),
)

parameters.mistake(
    "the way down forgotten",
    """You count one of the two maps of the feed-forward. It goes up from d_model to d_ff, and back down.""",
    lambda d, h, f: bill(d, f, feed_forward=d * f + f),
    lambda d, h, f: bill(d, f, feed_forward=d * f + d),
    lambda d, h, f: bill(d, f, feed_forward=d * f),
)

parameters.mistake(
    "the biases of the feed-forward",
    """Both of your biases have the same length. A bias belongs to what comes out: d_ff numbers on the way
    up, d_model on the way down.""",
    lambda d, h, f: bill(d, f, feed_forward=2 * d * f + 2 * f),
    lambda d, h, f: bill(d, f, feed_forward=2 * d * f + 2 * d),
)

parameters.mistake(
    "everything in one sum",
    """You return the sum. The three counts are wanted one by one: attention, feed_forward, norms.""",
    lambda d, h, f: sum(bill(d, f)),
)

parameters.mistake(
    "results in the wrong order",
    """The counts are right, in another order: attention, feed_forward, norms.""",
    lambda d, h, f: tuple(bill(d, f)[i] for i in (1, 0, 2)),
    lambda d, h, f: tuple(bill(d, f)[i] for i in (2, 0, 1)),
    lambda d, h, f: tuple(bill(d, f)[i] for i in (2, 1, 0)),
    lambda d, h, f: tuple(bill(d, f)[i] for i in (0, 2, 1)),
)


# ------------------------------------------------------------------------------------------------------ 07.6


class Anna(encoder_layer.EncoderLayer):
    """For 07.6: no residual around the attention."""

    def forward(self, x, **how_to_attend):
        """Forget x in the first half."""
        attended, weights = self.attention(x, **how_to_attend)
        x = self.attention_norm(attended)
        return self.feed_forward_norm(x + self.feed_forward(x)), weights


class Ben(encoder_layer.EncoderLayer):
    """For 07.6: unbiased variance in both norms."""

    def forward(self, x, **how_to_attend):
        """Divide by n − 1."""
        attended, weights = self.attention(x, **how_to_attend)
        x = self.unbiased(self.attention_norm, x + attended)
        return self.unbiased(self.feed_forward_norm, x + self.feed_forward(x)), weights

    def unbiased(self, norm, x):
        return norm.weight * centred(x) / (variance(x, True) + norm.eps).sqrt() + norm.bias


class Chen(encoder_layer.EncoderLayer):
    """For 07.6: eps of 1e-12 in both norms."""

    def forward(self, x, **how_to_attend):
        """Take BERT's eps."""
        self.attention_norm.eps = self.feed_forward_norm.eps = 1e-12
        return super().forward(x, **how_to_attend)


class Dora(encoder_layer.PreNormEncoderLayer):
    """For 07.6: pre-norm, compared with post-norm."""


def patients(layer):
    """Four layers with the parts of `layer`, each with a mistake, for exercise 07.6."""
    parts = (layer.attention, layer.feed_forward, layer.attention_norm, layer.feed_forward_norm)
    return {kind.__name__: kind(*parts) for kind in (Anna, Ben, Chen, Dora)}


RIGHT = {
    "Anna": "no residual, first half",
    "Ben": "unbiased variance",
    "Chen": "another eps",
    "Dora": "norms elsewhere (pre-norm)",
}

STUB = """anna = ...
ben = ...
chen = ...
dora = ...
diagnosis = {"Anna": anna, "Ben": ben, "Chen": chen, "Dora": dora}"""
SOLUTION = STUB
for name, words in RIGHT.items():
    SOLUTION = SOLUTION.replace(f"{name.lower()} = ...", f'{name.lower()} = "{words}"')

diagnosis = value_exercise(
    "07.6",
    "Read the reports",
    stub=STUB,
    solution=SOLUTION,
    hints=[
        """`first_sum` is x plus what attention returned; `feed_forward_input` is what the first norm makes of
        it; `second_sum` is that plus what the feed-forward returned. Up to which of them is all well?""",
        """Two patients break at the same step, the norm. How large would the error of each mistake be?
        With 24 features, √(24/23) is 1.02. And eps stands beside a variance near 1.""",
        """For the last one: what the layer is given is right, and the queries are not. Between the two lie a
        projection and, in one of the two orders, something else.""",
    ],
)


@diagnosis.specification
def diagnosis():
    return {
        "Anna": "no residual, first half",
        "Ben": "unbiased variance",
        "Chen": "another eps",
        "Dora": "norms elsewhere (pre-norm)",
    }


@diagnosis.alternative
def diagnosis():
    found = ["norms elsewhere (pre-norm)", "another eps", "unbiased variance"]
    return dict(zip(["Dora", "Chen", "Ben", "Anna"], [*found, "no residual, first half"], strict=True))


def instead(**changed):
    """The right diagnoses, some of them replaced."""
    return RIGHT | changed


diagnosis.mistake(
    "Ben and Chen exchanged",
    """Both norms are off, but by how much? Dividing by n − 1 makes every number 2 % too small with 24
    features. Another eps, beside a variance near 1, moves them in the sixth digit.""",
    instead(Ben="another eps", Chen="unbiased variance"),
)

diagnosis.mistake(
    "Ben is off by too much for an eps",
    """An eps of 1e-12 in place of 1e-5, beside a variance near 1, moves the sixth digit. Ben is off by
    hundredths. Look for what makes a difference of 2 % in a norm of 24 features.""",
    instead(Ben="another eps"),
)

diagnosis.mistake(
    "Chen is off by too little for the variance",
    """With 24 features, n − 1 in place of n changes every number by 2 %. Chen is off by millionths. Look for
    something in a norm that is as small as that.""",
    instead(Chen="unbiased variance"),
)

diagnosis.mistake(
    "Anna's norm gets the blame",
    """Look at what breaks: `first_sum` is formed before the norm comes, from x and the attention's output,
    which are both right. Something is missing in the sum.""",
    instead(Anna="norms exchanged"),
    instead(Anna="unbiased variance"),
    instead(Anna="another eps"),
)

diagnosis.mistake(
    "Anna's order gets the blame",
    """In the other order the attention would read normalised tokens, and the queries would break. Anna's
    agree, up to the attention's output. The sum that follows is what breaks.""",
    instead(Anna="norms elsewhere (pre-norm)"),
)

diagnosis.mistake(
    "Anna's attention gets the blame",
    """Queries, weights and the attention's output all agree, so the attention is well. The first step that
    breaks is the sum that follows.""",
    instead(Anna="mask inverted"),
    instead(Anna="scores not scaled"),
)

diagnosis.mistake(
    "Anna's other half",
    """The second half lies behind the first step that breaks. What breaks is `first_sum`, the residual
    around the attention.""",
    instead(Anna="no residual, second half"),
    instead(Anna="another activation"),
)

diagnosis.mistake(
    "Dora's later steps get the blame",
    """Scores without a scale would break at `scores`, an inverted mask at `weights`, another activation at
    `activated`. Dora breaks earlier, at the queries: what the projection read was not what it should have
    read.""",
    instead(Dora="scores not scaled"),
    instead(Dora="mask inverted"),
    instead(Dora="another activation"),
)

diagnosis.mistake(
    "Dora's norms get the blame",
    """A wrong variance, eps, or pair of norms breaks where the first norm stands, at `feed_forward_input` in
    post-norm. Dora breaks at the queries, where post-norm has no norm at all.""",
    instead(Dora="unbiased variance"),
    instead(Dora="another eps"),
    instead(Dora="norms exchanged"),
)

diagnosis.mistake(
    "Dora's residuals get the blame",
    """A missing residual breaks at a sum. Dora breaks at the queries, before anything is added.""",
    instead(Dora="no residual, first half"),
    instead(Dora="no residual, second half"),
)

diagnosis.mistake(
    "a mistake further on",
    """The report names the first step that breaks, and everything before it agrees. For Ben and Chen that is
    the first norm: the activation, the second sum and what follows come later.""",
    *(
        instead(**{who: words})
        for who in ("Ben", "Chen")
        for words in ("another activation", "no residual, second half")
    ),
)

diagnosis.mistake(
    "a mistake further back",
    """Scores, weights and the first sum agree, for Ben as for Chen. So neither the attention nor the residual
    around it is to blame: what breaks is the norm behind.""",
    *(
        instead(**{who: words})
        for who in ("Ben", "Chen")
        for words in ("scores not scaled", "mask inverted", "no residual, first half")
    ),
)

diagnosis.mistake(
    "norms exchanged, or a wrong variance?",
    """Exchanged norms have other weights and biases, so the numbers would be off by as much as those are
    large, about 1. Ben and Chen are off by far less.""",
    instead(Ben="norms exchanged"),
    instead(Chen="norms exchanged"),
    instead(Ben="norms exchanged", Chen="norms exchanged"),
)

diagnosis.mistake(
    "the order of the norms",
    """Pre-norm would normalise what the attention reads, so the very first steps would break: queries, keys,
    values. Ben's and Chen's agree.""",
    instead(Ben="norms elsewhere (pre-norm)"),
    instead(Chen="norms elsewhere (pre-norm)"),
)

diagnosis.mistake(
    "words of your own",
    """You seem to mean the right thing. Take the words as they stand in the task's list, letter for letter:
    the checker compares them.""",
    instead(Dora="pre-norm"),
    instead(Dora="norms elsewhere"),
    instead(Anna="no residual"),
    instead(Ben="unbiased"),
    instead(Chen="eps"),
)
