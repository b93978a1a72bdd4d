"""Exercises of lesson 04."""

import math

import torch

from transformer_course.checker import exercise


@exercise("04.1", forbidden=("transformer_lab",))
def hide_padding(token_ids, pad_id):
    """Padding mask: True for every token that is not padding.

    token_ids: (batch, key_pos), integers
    pad_id: the token id of the padding; any integer
    returns (batch, 1, 1, key_pos), booleans
    Write it yourself, without `transformer_lab`.
    """
    return (token_ids != pad_id)[:, None, None, :]  # (batch, 1, 1, key_pos)


@hide_padding.cases
def hide_padding_cases(normal):
    yield {"token_ids": torch.tensor([[5, 8, 2, 0, 0], [7, 0, 0, 0, 0], [1, 2, 3, 4, 5]]), "pad_id": 0}
    yield {"token_ids": torch.tensor([[1, 1, 0, 3, 9, 2, 1], [4, 0, 6, 1, 1, 1, 1]]), "pad_id": 1}
    yield {"token_ids": torch.tensor([[3, 4], [3, 7]]), "pad_id": 7}
    yield {"token_ids": torch.tensor([[-1, -1, 0]]), "pad_id": -1}  # one sentence, padding in front; ~0 is −1


@exercise("04.2", forbidden=("transformer_lab",))
def look_back_mask(length, window):
    """Causal sliding-window mask: each query may attend to itself and to the `window` positions before it.

    No query may attend to a later position.
    returns (1, 1, length, length), booleans, True = may attend
    Write it yourself, without `transformer_lab`.
    """
    position = torch.arange(length)
    back = position[:, None] - position[None, :]  # (query_pos, key_pos): how far back the key is
    return ((back >= 0) & (back <= window))[None, None]


@look_back_mask.cases
def look_back_mask_cases(normal):
    yield {"length": 5, "window": 2}
    yield {"length": 7, "window": 3}
    yield {"length": 3, "window": 0}
    yield {"length": 2, "window": 5}
    yield {"length": 1, "window": 1}


@exercise(
    "04.3",
    difficulty=2,
    returns=("output", "weights"),
    forbidden=("scaled_dot_product_attention", "transformer_lab"),
    gradients=True,
    tolerance=1e-08,
)
def masked_attention(query, key, value, may_attend):
    """Masked scaled dot-product attention; a query that may attend to nothing gets weights and output 0.

    query (batch, heads, query_pos, d_head), key (batch, heads, key_pos, d_head)
    value (batch, heads, key_pos, d_value)
    may_attend: booleans (batch or 1, heads or 1, query_pos or 1, key_pos), True = may attend
    returns output (batch, heads, query_pos, d_value) and weights (batch, heads, query_pos, key_pos)
    Scores may be very large, or all far below 0. Gradients must flow back, and nothing may be NaN.
    Write it yourself, without `transformer_lab` and `F.scaled_dot_product_attention`.
    """
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # (batch, heads, query_pos, key_pos)
    sees_nothing = ~may_attend.any(dim=-1, keepdim=True)  # (…, query_pos, 1)
    scores = scores.masked_fill(~may_attend & ~sees_nothing, -math.inf)
    weights = scores.softmax(dim=-1).masked_fill(sees_nothing, 0)
    return weights @ value, weights


@masked_attention.cases
def masked_attention_cases(normal):
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


@exercise("04.4", difficulty=2, forbidden=("transformer_lab",), gradients=True, tolerance=1e-08)
def mean_of_real(hidden, may_attend):
    """Mean over the real tokens of each sentence; zeros for a sentence that has none.

    hidden: (batch, position, d_model)
    may_attend: (batch, 1, 1, position), booleans, False for padding
    returns (batch, d_model)
    Gradients must flow back to `hidden`, and none may be NaN.
    Write it yourself, without `transformer_lab`.
    """
    real = may_attend[:, 0, 0, :, None]  # (batch, position, 1)
    total = (hidden * real).sum(dim=1)  # (batch, d_model)
    return total / real.sum(dim=1).clamp(min=1)


@mean_of_real.cases
def mean_of_real_cases(normal):
    real = torch.tensor([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]]).bool()
    yield {"hidden": normal(3, 5, 7), "may_attend": real[:, None, None, :]}
    real = torch.tensor([[0, 1, 1, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0, 0]]).bool()  # the second is empty
    yield {"hidden": normal(2, 7, 3), "may_attend": real[:, None, None, :]}
    for batch in (1, 2):  # sentences of one token, and of none
        yield {"hidden": normal(batch, 1, 5), "may_attend": (torch.arange(batch) == 0)[:, None, None, None]}


class InWords:
    """A function that is printed in words."""

    def __init__(self, words, function):
        self.words, self.function = words, function

    def __call__(self, x):
        return self.function(x)

    def __repr__(self):
        return f"<function: {self.words}>"


@exercise("04.5", difficulty=2, forbidden=("transformer_lab",))
def who_moves(function, x):
    """Leak map: change one token at a time, and see which outputs move.

    function: takes x and returns (position, …), a vector for each position
    x: (position, feature); leave it unchanged. Change each feature of the token by a different amount:
        a function that subtracts the mean of the features does not react if all grow by the same.
    returns (position, position), booleans: True at [i, j] if output i moves when token j is changed,
        in any of its features and by more than rounding (1e-9)
    Write it yourself, without `transformer_lab`.
    """
    before, columns = function(x), []
    for j in range(len(x)):
        changed = x.clone()
        changed[j] = torch.randn(x.shape[1])  # another token in its place
        moved = (function(changed) - before).abs() > 1e-9  # (position, feature)
        columns.append(moved.any(dim=-1))
    return torch.stack(columns, dim=1)


@who_moves.cases
def who_moves_cases(normal):
    def attention(x):
        scores = (x @ x.mT).masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -math.inf)
        return scores.softmax(-1) @ x

    def ones_and(*features):
        return torch.stack([torch.ones_like(features[0]), *features], dim=1)

    for words, function, length, width in (
        ("the previous token at each position, the last one at position 0", lambda x: x.roll(1, 0), 3, 2),
        ("attention with a causal mask", attention, 5, 3),
        ("each token minus the mean of its features", lambda x: x - x.mean(-1, keepdim=True), 7, 5),
        ("the token's last feature", lambda x: x[:, -1:], 2, 11),
        ("a 1, and the sum of the token's features", lambda x: ones_and(x.sum(-1)), 5, 2),
        (
            "the sum of its features, minus that sum, and a 1",
            lambda x: ones_and(-x.sum(-1), x.sum(-1)).flip(1),
            3,
            5,
        ),
        ("1 plus a millionth of the sum of the earlier tokens", lambda x: 1 + 1e-6 * (x.cumsum(0) - x), 3, 7),
        ("ones, whatever the tokens are", lambda x: torch.ones(len(x), 3), 2, 5),
        ("twice the token", lambda x: 2 * x, 1, 1),
        ("minus the sum up to the token", lambda x: -x.cumsum(0), 5, 2),
    ):
        x = 1 + 2 * normal(length, width)  # no numbers that an answer's own `torch.randn` draws
        yield {"function": InWords(words, function), "x": x}


@exercise("04.6", forbidden=("transformer_lab",))
def from_torch(key_padding_mask, attn_mask):
    """Combine the two masks of nn.MultiheadAttention into one mask that hides the same keys.

    key_padding_mask: (batch, key_pos), booleans, True = ignore this key
    attn_mask: (query_pos, key_pos), booleans, True = this query ignores this key
    returns may_attend (batch, 1, query_pos, key_pos), booleans, True = may attend
    Write it yourself, without `transformer_lab`.
    """
    may_see_key = ~key_padding_mask[:, None, None, :]  # (batch, 1, 1, key_pos)
    may_see_pair = ~attn_mask[None, None]  # (1, 1, query_pos, key_pos)
    return may_see_key & may_see_pair


@from_torch.cases
def from_torch_cases(normal):
    yield {"key_padding_mask": normal(2, 5) > 0.5, "attn_mask": normal(3, 5) > 0.5}
    yield {"key_padding_mask": normal(1, 7) > 0.5, "attn_mask": normal(7, 7) > 0}
    yield {"key_padding_mask": normal(5, 5) > 0, "attn_mask": normal(5, 5) > 0.5}


@exercise("04.7", difficulty=3)
def reach(may_attend, n_layers):
    """Receptive fields: the inputs that each output can depend on after several layers with the same mask.

    Each layer has a residual connection, so a position keeps the information that it already has.
    may_attend: (position, position), booleans: row i says which positions i attends to in one layer
    n_layers: at least 1
    returns (position, position), booleans: True at [i, j] if output i can depend on input j
    """
    known = torch.eye(len(may_attend), dtype=torch.bool)  # after 0 layers, each position depends on itself
    one_layer = (may_attend | known).double()  # the residual connection keeps what is there
    for _ in range(n_layers):
        known = one_layer @ known.double() > 0
    return known


@reach.cases
def reach_cases(normal):
    steps = torch.arange(7)
    yield {"may_attend": (steps[:, None] - steps).abs() <= 1, "n_layers": 3}
    yield {"may_attend": steps[:, None] - steps == 1, "n_layers": 4}  # each attends to the one before only
    yield {"may_attend": normal(11, 11) > 1.3, "n_layers": 2}
    yield {"may_attend": normal(5, 5) > 0.5, "n_layers": 1}
    yield {"may_attend": torch.ones(2, 2, dtype=torch.bool), "n_layers": 65}  # 2⁶⁴ paths: an int64 says 0
