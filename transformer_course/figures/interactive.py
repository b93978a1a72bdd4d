"""Outputs that move without a kernel, and outputs that pass while a cell is running."""

import json
import uuid
from html import escape
from pathlib import Path

from IPython.display import publish_display_data

SCRIPTS = Path(__file__).parent
PASSING = {"passing": True}  # metadata of an output that is not stored


def interactive(picture: str, name: str, data: object) -> str:
    """Return a picture, as HTML, that the script `name`.js replaces; the script finds `data` in `data-name`.

    Where scripts do not run, for example on a code host or in a notebook that is not trusted, a sanitiser
    drops these two attributes, and one plain <img> remains.
    """
    script = "".join((SCRIPTS / f"{part}.js").read_text("utf-8") for part in ("interactive", name))
    values = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return f'{picture.removesuffix(">")} data-{name}="{escape(values)}" onload="{escape(script)}">'


class PassingOutput:
    """An output that changes while a cell runs, and is not stored with the lesson.

    It is empty at first: stock nbval ignores updates, so it sees nothing of this output.
    """

    def __init__(self) -> None:
        self.transient = {"display_id": uuid.uuid4().hex}
        publish_display_data({}, transient=self.transient)

    def show(self, html: str) -> None:
        """Show this instead of what was shown before."""
        publish_display_data({"text/html": html}, PASSING, transient=self.transient, update=True)

    def close(self) -> None:
        """Show nothing any more."""
        publish_display_data({}, transient=self.transient, update=True)

    def __enter__(self) -> "PassingOutput":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
