"""A slider over stored pictures: it moves in any browser, without a kernel."""

from collections.abc import Mapping, Sequence
from html import escape

MOVED = """const box = this.closest('.stops'), frames = box.querySelectorAll('img');
frames.forEach((frame, place) => { frame.style.display = place == this.value ? '' : 'none'; });
this.setAttribute('aria-valuetext', frames[this.value].dataset.stop);
box.querySelector('output').textContent = frames[this.value].dataset.stop;"""


def slider(name: str, frames: Sequence[Mapping[str, object]], sources: Sequence[str], first: int) -> str:
    """Return a slider over pictures, as HTML.

    Args:
        name: of what moves.
        frames: for each picture its `stop`, `alt`, `width` and `height`.
        sources: the address of each.
        first: the number of the one that is shown first.
    """
    pictures = []
    for number, (frame, source) in enumerate(zip(frames, sources, strict=True)):
        look = "max-width: 100%; height: auto" + "; display: none" * (number != first)
        size = f'width="{frame["width"]}" height="{frame["height"]}"'
        told = f'alt="{escape(frame["alt"])}" data-stop="{escape(frame["stop"])}"'
        pictures.append(f'<img {told} src="{source}" {size} style="{look}" loading="lazy">')
    shown = escape(frames[first]["stop"])
    return (
        f'<div class="stops"><label>{escape(name)} <input type="range" min="0" max="{len(frames) - 1}" '
        f'value="{first}" aria-valuetext="{shown}" oninput="{escape(MOVED)}" '
        f'style="width: 16em; vertical-align: middle"></label> <output role="status">{shown}</output>'
        f"<br>{''.join(pictures)}</div>"
    )
