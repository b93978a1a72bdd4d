"""Lesson 13: independent and alternative answers to its exercises."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.course.answers import alternative, independent, measured_flops
from transformer_lab import EncoderLayer, FeedForward, MultiHeadAttention


@independent("13.1")
def independent_layer_operations(n, d_model, d_ff):
    def run():
        attention, norms = MultiHeadAttention(d_model, 1), [nn.LayerNorm(d_model) for _ in range(2)]
        EncoderLayer(attention, FeedForward(d_model, d_ff), *norms)(torch.ones(1, n, d_model))

    return measured_flops(run)


@alternative("13.1")
def other_layer_operations(n, d_model, d_ff):
    return 4 * n * d_model * (2 * d_model + n + d_ff)


@independent("13.2")
def independent_attention_in_blocks(query, key, value, size):
    return F.scaled_dot_product_attention(query, key, value)


@alternative("13.2")
def other_attention_in_blocks(q, k, v, n):
    """Of each block its own softmax, and the logarithm of its total, by which the blocks are mixed."""
    outputs, log_totals = [], []
    for start in range(0, len(k), n):
        scores = torch.einsum("id,jd->ij", q * q.size(-1) ** -0.5, k[start : start + n])
        outputs.append(scores.softmax(-1) @ v[start : start + n])
        log_totals.append(scores.logsumexp(-1))
    shares = torch.stack(log_totals).softmax(0)  # (blocks, query_pos)
    return (shares[..., None] * torch.stack(outputs)).sum(0)


@alternative("13.2")
def other_attention_in_blocks_2(query, key, value, size):
    """Once through the keys for the maximum, once more for the sums."""
    query = query / math.sqrt(query.shape[1])
    largest = torch.stack([(query @ keys.T).amax(1) for keys in key.split(size)]).amax(0)
    total, mixture = torch.zeros(len(query)), torch.zeros(len(query), value.shape[1])
    for start in range(0, len(key), size):
        exponentials = (query @ key[start : start + size].T - largest[:, None]).exp()
        total += exponentials.sum(1)
        mixture += exponentials @ value[start : start + size]
    return mixture / total[:, None]


@alternative("13.3")
@independent("13.3")
def other_loss_to_hand_in(losses, total, n_workers):
    targets_of_a_mean_worker = total / n_workers
    return (losses / targets_of_a_mean_worker).sum()


@independent("13.4")
def independent_all_reduce(gradients, pass_on):
    rows = torch.tensor([each.tolist() for each in gradients])
    return [rows.mean(0) for _ in rows]


@alternative("13.4")
def other_all_reduce(gradients, pass_on):
    """What is under way is carried along; a worker never looks up a piece that it has received before."""
    n, size = len(gradients), len(gradients[0]) // len(gradients)
    cut = lambda w, piece: gradients[w][piece % n * size : (piece % n + 1) * size]  # noqa: E731
    under_way = [cut(w, w + 2) / n for w in range(n)]
    for step in range(1, n):
        under_way = [got + cut(w, w - step + 2) / n for w, got in enumerate(pass_on(under_way))]
    known = [{(w - n + 3) % n: mean} for w, mean in enumerate(under_way)]
    for step in range(1, n):
        under_way = pass_on(under_way)
        for w in range(n):
            known[w][(w - step - n + 3) % n] = under_way[w]
    return [torch.cat([pieces[i] for i in range(n)]) for pieces in known]


@independent("13.5")
def independent_sharded_step(parameters, gradients, means, lr, beta, reduce_scatter, all_gather):
    rows, before = (torch.tensor([each.tolist() for each in held]) for held in (gradients, means))
    whole = nn.Parameter(torch.tensor(parameters[0].tolist()))
    whole.grad = rows.mean(0)
    optimizer = torch.optim.SGD([whole], lr=lr, momentum=beta)
    optimizer.state[whole]["momentum_buffer"] = before.flatten()
    optimizer.step()
    return [whole.detach() for _ in rows], list(optimizer.state[whole]["momentum_buffer"].chunk(len(rows)))


@alternative("13.5")
def other_sharded_step(parameters, gradients, means, lr, beta, reduce_scatter, all_gather):
    kept, own = [], []
    for w, (mean, part) in enumerate(zip(means, reduce_scatter(gradients), strict=True)):
        kept.append(torch.add(part, mean, alpha=beta))
        size = len(mean)
        own.append(parameters[w][w * size : (w + 1) * size] - kept[-1] * lr)
    return all_gather(own), kept


@independent("13.6")
def independent_training_bytes(layers, n_activations, workers=1):
    most = 0
    for working in layers:  # the layer that works just now
        own = sum(len(range(0, layer, workers)) for layer in layers)  # the first worker has every n-th
        kept = 4 * own  # parameter, gradient, mean of gradients, mean of squares
        borrowed = 2 * working if workers > 1 else 0  # the whole layer, and its whole gradient
        most = max(most, 4 * (kept + borrowed + n_activations))
    return most


@alternative("13.6")
def other_training_bytes(layers, n_activations, workers=1):
    held = 16 * (sum(layers) // workers) + 4 * n_activations
    return held + (8 * sorted(layers)[-1] if workers != 1 else 0)


@independent("13.7")
def independent_backward_again(layers, x, loss_of):
    first = output = x.clone().requires_grad_()
    for layer in layers:
        output = layer.plain(output)  # all graphs at once
    loss = loss_of(output)
    loss.backward()
    return loss, first.grad


@alternative("13.7")
def other_backward_again(layers, x, loss_of):
    """Each graph is built, and dropped at once."""
    starts = []
    for layer in layers:
        starts.append(x.detach().clone().requires_grad_())
        x = layer(starts[-1]).detach()
    x.requires_grad_()
    loss = loss_of(x)
    loss.backward()
    gradient = x.grad
    for layer, start in zip(layers[::-1], starts[::-1], strict=True):
        torch.autograd.backward(layer(start), gradient)
        gradient = start.grad
    return loss, gradient


@alternative("13.7")
def other_backward_again_2(layers, x, loss_of):
    """Each layer is asked for the gradients, and they are put where they belong."""

    def after(k):
        with torch.no_grad():
            y = x
            for layer in layers[:k]:
                y = layer(y)
        return y.detach().clone().requires_grad_(True)

    last = after(len(layers))
    loss = loss_of(last)
    (gradient,) = torch.autograd.grad(loss, last)
    for k in range(len(layers) - 1, -1, -1):
        start, parameters = after(k), list(layers[k].parameters())
        gradient, *theirs = torch.autograd.grad(layers[k](start), [start, *parameters], gradient)
        for parameter, each in zip(parameters, theirs, strict=True):
            parameter.grad = each
    return loss.detach(), gradient


@alternative("13.7")
def other_backward_again_3(layers, x, loss_of):
    """PyTorch's own."""
    first = output = x.detach().clone().requires_grad_()
    for layer in layers:
        output = checkpoint(layer, output, use_reentrant=False)
    loss = loss_of(output)
    loss.backward()
    return loss.detach(), first.grad


@alternative("13.7")
def other_backward_again_4(layers, x, loss_of):
    """PyTorch's own, which calls `backward` inside `backward`."""
    first = x.clone().requires_grad_()
    loss = loss_of(checkpoint_sequential(list(layers), len(layers), first, use_reentrant=True))
    loss.backward()
    return loss, first.grad


@independent("13.8")
def independent_share_left(lengths, d_model, d_ff):
    packed, padded = 0, 0
    for length in lengths:
        packed += independent_layer_operations(length, d_model, d_ff)
        padded += independent_layer_operations(max(lengths), d_model, d_ff)
    return packed / padded


@alternative("13.8")
def other_share_left(lengths, d_model, d_ff):
    widths, longest = 2 * d_model + d_ff, max(lengths)
    shares = [n / longest * (widths + n) / (widths + longest) for n in lengths]
    return sum(shares) / len(shares)


@independent("13.9")
def independent_in_eight_bits(weight):
    whole, scale = [], []
    for row in weight.tolist():
        largest = max(max(number, -number) for number in row)
        scale.append([largest / 127 if largest > 0 else 1.0])
        whole.append([round(number / scale[-1][0]) for number in row])
    return torch.tensor(whole, dtype=torch.int8), torch.tensor(scale)


@alternative("13.9")
def other_in_eight_bits(weight):
    scale = torch.linalg.vector_norm(weight, ord=math.inf, dim=1)[:, None] / 127
    scale[scale == 0] = 1
    return (weight / scale).add(0.5).floor().clamp(-127, 127).char(), scale
