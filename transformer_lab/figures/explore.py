"""Move a slider and see the picture change; without a kernel, see a strip of pictures."""

from collections.abc import Callable, Sequence

import ipywidgets
import matplotlib.pyplot as plt
from IPython.display import publish_display_data
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_lab.figure_text import mime_bundle
from transformer_lab.figures.base import finished

Stop = float | str


def explore(
    draw: Callable[[Axes, Stop], None],
    name: str,
    values: Sequence[Stop],
    *,
    strip: Sequence[Stop],
    title: str,
    bar: str = "",
    size: tuple[float, float] = (3.0, 2.9),
) -> None:
    """Show a slider that redraws a picture, and below it a strip of pictures.

    A page without a kernel, such as a code host's, shows the strip alone.

    Args:
        draw: draws the picture for one value into the given axes.
        name: of the value that moves.
        values: the places where the slider can stop, numbers or names.
        strip: the values of the static strip.
        title: says what to see.
        bar: label of a colour bar for all pictures, which then share one scale; none if empty.
        size: of one picture, in inches.
    """
    still = figure_strip(draw, name, strip, title=title, bar=bar, size=size)
    slider = ipywidgets.SelectionSlider(
        options=[(_called(value), value) for value in values],
        value=strip[0],
        description=name,
        continuous_update=False,
        style={"description_width": "initial"},
    )
    picture = ipywidgets.HTML()

    def redraw(_: object = None) -> None:
        picture.value = _as_html(figure_strip(draw, name, [slider.value], title=title, bar=bar, size=size))

    slider.observe(redraw, "value")
    redraw()
    box = ipywidgets.VBox([slider, picture])
    publish_live(box, still, words=f"Slider: {name}")


def publish_live(box: ipywidgets.Widget, still: Figure, *, words: str) -> None:
    """Show widgets, told in `words`, and below them the picture that is left where no kernel runs."""
    widget = {"version_major": 2, "version_minor": 0, "model_id": box.model_id}
    # Two outputs, because widgets whose kernel has ended would hide a picture in the same output.
    publish_display_data({"application/vnd.jupyter.widget-view+json": widget, "text/plain": words})
    publish_display_data(*mime_bundle(still))


def _as_html(figure: Figure) -> str:
    """The picture with its alternative text: the form that a widget can show."""
    return mime_bundle(figure)[0]["text/html"]


def figure_strip(
    draw: Callable[[Axes, Stop], None],
    name: str,
    values: Sequence[Stop],
    *,
    title: str,
    bar: str,
    size: tuple[float, float],
) -> Figure:
    """Draw the same picture for several values, side by side."""
    figure, axes = plt.subplots(
        1,
        len(values),
        figsize=(size[0] * len(values) + bool(bar), size[1]),
        layout="constrained",
        squeeze=False,
    )
    for ax, value in zip(axes.flat, values, strict=True):
        draw(ax, value)
        ax.set_title(f"{name} = {_called(value)}")
    if bar:
        figure.colorbar(axes[0, 0].collections[0], ax=axes, label=bar, shrink=0.7)
    figure.suptitle(title)
    return finished(figure)


def _called(value: Stop) -> str:
    return value if isinstance(value, str) else f"{value:g}"
