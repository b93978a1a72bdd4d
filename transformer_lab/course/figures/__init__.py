"""Tensors become pictures: a lesson calls one line and gets a figure with tokens on its axes.

Every drawing function returns a matplotlib Figure that is already closed: a notebook shows it once.
"""

from transformer_lab.course.figures.costs import (
    cache_steps,
    cost_shares,
    draw_memory,
    error_curves,
    key_sharing,
    then_and_now,
)
from transformer_lab.course.figures.curves import lines
from transformer_lab.course.figures.depth import depth_curves, likeness_grid, norm_orders, token_depth
from transformer_lab.course.figures.encoder_map import encoder_map
from transformer_lab.course.figures.explore import explore
from transformer_lab.course.figures.explorer import explorer, head_view
from transformer_lab.course.figures.heads import head_atlas, head_blocks
from transformer_lab.course.figures.heatmaps import attention_heatmap, draw_matrix, head_grid, matrices
from transformer_lab.course.figures.layers import aimed_maps, data_flow, layer_maps
from transformer_lab.course.figures.masks import draw_mask, masks
from transformer_lab.course.figures.museum import catch_map
from transformer_lab.course.figures.neurons import (
    activation_curves,
    neuron_map,
    parameter_bars,
    planes,
    word_strips,
)
from transformer_lab.course.figures.positions import (
    draw_clocks,
    position_circles,
    position_curves,
    position_tables,
)
from transformer_lab.course.figures.publications import two_blocks
from transformer_lab.course.figures.roles import head_scatter, head_values
from transformer_lab.course.figures.rotations import draw_turns, pairings, score_maps, turns
from transformer_lab.course.figures.training import live_curve, training_curves
from transformer_lab.course.figures.training_lessons import image_attention, seed_spread, wanted_maps

__all__ = [
    "activation_curves",
    "aimed_maps",
    "attention_heatmap",
    "cache_steps",
    "catch_map",
    "cost_shares",
    "data_flow",
    "depth_curves",
    "draw_clocks",
    "draw_mask",
    "draw_matrix",
    "draw_memory",
    "draw_turns",
    "encoder_map",
    "error_curves",
    "explore",
    "explorer",
    "head_atlas",
    "head_blocks",
    "head_grid",
    "head_scatter",
    "head_values",
    "head_view",
    "image_attention",
    "key_sharing",
    "layer_maps",
    "likeness_grid",
    "lines",
    "live_curve",
    "masks",
    "matrices",
    "neuron_map",
    "norm_orders",
    "pairings",
    "parameter_bars",
    "planes",
    "position_circles",
    "position_curves",
    "position_tables",
    "score_maps",
    "seed_spread",
    "then_and_now",
    "token_depth",
    "training_curves",
    "turns",
    "two_blocks",
    "wanted_maps",
    "word_strips",
]
