"""Vectors keep their length and their angle to the reference."""

import torch

from tests.course.figures.drawn import arrows, words
from transformer_course import figures


def test_vectors_seen_from_another_keep_their_length_and_their_angle_to_it():
    seen_from = torch.tensor([0.0, 2.0, 0.0])
    vectors = torch.tensor([[3.0, 0, 4], [0, 3, 0], [0, 3, 0], [0, -1, 0]])
    names, style = ["square", "along", "the same", ""], {"product": "cosine", "length": "", "title": ""}
    (ax,) = figures.seen_from_reference({"p": (seen_from, vectors)}, names, reference="one", **style).axes
    # across: the dot product; each 2 times as long as it is
    assert {tip for _, tip in arrows(ax)} == {(0, 10), (6, 0), (-2, 0)}
    assert set(words(ax)) == {"square: .00", "along: 6.00", "the same: 6.00"}
