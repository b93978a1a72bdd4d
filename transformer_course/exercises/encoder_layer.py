"""Exercises of lesson 07."""

import torch
import torch.nn.functional as F
from torch import nn

from transformer_course.checker import exercise, value_exercise
from transformer_course.checker.exercise_types import ModuleExercise
from transformer_course.checker.shared_modules import norm_by_hand
from transformer_lab import encoder_layer
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
    forbidden=["layer_norm"],
)
def layer_norm(x, weight, bias, eps):
    """Of weights of 1, biases of 0 and a tiny eps each token comes out with mean 0 and variance 1.

    x: (batch, position, d_model)
    weight, bias: (d_model,), trained scale and shift of each feature
    eps: a number, keeps the root from zero
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


# ------------------------------------------------------------------------------------------------------ 07.2


class Fresh(ModuleExercise):
    """A case without an eps is tried as it was built: the first values of weight and bias count as well."""

    def ready(self, answer, case, parameters=None):
        if parameters or "eps" in case[0]:
            return super().ready(answer, case, parameters)
        return self.build(answer, case[0]).eval()


@exercise(
    "07.2",
    "Layer norm as a module",
    kind=Fresh,
    forbidden=["layer_norm"],
    hints=[
        """`nn.Parameter(tensor)`, kept as `self.weight`, makes a tensor one that is trained and saved
        (lesson 00). With which numbers do scale and shift change nothing?""",
        """A weight of ones and a bias of zeros, d_model of each: `torch.ones(d_model)`,
        `torch.zeros(d_model)`. `forward` has one line: 07.1 does the work.""",
    ],
)
class LayerNorm(nn.Module):
    """`weight` and `bias`, trained: a number for each feature. Fresh, they neither scale nor shift."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        """(batch, position, d_model) → the same shape. No nn.LayerNorm, no F.layer_norm."""
        raise NotImplementedError


@LayerNorm.cases
def LayerNorm(normal):
    for batch, length, d_model, eps in ((2, 3, 5, 0.1), (3, 5, 7, 0.5), (1, 1, 2, 0.3)):
        yield {"d_model": d_model, "eps": eps}, {"x": 2 * normal(batch, length, d_model) + 1}
    yield {"d_model": 5}, {"x": normal(2, 3, 5) / 100}  # fresh; so small that its own eps shows


@LayerNorm.specification
class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(d_model)), nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x):
        return torch.stack([torch.stack([norm_by_hand(self, token) for token in text]) for text in x])


def solution():
    """In a function: `inspect` finds the first class of a name in a module, and that is the stub."""

    class LayerNorm(nn.Module):
        def __init__(self, d_model, eps=1e-5):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(d_model))
            self.bias = nn.Parameter(torch.zeros(d_model))
            self.eps = eps

        def forward(self, x):
            return layer_norm(x, self.weight, self.bias, self.eps)

    return LayerNorm


LayerNorm.solution(solution())


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


LayerNorm.alternative(Registered)


# ------------------------------------------------------------------------------------------------------ 07.3


@exercise(
    "07.3",
    "Write the encoder layer",
    difficulty=2,
    returns=("x", "weights"),
    keyword_arguments=("may_attend",),
    hints=[
        """Two halves of the same form: norm(x + sublayer(x)). The first sublayer is the attention; it
        returns two things.""",
        """`attended, weights = self.attention(x, may_attend=may_attend)`. What is now added to what, and
        what does `self.attention_norm` get?""",
        """The second half starts from what came out of the first: x is no longer the x that came in. Give
        the norm's result the name x, and write the same again with the feed-forward.""",
    ],
)
class EncoderLayer(nn.Module):
    """Post-norm, as in the paper. All four parts are given; the attention returns (output, weights)."""

    def __init__(self, attention, feed_forward, attention_norm, feed_forward_norm):
        super().__init__()
        # self.attention and so on: each under the name that it has here
        raise NotImplementedError

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


# ------------------------------------------------------------------------------------------------------ 07.4


@exercise(
    "07.4",
    "The other order",
    returns=("x", "weights"),
    keyword_arguments=("may_attend",),
    hints=[
        """Again two halves of one form: x + sublayer(norm(x)). What is added to is x itself, never the
        normalised x.""",
        """`attended, weights = self.attention(self.attention_norm(x), may_attend=may_attend)`, and then
        `x = x + attended`. No name is given to the normalised x, so that nobody can add to it.""",
    ],
)
class PreNormEncoderLayer(nn.Module):
    """Pre-norm, with the same parts as before."""

    def __init__(self, attention, feed_forward, attention_norm, feed_forward_norm):
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_norm = attention_norm
        self.feed_forward_norm = feed_forward_norm

    def forward(self, x, may_attend=None):
        """x: (batch, position, d_model). Hand may_attend on to the attention, under the same name.

        returns x after this layer, and the weights, as before
        """
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


# ------------------------------------------------------------------------------------------------------ 07.5


@exercise(
    "07.5",
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


# ------------------------------------------------------------------------------------------------------ 07.6


@exercise(
    "07.6",
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


# ------------------------------------------------------------------------------------------------------ 07.7


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


def patients(layer):
    """Four layers with the parts of `layer`, each with a mistake, for exercise 07.7."""
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
    "07.7",
    "Read the reports (stretch)",
    difficulty=2,
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
