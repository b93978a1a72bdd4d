"""Exercises of lesson 10: schedule, accuracy, patches, hidden words, a clean split, the loop, the bound."""

import math
from itertools import product

import torch
from torch import nn
from torch.nn import functional as F

from transformer_lab.course.checker import exercise

# ------------------------------------------------------------------------------------------------------ 10.1


@exercise(
    "10.1",
    "Warm up, then go down",
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
    for steps, peak, warmup in [(11, 0.003, 3), (13, 2.0, 5), (7, 1.0, 1), (5, 0.5, 0), (1, 2.0, 0)]:
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


def up_and_down(up, down):
    """A schedule from two formulas in (step, steps, warmup), each a share of the peak."""
    return lambda n, peak, w: [peak * (up(s, n, w) if s < w else down(s, n, w)) for s in range(n)]


def rising(step, steps, warmup):
    """The right way up."""
    return (step + 1) / warmup


def falling(step, steps, warmup):
    """The right way down."""
    return (steps - step) / (steps - warmup)


schedule.mistake(
    "the first step is 0",
    """Your step 0 has the learning rate 0: a whole batch is computed and nothing is learned from it, and
    the peak comes one step late. Steps count from 0, so the share is `(step + 1) / warmup`.""",
    up_and_down(lambda s, n, w: s / w, falling),
    lambda n, peak, w: [peak * min(s / max(w, 1), (n - s) / (n - w)) for s in range(n)],
)

schedule.mistake(
    "0 at both ends",
    """Your two straight lines begin and end at 0 (`linspace` has both its ends): the first step and the
    last one change nothing. Begin at `peak / warmup`, and let the 0 come one step after the end.""",
    lambda n, peak, w: torch.linspace(0, peak, w).tolist() + torch.linspace(peak, 0, n - w).tolist(),
    up_and_down(lambda s, n, w: s / w, lambda s, n, w: (n - 1 - s) / (n - 1 - w)),
)

schedule.mistake(
    "the descent has a stage too many",
    """You divide the descent into one stage more than it has steps, so step `warmup` is below the peak, and
    the next number after the list would not be 0. The share is `(steps - step) / (steps - warmup)`.""",
    up_and_down(rising, lambda s, n, w: (n - s) / (n - w + 1)),
)

schedule.mistake(
    "the rise ends below the peak",
    """Your rise has one stage too many, `warmup + 1`, so its last step is still below the peak. There are
    `warmup` stages: step `warmup - 1` has the share `warmup / warmup`.""",
    up_and_down(lambda s, n, w: (s + 1) / (w + 1), falling),
)

schedule.mistake(
    "the rise starts at the second stage",
    """Your step 0 has two stages behind it already, and the end of the rise is above the peak. Steps count
    from 0: the share is `(step + 1) / warmup`.""",
    up_and_down(lambda s, n, w: (s + 2) / w, falling),
)

schedule.mistake(
    "the last step is 0",
    """Your last step has the learning rate 0, so it changes nothing: one batch is wasted, and the stages
    are too steep. The 0 belongs one step after the end: the share is `(steps - step) / (steps - warmup)`.""",
    up_and_down(rising, lambda s, n, w: (n - 1 - s) / (n - 1 - w)),
)

schedule.mistake(
    "one stage down at once",
    """Your descent begins one stage too early: step `warmup` should still have the peak. Count the steps
    that are left with this one included, `steps - step`.""",
    up_and_down(rising, lambda s, n, w: (n - 1 - s) / (n - w)),
)

schedule.mistake(
    "down from the wrong height",
    """Your descent is counted over all steps, `(steps - step) / steps`. So after the warm-up it does not
    begin at the peak but lower, with a jump. The descent has only `steps - warmup` steps: divide by
    these.""",
    up_and_down(rising, lambda s, n, w: (n - s) / n),
    lambda n, peak, w: [peak * min((s + 1) / max(w, 1), (n - s) / n) for s in range(n)],
)

schedule.mistake(
    "the descent too flat",
    """Each stage of your descent is `peak / steps`, so the learning rate does not come down to 0 one step
    after the end. The descent has only `steps - warmup` stages: divide the peak by these.""",
    lambda n, peak, w: [peak * ((s + 1) / w if s < w else 1 - (s - w) / n) for s in range(n)],
)

schedule.mistake(
    "zero before the end",
    """You take the warm-up off twice: your learning rate reaches 0 `warmup` steps before the end, and the
    rest of the training does nothing, or goes uphill. The steps left are `steps - step`, no less.""",
    up_and_down(rising, lambda s, n, w: (n - w - s) / (n - w)),
    up_and_down(rising, lambda s, n, w: max(0, n - w - s) / (n - w)),
)

schedule.mistake(
    "no warm-up",
    """Your learning rate begins at its height and only falls. The first steps are the dangerous ones:
    Adam's first step moves every weight by the whole learning rate. While `step < warmup` it must rise.""",
    lambda n, peak, w: [peak * (n - s) / n for s in range(n)],
    lambda n, peak, w: [peak * min(1, (n - s) / (n - w)) for s in range(n)],
)

schedule.mistake(
    "no descent",
    """Your learning rate stays at the peak after the warm-up. Then the weights keep jumping about the goal
    by that much. From step `warmup` on it falls: `peak * (steps - step) / (steps - warmup)`.""",
    up_and_down(rising, lambda s, n, w: 1),
)

schedule.mistake(
    "rise and descent multiplied",
    """You multiply the rise by a descent that has begun at step 0. The two take turns: while
    `step < warmup` only the rise counts, so that the peak is reached.""",
    up_and_down(lambda s, n, w: (s + 1) / w * (n - s) / n, lambda s, n, w: (n - s) / n),
)

schedule.mistake(
    "a cosine",
    """You go down along a cosine. That is a usual choice, but a straight line is asked for here: equal
    stages.""",
    up_and_down(rising, lambda s, n, w: (1 + math.cos(math.pi * (s - w) / (n - w))) / 2),
)

schedule.mistake(
    "down like one over the root",
    """You go down like 1/√step. That is the schedule of the first Transformer. Asked for are equal stages,
    down to 0 just after the end.""",
    up_and_down(rising, lambda s, n, w: math.sqrt(max(w, 1) / (s + 1))),
    up_and_down(rising, lambda s, n, w: math.sqrt(max(w, 1) / max(s, 1))),
)

schedule.mistake(
    "shares of the peak",
    """Your numbers are the shares, from 0 to 1, without the peak. Multiply each of them by `peak`.""",
    lambda n, peak, w: up_and_down(rising, falling)(n, 1.0, w),
)

schedule.mistake(
    "steps counted from 1",
    """Each of your numbers belongs to the step after it: you count from 1 to `steps`, and the formulas
    count from 0. The list begins with `peak / warmup` and ends one stage above 0.""",
    lambda n, peak, w: [*up_and_down(rising, falling)(n, peak, w)[1:], 0.0],
)

schedule.mistake(
    "the rise is one step too long",
    """Your rise includes step `warmup` (`step <= warmup`), where `(step + 1) / warmup` is more than 1. The
    rise has `warmup` steps, the numbers 0 to `warmup - 1`: use `<`.""",
    lambda n, peak, w: [peak * (rising(s, n, w) if s <= w else falling(s, n, w)) for s in range(n)],
)


# ------------------------------------------------------------------------------------------------------ 10.2


@exercise(
    "10.2",
    "The share of right answers",
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


def hits(logits, targets):
    """Where the highest logit is at the target."""
    return (logits.argmax(-1) == targets).double()


def asked_where(targets):
    return (targets != -100).double()


accuracy_of.mistake(
    "ignored targets counted as wrong",
    """You divide by all positions. At those that are not asked no class can be right, so they count as
    mistakes: the more padding, the worse the figure. Divide by the number of targets that are not -100.""",
    lambda x, t: hits(x, t).mean(),
)

accuracy_of.mistake(
    "ignored targets counted as right",
    """You count the positions that are not asked as right. The more padding, the better the figure. Leave
    them out altogether: neither above nor below the line.""",
    lambda x, t: (hits(x, t) + 1 - asked_where(t)).mean(),
)

accuracy_of.mistake(
    "ignored targets taken for class 0",
    """You turn -100 into class 0. Then padding is asked after all, and a model that says 0 everywhere gets
    it right. Leave those positions out.""",
    lambda x, t: hits(x, t.clamp(min=0)).mean(),
    lambda x, t: hits(x, t.clamp(min=0)).sum() / asked_where(t).sum(),
)

accuracy_of.mistake(
    "each sequence weighs the same",
    """You take the share of each sequence, and then the mean of the shares. A sequence with one target
    weighs as much as one with ten, and one without any is 0/0. Count over all targets together.""",
    lambda x, t: (hits(x, t).sum(1) / asked_where(t).sum(1)).mean(),
    lambda x, t: (hits(x, t).sum(1) / asked_where(t).sum(1)).nanmean(),
    lambda x, t: (hits(x, t).sum(1) / asked_where(t).sum(1).clamp(min=1)).mean(),
)

accuracy_of.mistake(
    "each position weighs the same",
    """You take the share at each position, and then the mean of the shares. Late positions, where few
    targets are asked, get too much weight. Count over all targets together.""",
    lambda x, t: (hits(x, t).sum(0) / asked_where(t).sum(0)).mean(),
    lambda x, t: (hits(x, t).sum(0) / asked_where(t).sum(0)).nanmean(),
    lambda x, t: (hits(x, t).sum(0) / asked_where(t).sum(0).clamp(min=1)).mean(),
)

accuracy_of.mistake(
    "the highest position, not the highest class",
    """You take the `argmax` over the positions. It says where a class is strongest, not which class is
    strongest. The classes are the last axis: `dim=-1`.""",
    lambda x, t: (x.argmax(1) == t).sum() / (t != -100).sum(),
    lambda x, t: (x.argmax(1) == t)[t != -100].double().mean(),
    lambda x, t: (x.argmax(1) == t).double().mean(),
    lambda x, t: (x.argmax(0) == t).sum() / (t != -100).sum(),
    lambda x, t: (x.argmax(0) == t).double().mean(),
)

accuracy_of.mistake(
    "divided by what is not asked",
    """You divide by the number of targets that are -100: the wrong ones are counted. Below the line
    belong those that are asked: `(targets != -100).sum()`.""",
    lambda x, t: hits(x, t).sum() / (t == -100).sum(),
)

accuracy_of.mistake(
    "the lowest logit",
    """You take the class with the lowest logit (`argmin`). A logit is a score: the higher, the likelier.
    `argmax`.""",
    lambda x, t: (x.argmin(-1) == t).sum() / (t != -100).sum(),
)

accuracy_of.mistake(
    "argmax without an axis",
    """`argmax()` without an axis looks for the one highest number in the whole tensor, and you compare its
    place with every target. Say over which axis: `dim=-1`, the classes.""",
    lambda x, t: (x.argmax() == t).sum() / (t != -100).sum(),
)

accuracy_of.mistake(
    "always 0",
    """Your result is 0 whatever comes in: you compare the highest logit itself with the target, and not its
    place (`max` for `argmax`).""",
    lambda x, t: (x.max(-1).values == t).sum() / (t != -100).sum(),
    lambda x, t: (x.amax(-1) == t).sum() / (t != -100).sum(),
)

accuracy_of.mistake(
    "divided with //",
    """You divide with `//`, which leaves nothing of a share: 0, unless every answer is right. Divide with
    `/`.""",
    lambda x, t: int(hits(x, t).sum()) // int((t != -100).sum()),
    lambda x, t: hits(x, t).sum() // asked_where(t).sum(),
)

accuracy_of.mistake(
    "whole sequences",
    """You count the sequences in which every answer is right. That is a harder question. Asked for is the
    share of single targets.""",
    lambda x, t: ((hits(x, t) + 1 - asked_where(t)) > 0).all(1).double().mean(),
    lambda x, t: (hits(x, t) > 0).all(1).double().mean(),
)

accuracy_of.mistake(
    "the share of wrong answers",
    """This is the share of mistakes, one minus the accuracy. Compare with `==`, or take 1 minus it.""",
    lambda x, t: 1 - hits(x, t).sum() / asked_where(t).sum(),
)

accuracy_of.mistake(
    "in percent",
    """You multiply by 100. A share lies from 0 to 1; percent belong into the print-out.""",
    lambda x, t: 100 * hits(x, t).sum() / asked_where(t).sum(),
)

accuracy_of.mistake(
    "a count",
    """This is the number of right answers. It grows with the batch and cannot be compared with anything.
    Divide by the number of targets that are not -100.""",
    lambda x, t: hits(x, t).sum(),
    lambda x, t: int(hits(x, t).sum()),
)

accuracy_of.mistake(
    "divided by the number of sequences",
    """You divide by the number of sequences, `len(targets)`. A sequence has many targets: divide by the
    number of those that are not -100.""",
    lambda x, t: hits(x, t).sum() / len(t),
)

accuracy_of.mistake(
    "the mean probability",
    """This is the mean probability of the right class. It is a sensible number, but another one: an answer
    that is right with .4 counts fully in an accuracy. Compare the `argmax` with the target.""",
    lambda x, t: x.softmax(-1).gather(-1, t.clamp(min=0)[..., None])[..., 0][t != -100].mean(),
)

accuracy_of.mistake(
    "class 0 left out",
    """You leave out the targets of class 0 (`targets > 0`, or a multiplication by the targets). Class 0 is
    a class like the others; only -100 asks nothing: `targets != -100`.""",
    lambda x, t: hits(x, t)[t > 0].mean(),
    lambda x, t: (hits(x, t) * (t > 0)).sum() / asked_where(t).sum(),
    lambda x, t: hits(x, t).sum() / (t > 0).sum(),
)


# ------------------------------------------------------------------------------------------------------ 10.3


@exercise(
    "10.3",
    "Cut an image into patches",
    hints=[
        """Like the cut into heads (lesson 05): first cut the axes, then move them, then join. Two axes are
        to be cut here, the rows and the columns.""",
        """`images.unflatten(2, (-1, width)).unflatten(1, (-1, height))` has the axes (batch, patch row,
        row in the patch, patch column, column in the patch). Which two must change places?""",
        """`transpose(2, 3)` brings the two patch axes together, and the two pixel axes. Join each pair with
        `flatten`, the last pair first.""",
    ],
    gradients=False,
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


def cut_grid(x, height, width):
    """The right cut: (batch, patch row, patch column, height, width)."""
    return x.unfold(1, height, height).unfold(2, width, width)


def as_tokens(grid):
    """(batch, a, b, c, d) → (batch, a·b, c·d)"""
    return grid.flatten(3).flatten(1, 2)


cut_patches.mistake(
    "one reshape",
    """You go to the wanted shape without moving an axis. That keeps the pixels in the order of the rows, so
    that a "patch" is a piece of one row, and not a rectangle. Cut rows and columns, then `transpose(2, 3)`,
    then join.""",
    lambda x, h, w: x.reshape(len(x), -1, h * w),
    lambda x, h, w: x.unflatten(2, (-1, w)).unflatten(1, (-1, h)).reshape(len(x), -1, h * w),
)

cut_patches.mistake(
    "height and width exchanged",
    """Your patches are `width` rows high and `height` columns wide. Axis 1 counts the rows: cut it by
    `height`.""",
    lambda x, h, w: as_tokens(cut_grid(x, w, h)),
    lambda x, h, w: as_tokens(x.unflatten(2, (-1, h)).unflatten(1, (-1, w)).transpose(2, 3)),
)

cut_patches.mistake(
    "patches column by column",
    """Each patch is right, but they come column by column. Reading order goes along a row of patches
    first: (batch, patch row, patch column, …) before you join.""",
    lambda x, h, w: as_tokens(cut_grid(x, h, w).transpose(1, 2)),
)

cut_patches.mistake(
    "pixels column by column",
    """Each patch lies on its side: its pixels come column by column. Before you join the last two axes
    they must be (height, width).""",
    lambda x, h, w: as_tokens(cut_grid(x, h, w).mT),
)

cut_patches.mistake(
    "rows and columns exchanged",
    """Patches and pixels both come column by column, as if the image had been turned over. Axis 1 is the
    rows, axis 2 the columns, in the image, in the grid of patches, and inside a patch.""",
    lambda x, h, w: as_tokens(cut_grid(x.mT, w, h)),
    lambda x, h, w: as_tokens(cut_grid(x, h, w).transpose(1, 2).mT),
)

cut_patches.mistake(
    "a comb instead of a patch",
    """Your patch takes every so many rows or columns, like the teeth of a comb, instead of neighbours. In
    `unflatten(1, (a, b))` the inner size b is what lies together: `(-1, height)`.""",
    lambda x, h, w: (
        x.unflatten(2, (w, -1)).unflatten(1, (h, -1)).permute(0, 2, 4, 1, 3).reshape(len(x), -1, h * w)
    ),
    lambda x, h, w: (
        x.unflatten(2, (-1, w)).unflatten(1, (h, -1)).permute(0, 2, 3, 1, 4).reshape(len(x), -1, h * w)
    ),
)

cut_patches.mistake(
    "so many patches, not so large",
    """You cut the rows into `height` pieces and the columns into `width` pieces. The two numbers say how
    large a patch is, not how many there are: `unflatten(1, (-1, height))`, the size last.""",
    lambda x, h, w: as_tokens(cut_grid(x, x.shape[1] // h, x.shape[2] // w)),
    lambda x, h, w: as_tokens(x.unflatten(2, (w, -1)).unflatten(1, (h, -1)).transpose(2, 3)),
    lambda x, h, w: x.unflatten(2, (w, -1)).unflatten(1, (h, -1)).transpose(2, 3).reshape(len(x), -1, h * w),
)

cut_patches.mistake(
    "pixels in front of the patches",
    """You bring the pixel axes to the front, (batch, height, width, patch row, patch column), and reshape.
    The shape is right and the rows are mixtures: a row must be one patch. The pixel axes belong at the
    end.""",
    lambda x, h, w: cut_grid(x, h, w).permute(0, 3, 4, 1, 2).reshape(len(x), -1, h * w),
)

cut_patches.mistake(
    "only the rows are cut",
    """You cut the image into strips, `height` rows each and as wide as the image. Cut the columns too, by
    `width`.""",
    lambda x, h, w: x.unflatten(1, (-1, h)).flatten(2),
)

cut_patches.mistake(
    "overlapping patches",
    """Your patches overlap: the next one begins one pixel further. Some models do that, but
    here each pixel belongs to one patch: move by `height` and by `width`.""",
    lambda x, h, w: as_tokens(x.unfold(1, h, 1).unfold(2, w, 1)),
    lambda x, h, w: F.unfold(x[:, None], (h, w)).mT,
)

cut_patches.mistake(
    "pixels and patches exchanged",
    """You return (batch, pixels, patches), as `F.unfold` does. A token is a row everywhere in this course:
    swap the last two axes, `.mT`.""",
    lambda x, h, w: F.unfold(x[:, None], (h, w), stride=(h, w)),
    lambda x, h, w: as_tokens(cut_grid(x, h, w)).mT,
)

cut_patches.mistake(
    "the patches are still pictures",
    """The patches are right, and still (height, width) each. A token is one row of numbers: join the last
    two axes, `flatten(-2)`.""",
    lambda x, h, w: cut_grid(x, h, w).flatten(1, 2),
)

cut_patches.mistake(
    "still a grid",
    """The pixels are joined, the patches still stand in a grid: (batch, patch row, patch column, pixels).
    An encoder wants one axis of positions: `flatten(1, 2)`.""",
    lambda x, h, w: cut_grid(x, h, w).flatten(3),
)

cut_patches.mistake(
    "nothing joined",
    """The cut is right; the five axes are left. Join the last two, the pixels of a patch, and then the two
    patch axes: `flatten(3, 4).flatten(1, 2)`.""",
    lambda x, h, w: cut_grid(x, h, w),
)

cut_patches.mistake(
    "patches folded into the batch",
    """You put the images and their patches on one axis. Then nobody knows which patches belong together,
    and attention would look across images. Keep (batch, patches, pixels).""",
    lambda x, h, w: as_tokens(cut_grid(x, h, w)).flatten(0, 1),
)

cut_patches.mistake(
    "the mean of each patch",
    """You return the mean of each patch: a smaller image. Keep all its pixels; which of them matter is for
    the trained projection to find out.""",
    lambda x, h, w: as_tokens(cut_grid(x, h, w)).mean(-1),
    lambda x, h, w: as_tokens(cut_grid(x, h, w)).mean(-1, keepdim=True),
)


# ------------------------------------------------------------------------------------------------------ 10.4


@exercise(
    "10.4",
    "Hide some words",
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


def hidden(ids, chosen, fate, others, mask_id):
    """The right inputs for the chosen tokens."""
    return torch.where(chosen & (fate >= 0.9), others, ids.masked_fill(chosen & (fate < 0.8), mask_id))


def at_the_bounds(ids, special, chance, fate, others, mask_id, chooses, hides, replaces):
    """The answer with other comparisons."""
    chosen = chooses(chance, 0.15) & ~special
    inputs = ids.masked_fill(chosen & hides(fate, 0.8), mask_id)
    return torch.where(chosen & replaces(fate, 0.9), others, inputs), ids.masked_fill(~chosen, -100)


def right_choice(special, chance):
    return (chance < 0.15) & ~special


def hiding(make):
    """An answer from a function of (ids, chosen, right inputs, right targets, the other arguments)."""

    def answer(ids, special, chance, fate, others, mask_id):
        chosen = right_choice(special, chance)
        inputs = hidden(ids, chosen, fate, others, mask_id)
        given = {"special": special, "chance": chance, "fate": fate, "others": others, "mask": mask_id}
        return make(ids, chosen, inputs, ids.masked_fill(~chosen, -100), given)

    return answer


def choosing(choose):
    """An answer that is right but for the choice of tokens: choose(special, chance)."""

    def answer(ids, special, chance, fate, others, mask_id):
        chosen = choose(special, chance)
        return hidden(ids, chosen, fate, others, mask_id), ids.masked_fill(~chosen, -100)

    return answer


hide_words.mistake(
    "every word is asked",
    """Your targets hold every word, also those that stand in plain sight. The model learns to copy its
    input, the loss falls fast, and nothing is learned from the context. Where nothing was chosen the target
    is -100.""",
    hiding(lambda ids, chosen, inputs, targets, given: (inputs, ids)),
    hiding(lambda ids, chosen, inputs, targets, given: (inputs, ids.masked_fill(given["special"], -100))),
)

hide_words.mistake(
    "nothing is hidden",
    """Your inputs are the words as they were: the answer stands where the question is asked, and the model
    copies it. Hide the chosen tokens in the inputs; only the targets keep them.""",
    hiding(lambda ids, chosen, inputs, targets, given: (ids, targets)),
)

hide_words.mistake(
    "the hole is the target",
    """You take the targets from the ids after hiding, so the model is taught to say `mask_id`. Take the
    targets from the old ids, before or beside. If you write into `token_ids` itself, the old ids are gone:
    `clone` first.""",
    hiding(lambda ids, chosen, inputs, targets, given: (inputs, inputs.masked_fill(~chosen, -100))),
)

hide_words.mistake(
    "always the mask token",
    """Every chosen token becomes `mask_id`. Then the model never has to doubt a word that it sees, and in
    use there are no mask tokens at all. Two in ten are treated otherwise: see `fate`.""",
    hiding(
        lambda ids, chosen, inputs, targets, given: (ids.masked_fill(chosen, given["mask"]), targets),
    ),
)

hide_words.mistake(
    "special tokens hidden",
    """You choose among the special tokens too. Then the model spends its effort on guessing padding, which
    is easy, and the loss looks better than it is. `chosen = (chance < 0.15) & ~special`.""",
    choosing(lambda special, chance: chance < 0.15),
    lambda ids, special, chance, fate, others, mask: (
        hidden(ids, chance < 0.15, fate, others, mask),
        ids.masked_fill(~right_choice(special, chance), -100),
    ),
)

hide_words.mistake(
    "only special tokens hidden",
    """You choose only special tokens. `special` is True where nothing may be chosen: turn it around,
    `& ~special`.""",
    choosing(lambda special, chance: (chance < 0.15) & special),
)

hide_words.mistake(
    "too many are hidden",
    """You choose the tokens whose chance is above .15, that is 85 of 100. Little context is left to guess
    from. A token is chosen if `chance < 0.15`.""",
    choosing(lambda special, chance: (chance > 0.15) & ~special),
    choosing(lambda special, chance: (chance >= 0.15) & ~special),
)

hide_words.mistake(
    "on the boundary",
    """You are right but for the tokens exactly on a boundary: you write `<=` or `>` where the task says below
    .15, below .8, and from .9 on. That is `chance < 0.15`, `fate < 0.8` and `fate >= 0.9`.""",
    *(
        lambda *given, bounds=bounds: at_the_bounds(*given, *bounds)
        for bounds in product((torch.lt, torch.le), (torch.lt, torch.le), (torch.ge, torch.gt))
        if bounds != (torch.lt, torch.lt, torch.ge)
    ),
)


hide_words.mistake(
    "only the holes are asked",
    """You ask only where `mask_id` stands. The tokens that stay, and those that are replaced, are there to
    be asked about: else the model may trust every word that it sees. Ask wherever a token was chosen.""",
    hiding(
        lambda ids, chosen, inputs, targets, given: (
            inputs,
            ids.masked_fill(inputs != given["mask"], -100),
        ),
    ),
)

hide_words.mistake(
    "only what was changed is asked",
    """You ask only where the input is another than the old id. The chosen tokens that stay are there to be
    asked about too: else the model learns to leave alone what it sees. Ask wherever a token was chosen.""",
    hiding(lambda ids, chosen, inputs, targets, given: (inputs, ids.masked_fill(inputs == ids, -100))),
)

hide_words.mistake(
    "the wrong places are asked",
    """Your -100 stands where a token was chosen, and the others are asked: the opposite. `masked_fill`
    fills where its mask is True, so it needs `~chosen` here.""",
    hiding(lambda ids, chosen, inputs, targets, given: (inputs, ids.masked_fill(chosen, -100))),
)

hide_words.mistake(
    "fate without choice",
    """You let `fate` work on all tokens, also on those that were not chosen. Then words are hidden or
    replaced about which nobody is asked. Both conditions at once: `chosen & (fate < 0.8)`.""",
    lambda ids, special, chance, fate, others, mask: (
        hidden(ids, fate >= 0, fate, others, mask),
        ids.masked_fill(~right_choice(special, chance), -100),
    ),
    lambda ids, special, chance, fate, others, mask: (
        torch.where(fate >= 0.9, others, ids.masked_fill(right_choice(special, chance) & (fate < 0.8), mask)),
        ids.masked_fill(~right_choice(special, chance), -100),
    ),
)

hide_words.mistake(
    "the two tenths exchanged",
    """You replace the tokens whose fate is from .8 to .9, and let those from .9 on stay. In the mean it is
    the same recipe, but with these numbers it is not the same batch: from .9 on comes the random word.""",
    hiding(
        lambda ids, chosen, inputs, targets, given: (
            torch.where(
                chosen & (given["fate"] >= 0.8) & (given["fate"] < 0.9),
                given["others"],
                ids.masked_fill(chosen & (given["fate"] < 0.8), given["mask"]),
            ),
            targets,
        )
    ),
)

hide_words.mistake(
    "two tenths replaced",
    """You replace every chosen token that is not hidden. Half of these must stay as they are, so that the
    model learns that what it sees is often right: random words only from .9 on.""",
    hiding(
        lambda ids, chosen, inputs, targets, given: (
            torch.where(
                chosen & (given["fate"] >= 0.8),
                given["others"],
                ids.masked_fill(chosen & (given["fate"] < 0.8), given["mask"]),
            ),
            targets,
        )
    ),
)

hide_words.mistake(
    "no random words",
    """You hide eight in ten and let the others stay; the random words are missing. Without them the model
    may trust every word that it sees. `torch.where(chosen & (fate >= 0.9), others, …)`.""",
    hiding(
        lambda ids, chosen, inputs, targets, given: (
            ids.masked_fill(chosen & (given["fate"] < 0.8), given["mask"]),
            targets,
        )
    ),
)

hide_words.mistake(
    "a word where nothing is asked",
    """Where nothing is asked, your targets hold an id (0, or `mask_id`) instead of -100. The loss takes it
    for a word and teaches the model to say it nearly everywhere. Only -100 is left out.""",
    hiding(lambda ids, chosen, inputs, targets, given: (inputs, ids.masked_fill(~chosen, 0))),
    hiding(lambda ids, chosen, inputs, targets, given: (inputs, ids.masked_fill(~chosen, given["mask"]))),
    hiding(lambda ids, chosen, inputs, targets, given: (inputs, ids * chosen)),
)

hide_words.mistake(
    "another number for nothing",
    """You mark what is not asked with -1. `F.cross_entropy` leaves out -100 and nothing else: with -1 it
    raises an error, far from here. Fill with -100.""",
    hiding(lambda ids, chosen, inputs, targets, given: (inputs, ids.masked_fill(~chosen, -1))),
)

hide_words.mistake(
    "-100 in the inputs",
    """You put -100 into the inputs. It is no word: the embedding has no vector for it. A hole in the inputs
    is `mask_id`; -100 belongs to the targets, where nothing is asked.""",
    hiding(
        lambda ids, chosen, inputs, targets, given: (
            inputs.masked_fill(inputs == given["mask"], -100),
            targets,
        )
    ),
    hiding(lambda ids, chosen, inputs, targets, given: (inputs.masked_fill(~chosen, -100), targets)),
)

hide_words.mistake(
    "results in the wrong order",
    """Both are right, in the wrong order: first the inputs, then the targets.""",
    hiding(lambda ids, chosen, inputs, targets, given: (targets, inputs)),
)


# ------------------------------------------------------------------------------------------------------ 10.5


@exercise(
    "10.5",
    "Keep the test apart",
    returns=("train", "test"),
    gradients=False,
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


def parts(images, order, n_test):
    """The right split: train, test."""
    return images[order[n_test:]], images[order[:n_test]]


def scaling(scale_train, scale_test=None):
    """A right split, scaled by functions of (the part, train, test, all images)."""
    scale_test = scale_test or scale_train

    def answer(images, order, n_test):
        train, test = parts(images, order, n_test)
        return scale_train(train, train, test, images), scale_test(test, train, test, images)

    return answer


def by(part, known):
    """The part, scaled by what is known."""
    return (part - known.mean()) / known.std()


split_and_scale.mistake(
    "scaled before the split",
    """Your mean and standard deviation come from all images, so the test images have had a say in how the
    training images look. Here that leaks little; with other preparations it leaks much. Split first, then
    measure the training part.""",
    scaling(lambda part, train, test, images: by(part, images)),
)

split_and_scale.mistake(
    "the test scaled by itself",
    """You scale the test images by a mean or a standard deviation of their own. Then the same image looks
    different in the test and in training, and a single image could not be scaled at all. Use the two
    numbers from training.""",
    scaling(lambda part, *_: by(part, part)),
    scaling(lambda part, train, *_: (part - part.mean()) / train.std()),
    scaling(lambda part, train, *_: (part - train.mean()) / part.std()),
)

split_and_scale.mistake(
    "brackets forgotten",
    """You divide the mean by the standard deviation, and subtract that: `/` comes before `-`. Put brackets
    around the difference: `(train - mean) / spread`.""",
    scaling(lambda part, train, *_: part - train.mean() / train.std()),
)

split_and_scale.mistake(
    "scaled by the test",
    """Your mean and standard deviation come from the test part. It must not be looked at before the end:
    take them from the training part.""",
    scaling(lambda part, train, test, images: by(part, test)),
)

split_and_scale.mistake(
    "order not used",
    """You split the images as they lie. Collected data are seldom mixed: the last images may be by other
    hands, or all of one class. Go by `order`.""",
    lambda x, o, n: (by(x[n:], x[n:]), by(x[:n], x[n:])),
    lambda x, o, n: (by(x[:-n], x[:-n]), by(x[-n:], x[:-n])),
)

split_and_scale.mistake(
    "an order of your own",
    """You shuffle by yourself (`torch.randperm`) and leave the given `order` alone. Then each run has
    another test set, and no two scores can be compared. Go by `order`.""",
    lambda x, o, n: own_order(x, torch.randperm(len(x)), n),
)


def own_order(images, order, n_test):
    """The right answer for another order."""
    train, test = parts(images, order, n_test)
    return by(train, train), by(test, train)


split_and_scale.mistake(
    "test images in training",
    """Your training part holds all images, the test images among them. Then the test asks only what was
    learned by heart. The training part is `order[n_test:]`.""",
    lambda x, o, n: (by(x[o], x[o]), by(x[o[:n]], x[o])),
    lambda x, o, n: (by(x, x), by(x[o[:n]], x)),
)

split_and_scale.mistake(
    "the last for the test",
    """You keep the last n_test of the order for the test. That would be as good, but the task says the
    first: `order[:n_test]`.""",
    lambda x, o, n: (by(x[o[:-n]], x[o[:-n]]), by(x[o[-n:]], x[o[:-n]])),
)

split_and_scale.mistake(
    "train and test exchanged",
    """You train on n_test images and keep the rest for the test. The first n_test of the order are the
    test images.""",
    lambda x, o, n: (by(x[o[:n]], x[o[:n]]), by(x[o[n:]], x[o[:n]])),
)

split_and_scale.mistake(
    "results in the wrong order",
    """Both parts are right, in the wrong order: first train, then test.""",
    lambda x, o, n: (by(x[o[:n]], x[o[n:]]), by(x[o[n:]], x[o[n:]])),
)

split_and_scale.mistake(
    "order used backwards",
    """You put image i to the place `order[i]` (`argsort`, or writing into `result[order]`). `order` names
    images: the first test image is `images[order[0]]`.""",
    lambda x, o, n: (by(x[o.argsort()[n:]], x[o.argsort()[n:]]), by(x[o.argsort()[:n]], x[o.argsort()[n:]])),
)

split_and_scale.mistake(
    "the test not scaled",
    """Your test pixels come back as they were. Either you scaled the training part only, or you overwrote
    `train` with its scaled pixels and then took mean and spread from it again: they are 0 and 1 by then.
    Note the two numbers first, and scale both parts by them.""",
    scaling(lambda part, train, *_: by(part, train), lambda part, *_: part),
    scaling(lambda part, train, *_: by(part, train), lambda part, train, *_: by(part, by(train, train))),
)

split_and_scale.mistake(
    "nothing scaled",
    """The split is right; the pixels are as they were. Subtract the mean of the training pixels and divide
    by their standard deviation.""",
    scaling(lambda part, *_: part),
)

split_and_scale.mistake(
    "divided by the variance",
    """You divide by the variance. It is the square of the standard deviation, so the pixels do not come to
    a spread of 1. Divide by `train.std()`.""",
    scaling(lambda part, train, *_: (part - train.mean()) / train.var()),
)

split_and_scale.mistake(
    "the mean not taken off",
    """You divide by the standard deviation and leave the mean where it was. Subtract the mean of the
    training pixels first.""",
    scaling(lambda part, train, *_: part / train.std()),
)

split_and_scale.mistake(
    "not divided",
    """You subtract the mean and do not divide. Divide by the standard deviation of the training pixels, so
    that they spread by 1.""",
    scaling(lambda part, train, *_: part - train.mean()),
)

split_and_scale.mistake(
    "each image by itself",
    """You bring every image to mean 0 and standard deviation 1 by itself. Nothing leaks, but how dark an
    image is as a whole is lost. Asked for are two numbers for all, from the training part.""",
    scaling(lambda part, *_: (part - part.mean((1, 2), True)) / part.std((1, 2), keepdim=True)),
)

split_and_scale.mistake(
    "each pixel by itself",
    """You give each place in the image a mean and a standard deviation of its own. People do that, and a
    place that is always empty then divides by 0. Asked for is one mean and one standard deviation for all
    pixels.""",
    scaling(lambda part, train, *_: (part - train.mean(0)) / train.std(0)),
)

split_and_scale.mistake(
    "another standard deviation",
    """You divide by the number of pixels inside the root (`correction=0`, or numpy's `std`), and torch's
    `.std()` divides by one less. With many pixels it hardly matters; here it is asked for.""",
    scaling(lambda part, train, *_: (part - train.mean()) / train.std(correction=0)),
)

split_and_scale.mistake(
    "brought between 0 and 1",
    """You map the smallest pixel to 0 and the largest to 1. One odd pixel then moves all the others. Asked
    for are mean 0 and standard deviation 1 of the training pixels.""",
    scaling(lambda part, train, *_: (part - train.min()) / (train.max() - train.min())),
)


# ------------------------------------------------------------------------------------------------------ 10.6


class Few(list):
    """Several pairs of inputs and targets, told in two words."""

    def __repr__(self):
        return f"{len(self)} pairs (inputs, targets)"


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

    def __repr__(self):
        return "SGD with momentum"


@exercise(
    "10.6",
    "The loop",
    returns=("losses", "test_losses"),
    tolerance=1e-5,  # clip_grad_norm_ adds 1e-6 to the length; without it is as right
    hints=[
        """The order is always the same: `model.train()`, `optimizer.zero_grad()`, logits, loss,
        `loss.backward()`, clip, `optimizer.step()`. Then `model.eval()` and the test.""",
        """`F.cross_entropy` wants (anything, n_classes) and (anything): flatten batch and position into one
        axis, in logits and targets. It leaves out targets of -100 by itself, above and below the line.""",
        """`nn.utils.clip_grad_norm_(model.parameters(), max_norm)` works on the gradients that are there:
        after `backward`, before `step`. And the next batch needs `model.train()` again.""",
    ],
)
def train_and_test(model, optimizer, batches, test, max_norm):
    """Take one step for each batch, and a test after each step.

    model: inputs → logits (batch, position, n_classes); it has dropout
    optimizer: of the model's parameters
    batches: pairs (inputs, targets); targets (batch, position), -100 where nothing is asked
    test: one such pair, never trained on
    max_norm: a gradient that is longer, over all parameters together, is scaled down to this length
    returns losses, test_losses: for each batch, its mean cross-entropy over the asked targets, with
        dropout, before the step; and that of `test`, without dropout, after the step (lists of numbers)
    """
    raise NotImplementedError


@train_and_test.cases
def train_and_test(normal):
    for batch, length, n_features, n_classes, max_norm in [
        (5, 7, 3, 2, 0.5),
        (3, 2, 5, 7, 0.3),
        (1, 1, 2, 3, 0.4),
    ]:
        model = SmallNetwork(n_features, n_classes)  # isolated: seeded
        pairs = Few()
        for _ in range(5):
            targets = (10 * normal(batch, length)).long() % n_classes
            hidden = normal(batch, length) > 0.3
            hidden[0, 0] = False
            pairs.append((2 * normal(batch, length, n_features), targets.masked_fill(hidden, -100)))
        yield {
            "model": model,
            "optimizer": Momentum(model.parameters(), lr=0.5, momentum=0.5),
            "batches": Few(pairs[:4]),
            "test": Few(pairs[4]),
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
def train_and_test(model, optimizer, batches, test, max_norm):
    losses, test_losses = [], []
    for inputs, targets in batches:
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
def train_and_test(model, optimizer, batches, test, max_norm):
    losses, test_losses = [], []
    for inputs, targets in batches:
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
def train_and_test(model, optimizer, batches, test, max_norm):
    measure = nn.CrossEntropyLoss()
    history = []
    for inputs, targets in batches:
        loss = measure(model.train()(inputs).mT, targets)  # (batch, n_classes, position)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        optimizer.zero_grad()  # after the step: the gradients of the next begin at none
        with torch.inference_mode():
            history.append((loss.detach(), measure(model.eval()(test[0]).mT, test[1])))
    return tuple(list(column) for column in zip(*history, strict=True))


def cross_entropy(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


ORDER = ("train", "zero", "loss", "backward", "clip", "step", "note", "eval", "test")


def looping(order=ORDER, measure=cross_entropy, once=(), clip=None):
    """The loop with its parts in another order, or left out; `once` are done before the first batch only."""
    clip = clip or (lambda model, most: nn.utils.clip_grad_norm_(model.parameters(), most))

    def answer(model, optimizer, batches, test, max_norm):
        losses, tests, loss = [], [], None
        modes = {"train": model.train, "eval": model.eval, "zero": optimizer.zero_grad}
        for name in once:
            modes[name]()
        for inputs, targets in batches:
            for part in order:
                if part in modes:
                    modes[part]()
                elif part == "loss":
                    loss = measure(model(inputs), targets)
                elif part == "backward":
                    loss.backward()
                elif part == "clip":
                    clip(model, max_norm)
                elif part == "step":
                    optimizer.step()
                elif part == "note":
                    losses.append(loss.item())
                elif part == "note after":
                    losses.append(measure(model(inputs), targets).item())
                elif part == "test":
                    tests.append(measure(model(test[0]), test[1]).item())
                elif part == "test the batch":
                    tests.append(measure(model(inputs), targets).item())
                elif part == "learn test":
                    measure(model(test[0]), test[1]).backward()
        return losses, tests

    return answer


def but(*left_out, **changed):
    """The right order without some parts."""
    return looping(tuple(part for part in ORDER if part not in left_out), **changed)


train_and_test.mistake(
    "zero_grad forgotten",
    """You never set the gradients back. `backward` adds to what is there, so each step follows the sum of
    all gradients so far, most of them out of date. `optimizer.zero_grad()` once for each
    batch.""",
    but("zero"),
    but("zero", once=("zero",)),
)

train_and_test.mistake(
    "no weight ever changes",
    """The step has nothing to follow, or is missing, and no weight ever changes. Either you set the gradients
    back between `backward` and `step`, or one of these two is not called. The order is `zero_grad`,
    `backward`, clip, `step`.""",
    looping(("train", "loss", "backward", "zero", "clip", "step", "note", "eval", "test")),
    looping(("train", "loss", "backward", "clip", "zero", "step", "note", "eval", "test")),
    but("step"),
    but("step", "clip"),
    but("backward", "clip"),
)

train_and_test.mistake(
    "the step before backward",
    """You step before this batch's gradient is there: each step follows the gradient of the batch before,
    and the first step does nothing. The order is loss, `backward`, clip, `step`.""",
    looping(("train", "loss", "step", "zero", "backward", "clip", "note", "eval", "test")),
)

train_and_test.mistake(
    "the step follows the gradient in its full length",
    """The gradient is not clipped when the step is taken. Either you do not clip at all, or you clip before
    `backward`, when there is no gradient yet, or after the step. `nn.utils.clip_grad_norm_` belongs between
    `backward` and `step`.""",
    looping(("train", "zero", "loss", "clip", "backward", "step", "note", "eval", "test")),
    looping(("train", "clip", "zero", "loss", "backward", "step", "note", "eval", "test")),
    looping(("train", "zero", "loss", "backward", "step", "clip", "note", "eval", "test")),
    but("clip"),
)

train_and_test.mistake(
    "clipped to another length",
    """You clip to a fixed length, 1 perhaps. The length that is allowed is given: `max_norm`.""",
    looping(clip=lambda model, most: nn.utils.clip_grad_norm_(model.parameters(), 1.0)),
)

train_and_test.mistake(
    "each number clipped by itself",
    """You limit each number of the gradient (`clip_grad_value_`). That turns the gradient into another
    direction. Asked for is the length of the whole: `clip_grad_norm_` makes all numbers smaller by one
    factor.""",
    looping(clip=lambda model, most: nn.utils.clip_grad_value_(model.parameters(), most)),
)

train_and_test.mistake(
    "each parameter clipped by itself",
    """You clip the gradient of each parameter by itself. The length meant is that of the whole gradient,
    over all parameters together: hand `model.parameters()` to `clip_grad_norm_` in one call.""",
    looping(clip=lambda model, most: [nn.utils.clip_grad_norm_([p], most) for p in model.parameters()]),
)

train_and_test.mistake(
    "every gradient brought to max_norm",
    """You bring every gradient to the length `max_norm`, the short ones too. Near the goal the gradient
    becomes short, and so should the steps. Scale down only what is longer.""",
    looping(clip=lambda model, most: stretch(model, most)),
)


def stretch(model, most):
    """Bring the gradient to this length, whatever it was."""
    length = math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters()))
    for parameter in model.parameters():
        parameter.grad *= most / (length + 1e-6)


train_and_test.mistake(
    "no eval mode",
    """You test with dropout at work: the test loss is worse than the model, and another one at every call.
    `model.eval()` before the test. (`torch.no_grad()` does not switch dropout off.)""",
    but("eval"),
    but("eval", "train"),
)

train_and_test.mistake(
    "modes exchanged",
    """You train in `eval` mode and test in `train` mode: dropout is missing where it should help, and at
    work where it should not. `model.train()` before the step, `model.eval()` before the test.""",
    looping(("eval", "zero", "loss", "backward", "clip", "step", "note", "train", "test")),
)

train_and_test.mistake(
    "tested on the batch",
    """You test on the batch that was just trained on. That shows how well it was learned by heart. Measure
    on `test`.""",
    looping(("train", "zero", "loss", "backward", "clip", "step", "note", "eval", "test the batch")),
)


def by_sequence(logits, targets):
    """The mean of the sequences' means."""
    each = F.cross_entropy(logits.mT, targets, reduction="none")  # (batch, position)
    return (each.sum(1) / (targets != -100).sum(1).clamp(min=1)).mean()


train_and_test.mistake(
    "each sequence weighs the same",
    """You take the mean of each sequence, and then the mean of these. A sequence with one asked target then
    weighs as much as one with ten. The mean is over all asked targets of the batch together.""",
    looping(measure=by_sequence),
)

train_and_test.mistake(
    "training goes on in eval mode",
    """The model is in eval mode when it is trained, from the first batch or from the first test on, and so
    trains without dropout. No error will tell you. `model.train()` belongs inside the loop, before each
    step.""",
    but("train"),
    but("train", once=("train",)),
    but("train", once=("eval",)),
    but("train", "eval", once=("eval",)),
)

train_and_test.mistake(
    "the test before the step",
    """You test before the step, so each test loss tells of the model one step ago. Test after
    `optimizer.step()`.""",
    looping(("eval", "test", "train", "zero", "loss", "backward", "clip", "step", "note")),
    looping(("train", "zero", "loss", "note", "eval", "test", "backward", "clip", "step")),
)

train_and_test.mistake(
    "the test is trained on",
    """You call `backward` on the test loss too, and the next step follows its gradient: the model learns
    from the test, which then proves nothing. Only measure there, inside `torch.no_grad()`.""",
    looping(("train", "loss", "backward", "clip", "step", "zero", "note", "eval", "test", "learn test")),
    looping(("train", "zero", "loss", "backward", "eval", "learn test", "clip", "step", "note", "test")),
)


def over_all(logits, targets):
    """Nothing is surprising where nothing is asked, and yet it counts."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").mean()


train_and_test.mistake(
    "divided by all positions",
    """You divide by all positions, also those that are not asked. The loss looks better the more padding
    there is, and its gradient shrinks with it. The mean is over the targets that are not -100;
    `F.cross_entropy` does that by itself.""",
    looping(measure=over_all),
)

train_and_test.mistake(
    "padding taken for class 0",
    """You turn -100 into class 0. Now padding is asked after all, and the model is taught to say 0 there.
    Leave -100 in the targets: `F.cross_entropy` leaves those positions out.""",
    looping(measure=lambda x, t: cross_entropy(x, t.clamp(min=0))),
)

train_and_test.mistake(
    "the sum instead of the mean",
    """You add the cross-entropies up. Loss and gradient then depend on how many targets a batch happens to
    ask. Take the mean, which is the default.""",
    looping(
        measure=lambda x, t: F.cross_entropy(x.flatten(0, 1), t.flatten(), ignore_index=-100, reduction="sum")
    ),
)

train_and_test.mistake(
    "softmax twice",
    """You apply softmax, and `F.cross_entropy` does so again. The second one is nearly even whatever the
    first says: the loss cannot fall far and the gradient is small. Hand it the logits as they are.""",
    looping(measure=lambda x, t: cross_entropy(x.softmax(-1), t)),
)

train_and_test.mistake(
    "log-softmax over the wrong axis",
    """You normalise over the positions instead of the classes. Each row must compare the classes of one
    position: the last axis of the logits. `F.cross_entropy` does it; hand it the logits.""",
    looping(
        measure=lambda x, t: F.nll_loss(x.log_softmax(1).flatten(0, 1), t.flatten()),
    ),
)

train_and_test.mistake(
    "logits and targets not flattened",
    """`F.cross_entropy` takes axis 1 for the classes. With (batch, position, n_classes) that is the
    positions. Flatten batch and position into one axis, `logits.flatten(0, 1)` and `targets.flatten()`, or
    hand over `logits.mT`.""",
    looping(measure=lambda x, t: F.cross_entropy(x, t)),
)

train_and_test.mistake(
    "cut off from the model",
    """You make the loss from numbers that no longer know where they come from (`detach`, `.data`,
    `torch.no_grad()`, `torch.tensor(…)`), so `backward` finds no way to the weights. Hand over the logits
    themselves.""",
    looping(measure=lambda x, t: cross_entropy(x.detach(), t)),
)

train_and_test.mistake(
    "the loss after the step",
    """You note the loss of a batch after the step on it. That is always a little better, because the model
    has seen this batch. Note the loss that `backward` was called on.""",
    looping(("train", "zero", "loss", "backward", "clip", "step", "note after", "eval", "test")),
    looping(("train", "zero", "loss", "backward", "clip", "step", "eval", "note after", "test")),
)

train_and_test.mistake(
    "results in the wrong order",
    """Both lists are right, in the wrong order: first the losses of the batches, then those of the test.""",
    lambda *given: looping()(*given)[::-1],
)


# ------------------------------------------------------------------------------------------------------ 10.7


@exercise(
    "10.7",
    "The best loss that there is",
    gradients=False,  # a number is wanted
    tolerance=1e-6,  # log(p + 1e-9) is as right
    hints=[
        """For one context: the best prediction is the share of each word there, p. It costs on average
        −Σ p · log p. A word that never stands there costs nothing (`torch.special.entr` knows that).""",
        """Contexts are not equally frequent. Weight each one's entropy by its share of all the counts.""",
    ],
)
def lowest_loss(counts):
    """The mean cross-entropy, in nats, that the best possible model of a language has.

    counts: (contexts, words): how often each word stands in each context; no context is empty
    returns a number: no model that sees only the context can do better, on average over all the counts
    """
    raise NotImplementedError


@lowest_loss.cases
def lowest_loss(normal):
    for contexts, words in [(5, 3), (3, 7), (2, 2)]:
        counts = (5 * normal(contexts, words).abs()).floor()
        counts[:, 0] += torch.arange(contexts) + 1.0
        yield {"counts": counts}
    yield {"counts": torch.tensor([[1.0, 1.0, 0.0]])}  # one context, by hand: log 2


@lowest_loss.specification
def lowest_loss(counts):
    loss, everything = 0.0, float(counts.sum())
    for row in counts.tolist():
        for count in row:
            if count:
                loss -= count / everything * math.log(count / sum(row))
    return loss


@lowest_loss.solution
def lowest_loss(counts):
    often = counts.sum(dim=-1)  # (contexts)
    shares = counts / often[:, None]
    entropy = torch.special.entr(shares).sum(dim=-1)  # −Σ p·log p, with 0·log 0 = 0
    return ((entropy * often).sum() / often.sum()).item()


@lowest_loss.alternative
def lowest_loss(counts):
    joint = counts / counts.sum()
    seen = joint > 0
    best = (joint / joint.sum(-1, keepdim=True))[seen]
    return -(joint[seen] * best.log()).sum()


def entropies(counts, axis=-1):
    """−Σ p·log p along an axis."""
    return torch.special.entr(counts / counts.sum(axis, keepdim=True)).sum(axis)


lowest_loss.mistake(
    "every context weighs the same",
    """You take the plain mean of the contexts' entropies. A context that is met ten times as often counts
    ten times as much: weight by its share of the counts.""",
    lambda c: entropies(c).mean(),
)

lowest_loss.mistake(
    "contexts added up",
    """You add the contexts' entropies. The loss is a mean over all words that are asked: weight each
    context by its share of the counts.""",
    lambda c: entropies(c).sum(),
)

lowest_loss.mistake(
    "a sum over all words",
    """You weight each context by its counts, and do not divide: your number grows with the text. The loss is
    a mean: divide by the sum of all counts.""",
    lambda c: (entropies(c) * c.sum(-1)).sum(),
)

lowest_loss.mistake(
    "all that fits is alike",
    """You take the logarithm of how many words fit. That is right only where all of them are equally
    frequent, as in this lesson's language. Here they are not: −Σ p · log p for each context.""",
    lambda c: ((c > 0).sum(-1).double().log() * c.sum(-1)).sum() / c.sum(),
    lambda c: (c > 0).sum(-1).double().log().mean(),
)

lowest_loss.mistake(
    "each context by itself",
    """You return one entropy for each context. They are all needed; now take their mean, each weighted by
    its share of the counts.""",
    lambda c: entropies(c),
)

lowest_loss.mistake(
    "softmax of the counts",
    """You take the softmax of the counts. Counts are no logits: a word that is met twice as often is twice
    as likely, no more. Divide each row by its sum.""",
    lambda c: (torch.special.entr(c.softmax(-1)).sum(-1) * c.sum(-1)).sum() / c.sum(),
)

lowest_loss.mistake(
    "the mean over all words",
    """You take the mean over words as well. The entropy of a context is the sum over its words: each term
    holds its own share already.""",
    lambda c: torch.special.entr(c / c.sum(-1, keepdim=True)).mean(),
)

lowest_loss.mistake(
    "in bits",
    """You use the logarithm to base 2. `F.cross_entropy` uses the natural one, so the two could not be
    compared: `torch.log`.""",
    lambda c: (entropies(c) * c.sum(-1)).sum() / c.sum() / math.log(2),
)

lowest_loss.mistake(
    "the context not used",
    """This is the entropy of the words by themselves: the best loss of a model that sees no context at all.
    Divide each row by its own sum.""",
    lambda c: entropies(c.sum(0)),
)

lowest_loss.mistake(
    "the context is guessed too",
    """You divide the counts by their total, so this is the entropy of context and word together. The
    context is given, not guessed: divide each row by its own sum inside the logarithm.""",
    lambda c: torch.special.entr(c / c.sum()).sum(),
)

lowest_loss.mistake(
    "columns divided, not rows",
    """You divide each column by its sum: that says which context a word comes from. Asked is which word a
    context leads to: divide each row by its sum.""",
    lambda c: (entropies(c, 0) * c.sum(0)).sum() / c.sum(),
    lambda c: entropies(c, 0).mean(),
)

lowest_loss.mistake(
    "0 · log 0",
    """A word that never stands in a context gives 0 · log 0, which is NaN for a computer, and 0 in the
    formula. Leave those out, or use `torch.special.entr`.""",
    lambda c: -(c / c.sum() * (c / c.sum(-1, keepdim=True)).log()).sum(),
)

lowest_loss.mistake(
    "the sign",
    """Your number is negative. The logarithm of a share is below 0; the loss is minus its mean.""",
    lambda c: -(entropies(c) * c.sum(-1)).sum() / c.sum(),
)

lowest_loss.mistake(
    "the number of choices",
    """You return e to the power of the loss: among how many words the best model still wavers (the
    perplexity). The loss itself is asked for.""",
    lambda c: ((entropies(c) * c.sum(-1)).sum() / c.sum()).exp(),
)

lowest_loss.mistake(
    "always the most frequent word",
    """This is about a model that bets everything on the most frequent word. A loss is lowest for shares,
    not for bets: −Σ p · log p over all words of a context.""",
    lambda c: 1 - c.max(-1).values.sum() / c.sum(),
    lambda c: -((c.max(-1).values / c.sum(-1)).log() * c.sum(-1)).sum() / c.sum(),
)
