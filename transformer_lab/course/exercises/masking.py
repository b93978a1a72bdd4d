"""Exercises of lesson 04: masks made, applied, translated, used in a mean, followed through layers."""

import math

import torch

from transformer_lab.course.checker import exercise

# ------------------------------------------------------------------------------------------------------ 04.1


@exercise(
    "04.1",
    "Hide the padding",
    hints=[
        """Which comparison is True for every real token? A comparison of a tensor with a number already
        gives booleans; nothing needs to be converted.""",
        """The keys must stay last, the batch first, and an axis of length 1 must stand where nothing
        differs: for the heads, and for the queries. Indexing with `None` makes such an axis.""",
        "`real[:, None, None, :]` turns (batch, key_pos) into (batch, 1, 1, key_pos).",
    ],
)
def hide_padding(token_ids, pad_id):
    """True for every token that is not padding.

    token_ids: (batch, key_pos), integers
    pad_id: the id that means padding; any integer
    returns (batch, 1, 1, key_pos), booleans
    """
    raise NotImplementedError


@hide_padding.cases
def hide_padding(normal):
    yield {"token_ids": torch.tensor([[5, 8, 2, 0, 0], [7, 0, 0, 0, 0], [1, 2, 3, 4, 5]]), "pad_id": 0}
    yield {"token_ids": torch.tensor([[1, 1, 0, 3, 9, 2, 1], [4, 0, 6, 1, 1, 1, 1]]), "pad_id": 1}
    yield {"token_ids": torch.tensor([[3, 4], [3, 7]]), "pad_id": 7}
    yield {"token_ids": torch.tensor([[-1, -1, 4]]), "pad_id": -1}  # one sentence, padding in front


@hide_padding.specification
def hide_padding(token_ids, pad_id):
    batch, length = token_ids.shape
    mask = torch.zeros(batch, 1, 1, length, dtype=torch.bool)
    for b in range(batch):
        for j in range(length):
            mask[b, 0, 0, j] = token_ids[b, j].item() != pad_id
    return mask


@hide_padding.solution
def hide_padding(token_ids, pad_id):
    return (token_ids != pad_id)[:, None, None, :]  # (batch, 1, 1, key_pos)


@hide_padding.alternative
def hide_padding(ids, pad):
    return torch.logical_not(ids.eq(pad)).unsqueeze(1).unsqueeze(1)


def keys(real):
    """(batch, key_pos) with the axes of a mask: mistakes in the values end here."""
    return real[:, None, None, :]


hide_padding.mistake(
    "upside down",
    """Your mask is True for the padding. Here True means "may attend", so the padding would be all that
    is seen. Ask for the tokens that are not padding: `token_ids != pad_id`.""",
    lambda ids, pad: keys(ids == pad),
    lambda ids, pad: ids == pad,
)

hide_padding.mistake(
    "no axes for heads and queries",
    """The values are right, and the shape is (batch, key_pos). Beside scores of (batch, heads, query_pos,
    key_pos) your batch would be taken for queries. Add two axes of length 1: `[:, None, None, :]`.""",
    lambda ids, pad: ids != pad,
)

hide_padding.mistake(
    "one axis too few",
    """The values are right, but there are three axes, and beside scores with four your batch would be
    taken for heads. One axis of length 1 is for the heads, another for the queries.""",
    lambda ids, pad: (ids != pad)[:, None, :],
)

hide_padding.mistake(
    "queries hidden, not keys",
    """Your tokens stand on the axis of the queries, so whole rows would be hidden and every real token
    would still see the padding. It is the keys that must be hidden, the last axis: `[:, None, None,
    :]`.""",
    lambda ids, pad: (ids != pad)[:, None, :, None],
)

hide_padding.mistake(
    "tokens on the axis of the heads",
    """Your tokens stand on axis 1, which belongs to the heads: head 0 would see everything or nothing, by
    what the first token is. It is keys that must be hidden, the last axis: `[:, None, None, :]`.""",
    lambda ids, pad: (ids != pad)[:, :, None, None],
)

hide_padding.mistake(
    "batch on the axis of the heads",
    """The sentences stand on axis 1, which belongs to the heads: head 0 would get the first sentence's
    mask, head 1 the second's. The batch is axis 0: `[:, None, None, :]`.""",
    lambda ids, pad: (ids != pad)[None, :, None, :],
)

hide_padding.mistake(
    "batch on the axis of the queries",
    """Both new axes stand in front, so your sentences stand on axis 2, which belongs to the queries: query
    0 would get the first sentence's mask. The batch stays axis 0: `[:, None, None, :]`.""",
    lambda ids, pad: (ids != pad)[None, None],
)

hide_padding.mistake(
    "padding taken to be at the end",
    """You find where the padding begins, or count the real tokens, and hide all that follows. Padding may
    stand in front too, as it does for many models that write text. Ask every token by itself: `!=`.""",
    lambda ids, pad: keys(torch.arange(ids.shape[1]) < (ids != pad).sum(1, keepdim=True)),
    lambda ids, pad: keys((ids == pad).cumsum(1) == 0),
)

hide_padding.mistake(
    "numbers, not booleans",
    """You return 0 and 1 as numbers. Some code reads a number as something to add to the scores, some as
    a flag, and nobody can see which. The comparison gives booleans by itself: leave them.""",
    lambda ids, pad: keys((ids != pad).long()),
    lambda ids, pad: keys((ids != pad).int()),
    lambda ids, pad: keys((ids != pad).to(torch.uint8)),
    lambda ids, pad: keys((ids != pad).float()),
    lambda ids, pad: keys((ids != pad).double()),
)

hide_padding.mistake(
    "an additive mask",
    """You return what is added to the scores, 0 and a huge negative number. That is another convention;
    here a mask says True or False, and the attention turns it into −∞ itself.""",
    lambda ids, pad: keys(torch.zeros(ids.shape).masked_fill(ids == pad, -math.inf)),
    lambda ids, pad: keys(torch.zeros(ids.shape).masked_fill(ids == pad, -1e9)),
    lambda ids, pad: keys((ids == pad) * -1e4),
    lambda ids, pad: keys((ids == pad).float() * -1e9),
    lambda ids, pad: keys((ids == pad) * torch.finfo(torch.get_default_dtype()).min),
)

hide_padding.mistake(
    "pad_id taken to be 0",
    """You compare with 0, or take the ids themselves as true or false. Not every tokenizer pads with 0:
    RoBERTa pads with 1, and there 0 is a real token. Use `pad_id`.""",
    lambda ids, pad: keys(ids != 0),
    lambda ids, pad: keys(ids > 0),
)

hide_padding.mistake(
    "larger, not different",
    """You ask for ids larger than `pad_id`. That works while padding is 0; with any other padding, every
    real token with a smaller id disappears. Ask for different ids: `!=`.""",
    lambda ids, pad: keys(ids > pad),
)

hide_padding.mistake(
    "rows hidden as well",
    """You hide the padding as queries too. Then its rows may attend to nothing, and softmax gives 0/0
    there. Nobody reads those rows, so hide keys only, with an axis of length 1 for the queries.""",
    lambda ids, pad: keys(ids != pad) & (ids != pad)[:, None, :, None],
)

hide_padding.mistake(
    "spelled out for every query",
    """The values are right, but you repeat them for every query, which takes n times the memory. An axis
    of length 1 says "the same for all", and the attention broadcasts it.""",
    lambda ids, pad: keys(ids != pad).expand(-1, -1, ids.shape[1], -1),
)

# ------------------------------------------------------------------------------------------------------ 04.2


@exercise(
    "04.2",
    "Look back, but not far",
    hints=[
        """Number the positions with `torch.arange(length)`. For query i and key j, how far does i have to
        look back? Write it as a table of distances, with `None` to make a column and a row.""",
        """`position[:, None] - position[None, :]` is that table: i − j. It is 0 on the diagonal, positive
        for keys in the past, negative for keys in the future. Between which two numbers may it lie?""",
        "Two comparisons joined by `&`, in parentheses, then `[None, None]` for batch and heads.",
    ],
)
def look_back_mask(length, window):
    """Query i may attend to itself and to the `window` positions before it, not to what comes after.

    returns (1, 1, length, length), booleans
    """
    raise NotImplementedError


@look_back_mask.cases
def look_back_mask(normal):
    yield {"length": 5, "window": 2}
    yield {"length": 7, "window": 3}
    yield {"length": 3, "window": 0}
    yield {"length": 2, "window": 5}
    yield {"length": 1, "window": 1}


@look_back_mask.specification
def look_back_mask(length, window):
    mask = torch.zeros(1, 1, length, length, dtype=torch.bool)
    for i in range(length):
        for j in range(max(0, i - window), i + 1):
            mask[0, 0, i, j] = True
    return mask


@look_back_mask.solution
def look_back_mask(length, window):
    position = torch.arange(length)
    back = position[:, None] - position[None, :]  # (query_pos, key_pos): how far back the key lies
    return ((back >= 0) & (back <= window))[None, None]


@look_back_mask.alternative
def look_back_mask(length, window):
    return torch.ones(1, 1, length, length, dtype=torch.bool).tril().triu(-window)


def back(length):
    """Query position − key position."""
    return torch.arange(length)[:, None] - torch.arange(length)


def within(length, window):
    """The right mask without the axes in front."""
    return (back(length) >= 0) & (back(length) <= window)


look_back_mask.mistake(
    "looks ahead",
    """Your table lies on its side: query i sees the positions after it. Rows are queries, so the query's
    position goes down, `position[:, None]`, and the key's across, `position[None, :]`.""",
    lambda n, w: within(n, w).mT[None, None],
)

look_back_mask.mistake(
    "both sides",
    """Your window reaches ahead as far as it reaches back. A query that looks back must not see the
    future: ask for `back >= 0` as well.""",
    lambda n, w: (back(n).abs() <= w)[None, None],
)

look_back_mask.mistake(
    "no window",
    """You hide the future, but let a query look back to the very beginning. It may look back at most
    `window` positions: ask for `back <= window` as well.""",
    lambda n, w: (back(n) >= 0)[None, None],
)

look_back_mask.mistake(
    "no triangle",
    """You limit how far a query looks back, but not that it looks ahead: all later keys are visible.
    Their distance is negative, and every negative number is below `window`. Ask for `back >= 0` as
    well.""",
    lambda n, w: (back(n) <= w)[None, None],
)

look_back_mask.mistake(
    "one position too few",
    """You count the query itself as one of the `window` positions. Here the window is what lies before
    it, so `window=0` still leaves the query itself. Use `<=` in place of `<`.""",
    lambda n, w: within(n, w - 1)[None, None],
)

look_back_mask.mistake(
    "one position too many",
    """Your window reaches one position too far back. The query itself is at distance 0, the last one
    that it may see at distance `window`.""",
    lambda n, w: within(n, w + 1)[None, None],
)

look_back_mask.mistake(
    "itself left out",
    """A query may not attend to itself in your mask. Then the first query has nothing to attend to at
    all. Distance 0 belongs to the window: `back >= 0`.""",
    lambda n, w: (within(n, w) & (back(n) > 0))[None, None],
    lambda n, w: ((back(n) > 0) & (back(n) < w))[None, None],
)

look_back_mask.mistake(
    "upside down",
    """Your mask is True where a key must be hidden. Here True means "may attend". Turn the comparisons
    round, or put `~` in front.""",
    lambda n, w: ~within(n, w)[None, None],
)

look_back_mask.mistake(
    "or in place of and",
    """You join the two conditions with `|`. Every distance is at least 0 or at most `window`, so
    everything is visible. Both must hold: `&`.""",
    lambda n, w: torch.ones(1, 1, n, n, dtype=torch.bool),
)

look_back_mask.mistake(
    "far, not near",
    """You keep what lies at least `window` positions back, and hide what is near. The window is the
    near side: `back <= window`; with `triu`, that is `triu(-window)`.""",
    lambda n, w: (back(n) >= w)[None, None],
)

look_back_mask.mistake(
    "the sign of triu",
    """`triu(window)` keeps what lies `window` places above the diagonal, and `tril` has just removed
    that. Below the diagonal its argument is negative: `triu(-window)`.""",
    lambda n, w: torch.ones(1, 1, n, n, dtype=torch.bool).tril().triu(w),
)

look_back_mask.mistake(
    "ahead by the window",
    """Your query sees everything before it, and up to `window` positions ahead. `tril(window)` cuts above
    the diagonal. Cut twice: `tril()` hides the future, `triu(-window)` what lies too far back.""",
    lambda n, w: torch.ones(1, 1, n, n, dtype=torch.bool).tril(w),
)

look_back_mask.mistake(
    "tables joined without `&` and parentheses",
    """Python asks a whole table for one yes or no: `and` and `if` do that, and so do `0 <= back <= window`
    and `&` without parentheses, which binds before `>=`. Write `(back >= 0) & (back <= window)`.""",
    lambda n, w: (back(n) >= 0 and back(n) <= w)[None, None],
)

look_back_mask.mistake(
    "axes missing",
    """The values are right, but the axes for batch and heads are missing. All masks have four, so that
    none can be taken for another: add `[None, None]`.""",
    lambda n, w: within(n, w),
    lambda n, w: within(n, w)[None],
)

look_back_mask.mistake(
    "numbers, not booleans",
    """You return 0 and 1 as numbers; `torch.ones` makes floats unless told otherwise. Some code would
    add them to the scores. Compare, or say `dtype=torch.bool`.""",
    lambda n, w: within(n, w)[None, None].float(),
    lambda n, w: within(n, w)[None, None].double(),
    lambda n, w: within(n, w)[None, None].long(),
    lambda n, w: within(n, w)[None, None].int(),
)

# ------------------------------------------------------------------------------------------------------ 04.3


@exercise(
    "04.3",
    "Attention that obeys a mask",
    returns=("output", "weights"),
    tolerance=1e-6,  # a fair way to avoid 0/0 adds a tiny number to the sum
    hints=[
        """Start from the attention of lesson 03. Before the softmax, put −∞ where `may_attend` is False:
        `scores.masked_fill(~may_attend, -math.inf)`.""",
        """A row of nothing but −∞ becomes NaN. Find such rows first, `may_attend.any(dim=-1,
        keepdim=True)`, and keep them out of the softmax, or set their weights to 0 afterwards.""",
        """`masked_fill` broadcasts the mask, so (batch, 1, 1, key_pos) fits as it is. Zero weights give
        a zero output by themselves: no second repair is needed.""",
    ],
)
def masked_attention(query, key, value, may_attend):
    """Scaled dot-product attention; a query that may attend to nothing gets zeros, weights and output.

    query (batch, heads, query_pos, d_head), key (batch, heads, key_pos, d_head)
    value (batch, heads, key_pos, d_value)
    may_attend: booleans (batch or 1, heads or 1, query_pos or 1, key_pos), True = may attend
    returns output (batch, heads, query_pos, d_value) and weights (batch, heads, query_pos, key_pos)
    Scores may be very large, or all far below 0; no result and no gradient is NaN.
    """
    raise NotImplementedError


@masked_attention.cases
def masked_attention(normal):
    def case(queries, keys, mask):
        return {
            "query": normal(2, 3, queries, 5),
            "key": normal(2, 3, keys, 5),
            "value": normal(2, 3, keys, 11),
            "may_attend": mask,
        }

    yield case(5, 7, torch.tensor([[1, 1, 1, 0, 1, 0, 0], [1, 0, 1, 1, 1, 1, 1]]).bool()[:, None, None, :])
    some = normal(2, 3, 5, 7) > 0.2
    some[0, 1, 3] = False  # this query may attend to nothing
    yield case(5, 7, some)
    yield case(7, 7, torch.ones(7, 7).tril(-1).bool()[None, None])  # nor may the first query here
    # One text, head and query. Scores by hand: −2000 and −2000 are seen, 0 and 900 are not.
    keys = torch.tensor([[-2000.0], [0.0], [-2000.0], [900.0]])[None, None]
    seen = torch.tensor([True, False, True, False])[None, None, None]
    value = torch.tensor([[1.0, 3.0], [70.0, 70.0], [5.0, 7.0], [90.0, 90.0]])[None, None]
    yield {"query": torch.ones(1, 1, 1, 1), "key": keys, "value": value, "may_attend": seen}


@masked_attention.specification
def masked_attention(query, key, value, may_attend):
    batch, heads, queries, _ = query.shape
    n_keys = key.shape[2]
    visible = may_attend.expand(batch, heads, queries, n_keys)
    weights = torch.zeros(batch, heads, queries, n_keys)
    output = torch.zeros(batch, heads, queries, value.shape[3])
    for b, h, i in torch.ones(batch, heads, queries).nonzero().tolist():
        seen = [j for j in range(n_keys) if visible[b, h, i, j]]
        scores = {j: query[b, h, i] @ key[b, h, j] / math.sqrt(key.shape[3]) for j in seen}
        grown = {j: torch.exp(scores[j] - max(scores.values())) for j in seen}
        for j in seen:
            weights[b, h, i, j] = weight = grown[j] / sum(grown.values())
            output[b, h, i] += weight * value[b, h, j]
    return output, weights


@masked_attention.solution
def masked_attention(query, key, value, may_attend):
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (batch, heads, query_pos, key_pos)
    sees_nothing = ~may_attend.any(dim=-1, keepdim=True)  # (…, query_pos, 1)
    scores = scores.masked_fill(~may_attend & ~sees_nothing, -math.inf)
    weights = scores.softmax(dim=-1).masked_fill(sees_nothing, 0)
    return weights @ value, weights


@masked_attention.alternative
def masked_attention(q, k, v, m):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    weights = torch.where(m, scores, -torch.inf).softmax(-1).nan_to_num(0.0)
    return weights @ v, weights


@masked_attention.alternative
def masked_attention(q, k, v, m):
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~m, -1e30)
    grown = torch.exp(scores - scores.amax(dim=-1, keepdim=True)) * m
    weights = grown / (grown.sum(-1, keepdim=True) + 1e-9)
    return [torch.einsum("bhij,bhjd->bhid", weights, v), weights]


TOO_HIGH = (-1, -10, -50, -100, -1000)  # numbers that do not hide a key from every query


def scaled(q, k):
    """The right scores."""
    return q @ k.mT / math.sqrt(q.shape[-1])


def weigh(weights, v):
    """The right way on from the weights."""
    return weights @ v, weights


def hide(scores, m, hidden=-math.inf):
    """Softmax of the scores with a number in the hidden places."""
    return scores.masked_fill(~m, hidden).softmax(-1)


def share(weights):
    """Each row divided by its sum."""
    return weights / weights.sum(-1, keepdim=True)


def mended(weights, m):
    """Zero weights where nothing is visible: most wrong answers know this much."""
    return weights.masked_fill(~m.any(-1, keepdim=True), 0)


masked_attention.mistake(
    "NaN where nothing is visible",
    """Right wherever a query sees something. But in a row without any True you divide 0 by 0 (softmax does,
    if all scores are −∞), and NaN spreads to all that is computed from it. Find such rows, and give them
    zero weights.""",
    lambda q, k, v, m: weigh(hide(scaled(q, k), m), v),
    lambda q, k, v, m: weigh(share(scaled(q, k).softmax(-1) * m), v),
    lambda q, k, v, m: weigh(share(scaled(q, k).exp() * m), v),
)

masked_attention.mistake(
    "uniform where nothing is visible",
    """Where a query may attend to nothing, all its scores become the same number, and softmax shares the
    weight out equally, padding included. Give rows without any True zero weights.""",
    lambda q, k, v, m: weigh(hide(scaled(q, k), m, -1e9), v),
    lambda q, k, v, m: weigh(scaled(q, k).add((~m) * torch.finfo(q.dtype).min).softmax(-1), v),
)

masked_attention.mistake(
    "a number in place of −∞",
    """The number that you give to hidden keys, such as −50, is not low enough: where the visible scores are
    lower still, the hidden keys get the weight. Only −∞ is below every score: `masked_fill(~may_attend,
    -math.inf)`.""",
    *[lambda q, k, v, m, n=n: weigh(mended(hide(scaled(q, k), m, n), m), v) for n in TOO_HIGH],
    *[lambda q, k, v, m, n=n: weigh(hide(scaled(q, k), m, n), v) for n in TOO_HIGH],
)

masked_attention.mistake(
    "unmasked where nothing is visible",
    """You add a large number to the scores. Where all of a row is hidden, it is added to all of them, and
    softmax does not feel that: this query attends as if there were no mask. Give rows without any True
    zero weights.""",
    lambda q, k, v, m: weigh((scaled(q, k) + (~m) * -1e9).softmax(-1), v),
    lambda q, k, v, m: weigh((scaled(q, k) + (~m) * -1e4).softmax(-1), v),
    lambda q, k, v, m: weigh((scaled(q, k) + (~m) * -1e6).softmax(-1), v),
)

masked_attention.mistake(
    "upside down",
    """You hide what may be attended to, and attend to what must be hidden. `may_attend` is True where a
    query may look: fill the places where it is False, `~may_attend`.""",
    lambda q, k, v, m: weigh(hide(scaled(q, k), ~m), v),
    lambda q, k, v, m: weigh(hide(scaled(q, k), ~m).nan_to_num(0.0), v),
    lambda q, k, v, m: weigh(hide(scaled(q, k), ~m, -1e9), v),
    lambda q, k, v, m: weigh(mended(hide(scaled(q, k), ~m), m), v),
)


def indexed(q, k, m, hidden):
    """The scores, with the mask used as an index."""
    scores = scaled(q, k)
    scores[~m] = hidden
    return scores.softmax(-1)


masked_attention.mistake(
    "the mask used as an index",
    """`scores[~may_attend] = …` wants a mask as large as the scores: an index is not stretched along axes of
    length 1, as most masks have. `scores.masked_fill(~may_attend, …)` and `torch.where` stretch it.""",
    lambda q, k, v, m: weigh(indexed(q, k, m, -math.inf), v),
    lambda q, k, v, m: weigh(indexed(q, k, m, -math.inf).nan_to_num(0.0), v),
    lambda q, k, v, m: weigh(indexed(q, k, m, -1e9), v),
)

masked_attention.mistake(
    "softmax over the queries",
    """The mask is right, but softmax runs along the queries. The keys that a query may see share out its
    total of 1: `softmax(dim=-1)`.""",
    lambda q, k, v, m: weigh(scaled(q, k).masked_fill(~m, -math.inf).softmax(-2), v),
    lambda q, k, v, m: weigh(scaled(q, k).masked_fill(~m, -math.inf).softmax(-2).nan_to_num(0.0), v),
)

masked_attention.mistake(
    "softmax over the heads",
    """The mask is right, but softmax runs along axis 1, the heads. The keys that a query may see share out
    its total of 1: `softmax(dim=-1)`.""",
    lambda q, k, v, m: weigh(scaled(q, k).masked_fill(~m, -math.inf).softmax(1), v),
    lambda q, k, v, m: weigh(scaled(q, k).masked_fill(~m, -math.inf).softmax(1).nan_to_num(0.0), v),
)

masked_attention.mistake(
    "weights without the mask",
    """The output obeys the mask, and the weights that you return do not: they would show a query looking
    where it cannot. Return the weights that made the output.""",
    lambda q, k, v, m: (hide(scaled(q, k), m).nan_to_num(0.0) @ v, scaled(q, k).softmax(-1)),
)

masked_attention.mistake(
    "hidden after the softmax",
    """You set weights to 0 after the softmax. The hidden keys have had their share of the sum already, so
    the rows add up to less than one. Hide the scores, before the softmax.""",
    lambda q, k, v, m: weigh(scaled(q, k).softmax(-1) * m, v),
)

masked_attention.mistake(
    "score 0 in place of −∞",
    """You give hidden keys the score 0. Its exponential is 1, so they still get weight, more than any
    key with a negative score. Only −∞ becomes 0 in the exponential: `masked_fill(~may_attend,
    -math.inf)`.""",
    lambda q, k, v, m: weigh((scaled(q, k) * m).softmax(-1), v),
    lambda q, k, v, m: weigh(mended((scaled(q, k) * m).softmax(-1), m), v),
)

masked_attention.mistake(
    "the mask added as it is",
    """You add the booleans to the scores, where True counts as 1 and False as 0: visible keys get a small
    bonus, and nothing is hidden. Fill the hidden places with −∞.""",
    lambda q, k, v, m: weigh((scaled(q, k) + m).softmax(-1), v),
    lambda q, k, v, m: weigh(mended((scaled(q, k) + m).softmax(-1), m), v),
)

masked_attention.mistake(
    "0 · ∞",
    """You multiply the mask by −∞. At the visible places that is 0 · ∞, which is NaN. Choose between
    two numbers instead of multiplying: `masked_fill`, or `torch.where`.""",
    lambda q, k, v, m: weigh((scaled(q, k) + (~m) * -math.inf).softmax(-1), v),
)

masked_attention.mistake(
    "weights left NaN",
    """You mend the output, but the weights still hold NaN, and so does every figure and every gradient
    made from them. Mend the weights; the output follows.""",
    lambda q, k, v, m: ((hide(scaled(q, k), m) @ v).nan_to_num(0.0), hide(scaled(q, k), m)),
)

masked_attention.mistake(
    "mask unused",
    """You compute attention without the mask: every query sees every key. Hide the scores where
    `may_attend` is False, before the softmax.""",
    lambda q, k, v, m: weigh(scaled(q, k).softmax(-1), v),
)

masked_attention.mistake(
    "only empty rows are masked",
    """Queries that may attend to nothing get zeros, as they should, but all others see every key: the mask
    never reaches their scores. Fill those with −∞ where `may_attend` is False, and keep the result:
    `scores = scores.masked_fill(…)`.""",
    lambda q, k, v, m: weigh(mended(scaled(q, k).softmax(-1), m), v),
)

masked_attention.mistake(
    "empty columns in place of empty rows",
    """You look for keys that no query sees. What becomes 0/0 is a row: a query that sees no key. Ask along
    the keys, the last axis: `may_attend.any(dim=-1, keepdim=True)`.""",
    lambda q, k, v, m: weigh(hide(scaled(q, k), m).masked_fill(~m.any(-2, keepdim=True), 0), v),
)

masked_attention.mistake(
    "−∞ after the softmax",
    """You put −∞ into the weights. It is a score that means "never": softmax makes a weight of 0 from it.
    Fill the scores, before the softmax.""",
    lambda q, k, v, m: weigh(scaled(q, k).softmax(-1).masked_fill(~m, -math.inf), v),
)

masked_attention.mistake(
    "mask transposed",
    """You turn the mask on its side. It lies like the scores already: rows are queries, columns are
    keys. Use it as it is.""",
    lambda q, k, v, m: weigh(hide(scaled(q, k), m.mT), v),
)

masked_attention.mistake(
    "no scale",
    """The mask is right, but the scores are not divided by √d_head, as lesson 03 has it. Divide by
    `math.sqrt(query.shape[-1])`.""",
    lambda q, k, v, m: weigh(hide(q @ k.mT, m).nan_to_num(0.0), v),
    lambda q, k, v, m: weigh(hide(q @ k.mT, m), v),
)

masked_attention.mistake(
    "divided by d_head",
    """The mask is right, but you divide the scores by d_head and not by its root, so the weights come out
    too even. Divide by `math.sqrt(query.shape[-1])`.""",
    lambda q, k, v, m: weigh(hide(q @ k.mT / q.shape[-1], m).nan_to_num(0.0), v),
    lambda q, k, v, m: weigh(hide(q @ k.mT / q.shape[-1], m), v),
)

masked_attention.mistake(
    "results in the wrong order",
    """Both results are right, but the weights come first. Return the output first:
    `return output, weights`.""",
    lambda q, k, v, m: weigh(hide(scaled(q, k), m).nan_to_num(0.0), v)[::-1],
)

masked_attention.mistake(
    "only the output",
    """The output is right, and the weights are missing: `return output, weights`.""",
    lambda q, k, v, m: hide(scaled(q, k), m).nan_to_num(0.0) @ v,
)

# ------------------------------------------------------------------------------------------------------ 04.4


@exercise(
    "04.4",
    "Translate PyTorch's two masks",
    hints=[
        """Both of PyTorch's masks say True = ignore; yours says True = may attend. So one `~` is needed
        somewhere. Where, and does `&` or `|` join the two?""",
        """A key is visible if the one mask does not ignore it and the other does not either:
        `~first & ~second`, which is the same as `~(first | second)`.""",
        """Bring both to four axes before you join them: `[:, None, None, :]` for (batch, key_pos),
        `[None, None]` for (query_pos, key_pos).""",
    ],
)
def from_torch(key_padding_mask, attn_mask):
    """The one mask that says the same as the two that nn.MultiheadAttention takes.

    key_padding_mask: (batch, key_pos), booleans, True = ignore this key
    attn_mask: (query_pos, key_pos), booleans, True = this query ignores this key
    returns may_attend (batch, 1, query_pos, key_pos), booleans, True = may attend
    """
    raise NotImplementedError


@from_torch.cases
def from_torch(normal):
    yield {"key_padding_mask": normal(2, 5) > 0.5, "attn_mask": normal(3, 5) > 0.5}
    yield {"key_padding_mask": normal(1, 7) > 0.5, "attn_mask": normal(7, 7) > 0}
    yield {"key_padding_mask": normal(5, 5) > 0, "attn_mask": normal(5, 5) > 0.5}


@from_torch.specification
def from_torch(key_padding_mask, attn_mask):
    (batch, length), queries = key_padding_mask.shape, len(attn_mask)
    mask = torch.zeros(batch, 1, queries, length, dtype=torch.bool)
    for b in range(batch):
        for i in range(queries):
            for j in range(length):
                mask[b, 0, i, j] = not key_padding_mask[b, j] and not attn_mask[i, j]
    return mask


@from_torch.solution
def from_torch(key_padding_mask, attn_mask):
    may_see_key = ~key_padding_mask[:, None, None, :]  # (batch, 1, 1, key_pos)
    may_see_pair = ~attn_mask[None, None]  # (1, 1, query_pos, key_pos)
    return may_see_key & may_see_pair


@from_torch.alternative
def from_torch(padding, pairs):
    return torch.logical_or(padding.unsqueeze(1), pairs).logical_not().unsqueeze(1)


def both(padding, pairs):
    """Two masks with their four axes."""
    return padding[:, None, None, :], pairs[None, None]


from_torch.mistake(
    "not inverted",
    """You join the two masks rightly, but True still means ignore. Put `~` in front of the whole.""",
    lambda p, a: torch.logical_or(*both(p, a)),
)

from_torch.mistake(
    "joined, then not inverted",
    """You join PyTorch's masks with `&` and leave True to mean ignore: only what both ignore is marked,
    and marked as visible. Invert each first, `~`, then join with `&`.""",
    lambda p, a: torch.logical_and(*both(p, a)),
)

from_torch.mistake(
    "visible if either allows it",
    """Your mask shows a key as soon as one of the two allows it. Both must allow it. (Not both ignored
    is not the same as neither ignored: `~(a & b)` is `~a | ~b`.) Join with `&` after the `~`.""",
    lambda p, a: ~torch.logical_and(*both(p, a)),
)

from_torch.mistake(
    "only one of them inverted",
    """You invert one of the two masks and not the other. In `nn.MultiheadAttention` both say True =
    ignore. Invert both. (`~` binds before `|` and `&`: `~(a | b)` needs its parentheses.)""",
    lambda p, a: both(p, a)[0] & ~both(p, a)[1],
    lambda p, a: ~both(p, a)[0] & both(p, a)[1],
    lambda p, a: ~both(p, a)[0] | both(p, a)[1],
    lambda p, a: both(p, a)[0] | ~both(p, a)[1],
)

from_torch.mistake(
    "no axis for the heads",
    """The values are right, but the shape is (batch, query_pos, key_pos). Beside scores with four axes
    your batch would be taken for heads. Add an axis of length 1 behind the batch.""",
    lambda p, a: ~(p[:, None, :] | a),
)

from_torch.mistake(
    "batch on the axis of the heads",
    """The new axis stands in front, so your sentences stand on axis 1, which belongs to the heads. The
    batch stays axis 0, and the axis of length 1 comes behind it: `[:, None]`.""",
    lambda p, a: (~(p[:, None, :] | a))[None],
)

from_torch.mistake(
    "rows hidden as well",
    """You hide the padding as queries too. That fits only where queries and keys are equally many, and its
    rows may then attend to nothing: 0/0. Nobody reads those rows, so hide keys only.""",
    lambda p, a: ~p[:, None, None, :] & ~p[:, None, :, None] & ~a[None, None],
    lambda p, a: ~p[:, None, :, None] & ~p[:, None, None, :] & ~a[None, None],
    lambda p, a: ~(p[:, None, None, :] | p[:, None, :, None] | a[None, None]),
)

from_torch.mistake(
    "the batch meets the queries",
    """You join (batch, key_pos) with (query_pos, key_pos) as they are, so sentences are taken for
    queries: an error if their numbers differ, and silently wrong if not. Bring both to four axes
    first.""",
    lambda p, a: ~p & ~a,
    lambda p, a: ~(p | a),
    lambda p, a: (~p & ~a)[:, None],
    lambda p, a: (~p & ~a)[None, None],
)

from_torch.mistake(
    "padding hides queries",
    """You put the padding on the axis of the queries: padded rows are hidden, and every real token still
    sees the padding. It belongs to the keys, the last axis: `[:, None, None, :]`.""",
    lambda p, a: ~p[:, None, :, None] & ~a[None, None],
    lambda p, a: ~p[:, None, :, None] & ~a,
    lambda p, a: ~(p[:, None, :, None] | a[None, None]),
    lambda p, a: ~(p[:, None, :, None] | a),
)

from_torch.mistake(
    "one mask forgotten",
    """One of the two masks has no part in your result. A key is visible only if neither of them ignores
    it: `~first & ~second`.""",
    lambda p, a: ~both(p, a)[0],
    lambda p, a: ~both(p, a)[1],
    lambda p, a: (~both(p, a)[0]).expand(-1, -1, len(a), -1),
    lambda p, a: (~both(p, a)[1]).expand(len(p), -1, -1, -1),
)

from_torch.mistake(
    "numbers, not booleans",
    """The values are right, but they are the numbers 0 and 1, which some code would add to the scores.
    `~` and `&` give booleans by themselves: leave them.""",
    lambda p, a: (~torch.logical_or(*both(p, a))).long(),
    lambda p, a: (~torch.logical_or(*both(p, a))).int(),
    lambda p, a: (~torch.logical_or(*both(p, a))).float(),
    lambda p, a: (~torch.logical_or(*both(p, a))).double(),
)

from_torch.mistake(
    "an additive mask",
    """You return 0 and −∞, to be added to the scores. That is another convention. Return booleans: True
    where a query may attend.""",
    lambda p, a: (
        torch.zeros(()).expand(len(p), 1, *a.shape).masked_fill(torch.logical_or(*both(p, a)), -math.inf)
    ),
)

# ------------------------------------------------------------------------------------------------------ 04.5


@exercise(
    "04.5",
    "A mean without the padding",
    tolerance=1e-6,  # a fair way to avoid 0/0 adds a tiny number to the count
    hints=[
        """Two things must know about the padding: what is added up, and what it is divided by. The mask
        has the axes (batch, 1, 1, position), the vectors (batch, position, d_model): first bring the
        mask to (batch, position, 1).""",
        """`real = may_attend[:, 0, 0, :, None]`. Then `hidden * real` sets the padding to 0, and
        `real.sum(dim=1)` counts the real tokens of each sentence.""",
        "A sentence without real tokens has the sum 0. Let its count be 1: `.clamp(min=1)`.",
    ],
)
def mean_of_real(hidden, may_attend):
    """The mean of each sentence's real tokens; zeros for a sentence that has none, no NaN in gradients.

    hidden: (batch, position, d_model)
    may_attend: (batch, 1, 1, position), booleans, False for padding
    returns (batch, d_model)
    """
    raise NotImplementedError


@mean_of_real.cases
def mean_of_real(normal):
    real = torch.tensor([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]]).bool()
    yield {"hidden": normal(3, 5, 7), "may_attend": real[:, None, None, :]}
    real = torch.tensor([[0, 1, 1, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0, 0]]).bool()  # the second is empty
    yield {"hidden": normal(2, 7, 3), "may_attend": real[:, None, None, :]}
    for batch in (1, 2):  # sentences of one token, and of none
        yield {"hidden": normal(batch, 1, 5), "may_attend": (torch.arange(batch) == 0)[:, None, None, None]}


@mean_of_real.specification
def mean_of_real(hidden, may_attend):
    result = torch.zeros(len(hidden), hidden.shape[2])
    for b in range(len(hidden)):
        real = [hidden[b, i] for i in range(hidden.shape[1]) if may_attend[b, 0, 0, i]]
        for vector in real:
            result[b] += vector / len(real)
    return result


@mean_of_real.solution
def mean_of_real(hidden, may_attend):
    real = may_attend[:, 0, 0, :, None]  # (batch, position, 1)
    total = (hidden * real).sum(dim=1)  # (batch, d_model)
    return total / real.sum(dim=1).clamp(min=1)


@mean_of_real.alternative
def mean_of_real(h, m):
    real = m.flatten(1).to(h.dtype)
    return torch.einsum("bpd,bp->bd", h, real) / (real.sum(1, keepdim=True) + 1e-9)


def real_of(m):
    """(batch, position, 1)"""
    return m[:, 0, 0, :, None]


def total_of(h, m):
    """The right sum: mistakes in the divisor start here."""
    return (h * real_of(m)).sum(1)


mean_of_real.mistake(
    "padding in the mean",
    """You take the plain mean over all positions, padding included. Attention that hides the padding does
    not make it zero: its rows hold vectors like any other. Add up real tokens only.""",
    lambda h, m: h.mean(1),
)

mean_of_real.mistake(
    "divided by the padded length",
    """You add up real tokens only, but divide by the number of all positions, so a sentence gets shorter
    vectors the more padding it has. Divide by the number of real tokens.""",
    lambda h, m: (h * real_of(m)).mean(1),
)

mean_of_real.mistake(
    "never divided",
    """You return the sum of the real tokens, which grows with the length of the sentence. Divide by the
    number of real tokens.""",
    lambda h, m: total_of(h, m),
)

mean_of_real.mistake(
    "0/0 for an empty sentence",
    """Right, except for a sentence without real tokens: 0/0 is NaN, and one such sentence in a batch
    spoils the loss of all. Let the count be at least 1: `.clamp(min=1)`.""",
    lambda h, m: total_of(h, m) / real_of(m).sum(1),
)

mean_of_real.mistake(
    "one count for the whole batch",
    """You divide by the number of real tokens of all sentences together. Each sentence has a count of its
    own: sum over the positions only.""",
    lambda h, m: total_of(h, m) / m.sum(),
)

mean_of_real.mistake(
    "one token too many",
    """You add 1 to every count. That keeps 0/0 away, but makes every mean too small. Raise the count to 1
    only where it is 0: `.clamp(min=1)`.""",
    lambda h, m: total_of(h, m) / (real_of(m).sum(1) + 1),
)

mean_of_real.mistake(
    "the mean of the padding",
    """You average the padding and leave out the real tokens. `may_attend` is True for the real ones: no
    `~` is needed.""",
    lambda h, m: total_of(h, ~m) / real_of(~m).sum(1).clamp(min=1),
    lambda h, m: total_of(h, ~m) / real_of(~m).sum(1),
)

mean_of_real.mistake(
    "mask not brought to the vectors' axes",
    """You multiply (batch, position, d_model) by a mask whose positions stand on its last axis, so they
    meet the features. Bring it to (batch, position, 1) first: `may_attend[:, 0, 0, :, None]`.""",
    lambda h, m: (h * m).sum(1),
    lambda h, m: h * m,
    lambda h, m: h * m[:, 0, 0],
)

mean_of_real.mistake(
    "the counts meet the features",
    """You divide sums of (batch, d_model) by counts of (batch). Axes line up from the right, so the counts
    meet the features. Let them keep an axis: `real.sum(dim=1, keepdim=True)` for (batch, 1).""",
    lambda h, m: total_of(h, m) / m[:, 0, 0].sum(1),
)

mean_of_real.mistake(
    "one mean for the whole batch",
    """You take one mean of all real tokens of all sentences: picking with a boolean mask, `hidden[real]`,
    makes one long list of them. Each sentence needs a mean of its own: multiply by the mask, and sum over
    the positions.""",
    lambda h, m: h[m[:, 0, 0]].mean(0),
)

mean_of_real.mistake(
    "over the batch",
    """You sum over the sentences, axis 0. Each sentence has a mean of its own: sum over the positions,
    `dim=1`.""",
    lambda h, m: (h * real_of(m)).sum(0) / real_of(m).sum(0).clamp(min=1),
)

mean_of_real.mistake(
    "only the first token",
    """You return the first token's vector. Some models put a summary there, `[CLS]`; this exercise asks
    for the mean of all real tokens.""",
    lambda h, m: h[:, 0],
)

# ------------------------------------------------------------------------------------------------------ 04.6


@exercise(
    "04.6",
    "How far does news travel? (stretch)",
    hints=[
        """After one layer, position i has heard of itself (the residual keeps it) and of all that it may
        attend to. After two layers it has heard of all that *those* had heard of after one.""",
        """i hears of j in one more layer if there is a k with i → k now and k → j before. "There is a k
        with both" is what a matrix product computes: Σₖ first[i, k] · second[k, j] > 0.""",
        """Booleans have no `@` in PyTorch: multiply as floats, and ask what is above 0. The identity
        matrix, `torch.eye(n, dtype=torch.bool)`, is what is known after 0 layers.""",
    ],
)
def reach(may_attend, n_layers):
    """Which inputs can each output depend on after several layers with the same mask and residuals?

    may_attend: (position, position), booleans: row i says what i attends to in one layer
    n_layers: at least 1
    returns (position, position), booleans: True at [i, j] if output i can have heard of input j
    """
    raise NotImplementedError


@reach.cases
def reach(normal):
    steps = torch.arange(7)
    yield {"may_attend": (steps[:, None] - steps).abs() <= 1, "n_layers": 3}
    yield {"may_attend": steps[:, None] - steps == 1, "n_layers": 4}  # each attends to the one before only
    yield {"may_attend": normal(11, 11) > 1.3, "n_layers": 2}
    yield {"may_attend": normal(5, 5) > 0.5, "n_layers": 1}
    yield {"may_attend": torch.ones(2, 2, dtype=torch.bool), "n_layers": 65}  # 2⁶⁴ paths: an int64 says 0


@reach.specification
def reach(may_attend, n_layers):
    n = len(may_attend)
    heard = [{i} for i in range(n)]
    for _layer in range(n_layers):
        before = [set(inputs) for inputs in heard]
        for i in range(n):
            for k in range(n):
                if may_attend[i, k]:
                    heard[i] |= before[k]
    return torch.tensor([[j in heard[i] for j in range(n)] for i in range(n)])


@reach.solution
def reach(may_attend, n_layers):
    known = torch.eye(len(may_attend), dtype=torch.bool)  # each position knows itself
    one_layer = (may_attend | known).double()  # the residual keeps what is known
    for _ in range(n_layers):
        known = one_layer @ known.double() > 0
    return known


@reach.alternative
def reach(mask, n):
    hop = torch.maximum(mask.long(), torch.eye(len(mask), dtype=torch.long))
    return torch.linalg.matrix_power(hop.double(), n).bool()


@reach.alternative
def reach(mask, n):
    known = mask | torch.eye(len(mask), dtype=torch.bool)
    for _ in range(n - 1):
        known = known | (mask[:, :, None] & known[None]).any(dim=1)
    return known


def hop(mask):
    """One layer with its residual, as floats."""
    return (mask | torch.eye(len(mask), dtype=torch.bool)).double()


def power(matrix, n):
    return torch.linalg.matrix_power(matrix, n) > 0


def within_one_table(mask, n):
    """Rows are updated one after the other, and those below read what those above have just heard."""
    known = torch.eye(len(mask), dtype=torch.bool)
    for _ in range(n):
        for i, k in mask.nonzero().tolist():
            known[i] |= known[k]
    return known


reach.mistake(
    "residual forgotten",
    """You follow the mask only, so a position that may not attend to itself forgets what it knew. Each
    layer adds to the residual stream: combine the mask with the identity, `may_attend |
    torch.eye(n, dtype=torch.bool)`.""",
    lambda m, n: power(m.double(), n),
)

reach.mistake(
    "residual only at the end",
    """You follow the mask alone through all the layers and add the identity afterwards. The residual acts
    in every layer, so a shorter path counts too: combine mask and identity before you multiply.""",
    lambda m, n: power(m.double(), n) | torch.eye(len(m), dtype=torch.bool),
)

reach.mistake(
    "itself left out",
    """You join the paths of one hop, two hops and so on, but not the path of none: a position that may not
    attend to itself still knows itself. Start from `torch.eye(n, dtype=torch.bool)`.""",
    lambda m, n: torch.stack([power(m.double(), hops) for hops in range(1, n + 1)]).any(0),
)

reach.mistake(
    "news that overtakes",
    """Within one layer you read from the table that you are writing, so news makes several hops at once. A
    layer reads what was known before it: read from a copy.""",
    lambda m, n: within_one_table(m, n),
)

reach.mistake(
    "numbers, not booleans",
    """The values are right, but they are numbers. The question is yes or no: return the comparison, `> 0`,
    as it is.""",
    lambda m, n: power(hop(m), n).double(),
    lambda m, n: power(hop(m), n).float(),
    lambda m, n: power(hop(m), n).long(),
    lambda m, n: power(hop(m), n).int(),
)

reach.mistake(
    "one layer too many",
    """You follow one hop too many. After one layer a position knows what it attends to; if you start from
    that, only `n_layers - 1` are left.""",
    lambda m, n: power(hop(m), n + 1),
)

reach.mistake(
    "one layer too few",
    """You follow one hop too few. Starting from the identity, what is known after 0 layers, every layer is
    one multiplication.""",
    lambda m, n: power(hop(m), n - 1),
)

reach.mistake(
    "one layer only",
    """Your result is that of a single layer. `**` takes the power of each number by itself, and `&` or `|`
    with the same mask changes nothing. A path over several positions needs the matrix product `@`.""",
    lambda m, n: hop(m) > 0,
    lambda m, n: m,
)

reach.mistake(
    "paths counted",
    """You return how many paths there are. The question is whether there is one: compare with 0.""",
    lambda m, n: torch.linalg.matrix_power(hop(m), n),
    lambda m, n: torch.linalg.matrix_power(hop(m).long(), n),
    lambda m, n: torch.linalg.matrix_power(hop(m).float(), n),
)

reach.mistake(
    "squared at every layer",
    """You multiply the result by itself at every layer, so the number of hops doubles each time. A layer
    is one hop: multiply by the mask of one layer.""",
    lambda m, n: power(hop(m), 2**n),
    lambda m, n: power(hop(m), 2 ** (n - 1)),
)

reach.mistake(
    "two layers, always",
    """You multiply the mask by itself once, which is right for two layers. Repeat it for each of the
    `n_layers`.""",
    lambda m, n: hop(m) @ hop(m) > 0,
)

reach.mistake(
    "distance in place of paths",
    """You compare positions and do not look at the mask. That is right for a window of 1 only; another mask
    has other paths. Follow `may_attend` from hop to hop.""",
    lambda m, n: back(len(m)).abs() <= n,
)

reach.mistake(
    "any number of layers",
    """You follow paths of any length. In `n_layers` layers news makes at most as many hops.""",
    lambda m, n: power(hop(m), len(m)),
)

reach.mistake(
    "on its side",
    """Your table lies on its side: it says who hears of i, not whom i hears of. Rows are outputs, columns
    are inputs.""",
    lambda m, n: power(hop(m), n).mT,
)

reach.mistake(
    "booleans have no matrix product",
    """PyTorch does not multiply boolean matrices. Turn them into floats, multiply, and ask what is above
    0: `(a.double() @ b.double()) > 0`.""",
    lambda m, n: m @ m,
    lambda m, n: torch.linalg.matrix_power(m, n),
    lambda m, n: torch.linalg.matrix_power(m | torch.eye(len(m), dtype=torch.bool), n),
)
