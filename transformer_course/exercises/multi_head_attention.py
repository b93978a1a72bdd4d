"""Exercises of lesson 05."""

import math

import torch
from torch import nn

from transformer_course.checker import exercise, value_exercise
from transformer_course.checker.shared_modules import Projections
from transformer_course.exercises import scaled_dot_product_attention

# ------------------------------------------------------------------------------------------------------ 05.1


@exercise(
    "05.1",
    "Set several heads side by side",
    difficulty=2,
    returns=("output", "weights"),
    hints=[
        """How wide is one head? Together they have d_model features, so each has `d_model // n_heads`. Make
        n_heads of them, each by a call of its own: `Head(d_model, …)`.""",
        """In `forward` loop over `self.heads`. All of them get the same x, and each returns a pair: keep the
        outputs in one list and the weights in another.""",
        """`torch.cat(…, dim=-1)` sets the outputs side by side; that goes through the output projection.
        `torch.stack(…, dim=1)` makes one tensor of the weights, with a new axis 1 for the heads.""",
    ],
)
class HeadsSideBySide(nn.Module):
    """n_heads heads of d_head features each: n_heads · d_head = d_model."""

    def __init__(self, d_model, n_heads, Head):
        super().__init__()
        # Head: the class SelfAttention of 03.4
        # self.heads: an nn.ModuleList of n_heads heads
        # self.output_projection: a Linear layer, from d_model features to d_model
        raise NotImplementedError

    def forward(self, x):
        """x (batch, position, d_model).

        Returns output (batch, position, d_model), weights (batch, n_heads, position, position).
        """
        raise NotImplementedError


class BuildHead:
    """Stands in for the class, under its short name."""

    def __call__(self, d_model, d_head):
        return scaled_dot_product_attention.SelfAttention(d_model, d_head)

    def __repr__(self):
        return "SelfAttention"


@HeadsSideBySide.cases
def HeadsSideBySide(normal):
    for d_model, n_heads, *sizes in ((6, 2, 5, 7), (15, 3, 2, 5), (6, 3, 5, 5), (2, 1, 1, 1)):
        settings = {"d_model": d_model, "n_heads": n_heads, "Head": BuildHead()}
        yield settings, {"x": normal(*sizes, d_model)}


@HeadsSideBySide.specification
class HeadsSideBySide(nn.Module):
    def __init__(self, d_model, n_heads, Head):
        super().__init__()
        self.heads = nn.ModuleList()
        for _ in range(n_heads):
            self.heads.append(Head(d_model, d_model // n_heads))
        self.output_projection = nn.Linear(d_model, d_model)

    def forward(self, x):
        batch, length, d_model = x.shape
        joined = torch.zeros(batch, length, d_model)
        weights = torch.zeros(batch, len(self.heads), length, length)
        d_head = d_model // len(self.heads)
        for b in range(batch):
            for i in range(len(self.heads)):
                mixed, shares = self.heads[i](x[b])
                for position in range(length):
                    for feature in range(d_head):
                        joined[b, position, i * d_head + feature] = mixed[position, feature]
                    for key in range(length):
                        weights[b, i, position, key] = shares[position, key]
        return self.output_projection(joined), weights


@HeadsSideBySide.solution
class HeadsSideBySide(nn.Module):
    def __init__(self, d_model, n_heads, Head):
        super().__init__()
        d_head = d_model // n_heads
        self.heads = nn.ModuleList([Head(d_model, d_head) for _ in range(n_heads)])
        self.output_projection = nn.Linear(d_model, d_model)

    def forward(self, x):
        outputs, maps = [], []
        for head in self.heads:
            output, weights = head(x)  # (batch, position, d_head), (batch, position, position)
            outputs.append(output)
            maps.append(weights)
        joined = torch.cat(outputs, dim=-1)  # (batch, position, d_model)
        return self.output_projection(joined), torch.stack(maps, dim=1)


@HeadsSideBySide.alternative
class HeadsSideBySide(nn.Module):
    def __init__(self, width, count, kind):
        super().__init__()
        self.output_projection = nn.Linear(width, width)
        self.heads = nn.ModuleList()
        while len(self.heads) < count:
            self.heads.append(kind(width, width // count))

    def forward(self, tokens):
        pairs = [head(tokens) for head in self.heads]
        columns = self.output_projection.weight.chunk(len(self.heads), dim=1)  # each head's own
        parts = [mixed @ each.mT for (mixed, _), each in zip(pairs, columns, strict=True)]
        maps = torch.cat([weights[:, None] for _, weights in pairs], dim=1)
        return sum(parts) + self.output_projection.bias, maps


# ------------------------------------------------------------------------------------------------------ 05.2


@exercise(
    "05.2",
    "Cut the features into heads",
    difficulty=1,
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


# ------------------------------------------------------------------------------------------------------ 05.3


@exercise(
    "05.3",
    "Put the heads together again",
    difficulty=1,
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


# ------------------------------------------------------------------------------------------------------ 05.4


@exercise(
    "05.4",
    "Write multi-head attention",
    difficulty=2,
    returns=("output", "weights"),
    keyword_arguments=("may_attend",),
    hints=[
        """Five steps: project each of the three, cut each into heads, attend in every head at once,
        merge, project once more. You have written all five before, in lessons 03 and 04, and above.""",
        """`unflatten(-1, (self.n_heads, -1)).transpose(1, 2)` cuts. Scores and weights need no loop over
        the heads: `@`, `.mT` and `softmax(dim=-1)` leave the axes in front alone.""",
        """A score sums over the features of one head, so divide by `math.sqrt(self.d_head)`. If there is a
        mask, hidden scores become −∞ before the softmax, as in 04.3. At the end
        `transpose(1, 2).flatten(-2)`, and then `self.output_projection`.""",
    ],
)
class MultiHeadAttention(nn.Module):
    """query (batch, query_pos, d_model), key and value (batch, key_pos, d_model)."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.d_head = n_heads, d_model // n_heads
        # query_projection, key_projection, value_projection, output_projection: a file has these names
        raise NotImplementedError

    def forward(self, query, key=None, value=None, may_attend=None):
        """may_attend: True for a permitted pair, broadcasts to the weights; leaves each query some key.

        Returns output (batch, query_pos, d_model), weights (batch, n_heads, query_pos, key_pos).
        """
        key = query if key is None else key  # self-attention
        value = key if value is None else value
        raise NotImplementedError


@MultiHeadAttention.cases
def MultiHeadAttention(normal):
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


@MultiHeadAttention.specification
class MultiHeadAttention(Projections):
    def forward(self, query, key=None, value=None, may_attend=None):
        key = query if key is None else key
        value = key if value is None else value
        allowed = torch.tensor(True) if may_attend is None else may_attend
        allowed = allowed.expand(len(query), self.n_heads, query.shape[1], key.shape[1])
        each = [self.one_text(*text) for text in zip(query, key, value, allowed, strict=True)]
        return tuple(torch.stack(results) for results in zip(*each, strict=True))

    def one_text(self, query, key, value, allowed):
        queries, keys = self.query_projection(query), self.key_projection(key)
        values = self.value_projection(value)
        mixed = torch.zeros(query.shape)
        weights = torch.zeros(self.n_heads, len(query), len(key))
        for head in range(self.n_heads):
            features = range(head * self.d_head, (head + 1) * self.d_head)
            for i in range(len(query)):
                seen = [j for j in range(len(key)) if allowed[head, i, j]]
                scores = [sum(queries[i, f] * keys[j, f] for f in features) for j in seen]
                scores = [score / math.sqrt(self.d_head) for score in scores]
                exponentials = [torch.exp(score - max(scores)) for score in scores]
                for j, exponential in zip(seen, exponentials, strict=True):
                    weights[head, i, j] = weight = exponential / sum(exponentials)
                    for f in features:
                        mixed[i, f] += weight * values[j, f]
        return self.output_projection(mixed), weights


def solution():
    """In a function: `inspect` finds the first class of a name in a module, and that is the stub."""

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

        def forward(self, query, key=None, value=None, may_attend=None):
            key = query if key is None else key  # self-attention
            value = key if value is None else value
            queries = self.split(self.query_projection(query))
            keys = self.split(self.key_projection(key))
            values = self.split(self.value_projection(value))
            scores = queries @ keys.mT / math.sqrt(self.d_head)
            if may_attend is not None:
                scores = scores.masked_fill(~may_attend, -math.inf)
            weights = scores.softmax(dim=-1)
            heads = weights @ values  # (batch, n_heads, query_pos, d_head)
            return self.output_projection(heads.transpose(1, 2).flatten(-2)), weights

    return MultiHeadAttention


MultiHeadAttention.solution(solution())


@MultiHeadAttention.alternative
class MultiHeadAttention(Projections):
    def forward(self, q, k=None, v=None, may_attend=None):
        k = q if k is None else k
        v = k if v is None else v
        chunks = [
            projection(x).chunk(self.n_heads, dim=-1)
            for projection, x in [
                (self.query_projection, q),
                (self.key_projection, k),
                (self.value_projection, v),
            ]
        ]
        hidden = torch.zeros(len(q), self.n_heads, q.shape[1], k.shape[1])
        if may_attend is not None:
            hidden = hidden.masked_fill(~may_attend, -torch.inf)
        outputs, maps = [], []
        for q_head, k_head, v_head, bias in zip(*chunks, hidden.unbind(1), strict=True):
            weights = torch.softmax(torch.bmm(q_head, k_head.mT) * self.d_head**-0.5 + bias, dim=2)
            outputs.append(torch.bmm(weights, v_head))
            maps.append(weights)
        return self.output_projection(torch.cat(outputs, dim=-1)), torch.stack(maps, dim=1)


# ------------------------------------------------------------------------------------------------------ 05.5

interface = value_exercise(
    "05.5",
    "The interface of multi-head attention",
    difficulty=1,
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


# ------------------------------------------------------------------------------------------------------ 05.6


@exercise(
    "05.6",
    "What do more heads cost?",
    difficulty=1,
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


# ------------------------------------------------------------------------------------------------------ 05.7


@exercise(
    "05.7",
    "What does each head add? (stretch)",
    difficulty=3,
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
