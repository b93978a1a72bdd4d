"""Images, and from which patches of them a head takes."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures import inputs
from transformer_course.figures.colours import ATTENTION, GREY
from transformer_course.figures.heatmaps import draw_cells
from transformer_course.figures.inputs import Labels, Matrix
from transformer_course.figures.layout import canvas, finished


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
    """Draw each image (rows, columns), one of `digits`; for each head, how much weight its patches get.

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
    alt = "Left an image, beside it where each head looks; the brighter, the more weight."
    return finished(figure, title, alt)


def _draw_ink(ax: Axes, image: np.ndarray, patch: tuple[int, int]) -> None:
    """The image itself, and the lines along which it is cut."""
    ax.imshow(image, cmap="gray_r")
    for height, draw, length in zip(patch, (ax.axhline, ax.axvline), image.shape, strict=True):
        for place in range(height, length, height):
            draw(place - 0.5, color=GREY, linewidth=0.8)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=GREY)
