"""Were shipped lessons worked in? `make test` asks first, and says where such work belongs."""

import json
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path

from tests.gate.notebook_io import NOTEBOOKS

UNSOLVED = re.compile(r"raise NotImplementedError|= \.\.\.")
ADVICE = """\
{files} in notebooks/ {was} worked in: {answers}.
What you write belongs on your desk, my_lessons/, where no update and no test meets it. To take it there:

    {python} -m tools.worked_in --take

Each lesson becomes your copy (one that is there already is set aside), and git puts the shipped one back.
"""


def answers_in(path: Path) -> list[str]:
    """Return the exercises of a shipped lesson that somebody has answered in it."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError, TypeError):  # its own test says so
        return []
    return [
        tag.partition(":")[2]
        for cell in cells
        for tag in cell.get("metadata", {}).get("tags", [])
        if tag.startswith("exercise:") and not UNSOLVED.search("".join(cell["source"]))
    ]


def take(path: Path) -> str:
    """Move a shipped lesson that was worked in onto the desk, and put the shipped one back; say so.

    Raises:
        OSError, subprocess.CalledProcessError: nothing was put back.
    """
    from transformer_course.workspace import atomic_files, copies

    shown = ["git", "show", f"HEAD:./{path.name}"]
    shipped = subprocess.run(shown, cwd=path.parent, capture_output=True, check=True).stdout
    worked = copies.read(path)
    worked["metadata"][copies.KEY] = copies.origin(copies.parsed(shipped), path.name)
    copy = atomic_files.DESK / path.name
    aside = (
        f" The copy that was there lies in before/{atomic_files.set_aside(copy).name}."
        if copy.exists()
        else ""
    )
    atomic_files.write(copy, copies.as_bytes(worked))
    atomic_files.write(path, shipped)
    return f"{path.name} is your copy now, and the shipped one is back.{aside}"


def main(arguments: list[str]) -> int:
    """Return 1 if there is something to take to the desk."""
    worked = {path: found for path in sorted(NOTEBOOKS.glob("*.ipynb")) if (found := answers_in(path))}
    if arguments == ["--take"]:
        for path in worked:
            print(take(path))
    elif worked:
        files = ", ".join(path.name for path in worked)
        answers = ", ".join(chain(*worked.values()))
        was = "was" if len(worked) == 1 else "were"
        print(ADVICE.format(files=files, was=was, answers=answers, python=sys.executable), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
