"""Exercises of lesson 12."""

import math
from copy import deepcopy

import torch
from torch import nn

from transformer_course.checker import exercise, source
from transformer_course.checker.exercise_types import FunctionExercise, ModuleExercise
from transformer_course.checker.parameters import set_parameters
from transformer_course.exercises import encoder_layer, masking, rotary_embedding
from transformer_course.exercises.encoder import FactoryExercise
from transformer_lab import RotaryEmbedding

F = nn.functional

masked_attention = masking.masked_attention.reference  # what the learner wrote in 04.3, 02.4 and 07.4
Rotary = rotary_embedding.Rotary.reference
PreNormEncoderLayer = encoder_layer.PreNormEncoderLayer.reference

# ----------------------------------------------------------------------------------------------------- 12.1


@exercise(
    "12.1",
    "Attention that turns, and sees a window",
    returns=("output", "weights"),
    keyword_arguments=["may_attend"],
    difficulty=2,
    hints=[
        """Wqkv gives 3 · n_heads heads, one behind another: `unflatten(-1, (3 * self.n_heads, -1))`, then
        the heads forward with `transpose(1, 2)`. `chunk(3, dim=1)` makes queries, keys, values of them.""",
        """What is turned depends on what a score is made of. The window: with `place = torch.arange(…)`,
        `place[:, None] - place` has all differences at once; their sign does not matter. Without a window
        every distance is near enough. Of the two masks, a pair must pass both.""",
        """`masked_attention(query, key, value, allowed)` of 04.3 does the rest; a mask of two axes gets two
        more in front, `[None, None]`. Then merge the heads (05.3), and apply Wo.""",
    ],
)
class ModernAttention(nn.Module):
    """Self-attention without biases. Wqkv holds W_Q, W_K, W_V one below another, in each head below head.

    rotary: a module; rotary(x) turns (batch, heads, position, d_head) by its positions
    window: how many places a token sees on each side, 0 or more; None: everything
    """

    def __init__(self, d_model, n_heads, rotary, window=None):
        super().__init__()
        self.n_heads, self.rotary, self.window = n_heads, rotary, window
        self.Wqkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.Wo = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, may_attend=None):
        """x: (batch, position, d_model); may_attend: booleans that broadcast to the weights

        returns output (batch, position, d_model) and weights (batch, n_heads, query_pos, key_pos);
        a query that may attend to nothing gets zeros
        """
        raise NotImplementedError


def padding(length, *lengths):
    """A mask that hides what stands behind the real tokens of each text."""
    return (torch.arange(length) < torch.tensor(lengths)[:, None])[:, None, None]


@ModernAttention.cases
def ModernAttention(normal):
    for d_model, n_heads, window, shape, may_attend in [
        (12, 2, 1, (2, 7), padding(7, 7, 3)),  # pads that see nothing
        (12, 3, None, (2, 5), padding(5, 5, 2)),
        (20, 2, 2, (3, 7), None),
        (6, 3, None, (1, 3), None),
        (8, 2, 0, (1, 4), None),
        (4, 1, 2, (1, 5), torch.arange(5)[:, None].eq(torch.tensor([0, 1, 2, 0, 4]))[None, None]),
    ]:
        rotary = RotaryEmbedding(d_model // n_heads, base=50.0)
        settings = {"d_model": d_model, "n_heads": n_heads, "rotary": rotary, "window": window}
        yield settings, {"x": 2 * normal(*shape, d_model), "may_attend": may_attend}


class Projected(nn.Module):
    """What every answer has: the number of heads, what turns, the window, and two maps."""

    def __init__(self, d_model, n_heads, rotary, window=None):
        super().__init__()
        self.n_heads, self.rotary, self.window = n_heads, rotary, window
        self.Wqkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.Wo = nn.Linear(d_model, d_model, bias=False)


@ModernAttention.specification
class ModernAttention(Projected):
    def forward(self, x, may_attend=None):
        batch, length, d_model = x.shape
        d_head = d_model // self.n_heads
        allowed = torch.ones(batch, 1, length, length, dtype=torch.bool)
        allowed = allowed if may_attend is None else allowed & may_attend
        output, weights = (
            torch.zeros(batch, length, d_model),
            torch.zeros(batch, self.n_heads, length, length),
        )
        for b in range(batch):
            query, key, value = (x[b] @ matrix.mT for matrix in self.Wqkv.weight.split(d_model))
            for h in range(self.n_heads):
                own = slice(h * d_head, (h + 1) * d_head)
                asked, found = (self.rotary(each[None, None, :, own])[0, 0] for each in (query, key))
                for i in range(length):
                    seen = [j for j in range(length) if self.sees(i, j) and allowed[b, 0, i, j]]
                    scores = [asked[i] @ found[j] / math.sqrt(d_head) for j in seen]
                    grown = [(score - max(scores)).exp() for score in scores]
                    for j, each in zip(seen, grown, strict=True):
                        weights[b, h, i, j] = each / sum(grown)
                output[b, :, own] = weights[b, h].clone() @ value[:, own]
        return output @ self.Wo.weight.mT, weights

    def sees(self, i, j):
        return self.window is None or abs(i - j) <= self.window


@ModernAttention.solution
class ModernAttention(nn.Module):
    def __init__(self, d_model, n_heads, rotary, window=None):
        super().__init__()
        self.n_heads, self.rotary, self.window = n_heads, rotary, window
        self.Wqkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.Wo = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x, may_attend=None):
        heads = self.Wqkv(x).unflatten(-1, (3 * self.n_heads, -1)).transpose(1, 2)
        query, key, value = heads.chunk(3, dim=1)  # (batch, n_heads, position, d_head) each
        place = torch.arange(x.shape[1])
        distance = (place[:, None] - place).abs()[None, None]  # (1, 1, query_pos, key_pos)
        allowed = distance <= (x.shape[1] if self.window is None else self.window)
        allowed = allowed if may_attend is None else allowed & may_attend
        output, weights = masked_attention(self.rotary(query), self.rotary(key), value, allowed)
        return self.Wo(output.transpose(1, 2).flatten(-2)), weights


@ModernAttention.alternative
class ModernAttention(Projected):
    def forward(self, x, may_attend=None):
        batch, length, width = x.shape
        q, k, v = self.Wqkv(x).view(batch, length, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        place = torch.arange(length)
        hidden = torch.zeros(length, length, dtype=torch.bool)
        if self.window is not None:
            hidden = (place - place[:, None]).abs() > self.window
        if may_attend is not None:
            hidden = hidden | ~may_attend
        scores = self.rotary(q) @ self.rotary(k).mT / (width // self.n_heads) ** 0.5
        weights = scores.masked_fill(hidden, -math.inf).softmax(-1).nan_to_num(0.0)
        return self.Wo((weights @ v).permute(0, 2, 1, 3).reshape(batch, length, width)), weights


# ----------------------------------------------------------------------------------------------------- 12.2


class LayerExercise(FactoryExercise):
    """A function that builds one layer."""

    describe = ModuleExercise.describe


def modern_layer(number, d_model, n_heads, d_ff, window):
    """Build layer `number` of ModernBERT, counted from 0: a new pre-norm layer, of your own parts.

    window: of the local layers
    The names are those of lesson 07: attention, feed_forward, attention_norm, feed_forward_norm.
    """
    raise NotImplementedError


modern_layer = LayerExercise(
    "12.2",
    "Build layer number n",
    "modern_layer",
    source.text_of(modern_layer),
    [
        """Two kinds: what differs between a global and a local layer? The window, and one thing more. And
        which layer is unlike all others?""",
        """`PreNormEncoderLayer(attention, feed_forward, attention_norm, feed_forward_norm)`. A norm without a
        bias is `nn.LayerNorm(d_model, bias=False)`; what does nothing is `nn.Identity()`.""",
        """`Rotary(d_head, base)` turns what one head has: d_head is `d_model // n_heads`.""",
    ],
    returns=("output", "weights"),
)


@modern_layer.cases
def modern_layer(normal):
    for number, d_model, n_heads, d_ff, window in [
        (0, 12, 2, 7, 1),
        (1, 12, 3, 5, 2),
        (2, 8, 2, 3, 1),
        (3, 20, 2, 11, 1),
        (5, 4, 1, 3, 3),
        (9, 12, 2, 5, 0),
    ]:
        settings = {"number": number, "d_model": d_model, "n_heads": n_heads, "d_ff": d_ff, "window": window}
        yield settings, {"x": 2 * normal(2, 7, d_model), "may_attend": padding(7, 7, 5)}


@modern_layer.specification
def modern_layer(number, d_model, n_heads, d_ff, window):
    base, seen = (160_000.0, None) if number in range(0, 99, 3) else (10_000.0, window)
    attention = ModernAttention.specified(
        d_model, n_heads, RotaryEmbedding(d_model // n_heads, base=base), seen
    )
    first = nn.Identity() if number == 0 else nn.LayerNorm(d_model, bias=False)
    last = nn.LayerNorm(d_model, bias=False)
    return PreNormEncoderLayer(attention, GeGLU.specified(d_model, d_ff), first, last)


@modern_layer.solution
def modern_layer(number, d_model, n_heads, d_ff, window):
    is_global = number % 3 == 0
    rotary = Rotary(d_model // n_heads, 160_000 if is_global else 10_000)
    return PreNormEncoderLayer(
        ModernAttention(d_model, n_heads, rotary, None if is_global else window),
        GeGLU(d_model, d_ff),
        nn.LayerNorm(d_model, bias=False) if number else nn.Identity(),
        nn.LayerNorm(d_model, bias=False),
    )


@modern_layer.alternative
def modern_layer(n, d, h, f, w):
    attention = ModernAttention(d, h, RotaryEmbedding(d // h, base=[160_000.0, 1e4, 1e4][n % 3]))
    if n % 3:
        attention.window = w
    norms = [nn.LayerNorm((d,), 1e-5, bias=False) for _ in range(2)]
    layer = PreNormEncoderLayer(attention, GeGLU(d, f), *norms)
    if n == 0:
        layer.attention_norm = nn.Identity()
    return layer


# ----------------------------------------------------------------------------------------------------- 12.3


@exercise(
    "12.3",
    "Write ModernBERT",
    keyword_arguments=["may_attend"],
    hints=[
        """Your encoder of 08.3, with one thing less: what tells this one where a token stands?""",
        """`nn.ModuleList(modern_layer(number, d_model, n_heads, d_ff, window) for number in
        range(n_layers))`.""",
    ],
)
class ModernBert(nn.Module):
    """Token ids in, vectors in context out."""

    def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, window):
        super().__init__()
        # self.embedding, self.embedding_norm, self.layers, self.final_norm
        raise NotImplementedError

    def forward(self, token_ids, may_attend=None):
        """token_ids (batch, position); may_attend: booleans that broadcast to the weights. A layer is
        called as layer(x, may_attend=…) and returns a pair.

        Returns the vectors, (batch, position, d_model).
        """
        raise NotImplementedError


@ModernBert.cases
def ModernBert(normal):
    for vocab_size, d_model, n_heads, d_ff, n_layers, window, lengths in [
        (11, 12, 2, 7, 5, 1, (7, 3)),
        (5, 8, 2, 3, 2, 2, (5, 4, 5)),
        (3, 4, 1, 5, 1, 1, (3,)),
    ]:
        names = ("vocab_size", "d_model", "n_heads", "d_ff", "n_layers", "window")
        sizes = (vocab_size, d_model, n_heads, d_ff, n_layers, window)
        ids = (torch.arange(len(lengths) * max(lengths)) % vocab_size).view(len(lengths), -1)
        mask = padding(max(lengths), *lengths) if len(lengths) > 1 else None
        yield dict(zip(names, sizes, strict=True)), {"token_ids": ids, "may_attend": mask}


@ModernBert.specification
class ModernBert(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, window):
        super().__init__()
        sizes = (d_model, n_heads, d_ff, window)
        self.embedding, self.layers = nn.Embedding(vocab_size, d_model), nn.ModuleList()
        self.embedding_norm = nn.LayerNorm(d_model, bias=False)
        for number in range(n_layers):
            self.layers.append(modern_layer.specified(number, *sizes))
        self.final_norm = nn.LayerNorm(d_model, bias=False)

    def forward(self, token_ids, may_attend=None):
        rows = [torch.stack([self.embedding.weight[token] for token in text]) for text in token_ids]
        streams = [self.embedding_norm(torch.stack(rows))]
        for layer in self.layers:
            stream, _ = layer(streams[-1], may_attend=may_attend)
            streams.append(stream)
        return self.final_norm(streams[-1])


@ModernBert.solution
class ModernBert(nn.Module):
    def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, window):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)
        sizes = (d_model, n_heads, d_ff, window)
        self.layers = nn.ModuleList(modern_layer(number, *sizes) for number in range(n_layers))
        self.embedding_norm, self.final_norm = (nn.LayerNorm(d_model, bias=False) for _ in range(2))

    def forward(self, token_ids, may_attend=None):
        x = self.embedding_norm(self.embedding(token_ids))
        for layer in self.layers:
            x, _ = layer(x, may_attend=may_attend)
        return self.final_norm(x)


@ModernBert.alternative
class ModernBert(nn.Module):
    def __init__(self, v, d, h, f, n, w):
        super().__init__()
        self.embedding, self.layers = nn.Embedding(v, d), nn.ModuleList()
        while len(self.layers) < n:
            self.layers.append(modern_layer(len(self.layers), d, h, f, w))
        self.embedding_norm, self.final_norm = (nn.LayerNorm(d, bias=False) for _ in range(2))

    def forward(self, ids, may_attend=None):
        x = self.embedding_norm(F.embedding(ids, self.embedding.weight))
        for each in self.layers:
            x = each(x, may_attend=may_attend)[0]
        return self.final_norm(x)


# ----------------------------------------------------------------------------------------------------- 12.4


class PackingExercise(FunctionExercise):
    """Beside the result: how many rows and tokens the model was given, at each call."""

    def call(self, answer, case):
        shapes = []

        def model(token_ids, may_attend=None):
            shapes.append(f"{token_ids.shape[0]} × {token_ids.shape[-1]}")
            return case["model"](token_ids, may_attend=may_attend)

        result = super().call(answer, {**case, "model": model})
        return None if result is None else (result, ", then ".join(shapes))


@exercise(
    "12.4",
    "Take the padding out",
    kind=PackingExercise,
    returns=("output", "rows × tokens that the model was given"),
    difficulty=2,
    hints=[
        """`real = may_attend[:, 0, 0]` is True at the real tokens, and `token_ids[real]` is all of them, one
        text behind another. Whom may a token in that row attend to?""",
        """The row of the batch from which each token came: `real.nonzero()[:, 0]`. Where it is the same for
        query and key, they may attend. As a mask it needs two axes in front.""",
        """The other way: zeros of shape (batch, position, d_model), then `output[real] = hidden[0]`.""",
    ],
)
def packed(model, token_ids, may_attend):
    """What model(token_ids, may_attend) returns for the real tokens; zeros for the padding.

    model: a ModernBert; model(token_ids, may_attend) returns its vectors, (batch, position, d_model)
    token_ids: (batch, position)
    may_attend: (batch, 1, 1, position), True at real tokens, which stand side by side in each text
    returns (batch, position, d_model)
    The model is called once, with one row that holds the real tokens of all texts and nothing else.
    """
    raise NotImplementedError


@packed.cases
def packed(normal):
    for vocab_size, d_model, window, real in [
        (11, 12, 2, padding(7, 3, 7, 5)),
        (7, 8, 1, padding(5, 1, 4).flip(-1)),  # padding in front
        (5, 4, 1, padding(3, 2)),
        (5, 4, 1, padding(2, 2, 2)),  # none at all
    ]:
        model = ModernBert.specified(vocab_size, d_model, 2 if d_model > 4 else 1, 3, 3, window).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(normal(*parameter.shape))
        model.requires_grad_(False)
        batch, length = len(real), real.shape[-1]
        ids = (torch.arange(batch * length) * 3 % vocab_size).view(batch, length)
        yield {"model": model, "token_ids": ids, "may_attend": real}


@packed.specification
def packed(model, token_ids, may_attend):
    batch, length = token_ids.shape
    places = [(b, i) for b in range(batch) for i in range(length) if may_attend[b, 0, 0, i]]
    mask = torch.zeros(1, 1, len(places), len(places), dtype=torch.bool)
    for i, (text, _) in enumerate(places):
        for j, (other, _) in enumerate(places):
            mask[0, 0, i, j] = text == other
    hidden = model(torch.stack([token_ids[place] for place in places])[None], mask)
    output = torch.zeros(batch, length, hidden.shape[-1])
    for place, vector in zip(places, hidden[0], strict=True):
        output[place] = vector
    return output


@packed.solution
def packed(model, token_ids, may_attend):
    real = may_attend[:, 0, 0]  # (batch, position)
    text = real.nonzero()[:, 0]  # (token,): the text from which each came
    hidden = model(token_ids[real][None], (text[:, None] == text)[None, None])
    output = torch.zeros(*real.shape, hidden.shape[-1])
    output[real] = hidden[0]
    return output


@packed.alternative
def packed(model, token_ids, may_attend):
    lengths = may_attend.sum(dim=-1).flatten().tolist()
    blocks = torch.block_diag(*[torch.ones(length, length) for length in lengths]).bool()
    row = torch.cat([ids[own[0, 0]] for ids, own in zip(token_ids, may_attend, strict=True)])
    hidden = model(row[None], may_attend=blocks[None, None])
    real = may_attend[:, 0, 0, :, None]
    return torch.zeros(*token_ids.shape, hidden.shape[-1]).masked_scatter(real, hidden)


# ------------------------------------------------------------------------------------------------------ 12.5


@exercise(
    "12.5",
    "A gate in one matrix",
    hints=[
        """One linear map from d_model to 2 · d_ff features, one from d_ff back to d_model, both with
        `bias=False`.""",
        """`self.Wi(x).chunk(2, dim=-1)` cuts the last axis into two halves, in their order.""",
    ],
)
class GeGLU(nn.Module):
    """Wo (GELU(first half of Wi x) ⊙ second half of Wi x), where ⊙ multiplies feature by feature.

    Wi: from d_model to 2 · d_ff features; Wo: from d_ff to d_model. Neither has a bias.
    """

    def __init__(self, d_model, d_ff):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        """x: (…, d_model), returns (…, d_model); GELU is the exact one"""
        raise NotImplementedError


@GeGLU.cases
def GeGLU(normal):
    yield {"d_model": 5, "d_ff": 7}, {"x": normal(2, 3, 5)}
    yield {"d_model": 3, "d_ff": 3}, {"x": normal(5, 3)}
    yield {"d_model": 1, "d_ff": 2}, {"x": 2 * normal(1, 1, 1)}


@GeGLU.specification
class GeGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.Wi, self.Wo = nn.Linear(d_model, 2 * d_ff, bias=False), nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        d_ff, rows = len(self.Wi.weight) // 2, []
        for token in x.reshape(-1, x.shape[-1]):
            answers = [
                sum(w * number for w, number in zip(row, token, strict=True)) for row in self.Wi.weight
            ]
            bent = [z * (1 + torch.erf(z / math.sqrt(2))) / 2 for z in answers[:d_ff]]
            hidden = [one * other for one, other in zip(bent, answers[d_ff:], strict=True)]
            row = [sum(w * number for w, number in zip(row, hidden, strict=True)) for row in self.Wo.weight]
            rows.append(torch.stack(row))
        return torch.stack(rows).reshape(x.shape)


@GeGLU.solution
class GeGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.Wi = nn.Linear(d_model, 2 * d_ff, bias=False)
        self.Wo = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        gate, value = self.Wi(x).chunk(2, dim=-1)  # (…, d_ff) each
        return self.Wo(F.gelu(gate) * value)


@GeGLU.alternative
class GeGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.d_ff, self.bend = d_ff, nn.GELU()
        self.Wi, self.Wo = nn.Linear(d_model, d_ff + d_ff, False), nn.Linear(d_ff, d_model, False)

    def forward(self, x):
        first, second = self.Wi.weight[: self.d_ff], self.Wi.weight[self.d_ff :]
        return self.Wo(self.bend(x @ first.mT) * (x @ second.mT))


# ------------------------------------------------------------------------------------------------------ 12.6


@exercise(
    "12.6",
    "Who is near?",
    hints=[
        """`place = torch.arange(length)`. How far apart are query i and key j? `place[:, None] - place` has
        all differences at once; the window lies on both sides, so their sign does not matter.""",
        """Without a window every distance is near enough. Two axes of length 1 in front: `[None, None]`.""",
    ],
)
def near(length, window=None):
    """True where a key is at most `window` places from the query, on either side; everywhere, if None.

    returns (1, 1, length, length), booleans
    Write it yourself, without `transformer_lab`.
    """
    raise NotImplementedError


@near.cases
def near(normal):
    for length, window in [(7, 2), (5, 0), (3, None), (11, 5), (2, 3), (1, 1)]:
        yield {"length": length, "window": window}
    yield {"length": 5}


@near.specification
def near(length, window=None):
    rows = [[window is None or -window <= i - j <= window for j in range(length)] for i in range(length)]
    return torch.tensor(rows)[None, None]


@near.solution
def near(length, window=None):
    place = torch.arange(length)
    distance = (place[:, None] - place).abs()  # (query_pos, key_pos)
    return (distance <= (length if window is None else window))[None, None]


@near.alternative
def near(length, window=None):
    everything = torch.ones(1, 1, length, length, dtype=torch.bool)
    return everything if window is None else everything.tril(window).triu(-window)


# ------------------------------------------------------------------------------------------------------ 12.7


@exercise(
    "12.7",
    "RMS norm by hand",
    forbidden=["rms_norm", "layer_norm"],
    hints=[
        """Square the features, take their mean over the last axis, add eps, take the root. Nothing is
        subtracted anywhere.""",
        """With `keepdim=True` the mean keeps an axis of length 1, and the division fits:
        `x.square().mean(dim=-1, keepdim=True)`.""",
    ],
)
def rms_norm(x, weight, eps):
    """Divide each vector by the root of its mean square plus eps; then multiply by the weight.

    x: (…, d_model)
    weight: (d_model,)
    returns (…, d_model)
    """
    raise NotImplementedError


@rms_norm.cases
def rms_norm(normal):
    yield {"x": 1 + normal(3, 5), "weight": normal(5), "eps": 0.5}
    yield {"x": 2 + normal(2, 5, 7), "weight": normal(7), "eps": 0.125}
    yield {"x": normal(7), "weight": normal(7), "eps": 2.0}
    # One token, by hand: √((1 + 49) / 2) = 5.
    yield {"x": torch.tensor([[[1.0, 7.0]]]), "weight": torch.tensor([5.0, 10.0]), "eps": 0.0}
    yield {"x": torch.zeros(2, 3), "weight": normal(3), "eps": 1e-6}


@rms_norm.specification
def rms_norm(x, weight, eps):
    rows = []
    for row in x.reshape(-1, x.shape[-1]):
        square = sum(feature**2 for feature in row) / len(row)
        rows.append(
            torch.stack([each / (square + eps) ** 0.5 * w for each, w in zip(row, weight, strict=True)])
        )
    return torch.stack(rows).reshape(x.shape)


@rms_norm.solution
def rms_norm(x, weight, eps):
    mean_square = x.square().mean(dim=-1, keepdim=True)  # (…, 1)
    return x / (mean_square + eps).sqrt() * weight


@rms_norm.alternative
def rms_norm(x, weight, eps):
    return torch.einsum("...d,...,d->...d", x, torch.rsqrt((x * x).sum(-1) / x.shape[-1] + eps), weight)


# ------------------------------------------------------------------------------------------------------ 12.8


@exercise(
    "12.8",
    "What does a cache weigh?",
    hints=[
        """One token leaves one key and one value for each key head of each layer. How many features has
        one of them?""",
        """d_head is `d_model // n_heads`, with the number of **query** heads, whatever the number of key
        heads. Then multiply: layers, key heads, d_head, tokens, texts, bytes, and 2.""",
    ],
)
def cache_bytes(n_layers, d_model, n_heads, n_kv_heads, n_tokens, n_texts, bytes_per_number):
    """Bytes that the caches of all layers take for n_texts texts of n_tokens tokens each.

    n_heads: query heads, which share the d_model features among them
    n_kv_heads: key heads, and as many value heads
    returns an int
    """
    raise NotImplementedError


@cache_bytes.cases
def cache_bytes(normal):
    names = ("n_layers", "d_model", "n_heads", "n_kv_heads", "n_tokens", "n_texts", "bytes_per_number")
    for sizes in [
        (3, 70, 14, 7, 11, 5, 2),
        (2, 66, 6, 3, 13, 1, 4),
        (5, 42, 6, 6, 17, 3, 2),
        (1, 6, 3, 1, 1, 1, 2),
        (32, 4096, 32, 32, 512, 8, 2),  # Llama 2 7B: large enough that gibibytes are told apart, too
    ]:
        yield dict(zip(names, sizes, strict=True))


@cache_bytes.specification
def cache_bytes(n_layers, d_model, n_heads, n_kv_heads, n_tokens, n_texts, bytes_per_number):
    total = 0
    for _text in range(n_texts):
        for _token in range(n_tokens):
            for _layer in range(n_layers):
                for _kind in ("key", "value"):
                    total += n_kv_heads * (d_model // n_heads) * bytes_per_number
    return total


@cache_bytes.solution
def cache_bytes(n_layers, d_model, n_heads, n_kv_heads, n_tokens, n_texts, bytes_per_number):
    d_head = d_model // n_heads
    per_token = 2 * n_layers * n_kv_heads * d_head * bytes_per_number  # 2: keys and values
    return per_token * n_tokens * n_texts


@cache_bytes.alternative
def cache_bytes(layers, width, heads, groups, tokens, texts, size):
    return math.prod((layers, groups, width // heads, tokens, texts, 2 * size))


# ------------------------------------------------------------------------------------------------------ 12.9


@exercise(
    "12.9",
    "Share the key heads",
    hints=[
        """How many query heads share one key head? Each key head has to appear that many times, its copies
        side by side.""",
        """`repeat_interleave(times, dim=1)` repeats each head before it goes on to the next; `repeat` goes
        through all heads and then begins anew.""",
    ],
)
def share(heads, n_heads):
    """Hand each key head (or value head) to all query heads of its group.

    With 6 query heads and 2 key heads, query heads 0, 1, 2 read key head 0, and 3, 4, 5 read key head 1.

    heads: (batch, n_kv_heads, position, d_head)
    returns (batch, n_heads, position, d_head)
    """
    raise NotImplementedError


@share.cases
def share(normal):
    yield {"heads": normal(5, 2, 7, 3), "n_heads": 6}
    yield {"heads": normal(2, 3, 3, 5), "n_heads": 6}  # as many positions as key heads
    yield {"heads": normal(3, 1, 2, 7), "n_heads": 5}
    yield {"heads": torch.tensor([[[[7.0]], [[11.0]]]]), "n_heads": 4}  # 7, 7, 11, 11
    yield {"heads": normal(2, 3, 5, 7), "n_heads": 3}


@share.specification
def share(heads, n_heads):
    batch, n_kv_heads, length, d_head = heads.shape
    result = torch.zeros(batch, n_heads, length, d_head)
    for head in range(n_heads):
        result[:, head] = heads[:, head // (n_heads // n_kv_heads)]
    return result


@share.solution
def share(heads, n_heads):
    group = n_heads // heads.shape[1]  # query heads that share one key head
    return heads.repeat_interleave(group, dim=1)


@share.alternative
def share(heads, n_heads):
    times = n_heads // heads.shape[1]
    return heads[:, :, None].expand(-1, -1, times, -1, -1).flatten(1, 2)


# ------------------------------------------------------------------------------------------------------ 12.10


@exercise(
    "12.10",
    "One step with a cache",
    returns=("output", "keys", "values"),
    difficulty=3,
    hints=[
        """How many tokens came before? That is the length of the cache, `old_keys.shape[-2]`. The first of
        the new tokens stands at that position.""",
        """Turn the new queries and the new keys with that offset; leave values and old keys as they are.
        Join old and new along the positions: `torch.cat([old_keys, …], dim=-2)`.""",
        """New token i stands at position old + i and may attend to all keys up to there:
        `torch.ones(new, old + new, dtype=torch.bool).tril(old)`.""",
    ],
)
def step(query, key, value, old_keys, old_values, turn):
    """Attend, causally, from the newest tokens to themselves and to all tokens before them.

    query, key, value: (batch, n_heads, new, d_head), of the newest tokens, not turned yet
    old_keys, old_values: (batch, n_heads, old, d_head), the cache; its keys are turned already
    turn: turn(x, offset=m) rotates vectors of which the first stands at position m
    returns the output (batch, n_heads, new, d_head), and all keys and all values for the next step
    """
    raise NotImplementedError


@step.cases
def step(normal):
    for new, old, d_head in [(1, 5, 4), (3, 5, 2), (3, 0, 4), (2, 7, 6), (1, 0, 2)]:
        batch = 1 if old + new == 1 else 2
        given = {name: normal(batch, 3, new, d_head) for name in ("query", "key", "value")}
        if old == 0:
            given["key"] = -1e10 * given["query"]  # a token's score on itself is far below −1e9
        cache = {name: normal(batch, 3, old, d_head) for name in ("old_keys", "old_values")}
        yield given | cache | {"turn": RotaryEmbedding(d_head)}


@step.specification
def step(query, key, value, old_keys, old_values, turn):
    batch, n_heads, new, d_head = query.shape
    old = old_keys.shape[2]
    keys, values, output = (torch.zeros(batch, n_heads, n, d_head) for n in (old + new, old + new, new))
    for b in range(batch):
        for h in range(n_heads):
            new_keys = torch.stack([turned(key[b, h, i], old + i) for i in range(new)])
            keys[b, h] = torch.cat([old_keys[b, h], new_keys])
            values[b, h] = torch.cat([old_values[b, h], value[b, h]])
            for i in range(new):
                asking = turned(query[b, h, i], old + i)
                scores = [asking @ seen / math.sqrt(d_head) for seen in keys[b, h, : old + i + 1].clone()]
                grown = [(score - max(scores)).exp() for score in scores]
                for each, seen in zip(grown, values[b, h, : old + i + 1].clone(), strict=True):
                    output[b, h, i] += each / sum(grown) * seen
    return output, keys, values


def turned(vector, position):
    """One vector, each pair (i, i + d_head/2) turned by its angle."""
    half = len(vector) // 2
    result = torch.zeros_like(vector)
    for i in range(half):
        angle = position * 10_000 ** (-i / half)
        a, b = vector[i], vector[i + half]
        result[i] = a * math.cos(angle) - b * math.sin(angle)
        result[i + half] = a * math.sin(angle) + b * math.cos(angle)
    return result


@step.solution
def step(query, key, value, old_keys, old_values, turn):
    new, old = query.shape[-2], old_keys.shape[-2]
    keys = torch.cat([old_keys, turn(key, offset=old)], dim=-2)  # (batch, n_heads, old + new, d_head)
    values = torch.cat([old_values, value], dim=-2)
    scores = turn(query, offset=old) @ keys.mT / math.sqrt(query.shape[-1])
    may_attend = torch.ones(new, old + new, dtype=torch.bool).tril(old)  # up to itself
    weights = scores.masked_fill(~may_attend, -math.inf).softmax(dim=-1)
    return weights @ values, keys, values


@step.alternative
def step(query, key, value, old_keys, old_values, turn):
    keys, values, outputs = old_keys, old_values, []
    for i in range(query.shape[2]):  # one new token after the other: then no mask is needed
        position = keys.shape[2]
        keys = torch.cat((keys, turn(key[:, :, i : i + 1], offset=position)), 2)
        values = torch.cat((values, value[:, :, i : i + 1]), 2)
        asking = turn(query[:, :, i : i + 1], offset=position)
        outputs.append(F.scaled_dot_product_attention(asking, keys, values))
    return torch.cat(outputs, 2), keys, values


# ------------------------------------------------------------------------------------------------------ 12.11


@exercise(
    "12.11",
    "Count a layer of Llama",
    returns=("attention", "feed_forward", "norms"),
    difficulty=2,
    hints=[
        """No map has a bias, so each has features in · features out. Queries are d_model wide. How wide are
        all keys of a token together?""",
        """Keys: n_kv_heads heads of `d_model // n_heads` features. Values likewise. The output projection is
        square again.""",
        """The gated network has three maps. An RMS norm has one number for each feature, and there are two
        norms in a layer.""",
    ],
)
def layer_parameters(d_model, n_heads, n_kv_heads, d_ff):
    """Count the parameters of one layer: grouped queries, gated feed-forward, two RMS norms, no biases.

    returns attention, feed_forward, norms: three ints
    """
    raise NotImplementedError


@layer_parameters.cases
def layer_parameters(normal):
    for d_model, n_heads, n_kv_heads, d_ff in [(6, 3, 1, 7), (66, 6, 2, 170), (35, 5, 5, 93)]:
        yield {"d_model": d_model, "n_heads": n_heads, "n_kv_heads": n_kv_heads, "d_ff": d_ff}
    yield {"d_model": 8192, "n_heads": 64, "n_kv_heads": 8, "d_ff": 28_672}


@layer_parameters.specification
def layer_parameters(d_model, n_heads, n_kv_heads, d_ff):
    def numbers(*maps):
        return sum(nn.Linear(*sizes, bias=False).weight.numel() for sizes in maps)

    with torch.device("meta"):
        keys = n_kv_heads * (d_model // n_heads)
        attention = numbers((d_model, d_model), (d_model, keys), (d_model, keys), (d_model, d_model))
        feed_forward = numbers((d_model, d_ff), (d_model, d_ff), (d_ff, d_model))
        norms = sum(nn.RMSNorm(d_model).weight.numel() for _ in range(2))
    return attention, feed_forward, norms


@layer_parameters.solution
def layer_parameters(d_model, n_heads, n_kv_heads, d_ff):
    keys = n_kv_heads * (d_model // n_heads)  # features of all key heads of a token
    attention = 2 * d_model * d_model + 2 * d_model * keys
    return attention, 3 * d_model * d_ff, 2 * d_model


@layer_parameters.alternative
def layer_parameters(d, h, kv, f):
    return [2 * d * d * (h + kv) // h, f * d * 3, d + d]


# ------------------------------------------------------------------------------------------------------ 12.12


class AdapterExercise(ModuleExercise):
    """A module around a trained map: it is looked at while it is fresh, and again with parameters drawn anew.

    "unchanged": whether a fresh one computes what the map computes; "trained": which parameters ask for
    gradients; "learns": when a gradient other than zero reaches one of them; "passes": whether one reaches
    the input; "output": after the drawing.
    """

    def call(self, answer: type[nn.Module], case: tuple[dict, dict]) -> tuple:
        settings, inputs = case
        x = inputs["x"].clone().requires_grad_()
        with torch.no_grad():
            before = settings["linear"](x)
        module = answer(*settings.values())
        fresh = module(x)
        free = {name: part for name, part in module.named_parameters() if part.requires_grad}
        passes, *at_once = reached(fresh, [x, *free.values()])
        unchanged = fresh.shape == before.shape and torch.allclose(fresh, before)
        set_parameters(module, like=self.specified(*deepcopy(settings).values()))  # it freezes its own map
        output = module.eval()(inputs["x"])
        later = reached(output, list(free.values()))
        learns = "at once" if any(at_once) else "not from its beginning" if any(later) else "never"
        return unchanged, ", ".join(sorted(free)), learns, passes, output


def reached(result: torch.Tensor, parts: list[torch.Tensor]) -> list[bool]:
    """Which parts a gradient other than zero reaches."""
    if not (parts and result.requires_grad):
        return [False] * len(parts)
    slopes = torch.autograd.grad(result.square().sum(), parts, allow_unused=True)
    return [slope is not None and bool(slope.any()) for slope in slopes]


def adapter_exercise(id: str, title: str, *, hints: list[str], **options):
    """Declare one; the stub is the decorated class."""
    return lambda stub: AdapterExercise(id, title, stub.__name__, source.text_of(stub), hints, **options)


@adapter_exercise(
    "12.12",
    "A small update beside a frozen map",
    returns=("unchanged", "trained", "learns", "passes", "output"),
    difficulty=2,
    hints=[
        """`linear.requires_grad_(False)` freezes weight and bias at once. `self.down` and `self.up` are
        `nn.Parameter`: one of them random, the other zero.""",
        """With both of them zero, the gradient of each is a product with the other, and nothing ever moves.
        Take `torch.randn(rank, linear.in_features)` for `down`, and zeros for `up`.""",
        """forward: the frozen map, plus `x @ self.down.mT @ self.up.mT` times alpha / rank.""",
    ],
)
class LowRankLinear(nn.Module):
    """W x + b + (alpha / rank) · B A x, where W and b are frozen.

    linear: a trained nn.Linear, kept as self.linear
    self.down is A, (rank, in_features); self.up is B, (out_features, rank); both are nn.Parameter
    A fresh module computes what linear computes, and it can learn.
    """

    def __init__(self, linear, rank, alpha):
        super().__init__()
        raise NotImplementedError

    def forward(self, x):
        """x: (…, in_features), returns (…, out_features)"""
        raise NotImplementedError


@LowRankLinear.cases
def LowRankLinear(normal):
    yield {"linear": nn.Linear(5, 7), "rank": 3, "alpha": 2}, {"x": normal(2, 11, 5)}
    yield {"linear": nn.Linear(7, 3, bias=False), "rank": 2, "alpha": 6}, {"x": normal(5, 7)}
    yield {"linear": nn.Linear(5, 5), "rank": 5, "alpha": 5}, {"x": normal(3, 5)}  # square, scale 1
    yield {"linear": nn.Linear(3, 2), "rank": 1, "alpha": 2}, {"x": normal(1, 1, 3)}


class Adapter(nn.Module):
    """The parts that every answer has: the frozen map, a random A and a B of zeros."""

    def __init__(self, linear, rank, alpha):
        super().__init__()
        self.linear, self.rank, self.alpha = linear, rank, alpha
        self.freeze()
        self.down = nn.Parameter(torch.randn(rank, linear.in_features))
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))

    def freeze(self):
        self.linear.requires_grad_(False)


@LowRankLinear.specification
class LowRankLinear(Adapter):
    def forward(self, x):
        rows = []
        for token in x.reshape(-1, x.shape[-1]):
            small = [sum(a * feature for a, feature in zip(row, token, strict=True)) for row in self.down]
            row = []
            for i, weights in enumerate(self.linear.weight):
                number = sum(w * feature for w, feature in zip(weights, token, strict=True))
                number = number + (0 if self.linear.bias is None else self.linear.bias[i])
                update = sum(b * each for b, each in zip(self.up[i], small, strict=True))
                row.append(number + update * self.alpha / self.rank)
            rows.append(torch.stack(row))
        return torch.stack(rows).reshape(*x.shape[:-1], -1)


@LowRankLinear.solution
class LowRankLinear(nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.scale = alpha / rank
        self.down = nn.Parameter(torch.randn(rank, linear.in_features) / math.sqrt(linear.in_features))
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        update = x @ self.down.mT @ self.up.mT  # down to rank features, and up again
        return self.linear(x) + self.scale * update


@LowRankLinear.alternative
class LowRankLinear(Adapter):
    def freeze(self):
        for parameter in self.linear.parameters():
            parameter.requires_grad = False

    def forward(self, x):
        weight = self.linear.weight + self.alpha * (self.up @ self.down) / self.rank
        return F.linear(x, weight, self.linear.bias)


# ------------------------------------------------------------------------------------------------------ 12.13


@exercise(
    "12.13",
    "From many key heads to few (stretch)",
    difficulty=2,
    hints=[
        """Each head owns d_head rows of the weight, and neighbours form a group. Cut the rows into three
        axes: which group, which head of it, which feature.""",
        """`weight.unflatten(0, (n_kv_heads, n_heads // n_kv_heads, -1))`, then the mean over axis 1, then
        join the first two axes.""",
    ],
)
def fewer_heads(weight, n_heads, n_kv_heads):
    """The weight of a key (or value) projection for n_kv_heads heads: each is the mean of its group.

    weight: (n_heads · d_head, d_model), an nn.Parameter, as nn.Linear keeps it
    returns (n_kv_heads · d_head, d_model)
    """
    raise NotImplementedError


@fewer_heads.cases
def fewer_heads(normal):
    yield {"weight": nn.Parameter(normal(30, 7)), "n_heads": 6, "n_kv_heads": 2}
    yield {"weight": nn.Parameter(normal(8, 8)), "n_heads": 4, "n_kv_heads": 2}
    yield {"weight": nn.Parameter(normal(15, 2)), "n_heads": 5, "n_kv_heads": 1}
    yield {"weight": nn.Parameter(normal(66, 5)), "n_heads": 6, "n_kv_heads": 3}
    yield {"weight": nn.Parameter(normal(6, 1)), "n_heads": 3, "n_kv_heads": 3}


@fewer_heads.specification
def fewer_heads(weight, n_heads, n_kv_heads):
    d_head, group = len(weight) // n_heads, n_heads // n_kv_heads
    result = torch.zeros(n_kv_heads * d_head, weight.shape[1])
    for head in range(n_heads):
        for feature in range(d_head):
            result[head // group * d_head + feature] += weight[head * d_head + feature] / group
    return result


@fewer_heads.solution
def fewer_heads(weight, n_heads, n_kv_heads):
    # (group, head, d_head, d_model)
    groups = weight.unflatten(0, (n_kv_heads, n_heads // n_kv_heads, -1))
    return groups.mean(dim=1).flatten(0, 1)


@fewer_heads.alternative
def fewer_heads(weight, n_heads, n_kv_heads):
    heads = weight.chunk(n_heads)
    size = n_heads // n_kv_heads
    return torch.cat([sum(heads[i : i + size]) / size for i in range(0, n_heads, size)])
