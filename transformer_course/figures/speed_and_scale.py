"""Drawings of lesson 13: memory traffic, attention in tiles, a ring of workers, measurements."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from IPython.display import publish_display_data
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from transformer_course.figures import inputs
from transformer_course.figures.colours import COMPONENTS, DARK, GREY, HERO, LIT, NO, PALE
from transformer_course.figures.heatmaps import draw_cells
from transformer_course.figures.inputs import Matrix
from transformer_course.figures.interactive import PassingOutput
from transformer_course.figures.layout import (
    WIDEST,
    canvas,
    cell_texts,
    finished,
    legend_of_cells,
    number,
    two_decimals,
)
from transformer_course.figures.png import mime_bundle
from transformer_course.figures.shapes import Point, arrow, box, line, way

KEPT_AT = 0.95, 2.37, 3.79, 5.21  # x coordinates of the three numbers kept for a query, and their right end
HELD = {"one gradient": "white", "sum of two": PALE[2], "sum of all": PALE[0]}  # the content of a piece


def draw_tile(ax: Axes, scores: Matrix, tile: int, size: tuple[int, int], values: Matrix) -> None:
    """Draw scores (query_pos, key_pos) while a fused kernel processes a tile of this (height, width).

    On the right are the numbers that it keeps for each query, below them how they are computed for the first
    query of the tile. As on paper, every number is rounded to two decimals before it is used. The values are
    (key_pos,).
    """
    table = inputs.numbers_of(scores, 2, name="the scores").round(2)
    (rows, columns), (height, width) = table.shape, size
    across = columns // width
    top, left = tile // across * height, tile % across * width
    order = np.arange(rows)[:, None] // height * across + np.arange(columns) // width  # the tile of each cell
    here, states = order == tile, np.sign(order - tile)  # -1: discarded, 0: in the cache, 1: not read yet
    colours = ListedColormap([PALE[2], COMPONENTS["scores"], "white"])
    values = inputs.numbers_of(values, 1).round(2)
    keys = [f"k{i}" for i in range(columns)]
    for i in range(left, left + width):
        keys[i] += f"\nv{i}\n{two_decimals(values[i])}"
    words = np.where(here, cell_texts(table), "")
    style = {"limits": (-1, 1), "colours": colours, "words": words, "size": 7}
    draw_cells(ax, states, [f"q{i}" for i in range(rows)], keys, **style).set(edgecolor=GREY)
    ax.tick_params(axis="x", rotation=0, labelsize=7)
    for place in set(range(order.max() + 1)) - {tile}:
        middle = (place % across + 0.5) * width, (place // across + 0.5) * height
        word, ground = ("forgotten", PALE[2]) if place < tile else ("", "white")
        style = {
            "edgecolor": GREY,
            "linewidth": 0.4,
            "rounding": 0,
            "zorder": 1.5,
        }  # a single piece, without lines
        box(ax, middle, word, (width, height), ground, letters=8, **style)
    said: list[str] = []
    for row in range(top + height):
        last = tile % across if row >= top else across - 1
        pencil = _by_pencil(table[row], values, width)
        (*before, _), (*kept, lines) = pencil[last - 1] if last else pencil[0], pencil[last]
        grows = row >= top and before[0] < kept[0]
        end = last == across - 1
        _draw_kept(ax, (columns, row + 0.5), before, kept, grows=grows, is_done=end, is_past=row < top)
        if row >= top:
            said.append(f"q{row}: {', '.join(map(two_decimals, kept))}")
        if end:
            said.append(f"output of q{row}: {two_decimals(kept[2] / kept[1])}")
        if row == top:
            style = {"color": HERO, "weight": "bold"} if grows else {}
            again = " (k and v are read again)" if top and not left else ""
            ax.set_xlabel(f"q{row}{again}: {lines}", size=8.5, loc="left", linespacing=1.35, **style)
    read = f"In the cache: scores of q{top} to q{top + height - 1} with k{left} to k{left + width - 1}"
    ax.set_label(f"{read}. Kept, largest score, sum of exp, weighted sum: {'; '.join(said)}")
    for right, name in zip(
        KEPT_AT, ("largest\nscore", "sum of\nexp", "weighted\nsum", "output"), strict=True
    ):
        ax.text(columns + right, -0.2, name, ha="center", va="baseline", size=8)
    ax.set(xlim=(0, columns + 5.95), ylim=(rows, -1.05), aspect="equal")


def _by_pencil(scores: np.ndarray, values: np.ndarray, width: int) -> list[tuple[float, float, float, str]]:
    """The numbers kept for a query after each tile: maximum, sum, weighted sum; and their calculation."""
    kept, old, held = [], -np.inf, np.zeros(2)
    for here, own in zip(scores.reshape(-1, width), values.reshape(-1, width), strict=True):
        most = max(old, *here)
        powers, shrinks = np.exp(here - most).round(2), np.exp(old - most).round(2)
        less = f"{'+' if most < 0 else '−'} {two_decimals(abs(most))}"
        shown, powers_shown = [], []
        for score, power in zip(here, map(two_decimals, powers), strict=True):
            shown.append("1" if score == most else power)
            powers_shown.append("e^0 = 1" if score == most else f"e^({two_decimals(score)} {less}) ≈ {power}")
        lines = [", ".join(powers_shown)]
        if -np.inf < old < most:
            power = f"e^({two_decimals(old)} {less}) ≈ {two_decimals(shrinks)}"
            lines.append(f"the largest score grew: both sums × {power}")
        shares = [f"{power} · {two_decimals(value)}" for power, value in zip(shown, own, strict=True)]
        sums = (shrinks * held + [powers.sum(), powers @ own]).round(2)
        for name, was, now, terms in zip(
            ("sum of exp", "weighted sum"), held, sums, (shown, shares), strict=True
        ):
            before = [two_decimals(was) + f" · {two_decimals(shrinks)}" * bool(old < most)] * bool(kept)
            lines.append(f"{name}: {' + '.join([*before, *terms])} ≈ {two_decimals(now)}")
        kept.append((most, *sums, "\n".join(lines)))
        old, held = most, sums
    return kept


def _draw_kept(
    ax: Axes,
    place: Point,
    before: Sequence[float],
    kept: Sequence[float],
    *,
    grows: bool,
    is_done: bool,
    is_past: bool,
) -> None:
    """Write the largest score of a query and its two sums; sums that a larger score rescales have frames.

    When it is done, one sum is divided by the other; after that, only the quotient is kept.
    """
    was, now = ([two_decimals(number) for number in three] for three in (before, kept))
    words = [f"{one}\n→ {other}" if grows else other for one, other in zip(was, now, strict=True)]
    if is_done:
        words.append(two_decimals(kept[2] / kept[1]))
    edge = {"edgecolor": HERO, "linewidth": 2.2} if grows else {}
    for column, (right, word) in list(enumerate(zip(KEPT_AT, words, strict=False)))[
        3 * (is_done and is_past) :
    ]:
        style = edge if column < 3 else {"weight": "bold"}
        style = style | {"colour": COMPONENTS["attention"], "letters": 8}
        box(ax, (place[0] + right, place[1]), word, (1.34, 0.9), **style)


def memory_traffic(n: int, d_head: int, size: int, block: int, *, title: str) -> Figure:
    """Draw the memory traffic of one attention head between slow memory and cache: in three steps, and fused.

    Tensors are drawn to scale. A number has `size` bytes; the fused kernel reads `block` keys at a time.
    """
    thin, wide = n * d_head * size, n * n * size  # bytes of q, and of an attention map
    # Rows of memory; steps in the cache; reads (row, step, bytes); writes (step, row, bytes)
    rows = [["q", "k"], ["scores"], ["v", "weights"], ["output"]], [["q"], ["k"], ["v"], ["output"]]
    rounds = f"{n // block} rounds, each with\nthe next {block} keys; old\nscores are dropped\n"
    steps = ["q · k", "softmax", "weights · v", "nothing stays here\nbetween the steps"]
    tiled = [
        f"scores, {n} × {block}",
        "use these scores",
        "what is kept so far",
        rounds + "(all queries fit here)",
    ]
    reads = [(0, 0, 2 * thin), (1, 1, wide), (2, 2, wide + thin)], [(0, 0, thin), (1, 0, thin), (2, 2, thin)]
    writes = [(0, 1, wide), (1, 2, wide), (2, 3, thin)], [(2, 3, thin)]
    figure, panels = canvas(2, (WIDEST / 2, 5.2))
    for way_of, name in enumerate(("Step by step", "Fused")):
        ax, held = panels[way_of], rows[way_of]
        _draw_memories(ax, held, (steps, tiled)[way_of], n, d_head)
        for row, job, count in reads[way_of]:
            goal = -0.38 - job - 0.24 * (row > job)
            _carry(ax, (1.85, -row), (3.1, goal), ", ".join(held[row]), count, wide)
        for job, row, count in writes[way_of]:
            _carry(ax, (3.1, -0.62 - job), (1.85, -row), held[row][-1], count, wide)
        total = sum(count for *_, count in reads[way_of] + writes[way_of])
        ax.set_title(f"{name}: {total / 1000:,.0f} kB moved")
    for foot in (-1.35, -2.35):  # blocks of k and of v
        ax.hlines(foot + 0.7 * np.arange(block, n, block) / n, 1.73, 1.83, color=NO, linewidth=1, zorder=6)
    ax.text(0.6, -1.5, "the scores are\nnever stored here", ha="center", va="center", size=8, zorder=5)
    for y in (-0.71, -1.71):
        way(ax, (3.78, y), (3.78, y - 0.58))
        foot = 2 * y + 1  # both tensors of a row are read: q and k, v and the weights
        line(panels[0], (0.83, foot + 0.06), (0.83, foot), (1.76, foot), (1.76, foot + 0.06), zorder=5)
    panels[1].plot((4.43, 4.55, 4.55), (-2.5, -2.5, -0.5), "--", color="black", linewidth=1.4, zorder=4)
    arrow(panels[1], (4.55, -0.5), (4.43, -0.5), zorder=4, gap=0)
    figure.supxlabel("thicker arrow: more bytes; dashed arrow: the next round", size=9)
    big, small = (f"{number(count / 1000)} kB" for count in (wide, thin))
    alt = "Each from slow memory, left, to the cache, right, and back. Step by step: q and k are read, "
    alt += f"scores written ({big}); scores read, weights written ({big} each); v and weights read, the "
    alt += f"output written ({small}). Fused: q, k and v are read once and the output written ({small} "
    alt += f"each); in the cache, {n // block} rounds, each with {block} keys: scores, used at once, then "
    alt += "dropped"
    return finished(figure, title, alt)


def _draw_memories(ax: Axes, rows: Sequence[Sequence[str]], jobs: Sequence[str], n: int, d_head: int) -> None:
    """Draw the tensors in slow memory, attention maps as squares, and next to them the steps in the cache."""
    for name, middle, width, colour in (("slow memory", 0.92, 1.92, NO), ("cache", 3.83, 1.54, LIT)):
        box(ax, (middle, -1.5), name, (width, 4.3), colour, label_up=2.0, weight="bold", linewidth=0.8)
    for y, names in enumerate(rows):
        for name, right in zip(reversed(names), (1.82, 0.88), strict=False):
            is_map = name in ("scores", "weights")
            width, colour = (0.7, COMPONENTS["scores"]) if is_map else (0.7 * d_head / n, DARK)
            box(ax, (right - width / 2, -y), "", (width, 0.7), colour, rounding=0.0, linewidth=0.6)
            style = {"ha": "center", "x": right - 0.35} if is_map else {"ha": "right", "x": right - 0.13}
            ax.text(
                y=-y, s=f"{name}\n{n} × {n if is_map else d_head}", va="center", size=8, zorder=5, **style
            )
    for place, job in enumerate(jobs[:-1]):
        colour = COMPONENTS["scores"] if job.startswith("scores") else "white"
        box(ax, (3.78, -0.5 - place), job, (1.3, 0.42), colour, letters=8.5)
    ax.text(3.83, -3.2, jobs[-1], ha="center", va="center", size=8, zorder=5)
    ax.set(xlim=(-0.05, 4.65), ylim=(-3.68, 0.68))
    ax.set_axis_off()


def _carry(ax: Axes, start: Point, end: Point, what: str, count: int, most: int) -> None:
    """Draw an arrow with a width proportional to its bytes, and write what it moves, and how many bytes."""
    arrow(ax, start, end, colour=HERO, width=1 + 3 * count / most, zorder=5)
    x, y = np.add(start, end) / 2
    style = {"ha": "center", "va": "center", "size": 8, "weight": "bold", "color": HERO, "zorder": 6}
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    what = what.replace(", w", ",\nw")  # break the label of the widest arrow
    ax.text(x, y, f"{what}\n{number(count / 1000)} kB", bbox=ground, **style)


def ring_of_three(*, title: str) -> Figure:
    """Draw three workers in a ring, round by round: the pieces that each holds, and what it sends."""
    held = [[letter] * 3 for letter in "abc"]
    figure, panels = canvas(6, (WIDEST / 3, 1.75), (0, 0.5), columns=3)
    for r, ax in enumerate(panels[1:]):
        lap, step = divmod(r, 2)
        sent = [(w + lap - step) % 3 for w in range(3)] if r < 4 else []
        _draw_ring(ax, held, sent)
        name = f"before round {r} ({'all-gather' if lap else 'reduce-scatter'})"
        ax.set_title(name if sent else "the end: all sums; then ÷ 3")
        carried = [held[w][piece] for w, piece in enumerate(sent)]
        for w, (piece, sums) in enumerate(zip(sent, carried, strict=True)):
            held[(w + 1) % 3][piece] = sums if lap else sums + held[(w + 1) % 3][piece]
    corners = [(0.6, 0.2), (2.0, -2.2), (-0.8, -2.2)]
    for w, (x, y) in enumerate(corners):
        gap = 28 + 12 * (w == 1)  # boxes are wider than high
        arrow(panels[0], (x, y), corners[(w + 1) % 3], colour=HERO, width=1.8, gap=gap)
        box(panels[0], (x, y), f"worker {w}\ngradient {'abc'[w]}", (1.2, 0.8), letters=8)
    panels[0].set_title("the ring")
    for ax in panels:
        ax.set(xlim=(-1.5, 2.7), ylim=(-2.75, 0.75))
        ax.set_axis_off()
    sent_next = {"sent in this round": {"fill": False, "edgecolor": HERO, "linewidth": 2.2}}
    legend_of_cells(figure, {kind: {"facecolor": colour} for kind, colour in HELD.items()} | sent_next)
    alt = "Worker 0 sends to 1, 1 to 2, 2 to 0. Each has a gradient of three pieces. In rounds 0 and 1, "
    alt += "each sends a piece to the next worker, which adds it to its own; then each worker has one whole "
    alt += "sum, such as c2+a2+b2. In rounds 2 and 3, the sums go round. At the end, each has all three"
    return finished(figure, title, alt)


def _draw_ring(ax: Axes, held: Sequence[Sequence[str]], sent: Sequence[int]) -> None:
    """Draw a row of pieces for each worker, with arrows from each worker to the next one in the ring."""
    for w, pieces in enumerate(held):
        ax.text(-0.62, -w, f"worker {w}", ha="right", va="center", size=8.5)
        for piece, sums in enumerate(pieces):
            edge = {"edgecolor": HERO, "linewidth": 2.2} if piece in sent[w : w + 1] else {"linewidth": 0.8}
            words = "+".join(f"{letter}{piece}" for letter in sums)
            colour = list(HELD.values())[len(sums) - 1]
            box(ax, (1.06 * piece, -w), words, (1, 0.46), colour, letters=8, rounding=0.02, **edge)
    for w, piece in enumerate(sent):
        ring = {(0.7, 0.23): "from worker 2", (-2.23, -2.7): "to worker 0"}
        ways = {(-w - 0.23, -w - 0.77): ""} if w < 2 else ring
        for (start, end), word in ways.items():
            arrow(ax, (1.06 * piece, start), (1.06 * piece, end), colour=HERO, width=1.8)
            ax.text(1.06 * piece - 0.1, (start + end) / 2, word, ha="right", va="center", size=8, color=HERO)


# Measurements on the machine of the reader

EXAMPLES = Path(__file__).with_name("examples.json")  # example measurements, with the machine
Numbers = Mapping[str, object]  # JSON values


def measured(
    name: str,
    measure: Callable[[], Numbers],
    draw: Callable[[Numbers, str], Figure | str],
    *,
    here: bool = False,
) -> None:
    """Show an example measured on another machine, or, if `here`, measure on this one.

    Stored notebooks show only the example, because no two runs measure the same.

    Args:
        name: of the example in examples.json, which `python -m benchmarks.examples` writes.
        measure: returns the measurements as JSON values.
        draw: returns a figure or text for them; its second argument says where they were measured.
    """
    examples = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    numbers, where = examples["numbers"][name], examples["machine"]
    if here:
        with PassingOutput() as waiting:
            waiting.show("<p>Measuring, which takes seconds. Leave the machine alone meanwhile.</p>")
            numbers, where = json.loads(json.dumps(measure())), "this machine"
    shown = draw(numbers, where)
    bundle = ({"text/plain": shown}, {}) if isinstance(shown, str) else mime_bundle(shown)
    publish_display_data(*bundle)
