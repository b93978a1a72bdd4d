"""Exercises of lesson 08."""

import math

import torch
from torch import nn

from transformer_course.checker import exercise
from transformer_course.checker.exercise_types import ModuleExercise
from transformer_lab.encoder import EncoderConfig
from transformer_lab.encoder_layer import EncoderLayer
from transformer_lab.multi_head_attention import MultiHeadAttention


@exercise("08.1")
def token_vectors(token_ids, vectors, positions):
    """Return the input of the first layer: token vectors times √d_model, plus position vectors.

    token_ids: (batch, position), integers below vocab_size
    vectors: (vocab_size, d_model), the embedding table, one row for each token
    positions: (max_length, d_model), one row for each position, counted from 0
    returns (batch, position, d_model)
    """
    length, d_model = token_ids.shape[1], vectors.shape[-1]
    x = vectors[token_ids] * math.sqrt(d_model)  # (batch, position, d_model)
    return x + positions[:length]


@token_vectors.cases
def token_vectors_cases(normal):
    # No id is the largest one; there are at least as many positions as ids.
    ids = torch.tensor([[3, 1, 4], [1, 5, 2]])
    yield {"token_ids": ids, "vectors": normal(7, 5), "positions": normal(11, 5)}
    ids = torch.tensor([[0, 3], [2, 2], [1, 0]])
    yield {"token_ids": ids, "vectors": normal(5, 3), "positions": normal(7, 3)}
    # One token, by hand: 2 · (1, 2, 3, 4) + (10, 20, 30, 40).
    vectors = torch.stack([torch.zeros(4), torch.arange(1.0, 5), torch.ones(4)])
    positions = torch.outer(torch.tensor([10.0, 1.0]), torch.arange(1.0, 5))
    yield {"token_ids": torch.tensor([[1]]), "vectors": vectors, "positions": positions}


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


@exercise("08.2", kind=FactoryExercise, returns=("output", "weights"))
def make_layer(config, Attention, FeedForward, Layer):
    """Build one layer as `config` describes it. Every part is new; the norms are PyTorch's.

    config: an EncoderConfig; a layer needs its d_model, n_heads, d_ff, norm_eps and activation
        ("relu" or "gelu", the exact GELU)
    Attention, FeedForward, Layer: classes, called like those of 05.4, 06.2 and 07.3
    """
    activation = {"relu": nn.ReLU, "gelu": nn.GELU}[config.activation]()
    return Layer(
        Attention(config.d_model, config.n_heads),
        FeedForward(config.d_model, config.d_ff, activation),
        nn.LayerNorm(config.d_model, eps=config.norm_eps),
        nn.LayerNorm(config.d_model, eps=config.norm_eps),
    )


def other(Part, factor):
    """A class with the same interface that does something else: whoever builds another is found out."""

    class Other(Part):
        def forward(self, x, *more, **how):
            return super().forward(factor * x, *more, **how)

    return Other


class InARow(nn.Sequential):
    """A right feed-forward; as a Sequential it takes no activation that is not a module."""

    def __init__(self, d_model: int, d_ff: int, activation: nn.Module) -> None:
        super().__init__()
        self.add_module("up_projection", nn.Linear(d_model, d_ff))
        self.add_module("activation", activation)
        self.add_module("down_projection", nn.Linear(d_ff, d_model))


@make_layer.cases
def make_layer_cases(normal):
    plain = {"Attention": MultiHeadAttention, "FeedForward": InARow, "Layer": EncoderLayer}
    parts = dict(plain)
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


@exercise("08.3", difficulty=2, returns=("output", "weights"), keyword_arguments=("may_attend",))
class MyEncoder(nn.Module):
    """Token ids in, contextual embeddings out. Both norms are passed in; make_layer() builds a layer."""

    def __init__(self, vocab_size, max_length, d_model, n_layers, make_layer, embedding_norm, final_norm):
        super().__init__()
        self.embedding_norm, self.final_norm = embedding_norm, final_norm
        # yours:
        # self.embedding, self.positions, self.layers: a real model's weights are loaded by these names
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(max_length, d_model)
        self.layers = nn.ModuleList(make_layer() for _ in range(n_layers))

    def forward(self, token_ids, may_attend=None):
        """Return the output, (batch, position, d_model), and a list of every layer's attention weights.

        token_ids: (batch, position)
        Call a layer as layer(x, may_attend=…); it returns its output and its attention weights.
        """
        places = torch.arange(token_ids.shape[1], device=token_ids.device)
        x = self.embedding(token_ids) + self.positions(places)  # (batch, position, d_model)
        x = self.embedding_norm(x)
        every = []
        for layer in self.layers:
            x, weights = layer(x, may_attend=may_attend)
            every.append(weights)
        return self.final_norm(x), every


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


class PartNorm(nn.LayerNorm):
    """A layer norm with a short name."""

    def __repr__(self):
        return "(a norm)"


@MyEncoder.cases
def my_encoder_cases(normal):
    ids = torch.tensor([[3, 1, 4, 1, 5], [2, 6, 1, 0, 0]])
    for d_model, n_layers, given in ((5, 3, padding(5, 3)), (7, 2, padding(2, 5)), (3, 1, None), (3, 2, ...)):
        settings = {"vocab_size": 11, "max_length": 7, "d_model": d_model, "n_layers": n_layers}
        settings["make_layer"] = BuildLayer(d_model)
        settings["embedding_norm"] = PartNorm(d_model, eps=0.1)
        settings["final_norm"] = PartNorm(d_model, eps=0.2) if n_layers == 2 else nn.Identity()
        yield settings, {"token_ids": ids} | ({} if given is ... else {"may_attend": given})
    settings = {"vocab_size": 5, "max_length": 3, "d_model": 2, "n_layers": 1, "make_layer": BuildLayer(2)}
    settings |= {"embedding_norm": nn.Identity(), "final_norm": nn.Identity()}
    yield settings, {"token_ids": torch.tensor([[4, 0, 4]])}  # as long as may be


@exercise("08.4")
def count_parameters(vocab_size, d_model, n_heads, d_ff, n_layers, max_length, learned, norm_first):
    """Return the number of parameters of an encoder. Every linear layer has a bias.

    learned: True for a trained table of max_length positions, False for the sinusoidal one
    norm_first: True for pre-norm layers, which are followed by one more layer norm at the end
    returns an int
    """
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    norm = 2 * d_model
    total = vocab_size * d_model + n_layers * (attention + feed_forward + 2 * norm)
    if learned:
        total += max_length * d_model
    return total + norm if norm_first else total


@count_parameters.cases
def count_parameters_cases(normal):
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


@exercise("08.5", keyword_arguments=("may_attend",))
class TextHead(nn.Module):
    """A sequence classification head: the mean of the real tokens, then one linear layer."""

    def __init__(self, d_model, n_classes):
        super().__init__()
        self.projection = nn.Linear(d_model, n_classes)
        # yours:

    def forward(self, hidden, may_attend=None):
        """Return the logits, (batch, n_classes).

        hidden: (batch, position, d_model), the output of an encoder, padding included
        may_attend: (batch, 1, 1, position), True for a real token; None if all tokens are real
        Every sequence has at least one real token.
        """
        if may_attend is None:
            return self.projection(hidden.mean(dim=1))
        real = may_attend[:, 0, 0, :, None]  # (batch, position, 1)
        mean = (hidden * real).sum(dim=1) / real.sum(dim=1)
        return self.projection(mean)


@TextHead.cases
def text_head_cases(normal):
    yield {"d_model": 5, "n_classes": 3}, {"hidden": normal(2, 7, 5), "may_attend": padding(7, 4)}
    left = padding(3, 5, 1).flip(-1)  # the padding may stand in front
    yield {"d_model": 3, "n_classes": 2}, {"hidden": normal(3, 5, 3), "may_attend": left}
    yield {"d_model": 3, "n_classes": 7}, {"hidden": normal(2, 3, 3), "may_attend": None}
    yield {"d_model": 3, "n_classes": 2}, {"hidden": normal(1, 5, 3), "may_attend": padding(5, 2)[1:]}
    yield {"d_model": 3, "n_classes": 2}, {"hidden": normal(1, 1, 3)}
