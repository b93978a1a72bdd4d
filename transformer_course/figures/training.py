"""A step of training, number by number, and what is left of an answer without some heads."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from matplotlib.figure import Figure

from transformer_course.figures import given
from transformer_course.figures.algebra import Piece, arithmetic
from transformer_course.figures.colours import DARK
from transformer_course.figures.given import Labels, Matrix
from transformer_course.figures.layout import number

NAMES = ["", "W", "", "x", "", "logits", "", "probabilities", "", "loss"]


def one_step(
    weights: Matrix, x: Sequence[float], right: int, *, rate: float, allowed: float, title: str
) -> Figure:
    """Draw a step of gradient descent, each number of it: for weights (class, feature), one input x.

    Of the classes the one `right` is; the gradient is cut to the length `allowed`.
    """
    weights, x = given.numbers_of(weights, 2), given.numbers_of(x, 1)
    there, shares = _answer(weights, x, right)
    truth = (np.arange(len(weights)) == right).astype(float)[:, None]
    gradient = (shares - truth) * x
    shorter = max(1.0, np.linalg.norm(gradient) / allowed)
    clipped = gradient / shorter
    again, _ = _answer(weights - rate * clipped, x, right)
    back_there = (shares, [""]), "minus\nthe truth", (truth, ["truth"])
    difference = np.hstack([[[""]] * len(weights), (shares - truth).astype(object)]), ["", "gradient"]
    back = [_back(gradient), "←", (x[None], [""] * len(x)), "← times", difference]
    clip = f"÷ {number(shorter)}, to length {number(allowed)}" if shorter > 1 else "it is short enough"
    rest = [""] * (len(NAMES) - 2)
    rows = [
        ["forward:\n1 answer,\n2 loss", *there],
        ["backward:\n3 gradient", *back, "← difference", *back_there],
        ["", f"↓ 4 clip: {clip}", *rest],
        ["", _back(clipped), *rest],
        ["", f"↓ 5 step: W − learning rate {number(rate)} × that", *rest],
        ["forward\nagain", *again],
    ]
    see = "From above: from x to the loss; back to W, which moves against its gradient; from x again."
    return arithmetic(rows, NAMES, wide=0.48, title=title, see=see)


def _back(table: np.ndarray) -> Piece:
    return table, ["gradient"] * table.shape[1]


def _answer(weights: np.ndarray, x: np.ndarray, right: int) -> tuple[list[Piece], np.ndarray]:
    """Return the way from W and x to the loss, piece by piece, and the probabilities."""
    logits = (weights @ x)[:, None]
    classes = [["right" if each == right else "other"] for each in range(len(weights))]
    grown = np.exp(logits - logits.max())
    shares = grown / grown.sum()
    plain, loss = [""] * len(x), (-np.log(shares[[right]]), ["result"])
    named = np.hstack([classes, logits.astype(object)]), ["", ""]
    way = [(weights, plain), "times", (x[:, None], [""]), "→", named, "→ softmax", (shares, [""])]
    return [*way, "→ −log of the\nright one's", loss], shares


def ablation(
    adds: Mapping[str, Sequence[Sequence[float]]], silent: Sequence[Labels], words: Labels, *, title: str
) -> Figure:
    """Draw what each part adds to the logits of `words`, and what is said where some are silenced.

    `adds` has for each sentence and part, by name, a number for each word. In the first sentence groups of
    parts are `silent`: 0 stands in their place, or their mean over the sentences.
    """
    first, parts = next(iter(adds.items()))
    tables = np.array([[*each.values()] for each in adds.values()], dtype=float)
    names, tries = [*adds], [(table, ()) for table in tables]
    for group, (how, put) in product(silent, {"0": 0 * tables[0], "its mean": tables.mean(axis=0)}.items()):
        tries.append((np.where(np.isin([*parts], group)[:, None], put, tables[0]), group))
        names.append(f"{first}:\nput {how}")
    plain = [""] * len(words)
    rows = [["adds to the\nlogits of", *[([words], plain)] * len(tries)]]
    for place, part in enumerate(parts):
        kinds = [["silenced"] * len(words) if part in group else plain for _, group in tries]
        added = [[table[place]] for table, _ in tries]
        rows.append([part, *zip(added, kinds, strict=True)])
    sums = [table.sum(axis=0) for table, _ in tries]
    rows.append(["added up", *(([each], ["result"] * len(words)) for each in sums)])
    said = [each.argmax() for each in sums]
    right = said[: len(adds)] + said[:1] * (len(tries) - len(adds))
    verdicts = ["✓" if one == other else "✗" for one, other in zip(said, right, strict=True)]
    rows.append(["it says", *(f"{words[one]} {mark}" for one, mark in zip(said, verdicts, strict=True))])
    see = "A column for each try: what is added up. What is hatched stands in the place of a head."
    figure = arithmetic(rows, ["", *names], title=title, see=see)
    (ax,), places, start = figure.axes, [text.get_position()[0] for text in figure.axes[0].texts], 1
    groups = {"nothing silenced": len(adds)} | {f"{', '.join(group)} silenced": 2 for group in silent}
    for name, count in groups.items():
        ends, start = (places[start] - 0.45, places[start + count - 1] + 0.45), start + count
        ax.plot(ends, [-0.5, -0.5], color=DARK, linewidth=1)
        ax.text(np.mean(ends), -0.58, name, ha="center", size=9.5, weight="bold")
    ax.set_ylim(top=-0.8)
    return figure
