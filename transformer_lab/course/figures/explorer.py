"""Type a sentence, choose a head, and see where it looks; without a kernel, see a strip of heads."""

from collections.abc import Callable, Sequence
from html import escape

import ipywidgets
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.patches import Rectangle
from torch import Tensor

from transformer_lab.course.figures.base import (
    MARK,
    canvas,
    check_labels,
    check_maps,
    check_places,
    check_scale,
    finished,
    numbers_of,
)
from transformer_lab.course.figures.explore import publish_live
from transformer_lab.course.figures.heatmaps import draw_within, head_grid
from transformer_lab.course.figures.words import mime_bundle
from transformer_lab.validation import check_integer, check_positive

LEGIBLE = 32  # tokens on each side of the large map; more labels could not be read
TILE = 32  # cells on each side of a small map, at most
ACROSS = 4  # small maps in a row

Read = Callable[[str], tuple[Sequence[str], Tensor]]


def explorer(
    read: Read, text: str, *, strip: Sequence[tuple[int, int]], title: str, most_tokens: int = 512
) -> None:
    """Show a box to type a sentence into, choosers for layer and head, and what the head looks at.

    A page without a kernel, such as a code host's, shows a strip of heads on the first sentence alone.

    Args:
        read: from a text to its tokens, [CLS] first and [SEP] last, and maps (layers, heads, n, n); a text
            that it cannot read raises ValueError.
        text: the first sentence.
        strip: (layer, head) of the maps in the strip; the explorer begins with the first of them.
        title: of the strip, says what to see.
        most_tokens: that a text may have; said to whoever types more.
    """
    if not callable(read):
        raise TypeError(f"read must be a function from a text to tokens and maps, got {read!r}; write one")
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {text!r}; try str(text)")
    check_maps(strip)
    check_positive(most_tokens=most_tokens)
    tokens, maps = read(text)
    check_places("places of the strip", strip, maps.shape[:2])
    chosen = [maps[place] for place in strip]
    still = head_grid(chosen, tokens, [_called(*place) for place in strip], title=title)
    box = Explorer(read, text, place=strip[0], most_tokens=most_tokens)
    publish_live(box, still, words="Explorer: sentence, layer, head")


class Explorer(ipywidgets.VBox):
    """The widgets: sentence, layer, head, for a long text its first token shown; words; a picture.

    Whatever is typed is answered: with a picture, or with a sentence that says why there is none.
    """

    def __init__(self, read: Read, text: str, *, place: tuple[int, int], most_tokens: int) -> None:
        self.read, self.most_tokens = read, most_tokens
        self.tokens, self.maps = read(text)
        n_layers, n_heads = self.maps.shape[:2]
        wide = {"description_width": "initial"}
        self.sentence = ipywidgets.Text(
            value=text,
            description="sentence",
            continuous_update=False,
            style=wide,
            layout=ipywidgets.Layout(width="95%"),
        )
        self.layer = ipywidgets.Dropdown(options=range(n_layers), value=place[0], description="layer")
        self.head = ipywidgets.Dropdown(options=range(n_heads), value=place[1], description="head")
        self.first = ipywidgets.Dropdown(options=[0], value=0, description="from token")
        self.words, self.picture = ipywidgets.HTML(), ipywidgets.HTML()
        choosers = ipywidgets.HBox([self.layer, self.head, self.first])
        super().__init__([self.sentence, choosers, self.words, self.picture])
        self.sentence.observe(self._typed, "value")
        for chooser in (self.layer, self.head, self.first):
            chooser.observe(self._show, "value")
        self._offer_pages()
        self._show()

    def _typed(self, change: dict) -> None:
        """Read the new sentence, or say why not; the picture then stays that of the last good one."""
        try:
            if not change["new"].strip():
                raise ValueError("There is nothing to read yet: type a sentence, and press Enter.")
            tokens, maps = self.read(change["new"])
        except Exception as error:  # a traceback would only reach a log that no learner looks at
            self._say(f"{self._refusal(error)} The picture still shows your last sentence.")
            return
        self.tokens, self.maps = tokens, maps
        self._offer_pages()
        self._show()

    def _refusal(self, error: Exception) -> str:
        message = str(error).strip() or type(error).__name__
        if "tokens" in message:
            return (
                f"This text is too long: the model has places for {self.most_tokens} tokens, [CLS] and [SEP] "
                "included. Leave something out, or look at one part after another."
            )
        return message if message.endswith(".") else f"{message}."

    def _offer_pages(self) -> None:
        """A long text is shown a page at a time: choose where the page begins."""
        last = max(0, len(self.tokens) - LEGIBLE)
        pages = [*range(0, last, LEGIBLE), last]
        self.first.unobserve(self._show, "value")
        self.first.options, self.first.value = pages, 0
        self.first.observe(self._show, "value")
        self.first.layout.visibility = "visible" if len(pages) > 1 else "hidden"

    def _show(self, _: object = None) -> None:
        layer, head, first = self.layer.value, self.head.value, self.first.value
        figure = head_view(self.tokens, self.maps[layer], layer, head, first=first)
        self._say(in_words(self.tokens, self.maps[layer, head], layer, head, first=first))
        self.picture.value = mime_bundle(figure)[0]["text/html"]

    def _say(self, text: str) -> None:
        self.words.value = f'<p role="status">{escape(text)}</p>'


def in_words(tokens: Sequence[str], weights: Tensor, layer: int, head: int, *, first: int = 0) -> str:
    """What the chosen head does, in a few sentences."""
    values, n = numbers_of(weights), len(tokens)
    name = _called(layer, head)
    more = " [UNK] stands for a sign that the tokenizer does not know." if "[UNK]" in tokens else ""
    if n > LEGIBLE:
        page = slice(first, first + LEGIBLE)
        elsewhere = 1 - values[page, page].sum(axis=1).mean()
        more += (
            f" {n} tokens are too many for one map: it shows {LEGIBLE} of them, “from token” chooses which. "
            f"On average these give {elsewhere:.2f} of their weight to tokens outside the map. "
            f"The small maps show all, {-(-n // TILE)} tokens to a cell, the largest weight of each."
        )
    if n < 4:
        return f"{name}: there are no two words to look at each other.{more}"
    words = values[1:-1, 1:-1]
    asks, looked_at = np.unravel_index(words.argmax(), words.shape)
    to = "itself" if asks == looked_at else f"“{tokens[looked_at + 1]}” (token {looked_at + 1})"
    return (
        f"{name}, between words: “{tokens[asks + 1]}” (token {asks + 1}) gives most, {words.max():.2f}, to "
        f"{to}; on average a word gives {values[1:-1, 0].mean():.2f} to {tokens[0]}.{more}"
    )


def head_view(tokens: Sequence[str], maps: Tensor, layer: int, head: int, *, first: int = 0) -> Figure:
    """Draw all heads of a layer small, the chosen one framed, and the chosen one large, token to token.

    Args:
        tokens: of the text.
        maps: (heads, query_pos, key_pos) of one layer.
        layer: its number, for the title.
        head: the chosen one.
        first: the first token of the large map, which shows so many as can be read.
    """
    values = numbers_of(maps, 3, name="the maps (heads, query_pos, key_pos)")
    check_labels("tokens", tokens, values.shape[-1])
    check_integer(layer=layer, head=head, first=first, at_least=0)
    check_scale(values, (0, 1))
    check_places("the head and the first token", [(head, first)], (len(values), len(tokens)))
    shown = slice(first, min(first + LEGIBLE, len(tokens)))
    labels = [_drawable(token) for token in tokens[shown]]
    side = max(3.2, 0.9 + 0.2 * len(labels))
    size = 3.9 + side + 0.9, side + 1.1
    figure, ((small, large),) = canvas(1, 2, size, width_ratios=[3.9, side])
    _draw_tiles(small, values, head)
    draw_within(large, values[head][shown, shown], labels, labels, numbers=False)
    large.set(xlabel="key (looked at)", ylabel="query (looking)", title=_called(layer, head))
    figure.colorbar(large.collections[0], ax=large, label="attention weight", shrink=0.6)
    figure.suptitle(f"Layer {layer}: all heads, and head {head}")
    return finished(figure)


def _draw_tiles(ax: Axes, maps: np.ndarray, head: int) -> None:
    tiles = np.stack([_shrunk(each) for each in maps])
    n_heads, side, _ = tiles.shape
    pitch = side + 2 + side // 6  # room for the number above
    rows, columns = -(-n_heads // ACROSS), min(n_heads, ACROSS)
    picture = np.full((rows * pitch, columns * pitch), np.nan)
    for number, tile in enumerate(tiles):
        top, left = (number // ACROSS + 1) * pitch - side, number % ACROSS * pitch
        picture[top : top + side, left : left + side] = tile
        ax.text(left + side / 2 - 0.5, top - 0.8, str(number), size=8, ha="center", va="bottom")
        if number == head:
            corner = (left - 0.5, top - 0.5)
            ax.add_patch(Rectangle(corner, side, side, fill=False, color=MARK, linewidth=2.5))
    ax.imshow(picture, vmin=0, vmax=1, cmap="viridis", interpolation="nearest")
    ax.set_title("heads of this layer")
    ax.set_axis_off()


def _shrunk(matrix: np.ndarray) -> np.ndarray:
    """At most TILE cells on a side, each the largest of its block: a thin line stays visible."""
    step = -(-len(matrix) // TILE)
    starts = range(0, len(matrix), step)
    rows = np.maximum.reduceat(matrix, starts, axis=0)
    return np.maximum.reduceat(rows, starts, axis=1)


def _drawable(token: str) -> str:
    """The token, or the numbers of its characters if matplotlib's font has no picture of one of them."""
    font = get_font(findfont(FontProperties()))
    if all(font.get_char_index(ord(character)) for character in token):
        return token
    return " ".join(f"U+{ord(character):04X}" for character in token)


def _called(layer: int, head: int) -> str:
    return f"L{layer}.H{head}"
