"""Exercises of lesson 03."""

import math
import weakref
from typing import ClassVar

import torch
from torch import nn

from transformer_course.checker import exercise
from transformer_course.checker.compare import Difference
from transformer_course.checker.exercise_types import FunctionExercise

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


# ------------------------------------------------------------------------------------------------------ 03.2


@exercise(
    "03.2",
    "Write scaled dot-product attention",
    difficulty=2,
    returns=("output", "weights"),
    forbidden=("scaled_dot_product_attention", "transformer_lab"),
    gradients=True,
    hints=[
        """Three lines do it: scaled scores, weights, output. You have the first already; let it work
        with axes for batch and heads in front, by counting axes from the end. `.T` turns all axes around,
        `.mT` only the last two.""",
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
    Write it yourself, without `transformer_lab` and `F.scaled_dot_product_attention`;
    gradients flow back to all three.
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


# ------------------------------------------------------------------------------------------------------ 03.3


@exercise(
    "03.3",
    "Write a softmax that does not overflow",
    difficulty=2,
    forbidden=("softmax", "log_softmax"),
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


# ------------------------------------------------------------------------------------------------------ 03.4


@exercise(
    "03.4",
    "Write one head of self-attention",
    difficulty=2,
    returns=("output", "weights"),
    forbidden=("scaled_dot_product_attention", "transformer_lab"),
    hints=[
        """In `__init__` make three `Linear` layers, each under the name that the comment gives it:
        `self.query_projection = nn.Linear(…, …)`, and so on. What goes in has d_model features, what comes
        out d_head.""",
        """In `forward` all three get the same x: that is what *self* means. You have written the rest
        in 03.2; call it.""",
    ],
)
class SelfAttention(nn.Module):
    """One head: each token of x asks, is asked, and hands over."""

    def __init__(self, d_model, d_head):
        super().__init__()
        # self.query_projection, self.key_projection, self.value_projection: a file has these names
        raise NotImplementedError

    def forward(self, x):
        """x (..., position, d_model). No transformer_lab, no F.scaled_dot_product_attention.

        Returns output (..., position, d_head) and weights (..., position, position).
        """
        raise NotImplementedError


@SelfAttention.cases
def SelfAttention(normal):
    for d_model, d_head, *batch, positions in ((7, 3, 2, 5), (5, 5, 5), (3, 11, 2, 3, 7), (2, 1, 1, 1)):
        yield {"d_model": d_model, "d_head": d_head}, {"x": normal(*batch, positions, d_model)}


@SelfAttention.specification
class SelfAttention(nn.Module):
    def __init__(self, d_model, d_head):
        super().__init__()
        for name in ("query", "key", "value"):
            self.add_module(f"{name}_projection", nn.Linear(d_model, d_head))

    def forward(self, x):
        return attention.specified(self.query_projection(x), self.key_projection(x), self.value_projection(x))


def solution():
    """In a function: `inspect` finds the first class of a name in a module, and that is the stub."""

    class SelfAttention(nn.Module):
        def __init__(self, d_model, d_head):
            super().__init__()
            self.query_projection = nn.Linear(d_model, d_head)
            self.key_projection = nn.Linear(d_model, d_head)
            self.value_projection = nn.Linear(d_model, d_head)

        def forward(self, x):
            query, key = self.query_projection(x), self.key_projection(x)  # (..., position, d_head)
            return attention(query, key, self.value_projection(x))

    return SelfAttention


SelfAttention.solution(solution())


def alternative():
    class SelfAttention(nn.Module):
        def __init__(self, d_model, d_head):
            super().__init__()
            self.query_projection, self.key_projection, self.value_projection = (
                nn.Linear(d_model, d_head) for _ in range(3)
            )

        def forward(self, tokens):
            q, k, v = (each(tokens) for each in self.children())
            weights = torch.einsum("...id,...jd->...ij", q * q.size(-1) ** -0.5, k).softmax(-1)
            return weights @ v, weights

    return SelfAttention


SelfAttention.alternative(alternative())


# ------------------------------------------------------------------------------------------------------ 03.5


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


@exercise(
    "03.5",
    "Draw an attention map",
    kind=HeatmapExercise,
    hints=[
        """`sns.heatmap` takes the matrix first: its row 0 is drawn on top. Rows are queries, and so they
        are in `weights` already.""",
        """The labels are `xticklabels=` for the columns and `yticklabels=` for the rows; both are `tokens`.
        The ends of the colour scale are `vmin=` and `vmax=`.""",
    ],
)
def draw_map(weights, tokens):
    """Draw an attention map with seaborn; return nothing.

    weights: (query_pos, key_pos)
    tokens: their names, a list; one for every row and one for every column
    The colours go from 0 to 1, so that two maps can be compared.
    """
    raise NotImplementedError


@draw_map.cases
def draw_map(normal):
    yield {"weights": normal(5, 5).softmax(-1), "tokens": ["the", "old", "cat", "met", "the"]}
    yield {"weights": torch.tensor([[0.75, 0.25], [0.5, 0.5]]), "tokens": ["a", "b"]}


@draw_map.specification
def draw_map(weights, tokens):
    from matplotlib import pyplot as plt

    plt.imshow(weights, vmin=0, vmax=1)
    plt.xticks(range(len(tokens)), tokens)
    plt.yticks(range(len(tokens)), tokens)


@draw_map.solution
def draw_map(weights, tokens):
    import seaborn as sns

    sns.heatmap(weights, xticklabels=tokens, yticklabels=tokens, vmin=0, vmax=1, square=True)


@draw_map.alternative
def draw_map(weights, tokens):
    from matplotlib import pyplot as plt

    _, ax = plt.subplots()
    ax.pcolormesh(weights, vmin=0.0, vmax=1.0)
    places = [place + 0.5 for place in range(len(tokens))]
    ax.set_xticks(places, tokens, rotation=90)
    ax.set_yticks(places, tokens)
    ax.invert_yaxis()
    return ax


# ------------------------------------------------------------------------------------------------------ 03.6


@exercise(
    "03.6",
    "Over how many tokens does a query spread its attention?",
    tolerance=1e-6,  # log(weights + 1e-9) is a fair way to keep log 0 out
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


# ------------------------------------------------------------------------------------------------------ 03.7


@exercise(
    "03.7",
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


# ------------------------------------------------------------------------------------------------------ 03.8


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

    def __iter__(self):
        return self

    def __next__(self):
        if not self.handed_out:
            Passing.made = []
        # A loop still holds one pair when it asks for the next, and may well take a few at a time.
        alive = sum(any(vector() is not None for vector in pair) for pair in self.handed_out)
        if alive > 20 or Passing.numbers_kept() > 120:
            raise MemoryError("twenty pairs of this stream are still in memory; it is too long to be stored")
        if not self.pairs:
            raise StopIteration
        key, value = (vector.clone().as_subclass(Passing) for vector in self.pairs.pop(0))
        self.handed_out.append((weakref.ref(key), weakref.ref(value)))
        return key, value

    def __repr__(self) -> str:
        return f"an iterator over {len(self.pairs)} pairs"


@exercise(
    "03.8",
    "Attention over a stream (stretch)",
    difficulty=3,
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
    yield {"query": normal(3), "pairs": Stream(normal(61, 3), normal(61, 2))}  # copies of all are too many
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
    key, value = next(pairs)
    largest, total, output = query @ key / math.sqrt(len(query)), torch.tensor(1.0), value.clone()
    for key, value in pairs:
        score = query @ key / math.sqrt(len(query))
        if score > largest:
            total *= torch.exp(largest - score)
            output *= torch.exp(largest - score)
            largest = score
        total += torch.exp(score - largest)
        output += torch.exp(score - largest) * value
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
