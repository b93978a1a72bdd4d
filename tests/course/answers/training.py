"""Lesson 10: independent and alternative answers to its exercises."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import alternative, independent


@alternative("10.1")
@independent("10.1")
def other_schedule(steps, peak, warmup):
    rates = torch.full((steps,), float(peak))
    if warmup:
        rates[:warmup] = torch.linspace(peak / warmup, peak, warmup)
    rates[warmup:] = torch.linspace(peak, 0, steps - warmup + 1)[:-1]
    return rates.tolist()


def mean_surprise(logits, targets):
    """Cross-entropy over the asked targets."""
    asked = targets != -100
    return -torch.distributions.Categorical(logits=logits[asked]).log_prob(targets[asked]).mean()


@independent("10.2")
def independent_train_and_test(model, optimizer, batches, test, rates, max_norm):
    losses, test_losses = [], []
    for (inputs, targets), rate in zip(batches, rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = mean_surprise(model.train()(inputs), targets)
        parameters = list(model.parameters())
        gradients = torch.autograd.grad(loss, parameters)
        length = torch.cat([gradient.flatten() for gradient in gradients]).norm()
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient * (max_norm / (length + 1e-6)).clamp(max=1)
        optimizer.step()
        losses.append(float(loss))
        test_losses.append(float(mean_surprise(model.eval()(test[0]), test[1])))
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
def independent_ablate_head(weight, bias, head, d_head, joined=None):
    own = F.one_hot(torch.arange(weight.shape[1]) // d_head)[:, head]  # (features in)
    mean = torch.zeros(len(own)) if joined is None else joined.flatten(0, 1).mean(0)
    return weight - weight @ torch.diag(own).to(weight), F.linear(mean * own, weight, bias)


@alternative("10.3")
def other_ablate_head(weight, bias, head, d_head, joined=None):
    is_its = torch.arange(weight.shape[1]) // d_head == head  # (features in)
    if joined is None:
        return weight.masked_fill(is_its, 0.0), bias
    summands = joined.masked_fill(~is_its, 0.0) @ weight.mT  # (batch, position, d_model)
    return weight * ~is_its, bias + summands.flatten(0, 1).mean(dim=0)


@alternative("10.4")
@independent("10.4")
def probe_by_least_squares(known, labels, new, new_labels, penalty=1e-3):
    # Each penalty is one more equation: √penalty · number = 0.
    ones, size = torch.ones(len(known), 1), known.shape[1] + 1
    equations = torch.cat([torch.cat([known, ones], dim=1), math.sqrt(penalty) * torch.eye(size)])
    wanted = torch.cat([torch.where(labels, 1.0, -1.0), torch.zeros(size)])
    *weights, constant = torch.linalg.lstsq(equations, wanted[:, None]).solution[:, 0]
    scores = new @ torch.stack(weights) + constant
    return scores, torch.eq(scores > 0, new_labels).sum() / len(new)


@alternative("10.5")
def other_cut_patches(images, height, width):
    _, rows, columns = images.shape
    corners = [(r, c) for r in range(0, rows, height) for c in range(0, columns, width)]
    return torch.stack([images[:, r : r + height, c : c + width].flatten(1) for r, c in corners], dim=1)


@alternative("10.5")
@independent("10.5")
def other_cut_patches_2(images, height, width):
    return F.unfold(images[:, None], (height, width), stride=(height, width)).mT


@independent("10.6")
def independent_hide_words(token_ids, special, chance, fate, others, mask_id):
    def of_one(token, is_special, chance, fate, other):
        if is_special or chance >= 0.15:
            return token, -100
        return (mask_id if fate < 0.8 else token if fate < 0.9 else other), token

    each = [table.flatten().tolist() for table in (token_ids, special, chance, fate, others)]
    inputs, targets = zip(*map(of_one, *each), strict=True)
    return torch.tensor(inputs).view_as(token_ids), torch.tensor(targets).view_as(token_ids)


@alternative("10.6")
def other_hide_words(token_ids, special, chance, fate, others, mask_id):
    chosen = torch.logical_and(chance < 0.15, special.logical_not())
    targets = torch.where(chosen, token_ids, -100)
    inputs = token_ids.clone()
    inputs[chosen & (fate < 0.8)] = mask_id
    replaced = chosen & (fate >= 0.9)
    inputs[replaced] = others[replaced]
    return inputs, targets


@alternative("10.7")
@independent("10.7")
def other_split_and_scale(images, order, n_test):
    shuffled = images[order]
    known = shuffled[n_test:]
    shuffled = (shuffled - known.mean()) / known.var().sqrt()
    return shuffled[n_test:], shuffled[:n_test]


@alternative("10.8")
@independent("10.8")
def other_accuracy_of(logits, targets):
    asked = targets != -100
    return (logits[asked].argmax(-1) == targets[asked]).double().mean()
