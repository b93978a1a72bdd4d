"""Exercises of lesson 13."""

import math
import weakref
from itertools import pairwise
from typing import ClassVar

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional as F

from transformer_course.checker import exercise
from transformer_course.checker.exercise_types import FunctionExercise


@exercise("13.1", difficulty=1)
def layer_operations(n, d_model, d_ff):
    """Return the FLOPs of all matrix products in the forward pass of one encoder layer, for one sequence.

    n: the sequence length; every token attends to every token
    d_model: the width of a token's vector, and of all heads together
    d_ff: the width inside the feed-forward network
    returns an integer; a multiplication and its addition count as 2 FLOPs. Layer norms, softmax,
        activation function and biases do not count
    """
    projections = 4 * 2 * n * d_model * d_model  # query, key, value, output
    scores = 2 * n * n * d_model
    mixing = 2 * n * n * d_model
    feed_forward = 2 * 2 * n * d_model * d_ff  # up, down
    return projections + scores + mixing + feed_forward


@layer_operations.cases
def layer_operations_cases(normal):
    yield {"n": 3, "d_model": 5, "d_ff": 7}
    yield {"n": 13, "d_model": 2, "d_ff": 11}
    yield {"n": 97, "d_model": 7, "d_ff": 3}
    yield {"n": 5, "d_model": 16, "d_ff": 64}
    yield {"n": 257, "d_model": 1024, "d_ff": 4096}  # above 2³¹, where int32 ends
    yield {"n": 1, "d_model": 1, "d_ff": 1}  # 4 projections, scores, mixing, up, down: 2 each, 16 in all


KEYS, SIZE = 59, 5  # 12 blocks, the last one of 4


class Watched(torch.Tensor):
    """A tensor of 59 keys, or made of one, that raises if scores of over 5 keys or of all blocks are kept.

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
            raise MemoryError(f"a tensor contains a score for each of the {KEYS} keys, but `size` is {SIZE}")
        if widest > SIZE:
            raise MemoryError(f"a tensor contains the scores of {widest} keys, but `size` is {SIZE}")
        if widest > 1:
            cls.alive.add(result)
            if sum(each.numel() for each in cls.alive) >= 13 * KEYS:
                raise MemoryError("the scores of all blocks are in memory at the same time")
        return result


@exercise("13.2", difficulty=3, forbidden=("scaled_dot_product_attention",))
def attention_in_blocks(query, key, value, size):
    """Return softmax(query keyᵀ / √d_head) value, reading only `size` keys at a time.

    Never hold the scores of more than `size` keys, and do not collect the scores of all blocks: for a
    long sequence, there may be too many. Do not call PyTorch's scaled_dot_product_attention.

    query: (query_pos, d_head)
    key: (key_pos, d_head)
    value: (key_pos, d_value)
    size: the number of keys and values in a block; the last block may be smaller
    returns (query_pos, d_value): exactly the output of attention over all keys; scores may be very large
    """
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


@attention_in_blocks.cases
def attention_in_blocks_cases(normal):
    yield {"query": normal(5, 2), "key": normal(11, 2), "value": normal(11, 7), "size": 3}
    yield {"query": normal(5, 2), "key": normal(7, 2), "value": normal(7, 3), "size": 7}  # one block
    yield {"query": normal(1, 3), "key": normal(1, 3), "value": torch.tensor([[3.0, 5.0]]), "size": 2}
    values = torch.tensor([[1.0, 2], [3, 6], [5, 1]])  # equal scores: the mean, (3, 3), by hand
    yield {"query": torch.zeros(1, 2), "key": normal(3, 2), "value": values, "size": 2}
    rising = torch.arange(7.0).unsqueeze(1).expand(7, 2)  # scores rise from block to block, or fall
    both_ways = torch.tensor([[1000.0, 500.0], [-700.0, -900.0], [300.0, 200.0]])
    yield {"query": both_ways, "key": rising, "value": normal(7, 5), "size": 3}
    # Near 1000, near −1000 and near −100,000: each query at its own level, where every key counts.
    levels = torch.tensor([[400.0, 300.0], [-400.0, -300.0], [-4e4, -3e4]])
    yield {"query": levels, "key": 2 + normal(11, 2) / 1e4, "value": normal(11, 5), "size": 2}
    Watched.alive.clear()
    key = normal(KEYS, 3).as_subclass(Watched)
    yield {"query": normal(13, 3), "key": key, "value": normal(KEYS, 7), "size": SIZE}


@exercise("13.3", difficulty=1, gradients=True)
def loss_to_hand_in(losses, total, n_workers):
    """Return the loss on which one of n_workers calls backward; each has its own part of the batch.

    Afterwards the workers' gradients are averaged: added up, and divided by n_workers. The average must
    be the gradient of the mean loss over ALL targets, however they are distributed.

    losses: (targets,), the cross-entropy of each target of this worker, which may have none
    total: the number of targets of all workers together, an integer; never 0
    n_workers: the number of workers
    returns a tensor of shape (), through which gradients flow to the losses, even if there are none
    """
    return losses.sum() * n_workers / total


@loss_to_hand_in.cases
def loss_to_hand_in_cases(normal):
    for targets, total, n_workers in [(7, 29, 3), (11, 13, 5), (1, 17, 2), (5, 5, 1), (0, 19, 7)]:
        yield {"losses": normal(targets).abs(), "total": total, "n_workers": n_workers}
    yield {"losses": torch.tensor([3.0, 6.0]), "total": 3, "n_workers": 2}  # by hand: 9 · 2 / 3 = 6


class Owned(torch.Tensor):
    """A tensor that belongs to one worker: combining it with another worker's raises."""

    worker: int | None = None

    def __repr__(self):
        return f"{self.numel()} values of worker {self.worker}"

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        workers = {each.worker for each in _tensors((args, kwargs)) if isinstance(each, cls)} - {None}
        if len(workers) > 1:
            first, second = sorted(workers)[:2]
            raise RuntimeError(
                f"tensors of worker {first} and worker {second} are combined, but neither was sent"
            )
        result = super().__torch_function__(function, types, args, kwargs or {})
        for each in _tensors(result):
            if isinstance(each, cls) and workers:
                each.worker = next(iter(workers))
        return result


def _tensors(things):
    if isinstance(things, torch.Tensor):
        yield things
    elif isinstance(things, tuple | list | dict):
        for each in things.values() if isinstance(things, dict) else things:
            yield from _tensors(each)


def owned(tensor, worker):
    """Return a copy of the tensor that belongs to one worker."""
    with torch._C.DisableTorchFunctionSubclass():
        result = tensor.detach().clone().as_subclass(Owned)
    result.worker = worker
    return result


def plain(tensor):
    """Return the tensor as an ordinary one, which belongs to no worker."""
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(torch.Tensor)


class Shown:
    """A function with a fixed name in the checker's messages."""

    def __init__(self, function, words):
        self.function, self.words = function, words

    def __call__(self, *arguments):
        return self.function(*arguments)

    def __repr__(self):
        return self.words


class Ring:
    """`pass_on` for n workers, which raises at anything that a ring all-reduce does not need."""

    def __init__(self, n_workers, numbers):
        self.n_workers, self.at_most, self.rounds = n_workers, numbers // n_workers, 0

    def __call__(self, sent):
        sent = list(sent)
        if len(sent) != self.n_workers:
            raise RuntimeError(
                f"{len(sent)} tensors are sent, expected one from each of {self.n_workers} workers"
            )
        longest = max(each.numel() for each in sent)
        if longest > self.at_most:
            raise RuntimeError(f"a worker sends {longest} values in a round, but a piece has {self.at_most}")
        self.rounds += 1
        if self.rounds > 2 * (self.n_workers - 1):
            raise RuntimeError(f"round {self.rounds}, but {2 * (self.n_workers - 1)} rounds are enough")
        for worker, each in enumerate(sent):
            if getattr(each, "worker", worker) != worker:
                raise RuntimeError(f"worker {worker} sends a tensor that belongs to worker {each.worker}")
        return [owned(sent[worker - 1], worker) for worker in range(self.n_workers)]

    def __repr__(self):
        return "pass_on"


class OfAll(FunctionExercise):
    """An exercise whose results are converted to ordinary tensors, which belong to no worker."""

    def use(self, ready, inputs):
        return _out_of_memory(super().use(ready, inputs))


def _out_of_memory(found):
    if isinstance(found, tuple | list):
        return type(found)(map(_out_of_memory, found))
    return plain(found) if isinstance(found, Owned) else found


@exercise("13.4", difficulty=3, kind=OfAll)
def all_reduce(gradients, pass_on):
    """Return the mean of all workers' gradients, once for each worker. Worker w sends only to w + 1.

    gradients: a list with one tensor (values,) for each of n workers; n divides the number of values. Do
        not change these tensors
    pass_on: a function; pass_on([sent by worker 0, sent by worker 1, …]) is one round. It returns the
        list of what each worker receives: worker w receives what w − 1 sent, and worker 0 what the last
        worker sent
    In each round, every worker sends one piece, an n-th of a gradient. There are 2 (n − 1) rounds in
    all. A worker may compute only with its own tensors and with those that it received.
    returns a list with a tensor (values,) for each worker
    """
    n = len(gradients)
    pieces = [list(each.chunk(n)) for each in gradients]  # pieces[worker][piece]
    for r in range(n - 1):  # first lap: every piece collects a sum
        received = pass_on([pieces[w][(w - r) % n] for w in range(n)])
        for w in range(n):
            pieces[w][(w - r - 1) % n] = pieces[w][(w - r - 1) % n] + received[w]
    for r in range(n - 1):  # second lap: the finished sums go round
        received = pass_on([pieces[w][(w + 1 - r) % n] for w in range(n)])
        for w in range(n):
            pieces[w][(w - r) % n] = received[w]
    return [torch.cat(each) / n for each in pieces]


@all_reduce.cases
def all_reduce_cases(normal):
    for n_workers, piece in ((3, 2), (5, 1), (2, 7), (4, 3), (1, 5)):
        numbers = n_workers * piece
        gradients = [owned(normal(numbers), worker) for worker in range(n_workers)]
        yield {"gradients": gradients, "pass_on": Ring(n_workers, numbers)}
    by_hand = torch.tensor([[3.0, 6, 9], [0, 3, 6], [6, 0, 3]])  # the means are 3, 3 and 6
    yield {"gradients": [owned(row, worker) for worker, row in enumerate(by_hand)], "pass_on": Ring(3, 3)}


class Halves:
    """Reduce-scatter and all-gather for n workers with a given number of values, each allowed once."""

    def __init__(self, n_workers, numbers):
        self.n_workers, self.numbers, self.used = n_workers, numbers, set()

    def _check(self, name, tensors, size):
        if name in self.used:
            raise RuntimeError(f"{name} was called twice, but a step needs it only once")
        self.used.add(name)
        if len(tensors) != self.n_workers:
            raise RuntimeError(f"{name} received {len(tensors)} tensors, expected {self.n_workers}")
        sizes = {each.numel() for each in tensors}
        if sizes != {size}:
            raise RuntimeError(f"{name} received {min(sizes - {size})} values from a worker, expected {size}")
        for worker, each in enumerate(tensors):
            if getattr(each, "worker", worker) != worker:
                raise RuntimeError(f"worker {worker} sends a tensor that belongs to worker {each.worker}")

    def reduce_scatter(self, gradients):
        self._check("reduce_scatter", gradients, self.numbers)
        mean = sum(map(plain, gradients)) / self.n_workers
        return [owned(part, worker) for worker, part in enumerate(mean.chunk(self.n_workers))]

    def all_gather(self, parts):
        self._check("all_gather", parts, self.numbers // self.n_workers)
        whole = torch.cat([plain(part) for part in parts])
        return [owned(whole, worker) for worker in range(self.n_workers)]


@exercise("13.5", difficulty=2, kind=OfAll, returns=("parameters", "means"))
def sharded_step(parameters, gradients, means, lr, beta, reduce_scatter, all_gather):
    """Take one step of gradient descent with momentum, whose state is sharded over n workers.

    The step itself: mean ← beta · mean + gradient; parameter ← parameter − lr · mean.

    parameters: a list with the same tensor (values,) for each worker: all parameters in a row
    gradients: a list with each worker's own gradient (values,); the step uses the mean of all of them
    means: a list with a tensor (values / n,) for each worker: the momentum of its own part only
    lr: the learning rate
    beta: the factor by which the old momentum fades
    reduce_scatter: a function of the gradients; returns a list, in which worker w gets part w of their
        mean
    all_gather: a function of one part from each worker; returns the whole tensor for each. Call both
        once
    returns the new parameters and the new momenta, as lists like the inputs; change nothing in place
    """
    n = len(parameters)
    received = reduce_scatter(gradients)  # for each worker, its part of the mean gradient
    means = [beta * means[w] + received[w] for w in range(n)]
    stepped = [parameters[w].chunk(n)[w] - lr * means[w] for w in range(n)]
    return all_gather(stepped), means


@sharded_step.cases
def sharded_step_cases(normal):
    for n_workers, part in ((3, 2), (2, 5), (5, 1), (1, 7)):
        numbers = n_workers * part
        whole, halves = normal(numbers), Halves(n_workers, numbers)
        yield {
            "parameters": [owned(whole, worker) for worker in range(n_workers)],
            "gradients": [owned(normal(numbers), worker) for worker in range(n_workers)],
            "means": [owned(normal(part), worker) for worker in range(n_workers)],
            "lr": 0.3,
            "beta": 0.7,
            "reduce_scatter": Shown(halves.reduce_scatter, "a function"),
            "all_gather": Shown(halves.all_gather, "a function"),
        }


@exercise("13.6", difficulty=2)
def training_bytes(layers, n_activations, workers=1):
    """Return the largest number of bytes that a worker holds while it trains with Adam, all in float32.

    layers: a list with the number of parameters of each layer. Each parameter has a gradient and Adam's
        two means. All four values are sharded: each worker keeps an equal part. While a layer runs,
        every worker also holds a whole copy of its parameters and, in the backward pass, its whole
        gradient; both are then dropped. One layer runs at a time. A single worker has everything already
    n_activations: the number of values that a worker keeps for its backward pass; these are not sharded
    workers: the number of workers; it divides the number of parameters of each layer
    returns the number of bytes for one worker; a float32 value has 4
    """
    kept = 4 * sum(layers) / workers  # parameter, gradient, two means
    borrowed = 2 * max(layers) if workers > 1 else 0  # of the layer at work: parameters, gradient
    return 4 * (kept + borrowed + n_activations)  # a number in float32 has 4 bytes


@training_bytes.cases
def training_bytes_cases(normal):
    yield {"layers": [5 * 11, 5 * 3, 5 * 7], "n_activations": 5 * 17, "workers": 5}
    yield {"layers": [3 * 2, 3 * 13], "n_activations": 3 * 101, "workers": 3}
    yield {"layers": [17, 19], "n_activations": 23}
    yield {"layers": [2 * 19], "n_activations": 0, "workers": 2}
    yield {"layers": [1], "n_activations": 1, "workers": 1}  # 4 + 1 numbers: 20 bytes
    yield {"layers": [2, 4], "n_activations": 1, "workers": 2}  # 4 · 6 / 2 + 2 · 4 + 1 numbers: 84 bytes


class Frugal(nn.Linear):
    """A layer that checks whether another layer's activations are still in memory.

    It checks the memory itself, and sets no hooks: PyTorch's own `checkpoint` works with hooks.
    """

    needed: ClassVar[list] = []  # layers, each with the memory of what its activation needs

    def plain(self, x):
        return F.silu(super().forward(x))

    def forward(self, x):
        before = super().forward(x)  # the backward pass of silu needs it
        if torch.is_grad_enabled():
            if any(layer is not self and not memory.expired() for layer, memory in self.needed):
                raise MemoryError("two layers keep their activations for the backward pass at the same time")
            self.needed.append((self, StorageWeakRef(before.untyped_storage())))
        return F.silu(before)

    def __repr__(self):
        return f"layer {self.in_features} → {self.out_features}"


class FillsGradients(FunctionExercise):
    """An exercise whose result includes the gradients in the layers' parameters."""

    def use(self, ready, inputs):
        Frugal.needed.clear()
        found = super().use(ready, inputs)
        if not isinstance(found, tuple | list):
            return found
        return *found, [each.grad for layer in inputs["layers"] for each in layer.parameters()]


@exercise(
    "13.7",
    difficulty=2,
    kind=FillsGradients,
    returns=("the loss", "the gradient of x", "the gradients in the layers"),
)
def backward_again(layers, x, loss_of):
    """Do what `loss.backward()` does, with the graph of one layer at a time (activation checkpointing).

    At no moment may more than one layer keep its activations for the backward pass; you may keep the
    input of every layer. (A graph drops its activations once `backward` has run through it.)

    layers: a list of modules without dropout; each receives the output of the one before
    x: the input of the first layer; do not change it
    loss_of: a function of the last output; returns the loss, a tensor of shape ()
    returns the loss and the gradient of x; each parameter's gradient must be in its .grad
    """
    inputs = [x]
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
    output = inputs.pop().requires_grad_()
    loss = loss_of(output)
    loss.backward()
    upstream = output.grad
    for layer in reversed(layers):  # each computed again, with a graph of its own
        start = inputs.pop().detach().requires_grad_()
        layer(start).backward(upstream)
        upstream = start.grad
    return loss, upstream


@backward_again.cases
def backward_again_cases(normal):
    def half_square(output):
        return (output * torch.arange(1.0, output.numel() + 1).view_as(output)).square().sum() / 2

    for widths in ((5, 7, 3, 2), (3, 3, 3, 3, 3), (2, 5)):
        layers = [Frugal(a, b) for a, b in pairwise(widths)]
        for parameter in (each for layer in layers for each in layer.parameters()):
            parameter.data = normal(*parameter.shape)
        yield {"layers": layers, "x": normal(2, widths[0]), "loss_of": Shown(half_square, "a function")}


@exercise("13.8", difficulty=1)
def share_left(lengths, d_model, d_ff):
    """Return the share of a layer's FLOPs that is left if a batch is packed instead of padded.

    lengths: a list with the number of real tokens of each sequence in the batch
    d_model, d_ff: the widths of the layer; FLOPs are counted as in 13.1
    padded: every sequence is as long as the longest one, and all its tokens are computed
    packed: only real tokens are computed, and each attends to the tokens of its own sequence
    returns FLOPs packed / FLOPs padded; 1 if nothing is saved
    """

    def bill(n):  # layer_operations(n, d_model, d_ff) does as well
        return 8 * n * d_model**2 + 4 * n**2 * d_model + 4 * n * d_model * d_ff

    packed = sum(bill(n) for n in lengths)
    padded = len(lengths) * bill(max(lengths))
    return packed / padded


@share_left.cases
def share_left_cases(normal):
    yield {"lengths": [3, 11, 7], "d_model": 5, "d_ff": 13}
    yield {"lengths": [2, 2, 31, 5, 17], "d_model": 3, "d_ff": 7}
    yield {"lengths": [19, 1], "d_model": 23, "d_ff": 2}
    yield {"lengths": [7, 7, 7], "d_model": 2, "d_ff": 5}  # nothing to save: 1
    yield {"lengths": [13], "d_model": 3, "d_ff": 11}  # a batch of one: 1
    yield {"lengths": [1, 2], "d_model": 1, "d_ff": 1}  # bills 16 and 40; (16 + 40) / (40 + 40) = .7


@exercise("13.9", difficulty=2, returns=("whole", "scale"), any_integer=False)
def in_eight_bits(weight):
    """Return the weights as integers from −127 to 127, and a scale for each row: whole * scale ≈ weight.

    The scale of a row is its largest absolute value / 127; a row of zeros has the scale 1.

    weight: (d_out, d_in)
    returns whole (d_out, d_in), rounded to the nearest integer, of dtype torch.int8: one byte per
        weight; and scale (d_out, 1), of the weight's dtype
    """
    largest = weight.abs().amax(dim=-1, keepdim=True)  # (d_out, 1)
    scale = torch.where(largest > 0, largest / 127, 1.0)
    whole = torch.round(weight / scale).to(torch.int8)
    return whole, scale


@in_eight_bits.cases
def in_eight_bits_cases(normal):
    yield {"weight": normal(3, 5)}
    yield {"weight": normal(5, 2) * torch.tensor([[1.0], [100], [0.01], [0], [3]])}  # rows of different sizes
    yield {"weight": normal(7, 7)}  # a square: here a scale for each column does not raise
    yield {"weight": torch.tensor([[-3.0]])}  # a single number
    yield {"weight": torch.tensor([[2.0, -254.0, 63.0], [0.0, 127.0, -1.8]])}  # by hand: scales 2 and 1
