"""The one declaration of what a colour means."""

import numpy as np
from matplotlib.colors import ListedColormap, to_hex, to_rgb
from matplotlib.patheffects import withStroke

# Colour maps: one for one quantity
ATTENTION = "viridis"  # weights, and other numbers that are never negative
SIGNED = "RdBu_r"  # from −1 to 1 for every cosine

YES, NO = "#5c4033", "#f2f2f2"  # the cells of what is True or False; no colour of a weight
YES_OR_NO = ListedColormap([NO, YES], name="yes or no")
OPEN = "#fbead0"  # of a mask, where the others are hatched: pale, for a dark cell of attention has no weight
OPEN_OR_NOT = ListedColormap([OPEN, OPEN], name="open or hidden")
HIDDEN = {"facecolor": "#e4e4e4", "edgecolor": "#8c8c8c", "hatch": "////", "linewidth": 0.0}

# One colour for each component of the encoder; black text reads well on each. All in a group of colours are
# told from each other by every eye, which a test measures.
COMPONENTS = {
    "embedding": "#c3c1be",
    "positions": "#e79e42",
    "attention": "#84c4fe",
    "scores": "#3a86c6",  # the part of attention in which every token meets every other
    "feed-forward": "#f8cae9",
    "norm": "#c4e77c",
}
PALE = ("#b6d7ea", "#e6a88f", "#efe7b1", "#c1a1de")  # of heads, pairs and groups, where no component is meant
FREE = ("#c9bc8c", "#b299c6")  # of what is no component
LIT = "#fff3c4"  # a group of boxes of which a title speaks

# Of lines and their names, which contrast with white by 4.5 to 1 at least; the claim is about the first
LINES = ("#b74800", "#0e72c1", "#303030", "#08833c", "#603698", "#9b1761", "#02606d")
HERO = LINES[0]
ROLES = {"query": LINES[4], "key": LINES[1], "value": LINES[3]}  # what a token has in attention
MARK = "#d95f02"  # the same where it is no text: a dot, a needle, a bar
EDGE = [withStroke(linewidth=3, foreground="white")]  # of letters on bars and lines
SILVER, GREY, DARK = "#bdbdbd", "#6b6b6b", "#404040"


def pale(colour: str, strength: float = 0.2) -> str:
    """Return so much of a colour, the rest white: black text reads on it."""
    return to_hex(1 - strength * (1 - np.array(to_rgb(colour))))
