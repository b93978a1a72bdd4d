"""A stored picture is crisp, in few colours that every machine finds alike, and close to what was drawn."""

import base64
import io

import numpy as np
import pytest
from IPython.core.pylabtools import print_figure
from matplotlib import colormaps
from matplotlib.figure import Figure
from PIL import Image

from transformer_course.figures.png import COLOURS, in_palette, mime_bundle, palette_of

WEIGHTS = np.random.default_rng(15).random((7, 11))


def drawn(draw):
    figure = Figure(dpi=90, figsize=(3, 2))
    draw(figure.add_subplot())
    return figure


def picture(figure):
    return Image.open(io.BytesIO(base64.b64decode(mime_bundle(figure)[0]["image/png"])))


def many_colours(ax):
    for number, value in enumerate(np.linspace(0, 1, 70)):
        ax.plot([0, 1], [number, number], color=(value, 1 - value, value / 2))


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: ax.pcolormesh(WEIGHTS, cmap="viridis"),
        lambda ax: ax.imshow(WEIGHTS - 0.5, cmap="RdBu_r"),
        lambda ax: ax.plot(WEIGHTS[0], color="#b34700", alpha=0.5),
        lambda ax: ax.barh([0, 1], [2, 3], color=["#a6cee3", "#f4b6d2"], hatch="//"),
    ],
)
def test_few_colours_look_like_all_of_them(draw):
    figure = drawn(draw)
    full = Image.open(io.BytesIO(print_figure(figure, dpi=180))).convert("RGB")
    few = picture(figure)
    assert few.mode == "P" and len(palette_of(figure)) <= COLOURS
    away = np.abs(np.asarray(full, int) - np.asarray(few.convert("RGB"), int)).max(axis=-1)
    assert np.mean(away > 8) < 0.03 and away.max() <= 80  # only where two colours meet


@pytest.mark.parametrize(
    "draw", [lambda ax: ax.imshow(np.random.default_rng(1).random((9, 9, 3))), many_colours]
)
def test_more_colours_than_a_palette_holds_are_all_kept(draw):
    figure = drawn(draw)
    assert palette_of(figure) is None
    assert picture(figure).mode == "RGB"


def test_a_palette_follows_what_is_drawn_not_its_pixels():
    one, other = (palette_of(drawn(lambda ax, w=w: ax.pcolormesh(w))) for w in (WEIGHTS, 1 - WEIGHTS))
    np.testing.assert_array_equal(one, other)
    levels = (255 * colormaps["viridis"]([0.0, 1.0])[:, :3]).round()
    assert all((one == level).all(axis=-1).any() for level in levels)


def test_a_shade_more_at_an_edge_changes_no_other_pixel():
    palette = np.array([[0, 0, 0], [128, 128, 128], [255, 255, 255]])
    image = Image.fromarray(np.array([[[0, 0, 0], [130, 127, 128], [255, 250, 255]]], dtype=np.uint8))
    assert np.asarray(in_palette(image, palette)).tolist() == [[0, 1, 2]]


def test_a_page_shows_the_picture_at_half_its_pixels_with_its_words():
    figure = drawn(lambda ax: ax.set_title('a < b & "c"'))
    data, metadata = mime_bundle(figure)
    about, html, size = metadata["image/png"], data["text/html"], picture(figure).size
    assert size == pytest.approx((2 * about["width"], 2 * about["height"]), abs=1)
    assert f'width="{about["width"]}" style="max-width: 100%; height: auto"' in html
    assert html.startswith("<img alt=") and "“a &lt; b &amp; &quot;c&quot;”" in html
    assert html.endswith(f'src="data:image/png;base64,{data["image/png"]}">')


def test_the_last_digits_of_a_machine_change_no_pixel():
    x, y = np.linspace(0, 6.5, 33), np.round(np.sin(np.linspace(0, 6.5, 33)), 2)

    def everything(ax, noise):
        """Lines, dots, bars, a mesh, an arrow and text."""

        def noisy(values):
            return values + noise * np.random.default_rng(1).standard_normal(len(values))

        ax.plot(x, noisy(y), "o-")
        ax.scatter(noisy(x), y + 0.5)
        ax.bar([1, 2], noisy([0.25, 0.5]))
        ax.pcolormesh(noisy(x[:5]), noisy(y[:5]), WEIGHTS[:4, :4])
        ax.annotate("there", noisy([3.25, 0.5]), noisy([4.5, 1.0]), arrowprops={"arrowstyle": "->"})
        ax.set(xlim=(0, 6.5), ylim=(-1, 2))

    plain, other = (picture(drawn(lambda ax, noise=noise: everything(ax, noise))) for noise in (0, 1e-12))
    assert plain == other


def test_a_picture_is_not_lost_for_want_of_words():
    data, _ = mime_bundle(drawn(lambda ax: ax.pcolormesh(WEIGHTS, shading="gouraud")))
    assert data["text/plain"].startswith("<Figure that could not be described: ValueError(")
    assert data["image/png"]


def test_an_empty_figure_is_not_shown():
    assert mime_bundle(Figure()) == ({}, {})
