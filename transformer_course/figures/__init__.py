"""Tensors become pictures: a lesson calls one line and gets a figure with tokens on its axes.

Every drawing function returns a matplotlib Figure that is already closed: a notebook shows it once.
"""
# ruff: noqa: F401  (all that is imported here is what the package offers)

from transformer_course.figures.algebra import file_parts, low_rank, shape_flow, weighted_sum
from transformer_course.figures.cells import (
    catch_map,
    head_blocks,
    key_blocks,
    masks,
    pairings,
    ring_of_three,
    solved_squares,
)
from transformer_course.figures.curves import (
    activation_curves,
    cost_shares,
    growth,
    lines,
    slopes,
    training_curves,
)
from transformer_course.figures.drawings import (
    data_flow,
    draw_clocks,
    draw_turns,
    encoder_map,
    key_sharing,
    norm_orders,
    then_and_now,
    turns,
    two_blocks,
)
from transformer_course.figures.images import (
    head_atlas,
    image_attention,
    planes,
    position_tables,
    score_maps,
)
from transformer_course.figures.layout import COSINE
from transformer_course.figures.maps import (
    attention_heatmap,
    draw_matrix,
    head_grid,
    head_values,
    layer_maps,
    likeness_grid,
    matrices,
    neuron_map,
    row_maps,
    token_depth,
)
from transformer_course.figures.masking import draw_web, masked_row
from transformer_course.figures.points import (
    draw_memory,
    head_scatter,
    parameter_bars,
    position_circles,
    seed_spread,
    word_strips,
)
from transformer_course.figures.positions import curves_apart, length_curves, spectrum
from transformer_course.figures.speed import bars, padding, roofline
from transformer_course.figures.widgets import explore, explorer, live_curve, measured
