"""Exercises of lesson 07."""

import torch
from torch import nn

from transformer_course.checker import exercise
from transformer_course.checker.exercise_types import ModuleExercise, ValueExercise
from transformer_lab import encoder_layer
from transformer_lab.feed_forward import FeedForward
from transformer_lab.multi_head_attention import MultiHeadAttention


@exercise("07.1", forbidden=["layer_norm"])
def layer_norm(x, weight, bias, eps):
    """Return the layer norm of x: each token brought to mean 0 and variance 1, then scaled and shifted.

    x: (batch, position, d_model)
    weight, bias: (d_model,), the trained scale and shift of each feature
    eps: a small number that keeps the square root away from zero
    returns (batch, position, d_model)
    """
    deviation = x - x.mean(dim=-1, keepdim=True)
    variance = (deviation**2).mean(dim=-1, keepdim=True)
    return weight * deviation / (variance + eps).sqrt() + bias


@layer_norm.cases
def layer_norm_cases(normal):
    for batch, length, d_model, eps in [(2, 3, 5, 0.1), (3, 5, 7, 0.5), (2, 5, 5, 0.3)]:
        x = 2 * normal(batch, length, d_model) + 1
        x[0, 1] = 3.0  # all features alike: variance 0
        x[1, 0] *= 0.1  # a variance smaller than eps
        yield {"x": x, "weight": normal(d_model), "bias": normal(d_model), "eps": eps}
    token = torch.tensor([[[1.0, 2, 3, 6]]])  # by hand: mean 3, variance 3.5, and the root of 4 is 2
    yield {"x": token, "weight": torch.ones(4), "bias": torch.zeros(4), "eps": 0.5}


class Fresh(ModuleExercise):
    """A case without an eps is tried as it was built: the initial weight and bias are checked as well."""

    def ready(self, answer, case, parameters=None):
        if parameters or "eps" in case[0]:
            return super().ready(answer, case, parameters)
        return self.build(answer, case[0]).eval()


@exercise("07.2", kind=Fresh, forbidden=["layer_norm"])
class LayerNorm(nn.Module):
    """Layer norm with trained `weight` and `bias`, one value per feature; at first they change nothing."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        """(batch, position, d_model) → the same shape. Without F.layer_norm or another norm of PyTorch."""
        return layer_norm(x, self.weight, self.bias, self.eps)


@LayerNorm.cases
def layer_norm_module_cases(normal):
    for batch, length, d_model, eps in ((2, 3, 5, 0.1), (3, 5, 7, 0.5), (1, 1, 2, 0.3)):
        yield {"d_model": d_model, "eps": eps}, {"x": 2 * normal(batch, length, d_model) + 1}
    yield {"d_model": 5}, {"x": normal(2, 3, 5) / 100}  # fresh; so small that its own eps shows


@exercise("07.3", difficulty=2, returns=("x", "weights"), keyword_arguments=("may_attend",))
class EncoderLayer(nn.Module):
    """A post-norm layer, as in the paper, made of four modules; attention returns (output, weights)."""

    def __init__(self, attention, feed_forward, attention_norm, feed_forward_norm):
        super().__init__()
        # yours:
        # store each module under the name of its argument: self.attention and so on
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_norm = attention_norm
        self.feed_forward_norm = feed_forward_norm

    def forward(self, x, may_attend=None):
        """x: (batch, position, d_model). Pass may_attend on to the attention, under the same name.

        returns x after this layer, of the same shape, and the attention weights
        """
        attended, weights = self.attention(x, may_attend=may_attend)
        x = self.attention_norm(x + attended)
        x = self.feed_forward_norm(x + self.feed_forward(x))
        return x, weights


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


EncoderLayer.cases(layer_cases)


@exercise("07.4", returns=("x", "weights"), keyword_arguments=("may_attend",))
class PreNormEncoderLayer(nn.Module):
    """A pre-norm layer with the same four modules."""

    def __init__(self, attention, feed_forward, attention_norm, feed_forward_norm):
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_norm = attention_norm
        self.feed_forward_norm = feed_forward_norm
        # yours:

    def forward(self, x, may_attend=None):
        """x: (batch, position, d_model). Pass may_attend on to the attention, under the same name.

        returns x after this layer, of the same shape, and the attention weights
        """
        attended, weights = self.attention(self.attention_norm(x), may_attend=may_attend)
        x = x + attended
        x = x + self.feed_forward(self.feed_forward_norm(x))
        return x, weights


PreNormEncoderLayer.cases(layer_cases)


@exercise("07.5")
def dropout(x, p, draw, training):
    """Return x with individual features dropped at random, the others divided by 1 − p.

    x: (batch, position, d_model)
    p: the probability that a feature is dropped, from 0 to less than 1
    draw: random values, 0 ≤ draw < 1, of the same shape as x; drop a feature where draw < p
    training: if False, nothing is dropped
    returns (batch, position, d_model)
    """
    if not training:
        return x
    return torch.where(draw < p, 0.0, x / (1 - p))


@dropout.cases
def dropout_cases(normal):
    shapes = [(2, 3, 5, 0.3), (3, 5, 7, 0.6), (1, 1, 5, 0.0)]
    for training in (True, False):
        for *shape, p in shapes:
            draw = torch.rand(shape)
            draw[0, 0, 2] = p  # on the line: not below p, so it is kept
            yield {"x": normal(*shape), "p": p, "draw": draw, "training": training}


@exercise("07.6", returns=("attention", "feed_forward", "norms"))
def parameters(d_model, n_heads, d_ff):
    """Return how many parameters an encoder layer has, by part; every projection has a bias.

    returns attention, feed_forward, norms: three ints
    """
    attention = 4 * (d_model * d_model + d_model)  # query, key, value, output
    feed_forward = (d_model * d_ff + d_ff) + (d_ff * d_model + d_model)
    norms = 2 * (d_model + d_model)  # a weight and a bias for each feature
    return attention, feed_forward, norms


@parameters.cases
def parameters_cases(normal):
    for d_model, n_heads, d_ff in [(6, 2, 11), (15, 3, 7), (512, 8, 2048), (384, 12, 1536)]:
        yield {"d_model": d_model, "n_heads": n_heads, "d_ff": d_ff}


class Anna(encoder_layer.EncoderLayer):
    """For 07.7: no residual around the attention."""

    def forward(self, x, **how_to_attend):
        """Forget x in the first half."""
        attended, weights = self.attention(x, **how_to_attend)
        x = self.attention_norm(attended)
        return self.feed_forward_norm(x + self.feed_forward(x)), weights


class Ben(encoder_layer.EncoderLayer):
    """For 07.7: unbiased variance in both norms."""

    def forward(self, x, **how_to_attend):
        """Divide by n − 1."""
        attended, weights = self.attention(x, **how_to_attend)
        x = self.unbiased(self.attention_norm, x + attended)
        return self.unbiased(self.feed_forward_norm, x + self.feed_forward(x)), weights

    def unbiased(self, norm, x):
        deviation = x - x.mean(-1, keepdim=True)
        return norm.weight * deviation / (x.var(-1, keepdim=True) + norm.eps).sqrt() + norm.bias


class Chen(encoder_layer.EncoderLayer):
    """For 07.7: eps of 1e-12 in both norms."""

    def forward(self, x, **how_to_attend):
        """Take BERT's eps."""
        self.attention_norm.eps = self.feed_forward_norm.eps = 1e-12
        return super().forward(x, **how_to_attend)


class Dora(encoder_layer.PreNormEncoderLayer):
    """For 07.7: pre-norm, compared with post-norm."""


def faulty_layers(layer):
    """Return four layers with the parts of `layer`, each with a mistake, for exercise 07.7."""
    parts = (layer.attention, layer.feed_forward, layer.attention_norm, layer.feed_forward_norm)
    return {kind.__name__: kind(*parts) for kind in (Anna, Ben, Chen, Dora)}


@exercise("07.7", kind=ValueExercise, difficulty=2)
def diagnosis():
    anna = "no residual, first half"
    ben = "unbiased variance"
    chen = "another eps"
    dora = "norms elsewhere (pre-norm)"
    return {"Anna": anna, "Ben": ben, "Chen": chen, "Dora": dora}
