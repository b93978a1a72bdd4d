"""Exercises of lesson 04."""

import math

import torch

from transformer_course.checker import exercise

# ------------------------------------------------------------------------------------------------------ 04.1


@exercise(
    "04.1",
    "Hide the padding",
    forbidden=("transformer_lab",),
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
    Write it yourself, without `transformer_lab`.
    """
    raise NotImplementedError


@hide_padding.cases
def hide_padding(normal):
    yield {"token_ids": torch.tensor([[5, 8, 2, 0, 0], [7, 0, 0, 0, 0], [1, 2, 3, 4, 5]]), "pad_id": 0}
    yield {"token_ids": torch.tensor([[1, 1, 0, 3, 9, 2, 1], [4, 0, 6, 1, 1, 1, 1]]), "pad_id": 1}
    yield {"token_ids": torch.tensor([[3, 4], [3, 7]]), "pad_id": 7}
    yield {"token_ids": torch.tensor([[-1, -1, 0]]), "pad_id": -1}  # one sentence, padding in front; ~0 is −1


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


# ------------------------------------------------------------------------------------------------------ 04.2


@exercise(
    "04.2",
    "Look back, but not far",
    forbidden=("transformer_lab",),
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
    Write it yourself, without `transformer_lab`.
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


# ------------------------------------------------------------------------------------------------------ 04.3


@exercise(
    "04.3",
    "Attention that obeys a mask",
    difficulty=2,
    returns=("output", "weights"),
    forbidden=("scaled_dot_product_attention", "transformer_lab"),
    gradients=True,
    tolerance=1e-8,  # a fair way to avoid 0/0 adds 1e-9 to the sum
    hints=[
        """Begin with your attention of lesson 03: scaled scores, softmax, mixture. Between which two of
        these does the mask belong? `masked_fill` stretches (batch, 1, 1, key_pos) where it must.""",
        """A row of nothing but −∞ becomes NaN. Find such rows first: `may_attend.any(dim=-1,
        keepdim=True)` is False for them. What could their scores be, so that softmax divides by no 0?""",
        """Fill with −∞ only where the query sees something else; afterwards set the weights of the queries
        that see nothing to 0. Zero weights give a zero output by themselves.""",
    ],
)
def masked_attention(query, key, value, may_attend):
    """Scaled dot-product attention; a query that may attend to nothing gets zeros, weights and output.

    query (batch, heads, query_pos, d_head), key (batch, heads, key_pos, d_head)
    value (batch, heads, key_pos, d_value)
    may_attend: booleans (batch or 1, heads or 1, query_pos or 1, key_pos), True = may attend
    returns output (batch, heads, query_pos, d_value) and weights (batch, heads, query_pos, key_pos)
    Scores may be very large, or all far below 0; gradients flow back, and nothing is NaN.
    Write it yourself, without `transformer_lab` and `F.scaled_dot_product_attention`.
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

    yield case(5, 7, torch.tensor([[1, 1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 1, 1, 1]]).bool()[:, None, None, :])
    some = normal(2, 3, 5, 7) > 0.2
    some[0, 1, 3] = False  # this query may attend to nothing
    yield case(5, 7, some)
    yield case(7, 7, torch.ones(7, 7).tril(-1).bool()[None, None])  # nor may the first query here
    # One text, head and query. By hand: two low scores are seen, two others are not.
    seen = torch.tensor([True, False, True, False])[None, None, None]
    value = torch.tensor([[1.0, 3.0], [70.0, 70.0], [5.0, 7.0], [90.0, 90.0]])[None, None]
    # exp(low) is 0; exp(low − high) is, and exp(low) is not; exp(low) is small beside any 1e-9
    for low, hidden in ((-2e10, 900.0), (-600.0, 200.0), (-600.0, -600.0)):
        keys = torch.tensor([[low], [hidden], [low], [hidden]])[None, None]
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


# ------------------------------------------------------------------------------------------------------ 04.4


@exercise(
    "04.4",
    "A mean without the padding",
    difficulty=2,
    forbidden=("transformer_lab",),
    gradients=True,
    tolerance=1e-8,  # a fair way to avoid 0/0 adds 1e-9 to the count
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
    """The mean of each sentence's real tokens; zeros for a sentence that has none.

    hidden: (batch, position, d_model)
    may_attend: (batch, 1, 1, position), booleans, False for padding
    returns (batch, d_model)
    Gradients flow back to `hidden`, no gradient is NaN. Write it yourself, without `transformer_lab`.
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


# ------------------------------------------------------------------------------------------------------ 04.5


class InWords:
    """A function that is printed in words."""

    def __init__(self, words, function):
        self.words, self.function = words, function

    def __call__(self, x):
        return self.function(x)

    def __repr__(self):
        return f"<function: {self.words}>"


@exercise(
    "04.5",
    "Prove it: who moves?",
    difficulty=2,
    forbidden=("transformer_lab",),
    hints=[
        """Call the function once with x as it is. Then, for each position j: a copy of x (`x.clone()`)
        in which row j is another vector, and the function once more.""",
        """Draw the other vector with `torch.randn`. A position has moved if *any* of its features has, up
        or down: `.abs()`, a comparison, `.any(dim=-1)`.""",
        """Each j gives a column of (position,) booleans: `torch.stack(columns, dim=1)` sets them side by
        side.""",
    ],
)
def who_moves(function, x):
    """Change one token at a time, and see whose output moves.

    function: takes x, returns (position, …), a vector for each position
    x: (position, feature); stays as it is. Add to each feature of the token another number: if all
        grew alike, a function that takes their mean off would not notice.
    returns (position, position), booleans: at [i, j] True if output i moves, in any of its features and
        by more than rounding (1e-9), when token j is changed
    Write it yourself, without `transformer_lab`.
    """
    raise NotImplementedError


@who_moves.cases
def who_moves(normal):
    def attention(x):
        scores = (x @ x.mT).masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -math.inf)
        return scores.softmax(-1) @ x

    def ones_and(*features):
        return torch.stack([torch.ones_like(features[0]), *features], dim=1)

    for words, function, length, width in (
        ("each returns the token before it, in a circle", lambda x: x.roll(1, 0), 3, 2),
        ("attention behind a causal mask", attention, 5, 3),
        ("each, less the mean of its features", lambda x: x - x.mean(-1, keepdim=True), 7, 5),
        ("the token's last feature", lambda x: x[:, -1:], 2, 11),
        ("a 1, and the sum of the token's features", lambda x: ones_and(x.sum(-1)), 5, 2),
        (
            "the sum of its features, minus that sum, and a 1",
            lambda x: ones_and(-x.sum(-1), x.sum(-1)).flip(1),
            3,
            5,
        ),
        ("a millionth of what came before", lambda x: 1 + 1e-6 * (x.cumsum(0) - x), 3, 7),
        ("no token is read", lambda x: torch.ones(len(x), 3), 2, 5),
        ("twice the token", lambda x: 2 * x, 1, 1),
    ):
        x = 1 + 2 * normal(length, width)  # no numbers that an answer's own `torch.randn` draws
        yield {"function": InWords(words, function), "x": x}


@who_moves.specification
def who_moves(function, x):
    moves = torch.zeros(len(x), len(x), dtype=torch.bool)
    for j in range(len(x)):
        another = torch.stack([row * row + 2 * i + 3 if i == j else row for i, row in enumerate(x)])
        another[j] *= torch.arange(1, x.shape[1] + 1)
        for i, (now, then) in enumerate(zip(function(another), function(x), strict=True)):
            moves[i, j] = any(abs(a - b) > 1e-9 for a, b in zip(now, then, strict=True))
    return moves


@who_moves.solution
def who_moves(function, x):
    before, columns = function(x), []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = torch.randn(x.shape[1])  # another token in its place
        moved = (function(changed) - before).abs() > 1e-9  # (position, feature)
        columns.append(moved.any(dim=-1))
    return torch.stack(columns, dim=1)


@who_moves.alternative
def who_moves(f, x):
    table = torch.zeros(len(x), len(x), dtype=torch.bool)
    for j, row in enumerate(x):
        other = torch.cat([x[:j], (row + torch.arange(3, 3 + len(row)))[None], x[j + 1 :]])
        table[:, j] = (f(other) - f(x)).pow(2).amax(-1).sqrt() > 1e-9
    return table


# ------------------------------------------------------------------------------------------------------ 04.6


@exercise(
    "04.6",
    "Translate PyTorch's two masks",
    forbidden=("transformer_lab",),
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
    Write it yourself, without `transformer_lab`.
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


# ------------------------------------------------------------------------------------------------------ 04.7


@exercise(
    "04.7",
    "How far does news travel? (stretch)",
    difficulty=3,
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
