"""Place labels in a panel where they cover nothing: labels of points, lines, levels and positions."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Annotation

from transformer_course.figures.colours import EDGE, GREY

LINE = 11.0  # points between two lines of text
DOT = 3.5  # the radius of a dot, in points
NEARNESS = (6, 9, 14, 20, 28, 38, 50)  # distances of a label from its dot, in points
TURNS = np.pi / 8 * np.array([0, 8, 1, 15, 7, 9, 2, 14, 6, 10, 4, 12, 3, 13, 5, 11])  # first to the right


def place_names(
    ax: Axes,
    points: Mapping[str, tuple[float, float]],
    colours: Mapping[str, str] | None = None,
    **style: object,
) -> None:
    """Write each label near its point, where it covers no line, dot or other label, if there is space.

    Call this and the three functions below last, when the panel has its final size.
    """
    ax.figure.get_layout_engine().execute(ax.figure)
    for name, point in points.items():
        colour = (colours or {}).get(name, "black")
        text = _annotate(ax, name, point, ha="center", va="center", color=colour, **style)
        half = np.array(text.get_window_extent().size) / 2 * 72 / ax.figure.dpi
        offsets = [(half + far) * (np.cos(turn), np.sin(turn)) for far in NEARNESS for turn in TURNS]
        _settle(ax, text, ax.transData.transform(point), offsets)


def name_lines(ax: Axes, ends: Mapping[str, tuple[float, float]], colours: Mapping[str, str]) -> None:
    """Write each label where its line ends, in its colour; labels of the longest lines are to their right."""
    ax.figure.get_layout_engine().execute(ax.figure)  # label overlap depends on panel height
    to_points = 72 / ax.figure.dpi
    points = ax.transData.transform(list(ends.values())) * to_points
    rightmost = points[:, 0].max() - LINE
    last = {name: y for name, (x, y) in zip(ends, points, strict=True) if x > rightmost}
    low, high = ax.bbox.y0 * to_points + LINE / 2, ax.bbox.y1 * to_points - LINE / 2
    heights = _spread(np.array(list(last.values())), low, high)
    for (name, wanted), height in zip(last.items(), heights, strict=True):
        _annotate(ax, name, ends[name], (6, height - wanted), va="center", color=colours[name])
    place_names(ax, {name: end for name, end in ends.items() if name not in last}, colours)


def write_level(ax: Axes, height: float, name: str) -> None:
    """Draw a horizontal reference line, such as chance or a theoretical value, and label it."""
    ax.axhline(height, color=GREY, linestyle="--", linewidth=1.2, zorder=1)
    text = _annotate(ax, name, (0, height), xycoords=ax.get_yaxis_transform(), color=GREY, va="center")
    room = ax.bbox.width * 72 / ax.figure.dpi - 6 * len(name)
    across = np.linspace(4, max(4, room), 12)
    offsets = [(along, over) for overs in ((7, -7), (9,)) for along in across for over in overs]
    _settle(ax, text, ax.get_yaxis_transform().transform((0, height)), offsets)


def write_place(ax: Axes, place: float, name: str) -> None:
    """Draw a vertical line at a position, and write its label above it."""
    ax.axvline(place, color=GREY, linestyle="--", linewidth=1.2, zorder=1)
    _annotate(ax, name, (place, 1), (0, 2), xycoords=ax.get_xaxis_transform(), ha="center", color=GREY)


def _annotate(ax: Axes, name: str, point: tuple, offset: tuple = (0, 0), **style: object) -> Annotation:
    """Write a label at an offset in points, with a white edge on top of lines."""
    style = {"size": 9, "parse_math": False, "path_effects": EDGE, "annotation_clip": False} | style
    return ax.annotate(name, point, offset, textcoords="offset points", **style)


def _settle(ax: Axes, text: Annotation, point: np.ndarray, offsets: Iterable[np.ndarray]) -> None:
    """Move a text by the first offset at which it covers nothing; if there is none, by the first one."""
    size, scale = text.get_window_extent().size, ax.figure.dpi / 72
    dots = np.concatenate([np.zeros((0, 2)), *_drawn(ax)])
    others = [other.get_window_extent().extents for other in ax.texts if other is not text]
    others = np.reshape(others, (-1, 4))
    lefts = {"left": 0.0, "center": 0.5}[text.get_ha()]
    for offset in offsets:
        low = point + np.multiply(offset, scale) - size * (lefts, 0.5) - 2
        high = low + size + 4
        meets = ((others[:, :2] < high) & (others[:, 2:] > low)).all(axis=1).any()
        covers = ((dots > low) & (dots < high)).all(axis=1).any()
        if not (meets or covers or (low < ax.bbox.min).any() or (high > ax.bbox.max).any()):
            break
    else:
        offset = next(iter(offsets))
    text.set_position(tuple(offset))


def _drawn(ax: Axes) -> Iterator[np.ndarray]:
    """Yield screen points along all lines, a few pixels apart, and on all dots."""
    for line in ax.lines:
        path = line.get_transform().transform(line.get_xydata())
        path = path[np.isfinite(path).all(axis=1)]
        run = np.concatenate([[0], np.hypot(*np.diff(path, axis=0).T).cumsum()]) if len(path) else []
        even = np.arange(0, run[-1] + 3, 3) if len(run) else []
        yield np.stack([np.interp(even, run, side) for side in path.T], axis=1) if len(run) else path
    ring = DOT * ax.figure.dpi / 72 * np.stack([np.cos(TURNS), np.sin(TURNS)], axis=1)
    for dots in ax.collections:
        yield (ax.transData.transform(dots.get_offsets())[:, None] + ring).reshape(-1, 2)


def _spread(wanted: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return y coordinates close to `wanted`, in the same order, at least a line apart, from low to high."""
    order = np.argsort(wanted, kind="stable")
    steps = LINE * np.arange(len(wanted))
    # Subtract the spacing, and the result must not decrease: merge violating neighbours into their mean.
    blocks: list[list[float]] = []
    for height in wanted[order] - steps:
        blocks.append([height])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    level = np.concatenate([[np.mean(block)] * len(block) for block in blocks])
    top = max(low, high - steps[-1])
    heights = np.empty(len(wanted))
    heights[order] = np.clip(level, low, top) + steps
    return heights
