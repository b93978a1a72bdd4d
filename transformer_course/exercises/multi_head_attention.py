"""Exercises of lesson 05."""

import math

import torch
from torch import nn

from transformer_course.checker import exercise
from transformer_course.checker.exercise_types import ValueExercise
from transformer_course.exercises import scaled_dot_product_attention


@exercise("05.1", difficulty=2, returns=("output", "weights"))
class HeadsSideBySide(nn.Module):
    """Multi-head attention as a loop over n_heads heads of d_head features: n_heads × d_head = d_model."""

    def __init__(self, d_model, n_heads, Head):
        super().__init__()
        # yours:
        # Head: the class SelfAttention from 03.4
        # self.heads: an nn.ModuleList of n_heads heads
        # self.output_projection: a Linear layer from d_model features to d_model
        d_head = d_model // n_heads
        self.heads = nn.ModuleList([Head(d_model, d_head) for _ in range(n_heads)])
        self.output_projection = nn.Linear(d_model, d_model)

    def forward(self, x):
        """x: (batch, position, d_model).

        Returns output (batch, position, d_model), weights (batch, n_heads, position, position).
        """
        outputs, maps = [], []
        for head in self.heads:
            output, weights = head(x)  # (batch, position, d_head), (batch, position, position)
            outputs.append(output)
            maps.append(weights)
        joined = torch.cat(outputs, dim=-1)  # (batch, position, d_model)
        return self.output_projection(joined), torch.stack(maps, dim=1)


class BuildHead:
    """Stands in for the class, under its short name."""

    def __call__(self, d_model, d_head):
        return scaled_dot_product_attention.SelfAttention(d_model, d_head)

    def __repr__(self):
        return "SelfAttention"


@HeadsSideBySide.cases
def heads_side_by_side_cases(normal):
    for d_model, n_heads, *sizes in ((6, 2, 5, 7), (15, 3, 2, 5), (6, 3, 5, 5), (2, 1, 1, 1)):
        settings = {"d_model": d_model, "n_heads": n_heads, "Head": BuildHead()}
        yield settings, {"x": normal(*sizes, d_model)}


@exercise("05.2", difficulty=1)
def split_heads(x, n_heads):
    """Split the features: head 0 gets the first d_head of every token, head 1 the next d_head, and so on.

    x: (batch, position, d_model), where d_model = n_heads × d_head
    returns (batch, n_heads, position, d_head)
    """
    cut = x.unflatten(-1, (n_heads, -1))  # (batch, position, n_heads, d_head)
    return cut.transpose(1, 2)


@split_heads.cases
def split_heads_cases(normal):
    yield {"x": normal(5, 7, 6), "n_heads": 2}
    yield {"x": normal(2, 5, 21), "n_heads": 3}
    yield {"x": normal(2, 3, 15), "n_heads": 3}  # as many positions as heads: a missing transpose fits
    yield {"x": torch.tensor([[[1.0, 2, 3, 4]]]), "n_heads": 2}  # one token of one text


@exercise("05.3", difficulty=1)
def merge_heads(heads):
    """Concatenate the outputs of all heads for each token: the inverse of split_heads.

    heads: (batch, n_heads, position, d_head)
    returns (batch, position, d_model), where d_model = n_heads × d_head
    """
    return heads.transpose(1, 2).flatten(-2)


@merge_heads.cases
def merge_heads_cases(normal):
    yield {"heads": normal(5, 2, 7, 3)}
    yield {"heads": normal(2, 3, 5, 7)}
    yield {"heads": normal(3, 5, 5, 2)}  # as many positions as heads
    yield {"heads": torch.tensor([1.0, 2, 3, 4]).view(1, 2, 1, 2)}  # one token of one text


@exercise("05.4", difficulty=2, returns=("output", "weights"), keyword_arguments=("may_attend",))
class MultiHeadAttention(nn.Module):
    """Multi-head attention: query (batch, query_pos, d_model), key, value (batch, key_pos, d_model)."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        # yours:
        # four Linear layers with exactly these names, which the saved weights have:
        # query_projection, key_projection, value_projection, output_projection
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.output_projection = nn.Linear(d_model, d_model)

    # yours:
    def split(self, x):
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, query, key=None, value=None, may_attend=None):
        """may_attend: True where a query may attend to a key; broadcasts to the weights.

        Every query may attend to at least one key.
        Returns output (batch, query_pos, d_model), weights (batch, n_heads, query_pos, key_pos).
        """
        key = query if key is None else key  # self-attention
        value = key if value is None else value
        # yours:
        queries = self.split(self.query_projection(query))
        keys = self.split(self.key_projection(key))
        values = self.split(self.value_projection(value))
        scores = queries @ keys.mT / math.sqrt(self.d_head)
        if may_attend is not None:
            scores = scores.masked_fill(~may_attend, -math.inf)
        weights = scores.softmax(dim=-1)
        heads = weights @ values  # (batch, n_heads, query_pos, d_head)
        return self.output_projection(heads.transpose(1, 2).flatten(-2)), weights


@MultiHeadAttention.cases
def multi_head_attention_cases(normal):
    def inputs(batch, queries, keys, d_model):
        return {
            "query": normal(batch, queries, d_model),
            "key": normal(batch, keys, d_model),
            "value": normal(batch, keys, d_model),
        }

    # The first has as many keys as queries, as in self-attention: numbers to compare, no error.
    for d_model, n_heads, *sizes in ((6, 3, 2, 5, 5), (6, 2, 5, 3, 7), (15, 3, 2, 7, 11), (2, 1, 1, 1, 1)):
        yield {"d_model": d_model, "n_heads": n_heads}, inputs(*sizes, d_model)
    padding = (torch.arange(5) < torch.tensor([5, 3])[:, None])[:, None, None]  # (batch, 1, 1, key_pos)
    yield {"d_model": 6, "n_heads": 2}, {"query": normal(2, 5, 6), "may_attend": padding}
    per_head = (normal(1, 3, 7, 7) > 0) | torch.eye(7, dtype=torch.bool)  # each query sees at least itself
    yield {"d_model": 15, "n_heads": 3}, inputs(2, 7, 7, 15) | {"may_attend": per_head}
    # Scores below −100, none of which overflows: only −∞ is low enough.
    one_key = padding & (torch.arange(5) < torch.tensor([5, 1])[:, None, None, None])
    yield {"d_model": 6, "n_heads": 2}, {"query": 30 * normal(2, 5, 6), "may_attend": one_key}


@exercise(
    "05.5",
    kind=ValueExercise,
    stub="""axes = role = ...  # in every line below, replace both by a string
interface = {
    "query": (axes, role),
    "key": (axes, role),
    "value": (axes, role),
    "may_attend": (axes, role),
    "output": (axes, role),
    "weights": (axes, role),
}""",
)
def interface():
    return {
        "query": ("batch query_pos d_model", "asks"),
        "key": ("batch key_pos d_model", "is compared"),
        "value": ("batch key_pos d_model", "is taken"),
        "may_attend": ("batch n_heads query_pos key_pos", "permits"),
        "output": ("batch query_pos d_model", "mixture"),
        "weights": ("batch n_heads query_pos key_pos", "shares"),
    }


@exercise("05.6", difficulty=1, returns=("split", "full_width"))
def parameters(d_model, n_heads):
    """Number of parameters of multi-head attention in two designs; every projection has a bias.

    split: the usual design; the projections are d_model wide and are split into heads
    full_width: every head has its own query, key and value projections, from d_model to d_model;
        all heads are concatenated and go through one output projection, back to d_model
    returns split, full_width: two ints
    """
    square = d_model * d_model + d_model  # one projection with its bias
    output = n_heads * d_model * d_model + d_model
    return 4 * square, 3 * n_heads * square + output


@parameters.cases
def parameters_cases(normal):
    for d_model, n_heads in [(6, 2), (15, 3), (512, 8), (384, 12), (7, 1)]:
        yield {"d_model": d_model, "n_heads": n_heads}


@exercise("05.7", difficulty=3)
def contributions(heads, weight):
    """What each head adds to the output: the sum over the heads is the merged heads @ weight.mT.

    heads: (batch, n_heads, position, d_head), the outputs of the heads before the merge
    weight: (d_model, d_model), the weight of the output projection, as (features out, features in)
    returns (batch, n_heads, position, d_model)
    """
    _, n_heads, _, d_head = heads.shape
    blocks = weight.unflatten(1, (n_heads, d_head)).transpose(0, 1)  # (n_heads, d_model, d_head)
    return heads @ blocks.mT  # (batch, n_heads, position, d_model)


@contributions.cases
def contributions_cases(normal):
    yield {"heads": normal(5, 2, 7, 3), "weight": normal(6, 6)}
    yield {"heads": normal(2, 3, 5, 7), "weight": normal(21, 21)}
    by_hand = torch.tensor([2.0, 3.0]).view(1, 2, 1, 1)  # (10, 30) from head 0, (−3, 300) from head 1
    yield {"heads": by_hand, "weight": torch.tensor([[5.0, -1], [15, 100]])}
