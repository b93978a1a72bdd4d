"""What trained heads look at, over an image and where they should; and how far the seeds spread."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_lab.course.figures.base import (
    MARK,
    Matrix,
    canvas,
    check_boolean,
    check_labels,
    check_named,
    check_scale,
    finished,
    frame_cells,
    from_zero,
    numbers_of,
)
from transformer_lab.course.figures.heatmaps import draw_within
from transformer_lab.validation import check_positive

STEP = 0.15  # from one seed's dot down to the next, if a band is 1 high


def wanted_maps(
    named: Mapping[str, Matrix], wanted: Matrix, tokens: Sequence[str], *, title: str, columns: int = 4
) -> Figure:
    """Draw attention maps of one text on a scale from 0 to 1, with a frame around every wanted cell.

    Args:
        named: the maps (query_pos, key_pos) by title.
        wanted: True where query i ought to look at key j.
        tokens: of the text.
        title: says what to see.
        columns: maps in a row.
    """
    check_named(named)
    check_labels("tokens", tokens)
    check_positive(columns=columns)
    framed = np.argwhere(check_boolean("wanted", wanted))
    if np.shape(wanted) != (len(tokens), len(tokens)):
        raise ValueError(f"wanted has shape {np.shape(wanted)}, wanted one row and column for each token")
    columns = min(columns, len(named))
    rows, side = -(-len(named) // columns), 0.9 + 0.17 * len(tokens)
    size = (side * columns + 1.0, side * rows + 0.5)
    figure, axes = canvas(rows, columns, size)
    for ax in axes.flat[len(named) :]:
        ax.set_axis_off()
    for ax, (name, matrix) in zip(axes.flat, named.items(), strict=False):
        draw_within(ax, matrix, tokens, tokens, title=name, numbers=False)
        ax.set(xlabel="key", ylabel="query")
        frame_cells(ax, framed, linewidth=2.0)
    figure.colorbar(axes[0, 0].collections[0], ax=axes, label="attention weight", shrink=0.7)
    figure.suptitle(title)
    return finished(figure)


def image_attention(
    images: Matrix, maps: Matrix, names: Sequence[str], *, patch: tuple[int, int], title: str, bar: str
) -> Figure:
    """Draw, for each image, how much weight each of its patches gets, with the ink's outline on top.

    Args:
        images: (image, rows, columns); the larger, the more ink.
        maps: (image, head, patches), the patches in reading order.
        names: of the heads.
        patch: height and width of a patch.
        title: says what to see.
        bar: what the colours mean.
    """
    images, maps = numbers_of(images, 3, name="images"), numbers_of(maps, 3, name="maps")
    n_images, rows, columns = images.shape
    check_labels("names", names)
    if not isinstance(patch, tuple | list) or len(patch) != 2:
        raise TypeError(f"patch must be a height and a width, got {patch!r}; try (2, 2)")
    check_positive(height=patch[0], width=patch[1])
    wanted = n_images, len(names), (rows // patch[0]) * (columns // patch[1])
    if rows % patch[0] or columns % patch[1] or maps.shape != wanted:
        raise ValueError(
            f"the maps have shape {maps.shape}, wanted (image, head, patches) = {wanted} for images of shape "
            f"{images.shape}, cut into whole patches of {tuple(patch)}; look at patch and names"
        )
    scale = from_zero(maps)
    check_scale(maps, scale)
    size = (1.45 * (1 + len(names)) + 1.2, 1.45 * n_images + 0.8)
    figure, axes = canvas(n_images, 1 + len(names), size)
    grid = maps.reshape(n_images, len(names), rows // patch[0], columns // patch[1])
    for image, line, panels in zip(images, grid, axes, strict=True):
        _draw_ink(panels[0], image, patch)
        for ax, weights in zip(panels[1:], line, strict=True):
            shown = ax.imshow(
                weights,
                vmin=scale[0],
                vmax=scale[1],
                cmap="viridis",
                extent=(-0.5, columns - 0.5, rows - 0.5, -0.5),
            )
            ax.contour(image, levels=[image.min() / 2 + image.max() / 2], colors=MARK, linewidths=1.6)
            ax.set_axis_off()
    for ax, name in zip(axes[0], ["image", *names], strict=True):
        ax.set_title(name, fontsize=10)
    figure.colorbar(shown, ax=axes, label=bar, shrink=0.7)
    figure.suptitle(title)
    return finished(figure)


def _draw_ink(ax: Axes, image: np.ndarray, patch: tuple[int, int]) -> None:
    """The image itself, and the lines along which it is cut."""
    ax.imshow(image, cmap="gray_r")
    for row in range(patch[0], len(image), patch[0]):
        ax.axhline(row - 0.5, color=MARK, linewidth=0.8)
    for column in range(patch[1], len(image[0]), patch[1]):
        ax.axvline(column - 0.5, color=MARK, linewidth=0.8)
    ax.set_axis_off()


def seed_spread(named: Mapping[str, Sequence[float]], *, xlabel: str, title: str) -> Figure:
    """Draw one dot for each seed, one band of dots for each name, and a stroke at the mean.

    The dots of a band stand one below the other, so that equal ones are seen as two.
    """
    check_named(named)
    figure, ((ax,),) = canvas(1, 1, (6.4, 0.9 + 0.8 * len(named)))
    for row, (name, values) in enumerate(named.items()):
        numbers = numbers_of(values, 1, name=name)
        down = row + STEP * (np.arange(len(numbers)) - (len(numbers) - 1) / 2)
        ax.scatter(numbers, down, s=26, alpha=0.8)
        ax.plot([numbers.mean()] * 2, [row - 0.38, row + 0.38], color="black", linewidth=1.5)
    ax.set_yticks(range(len(named)), list(named))
    ax.set(xlabel=xlabel, title=title, ylim=(len(named) - 0.5, -0.5))
    ax.grid(alpha=0.3, axis="x")
    return finished(figure)
