"""Exercises of lesson 08: token vectors, the bill, the stack, a head; then a layer of your own parts."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from transformer_lab.course.checker import exercise, source
from transformer_lab.course.checker.kinds import ModuleExercise
from transformer_lab.course.checker.parts import Projections
from transformer_lab.encoder import EncoderConfig

# ------------------------------------------------------------------------------------------------------ 08.1


@exercise(
    "08.1",
    "From ids to what enters the first layer",
    hints=[
        """Three steps: look up, scale, add. `vectors[token_ids]` looks up all ids at once: the axes of
        `token_ids` stay, and the features come behind them.""",
        """d_model is the length of one vector, `vectors.shape[-1]`. Only the token vectors are scaled. The
        positions are the rows 0, 1, 2, … of their table, as many as a text has tokens.""",
    ],
)
def token_vectors(token_ids, vectors, positions):
    """Token vectors times √d_model, plus the vector of each position.

    token_ids: (batch, position), integers below vocab_size
    vectors: (vocab_size, d_model), one row for each token
    positions: (max_length, d_model), one row for each position, counted from 0
    returns (batch, position, d_model)
    """
    raise NotImplementedError


@token_vectors.cases
def token_vectors(normal):
    # No id is the largest one; there are at least as many positions as ids.
    ids = torch.tensor([[3, 1, 4], [1, 5, 2]])
    yield {"token_ids": ids, "vectors": normal(7, 5), "positions": normal(11, 5)}
    ids = torch.tensor([[0, 3], [2, 2], [1, 0]])
    yield {"token_ids": ids, "vectors": normal(5, 3), "positions": normal(7, 3)}
    # One token, by hand: 2 · (1, 2, 3, 4) + (10, 20, 30, 40).
    vectors = torch.stack([torch.zeros(4), torch.arange(1.0, 5), torch.ones(4)])
    positions = torch.outer(torch.tensor([10.0, 1.0]), torch.arange(1.0, 5))
    yield {"token_ids": torch.tensor([[1]]), "vectors": vectors, "positions": positions}


@token_vectors.specification
def token_vectors(token_ids, vectors, positions):
    batch, length = token_ids.shape
    d_model = len(vectors[0])
    result = torch.zeros(batch, length, d_model)
    for b in range(batch):
        for position in range(length):
            token = token_ids[b, position].item()
            for feature in range(d_model):
                scaled = vectors[token, feature] * d_model**0.5
                result[b, position, feature] = scaled + positions[position, feature]
    return result


@token_vectors.solution
def token_vectors(token_ids, vectors, positions):
    length, d_model = token_ids.shape[1], vectors.shape[-1]
    x = vectors[token_ids] * math.sqrt(d_model)  # (batch, position, d_model)
    return x + positions[:length]


@token_vectors.alternative
def token_vectors(ids, vectors, positions):
    one_hot = F.one_hot(ids, len(vectors)).to(vectors.dtype)
    place = torch.arange(ids.shape[1]).expand_as(ids)
    return (one_hot @ vectors).mul(len(vectors.T) ** 0.5) + F.embedding(place, positions)


def looked_up(ids, vectors):
    """Looked up and scaled: mistakes in the positions begin here."""
    return vectors[ids] * math.sqrt(vectors.shape[-1])


def first(positions, ids):
    """The right rows: mistakes in the scale end here."""
    return positions[: ids.shape[1]]


# ------------------------------------------------------------------------------------------------------ 08.2


@exercise(
    "08.2",
    "The whole bill",
    hints=[
        """Write down the matrices of one layer first: four projections of attention, two of the
        feed-forward, and for each the bias, one number for every feature that comes out. Does n_heads
        matter?""",
        """A layer norm has two numbers for each feature, a factor and an offset, and a layer has two norms.
        A sinusoidal table is computed, not trained.""",
        """attention 4·(d² + d), feed-forward 2·d·d_ff + d_ff + d, norms 2·2·d; that times n_layers; plus the
        token table; plus a table of positions if learned; plus one norm more if norm_first.""",
    ],
)
def count_parameters(vocab_size, d_model, n_heads, d_ff, n_layers, max_length, learned, norm_first):
    """How many trained numbers does an encoder have? Every linear map has a bias.

    learned: True for a trained table of max_length positions, False for the sinusoidal one
    norm_first: True for pre-norm layers; then one more layer norm stands at the end
    returns an int
    """
    raise NotImplementedError


@count_parameters.cases
def count_parameters(normal):
    names = ["vocab_size", "d_model", "n_heads", "d_ff", "n_layers", "max_length", "learned", "norm_first"]
    for sizes in [
        (11, 6, 2, 13, 3, 5, False, False),
        (11, 6, 3, 17, 2, 7, True, True),
        (50, 16, 1, 32, 1, 512, False, False),
        (10_000, 512, 8, 2048, 6, 1000, False, False),
        (13, 10, 5, 7, 3, 11, True, False),
        (13, 10, 2, 7, 4, 11, False, True),
    ]:
        yield dict(zip(names, sizes, strict=True))


@count_parameters.specification
def count_parameters(vocab_size, d_model, n_heads, d_ff, n_layers, max_length, learned, norm_first):
    with torch.device("meta"):
        modules = [nn.Embedding(vocab_size, d_model)]
        modules += [nn.Embedding(max_length, d_model)] if learned else []
        modules += [nn.LayerNorm(d_model)] if norm_first else []
        for _ in range(n_layers):
            modules += [nn.Linear(d_model, d_model) for _ in range(4)]
            modules += [nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)]
            modules += [nn.LayerNorm(d_model), nn.LayerNorm(d_model)]
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


@count_parameters.solution
def count_parameters(vocab_size, d_model, n_heads, d_ff, n_layers, max_length, learned, norm_first):
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    norm = 2 * d_model
    total = vocab_size * d_model + n_layers * (attention + feed_forward + 2 * norm)
    if learned:
        total += max_length * d_model
    return total + norm if norm_first else total


@count_parameters.alternative
def count_parameters(v, d, h, f, n, m, learned, pre):
    return d * (v + m * learned + 2 * pre) + n * (4 * d * d + 9 * d + (2 * d + 1) * f)


def bill(
    v, d, h, f, n, m, learned, pre, *,
    attention=lambda d, h: 4 * (d * d + d), feed_forward=lambda d, f: 2 * d * f + f + d,
    norms=lambda d: 4 * d, tokens=lambda v, d: v * d, positions=lambda m, d, learned: m * d * learned,
    last=lambda d, pre: 2 * d * pre, layers=lambda n: n,
):  # fmt: skip
    """The right count but for some of its parts."""
    one = attention(d, h) + feed_forward(d, f) + norms(d)
    return tokens(v, d) + positions(m, d, learned) + layers(n) * one + last(d, pre)


def wrong_bill(**changed):
    return lambda *sizes: bill(*sizes, **changed)


count_parameters.mistake("no token vectors", wrong_bill(tokens=lambda v, d: 0))

count_parameters.mistake("one layer only", wrong_bill(layers=lambda n: 1))


count_parameters.mistake(
    "no biases at all", wrong_bill(attention=lambda d, h: 4 * d * d, feed_forward=lambda d, f: 2 * d * f)
)

count_parameters.mistake(
    "attention's biases, or the norms",
    wrong_bill(attention=lambda d, h: 4 * d * d),
    wrong_bill(norms=lambda d: 0),
)

count_parameters.mistake("no biases in the feed-forward", wrong_bill(feed_forward=lambda d, f: 2 * d * f))

count_parameters.mistake(
    "the bias of the way up missing", wrong_bill(feed_forward=lambda d, f: 2 * d * f + d)
)

count_parameters.mistake(
    "one bias short",
    wrong_bill(attention=lambda d, h: 4 * d * d + 3 * d),
    wrong_bill(feed_forward=lambda d, f: 2 * d * f + f),
)

count_parameters.mistake("one bias in attention", wrong_bill(attention=lambda d, h: 4 * d * d + d))

count_parameters.mistake(
    "a feed-forward bias of the wrong size",
    wrong_bill(feed_forward=lambda d, f: 2 * (d * f + d)),
    wrong_bill(feed_forward=lambda d, f: 2 * (d * f + f)),
    wrong_bill(feed_forward=lambda d, f: 2 * (d * f + 1), attention=lambda d, h: 4 * (d * d + 1)),
)

count_parameters.mistake(
    "one matrix in the feed-forward",
    wrong_bill(feed_forward=lambda d, f: d * f + f),
    wrong_bill(feed_forward=lambda d, f: d * f + d),
    wrong_bill(feed_forward=lambda d, f: d * f + f + d),
    wrong_bill(feed_forward=lambda d, f: d * f),
)

count_parameters.mistake("output projection left out", wrong_bill(attention=lambda d, h: 3 * (d * d + d)))

count_parameters.mistake(
    "attention times n_heads",
    wrong_bill(attention=lambda d, h: h * 4 * (d * d + d)),
    wrong_bill(attention=lambda d, h: h * 3 * (d * d + d) + d * d + d),
)

count_parameters.mistake(
    "one head only",
    wrong_bill(attention=lambda d, h: 4 * (d * (d // h) + d // h)),
    wrong_bill(attention=lambda d, h: 3 * (d * (d // h) + d // h) + d * d + d),
)

count_parameters.mistake("no norms at all", wrong_bill(norms=lambda d: 0, last=lambda d, pre: 0))

count_parameters.mistake(
    "half of the norms",
    wrong_bill(norms=lambda d: 2 * d),
    wrong_bill(norms=lambda d: 2 * d, last=lambda d, pre: d * pre),
)

count_parameters.mistake("the sinusoidal table counted", wrong_bill(positions=lambda m, d, learned: m * d))

count_parameters.mistake("learned positions left out", wrong_bill(positions=lambda m, d, learned: 0))

count_parameters.mistake("no final norm", wrong_bill(last=lambda d, pre: 0))

count_parameters.mistake("half a final norm", wrong_bill(last=lambda d, pre: d * pre))

count_parameters.mistake(
    "neither learned positions nor a final norm",
    wrong_bill(positions=lambda m, d, learned: 0, last=lambda d, pre: 0),
)

count_parameters.mistake(
    "a head counted", wrong_bill(tokens=lambda v, d: 2 * v * d), wrong_bill(tokens=lambda v, d: 2 * v * d + v)
)

count_parameters.mistake(
    "a final norm in every model",
    wrong_bill(last=lambda d, pre: 2 * d),
    wrong_bill(last=lambda d, pre: 2 * d * (not pre)),
)


count_parameters.mistake(
    "nothing but matrices",
    wrong_bill(
        attention=lambda d, h: 4 * d * d,
        feed_forward=lambda d, f: 2 * d * f,
        norms=lambda d: 0,
        last=lambda d, pre: 0,
    ),
)


count_parameters.mistake(
    "one norm in each layer, and one at the end", wrong_bill(norms=lambda d: 2 * d, last=lambda d, pre: 2 * d)
)

# ------------------------------------------------------------------------------------------------------ 08.3


@exercise(
    "08.3",
    "Stack the layers",
    returns=("output", "weights"),
    hints=[
        """PyTorch finds the parameters of a module only in attributes that are modules: a plain list hides
        them. `nn.ModuleList(…)` is a list that does not.""",
        """`build_layer()` makes one layer; call it n_layers times. `[build_layer()] * n_layers` calls it
        once.""",
        """In `forward`, what comes out of one layer goes into the next: `x, weights = layer(x,
        may_attend=may_attend)`. The norm comes once, after the last.""",
    ],
)
class Stack(nn.Module):
    """n_layers layers, one after the other, each with parameters of its own."""

    def __init__(self, n_layers, d_model, norm_first, build_layer):
        super().__init__()
        self.final_norm = nn.LayerNorm(d_model) if norm_first else nn.Identity()
        # self.layers: n_layers of them; each call build_layer() makes a new one
        raise NotImplementedError

    def forward(self, x, may_attend=None):
        """x (batch, position, d_model); a layer is called as layer(x, may_attend=…) and returns a pair.

        Returns the vectors, (batch, position, d_model), and a list: the weights of every layer.
        """
        raise NotImplementedError


class SmallLayer(nn.Module):
    """Stands in for an encoder layer: each token takes from those that are like it, and that it may see."""

    def __init__(self, d_model):
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)

    def forward(self, x, *, may_attend=None):
        length = x.shape[1]
        allowed = torch.ones(len(x), 1, length, length, dtype=torch.bool)
        allowed = allowed if may_attend is None else allowed & may_attend
        scores = (x @ x.mT)[:, None].masked_fill(~allowed, -math.inf)  # (batch, 1, query_pos, key_pos)
        weights = scores.softmax(dim=-1)
        return torch.tanh(self.mix(x + weights[:, 0] @ x)), weights


class BuildLayer:
    """Makes such layers."""

    def __init__(self, d_model):
        self.d_model = d_model

    def __call__(self):
        return SmallLayer(self.d_model)

    def __repr__(self):
        return "(a function that makes one)"


def padding(*lengths):
    """(batch, 1, 1, position), True for real tokens."""
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])[:, None, None]


@Stack.cases
def Stack(normal):
    for n_layers, d_model, norm_first in [(3, 5, False), (2, 7, True)]:
        settings = {"n_layers": n_layers, "d_model": d_model, "norm_first": norm_first}
        settings["build_layer"] = BuildLayer(d_model)
        yield settings, {"x": normal(2, 5, d_model), "may_attend": padding(5, 3)}
    settings = {"n_layers": 2, "d_model": 3, "norm_first": True, "build_layer": BuildLayer(3)}
    yield settings, {"x": normal(3, 2, 3), "may_attend": None}
    settings = {"n_layers": 1, "d_model": 3, "norm_first": False, "build_layer": BuildLayer(3)}
    yield settings, {"x": normal(1, 1, 3)}


@Stack.specification
class Stack(nn.Module):
    def __init__(self, n_layers, d_model, norm_first, build_layer):
        super().__init__()
        self.layers = nn.Module()
        for number in range(n_layers):
            self.layers.add_module(str(number), build_layer())
        if norm_first:
            self.final_norm = nn.LayerNorm(d_model)
        self.numbers, self.norm_first = range(n_layers), norm_first

    def forward(self, x, may_attend=None):
        states, maps = [x], []
        for number in self.numbers:
            layer = getattr(self.layers, str(number))
            after, weights = layer(states[number], may_attend=may_attend)
            states.append(after)
            maps.append(weights)
        return (self.final_norm(states[-1]) if self.norm_first else states[-1]), maps


@Stack.solution
class Stack(nn.Module):
    def __init__(self, n_layers, d_model, norm_first, build_layer):
        super().__init__()
        self.final_norm = nn.LayerNorm(d_model) if norm_first else nn.Identity()
        self.layers = nn.ModuleList(build_layer() for _ in range(n_layers))

    def forward(self, x, may_attend=None):
        every = []
        for layer in self.layers:
            x, weights = layer(x, may_attend=may_attend)
            every.append(weights)
        return self.final_norm(x), every


@Stack.alternative
class Stack(nn.Module):
    def __init__(self, n, d_model, pre, make):
        super().__init__()
        self.layers = nn.Sequential()
        while len(self.layers) < n:
            self.layers.append(make())
        self.final_norm = nn.Sequential() if not pre else nn.LayerNorm(d_model)

    def forward(self, x, mask=None):
        pairs = [(x, None)]
        for layer in self.layers:
            pairs += [layer(pairs[-1][0], may_attend=mask)]
        return self.final_norm(pairs[-1][0]), tuple(weights for _, weights in pairs[1:])


class StackSteps(nn.Module):
    """The right answer, step by step: a mistake replaces one of them."""

    def __init__(self, n_layers, d_model, norm_first, build_layer):
        super().__init__()
        self.final_norm = self.make_norm(d_model, norm_first)
        self.layers = self.make_layers(n_layers, build_layer)

    def make_norm(self, d_model, norm_first):
        return nn.LayerNorm(d_model) if norm_first else nn.Identity()

    def make_layers(self, n_layers, build_layer):
        return nn.ModuleList(build_layer() for _ in range(n_layers))

    def forward(self, x, may_attend=None):
        start, every = x, []
        for number, layer in enumerate(self.layers):
            given = self.mask(may_attend, number)
            x, weights = self.call(layer, self.given(start, x), given)
            every.append(weights)
        return self.answer(self.end(x), every)

    def mask(self, may_attend, number):
        return may_attend

    def given(self, start, x):
        return x

    def call(self, layer, x, may_attend):
        return layer(x, may_attend=may_attend)

    def end(self, x):
        return self.final_norm(x)

    def answer(self, x, every):
        return x, every


def stack(**changed):
    """A stack that takes some of the steps otherwise."""
    return type("Wrong", (StackSteps,), changed)


Stack.mistake(
    "one layer, used n_layers times",
    stack(make_layers=lambda self, n, build: nn.ModuleList([build()] * n)),
    stack(make_layers=lambda self, n, build: nn.Sequential(*[build()] * n)),
)

Stack.mistake(
    "a plain list",
    stack(make_layers=lambda self, n, build: [build() for _ in range(n)]),
    stack(make_layers=lambda self, n, build: tuple(build() for _ in range(n))),
    stack(make_layers=lambda self, n, build: [build()] * n),
)

Stack.mistake(
    "one layer too few",
    stack(make_layers=lambda self, n, build: nn.ModuleList(build() for _ in range(n - 1))),
    stack(make_layers=lambda self, n, build: nn.ModuleList(build() for _ in range(1, n))),
)

Stack.mistake(
    "one layer too many",
    stack(make_layers=lambda self, n, build: nn.ModuleList(build() for _ in range(n + 1))),
)

Stack.mistake(
    "build_layer not called",
    stack(make_layers=lambda self, n, build: nn.ModuleList([build] * n)),
    stack(make_layers=lambda self, n, build: nn.ModuleList(build for _ in range(n))),
)

Stack.mistake("every layer gets the input", stack(given=lambda self, start, x: start))

Stack.mistake("mask not handed on", stack(mask=lambda self, may_attend, number: None))

Stack.mistake(
    "mask for the first layer only",
    stack(mask=lambda self, may_attend, number: may_attend if number == 0 else None),
)

Stack.mistake(
    "the mask inverted on the way",
    stack(mask=lambda self, may_attend, number: None if may_attend is None else ~may_attend),
)

Stack.mistake(
    "the pair taken apart in the wrong order",
    stack(call=lambda self, layer, x, mask: layer(x, may_attend=mask)[::-1]),
)

Stack.mistake("mask handed on by position", stack(call=lambda self, layer, x, mask: layer(x, mask)))

Stack.mistake(
    "the pair not taken apart",
    stack(
        given=lambda self, start, x: x, call=lambda self, layer, x, mask: (layer(x, may_attend=mask), None)
    ),
    type("Wrong", (StackSteps,), {"forward": lambda self, x, may_attend=None: chained(self, x, may_attend)}),
)


def chained(self, x, may_attend):
    """What a layer returns goes into the next, whole."""
    every = []
    for layer in self.layers:
        x = layer(x, may_attend=may_attend)
        every.append(x[1])
    return self.final_norm(x[0]), every


Stack.mistake(
    "a Sequential called at once",
    type(
        "Wrong",
        (StackSteps,),
        {
            "make_layers": lambda self, n, build: nn.Sequential(*(build() for _ in range(n))),
            "forward": lambda self, x, may_attend=None: self.layers(x, may_attend=may_attend),
        },
    ),
    type(
        "Wrong",
        (StackSteps,),
        {
            "make_layers": lambda self, n, build: nn.Sequential(*(build() for _ in range(n))),
            "forward": lambda self, x, may_attend=None: self.layers(x, may_attend),
        },
    ),
)

Stack.mistake(
    "a residual around each layer",
    stack(call=lambda self, layer, x, mask: added(x, *layer(x, may_attend=mask))),
)


def added(x, output, weights):
    """The output with a residual."""
    return x + output, weights


Stack.mistake(
    "the layers in reverse",
    type("Wrong", (StackSteps,), {"forward": lambda self, x, mask=None: upside_down(self, x, mask)}),
)


def upside_down(self, x, may_attend):
    """The last layer first."""
    every = []
    for layer in reversed(self.layers):
        x, weights = layer(x, may_attend=may_attend)
        every.append(weights)
    return self.final_norm(x), every


Stack.mistake("no norm at the end", stack(end=lambda self, x: x))

Stack.mistake(
    "the final norm after every layer",
    stack(
        call=lambda self, layer, x, mask: normed(self, *layer(x, may_attend=mask)),
        end=lambda self, x: x,
    ),
    stack(call=lambda self, layer, x, mask: normed(self, *layer(x, may_attend=mask))),
)


def normed(self, output, weights):
    """The output, normalised."""
    return self.final_norm(output), weights


Stack.mistake(
    "the final norm before the layers",
    type(
        "Wrong",
        (StackSteps,),
        {
            "forward": lambda self, x, may_attend=None: StackSteps.forward(
                self, self.final_norm(x), may_attend
            ),
            "end": lambda self, x: x,
        },
    ),
)

Stack.mistake(
    "a final norm in post-norm too", stack(make_norm=lambda self, d_model, norm_first: nn.LayerNorm(d_model))
)

Stack.mistake(
    "weights of one layer only",
    stack(answer=lambda self, x, every: (x, every[-1])),
    stack(answer=lambda self, x, every: (x, every[0])),
    stack(answer=lambda self, x, every: (x, every[-1:])),
)

Stack.mistake(
    "weights stacked into one tensor",
    stack(answer=lambda self, x, every: (x, torch.stack(every))),
    stack(answer=lambda self, x, every: (x, torch.cat(every))),
    stack(answer=lambda self, x, every: (x, torch.stack(every, dim=1))),
)

Stack.mistake(
    "outputs collected, not weights",
    type("Wrong", (StackSteps,), {"forward": lambda self, x, may_attend=None: states(self, x, may_attend)}),
)


def states(self, x, may_attend):
    """The vectors after each layer."""
    every = []
    for layer in self.layers:
        x, _ = layer(x, may_attend=may_attend)
        every.append(x)
    return self.final_norm(x), every


Stack.mistake("only the output", stack(answer=lambda self, x, every: x))

Stack.mistake("one layer in a loop", stack(make_layers=lambda self, n, build: build()))

Stack.mistake(
    "returned from inside the loop",
    type("Wrong", (StackSteps,), {"forward": lambda self, x, mask=None: hasty(self, x, mask)}),
)


def hasty(self, x, may_attend):
    """The first layer only."""
    x, weights = self.layers[0](x, may_attend=may_attend)
    return self.final_norm(x), [weights]


Stack.mistake(
    "the input returned",
    type("Wrong", (StackSteps,), {"forward": lambda self, x, mask=None: unmoved(self, x, mask)}),
)


def unmoved(self, x, may_attend):
    """The layers run, and their output is forgotten."""
    return self.final_norm(x), StackSteps.forward(self, x, may_attend)[1]


# ------------------------------------------------------------------------------------------------------ 08.4


@exercise(
    "08.4",
    "A head for a whole text",
    hints=[
        """One vector for each text: the mean of its real tokens. Without a mask that is
        `hidden.mean(dim=1)`. With one, add up the real tokens and divide by how many they are.""",
        """`real = may_attend[:, 0, 0, :, None]` has the axes (batch, position, 1), so it fits beside
        `hidden`. What are `hidden * real` and `real.sum(dim=1)`?""",
    ],
)
class TextHead(nn.Module):
    """Scores (logits) for each text: the mean of its real tokens, then one linear map."""

    def __init__(self, d_model, n_classes):
        super().__init__()
        self.projection = nn.Linear(d_model, n_classes)

    def forward(self, hidden, may_attend=None):
        """hidden (batch, position, d_model): what an encoder returns, padding included.

        may_attend: (batch, 1, 1, position), True for a real token; None if all are real
        returns logits, (batch, n_classes); every text has at least one real token
        """
        raise NotImplementedError


@TextHead.cases
def TextHead(normal):
    yield {"d_model": 5, "n_classes": 3}, {"hidden": normal(2, 7, 5), "may_attend": padding(7, 4)}
    left = padding(3, 5, 1).flip(-1)  # the padding may stand in front
    yield {"d_model": 3, "n_classes": 2}, {"hidden": normal(3, 5, 3), "may_attend": left}
    yield {"d_model": 3, "n_classes": 7}, {"hidden": normal(2, 3, 3), "may_attend": None}
    yield {"d_model": 3, "n_classes": 2}, {"hidden": normal(1, 5, 3), "may_attend": padding(5, 2)[1:]}
    yield {"d_model": 3, "n_classes": 2}, {"hidden": normal(1, 1, 3)}


@TextHead.specification
class TextHead(nn.Module):
    def __init__(self, d_model, n_classes):
        super().__init__()
        self.projection = nn.Linear(d_model, n_classes)

    def forward(self, hidden, may_attend=None):
        batch, length, d_model = hidden.shape
        weight, bias = self.projection.weight, self.projection.bias
        result = torch.zeros(batch, len(weight))
        for b in range(batch):
            real = [j for j in range(length) if may_attend is None or may_attend[b, 0, 0, j]]
            mean = [sum(hidden[b, j, f] for j in real) / len(real) for f in range(d_model)]
            for c in range(len(weight)):
                result[b, c] = sum(weight[c, f] * mean[f] for f in range(d_model)) + bias[c]
        return result


@TextHead.solution
class TextHead(nn.Module):
    def __init__(self, d_model, n_classes):
        super().__init__()
        self.projection = nn.Linear(d_model, n_classes)

    def forward(self, hidden, may_attend=None):
        if may_attend is None:
            return self.projection(hidden.mean(dim=1))
        real = may_attend[:, 0, 0, :, None]  # (batch, position, 1)
        mean = (hidden * real).sum(dim=1) / real.sum(dim=1)
        return self.projection(mean)


@TextHead.alternative
class TextHead(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.projection = nn.Linear(width, classes)

    def forward(self, x, mask=None):
        mask = torch.ones(len(x), x.shape[1], dtype=torch.bool) if mask is None else mask.flatten(1)
        each = self.projection(x)  # a linear map of the mean is the mean of the linear maps
        return torch.stack([scores[real].mean(0) for scores, real in zip(each, mask, strict=True)])


class HeadSteps(nn.Module):
    """The right answer, step by step: a mistake replaces one of them."""

    def __init__(self, d_model, n_classes):
        super().__init__()
        self.projection = nn.Linear(d_model, n_classes)

    def forward(self, hidden, may_attend=None):
        return self.score(self.pool(hidden, self.real(hidden, may_attend)))

    def real(self, hidden, may_attend):
        if may_attend is None:
            return torch.ones(*hidden.shape[:2], 1, dtype=torch.bool)
        return may_attend[:, 0, 0, :, None]

    def pool(self, hidden, real):
        return (hidden * real).sum(dim=1) / real.sum(dim=1)

    def score(self, pooled):
        return self.projection(pooled)


def head(**changed):
    """A head that takes some of the steps otherwise."""
    return type("Wrong", (HeadSteps,), changed)


TextHead.mistake("mean over the padding", head(pool=lambda self, hidden, real: hidden.mean(dim=1)))

TextHead.mistake(
    "divided by the full length", head(pool=lambda self, hidden, real: (hidden * real).mean(dim=1))
)

TextHead.mistake(
    "a sum, not a mean",
    head(pool=lambda self, hidden, real: (hidden * real).sum(dim=1)),
    head(pool=lambda self, hidden, real: hidden.sum(dim=1)),
)

TextHead.mistake("[CLS] taken", head(pool=lambda self, hidden, real: hidden[:, 0]))

TextHead.mistake("the last position taken", head(pool=lambda self, hidden, real: hidden[:, -1]))

TextHead.mistake(
    "the largest, not the mean",
    head(pool=lambda self, hidden, real: hidden.amax(dim=1)),
    head(pool=lambda self, hidden, real: hidden.masked_fill(~real, -math.inf).amax(dim=1)),
)

TextHead.mistake(
    "mask upside down",
    head(real=lambda self, hidden, mask: HeadSteps.real(self, hidden, mask if mask is None else ~mask)),
    head(pool=lambda self, hidden, real: (hidden * ~real).sum(dim=1) / real.sum(dim=1)),
    head(pool=lambda self, hidden, real: hidden.masked_fill(real, 0.0).sum(dim=1) / real.sum(dim=1)),
)

TextHead.mistake(
    "all texts in one mean",
    head(pool=lambda self, hidden, real: (hidden * real).sum(dim=1) / real.sum()),
    head(pool=lambda self, hidden, real: hidden[real[..., 0]].mean(dim=0).expand(len(hidden), -1)),
)

TextHead.mistake(
    "the mask's axes not removed",
    head(real=lambda self, h, mask: HeadSteps.real(self, h, mask) if mask is None else mask),
    head(real=lambda self, h, mask: HeadSteps.real(self, h, mask) if mask is None else mask[:, 0, 0]),
    head(real=lambda self, h, mask: HeadSteps.real(self, h, mask) if mask is None else mask[:, 0, 0, None]),
    type("Wrong", (HeadSteps,), {"forward": lambda self, h, mask=None: over(self, h, mask)}),
)


def over(self, hidden, mask):
    """The mask as it is, in `masked_fill`."""
    if mask is None:
        return self.projection(hidden.mean(dim=1))
    return self.projection(hidden.masked_fill(~mask, 0.0).sum(dim=1) / mask.sum(dim=-1))


TextHead.mistake(
    "None is no mask",
    head(real=lambda self, hidden, mask: mask[:, 0, 0, :, None]),
    head(real=lambda self, hidden, mask: mask.squeeze((1, 2))[..., None]),
    head(real=lambda self, hidden, mask: mask.flatten(1)[..., None]),
)

TextHead.mistake(
    "`if` asked of a tensor",
    type(
        "Wrong",
        (HeadSteps,),
        {"forward": lambda self, h, mask=None: HeadSteps.forward(self, h, mask if mask else None)},
    ),
)

TextHead.mistake(
    "softmax inside",
    head(score=lambda self, pooled: self.projection(pooled).softmax(dim=-1)),
    head(score=lambda self, pooled: self.projection(pooled).log_softmax(dim=-1)),
    head(score=lambda self, pooled: self.projection(pooled).sigmoid()),
)

TextHead.mistake("a score for every token", head(pool=lambda self, hidden, real: hidden))

TextHead.mistake("no projection", head(score=lambda self, pooled: pooled))

TextHead.mistake(
    "−∞ before a mean",
    head(pool=lambda self, hidden, real: hidden.masked_fill(~real, -math.inf).mean(dim=1)),
    head(pool=lambda self, hidden, real: hidden.masked_fill(~real, -math.inf).sum(dim=1) / real.sum(dim=1)),
)

TextHead.mistake(
    "mean along the wrong axis",
    head(pool=lambda self, hidden, real: hidden.mean(dim=0)),
    head(pool=lambda self, hidden, real: hidden.mean(dim=-1)),
)

TextHead.mistake(
    "the mean normalised", head(score=lambda self, pooled: self.projection(F.normalize(pooled, dim=-1)))
)

TextHead.mistake(
    "masked but not pooled",
    head(pool=lambda self, hidden, real: hidden * real),
    head(pool=lambda self, hidden, real: hidden.masked_fill(~real, 0.0)),
)

TextHead.mistake(
    "padding taken to be at the end",
    head(
        pool=lambda self, hidden, real: torch.stack(
            [x[: n.item()].mean(dim=0) for x, n in zip(hidden, real.sum(dim=(1, 2)), strict=True)]
        )
    ),
)


class Biased(HeadSteps):
    """Zeros are mapped too, and bring a bias each."""

    def forward(self, hidden, may_attend=None):
        real = self.real(hidden, may_attend)
        return self.projection(hidden * real).sum(dim=1) / real.sum(dim=1)


TextHead.mistake("the bias of the padding", Biased)

# ------------------------------------------------------------------------------------------------------ 08.5


@exercise(
    "08.5",
    "Your attention, with its whole interface",
    returns=("output", "weights"),
    by_name=("may_attend", "need_weights"),
    hints=[
        """Begin with what you wrote in 05.5: project, cut, scores, softmax, mix, merge, project. The same x
        serves for queries, keys and values.""",
        """Between scores and softmax: if there is a mask, hidden scores become −∞.
        `scores.masked_fill(~may_attend, -math.inf)` writes −∞ wherever the mask says False.""",
        """Two things are always returned. The second is `weights if need_weights else None`.""",
    ],
)
class MyAttention(nn.Module):
    """Multi-head self-attention with a mask."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.output_projection = nn.Linear(d_model, d_model)

    def forward(self, x, may_attend=None, need_weights=True):
        """x (batch, position, d_model); may_attend broadcasts to (batch, n_heads, query_pos, key_pos).

        Returns output (batch, position, d_model), and the weights of all heads, or None unless needed.
        """
        raise NotImplementedError


@MyAttention.cases
def MyAttention(normal):
    yield (
        {"d_model": 6, "n_heads": 2},
        {"x": normal(2, 5, 6), "may_attend": padding(5, 3), "need_weights": True},
    )
    per_head = normal(1, 3, 7, 7) > 0
    per_head |= torch.eye(7, dtype=torch.bool)  # each query sees at least itself
    yield (
        {"d_model": 15, "n_heads": 3},
        {"x": normal(2, 7, 15), "may_attend": per_head, "need_weights": True},
    )
    yield (
        {"d_model": 6, "n_heads": 2},
        {"x": normal(2, 5, 6), "may_attend": padding(2, 5), "need_weights": False},
    )
    yield {"d_model": 6, "n_heads": 2}, {"x": normal(3, 2, 6), "may_attend": None, "need_weights": True}
    # Scores below −100, none of which overflows: only −∞ is low enough.
    yield {"d_model": 6, "n_heads": 2}, {"x": 12 * normal(2, 5, 6), "may_attend": padding(5, 3)}
    yield {"d_model": 6, "n_heads": 3}, {"x": normal(1, 1, 6)}


@MyAttention.specification
class MyAttention(Projections):
    def forward(self, x, may_attend=None, need_weights=True):
        batch, length, _ = x.shape
        q, k, v = self.query_projection(x), self.key_projection(x), self.value_projection(x)
        allowed = torch.ones(batch, self.n_heads, length, length, dtype=torch.bool)
        allowed = allowed if may_attend is None else allowed & may_attend
        weights = torch.zeros(batch, self.n_heads, length, length)
        mixed = torch.zeros_like(x)
        for b in range(batch):
            for h in range(self.n_heads):
                cut = slice(h * self.d_head, (h + 1) * self.d_head)
                for i in range(length):
                    seen = [j for j in range(length) if allowed[b, h, i, j]]
                    scores = [(q[b, i, cut] * k[b, j, cut]).sum() / self.d_head**0.5 for j in seen]
                    grown = [(score - max(scores)).exp() for score in scores]
                    for j, each in zip(seen, grown, strict=True):
                        weights[b, h, i, j] = each / sum(grown)
                        mixed[b, i, cut] += each / sum(grown) * v[b, j, cut]
        return self.output_projection(mixed), weights if need_weights else None


@MyAttention.solution
class MyAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.output_projection = nn.Linear(d_model, d_model)

    def forward(self, x, may_attend=None, need_weights=True):
        projections = self.query_projection, self.key_projection, self.value_projection
        q, k, v = (p(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for p in projections)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if may_attend is not None:
            scores = scores.masked_fill(~may_attend, -math.inf)
        weights = scores.softmax(dim=-1)
        output = self.output_projection((weights @ v).transpose(1, 2).flatten(-2))
        return output, weights if need_weights else None


@MyAttention.alternative
class MyAttention(Projections):
    def forward(self, x, may_attend=None, need_weights=True):
        chunks = [f(x).chunk(self.n_heads, -1) for f in (self.query_projection, self.key_projection)]
        q, k, v = (
            torch.stack(each, 1) for each in (*chunks, self.value_projection(x).chunk(self.n_heads, -1))
        )
        if not need_weights:
            heads = F.scaled_dot_product_attention(q, k, v, attn_mask=may_attend)
            return self.output_projection(torch.cat(heads.unbind(1), -1)), None
        scores = q @ k.mT / self.d_head**0.5
        scores = scores if may_attend is None else torch.where(may_attend, scores, -torch.inf)
        grown = (scores - scores.amax(-1, keepdim=True)).exp()
        weights = grown / grown.sum(-1, keepdim=True)
        return self.output_projection(torch.cat((weights @ v).unbind(1), -1)), weights


class AttentionSteps(Projections):
    """The right answer, step by step: a mistake replaces one of them."""

    def forward(self, x, may_attend=None, need_weights=True):
        q, k, v = (self.split(part) for part in self.project(x))
        weights = self.weigh(self.hide(self.score(q, k), may_attend), may_attend)
        return self.answer(self.finish(self.mix(weights, v)), weights, need_weights)

    def project(self, x):
        return self.query_projection(x), self.key_projection(x), self.value_projection(x)

    def split(self, x):
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def score(self, q, k):
        return q @ k.mT / math.sqrt(self.d_head)

    def hide(self, scores, may_attend):
        return scores if may_attend is None else scores.masked_fill(~may_attend, -math.inf)

    def weigh(self, scores, may_attend):
        return scores.softmax(dim=-1)

    def mix(self, weights, v):
        return (weights @ v).transpose(1, 2).flatten(-2)

    def finish(self, merged):
        return self.output_projection(merged)

    def answer(self, output, weights, need_weights):
        return output, weights if need_weights else None


def attention(**changed):
    """An attention that takes some of the steps otherwise."""
    return type("Wrong", (AttentionSteps,), changed)


def hiding(change):
    """An attention that uses its mask, if there is one, otherwise."""
    return attention(hide=lambda self, scores, mask: scores if mask is None else change(scores, mask))


MyAttention.mistake("mask ignored", attention(hide=lambda self, scores, mask: scores))

MyAttention.mistake(
    "mask upside down",
    hiding(lambda scores, mask: scores.masked_fill(mask, -math.inf)),
    hiding(lambda scores, mask: scores + mask * -1e9),
)

MyAttention.mistake("hidden scores set to 0", hiding(lambda scores, mask: scores * mask))

MyAttention.mistake(
    "hidden scores not low enough",
    *(hiding(lambda scores, mask, low=low: scores.masked_fill(~mask, low)) for low in (-1.0, -10.0, -50.0)),
    *(hiding(lambda scores, mask, low=low: scores.masked_fill(~mask, low)) for low in (-20.0, -100.0)),
    hiding(lambda scores, mask: scores.masked_fill(~mask, 1e-9)),
)

MyAttention.mistake(
    "mask after the softmax",
    attention(
        weigh=lambda self, s, mask: s.softmax(-1) if mask is None else s.softmax(-1) * mask,
        hide=lambda self, scores, mask: scores,
    ),
    attention(
        weigh=lambda self, s, mask: s.softmax(-1) if mask is None else s.softmax(-1) * mask,
        hide=lambda self, scores, mask: scores,
        finish=lambda self, merged: self.output_projection(merged),
    ),
)

MyAttention.mistake(
    "−∞ after the softmax",
    attention(
        hide=lambda self, scores, mask: scores,
        weigh=lambda self, s, mask: AttentionSteps.hide(self, s.softmax(-1), mask),
    ),
)

MyAttention.mistake("mask added as numbers", hiding(lambda scores, mask: scores + mask))

MyAttention.mistake(
    "queries hidden, not keys", hiding(lambda scores, mask: scores.masked_fill(~mask.mT, -math.inf))
)

MyAttention.mistake(
    "the first text's mask for all",
    hiding(lambda scores, mask: scores.masked_fill(~mask[0], -math.inf)),
    hiding(lambda scores, mask: scores.masked_fill(~mask[:1], -math.inf)),
)

MyAttention.mistake(
    "the first head's mask for all",
    hiding(lambda scores, mask: scores.masked_fill(~mask[:, :1], -math.inf)),
    hiding(lambda scores, mask: scores.masked_fill(~mask[:, 0, None], -math.inf)),
)

MyAttention.mistake(
    "only masks of padding understood",
    hiding(lambda scores, mask: scores.masked_fill(~mask[:, :1, :1], -math.inf)),
)

MyAttention.mistake(
    "a mask is always expected",
    attention(hide=lambda self, scores, mask: scores.masked_fill(~mask, -math.inf)),
)

MyAttention.mistake(
    "`if` asked of a tensor",
    attention(hide=lambda self, s, mask: s.masked_fill(~mask, -math.inf) if mask else s),
)

MyAttention.mistake(
    "weights always returned", attention(answer=lambda self, output, weights, needed: (output, weights))
)

MyAttention.mistake(
    "weights never returned", attention(answer=lambda self, output, weights, needed: (output, None))
)

MyAttention.mistake(
    "need_weights upside down",
    attention(answer=lambda self, output, weights, needed: (output, None if needed else weights)),
)

MyAttention.mistake(
    "one result when no weights are needed",
    attention(answer=lambda self, output, weights, needed: (output, weights) if needed else output),
)

MyAttention.mistake("only the output", attention(answer=lambda self, output, weights, needed: output))

MyAttention.mistake(
    "weights averaged over the heads",
    attention(answer=lambda self, output, weights, needed: (output, weights.mean(1) if needed else None)),
)

MyAttention.mistake("no scale", attention(score=lambda self, q, k: q @ k.mT))

MyAttention.mistake(
    "√d_model", attention(score=lambda self, q, k: q @ k.mT / math.sqrt(self.n_heads * self.d_head))
)

MyAttention.mistake("√n_heads", attention(score=lambda self, q, k: q @ k.mT / math.sqrt(self.n_heads)))

MyAttention.mistake(
    "projections exchanged",
    attention(
        project=lambda self, x: (self.key_projection(x), self.query_projection(x), self.value_projection(x))
    ),
    attention(
        project=lambda self, x: (self.query_projection(x), self.value_projection(x), self.key_projection(x))
    ),
)

MyAttention.mistake(
    "query, key and value still expected",
    type(
        "Wrong",
        (AttentionSteps,),
        {"forward": lambda self, query, key, value: cross(self, query, key, value)},
    ),
)


def cross(self, query, key, value):
    """05.5: three inputs, no mask."""
    q, k, v = self.query_projection(query), self.key_projection(key), self.value_projection(value)
    weights = self.score(self.split(q), self.split(k)).softmax(dim=-1)
    return self.finish(self.mix(weights, self.split(v))), weights


MyAttention.mistake(
    "one reshape for the cut",
    attention(split=lambda self, x: x.reshape(len(x), self.n_heads, x.shape[1], -1)),
)

MyAttention.mistake(
    "merged without a transpose", attention(mix=lambda self, w, v: (w @ v).reshape(len(v), v.shape[2], -1))
)

MyAttention.mistake("no output projection", attention(finish=lambda self, merged: merged))

MyAttention.mistake(
    "softmax over the queries", attention(weigh=lambda self, scores, mask: scores.softmax(dim=-2))
)

MyAttention.mistake(
    "x itself as values",
    attention(project=lambda self, x: (self.query_projection(x), self.key_projection(x), x)),
)

MyAttention.mistake(
    "residual added",
    type(
        "Wrong",
        (AttentionSteps,),
        {"forward": lambda self, x, m=None, n=True: added(x, *AttentionSteps.forward(self, x, m, n))},
    ),
)

MyAttention.mistake("plus infinity", hiding(lambda scores, mask: scores.masked_fill(~mask, math.inf)))

MyAttention.mistake("0 times infinity", hiding(lambda scores, mask: scores + ~mask * -math.inf))

MyAttention.mistake(
    "keys set to zero",
    type("Wrong", (AttentionSteps,), {"forward": lambda self, x, m=None, n=True: zeroed(self, x, m, n)}),
)


def zeroed(self, x, may_attend, need_weights):
    """The keys are hidden by zeros."""
    q, k, v = (self.split(part) for part in self.project(x))
    k = k if may_attend is None else k.masked_fill(~may_attend.mT, 0.0)
    weights = self.score(q, k).softmax(dim=-1)
    return self.answer(self.finish(self.mix(weights, v)), weights, need_weights)


# ------------------------------------------------------------------------------------------------------ 08.6


@exercise(
    "08.6",
    "Your feed-forward, with any activation",
    hints=[
        """Up, bend, down: `up_projection` from d_model to d_ff features, the activation, `down_projection`
        back again.""",
        """`activation` is a module that is handed in. Keep it, `self.activation = activation`, and call it
        like a function.""",
    ],
)
class MyFeedForward(nn.Module):
    """Two linear maps with an activation between them, for each token by itself."""

    def __init__(self, d_model, d_ff, activation):
        """activation: a module, for example nn.GELU()

        The linear maps are called up_projection and down_projection.
        """
        raise NotImplementedError

    def forward(self, x):
        """(batch, position, d_model) → (batch, position, d_model)"""
        raise NotImplementedError


@MyFeedForward.cases
def MyFeedForward(normal):
    yield {"d_model": 3, "d_ff": 7, "activation": nn.GELU()}, {"x": normal(2, 5, 3)}
    yield {"d_model": 5, "d_ff": 11, "activation": nn.Tanh()}, {"x": normal(3, 2, 5)}
    yield {"d_model": 2, "d_ff": 3, "activation": nn.ReLU()}, {"x": normal(1, 1, 2)}


@MyFeedForward.specification
class MyFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, activation):
        super().__init__()
        self.up_projection = nn.Linear(d_model, d_ff)
        self.down_projection = nn.Linear(d_ff, d_model)
        self.bend = activation

    def forward(self, x):
        result = torch.zeros_like(x)
        up, down = self.up_projection, self.down_projection
        for b in range(len(x)):
            for position in range(x.shape[1]):
                token = x[b, position]
                hidden = [(up.weight[j] * token).sum() + up.bias[j] for j in range(len(up.weight))]
                bent = self.bend(torch.stack(hidden))
                for f in range(len(down.weight)):
                    result[b, position, f] = (down.weight[f] * bent).sum() + down.bias[f]
        return result


@MyFeedForward.solution
class MyFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, activation):
        super().__init__()
        self.up_projection = nn.Linear(d_model, d_ff)
        self.activation = activation
        self.down_projection = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.down_projection(self.activation(self.up_projection(x)))


@MyFeedForward.alternative
class MyFeedForward(nn.Sequential):
    def __init__(self, width, inner, activation):
        super().__init__()
        self.add_module("up_projection", nn.Linear(width, inner))
        self.add_module("bend", activation)
        self.add_module("down_projection", nn.Linear(inner, width))


class FeedForwardSteps(nn.Module):
    """The right answer: a mistake replaces `forward`."""

    def __init__(self, d_model, d_ff, activation):
        super().__init__()
        self.up_projection = nn.Linear(d_model, d_ff)
        self.activation = activation
        self.down_projection = nn.Linear(d_ff, d_model)


def feed_forward(forward):
    """A feed-forward that computes something else."""
    return type("Wrong", (FeedForwardSteps,), {"forward": forward})


MyFeedForward.mistake(
    "no activation", feed_forward(lambda self, x: self.down_projection(self.up_projection(x)))
)

MyFeedForward.mistake(
    "an activation of your own choice",
    feed_forward(lambda self, x: self.down_projection(self.up_projection(x).relu())),
    feed_forward(lambda self, x: self.down_projection(F.gelu(self.up_projection(x)))),
    feed_forward(lambda self, x: self.down_projection(F.gelu(self.up_projection(x), approximate="tanh"))),
)

MyFeedForward.mistake(
    "activation at the end",
    feed_forward(lambda self, x: self.activation(self.down_projection(self.up_projection(x)))),
)

MyFeedForward.mistake(
    "activation twice",
    feed_forward(
        lambda self, x: self.activation(self.down_projection(self.activation(self.up_projection(x))))
    ),
)

MyFeedForward.mistake(
    "activation first",
    feed_forward(lambda self, x: self.down_projection(self.up_projection(self.activation(x)))),
)

MyFeedForward.mistake(
    "down before up",
    feed_forward(lambda self, x: self.up_projection(self.activation(self.down_projection(x)))),
)


class Exchanged(FeedForwardSteps):
    """The widths of the two maps exchanged."""

    def __init__(self, d_model, d_ff, activation):
        super().__init__(d_ff, d_model, activation)

    def forward(self, x):
        return self.down_projection(self.activation(self.up_projection(x)))


MyFeedForward.mistake("widths exchanged", Exchanged)

MyFeedForward.mistake(
    "residual added",
    feed_forward(lambda self, x: x + self.down_projection(self.activation(self.up_projection(x)))),
)

MyFeedForward.mistake(
    "a pair returned",
    feed_forward(lambda self, x: (self.down_projection(self.activation(self.up_projection(x))), None)),
)

MyFeedForward.mistake(
    "stopped half-way", feed_forward(lambda self, x: self.activation(self.up_projection(x)))
)


class NoBias(FeedForwardSteps):
    """Without biases."""

    def __init__(self, d_model, d_ff, activation):
        super().__init__(d_model, d_ff, activation)
        self.up_projection = nn.Linear(d_model, d_ff, bias=False)
        self.down_projection = nn.Linear(d_ff, d_model, bias=False)


MyFeedForward.mistake("no biases", NoBias)

# ------------------------------------------------------------------------------------------------------ 08.7


@exercise(
    "08.7",
    "Your layer, which hands things on",
    returns=("output", "weights"),
    by_name=("may_attend", "need_weights"),
    hints=[
        """Post-norm: twice "do something, add it to x, normalise". The first something is attention, the
        second the feed-forward.""",
        """Attention returns a pair: `attended, weights = self.attention(x, may_attend=may_attend,
        need_weights=need_weights)`. By name, because other attentions have other things in second
        place.""",
        """`x = self.attention_norm(x + attended)`, and the same once more with what x is now.""",
    ],
)
class MyLayer(nn.Module):
    """A post-norm encoder layer: x = norm(x + part(x)), twice. Its parts are handed in."""

    def __init__(self, attention, feed_forward, attention_norm, feed_forward_norm):
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_norm = attention_norm
        self.feed_forward_norm = feed_forward_norm

    def forward(self, x, may_attend=None, need_weights=True):
        """attention is called as attention(x, may_attend=…, need_weights=…), by name; returns a pair.

        Returns the vectors, (batch, position, d_model), and what attention returned as weights.
        """
        raise NotImplementedError


class PartAttention(nn.Module):
    """Stands in for attention: takes from tokens that are alike and may be seen. Its mask comes by name."""

    def __init__(self, d_model):
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)

    def forward(self, x, *, may_attend=None, need_weights=True):
        length = x.shape[1]
        allowed = torch.ones(len(x), 1, length, length, dtype=torch.bool)
        allowed = allowed if may_attend is None else allowed & may_attend
        weights = (x @ x.mT)[:, None].masked_fill(~allowed, -math.inf).softmax(dim=-1)
        return self.mix(weights[:, 0] @ x), weights if need_weights else None

    def __repr__(self):
        return "(an attention)"


class PartFeedForward(nn.Module):
    """Stands in for a feed-forward."""

    def __init__(self, d_model):
        super().__init__()
        self.map = nn.Linear(d_model, d_model)

    def forward(self, x):
        return torch.tanh(self.map(x))

    def __repr__(self):
        return "(a feed-forward)"


class PartNorm(nn.LayerNorm):
    """A layer norm with a short name."""

    def __repr__(self):
        return "(a norm)"


@MyLayer.cases
def MyLayer(normal):
    for d_model, shape, mask, needed in [
        (5, (2, 7), padding(7, 3), True),
        (3, (2, 5), padding(4, 5), False),
        (7, (3, 2), None, True),
        (3, (1, 1), ..., ...),  # left to their defaults
        (5, (2, 3), padding(2, 3), ...),
    ]:
        parts = {
            "attention": PartAttention(d_model),
            "feed_forward": PartFeedForward(d_model),
            "attention_norm": PartNorm(d_model, eps=0.1),
            "feed_forward_norm": PartNorm(d_model, eps=0.2),
        }
        given = {"x": normal(*shape, d_model), "may_attend": mask, "need_weights": needed}
        yield parts, {name: value for name, value in given.items() if value is not ...}


class Parts(nn.Module):
    """The four parts that every answer has."""

    def __init__(self, attention, feed_forward, attention_norm, feed_forward_norm):
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_norm = attention_norm
        self.feed_forward_norm = feed_forward_norm


@MyLayer.specification
class MyLayer(Parts):
    def forward(self, x, may_attend=None, need_weights=True):
        attended, weights = self.attention(x, may_attend=may_attend, need_weights=need_weights)
        middle = self.each(x, attended, self.attention_norm)
        return self.each(middle, self.feed_forward(middle), self.feed_forward_norm), weights

    def each(self, x, update, norm):
        """Token by token: add, then shift and scale to mean 0 and variance 1."""
        result = torch.zeros_like(x)
        for b in range(len(x)):
            for position in range(x.shape[1]):
                token = [p + q for p, q in zip(x[b, position], update[b, position], strict=True)]
                mean = sum(token) / len(token)
                variance = sum((number - mean) ** 2 for number in token) / len(token)
                for f, number in enumerate(token):
                    shifted = (number - mean) / (variance + norm.eps) ** 0.5
                    result[b, position, f] = shifted * norm.weight[f] + norm.bias[f]
        return result


@MyLayer.solution
class MyLayer(nn.Module):
    def __init__(self, attention, feed_forward, attention_norm, feed_forward_norm):
        super().__init__()
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_norm = attention_norm
        self.feed_forward_norm = feed_forward_norm

    def forward(self, x, may_attend=None, need_weights=True):
        attended, weights = self.attention(x, may_attend=may_attend, need_weights=need_weights)
        x = self.attention_norm(x + attended)
        x = self.feed_forward_norm(x + self.feed_forward(x))
        return x, weights


@MyLayer.alternative
class MyLayer(Parts):
    def forward(self, stream, may_attend=None, need_weights=True):
        result = self.attention(stream, need_weights=need_weights, may_attend=may_attend)
        first = self.attention_norm(torch.add(stream, result[0]))
        return [self.feed_forward_norm(torch.add(self.feed_forward(first), first)), result[1]]


class LayerSteps(Parts):
    """The right answer, step by step: a mistake replaces one of them."""

    def forward(self, x, may_attend=None, need_weights=True):
        attended, weights = self.attend(x, may_attend, need_weights)
        middle = self.first(x, attended)
        return self.answer(self.second(x, middle), weights)

    def attend(self, x, may_attend, need_weights):
        return self.attention(x, may_attend=may_attend, need_weights=need_weights)

    def first(self, x, attended):
        return self.attention_norm(x + attended)

    def second(self, x, middle):
        return self.feed_forward_norm(middle + self.feed_forward(middle))

    def answer(self, x, weights):
        return x, weights


def layer(**changed):
    """A layer that takes some of the steps otherwise."""
    return type("Wrong", (LayerSteps,), changed)


def whole_layer(forward):
    """A layer with another `forward`."""
    return type("Wrong", (Parts,), {"forward": forward})


MyLayer.mistake(
    "mask not handed on", layer(attend=lambda self, x, mask, needed: self.attention(x, need_weights=needed))
)

MyLayer.mistake(
    "need_weights not handed on",
    layer(attend=lambda self, x, mask, needed: self.attention(x, may_attend=mask)),
)

MyLayer.mistake("nothing handed on", layer(attend=lambda self, x, mask, needed: self.attention(x)))

MyLayer.mistake(
    "handed on by position",
    layer(attend=lambda self, x, mask, needed: self.attention(x, mask, needed)),
    layer(attend=lambda self, x, mask, needed: self.attention(x, mask, need_weights=needed)),
    layer(attend=lambda self, x, mask, needed: self.attention(x, mask)),
)

MyLayer.mistake(
    "the mask inverted on the way",
    layer(
        attend=lambda self, x, mask, needed: self.attention(
            x, may_attend=mask if mask is None else ~mask, need_weights=needed
        )
    ),
)

MyLayer.mistake(
    "the pair not taken apart",
    whole_layer(lambda self, x, mask=None, needed=True: paired(self, x, mask, needed)),
    layer(first=lambda self, x, attended: self.attention_norm(torch.add(x, (attended, None)))),
)


def paired(self, x, mask, needed):
    """The pair is added to x."""
    middle = self.attention_norm(x + self.attention(x, may_attend=mask, need_weights=needed))
    return self.feed_forward_norm(middle + self.feed_forward(middle)), None


MyLayer.mistake("only the output", layer(answer=lambda self, x, weights: x))

MyLayer.mistake(
    "weights thrown away",
    layer(answer=lambda self, x, weights: (x, None)),
    layer(attend=lambda self, x, mask, needed: self.attention(x, may_attend=mask, need_weights=False)),
)

MyLayer.mistake("results in the wrong order", layer(answer=lambda self, x, weights: (weights, x)))

MyLayer.mistake(
    "pre-norm", whole_layer(lambda self, x, mask=None, needed=True: pre_norm(self, x, mask, needed))
)


def pre_norm(self, x, mask, needed):
    """The norms before the parts."""
    attended, weights = self.attention(self.attention_norm(x), may_attend=mask, need_weights=needed)
    x = x + attended
    return x + self.feed_forward(self.feed_forward_norm(x)), weights


MyLayer.mistake(
    "the part normalised, not the sum",
    layer(
        first=lambda self, x, attended: x + self.attention_norm(attended),
        second=lambda self, x, m: m + self.feed_forward_norm(self.feed_forward(m)),
    ),
    layer(first=lambda self, x, attended: x + self.attention_norm(attended)),
    layer(second=lambda self, x, m: m + self.feed_forward_norm(self.feed_forward(m))),
)

MyLayer.mistake(
    "x normalised, not the sum",
    layer(
        first=lambda self, x, attended: self.attention_norm(x) + attended,
        second=lambda self, x, m: self.feed_forward_norm(m) + self.feed_forward(m),
    ),
)

MyLayer.mistake(
    "no feed-forward",
    layer(second=lambda self, x, m: self.feed_forward_norm(m)),
    layer(second=lambda self, x, m: m),
)

MyLayer.mistake(
    "no residual around attention", layer(first=lambda self, x, attended: self.attention_norm(attended))
)

MyLayer.mistake(
    "no residual around the feed-forward",
    layer(second=lambda self, x, m: self.feed_forward_norm(self.feed_forward(m))),
)

MyLayer.mistake(
    "no residuals",
    layer(
        first=lambda self, x, attended: self.attention_norm(attended),
        second=lambda self, x, m: self.feed_forward_norm(self.feed_forward(m)),
    ),
)

MyLayer.mistake(
    "the layer's input added twice",
    layer(second=lambda self, x, m: self.feed_forward_norm(x + self.feed_forward(m))),
)

MyLayer.mistake(
    "both parts get the layer's input",
    layer(second=lambda self, x, m: self.feed_forward_norm(m + self.feed_forward(x))),
    layer(second=lambda self, x, m: self.feed_forward_norm(x + self.feed_forward(x))),
)

MyLayer.mistake(
    "norms exchanged",
    layer(
        first=lambda self, x, attended: self.feed_forward_norm(x + attended),
        second=lambda self, x, m: self.attention_norm(m + self.feed_forward(m)),
    ),
)

MyLayer.mistake(
    "one norm in both places",
    layer(first=lambda self, x, attended: self.feed_forward_norm(x + attended)),
    layer(second=lambda self, x, m: self.attention_norm(m + self.feed_forward(m))),
)

MyLayer.mistake("no norm in between", layer(first=lambda self, x, attended: x + attended))

MyLayer.mistake("no norm at the end", layer(second=lambda self, x, m: m + self.feed_forward(m)))

MyLayer.mistake(
    "no norms",
    layer(
        first=lambda self, x, attended: x + attended,
        second=lambda self, x, m: m + self.feed_forward(m),
    ),
)

MyLayer.mistake(
    "one result when no weights are needed",
    type(
        "Wrong",
        (LayerSteps,),
        {"forward": lambda self, x, mask=None, needed=True: alone(self, x, mask, needed)},
    ),
)


def alone(self, x, mask, needed):
    """A pair only where weights are needed."""
    pair = LayerSteps.forward(self, x, mask, needed)
    return pair if needed else pair[0]


MyLayer.mistake(
    "query, key and value handed in",
    layer(attend=lambda self, x, mask, needed: self.attention(x, x, x, may_attend=mask, need_weights=needed)),
)

MyLayer.mistake(
    "weights of another call",
    layer(forward=lambda self, x, mask=None, needed=True: called_twice(self, x, mask, needed)),
)


def called_twice(self, x, mask, needed):
    """The weights are those of the output, not of the input."""
    x, _ = LayerSteps.forward(self, x, mask, needed)
    return x, self.attention(x, may_attend=mask, need_weights=needed)[1]


# ------------------------------------------------------------------------------------------------------ 08.8


class FactoryExercise(ModuleExercise):
    """The learner writes a function that builds a module, which is given seeded parameters and called."""

    kind = "a function that builds a module"

    def accepts(self, answer):
        return callable(answer)

    def build(self, answer, settings):
        earlier, module = super().build(answer, settings), super().build(answer, settings)
        for made in (earlier, module):
            if not isinstance(made, nn.Module):
                count = f" of {len(made)}" if isinstance(made, tuple | list) else ""
                raise TypeError(f"{self.name} returns a {type(made).__name__}{count}, wanted one module")
        if {*map(id, earlier.parameters())} & {*map(id, module.parameters())}:
            raise ValueError(f"{self.name}, called twice, returns shared parameters, wanted new ones")
        return module

    def describe(self, case):
        config = case[0]["config"]
        names = ["d_model", "n_heads", "d_ff", "activation", "norm_eps"]
        sizes = ", ".join(f"{name}={getattr(config, name)}" for name in names)
        return f"{self.name} with {sizes}"


def make_layer(config, Attention, FeedForward, Layer):
    """Build one layer as `config` says: Layer(attention, feed-forward, norm, norm), every part new.

    config: an EncoderConfig; config.activation is "relu" or "gelu" (the exact one)
    Attention, FeedForward, Layer: classes with the interfaces of 08.5, 08.6 and 08.7
    """
    raise NotImplementedError


make_layer = FactoryExercise(
    "08.8",
    "Assemble them",
    "make_layer",
    source.text_of(make_layer),
    [
        """Four parts: `Attention(config.d_model, config.n_heads)`, a feed-forward, and two layer norms. What
        does `FeedForward` want beside d_model and d_ff?""",
        """A norm is `nn.LayerNorm(config.d_model, eps=config.norm_eps)`. Build it twice: one module in both
        places would be one set of parameters.""",
        """`{"relu": nn.ReLU, "gelu": nn.GELU}[config.activation]` is a class; with `()` behind it, it is a
        module.""",
    ],
    returns=("output", "weights"),
)


@make_layer.cases
def make_layer(normal):
    for d_model, n_heads, d_ff, activation, eps in [(6, 2, 11, "gelu", 0.1), (15, 3, 7, "relu", 0.2)]:
        config = EncoderConfig(
            5, d_model, n_heads, d_ff, 3, activation=activation, norm_eps=eps, positions="none"
        )
        parts = {"config": config, "Attention": ATTENTION, "FeedForward": FEED_FORWARD, "Layer": LAYER}
        yield parts, {"x": normal(2, 5, d_model), "may_attend": padding(5, 3), "need_weights": True}


# The parts that are handed in: answers to the exercises above.
ATTENTION, FEED_FORWARD, LAYER = AttentionSteps, MyFeedForward.reference, LayerSteps


@make_layer.specification
def make_layer(config, Attention, FeedForward, Layer):
    bend = nn.GELU() if config.activation == "gelu" else nn.ReLU()
    attention = Attention(config.d_model, config.n_heads)
    feed_forward = FeedForward(config.d_model, config.d_ff, bend)
    first_norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
    second_norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
    return Layer(attention, feed_forward, first_norm, second_norm)


@make_layer.solution
def make_layer(config, Attention, FeedForward, Layer):
    activation = {"relu": nn.ReLU, "gelu": nn.GELU}[config.activation]()
    return Layer(
        Attention(config.d_model, config.n_heads),
        FeedForward(config.d_model, config.d_ff, activation),
        nn.LayerNorm(config.d_model, eps=config.norm_eps),
        nn.LayerNorm(config.d_model, eps=config.norm_eps),
    )


@make_layer.alternative
def make_layer(c, A, FF, L):
    norms = [nn.LayerNorm((c.d_model,), c.norm_eps) for _ in range(2)]
    bend = nn.ReLU()
    if c.activation != "relu":
        bend = nn.GELU(approximate="none")
    return L(A(c.d_model, c.n_heads), FF(c.d_model, c.d_ff, bend), *norms)


def made(
    *, width=lambda c: c.d_model, heads=lambda c: c.n_heads, inner=lambda c: c.d_ff,
    bend=lambda c: {"relu": nn.ReLU, "gelu": nn.GELU}[c.activation](),
    norms=lambda c: [nn.LayerNorm(c.d_model, eps=c.norm_eps) for _ in range(2)],
    finish=lambda Layer, attention, feed_forward, norms: Layer(attention, feed_forward, *norms),
):  # fmt: skip
    """The right answer but for some of its parts."""
    return lambda c, A, FF, L: finish(L, A(width(c), heads(c)), FF(c.d_model, inner(c), bend(c)), norms(c))


make_layer.mistake(
    "eps not from the config",
    made(norms=lambda c: [nn.LayerNorm(c.d_model, eps=1e-12) for _ in range(2)]),
    made(norms=lambda c: [nn.LayerNorm(c.d_model, eps=1e-6) for _ in range(2)]),
    made(norms=lambda c: [nn.LayerNorm(c.d_model, eps=c.norm_eps), nn.LayerNorm(c.d_model)]),
    made(norms=lambda c: [nn.LayerNorm(c.d_model), nn.LayerNorm(c.d_model, eps=c.norm_eps)]),
    made(norms=lambda c: [nn.LayerNorm(c.d_model) for _ in range(2)]),
)

make_layer.mistake(
    "always the same activation", made(bend=lambda c: nn.ReLU()), made(bend=lambda c: nn.GELU())
)

make_layer.mistake(
    "activations exchanged", made(bend=lambda c: nn.ReLU() if c.activation == "gelu" else nn.GELU())
)

make_layer.mistake(
    "GELU's approximation", made(bend=lambda c: nn.GELU("tanh") if c.activation == "gelu" else nn.ReLU())
)

make_layer.mistake(
    "an activation that is not built", made(bend=lambda c: {"relu": nn.ReLU, "gelu": nn.GELU}[c.activation])
)

make_layer.mistake("the name of the activation", made(bend=lambda c: c.activation))

make_layer.mistake(
    "one norm in both places", made(norms=lambda c: [nn.LayerNorm(c.d_model, eps=c.norm_eps)] * 2)
)

make_layer.mistake(
    "norms without parameters",
    made(norms=lambda c: [nn.LayerNorm(c.d_model, c.norm_eps, elementwise_affine=False) for _ in range(2)]),
)

make_layer.mistake(
    "norms of another width",
    made(norms=lambda c: [nn.LayerNorm(w, eps=c.norm_eps) for w in (c.d_model, c.d_ff)]),
    made(norms=lambda c: [nn.LayerNorm(w, eps=c.norm_eps) for w in (c.d_ff, c.d_ff)]),
    made(norms=lambda c: [nn.LayerNorm(c.d_head, eps=c.norm_eps) for _ in range(2)]),
)

make_layer.mistake(
    "d_ff guessed",
    made(inner=lambda c: 4 * c.d_model),
    made(inner=lambda c: 2 * c.d_model),
    made(inner=lambda c: c.d_model),
)

make_layer.mistake("d_head for n_heads", made(heads=lambda c: c.d_head))

make_layer.mistake("a single head", made(heads=lambda c: 1))

make_layer.mistake(
    "parts in another order",
    made(finish=lambda L, attention, feed_forward, norms: L(feed_forward, attention, *norms)),
    made(finish=lambda L, attention, feed_forward, norms: L(attention, norms[0], feed_forward, norms[1])),
    made(finish=lambda L, attention, feed_forward, norms: L(*norms, attention, feed_forward)),
)

make_layer.mistake(
    "the parts, not a layer",
    made(finish=lambda L, attention, feed_forward, norms: (attention, feed_forward, *norms)),
    made(finish=lambda L, attention, feed_forward, norms: [attention, feed_forward, *norms]),
)

make_layer.mistake(
    "all layers at once",
    lambda c, A, FF, L: [made()(c, A, FF, L) for _ in range(c.n_layers)],
    lambda c, A, FF, L: nn.ModuleList(made()(c, A, FF, L) for _ in range(c.n_layers)),
)

kept = {}
make_layer.mistake(
    "a layer kept for the next call",
    lambda c, A, FF, L: kept.setdefault(c, made()(c, A, FF, L)),
    made(
        norms=lambda c: kept.setdefault(c.d_ff, [nn.LayerNorm(c.d_model, eps=c.norm_eps) for _ in range(2)])
    ),
)

make_layer.mistake(
    "classes, not parts",
    lambda c, A, FF, L: L(A, FF, *(nn.LayerNorm(c.d_model, eps=c.norm_eps) for _ in range(2))),
    lambda c, A, FF, L: L(A, FF, *(nn.LayerNorm(c.d_model) for _ in range(2))),
    lambda c, A, FF, L: L(A, FF, nn.LayerNorm, nn.LayerNorm),
)
