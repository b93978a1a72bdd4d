"""Lesson 09: independent and alternative answers to its exercises."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import alternative, independent
from transformer_course.exercises.pretrained_encoder import PARTS, layer_state
from transformer_lab import EncoderLayer, FeedForward, MultiHeadAttention, mean_pool
from transformer_lab.pretrained_encoder import parameter_names


@independent("09.1")
def independent_encoder_state(published, n_layers):
    state = {ours: published[theirs] for ours, theirs in parameter_names(n_layers).items()}
    segments = published["embeddings.token_type_embeddings.weight"]
    state["positions.weight"] = torch.stack([place + segments[0] for place in state["positions.weight"]])
    return state


@alternative("09.1")
def other_encoder_state(published, n_layers):
    state = {}
    for theirs, ours in [("word_embeddings", "embedding"), ("position_embeddings", "positions")]:
        state[f"{ours}.weight"] = published[f"embeddings.{theirs}.weight"].clone()
    state["embedding.weight"] += published["embeddings.token_type_embeddings.weight"][:1]  # as good there
    for name, tensor in published.items():
        if name.startswith("embeddings.LayerNorm"):
            state[name.replace("embeddings.LayerNorm", "embedding_norm")] = tensor
    for layer in reversed(range(n_layers)):
        for name, tensor in layer_state(published, layer).items():
            state[f"layers.{layer}.{name}"] = tensor
    return state


@independent("09.2")
def independent_sentence_vector(hidden, may_attend):
    return F.normalize(mean_pool(hidden, may_attend), dim=-1)


@alternative("09.2")
def other_sentence_vector(hidden, may_attend):
    sums = torch.einsum("bpd,bp->bd", hidden, may_attend.flatten(1).to(hidden.dtype))
    return F.normalize(sums, dim=-1)  # a sum points where the mean does


@alternative("09.3")
@independent("09.3")
def other_search(query, vectors, k):
    cosines = F.cosine_similarity(vectors, query[None], dim=-1)
    places = cosines.argsort(descending=True)[:k]
    return places, cosines[places]


@independent("09.4")
def independent_published_layer(tensors, number, x, may_attend, n_heads):
    d_ff, d_model = tensors[f"encoder.layer.{number}.intermediate.dense.weight"].shape
    attention = MultiHeadAttention(d_model, n_heads)
    feed_forward = FeedForward(d_model, d_ff, activation=nn.GELU())
    layer = EncoderLayer(attention, feed_forward, *(nn.LayerNorm(d_model, eps=1e-12) for _ in range(2)))
    layer.load_state_dict(independent_layer_state(tensors, number))
    return layer(x, may_attend=may_attend)[0]


@alternative("09.4")
def other_published_layer(tensors, number, x, may_attend, n_heads):
    own = {name.removeprefix(f"encoder.layer.{number}."): tensor for name, tensor in tensors.items()}

    def linear(part, x):
        return x @ own[f"{part}.weight"].T + own[f"{part}.bias"]

    def norm(part, x):
        centred = x - x.mean(-1, keepdim=True)
        spread = (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt()
        return centred / spread * own[f"{part}.weight"] + own[f"{part}.bias"]

    q, k, v = (linear(f"attention.self.{part}", x).chunk(n_heads, -1) for part in ("query", "key", "value"))
    heads = []
    for head in range(n_heads):
        scores = q[head] @ k[head].mT / q[head].shape[-1] ** 0.5
        heads.append(scores.masked_fill(~may_attend[:, 0], -math.inf).softmax(-1) @ v[head])
    heard = linear("attention.output.dense", torch.cat(heads, -1))
    heard = norm("attention.output.LayerNorm", x + heard)
    wide = linear("intermediate.dense", heard)
    bent = wide * (1 + torch.erf(wide / math.sqrt(2))) / 2
    return norm("output.LayerNorm", heard + linear("output.dense", bent))


@independent("09.5")
def independent_layer_state(published, layer):
    result = {}
    for theirs, ours in PARTS.items():
        for kind in ("weight", "bias"):
            result[f"{ours}.{kind}"] = published[f"encoder.layer.{layer}.{theirs}.{kind}"]
    return result


@alternative("09.5")
def other_layer_state(published, layer):
    state = {}
    for name, tensor in published.items():
        if name.startswith(f"encoder.layer.{layer}."):
            part, _, kind = name.removeprefix(f"encoder.layer.{layer}.").rpartition(".")
            state[f"{PARTS[part]}.{kind}"] = tensor
    return state


@alternative("09.6")
@independent("09.6")
def other_previous_score(weights):
    words = torch.arange(1, weights.shape[-1] - 1)
    return weights[:, words, words - 1].mean(-1)


@alternative("09.7")
@independent("09.7")
def other_head_damages(attention, x):
    mixed = []
    listener = attention.output_projection.register_forward_pre_hook(lambda _, given: mixed.append(given[0]))
    full, _ = attention(x)
    listener.remove()
    heads = mixed[0].reshape(len(x), -1).chunk(attention.n_heads, dim=-1)
    pieces = attention.output_projection.weight.chunk(attention.n_heads, dim=1)
    added = torch.stack([head @ piece.T for head, piece in zip(heads, pieces, strict=True)])
    return 1 - F.cosine_similarity(full - added, full[None], dim=-1).mean(-1)


@alternative("09.8")
@independent("09.8")
def other_rank_correlation(x, y):
    ranks = [(values[:, None] > values).sum(1) for values in (x, y)]
    n = len(x)
    return 1 - 6 * (ranks[0] - ranks[1]).float().square().sum() / (n**3 - n)
