"""Move a slider and see the picture change; without a kernel, see a strip of pictures."""

from collections.abc import Callable, Iterable, Sequence
from numbers import Real

import ipywidgets
from IPython.display import publish_display_data
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_lab.course.figures.base import canvas, check_labels, finished
from transformer_lab.course.figures.words import mime_bundle
from transformer_lab.validation import check_number

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
    check_labels("name, title and bar", [name, title, bar])
    check_stops(draw, values, strip)
    check_size(size)
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
    figure, axes = canvas(1, len(values), (size[0] * len(values) + bool(bar), size[1]))
    for ax, value in zip(axes.flat, values, strict=True):
        draw(ax, value)
        ax.set_title(f"{name} = {_called(value)}")
    if bar:
        if not axes[0, 0].collections:
            raise ValueError(f"got the colour bar {bar!r}, but draw shows no colours; leave bar out")
        figure.colorbar(axes[0, 0].collections[0], ax=axes, label=bar, shrink=0.7)
    figure.suptitle(title)
    return finished(figure)


def check_stops(draw: Callable[[Axes, Stop], None], values: Sequence[Stop], strip: Sequence[Stop]) -> None:
    """Raise unless `draw` can be called, and the strip shows some of the values."""
    if not callable(draw):
        raise TypeError(f"draw must be a function of axes and a value, got {draw!r}; write one")
    for name, stops in (("values", values), ("strip", strip)):
        if isinstance(stops, str) or not isinstance(stops, Iterable):
            raise TypeError(f"{name} must be a list of numbers or names, got {stops!r}; try a list")
        if wrong := [stop for stop in stops if not isinstance(stop, Real | str) or stop != stop]:  # nan
            raise TypeError(f"{name} must hold numbers or names, got {wrong[0]!r}; try float or str")
    if len(set(values)) < len(values):
        raise ValueError(f"values must differ, got {list(values)}; leave out the repeated ones")
    if not len(strip) or set(strip) - set(values):
        raise ValueError(
            f"the strip must show some of the values, got {list(strip)}; wanted from {list(values)}"
        )


def check_size(size: tuple[float, float]) -> None:
    """Raise unless it is a width and a height."""
    if not isinstance(size, tuple | list) or len(size) != 2:
        raise TypeError(f"size must be a width and a height in inches, got {size!r}; try (3.0, 2.9)")
    check_number(width=size[0], height=size[1], above=0)


def _called(value: Stop) -> str:
    return value if isinstance(value, str) else f"{value:g}"
