"""Each image stands beside the maps of its own heads."""

import numpy as np

from transformer_course import figures


def test_patches_of_an_image_have_their_weights_in_reading_order():
    images, maps = np.random.default_rng(1).random((2, 4, 6)), np.arange(12.0).reshape(2, 1, 6) / 12
    style = {"patch": (2, 2), "digits": [7, 8], "title": "", "bar": ""}
    first, head, second, other, _ = figures.image_attention(images, maps, ["L1.H0"], **style).axes
    for ax, image in zip((first, second), images, strict=True):
        np.testing.assert_array_equal(ax.images[0].get_array(), image)
    for ax, weights in zip((head, other), maps[:, 0], strict=True):
        np.testing.assert_array_equal(ax.collections[0].get_array(), weights.reshape(2, 3))
    assert [ax.get_ylabel() for ax in (first, second)] == ["a 7", "a 8"]
