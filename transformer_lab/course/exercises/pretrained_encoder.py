"""Exercises of lesson 09: pooling, the names in the file, head scores, ablation, search, ranks, a layer."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from transformer_lab.course.checker import exercise
from transformer_lab.course.checker.parts import Projections

# ------------------------------------------------------------------------------------------------------ 09.1


@exercise(
    "09.1",
    "One vector for each text",
    hints=[
        """`may_attend[:, 0, 0]` is (batch, position), True for real tokens. Give it a last axis, and it can
        be multiplied with `hidden`: then the padding is zero and adds nothing to a sum.""",
        """Sum over the positions, divide by the number of **real** tokens of each text. Then divide each
        vector by its own length: `means.norm(dim=-1, keepdim=True)`.""",
    ],
)
def sentence_vector(hidden, may_attend):
    """The mean of each text's real tokens, scaled to length one.

    hidden: (batch, position, d_model), the tokens after the last layer
    may_attend: (batch, 1, 1, position), True for real tokens, False for padding
    returns (batch, d_model)
    """
    raise NotImplementedError


def padding_mask(longest, *lengths):
    """True for the first so many positions of each text."""
    return torch.tensor([[[[place < length for place in range(longest)]]] for length in lengths])


@sentence_vector.cases
def sentence_vector(normal):
    yield {"hidden": normal(3, 7, 5), "may_attend": padding_mask(7, 7, 5, 3)}
    yield {"hidden": normal(2, 11, 3), "may_attend": padding_mask(11, 4, 7)}
    yield {"hidden": normal(1, 5, 7), "may_attend": padding_mask(5, 4).flip(-1)}  # padding in front
    # One token, by hand: (3, 4) has the length 5.
    yield {"hidden": torch.tensor([[[3.0, 4.0]]]), "may_attend": padding_mask(1, 1)}


@sentence_vector.specification
def sentence_vector(hidden, may_attend):
    batch, longest, d_model = hidden.shape
    result = torch.zeros(batch, d_model)
    for b in range(batch):
        real = [place for place in range(longest) if may_attend[b, 0, 0, place]]
        mean = [sum(hidden[b, place, i] for place in real) / len(real) for i in range(d_model)]
        length = sum(number**2 for number in mean) ** 0.5
        result[b] = torch.stack([number / length for number in mean])
    return result


@sentence_vector.solution
def sentence_vector(hidden, may_attend):
    real = may_attend[:, 0, 0, :, None]  # (batch, position, 1)
    means = (hidden * real).sum(dim=1) / real.sum(dim=1)  # (batch, d_model)
    return means / means.norm(dim=-1, keepdim=True)


@sentence_vector.alternative
def sentence_vector(hidden, may_attend):
    sums = torch.einsum("bpd,bp->bd", hidden, may_attend.flatten(1).to(hidden.dtype))
    return F.normalize(sums, dim=-1)  # a sum points where the mean does


def real_of(may_attend):
    """(batch, position, 1), as numbers."""
    return may_attend[:, 0, 0, :, None].double()


def mean_of(hidden, may_attend):
    """The right mean, of any length."""
    real = real_of(may_attend)
    return (hidden * real).sum(1) / real.sum(1)


def to_length_one(vectors):
    return F.normalize(vectors, dim=-1)


sentence_vector.mistake(
    "pads in the mean",
    """You average over all positions, padding included. The mask kept the padding out of attention; its own
    rows are still there, and what they hold depends on the neighbours' lengths. Average over the real
    tokens only.""",
    lambda h, m: to_length_one(h.mean(1)),
    lambda h, m: h.mean(1),
)

sentence_vector.mistake(
    "[CLS] for the mean",
    """You take the first token's vector. That is right for models trained so; this one was trained with the
    mean of all real tokens, and [CLS] alone gives a plausible vector that means something else.""",
    lambda h, m: to_length_one(h[:, 0]),
    lambda h, m: h[:, 0],
)

sentence_vector.mistake(
    "not normalised",
    """The direction is right, the length is not one. A dot product of two such vectors is not their cosine,
    and in a search long vectors win. Divide each by its `norm(dim=-1, keepdim=True)`.""",
    mean_of,
    lambda h, m: (h * real_of(m)).sum(1),
    lambda h, m: (h * real_of(m)).mean(1),
    lambda h, m: (h * real_of(m)).sum(1) / real_of(m).sum(),
)

sentence_vector.mistake(
    "each token normalised first",
    """You scale every token to length one before the mean. Then each token counts the same, however long its
    vector is; the model was trained with the plain mean. Average first, normalise the mean.""",
    lambda h, m: mean_of(to_length_one(h), m),
    lambda h, m: to_length_one(mean_of(to_length_one(h), m)),
)

sentence_vector.mistake(
    "the largest, not the mean",
    """You take the largest value of each feature (max pooling). Some models do; this one was trained with the
    mean. Sum the real tokens and divide by their number.""",
    lambda h, m: to_length_one(h.masked_fill(real_of(m) == 0, -math.inf).amax(1)),
    lambda h, m: h.masked_fill(real_of(m) == 0, -math.inf).amax(1),
    lambda h, m: to_length_one(h.amax(1)),
    lambda h, m: h.amax(1),
)

sentence_vector.mistake(
    "the mask the wrong way round",
    """You average what is False in the mask: the padding. A text without padding even gives 0/0. In this
    course True means a real token: keep those.""",
    lambda h, m: to_length_one(mean_of(h, ~m)),
    lambda h, m: mean_of(h, ~m) / mean_of(h, ~m).norm(dim=-1, keepdim=True),
    lambda h, m: mean_of(h, ~m),
)

sentence_vector.mistake(
    "[CLS] and [SEP] left out",
    """You average the words only. It sounds sensible, but the model was trained with [CLS] and [SEP] in the
    mean, and their vectors are not like the others. Every real token counts, these two included.""",
    lambda h, m: torch.stack(
        [to_length_one(x[1 : n - 1].mean(0)) for x, n in zip(h, m.flatten(1).sum(1).tolist(), strict=True)]
    ),
    lambda h, m: torch.stack(
        [x[1 : n - 1].mean(0) for x, n in zip(h, m.flatten(1).sum(1).tolist(), strict=True)]
    ),
)

sentence_vector.mistake(
    "[CLS] left out",
    """You leave out the first token. The model was trained with [CLS] and [SEP] in the mean: every real token
    counts, these two included.""",
    lambda h, m: to_length_one(mean_of(h[:, 1:], m[..., 1:])),
    lambda h, m: mean_of(h[:, 1:], m[..., 1:]),
)

sentence_vector.mistake(
    "[SEP] left out",
    """You leave out each text's last token. The model was trained with [CLS] and [SEP] in the mean: every
    real token counts, these two included.""",
    lambda h, m: torch.stack(
        [to_length_one(x[: n - 1].mean(0)) for x, n in zip(h, m.flatten(1).sum(1).tolist(), strict=True)]
    ),
    lambda h, m: torch.stack(
        [x[: n - 1].mean(0) for x, n in zip(h, m.flatten(1).sum(1).tolist(), strict=True)]
    ),
)

sentence_vector.mistake(
    "the first text's mask for all",
    """You take the real tokens of the first text for every text: `may_attend[0]`. Each text has its own
    padding: `may_attend[:, 0, 0]` keeps the batch.""",
    lambda h, m: to_length_one(mean_of(h, m[:1].expand_as(m))),
    lambda h, m: mean_of(h, m[:1].expand_as(m)),
)

sentence_vector.mistake(
    "the last position",
    """You take one token at the end, as models do that read from left to right. An encoder's last token knows
    no more than the others, and in a padded batch it is not even a word. Take the mean.""",
    lambda h, m: to_length_one(h[:, -1]),
    lambda h, m: h[:, -1],
    lambda h, m: to_length_one(h[torch.arange(len(h)), m.flatten(1).sum(1) - 1]),
    lambda h, m: h[torch.arange(len(h)), m.flatten(1).sum(1) - 1],
)

sentence_vector.mistake(
    "normalised along the wrong axis",
    """You divide by a length that runs over the batch, not over the features. A text's vector then depends on
    its neighbours. Each row has its own length: `dim=-1`, with `keepdim=True`.""",
    lambda h, m: F.normalize(mean_of(h, m), dim=0),
)

sentence_vector.mistake(
    "one length for all",
    """You divide by the length of the whole matrix, one number for all texts. A text's vector then depends on
    its neighbours, and none has length one. Each row has its own: `norm(dim=-1, keepdim=True)`.""",
    lambda h, m: mean_of(h, m) / mean_of(h, m).norm(),
)

sentence_vector.mistake(
    "another norm",
    """You divide by the sum of absolute values (or the largest one), not by the root of the sum of squares.
    The dot product of two vectors is their cosine only for the length of lesson 01: `norm`, p = 2.""",
    lambda h, m: F.normalize(mean_of(h, m), p=1, dim=-1),
    lambda h, m: F.normalize(mean_of(h, m), p=math.inf, dim=-1),
)

sentence_vector.mistake(
    "a softmax",
    """You take a softmax of the mean: its features then add up to 1 and none is negative, so the direction
    is lost. Length one is another thing: divide by `norm(dim=-1, keepdim=True)`.""",
    lambda h, m: mean_of(h, m).softmax(-1),
    lambda h, m: to_length_one(mean_of(h, m).softmax(-1)),
)

sentence_vector.mistake(
    "padding taken to be at the end",
    """You take the mean of the first n tokens, where n is how many are real. Padding may stand in front. Ask
    the mask for each token by itself.""",
    *(
        lambda h, m, finish=finish: torch.stack(
            [finish(x[:n].mean(0)) for x, n in zip(h, m.flatten(1).sum(1).tolist(), strict=True)]
        )
        for finish in (to_length_one, lambda mean: mean)
    ),
)

sentence_vector.mistake(
    "the root forgotten",
    """You divide by the sum of the squares, that is by the squared length. The results have length
    1/length. Take the root: `norm(dim=-1, keepdim=True)`.""",
    lambda h, m: mean_of(h, m) / mean_of(h, m).square().sum(-1, keepdim=True),
)

sentence_vector.mistake(
    "standardised",
    """You subtract the mean of the features and divide by their standard deviation: a layer norm. Here only
    the length is to become one; the direction must stay. Divide by the norm, subtract nothing.""",
    lambda h, m: F.layer_norm(mean_of(h, m), h.shape[-1:]),
    lambda h, m: (mean_of(h, m) - mean_of(h, m).mean(-1, True)) / mean_of(h, m).std(-1, keepdim=True),
)

sentence_vector.mistake(
    "one vector for the whole batch",
    """You average over the texts too. Indexing with a mask, `hidden[real]`, puts all tokens of all texts into
    one list. Each text keeps its own mean: sum over axis 1 only.""",
    lambda h, m: to_length_one(h[m[:, 0, 0]].mean(0)),
    lambda h, m: h[m[:, 0, 0]].mean(0),
)

sentence_vector.mistake(
    "features averaged",
    """You average over the features: one number for each token is left. The mean runs over the positions,
    axis 1 of (batch, position, d_model), and the features stay apart.""",
    lambda h, m: h.mean(-1),
    lambda h, m: to_length_one(h.mean(-1)),
    lambda h, m: (h * real_of(m)).mean(-1),
)


sentence_vector.mistake(
    "keepdim forgotten",
    """Your lengths have the shape (batch,), and broadcasting lines them up with the features: an error, or,
    if the batch is as large as d_model, silently wrong. Keep the axis: `norm(dim=-1, keepdim=True)`.""",
    lambda h, m: mean_of(h, m) / mean_of(h, m).norm(dim=-1),
)

sentence_vector.mistake(
    "−∞ in a mean",
    """You fill the padding with −∞ or a very negative number, as scores are filled before a softmax. In a
    sum it drowns all the rest, and −∞ becomes NaN. Fill with 0, and divide by the number of real tokens.""",
    *(
        lambda h, m, fill=fill, finish=finish: finish(h.masked_fill(real_of(m) == 0, fill).mean(1))
        for fill in (-math.inf, -1e9)
        for finish in (to_length_one, lambda mean: mean)
    ),
)


# ------------------------------------------------------------------------------------------------------ 09.2


@exercise(
    "09.2",
    "From their names to ours",
    hints=[
        """All names of one layer begin with `f"encoder.layer.{layer}."`. Mind the dot at the end: without it,
        layer 1 takes layers 10 and 11 too. `name.removeprefix(…)` gives the rest.""",
        """Eight pairs of names, as in `CORRESPONDENCE` above, each with `.weight` and `.bias`. Write them
        as a dictionary from theirs to ours, and look up; with `replace`, `output.dense` hits in two
        places.""",
    ],
    gradients=False,
)
def layer_state(published, layer):
    """The tensors of one layer under our names, ready for layers[layer].load_state_dict.

    published: the file, from names to tensors; it stays as it is
    layer: a number
    returns a new dictionary of 16 tensors, from "attention.query_projection.weight"
        to "feed_forward_norm.bias", without "layers.0." in front
    """
    raise NotImplementedError


PARTS = {
    "attention.self.query": "attention.query_projection",
    "attention.self.key": "attention.key_projection",
    "attention.self.value": "attention.value_projection",
    "attention.output.dense": "attention.output_projection",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "feed_forward.up_projection",
    "output.dense": "feed_forward.down_projection",
    "output.LayerNorm": "feed_forward_norm",
}


class Published(dict):
    """A file of tensors that is told in a few words."""

    def __repr__(self):
        layers = {name.split(".")[2] for name in self if name.startswith("encoder.layer.")}
        return f"a file of {len(self)} tensors with {len(layers)} layers"


def small_file(normal, n_layers, d_model=3, d_ff=5):
    """What the published file holds, small."""
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
def layer_state(normal):
    yield {"published": small_file(normal, 3), "layer": 1}
    yield {"published": small_file(normal, 13), "layer": 1}
    yield {"published": small_file(normal, 13), "layer": 12}
    yield {"published": small_file(normal, 2), "layer": 0}


@layer_state.specification
def layer_state(published, layer):
    result = {}
    for theirs, ours in PARTS.items():
        for kind in ("weight", "bias"):
            result[f"{ours}.{kind}"] = published[f"encoder.layer.{layer}.{theirs}.{kind}"]
    return result


@layer_state.solution
def layer_state(published, layer):
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


@layer_state.alternative
def layer_state(published, layer):
    state = {}
    for name, tensor in published.items():
        if name.startswith(f"encoder.layer.{layer}."):
            part, _, kind = name.removeprefix(f"encoder.layer.{layer}.").rpartition(".")
            state[f"{PARTS[part]}.{kind}"] = tensor
    return state


def named_by(parts, kinds=("weight", "bias"), change=lambda tensor: tensor, number=lambda layer: layer):
    """An answer that goes by other parts, kinds or numbers."""
    return lambda published, layer: {
        f"{ours}.{kind}": change(published[f"encoder.layer.{number(layer)}.{theirs}.{kind}"])
        for theirs, ours in parts.items()
        for kind in kinds
    }


def exchanged(one, other):
    """The correspondence with two of our names exchanged."""
    return PARTS | {one: PARTS[other], other: PARTS[one]}


def stripped(published, layer, begins):
    """Name without its prefix → tensor, of all names for which `begins` holds."""
    return {name.split(".", 3)[3]: tensor for name, tensor in published.items() if begins(name)}


def renamed(rest, parts=PARTS):
    part, _, kind = rest.rpartition(".")
    return f"{parts[part]}.{kind}"


layer_state.mistake(
    "query and key exchanged",
    """Your query projection holds the file's key, and the other way round. All names and all shapes fit, so
    it loads strictly; every attention map is then read the wrong way. Pair `self.query` with
    `query_projection`.""",
    named_by(exchanged("attention.self.query", "attention.self.key")),
)

layer_state.mistake(
    "two of query, key and value exchanged",
    """Your value projection holds another one's tensors. The shapes are the same, so it loads strictly and
    gives rubbish. Each of `query`, `key`, `value` has its own projection of that name.""",
    named_by(exchanged("attention.self.value", "attention.self.key")),
    named_by(exchanged("attention.self.value", "attention.self.query")),
)

layer_state.mistake(
    "weights transposed",
    """You transpose the weights. Both sides are `nn.Linear`, stored as (features out, features in): copy
    them as they are. (Files of TensorFlow, and GPT-2's, do need it.) A square weight loads silently either
    way.""",
    named_by(PARTS, change=lambda t: t.T if t.dim() == 2 else t),
    named_by(PARTS, change=lambda t: t.T if t.dim() == 2 and t.shape[0] == t.shape[1] else t),
)

layer_state.mistake(
    "always layer 0",
    """You do not use `layer`: every call returns the first layer. All six would load without a complaint, and
    the model would be one layer, six times over. Put the number into the name.""",
    named_by(PARTS, number=lambda layer: 0),
)

layer_state.mistake(
    "layers counted from 1",
    """You look for `layer + 1`. The file counts from 0, as we do: its last layer has the number n_layers − 1,
    so yours ends in a KeyError, and all others are the wrong layer.""",
    named_by(PARTS, number=lambda layer: layer + 1),
)

layer_state.mistake(
    "counted from the end",
    """You get another layer than the one that was asked for: the number is one too small. In the file layer 0
    is `encoder.layer.0`; put `layer` itself into the name.""",
    named_by(PARTS, number=lambda layer: layer - 1),
)

layer_state.mistake(
    "layer 1 takes 10, 11 and 12 too",
    """You look for names that begin with `encoder.layer.1`, and `encoder.layer.12` does too; the last one
    found wins. With six layers nobody notices. End the prefix with a dot.""",
    lambda published, layer: {
        renamed(rest): tensor
        for rest, tensor in stripped(
            published, layer, lambda name: name.startswith(f"encoder.layer.{layer}")
        ).items()
    },
)

layer_state.mistake(
    "no biases",
    """You bring the weights only. A strict load says so; with `strict=False` the biases would silently stay
    at the values they were born with. Take `.weight` and `.bias` of each part.""",
    named_by(PARTS, kinds=("weight",)),
)

layer_state.mistake(
    "the prefix left on",
    """Your names still begin with the layer. One layer's `load_state_dict` knows nothing of its number, so
    its names begin with `attention.` and so on: leave `layers.…` off.""",
    lambda published, layer: {
        f"layers.{layer}.{name}": tensor for name, tensor in named_by(PARTS)(published, layer).items()
    },
)

layer_state.mistake(
    "their names kept",
    """The right tensors, under the file's names. Our layer has other names for the same parts:
    `attention.self.query` is our `attention.query_projection`. Rename each.""",
    lambda published, layer: stripped(
        published, layer, lambda name: name.startswith(f"encoder.layer.{layer}.")
    ),
    lambda published, layer: {
        name: tensor for name, tensor in published.items() if name.startswith(f"encoder.layer.{layer}.")
    },
)

layer_state.mistake(
    "the two norms exchanged",
    """The norm after attention and the norm after the feed-forward have changed places. Same names, same
    shapes, another model: `attention.output.LayerNorm` is our `attention_norm`, `output.LayerNorm` the
    other.""",
    named_by(exchanged("attention.output.LayerNorm", "output.LayerNorm")),
)

layer_state.mistake(
    "output.dense hit in two places",
    """You rename with `replace`, and `output.dense` stands inside `attention.output.dense` too, so the wrong
    one is changed first. Look up whole names, or replace the longer one before the shorter.""",
    lambda published, layer: {
        renamed(rest)
        if not rest.startswith("attention.output")
        else rest.replace("output.dense", "feed_forward.down_projection").replace(
            "output.LayerNorm", "feed_forward_norm"
        ): tensor
        for rest, tensor in stripped(
            published, layer, lambda name: name.startswith(f"encoder.layer.{layer}.")
        ).items()
    },
)

layer_state.mistake(
    "up and down exchanged",
    """`intermediate.dense` widens (our `up_projection`), `output.dense` narrows (our `down_projection`). You
    have them the other way round; here at least the shapes will refuse it.""",
    named_by(exchanged("intermediate.dense", "output.dense")),
)

layer_state.mistake(
    "the two outputs exchanged",
    """You took `output.dense` for the output of attention. The bare `output` belongs to the feed-forward; the
    output of attention is `attention.output.dense`.""",
    named_by(exchanged("attention.output.dense", "output.dense")),
)


layer_state.mistake(
    "the norms left out",
    """The two layer norms are missing: twelve tensors instead of sixteen. A strict load says so; otherwise
    they would silently stay at 1 and 0. Add `attention_norm` and `feed_forward_norm`.""",
    named_by({theirs: ours for theirs, ours in PARTS.items() if "LayerNorm" not in theirs}),
)


# ------------------------------------------------------------------------------------------------------ 09.3


@exercise(
    "09.3",
    "How much does a head look back?",
    hints=[
        """Row i of a map is what token i looks at, so the weight on the token before stands at [i, i − 1]: on
        the line just below the diagonal. `weights.diagonal(-1, dim1=-2, dim2=-1)` has these numbers.""",
        """That line begins with row 1, the first word, and ends with row n − 1, [SEP]. Leave [SEP] out with
        `[..., :-1]`, and take the mean over what is left.""",
    ],
    gradients=False,
)
def previous_score(weights):
    """How much weight, on average, a word gives to the token before it.

    weights: (n_heads, n, n), the maps of one text: [CLS], the words, [SEP]
    returns (n_heads,), the mean over the words; [CLS] and [SEP] do not ask
    """
    raise NotImplementedError


@previous_score.cases
def previous_score(normal):
    yield {"weights": normal(3, 7, 7).softmax(-1)}
    yield {"weights": normal(2, 5, 5).softmax(-1)}
    yield {"weights": normal(5, 5, 5).mul(3).softmax(-1)}  # as many heads as tokens
    yield {"weights": torch.tensor([[[6, 1, 1], [5, 2, 1], [0, 7, 1]]]) / 8.0}  # one word, by hand: 5/8


@previous_score.specification
def previous_score(weights):
    n_heads, n, _ = weights.shape
    result = torch.zeros(n_heads)
    for head in range(n_heads):
        for i in range(1, n - 1):
            result[head] += weights[head, i, i - 1] / (n - 2)
    return result


@previous_score.solution
def previous_score(weights):
    back = weights.diagonal(-1, dim1=-2, dim2=-1)  # (n_heads, n − 1): rows 1 to n − 1
    return back[..., :-1].mean(dim=-1)


@previous_score.alternative
def previous_score(weights):
    words = torch.arange(1, weights.shape[-1] - 1)
    return weights[:, words, words - 1].mean(-1)


def off_diagonal(weights, offset):
    return weights.diagonal(offset, dim1=-2, dim2=-1)


previous_score.mistake(
    "next for previous",
    """You take the line above the diagonal: the weight on the token after. Rows ask, columns are looked
    at, so the token before i stands in column i − 1: offset −1, below the diagonal.""",
    lambda w: off_diagonal(w, 1)[..., 1:].mean(-1),
    lambda w: off_diagonal(w, 1).mean(-1),
)

previous_score.mistake(
    "row and column exchanged",
    """You read the map as if the columns asked: yours is the weight that [CLS] and the words give to what
    comes after them. A row adds up to one, so rows are the askers. Take weights[i, i − 1], with i in the
    rows.""",
    lambda w: off_diagonal(w.mT, -1)[..., :-1].mean(-1),
)

previous_score.mistake(
    "[SEP] asks too",
    """You average over the whole line below the diagonal. Its last entry is what [SEP] gives to the last
    word, and [SEP] is no word. Drop it: `[..., :-1]`.""",
    lambda w: off_diagonal(w, -1).mean(-1),
)

previous_score.mistake(
    "divided by all tokens",
    """You sum the right weights, or nearly, and divide by n or n − 1. [CLS] has no token before it and [SEP]
    is no word: they do not ask, so they must not be counted. Divide by the number of words, n − 2.""",
    lambda w: off_diagonal(w, -1).sum(-1) / w.shape[-1],
    lambda w: off_diagonal(w, -1)[..., :-1].sum(-1) / w.shape[-1],
    lambda w: off_diagonal(w, -1)[..., :-1].sum(-1) / (w.shape[-1] - 1),
)

previous_score.mistake(
    "the first word left out",
    """You leave out the first word too. It has a token before it, [CLS], and that counts here. Only the last
    entry of the line below the diagonal goes: `[..., :-1]`.""",
    lambda w: off_diagonal(w, -1)[..., 1:-1].mean(-1),
    lambda w: off_diagonal(w, -1)[..., 1:].mean(-1),
)

previous_score.mistake(
    "the diagonal itself",
    """You take the diagonal: how much each token looks at itself. The token before stands one column to the
    left: offset −1.""",
    lambda w: off_diagonal(w, 0)[..., 1:-1].mean(-1),
    lambda w: off_diagonal(w, 0).mean(-1),
)

previous_score.mistake(
    "two steps back",
    """You take the token before the one before: the line is one too far from the diagonal. One step back is
    offset −1.""",
    lambda w: off_diagonal(w, -2).mean(-1),
    lambda w: off_diagonal(w, -2)[..., :-1].mean(-1),
)

previous_score.mistake(
    "the diagonal of the wrong axes",
    """`diagonal` takes the first two axes unless told otherwise: here heads and queries, a line through
    different heads. Say which: `diagonal(-1, dim1=-2, dim2=-1)`.""",
    lambda w: w.diagonal(-1).mean(-1),
    lambda w: w.diagonal(-1)[..., :-1].mean(-1),
    lambda w: w.diagonal(-1).mean(0),
    lambda w: w.diagonal(-1)[:-1].mean(0),
)

previous_score.mistake(
    "summed, not averaged",
    """You add the weights up. Then a long text has a higher score than a short one, and nothing can be
    compared. Take the mean over the words.""",
    lambda w: off_diagonal(w, -1)[..., :-1].sum(-1),
    lambda w: off_diagonal(w, -1).sum(-1),
)

previous_score.mistake(
    "the favourite counted",
    """You count how often the previous token is the favourite. That is another score, a share of words: it
    cannot tell .9 from .4. Average the weights themselves.""",
    lambda w: (w.argmax(-1) == torch.arange(w.shape[-1]) - 1)[:, 1:-1].double().mean(-1),
    lambda w: (w.argmax(-1) == torch.arange(w.shape[-1]) - 1).double().mean(-1),
    lambda w: (w.argmax(-1) == torch.arange(w.shape[-1]) - 1)[:, 1:].double().mean(-1),
)

previous_score.mistake(
    "the largest weight",
    """You take the largest of the weights on previous tokens. Nearly every head looks back once somewhere;
    the question is whether it does so usually. Take the mean.""",
    lambda w: off_diagonal(w, -1)[..., :-1].amax(-1),
    lambda w: off_diagonal(w, -1).amax(-1),
)

previous_score.mistake(
    "heads averaged",
    """You average over the heads as well: one number for all. In the mean over heads nobody can be told from
    anybody. Keep axis 0; average over the words only.""",
    lambda w: off_diagonal(w, -1)[..., :-1].mean(),
    lambda w: off_diagonal(w, -1).mean(),
    lambda w: off_diagonal(w.mean(0), -1)[:-1],
)

previous_score.mistake(
    "the first column",
    """You average the first column: the weight on [CLS], where a head rests. The previous token is in another
    column for every row: [i, i − 1].""",
    lambda w: w[:, 1:-1, 0].mean(-1),
    lambda w: w[..., 0].mean(-1),
)


previous_score.mistake(
    "−1 is the last column",
    """For row 0 you look up column −1, and to Python that is the last one: what [CLS] gives to [SEP] is
    counted as a look back. Begin with row 1, and leave out the last row, [SEP].""",
    lambda w: w[:, torch.arange(w.shape[-1]), torch.arange(w.shape[-1]) - 1].mean(-1),
    lambda w: w[:, torch.arange(w.shape[-1] - 1), torch.arange(w.shape[-1] - 1) - 1].mean(-1),
    lambda w: w[:, torch.arange(w.shape[-1] - 2), torch.arange(w.shape[-1] - 2) - 1].mean(-1),
)

previous_score.mistake(
    "everything before, not the token before",
    """You add up all the weight to the left of the diagonal. Then a head that rests on [CLS] seems to look
    back. Count the one column i − 1 only.""",
    lambda w: w.tril(-1)[:, 1:-1].sum(-1).mean(-1),
    lambda w: w.tril(-1).sum(-1)[:, 1:].mean(-1),
    lambda w: w.tril(-1).sum(-1).mean(-1),
)


# ------------------------------------------------------------------------------------------------------ 09.4


@exercise(
    "09.4",
    "Take each head away in turn",
    hints=[
        """A head's features enter the output projection through their own **columns** of its weight: head h
        through columns h · d_head to (h + 1) · d_head, and d_head = d_model / n_heads. With zeros there the
        head adds nothing.""",
        """For each head: keep a **copy** of its columns (`.clone()`; a slice is only a window), write
        zeros, call `attention(x)`, write the copy back. Then 1 − cosine with the full output, for each
        token, and the mean.""",
    ],
)
def head_damages(attention, x):
    """What the output loses without head 0, without head 1, …; afterwards attention is as before.

    attention: has n_heads and output_projection (an nn.Linear, frozen); attention(x) returns
        (output, weights)
    x: (position, d_model)
    returns (n_heads,): 1 − cosine of the output with and without the head, mean over positions
    """
    raise NotImplementedError


class SelfAttention(nn.Module):
    """Attention over one text, frozen; the lesson's has only `n_heads` and `output_projection` as well."""

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
def head_damages(normal):
    yield {"attention": made(normal, 6, 3), "x": normal(5, 6)}
    yield {"attention": made(normal, 15, 3), "x": normal(7, 15)}
    yield {"attention": made(normal, 10, 5), "x": normal(3, 10)}
    yield {"attention": made(normal, 6, 2), "x": normal(1, 6)}


@head_damages.specification
def head_damages(attention, x):
    full, weights = attention(x)
    values, projection = attention.inner.value_projection(x), attention.output_projection
    d_head = x.shape[-1] // attention.n_heads
    result = torch.zeros(attention.n_heads)
    for without in range(attention.n_heads):
        for i in range(len(x)):
            output = projection.bias.clone()
            for column in range(x.shape[-1]):
                if column // d_head != without:
                    mixed = (weights[column // d_head, i] * values[:, column]).sum()
                    output = output + mixed * projection.weight[:, column]
            cosine = (output * full[i]).sum() / (output.square().sum() * full[i].square().sum()) ** 0.5
            result[without] += (1 - cosine) / len(x)
    return result


@head_damages.solution
def head_damages(attention, x):
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


@head_damages.alternative
def head_damages(attention, x):
    mixed = []
    listener = attention.output_projection.register_forward_pre_hook(lambda _, given: mixed.append(given[0]))
    full, _ = attention(x)
    listener.remove()
    heads = mixed[0].reshape(len(x), -1).chunk(attention.n_heads, dim=-1)
    pieces = attention.output_projection.weight.chunk(attention.n_heads, dim=1)
    added = torch.stack([head @ piece.T for head, piece in zip(heads, pieces, strict=True)])
    return 1 - F.cosine_similarity(full - added, full[None], dim=-1).mean(-1)


def by_silencing(silence, restore=True, measure=None, first=True):
    """An answer that silences a head otherwise, forgets to restore it, or measures otherwise."""
    measure = measure or (lambda without, full: 1 - F.cosine_similarity(without, full, dim=-1).mean())

    def answer(attention, x):
        full = attention(x)[0] if first else None
        d_head = x.shape[-1] // attention.n_heads
        damages = []
        for head in range(attention.n_heads):
            kept = {name: value.clone() for name, value in attention.state_dict().items()}
            silence(attention, head, d_head)
            without = attention(x)[0]
            if restore:
                attention.load_state_dict(kept)
            damages.append(measure(without, full if first else attention(x)[0]))
        return torch.stack(damages)

    return answer


def zero(part, kind, cut):
    """Silence by zeros in a part's weight or bias, at the place that `cut` gives."""

    def silence(attention, head, d_head):
        getattr(attention.get_submodule(part), kind)[cut(slice(head * d_head, (head + 1) * d_head))] = 0

    return silence


def columns_zero(attention, head, d_head):
    attention.output_projection.weight[:, head * d_head : (head + 1) * d_head] = 0


def measured(measure):
    return by_silencing(columns_zero, measure=measure)


def also(silence):
    """The right columns, and something more."""

    def both(attention, head, d_head):
        columns_zero(attention, head, d_head)
        silence(attention, head, d_head)

    return both


head_damages.mistake(
    "rows for columns",
    """You zero the head's rows of the output projection: features of the output, which all heads write
    into. A head comes in through the columns, since `nn.Linear` stores (features out, features in):
    `weight[:, columns]`.""",
    by_silencing(zero("output_projection", "weight", lambda cut: cut)),
)

head_damages.mistake(
    "features of the output zeroed",
    """You zero d_head features of the output. They belong to no head: the output projection mixes all heads
    into every feature. Zero the head's columns of that projection, and compute the output again.""",
    lambda attention, x: torch.stack(
        [
            1 - F.cosine_similarity(hidden * attention(x)[0], attention(x)[0], dim=-1).mean()
            for hidden in 1 - torch.eye(attention.n_heads).repeat_interleave(attention.inner.d_head, dim=1)
        ]
    ),
)

head_damages.mistake(
    "not put back",
    """The heads are never put back, so the second damage is that of two heads, the third of three. Either the
    columns are not restored, or what you kept is a slice: a window on the same numbers. Use `.clone()`.""",
    by_silencing(columns_zero, restore=False),
)

head_damages.mistake(
    "no damage at all",
    """All damages are 0: you compare two things that are equal. Perhaps the full output is computed while the
    head is away, or the zeros went into a copy, or you compare the attention weights: they come before the
    output projection.""",
    by_silencing(columns_zero, restore=False, first=False),
    lambda attention, x: torch.zeros(attention.n_heads),
)

head_damages.mistake(
    "the bias zeroed too",
    """You also zero the bias of the output projection. It belongs to no head: all heads share it, and without
    it you measure the bias as well. Zero the head's columns of the weight only.""",
    by_silencing(also(lambda attention, head, d_head: attention.output_projection.bias.zero_())),
    by_silencing(also(zero("output_projection", "bias", lambda cut: cut))),
)

head_damages.mistake(
    "one column for a head",
    """You zero one column for each head, number `head`. A head is d_head features wide: columns h · d_head to
    (h + 1) · d_head.""",
    by_silencing(
        lambda attention, head, d_head: attention.output_projection.weight[:, head : head + 1].zero_()
    ),
)

head_damages.mistake(
    "features dealt out like cards",
    """You zero columns h, h + n_heads, … Heads lie in blocks: head 0 is the first d_head columns, head 1 the
    next, as `split_heads` cut them.""",
    by_silencing(
        lambda attention, head, d_head: attention.output_projection.weight[
            :, head :: attention.n_heads
        ].zero_()
    ),
)

head_damages.mistake(
    "n_heads for d_head",
    """Your blocks are n_heads wide. A head is d_head = d_model / n_heads features wide; only their number is
    n_heads.""",
    by_silencing(
        lambda attention, head, d_head: attention.output_projection.weight[
            :, head * attention.n_heads : (head + 1) * attention.n_heads
        ].zero_()
    ),
)

head_damages.mistake(
    "all others taken away",
    """You keep the head and silence the others. That asks what one head does alone, another good question.
    Here one head goes and the others stay.""",
    by_silencing(
        lambda attention, head, d_head: attention.output_projection.weight.copy_(
            torch.cat(
                [
                    part if i == head else torch.zeros_like(part)
                    for i, part in enumerate(attention.output_projection.weight.chunk(attention.n_heads, 1))
                ],
                dim=1,
            )
        )
    ),
)

head_damages.mistake(
    "the query silenced",
    """You zero the head's queries or keys. Then it no longer chooses as it did, but it still adds a mixture
    of its values. To remove it, zero what it writes: its columns of the output projection.""",
    by_silencing(
        lambda a, h, d: (
            zero("inner.query_projection", "weight", lambda cut: cut)(a, h, d),
            zero("inner.query_projection", "bias", lambda cut: cut)(a, h, d),
        )
    ),
    by_silencing(zero("inner.query_projection", "weight", lambda cut: cut)),
    by_silencing(zero("inner.key_projection", "weight", lambda cut: cut)),
)

head_damages.mistake(
    "the value's bias left",
    """You zero the head's rows of the value projection's weight, but its bias stays, and the head still adds
    that to every token. Zero both, or the head's columns of the output projection.""",
    by_silencing(zero("inner.value_projection", "weight", lambda cut: cut)),
)

head_damages.mistake(
    "cosine, not damage",
    """You return the cosine itself: 1 for a head that does not matter. Damage is the other way round,
    1 − cosine.""",
    measured(lambda without, full: F.cosine_similarity(without, full, dim=-1).mean()),
)

head_damages.mistake(
    "cosine along the wrong axis",
    """Your cosine runs over the positions, one for each feature; `dim=0` takes a column for a vector. A token
    is a row: `dim=-1`.""",
    measured(lambda without, full: 1 - F.cosine_similarity(without, full, dim=0).mean()),
)

head_damages.mistake(
    "pooled first",
    """You average the tokens first and compare two means. What single tokens lose can cancel in a mean. (For
    sentence embeddings that is the right question; here it is each token's loss.) Cosine for each row, then
    the mean.""",
    measured(lambda without, full: 1 - F.cosine_similarity(without.mean(0), full.mean(0), dim=0)),
)

head_damages.mistake(
    "everything in one vector",
    """You flatten all tokens into one long vector, in which long tokens count more. Take one cosine for each
    token, `dim=-1`, and then the mean.""",
    measured(lambda without, full: 1 - F.cosine_similarity(without.flatten(), full.flatten(), dim=0)),
)

head_damages.mistake(
    "a distance, not a cosine",
    """You measure how far the output has moved, perhaps in parts of its length, not how far it has turned. A
    head that makes all vectors longer would count as damage. Use 1 − cosine.""",
    measured(lambda without, full: (without - full).norm(dim=-1).mean()),
    measured(lambda without, full: (without - full).square().mean()),
    measured(lambda without, full: (without - full).norm()),
    measured(lambda without, full: ((without - full).norm(dim=-1) / full.norm(dim=-1)).mean()),
    measured(lambda without, full: (without - full).norm() / full.norm()),
)

head_damages.mistake(
    "summed, not averaged",
    """You add up the tokens' damages: a longer text then seems to lose more. Take the mean over
    positions.""",
    measured(lambda without, full: (1 - F.cosine_similarity(without, full, dim=-1)).sum()),
)


head_damages.mistake(
    "one number for each token",
    """Your damages are right, one for each head and token. Asked for is one number for each head: the mean
    over the positions.""",
    measured(lambda without, full: 1 - F.cosine_similarity(without, full, dim=-1)),
)


# ------------------------------------------------------------------------------------------------------ 09.5


@exercise(
    "09.5",
    "Search by cosine",
    hints=[
        """The cosine of two vectors is their dot product divided by both lengths. Scale the query and every
        row to length one, and `rows @ query` is all cosines at once, (n,).""",
        """`topk(k)` returns the k largest values, best first, and their places: in this order, (values,
        indices).""",
    ],
    returns=("places", "cosines"),
    gradients=False,
)
def search(query, vectors, k):
    """The k vectors that point most nearly where the query points, the best first.

    query: (d_model,); vectors: (n, d_model); of any length
    returns places (k,), integers, and their cosines (k,)
    """
    raise NotImplementedError


@search.cases
def search(normal):
    for n, d_model, k in [(13, 5, 3), (7, 3, 7), (17, 11, 5), (5, 3, 1)]:
        lengths = normal(n, 1).exp()  # some vectors are long and some are short
        yield {"query": 3 * normal(d_model), "vectors": lengths * normal(n, d_model), "k": k}
    # By hand: cosines .6 and 1; the only vectors that there are, and the shorter one is the better.
    yield {"query": torch.tensor([3.0, 4.0]), "vectors": torch.tensor([[9.0, 0.0], [0.3, 0.4]]), "k": 2}


@search.specification
def search(query, vectors, k):
    cosines = []
    for vector in vectors:
        dot = sum(q * v for q, v in zip(query, vector, strict=True))
        cosines.append(dot / (sum(q * q for q in query) * sum(v * v for v in vector)) ** 0.5)
    places = sorted(range(len(cosines)), key=lambda place: -cosines[place])[:k]
    return torch.tensor(places), torch.stack([cosines[place] for place in places])


@search.solution
def search(query, vectors, k):
    query = query / query.norm()
    vectors = vectors / vectors.norm(dim=-1, keepdim=True)
    cosines, places = (vectors @ query).topk(k)
    return places, cosines


@search.alternative
def search(query, vectors, k):
    cosines = F.cosine_similarity(vectors, query[None], dim=-1)
    places = cosines.argsort(descending=True)[:k]
    return places, cosines[places]


def best(scores, k, shown=None):
    places = scores.argsort(descending=True)[:k]
    return places, (scores if shown is None else shown)[places]


def cosines_of(query, vectors):
    return F.cosine_similarity(vectors, query[None], dim=-1)


search.mistake(
    "dot products of unscaled vectors",
    """You rank by bare dot products. A long vector then wins although it points elsewhere. Divide by both
    lengths, or scale all vectors to length one first.""",
    lambda q, v, k: best(v @ q, k),
    lambda q, v, k: best(v @ q, k, cosines_of(q, v)),
    lambda q, v, k: best(v @ q / len(q) ** 0.5, k),
)

search.mistake(
    "only the query scaled",
    """You scale the query and not the rows. The query's length is the same for all and changes no ranking;
    the rows' lengths do. Scale the rows: `vectors.norm(dim=-1, keepdim=True)`.""",
    lambda q, v, k: best(v @ (q / q.norm()), k),
)

search.mistake(
    "only the vectors scaled",
    """The ranking is right, the numbers are no cosines: the query still has its own length. Divide by
    `query.norm()` too.""",
    lambda q, v, k: best(F.normalize(v, dim=-1) @ q, k),
)

search.mistake(
    "the worst first",
    """`argsort` goes upwards unless told otherwise: you return the least similar. Use `descending=True`, or
    `topk`.""",
    lambda q, v, k: (cosines_of(q, v).argsort()[:k], cosines_of(q, v).sort().values[:k]),
)

search.mistake(
    "the best last",
    """The right ones, in rising order. The best belongs in front: `descending=True`, or `topk`.""",
    lambda q, v, k: (cosines_of(q, v).argsort()[-k:], cosines_of(q, v).sort().values[-k:]),
)

search.mistake(
    "places and cosines exchanged",
    """`topk` returns values first, then places; here the places come first. Swap the two.""",
    lambda q, v, k: tuple(cosines_of(q, v).topk(k)),
    lambda q, v, k: cosines_of(q, v).topk(k),
)

search.mistake(
    "the first k, not the best",
    """Your cosines are right, but you return the first k of them. Sort by the cosine first: `topk(k)`.""",
    lambda q, v, k: (torch.arange(k), cosines_of(q, v)[:k]),
)

search.mistake(
    "cosines not in the order of the places",
    """Your places are right. The cosines beside them are still in the order of the vectors: take
    `cosines[places]`.""",
    lambda q, v, k: (best(cosines_of(q, v), k)[0], cosines_of(q, v)[:k]),
    lambda q, v, k: (best(cosines_of(q, v), k)[0], cosines_of(q, v)),
)

search.mistake(
    "nearest by distance",
    """You rank by distance. For vectors of length one that gives the same ranking as the cosine; these have
    other lengths, and a short one is near to everything. Scale first, or use the cosine.""",
    lambda q, v, k: best(-(v - q).norm(dim=-1), k, cosines_of(q, v)),
    lambda q, v, k: best(-(v - q).norm(dim=-1), k, (v - q).norm(dim=-1)),
    lambda q, v, k: best(-(v - q).norm(dim=-1), k),
    lambda q, v, k: best(-(v - q / q.norm()).norm(dim=-1), k, cosines_of(q, v)),
)

search.mistake(
    "opposites count as similar",
    """You rank by the absolute value. A cosine of −.9 means nearly the opposite direction, not nearly the
    same. Leave the sign.""",
    lambda q, v, k: best(cosines_of(q, v).abs(), k),
    lambda q, v, k: best(cosines_of(q, v).abs(), k, cosines_of(q, v)),
    lambda q, v, k: best(cosines_of(q, v).square(), k),
)

search.mistake(
    "scaled along the wrong axis",
    """You divide by lengths that run over the vectors, one for each feature, or over everything. Each row has
    its own length: `norm(dim=-1, keepdim=True)`.""",
    lambda q, v, k: best(F.normalize(v, dim=0) @ (q / q.norm()), k),
    lambda q, v, k: best(v / v.norm() @ (q / q.norm()), k),
)

search.mistake(
    "1 − cosine returned",
    """You return distances, 1 − cosine: 0 for the same direction. The ranking is right; asked for are the
    cosines.""",
    lambda q, v, k: best(cosines_of(q, v), k, 1 - cosines_of(q, v)),
)

search.mistake(
    "softmax for cosines",
    """You turn the cosines into shares with a softmax. It keeps the ranking, but a share depends on all other
    texts: the same pair would score less in a larger collection. Return the cosines.""",
    lambda q, v, k: best(cosines_of(q, v), k, cosines_of(q, v).softmax(-1)),
    lambda q, v, k: (best(cosines_of(q, v), k)[0], best(cosines_of(q, v), k)[1].softmax(-1)),
)

search.mistake(
    "all of them",
    """You return the whole ranking. Asked for are the k best: `topk(k)`, or `[:k]`.""",
    lambda q, v, k: best(cosines_of(q, v), len(v)),
)


search.mistake(
    "the roots forgotten",
    """You divide by the squared lengths: `square().sum()` without a root. Short vectors then seem closer than
    they are. Divide by `norm()`, which takes the root.""",
    lambda q, v, k: best(v @ q / (v.square().sum(-1) * q.square().sum()), k),
)

search.mistake(
    "no cosines",
    """You return the places only. A place without its cosine cannot say whether the best is any good: return
    both, `places, cosines`.""",
    lambda q, v, k: best(cosines_of(q, v), k)[0],
)


# ------------------------------------------------------------------------------------------------------ 09.6


@exercise(
    "09.6",
    "Do two maps put the heads in the same order?",
    hints=[
        """First replace each number by its rank: 0 for the smallest, n − 1 for the largest. `x.argsort()` is
        not yet that: it says **who** stands in each place. Apply `argsort` to it once more.""",
        """Then the ordinary correlation of the two lists of ranks: subtract each one's mean, sum the
        products, and divide by the root of the product of both sums of squares.""",
    ],
    without=("corrcoef",),
    tolerance=1e-6,  # ranks in float32 are as right
)
def rank_correlation(x, y):
    """Spearman's rank correlation: 1 if x and y grow together, −1 if one falls where the other grows.

    Write the correlation out: no library's ready-made one.

    x, y: (n,), no two values alike within x, or within y
    returns a number, or a tensor without axes
    """
    raise NotImplementedError


@rank_correlation.cases
def rank_correlation(normal):
    yield {"x": normal(7), "y": normal(7)}
    x = normal(13)
    yield {"x": x.exp(), "y": x + normal(13)}
    yield {"x": torch.arange(5.0), "y": torch.arange(5.0).exp()}
    yield {"x": normal(11), "y": normal(11).exp()}
    x = normal(9)
    yield {"x": x, "y": normal(9) / 2 - x}  # one falls where the other grows
    yield {"x": torch.tensor([2.0, 1.0]), "y": torch.tensor([-5.0, 7.0])}


@rank_correlation.specification
def rank_correlation(x, y):
    n = len(x)
    ranks = [[sum(bool(other < one) for other in values) for one in values] for values in (x, y)]
    squares = sum((a - b) ** 2 for a, b in zip(*ranks, strict=True))
    return 1 - 6 * squares / (n * (n * n - 1))


@rank_correlation.solution
def rank_correlation(x, y):
    a, b = (values.argsort().argsort().double() for values in (x, y))  # ranks: 0 for the smallest
    a, b = a - a.mean(), b - b.mean()
    return ((a @ b) / (a.square().sum() * b.square().sum()).sqrt()).item()


@rank_correlation.alternative
def rank_correlation(x, y):
    ranks = [(values[:, None] > values).sum(1) for values in (x, y)]
    n = len(x)
    return 1 - 6 * (ranks[0] - ranks[1]).float().square().sum() / (n**3 - n)


def correlated(a, b):
    a, b = (values.double() - values.double().mean() for values in (a, b))
    return a @ b / (a.norm() * b.norm())


def ranks_of(values):
    return values.argsort().argsort()


def spread(values):
    """The sum of squares of the ranks, their mean subtracted: the same for x and for y."""
    return (ranks_of(values) - ranks_of(values).double().mean()).square().sum()


def differences(x, y):
    return (ranks_of(x) - ranks_of(y)).double()


rank_correlation.mistake(
    "argsort taken for ranks",
    """`argsort` answers "who stands in place 0, in place 1, …", not "which place has each". Those are
    different lists. Apply it twice: `x.argsort().argsort()`.""",
    lambda x, y: correlated(x.argsort(), y.argsort()),
    lambda x, y: correlated(ranks_of(x), y.argsort()),
    lambda x, y: correlated(x.argsort(), ranks_of(y)),
    lambda x, y: correlated(x.argsort(descending=True), y.argsort(descending=True)),
)

rank_correlation.mistake(
    "no ranks at all",
    """You correlate the values themselves (Pearson's correlation). One very large value then decides alone,
    and the last layer's damages are ten times the others. Replace values by ranks first.""",
    correlated,
)

rank_correlation.mistake(
    "one ranked, one not",
    """You rank one of the two and correlate its ranks with the other's values. Rank both.""",
    lambda x, y: correlated(ranks_of(x), y),
    lambda x, y: correlated(x, ranks_of(y)),
)

rank_correlation.mistake(
    "ranked in opposite directions",
    """One of your rankings counts from the largest, the other from the smallest, so the sign is wrong. Use
    the same direction for both.""",
    lambda x, y: -correlated(ranks_of(x), ranks_of(y)),
)

rank_correlation.mistake(
    "means not subtracted",
    """You do not subtract the means. Ranks are all positive, so such a cosine is always large, whatever the
    order. Subtract the mean of the ranks first.""",
    lambda x, y: F.cosine_similarity(ranks_of(x).double(), ranks_of(y).double(), dim=0),
    lambda x, y: F.cosine_similarity(ranks_of(x) + 1.0, ranks_of(y) + 1.0, dim=0),
)

rank_correlation.mistake(
    "a covariance",
    """You leave out the division by the spreads, or do half of it. Then the result grows with n and is not
    between −1 and 1. Divide by the root of the product of both sums of squares.""",
    lambda x, y: (ranks_of(x) - ranks_of(x).double().mean()) @ (ranks_of(y) - ranks_of(y).double().mean()),
    lambda x, y: ((ranks_of(x) - ranks_of(x).double().mean()) * ranks_of(y)).mean(),
)

rank_correlation.mistake(
    "n and n − 1 mixed",
    """You divide the products by n and use `std`, which divides by n − 1: the result is (n − 1)/n of the
    right one, and never reaches 1. Use sums in both places, or `std(correction=0)`.""",
    lambda x, y: correlated(ranks_of(x), ranks_of(y)) * (len(x) - 1) / len(x),
)

rank_correlation.mistake(
    "the 6 forgotten",
    """In 1 − 6 Σd² / (n(n² − 1)) you have another factor than 6, or another divisor. With it the opposite
    order gives −1; check it with n = 3 on paper.""",
    lambda x, y: 1 - differences(x, y).square().sum() / (len(x) ** 3 - len(x)),
    lambda x, y: 1 - 6 * differences(x, y).square().sum() / len(x) ** 3,
    lambda x, y: 1 - 6 * differences(x, y).square().sum() / (len(x) ** 2 - 1),
)

rank_correlation.mistake(
    "pairs counted",
    """You count the pairs that stand in the same order: Kendall's correlation, a good measure too, with other
    values. Asked for is the correlation of the ranks.""",
    lambda x, y: (torch.sign(x[:, None] - x) * torch.sign(y[:, None] - y)).sum() / (len(x) * (len(x) - 1)),
)

rank_correlation.mistake(
    "the sign lost",
    """Your result is never negative. If one falls where the other grows, the rank correlation is below 0:
    that is how a better role and a smaller damage show. Leave the sign.""",
    lambda x, y: correlated(ranks_of(x), ranks_of(y)).abs(),
)

rank_correlation.mistake(
    "1 − forgotten",
    """You return 6 Σd² / (n(n² − 1)), which is 0 for the same order. The rank correlation is 1 minus
    that.""",
    lambda x, y: 6 * differences(x, y).square().sum() / (len(x) ** 3 - len(x)),
)

rank_correlation.mistake(
    "the root forgotten",
    """You divide by the product of both sums of squares, or of both variances, without the root. The longer
    the lists, the smaller the result. Take the root of the product.""",
    lambda x, y: correlated(ranks_of(x), ranks_of(y)) / spread(x),
    lambda x, y: correlated(ranks_of(x), ranks_of(y)) / ranks_of(x).double().var(),
    lambda x, y: correlated(ranks_of(x), ranks_of(y)) / ranks_of(x).double().var(correction=0),
    lambda x, y: correlated(ranks_of(x), ranks_of(y)) * (len(x) - 1) / len(x) / ranks_of(x).double().var(),
)

rank_correlation.mistake(
    "squared",
    """You return the square, which tells how much is explained and hides the sign: −.5 and .5 give the same.
    Leave the square away.""",
    lambda x, y: correlated(ranks_of(x), ranks_of(y)) ** 2,
)

rank_correlation.mistake(
    "the same values counted",
    """You count the places that agree. Two orders may agree in no place and still be nearly the same.
    Correlate the ranks.""",
    lambda x, y: (ranks_of(x) == ranks_of(y)).double().mean(),
)


rank_correlation.mistake(
    "both sorted",
    """You sort both lists and correlate what is left. Sorted lists always rise together, whatever was in
    them: the pairs are lost. Replace each value by its rank and leave it where it stands.""",
    lambda x, y: correlated(x.sort().values, y.sort().values),
)


# ------------------------------------------------------------------------------------------------------ 09.7


@exercise(
    "09.7",
    "A layer, straight from the file (stretch)",
    hints=[
        """`F.linear(x, weight, bias)` does what an `nn.Linear` does with these two tensors, and
        `F.layer_norm(x, x.shape[-1:], weight, bias, 1e-12)` what an `nn.LayerNorm` does. Write two small
        functions that look up weight and bias by a part's name.""",
        """Attention: project three times, cut into heads (05.1), scores / √d_head, hide with −∞ where
        `may_attend` is False, softmax, mix, merge (05.2), `attention.output.dense`. Then add x, and
        `attention.output.LayerNorm`.""",
        """Feed-forward: `intermediate.dense`, `F.gelu`, `output.dense`; add what came out of the first norm,
        not the first x; then `output.LayerNorm`. All names begin with `f"encoder.layer.{number}."`.""",
    ],
    without=("scaled_dot_product_attention", "multi_head_attention_forward"),
)
def published_layer(tensors, number, x, may_attend, n_heads):
    """One layer of the published model, from its tensors alone: no module, only names and numbers.

    tensors: from "encoder.layer.0.attention.self.query.weight", … to tensors; they stay as they are
    number: of the layer
    x: (batch, position, d_model); may_attend: (batch, 1, 1, position), True = may attend
    returns (batch, position, d_model)
    """
    raise NotImplementedError


@published_layer.cases
def published_layer(normal):
    for number, lengths, n_heads in [(1, (5, 3), 3), (0, (4, 4, 2), 2), (2, (2, 5), 3), (1, (1,), 2)]:
        longest = max(lengths)
        yield {
            "tensors": small_file(normal, 3, d_model=6, d_ff=11),
            "number": number,
            "x": normal(len(lengths), longest, 6) * (50 if number == 2 else 1),  # scores in the hundreds
            "may_attend": padding_mask(longest, *lengths),
            "n_heads": n_heads,
        }


def normed_by_hand(numbers, weight, bias):
    mean = sum(numbers) / len(numbers)
    root = (sum((number - mean) ** 2 for number in numbers) / len(numbers) + 1e-12) ** 0.5
    return torch.stack([(n - mean) / root * w + b for n, w, b in zip(numbers, weight, bias, strict=True)])


@published_layer.specification
def published_layer(tensors, number, x, may_attend, n_heads):
    def of(part):
        return [tensors[f"encoder.layer.{number}.{part}.{kind}"] for kind in ("weight", "bias")]

    def mapped(part, token):
        weight, bias = of(part)
        return torch.stack([(row * token).sum() + b for row, b in zip(weight, bias, strict=True)])

    batch, length, d_model = x.shape
    d_head = d_model // n_heads
    result = torch.zeros_like(x)
    for b in range(batch):
        q, k, v = ([mapped(f"attention.self.{p}", t) for t in x[b]] for p in ("query", "key", "value"))
        real = [j for j in range(length) if may_attend[b, 0, 0, j]]
        for i in range(length):
            mixed = torch.zeros(d_model)
            for h in range(n_heads):
                cut = slice(h * d_head, (h + 1) * d_head)
                scores = [(q[i][cut] * k[j][cut]).sum() / d_head**0.5 for j in real]
                grown = [(score - max(scores)).exp() for score in scores]
                for j, each in zip(real, grown, strict=True):
                    mixed[cut] += each / sum(grown) * v[j][cut]
            heard = x[b, i] + mapped("attention.output.dense", mixed)
            heard = normed_by_hand(heard, *of("attention.output.LayerNorm"))
            bent = [n / 2 * (1 + (n / 2**0.5).erf()) for n in mapped("intermediate.dense", heard)]
            thought = heard + mapped("output.dense", torch.stack(bent))
            result[b, i] = normed_by_hand(thought, *of("output.LayerNorm"))
    return result


@published_layer.solution
def published_layer(tensors, number, x, may_attend, n_heads):
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


class LayerSteps:
    """The right answer, step by step: a mistake replaces some of them."""

    def __call__(self, tensors, number, x, may_attend, n_heads):
        self.tensors, self.number, self.n_heads = tensors, number, n_heads
        heard = self.first_sum(x, self.attend(x, may_attend))
        return self.second_sum(heard, x, self.think(heard))

    def weight_and_bias(self, part):
        return [self.tensors[f"encoder.layer.{self.number}.{part}.{kind}"] for kind in ("weight", "bias")]

    def linear(self, part, x):
        weight, bias = self.weight_and_bias(part)
        return x @ weight.T + bias

    def norm(self, part, x, eps=1e-12):
        weight, bias = self.weight_and_bias(part)
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias

    def project(self, x):
        return [self.linear(f"attention.self.{part}", x) for part in ("query", "key", "value")]

    def cut(self, x):
        return torch.stack(x.chunk(self.n_heads, dim=-1), dim=1)

    def score(self, q, k):
        return q @ k.mT / q.shape[-1] ** 0.5

    def weigh(self, scores, may_attend):
        return scores.masked_fill(~may_attend, -math.inf).softmax(-1)

    def merge(self, heads):
        return torch.cat(heads.unbind(1), dim=-1)

    def attend(self, x, may_attend):
        q, k, v = (self.cut(part) for part in self.project(x))
        return self.output(self.merge(self.weigh(self.score(q, k), may_attend) @ v))

    def output(self, merged):
        return self.linear("attention.output.dense", merged)

    def first_sum(self, x, attended):
        return self.norm("attention.output.LayerNorm", x + attended)

    def bend(self, wide):
        return wide * (1 + torch.erf(wide / math.sqrt(2))) / 2

    def think(self, heard):
        return self.linear("output.dense", self.bend(self.linear("intermediate.dense", heard)))

    def second_sum(self, heard, x, thought):
        return self.norm("output.LayerNorm", heard + thought)


published_layer.alternative(LayerSteps())


def steps(**changed):
    """An answer that takes some of the steps otherwise."""
    return type("Wrong", (LayerSteps,), changed)()


published_layer.mistake(
    "query and key exchanged",
    """You use `self.query` for the keys and `self.key` for the queries. No shape complains, and every map is
    turned: who looks is looked at. Take each by its name.""",
    steps(project=lambda self, x: [self.linear(f"attention.self.{p}", x) for p in ("key", "query", "value")]),
    steps(score=lambda self, q, k: k @ q.mT / q.shape[-1] ** 0.5),
)

published_layer.mistake(
    "no scaling",
    """You do not divide the scores by √d_head. The model was trained with it; without it the softmax is too
    sharp. Divide by the root of one head's width.""",
    steps(score=lambda self, q, k: q @ k.mT),
)

published_layer.mistake(
    "scaled by the whole width",
    """You divide by √d_model. The queries and keys of one head have d_head features: take the width after the
    cut, `q.shape[-1]`.""",
    steps(score=lambda self, q, k: q @ k.mT / (q.shape[-1] * self.n_heads) ** 0.5),
)

published_layer.mistake(
    "scaled without the root",
    """You divide the scores by d_head itself. It is the root that keeps their variance at 1 (lesson 03), and
    what the model was trained with: `math.sqrt(q.shape[-1])`.""",
    steps(score=lambda self, q, k: q @ k.mT / q.shape[-1]),
)

published_layer.mistake(
    "the keys mixed, not the values",
    """You mix keys where values belong: `self.value` is not used, or used for the keys. All three have the
    same shape, so nothing complains. The weights come from queries and keys; they mix the values.""",
    steps(project=lambda self, x: [self.linear(f"attention.self.{p}", x) for p in ("query", "key", "key")]),
    steps(project=lambda self, x: [self.linear(f"attention.self.{p}", x) for p in ("query", "value", "key")]),
)

published_layer.mistake(
    "mask ignored",
    """You do not use `may_attend`: every token listens to the padding. A single text hides this, since it has
    none. Fill the scores with −∞ where the mask is False, before the softmax.""",
    steps(weigh=lambda self, scores, may_attend: scores.softmax(-1)),
)

published_layer.mistake(
    "mask the wrong way round",
    """You hide the real tokens. In this course True means: may attend. So fill where it is False:
    `masked_fill(~may_attend, -math.inf)`.""",
    steps(weigh=lambda self, scores, may_attend: scores.masked_fill(may_attend, -math.inf).softmax(-1)),
    steps(weigh=lambda self, scores, may_attend: scores.masked_fill(may_attend, -1e9).softmax(-1)),
)

published_layer.mistake(
    "masked after the softmax",
    """You set the weights on padding to 0 after the softmax; the others then add up to less than one. Hide
    the scores before it, with −∞.""",
    steps(weigh=lambda self, scores, may_attend: scores.softmax(-1) * may_attend),
)

published_layer.mistake(
    "softmax over the queries",
    """Your softmax runs over the queries, axis −2. Each query shares out its own attention over the keys:
    `dim=-1`.""",
    steps(
        weigh=lambda self, scores, may_attend: (
            scores.masked_fill(~may_attend, -math.inf).softmax(-2).nan_to_num()
        )
    ),
    steps(weigh=lambda self, scores, may_attend: scores.masked_fill(~may_attend, -math.inf).softmax(-2)),
)

published_layer.mistake(
    "weights not transposed",
    """You multiply `x @ weight`. `nn.Linear` keeps (features out, features in), so it is `x @ weight.mT`, or
    `F.linear(x, weight, bias)`. The square ones fit either way, silently; the feed-forward's do not.""",
    steps(linear=lambda self, part, x: x @ self.weight_and_bias(part)[0] + self.weight_and_bias(part)[1]),
    steps(
        linear=lambda self, part, x: (
            LayerSteps.linear(self, part, x)
            if "attention" not in part
            else x @ self.weight_and_bias(part)[0] + self.weight_and_bias(part)[1]
        )
    ),
)

published_layer.mistake(
    "biases forgotten",
    """You leave out the biases of the linear maps. The file has one for each, and they are not zero: pass
    both, `F.linear(x, weight, bias)`.""",
    steps(linear=lambda self, part, x: x @ self.weight_and_bias(part)[0].T),
)

published_layer.mistake(
    "one view for the cut",
    """You go to (batch, n_heads, position, d_head) in one reshape, which mixes tokens with heads (lesson 05).
    Cut the last axis first, then `transpose(1, 2)`.""",
    steps(cut=lambda self, x: x.reshape(len(x), self.n_heads, x.shape[1], -1)),
    steps(
        cut=lambda self, x: x.reshape(len(x), self.n_heads, x.shape[1], -1),
        merge=lambda self, heads: heads.reshape(len(heads), heads.shape[2], -1),
    ),
)

published_layer.mistake(
    "features dealt out like cards",
    """Your head h takes the features h, h + n_heads, … Heads lie in blocks: cut the last axis into
    (n_heads, d_head), in this order.""",
    steps(cut=lambda self, x: x.unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2)),
    steps(
        cut=lambda self, x: x.unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2),
        merge=lambda self, heads: heads.permute(0, 2, 3, 1).flatten(-2),
    ),
)

published_layer.mistake(
    "heads not merged in order",
    """You put the heads together in another order than they were cut in; a reshape without the transpose even
    gives one row several tokens. `transpose(1, 2).flatten(-2)` puts a token's heads side by side.""",
    steps(merge=lambda self, heads: heads.reshape(len(heads), heads.shape[2], -1)),
    steps(merge=lambda self, heads: heads.permute(0, 2, 3, 1).flatten(-2)),
)

published_layer.mistake(
    "one head",
    """You do not cut into heads: one attention over all features. The file does not say how many heads there
    are, and everything fits with one; `n_heads` says it.""",
    steps(cut=lambda self, x: x[:, None]),
)

published_layer.mistake(
    "attention's output projection left out",
    """You add the merged heads as they are, without `attention.output.dense`. It mixes what the heads
    brought; the file has its weight and bias.""",
    steps(output=lambda self, merged: merged),
)

published_layer.mistake(
    "no residuals",
    """You normalise what attention or the feed-forward brings, without adding what went in. Each sublayer
    adds to the stream: norm(x + sublayer(x)).""",
    steps(
        first_sum=lambda self, x, attended: self.norm("attention.output.LayerNorm", attended),
        second_sum=lambda self, heard, x, thought: self.norm("output.LayerNorm", thought),
    ),
    steps(first_sum=lambda self, x, attended: self.norm("attention.output.LayerNorm", attended)),
    steps(second_sum=lambda self, heard, x, thought: self.norm("output.LayerNorm", thought)),
)

published_layer.mistake(
    "the first x added twice",
    """After the feed-forward you add the layer's input. What is added is what went into the feed-forward: the
    output of the first norm.""",
    steps(second_sum=lambda self, heard, x, thought: self.norm("output.LayerNorm", x + thought)),
)

published_layer.mistake(
    "norm before, not after",
    """You normalise before each sublayer (pre-norm). This model was trained post-norm: add, then normalise.
    The names are the same in both, so the file cannot tell.""",
    steps(
        __call__=lambda self, tensors, number, x, may_attend, n_heads: pre_norm(
            self, tensors, number, x, may_attend, n_heads
        )
    ),
)


def pre_norm(steps, tensors, number, x, may_attend, n_heads):
    steps.tensors, steps.number, steps.n_heads = tensors, number, n_heads
    x = x + steps.attend(steps.norm("attention.output.LayerNorm", x), may_attend)
    return x + steps.think(steps.norm("output.LayerNorm", x))


published_layer.mistake(
    "the two norms exchanged",
    """You use `output.LayerNorm` after attention and `attention.output.LayerNorm` after the feed-forward.
    Same shapes, other numbers: each sublayer has its own.""",
    steps(
        first_sum=lambda self, x, attended: self.norm("output.LayerNorm", x + attended),
        second_sum=lambda self, heard, x, thought: self.norm("attention.output.LayerNorm", heard + thought),
    ),
)

published_layer.mistake(
    "GELU by tanh",
    """You use the tanh approximation of GELU. It is off by at most .0005, so any cosine looks right, and the
    numbers differ from the fourth digit on. The model was trained with the exact one: `F.gelu(x)`.""",
    steps(bend=lambda self, wide: F.gelu(wide, approximate="tanh")),
)

published_layer.mistake(
    "another activation",
    """You bend with ReLU (or SiLU). This model was trained with GELU, and the file cannot say so: an
    activation has no parameters. Use `F.gelu`.""",
    steps(bend=lambda self, wide: wide.relu()),
    steps(bend=lambda self, wide: F.silu(wide)),
)

published_layer.mistake(
    "no activation",
    """You multiply `intermediate.dense` and `output.dense` without a bend between them: two linear maps in
    a row are one (lesson 06). Put `F.gelu` between.""",
    steps(bend=lambda self, wide: wide),
)

published_layer.mistake(
    "wrong eps",
    """Your norm uses PyTorch's usual 1e-5, or another one. BERT's is 1e-12, and eps is in no file of
    weights. The error is small, about 1e-5, and only a strict comparison finds it. Pass 1e-12.""",
    steps(norm=lambda self, part, x: LayerSteps.norm(self, part, x, eps=1e-5)),
    steps(norm=lambda self, part, x: LayerSteps.norm(self, part, x, eps=1e-6)),
)

published_layer.mistake(
    "always layer 0",
    """You do not use `number`: the names you look up are always those of layer 0.""",
    lambda tensors, number, x, may_attend, n_heads: LayerSteps()(tensors, 0, x, may_attend, n_heads),
)

published_layer.mistake(
    "norms without their numbers",
    """You normalise without the norm's own weight, or its bias. The file has both, and they are not 1 and 0:
    pass them to `F.layer_norm`.""",
    steps(norm=lambda self, part, x: F.layer_norm(x, x.shape[-1:], eps=1e-12)),
    steps(
        norm=lambda self, part, x: F.layer_norm(x, x.shape[-1:], self.weight_and_bias(part)[0], None, 1e-12)
    ),
)

published_layer.mistake(
    "a spread that divides by n − 1",
    """Your norm is written by hand with `std` or `var`, which divide by n − 1. A layer norm divides by n: add
    `correction=0`, or use `F.layer_norm`.""",
    steps(norm=lambda self, part, x: spread_by_n_minus_1(self, part, x, inside=0.0, outside=1e-12)),
    steps(norm=lambda self, part, x: spread_by_n_minus_1(self, part, x, inside=1e-12, outside=0.0)),
)


def spread_by_n_minus_1(steps, part, x, inside, outside):
    weight, bias = steps.weight_and_bias(part)
    spread = (x.var(-1, keepdim=True) + inside).sqrt() + outside
    return (x - x.mean(-1, keepdim=True)) / spread * weight + bias


published_layer.mistake(
    "a norm left out",
    """One of the two norms, or both, is missing. After each sum comes a norm, and the file has one for each:
    `attention.output.LayerNorm` and `output.LayerNorm`.""",
    steps(second_sum=lambda self, heard, x, thought: heard + thought),
    steps(first_sum=lambda self, x, attended: x + attended),
    steps(
        first_sum=lambda self, x, attended: x + attended,
        second_sum=lambda self, heard, x, thought: heard + thought,
    ),
)

published_layer.mistake(
    "hidden scores not −∞",
    """Padding is still heard: you add the mask to the scores, where True counts as 1, or make hidden scores
    0, or a number such as −50 that other scores may come below. Fill them with −∞.""",
    *(
        steps(weigh=lambda self, scores, mask, low=low: scores.masked_fill(~mask, low).softmax(-1))
        for low in (-1.0, -10.0, -50.0, -100.0)
    ),
    steps(weigh=lambda self, scores, may_attend: (scores + may_attend).softmax(-1)),
    steps(weigh=lambda self, scores, may_attend: (scores * may_attend).softmax(-1)),
)

published_layer.mistake(
    "rows of padding hidden too",
    """You also forbid the padding to ask. Its rows then have nothing to choose from: NaN, or the mean of all.
    Nobody reads these rows, so leave them; a mask hides keys.""",
    steps(
        weigh=lambda self, scores, may_attend: scores.masked_fill(
            ~(may_attend & may_attend.mT), -math.inf
        ).softmax(-1)
    ),
    steps(
        weigh=lambda self, scores, may_attend: scores.masked_fill(
            ~(may_attend & may_attend.mT), -1e9
        ).softmax(-1)
    ),
)


def with_think_from_the_start(tensors, number, x, may_attend, n_heads):
    answer = LayerSteps()
    answer.tensors, answer.number, answer.n_heads = tensors, number, n_heads
    heard = answer.first_sum(x, answer.attend(x, may_attend))
    return answer.second_sum(heard, x, answer.think(x))


published_layer.mistake(
    "the feed-forward does not hear attention",
    """You hand the layer's input to the feed-forward. It works on what comes out of the first norm, which
    holds what attention has brought; otherwise the two would stand side by side.""",
    with_think_from_the_start,
)

published_layer.mistake(
    "the norm inside the sum",
    """You normalise what a sublayer brings and add x afterwards: x + norm(sublayer(x)). This model adds
    first and normalises the sum: norm(x + sublayer(x)).""",
    steps(
        first_sum=lambda self, x, attended: x + self.norm("attention.output.LayerNorm", attended),
        second_sum=lambda self, heard, x, thought: heard + self.norm("output.LayerNorm", thought),
    ),
    steps(first_sum=lambda self, x, attended: x + self.norm("attention.output.LayerNorm", attended)),
    steps(second_sum=lambda self, heard, x, thought: heard + self.norm("output.LayerNorm", thought)),
)

published_layer.mistake(
    "the bend in the wrong place",
    """Your activation comes after `output.dense`. It belongs between the two maps: without a bend there
    they are one, and what is added to the stream must be free to be negative.""",
    steps(
        think=lambda self, heard: self.bend(
            self.linear("output.dense", self.linear("intermediate.dense", heard))
        )
    ),
)
