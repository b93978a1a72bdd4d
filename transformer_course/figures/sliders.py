"""A slider over figures, which moves in a browser without a kernel."""

from collections.abc import Callable, Sequence
from functools import cache

from IPython.display import publish_display_data
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_course.figures.alt_text import further
from transformer_course.figures.interactive import PassingOutput, interactive
from transformer_course.figures.layout import WIDEST, Size, canvas, finished, number
from transformer_course.figures.png import QUICK, mime_bundle

Stop = float | str
WAIT = " … (the other pictures follow)"


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
    """Show a slider over figures that are drawn in advance, so that it needs no kernel.

    Without scripts, for example on a code host, a page shows a strip of some of them.

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

    @cache
    def bundle(*stops: Stop) -> tuple[dict[str, str], dict[str, object]]:
        data, metadata = mime_bundle(drawn(stops), QUICK)
        return data, metadata["image/png"]

    def moving(stops: Sequence[Stop], **more: object) -> str:
        frames = []
        for value in stops:
            data, about = bundle(value)
            shown = {part: about[part] for part in ("alt", "width", "height")}
            source = f"data:image/png;base64,{data['image/png']}"
            frames.append({"stop": _short(value), "src": source, **shown})
        still = bundle(*strip if len(stops) > 1 else stops)[0]["text/html"]
        return interactive(still, "slider", {"name": name, "frames": frames, **more})

    with PassingOutput() as early:
        first = list(values).index(strip[0])
        early.show(moving(strip[:1], first=first, last=len(values) - 1, wait=WAIT))
        page = moving(values, first=first)
        data, about = bundle(*strip)
        words, contents = [data["text/plain"]], [about["contents"]]
        for value in values:
            _, frame = bundle(value)
            contents.append(f"{_called(name, value)}\n{frame['contents']}")
            if more := further(frame["alt"], about["alt"]):
                words.append(f"{_called(name, value)}: {more}")
        data = data | {"text/html": page, "text/plain": "\n".join(words)}
        publish_display_data(data, {"image/png": about | {"contents": "\n".join(contents)}})


def _short(value: Stop) -> str:
    return value if isinstance(value, str) else number(value)


def _called(name: str, value: Stop) -> str:
    return value if isinstance(value, str) else f"{name} = {_short(value)}"
