"""Measure what lesson 13 shows as an example from another machine: `python -m benchmarks.examples [NAME …]`.

The lesson's own cells are run, and what it could measure, it measures. All that is
measured, or what is named, is written to transformer_course/figures/examples.json, with this machine.
"""

import json
import platform
import re
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch
from IPython.core.interactiveshell import InteractiveShell

from transformer_course import figures, lessons
from transformer_course.figures.speed_and_scale import EXAMPLES, Numbers

LESSON = 13


class Shell(InteractiveShell):
    """IPython without a screen."""

    def enable_gui(self, gui: str | None = None) -> None:
        pass


def machine() -> str:
    """Return what the numbers depend on, in words."""
    processor = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        found = re.search(r"model name\s*: (.*)", information.read_text())
        processor = found[1] if found else processor
    return f"{processor}, {date.today():%B %Y}"


def measure_all(wanted: list[str]) -> Numbers:
    """Run the lesson, and return all that it can measure, by name."""
    found = {}

    def record(name: str, measure: Callable[[], Numbers], draw: Callable, **_: bool) -> None:
        if not wanted or name in wanted:
            found[name] = json.loads(json.dumps(measure(), default=float))
            draw(found[name], machine())  # an example that cannot be drawn is none
            print(f"measured: {name}", file=sys.stderr)

    figures.measured = record
    shell = Shell.instance()
    for cell in json.loads(lessons.notebook(LESSON).read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            shell.run_cell("".join(cell["source"])).raise_error()
    return found


def main(*wanted: str) -> None:
    known = json.loads(EXAMPLES.read_text("utf-8"))["numbers"] if wanted and EXAMPLES.exists() else {}
    examples = {
        "machine": machine(),
        "torch": torch.__version__,
        "numbers": known | measure_all(list(wanted)),
    }
    EXAMPLES.write_text(json.dumps(examples, indent=1) + "\n", "utf-8", newline="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
