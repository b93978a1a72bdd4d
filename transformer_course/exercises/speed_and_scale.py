"""Exercises of lesson 13."""

import math
import weakref
from typing import ClassVar

import torch

from transformer_course.checker import exercise

# ------------------------------------------------------------------------------------------------------ 13.1


@exercise(
    "13.1",
    "The bill of a layer",
    hints=[
        """How many products does one text meet in a layer? Go through the table, row by row: which of the
        products grow with n, and which with n · n?""",
        """Each projection takes 2 · n · d_model · d_model operations, and there are four. The scores of all
        heads together are as dear as those of one head that is d_model wide.""",
        """Scores and mixing take 2 · n · n · d_model each, up and down in the feed-forward
        2 · n · d_model · d_ff each. Add all of it up.""",
    ],
)
def layer_operations(n, d_model, d_ff):
    """Floating-point operations in the matrix products of one encoder layer, forward, on one text.

    n: how many tokens the text has; every token attends to every token
    d_model: the width of a token, and of all heads together
    d_ff: the width inside the feed-forward
    returns an integer; a multiplication with its addition counts as 2 operations, and norms, softmax,
        activation and biases do not count
    """
    raise NotImplementedError


@layer_operations.cases
def layer_operations(normal):
    yield {"n": 3, "d_model": 5, "d_ff": 7}
    yield {"n": 13, "d_model": 2, "d_ff": 11}
    yield {"n": 97, "d_model": 7, "d_ff": 3}
    yield {"n": 5, "d_model": 16, "d_ff": 64}
    yield {"n": 1, "d_model": 1, "d_ff": 1}  # 4 projections, scores, mixing, up, down: 2 each, 16 in all


@layer_operations.specification
def layer_operations(n, d_model, d_ff):
    operations = 0
    for _token in range(n):
        for _from in range(d_model):
            for _into in range(d_model):
                operations += 2 + 2 + 2 + 2  # query, key, value, output
            for _other in range(n):
                operations += 2  # score += query · key
                operations += 2  # output += weight · value
            for _hidden in range(d_ff):
                operations += 2  # up
                operations += 2  # down
    return operations


@layer_operations.solution
def layer_operations(n, d_model, d_ff):
    projections = 4 * 2 * n * d_model * d_model  # query, key, value, output
    scores = 2 * n * n * d_model
    mixing = 2 * n * n * d_model
    feed_forward = 2 * 2 * n * d_model * d_ff  # up, down
    return projections + scores + mixing + feed_forward


@layer_operations.alternative
def layer_operations(n, d_model, d_ff):
    return 4 * n * d_model * (2 * d_model + n + d_ff)


@layer_operations.alternative
def layer_operations(n, d_model, d_ff):
    maps = [(n, d_model, d_model)] * 4 + [(n, d_model, d_ff), (n, d_ff, d_model)]
    attention = [(n, d_model, n), (n, n, d_model)]
    return sum(2 * a * b * c for a, b, c in maps + attention)


# ------------------------------------------------------------------------------------------------------ 13.2


@exercise(
    "13.2",
    "Will it fit?",
    hints=[
        """How many numbers lie in memory for one single parameter, while Adam trains it? And which numbers
        are kept for the backward pass, whoever has the parameters?""",
        """For each parameter there are four numbers. Of all these, a worker holds its part: divide by
        `workers`. What it keeps of its own forward pass nobody else holds for it.""",
        """Count the numbers first, those that are shared and those that are not, and add them. Multiply the
        whole sum by 4 in the end: each of the numbers takes 4 bytes.""",
    ],
)
def training_bytes(n_parameters, n_activations, workers=1):
    """Bytes that each worker keeps while it trains with Adam, everything in float32 (4 bytes a number).

    n_parameters: parameters of the whole model. Each has a gradient and Adam's two means. Parameters,
        gradients and means are sharded: each worker holds an equal part of all four
    n_activations: numbers that one worker keeps for its backward pass; these are not sharded. What it
        borrows for a moment is not counted
    workers: how many share; it divides n_parameters
    returns a number of bytes, for one worker
    """
    raise NotImplementedError


@training_bytes.cases
def training_bytes(normal):
    yield {"n_parameters": 5 * 11, "n_activations": 5 * 7, "workers": 5}
    yield {"n_parameters": 3 * 13, "n_activations": 3 * 101, "workers": 3}
    yield {"n_parameters": 17, "n_activations": 23}
    yield {"n_parameters": 2 * 19, "n_activations": 0, "workers": 2}
    yield {"n_parameters": 1, "n_activations": 1, "workers": 1}  # 4 + 1 numbers: 20 bytes


@training_bytes.specification
def training_bytes(n_parameters, n_activations, workers=1):
    memory = 0.0
    for parameter in range(n_parameters):
        if parameter % workers == 0:  # the first worker has this one, the next worker the next
            for _kept in ("parameter", "gradient", "mean of gradients", "mean of squares"):
                memory += 4
    for _activation in range(n_activations):
        memory += 4
    return memory


@training_bytes.solution
def training_bytes(n_parameters, n_activations, workers=1):
    gradients, means = n_parameters, 2 * n_parameters
    sharded = n_parameters + gradients + means
    return 4 * (sharded / workers + n_activations)  # a number in float32 has 4 bytes


@training_bytes.alternative
def training_bytes(n_parameters, n_activations, workers=1):
    return 16 * (n_parameters // workers) + 4 * n_activations


# ------------------------------------------------------------------------------------------------------ 13.3


@exercise(
    "13.3",
    "When does packing pay?",
    hints=[
        """Two bills, each for all the texts of the batch: what is computed if they are padded, and what if
        they are packed? Which length does each text have in the one, and which in the other?""",
        """`layer_operations(n, d_model, d_ff)` is the bill of one text. Padded, every text has
        `max(lengths)` tokens. Packed, each text has its own bill: nobody attends beyond it.""",
    ],
)
def share_left(lengths, d_model, d_ff):
    """The share of a layer's operations that is left if a batch is packed and not padded.

    lengths: a list, the number of real tokens of each text in the batch
    d_model, d_ff: the widths of the layer; operations are counted as in 13.1
    padded: every text is as long as the longest one, and all its tokens are computed
    packed: only real tokens are computed, and each attends to the tokens of its own text
    returns operations packed / operations padded; 1 if nothing is saved
    """
    raise NotImplementedError


@share_left.cases
def share_left(normal):
    yield {"lengths": [3, 11, 7], "d_model": 5, "d_ff": 13}
    yield {"lengths": [2, 2, 31, 5, 17], "d_model": 3, "d_ff": 7}
    yield {"lengths": [19, 1], "d_model": 23, "d_ff": 2}
    yield {"lengths": [7, 7, 7], "d_model": 2, "d_ff": 5}  # nothing to save: 1
    yield {"lengths": [13], "d_model": 3, "d_ff": 11}  # a batch of one: 1
    yield {"lengths": [1, 2], "d_model": 1, "d_ff": 1}  # bills 16 and 40; (16 + 40) / (40 + 40) = .7


@share_left.specification
def share_left(lengths, d_model, d_ff):
    of_token = 4 * d_model * d_model + 2 * d_model * d_ff  # multiply-adds in the maps
    of_pair = 2 * d_model  # and in scores and mixing
    packed = padded = 0
    for length in lengths:
        for token in range(max(lengths)):
            for other in range(max(lengths)):
                is_real = token < length and other < length
                packed += of_pair * is_real
                padded += of_pair
            packed += of_token * (token < length)
            padded += of_token
    return packed / padded


@share_left.solution
def share_left(lengths, d_model, d_ff):
    def bill(n):  # layer_operations(n, d_model, d_ff) does as well
        return 8 * n * d_model**2 + 4 * n**2 * d_model + 4 * n * d_model * d_ff

    packed = sum(bill(n) for n in lengths)
    padded = len(lengths) * bill(max(lengths))
    return packed / padded


@share_left.alternative
def share_left(lengths, d_model, d_ff):
    widths, longest = 2 * d_model + d_ff, max(lengths)
    shares = [n / longest * (widths + n) / (widths + longest) for n in lengths]
    return sum(shares) / len(shares)


# ------------------------------------------------------------------------------------------------------ 13.4


@exercise(
    "13.4",
    "The mean of all workers",
    gradients=True,
    hints=[
        """Two workers, three targets: one has the losses 3 and 6, the other has the loss 12. Which mean is
        wanted? And what is the average of the two workers' own means?""",
        """The mean of all is (everything added up) / total. Each worker can add up its own losses; which
        division is made later anyway, when the gradients are averaged?""",
        """Averaging divides by `n_workers`, too. Multiply by it beforehand, and the two cancel: what is left
        is the division by `total`.""",
    ],
)
def loss_to_hand_in(losses, total, n_workers):
    """The number whose gradient this worker computes, one of n_workers with a part of the batch each.

    Afterwards the workers' gradients are averaged: added up, and divided by n_workers. That must give
    the gradient of the mean loss of ALL targets, wherever they are.

    losses: (targets,), the cross-entropy of each target that this worker has; it may have none
    total: how many targets all workers have together, an integer; never 0
    n_workers: how many workers there are, this one included
    returns a single number, as a tensor of shape (), through which gradients flow to the losses; where
        there are none, too: `backward` is called on every worker
    """
    raise NotImplementedError


@loss_to_hand_in.cases
def loss_to_hand_in(normal):
    for targets, total, n_workers in [(7, 29, 3), (11, 13, 5), (1, 17, 2), (5, 5, 1), (0, 19, 7)]:
        yield {"losses": normal(targets).abs(), "total": total, "n_workers": n_workers}
    yield {"losses": torch.tensor([3.0, 6.0]), "total": 3, "n_workers": 2}  # by hand: 9 · 2 / 3 = 6


@loss_to_hand_in.specification
def loss_to_hand_in(losses, total, n_workers):
    handed_in = torch.tensor(0.0)
    for loss in losses:
        share_of_the_mean = loss / total
        handed_in = handed_in + share_of_the_mean
    return torch.stack([handed_in] * n_workers).sum()  # so that a division by n_workers leaves the share


@loss_to_hand_in.solution
def loss_to_hand_in(losses, total, n_workers):
    return losses.sum() * n_workers / total


@loss_to_hand_in.alternative
def loss_to_hand_in(losses, total, n_workers):
    targets_of_a_mean_worker = total / n_workers
    return (losses / targets_of_a_mean_worker).sum()


# ------------------------------------------------------------------------------------------------------ 13.5


KEYS, SIZE = 59, 5  # 12 blocks, the last one of 4


class Watched(torch.Tensor):
    """A tensor of 59 keys, or made of one, which notices scores of more than 5 keys, or all of them kept.

    Queries are 13, keys have 3 features, values 7: without an axis of 3 or 7 it is scores, or one number for
    each query, or for each query and block.
    """

    alive: ClassVar = weakref.WeakSet()  # those that are scores

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs)
        if not isinstance(result, cls) or {3, 7} & set(result.shape):
            return result
        if not result.ndim:
            return result.as_subclass(torch.Tensor)  # a number can then be formatted
        blocks = -(-KEYS // SIZE)
        widest = max((axis for axis in result.shape if axis <= KEYS and axis not in (13, blocks)), default=0)
        if widest == KEYS:
            raise MemoryError(f"a tensor has a score for each of the {KEYS} keys; only `size` may be read")
        if widest > SIZE:
            raise MemoryError(f"a tensor has the scores of {widest} keys at a time; `size` is {SIZE}")
        if widest > 1:
            cls.alive.add(result)
            if sum(each.numel() for each in cls.alive) >= 13 * KEYS:
                raise MemoryError("the scores of all blocks are kept, one block beside the other")
        return result


@exercise(
    "13.5",
    "Attention in blocks",
    without=("scaled_dot_product_attention",),
    hints=[
        """Exercise 03.6 did it for one query and one key at a time. Which three things went along from key to
        key? What shape have they for many queries?""",
        """Carry for each query its largest score so far (query_pos, 1), the sum of the exponentials
        (query_pos, 1), and the sum of the weighted values (query_pos, d_value). `key.split(size)` cuts the
        blocks, the last one smaller.""",
        """The new maximum is `torch.maximum(old, scores.amax(dim=-1, keepdim=True))`. Multiply both sums by
        exp(old − new) before you add what the block brings, and divide once, behind the loop.""",
    ],
)
def attention_in_blocks(query, key, value, size):
    """softmax(query keyᵀ / √d_head) value, with the keys read `size` at a time.

    Scores are there for `size` keys at a time, and no list keeps them: there may be too many for that.
    Without PyTorch's own scaled_dot_product_attention.

    query: (query_pos, d_head)
    key: (key_pos, d_head)
    value: (key_pos, d_value)
    size: how many keys and values are read at a time; the last block may be smaller
    returns (query_pos, d_value): what attention over all keys at once returns; scores may be very large
    """
    raise NotImplementedError


@attention_in_blocks.cases
def attention_in_blocks(normal):
    yield {"query": normal(5, 2), "key": normal(11, 2), "value": normal(11, 7), "size": 3}
    yield {"query": normal(5, 2), "key": normal(7, 2), "value": normal(7, 3), "size": 7}  # one block
    yield {"query": normal(1, 3), "key": normal(1, 3), "value": torch.tensor([[3.0, 5.0]]), "size": 2}
    values = torch.tensor([[1.0, 2], [3, 6], [5, 1]])  # equal scores: the mean, (3, 3), by hand
    yield {"query": torch.zeros(1, 2), "key": normal(3, 2), "value": values, "size": 2}
    rising = torch.arange(7.0).unsqueeze(1).expand(7, 2)  # scores rise from block to block, or fall
    both_ways = torch.tensor([[1000.0, 500.0], [-700.0, -900.0], [300.0, 200.0]])
    yield {"query": both_ways, "key": rising, "value": normal(7, 5), "size": 3}
    # Near 1000, near −1000 and near −100,000: each query on a level of its own, where every key counts.
    levels = torch.tensor([[400.0, 300.0], [-400.0, -300.0], [-4e4, -3e4]])
    yield {"query": levels, "key": 2 + normal(11, 2) / 1e4, "value": normal(11, 5), "size": 2}
    Watched.alive.clear()
    key = normal(KEYS, 3).as_subclass(Watched)
    yield {"query": normal(13, 3), "key": key, "value": normal(KEYS, 7), "size": SIZE}


@attention_in_blocks.specification
def attention_in_blocks(query, key, value, size):
    output = []
    for q in query.tolist():
        scores = [sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(len(q)) for k in key.tolist()]
        weights = [math.exp(score - max(scores)) for score in scores]
        mixture = [0.0] * value.shape[1]
        for weight, v in zip(weights, value.tolist(), strict=True):
            for feature in range(len(v)):
                mixture[feature] += weight / sum(weights) * v[feature]
        output.append(mixture)
    return torch.tensor(output)


@attention_in_blocks.solution
def attention_in_blocks(query, key, value, size):
    largest = query.new_full((len(query), 1), -math.inf)  # of each query, so far
    total, mixture = 0.0, 0.0
    for keys, values in zip(key.split(size), value.split(size), strict=True):
        scores = query @ keys.mT / math.sqrt(query.shape[-1])  # (query_pos, size)
        new_largest = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
        weights = torch.exp(scores - new_largest)
        correction = torch.exp(largest - new_largest)  # 1 where the maximum has not grown
        total = total * correction + weights.sum(dim=-1, keepdim=True)  # (query_pos, 1)
        mixture = mixture * correction + weights @ values  # (query_pos, d_value)
        largest = new_largest
    return mixture / total


@attention_in_blocks.alternative
def attention_in_blocks(q, k, v, n):
    """Of each block its own softmax, and the logarithm of its total, by which the blocks are mixed."""
    outputs, log_totals = [], []
    for start in range(0, len(k), n):
        scores = torch.einsum("id,jd->ij", q * q.size(-1) ** -0.5, k[start : start + n])
        outputs.append(scores.softmax(-1) @ v[start : start + n])
        log_totals.append(scores.logsumexp(-1))
    shares = torch.stack(log_totals).softmax(0)  # (blocks, query_pos)
    return (shares[..., None] * torch.stack(outputs)).sum(0)


@attention_in_blocks.alternative
def attention_in_blocks(query, key, value, size):
    """Once through the keys for the maximum, once more for the sums."""
    query = query / math.sqrt(query.shape[1])
    largest = torch.stack([(query @ keys.T).amax(1) for keys in key.split(size)]).amax(0)
    total, mixture = torch.zeros(len(query)), torch.zeros(len(query), value.shape[1])
    for start in range(0, len(key), size):
        exponentials = (query @ key[start : start + size].T - largest[:, None]).exp()
        total += exponentials.sum(1)
        mixture += exponentials @ value[start : start + size]
    return mixture / total[:, None]


# ------------------------------------------------------------------------------------------------------ 13.6


@exercise(
    "13.6",
    "Eight bits",
    returns=("whole", "scale"),
    any_integer=False,  # that it is int8, is the point
    hints=[
        """By what must the row (2, −254, 63) be divided, so that its numbers just fit between −127 and 127?
        What becomes of them?""",
        """`amax(dim=-1, keepdim=True)` is the largest number of each row. But it is −254 that needs the most
        room: what belongs before?""",
        """`.to(torch.int8)` cuts off what stands behind the point: 1.9 becomes 1. Round first. And where the
        scale would be 0, let `torch.where` put a 1.""",
    ],
)
def in_eight_bits(weight):
    """Whole numbers from −127 to 127 and a scale for each row: whole * scale is nearly the weight.

    The scale of a row is its largest absolute value / 127; a row of zeros has the scale 1.

    weight: (d_out, d_in)
    returns whole (d_out, d_in), rounded to the nearest, of dtype torch.int8: one byte a number;
        and scale (d_out, 1), of the weight's dtype
    """
    raise NotImplementedError


@in_eight_bits.cases
def in_eight_bits(normal):
    yield {"weight": normal(3, 5)}
    yield {"weight": normal(5, 2) * torch.tensor([[1.0], [100], [0.01], [0], [3]])}  # rows on their levels
    yield {"weight": normal(7, 7)}  # a square: here a scale for each column does not raise
    yield {"weight": torch.tensor([[-3.0]])}  # a single number
    yield {"weight": torch.tensor([[2.0, -254.0, 63.0], [0.0, 127.0, -1.8]])}  # by hand: scales 2 and 1


@in_eight_bits.specification
def in_eight_bits(weight):
    whole, scale = [], []
    for row in weight.tolist():
        largest = max(max(number, -number) for number in row)
        scale.append([largest / 127 if largest > 0 else 1.0])
        whole.append([round(number / scale[-1][0]) for number in row])
    return torch.tensor(whole, dtype=torch.int8), torch.tensor(scale)


@in_eight_bits.solution
def in_eight_bits(weight):
    largest = weight.abs().amax(dim=-1, keepdim=True)  # (d_out, 1)
    scale = torch.where(largest > 0, largest / 127, 1.0)
    whole = torch.round(weight / scale).to(torch.int8)
    return whole, scale


@in_eight_bits.alternative
def in_eight_bits(weight):
    scale = torch.linalg.vector_norm(weight, ord=math.inf, dim=1)[:, None] / 127
    scale[scale == 0] = 1
    return (weight / scale).add(0.5).floor().clamp(-127, 127).char(), scale
