"""Lesson 06: the two-layer network and its gated kind.

Values are compared where a layer with them equals somebody else's: PyTorch's (test_encoder_layer), Llama's
(test_modern_encoder) and ModernBERT's (test_modern_bert).
"""

import pytest
import torch
from torch import nn

from tests.tensors import assert_equal, randn
from tests.third_party import randomised
from transformer_lab import FeedForward, GatedFeedForward


def test_the_papers_activation_is_relu():
    assert type(FeedForward(11, 17).activation) is nn.ReLU


@pytest.mark.parametrize("kind", [FeedForward, GatedFeedForward])
def test_dropout_zeroes_features_in_between_scales_the_others_and_leaves_the_output_alone(kind):
    network, x = randomised(kind(11, 17, dropout=0.75, bias=True)).double(), randn(2, 50, 11, seed=21)
    seen = []
    network.down_projection.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    torch.manual_seed(0)
    output = network.train()(x)
    network.eval()(x)
    dropped, whole = seen
    assert_equal(output, network.down_projection(dropped), 0)
    kept = dropped != 0
    assert_equal(dropped, 4 * whole * kept)
    assert 0.2 < kept.sum() / (whole != 0).sum() < 0.3
