"""Lesson 10: independent and alternative answers to its exercises."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import alternative, independent


@independent("10.1")
def independent_schedule(steps, peak, warmup):
    rates, rate = [], 0.0
    for step in range(steps):
        if step < warmup:
            rate += peak / warmup
        elif step == warmup:
            rate = peak
        else:
            rate -= peak / (steps - warmup)
        rates.append(rate)
    return rates


@alternative("10.1")
def other_schedule(steps, peak, warmup):
    rates = torch.full((steps,), float(peak))
    if warmup:
        rates[:warmup] = torch.linspace(peak / warmup, peak, warmup)
    rates[warmup:] = torch.linspace(peak, 0, steps - warmup + 1)[:-1]
    return rates.tolist()


def mean_surprise(logits, targets):
    """Cross-entropy over the asked targets, one by one."""
    total, asked = 0.0, 0
    for row, target in zip(logits.flatten(0, -2), targets.flatten().tolist(), strict=True):
        if target != -100:
            total = total + row.exp().sum().log() - row[target]
            asked += 1
    return total / asked


@independent("10.2")
def independent_train_and_test(model, optimizer, batches, test, rates, max_norm):
    losses, test_losses = [], []
    for (inputs, targets), rate in zip(batches, rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        model.train()
        loss = mean_surprise(model(inputs), targets)
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(loss, parameters)
        length = math.sqrt(sum(float(number) ** 2 for g in gradients for number in g.flatten()))
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient * min(1.0, max_norm / (length + 1e-6))
        optimizer.step()
        losses.append(float(loss))
        model.eval()
        test_losses.append(float(mean_surprise(model(test[0]), test[1])))
    return losses, test_losses


@alternative("10.2")
def other_train_and_test(model, optimizer, batches, test, rates, max_norm):
    measure = nn.CrossEntropyLoss()
    history = []
    for step, (inputs, targets) in enumerate(batches):
        for group in optimizer.param_groups:
            group.update(lr=rates[step])
        loss = measure(model.train()(inputs).mT, targets)  # (batch, n_classes, position)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        optimizer.zero_grad()  # after the step: the gradients of the next begin at none
        with torch.inference_mode():
            history.append((loss.detach(), measure(model.eval()(test[0]).mT, test[1])))
    return tuple(list(column) for column in zip(*history, strict=True))


@independent("10.3")
def independent_silence_head(weight, bias, head, d_head, joined=None):
    own = range(head * d_head, (head + 1) * d_head)
    new_weight, new_bias = torch.zeros_like(weight), torch.zeros_like(bias)
    for out in range(len(weight)):
        new_bias[out] = bias[out]
        for feature in range(weight.shape[1]):
            if feature not in own:
                new_weight[out, feature] = weight[out, feature]
            elif joined is not None:
                places = [place for text in joined for place in text]
                told = sum(weight[out, feature] * place[feature] for place in places)
                new_bias[out] = new_bias[out] + told / len(places)
    return new_weight, new_bias


@alternative("10.3")
def other_silence_head(weight, bias, head, d_head, joined=None):
    is_its = torch.arange(weight.shape[1]) // d_head == head  # (features in)
    if joined is None:
        return weight.masked_fill(is_its, 0.0), bias
    summands = joined.masked_fill(~is_its, 0.0) @ weight.mT  # (batch, position, d_model)
    return weight * ~is_its, bias + summands.flatten(0, 1).mean(dim=0)


@independent("10.4")
def independent_probe(known, labels, new, new_labels, penalty=1e-3):
    rows = [[*row.tolist(), 1.0] for row in known]
    wanted = [1.0 if label else -1.0 for label in labels.tolist()]
    size = range(len(rows[0]))
    table = [[sum(row[i] * row[j] for row in rows) + penalty * (i == j) for j in size] for i in size]
    right = [sum(row[i] * y for row, y in zip(rows, wanted, strict=True)) for i in size]
    for i in size:  # elimination: the table is positive definite, so no row need be exchanged
        for k in size:
            if k != i:
                share = table[k][i] / table[i][i]
                table[k] = [a - share * b for a, b in zip(table[k], table[i], strict=True)]
                right[k] -= share * right[i]
    numbers = [right[i] / table[i][i] for i in size]
    scores, hits = [], 0
    for row, label in zip(new, new_labels.tolist(), strict=True):
        scores.append(sum(number * x for number, x in zip(numbers, [*row.tolist(), 1.0], strict=True)))
        hits += (scores[-1] > 0) == label
    return torch.tensor(scores), hits / len(scores)


@alternative("10.4")
def other_probe(known, labels, new, new_labels, penalty=1e-3):
    # Each penalty is one more equation: √penalty · number = 0.
    ones, size = torch.ones(len(known), 1), known.shape[1] + 1
    equations = torch.cat([torch.cat([known, ones], dim=1), math.sqrt(penalty) * torch.eye(size)])
    wanted = torch.cat([torch.where(labels, 1.0, -1.0), torch.zeros(size)])
    *weights, constant = torch.linalg.lstsq(equations, wanted[:, None]).solution[:, 0]
    scores = new @ torch.stack(weights) + constant
    return scores, torch.eq(scores > 0, new_labels).sum() / len(new)


@independent("10.5")
def independent_cut_patches(images, height, width):
    batch, rows, columns = images.shape
    across = columns // width
    result = torch.zeros(batch, rows // height * across, height * width)
    for i in range(batch):
        for row in range(rows):
            for column in range(columns):
                patch = row // height * across + column // width
                result[i, patch, row % height * width + column % width] = images[i, row, column]
    return result


@alternative("10.5")
def other_cut_patches(images, height, width):
    _, rows, columns = images.shape
    corners = [(r, c) for r in range(0, rows, height) for c in range(0, columns, width)]
    return torch.stack([images[:, r : r + height, c : c + width].flatten(1) for r, c in corners], dim=1)


@alternative("10.5")
def other_cut_patches_2(images, height, width):
    return F.unfold(images[:, None], (height, width), stride=(height, width)).mT


@independent("10.6")
def independent_hide_words(token_ids, special, chance, fate, others, mask_id):
    inputs, targets = token_ids.clone(), torch.full_like(token_ids, -100)
    for b in range(len(token_ids)):
        for i in range(token_ids.shape[1]):
            if special[b, i] or chance[b, i] >= 0.15:
                continue
            targets[b, i] = token_ids[b, i]
            if fate[b, i] < 0.8:
                inputs[b, i] = mask_id
            elif fate[b, i] >= 0.9:
                inputs[b, i] = others[b, i]
    return inputs, targets


@alternative("10.6")
def other_hide_words(token_ids, special, chance, fate, others, mask_id):
    chosen = torch.logical_and(chance < 0.15, special.logical_not())
    targets = torch.where(chosen, token_ids, -100)
    inputs = token_ids.clone()
    inputs[chosen & (fate < 0.8)] = mask_id
    replaced = chosen & (fate >= 0.9)
    inputs[replaced] = others[replaced]
    return inputs, targets


@independent("10.7")
def independent_split_and_scale(images, order, n_test):
    n = len(order)
    train = [images[int(order[i])] for i in range(n_test, n)]
    pixels = [pixel for image in train for row in image for pixel in row]
    mean = sum(pixels) / len(pixels)
    spread = (sum((pixel - mean) ** 2 for pixel in pixels) / (len(pixels) - 1)) ** 0.5
    test = [images[int(order[i])] for i in range(n_test)]
    return torch.stack([(x - mean) / spread for x in train]), torch.stack([(x - mean) / spread for x in test])


@alternative("10.7")
def other_split_and_scale(images, order, n_test):
    shuffled = images[order]
    known = shuffled[n_test:]
    shuffled = (shuffled - known.mean()) / known.var().sqrt()
    return shuffled[n_test:], shuffled[:n_test]


@independent("10.8")
def independent_accuracy_of(logits, targets):
    right = asked = 0
    for row, wanted in zip(logits.flatten(0, 1).tolist(), targets.flatten().tolist(), strict=True):
        if wanted != -100:
            asked += 1
            right += all(row[wanted] >= other for other in row)
    return right / asked


@alternative("10.8")
def other_accuracy_of(logits, targets):
    asked = targets != -100
    return (logits[asked].argmax(-1) == targets[asked]).double().mean()
