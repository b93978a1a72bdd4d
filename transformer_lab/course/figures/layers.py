"""A stack of layers: what flows through it, and where each one looks."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from transformer_lab.course.figures.base import (
    Matrix,
    canvas,
    check_labels,
    check_maps,
    check_named,
    check_places,
    finished,
    frame_cells,
    from_zero,
    numbers_of,
)
from transformer_lab.course.figures.boxes import arrow, box
from transformer_lab.course.figures.heatmaps import draw_within
from transformer_lab.validation import check_positive


def aimed_maps(
    named: Mapping[str, Matrix],
    targets: Mapping[str, Sequence[int]],
    labels: Sequence[str],
    *,
    title: str,
    axes_named: tuple[str, str] = ("key", "query"),
) -> Figure:
    """Draw attention maps side by side on a scale from 0 to 1, and frame in each row where it should look.

    Args:
        named: the maps (query_pos, key_pos) by title.
        targets: for each map, the right column of every row.
        labels: of rows and columns.
        title: says what to see.
        axes_named: what the columns and the rows are.
    """
    check_named(named)
    check_named(targets)
    check_labels("labels", labels)
    check_labels("names of the axes", axes_named, 2)
    if targets.keys() != named.keys():
        raise ValueError(f"got targets for {list(targets)}, wanted them for {list(named)}; name each map")
    cells = {name: list(enumerate(numbers_of(columns, 1))) for name, columns in targets.items()}
    for name, places in cells.items():
        check_labels(f"targets for {name}", [str(place) for place in places], len(labels))
        check_places(f"targets for {name}", places, (len(labels), len(labels)))
    side = 1.2 + 0.34 * len(labels)
    figure, axes = canvas(1, len(named), (side * len(named) + 1.0, side + 0.5))
    for ax, (name, matrix) in zip(axes.flat, named.items(), strict=True):
        draw_within(ax, matrix, labels, labels, title=name, numbers=False)
        ax.set(xlabel=axes_named[0], ylabel=axes_named[1])
        frame_cells(ax, cells[name])
    figure.colorbar(axes[0, 0].collections[0], ax=axes, label="attention weight", shrink=0.7)
    figure.suptitle(title)
    return finished(figure)


def data_flow(n_layers: int, *, title: str) -> Figure:
    """Draw what becomes of token ids, step by step, with the shape of what passes from box to box."""
    check_positive(n_layers=n_layers)
    shown = ["layer 0", "layer 1", "…", f"layer {n_layers - 1}"] if n_layers > 3 else []
    layers = shown or [f"layer {number}" for number in range(n_layers)]
    steps = ["look up", "× √d_model", "+ positions", *layers, "final norm"]
    figure, ((ax,),) = canvas(1, 1, (1.32 * len(steps) + 1.4, 2.9))
    left, right, high, low = -1.35, 1.5 * len(steps), 1.15, -1.15
    for place, label in ((left, "token\nids"), (right, "vectors\nin context")):
        ax.text(place, 0, label, ha="center", va="center")
    for place in range(len(steps) + 1):
        arrow(ax, (1.5 * place - (0.95 if place else 1.0), 0), (1.5 * place - 0.55, 0))
    for number, label in enumerate(steps):
        box(ax, (1.5 * number, 0), label, (1.04, 0.8), "#ffc425" if label in layers else "white")
        if label in layers and label != "…":
            arrow(ax, (1.5 * number, high), (1.5 * number, 0.45))
            arrow(ax, (1.5 * number, -0.45), (1.5 * number, low))
    ax.text(4, high, "may_attend goes to every layer", ha="left", va="bottom")
    ax.text(4, low, "weights come out of every layer", ha="left", va="top")
    ax.text(left, -0.6, "(batch,\nposition)", ha="center", va="top", size=9)
    ax.text(1.5, -0.6, "(batch, position, d_model) from here to the end", ha="center", va="top", size=9)
    ax.text(1.5 * (len(steps) - 1), -0.6, "in pre-norm", ha="center", va="top", size=9)
    ax.set(xlim=(left - 0.5, right + 0.7), ylim=(low - 0.4, high + 0.4), title=title)
    ax.set_axis_off()
    return finished(figure)


def layer_maps(
    maps: Sequence[Matrix],
    rows: Sequence[str],
    columns: Sequence[str],
    titles: Sequence[str],
    *,
    title: str,
    bar: str,
    across: int = 3,
) -> Figure:
    """Draw one map per layer on one scale, from 0 to their largest value: paler jobs than a single head's."""
    check_maps(maps)
    check_labels("rows", rows)
    check_labels("columns", columns)
    check_labels("titles", titles, len(maps))
    check_positive(across=across)
    scale = from_zero(*(numbers_of(matrix, 2) for matrix in maps))
    down = -(-len(maps) // across)
    size = (across * (0.8 + 0.27 * len(columns)) + 1.0, down * (0.9 + 0.27 * len(rows)) + 0.5)
    figure, axes = canvas(down, across, size)
    for number, ax in enumerate(axes.flat):
        if number >= len(maps):
            ax.set_axis_off()
            continue
        draw_within(ax, maps[number], rows, columns, title=titles[number], limits=scale, numbers=False)
        ax.set(xlabel="key", ylabel="query")
    figure.colorbar(axes[0, 0].collections[0], ax=axes, label=bar, shrink=0.6)
    figure.suptitle(title)
    return finished(figure)
