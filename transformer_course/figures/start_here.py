"""Drawings of lesson 00: attention as arcs over a sentence."""

import numpy as np
from matplotlib.axes import Axes

from transformer_course.figures import inputs
from transformer_course.figures.colours import GREY, HERO
from transformer_course.figures.inputs import Labels, Matrix
from transformer_course.figures.layout import cell_texts
from transformer_course.figures.shapes import FAINT


def draw_attention_arcs(
    ax: Axes, weights: Matrix, tokens: Labels, highlight: int, colour: str = HERO, dark: str = HERO
) -> None:
    """Draw arcs from a framed token to the tokens that it attends to, with the weights below, in `dark`."""
    row, turn = inputs.labelled(weights, tokens, tokens)[highlight], np.linspace(0, np.pi, 31)
    for key, (token, weight, text) in enumerate(zip(tokens, row, cell_texts(row), strict=True)):
        apart, is_drawn = (highlight - key) / 2, weight > FAINT
        if is_drawn:  # a loop if the token attends to itself
            height = (2 * abs(apart) / len(tokens)) ** 0.5
            arc = key + apart + apart * np.cos(turn), height * np.sin(turn)
            loop = key + 0.28 * np.sin(2 * turn), 0.29 * (1 - np.cos(2 * turn))
            ax.plot(*(arc if apart else loop), color=colour, linewidth=12 * weight, solid_capstyle="butt")
        bold = {"weight": "bold", "color": dark} if is_drawn or key == highlight else {"color": GREY}
        edge = {"facecolor": "white", "edgecolor": dark, "pad": 1.5} if key == highlight else None
        ax.text(key, -0.1, token, ha="center", va="top", size=11, bbox=edge, **bold)
        ax.text(key, -0.42, text if is_drawn else "", ha="center", va="top", size=10, **bold)
    ax.plot(highlight, 0, "o", color=dark, markersize=7)
    to = [f"“{tokens[key]}” {row[key]:.2f} (position {key})" for key in np.flatnonzero(row > FAINT)]
    ax.set_label(f"the framed word attends to {', '.join(to)}")
    ax.set(xlim=(-0.5, len(tokens) - 0.5), ylim=(-0.64, 1.05))
    ax.set_axis_off()
