"""Convert a figure for a notebook: a sharp PNG with few colours, its page size, and its description."""

import base64
import io
from collections.abc import Iterator
from html import escape
from unittest.mock import patch

import numpy as np
from IPython.core.pylabtools import print_figure
from matplotlib import colors
from matplotlib.artist import Artist
from matplotlib.backends import backend_agg
from matplotlib.cm import ScalarMappable
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from PIL import Image

from transformer_course.figures.alt_text import Description, describe
from transformer_course.figures.steady import SteadyRenderer

DENSITY = 2  # picture pixels per page pixel, for sharp figures on high-density screens
COLOURS = 256  # the size of a palette
GREYS = np.linspace(0, 255, 24).round()
SHADES = (0.25, 0.5, 0.75)  # blends of a colour with white and black, for the edges of shapes
FEWEST_LEVELS = 24  # of a colour map; with fewer, steps would be visible
SMALL, QUICK = 9, 7  # levels of compression: QUICK takes a fifth of the time, and a tenth more space


def mime_bundle(figure: Figure, level: int = SMALL) -> tuple[dict[str, str], dict[str, dict[str, object]]]:
    """Return the data and metadata that a notebook shows: the picture together with its description.

    JupyterLab takes alternative text only from an HTML <img>; the gate compares the PNG and the text.
    """
    if not figure.axes:
        return {}, {}
    alt, words, contents = _described(figure)  # computes the layout, so that all titles fit when it is drawn
    picture, width, height = _drawn(figure, level)
    style = f'width="{width}" style="max-width: 100%; height: auto"'
    html = f'<img alt="{escape(alt)}" {style} src="data:image/png;base64,{picture}">'
    about = {"alt": alt, "width": width, "height": height, "contents": contents}
    return {"image/png": picture, "text/html": html, "text/plain": words}, {"image/png": about}


def _described(figure: Figure) -> Description:
    try:
        return describe(figure)
    except Exception as error:  # show the picture even if its description fails
        words = f"<Figure that could not be described: {error!r}>"
        return Description(words, words, "")


def _drawn(figure: Figure, level: int) -> tuple[str, int, int]:
    """Return the picture as base64, and its width and height in page pixels."""
    quick = {"compress_level": 0}  # it is decoded again at once
    with patch.object(backend_agg, "RendererAgg", SteadyRenderer):
        drawn = print_figure(figure, dpi=DENSITY * figure.dpi, pil_kwargs=quick)
    image = Image.open(io.BytesIO(drawn)).convert("RGB")
    palette = palette_of(figure)
    if palette is not None:
        image = in_palette(image, palette)
    buffer = io.BytesIO()
    image.save(buffer, "png", compress_level=level)
    return base64.b64encode(buffer.getvalue()).decode(), *(round(side / DENSITY) for side in image.size)


# Palette


def palette_of(figure: Figure) -> np.ndarray | None:
    """Return the colours (colour, rgb) of a figure, or None if there are too many.

    They are taken from the artists and not from the pixels. Machines draw edges in slightly different shades,
    and a palette of these shades would change every pixel.
    """
    maps, flat = _colour_maps(figure), _flat_colours(figure)
    if maps is None:
        return None
    shades = [flat + fraction * (end - flat) for end in (0, 255) for fraction in SHADES]
    fixed = np.concatenate([np.repeat(GREYS[:, None], 3, axis=1), flat, *shades])
    fixed = np.unique(fixed.round().astype(np.uint8), axis=0)
    levels = (COLOURS - len(fixed)) // max(1, len(maps))
    if levels < (FEWEST_LEVELS if maps else 0):
        return None
    ramps = [255 * colour_map(np.linspace(0, 1, levels))[:, :3] for colour_map in maps]
    return np.concatenate([fixed, *(ramp.round().astype(np.uint8) for ramp in ramps)])


def _colour_maps(figure: Figure) -> list[colors.Colormap] | None:
    """Return the distinct colour maps in use, or None if an image has other colours."""
    maps: dict[str, colors.Colormap] = {}
    for artist in figure.findobj(lambda drawn: isinstance(drawn, ScalarMappable)):
        values = artist.get_array()
        if values is None:
            continue
        if isinstance(artist, AxesImage) and (np.ndim(values) > 2 or artist.get_alpha() is not None):
            return None
        maps[artist.get_cmap().name] = artist.get_cmap()
    return list(maps.values())


def _flat_colours(figure: Figure) -> np.ndarray:
    """Return the distinct colours (colour, rgb), from 0 to 255, of shapes, lines and text."""
    colours = [colour for artist in figure.findobj() for colour in _colours_of(artist)]
    rgba = np.unique(np.reshape(colours, (-1, 4)).round(4), axis=0)
    on_white = 1 + rgba[:, 3:] * (rgba[:, :3] - 1)
    return np.unique((255 * on_white).round(), axis=0)


def _colours_of(artist: Artist) -> Iterator[tuple[float, ...]]:
    """Yield the artist's own colours as (red, green, blue, alpha)."""
    if isinstance(artist, Patch):
        yield from (artist.get_facecolor(), artist.get_edgecolor())
    elif isinstance(artist, Line2D):
        every = artist.get_color(), artist.get_markerfacecolor(), artist.get_markeredgecolor()
        yield from (colors.to_rgba(colour, artist.get_alpha()) for colour in every)
    elif isinstance(artist, Text):
        yield colors.to_rgba(artist.get_color(), artist.get_alpha())
    elif isinstance(artist, Collection):
        yield from map(tuple, artist.get_edgecolor())
        if artist.get_array() is None:
            yield from map(tuple, artist.get_facecolor())


def in_palette(image: Image.Image, palette: np.ndarray) -> Image.Image:
    """Return the picture with each pixel replaced by the nearest colour of the palette (colour, rgb)."""
    pixels = np.asarray(image, dtype=np.uint32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.uint32)
    seen = np.zeros(1 << 24, dtype=bool)
    seen[pixels.ravel()] = True
    codes = np.flatnonzero(seen)
    shades = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=-1).astype(np.float32)
    wanted = palette.astype(np.float32)
    # |a − b|² = |a|² − 2 a·b + |b|², and |a|² is the same for every b
    distances = (wanted**2).sum(axis=-1) - 2 * shades @ wanted.T
    nearest = np.zeros(1 << 24, dtype=np.uint8)
    nearest[codes] = distances.argmin(axis=-1)
    drawn = Image.fromarray(nearest[pixels], mode="P")
    drawn.putpalette(palette.astype(np.uint8).tobytes())
    return drawn
