"""The explorer of attention heads: type a sentence, choose a layer and a head, and see its attention map."""

from collections.abc import Callable, Sequence

import ipywidgets
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from torch import Tensor

from transformer_course.figures import inputs
from transformer_course.figures.colours import ATTENTION
from transformer_course.figures.heatmaps import draw_cells, draw_matrix, head_grid
from transformer_course.figures.inputs import Labels
from transformer_course.figures.layout import canvas, finished, frame_cells
from transformer_course.figures.png import mime_bundle
from transformer_course.figures.sliders import WIDE, as_html, publish, status_html

LEGIBLE = 32  # the most rows of the large map; with more, labels would be illegible
TILE = 32  # the most rows of a small map
ACROSS = 4  # small maps in a row
AT_THE_END = {"continuous_update": False, "style": WIDE}  # redraw when the slider is released
Read = Callable[[str], tuple[Labels, Tensor]]


# The explorer


def head_explorer(read: Read, text: str, *, strip: Sequence[tuple[int, int]], title: str) -> None:
    """Show a text box, choosers for layer and head, and the attention map of the chosen head.

    Without a kernel, for example on a code host, a page shows only a strip of heads for the first sentence.

    Args:
        read: returns for a text its tokens, [CLS] first and [SEP] last, and its attention maps (layers,
            heads, n, n); raises ValueError for a text that it cannot read.
        strip: (layer, head) of the maps in the strip; the first of them is chosen at the start.
    """
    box, titles = Explorer(read, text, place=strip[0]), [f"L{layer}.H{head}" for layer, head in strip]
    still = head_grid([box.maps[tuple(place)] for place in strip], box.tokens, titles, title=title)
    publish(box, *mime_bundle(still))


class Explorer(ipywidgets.VBox):
    """The widgets: sentence, layer, head, the first visible token of a long text, a status line, a figure.

    Every input leads to a new figure or to a sentence that says why there is none.
    """

    def __init__(self, read: Read, text: str, *, place: tuple[int, int]) -> None:
        self.read = read
        self._read(text)
        n_layers, n_heads = self.maps.shape[:2]
        style = {"description": "sentence", "layout": {"width": "95%"}} | AT_THE_END
        self.sentence = ipywidgets.Text(value=text, **style)
        self.layer = ipywidgets.Dropdown(options=range(n_layers), value=place[0], description="layer")
        self.head = ipywidgets.Dropdown(options=range(n_heads), value=place[1], description="head")
        self.first = ipywidgets.Dropdown(options=[0], value=0, description="from token")
        self.words, self.picture = ipywidgets.HTML(), ipywidgets.HTML()
        choosers = self.layer, self.head, self.first
        super().__init__([self.sentence, ipywidgets.HBox(choosers), self.words, self.picture])
        self.sentence.observe(self._typed, "value")
        for chooser in choosers:
            chooser.observe(self._show, "value")
        self._offer_pages()
        self._show()

    def _read(self, text: str) -> None:
        tokens, maps = self.read(text)
        self.tokens, self.maps = tokens, inputs.numbers_of(maps, 4)  # (layers, heads, query_pos, key_pos)

    def _typed(self, change: dict) -> None:
        """Read the new sentence. If this fails, say why, and keep the last valid figure."""
        try:
            if not change["new"].strip():
                raise ValueError("There is nothing to read yet: type a sentence, and press Enter.")
            self._read(change["new"])
        except Exception as error:  # a traceback would go to a log that learners do not see
            message = (str(error).strip() or type(error).__name__).rstrip(".")
            self._say(f"{message}. The picture still shows your last sentence.")
            return
        self._offer_pages()
        self._show()

    def _offer_pages(self) -> None:
        """Show a long text one page at a time, with a chooser for the first token."""
        last = max(0, len(self.tokens) - LEGIBLE)
        pages = [*range(0, last, LEGIBLE), last]
        self.first.unobserve(self._show, "value")
        self.first.options, self.first.value = pages, 0
        self.first.observe(self._show, "value")
        self.first.layout.visibility = "visible" if len(pages) > 1 else "hidden"

    def _show(self, _: object = None) -> None:
        layer, head, first = self.layer.value, self.head.value, self.first.value
        figure = head_view(self.tokens, self.maps[layer], layer, head, first=first)
        self._say(describe_head(self.tokens, self.maps[layer, head], f"L{layer}.H{head}", first=first))
        self.picture.value = as_html(figure)

    def _say(self, text: str) -> None:
        self.words.value = status_html(text)


def head_view(tokens: Labels, maps: np.ndarray, layer: int, head: int, *, first: int = 0) -> Figure:
    """Draw small maps of all heads of a layer, with a frame around the chosen head, and its map in large.

    `maps` are (heads, query_pos, key_pos). The large map starts at the token `first`, and is cut where labels
    would become illegible.
    """
    shown = slice(first, first + LEGIBLE)
    labels = [_drawable(token) for token in tokens[shown]]
    side = max(3.2, 0.9 + 0.2 * len(labels))
    figure, (small, large) = canvas(2, (0, 0), (3.9 + side + 0.9, side + 1.1), width_ratios=[3.9, side])
    tiles = np.stack([_shrunk(weights) for weights in maps])
    columns, gap = min(len(tiles), ACROSS), 2 + len(tiles[0]) // 6
    _draw_tiles(small, tiles, columns, gap=gap, boxed=head)
    small.set_title("heads of this layer")
    small.set_axis_off()
    style = {"limits": (0, 1), "numbers": False, "labels": ("key (attended to)", "query (attends)")}
    draw_matrix(large, maps[head, shown, shown], labels, labels, title=f"L{layer}.H{head}", **style)
    figure.colorbar(large.collections[0], ax=large, label="attention weight", shrink=0.6)
    alt = "Left: all heads of a layer. Right: the chosen head; a row for each query, a column for each key."
    return finished(figure, f"Layer {layer}: all heads, and head {head}", alt)


def _draw_tiles(ax: Axes, maps: np.ndarray, columns: int, *, gap: int, boxed: int) -> None:
    """Draw square maps (map, length, length) as numbered tiles of one image, one of them with a frame.

    `gap` is the number of empty cells between two tiles, and above the first row.
    """
    side = len(maps[0])
    pitch = side + gap
    picture = np.full((-(-len(maps) // columns) * pitch, columns * pitch - gap), np.nan)
    for place, tile in enumerate(maps):
        top, left = place // columns * pitch + gap, place % columns * pitch
        picture[top : top + side, left : left + side] = tile
        ax.text(left + side / 2, top - 0.9, str(place), size=7.5, ha="center", va="bottom")
        if place == boxed:
            frame_cells(ax, [(top - 0.5, left - 0.5, side + 1, side + 1)])  # around the tile
    draw_cells(ax, picture, [], [], limits=(0, 1), colours=ATTENTION, gap=0)
    ax.set_aspect("equal")


def _shrunk(matrix: np.ndarray) -> np.ndarray:
    """The matrix with at most TILE cells per side; block maxima keep thin lines visible."""
    starts = range(0, len(matrix), -(-len(matrix) // TILE))
    rows = np.maximum.reduceat(matrix, starts, axis=0)
    return np.maximum.reduceat(rows, starts, axis=1)


def _drawable(token: str) -> str:
    """The token, or its code points if matplotlib's font lacks one of its characters."""
    font = get_font(findfont(FontProperties()))
    if all(font.get_char_index(ord(character)) for character in token):
        return token
    return " ".join(f"U+{ord(character):04X}" for character in token)


def describe_head(tokens: Labels, weights: np.ndarray, name: str, *, first: int = 0) -> str:
    """A description of the chosen head in a few sentences."""
    n, more = len(tokens), ""
    if "[UNK]" in tokens:
        more = " [UNK] stands for a sign that the tokenizer does not know."
    if n > LEGIBLE:
        page = slice(first, first + LEGIBLE)
        elsewhere = 1 - weights[page, page].sum(axis=1).mean()
        more += (
            f" {n} tokens are too many for one map: it shows {LEGIBLE} of them, “from token” chooses which. "
            f"On average these give {elsewhere:.2f} of their weight to tokens outside the map. "
            f"The small maps show all, {-(-n // TILE)} tokens to a cell, the largest weight of each."
        )
    if n < 4:
        return f"{name}: there are no two words to look at each other.{more}"
    words = weights[1:-1, 1:-1]
    asks, looked_at = np.unravel_index(words.argmax(), words.shape)
    to = "itself" if asks == looked_at else f"“{tokens[looked_at + 1]}” (token {looked_at + 1})"
    return (
        f"{name}, between words: “{tokens[asks + 1]}” (token {asks + 1}) gives most, {words.max():.2f}, to "
        f"{to}; on average a word gives {weights[1:-1, 0].mean():.2f} to {tokens[0]}.{more}"
    )
