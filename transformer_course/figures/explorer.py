"""The explorer of attention heads: choose a layer and a head, and see its attention map, without a kernel."""

from collections.abc import Callable, Sequence

import numpy as np
from IPython.display import publish_display_data
from matplotlib import colormaps
from matplotlib.colors import to_hex
from torch import Tensor

from transformer_course.figures import inputs
from transformer_course.figures.colours import ATTENTION
from transformer_course.figures.heatmaps import head_grid
from transformer_course.figures.inputs import Labels
from transformer_course.figures.interactive import interactive
from transformer_course.figures.png import mime_bundle

LEGIBLE = 48  # the most rows of a map; with more, a page would be too large
LEVELS = 26  # of the colour map
Read = Callable[[str], tuple[Labels, Tensor]]


def head_explorer(read: Read, text: str, *, strip: Sequence[tuple[int, int]], title: str) -> None:
    """Show choosers for layer and head, and the attention map of the chosen head for a text.

    Without scripts, for example on a code host, a page shows only a strip of heads.

    Args:
        read: returns for a text its tokens, [CLS] first and [SEP] last, and its attention maps (layers,
            heads, n, n).
        strip: (layer, head) of the maps in the strip; the first of them is chosen at the start.
    """
    tokens, maps = read(text)
    maps = inputs.numbers_of(maps, 4)  # (layers, heads, query_pos, key_pos)
    shown = slice(LEGIBLE)
    titles = [f"L{layer}.H{head}" for layer, head in strip]
    maps_of_strip = [maps[layer, head, shown, shown] for layer, head in strip]
    data, metadata = mime_bundle(head_grid(maps_of_strip, tokens[shown], titles, title=title))
    (layer, head), more = strip[0], ""
    if "[UNK]" in tokens:
        more = " [UNK] stands for a character that the tokenizer does not know."
    if len(tokens) > LEGIBLE:
        more += f" The maps show the first {LEGIBLE} of {len(tokens)} tokens."
    explorer = {"tokens": list(tokens[shown]), "layer": layer, "head": head, "more": more}
    explorer["colours"] = [to_hex(colour) for colour in colormaps[ATTENTION](np.linspace(0, 1, LEVELS))]
    explorer["heads"] = [
        [_head(tokens, weights, f"L{layer}.H{head}") for head, weights in enumerate(heads)]
        for layer, heads in enumerate(maps)
    ]
    data["text/html"] = interactive(data["text/html"], "explorer", explorer)
    publish_display_data(data, metadata)


def _head(tokens: Labels, weights: np.ndarray, name: str) -> dict[str, object]:
    """The description of a head, and its weights in hundredths, row by row."""
    hundredths = (100 * weights[:LEGIBLE, :LEGIBLE].round(10)).round().astype(int)
    return {"said": describe_head(tokens, weights, name), "weights": hundredths.ravel().tolist()}


def describe_head(tokens: Labels, weights: np.ndarray, name: str) -> str:
    """A description of the head in a sentence."""
    if len(tokens) < 4:
        return f"{name}: there are no two words that could attend to each other."
    words = weights[1:-1, 1:-1].round(10)  # machines differ in later digits
    asks, looked_at = np.unravel_index(words.argmax(), words.shape)
    to = "itself" if asks == looked_at else f"“{tokens[looked_at + 1]}” (token {looked_at + 1})"
    return (
        f"{name}, between words: “{tokens[asks + 1]}” (token {asks + 1}) gives most, {words.max():.2f}, to "
        f"{to}; on average a word gives {weights[1:-1, 0].mean().round(10):.2f} to {tokens[0]}."
    )
