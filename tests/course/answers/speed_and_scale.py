"""Lesson 13: independent and alternative answers to its exercises."""

import math

import torch

from tests.course.answers import alternative, independent


@independent("13.1")
def independent_layer_operations(n, d_model, d_ff):
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


@alternative("13.1")
def other_layer_operations(n, d_model, d_ff):
    return 4 * n * d_model * (2 * d_model + n + d_ff)


@alternative("13.1")
def other_layer_operations_2(n, d_model, d_ff):
    maps = [(n, d_model, d_model)] * 4 + [(n, d_model, d_ff), (n, d_ff, d_model)]
    attention = [(n, d_model, n), (n, n, d_model)]
    return sum(2 * a * b * c for a, b, c in maps + attention)


@independent("13.2")
def independent_attention_in_blocks(query, key, value, size):
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


@independent("13.3")
def independent_loss_to_hand_in(losses, total, n_workers):
    handed_in = torch.tensor(0.0)
    for loss in losses:
        share_of_the_mean = loss / total
        handed_in = handed_in + share_of_the_mean
    return torch.stack([handed_in] * n_workers).sum()  # so that a division by n_workers leaves the share


@alternative("13.3")
def other_loss_to_hand_in(losses, total, n_workers):
    targets_of_a_mean_worker = total / n_workers
    return (losses / targets_of_a_mean_worker).sum()


@independent("13.4")
def independent_all_reduce(gradients, pass_on):
    rows = [each.tolist() for each in gradients]
    mean = [0.0] * len(rows[0])
    for row in rows:
        for i, number in enumerate(row):
            mean[i] += number / len(rows)
    return [torch.tensor(mean) for _ in rows]


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
    n_workers, whole = len(parameters), parameters[0].tolist()
    state = [number for part in means for number in part.tolist()]
    rows = [each.tolist() for each in gradients]
    for i in range(len(whole)):
        state[i] = beta * state[i] + sum(row[i] for row in rows) / n_workers
        whole[i] = whole[i] - lr * state[i]
    size = len(whole) // n_workers
    parts = [torch.tensor(state[size * w : size * (w + 1)]) for w in range(n_workers)]
    return [torch.tensor(whole) for _ in range(n_workers)], parts


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
    most = 0.0
    for working in range(len(layers)):  # the layer that works just now
        memory = 0.0
        for layer, parameters in enumerate(layers):
            for parameter in range(parameters):
                if parameter % workers == 0:  # the first worker has this one, the next worker the next
                    for _kept in ("parameter", "gradient", "mean of gradients", "mean of squares"):
                        memory += 4
                if layer == working and workers > 1:
                    memory += 4  # the whole layer
                    memory += 4  # its whole gradient
        for _activation in range(n_activations):
            memory += 4
        most = max(most, memory)
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


@independent("13.8")
def independent_share_left(lengths, d_model, d_ff):
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
