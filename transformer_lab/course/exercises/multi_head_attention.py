"""Exercises of lesson 05: split, merge, transform, the interface, the module, its bill, what a head adds."""

import math

import torch
from torch import nn

from transformer_lab.course.checker import exercise, value_exercise
from transformer_lab.course.checker.parts import Projections

# ------------------------------------------------------------------------------------------------------ 05.1


@exercise(
    "05.1",
    "Cut the features into heads",
    hints=[
        """First cut, then move. The last axis, d_model long, becomes two axes: which head, and which
        feature of that head. `x.unflatten(-1, (n_heads, -1))` does that.""",
        """Now the axes are (batch, position, n_heads, d_head). The heads must stand before the positions:
        swap axes 1 and 2 with `transpose`.""",
    ],
)
def split_heads(x, n_heads):
    """Give head 0 the first d_head features of every token, head 1 the next, and so on.

    x: (batch, position, d_model), and d_model = n_heads · d_head
    returns (batch, n_heads, position, d_head)
    """
    raise NotImplementedError


@split_heads.cases
def split_heads(normal):
    yield {"x": normal(5, 7, 6), "n_heads": 2}
    yield {"x": normal(2, 5, 21), "n_heads": 3}
    yield {"x": normal(2, 3, 15), "n_heads": 3}  # as many positions as heads: a missing transpose fits
    yield {"x": torch.tensor([[[1.0, 2, 3, 4]]]), "n_heads": 2}  # one token of one text


@split_heads.specification
def split_heads(x, n_heads):
    batch, length, d_model = x.shape
    d_head = d_model // n_heads
    result = torch.zeros(batch, n_heads, length, d_head)
    for b in range(batch):
        for position in range(length):
            for feature in range(d_model):
                result[b, feature // d_head, position, feature % d_head] = x[b, position, feature]
    return result


@split_heads.solution
def split_heads(x, n_heads):
    cut = x.unflatten(-1, (n_heads, -1))  # (batch, position, n_heads, d_head)
    return cut.transpose(1, 2)


@split_heads.alternative
def split_heads(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def cut(x, n_heads):
    """The right cut: (batch, n_heads, position, d_head)."""
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def cut_at_once(x, n_heads):
    """One reshape: the right shape, the wrong numbers."""
    return x.reshape(x.shape[0], n_heads, x.shape[1], -1)


def deal_out(x, n_heads):
    """Like playing cards: head 0 gets features 0, n_heads, 2·n_heads, …"""
    return x.unflatten(-1, (-1, n_heads)).movedim(-1, 1)


split_heads.mistake(
    "one reshape",
    """You go from (batch, position, d_model) to the wanted shape in one reshape. It keeps the numbers in
    their order, so a head gets all features of some tokens, not some features of all. Cut first:
    `unflatten(-1, (n_heads, -1))`; then `transpose(1, 2)`.""",
    cut_at_once,
)

split_heads.mistake(
    "positions before heads",
    """The cut is right; the axes are still (batch, position, n_heads, d_head). Attention multiplies the
    last two axes, so the heads of one token would attend to each other. Swap axes 1 and 2:
    `transpose(1, 2)`.""",
    lambda x, n: x.unflatten(-1, (n, -1)),
)

split_heads.mistake(
    "features dealt out like cards",
    """Your head 0 gets features 0, n_heads, 2·n_heads, … That is a possible model, but not the one whose
    weights you load below. A head takes d_head features in a row: `unflatten(-1, (n_heads, -1))`,
    heads first.""",
    deal_out,
)

split_heads.mistake(
    "n_heads and d_head exchanged",
    """You made d_head heads of n_heads features each. In `unflatten(-1, (a, b))` the first number counts
    the pieces, the second says how long one is: `(n_heads, -1)`. (`chunk` takes the number of pieces,
    `split` their length.)""",
    lambda x, n: x.unflatten(-1, (-1, n)).transpose(1, 2),
    lambda x, n: x.unflatten(-1, (-1, n)),
)

split_heads.mistake(
    "the wrong two axes swapped",
    """The cut is right, but you swap other axes than position and heads. From (batch, position, n_heads,
    d_head) the way to (batch, n_heads, position, d_head) is `transpose(1, 2)`.""",
    lambda x, n: x.unflatten(-1, (n, -1)).transpose(1, 3),
    lambda x, n: x.unflatten(-1, (n, -1)).transpose(2, 3),
    lambda x, n: x.unflatten(-1, (n, -1)).transpose(0, 1),
)

split_heads.mistake(
    "axes turned before the cut",
    """You transpose first and reshape then. With (batch, d_model, position) in hand, the reshape cuts the
    rows at the wrong places and mixes tokens with features. Cut the last axis first, and transpose
    then.""",
    lambda x, n: x.transpose(1, 2).reshape(x.shape[0], n, x.shape[1], -1),
    lambda x, n: x.transpose(1, 2).unflatten(1, (n, -1)).reshape(x.shape[0], n, x.shape[1], -1),
)

split_heads.mistake(
    "position last",
    """Each head is right but lies on its side: (d_head, position). A token is a row everywhere in this
    course. Swap axes 1 and 2 only; d_head stays last.""",
    lambda x, n: cut(x, n).mT,
)

split_heads.mistake(
    "heads before the batch",
    """Your first axis is the heads, the second the batch. Masks and weights have the batch first, (batch,
    heads, query_pos, key_pos), so nothing would line up. Put the heads on axis 1.""",
    lambda x, n: cut(x, n).transpose(0, 1),
)

split_heads.mistake(
    "heads folded into the batch",
    """You put batch and heads on one axis. Old code did so to have three axes for `bmm`. `@` works with
    any number of axes in front, and a mask needs to know which head it speaks to: keep the axes
    apart.""",
    lambda x, n: cut(x, n).flatten(0, 1),
    lambda x, n: torch.cat(x.chunk(n, dim=-1)),
)

split_heads.mistake(
    "pieces not stacked",
    """The pieces are right, in a tuple or a list, which cannot be multiplied at once. Stack them on a new
    axis, `torch.stack(pieces, dim=1)`, or cut with `unflatten` in the first place.""",
    lambda x, n: x.chunk(n, dim=-1),
    lambda x, n: x.split(x.shape[-1] // n, dim=-1),
    lambda x, n: tuple(cut(x, n).unbind(1)),
)

split_heads.mistake(
    "one reshape, then a transpose",
    """You go to (batch, n_heads, position, d_head) in one reshape, and the transpose swaps positions and
    heads away again. The first step only cuts the last axis: (batch, position, n_heads, d_head). Then
    `transpose(1, 2)`.""",
    lambda x, n: cut_at_once(x, n).transpose(1, 2),
)

split_heads.mistake(
    "positions cut, not features",
    """You cut axis 1, the positions: each head would get some of the tokens, with all their features.
    Every head sees every token. Cut the last axis, the features: `unflatten(-1, (n_heads, -1))`.""",
    lambda x, n: x.unflatten(1, (n, -1)),
    lambda x, n: x.unflatten(1, (n, -1)).transpose(1, 2),
    lambda x, n: torch.stack(x.chunk(n, dim=1), dim=1),
)


# ------------------------------------------------------------------------------------------------------ 05.2


@exercise(
    "05.2",
    "Put the heads together again",
    hints=[
        """Undo the two steps of `split_heads` in the opposite order. Which of the two was the last?""",
        """Swap axes 1 and 2, so that the heads of one token stand side by side. Then the last two axes
        become one: `flatten(-2)`.""",
    ],
)
def merge_heads(heads):
    """Write the heads of each token side by side: the opposite of split_heads.

    heads: (batch, n_heads, position, d_head)
    returns (batch, position, d_model), and d_model = n_heads · d_head
    """
    raise NotImplementedError


@merge_heads.cases
def merge_heads(normal):
    yield {"heads": normal(5, 2, 7, 3)}
    yield {"heads": normal(2, 3, 5, 7)}
    yield {"heads": normal(3, 5, 5, 2)}  # as many positions as heads
    yield {"heads": torch.tensor([1.0, 2, 3, 4]).view(1, 2, 1, 2)}  # one token of one text


@merge_heads.specification
def merge_heads(heads):
    batch, n_heads, length, d_head = heads.shape
    result = torch.zeros(batch, length, n_heads * d_head)
    for b in range(batch):
        for head in range(n_heads):
            for position in range(length):
                for feature in range(d_head):
                    result[b, position, head * d_head + feature] = heads[b, head, position, feature]
    return result


@merge_heads.solution
def merge_heads(heads):
    return heads.transpose(1, 2).flatten(-2)


@merge_heads.alternative
def merge_heads(heads):
    return torch.cat([heads[:, i] for i in range(heads.shape[1])], dim=-1)


def join(heads):
    """The right merge: (batch, position, d_model)."""
    return heads.transpose(1, 2).flatten(-2)


def join_at_once(heads):
    """One reshape: the right shape, the wrong numbers."""
    return heads.reshape(heads.shape[0], heads.shape[2], -1)


merge_heads.mistake(
    "no transpose",
    """You reshape without moving the heads. The numbers still lie head by head, so one row of your result
    holds several tokens of one head, not all heads of one token. `transpose(1, 2)` first.""",
    join_at_once,
)

merge_heads.mistake(
    "flattened without the transpose",
    """You join position and d_head: each head then has one long row, (batch, n_heads, position · d_head).
    The heads of one token belong in one row. `transpose(1, 2)` brings them beside d_head; then
    `flatten(-2)`.""",
    lambda h: h.flatten(-2),
)

merge_heads.mistake(
    "view after transpose",
    """A transpose only changes how the numbers are counted, it does not move them; `view` then finds no
    single axis to make of the two and refuses. `reshape` and `flatten` copy where they must:
    `transpose(1, 2).flatten(-2)`.""",
    lambda h: h.transpose(1, 2).view(h.shape[0], h.shape[2], -1),
)

merge_heads.mistake(
    "heads one below the other",
    """You made a sequence n_heads times as long: the tokens of head 0, then those of head 1. The heads of
    one token belong side by side, in one row: `transpose(1, 2)` first, then flatten the last two
    axes.""",
    lambda h: h.flatten(1, 2),
)

merge_heads.mistake(
    "not flattened",
    """The axes are in order, (batch, position, n_heads, d_head), and one step is left: make one axis of
    the last two, `flatten(-2)`.""",
    lambda h: h.transpose(1, 2),
)

merge_heads.mistake(
    "the wrong two axes joined",
    """The transpose is right, (batch, position, n_heads, d_head); then you join positions and heads. What
    belongs in one row are the heads of one token, the last two axes: `flatten(-2)`.""",
    lambda h: h.transpose(1, 2).flatten(1, 2),
)


merge_heads.mistake(
    "features dealt out like cards",
    """You write feature 0 of all heads first, then feature 1. The heads belong in blocks, as
    `split_heads` cut them: the whole of head 0, then the whole of head 1. Bring the heads before d_head,
    then flatten.""",
    lambda h: h.permute(0, 2, 3, 1).flatten(-2),
)

merge_heads.mistake(
    "heads added up",
    """You add or average the heads. Then nobody can tell which head said what, and the result is d_head
    wide. Side by side means one after the other on the feature axis: transpose, then flatten.""",
    lambda h: h.sum(1),
    lambda h: h.mean(1),
)

merge_heads.mistake(
    "the wrong two axes swapped",
    """You swap other axes than heads and position. From (batch, n_heads, position, d_head) the way to
    (batch, position, n_heads, d_head) is `transpose(1, 2)`.""",
    lambda h: h.mT.flatten(1, 2),
    lambda h: h.mT.reshape(h.shape[0], h.shape[2], -1),
    lambda h: h.transpose(1, 3).flatten(-2),
    lambda h: h.transpose(1, 3).reshape(h.shape[0], h.shape[2], -1),
)


# ------------------------------------------------------------------------------------------------------ 05.3


@exercise(
    "05.3",
    "Project, then cut",
    hints=[
        """`linear` is an `nn.Linear`: call it, `linear(x)`. It works on the last axis, whatever stands in
        front.""",
        """Its result is num_heads · d_k wide, and x need not be. What is left to do is exercise 05.1.""",
    ],
)
def transform_heads(x, num_heads, d_k, linear):
    """Map x by `linear`, and cut the result into heads.

    x: (batch, position, d_model)
    linear: an nn.Linear from d_model to num_heads · d_k features
    returns (batch, num_heads, position, d_k)
    """
    raise NotImplementedError


@transform_heads.cases
def transform_heads(normal):
    for batch, length, d_model, num_heads, d_k in [(5, 7, 6, 2, 3), (2, 3, 5, 3, 7), (1, 1, 11, 2, 7)]:
        linear = nn.Linear(d_model, num_heads * d_k, bias=batch > 1)  # isolated: seeded
        yield {"x": normal(batch, length, d_model), "num_heads": num_heads, "d_k": d_k, "linear": linear}


@transform_heads.specification
def transform_heads(x, num_heads, d_k, linear):
    batch, length, _ = x.shape
    bias = torch.zeros(num_heads * d_k) if linear.bias is None else linear.bias
    result = torch.zeros(batch, num_heads, length, d_k)
    for b in range(batch):
        for position in range(length):
            for row in range(num_heads * d_k):
                mapped = (linear.weight[row] * x[b, position]).sum() + bias[row]
                result[b, row // d_k, position, row % d_k] = mapped
    return result


@transform_heads.solution
def transform_heads(x, num_heads, d_k, linear):
    projected = linear(x)  # (batch, position, num_heads · d_k)
    return projected.unflatten(-1, (num_heads, d_k)).transpose(1, 2)


@transform_heads.alternative
def transform_heads(x, num_heads, d_k, linear):
    weight = linear.weight.view(num_heads, d_k, -1)  # each head's own rows of the matrix
    bias = 0 if linear.bias is None else linear.bias.view(num_heads, 1, d_k)
    return torch.einsum("bpm,hdm->bhpd", x, weight) + bias


transform_heads.mistake(
    "the linear map left out",
    """You cut x itself, without `linear`. Each head would see the bare features of its slice only, and
    where x is not num_heads · d_k wide it cannot be cut at all. Cut `linear(x)`: each of its features is
    mixed from all of x.""",
    lambda x, n, d, linear: cut(x, n),
    lambda x, n, d, linear: x.unflatten(-1, (n, d)).transpose(1, 2),
    lambda x, n, d, linear: x.reshape(*x.shape[:2], n, d).transpose(1, 2),
)

transform_heads.mistake(
    "cut before it is mapped",
    """You cut x first and hand the pieces to `linear`, which wants whole vectors of d_model features. Map
    first: then every head can draw on all features. Then cut what comes out.""",
    lambda x, n, d, linear: linear(x.unflatten(-1, (n, d)).transpose(1, 2)),
    lambda x, n, d, linear: linear(x.reshape(*x.shape[:2], n, d).transpose(1, 2)),
    lambda x, n, d, linear: linear(x.reshape(*x.shape[:2], n, -1).transpose(1, 2)),
    lambda x, n, d, linear: linear(cut(x, n)),
)

transform_heads.mistake(
    "a linear map of your own",
    """You make a new `nn.Linear` inside the function. At every call it has other random weights, and no
    optimiser ever hears of them, so nothing is learned. Use the one that is handed in.""",
    lambda x, n, d, linear: cut(nn.Linear(x.shape[-1], n * d)(x), n),
    lambda x, n, d, linear: cut(nn.Linear(x.shape[-1], n * d, bias=False)(x), n),
)

transform_heads.mistake(
    "bias forgotten",
    """You multiply by the weight and leave out `linear.bias`. Call the layer, `linear(x)`: it does both.""",
    lambda x, n, d, linear: cut(x @ linear.weight.mT, n),
)

transform_heads.mistake(
    "weight not transposed",
    """`nn.Linear` stores its weight as (features out, features in) and computes `x @ weight.mT + bias`.
    Without the transpose it is an error, or, for a square weight, silently another map. Call
    `linear(x)`.""",
    lambda x, n, d, linear: cut(x @ linear.weight + (0 if linear.bias is None else linear.bias), n),
    lambda x, n, d, linear: cut(x @ linear.weight, n),
)

transform_heads.mistake(
    "not cut",
    """You map x and stop there. What is left to do is the cut: num_heads pieces of d_k features each, and
    then the heads moved in front of the positions.""",
    lambda x, n, d, linear: linear(x),
)


transform_heads.mistake(
    "one reshape",
    """You go from (batch, position, features) to (batch, num_heads, position, d_k) in one reshape. A head
    then gets all features of some tokens, not some features of all. Cut the last axis first, then
    `transpose(1, 2)`.""",
    lambda x, n, d, linear: cut_at_once(linear(x), n),
)

transform_heads.mistake(
    "positions before heads",
    """Map and cut are right; the axes are still (batch, position, num_heads, d_k). Attention multiplies
    the last two axes, so the heads of one token would attend to each other. Swap axes 1 and 2.""",
    lambda x, n, d, linear: linear(x).unflatten(-1, (n, d)),
)

transform_heads.mistake(
    "features dealt out like cards",
    """Your head 0 gets features 0, num_heads, 2·num_heads, … of the result. Published weights store each
    head's d_k features in a row: `unflatten(-1, (num_heads, d_k))`, heads first.""",
    lambda x, n, d, linear: deal_out(linear(x), n),
)

transform_heads.mistake(
    "num_heads and d_k exchanged",
    """You made d_k heads of num_heads features each. In `unflatten(-1, (a, b))` or `view(…, a, b)` the
    first number counts the pieces, the second says how long one is: `(num_heads, d_k)`.""",
    lambda x, n, d, linear: linear(x).unflatten(-1, (d, n)).transpose(1, 2),
)

transform_heads.mistake(
    "width of a head taken from x",
    """You compute the width of a head from the width of x. What you cut is the result of `linear`, and
    that is num_heads · d_k wide, whatever x is. Cut into `(num_heads, d_k)`.""",
    lambda x, n, d, linear: linear(x).view(*x.shape[:2], n, x.shape[-1] // n).transpose(1, 2),
    lambda x, n, d, linear: linear(x).unflatten(-1, (n, x.shape[-1] // n)).transpose(1, 2),
)

transform_heads.mistake(
    "one reshape, then a transpose",
    """You go to (batch, num_heads, position, d_k) in one reshape, and the transpose swaps positions and
    heads away again. The first step only cuts the last axis: (batch, position, num_heads, d_k). Then
    `transpose(1, 2)`.""",
    lambda x, n, d, linear: cut_at_once(linear(x), n).transpose(1, 2),
)

transform_heads.mistake(
    "scaled already",
    """You divide by √d_k here. Queries, keys and values all go through this function, so the scores would
    be divided twice or more, and the values shrunk. The scale belongs to the scores alone.""",
    lambda x, n, d, linear: cut(linear(x), n) / math.sqrt(d),
)


# ------------------------------------------------------------------------------------------------------ 05.4

interface = value_exercise(
    "05.4",
    "The interface of multi-head attention",
    stub="""axes = role = ...  # two strings, to be written into every line below
interface = {
    "query": (axes, role),
    "key": (axes, role),
    "value": (axes, role),
    "may_attend": (axes, role),
    "output": (axes, role),
    "weights": (axes, role),
}""",
    solution="""interface = {
    "query": ("batch query_pos d_model", "asks"),
    "key": ("batch key_pos d_model", "is compared"),
    "value": ("batch key_pos d_model", "is taken"),
    "may_attend": ("batch n_heads query_pos key_pos", "permits"),
    "output": ("batch query_pos d_model", "mixture"),
    "weights": ("batch n_heads query_pos key_pos", "shares"),
}""",
    hints=[
        """Whoever calls the module knows nothing of heads: whole vectors go in, whole vectors come out.
        Only where one head differs from another does the caller see an axis `n_heads`.""",
        """Let the queries come from one text and keys and values from another, of another length. Each
        query gets one output. Each key has one value. Weights and mask have a number for each pair.""",
    ],
)

RIGHT = {
    "query": ("batch query_pos d_model", "asks"),
    "key": ("batch key_pos d_model", "is compared"),
    "value": ("batch key_pos d_model", "is taken"),
    "may_attend": ("batch n_heads query_pos key_pos", "permits"),
    "output": ("batch query_pos d_model", "mixture"),
    "weights": ("batch n_heads query_pos key_pos", "shares"),
}


@interface.specification
def interface():
    return RIGHT


@interface.alternative
def interface():
    return {name: list(entry) for name, entry in reversed(RIGHT.items())}


def axes(**changed):
    """The right interface but for the axes of some entries."""
    return RIGHT | {name: (text, RIGHT[name][1]) for name, text in changed.items()}


def roles(**changed):
    """The right interface but for the roles of some entries."""
    return RIGHT | {name: (RIGHT[name][0], role) for name, role in changed.items()}


SQUARE = "batch n_heads query_pos query_pos"

interface.mistake(
    "as many keys as queries",
    """You count keys or values by `query_pos`. In self-attention the two lengths are equal, but a decoder
    asks with its own tokens about those of an encoder. Key and value come in pairs, `key_pos` of
    each.""",
    axes(key="batch query_pos d_model"),
    axes(value="batch query_pos d_model"),
    axes(key="batch query_pos d_model", value="batch query_pos d_model"),
    axes(weights=SQUARE, may_attend=SQUARE),
    axes(key="batch query_pos d_model", value="batch query_pos d_model", weights=SQUARE, may_attend=SQUARE),
)

interface.mistake(
    "commas between the axes",
    """You separate the axes by commas. One space is asked for, as in the type annotations of the package:
    `"batch query_pos d_model"`.""",
    axes(**{name: text.replace(" ", ", ") for name, (text, _) in RIGHT.items()}),
    axes(**{name: text.replace(" ", ",") for name, (text, _) in RIGHT.items()}),
)


interface.mistake(
    "heads cut by the caller",
    """You want query, key and value in heads already. To cut them is the module's own business: it first
    projects them, and only what comes out of the projection is cut. Whole vectors go in, `d_model`
    wide.""",
    axes(
        query="batch n_heads query_pos d_head",
        key="batch n_heads key_pos d_head",
        value="batch n_heads key_pos d_head",
    ),
    axes(
        query="batch n_heads query_pos d_head",
        key="batch n_heads key_pos d_head",
        value="batch n_heads key_pos d_head",
        output="batch n_heads query_pos d_head",
    ),
    axes(
        query="batch n_heads query_pos d_model",
        key="batch n_heads key_pos d_model",
        value="batch n_heads key_pos d_model",
    ),
)

interface.mistake(
    "inputs as narrow as a head",
    """You want vectors of `d_head` features. That is the width of one head, inside. The module takes the
    tokens' whole vectors, `d_model` wide, and projects them for all heads at once.""",
    axes(query="batch query_pos d_head"),
    axes(query="batch query_pos d_head", key="batch key_pos d_head"),
    axes(query="batch query_pos d_head", key="batch key_pos d_head", value="batch key_pos d_head"),
    axes(
        query="batch query_pos d_head",
        key="batch key_pos d_head",
        value="batch key_pos d_head",
        output="batch query_pos d_head",
    ),
)

interface.mistake(
    "output still in heads",
    """Your output has the heads still apart, or one head's width. They are merged and go through the
    output projection before they leave, so that layers can be stacked: what comes out is as wide as what
    went in.""",
    axes(output="batch n_heads query_pos d_head"),
    axes(output="batch query_pos d_head"),
    axes(output="batch query_pos n_heads d_head"),
)

interface.mistake(
    "one output per key",
    """You count the outputs by `key_pos`. It is the query that asks, and each query gets one answer,
    mixed from all values: `query_pos` of them.""",
    axes(output="batch key_pos d_model"),
)

interface.mistake(
    "weights without heads",
    """Your weights have no axis for the heads. Each head has a map of its own; averaged over the heads,
    none of them can be read any more. Say `n_heads` after `batch`.""",
    axes(weights="batch query_pos key_pos"),
    axes(weights="batch query_pos key_pos", may_attend="batch query_pos key_pos"),
)

interface.mistake(
    "mask without heads",
    """Your mask has three axes. It is laid over the scores, which have four; with three, broadcasting
    would take the batch for the heads whenever the two are equally many. Give it all four axes.""",
    axes(may_attend="batch query_pos key_pos"),
    axes(may_attend="batch key_pos"),
    axes(may_attend="query_pos key_pos"),
)

interface.mistake(
    "an axis of length 1 for the heads",
    """A mask may have the length 1 there; then it holds for all heads alike. Asked is the general case,
    with a mask of its own for each head: write the axis out, `n_heads`.""",
    axes(may_attend="batch 1 query_pos key_pos"),
    axes(may_attend="batch 1 1 key_pos"),
    axes(may_attend="1 1 query_pos key_pos"),
)

interface.mistake(
    "rows and columns exchanged",
    """You have the keys before the queries. Rows ask, columns answer: `query_pos` comes before `key_pos`,
    in the scores, in the weights, and in the mask that is laid over them.""",
    axes(weights="batch n_heads key_pos query_pos"),
    axes(may_attend="batch n_heads key_pos query_pos"),
    axes(weights="batch n_heads key_pos query_pos", may_attend="batch n_heads key_pos query_pos"),
)

interface.mistake(
    "heads before the batch",
    """You have the heads on the first axis. The batch comes first in every tensor of the interface, so
    that one text is always `tensor[i]`.""",
    axes(weights="n_heads batch query_pos key_pos"),
    axes(weights="n_heads batch query_pos key_pos", may_attend="n_heads batch query_pos key_pos"),
)

interface.mistake(
    "positions before the batch",
    """You have the positions first and the batch second. `nn.MultiheadAttention` does so unless told
    otherwise; here, as in most newer code, the batch comes first.""",
    axes(
        query="query_pos batch d_model",
        key="key_pos batch d_model",
        value="key_pos batch d_model",
        output="query_pos batch d_model",
    ),
)

interface.mistake(
    "key and value exchanged",
    """Your key is taken and your value compared. It is the other way round: a key is what a token can be
    found by, a value what it hands over once it is found.""",
    roles(key="is taken", value="is compared"),
)

interface.mistake(
    "query and key exchanged",
    """Your key asks and your query is compared. The query is the one who looks: one row of weights, and
    one output, for each query.""",
    roles(query="is compared", key="asks"),
)

interface.mistake(
    "scores for weights",
    """You say that the weights are scores. Scores may have any sign and size; what is returned has been
    through the softmax: positive, each row adds up to 1. They are `shares`.""",
    roles(weights="scores"),
)

interface.mistake(
    "a mask that forbids",
    """In your interface True hides a key. Some libraries do that. Here the name says it: `may_attend`,
    True means that the query may look. It `permits`.""",
    roles(may_attend="forbids"),
)

interface.mistake(
    "output and weights exchanged",
    """You exchanged the two results. The output is the mixture of the values, one vector for each query;
    the weights are the shares it was mixed by, one number for each pair.""",
    roles(output="shares", weights="mixture"),
    RIGHT | {"output": RIGHT["weights"], "weights": RIGHT["output"]},
)


# ------------------------------------------------------------------------------------------------------ 05.5


@exercise(
    "05.5",
    "Write multi-head attention",
    returns=("output", "weights"),
    hints=[
        """Five steps: project each of the three, cut each into heads, attend in every head at once,
        merge, project once more. You have written all five before, in lesson 03 and above.""",
        """`unflatten(-1, (self.n_heads, -1)).transpose(1, 2)` cuts. Scores and weights need no loop over
        the heads: `@`, `.mT` and `softmax(dim=-1)` leave the axes in front alone.""",
        """A score sums over the features of one head, so divide by `math.sqrt(self.d_head)`. At the end
        `transpose(1, 2).flatten(-2)`, and then `self.output_projection`.""",
    ],
)
class MultiHeadAttention(nn.Module):
    """query (batch, query_pos, d_model), key and value (batch, key_pos, d_model)."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.output_projection = nn.Linear(d_model, d_model)

    def forward(self, query, key, value):
        """Returns output (batch, query_pos, d_model), weights (batch, n_heads, query_pos, key_pos)."""
        raise NotImplementedError


@MultiHeadAttention.cases
def MultiHeadAttention(normal):
    yield (
        {"d_model": 6, "n_heads": 2},
        {"query": normal(5, 3, 6), "key": normal(5, 7, 6), "value": normal(5, 7, 6)},
    )
    yield (
        {"d_model": 15, "n_heads": 3},
        {"query": normal(2, 7, 15), "key": normal(2, 11, 15), "value": normal(2, 11, 15)},
    )
    yield (
        {"d_model": 2, "n_heads": 1},
        {"query": normal(1, 1, 2), "key": normal(1, 3, 2), "value": normal(1, 3, 2)},
    )


@MultiHeadAttention.specification
class MultiHeadAttention(Projections):
    def forward(self, query, key, value):
        each = [self.one_text(*text) for text in zip(query, key, value, strict=True)]
        return tuple(torch.stack(results) for results in zip(*each, strict=True))

    def one_text(self, query, key, value):
        queries, keys = self.query_projection(query), self.key_projection(key)
        values = self.value_projection(value)
        mixed = torch.zeros(query.shape)
        weights = torch.zeros(self.n_heads, len(query), len(key))
        for head in range(self.n_heads):
            features = range(head * self.d_head, (head + 1) * self.d_head)
            for i in range(len(query)):
                scores = [sum(queries[i, f] * k[f] for f in features) / math.sqrt(self.d_head) for k in keys]
                exponentials = [torch.exp(score) for score in scores]
                for j in range(len(key)):
                    weights[head, i, j] = weight = exponentials[j] / sum(exponentials)
                    for f in features:
                        mixed[i, f] += weight * values[j, f]
        return self.output_projection(mixed), weights


def solution():
    # In a function: `inspect` finds the first class of a name in a module, and that is the stub.
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_model, n_heads):
            super().__init__()
            self.n_heads, self.d_head = n_heads, d_model // n_heads
            self.query_projection = nn.Linear(d_model, d_model)
            self.key_projection = nn.Linear(d_model, d_model)
            self.value_projection = nn.Linear(d_model, d_model)
            self.output_projection = nn.Linear(d_model, d_model)

        def split(self, x):
            return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

        def forward(self, query, key, value):
            queries = self.split(self.query_projection(query))
            keys = self.split(self.key_projection(key))
            values = self.split(self.value_projection(value))
            weights = (queries @ keys.mT / math.sqrt(self.d_head)).softmax(dim=-1)
            heads = weights @ values  # (batch, n_heads, query_pos, d_head)
            return self.output_projection(heads.transpose(1, 2).flatten(-2)), weights

    return MultiHeadAttention


MultiHeadAttention.solution(solution())


@MultiHeadAttention.alternative
class MultiHeadAttention(Projections):
    def forward(self, q, k, v):
        chunks = [
            projection(x).chunk(self.n_heads, dim=-1)
            for projection, x in [
                (self.query_projection, q),
                (self.key_projection, k),
                (self.value_projection, v),
            ]
        ]
        outputs, maps = [], []
        for q_head, k_head, v_head in zip(*chunks, strict=True):
            weights = torch.softmax(torch.bmm(q_head, k_head.mT) * self.d_head**-0.5, dim=2)
            outputs.append(torch.bmm(weights, v_head))
            maps.append(weights)
        return self.output_projection(torch.cat(outputs, dim=-1)), torch.stack(maps, dim=1)


class Steps(Projections):
    """The right answer, step by step: a mistake replaces one of them."""

    def forward(self, query, key, value):
        queries, keys, values = map(self.split, self.project(query, key, value))
        return self.answer(self.weigh(self.score(queries, keys)), values)

    def project(self, query, key, value):
        return self.query_projection(query), self.key_projection(key), self.value_projection(value)

    def split(self, x):
        return cut(x, self.n_heads)

    def score(self, queries, keys):
        return queries @ keys.mT / math.sqrt(self.d_head)

    def weigh(self, scores):
        return scores.softmax(-1)

    def answer(self, weights, values):
        return self.output_projection(self.merge(weights @ values)), weights

    def merge(self, heads):
        return join(heads)


def steps(**changed):
    """A class that takes some of the steps otherwise."""
    return type("Wrong", (Steps,), changed)


MultiHeadAttention.mistake(
    "no scale",
    """You do not divide the scores by √d_head. A sum of d_head products spreads about √d_head, so softmax
    would choose a single key and pass hardly any gradient. Divide by `math.sqrt(self.d_head)`.""",
    steps(score=lambda self, q, k: q @ k.mT),
)

MultiHeadAttention.mistake(
    "√d_model",
    """You divide by the root of the model's whole width. A score sums over the features of one head only,
    so this is too much by √n_heads, and attention is too even. Divide by `math.sqrt(self.d_head)`.""",
    steps(score=lambda self, q, k: q @ k.mT / math.sqrt(self.n_heads * self.d_head)),
)

MultiHeadAttention.mistake(
    "divided by d_head",
    """You divide the scores by d_head, not by its root. Their spread grows with √d_head only; now they
    are too close to 0 and attention is too even. Use `math.sqrt(self.d_head)`.""",
    steps(score=lambda self, q, k: q @ k.mT / self.d_head),
)

MultiHeadAttention.mistake(
    "√ of the number of heads",
    """You divide by √n_heads. How many heads there are does not matter to a score: it sums over the
    d_head features of one of them. Use `math.sqrt(self.d_head)`.""",
    steps(score=lambda self, q, k: q @ k.mT / math.sqrt(self.n_heads)),
)

MultiHeadAttention.mistake(
    "√ of the number of keys",
    """You divide by the root of the number of keys, `shape[-2]`. A score sums over the features of one
    head, however many keys there are. Use `math.sqrt(self.d_head)`.""",
    steps(score=lambda self, q, k: q @ k.mT / math.sqrt(k.shape[-2])),
)

MultiHeadAttention.mistake(
    "multiplied by √d_head",
    """You multiply the scores by √d_head, which makes them larger still, and attention a choice of one
    key. The root belongs under them: divide by `math.sqrt(self.d_head)`.""",
    steps(score=lambda self, q, k: q @ k.mT * math.sqrt(self.d_head)),
)

MultiHeadAttention.mistake(
    "weights scaled, not scores",
    """You divide by √d_head after the softmax. The rows of your weights then add up to 1/√d_head, and the
    scores that softmax saw were as large as before. Divide first.""",
    steps(weigh=lambda self, scores: (scores * math.sqrt(self.d_head)).softmax(-1) / math.sqrt(self.d_head)),
)

MultiHeadAttention.mistake(
    "the wrong axes of the keys exchanged",
    """You exchange other axes of the keys than the last two: `.T` reverses all four, `transpose(1, 2)`
    swaps heads and positions. Only position and d_head change places: `.mT`.""",
    steps(score=lambda self, q, k: q @ k.T / math.sqrt(self.d_head)),
    steps(score=lambda self, q, k: q @ k.transpose(1, 2) / math.sqrt(self.d_head)),
)

MultiHeadAttention.mistake(
    "keys not transposed",
    """`queries @ keys` lets the features of a query meet the positions of the keys, which do not fit.
    Each score sums over the features of both: `queries @ keys.mT`.""",
    steps(score=lambda self, q, k: q @ k / math.sqrt(self.d_head)),
)


MultiHeadAttention.mistake(
    "keys ask, queries answer",
    """You compute `keys @ queries.mT`: a row for each key. Rows ask and columns answer, so that the last
    axis of the weights, the keys, fits the values: `queries @ keys.mT`.""",
    steps(score=lambda self, q, k: k @ q.mT / math.sqrt(self.d_head)),
)

MultiHeadAttention.mistake(
    "keys counted like queries",
    """You cut keys and values with the length of `query`. They may come from another text and be longer
    or shorter: take each length from its own tensor, or let `unflatten` cut the last axis and leave the
    others alone.""",
    type("Wrong", (Steps,), {"forward": lambda self, q, k, v: cut_like(self, len(q[0]), q, k, v)}),
)


def cut_like(self, length, *inputs):
    """Cut all three into heads, with the length of the query."""
    projected = Steps.project(self, *inputs)
    return [x.view(len(x), length, self.n_heads, self.d_head).transpose(1, 2) for x in projected]


MultiHeadAttention.mistake(
    "key and value exchanged",
    """You compare the queries with the values, or mix the keys. Queries are compared with keys; what
    the weights mix are the values: `weights @ values`.""",
    type("Wrong", (Steps,), {"forward": lambda self, q, k, v: exchanged(self, q, k, v)}),
    type("Wrong", (Steps,), {"forward": lambda self, q, k, v: keys_mixed(self, q, k, v)}),
)


def exchanged(self, *inputs):
    """Values are compared, keys are mixed."""
    queries, keys, values = map(self.split, self.project(*inputs))
    return self.answer(self.weigh(self.score(queries, values)), keys)


def keys_mixed(self, *inputs):
    """Keys are compared, and mixed too."""
    queries, keys, _ = map(self.split, self.project(*inputs))
    return self.answer(self.weigh(self.score(queries, keys)), keys)


MultiHeadAttention.mistake(
    "cut by one reshape",
    """You cut with one reshape or view to (batch, n_heads, position, d_head). The shape is right, but a
    head gets all features of some tokens, not some features of all. `unflatten(-1, (self.n_heads, -1))`,
    then `transpose(1, 2)`.""",
    steps(split=lambda self, x: cut_at_once(x, self.n_heads)),
)

MultiHeadAttention.mistake(
    "merged by one reshape",
    """The weights are right, the merge is not: you reshape the heads without moving them, so a row of the
    output mixes several tokens. `heads.transpose(1, 2)` first, then `flatten(-2)`.""",
    steps(merge=lambda self, heads: join_at_once(heads)),
    steps(merge=lambda self, heads: heads.flatten(-2)),
)

MultiHeadAttention.mistake(
    "cut and merged by one reshape",
    """You cut and merge with a reshape each and no transpose. The shapes fit, but each head attends among
    pieces of tokens, and rows of the output are not tokens any more. `transpose(1, 2)` after the cut and
    before the merge.""",
    steps(split=lambda self, x: cut_at_once(x, self.n_heads), merge=lambda self, heads: join_at_once(heads)),
)

MultiHeadAttention.mistake(
    "view after transpose",
    """A transpose does not move the numbers, so `view` finds no single axis to make of the two and
    refuses. `flatten(-2)` and `reshape` copy where they must: `heads.transpose(1, 2).flatten(-2)`.""",
    steps(merge=lambda self, heads: heads.transpose(1, 2).view(heads.shape[0], heads.shape[2], -1)),
)

MultiHeadAttention.mistake(
    "heads attend to each other",
    """After the cut your axes are (batch, position, n_heads, d_head). `@` multiplies the last two, so the
    heads of one token would attend to each other. `transpose(1, 2)` puts the positions there.""",
    steps(
        split=lambda self, x: x.unflatten(-1, (self.n_heads, -1)), merge=lambda self, heads: heads.flatten(-2)
    ),
)

MultiHeadAttention.mistake(
    "features dealt out like cards",
    """Your head 0 takes features 0, n_heads, 2·n_heads, … Published weights keep each head's features in
    a row, so they would not work here. `unflatten(-1, (self.n_heads, -1))`: heads first.""",
    steps(
        split=lambda self, x: deal_out(x, self.n_heads),
        merge=lambda self, heads: heads.permute(0, 2, 3, 1).flatten(-2),
    ),
    steps(split=lambda self, x: deal_out(x, self.n_heads)),
)

MultiHeadAttention.mistake(
    "not cut at all",
    """You never cut: this is one head of the full width. It can attend to one thing at a time. Cut
    queries, keys and values into heads before the scores, and merge afterwards.""",
    steps(split=lambda self, x: x, merge=lambda self, heads: heads),
    steps(split=lambda self, x: x[:, None], merge=lambda self, heads: heads[:, 0]),
    steps(
        split=lambda self, x: x,
        score=lambda self, q, k: q @ k.mT / math.sqrt(q.shape[-1]),
        merge=lambda self, heads: heads,
    ),
)

MultiHeadAttention.mistake(
    "no projections in front",
    """You cut query, key and value as they come. Then each head is bound to its slice of the raw
    features, and has nothing to learn with. Cut `self.query_projection(query)`, and so on.""",
    steps(project=lambda self, q, k, v: (q, k, v)),
    steps(
        project=lambda self, q, k, v: (q, k, v),
        answer=lambda self, weights, values: (self.merge(weights @ values), weights),
    ),
)

MultiHeadAttention.mistake(
    "value not projected",
    """The weights are right; the values are not projected. What a head hands over has a matrix of its own
    too: cut `self.value_projection(value)`.""",
    steps(project=lambda self, q, k, v: (self.query_projection(q), self.key_projection(k), v)),
)

MultiHeadAttention.mistake(
    "one projection for several",
    """You use one projection for two or three of query, key and value. To look, to be found and to hand
    over are different things, and each has its own matrix: `query_projection`, `key_projection`,
    `value_projection`.""",
    steps(project=lambda self, q, k, v: tuple(map(self.query_projection, (q, k, v)))),
    steps(
        project=lambda self, q, k, v: (
            self.query_projection(q),
            self.query_projection(k),
            self.value_projection(v),
        )
    ),
    steps(
        project=lambda self, q, k, v: (
            self.query_projection(q),
            self.key_projection(k),
            self.key_projection(v),
        )
    ),
)

MultiHeadAttention.mistake(
    "value taken from the key",
    """You compute the values from `key`. In self-attention the two are the same tensor, so nobody would
    notice; the interface promises that they may differ. `self.value_projection(value)`.""",
    steps(project=lambda self, q, k, v: Steps.project(self, q, k, k)),
)

MultiHeadAttention.mistake(
    "everything taken from the query",
    """You project `query` three times and never look at `key` and `value`. That is self-attention only.
    Take keys from `key` and values from `value`: then the same module can also read another text.""",
    steps(project=lambda self, q, k, v: Steps.project(self, q, q, q)),
)

MultiHeadAttention.mistake(
    "no output projection",
    """You return the merged heads as they are. Each head can then write to its own slice of features
    only, and `output_projection` would never learn. Send the merged heads through it.""",
    steps(answer=lambda self, weights, values: (self.merge(weights @ values), weights)),
)

MultiHeadAttention.mistake(
    "a single head in a projection",
    """A projection gets single heads, d_head wide; all four want whole vectors, `d_model` wide. In front:
    project, then cut. At the end: merge with `transpose(1, 2).flatten(-2)`, then `output_projection`.""",
    steps(answer=lambda self, weights, values: (self.output_projection(weights @ values), weights)),
    steps(merge=lambda self, heads: heads.transpose(1, 2)),
    steps(
        project=lambda self, q, k, v: Steps.project(self, *(cut(x, self.n_heads) for x in (q, k, v))),
        split=lambda self, x: x,
    ),
)

MultiHeadAttention.mistake(
    "heads added up",
    """You add or average the heads, so what reaches `output_projection` is too narrow. Heads are written
    side by side: `transpose(1, 2).flatten(-2)`.""",
    steps(merge=lambda self, heads: heads.sum(1)),
    steps(merge=lambda self, heads: heads.mean(1)),
)

MultiHeadAttention.mistake(
    "softmax over the queries",
    """The columns of your weights sum to 1, where the rows should: softmax runs over the queries. Each
    query shares out a total of 1 among the keys, which are last: `dim=-1`.""",
    steps(weigh=lambda self, scores: scores.softmax(-2)),
)

MultiHeadAttention.mistake(
    "softmax over the heads",
    """`dim=1` is the heads: they compete for each pair of tokens. Heads are independent; it is the keys
    that share out a total of 1, `dim=-1`.""",
    steps(weigh=lambda self, scores: scores.softmax(1)),
)

MultiHeadAttention.mistake(
    "weights averaged over the heads",
    """The output is right, but you return the mean of the heads' weights, as `nn.MultiheadAttention` does
    unless told otherwise. In the mean no head can be read any more. Return all of them.""",
    steps(answer=lambda self, weights, values: (Steps.answer(self, weights, values)[0], weights.mean(1))),
)

MultiHeadAttention.mistake(
    "only the output",
    """The output is right and the weights are missing. Beware: whoever writes
    `output, weights = module(…)` with a batch of two then gets one text in each name, and no error.
    `return output, weights`.""",
    steps(answer=lambda self, weights, values: Steps.answer(self, weights, values)[0]),
)

MultiHeadAttention.mistake(
    "None for the weights",
    """The output is right, and the weights are `None`. The fused kernel never stores them. Write the steps
    out, with `softmax(dim=-1)`, and return what it gives.""",
    steps(answer=lambda self, weights, values: (Steps.answer(self, weights, values)[0], None)),
)

MultiHeadAttention.mistake(
    "results in the wrong order",
    """Both results are right, in the wrong order. Return the output first: `return output, weights`.""",
    steps(answer=lambda self, weights, values: Steps.answer(self, weights, values)[::-1]),
)

MultiHeadAttention.mistake(
    "scores returned as weights",
    """The output is right, but the second result holds the scores. Weights are what softmax makes of
    them: positive, each row sums to 1.""",
    steps(
        weigh=lambda self, scores: scores,
        answer=lambda self, s, v: (Steps.answer(self, s.softmax(-1), v)[0], s),
    ),
)

MultiHeadAttention.mistake(
    "query added to the output",
    """You add the input to the output. That residual belongs to the encoder layer, lesson 07, where it is
    added once; here it would be added twice. Return the projected heads only.""",
    type("Wrong", (Steps,), {"forward": lambda self, q, k, v: added(q, *Steps.forward(self, q, k, v))}),
)


def added(query, output, weights):
    """The output with a residual."""
    return query + output, weights


# ------------------------------------------------------------------------------------------------------ 05.6


@exercise(
    "05.6",
    "What do more heads cost?",
    returns=("split", "full_width"),
    hints=[
        """An `nn.Linear(a, b)` has a·b weights and b biases.""",
        """Split heads: four projections from d_model to d_model, however many heads there are. Does
        n_heads appear in the result at all?""",
        """Full width: each head has three projections from d_model to d_model. Side by side the heads are
        n_heads · d_model wide, and one last projection brings that back to d_model.""",
    ],
)
def parameters(d_model, n_heads):
    """Count weights and biases of multi-head attention, built in two ways; every projection has a bias.

    split: the usual way; the projections are d_model wide and are cut into heads
    full_width: every head has its own query, key and value projection, d_model to d_model;
        all heads side by side go through one output projection, back to d_model
    returns split, full_width: two ints
    """
    raise NotImplementedError


@parameters.cases
def parameters(normal):
    for d_model, n_heads in [(6, 2), (15, 3), (512, 8), (384, 12), (7, 1)]:
        yield {"d_model": d_model, "n_heads": n_heads}


@parameters.specification
def parameters(d_model, n_heads):
    def count(*layers):
        return sum(parameter.numel() for layer in layers for parameter in layer.parameters())

    with torch.device("meta"):
        square = nn.Linear(d_model, d_model)
        output = nn.Linear(n_heads * d_model, d_model)
    return count(square, square, square, square), count(*[square] * 3 * n_heads, output)


@parameters.solution
def parameters(d_model, n_heads):
    square = d_model * d_model + d_model  # one projection with its bias
    output = n_heads * d_model * d_model + d_model
    return 4 * square, 3 * n_heads * square + output


@parameters.alternative
def parameters(d, h):
    return [4 * d * (d + 1), 4 * h * d**2 + (3 * h + 1) * d]


parameters.mistake(
    "biases forgotten",
    """You count the weights and leave out the biases: each projection has one more number for every
    feature that comes out of it.""",
    lambda d, h: (4 * d * d, 4 * h * d * d),
)

parameters.mistake(
    "output projection forgotten",
    """You count query, key and value only. There is a fourth matrix, the output projection, which brings
    the heads together.""",
    lambda d, h: (3 * (d * d + d), 3 * h * (d * d + d)),
    lambda d, h: (3 * (d * d + d), 4 * h * d * d + (3 * h + 1) * d),
    lambda d, h: (4 * (d * d + d), 3 * h * (d * d + d)),
)

parameters.mistake(
    "split heads counted n_heads times",
    """You multiply the split count by n_heads. Split heads share the d_model features among them: each is
    d_model / n_heads wide, and n_heads cancels out.""",
    lambda d, h: (h * 4 * (d * d + d), 4 * h * d * d + (3 * h + 1) * d),
)

parameters.mistake(
    "an output projection for each head",
    """You give each head of full width an output projection with a bias of its own. There is one for all
    of them, from n_heads · d_model features to d_model: its bias is counted once.""",
    lambda d, h: (4 * (d * d + d), 4 * h * (d * d + d)),
)

parameters.mistake(
    "output projection of the usual size",
    """Your full-width output projection goes from d_model to d_model. The heads stand side by side, each
    d_model wide, so n_heads · d_model features go in.""",
    lambda d, h: (4 * (d * d + d), (3 * h + 1) * (d * d + d)),
)

parameters.mistake(
    "the expansion counted",
    """You count a `Linear` that first widens x for all heads, as some code has it. Here each head of full
    width reads x directly: three projections each, and one output projection for all.""",
    lambda d, h: (4 * (d * d + d), 5 * h * d * d + (4 * h + 1) * d),
)

parameters.mistake(
    "one bias number for each projection",
    """You give each projection a single number as its bias. A bias has one number for every feature that
    comes out: d_model of them.""",
    lambda d, h: (4 * (d * d + 1), 3 * h * (d * d + 1) + h * d * d + 1),
)

parameters.mistake(
    "one head only",
    """You divide the split count by n_heads: that is what one head has. The question is for all of them
    together.""",
    lambda d, h: (4 * (d * d + d) // h, 4 * h * d * d + (3 * h + 1) * d),
    lambda d, h: (4 * (d * d // h + d // h), 4 * h * d * d + (3 * h + 1) * d),
    lambda d, h: (3 * (d + 1) * (d // h) + d * d + d, 4 * h * d * d + (3 * h + 1) * d),
)

parameters.mistake(
    "results in the wrong order",
    """Both counts are right, in the wrong order: first the split heads, then those of full width.""",
    lambda d, h: (4 * h * d * d + (3 * h + 1) * d, 4 * (d * d + d)),
)


# ------------------------------------------------------------------------------------------------------ 05.7


@exercise(
    "05.7",
    "What does each head add?",
    hints=[
        """The merged heads are a row (head 0 | head 1 | …), and `nn.Linear` computes `row @ weight.mT`.
        So which *columns* of `weight` does head 0 meet?""",
        """Cut the columns of `weight` into heads: `weight.unflatten(1, (n_heads, d_head))`, and bring the
        heads to the front. Each head then has a matrix (d_model, d_head) of its own.""",
        """With `blocks` of shape (n_heads, d_model, d_head), the answer is `heads @ blocks.mT`: the heads
        stand in the same place on both sides.""",
    ],
)
def contributions(heads, weight):
    """What each head adds to the output: summed over the heads it is the merged heads @ weight.mT.

    heads: (batch, n_heads, position, d_head), before the merge
    weight: (d_model, d_model), the weight of the output projection, (features out, features in)
    returns (batch, n_heads, position, d_model)
    """
    raise NotImplementedError


@contributions.cases
def contributions(normal):
    yield {"heads": normal(5, 2, 7, 3), "weight": normal(6, 6)}
    yield {"heads": normal(2, 3, 5, 7), "weight": normal(21, 21)}
    by_hand = torch.tensor([2.0, 3.0]).view(1, 2, 1, 1)  # (10, 30) from head 0, (−3, 300) from head 1
    yield {"heads": by_hand, "weight": torch.tensor([[5.0, -1], [15, 100]])}


@contributions.specification
def contributions(heads, weight):
    batch, n_heads, length, d_head = heads.shape
    result = torch.zeros(batch, n_heads, length, len(weight))
    for b in range(batch):
        for head in range(n_heads):
            for position in range(length):
                for feature in range(d_head):
                    column = weight[:, head * d_head + feature]
                    result[b, head, position] += heads[b, head, position, feature] * column
    return result


@contributions.solution
def contributions(heads, weight):
    _, n_heads, _, d_head = heads.shape
    blocks = weight.unflatten(1, (n_heads, d_head)).transpose(0, 1)  # (n_heads, d_model, d_head)
    return heads @ blocks.mT  # (batch, n_heads, position, d_model)


@contributions.alternative
def contributions(heads, weight):
    each = []
    for head in range(heads.shape[1]):
        alone = torch.zeros_like(heads)
        alone[:, head] = heads[:, head]  # silence all others
        each.append(alone.transpose(1, 2).flatten(-2) @ weight.T)
    return torch.stack(each, dim=1)


contributions.mistake(
    "weight not transposed",
    """You use the rows of `weight` where its columns belong. `nn.Linear` stores (features out, features
    in) and multiplies by the transpose, so head 0 meets the first d_head columns:
    `weight.unflatten(1, …)`.""",
    lambda h, w: h @ w.unflatten(0, (h.shape[1], -1)),
)

contributions.mistake(
    "columns dealt out like cards",
    """You give head 0 the columns 0, n_heads, 2·n_heads, … Merged heads stand in blocks, so head 0 meets
    the first d_head columns: `weight.unflatten(1, (n_heads, d_head))`, heads first.""",
    lambda h, w: h @ w.unflatten(1, (-1, h.shape[1])).permute(2, 1, 0),
)

contributions.mistake(
    "blocks not transposed",
    """Your blocks have the shape (n_heads, d_model, d_head), and lie the wrong way for the product: the
    d_head features of a head must meet the d_head columns. `heads @ blocks.mT`.""",
    lambda h, w: h @ w.unflatten(1, (h.shape[1], -1)).transpose(0, 1),
)

contributions.mistake(
    "heads of the weight not in front",
    """`weight.unflatten(1, (n_heads, d_head))` has the shape (d_model, n_heads, d_head). The product
    multiplies the last two axes, and the heads stand among them: bring them to the front,
    `transpose(0, 1)`.""",
    lambda h, w: h @ w.unflatten(1, (h.shape[1], -1)).mT,
    lambda h, w: h @ w.unflatten(1, (h.shape[1], -1)),
)

contributions.mistake(
    "the whole weight for each head",
    """You multiply single heads, d_head wide, by the whole weight, which wants d_model features. Each
    head meets only its own d_head columns: cut them with `weight.unflatten(1, (n_heads, d_head))`.""",
    lambda h, w: h @ w.mT,
    lambda h, w: h @ w,
)


contributions.mistake(
    "one block for all heads",
    """You multiply every head by the same columns of `weight`, those of head 0. Each head has its own
    d_head columns; that is how the output projection can treat them differently.""",
    lambda h, w: h @ w[:, : h.shape[-1]].mT,
)

contributions.mistake(
    "added up already",
    """This is the sum over the heads, the output itself. Keep the heads apart on axis 1: the question is
    what each of them puts into that sum.""",
    lambda h, w: join(h) @ w.mT,
    lambda h, w: (h @ w.unflatten(1, (h.shape[1], -1)).transpose(0, 1).mT).sum(1),
)

contributions.mistake(
    "all but one head",
    """This is what is left when one head is silenced. Asked is what one head adds: the others are silent,
    and it alone speaks.""",
    lambda h, w: (join(h) @ w.mT)[:, None] - h @ w.unflatten(1, (h.shape[1], -1)).transpose(0, 1).mT,
)

contributions.mistake(
    "the length only",
    """You return the length of each vector, as the figure above does. Asked are the vectors themselves,
    d_model features each, so that they can be added up.""",
    lambda h, w: (h @ w.unflatten(1, (h.shape[1], -1)).transpose(0, 1).mT).norm(dim=-1),
)

contributions.mistake(
    "the output cut into heads",
    """You project the merged heads and cut the result. But each feature of the output is a mixture of all
    heads; its slices do not belong to heads any more. Cut the columns of `weight`, not the result.""",
    lambda h, w: cut(join(h) @ w.mT, h.shape[1]),
)

contributions.mistake(
    "a mean, not a sum",
    """You divide by the number of heads. The output projection adds the heads up, it does not average
    them: summed over the heads, your result is too small by n_heads.""",
    lambda h, w: h @ w.unflatten(1, (h.shape[1], -1)).transpose(0, 1).mT / h.shape[1],
)

contributions.mistake(
    "weight cut by one reshape",
    """You cut `weight` into blocks with one reshape and no transpose. That keeps the order of the numbers
    and mixes rows with columns. Cut the columns, `unflatten(1, (n_heads, d_head))`, then move the heads
    to the front.""",
    lambda h, w: h @ w.reshape(h.shape[1], len(w), -1).mT,
)
