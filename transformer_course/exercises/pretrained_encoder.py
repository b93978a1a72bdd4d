"""Exercises of lesson 09."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from transformer_course.checker import exercise
from transformer_course.checker.exercise_types import FunctionExercise
from transformer_course.checker.shared_modules import Projections
from transformer_lab.pretrained_encoder import CORRESPONDENCE

# ------------------------------------------------------------------------------------------------------ 09.1


class LoadExercise(FunctionExercise):
    """What an encoder would be filled with. Of its two tables only their sums count: see `entering`."""

    def use(self, ready, inputs):
        return entering(super().use(ready, inputs))


def entering(state):
    """The same dictionary, in place of its two tables every sum of a row of one and a row of the other.

    So a constant may have been added to either.
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


@exercise(
    "09.1",
    "The whole file",
    kind=LoadExercise,
    difficulty=2,
    hints=[
        """Write down what a token is before the first norm: in BERT a sum of three vectors, in yours of two.
        With a single text, which of the three is the same for every token of every text?""",
        """A constant may be added to every row of a table beforehand: the sums come out the same. Make a new
        tensor; `+=` would write into the file.""",
        """`layer_state(published, layer)` has one layer. In the whole encoder each of its names has
        `layers.`, the number and a dot in front.""",
    ],
)
def encoder_state(published, n_layers):
    """The file for your whole encoder, for a strict load_state_dict: it then computes what BERT does.

    published: the file, from names to tensors; it stays as it is
    n_layers: how many layers it has, counted from 0
    returns a new dictionary: the names of all your encoder's tensors, and the tensors. Every text is a
        first text, alone.
    """
    raise NotImplementedError


@encoder_state.cases
def encoder_state(normal):
    yield {"published": small_file(normal, 3), "n_layers": 3}
    yield {"published": small_file(normal, 2, d_model=5, d_ff=7), "n_layers": 2}
    yield {"published": small_file(normal, 13), "n_layers": 13}
    yield {"published": small_file(normal, 1, d_model=2, d_ff=3), "n_layers": 1}


@encoder_state.specification
def encoder_state(published, n_layers):
    words = published["embeddings.word_embeddings.weight"].clone()
    places = published["embeddings.position_embeddings.weight"].clone()
    first_text = published["embeddings.token_type_embeddings.weight"][0]
    for place in range(len(places)):
        for feature in range(len(first_text)):
            places[place, feature] += first_text[feature]
    result = {"embedding.weight": words, "positions.weight": places}
    for kind in ("weight", "bias"):
        result[f"embedding_norm.{kind}"] = published[f"embeddings.LayerNorm.{kind}"]
    for layer in range(n_layers):
        for theirs, ours in PARTS.items():
            for kind in ("weight", "bias"):
                name = f"encoder.layer.{layer}.{theirs}.{kind}"
                result[f"layers.{layer}.{ours}.{kind}"] = published[name]
    return result


@encoder_state.solution
def encoder_state(published, n_layers):
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


@encoder_state.alternative
def encoder_state(published, n_layers):
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


# ------------------------------------------------------------------------------------------------------ 09.2


@exercise(
    "09.2",
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


# ------------------------------------------------------------------------------------------------------ 09.3


@exercise(
    "09.3",
    "Search by cosine",
    hints=[
        """The cosine of two vectors is their dot product divided by both lengths. Scale the query and every
        row to length one, and `rows @ query` is all cosines at once, (n,).""",
        """`topk(k)` returns the k largest values, best first, and their places: in this order, (values,
        indices).""",
    ],
    returns=("places", "cosines"),
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


# ------------------------------------------------------------------------------------------------------ 09.4


@exercise(
    "09.4",
    "A layer, straight from the file",
    difficulty=2,
    hints=[
        """`F.linear(x, weight, bias)` does what an `nn.Linear` does with these two tensors, and
        `F.layer_norm(x, x.shape[-1:], weight, bias, 1e-12)` what an `nn.LayerNorm` does. Write two small
        functions that look up weight and bias by a part's name.""",
        """Attention: project three times, cut into heads (05.2), scores / √d_head, hide with −∞ where
        `may_attend` is False, softmax, mix, merge (05.3), `attention.output.dense`. Then add x, and
        `attention.output.LayerNorm`.""",
        """Feed-forward: `intermediate.dense`, `F.gelu`, `output.dense`; add what came out of the first norm,
        not the first x; then `output.LayerNorm`. All names begin with `f"encoder.layer.{number}."`.""",
    ],
    forbidden=("scaled_dot_product_attention", "multi_head_attention_forward"),
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


@published_layer.alternative
def published_layer(tensors, number, x, may_attend, n_heads):
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


# ------------------------------------------------------------------------------------------------------ 09.5


@exercise(
    "09.5",
    "From their names to yours",
    difficulty=2,
    hints=[
        """All names of one layer begin with `f"encoder.layer.{layer}."`. Mind the dot at the end: without it,
        layer 1 takes layers 10 and 11 too. `name.removeprefix(…)` gives the rest.""",
        """The shapes decide two of the eight pairs, the names the rest. *intermediate* is between the two
        maps of the feed-forward. `output`, the end of a part, is in two names: once it is attention's,
        and once, bare, the feed-forward's.""",
        """Write the eight pairs as a dictionary from theirs to yours, and look up, each with `.weight` and
        `.bias`; with `replace`, `output.dense` hits in two places.""",
    ],
)
def layer_state(published, layer):
    """The tensors of one layer under your names, ready for layers[layer].load_state_dict.

    published: the file, from names such as "encoder.layer.0.attention.self.query.weight" to tensors;
        it stays as it is
    layer: a number
    returns a new dictionary of 16 tensors, from "attention.query_projection.weight"
        to "feed_forward_norm.bias", without "layers.0." in front
    """
    raise NotImplementedError


PARTS = {
    theirs.removeprefix("encoder.layer.{layer}.")[:-2]: ours.removeprefix("layers.{layer}.")[:-2]
    for theirs, ours in CORRESPONDENCE
    if "{layer}" in theirs
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
    yield {"published": small_file(normal, 14), "layer": 1}
    yield {"published": small_file(normal, 14), "layer": 12}
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


# ------------------------------------------------------------------------------------------------------ 09.6


@exercise(
    "09.6",
    "How much does a head look back?",
    hints=[
        """Row i of a map is what token i looks at, so the weight on the token before stands at [i, i − 1]: on
        the line just below the diagonal. `weights.diagonal(-1, dim1=-2, dim2=-1)` has these numbers.""",
        """That line begins with row 1, the first word, and ends with row n − 1, [SEP]. Leave [SEP] out with
        `[..., :-1]`, and take the mean over what is left.""",
    ],
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


# ------------------------------------------------------------------------------------------------------ 09.7


@exercise(
    "09.7",
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


# ------------------------------------------------------------------------------------------------------ 09.8


@exercise(
    "09.8",
    "Do two maps put the heads in the same order?",
    hints=[
        """First replace each number by its rank: 0 for the smallest, n − 1 for the largest. `x.argsort()` is
        not yet that: it says **who** stands in each place. Apply `argsort` to it once more.""",
        """Then the ordinary correlation of the two lists of ranks: subtract each one's mean, sum the
        products, and divide by the root of the product of both sums of squares.""",
    ],
    forbidden=("corrcoef",),
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
