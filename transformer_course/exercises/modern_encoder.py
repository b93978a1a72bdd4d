"""Exercises of lesson 12."""

import math
from copy import deepcopy

import torch
from torch import nn

from transformer_course.checker import exercise
from transformer_course.checker.exercise_types import FunctionExercise, ModuleExercise
from transformer_course.checker.parameters import set_parameters
from transformer_course.exercises import encoder_layer, masking, rotary_embedding
from transformer_course.exercises.encoder import FactoryExercise
from transformer_lab import RotaryEmbedding

F = nn.functional


masked_attention = masking.masked_attention.reference  # what the learner wrote in 04.3, 02.4 and 07.4


Rotary = rotary_embedding.Rotary.reference


PreNormEncoderLayer = encoder_layer.PreNormEncoderLayer.reference


@exercise("12.1", returns=("output", "weights"), keyword_arguments=["may_attend"], difficulty=2)
class ModernAttention(nn.Module):
    """Multi-head self-attention without biases, with a rotary embedding and a sliding window.

    Wqkv contains the rows of W_Q, then W_K, then W_V; in each of them, the rows of head 0 come first.
    rotary: a module; rotary(x) rotates x, of shape (batch, heads, position, d_head), by its positions
    window: how many positions a token may attend to on each side, 0 or more; None: no limit
    """

    def __init__(self, d_model, n_heads, rotary, window=None):
        super().__init__()
        self.n_heads, self.rotary, self.window = n_heads, rotary, window
        self.Wqkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.Wo = nn.Linear(d_model, d_model, bias=False)
        # yours:

    def forward(self, x, may_attend=None):
        """x: (batch, position, d_model); may_attend: booleans that broadcast to the weights

        returns output (batch, position, d_model) and weights (batch, n_heads, query_pos, key_pos);
        a query that may attend to no key gets zeros as its weights, and as its heads' output
        """
        heads = self.Wqkv(x).unflatten(-1, (3 * self.n_heads, -1)).transpose(1, 2)
        query, key, value = heads.chunk(3, dim=1)  # (batch, n_heads, position, d_head) each
        place = torch.arange(x.shape[1])
        distance = (place[:, None] - place).abs()[None, None]  # (1, 1, query_pos, key_pos)
        allowed = distance <= (x.shape[1] if self.window is None else self.window)
        allowed = allowed if may_attend is None else allowed & may_attend
        output, weights = masked_attention(self.rotary(query), self.rotary(key), value, allowed)
        return self.Wo(output.transpose(1, 2).flatten(-2)), weights


def padding(length, *lengths):
    """A mask that hides what stands behind the real tokens of each text."""
    return (torch.arange(length) < torch.tensor(lengths)[:, None])[:, None, None]


@ModernAttention.cases
def modern_attention_cases(normal):
    for d_model, n_heads, window, shape, may_attend in [
        (12, 2, 1, (2, 7), padding(7, 7, 3)),  # pads that see nothing
        (12, 3, None, (2, 5), padding(5, 5, 2)),
        (20, 2, 2, (3, 7), None),
        (4, 2, None, (1, 7), None),  # more positions than features
        (8, 2, 0, (1, 4), None),
        (4, 1, 2, (1, 5), torch.arange(5)[:, None].eq(torch.tensor([0, 1, 2, 0, 4]))[None, None]),
    ]:
        rotary = RotaryEmbedding(d_model // n_heads, base=50.0)
        settings = {"d_model": d_model, "n_heads": n_heads, "rotary": rotary, "window": window}
        yield settings, {"x": 2 * normal(*shape, d_model), "may_attend": may_attend}


class LayerExercise(FactoryExercise):
    """A function that builds one layer."""

    describe = ModuleExercise.describe


@exercise("12.2", kind=LayerExercise, returns=("output", "weights"))
def modern_layer(number, d_model, n_heads, d_ff, window):
    """Return layer `number` of ModernBERT, counted from 0: a new pre-norm layer, built from your parts.

    window: how many positions a token may attend to on each side, in a local layer
    Its parts have the names of lesson 07: attention, feed_forward, attention_norm, feed_forward_norm.
    """
    is_global = number % 3 == 0
    rotary = Rotary(d_model // n_heads, 160_000 if is_global else 10_000)
    return PreNormEncoderLayer(
        ModernAttention(d_model, n_heads, rotary, None if is_global else window),
        GeGLU(d_model, d_ff),
        nn.LayerNorm(d_model, bias=False) if number else nn.Identity(),
        nn.LayerNorm(d_model, bias=False),
    )


@modern_layer.cases
def modern_layer_cases(normal):
    for number, d_model, n_heads, d_ff, window in [
        (0, 12, 2, 7, 1),
        (1, 12, 3, 5, 2),
        (2, 8, 2, 3, 1),
        (3, 20, 2, 11, 1),
        (4, 4, 1, 3, 3),
        (9, 12, 2, 5, 0),
    ]:
        settings = {"number": number, "d_model": d_model, "n_heads": n_heads, "d_ff": d_ff, "window": window}
        yield settings, {"x": 2 * normal(2, 7, d_model), "may_attend": padding(7, 7, 5)}


@exercise("12.3", keyword_arguments=["may_attend"])
class ModernBert(nn.Module):
    """ModernBERT: token ids in, contextual embeddings out."""

    def __init__(self, vocab_size, d_model, n_heads, d_ff, n_layers, window):
        super().__init__()
        # yours:
        # self.embedding, self.embedding_norm, self.layers, self.final_norm
        self.embedding = nn.Embedding(vocab_size, d_model)
        sizes = (d_model, n_heads, d_ff, window)
        self.layers = nn.ModuleList(modern_layer(number, *sizes) for number in range(n_layers))
        self.embedding_norm, self.final_norm = (nn.LayerNorm(d_model, bias=False) for _ in range(2))

    def forward(self, token_ids, may_attend=None):
        """token_ids: (batch, position); may_attend: booleans that broadcast to the weights

        Call a layer as layer(x, may_attend=…): it returns its output and its attention weights.
        returns the contextual embeddings, (batch, position, d_model)
        """
        x = self.embedding_norm(self.embedding(token_ids))
        for layer in self.layers:
            x, _ = layer(x, may_attend=may_attend)
        return self.final_norm(x)


@ModernBert.cases
def modern_bert_cases(normal):
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
    "12.4", kind=PackingExercise, returns=("output", "rows × tokens that the model was given"), difficulty=2
)
def packed(model, token_ids, may_attend):
    """Return model(token_ids, may_attend) at real tokens and zeros at the padding, by sequence packing.

    model: a ModernBert; model(token_ids, may_attend) returns (batch, position, d_model)
    token_ids: (batch, position)
    may_attend: (batch, 1, 1, position), True at real tokens, which are neighbours in each sequence
    returns (batch, position, d_model)
    Call the model once, with one row that contains the real tokens of all sequences and nothing else.
    """
    real = may_attend[:, 0, 0]  # (batch, position)
    text = real.nonzero()[:, 0]  # (token,): the text from which each came
    hidden = model(token_ids[real][None], (text[:, None] == text)[None, None])
    output = torch.zeros(*real.shape, hidden.shape[-1])
    output[real] = hidden[0]
    return output


@packed.cases
def packed_cases(normal):
    for vocab_size, d_model, window, real in [
        (11, 12, 2, padding(7, 3, 7, 5)),
        (7, 8, 1, padding(5, 1, 4).flip(-1)),  # padding in front
        (5, 4, 1, padding(3, 2)),
        (5, 4, 1, padding(2, 2, 2)),  # none at all
    ]:
        model = ModernBert.reference(vocab_size, d_model, 2 if d_model > 4 else 1, 3, 3, window).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(normal(*parameter.shape))
        model.requires_grad_(False)
        batch, length = len(real), real.shape[-1]
        ids = (torch.arange(batch * length) * 3 % vocab_size).view(batch, length)
        yield {"model": model, "token_ids": ids, "may_attend": real}


@exercise("12.5")
class GeGLU(nn.Module):
    """GeGLU: Wo (GELU(first half of Wi x) ⊙ second half of Wi x), where ⊙ multiplies feature by feature.

    Wi: a linear layer from d_model to 2 · d_ff features; Wo: from d_ff to d_model. Neither has a bias.
    """

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.Wi = nn.Linear(d_model, 2 * d_ff, bias=False)
        self.Wo = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        """x: (…, d_model), returns (…, d_model); uses the exact GELU, not its tanh approximation"""
        gate, value = self.Wi(x).chunk(2, dim=-1)  # (…, d_ff) each
        return self.Wo(F.gelu(gate) * value)


@GeGLU.cases
def ge_glu_cases(normal):
    yield {"d_model": 5, "d_ff": 7}, {"x": normal(2, 3, 5)}
    yield {"d_model": 3, "d_ff": 3}, {"x": normal(5, 3)}
    yield {"d_model": 1, "d_ff": 2}, {"x": 2 * normal(1, 1, 1)}


@exercise("12.6")
def near(length, window=None):
    """Return a mask: True where a key is at most `window` positions away; True everywhere if it is None.

    returns (1, 1, length, length), booleans
    Write it yourself, without `transformer_lab`.
    """
    place = torch.arange(length)
    distance = (place[:, None] - place).abs()  # (query_pos, key_pos)
    return (distance <= (length if window is None else window))[None, None]


@near.cases
def near_cases(normal):
    for length, window in [(7, 2), (5, 0), (3, None), (11, 5), (2, 3), (1, 1)]:
        yield {"length": length, "window": window}
    yield {"length": 5}


@exercise("12.7", forbidden=["rms_norm", "layer_norm"])
def rms_norm(x, weight, eps):
    """Divide each vector by the square root of (its mean square plus eps), then multiply it by the weight.

    x: (…, d_model)
    weight: (d_model,)
    returns (…, d_model)
    """
    mean_square = x.square().mean(dim=-1, keepdim=True)  # (…, 1)
    return x / (mean_square + eps).sqrt() * weight


@rms_norm.cases
def rms_norm_cases(normal):
    yield {"x": 1 + normal(3, 5), "weight": normal(5), "eps": 0.5}
    yield {"x": 2 + normal(2, 5, 7), "weight": normal(7), "eps": 0.125}
    yield {"x": normal(7), "weight": normal(7), "eps": 2.0}
    # One token, by hand: √((1 + 49) / 2) = 5.
    yield {"x": torch.tensor([[[1.0, 7.0]]]), "weight": torch.tensor([5.0, 10.0]), "eps": 0.0}
    yield {"x": torch.zeros(2, 3), "weight": normal(3), "eps": 1e-6}


@exercise("12.8")
def cache_bytes(n_layers, d_model, n_heads, n_kv_heads, n_tokens, n_texts, bytes_per_number):
    """Return the size in bytes of the KV caches of all layers, for n_texts texts of n_tokens tokens.

    n_heads: the number of query heads, each of which has d_model // n_heads features
    n_kv_heads: the number of KV heads; each has one key and one value per token
    returns an int
    """
    d_head = d_model // n_heads
    per_token = 2 * n_layers * n_kv_heads * d_head * bytes_per_number  # 2: keys and values
    return per_token * n_tokens * n_texts


@cache_bytes.cases
def cache_bytes_cases(normal):
    names = ("n_layers", "d_model", "n_heads", "n_kv_heads", "n_tokens", "n_texts", "bytes_per_number")
    for sizes in [
        (3, 70, 14, 7, 11, 5, 2),
        (2, 66, 6, 3, 13, 1, 4),
        (5, 42, 6, 6, 17, 3, 2),
        (1, 6, 3, 1, 1, 1, 2),
        (32, 4096, 32, 32, 512, 8, 2),  # Llama 2 7B: large enough that gibibytes are told apart, too
    ]:
        yield dict(zip(names, sizes, strict=True))


@exercise("12.9")
def share(heads, n_heads):
    """Repeat the keys (or values) of each KV head for all query heads of its group.

    With 6 query heads and 2 KV heads, query heads 0, 1 and 2 use KV head 0, and 3, 4 and 5 use KV head 1.

    heads: (batch, n_kv_heads, position, d_head)
    returns (batch, n_heads, position, d_head)
    """
    group = n_heads // heads.shape[1]  # query heads that share one KV head
    return heads.repeat_interleave(group, dim=1)


@share.cases
def share_cases(normal):
    yield {"heads": normal(5, 2, 7, 3), "n_heads": 6}
    yield {"heads": normal(2, 3, 3, 5), "n_heads": 6}  # as many positions as KV heads
    yield {"heads": normal(3, 1, 2, 7), "n_heads": 5}
    yield {"heads": torch.tensor([[[[7.0]], [[11.0]]]]), "n_heads": 4}  # 7, 7, 11, 11
    yield {"heads": normal(2, 3, 5, 7), "n_heads": 3}


@exercise("12.10", returns=("output", "keys", "values"), difficulty=3)
def step(query, key, value, old_keys, old_values, turn):
    """Compute causal attention for the newest tokens, with a cache for all the tokens before them.

    query, key, value: (batch, n_heads, new, d_head), of the newest tokens, not rotated yet
    old_keys, old_values: (batch, n_heads, old, d_head), the cache; its keys are already rotated
    turn: the rotary embedding; turn(x, offset=m) rotates vectors, the first of which has the position m
    returns the output (batch, n_heads, new, d_head), and all keys and all values, for the next step
    """
    new, old = query.shape[-2], old_keys.shape[-2]
    keys = torch.cat([old_keys, turn(key, offset=old)], dim=-2)  # (batch, n_heads, old + new, d_head)
    values = torch.cat([old_values, value], dim=-2)
    scores = turn(query, offset=old) @ keys.mT / math.sqrt(query.shape[-1])
    may_attend = torch.ones(new, old + new, dtype=torch.bool).tril(old)  # up to itself
    weights = scores.masked_fill(~may_attend, -math.inf).softmax(dim=-1)
    return weights @ values, keys, values


@step.cases
def step_cases(normal):
    for new, old, d_head in [(1, 5, 4), (3, 5, 2), (3, 0, 4), (2, 7, 6), (1, 0, 2)]:
        batch = 1 if old + new == 1 else 2
        given = {name: normal(batch, 3, new, d_head) for name in ("query", "key", "value")}
        if old == 0:
            given["key"] = -1e10 * given["query"]  # a token's score on itself is far below −1e9
        cache = {name: normal(batch, 3, old, d_head) for name in ("old_keys", "old_values")}
        yield given | cache | {"turn": RotaryEmbedding(d_head)}


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


@exercise("12.11", returns=("attention", "feed_forward", "norms"), difficulty=2)
def layer_parameters(d_model, n_heads, n_kv_heads, d_ff):
    """Count a Llama layer's parameters: grouped-query attention, gated network, two RMS norms, no biases.

    returns attention, feed_forward, norms: three ints
    """
    keys = n_kv_heads * (d_model // n_heads)  # features of all KV heads of a token
    attention = 2 * d_model * d_model + 2 * d_model * keys
    return attention, 3 * d_model * d_ff, 2 * d_model


@layer_parameters.cases
def layer_parameters_cases(normal):
    for d_model, n_heads, n_kv_heads, d_ff in [(6, 3, 1, 7), (66, 6, 2, 170), (35, 5, 5, 93)]:
        yield {"d_model": d_model, "n_heads": n_heads, "n_kv_heads": n_kv_heads, "d_ff": d_ff}
    yield {"d_model": 8192, "n_heads": 64, "n_kv_heads": 8, "d_ff": 28_672}


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
        set_parameters(module, like=self.reference(*deepcopy(settings).values()))  # it freezes its own map
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


@exercise(
    "12.12",
    kind=AdapterExercise,
    returns=("unchanged", "trained", "learns", "passes", "output"),
    difficulty=2,
)
class LowRankLinear(nn.Module):
    """LoRA: W x + b + (alpha / rank) · B A x, where W and b are frozen.

    linear: a trained nn.Linear, kept as self.linear
    self.down is A, (rank, in_features); self.up is B, (out_features, rank); both are nn.Parameter
    A new module returns the same output as linear, and it can learn.
    """

    def __init__(self, linear, rank, alpha):
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.scale = alpha / rank
        self.down = nn.Parameter(torch.randn(rank, linear.in_features) / math.sqrt(linear.in_features))
        self.up = nn.Parameter(torch.zeros(linear.out_features, rank))

    def forward(self, x):
        """x: (…, in_features), returns (…, out_features)"""
        update = x @ self.down.mT @ self.up.mT  # down to rank features, and up again
        return self.linear(x) + self.scale * update


@LowRankLinear.cases
def low_rank_linear_cases(normal):
    yield {"linear": nn.Linear(5, 7), "rank": 3, "alpha": 2}, {"x": normal(2, 11, 5)}
    yield {"linear": nn.Linear(7, 3, bias=False), "rank": 2, "alpha": 6}, {"x": normal(5, 7)}
    yield {"linear": nn.Linear(5, 5), "rank": 5, "alpha": 5}, {"x": normal(3, 5)}  # square, scale 1
    yield {"linear": nn.Linear(3, 2), "rank": 1, "alpha": 2}, {"x": normal(1, 1, 3)}


@exercise("12.13", difficulty=2)
def fewer_heads(weight, n_heads, n_kv_heads):
    """Return a key (or value) projection's weight for n_kv_heads KV heads: each is the mean of its group.

    weight: (n_heads · d_head, d_model), an nn.Parameter, as nn.Linear stores it
    returns (n_kv_heads · d_head, d_model)
    """
    # (group, head, d_head, d_model)
    groups = weight.unflatten(0, (n_kv_heads, n_heads // n_kv_heads, -1))
    return groups.mean(dim=1).flatten(0, 1)


@fewer_heads.cases
def fewer_heads_cases(normal):
    yield {"weight": nn.Parameter(normal(30, 7)), "n_heads": 6, "n_kv_heads": 2}
    yield {"weight": nn.Parameter(normal(8, 8)), "n_heads": 4, "n_kv_heads": 2}
    yield {"weight": nn.Parameter(normal(15, 2)), "n_heads": 5, "n_kv_heads": 1}
    yield {"weight": nn.Parameter(normal(66, 5)), "n_heads": 6, "n_kv_heads": 3}
    yield {"weight": nn.Parameter(normal(6, 1)), "n_heads": 3, "n_kv_heads": 3}
