"""Exercises of lesson 08."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from transformer_course.checker import exercise, source
from transformer_course.checker.kinds import ModuleExercise
from transformer_course.checker.parts import Projections
from transformer_lab.encoder import EncoderConfig
from transformer_lab.encoder_layer import EncoderLayer  # noqa: F401  what a wrong answer of the guide builds
from transformer_lab.multi_head_attention import MultiHeadAttention  # noqa: F401  and this

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


# ------------------------------------------------------------------------------------------------------ 08.3


@exercise(
    "08.3",
    "Stack the layers",
    returns=("output", "weights"),
    by_name=("may_attend",),
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


def likeness(x, may_attend):
    """(batch, 1, query_pos, key_pos): how much each token takes from those that it may see."""
    scores = (x @ x.mT)[:, None]
    allowed = torch.tensor(True) if may_attend is None else may_attend
    return scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)


class SmallLayer(nn.Module):
    """Stands in for an encoder layer: each token takes from those that are like it, and that it may see."""

    def __init__(self, d_model):
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)

    def forward(self, x, *, may_attend=None):
        weights = likeness(x, may_attend)
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

    def forward(self, stream, may_attend=None):
        pairs = [(stream, None)]
        for layer in self.layers:
            pairs += [layer(pairs[-1][0], may_attend=may_attend)]
        return self.final_norm(pairs[-1][0]), tuple(weights for _, weights in pairs[1:])


# ------------------------------------------------------------------------------------------------------ 08.4


@exercise(
    "08.4",
    "A head for a whole text",
    by_name=("may_attend",),
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

    def forward(self, x, may_attend=None):
        every = torch.ones(len(x), x.shape[1], dtype=torch.bool)
        real = every if may_attend is None else may_attend.flatten(1)
        each = self.projection(x)  # a linear map of the mean is the mean of the linear maps
        return torch.stack([scores[kept].mean(0) for scores, kept in zip(each, real, strict=True)])


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


# Without a `def`, the error about a missing argument names another function.
@MyAttention.mistake("query, key and value still expected")
class MyAttention(Projections):
    def forward(self, query, key, value):
        return self.key_projection(key)


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


class InARow(nn.Sequential):
    """Another right answer; as a Sequential it takes no activation that is not a module."""

    def __init__(self, d_model, d_ff, activation):
        super().__init__()
        self.add_module("up_projection", nn.Linear(d_model, d_ff))
        self.add_module("bend", activation)
        self.add_module("down_projection", nn.Linear(d_ff, d_model))


MyFeedForward.alternative(InARow)


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
        weights = likeness(x, may_attend)
        output = self.mix(weights[:, 0] @ x)
        return (output, weights) if need_weights else (2 * output, None)  # whether it was told shows

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

    config: an EncoderConfig; a layer needs its d_model, n_heads, d_ff, norm_eps and activation
        ("relu" or "gelu", the exact one)
    Attention, FeedForward, Layer: classes with the interfaces of 08.5, 08.6 and 08.7
    """
    raise NotImplementedError


make_layer = FactoryExercise(
    "08.8",
    "Assemble them (stretch)",
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


def other(Part, factor):
    """A class with the same interface that does something else: whoever builds another is found out."""

    class Other(Part):
        def forward(self, x, *more, **how):
            return super().forward(factor * x, *more, **how)

    return Other


@make_layer.cases
def make_layer(normal):
    answers = {"Attention": MyAttention, "FeedForward": MyFeedForward, "Layer": MyLayer}
    plain = {name: exercise.reference for name, exercise in answers.items()}
    parts = {**plain, "FeedForward": InARow}
    others = {name: other(part, factor) for factor, (name, part) in enumerate(parts.items(), 2)}
    for parts, d_model, n_heads, d_ff, activation, eps in [
        (plain, 6, 2, 11, "gelu", 0.1),
        (others, 15, 3, 7, "relu", 0.2),
    ]:
        config = EncoderConfig(
            5, d_model, n_heads, d_ff, 3, activation=activation, norm_eps=eps, positions="none"
        )
        inputs = {"x": normal(2, 5, d_model), "may_attend": padding(5, 3), "need_weights": True}
        yield {"config": config, **parts}, inputs


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


def building(Attention=None, FeedForward=None, Layer=None):
    """A wrong answer that builds these classes, whatever is handed in."""
    own = {"Attention": Attention, "FeedForward": FeedForward, "Layer": Layer}
    own = {name: exercise.reference for name, exercise in own.items() if exercise}

    def build(config, Attention, FeedForward, Layer):
        handed = {"Attention": Attention, "FeedForward": FeedForward, "Layer": Layer}
        return make_layer.reference(config, **{**handed, **own})

    return build


make_layer.mistake(
    "classes of your own, not those handed in",
    building(FeedForward=MyFeedForward),
    building(Attention=MyAttention, FeedForward=MyFeedForward),
    building(Attention=MyAttention, Layer=MyLayer),
    building(FeedForward=MyFeedForward, Layer=MyLayer),
    building(MyAttention, MyFeedForward, MyLayer),
)
