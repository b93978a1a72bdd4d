"""Exercises of lesson 12: RMS norm, bytes of a cache, shared heads, a bill, LoRA, a step, fewer heads."""

import math
from copy import deepcopy

import torch
from torch import nn

from transformer_lab import RotaryEmbedding
from transformer_lab.course.checker import exercise, source
from transformer_lab.course.checker.kinds import ModuleExercise
from transformer_lab.course.checker.parameters import set_parameters

F = nn.functional

# ------------------------------------------------------------------------------------------------------ 12.1


@exercise(
    "12.1",
    "RMS norm by hand",
    without=["rms_norm", "layer_norm"],
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


def mean_square(x, dim=-1):
    """Mean of the squares, with its axis kept."""
    return x.square().mean(dim, keepdim=True)


rms_norm.mistake(
    "eps outside the root",
    """You add eps to the root, not to the mean square. For real eps the two differ little, yet enough to
    fail a comparison with a trained model: `(mean_square + eps).sqrt()`.""",
    lambda x, w, eps: x / (mean_square(x).sqrt() + eps) * w,
)

rms_norm.mistake(
    "eps forgotten",
    """You leave eps out. A vector of zeros, such as padding, then becomes 0/0. Add eps to the mean square,
    under the root.""",
    lambda x, w, eps: x / mean_square(x).sqrt() * w,
)

rms_norm.mistake(
    "eps as a lower bound",
    """You take eps as the least that the mean square may be. That also keeps the root from zero, but only
    for tiny vectors; the formula adds eps to every mean square.""",
    lambda x, w, eps: x / mean_square(x).clamp(min=eps).sqrt() * w,
    lambda x, w, eps: x / torch.maximum(mean_square(x), torch.tensor(eps)).sqrt() * w,
)

rms_norm.mistake(
    "the mean subtracted",
    """You subtract the mean first: that is layer norm without its bias. RMS norm subtracts nothing, which
    is all the difference between the two.""",
    lambda x, w, eps: (
        (x - x.mean(-1, True)) / ((x - x.mean(-1, True)).square().mean(-1, True) + eps).sqrt() * w
    ),
    lambda x, w, eps: F.layer_norm(x, w.shape, w, None, eps),
)

rms_norm.mistake(
    "the mean subtracted above the line",
    """You divide by the right number, but subtract the mean from x first. RMS norm subtracts nothing, neither
    above the line nor below.""",
    lambda x, w, eps: (x - x.mean(-1, True)) / (mean_square(x) + eps).sqrt() * w,
)

rms_norm.mistake(
    "divided by the standard deviation",
    """You divide by the standard deviation, which measures the distance from the mean. RMS norm knows no
    mean: it takes the root of the mean of the squares themselves.""",
    lambda x, w, eps: x / (x.var(-1, correction=0, keepdim=True) + eps).sqrt() * w,
    lambda x, w, eps: x / (x.std(-1, correction=0, keepdim=True) + eps) * w,
)

rms_norm.mistake(
    "divided by the unbiased standard deviation",
    """You divide by torch's standard deviation: it measures the distance from the mean, and divides by one
    less than the number of features. Take the root of the mean of the squares themselves.""",
    lambda x, w, eps: x / (x.var(-1, keepdim=True) + eps).sqrt() * w,
    lambda x, w, eps: x / (x.std(-1, keepdim=True) + eps) * w,
)

rms_norm.mistake(
    "sum, not mean",
    """You divide by the root of the sum of squares, which is the length of the vector. Then every feature
    shrinks as the model gets wider. Take the mean of the squares.""",
    lambda x, w, eps: x / (x.square().sum(-1, True) + eps).sqrt() * w,
)

rms_norm.mistake(
    "divided by one less",
    """You divide the sum of squares by d_model − 1, as one does to estimate a variance. Nothing is estimated
    here: the mean of d_model squares divides by d_model.""",
    lambda x, w, eps: x / (x.square().sum(-1, True) / (x.shape[-1] - 1) + eps).sqrt() * w,
)

rms_norm.mistake(
    "divided by the length",
    """You divide by the length of the vector, plus eps. The root of the mean square is the length divided
    by √d_model, and eps belongs under the root.""",
    lambda x, w, eps: x / (x.norm(dim=-1, keepdim=True) + eps) * w,
    lambda x, w, eps: F.normalize(x, dim=-1, eps=eps) * w,
)

rms_norm.mistake(
    "no root",
    """You divide by the mean square, and forget its root. A vector ten times as long would come out ten
    times as short. `(mean_square + eps).sqrt()`.""",
    lambda x, w, eps: x / (mean_square(x) + eps) * w,
)

rms_norm.mistake(
    "multiplied, not divided",
    """You multiply by the root of the mean square. That makes long vectors longer still; to bring them to
    one size, divide.""",
    lambda x, w, eps: x * (mean_square(x) + eps).sqrt() * w,
)

rms_norm.mistake(
    "square of the mean",
    """You take the mean first and the square afterwards. Positive and negative features then cancel, and
    what is left says nothing about their size. Square first, then take the mean.""",
    lambda x, w, eps: x / (x.mean(-1, True).square() + eps).sqrt() * w,
)

rms_norm.mistake(
    "mean of the absolute values",
    """You divide by the mean of the absolute values. That measures size too, but another one: here it is
    the root of the mean of the squares.""",
    lambda x, w, eps: x / (x.abs().mean(-1, True) + eps) * w,
)

rms_norm.mistake(
    "over the tokens",
    """You take the mean along another axis than the features, or over everything at once. Each token is
    normalised by itself: `dim=-1`.""",
    lambda x, w, eps: x / (mean_square(x, 0) + eps).sqrt() * w,
    lambda x, w, eps: x / (x.square().mean() + eps).sqrt() * w,
    lambda x, w, eps: x / (mean_square(x, -2 if x.dim() > 1 else -1) + eps).sqrt() * w,
)

rms_norm.mistake(
    "an axis lost",
    """The mean without `keepdim=True` loses the last axis. Then the division lines tokens up with features:
    an error, or a wrong result where the two happen to be equally many.""",
    lambda x, w, eps: x / (x.square().mean(-1) + eps).sqrt() * w,
)

rms_norm.mistake(
    "weight forgotten",
    """You normalise, and leave out the weight. It is what the norm can learn: one factor for each
    feature.""",
    lambda x, w, eps: x / (mean_square(x) + eps).sqrt(),
)

rms_norm.mistake(
    "weight plus one",
    """You multiply by 1 + weight. Some models, such as Gemma, store the weight that way; here, and in
    Llama, it is the factor itself.""",
    lambda x, w, eps: x / (mean_square(x) + eps).sqrt() * (1 + w),
)

rms_norm.mistake(
    "weight added",
    """You add the weight. A weight scales, a bias is added, and RMS norm has no bias: multiply.""",
    lambda x, w, eps: x / (mean_square(x) + eps).sqrt() + w,
)

rms_norm.mistake(
    "weight before the norm",
    """You multiply by the weight first and normalise then. The weight takes part in the mean square, and
    one feature's weight changes all the others. Normalise first.""",
    lambda x, w, eps: x * w / (mean_square(x * w) + eps).sqrt(),
)


# ------------------------------------------------------------------------------------------------------ 12.2


@exercise(
    "12.2",
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


cache_bytes.mistake(
    "keys only",
    """You count the keys and leave out the values, which are as many. Attention needs both of every earlier
    token: a factor of 2.""",
    lambda n, d, h, kv, t, b, s: n * kv * (d // h) * t * b * s,
)

cache_bytes.mistake(
    "queries kept too",
    """You count three vectors for each head. An earlier token's query is never used again: each new token
    asks with its own. Only keys and values are kept, a factor of 2.""",
    lambda n, d, h, kv, t, b, s: 3 * n * kv * (d // h) * t * b * s,
    lambda n, d, h, kv, t, b, s: n * (d + 2 * kv * (d // h)) * t * b * s,
)

cache_bytes.mistake(
    "as many keys as query heads",
    """You count d_model features of keys for each token: as if every query head had a key head, or as if
    fewer key heads were wider. A key is as wide as a query, `d_model // n_heads`, and n_kv_heads of them
    are kept.""",
    lambda n, d, h, kv, t, b, s: 2 * n * d * t * b * s,
)

cache_bytes.mistake(
    "the size of a group",
    """You count n_heads // n_kv_heads heads. That is how many query heads share one key head; kept are
    n_kv_heads of them.""",
    lambda n, d, h, kv, t, b, s: 2 * n * (h // kv) * (d // h) * t * b * s,
)

cache_bytes.mistake(
    "a cache for the queries' heads too",
    """You count n_heads + n_kv_heads heads. Query heads leave nothing behind: for each of the n_kv_heads key
    heads one key and one value are kept.""",
    lambda n, d, h, kv, t, b, s: 2 * n * (h + kv) * (d // h) * t * b * s,
)

cache_bytes.mistake(
    "every head as wide as the model",
    """You give each key head all d_model features. The n_heads query heads share them, and a key is as wide
    as a query: d_head = `d_model // n_heads`.""",
    lambda n, d, h, kv, t, b, s: 2 * n * kv * d * t * b * s,
)

cache_bytes.mistake(
    "features forgotten",
    """You count one number for each key head. A key is a vector of d_head = `d_model // n_heads` features:
    multiply.""",
    lambda n, d, h, kv, t, b, s: 2 * n * kv * t * b * s,
)

cache_bytes.mistake(
    "added up over the steps",
    """You add up what the cache held after each step. The rows of earlier steps are still the same rows: at
    the end there is one for each token.""",
    lambda n, d, h, kv, t, b, s: 2 * n * kv * (d // h) * (t * (t + 1) // 2) * b * s,
)

cache_bytes.mistake(
    "2 counted twice",
    """You multiply by 4. Keys and values are a factor of 2; the bytes of a number come in with
    `bytes_per_number`, and nothing else is doubled.""",
    lambda n, d, h, kv, t, b, s: 4 * n * kv * (d // h) * t * b * s,
)

cache_bytes.mistake(
    "layers forgotten",
    """You count one layer. Each layer makes keys and values of its own from its own vectors, and keeps
    them: multiply by n_layers.""",
    lambda n, d, h, kv, t, b, s: 2 * kv * (d // h) * t * b * s,
)

cache_bytes.mistake(
    "one text",
    """You count a single text. Texts written at the same time each have a cache, for their keys differ:
    multiply by n_texts.""",
    lambda n, d, h, kv, t, b, s: 2 * n * kv * (d // h) * t * s,
)

cache_bytes.mistake(
    "one token",
    """This is what one token of each text costs. The cache holds all tokens so far: multiply by n_tokens.""",
    lambda n, d, h, kv, t, b, s: 2 * n * kv * (d // h) * b * s,
    lambda n, d, h, kv, t, b, s: 2 * n * kv * (d // h) * s,
)

cache_bytes.mistake(
    "grows with the square",
    """You count a number for each pair of tokens. Those are the weights of attention, which are used and
    thrown away. A cache keeps one key and one value per token, so it grows in proportion.""",
    lambda n, d, h, kv, t, b, s: 2 * n * kv * (d // h) * t * t * b * s,
    lambda n, d, h, kv, t, b, s: n * h * t * t * b * s,
)

cache_bytes.mistake(
    "numbers, not bytes",
    """You count numbers. Each takes `bytes_per_number` bytes, 2 in bfloat16 and 4 in float32: multiply.""",
    lambda n, d, h, kv, t, b, s: 2 * n * kv * (d // h) * t * b,
)

cache_bytes.mistake(
    "bits",
    """You count 8 for each byte: these are bits. Memory is told in bytes, so leave the 8 out.""",
    lambda n, d, h, kv, t, b, s: 16 * n * kv * (d // h) * t * b * s,
)

cache_bytes.mistake(
    "kibibytes",
    """You divide by a thousand, or 1024, or more of them. Asked are bytes; that also keeps the result an
    int.""",
    lambda n, d, h, kv, t, b, s: 2 * n * kv * (d // h) * t * b * s / 1024,
    lambda n, d, h, kv, t, b, s: 2 * n * kv * (d // h) * t * b * s // 1024,
    lambda n, d, h, kv, t, b, s: 2 * n * kv * (d // h) * t * b * s / 1000,
    lambda n, d, h, kv, t, b, s: 2 * n * kv * (d // h) * t * b * s / 2**20,
    lambda n, d, h, kv, t, b, s: 2 * n * kv * (d // h) * t * b * s / 2**30,
)

cache_bytes.mistake(
    "a float",
    """The value is right, and a float, because `/` always makes one. Bytes are counted: `d_model // n_heads`
    keeps an int.""",
    lambda n, d, h, kv, t, b, s: 2 * n * kv * d / h * t * b * s,
    lambda n, d, h, kv, t, b, s: 2.0 * n * kv * (d // h) * t * b * s,
)


# ------------------------------------------------------------------------------------------------------ 12.3


@exercise(
    "12.3",
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


def group_of(heads, n_heads):
    """How many query heads share one key head."""
    return n_heads // heads.shape[1]


share.mistake(
    "repeat",
    """You repeat the whole row of heads: 0, 1, 0, 1, … Every shape fits and a new model would train, but
    trained weights expect neighbours to share: 0, 0, 1, 1. Use `repeat_interleave`.""",
    lambda x, n: x.repeat(1, group_of(x, n), 1, 1),
    lambda x, n: torch.cat([x] * group_of(x, n), dim=1),
    lambda x, n: x[:, None].expand(-1, group_of(x, n), -1, -1, -1).flatten(1, 2),
    lambda x, n: x[:, torch.arange(n) % x.shape[1]],
)

share.mistake(
    "positions repeated",
    """You repeat the positions, not the heads: each token appears several times in one head. The heads are
    axis 1: `repeat_interleave(group, dim=1)`.""",
    lambda x, n: x.repeat_interleave(group_of(x, n), dim=2),
    lambda x, n: x.repeat_interleave(group_of(x, n), dim=-2),
    lambda x, n: x.repeat(1, 1, group_of(x, n), 1),
)

share.mistake(
    "features repeated",
    """You repeat the features, so the heads become wider, not more. The heads are axis 1:
    `repeat_interleave(group, dim=1)`.""",
    lambda x, n: x.repeat_interleave(group_of(x, n), dim=-1),
)

share.mistake(
    "texts repeated",
    """You repeat the texts of the batch. The heads are axis 1: `repeat_interleave(group, dim=1)`.""",
    lambda x, n: x.repeat_interleave(group_of(x, n), dim=0),
)

share.mistake(
    "no axis named",
    """Without `dim`, `repeat_interleave` first lays all numbers out in one row. Say which axis holds the
    heads: `dim=1`.""",
    lambda x, n: x.repeat_interleave(group_of(x, n)),
)

share.mistake(
    "not repeated",
    """You return the key heads as they are, n_kv_heads of them. Each has to appear once for every query head
    that reads it.""",
    lambda x, n: x,
)

share.mistake(
    "repeated n_heads times",
    """You repeat each key head n_heads times, which makes n_heads · n_kv_heads of them. A key head has
    n_heads / n_kv_heads readers.""",
    lambda x, n: x.repeat_interleave(n, dim=1),
)

share.mistake(
    "repeated n_kv_heads times",
    """You repeat each key head as many times as there are key heads. It has to serve its readers:
    n_heads / n_kv_heads query heads.""",
    lambda x, n: x.repeat_interleave(x.shape[1], dim=1),
)

share.mistake(
    "the first key head for all",
    """You give key head 0 to every query head, and throw the others away. That would be multi-query
    attention with weights that were not made for it. Query head i reads key head `i // group`.""",
    lambda x, n: x[:, :1].expand(-1, n, -1, -1),
)

share.mistake(
    "the mean of the key heads",
    """You average the key heads and give the mean to all. Each group keeps a key head of its own: repeat,
    do not mix.""",
    lambda x, n: x.mean(1, keepdim=True).expand(-1, n, -1, -1),
)

share.mistake(
    "zeros in between",
    """You fill up with heads of zeros. A query that meets zero keys spreads its weight evenly over all
    tokens. Each query head needs the key head of its group.""",
    lambda x, n: F.pad(x, (0, 0, 0, 0, 0, n - x.shape[1])),
)

share.mistake(
    "expand alone",
    """`expand` repeats only an axis of length 1. Make one beside the heads, expand that, and join the two:
    `heads[:, :, None].expand(…).flatten(1, 2)`; or use `repeat_interleave`.""",
    lambda x, n: x.expand(-1, n, -1, -1),
    lambda x, n: x.expand(x.shape[0], n, *x.shape[2:]),
)

share.mistake(
    "group not flattened",
    """Your copies stand on an axis of their own, (batch, n_kv_heads, group, position, d_head). Join the two
    axes of heads: `flatten(1, 2)`.""",
    lambda x, n: x[:, :, None].expand(-1, -1, group_of(x, n), -1, -1),
    lambda x, n: torch.stack([x] * group_of(x, n), dim=2),
)


# ------------------------------------------------------------------------------------------------------ 12.4


@exercise(
    "12.4",
    "Count a layer of Llama",
    returns=("attention", "feed_forward", "norms"),
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


def keys_of(d, h, kv):
    """Features of all key heads of a token."""
    return kv * (d // h)


layer_parameters.mistake(
    "as many key heads as query heads",
    """You count four square matrices. Keys and values have only n_kv_heads heads of d_head features, so
    their projections are smaller.""",
    lambda d, h, kv, f: (4 * d * d, 3 * d * f, 2 * d),
)

layer_parameters.mistake(
    "keys or values only",
    """You count one small projection. There are two: one for the keys, one for the values.""",
    lambda d, h, kv, f: (2 * d * d + d * keys_of(d, h, kv), 3 * d * f, 2 * d),
)

layer_parameters.mistake(
    "output projection forgotten",
    """You count queries, keys and values. The heads still have to be mixed: the output projection, from
    d_model to d_model.""",
    lambda d, h, kv, f: (d * d + 2 * d * keys_of(d, h, kv), 3 * d * f, 2 * d),
)

layer_parameters.mistake(
    "a square matrix made narrow",
    """You shrink the query or the output projection too. There are n_heads queries and n_heads mixtures for
    each token, so both matrices stay square; only keys and values get fewer.""",
    lambda d, h, kv, f: (d * d + 3 * d * keys_of(d, h, kv), 3 * d * f, 2 * d),
    lambda d, h, kv, f: (4 * d * keys_of(d, h, kv), 3 * d * f, 2 * d),
)

layer_parameters.mistake(
    "d_head forgotten",
    """You multiply by the number of key heads alone. Each of them has `d_model // n_heads`
    features.""",
    lambda d, h, kv, f: (2 * d * d + 2 * d * kv, 3 * d * f, 2 * d),
)

layer_parameters.mistake(
    "d_model divided by the key heads",
    """You take `d_model // n_kv_heads`, or as many heads as a group has, where the width of all keys belongs:
    n_kv_heads heads of `d_model // n_heads` features each. Fewer key heads must cost less, not more.""",
    lambda d, h, kv, f: (2 * d * d + 2 * d * (d // kv), 3 * d * f, 2 * d),
)

layer_parameters.mistake(
    "two maps in the feed-forward",
    """You count the way up and the way down. A gated network has a third matrix, the gate, as large as the
    others.""",
    lambda d, h, kv, f: (2 * d * d + 2 * d * keys_of(d, h, kv), 2 * d * f, 2 * d),
)

layer_parameters.mistake(
    "d_ff taken as four times the width",
    """You take d_ff as 4 · d_model, the rule of thumb, in two matrices or in three. Here d_ff is given, and
    there are three matrices: 3 · d_model · d_ff.""",
    lambda d, h, kv, f: (2 * d * d + 2 * d * keys_of(d, h, kv), 8 * d * d, 2 * d),
    lambda d, h, kv, f: (2 * d * d + 2 * d * keys_of(d, h, kv), 12 * d * d, 2 * d),
)

layer_parameters.mistake(
    "three norms",
    """You count a third norm. The one at the end belongs to the encoder and is there once; a layer has
    two.""",
    lambda d, h, kv, f: (2 * d * d + 2 * d * keys_of(d, h, kv), 3 * d * f, 3 * d),
)

layer_parameters.mistake(
    "one norm",
    """You count one norm. A layer has two: one before attention, one before the feed-forward.""",
    lambda d, h, kv, f: (2 * d * d + 2 * d * keys_of(d, h, kv), 3 * d * f, d),
)

layer_parameters.mistake(
    "norms with a bias",
    """You count layer norms, which have a weight and a bias. RMS norm has a weight only: d_model numbers for
    each of the two.""",
    lambda d, h, kv, f: (2 * d * d + 2 * d * keys_of(d, h, kv), 3 * d * f, 4 * d),
)

layer_parameters.mistake(
    "biases in the projections",
    """You count biases. The linear maps of this layer have none: features in · features out, and no more.""",
    lambda d, h, kv, f: (
        2 * (d * d + d) + 2 * (d + 1) * keys_of(d, h, kv),
        3 * d * f + 2 * f + d,
        2 * d,
    ),
    lambda d, h, kv, f: (2 * (d * d + d) + 2 * (d + 1) * keys_of(d, h, kv), 3 * d * f, 2 * d),
    lambda d, h, kv, f: (2 * d * d + 2 * d * keys_of(d, h, kv), 3 * d * f + 2 * f + d, 2 * d),
)

layer_parameters.mistake(
    "everything in one number",
    """You return the sum. Asked are three counts: attention, feed-forward, norms.""",
    lambda d, h, kv, f: 2 * d * d + 2 * d * keys_of(d, h, kv) + 3 * d * f + 2 * d,
)

layer_parameters.mistake(
    "results in another order",
    """The counts are right, in another order: attention first, then the feed-forward, then the norms.""",
    lambda d, h, kv, f: (3 * d * f, 2 * d * d + 2 * d * keys_of(d, h, kv), 2 * d),
    lambda d, h, kv, f: (2 * d, 2 * d * d + 2 * d * keys_of(d, h, kv), 3 * d * f),
    lambda d, h, kv, f: (2 * d, 3 * d * f, 2 * d * d + 2 * d * keys_of(d, h, kv)),
    lambda d, h, kv, f: (2 * d * d + 2 * d * keys_of(d, h, kv), 2 * d, 3 * d * f),
)

# ------------------------------------------------------------------------------------------------------ 12.5


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
    "12.5",
    "A small update beside a frozen map",
    returns=("unchanged", "trained", "learns", "passes", "output"),
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
        self.down = nn.Parameter(self.first_down(rank, linear.in_features))
        self.up = nn.Parameter(self.first_up(linear.out_features, rank))

    def freeze(self):
        self.linear.requires_grad_(False)

    def first_down(self, *shape):
        return torch.randn(shape)

    def first_up(self, *shape):
        return torch.zeros(shape)

    def scale(self):
        return self.alpha / self.rank

    def update(self, x):
        return x @ self.down.mT @ self.up.mT

    def forward(self, x):
        return self.linear(x) + self.scale() * self.update(x)


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


def adapters(**changed):
    """A class that takes some of the steps otherwise."""
    return type("Wrong", (Adapter,), changed)


LowRankLinear.mistake(
    "nothing frozen",
    """The large weight is still trained: `no_grad` or `detach` in forward does not change that, an optimiser
    with weight decay will move it. Freeze the map itself: `linear.requires_grad_(False)`.""",
    adapters(freeze=lambda self: None),
    adapters(
        freeze=lambda self: None,
        forward=lambda self, x: self.linear(x).detach() + self.scale() * self.update(x),
    ),
)

LowRankLinear.mistake(
    "bias still trained",
    """You freeze the weight and forget the bias. Then merging and sharing the large model break: every task
    has a bias of its own. `linear.requires_grad_(False)` freezes both.""",
    adapters(freeze=lambda self: self.linear.weight.requires_grad_(False)),
)

LowRankLinear.mistake(
    "everything frozen",
    """You freeze A and B too, so nothing is left to train. Freeze `linear` before you make the two, or freeze
    `linear` only.""",
    adapters(forward=lambda self, x: Adapter.forward(self.requires_grad_(False), x)),
)

LowRankLinear.mistake(
    "both zero",
    """A and B both begin at zero. The gradient of each is a product with the other, so both gradients are
    zero, and stay so: nothing is ever learned. Draw A at random.""",
    adapters(first_down=lambda self, *shape: torch.zeros(shape)),
)

LowRankLinear.mistake(
    "no gradient for A and B",
    """The update is right, but no gradient reaches A and B: you compute it, or all of forward, under
    `no_grad`, detach it, or write it into a weight by `.data`. Then nothing is ever learned. Freeze only the
    parameters of `linear`, and compute forward as usual.""",
    adapters(forward=lambda self, x: self.linear(x) + self.scale() * self.update(x).detach()),
    adapters(forward=lambda self, x: (self.linear(x) + self.scale() * self.update(x)).detach()),
)

LowRankLinear.mistake(
    "both random",
    """A and B both begin at random. The fresh module then computes something else than the trained map:
    training begins with a damaged model. Let `up` begin at zero.""",
    adapters(first_up=lambda self, *shape: torch.randn(shape)),
)

LowRankLinear.mistake(
    "no gradient for the layers below",
    """You run the frozen map under `no_grad`, or detach its result. Then no gradient passes through it, and
    adapters in earlier layers learn nothing. Freeze the parameters, not the computation.""",
    adapters(forward=lambda self, x: self.linear(x).detach() + self.scale() * self.update(x)),
    adapters(forward=lambda self, x: self.linear(x.detach()) + self.scale() * self.update(x)),
)

LowRankLinear.mistake(
    "no scale",
    """You add B A x without alpha / rank. With another rank the update would have another size, and the
    learning rate would have to be found anew. Multiply by `alpha / rank`.""",
    adapters(scale=lambda self: 1),
)

LowRankLinear.mistake(
    "alpha without rank",
    """You multiply by alpha and do not divide by the rank. A sum over more directions is larger, and alpha is
    meant for one: `alpha / rank`.""",
    adapters(scale=lambda self: self.alpha),
)

LowRankLinear.mistake(
    "rank without alpha",
    """You divide by the rank and forget alpha. It is the knob for the size of the update, and a trained
    adapter names its own: `alpha / rank`.""",
    adapters(scale=lambda self: 1 / self.rank),
)

LowRankLinear.mistake(
    "whole numbers only",
    """You divide with `//`. 2 // 3 is 0, and an update times 0 changes nothing and learns nothing. The scale
    is a fraction: `alpha / rank`.""",
    adapters(scale=lambda self: self.alpha // self.rank),
)

LowRankLinear.mistake(
    "scaled twice",
    """You multiply by alpha / rank in two places, so the update gets the square of it. Once is enough: A, B
    or their product.""",
    adapters(scale=lambda self: (self.alpha / self.rank) ** 2),
)

LowRankLinear.mistake(
    "rank over alpha",
    """You multiply by rank / alpha. The other way round: `alpha / rank`.""",
    adapters(scale=lambda self: self.rank / self.alpha),
)

LowRankLinear.mistake(
    "alpha over √rank",
    """You divide by the root of the rank. A later paper proposes that; Eq. 3 of LoRA, and this exercise,
    divide by the rank itself.""",
    adapters(scale=lambda self: self.alpha / math.sqrt(self.rank)),
)

LowRankLinear.mistake(
    "the frozen map left out",
    """You return the update alone. It is added to what the trained map says: `self.linear(x) + …`.""",
    adapters(forward=lambda self, x: self.scale() * self.update(x)),
)

LowRankLinear.mistake(
    "everything scaled",
    """You multiply the sum by alpha / rank, and so the trained map too. The scale belongs to the update
    only.""",
    adapters(forward=lambda self, x: self.scale() * (self.linear(x) + self.update(x))),
)

LowRankLinear.mistake(
    "subtracted",
    """You subtract the update. Training could live with that, a trained adapter could not: add it.""",
    adapters(forward=lambda self, x: self.linear(x) - self.scale() * self.update(x)),
)

LowRankLinear.mistake(
    "bias forgotten",
    """You use the weight of `linear` and leave out its bias. Call the map, `self.linear(x)`, or hand the bias
    on as well.""",
    adapters(forward=lambda self, x: x @ self.linear.weight.mT + self.scale() * self.update(x)),
    adapters(forward=lambda self, x: F.linear(x, self.linear.weight + self.scale() * self.up @ self.down)),
)

LowRankLinear.mistake(
    "an activation in between",
    """You bend the small vector between A and B. Then B A is no matrix any more, and the update cannot be
    merged into the weight. Both maps are linear.""",
    adapters(update=lambda self, x: (x @ self.down.mT).relu() @ self.up.mT),
    adapters(update=lambda self, x: F.gelu(x @ self.down.mT) @ self.up.mT),
)

LowRankLinear.mistake(
    "a map of your own",
    """You build a new `nn.Linear` of the same size and forget the trained one that is handed in. Keep it:
    `self.linear = linear`.""",
    adapters(freeze=lambda self: replaced(self).requires_grad_(False)),
    adapters(freeze=lambda self: replaced(self)),
)


def replaced(self):
    """Another map of the same size, fresh."""
    old = self.linear
    self.linear = nn.Linear(old.in_features, old.out_features, bias=old.bias is not None)
    return self.linear


LowRankLinear.mistake(
    "A and B not transposed",
    """You multiply x by A and B as they are stored, (features out, features in), like every weight here. A
    row of x meets the transpose: `x @ self.down.mT @ self.up.mT`.""",
    adapters(update=lambda self, x: x @ self.down @ self.up),
)

LowRankLinear.mistake(
    "A and B in the wrong order",
    """You go up before you go down. x has in_features, which A, `self.down`, expects; B takes the rank
    features that come out of it.""",
    adapters(update=lambda self, x: x @ self.up.mT @ self.down.mT),
)

LowRankLinear.mistake(
    "the update of the result",
    """You send the result of the frozen map through A and B. The update stands beside the map, not behind it:
    both read x.""",
    adapters(forward=lambda self, x: behind(self, self.linear(x))),
)


def behind(self, y):
    """The update of the map's result."""
    return y + self.scale() * self.update(y)


# ------------------------------------------------------------------------------------------------------ 12.6


@exercise(
    "12.6",
    "One step with a cache",
    returns=("output", "keys", "values"),
    gradients=False,  # nothing is trained here, and a cache may be detached
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
            given["key"] = -100 * given["query"]  # a token's score on itself is far below −100
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


def causal(new, old):
    """New token i stands at position old + i."""
    return torch.ones(new, old + new, dtype=torch.bool).tril(old)


def masked_softmax(scores, may_attend, low=-math.inf):
    """The weights: nothing where one may not attend."""
    return scores.masked_fill(~may_attend, low).softmax(-1)


def stepping(
    query=lambda q, old, turn: turn(q, offset=old),
    key=lambda k, old, turn: turn(k, offset=old),
    keys=lambda k, old_keys, turn: torch.cat([old_keys, k], dim=-2),
    values=lambda v, old_values: torch.cat([old_values, v], dim=-2),
    mask=causal,
    weigh=masked_softmax,
    scale=lambda q: math.sqrt(q.shape[-1]),
    kept=lambda all_keys, all_values, k, v, old_keys, old_values: (all_keys, all_values),
    result=lambda output, keys, values: (output, keys, values),
):
    """An answer that takes some of the steps otherwise."""

    def wrong(q, k, v, old_keys, old_values, turn):
        new, old = q.shape[-2], old_keys.shape[-2]
        all_keys = keys(key(k, old, turn), old_keys, turn)
        all_values = values(v, old_values)
        weights = weigh(query(q, old, turn) @ all_keys.mT / scale(q), mask(new, all_keys.shape[-2] - new))
        return result(weights @ all_values, *kept(all_keys, all_values, k, v, old_keys, old_values))

    return wrong


def both(**changed):
    """The same with a mask and without: with a single new token in mind, one easily forgets it."""
    everything = stepping(**changed, mask=lambda new, old: torch.ones(new, old + new, dtype=torch.bool))
    return stepping(**changed), everything


def without_offset(x, old, turn):
    return turn(x)


def unturned(x, old, turn):
    return x


step.mistake(
    "no offset",
    """You turn the new tokens as if the text began with them: without an offset they stand at position 0.
    They follow the cached ones: `turn(…, offset=old_keys.shape[-2])`.""",
    *both(query=without_offset, key=without_offset),
)

step.mistake(
    "no offset for the query",
    """The keys are turned right; the query is turned as if it stood at position 0. Query and key of one token
    stand at the same position: give both the offset.""",
    *both(query=without_offset),
)

step.mistake(
    "no offset for the key",
    """The query is turned right; the new keys are turned as if they stood at position 0, and will be found
    there by every later token. Give both the offset.""",
    *both(key=without_offset),
)

step.mistake(
    "nothing turned",
    """You turn neither query nor key. The old keys are turned, so no two of them fit together any more. Turn
    both, by the positions that they have in the whole text.""",
    *both(query=unturned, key=unturned),
)

step.mistake(
    "query not turned",
    """The keys are turned, the query is not: the score then tells the key's place, not the distance of the
    two. `turn(query, offset=old)`.""",
    *both(query=unturned),
)

step.mistake(
    "key not turned",
    """You put the new keys into the cache as they are. Nothing turns them later, and the old ones are turned.
    `turn(key, offset=old)`.""",
    *both(key=unturned),
)

step.mistake(
    "one position too far",
    """Your offset is one too large. With old tokens in the cache they stand at the positions 0 to old − 1, so
    the first new one stands at old.""",
    *both(
        query=lambda q, old, turn: turn(q, offset=old + 1), key=lambda k, old, turn: turn(k, offset=old + 1)
    ),
)

step.mistake(
    "one position too near",
    """Your offset is one too small: the first new token gets the place of the last old one. Positions begin
    at 0, so the first new token stands at old.""",
    *both(
        query=lambda q, old, turn: turn(q, offset=max(old - 1, 0)),
        key=lambda k, old, turn: turn(k, offset=max(old - 1, 0)),
    ),
    *both(
        query=lambda q, old, turn: turn(q, offset=old - 1), key=lambda k, old, turn: turn(k, offset=old - 1)
    ),
)

step.mistake(
    "offset counts the new tokens too",
    """Your offset is the length of the text after this step. The first new token stands where the cache ends
    now: take the length before you extend it.""",
    *both(
        query=lambda q, old, turn: turn(q, offset=old + q.shape[-2]),
        key=lambda k, old, turn: turn(k, offset=old + k.shape[-2]),
    ),
)

step.mistake(
    "offset for one new token only",
    """Your offset is that of the last new token: the length with the new ones, less one. With one new token
    that is right; with several, the first of them stands at old and the others follow.""",
    *both(
        query=lambda q, old, turn: turn(q, offset=old + q.shape[-2] - 1),
        key=lambda k, old, turn: turn(k, offset=old + k.shape[-2] - 1),
    ),
    *both(query=lambda q, old, turn: turn(q, offset=old + q.shape[-2] - 1)),
)

step.mistake(
    "offset is the number of new tokens",
    """Your offset is the number of new tokens. What stands before them are the old ones:
    `turn(…, offset=old_keys.shape[-2])`.""",
    *both(
        query=lambda q, old, turn: turn(q, offset=q.shape[-2]),
        key=lambda k, old, turn: turn(k, offset=k.shape[-2]),
    ),
)

step.mistake(
    "offset of another axis",
    """Your offset is the number of texts or of heads. Positions are the last axis but one of the cache:
    `old_keys.shape[-2]`.""",
    *both(
        query=lambda q, old, turn: turn(q, offset=q.shape[0]),
        key=lambda k, old, turn: turn(k, offset=k.shape[0]),
    ),
    *both(
        query=lambda q, old, turn: turn(q, offset=q.shape[1]),
        key=lambda k, old, turn: turn(k, offset=k.shape[1]),
    ),
)

step.mistake(
    "old keys turned again",
    """You join first and turn everything. The old keys were turned when they were new, and are now turned
    twice. Turn the new ones only, then join.""",
    *both(key=unturned, keys=lambda k, old_keys, turn: turn(torch.cat([old_keys, k], dim=-2))),
    *both(key=unturned, keys=lambda k, old_keys, turn: turn(torch.cat([old_keys, k], dim=-2), offset=0)),
    *both(
        key=unturned,
        keys=lambda k, old_keys, turn: turn(torch.cat([old_keys, k], dim=-2)),
        kept=lambda all_k, all_v, k, v, old_k, old_v: (torch.cat([old_k, k], dim=-2), all_v),
    ),
)

step.mistake(
    "values turned",
    """You turn the values. They are not compared with anything; what is taken from a token must not depend on
    its place. Only queries and keys are turned.""",
    lambda q, k, v, old_keys, old_values, turn: stepping()(
        q, k, turn(v, offset=old_keys.shape[-2]), old_keys, old_values, turn
    ),
)

step.mistake(
    "new before old",
    """You put the new tokens in front of the old ones. Then the mask hides the wrong keys, and the next step
    counts on from the wrong end: old first, new behind.""",
    stepping(
        keys=lambda k, old_keys, turn: torch.cat([k, old_keys], dim=-2),
        values=lambda v, old_values: torch.cat([v, old_values], dim=-2),
    ),
)

step.mistake(
    "the cache not read",
    """The new tokens see only each other: you attend to the new keys alone. Join them with the old ones
    before you score.""",
    stepping(
        keys=lambda k, old_keys, turn: k, values=lambda v, old_values: v, mask=lambda new, old: causal(new, 0)
    ),
)

step.mistake(
    "the cache not extended",
    """You return the old keys and values, as they came in. The next step will know nothing of these
    tokens, and count positions wrongly. Return the joined ones.""",
    *both(kept=lambda all_k, all_v, k, v, old_k, old_v: (old_k, old_v)),
)

step.mistake(
    "only the new ones returned",
    """You return the keys and values of the new tokens only. The next step needs
    those of all tokens: return the joined ones.""",
    *both(kept=lambda all_k, all_v, k, v, old_k, old_v: (all_k[..., -k.shape[-2] :, :], v)),
    *both(kept=lambda all_k, all_v, k, v, old_k, old_v: (k, v)),
)

step.mistake(
    "keys kept unturned",
    """The new keys go into the cache as they were before the turn. The next step takes them for turned
    ones. Keep what you scored with.""",
    *both(kept=lambda all_k, all_v, k, v, old_k, old_v: (torch.cat([old_k, k], dim=-2), all_v)),
)

step.mistake(
    "no mask",
    """With several new tokens, each of them sees those after it. One at a time that goes unnoticed; for a
    whole prompt it is a leak. Token i may attend up to position old + i.""",
    stepping(mask=lambda new, old: torch.ones(new, old + new, dtype=torch.bool)),
)

step.mistake(
    "mask aligned at the top left",
    """Your mask counts the queries from position 0: `tril()` lets the first new token see the first key only.
    The queries are the last positions: `tril(old)`.""",
    stepping(mask=lambda new, old: torch.ones(new, old + new, dtype=torch.bool).tril()),
)

step.mistake(
    "mask moved by the new tokens",
    """You shift the mask by the number of new tokens. What comes before them are the old ones, so the first
    new query may see old + 1 keys: `tril(old)`.""",
    stepping(mask=lambda new, old: torch.ones(new, old + new, dtype=torch.bool).tril(new)),
)

step.mistake(
    "mask for the new tokens only",
    """Your mask has a column for each new token only. A query meets the cached keys as well: new rows,
    old + new columns, `torch.ones(new, old + new, dtype=torch.bool).tril(old)`.""",
    stepping(mask=lambda new, old: causal(new, 0)),
)

step.mistake(
    "a mask of numbers added",
    """Your mask holds the numbers 0 and 1, and is added to the scores: hidden keys keep their score, the
    others gain 1. Make it boolean, and fill what is hidden with −∞.""",
    stepping(weigh=lambda scores, may_attend: (scores + may_attend.double()).softmax(-1)),
)

step.mistake(
    "a token does not see itself",
    """Your mask ends one too early: a new token sees everything before it, and not itself. Its own key
    counts: `tril(old)`.""",
    stepping(mask=lambda new, old: torch.ones(new, old + new, dtype=torch.bool).tril(old - 1)),
)

step.mistake(
    "one token of the future",
    """Your mask ends one too late: each new token sees the one after it. `tril(old)` ends at the token
    itself.""",
    stepping(mask=lambda new, old: torch.ones(new, old + new, dtype=torch.bool).tril(old + 1)),
)

step.mistake(
    "old keys hidden",
    """The cache that you return is right, but the new tokens see only each other: the old keys are hidden, or
    left out of the scores. They lie in the past of every new token and are open to it.""",
    stepping(
        keys=lambda k, old_keys, turn: k,
        values=lambda v, old_values: v,
        mask=lambda new, old: causal(new, 0),
        kept=lambda all_k, all_v, k, v, old_k, old_v: (
            torch.cat([old_k, all_k], dim=-2),
            torch.cat([old_v, all_v], dim=-2),
        ),
    ),
    stepping(
        mask=lambda new, old: torch.cat([torch.zeros(new, old, dtype=torch.bool), causal(new, 0)], dim=-1)
    ),
)

step.mistake(
    "new tokens hidden",
    """Your new tokens see the cache only. They also see each other and themselves, as far as they have come:
    `tril(old)`.""",
    stepping(mask=lambda new, old: torch.arange(old + new).expand(new, -1) < old),
    stepping(
        mask=lambda new, old: torch.arange(old + new).expand(new, -1) < old,
        weigh=lambda scores, may_attend: masked_softmax(scores, may_attend).nan_to_num(),
    ),
)


step.mistake(
    "triu for tril",
    """You take the upper triangle: each new token sees itself and what comes after it. `tril(old)` keeps what
    comes before.""",
    stepping(mask=lambda new, old: torch.ones(new, old + new, dtype=torch.bool).triu(old)),
)

step.mistake(
    "mask inverted",
    """You hide what may be seen. `masked_fill` fills where its mask is True, so hand it the opposite of
    may_attend.""",
    stepping(mask=lambda new, old: ~causal(new, old)),
)

step.mistake(
    "hidden after the softmax",
    """You set the hidden weights to 0 after the softmax, so the rest of a row no longer adds up to one. Fill
    the scores with −∞ before it.""",
    stepping(weigh=lambda scores, may_attend: scores.softmax(-1) * may_attend),
)

step.mistake(
    "hidden scores set to zero",
    """You set hidden scores to 0, and softmax gives them weight all the same, for e⁰ is 1. Fill them with
    −∞.""",
    stepping(weigh=lambda scores, may_attend: (scores * may_attend).softmax(-1)),
)

step.mistake(
    "hidden scores not low enough",
    """You fill hidden scores with a number such as −50. Where the other scores are lower still, hidden keys
    get a share, or all. Fill with −∞, `-math.inf`.""",
    *(
        stepping(weigh=lambda scores, mask, low=low: masked_softmax(scores, mask, low))
        for low in (-10.0, -50.0, -100.0)
    ),
)

step.mistake(
    "no scale",
    """You do not divide the scores by √d_head: softmax would choose a single key (lesson 03). Divide by
    `math.sqrt(query.shape[-1])`.""",
    stepping(scale=lambda q: 1.0),
)

step.mistake(
    "divided by d_head",
    """You divide the scores by d_head, and not by its root: the weights come out too even (lesson 03). Divide
    by `math.sqrt(query.shape[-1])`.""",
    stepping(scale=lambda q: q.shape[-1]),
)

step.mistake(
    "softmax over the queries",
    """Your columns add up to one, where the rows should: softmax runs over the new tokens. Each of them
    shares out a total of 1 among the keys, `dim=-1`.""",
    stepping(weigh=lambda scores, may_attend: scores.masked_fill(~may_attend, -math.inf).softmax(-2)),
)

step.mistake(
    "joined along another axis",
    """You join old and new along the heads, the texts or the features. What grows are the positions, the last
    axis but one: `dim=-2`.""",
    stepping(
        keys=lambda k, old_keys, turn: torch.cat([old_keys, k], dim=1),
        values=lambda v, old_values: torch.cat([old_values, v], dim=1),
    ),
    stepping(
        keys=lambda k, old_keys, turn: torch.cat([old_keys, k], dim=-1),
        values=lambda v, old_values: torch.cat([old_values, v], dim=-1),
    ),
    stepping(
        keys=lambda k, old_keys, turn: torch.cat([old_keys, k]),
        values=lambda v, old_values: torch.cat([old_values, v]),
    ),
)

step.mistake(
    "only the output",
    """The output is right; keys and values are missing, and the next step would have to begin anew. Return
    all three.""",
    stepping(result=lambda output, keys, values: output),
)

step.mistake(
    "results in another order",
    """All three are right, in another order: the output first, then the keys, then the values.""",
    stepping(result=lambda output, keys, values: (keys, values, output)),
    stepping(result=lambda output, keys, values: (output, values, keys)),
)


# ------------------------------------------------------------------------------------------------------ 12.7


@exercise(
    "12.7",
    "From many key heads to few",
    hints=[
        """Each head owns d_head rows of the weight, and neighbours form a group. Cut the rows into three
        axes: which group, which head of it, which feature.""",
        """`weight.unflatten(0, (n_kv_heads, n_heads // n_kv_heads, -1))`, then the mean over axis 1, then
        join the first two axes.""",
    ],
    gradients=False,
)
def fewer_heads(weight, n_heads, n_kv_heads):
    """The weight of a key (or value) projection for n_kv_heads heads: each is the mean of its group.

    weight: (n_heads · d_head, d_model), as nn.Linear keeps it
    returns (n_kv_heads · d_head, d_model)
    """
    raise NotImplementedError


@fewer_heads.cases
def fewer_heads(normal):
    yield {"weight": normal(30, 7), "n_heads": 6, "n_kv_heads": 2}
    yield {"weight": normal(8, 8), "n_heads": 4, "n_kv_heads": 2}
    yield {"weight": normal(15, 2), "n_heads": 5, "n_kv_heads": 1}
    yield {"weight": normal(66, 5), "n_heads": 6, "n_kv_heads": 3}
    yield {"weight": normal(6, 1), "n_heads": 3, "n_kv_heads": 3}


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


def in_groups(w, h, kv):
    """(group, head, d_head, d_model)"""
    return w.unflatten(0, (kv, h // kv, -1))


fewer_heads.mistake(
    "added, not averaged",
    """You add the heads of a group. The keys become too long, and with them the scores: softmax would choose
    too sharply. Take the mean.""",
    lambda w, h, kv: in_groups(w, h, kv).sum(1).flatten(0, 1),
)

fewer_heads.mistake(
    "one head of each group",
    """You keep one head of each group and drop the others. That is another way to begin; asked is the
    mean, to which every head contributes.""",
    lambda w, h, kv: in_groups(w, h, kv)[:, 0].flatten(0, 1),
    lambda w, h, kv: in_groups(w, h, kv)[:, -1].flatten(0, 1),
)

fewer_heads.mistake(
    "the first heads only",
    """You cut off the weight after n_kv_heads heads. Then whole groups have lost all their heads. Every new
    head is the mean of its own group.""",
    lambda w, h, kv: w[: len(w) // h * kv],
)

fewer_heads.mistake(
    "groups dealt out like cards",
    """Your group holds heads 0, n_kv_heads, 2·n_kv_heads, … Heads that share a key head stand side by side:
    the group comes first in `unflatten`, then the head.""",
    lambda w, h, kv: w.unflatten(0, (h // kv, kv, -1)).mean(0).flatten(0, 1),
)

fewer_heads.mistake(
    "features averaged",
    """You average features of a head with each other. Feature f of the new head is the mean of feature f of
    the old ones: the heads are averaged, d_head stays.""",
    lambda w, h, kv: w.unflatten(0, (-1, h // kv)).mean(1),
)

fewer_heads.mistake(
    "all rows of a group averaged",
    """You take the mean of all rows of a group, so one row is left of each. Its heads are averaged, their
    features are not: a head of d_head rows must come out.""",
    lambda w, h, kv: w.unflatten(0, (kv, -1)).mean(1),
    lambda w, h, kv: w.unflatten(0, (kv, -1)).mean(1).repeat_interleave(len(w) // h, dim=0),
)

fewer_heads.mistake(
    "columns averaged",
    """You cut the columns: those are the features that come in, and all heads read them. A head owns rows of
    the weight, (features out, features in).""",
    lambda w, h, kv: w.mT.unflatten(0, (kv, h // kv, -1)).mean(1).flatten(0, 1).mT,
)

fewer_heads.mistake(
    "another axis averaged",
    """You average along the wrong axis. After `unflatten` the axes are group, head of the group, feature,
    d_model: the heads of a group are axis 1.""",
    lambda w, h, kv: in_groups(w, h, kv).mean(0).flatten(0, 1),
    lambda w, h, kv: in_groups(w, h, kv).mean(2).flatten(0, 1),
)

fewer_heads.mistake(
    "divided by another number",
    """You divide the sum by something else than the number of heads in a group. A mean of
    `n_heads // n_kv_heads` heads divides by exactly that.""",
    lambda w, h, kv: in_groups(w, h, kv).sum(1).flatten(0, 1) / h,
    lambda w, h, kv: in_groups(w, h, kv).sum(1).flatten(0, 1) / kv,
    lambda w, h, kv: in_groups(w, h, kv).sum(1).flatten(0, 1) / math.sqrt(h // kv),
)

fewer_heads.mistake(
    "one mean for all",
    """You average all heads, and give every group the same. Then there is one key head, copied. Each group
    has a mean of its own.""",
    lambda w, h, kv: w.unflatten(0, (h, -1)).mean(0).repeat(kv, 1),
)

fewer_heads.mistake(
    "as many heads as before",
    """You replace each head by its group's mean and keep n_heads of them. It computes the same, but nothing
    is saved: keep one per group.""",
    lambda w, h, kv: in_groups(w, h, kv).mean(1, keepdim=True).expand(-1, h // kv, -1, -1).flatten(0, 2),
)

fewer_heads.mistake(
    "not joined",
    """Your heads still have an axis of their own, (n_kv_heads, d_head, d_model). An `nn.Linear` keeps one
    matrix: join the first two axes.""",
    lambda w, h, kv: in_groups(w, h, kv).mean(1),
    lambda w, h, kv: in_groups(w, h, kv).mean(1).flatten(1),
)

fewer_heads.mistake(
    "n_kv_heads heads in each group",
    """You take n_kv_heads heads together. A group has `n_heads // n_kv_heads` of them, and there are
    n_kv_heads groups.""",
    lambda w, h, kv: w.unflatten(0, (h // kv, kv, -1)).mean(1).flatten(0, 1),
)
