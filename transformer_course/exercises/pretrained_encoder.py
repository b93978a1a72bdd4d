"""Exercises of lesson 09."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from transformer_course.checker import exercise
from transformer_course.checker.exercise_types import FunctionExercise
from transformer_lab.pretrained_encoder import CORRESPONDENCE


class LoadExercise(FunctionExercise):
    """Compares state dicts of an encoder; of its two tables only their sums count (see `entering`)."""

    def use(self, ready, inputs):
        return entering(super().use(ready, inputs))


def entering(state):
    """Return the state dict with its two tables replaced by all sums of a row of each.

    So a constant may have been added to either table.
    """
    tables = [state.get(name) for name in TABLES] if isinstance(state, dict) else []
    if not all(isinstance(table, torch.Tensor) and table.ndim == 2 for table in tables) or not tables:
        return state
    words, places = tables
    if words.shape[1] != places.shape[1]:
        return state
    rest = {name: tensor for name, tensor in state.items() if name not in TABLES}
    return {"embedding.weight[id] + positions.weight[place]": words[:, None] + places} | rest


TABLES = ("embedding.weight", "positions.weight")


@exercise("09.1", kind=LoadExercise, difficulty=2)
def encoder_state(published, n_layers):
    """Return the state dict for your whole encoder: with it, the encoder computes the same as BERT.

    published: the file, a dictionary from its names to tensors; do not change it
    n_layers: the number of layers in the file; their indices start at 0
    returns a new dictionary from all names of your encoder to tensors, ready for a strict load. There is
        only one text at a time, so every token belongs to the first segment.
    """
    first_text = published["embeddings.token_type_embeddings.weight"][0]
    state = {
        "embedding.weight": published["embeddings.word_embeddings.weight"],
        "positions.weight": published["embeddings.position_embeddings.weight"] + first_text,
        "embedding_norm.weight": published["embeddings.LayerNorm.weight"],
        "embedding_norm.bias": published["embeddings.LayerNorm.bias"],
    }
    for layer in range(n_layers):
        state |= {f"layers.{layer}.{name}": each for name, each in layer_state(published, layer).items()}
    return state


@encoder_state.cases
def encoder_state_cases(normal):
    yield {"published": small_file(normal, 3), "n_layers": 3}
    yield {"published": small_file(normal, 2, d_model=5, d_ff=7), "n_layers": 2}
    yield {"published": small_file(normal, 13), "n_layers": 13}
    yield {"published": small_file(normal, 1, d_model=2, d_ff=3), "n_layers": 1}


@exercise("09.2")
def sentence_vector(hidden, may_attend):
    """Return the sentence embeddings: the mean of each text's real tokens, scaled to length 1.

    hidden: (batch, position, d_model), the hidden states after the last layer
    may_attend: (batch, 1, 1, position), True for real tokens, False for padding
    returns (batch, d_model)
    """
    real = may_attend[:, 0, 0, :, None]  # (batch, position, 1)
    means = (hidden * real).sum(dim=1) / real.sum(dim=1)  # (batch, d_model)
    return means / means.norm(dim=-1, keepdim=True)


def padding_mask(longest, *lengths):
    """Return a mask that is True for the first `lengths` positions of each text."""
    return torch.tensor([[[[place < length for place in range(longest)]]] for length in lengths])


@sentence_vector.cases
def sentence_vector_cases(normal):
    yield {"hidden": normal(3, 7, 5), "may_attend": padding_mask(7, 7, 5, 3)}
    yield {"hidden": normal(2, 11, 3), "may_attend": padding_mask(11, 4, 7)}
    yield {"hidden": normal(1, 5, 7), "may_attend": padding_mask(5, 4).flip(-1)}  # padding in front
    # One token, by hand: (3, 4) has the length 5.
    yield {"hidden": torch.tensor([[[3.0, 4.0]]]), "may_attend": padding_mask(1, 1)}


@exercise("09.3", returns=("places", "cosines"))
def search(query, vectors, k):
    """Return the indices and the cosines of the k vectors most similar to the query, the best first.

    query: (d_model,)
    vectors: (n, d_model); like the query, they can have any length
    returns the indices of the k vectors, (k,), and their cosines, (k,)
    """
    query = query / query.norm()
    vectors = vectors / vectors.norm(dim=-1, keepdim=True)
    cosines, places = (vectors @ query).topk(k)
    return places, cosines


@search.cases
def search_cases(normal):
    for n, d_model, k in [(13, 5, 3), (7, 3, 7), (17, 11, 5), (5, 3, 1)]:
        lengths = normal(n, 1).exp()  # some vectors are long and some are short
        yield {"query": 3 * normal(d_model), "vectors": lengths * normal(n, d_model), "k": k}
    # By hand: cosines .6 and 1; the only vectors that there are, and the shorter one is the better.
    yield {"query": torch.tensor([3.0, 4.0]), "vectors": torch.tensor([[9.0, 0.0], [0.3, 0.4]]), "k": 2}


@exercise("09.4", difficulty=2, forbidden=("scaled_dot_product_attention", "multi_head_attention_forward"))
def published_layer(tensors, number, x, may_attend, n_heads):
    """Compute one layer of the published model from its tensors alone, without any module.

    tensors: a dictionary from names like "encoder.layer.0.attention.self.query.weight" to tensors; do not
        change it
    number: the index of the layer
    x: (batch, position, d_model), the input of the layer
    may_attend: (batch, 1, 1, position), True for keys that may be attended to
    returns (batch, position, d_model)
    """

    def of(part):
        return [tensors[f"encoder.layer.{number}.{part}.{kind}"] for kind in ("weight", "bias")]

    def norm(part, x):
        return F.layer_norm(x, x.shape[-1:], *of(part), 1e-12)

    q, k, v = (
        F.linear(x, *of(f"attention.self.{part}")).unflatten(-1, (n_heads, -1)).transpose(1, 2)
        for part in ("query", "key", "value")
    )
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (batch, n_heads, query_pos, key_pos)
    weights = scores.masked_fill(~may_attend, -math.inf).softmax(dim=-1)
    mixed = (weights @ v).transpose(1, 2).flatten(-2)
    x = norm("attention.output.LayerNorm", x + F.linear(mixed, *of("attention.output.dense")))
    wide = F.gelu(F.linear(x, *of("intermediate.dense")))
    return norm("output.LayerNorm", x + F.linear(wide, *of("output.dense")))


@published_layer.cases
def published_layer_cases(normal):
    for number, lengths, n_heads in [(1, (5, 3), 2), (0, (4, 4, 2), 3), (2, (2, 5), 3), (1, (1,), 2)]:
        longest = max(lengths)
        yield {
            "tensors": small_file(normal, 3, d_model=6, d_ff=11),
            "number": number,
            "x": normal(len(lengths), longest, 6) * (50 if number == 2 else 1),  # scores in the hundreds
            "may_attend": padding_mask(longest, *lengths),
            "n_heads": n_heads,
        }


@exercise("09.5", difficulty=2)
def layer_state(published, layer):
    """Return the tensors of one layer under your names, ready for layers[layer].load_state_dict.

    published: the file, a dictionary from names like "encoder.layer.0.attention.self.query.weight" to
        tensors; do not change it
    layer: the index of the layer
    returns a new dictionary of 16 tensors, from "attention.query_projection.weight"
        to "feed_forward_norm.bias", without "layers.0." in front
    """
    names = {
        "attention.self.query": "attention.query_projection",
        "attention.self.key": "attention.key_projection",
        "attention.self.value": "attention.value_projection",
        "attention.output.dense": "attention.output_projection",
        "attention.output.LayerNorm": "attention_norm",
        "intermediate.dense": "feed_forward.up_projection",
        "output.dense": "feed_forward.down_projection",
        "output.LayerNorm": "feed_forward_norm",
    }
    return {
        f"{ours}.{kind}": published[f"encoder.layer.{layer}.{theirs}.{kind}"]
        for theirs, ours in names.items()
        for kind in ("weight", "bias")
    }


PARTS = {
    theirs.removeprefix("encoder.layer.{layer}.")[:-2]: ours.removeprefix("layers.{layer}.")[:-2]
    for theirs, ours in CORRESPONDENCE
    if "{layer}" in theirs
}


class Published(dict):
    """A file of tensors with a short repr."""

    def __repr__(self):
        layers = {name.split(".")[2] for name in self if name.startswith("encoder.layer.")}
        return f"a file of {len(self)} tensors with {len(layers)} layers"


def small_file(normal, n_layers, d_model=3, d_ff=5):
    """Return a small file with the same names as the published one."""
    file = Published({"embeddings.position_ids": torch.arange(11)[None]})
    for table, rows in {"word": 7, "position": 11, "token_type": 2}.items():
        file[f"embeddings.{table}_embeddings.weight"] = normal(rows, d_model)
    for kind in ("weight", "bias"):
        file[f"embeddings.LayerNorm.{kind}"] = normal(d_model)
    shapes = {"intermediate.dense": (d_ff, d_model), "output.dense": (d_model, d_ff)}
    for layer in range(n_layers):
        for part in PARTS:
            shape = shapes.get(part, (d_model, d_model))
            name = f"encoder.layer.{layer}.{part}"
            file[f"{name}.weight"] = normal(*shape[: 1 if part.endswith("Norm") else 2])
            file[f"{name}.bias"] = normal(shape[0])
    file["pooler.dense.weight"], file["pooler.dense.bias"] = normal(d_model, d_model), normal(d_model)
    return file


@layer_state.cases
def layer_state_cases(normal):
    yield {"published": small_file(normal, 3), "layer": 1}
    yield {"published": small_file(normal, 14), "layer": 1}
    yield {"published": small_file(normal, 14), "layer": 12}
    yield {"published": small_file(normal, 2), "layer": 0}


@exercise("09.6")
def previous_score(weights):
    """Return each head's previous-token score: the mean attention weight of a word on the token before it.

    weights: (n_heads, n, n), the attention maps of one text: [CLS], the words, [SEP]
    returns (n_heads,), the mean over the words; the rows of [CLS] and [SEP] do not count
    """
    back = weights.diagonal(-1, dim1=-2, dim2=-1)  # (n_heads, n − 1): rows 1 to n − 1
    return back[..., :-1].mean(dim=-1)


@previous_score.cases
def previous_score_cases(normal):
    yield {"weights": normal(3, 7, 7).softmax(-1)}
    yield {"weights": normal(2, 5, 5).softmax(-1)}
    yield {"weights": normal(5, 5, 5).mul(3).softmax(-1)}  # as many heads as tokens
    yield {"weights": torch.tensor([[[6, 1, 1], [5, 2, 1], [0, 7, 1]]]) / 8.0}  # one word, by hand: 5/8


@exercise("09.7")
def head_damages(attention, x):
    """Zero-ablate each head in turn, and return the damage to the output. Leave the attention as it was.

    attention: has n_heads and output_projection (an nn.Linear, frozen); attention(x) returns
        (output, weights)
    x: (position, d_model)
    returns (n_heads,): 1 − the cosine of the outputs with and without the head, mean over the positions
    """
    full, _ = attention(x)
    weight = attention.output_projection.weight  # (d_model, n_heads · d_head)
    d_head = weight.shape[1] // attention.n_heads
    damages = []
    for head in range(attention.n_heads):
        columns = slice(head * d_head, (head + 1) * d_head)
        kept = weight[:, columns].clone()
        weight[:, columns] = 0
        without, _ = attention(x)
        weight[:, columns] = kept
        damages.append(1 - F.cosine_similarity(without, full, dim=-1).mean())
    return torch.stack(damages)


class Projections(nn.Module):
    """The four projections of a multi-head attention."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.output_projection = nn.Linear(d_model, d_model)


class SelfAttention(nn.Module):
    """Frozen attention over one text. Like the lesson's, it shows only `n_heads` and `output_projection`."""

    def __init__(self, n_heads, weights, biases):
        super().__init__()
        self.inner, self.n_heads = Projections(weights[0].shape[-1], n_heads), n_heads
        self.output_projection = self.inner.output_projection
        for linear, weight, bias in zip(self.inner.children(), weights, biases, strict=True):
            linear.weight.data, linear.bias.data = weight, bias
        self.requires_grad_(False)

    def forward(self, x):
        q, k, v = (
            f(x).unflatten(-1, (self.n_heads, -1)).transpose(0, 1)
            for f in (self.inner.query_projection, self.inner.key_projection, self.inner.value_projection)
        )
        weights = (q @ k.mT / math.sqrt(self.inner.d_head)).softmax(-1)
        return self.output_projection((weights @ v).transpose(0, 1).flatten(-2)), weights

    def __repr__(self):
        return f"an attention of {self.n_heads} heads"


def made(normal, d_model, n_heads):
    return SelfAttention(
        n_heads, [normal(d_model, d_model) for _ in range(4)], [normal(d_model) for _ in range(4)]
    )


@head_damages.cases
def head_damages_cases(normal):
    yield {"attention": made(normal, 6, 3), "x": normal(5, 6)}
    yield {"attention": made(normal, 15, 3), "x": normal(7, 15)}
    yield {"attention": made(normal, 10, 5), "x": normal(3, 10)}
    yield {"attention": made(normal, 6, 2), "x": normal(1, 6)}


@exercise("09.8", forbidden=("corrcoef",), tolerance=1e-06)
def rank_correlation(x, y):
    """Return Spearman's rank correlation: 1 if x and y grow together, −1 if one falls as the other grows.

    Compute the correlation yourself, without a library function for it.

    x, y: (n,); within x no two values are equal, and within y neither
    returns a number, or a tensor without axes
    """
    a, b = (values.argsort().argsort().double() for values in (x, y))  # ranks: 0 for the smallest
    a, b = a - a.mean(), b - b.mean()
    return ((a @ b) / (a.square().sum() * b.square().sum()).sqrt()).item()


@rank_correlation.cases
def rank_correlation_cases(normal):
    yield {"x": normal(7), "y": normal(7)}
    x = normal(13)
    yield {"x": x.exp(), "y": x + normal(13)}
    yield {"x": torch.arange(5.0), "y": torch.arange(5.0).exp()}
    yield {"x": normal(11), "y": normal(11).exp()}
    x = normal(9)
    yield {"x": x, "y": normal(9) / 2 - x}  # one falls where the other grows
    yield {"x": torch.tensor([2.0, 1.0]), "y": torch.tensor([-5.0, 7.0])}
