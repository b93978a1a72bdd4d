"""Numbers that other projects' own tests pin, as facts: each with its place, and none of their code."""

import pytest
import torch
from torch import nn

from transformer_lab import RotaryEmbedding, sinusoidal_encoding
from transformer_lab.encoder_layer import from_torch_layer
from transformer_lab.rotary_embedding import rotate_interleaved


@pytest.mark.parametrize(
    ("activation", "alone", "both"),
    [
        ("relu", [2.258703, 0.127985, -0.697881, 0.170862], [2.272644, 0.119035, -0.691669, 0.153486]),
        ("gelu", [2.249815, 0.131006, -0.702199, 0.177868], [2.264103, 0.121417, -0.696012, 0.159724]),
    ],
)
def test_the_encoder_layer_of_pytorchs_tests(activation, alone, both):
    """pytorch/pytorch, test/test_nn.py, test_transformerencoderlayer and test_transformerencoderlayer_gelu.

    Every parameter holds cos(0), cos(1), cos(2), …
    """
    theirs = nn.TransformerEncoderLayer(4, 2, 16, dropout=0.0, batch_first=True, activation=activation)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.arange(parameter.numel()).view(parameter.shape).double().cos())
    ours = from_torch_layer(theirs)
    x = torch.tensor([[[20.0, 30, 40, 50]]])
    torch.testing.assert_close(ours(x)[0], torch.tensor([[alone]]), rtol=0, atol=2e-6)
    x = torch.tensor([[[1.0, 2, 3, 4], [5, 6, 7, 8]]])
    torch.testing.assert_close(ours(x)[0], torch.tensor([[both, both]]), rtol=0, atol=2e-6)


def test_the_positions_of_hugging_faces_roformer():
    """huggingface/transformers, tests/models/roformer/test_modeling_roformer.py, …PositionalEmbeddingTest.

    Theirs has the sines first, then the cosines; ours has them in turn.
    """
    small = [[0.0, 0, 0, 1, 1, 1], [0.8415, 0.0464, 0.0022, 0.5403, 0.9989, 1.0]]
    ours = sinusoidal_encoding(2, 6)
    torch.testing.assert_close(
        torch.cat([ours[:, ::2], ours[:, 1::2]], dim=1), torch.tensor(small), rtol=0, atol=1e-4
    )
    sines = [[0.0] * 5, [0.8415, 0.8219, 0.8020, 0.7819, 0.7617], [0.9093, 0.9364, 0.9581, 0.9749, 0.9870]]
    ours = sinusoidal_encoding(512, 512)[:3, :10:2]
    torch.testing.assert_close(ours, torch.tensor(sines), rtol=0, atol=1e-4)


def test_the_rotation_of_hugging_faces_roformer():
    """The same file, RoFormerSelfAttentionRotaryPositionEmbeddingTest: position 0 to 5 of 0, 0.01, 0.02, …"""
    query = torch.arange(2 * 12 * 16 * 64).view(2, 12, 16, 64) / 100
    rotated = RotaryEmbedding(64, rotate=rotate_interleaved)(query)[0, 0, :6, :8]
    expected = [
        [0.0000, 0.0100, 0.0200, 0.0300, 0.0400, 0.0500, 0.0600, 0.0700],
        [-0.2012, 0.8897, 0.0263, 0.9401, 0.2074, 0.9463, 0.3481, 0.9343],
        [-1.7057, 0.6271, -1.2145, 1.3897, -0.6303, 1.7647, -0.1173, 1.8985],
        [-2.1731, -1.6397, -2.7358, 0.2854, -2.1840, 1.7183, -1.3018, 2.4871],
        [0.2717, -3.6173, -2.9206, -2.1988, -3.6638, 0.3858, -2.9155, 2.2980],
        [3.9859, -2.1580, -0.7984, -4.4904, -4.1181, -2.0252, -4.4782, 1.1253],
    ]
    torch.testing.assert_close(rotated, torch.tensor(expected), rtol=0, atol=1e-4)
