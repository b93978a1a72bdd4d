"""Tensors become pictures: a lesson calls one line and gets a figure with tokens on its axes.

Every drawing function returns a matplotlib Figure that is already closed: a notebook shows it once.
"""
# ruff: noqa: F401  (all that is imported here is what the package offers)

from transformer_course.figures.attention import (
    STEPS,
    bar_plot,
    draw_attention_steps,
    masked_row,
    query_and_keys,
)
from transformer_course.figures.attention_flow import draw_attention_arcs, draw_attention_web, matching_shapes
from transformer_course.figures.curves import line_plot
from transformer_course.figures.drawings import (
    data_flow,
    kinds_of_tests,
    minilm_and_modernbert,
    norm_orders,
)
from transformer_course.figures.encoder_diagram import encoder_map, two_heads_inside
from transformer_course.figures.heatmaps import (
    attention_heatmap,
    cosine_heatmaps,
    draw_matrix,
    head_blocks,
    head_grid,
    masks,
    matrices,
)
from transformer_course.figures.images import image_attention
from transformer_course.figures.layer import (
    draw_network,
    layer_lanes,
    norm_steps,
    one_neuron,
    two_blocks,
    two_stacks,
)
from transformer_course.figures.memory_diagrams import (
    draw_tile,
    memory_traffic,
    packing,
    receptive_field,
    ring_of_three,
)
from transformer_course.figures.positions import (
    clock_table,
    digits_and_waves,
    draw_rotary,
    draw_turns,
    position_tables,
)
from transformer_course.figures.scatter import (
    head_scatter,
    mean_pooling,
    neuron_activations,
    roofline,
    search_results,
    seen_from_reference,
)
from transformer_course.figures.training import (
    gradient_step,
    head_ablation,
    linear_probe,
    weight_and_ablation,
)
from transformer_course.figures.widgets import head_explorer, live_curve, measured, slider
from transformer_course.figures.worked_examples import (
    arithmetic_table,
    forward_pass,
    shape_flow,
    text_cosine,
    two_heads,
    weighted_sum,
)
