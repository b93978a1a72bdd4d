"""Exercises of lesson 03: scores, attention, a safe softmax, its spread, its cost, attention on a stream."""

import math
import weakref

import torch
from torch.nn.functional import normalize, one_hot

from transformer_lab.course.checker import exercise

# ------------------------------------------------------------------------------------------------------ 03.1


@exercise(
    "03.1",
    "Compute the scaled scores",
    hints=[
        """There is one number per pair: the sum over the features of query i times key j. Which product
        of two matrices gives all these sums at once?""",
        """As they are, (query_pos, d_head) and (key_pos, d_head) do not fit together: the features must
        meet in the middle. `key.mT` swaps the last two axes of the key.""",
        "Divide by `math.sqrt(d_head)`, where `d_head` is the size of the last axis, `query.shape[-1]`.",
    ],
)
def scaled_scores(query, key):
    """How well does each key answer each query?

    query: (query_pos, d_head)
    key: (key_pos, d_head)
    returns (query_pos, key_pos): at [i, j] the dot product of query i and key j, divided by √d_head
    """
    raise NotImplementedError


@scaled_scores.cases
def scaled_scores(normal):
    yield {"query": normal(3, 5), "key": normal(7, 5)}
    yield {"query": normal(11, 2), "key": normal(5, 2)}
    by_hand = torch.tensor([[1.0, 1, 1, 1], [2, 0, 0, -2]])  # scores 5 and −3
    yield {"query": torch.tensor([[1.0, 2, 3, 4]]), "key": by_hand}


@scaled_scores.specification
def scaled_scores(query, key):
    d_head = query.shape[1]
    result = torch.zeros(len(query), len(key))
    for i in range(len(query)):
        for j in range(len(key)):
            for feature in range(d_head):
                result[i, j] += query[i, feature] * key[j, feature] / math.sqrt(d_head)
    return result


@scaled_scores.solution
def scaled_scores(query, key):
    d_head = query.shape[-1]
    return query @ key.mT / math.sqrt(d_head)  # (query_pos, key_pos)


@scaled_scores.alternative
def scaled_scores(query, key):
    return torch.einsum("id,jd->ij", query * query.size(-1) ** -0.5, key)


OTHER_WIDTHS = (2, 3, 4, 5, 8, 16, 32, 64, 128, 384, 512)  # whose roots people write into their code


def scaled(query, key):
    """The right scores: mistakes that come after them start here."""
    return query @ key.mT / math.sqrt(query.shape[-1])


scaled_scores.mistake(
    "no scale",
    """You do not divide by √d_head. A dot product of d_head terms has a spread of about √d_head, so wide
    heads would get large scores and softmax would pick a single key. Divide by `math.sqrt(d_head)`.""",
    lambda q, k: q @ k.mT,
)

scaled_scores.mistake(
    "multiplied by √d_head",
    """You multiply by √d_head where the formula divides. The product spreads about √d_head too far
    already; you make it d_head. Divide instead.""",
    lambda q, k: q @ k.mT * math.sqrt(q.shape[-1]),
)

scaled_scores.mistake(
    "divided by d_head",
    """You divide by d_head, not by its square root. The variance of a dot product grows with d_head, but
    its spread only with √d_head; your scores are too close to 0 and attention will be too even. Use
    `math.sqrt(d_head)`.""",
    lambda q, k: q @ k.mT / q.shape[-1],
)

scaled_scores.mistake(
    "the fourth root",
    """You divide by the fourth root of d_head. That is right only if query and key are each divided by
    it before the product. Divide the product by `math.sqrt(d_head)`.""",
    lambda q, k: q @ k.mT / q.shape[-1] ** 0.25,
)

scaled_scores.mistake(
    "a fixed divisor",
    """You divide by the same number whatever the width. `query` and `key` are not always as wide as in the
    lesson, and a wrong divisor makes attention too sharp or too even. Take the width from the input:
    `math.sqrt(query.shape[-1])`.""",
    *[lambda q, k, width=width: q @ k.mT / math.sqrt(width) for width in OTHER_WIDTHS],
)

scaled_scores.mistake(
    "`** 1/2` without brackets",
    """`d_head ** 1/2` is (d_head ** 1) / 2, since a power binds tighter than a division: no root is taken.
    Write `d_head ** 0.5`, `d_head ** (1/2)` or `math.sqrt(d_head)`, and keep the divisor together.""",
    lambda q, k: q @ k.mT / q.shape[-1] ** 1 / 2,
    lambda q, k: q @ k.mT / (q.shape[-1] ** 1 / 2),
)

scaled_scores.mistake(
    "√ of a length",
    """You take the root of a number of vectors: `len(x)` and `x.shape[0]` count queries or keys, not
    features. The same two vectors would get another score in a longer sentence. Use the last axis,
    `query.shape[-1]`.""",
    lambda q, k: q @ k.mT / math.sqrt(len(q)),
    lambda q, k: q @ k.mT / math.sqrt(len(k)),
)

scaled_scores.mistake(
    "key not transposed",
    """`query @ key` lets the features of a query meet the positions of the keys, which do not fit.
    Each score sums over the features of both, so they must meet in the middle: `query @ key.mT`.""",
    lambda q, k: q @ k,
)

scaled_scores.mistake(
    "reshaped, not transposed",
    """`reshape` and `view` keep the numbers in their order and only cut them into rows anew, so features
    of several keys end up in one column. A transpose moves them: `key.mT`, or `key.transpose(-2, -1)`.""",
    lambda q, k: scaled(q, k.reshape(k.shape[1], k.shape[0]).mT),
)

scaled_scores.mistake(
    "query and key swapped",
    """Your table lies on its side: its rows belong to keys. Each row must belong to one query, since
    softmax will run along the rows. Put the query on the left: `query @ key.mT`.""",
    lambda q, k: scaled(k, q) * math.sqrt(k.shape[-1] / q.shape[-1]),
)

scaled_scores.mistake(
    "elementwise product",
    """`*` multiplies number by number: it pairs query i with key i only, and fails where there are more
    keys than queries. Every query meets every key: that is the matrix product `@`, with the key
    transposed.""",
    lambda q, k: q * k,
    lambda q, k: q * k.mT,
)

scaled_scores.mistake(
    "cosine similarity",
    """You divide by the lengths of the vectors, which gives their cosine. No score could then exceed 1,
    and a model could not make a query or key count for more. Keep the lengths, and divide by √d_head
    only.""",
    lambda q, k: normalize(q, dim=-1) @ normalize(k, dim=-1).mT,
    lambda q, k: scaled(normalize(q, dim=-1), normalize(k, dim=-1)),
)

scaled_scores.mistake(
    "softmax already applied",
    """These are attention weights: positive, each row sums to 1. The exercise stops one step earlier, at
    the scaled scores, which may have any sign. Leave out the softmax.""",
    lambda q, k: scaled(q, k).softmax(-1),
)


# ------------------------------------------------------------------------------------------------------ 03.2


@exercise(
    "03.2",
    "Write scaled dot-product attention",
    returns=("output", "weights"),
    without=("scaled_dot_product_attention",),
    hints=[
        """Three lines do it: scaled scores, weights, output. You have the first already; let it work
        with axes for batch and heads in front, by counting axes from the end.""",
        """Softmax must run along the keys, so that each query shares out a total of 1. In (…, query_pos,
        key_pos) the keys are the last axis: `dim=-1`.""",
        """The output of query i is the sum over all keys j of weights[i, j] · value[j]. That is a matrix
        product once more, and this time nothing needs transposing.""",
    ],
)
def attention(query, key, value):
    """softmax(query keyᵀ / √d_head) value, with any number of axes in front, such as batch and heads.

    query: (..., query_pos, d_head)
    key: (..., key_pos, d_head)
    value: (..., key_pos, d_value)
    returns output (..., query_pos, d_value) and weights (..., query_pos, key_pos)
    """
    raise NotImplementedError


@attention.cases
def attention(normal):
    yield {"query": normal(3, 5), "key": normal(7, 5), "value": normal(7, 2)}
    yield {"query": normal(5, 2, 3), "key": normal(5, 11, 3), "value": normal(5, 11, 7)}
    yield {"query": normal(2, 3, 7, 5), "key": normal(2, 3, 11, 5), "value": normal(2, 3, 11, 13)}
    values = torch.tensor([[1.0, 3], [5, 7]])  # one text, head and query; equal scores: the mean, by hand
    yield {"query": torch.zeros(1, 1, 1, 2), "key": normal(1, 1, 2, 2), "value": values[None, None]}


@attention.specification
def attention(query, key, value):
    if query.ndim > 2:
        each = [attention.specified(*one) for one in zip(query, key, value, strict=True)]
        return tuple(torch.stack(results) for results in zip(*each, strict=True))
    output, weights = torch.zeros(len(query), value.shape[1]), torch.zeros(len(query), len(key))
    for i in range(len(query)):
        exponentials = [torch.exp(sum(query[i] * key_j) / math.sqrt(len(key_j))) for key_j in key]
        for j in range(len(key)):
            weights[i, j] = weight = exponentials[j] / sum(exponentials)
            for feature in range(value.shape[1]):
                output[i, feature] += weight * value[j, feature]
    return output, weights


@attention.solution
def attention(query, key, value):
    d_head = query.shape[-1]
    scaled = query @ key.mT / math.sqrt(d_head)  # (..., query_pos, key_pos)
    weights = scaled.softmax(dim=-1)
    output = weights @ value  # (..., query_pos, d_value)
    return output, weights


@attention.alternative
def attention(q, k, v):
    exponentials = torch.einsum("...id,...jd->...ij", q * q.size(-1) ** -0.5, k).exp()
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return [torch.einsum("...ij,...jd->...id", weights, v), weights]


def attend(scores, value):
    """The right way on from the scores: mistakes in the scores end here."""
    return weigh(scores.softmax(-1), value)


def weigh(weights, value):
    """The right way on from the weights: mistakes in the weights end here."""
    return weights @ value, weights


attention.mistake(
    "no scale",
    """You do not divide the scores by √d_head. A dot product of d_head terms has a spread of about
    √d_head, so in wide heads softmax turns almost one-hot and passes hardly any gradient. Divide by
    `math.sqrt(d_head)` before the softmax.""",
    lambda q, k, v: attend(q @ k.mT, v),
)

attention.mistake(
    "multiplied by √d_head",
    """You multiply the scores by √d_head where the formula divides. They spread too far already; now
    softmax puts nearly all weight on one key. Divide instead.""",
    lambda q, k, v: attend(q @ k.mT * math.sqrt(q.shape[-1]), v),
)

attention.mistake(
    "divided by d_head",
    """You divide the scores by d_head, not by its square root. The variance of a dot product grows with
    d_head, but its spread only with √d_head; your scores are too close to 0, so attention is too even.
    Use `math.sqrt(d_head)`.""",
    lambda q, k, v: attend(q @ k.mT / q.shape[-1], v),
)

attention.mistake(
    "the fourth root",
    """You divide the scores by the fourth root of d_head. That is right only if query and key are each
    divided by it before the product. Divide the scores by `math.sqrt(d_head)`.""",
    lambda q, k, v: attend(q @ k.mT / q.shape[-1] ** 0.25, v),
)

attention.mistake(
    "a fixed divisor",
    """You divide the scores by the same number whatever the width of the head. In a head of another width
    the scores then spread too far or too little. Take the width from the input:
    `math.sqrt(query.shape[-1])`.""",
    *[lambda q, k, v, width=width: attend(q @ k.mT / math.sqrt(width), v) for width in OTHER_WIDTHS],
)

attention.mistake(
    "`** 1/2` without brackets",
    """`d_head ** 1/2` is (d_head ** 1) / 2, since a power binds tighter than a division: no root is taken.
    Write `d_head ** 0.5`, `d_head ** (1/2)` or `math.sqrt(d_head)`, and keep the divisor together.""",
    lambda q, k, v: attend(q @ k.mT / q.shape[-1] ** 1 / 2, v),
    lambda q, k, v: attend(q @ k.mT / (q.shape[-1] ** 1 / 2), v),
)

attention.mistake(
    "√ of the number of keys",
    """You take the root of the number of keys. The same two vectors would then get another score in a
    longer sentence. Scores grow with the number of features they sum over: use `query.shape[-1]`.""",
    lambda q, k, v: attend(q @ k.mT / math.sqrt(k.shape[-2]), v),
)

attention.mistake(
    "√ of the number of queries",
    """You take the root of the number of queries. A query's attention would then depend on how many
    others are asked with it. Scores grow with the number of features they sum over: use
    `query.shape[-1]`.""",
    lambda q, k, v: attend(q @ k.mT / math.sqrt(q.shape[-2]), v),
)

attention.mistake(
    "√ of an axis counted from the left",
    """You look for d_head on an axis counted from the left. In (batch, heads, query_pos, d_head) axis 0
    is the batch and axis 1 the heads; with fewer axes in front they are something else. d_head is
    always last: `query.shape[-1]`.""",
    lambda q, k, v: attend(q @ k.mT / math.sqrt(q.shape[0]), v),
    lambda q, k, v: attend(q @ k.mT / math.sqrt(k.shape[0]), v),
    lambda q, k, v: attend(q @ k.mT / math.sqrt(q.shape[1]), v),
    lambda q, k, v: attend(q @ k.mT / math.sqrt(k.shape[1]), v),
)

attention.mistake(
    "√ of the values' width",
    """You take the root of the values' width. Often it is the same number, so this can go unnoticed for
    long; but a score sums over the features of query and key. Use `query.shape[-1]`.""",
    lambda q, k, v: attend(q @ k.mT / math.sqrt(v.shape[-1]), v),
)

attention.mistake(
    "√ of the whole model's width",
    """You divide by √(heads · d_head), the root of d_model. A score sums over the features of one head,
    so that is too much by √heads, and attention is too even. Use the width of a head,
    `query.shape[-1]`.""",
    lambda q, k, v: attend(q @ k.mT / math.sqrt(q.shape[-1] * (q.shape[-3] if q.ndim == 4 else 1)), v),
)

attention.mistake(
    "softmax over the queries",
    """Each column of your weights sums to 1, where each row should: softmax runs over the queries. The
    keys then do not compete, and a query may hand out .1 or 3 in total, so its output is no average.
    Use `dim=-1`.""",
    lambda q, k, v: weigh(scaled(q, k).softmax(-2), v),
)

attention.mistake(
    "softmax over the heads",
    """`dim=1` counts from the left: in (batch, heads, query_pos, key_pos) the heads then compete for
    each pair of tokens. It is the keys that share out a total of 1: `dim=-1`, whatever stands in
    front.""",
    lambda q, k, v: weigh(scaled(q, k).softmax(1), v),
)

attention.mistake(
    "softmax over the batch",
    """`dim=0` is the first axis: the sentences of a batch then compete with each other, and a sentence's
    result depends on its neighbours. It is the keys that share out a total of 1: `dim=-1`, whatever
    stands in front.""",
    lambda q, k, v: weigh(scaled(q, k).softmax(0), v),
)

attention.mistake(
    "softmax over a fixed axis",
    """You count the axis of the softmax from the left. That is right for one number of axes, and wrong or
    an error for another. The keys are always last: `dim=-1`.""",
    lambda q, k, v: weigh(scaled(q, k).softmax(2), v),
    lambda q, k, v: weigh(scaled(q, k).softmax(3), v),
)

attention.mistake(
    "softmax without dim",
    """You leave `dim` out, and `F.softmax` guesses: axis 0 of a tensor with three axes, axis 1 of one
    with two or four. Only the single sentence comes out right. Say who shares out a total of 1, the
    keys: `dim=-1`.""",
    lambda q, k, v: weigh(torch.nn.functional.softmax(scaled(q, k)), v),
)

attention.mistake(
    "softmax over everything",
    """All your weights together sum to 1, so each query hands out a small part of it, and the output
    shrinks as more queries are asked. Each query has a total of 1 of its own: softmax over the last
    axis only, `dim=-1`.""",
    lambda q, k, v: weigh(scaled(q, k).flatten().softmax(0).view_as(q @ k.mT), v),
    lambda q, k, v: weigh(scaled(q, k).flatten(-2).softmax(-1).view_as(q @ k.mT), v),
)

attention.mistake(
    "weights scaled, not scores",
    """You divide by √d_head after the softmax. The weights of a query then sum to 1/√d_head, and the
    scores that softmax saw were as large as before. Divide first.""",
    lambda q, k, v: weigh((q @ k.mT).softmax(-1) / math.sqrt(q.shape[-1]), v),
)

attention.mistake(
    "output scaled, not scores",
    """You divide the output by √d_head, not the scores. The output is an average of values and needs no
    scale; it was the softmax that needed it, before it ran. Divide the scores.""",
    lambda q, k, v: ((q @ k.mT).softmax(-1) @ v / math.sqrt(q.shape[-1]), (q @ k.mT).softmax(-1)),
)

attention.mistake(
    "keys and queries swapped",
    """The table that you multiply with the values has a row for each key, and the two do not fit.
    Either the scores are `key @ query.mT`, or the weights were transposed afterwards. Rows belong to
    queries: `query @ key.mT`, then `weights @ value` as they are.""",
    lambda q, k, v: attend(scaled(k, q), v),
    lambda q, k, v: scaled(q, k).mT @ v,
)

attention.mistake(
    "key not transposed",
    """`query @ key` lets the features of a query meet the positions of the keys, which do not fit.
    Each score sums over the features of both, so they must meet in the middle: `query @ key.mT`.""",
    lambda q, k, v: q @ k,
)

attention.mistake(
    "reshaped, not transposed",
    """`reshape` and `view` keep the numbers in their order and only cut them into rows anew, so features
    of several keys end up in one column: the shape is right and the scores are not. A transpose moves
    them: `key.mT`.""",
    lambda q, k, v: attend(scaled(q, k.reshape(q.mT.shape[:-1] + k.shape[-2:-1]).mT), v),
)

attention.mistake(
    "`.T` reverses all axes",
    """`key.T` turns all axes round, (batch, heads, key_pos, d_head) into (d_head, key_pos, heads,
    batch): right for a matrix, wrong as soon as anything stands in front. `key.mT` swaps only the last
    two.""",
    lambda q, k, v: attend(q @ k.T / math.sqrt(q.shape[-1]), v),
)

attention.mistake(
    "transposed by fixed axes",
    """You transpose axes counted from the left. That fits one number of axes; with another, the batch or
    the heads move, or the axis does not exist. Count from the end: `key.mT`, or `key.transpose(-2,
    -1)`.""",
    lambda q, k, v: attend(q @ k.transpose(0, 1) / math.sqrt(q.shape[-1]), v),
    lambda q, k, v: attend(q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]), v),
    lambda q, k, v: attend(q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]), v),
    lambda q, k, v: attend(q @ k.permute(0, 2, 1) / math.sqrt(q.shape[-1]), v),
    lambda q, k, v: attend(q @ k.permute(0, 1, 3, 2) / math.sqrt(q.shape[-1]), v),
)

attention.mistake(
    "bmm takes three axes only",
    """`torch.bmm` insists on exactly three axes: it refuses a single sentence, and a tensor with heads.
    `@` (`torch.matmul`) multiplies along the last two axes, whatever stands in front.""",
    lambda q, k, v: torch.bmm(q, k.mT),
)

attention.mistake(
    "elementwise product",
    """`query * key` multiplies number by number, so it pairs query i with key i only. Every query meets
    every key: that is the matrix product, `query @ key.mT`.""",
    lambda q, k, v: q * k,
)

attention.mistake(
    "query compared with value",
    """Your scores come from query and value. A key says what its token can be found by, a value what it
    hands over once found; the values come in at the end. Scores: `query @ key.mT`.""",
    lambda q, k, v: q @ v.mT,
)

attention.mistake(
    "values weighted with the scores",
    """Your weights are right, but you multiply the values by the scores. Scores may be negative and do not
    sum to 1, so the output is no average. Use what softmax returned: `output = weights @ value`.""",
    lambda q, k, v: (scaled(q, k) @ v, scaled(q, k).softmax(-1)),
    lambda q, k, v: (q @ k.mT @ v, scaled(q, k).softmax(-1)),
)

attention.mistake(
    "values not weighted",
    """Your output is a plain mean or sum of the values: the weights have no part in it, so all queries
    get the same answer. Let each query weigh the values its own way: `weights @ value`.""",
    lambda q, k, v: (v.mean(-2), scaled(q, k).softmax(-1)),
    lambda q, k, v: (v.sum(-2), scaled(q, k).softmax(-1)),
    lambda q, k, v: (torch.ones_like(q @ k.mT) @ v / k.shape[-2], scaled(q, k).softmax(-1)),
)

attention.mistake(
    "mean in place of sum",
    """You take the mean of the weighted values, so the output is too small by the number of keys. The
    weights sum to 1 already: adding up the weighted values is the average. Use a sum, or simply
    `weights @ value`.""",
    lambda q, k, v: (scaled(q, k).softmax(-1) @ v / k.shape[-2], scaled(q, k).softmax(-1)),
)

attention.mistake(
    "weights applied to the keys",
    """You average the keys, `weights @ key`. The keys have done their work in the scores; what a token
    hands over is its value. Use `weights @ value`.""",
    lambda q, k, v: attend(scaled(q, k), k),
)

attention.mistake(
    "value on the left",
    """In `value @ weights` the features of the values meet the queries, which do not fit. It is the keys
    that must meet: (query_pos, key_pos) times (key_pos, d_value) is `weights @ value`.""",
    lambda q, k, v: v @ scaled(q, k),
)

attention.mistake(
    "scores returned as weights",
    """The output is right, but the second result holds the scores. Weights are what softmax makes of
    them: positive, each row sums to 1. Return `output, weights`.""",
    lambda q, k, v: (scaled(q, k).softmax(-1) @ v, scaled(q, k)),
    lambda q, k, v: (scaled(q, k).softmax(-1) @ v, q @ k.mT),
)

attention.mistake(
    "results in the wrong order",
    """Both results are right, in the wrong order: whoever writes `output, weights = attention(…)` gets
    them crossed. Return `output, weights`.""",
    lambda q, k, v: attend(scaled(q, k), v)[::-1],
)

attention.mistake(
    "only the output",
    """The output is right, and the weights are missing. They show where each query looked, and every
    figure of this lesson needs them. Return both: `return output, weights`.""",
    lambda q, k, v: scaled(q, k).softmax(-1) @ v,
)

attention.mistake(
    "only the weights",
    """The weights are right, and one step is left: let them average the values, `output = weights @
    value`. Return both: `return output, weights`.""",
    lambda q, k, v: scaled(q, k).softmax(-1),
)

attention.mistake(
    "exponentials not normalised",
    """You take the exponential of the scores and do not divide by its sum. The weights of a query then do
    not sum to 1, and the output grows with the number of keys. Use `scores.softmax(dim=-1)`.""",
    lambda q, k, v: weigh(scaled(q, k).exp(), v),
)

attention.mistake(
    "no exponential",
    """You divide the scores by their sum, without the exponential. The rows do sum to 1, but scores have
    both signs: some weights turn negative, and where the sum is near 0 they explode. Use
    `scores.softmax(dim=-1)`.""",
    lambda q, k, v: weigh(scaled(q, k) / scaled(q, k).sum(-1, keepdim=True), v),
)

attention.mistake(
    "sigmoid, not softmax",
    """A sigmoid judges each key by itself: the weights of a query do not sum to 1, so the output is no
    average but a sum that grows with the number of keys. Let the keys compete:
    `scores.softmax(dim=-1)`.""",
    lambda q, k, v: weigh(scaled(q, k).sigmoid(), v),
)

attention.mistake(
    "log-softmax",
    """`log_softmax` gives the logarithm of the weights, which is negative. A loss function wants that;
    an average needs the weights themselves: `scores.softmax(dim=-1)`.""",
    lambda q, k, v: weigh(scaled(q, k).log_softmax(-1), v),
)

attention.mistake(
    "softmax twice",
    """You apply softmax to weights, which are softmax already. They all lie between 0 and 1, so the
    second pass makes them almost equal, and no query can single out a key. Once is enough.""",
    lambda q, k, v: attend(scaled(q, k).softmax(-1), v),
)

attention.mistake(
    "only the best key",
    """You give all weight to the key with the highest score. Such a lookup has no gradient, so a model
    could never learn where to look. Softmax is the soft version: `scores.softmax(dim=-1)`.""",
    lambda q, k, v: weigh(one_hot(scaled(q, k).argmax(-1), k.shape[-2]).to(v.dtype), v),
)

attention.mistake(
    "cosine similarity",
    """You divide query and key by their lengths, so the scores are cosines. A model then cannot make a
    query or key count for more, and no key can stand out. Keep the lengths, and divide by √d_head
    only.""",
    lambda q, k, v: attend(normalize(q, dim=-1) @ normalize(k, dim=-1).mT, v),
    lambda q, k, v: attend(scaled(normalize(q, dim=-1), normalize(k, dim=-1)), v),
)

attention.mistake(
    "a causal mask",
    """Your code hides the keys that come after the query, as GPT does. An encoder reads in both
    directions: every query sees every key. Leave out the triangle (`tril`, `triu`); masks are the
    subject of lesson 04.""",
    lambda q, k, v: attend(scaled(q, k).masked_fill(torch.ones_like(q @ k.mT).triu(1) == 1, -math.inf), v),
)


# ------------------------------------------------------------------------------------------------------ 03.3


@exercise(
    "03.3",
    "Write a softmax that does not overflow",
    without=("softmax", "log_softmax"),
    hints=[
        """exp(1000) is infinite in float64. Which number can you subtract from all scores of a row,
        without changing their softmax, so that no exponent is above 0?""",
        """Subtract the row's own maximum, `scores.max(dim=-1, keepdim=True).values`. The factor
        exp(−maximum) then stands above and below in the fraction, and cancels.""",
        """`keepdim=True` keeps the axis with size 1, so that (…, key_pos) and (…, 1) line up row by row.
        The sum needs it as well.""",
    ],
)
def softmax(scores):
    """exp(scores) / Σ exp(scores) along the last axis, without overflow and without torch's own softmax.

    scores: (..., key_pos), of any size: 1000 and −1000 are fine
    returns (..., key_pos): no weight is negative, every row sums to 1
    """
    raise NotImplementedError


@softmax.cases
def softmax(normal):
    yield {"scores": normal(3, 7)}
    yield {"scores": normal(5, 5)}  # a square: here a forgotten keepdim does not raise
    yield {"scores": normal(2, 3, 5)}
    yield {"scores": normal(3, 7) + torch.tensor([[1000.0], [0.0], [-1000.0]])}  # each row on its own level
    yield {"scores": 1000 * normal(2, 5)}  # far apart within a row
    yield {"scores": torch.tensor([0, math.log(3)]) - 1000}  # a single row, by hand: a quarter and three


@softmax.specification
def softmax(scores):
    if scores.ndim > 1:
        return torch.stack([softmax.specified(row) for row in scores])
    weights = []
    for score in scores:
        # 1 / Σ exp(other − score): beyond 700 the exponential overflows, and the weight is 0 either way
        weights.append(1 / sum(torch.exp((other - score).clamp(max=700)) for other in scores))
    return torch.stack(weights)


@softmax.solution
def softmax(scores):
    largest = scores.max(dim=-1, keepdim=True).values  # (..., 1)
    exponentials = torch.exp(scores - largest)  # at most exp(0) = 1
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@softmax.alternative
def softmax(scores):
    return torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))


LIMITS = (20, 50, 80, 88, 100, 500, 600, 700, 709)  # exp overflows above 88 in float32, 709 in float64


def stable(scores, dim=-1):
    """The right exponentials along one axis."""
    return torch.exp(scores - scores.amax(dim, keepdim=True))


def share(exponentials, dim=-1):
    """The right way on from the exponentials."""
    return exponentials / exponentials.sum(dim, keepdim=True)


softmax.mistake(
    "no maximum subtracted",
    """Right for small scores. But exp(1000) is infinite and ∞/∞ is NaN, and in a row of scores near −1000
    every exponential is 0, and 0/0 is NaN too. Subtract each row's maximum first: it cancels in the
    fraction.""",
    lambda s: share(s.exp()),
)

softmax.mistake(
    "scores clamped",
    """You cut the scores off at a limit. Nothing overflows then, but all scores beyond the limit count as
    equal, and the best key no longer stands out. Subtract each row's maximum instead: it keeps all
    differences, and cancels in the fraction.""",
    *[lambda s, limit=limit: share(s.clamp(-limit, limit).exp()) for limit in LIMITS],
    *[lambda s, limit=limit: share(s.clamp(max=limit).exp()) for limit in LIMITS],
)

softmax.mistake(
    "NaN replaced afterwards",
    """You let the exponentials overflow and replace what is broken afterwards. Which score was the larger
    is lost by then: the row no longer sums to 1, or all its weights are equal. Subtract each row's
    maximum before the exponential.""",
    lambda s: share(s.exp()).nan_to_num(),
    lambda s: share(s.exp()).nan_to_num(1.0),
    lambda s: share(s.exp()).nan_to_num(1 / s.shape[-1]),
    lambda s: share(s.exp().nan_to_num()),
    lambda s: share(s.exp().nan_to_num()).nan_to_num(),
)

softmax.mistake(
    "maximum subtracted only above",
    """You subtract the maximum above the fraction line, but sum the exponentials of the scores as they
    are. The factor exp(−maximum) cancels only if it stands above and below. Compute the exponentials
    once, and divide them by their own sum.""",
    lambda s: stable(s) / s.exp().sum(-1, keepdim=True),
)

softmax.mistake(
    "maximum subtracted only below",
    """You subtract the maximum below the fraction line, but not above it. The factor exp(−maximum) cancels
    only if it stands in both places. Compute the exponentials once, and divide them by their own sum.""",
    lambda s: s.exp() / stable(s).sum(-1, keepdim=True),
)

softmax.mistake(
    "one maximum for all rows",
    """You subtract the largest score of the whole tensor. In a row that lies far below it every
    exponential underflows to 0, and 0/0 is NaN. Each row needs its own: `scores.max(dim=-1,
    keepdim=True).values`.""",
    lambda s: share(torch.exp(s - s.max())),
)

softmax.mistake(
    "maximum along another axis",
    """You subtract the maximum of each column, but sum along the rows. Within a row each score is then
    shifted by another amount, which does not cancel. Take the maximum along the axis you sum over:
    `dim=-1`.""",
    lambda s: share(stable(s, dim=-2)),
)

softmax.mistake(
    "along the wrong axis",
    """Your columns sum to 1, where the rows should: you sum along the last axis but one. In attention
    that axis is the queries, and they must not compete. Use `dim=-1` for the maximum and for the sum.""",
    lambda s: share(stable(s, dim=-2), dim=-2),
    lambda s: share(stable(s), dim=-2),
)

softmax.mistake(
    "along a fixed axis",
    """You count the axis from the left. `dim=0` or `dim=1` is the last axis for one number of axes only;
    with batch and heads in front it is another. Count from the end: `dim=-1`.""",
    lambda s: share(stable(s, dim=0), dim=0),
    lambda s: share(stable(s, dim=1), dim=1),
)

softmax.mistake(
    "keepdim forgotten",
    """Without `keepdim=True` the maximum or the sum loses its axis, and torch lines up what is left with
    the columns: an error for most shapes, and silently wrong for a square. Say `keepdim=True` in
    both places.""",
    lambda s: share(torch.exp(s - s.amax(-1))),
    lambda s: stable(s) / stable(s).sum(-1),
    lambda s: torch.exp(s - s.amax(-1)) / torch.exp(s - s.amax(-1)).sum(-1),
    lambda s: s.exp() / s.exp().sum(-1),
)

softmax.mistake(
    "max gives two things",
    """`scores.max(dim=…)` returns the maxima and where they stand, so it cannot be subtracted as it is.
    Take its `.values`, or use `scores.amax(dim=-1, keepdim=True)`, which returns the maxima only.""",
    lambda s: s - s.max(dim=-1, keepdim=True),
)

softmax.mistake(
    "log-softmax",
    """You return the logarithm of the softmax: no value is above 0, and it is their exponentials that sum
    to 1. Take `torch.exp` of it.""",
    lambda s: s - s.logsumexp(-1, keepdim=True),
)

softmax.mistake(
    "mean subtracted",
    """You subtract the mean. It cancels as well, but it does not hold the exponents down: a score far
    above the mean of its row still overflows. With the maximum, no exponent is above 0.""",
    lambda s: share(torch.exp(s - s.mean(-1, keepdim=True))),
)

softmax.mistake(
    "epsilon in the denominator",
    """You add a small number to the denominator. It cannot be 0: once the maximum is subtracted, the sum
    is at least exp(0) = 1. The epsilon only makes each row sum to a little less than 1. Leave it out.""",
    *[lambda s, e=e: stable(s) / (stable(s).sum(-1, keepdim=True) + e) for e in (1e-5, 1e-6, 1e-7, 1e-8)],
)

softmax.mistake(
    "divided by the maximum",
    """You divide the scores by their maximum. That changes how far apart they are, hence the weights, and
    reverses their order where the maximum is negative. Subtract it: only a shift cancels in the
    fraction.""",
    lambda s: share(torch.exp(s / s.amax(-1, keepdim=True))),
)

softmax.mistake(
    "exponential of the sum",
    """You divide by the exponential of the sum. What makes a row sum to 1 is the sum of the exponentials:
    exp first, then the sum.""",
    lambda s: s.exp() / s.sum(-1, keepdim=True).exp(),
    lambda s: stable(s) / (s - s.amax(-1, keepdim=True)).sum(-1, keepdim=True).exp(),
)

softmax.mistake(
    "no exponential",
    """You divide by the sum without taking exponentials. Scores have both signs, so some weights turn
    negative, and where the sum is near 0 they explode. Take `torch.exp` first.""",
    lambda s: share(s),
    lambda s: share(s - s.amax(-1, keepdim=True)),
)

softmax.mistake(
    "not normalised",
    """You return the exponentials themselves: the largest of each row is 1, and the row sums to more.
    Divide by the sum along the last axis, with `keepdim=True`.""",
    lambda s: stable(s),
)

softmax.mistake(
    "one sum for all rows",
    """You divide by the sum of all exponentials, so the whole tensor sums to 1, not each row. Every
    query has a total of 1 of its own: `sum(dim=-1, keepdim=True)`.""",
    lambda s: stable(s) / stable(s).sum(),
    lambda s: torch.exp(s - s.max()) / torch.exp(s - s.max()).sum(),
    lambda s: s.exp() / s.exp().sum(),
)


# ------------------------------------------------------------------------------------------------------ 03.4


@exercise(
    "03.4",
    "Over how many tokens does a query spread its attention?",
    tolerance=1e-6,  # log(weights + 1e-9) is a fair way to keep log 0 out
    gradients=False,  # nothing is trained with it, and a library's entropy may normalise once more
    hints=[
        """The entropy of one row is −Σ weight · log(weight), and ten equal weights have the entropy log
        10. Which function makes a 10 of that?""",
        """A weight of exactly 0 contributes nothing, but `0 * torch.log(0)` is 0 · −∞ = NaN.
        `torch.special.xlogy(a, b)` is a · log b, and 0 wherever a is 0.""",
        "One number per query: sum along the keys, `dim=-1`. Then the minus sign, then `torch.exp`.",
    ],
)
def effective_tokens(weights):
    """exp(entropy) of each row: n equal weights count as n tokens, a single weight of 1 counts as one.

    weights: (..., query_pos, key_pos); each row sums to 1, and some weights may be exactly 0
    returns (..., query_pos)
    """
    raise NotImplementedError


@effective_tokens.cases
def effective_tokens(normal):
    yield {"weights": normal(3, 7).softmax(-1)}
    yield {"weights": (2 * normal(1, 3, 5, 11)).softmax(-1)}
    yield {"weights": torch.tensor([[1.0, 0, 0, 0, 0], [0.2] * 5, [0.5, 0, 0.25, 0.25, 0]])}


@effective_tokens.specification
def effective_tokens(weights):
    if weights.ndim > 1:
        return torch.stack([effective_tokens.specified(row) for row in weights])
    entropy = torch.tensor(0.0)
    for weight in weights:
        if weight > 0:
            entropy = entropy - weight * torch.log(weight)
    return torch.exp(entropy)


@effective_tokens.solution
def effective_tokens(weights):
    entropy = -torch.special.xlogy(weights, weights).sum(dim=-1)  # (..., query_pos)
    return torch.exp(entropy)


@effective_tokens.alternative
def effective_tokens(weights):
    return 2 ** torch.where(weights > 0, -weights * torch.log2(weights), 0.0).sum(-1)


@effective_tokens.alternative
def effective_tokens(weights):
    return torch.exp(-(weights * torch.log(weights + 1e-9)).sum(-1))


THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
COUNTS = (torch.int64, torch.float32, torch.float64)  # what a count may come as


def surprise(weights):
    """The right summands of the entropy, −weight · log(weight)."""
    return torch.special.entr(weights)


effective_tokens.mistake(
    "minus sign missing",
    """You compute Σ w·log w without the minus sign. Logarithms of weights are negative, so you get one
    over the right number: 1/n for n equal weights. Put a minus in front of the sum.""",
    lambda w: torch.exp(-surprise(w).sum(-1)),
    lambda w: torch.exp((w * w.log()).sum(-1)),
)

effective_tokens.mistake(
    "two different bases",
    """You take the logarithm to base 2 and then a power of e, so the one does not undo the other: five
    equal weights count as 10.2. Use `torch.log` with `torch.exp`, or `torch.log2` with `2 **`.""",
    lambda w: torch.exp(surprise(w).sum(-1) / math.log(2)),
    lambda w: torch.exp(-(w * w.log2()).sum(-1)),
)

effective_tokens.mistake(
    "0 · log 0",
    """Where a weight is exactly 0 you compute 0 · log 0 = 0 · −∞, which is NaN, and with it the whole
    row. Such a key contributes nothing: `torch.special.xlogy(weights, weights)` gives 0 there.""",
    lambda w: torch.exp(-(w * w.log()).sum(-1)),
)

effective_tokens.mistake(
    "summed over the queries",
    """You sum along the queries, so you get one number per key. The question is how widely each query
    looks: sum along the keys, the last axis, `dim=-1`.""",
    lambda w: torch.exp(surprise(w).sum(-2)),
)

effective_tokens.mistake(
    "an axis counted from the left",
    """You count the axis of the sum from the left. In (batch, heads, query_pos, key_pos) `dim=0` is the
    batch and `dim=1` the heads; with fewer axes they are the queries or the keys. The keys are always
    last: `dim=-1`.""",
    lambda w: torch.exp(surprise(w).sum(0)),
    lambda w: torch.exp(surprise(w).sum(1)),
    lambda w: torch.exp(-(w * w.log()).sum(0)),
    lambda w: torch.exp(-(w * w.log()).sum(1)),
)

effective_tokens.mistake(
    "the entropy itself",
    """This is the entropy: 0 for a single token, log n for n equal ones. It is right, but in a unit that
    nobody can picture. `torch.exp` of it is a number of tokens.""",
    lambda w: surprise(w).sum(-1),
)

effective_tokens.mistake(
    "the entropy in bits",
    """This is the entropy in bits: log₂ n for n equal weights. To count tokens, undo the logarithm: `2
    **` the entropy in bits, or `torch.exp` of the natural one.""",
    lambda w: surprise(w).sum(-1) / math.log(2),
)

effective_tokens.mistake(
    "mean in place of sum",
    """You take the mean of w·log w along the keys. The weights are in the product already, so the entropy
    is the plain sum; the mean makes it too small by the number of keys. Use `.sum(dim=-1)`.""",
    lambda w: torch.exp(surprise(w).mean(-1)),
)

effective_tokens.mistake(
    "one number for all queries",
    """You sum over everything and get a single number. Each query spreads its attention in its own way:
    sum along the keys only, `dim=-1`.""",
    lambda w: torch.exp(surprise(w).sum()),
)

effective_tokens.mistake(
    "exponential inside the sum",
    """You take the exponential of each summand and add up afterwards. The exponential undoes the
    logarithm of the whole entropy: first the sum, then `torch.exp`.""",
    lambda w: surprise(w).exp().sum(-1),
)

effective_tokens.mistake(
    "axis kept",
    """The numbers are right, and the last axis is still there with size 1. One number per query has the
    shape (…, query_pos): leave out `keepdim=True`.""",
    lambda w: torch.exp(surprise(w).sum(-1, keepdim=True)),
)

effective_tokens.mistake(
    "one over the largest weight",
    """You divide 1 by the largest weight. That gives n for n equal weights too, but it looks at one key
    only: (.5, .5) and (.5, .1, .1, .1, .1, .1) would count alike. The entropy hears every weight.""",
    lambda w: 1 / w.amax(-1),
)

effective_tokens.mistake(
    "one over the sum of squares",
    """You divide 1 by the sum of the squared weights. That measures spread too, and gives n for n equal
    weights, but it makes little of the small ones. The exercise asks for exp(entropy).""",
    lambda w: 1 / w.square().sum(-1),
)

effective_tokens.mistake(
    "all keys counted",
    """You count the keys whose weight is not 0. After a softmax that is nearly always every key, however
    small its share. In the entropy each key counts by its share.""",
    *[lambda w, dtype=dtype: (w > 0).sum(-1, dtype=dtype) for dtype in COUNTS],
)

effective_tokens.mistake(
    "keys above a threshold counted",
    """You count the keys whose weight is above a threshold. The count depends on where you draw the line,
    and a weight just below it counts for nothing. In the entropy each key counts by its share: exp(−Σ
    w·log w), with no line to draw.""",
    *[
        lambda w, line=line, dtype=dtype: (w > line).sum(-1, dtype=dtype)
        for line in THRESHOLDS
        for dtype in COUNTS
    ],
    *[lambda w, dtype=dtype: (w > 1 / w.shape[-1]).sum(-1, dtype=dtype) for dtype in COUNTS],
    *[lambda w, dtype=dtype: (w >= 1 / w.shape[-1]).sum(-1, dtype=dtype) for dtype in COUNTS],
)

effective_tokens.mistake(
    "softmax once more",
    """You apply softmax to the weights, which are softmax already. The second pass makes them nearly
    equal, so every query seems to look everywhere. Use the weights as they come.""",
    lambda w: torch.exp(surprise(w.softmax(-1)).sum(-1)),
)


# ------------------------------------------------------------------------------------------------------ 03.5


@exercise(
    "03.5",
    "Count the operations",
    hints=[
        "Start with one score: d_head products, added up. How many scores are there?",
        """The product of an (a, b) and a (b, c) matrix has a · c numbers, each made by b multiply–adds,
        and a multiply–add counts as two operations.""",
        """There are two products: (n_query, d_head) with (d_head, n_key), then (n_query, n_key) with
        (n_key, d_value). Add their costs.""",
    ],
)
def attention_flops(n_query, n_key, d_head, d_value):
    """Floating-point operations in the two matrix products of attention; scale and softmax do not count.

    query (n_query, d_head), key (n_key, d_head), value (n_key, d_value)
    returns an integer; a multiplication with its addition counts as 2 operations
    """
    raise NotImplementedError


@attention_flops.cases
def attention_flops(normal):
    yield {"n_query": 3, "n_key": 5, "d_head": 7, "d_value": 11}
    yield {"n_query": 13, "n_key": 2, "d_head": 5, "d_value": 3}
    yield {"n_query": 128, "n_key": 128, "d_head": 32, "d_value": 32}
    yield {"n_query": 1, "n_key": 1, "d_head": 1, "d_value": 1}


@attention_flops.specification
def attention_flops(n_query, n_key, d_head, d_value):
    operations = 0
    for _query in range(n_query):
        for _key in range(n_key):
            for _feature in range(d_head):
                operations += 2  # score += query · key
            for _feature in range(d_value):
                operations += 2  # output += weight · value
    return operations


@attention_flops.solution
def attention_flops(n_query, n_key, d_head, d_value):
    query_times_key = 2 * n_query * n_key * d_head
    weights_times_value = 2 * n_query * n_key * d_value
    return query_times_key + weights_times_value


@attention_flops.alternative
def attention_flops(n_query, n_key, d_head, d_value):
    return (d_head + d_value) * n_key * n_query << 1


attention_flops.mistake(
    "multiply–adds counted once",
    """You count one operation where a product is added to a sum. The convention here, and on the data
    sheets of processors, counts two: a multiplication and an addition. Multiply by 2.""",
    lambda nq, nk, dh, dv: nq * nk * (dh + dv),
)

attention_flops.mistake(
    "only the scores",
    """You count query times key only. The weights then multiply the values: another 2 · n_query · n_key ·
    d_value operations. Add them.""",
    lambda nq, nk, dh, dv: 2 * nq * nk * dh,
)

attention_flops.mistake(
    "only the output",
    """You count weights times value only. Before there are weights, every query meets every key: another
    2 · n_query · n_key · d_head operations. Add them.""",
    lambda nq, nk, dh, dv: 2 * nq * nk * dv,
)

attention_flops.mistake(
    "d_head in both products",
    """You use d_head for both products, the usual 4·n²·d. But the second one is as wide as the values:
    (n_query, n_key) times (n_key, d_value). Use d_value there.""",
    lambda nq, nk, dh, dv: 4 * nq * nk * dh,
)

attention_flops.mistake(
    "d_value in both products",
    """You use d_value for both products. But a score sums over the features of query and key: the first
    product costs 2 · n_query · n_key · d_head.""",
    lambda nq, nk, dh, dv: 4 * nq * nk * dv,
)

attention_flops.mistake(
    "2 in one product only",
    """You count one of the two products by twos, and the other by ones. In both of them each term is a
    multiplication and an addition. Put the 2 in front of both.""",
    lambda nq, nk, dh, dv: 2 * nq * nk * dh + nq * nk * dv,
    lambda nq, nk, dh, dv: nq * nk * dh + 2 * nq * nk * dv,
)

attention_flops.mistake(
    "the two products multiplied",
    """You multiply the cost of the first product by the cost of the second. The second one runs once, after
    the first, and not once for each of its operations. Add the two costs.""",
    lambda nq, nk, dh, dv: (2 * nq * nk * dh) * (2 * nq * nk * dv),
    lambda nq, nk, dh, dv: 2 * (nq * nk * dh) * (nq * nk * dv),
    lambda nq, nk, dh, dv: (nq * nk * dh) * (nq * nk * dv),
)

attention_flops.mistake(
    "a float",
    """The number is right, but it is a float: a division with `/` or a factor such as `2.0` makes one.
    Operations are counted, and a float is exact only up to about 10¹⁶. Return an integer: use `2`, and
    `//` if you divide.""",
    lambda nq, nk, dh, dv: 2.0 * nq * nk * (dh + dv),
)

attention_flops.mistake(
    "widths multiplied",
    """You multiply d_head by d_value, as if one product ran inside the other. They run one after the
    other: count each by itself, and add.""",
    lambda nq, nk, dh, dv: 2 * nq * nk * dh * dv,
)

attention_flops.mistake(
    "not every pair",
    """Your count grows with the number of queries or of keys, not with their product. Every query meets
    every key: there are n_query · n_key pairs, and that is why attention is quadratic in the length.""",
    lambda nq, nk, dh, dv: 2 * nq * (dh + dv),
    lambda nq, nk, dh, dv: 2 * nk * (dh + dv),
    lambda nq, nk, dh, dv: 2 * (nq + nk) * (dh + dv),
    lambda nq, nk, dh, dv: 2 * nq * dh + 2 * nk * dv,
)

attention_flops.mistake(
    "one length squared",
    """You square one length. That is right when a sentence attends to itself; in general the table of
    scores has n_query rows and n_key columns. Use n_query · n_key.""",
    lambda nq, nk, dh, dv: 2 * nq**2 * (dh + dv),
    lambda nq, nk, dh, dv: 2 * nk**2 * (dh + dv),
)

attention_flops.mistake(
    "one addition fewer",
    """You count d multiplications and d − 1 additions, which is exact. The convention is simpler: a sum
    of d products counts 2·d, as if the first one were added to 0.""",
    lambda nq, nk, dh, dv: nq * nk * (2 * dh - 1) + nq * dv * (2 * nk - 1),
)

attention_flops.mistake(
    "projections counted",
    """You add the 8·n·d² of the projections that make query, key, value and output. They belong to the
    multi-head layer of lesson 05; here query, key and value are given. Count the two products of
    attention only.""",
    lambda nq, nk, dh, dv: 8 * nq * dh**2 + 4 * nq * nk * dh,
)

attention_flops.mistake(
    "softmax counted",
    """Both products are right, and you count something more for each score: the scale, or the softmax.
    That is honest, and small beside 2 · (d_head + d_value); the exercise leaves it out.""",
    *[lambda nq, nk, dh, dv, more=more: nq * nk * (2 * dh + 2 * dv + more) for more in range(1, 8)],
)


# ------------------------------------------------------------------------------------------------------ 03.6


class Stream:
    """Hands out each (key, value) once, and notices when they are kept."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor):
        self.pairs = list(zip(keys, values, strict=True))
        self.handed_out: list[tuple[weakref.ref, weakref.ref]] = []

    def __iter__(self):
        return self

    def __next__(self):
        # A loop still holds one pair when it asks for the next, and may well take a few at a time.
        if sum(any(vector() is not None for vector in pair) for pair in self.handed_out) > 9:
            raise MemoryError("ten pairs of this stream are still in memory; it is too long to be stored")
        if not self.pairs:
            raise StopIteration
        key, value = (vector.clone() for vector in self.pairs.pop(0))
        self.handed_out.append((weakref.ref(key), weakref.ref(value)))
        return key, value

    def __repr__(self) -> str:
        return f"an iterator over {len(self.pairs)} pairs"


@exercise(
    "03.6",
    "Attention over a stream (stretch)",
    gradients=False,  # with `math.exp`, on plain numbers, the sums are right as well
    hints=[
        """If nothing could overflow, two running sums would do: Σ exp(score) and Σ exp(score) · value.
        Divide at the end.""",
        """Keep a third thing, the largest score so far, and make both sums relative to it: Σ exp(score −
        largest). What must happen to the sums when a larger score arrives?""",
        """Multiply both sums by exp(old maximum − new maximum) before you add to them; that is 1 unless
        the maximum has grown. Begin with −∞ as the maximum: exp(−∞ − anything) is 0.""",
    ],
)
def streaming_attention(query, pairs):
    """Attention of one query over keys and values that pass by once and are too many to be stored.

    query: (d_head,)
    pairs: an iterator of (key, value), with shapes (d_head,) and (d_value,); scores may be very large
    returns the output (d_value,): what attention over all pairs together would give
    """
    raise NotImplementedError


@streaming_attention.cases
def streaming_attention(normal):
    yield {"query": normal(5), "pairs": Stream(normal(7, 5), normal(7, 3))}
    yield {"query": normal(5), "pairs": Stream(normal(1, 5), torch.tensor([[1.0, 2, 3]]))}  # a single pair
    yield {"query": 100 * normal(3), "pairs": Stream(10 * normal(11, 3), normal(11, 2))}
    rising = torch.arange(7.0).unsqueeze(1).expand(7, 2)  # every key beats all that came before
    yield {"query": torch.tensor([300.0, 200.0]), "pairs": Stream(rising, normal(7, 5))}
    alike = 2 + normal(5, 2) / 1000  # all scores near 1000, and each of them counts
    yield {"query": torch.tensor([400.0, 300.0]), "pairs": Stream(alike, normal(5, 3))}
    # All scores near −100,000: a maximum that starts at 0 or at −1000 never comes down to them.
    yield {"query": torch.tensor([4e4, 3e4]), "pairs": Stream(-2 - normal(3, 2) / 1e5, normal(3, 2))}


@streaming_attention.specification
def streaming_attention(query, pairs):
    scores, values = [], []
    for key, value in pairs:
        scores.append(sum(q * k for q, k in zip(query.tolist(), key.tolist(), strict=True)) / len(key) ** 0.5)
        values.append(value.tolist())
    weights = [math.exp(score - max(scores)) for score in scores]
    output = [0.0] * len(values[0])
    for weight, value in zip(weights, values, strict=True):
        for feature in range(len(output)):
            output[feature] += weight / sum(weights) * value[feature]
    return torch.tensor(output)


@streaming_attention.solution
def streaming_attention(query, pairs):
    largest, total, output = torch.tensor(-math.inf), 0.0, 0.0
    for key, value in pairs:
        score = query @ key / math.sqrt(query.shape[-1])
        new_largest = torch.maximum(largest, score)
        correction = torch.exp(largest - new_largest)  # 1 unless the maximum has grown
        weight = torch.exp(score - new_largest)
        total = total * correction + weight
        output = output * correction + weight * value
        largest = new_largest
    return output / total


@streaming_attention.alternative
def streaming_attention(query, pairs):
    log_total, output = -math.inf, 0  # output is the average so far, log_total the logarithm of its weight
    for key, value in pairs:
        score = float(query @ key) / len(query) ** 0.5
        higher, lower = max(log_total, score), min(log_total, score)
        log_total = higher + math.log1p(math.exp(lower - higher))
        output = output + math.exp(score - log_total) * (value - output)
    return output


def scored(query, pairs):
    """The right scores, each with its value."""
    return ((query @ key / math.sqrt(len(query)), value) for key, value in pairs)


def running_sums(scored_values, *, start=-math.inf, correct_output=True, correct_total=True, update=True):
    """Both sums by the right algorithm; it can start elsewhere, and a correction or update be left out."""
    largest, output, total = torch.tensor(start), 0.0, 0.0
    for score, value in scored_values:
        new_largest = torch.maximum(largest, score)
        correction, weight = torch.exp(largest - new_largest), torch.exp(score - new_largest)
        output = output * (correction if correct_output else 1) + weight * value
        total = total * (correction if correct_total else 1) + weight
        largest = new_largest if update else largest
    return output, total


def plain_sums(scored_values, exp=torch.exp):
    """Both sums from exponentials of the scores as they are."""
    output, total = 0.0, 0.0
    for score, value in scored_values:
        output, total = output + exp(score) * value, total + exp(score)
    return output, total


streaming_attention.mistake(
    "no running maximum",
    """You add up exp(score) as it is. Large scores overflow: exp(1000) is infinite and ∞/∞ is NaN
    (`math.exp` raises an error). Keep the largest score so far, and add up exp(score − largest).""",
    lambda q, p: torch.div(*plain_sums(scored(q, p))),
    lambda q, p: torch.div(*plain_sums(scored(q, p), exp=math.exp)),
)


@streaming_attention.mistake(
    "the first score as maximum",
    """You subtract the first score for ever. When a much larger one comes later, its exponential
    overflows. Let the maximum grow, and correct the sums whenever it does.""",
)
def streaming_attention(query, pairs):
    first, output, total = None, 0.0, 0.0
    for score, value in scored(query, pairs):
        first = score if first is None else first
        weight = torch.exp(score - first)
        output, total = output + weight * value, total + weight
    return output / total


streaming_attention.mistake(
    "the maximum starts at a number",
    """Your maximum does not start at −∞. Where all scores lie far below its first value, it stays there,
    every exponential underflows to 0, and 0/0 is NaN. Start with `-math.inf`: then the first score
    becomes the maximum, whatever it is.""",
    lambda q, p: torch.div(*running_sums(scored(q, p), start=0.0)),
)

streaming_attention.mistake(
    "the maximum is never updated",
    """You compute the new maximum, but the next step starts from the first value again. So all earlier
    pairs are scaled by exp(first value − new maximum) each time, and weigh wrongly. End the loop with
    `largest = new_largest`.""",
    lambda q, p: torch.div(*running_sums(scored(q, p), start=0.0, update=False)),
)

streaming_attention.mistake(
    "only the last value is left",
    """You return the last value: nothing is left of those before. Either the sums are overwritten where they
    should grow, or the maximum stays −∞, so that exp(−∞ − new) wipes them out: end the loop with `largest =
    new_largest`.""",
    lambda q, p: torch.div(*running_sums(scored(q, p), update=False)),
)

streaming_attention.mistake(
    "old sums not corrected",
    """You keep a running maximum, but what was added before it grew is still relative to the old one,
    so early tokens weigh too much. Multiply both sums by exp(old − new) before you add to them. (If
    you do, and it is always 1: the old maximum is overwritten too early.)""",
    lambda q, p: torch.div(*running_sums(scored(q, p), correct_output=False, correct_total=False)),
)

streaming_attention.mistake(
    "only the denominator corrected",
    """When the maximum grows you correct the sum of the weights, but not the sum of the weighted values,
    and the two no longer belong together. Multiply the output by exp(old − new) as well.""",
    lambda q, p: torch.div(*running_sums(scored(q, p), correct_output=False)),
)

streaming_attention.mistake(
    "only the numerator corrected",
    """When the maximum grows you correct the sum of the weighted values, but not the sum of the weights,
    so the output comes out too small. Multiply the total by exp(old − new) as well.""",
    lambda q, p: torch.div(*running_sums(scored(q, p), correct_total=False)),
)


def corrected_upwards(scored_values, largest=None):
    """Both sums with the correction turned round; where no maximum is given, the first score is it."""
    output, total = 0.0, 0.0
    for score, value in scored_values:
        largest = score if largest is None else largest
        new_largest = torch.maximum(largest, score)
        correction, weight = torch.exp(new_largest - largest), torch.exp(score - new_largest)
        output, total = output * correction + weight * value, total * correction + weight
        largest = new_largest
    return output, total


streaming_attention.mistake(
    "corrected the wrong way round",
    """You multiply the old sums by exp(new − old), which is above 1: they grow where they should shrink.
    They were relative to a smaller maximum: multiply by exp(old − new).""",
    lambda q, p: torch.div(*corrected_upwards(scored(q, p))),
    lambda q, p: torch.div(*corrected_upwards(scored(q, p), torch.tensor(0.0))),
)

streaming_attention.mistake(
    "infinite at the first step",
    """Your result is NaN from the first step on. Either the correction is turned round, and exp(new − old)
    is infinite at first: use exp(old − new). Or you take exp(score − largest) while `largest` is still
    −∞: update it first.""",
    lambda q, p: torch.div(*corrected_upwards(scored(q, p), torch.tensor(-math.inf))),
)


streaming_attention.mistake(
    "never divided",
    """You return the sum of the weighted values. Its weights are relative to the largest score and do not
    sum to 1. Divide by their sum, once, at the end.""",
    lambda q, p: running_sums(scored(q, p))[0],
)


@streaming_attention.mistake(
    "divided at every step",
    """You divide by the total inside the loop and go on adding to the result, so what came early is
    divided again and again. Keep the two sums apart, and divide once, at the end.""",
)
def streaming_attention(query, pairs):
    largest, output, total = torch.tensor(-math.inf), 0.0, 0.0
    for score, value in scored(query, pairs):
        new_largest = torch.maximum(largest, score)
        correction, weight = torch.exp(largest - new_largest), torch.exp(score - new_largest)
        total = total * correction + weight
        output = (output * correction + weight * value) / total
        largest = new_largest
    return output


streaming_attention.mistake(
    "no scale",
    """You do not divide the scores by √d_head. For a stream the rule is the same as ever: `score = query
    @ key / math.sqrt(d_head)`.""",
    lambda q, p: torch.div(*running_sums((q @ key, value) for key, value in p)),
)

streaming_attention.mistake(
    "divided by d_head",
    """You divide the scores by d_head, not by its square root. For a stream the rule is the same as ever:
    `score = query @ key / math.sqrt(d_head)`.""",
    lambda q, p: torch.div(*running_sums((q @ key / len(q), value) for key, value in p)),
)


def second_time_through(query, pairs, output, total):
    """A loop for the maximum, then one for the sums."""
    largest = max(score for score, _ in scored(query, pairs))
    for score, value in scored(query, pairs):
        output, total = output + torch.exp(score - largest) * value, total + torch.exp(score - largest)
    return output / total


streaming_attention.mistake(
    "went through twice",
    """You go through `pairs` twice, first for the scores or their maximum, then for the sums. A stream
    passes by once: the second loop finds nothing left. Do all in one loop, and correct the sums when
    the maximum grows. (If you do, nothing is added up in it.)""",
    lambda q, p: second_time_through(q, p, 0.0, 0.0),
    lambda q, p: second_time_through(q, p, 0, 0),
    lambda q, p: second_time_through(q, p, torch.tensor(0.0), torch.tensor(0.0)),
    lambda q, p: second_time_through(q, p, torch.zeros_like(q), 0.0),
    lambda q, p: [score for score, _ in scored(q, p)] and torch.stack([value for _, value in p]),
)

streaming_attention.mistake(
    "stored the stream",
    """You keep the pairs (`list`, `zip(*pairs)`, `append`) and compute afterwards. A stream is too long
    for that: use each pair as it passes by, and keep only a maximum and two sums.""",
    lambda q, p: list(p),
)

streaming_attention.mistake(
    "all tokens weigh the same",
    """Your output is the plain mean of the values: query and keys have no part in it. Weigh each value
    with exp(score − largest).""",
    lambda q, p: torch.div(*running_sums((torch.tensor(0.0), value) for _, value in p)),
)

streaming_attention.mistake(
    "keys in place of values",
    """You average the keys. They have done their work in the score; what a token hands over is its value:
    `output + weight * value`.""",
    lambda q, p: torch.div(*running_sums(scored(q, ((key, key) for key, _ in p)))),
)
