"""Exercises of lesson 10."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from transformer_course.checker import exercise

# ------------------------------------------------------------------------------------------------------ 10.1


@exercise(
    "10.1",
    "Warm up, then go down",
    difficulty=1,
    hints=[
        """Two cases: `step < warmup`, and the rest. In the first, step 0 gets 1/warmup of the peak, step 1
        gets 2/warmup, and so on.""",
        """Going down, count how many steps are left, this one included: `steps - step`. At step `warmup`
        that is `steps - warmup`, and the learning rate is still the peak.""",
    ],
)
def schedule(steps, peak, warmup):
    """The learning rate of each step: up in equal stages, then down in equal stages.

    steps: how many steps there are, counted from 0
    peak: the highest learning rate; step warmup - 1 has it, and step warmup still has it
    warmup: the number of steps of the rise; step 0 gets peak / warmup. It may be 0: then no rise
    returns a list of numbers, one for each step; a step number `steps`, if there were one, would get 0
    """
    raise NotImplementedError


@schedule.cases
def schedule(normal):
    for steps, peak, warmup in [(11, 0.003, 3), (13, 2.0, 5), (7, 1.0, 1), (5, 0.5, 0), (2, 2.0, 0)]:
        yield {"steps": steps, "peak": peak, "warmup": warmup}


@schedule.specification
def schedule(steps, peak, warmup):
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


@schedule.solution
def schedule(steps, peak, warmup):
    up = [peak * (step + 1) / warmup for step in range(warmup)]
    down = [peak * (steps - step) / (steps - warmup) for step in range(warmup, steps)]
    return up + down


@schedule.alternative
def schedule(steps, peak, warmup):
    rates = torch.full((steps,), float(peak))
    if warmup:
        rates[:warmup] = torch.linspace(peak / warmup, peak, warmup)
    rates[warmup:] = torch.linspace(peak, 0, steps - warmup + 1)[:-1]
    return rates.tolist()


# ------------------------------------------------------------------------------------------------------ 10.2


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


@exercise(
    "10.2",
    "The loop",
    difficulty=2,
    returns=("losses", "test_losses"),
    tolerance=1e-5,  # clip_grad_norm_ adds 1e-6 to the length; without it is as right
    hints=[
        """One step: hand the learning rate to every group of `optimizer.param_groups` (each is a
        dictionary, its key is "lr"); then training mode, no old gradients, loss, gradient, clip, step.""",
        """`F.cross_entropy` wants (anything, n_classes) and (anything): flatten batch and position into one
        axis, in logits and targets.""",
        """`nn.utils.clip_grad_norm_(model.parameters(), max_norm)` works on the gradients that are there:
        after `backward`, before `step`. The test: `model.eval()`, and `with torch.no_grad():`. The next
        batch needs `model.train()` again.""",
    ],
)
def train_and_test(model, optimizer, batches, test, rates, max_norm):
    """Take one step for each batch, and a test after each step.

    model: inputs → logits (batch, position, n_classes); it has dropout
    optimizer: of the model's parameters
    batches: pairs (inputs, targets); targets (batch, position), -100 where nothing is asked
    test: one such pair, never trained on
    rates: the learning rate of each step, as many as batches; every group of the optimizer gets it
    max_norm: a gradient that is longer, over all parameters together, is scaled down to this length
    returns losses, test_losses: for each batch, its mean cross-entropy over the asked targets, with
        dropout, before the step; and that of `test`, without dropout, after the step (lists of numbers)
    """
    raise NotImplementedError


@train_and_test.cases
def train_and_test(normal):
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


def mean_surprise(logits, targets):
    """Cross-entropy over the asked targets, one by one."""
    total, asked = 0.0, 0
    for row, target in zip(logits.flatten(0, -2), targets.flatten().tolist(), strict=True):
        if target != -100:
            total = total + row.exp().sum().log() - row[target]
            asked += 1
    return total / asked


@train_and_test.specification
def train_and_test(model, optimizer, batches, test, rates, max_norm):
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


@train_and_test.solution
def train_and_test(model, optimizer, batches, test, rates, max_norm):
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


@train_and_test.alternative
def train_and_test(model, optimizer, batches, test, rates, max_norm):
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


def by_sequence(logits, targets):
    """The mean of the sequences' means."""
    each = F.cross_entropy(logits.mT, targets, reduction="none")  # (batch, position)
    return (each.sum(1) / (targets != -100).sum(1).clamp(min=1)).mean()


# ------------------------------------------------------------------------------------------------------ 10.3


@exercise(
    "10.3",
    "Silence a head",
    difficulty=2,
    returns=("weight", "bias"),
    hints=[
        """Which numbers of the weight meet the features of this head? `weight` is (features out, features
        in), and what goes in are the heads, side by side.""",
        """A summand that is the same everywhere needs no weight any more: it is a constant. Where does a
        linear map keep its constant?""",
        """The map is linear, so the mean of the summands is the summand of the mean:
        `weight[:, own] @ joined[..., own].mean(dim=(0, 1))`. Compute it before you set these columns to 0,
        and those on a copy: `weight.clone()`.""",
    ],
)
def silence_head(weight, bias, head, d_head, joined=None):
    """An output projection to which one head says the same at every place, whatever it has found.

    weight, bias: (d_model, d_model) and (d_model,), of the output projection, as nn.Linear keeps them
    head, d_head: which head, counted from 0, and how many features a head has
    joined: (batch, position, d_model), what the projection gets in some texts: the heads side by side
    returns weight and bias, new ones, with which the head's summand is always its mean over `joined`,
        or 0 if there is no `joined`; the other heads count as before
    """
    raise NotImplementedError


@silence_head.cases
def silence_head(normal):
    for n_heads, d_head, head, batch, length in [(3, 5, 1, 2, 7), (2, 3, 0, 5, 2), (5, 2, 4, 3, 11)]:
        d_model = n_heads * d_head
        case = {"weight": normal(d_model, d_model), "bias": normal(d_model), "head": head, "d_head": d_head}
        yield case | {"joined": normal(batch, length, d_model) + 2 * normal(d_model)}
        yield case
    one = {"weight": torch.tensor([[3.0, 5.0], [2.0, 7.0]]), "bias": torch.tensor([1.0, 1.0])}  # by hand
    yield one | {"head": 0, "d_head": 1, "joined": torch.tensor([[[2.0, 9.0]]])}  # bias 1 + 3 · 2, 1 + 2 · 2


@silence_head.specification
def silence_head(weight, bias, head, d_head, joined=None):
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


@silence_head.solution
def silence_head(weight, bias, head, d_head, joined=None):
    own = slice(head * d_head, (head + 1) * d_head)  # the features of this head
    if joined is not None:
        bias = bias + weight[:, own] @ joined[..., own].mean(dim=(0, 1))
    weight = weight.clone()
    weight[:, own] = 0.0  # (features out, features in)
    return weight, bias


@silence_head.alternative
def silence_head(weight, bias, head, d_head, joined=None):
    is_its = torch.arange(weight.shape[1]) // d_head == head  # (features in)
    if joined is None:
        return weight.masked_fill(is_its, 0.0), bias
    summands = joined.masked_fill(~is_its, 0.0) @ weight.mT  # (batch, position, d_model)
    return weight * ~is_its, bias + summands.flatten(0, 1).mean(dim=0)


# ------------------------------------------------------------------------------------------------------ 10.4


@exercise(
    "10.4",
    "Write a probe",
    difficulty=2,
    returns=("scores", "share"),
    tolerance=1e-6,
    hints=[
        """A constant is the weight of a feature that is always 1: set a column of ones behind the vectors, in
        both sets. Then there is one unknown, w, and Xw are all the scores at once.""",
        """At the smallest sum every derivative is 0: 2 Xᵀ(Xw − y) + 2 · penalty · w = 0. Sort that: what
        stands before w, and what is left over?""",
        """(XᵀX + penalty · I) w = Xᵀy: `torch.linalg.solve(A, b)` finds w. y is 1 and −1:
        `2.0 * labels - 1`. With the same w the new vectors get their scores.""",
    ],
)
def probe(known, labels, new, new_labels, penalty=1e-3):
    """Fit a linear map to some vectors, and see how well it reads a yes or no from others.

    known, labels: (n, d_model), and (n,) booleans, from which the map is fitted
    new, new_labels: (m, d_model), and (m,) booleans, for which it is tried
    The map is w·x + c. Its numbers, w and c, are those with the smallest
        Σ (w·x + c − y)² + penalty · (|w|² + c²) over the known; y is 1 for True, −1 for False.
    returns the scores w·x + c of the new vectors, (m,), and the share of them that have the right sign
    """
    raise NotImplementedError


@probe.cases
def probe(normal):
    for n, m, d_model, penalty in [(23, 17, 3, 0.5), (11, 13, 5, 2.0), (5, 7, 11, 1e-3), (3, 2, 1, 1.0)]:
        direction = normal(d_model)
        known, new = normal(n, d_model) + 0.7, normal(m, d_model) + 0.7
        labels, new_labels = (x @ direction + normal(len(x)) > 0.9 * direction.sum() for x in (known, new))
        case = {"known": known, "labels": labels, "new": new, "new_labels": new_labels}
        yield case | {"penalty": penalty}


@probe.specification
def probe(known, labels, new, new_labels, penalty=1e-3):
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


@probe.solution
def probe(known, labels, new, new_labels, penalty=1e-3):
    known, new = (F.pad(x, (0, 1), value=1.0) for x in (known, new))  # a feature that is always 1
    square = known.mT @ known + penalty * torch.eye(known.shape[1])
    numbers = torch.linalg.solve(square, known.mT @ (2.0 * labels - 1))
    scores = new @ numbers
    return scores, ((scores > 0) == new_labels).double().mean().item()


@probe.alternative
def probe(known, labels, new, new_labels, penalty=1e-3):
    # Each penalty is one more equation: √penalty · number = 0.
    ones, size = torch.ones(len(known), 1), known.shape[1] + 1
    equations = torch.cat([torch.cat([known, ones], dim=1), math.sqrt(penalty) * torch.eye(size)])
    wanted = torch.cat([torch.where(labels, 1.0, -1.0), torch.zeros(size)])
    *weights, constant = torch.linalg.lstsq(equations, wanted[:, None]).solution[:, 0]
    scores = new @ torch.stack(weights) + constant
    return scores, torch.eq(scores > 0, new_labels).sum() / len(new)


# ------------------------------------------------------------------------------------------------------ 10.5


@exercise(
    "10.5",
    "Cut an image into patches",
    difficulty=2,
    hints=[
        """Like the cut into heads (lesson 05): first cut the axes, then move them, then join. Two axes are
        to be cut here, the rows and the columns.""",
        """`images.unflatten(2, (-1, width)).unflatten(1, (-1, height))` has the axes (batch, patch row,
        row in the patch, patch column, column in the patch). Which two must change places?""",
        """`transpose(2, 3)` brings the two patch axes together, and the two pixel axes. Join each pair with
        `flatten`, the last pair first.""",
    ],
)
def cut_patches(images, height, width):
    """Cut each image into patches; a patch becomes a row of pixels, as if it were a token.

    images: (batch, rows, columns); height divides rows, width divides columns
    returns (batch, patches, height · width): patches in reading order (left to right, then the next
        row of patches), and the pixels of each patch in reading order too
    """
    raise NotImplementedError


@cut_patches.cases
def cut_patches(normal):
    yield {"images": normal(3, 10, 21), "height": 2, "width": 7}
    yield {"images": normal(2, 9, 6), "height": 3, "width": 3}
    yield {"images": normal(5, 6, 6), "height": 2, "width": 3}
    yield {"images": normal(7, 4, 4), "height": 2, "width": 2}
    yield {"images": torch.arange(6.0).reshape(1, 2, 3), "height": 2, "width": 3}  # one patch: 0 to 5


@cut_patches.specification
def cut_patches(images, height, width):
    batch, rows, columns = images.shape
    across = columns // width
    result = torch.zeros(batch, rows // height * across, height * width)
    for i in range(batch):
        for row in range(rows):
            for column in range(columns):
                patch = row // height * across + column // width
                result[i, patch, row % height * width + column % width] = images[i, row, column]
    return result


@cut_patches.solution
def cut_patches(images, height, width):
    cut = images.unflatten(2, (-1, width)).unflatten(1, (-1, height))
    patches = cut.transpose(2, 3)  # (batch, patch row, patch column, height, width)
    return patches.flatten(3, 4).flatten(1, 2)


@cut_patches.alternative
def cut_patches(images, height, width):
    _, rows, columns = images.shape
    corners = [(r, c) for r in range(0, rows, height) for c in range(0, columns, width)]
    return torch.stack([images[:, r : r + height, c : c + width].flatten(1) for r, c in corners], dim=1)


@cut_patches.alternative
def cut_patches(images, height, width):
    return F.unfold(images[:, None], (height, width), stride=(height, width)).mT


# ------------------------------------------------------------------------------------------------------ 10.6


@exercise(
    "10.6",
    "Hide some words",
    difficulty=2,
    returns=("inputs", "targets"),
    hints=[
        """First one boolean tensor: `chosen = (chance < 0.15) & ~special`. Both results follow from it.""",
        """The targets are the *old* ids where `chosen`, and -100 elsewhere: `token_ids.masked_fill(…)`.
        `masked_fill` makes a new tensor, so the ids themselves stay as they are.""",
        """The inputs: `token_ids.masked_fill(chosen & (fate < 0.8), mask_id)`, and then the random words
        with `torch.where(chosen & (fate >= 0.9), others, …)`.""",
    ],
)
def hide_words(token_ids, special, chance, fate, others, mask_id):
    """Make a batch for masked-token training as BERT does; the random numbers are given.

    token_ids: (batch, position)
    special: (batch, position), True for padding and the like, which are never chosen
    chance: (batch, position), from 0 to 1; a token is chosen if its chance is below .15
    fate: (batch, position), from 0 to 1; a chosen token becomes mask_id if its fate is below .8,
        stays as it is from .8 on, and becomes the word in `others` from .9 on
    others: (batch, position), random ids
    returns inputs, targets: both (batch, position); a target is the hidden id, -100 if not chosen
    """
    raise NotImplementedError


@hide_words.cases
def hide_words(normal):
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


@hide_words.specification
def hide_words(token_ids, special, chance, fate, others, mask_id):
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


@hide_words.solution
def hide_words(token_ids, special, chance, fate, others, mask_id):
    chosen = (chance < 0.15) & ~special
    targets = token_ids.masked_fill(~chosen, -100)
    inputs = token_ids.masked_fill(chosen & (fate < 0.8), mask_id)
    inputs = torch.where(chosen & (fate >= 0.9), others, inputs)
    return inputs, targets


@hide_words.alternative
def hide_words(token_ids, special, chance, fate, others, mask_id):
    chosen = torch.logical_and(chance < 0.15, special.logical_not())
    targets = torch.where(chosen, token_ids, -100)
    inputs = token_ids.clone()
    inputs[chosen & (fate < 0.8)] = mask_id
    replaced = chosen & (fate >= 0.9)
    inputs[replaced] = others[replaced]
    return inputs, targets


# ------------------------------------------------------------------------------------------------------ 10.7


@exercise(
    "10.7",
    "Keep the test apart",
    difficulty=1,
    returns=("train", "test"),
    hints=[
        """First the split: `images[order[:n_test]]` is the test set, `images[order[n_test:]]` the rest.""",
        """Then two numbers, from the training part alone: `train.mean()` and `train.std()`. Both parts are
        scaled by the same two: the model must not be able to tell them apart by it.""",
    ],
)
def split_and_scale(images, order, n_test):
    """Split the images, and bring the training pixels to mean 0 and standard deviation 1.

    images: (n, rows, columns)
    order: (n,), the numbers 0 to n - 1 in a random order; the first n_test name the test images
    n_test: how many images are kept for the test
    returns train, test: (n - n_test, rows, columns), (n_test, rows, columns), in the order of `order`;
        one mean and one standard deviation (torch's `.std()`) for all pixels, from training alone
    """
    raise NotImplementedError


@split_and_scale.cases
def split_and_scale(normal):
    for n, rows, columns, n_test in [(11, 3, 5, 3), (13, 2, 7, 5), (3, 1, 2, 1)]:
        images = normal(n, rows, columns) * (1 + 2 * normal(n, 1, 1) ** 2) + 3 * normal(n, 1, 1)
        yield {"images": images, "order": normal(n).argsort(), "n_test": n_test}


@split_and_scale.specification
def split_and_scale(images, order, n_test):
    n = len(order)
    train = [images[int(order[i])] for i in range(n_test, n)]
    pixels = [pixel for image in train for row in image for pixel in row]
    mean = sum(pixels) / len(pixels)
    spread = (sum((pixel - mean) ** 2 for pixel in pixels) / (len(pixels) - 1)) ** 0.5
    test = [images[int(order[i])] for i in range(n_test)]
    return torch.stack([(x - mean) / spread for x in train]), torch.stack([(x - mean) / spread for x in test])


@split_and_scale.solution
def split_and_scale(images, order, n_test):
    test, train = images[order[:n_test]], images[order[n_test:]]
    mean, spread = train.mean(), train.std()
    return (train - mean) / spread, (test - mean) / spread


@split_and_scale.alternative
def split_and_scale(images, order, n_test):
    shuffled = images[order]
    known = shuffled[n_test:]
    shuffled = (shuffled - known.mean()) / known.var().sqrt()
    return shuffled[n_test:], shuffled[:n_test]


# ------------------------------------------------------------------------------------------------------ 10.8


@exercise(
    "10.8",
    "The share of right answers",
    difficulty=1,
    tolerance=1e-6,  # in float32 it is as right
    hints=[
        """Three steps: which class has the highest logit, at each position? Where is that the target? How
        many targets are asked at all?""",
        """`logits.argmax(dim=-1)` has the shape of the targets. An ignored target, -100, can never be
        equal to a class, so count the equal ones and divide by the number of targets that are not -100.""",
    ],
)
def accuracy_of(logits, targets):
    """The share of the asked targets whose class has the highest logit.

    logits: (batch, position, n_classes)
    targets: (batch, position), integers; -100 where nothing is asked
    returns a number from 0 to 1
    """
    raise NotImplementedError


@accuracy_of.cases
def accuracy_of(normal):
    for batch, length, n_classes in [(5, 7, 3), (2, 11, 5), (7, 3, 3), (3, 13, 2)]:
        logits = normal(batch, length, n_classes)
        best = logits.argmax(-1)
        targets = torch.where(normal(batch, length) > 0.4, (best + 1) % n_classes, best)
        ignored = normal(batch, length) > torch.linspace(-0.6, 1.6, batch)[:, None]
        yield {"logits": logits, "targets": targets.masked_fill(ignored, -100)}
    yield {"logits": torch.tensor([[[1.0, 3.0, 2.0]]]), "targets": torch.tensor([[1]])}  # right: 1


@accuracy_of.specification
def accuracy_of(logits, targets):
    right = asked = 0
    for row, wanted in zip(logits.flatten(0, 1).tolist(), targets.flatten().tolist(), strict=True):
        if wanted != -100:
            asked += 1
            right += all(row[wanted] >= other for other in row)
    return right / asked


@accuracy_of.solution
def accuracy_of(logits, targets):
    right = (logits.argmax(dim=-1) == targets).sum()
    return (right / (targets != -100).sum()).item()


@accuracy_of.alternative
def accuracy_of(logits, targets):
    asked = targets != -100
    return (logits[asked].argmax(-1) == targets[asked]).double().mean()
