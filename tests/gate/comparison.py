"""Compare a cell's outputs with the stored ones."""

import base64
import io
from collections.abc import Iterator
from difflib import unified_diff

import numpy as np
from nbformat import NotebookNode
from PIL import Image

from tests.gate.notebook_io import EMBEDDED, PAGE, PICTURE, as_stored, without_pictures
from transformer_course.figures.png import DENSITY

# Machines draw edges in slightly different shades; every visible change is larger than these limits. Pictures
# are compared at page size, because a slight difference can select another colour of the palette, and
# averaging with the three neighbouring pixels reduces this effect.
SHADES = 8  # of 255; the largest difference of a pixel that is ignored
PIXELS = 0.001  # the share of pixels that may differ by more


def differences(
    stored: list[NotebookNode], fresh: list[NotebookNode], names: tuple[str, str] = ("stored", "now")
) -> Iterator[str]:
    """Yield a description of each difference between the outputs of two runs.

    names: the names of the two runs
    """
    stored, fresh = as_stored(stored), as_stored(fresh)
    if len(stored) != len(fresh):
        yield f"{len(stored)} output(s) {names[0]}, {len(fresh)} {names[1]}"
    for number, (was, now) in enumerate(zip(stored, fresh, strict=False), 1):
        for difference in _between(_parts(was), _parts(now), names):
            yield f"output {number}, {difference}"
    for output in stored[len(fresh) :]:
        yield f"missing:\n{_summary(output)}"
    for output in fresh[len(stored) :]:
        yield f"new:\n{_summary(output)}"


def _parts(output: NotebookNode) -> dict[str, str]:
    """Return everything that is compared, by name; the execution count is not, as each kernel restarts it."""
    parts = {"kind": output.output_type}
    parts |= {name: output[name] for name in ("name", "text", "ename", "evalue") if name in output}
    data = {mime: str(value) for mime, value in output.get("data", {}).items()}
    parts |= {mime: value if mime == PICTURE else without_pictures(value) for mime, value in data.items()}
    embedded = EMBEDDED.findall(data.get(PAGE, ""))  # the picture, and the frames of a slider
    parts |= {f"{PAGE}, picture {place}: {PICTURE}": png for place, png in enumerate(embedded, 1)}
    for mime, about in output.get("metadata", {}).items():
        parts |= {f"{mime} {name}": str(value) for name, value in about.items()}
    return parts


def _between(stored: dict[str, str], fresh: dict[str, str], names: tuple[str, str]) -> Iterator[str]:
    for name in {**stored, **fresh}:
        was, now = stored.get(name, ""), fresh.get(name, "")
        difference = (
            _between_pictures(was, now)
            if name.endswith(PICTURE) and was and now
            else _between_texts(was, now, names)
        )
        if difference:
            yield f"{name}: {difference}"


def _between_texts(was: str, now: str, names: tuple[str, str]) -> str:
    lines = unified_diff(was.splitlines(), now.splitlines(), *names, lineterm="", n=1)
    return "" if was == now else "\n" + "\n".join(lines)


def _between_pictures(was: str, now: str) -> str:
    if was == now:
        return ""
    before, after = _pixels(was), _pixels(now)
    if before.shape != after.shape:
        return f"the size was {before.shape[1::-1]}, is now {after.shape[1::-1]}"
    changed = (np.abs(before - after).max(axis=-1) > SHADES).mean()
    return f"{changed:.1%} of the pixels have changed" if changed > PIXELS else ""


def _pixels(picture: str) -> np.ndarray:
    image = Image.open(io.BytesIO(base64.b64decode(picture)))
    return np.asarray(image.convert("RGBA").reduce(DENSITY), dtype=np.int16)  # (height, width, 4)


def _summary(output: NotebookNode) -> str:
    return "\n".join(
        f"{name}: {value[:200]}" for name, value in _parts(output).items() if not name.endswith(PICTURE)
    )
