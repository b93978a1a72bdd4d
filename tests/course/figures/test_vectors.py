"""Vectors keep their length and their angle to the reference."""

import torch

from transformer_course import figures


def test_vectors_seen_from_another_keep_their_length_and_their_angle_to_it():
    asked, vectors = (
        torch.tensor([0.0, 2.0, 0.0]),
        torch.tensor([[3.0, 0, 4], [0, 3, 0], [0, 3, 0], [0, -1, 0]]),
    )
    names = ["square", "along", "the same", ""]
    figure = figures.seen_from_reference(
        {"p": (asked, vectors)}, names, reference="one", product="cosine", length="", title=""
    )
    (ax,) = figure.axes
    tips = {text.xy: text.arrow_patch.get_linewidth() for text in ax.texts if text.arrow_patch}
    assert set(tips) == {(0, 10), (6, 0), (-2, 0)}  # across: the dot product; each 2 times as long as it is
    assert tips[-2, 0] < tips[6, 0] == tips[0, 10]  # who has no name is thin
    assert {text.get_text() for text in ax.texts} == {"", "square: .00", "along: 6.00", "the same: 6.00"}
