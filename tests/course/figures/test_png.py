"""A stored picture is crisp, in few colours that every machine finds alike, and close to what was drawn."""

import base64
import io
from unittest.mock import patch

import numpy as np
import pytest
from IPython.core.pylabtools import print_figure
from matplotlib import colormaps
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from PIL import Image

from transformer_course.figures import png
from transformer_course.figures.alt_text import alt_text, describe
from transformer_course.figures.png import COLOURS, in_palette, mime_bundle, palette_of

WEIGHTS = np.random.default_rng(15).random((7, 11))


def drawn(draw) -> Figure:
    figure = Figure(dpi=90, figsize=(3, 2))
    draw(figure.add_subplot())
    return figure


def picture(figure) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(mime_bundle(figure)[0]["image/png"])))


def many_colours(ax):
    for number, value in enumerate(np.linspace(0, 1, 70)):
        ax.plot([0, 1], [number, number], color=(value, 1 - value, value / 2))


FIGURES = {
    "heatmap": lambda ax: ax.pcolormesh(WEIGHTS, cmap="viridis"),
    "signed": lambda ax: ax.imshow(WEIGHTS - 0.5, cmap="RdBu_r"),
    "lines": lambda ax: ax.plot(WEIGHTS[0], color="#b34700", alpha=0.5),
    "bars": lambda ax: ax.barh([0, 1], [2, 3], color=["#a6cee3", "#f4b6d2"], hatch="//"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_few_colours_look_like_all_of_them(name: str) -> None:
    figure = drawn(FIGURES[name])
    full = Image.open(io.BytesIO(print_figure(figure, dpi=180))).convert("RGB")
    few = picture(figure)
    assert few.mode == "P" and len(palette_of(figure)) <= COLOURS
    away = np.abs(np.asarray(full, int) - np.asarray(few.convert("RGB"), int)).max(axis=-1)
    assert np.mean(away > 8) < 0.03 and away.max() <= 80  # only where two colours meet


def test_a_palette_follows_what_is_drawn_not_its_pixels() -> None:
    one = palette_of(drawn(lambda ax: ax.pcolormesh(WEIGHTS)))
    other = palette_of(drawn(lambda ax: ax.pcolormesh(1 - WEIGHTS)))
    np.testing.assert_array_equal(one, other)
    levels = (255 * colormaps["viridis"]([0.0, 1.0])[:, :3]).round()
    assert all((one == level).all(axis=-1).any() for level in levels)


def test_a_shade_more_at_an_edge_changes_no_other_pixel() -> None:
    palette = np.array([[0, 0, 0], [128, 128, 128], [255, 255, 255]])
    image = Image.fromarray(np.array([[[0, 0, 0], [130, 127, 128], [255, 250, 255]]], dtype=np.uint8))
    assert np.asarray(in_palette(image, palette)).tolist() == [[0, 1, 2]]


@pytest.mark.parametrize(
    "draw", [lambda ax: ax.imshow(np.random.default_rng(1).random((9, 9, 3))), many_colours]
)
def test_more_colours_than_a_palette_holds_are_all_kept(draw) -> None:
    figure = drawn(draw)
    assert palette_of(figure) is None
    assert picture(figure).mode == "RGB"


def test_twice_as_many_pixels_as_in_the_page_whose_size_is_told() -> None:
    figure = drawn(FIGURES["lines"])
    (data, metadata), image = mime_bundle(figure), picture(figure)
    about = metadata["image/png"]
    for side, pixels in (("width", image.width), ("height", image.height)):
        assert abs(pixels - 2 * about[side]) <= 1
    assert f'width="{about["width"]}" style="max-width: 100%; height: auto"' in data["text/html"]


def test_bundle_holds_the_picture_and_its_words() -> None:
    figure = drawn(lambda ax: ax.set_title('a < b & "c"'))
    data, metadata = mime_bundle(figure)
    assert "Software" not in picture(figure).info
    assert data["text/plain"] == describe(figure)
    assert metadata["image/png"]["alt"] == alt_text(describe(figure))
    assert data["text/html"].startswith("<img alt=") and "“a &lt; b &amp; &quot;c&quot;”" in data["text/html"]
    assert data["text/html"].endswith(f'src="data:image/png;base64,{data["image/png"]}">')


def steady(ax, noise):
    """Lines, dots, bars, a mesh, an arrow and text, with the last digits of some machine."""
    x, y = np.linspace(0, 6.5, 33), np.round(np.sin(np.linspace(0, 6.5, 33)), 2)

    def noisy(values):
        return values + noise * np.random.default_rng(1).standard_normal(values.shape)

    ax.plot(x, noisy(y), "o-")
    ax.scatter(noisy(x), y + 0.5)
    ax.bar([1, 2], noisy(np.array([0.25, 0.5])))
    ax.pcolormesh(noisy(x[:5]), noisy(y[:5]), WEIGHTS[:4, :4])
    ax.annotate(
        "there", noisy(np.array([3.25, 0.5])), noisy(np.array([4.5, 1.0])), arrowprops={"arrowstyle": "->"}
    )
    ax.set(xlim=(0, 6.5), ylim=(-1, 2))


def test_the_last_digits_of_a_machine_change_no_pixel() -> None:
    (plain, _), (noisy, _) = (
        mime_bundle(drawn(lambda ax, noise=noise: steady(ax, noise))) for noise in (0, 1e-12)
    )
    assert plain["image/png"] == noisy["image/png"]


def test_the_grid_is_finer_than_anybody_sees() -> None:
    """The same figure as matplotlib draws it: no pixel differs by more than a shade of its edge."""
    figure = drawn(lambda ax: steady(ax, 0))
    with patch.object(png, "SteadyRenderer", RendererAgg):
        usual = picture(figure)
    ours, usual = (np.asarray(each.convert("RGB"), dtype=int) for each in (picture(figure), usual))
    assert (np.abs(ours - usual).max(axis=-1) > 64).mean() < 0.001


def test_picture_is_not_lost_for_want_of_words() -> None:
    figure = drawn(lambda ax: ax.pcolormesh(WEIGHTS, shading="gouraud"))
    data, _ = mime_bundle(figure)
    assert data["text/plain"].startswith("<Figure that could not be described: ValueError(")
    assert data["image/png"]


def test_an_empty_figure_is_not_shown() -> None:
    assert mime_bundle(Figure()) == ({}, {})
