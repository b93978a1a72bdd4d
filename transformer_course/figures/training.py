"""Figures of lesson 10: a gradient step, a linear probe, ablations, digits, and a live training curve."""

import math
import time
from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures import inputs
from transformer_course.figures.arithmetic import Piece, arithmetic_table, short_number
from transformer_course.figures.bars import draw_bars
from transformer_course.figures.colours import ATTENTION, COMPONENTS, DARK, EDGE, GREY, HERO, LINES, MARK
from transformer_course.figures.heatmaps import draw_cells
from transformer_course.figures.inputs import Labels, Matrix, Tables
from transformer_course.figures.interactive import PassingOutput
from transformer_course.figures.layout import WIDEST, canvas, finished, number, two_decimals
from transformer_course.figures.png import mime_bundle
from transformer_course.figures.shapes import arrow
from transformer_lab.training.loop import History, TrainingConfig

NAMES = ["", "W", "", "x", "", "logits", "", "probabilities", "", "loss"]


def gradient_step(
    weights: Matrix, x: Sequence[float], right: int, *, rate: float, allowed: float, title: str
) -> Figure:
    """Draw one step of gradient descent with all its values, for weights (class, feature) and one input x.

    `right` is the correct class; the gradient is clipped to the norm `allowed`.
    """
    weights, x = inputs.numbers_of(weights, 2), inputs.numbers_of(x, 1)
    there, shares = _answer(weights, x, right)
    truth = (np.arange(len(weights)) == right).astype(float)[:, None]
    gradient = (shares - truth) * x
    shorter = max(1.0, np.linalg.norm(gradient) / allowed)
    clipped = gradient / shorter
    again, now = _answer(weights - rate * clipped, x, right)
    signs = np.full_like(truth, "−", dtype=object)
    back_there = np.hstack([shares.astype(object), signs, truth]), ["", "", "target"]
    of_logits, of_weights = ["gradient"], ["gradient"] * len(x)
    back = [(gradient, of_weights), "←", (x[None], [""] * len(x)), "← times", (shares - truth, of_logits)]
    back += ["←", back_there]
    clip = f"÷ {number(shorter)}: its length becomes {number(allowed)}" if shorter > 1 else "short enough"
    above = [
        "",
        "gradient of W",
        "",
        "",
        "",
        "gradient\nof the logits",
        "",
        "probabilities\n− target",
        "",
        "",
    ]
    rest = [""] * (len(NAMES) - 2)
    rows = [
        ["1 forward\n2 loss", *there],
        above,
        ["3 gradient", *back, "", ""],
        ["4 clip", f"↓ {clip}", *rest],
        ["", (clipped, of_weights), *rest],
        ["5 step", f"↓ old W − learning rate {number(rate)} × clipped gradient", *rest],
        ["1 and 2,\nnew W", *again],
    ]
    first, last = (" and ".join(map(short_number, column[:, 0])) for column in (shares, now))
    alt = f"Forward: W times x gives the logits, softmax the probabilities {first}, −log p(right) the loss. "
    alt += "Back, along thick arrows: probabilities minus target give the gradient of the logits; times x, "
    alt += f"the gradient of W; clipped ({clip}). Step: the new W is the old W minus {number(rate)} × the "
    alt += f"clipped gradient. Forward again: the probabilities are {last}"
    return arithmetic_table(rows, NAMES, wide=0.53, title=title, alt=alt)


def _answer(weights: np.ndarray, x: np.ndarray, right: int) -> tuple[list[Piece], np.ndarray]:
    """Return the forward pass from W and x to the loss, piece by piece, and the probabilities."""
    logits = (weights @ x)[:, None]
    classes = [["right" if place == right else "other"] for place in range(len(weights))]
    grown = np.exp(logits - logits.max())
    shares = grown / grown.sum()
    plain, loss = [""] * len(x), (-np.log(shares[[right]]), ["result"])
    named = np.hstack([classes, logits.astype(object)]), ["", ""]
    way = [(weights, plain), "times", (x[:, None], [""]), "→", named, "→ softmax", (shares, [""])]
    return [*way, "→ −log\np(right)", loss], shares


PROBE = LINES[4]  # the direction of the probe, and its scores


def linear_probe(
    points: Matrix, truth: Sequence[float], known: int, names: Labels, *, penalty: float = 1e-3, title: str
) -> Figure:
    """Draw a linear probe, fitted to the first `known` points (point, 2) with the targets `truth`, 1 or −1.

    The left panel shows the plane with w and the line w · x + c = 0; new points have a thick edge. The right
    panel shows the score w · x + c of each point. `names` are the names of the labels 1 and −1.
    """
    points, truth = inputs.numbers_of(points, 2), inputs.numbers_of(truth, 1)
    with_one = np.c_[points, np.ones(len(points))]
    fitted = with_one[:known]
    (*w, c) = np.linalg.solve(fitted.T @ fitted + penalty * np.eye(3), fitted.T @ truth[:known])
    scores, w = with_one @ [*w, c], np.array(w)
    figure, (plane, line) = canvas(2, (0, 0), (WIDEST, 3.9), width_ratios=(1.1, 1))
    foot = -c * w / (w @ w)  # the point on the line closest to 0
    plane.axline(foot, foot + w[::-1] * (-1, 1), color=DARK, linestyle="--")
    length = np.linalg.norm(w)
    along, beside = w[::-1] / length * (-1, 1), {"textcoords": "offset points", "va": "center"}
    start, end = foot + 3.2 * along, foot + (points[:, 0].max() - foot[0]) / along[0] * along
    arrow(plane, start, start + w, width=2.5, colour=PROBE, gap=0, zorder=4)
    words = f"w, of length\n{two_decimals(length, 3)}"
    plane.annotate(words, start + w, (6, 0), color=PROBE, weight="bold", size=9, **beside)
    plane.annotate("w · x + c = 0", end, (4, -14), ha="right", size=9, **beside)
    line.axvline(0, color=DARK, linestyle="--")
    is_new = np.arange(len(points)) >= known
    for name, sign, colour, marker in zip(names, (1, -1), LINES[1:4:2], "os", strict=True):
        for new in (False, True):
            here = (truth == sign) & (is_new == new)
            style = {"color": colour, "marker": marker, "s": 52, "zorder": 3 + new}
            style |= {"label": "" if new else name, "edgecolor": "black", "linewidth": 1.8 * new}
            plane.scatter(*points[here].T, **style)
            line.scatter(scores[here], new + 0.0 * scores[here] - 0.12 * sign, **style)
    right = (np.sign(scores) == truth)[known:]
    for ax, places in ((plane, points), (line, np.c_[scores, 1 - 0.12 * truth])):
        style = {"facecolor": "none", "edgecolor": HERO, "linewidth": 1.8, "label": "wrong"}
        ax.scatter(*places[known:][~right].T, s=190, **style)
    apart = np.linalg.norm(points[:, None] - points[known:], axis=-1)
    apart[apart == 0] = np.inf  # ignore the distance of a point to itself
    place = known + apart.min(axis=0).argmax()  # the new point that is furthest from all other points
    point, score = points[place], scores[place]
    plane.plot(
        *np.transpose([point, point - score * w / (w @ w)]),
        color=PROBE,
        linewidth=1.6,
        linestyle=":",
        label="distance from the line:\n(w · x + c) ÷ |w|",
    )
    style = {"textcoords": "offset points", "color": PROBE, "size": 9, "weight": "bold", "ha": "center"}
    words = f"{two_decimals(score)} ÷ {two_decimals(length, 3)} = {two_decimals(score / length)}"
    plane.annotate(words, point, (-6, -18), **style | {"ha": "left"})
    line.annotate(two_decimals(score), (score, 0.88 if truth[place] > 0 else 1.12), (24, -4), **style)
    line.set_yticks((0, 1), (f"{known} fitted", f"{len(right)} new:\n{right.sum()} right"))
    line.set(
        xlabel="score w · x + c; its sign is the prediction",
        ylim=(1.6, -0.6),
        title="the same vectors, by their score",
    )
    title_left = f"{len(points)} made-up vectors x, and the fitted w"
    plane.set(xlabel="feature 0 of x", ylabel="feature 1", aspect="equal", title=title_left)
    plane.scatter(
        [], [], s=52, color="white", edgecolor="black", linewidth=1.8, label="thick edge: new, not fitted"
    )
    figure.legend(*plane.get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    alt = "Left, the vectors in the plane, with a line between the two classes; right, their scores."
    return finished(figure, title, alt)


def weight_and_ablation(cases: Mapping[str, Tables], rows: Labels, *, title: str) -> Figure:
    """Draw a row of panels for each case, with a bar from 0 to 1 for each of the `rows`.

    The first measure is an attention weight, the others are error rates, with a line at chance level, 0.5.
    """
    count = len(next(iter(cases.values())))
    size = (WIDEST - 1.3) / count, 0.75 + 0.22 * len(rows)
    figure, panels = canvas(len(cases) * count, size, (1.3, 0.2), columns=count)
    for (case, measures), (first, *others) in zip(cases.items(), panels.reshape(-1, count), strict=True):
        for ax, (name, lengths) in zip((first, *others), measures.items(), strict=True):
            numbers = inputs.numbers_of(lengths, 1, name=name, gaps=True)
            draw_bars(ax, rows, numbers, [MARK if ax in others else COMPONENTS["attention"]], "")
            ax.set(xlim=(0, 1.1), title=name)
            ax.tick_params(labelleft=ax is first)
            for text in ax.texts:
                text.set_path_effects(EDGE)
        for ax in others:
            ax.axvline(0.5, color=GREY, linestyle="--", linewidth=1, zorder=0)
            ax.text(0.5, len(rows) - 0.5, "guessing: 0.50", ha="center", va="top", size=8, color=GREY)
        first.set_ylabel(case, rotation=0, ha="right", va="center", weight="bold")
    alt = "A row of panels for each kind of sentence: each head's weight, and the errors when it is ablated."
    return finished(figure, title, alt)


def head_ablation(
    adds: Mapping[str, Sequence[Sequence[float]]], ablated: Sequence[Labels], words: Labels, *, title: str
) -> Figure:
    """Draw the contribution of each part to the logits of `words`, and the predictions after ablations.

    `adds` has for each of two sentences and each part, by name, a value for each word. Each group of
    `ablated` parts is replaced by zero, and by its mean over both sentences.
    """
    parts, (first, second) = [*next(iter(adds.values()))], adds
    tables = np.array([[*sums_of_case.values()] for sums_of_case in adds.values()], dtype=float)
    names, pairs, groups = [first, second], [tables[:1], tables[1:]], [(), ()]
    for group, (how, put) in product(
        ablated, {"zero": 0, f"mean of\n{first[-1]} and {second[-1]}": tables.mean(axis=0)}.items()
    ):
        names, groups = [*names, how], [*groups, group]
        pairs.append(np.where(np.isin(parts, group)[:, None], put, tables))
    plain, result = [""] * len(words), ["result"] * len(words)
    rows = [["adds to the\nlogits of", *[([words], plain)] * len(pairs)]]
    for place, part in enumerate(parts):
        kinds = [["ablated"] * len(words) if part in group else plain for group in groups]
        rows.append([part, *zip([[pair[0][place]] for pair in pairs], kinds, strict=True)])
    sums = [[*pair.sum(axis=1)] for pair in pairs]
    right = [table.sum(axis=0).argmax() for table in tables]
    for which, name in enumerate(("sum", f"{second},\nsame ablation")):
        meant = [right[which], right[1], *right[which : which + 1] * len(sums[2:])]
        added, says = [name], ["prediction"]
        for sums_of_case, word in zip(sums, meant, strict=True):
            there = sums_of_case[which:]  # omit the second sentence if nothing is ablated
            added.append(([there[0]], result) if there else "")
            says.append(f"{words[there[0].argmax()]} {'✗✓'[int(there[0].argmax() == word)]}" if there else "")
        rows += [added, says]
    short = [" and ".join(part.partition(":")[0] for part in group) for group in ablated]
    cases = [first, second, *(f"{group}, {how}" for group in short for how in ("zero", "mean"))]
    alt = f"A column for each case, a row for each part; their sum is the logits of {' and '.join(words)}"
    for case, sums_of_case, prediction in zip(cases, sums, rows[-3][1:], strict=True):
        said = prediction.replace("✓", "(right)").replace("✗", "(wrong)")
        alt += f". {case}: {', '.join(map(short_number, sums_of_case[0]))}, {said}"
    figure = arithmetic_table(rows, ["", *names], title=title, alt=alt)
    (ax,), places = figure.axes, [text.get_position()[0] for text in figure.axes[0].texts]
    over = ["no ablation", *(f"{first}, ablated:\n{group}" for group in short)]
    for start, name in zip(range(1, len(places), 2), over, strict=False):
        ends = places[start] - 0.45, places[start + 1] + 0.45
        ax.plot(ends, [-0.5, -0.5], color=DARK, linewidth=1)
        ax.text(np.mean(ends), -0.58, name, ha="center", size=9.5, weight="bold", parse_math=False)
    (low,) = [text.get_position()[1] for text in ax.texts if text.get_text().endswith("same ablation")]
    ax.plot((places[1] - 0.45, places[-1] + 0.45), [low - 0.24] * 2, color=GREY, linewidth=0.8)
    for says in (text for text in ax.texts if "✗" in text.get_text()):
        says.set(color=HERO, weight="bold")
    ax.set_ylim(top=-1.0)
    return figure


def training_curves(history: History, *, title: str, steps: int) -> Figure:
    """Draw the loss of a run, and next to it the measured accuracies; the x axis ends at `steps`."""
    figure, axes = canvas(1 + bool(history.scores), (3.9, 0), (0.2, 3.2))
    axes[0].plot(range(1, history.steps + 1), history.loss, color=LINES[0], linewidth=1.2)
    axes[0].set(ylabel="training loss (nats)", ylim=(min(0, axes[0].dataLim.y0), None))
    for ax in axes[1:]:
        ax.plot(*zip(*history.scores.items(), strict=True), color=LINES[0], marker="o", markersize=4)
        ax.set(ylabel="accuracy", ylim=(0, 1.03) if max(history.scores.values()) <= 1 else None)
    for ax in axes:
        ax.set(xlabel="step", xlim=(0, steps))
        ax.grid(alpha=0.3)
    alt = "Left: the training loss. Right: the score on held-out data. Both are plotted over the steps."
    return finished(figure, title, alt)


def image_attention(
    images: Matrix,
    maps: Matrix,
    names: Labels,
    *,
    patch: tuple[int, int],
    digits: Labels,
    title: str,
    bar: str,
) -> Figure:
    """Draw each image (rows, columns), one of `digits`, and how much attention each head pays to each patch.

    `maps` are (image, head, patches), in reading order; a patch is given by its height and width.
    """
    images, maps = inputs.numbers_of(images, 3, name="images"), inputs.numbers_of(maps, 3, name="maps")
    n_images, rows, columns = images.shape
    grid = maps.reshape(n_images, len(names), rows // patch[0], columns // patch[1])
    across = 1 + len(names)
    figure, panels = canvas(n_images * across, (1.45, 1.45), (1.2, 0.8), columns=across)
    rows_of = zip(images, grid, panels.reshape(n_images, across), digits, strict=True)
    for image, line, (ink, *heads), digit in rows_of:
        _draw_ink(ink, image, patch)
        ink.set_ylabel(f"a {digit}", rotation=0, ha="right", va="center")
        for ax, weights in zip(heads, line, strict=True):
            shown = draw_cells(ax, weights, [], [], limits=(0, 1), colours=ATTENTION, gap=0.6)
            ax.set_aspect(patch[0] / patch[1])
            ax.set_axis_off()
    for ax, name in zip(panels, ["image", *names], strict=False):
        ax.set_title(name, fontsize=10)
    figure.colorbar(shown, ax=figure.axes, label=bar, shrink=0.7)
    alt = "Left: an image. To its right: what each head attends to; brighter patches have more weight."
    return finished(figure, title, alt)


def _draw_ink(ax: Axes, image: np.ndarray, patch: tuple[int, int]) -> None:
    """Draw the image itself, and the lines between its patches."""
    ax.imshow(image, cmap="gray_r")
    for height, draw, length in zip(patch, (ax.axhline, ax.axvline), image.shape, strict=True):
        for place in range(height, length, height):
            draw(place - 0.5, color=GREY, linewidth=0.8)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=GREY)


REDRAWN_AFTER = 1.0  # seconds; redrawing takes only a small part of the time


# A live training curve


class LiveCurve:
    """A `watch` callback of `train` that shows the progress and the training curves so far."""

    def __init__(self) -> None:
        self.output: PassingOutput | None = None

    def __call__(self, history: History, config: TrainingConfig) -> None:
        if self.output is None:  # a new run
            self.output, self.drawn_at = PassingOutput(), -math.inf
        is_done = history.steps == config.steps
        if is_done or time.monotonic() - self.drawn_at > REDRAWN_AFTER:
            self.output.show(_progress(history, config))
            self.drawn_at = time.monotonic()
        if is_done:
            self.output = None


def _progress(history: History, config: TrainingConfig) -> str:
    """Return a progress bar and the training curves, as HTML."""
    curves = training_curves(history, title=f"after {history.steps} steps", steps=config.steps)
    done = f'value="{history.steps}" max="{config.steps}"'
    words = f"{history.steps} of {config.steps} steps, loss {history.loss[-1]:.3f}"
    return f"<label><progress {done}></progress> {words}</label><br>{mime_bundle(curves)[0]['text/html']}"


live_curve = LiveCurve  # lower case, since lessons call it like a figure
