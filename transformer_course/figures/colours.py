"""The colours of all figures, each with its meaning."""

import numpy as np
from matplotlib.colors import ListedColormap, to_hex, to_rgb
from matplotlib.patheffects import withStroke

# Colour maps, one for each quantity
ATTENTION = "viridis"  # attention weights and other non-negative values
SIGNED = "RdBu_r"  # signed values; from −1 to 1 for cosines

YES, NO = "#5c4033", "#f2f2f2"  # True and False; not used for weights
YES_OR_NO = ListedColormap([NO, YES], name="yes or no")
OPEN = "#fbead0"  # visible cells of a mask; pale, since a dark cell of an attention map has weight 0
OPEN_OR_NOT = ListedColormap([OPEN, OPEN], name="open or hidden")
HIDDEN = {"facecolor": "#e4e4e4", "edgecolor": "#8c8c8c", "hatch": "////", "linewidth": 0.0}

# One colour for each component of the encoder, on which black text is readable. The colours of a group are
# distinguishable with any colour vision, which a test measures.
COMPONENTS = {
    "embedding": "#c3c1be",
    "positions": "#e79e42",
    "attention": "#84c4fe",
    "scores": "#3a86c6",  # the part of attention that compares all tokens
    "feed-forward": "#f8cae9",
    "norm": "#c4e77c",
}
PALE = ("#b6d7ea", "#e6a88f", "#efe7b1", "#c1a1de")  # heads, pairs and groups that are not components
FREE = ("#c9bc8c", "#b299c6")  # other objects that are not components
LIT = "#fff3c4"  # a group of boxes that the title is about

# Lines and their labels, with a contrast of at least 4.5 to 1 on white; the title is about the first one
LINES = ("#b74800", "#0e72c1", "#303030", "#08833c", "#603698", "#9b1761", "#02606d")
HERO = LINES[0]
ROLES = {"query": LINES[4], "key": LINES[1], "value": LINES[3]}  # the vectors of a token in attention
MARK = "#d95f02"  # the same colour for marks that are not text: dots, needles, bars
EDGE = [withStroke(linewidth=3, foreground="white")]  # for text on bars and lines
SILVER, GREY, DARK = "#bdbdbd", "#6b6b6b", "#404040"


def pale(colour: str, strength: float = 0.2) -> str:
    """Return a colour mixed with white at this strength, so that black text is readable on it."""
    return to_hex(1 - strength * (1 - np.array(to_rgb(colour))))
