"""Lesson 08: independent and alternative answers to its exercises."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.course.answers import alternative, independent, on_meta, parameter_count
from transformer_lab import Encoder, EncoderConfig, mean_pool


@alternative("08.1")
@independent("08.1")
def other_token_vectors(ids, vectors, positions):
    one_hot = F.one_hot(ids, len(vectors)).to(vectors.dtype)
    place = torch.arange(ids.shape[1]).expand_as(ids)
    return (one_hot @ vectors).mul(len(vectors.T) ** 0.5) + F.embedding(place, positions)


@independent("08.2")
def independent_make_layer(config, Attention, FeedForward, Layer):
    bend = nn.GELU() if config.activation == "gelu" else nn.ReLU()
    attention = Attention(config.d_model, config.n_heads)
    feed_forward = FeedForward(config.d_model, config.d_ff, bend)
    first_norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
    second_norm = nn.LayerNorm(config.d_model, eps=config.norm_eps)
    return Layer(attention, feed_forward, first_norm, second_norm)


@alternative("08.2")
def other_make_layer(c, A, FF, L):
    norms = [nn.LayerNorm((c.d_model,), c.norm_eps) for _ in range(2)]
    bend = nn.ReLU()
    if c.activation != "relu":
        bend = nn.GELU(approximate="none")
    return L(A(c.d_model, c.n_heads), FF(c.d_model, c.d_ff, bend), *norms)


@independent("08.3")
class IndependentMyEncoder(nn.Module):
    def __init__(self, vocab_size, max_length, d_model, n_layers, make_layer, embedding_norm, final_norm):
        super().__init__()
        self.embedding_norm, self.final_norm = embedding_norm, final_norm
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(max_length, d_model)
        self.layers = nn.ModuleList()
        for _ in range(n_layers):
            self.layers.append(make_layer())

    def forward(self, token_ids, may_attend=None):
        tokens, places = self.embedding.weight, self.positions.weight
        texts = [tokens[text] + places[: len(text)] for text in token_ids]
        x, every = torch.stack([self.embedding_norm(text) for text in texts]), []
        for number in range(len(self.layers)):
            x, weights = self.layers[number](x, may_attend=may_attend)
            every.append(weights)
        return self.final_norm(x), every


@alternative("08.3")
class OtherMyEncoder(nn.Module):
    def __init__(self, n_tokens, n_places, width, depth, make, norm_in, norm_out):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(n_tokens, width), nn.Embedding(n_places, width)
        self.layers = nn.Sequential(*(make() for _ in range(depth)))
        self.embedding_norm, self.final_norm = norm_in, norm_out

    def forward(self, ids, **mask):
        stream = self.embedding_norm(self.positions.weight[: ids.size(1)] + self.embedding.weight[ids])
        results = [(stream, None)]
        for layer in self.layers:
            results.append(layer(results[-1][0], **mask))
        return self.final_norm(results[-1][0]), [weights for _, weights in results[1:]]


@independent("08.4")
@on_meta
def independent_count_parameters(
    vocab_size, d_model, n_heads, d_ff, n_layers, max_length, learned, norm_first
):
    sizes = (vocab_size, d_model, n_heads, d_ff, n_layers, max_length)
    positions = "learned" if learned else "none"
    return parameter_count(Encoder(EncoderConfig(*sizes, positions=positions, norm_first=norm_first)))


@alternative("08.4")
def other_count_parameters(v, d, h, f, n, m, learned, pre):
    return d * (v + m * learned + 2 * pre) + n * (4 * d * d + 9 * d + (2 * d + 1) * f)


@independent("08.5")
class IndependentTextHead(nn.Module):
    def __init__(self, d_model, n_classes):
        super().__init__()
        self.projection = nn.Linear(d_model, n_classes)

    def forward(self, hidden, may_attend=None):
        return self.projection(mean_pool(hidden, may_attend))


@alternative("08.5")
class OtherTextHead(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.projection = nn.Linear(width, classes)

    def forward(self, x, may_attend=None):
        every = torch.ones(len(x), x.shape[1], dtype=torch.bool)
        real = every if may_attend is None else may_attend.flatten(1)
        each = self.projection(x)  # a linear map of the mean is the mean of the linear maps
        return torch.stack([scores[kept].mean(0) for scores, kept in zip(each, real, strict=True)])
