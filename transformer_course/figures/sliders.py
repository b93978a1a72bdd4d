"""A slider over figures, and the output that remains on pages without a kernel."""

from collections.abc import Callable, Sequence
from html import escape

import ipywidgets
from IPython.display import publish_display_data
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures.alt_text import further
from transformer_course.figures.layout import WIDEST, Size, canvas, finished, number
from transformer_course.figures.png import mime_bundle

WIDE = {"description_width": "initial"}  # show the whole description
Stop = float | str


def publish(box: ipywidgets.Widget, data: dict, metadata: dict) -> None:
    """Show widgets, and below them the figure that remains where no kernel runs.

    They are two outputs, because a widget without a kernel would hide a figure in the same output.
    """
    publish_widget(box)
    publish_display_data(data, metadata)


def publish_widget(box: ipywidgets.Widget) -> None:
    """Show widgets without the text that IPython adds, so that nothing is stored or compared by nbval."""
    widget = {"version_major": 2, "version_minor": 0, "model_id": box.model_id}
    publish_display_data({"application/vnd.jupyter.widget-view+json": widget})


def as_html(shown: Figure | str) -> str:
    """An <img> with its alternative text for a figure, or the text itself, as HTML for a widget."""
    return f"<pre>{escape(shown)}</pre>" if isinstance(shown, str) else mime_bundle(shown)[0]["text/html"]


def status_html(text: str) -> str:
    """Text that a screen reader announces when it changes."""
    return f'<p role="status">{escape(text)}</p>'


# A slider


def slider(
    draw: Callable[[Axes, Stop], None],
    name: str,
    values: Sequence[Stop],
    *,
    strip: Sequence[Stop],
    title: str,
    alt: str = "",
    bar: str = "",
    size: Size = (3.0, 2.9),
    across: int | None = None,
    then: float | None = None,
) -> None:
    """Show a slider over figures that are drawn in advance, so that it reacts at once, also on the site.

    Without a kernel and without scripts, for example on a code host, a page shows a strip of some of them.

    Args:
        draw: draws the figure for one value into the given axes, which are `size` inches large.
        name, values: the label and the stops of the slider, numbers or names; it starts at the first of the
            strip.
        strip: the values in the strip.
        across: the number of figures in a row of the strip; all of them if None.
        title, alt: title and alternative text of every figure.
        then: height of further rows of the strip, if they repeat less than the first row has.
        bar: label of a colour bar for all figures, which then share one scale; none if empty.
    """

    def drawn(stops: Sequence[Stop]) -> Figure:
        columns = min(len(stops), across or len(stops))
        width = min(size[0], (WIDEST - bool(bar)) / columns)
        rows = [size[1], *[then or size[1]] * (-(-len(stops) // columns) - 1)]
        style = {"columns": columns, "height_ratios": rows}
        figure, panels = canvas(len(stops), (width, 0), (bool(bar), sum(rows)), **style)
        for ax, value in zip(panels, stops, strict=True):
            draw(ax, value)
            ax.set_title(_called(name, value), loc="left" if across == 1 else "center")
        ticks = [[label.get_text() for label in ax.get_yticklabels()] for ax in panels]
        for place, ax in enumerate(panels[1:], 1):
            ax.set_ylabel("")  # only the first has a label, and equal token labels appear once
            ax.tick_params(labelleft=place % columns == 0 or ticks[place] != ticks[0])
        if bar:
            figure.colorbar(panels[0].collections[0], ax=figure.axes, label=bar, shrink=0.7)
        return finished(figure, title, alt)

    data, metadata = mime_bundle(drawn(strip))
    frames, pictures = [], []
    for value in values:
        alone, about = mime_bundle(drawn([value]))
        frames.append({"stop": _called(name, value), "png": alone["image/png"], **about["image/png"]})
        pictures.append(status_html(_called(name, value)) + alone["text/html"])
        if more := further(about["image/png"]["alt"], metadata["image/png"]["alt"]):
            data["text/plain"] += f"\n{_called(name, value)}: {more}"
    first = list(values).index(strip[0])
    metadata["image/png"]["stops"] = {"name": name, "first": first, "frames": frames}
    options = [(value if isinstance(value, str) else number(value), i) for i, value in enumerate(values)]
    stops = ipywidgets.SelectionSlider(options=options, index=first, description=name, style=WIDE)
    picture = ipywidgets.HTML(pictures[first])
    stops.observe(lambda change: setattr(picture, "value", pictures[change["new"]]), "value")
    publish(ipywidgets.VBox([stops, picture]), data, metadata)


def _called(name: str, value: Stop) -> str:
    return value if isinstance(value, str) else f"{name} = {number(value)}"
