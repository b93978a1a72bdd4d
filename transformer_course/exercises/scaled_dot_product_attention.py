"""Exercises of lesson 03."""

import math
import weakref
from typing import ClassVar

import torch
from torch import nn

from transformer_course.checker import exercise
from transformer_course.checker.compare import Difference
from transformer_course.checker.exercise_types import FunctionExercise


@exercise("03.1")
def scaled_scores(query, key):
    """Return the scaled scores: how well each query matches each key.

    query: (query_pos, d_head)
    key: (key_pos, d_head)
    returns (query_pos, key_pos): entry [i, j] is the dot product of query i and key j, divided by √d_head
    """
    d_head = query.shape[-1]
    return query @ key.mT / math.sqrt(d_head)  # (query_pos, key_pos)


@scaled_scores.cases
def scaled_scores_cases(normal):
    yield {"query": normal(3, 5), "key": normal(7, 5)}
    yield {"query": normal(11, 2), "key": normal(5, 2)}
    by_hand = torch.tensor([[1.0, 1, 1, 1], [2, 0, 0, -2]])  # scores 5 and −3
    yield {"query": torch.tensor([[1.0, 2, 3, 4]]), "key": by_hand}


@exercise(
    "03.2",
    difficulty=2,
    returns=("output", "weights"),
    forbidden=("scaled_dot_product_attention", "transformer_lab"),
    gradients=True,
)
def attention(query, key, value):
    """Return softmax(query keyᵀ / √d_head) value, and the weights; any axes may come before the last two.

    query: (..., query_pos, d_head)
    key: (..., key_pos, d_head)
    value: (..., key_pos, d_value)
    returns output (..., query_pos, d_value) and weights (..., query_pos, key_pos)
    Write it yourself, without `transformer_lab` or `F.scaled_dot_product_attention`;
    gradients must flow back to query, key and value.
    """
    d_head = query.shape[-1]
    scaled = query @ key.mT / math.sqrt(d_head)  # (..., query_pos, key_pos)
    weights = scaled.softmax(dim=-1)
    output = weights @ value  # (..., query_pos, d_value)
    return output, weights


@attention.cases
def attention_cases(normal):
    yield {"query": normal(3, 5), "key": normal(7, 5), "value": normal(7, 2)}
    yield {"query": normal(5, 2, 3), "key": normal(5, 11, 3), "value": normal(5, 11, 7)}
    yield {"query": normal(2, 3, 7, 5), "key": normal(2, 3, 11, 5), "value": normal(2, 3, 11, 13)}
    values = torch.tensor([[1.0, 3], [5, 7]])  # one text, head and query; equal scores: the mean, by hand
    yield {"query": torch.zeros(1, 1, 1, 2), "key": normal(1, 1, 2, 2), "value": values[None, None]}


@exercise("03.3", difficulty=2, forbidden=("softmax", "log_softmax"))
def softmax(scores):
    """Return exp(scores) / Σ exp(scores) along the last axis, without overflow or torch's own softmax.

    scores: (..., key_pos), of any size: 1000 and −1000 are fine
    returns (..., key_pos): no weight is negative, and every row sums to 1
    """
    largest = scores.max(dim=-1, keepdim=True).values  # (..., 1)
    exponentials = torch.exp(scores - largest)  # at most exp(0) = 1
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


@softmax.cases
def softmax_cases(normal):
    yield {"scores": normal(3, 7)}
    yield {"scores": normal(5, 5)}  # a square: here a forgotten keepdim does not raise
    yield {"scores": normal(2, 3, 5)}
    yield {"scores": normal(3, 7) + torch.tensor([[1000.0], [0.0], [-1000.0]])}  # each row on its own level
    yield {"scores": 1000 * normal(2, 5)}  # far apart within a row
    yield {"scores": torch.tensor([0, math.log(3)]) - 1000}  # a single row, by hand: a quarter and three


@exercise(
    "03.4",
    difficulty=2,
    returns=("output", "weights"),
    forbidden=("scaled_dot_product_attention", "transformer_lab"),
)
class SelfAttention(nn.Module):
    """One head of self-attention: its queries, keys and values are all projections of x."""

    def __init__(self, d_model, d_head):
        super().__init__()
        # yours:
        # Name the layers self.query_projection, self.key_projection, self.value_projection, as in the file
        self.query_projection = nn.Linear(d_model, d_head)
        self.key_projection = nn.Linear(d_model, d_head)
        self.value_projection = nn.Linear(d_model, d_head)

    def forward(self, x):
        """Return output (..., position, d_head) and weights (..., position, position).

        x: (..., position, d_model)
        Write it yourself, without `transformer_lab` or `F.scaled_dot_product_attention`.
        """
        query, key = self.query_projection(x), self.key_projection(x)  # (..., position, d_head)
        return attention(query, key, self.value_projection(x))


@SelfAttention.cases
def self_attention_cases(normal):
    for d_model, d_head, *batch, positions in ((7, 3, 2, 5), (5, 5, 5), (3, 11, 2, 3, 7), (2, 1, 1, 1)):
        yield {"d_model": d_model, "d_head": d_head}, {"x": normal(*batch, positions, d_model)}


class HeatmapExercise(FunctionExercise):
    """The learner draws a heatmap. Compared is what a reader sees: the cells, the labels, the scale."""

    def use(self, ready, inputs):
        from matplotlib import pyplot as plt

        before = {*plt.get_fignums()}
        plt.figure()
        try:
            super().use(ready, inputs)
            drawn = [plt.figure(number) for number in plt.get_fignums() if number not in before]
            return next((read for figure in drawn for ax in figure.axes for read in read_heatmap(ax)), None)
        finally:
            for number in {*plt.get_fignums()} - before:  # else the notebook would show it below the verdict
                plt.close(number)

    def difference(self, i, result):
        if result is None:
            return Difference("nothing drawn", "Your code draws no heatmap; `sns.heatmap(…)` draws one.")
        return super().difference(i, result)


def read_heatmap(ax):
    """Yield what stands in each heatmap of a panel."""
    for drawn in (*ax.collections, *ax.images):
        if drawn.get_array() is not None and drawn.get_array().ndim == 2:
            ticks = {"rows": ax.get_yticklabels(), "columns": ax.get_xticklabels()}
            labels = {
                f"labels of the {name}": [tick.get_text() for tick in each] for name, each in ticks.items()
            }
            cells = torch.tensor(drawn.get_array().filled(math.nan).astype(float))
            yield {"cells": cells, **labels, "ends of the scale": tuple(map(float, drawn.get_clim()))}


@exercise("03.5", kind=HeatmapExercise)
def draw_map(weights, tokens):
    """Draw an attention map with seaborn; return nothing.

    weights: (query_pos, key_pos)
    tokens: a list of strings, the labels of the rows and of the columns
    The colour scale goes from 0 to 1, so that two attention maps can be compared.
    """
    import seaborn as sns

    sns.heatmap(weights, xticklabels=tokens, yticklabels=tokens, vmin=0, vmax=1, square=True)


@draw_map.cases
def draw_map_cases(normal):
    yield {"weights": normal(5, 5).softmax(-1), "tokens": ["the", "old", "cat", "met", "the"]}
    yield {"weights": torch.tensor([[0.75, 0.25], [0.5, 0.5]]), "tokens": ["a", "b"]}


@exercise("03.6", tolerance=1e-06)
def effective_tokens(weights):
    """Return exp(entropy) of each row: n equal weights count as n tokens, a single weight of 1 as one.

    weights: (..., query_pos, key_pos); each row sums to 1, and some weights may be exactly 0
    returns (..., query_pos)
    """
    entropy = -torch.special.xlogy(weights, weights).sum(dim=-1)  # (..., query_pos)
    return torch.exp(entropy)


@effective_tokens.cases
def effective_tokens_cases(normal):
    yield {"weights": normal(3, 7).softmax(-1)}
    yield {"weights": (2 * normal(1, 3, 5, 11)).softmax(-1)}
    yield {"weights": torch.tensor([[1.0, 0, 0, 0, 0], [0.2] * 5, [0.5, 0, 0.25, 0.25, 0]])}


@exercise("03.7")
def attention_flops(n_query, n_key, d_head, d_value):
    """Return the FLOPs of the two matrix products of attention; scaling and softmax do not count.

    query (n_query, d_head), key (n_key, d_head), value (n_key, d_value)
    returns an integer; a multiplication and an addition count as two operations
    """
    query_times_key = 2 * n_query * n_key * d_head
    weights_times_value = 2 * n_query * n_key * d_value
    return query_times_key + weights_times_value


@attention_flops.cases
def attention_flops_cases(normal):
    yield {"n_query": 3, "n_key": 5, "d_head": 7, "d_value": 11}
    yield {"n_query": 13, "n_key": 2, "d_head": 5, "d_value": 3}
    yield {"n_query": 128, "n_key": 128, "d_head": 32, "d_value": 32}
    yield {"n_query": 1, "n_key": 1, "d_head": 1, "d_value": 1}


class Passing(torch.Tensor):
    """A vector of a stream. What is computed from it is one again, so all that is kept can be counted."""

    made: ClassVar[list[weakref.ref]] = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs or {})
        if isinstance(result, cls):
            cls.made.append(weakref.ref(result))
        return result

    def __format__(self, form):  # printed as any other tensor is
        return format(self.as_subclass(torch.Tensor), form)

    def __repr__(self):
        return repr(self.as_subclass(torch.Tensor))

    @classmethod
    def numbers_kept(cls) -> int:
        cls.made = [each for each in cls.made if each() is not None]
        storages = [each().untyped_storage() for each in cls.made]
        # Views, and what is written in place again and again, are counted once.
        return sum({each.data_ptr(): each.nbytes() // 8 for each in storages}.values())


class Stream:
    """Hands out each (key, value) once, and notices when they, or copies of them, are kept."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor):
        self.pairs = list(zip(keys, values, strict=True))
        self.handed_out: list[tuple[weakref.ref, weakref.ref]] = []
        self.begun = False

    def __iter__(self):
        return self

    def __next__(self):
        if not self.begun:
            Passing.made, self.begun = [], True
        # A loop still holds one pair when it asks for the next, and may well take a few at a time.
        self.handed_out = [pair for pair in self.handed_out if any(vector() is not None for vector in pair)]
        if len(self.handed_out) > 70 or Passing.numbers_kept() > 400:
            raise MemoryError("seventy pairs of this stream are still in memory; it is too long to be stored")
        if not self.pairs:
            raise StopIteration
        key, value = (vector.clone().as_subclass(Passing) for vector in self.pairs.pop(0))
        self.handed_out.append((weakref.ref(key), weakref.ref(value)))
        return key, value

    def __repr__(self) -> str:
        return f"an iterator over {len(self.pairs)} pairs"


@exercise("03.8", difficulty=3)
def streaming_attention(query, pairs):
    """Return the attention output of one query over a stream of keys and values, too many to be stored.

    query: (d_head,)
    pairs: an iterator of (key, value), with shapes (d_head,) and (d_value,); scores may be very large
    returns the output (d_value,), the same as attention over all pairs at once
    """
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


@streaming_attention.cases
def streaming_attention_cases(normal):
    yield {"query": normal(5), "pairs": Stream(normal(7, 5), normal(7, 3))}
    yield {"query": normal(5), "pairs": Stream(normal(1, 5), torch.tensor([[1.0, 2, 3]]))}  # a single pair
    yield {"query": 100 * normal(3), "pairs": Stream(10 * normal(11, 3), normal(11, 2))}
    rising = torch.arange(7.0).unsqueeze(1).expand(7, 2)  # every key beats all that came before
    yield {"query": torch.tensor([300.0, 200.0]), "pairs": Stream(rising, normal(7, 5))}
    alike = 2 + normal(5, 2) / 1000  # all scores near 1000, and each of them counts
    yield {"query": torch.tensor([400.0, 300.0]), "pairs": Stream(alike, normal(5, 3))}
    yield {"query": normal(3), "pairs": Stream(normal(431, 3), normal(431, 2))}  # nor all scores
    # All scores near −100,000: a maximum that starts at 0 or at −1000 never comes down to them.
    yield {"query": torch.tensor([4e4, 3e4]), "pairs": Stream(-2 - normal(3, 2) / 1e5, normal(3, 2))}
