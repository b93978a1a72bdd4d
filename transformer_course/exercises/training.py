"""Exercises of lesson 10."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from transformer_course.checker import exercise


@exercise("10.1", difficulty=1)
def schedule(steps, peak, warmup):
    """Return the learning rate of each step: linear warm-up, then linear decay.

    steps: how many steps there are, counted from 0
    peak: the highest learning rate; steps warmup - 1 (the end of the rise) and warmup (the
        start of the decay) both have it
    warmup: how many steps the rise takes; step 0 gets peak / warmup. If it is 0, there is no rise
    returns a list of floats, one for each step; one more step after the last would get 0
    """
    up = [peak * (step + 1) / warmup for step in range(warmup)]
    down = [peak * (steps - step) / (steps - warmup) for step in range(warmup, steps)]
    return up + down


@schedule.cases
def schedule_cases(normal):
    for steps, peak, warmup in [(11, 0.003, 3), (13, 2.0, 5), (7, 1.0, 1), (5, 0.5, 0), (2, 2.0, 0)]:
        yield {"steps": steps, "peak": peak, "warmup": warmup}


class Few(list):
    """Pairs of inputs and targets, told in two words."""

    def __repr__(self):
        return f"{len(self)} pair{'s' * (len(self) > 1)} (inputs, targets)"


class Pair(tuple):
    """One of them."""

    def __repr__(self):
        return "a pair (inputs, targets)"


class OwnDropout(nn.Module):
    """Dropout with random numbers of its own, so that each answer meets the same."""

    def __init__(self, share):
        super().__init__()
        self.share, self.generator = share, torch.Generator().manual_seed(10)

    def forward(self, x):
        if not self.training:
            return x
        kept = torch.rand(x.shape, generator=self.generator) >= self.share
        return x * kept / (1 - self.share)


class SmallNetwork(nn.Module):
    """Logits for each position; dropout, so that its mode can be seen from outside."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.up = nn.Linear(n_features, 11)
        self.dropout = OwnDropout(0.4)
        self.down = nn.Linear(11, n_classes)

    def forward(self, x):
        return self.down(self.dropout(self.up(x).tanh()))

    def __repr__(self):
        return "a small network with dropout"


class Momentum(torch.optim.SGD):
    """An optimiser that remembers: what was done at one step is felt at the next."""

    def __init__(self, params, lr):
        super().__init__(params, lr=lr, momentum=0.5)

    def __repr__(self):
        return "SGD with momentum"


@exercise("10.2", difficulty=2, returns=("losses", "test_losses"), tolerance=1e-05)
def train_and_test(model, optimizer, batches, test, rates, max_norm):
    """Take one training step for each batch, and measure the test loss after each step.

    model: inputs → logits (batch, position, n_classes); it contains dropout
    optimizer: the optimiser of the model's parameters
    batches: pairs (inputs, targets); targets (batch, position), -100 where nothing is to be predicted
    test: one pair (inputs, targets) that holds the whole test set; never trained on
    rates: one learning rate for each batch; all groups of the optimizer get the same
    max_norm: if the gradient of all parameters together is longer than this, it is scaled down to it
    returns losses, test_losses: two lists of floats, with one entry for each batch. losses: on the batch,
        before its step, with dropout; test_losses: on `test`, after the step, without dropout. Each is
        the mean cross-entropy over all targets that are not -100
    """
    losses, test_losses = [], []
    for (inputs, targets), rate in zip(batches, rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        losses.append(loss.item())

        model.eval()
        with torch.no_grad():
            logits = model(test[0])
            test_losses.append(F.cross_entropy(logits.flatten(0, 1), test[1].flatten()).item())
    return losses, test_losses


@train_and_test.cases
def train_and_test_cases(normal):
    # A single batch first: it tells most pairs of slips apart, and is quick.
    for n_batches, batch, length, n_features, n_classes, max_norm in [
        (1, 5, 7, 3, 2, 0.5),
        (4, 3, 2, 5, 7, 0.3),
        (4, 1, 1, 2, 3, 0.4),
    ]:
        model = SmallNetwork(n_features, n_classes)  # isolated: seeded
        pairs = Few()
        for _ in range(n_batches + 1):
            targets = (10 * normal(batch, length)).long() % n_classes
            hidden = normal(batch, length) > 0.3
            hidden[0, 0] = False
            pairs.append((2 * normal(batch, length, n_features), targets.masked_fill(hidden, -100)))
        yield {
            "model": model,
            "optimizer": Momentum([{"params": part.parameters()} for part in (model.up, model.down)], lr=0.2),
            "batches": Few(pairs[:-1]),
            "test": Pair(pairs[-1]),
            "rates": [0.5, 0.7, 0.4, 0.3][:n_batches],
            "max_norm": max_norm,
        }


def by_sequence(logits, targets):
    """The mean of the sequences' means."""
    each = F.cross_entropy(logits.mT, targets, reduction="none")  # (batch, position)
    return (each.sum(1) / (targets != -100).sum(1).clamp(min=1)).mean()


@exercise("10.3", difficulty=2, returns=("weight", "bias"))
def ablate_head(weight, bias, head, d_head, joined=None):
    """Return an output projection in which one head is ablated: it adds the same vector at every position.

    weight, bias: (d_model, d_model) and (d_model,), of the output projection, as nn.Linear stores them
    head, d_head: the index of the head, counted from 0, and how many features each head has
    joined: (batch, position, d_model), inputs of the projection: the concatenated outputs of all heads
    returns a new weight and a new bias, with which the head always adds its mean over `joined` (mean
        ablation), or 0 if `joined` is None (zero ablation); the other heads add what they added before
    """
    own = slice(head * d_head, (head + 1) * d_head)  # the features of this head
    if joined is not None:
        bias = bias + weight[:, own] @ joined[..., own].mean(dim=(0, 1))
    weight = weight.clone()
    weight[:, own] = 0.0  # (features out, features in)
    return weight, bias


@ablate_head.cases
def ablate_head_cases(normal):
    for n_heads, d_head, head, batch, length in [(5, 3, 1, 2, 7), (2, 3, 0, 5, 2), (5, 2, 4, 3, 11)]:
        d_model = n_heads * d_head
        case = {"weight": normal(d_model, d_model), "bias": normal(d_model), "head": head, "d_head": d_head}
        yield case | {"joined": normal(batch, length, d_model) + 2 * normal(d_model)}
        yield case
    one = {"weight": torch.tensor([[3.0, 5.0], [2.0, 7.0]]), "bias": torch.tensor([1.0, 1.0])}  # by hand
    yield one | {"head": 0, "d_head": 1, "joined": torch.tensor([[[2.0, 9.0]]])}  # bias 1 + 3 · 2, 1 + 2 · 2


@exercise("10.4", difficulty=2, returns=("scores", "share"), tolerance=1e-06)
def probe(known, labels, new, new_labels, penalty=1e-3):
    """Fit a linear probe to some vectors, and measure its accuracy on others.

    known, labels: (n, d_model), and (n,) booleans, to which the probe is fitted
    new, new_labels: (m, d_model), and (m,) booleans, on which it is tested
    The probe is w·x + c, with the w and c that minimise, over `known`,
        Σ (w·x + c − y)² + penalty · (|w|² + c²), where y is 1 for True and −1 for False.
    returns the scores w·x + c of the new vectors, (m,), and the share of them with the right sign
    """
    known, new = (F.pad(x, (0, 1), value=1.0) for x in (known, new))  # a feature that is always 1
    square = known.mT @ known + penalty * torch.eye(known.shape[1])
    fitted = torch.linalg.solve(square, known.mT @ (2.0 * labels - 1))
    scores = new @ fitted
    return scores, ((scores > 0) == new_labels).double().mean().item()


@probe.cases
def probe_cases(normal):
    for n, m, d_model, penalty in [(23, 17, 3, 0.5), (11, 13, 5, 2.0), (5, 7, 11, 1e-3), (3, 2, 1, 1.0)]:
        direction = normal(d_model)
        known, new = normal(n, d_model) + 0.7, normal(m, d_model) + 0.7
        labels, new_labels = (x @ direction + normal(len(x)) > 0.9 * direction.sum() for x in (known, new))
        case = {"known": known, "labels": labels, "new": new, "new_labels": new_labels}
        yield case | {"penalty": penalty}


@exercise("10.5", difficulty=2)
def cut_patches(images, height, width):
    """Split each image into patches; each patch becomes one row of pixels, like a token.

    images: (batch, rows, columns); height divides rows, width divides columns
    returns (batch, patches, height · width): patches in reading order (left to right, then the next
        row of patches), and the pixels within each patch in reading order too
    """
    cut = images.unflatten(2, (-1, width)).unflatten(1, (-1, height))
    patches = cut.transpose(2, 3)  # (batch, patch row, patch column, height, width)
    return patches.flatten(3, 4).flatten(1, 2)


@cut_patches.cases
def cut_patches_cases(normal):
    yield {"images": normal(3, 10, 21), "height": 2, "width": 7}
    yield {"images": normal(2, 9, 6), "height": 3, "width": 3}
    yield {"images": normal(5, 6, 6), "height": 2, "width": 3}
    yield {"images": normal(7, 4, 4), "height": 2, "width": 2}
    yield {"images": torch.arange(6.0).reshape(1, 2, 3), "height": 2, "width": 3}  # one patch: 0 to 5


@exercise("10.6", difficulty=2, returns=("inputs", "targets"))
def hide_words(token_ids, special, chance, fate, others, mask_id):
    """Make a batch for masked-token training as BERT does; the random values are given.

    token_ids: (batch, position)
    special: (batch, position), True for padding and the like, which are never chosen
    chance: (batch, position), from 0 to 1; a token is chosen if its chance is below 0.15
    fate: (batch, position), from 0 to 1; a chosen token becomes mask_id if its fate is below 0.8,
        stays as it is from 0.8 on, and becomes the word in `others` from 0.9 on
    others: (batch, position), random ids
    returns inputs, targets: both (batch, position); a target is the original id, or -100 if not chosen
    """
    chosen = (chance < 0.15) & ~special
    targets = token_ids.masked_fill(~chosen, -100)
    inputs = token_ids.masked_fill(chosen & (fate < 0.8), mask_id)
    inputs = torch.where(chosen & (fate >= 0.9), others, inputs)
    return inputs, targets


@hide_words.cases
def hide_words_cases(normal):
    def uniform(*shape):
        return (normal(*shape) / math.sqrt(2)).erf() / 2 + 0.5

    for batch, length, words in [(7, 53, 31), (5, 97, 13)]:
        ids, others = ((words * uniform(batch, length)).long() % words + 3 for _ in range(2))
        special = (torch.arange(length) == 0) | (torch.arange(length) >= torch.arange(batch)[:, None] + 41)
        yield {
            "token_ids": ids.masked_fill(special, 1),
            "special": special,
            "chance": uniform(batch, length),
            "fate": uniform(batch, length),
            "others": others,
            "mask_id": 2,
        }
    # On the boundaries: 0.15 is not chosen, 0.8 stays, 0.9 is replaced.
    chance = torch.tensor([[0.15, 0.1499, 0.1, 0.0, 0.1]])
    fate = torch.tensor([[0.0, 0.7999, 0.8, 0.9, 0.8999]])
    special = torch.zeros(1, 5, dtype=torch.bool)
    ids, others = torch.tensor([[3, 4, 5, 6, 7], [13, 14, 15, 16, 17]]).split(1)
    one = {"token_ids": ids, "special": special, "chance": chance, "fate": fate, "others": others}
    yield one | {"mask_id": 11}


@exercise("10.7", difficulty=1, returns=("train", "test"))
def split_and_scale(images, order, n_test):
    """Split the images, and standardise them: training pixels have mean 0 and standard deviation 1.

    images: (n, rows, columns)
    order: (n,), the indices 0 to n - 1 in a random order; the first n_test are the test images
    n_test: how many images are kept for the test
    returns train, test: (n - n_test, rows, columns), (n_test, rows, columns), in the order of `order`;
        one mean, one standard deviation (torch's `.std()`) for all pixels, from training only
    """
    test, train = images[order[:n_test]], images[order[n_test:]]
    mean, spread = train.mean(), train.std()
    return (train - mean) / spread, (test - mean) / spread


@split_and_scale.cases
def split_and_scale_cases(normal):
    for n, rows, columns, n_test in [(11, 3, 5, 3), (13, 2, 7, 5), (3, 1, 2, 1)]:
        images = normal(n, rows, columns) * (1 + 2 * normal(n, 1, 1) ** 2) + 3 * normal(n, 1, 1)
        yield {"images": images, "order": normal(n).argsort(), "n_test": n_test}


@exercise("10.8", difficulty=1, tolerance=1e-06)
def accuracy_of(logits, targets):
    """Return the share of targets whose class has the highest logit.

    logits: (batch, position, n_classes)
    targets: (batch, position), integers; targets of -100 do not count
    returns a float from 0 to 1
    """
    right = (logits.argmax(dim=-1) == targets).sum()
    return (right / (targets != -100).sum()).item()


@accuracy_of.cases
def accuracy_of_cases(normal):
    for batch, length, n_classes in [(5, 7, 3), (2, 11, 5), (7, 3, 3), (3, 13, 2)]:
        logits = normal(batch, length, n_classes)
        best = logits.argmax(-1)
        targets = torch.where(normal(batch, length) > 0.4, (best + 1) % n_classes, best)
        ignored = normal(batch, length) > torch.linspace(-0.6, 1.6, batch)[:, None]
        yield {"logits": logits, "targets": targets.masked_fill(ignored, -100)}
    yield {"logits": torch.tensor([[[1.0, 3.0, 2.0]]]), "targets": torch.tensor([[1]])}  # right: 1
