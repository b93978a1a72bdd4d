"""Plot and draw tensors: a lesson calls one function and gets a labelled figure.

Every drawing function returns a closed matplotlib Figure, so that a notebook shows it only once.
"""
# ruff: noqa: F401  (the imported names are the public API of the package)

from transformer_course.figures.arithmetic import arithmetic_table
from transformer_course.figures.bars import bar_plot
from transformer_course.figures.bug_museum import kinds_of_tests
from transformer_course.figures.encoder import data_flow, forward_pass, nearest_texts
from transformer_course.figures.encoder_diagram import encoder_map
from transformer_course.figures.encoder_layer import layer_lanes, norm_orders, norm_steps, two_stacks
from transformer_course.figures.explorer import head_explorer
from transformer_course.figures.feed_forward import draw_network, function_of_two, one_neuron
from transformer_course.figures.heatmaps import (
    attention_heatmap,
    cosine_heatmaps,
    draw_matrix,
    head_grid,
    masks,
)
from transformer_course.figures.lines import line_plot
from transformer_course.figures.masking import draw_attention_web, leak_map, masked_row
from transformer_course.figures.modern_encoder import (
    minilm_and_modernbert,
    packing,
    receptive_field,
    spread_of_a_change,
)
from transformer_course.figures.multi_head_attention import head_blocks, shape_flow, two_heads
from transformer_course.figures.positional_encoding import (
    clock_table,
    digits_and_waves,
    matrices,
    position_cosines,
    sinusoidal_table,
)
from transformer_course.figures.pretrained_encoder import matching_shapes, mean_pooling, text_cosine
from transformer_course.figures.roformer import two_blocks, two_heads_inside
from transformer_course.figures.rotary_embedding import draw_rotary, position_scores, score_curves
from transformer_course.figures.scaled_dot_product_attention import (
    STEPS,
    draw_attention_steps,
    query_and_keys,
    weighted_sum,
)
from transformer_course.figures.scatter import head_scatter, neuron_activations, roofline, search_results
from transformer_course.figures.sliders import slider
from transformer_course.figures.speed_and_scale import draw_tile, measured, memory_traffic, ring_of_three
from transformer_course.figures.start_here import draw_attention_arcs
from transformer_course.figures.training import (
    gradient_step,
    head_ablation,
    image_attention,
    linear_probe,
    live_curve,
    weight_and_ablation,
)
from transformer_course.figures.vectors import draw_turns, seen_from_reference
