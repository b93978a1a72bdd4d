"""Compare the figures of lessons with a commit: `python -m tools.contact_sheets HEAD [03 ...]`."""

import base64
import io
import json
import subprocess
import sys

from PIL import Image

from tests.gate.notebook_io import NOTEBOOKS, PICTURE
from tools.refresh import chosen

BETWEEN = 20  # pixels
SHEETS = NOTEBOOKS.parent / "build" / "sheets"

Pictures = dict[str, Image.Image]  # by the id of the cell and the figure's index in it


def pictures(text: str) -> Pictures:
    """Return the figures in the outputs of a stored lesson, in order; empty if there is no lesson."""
    shown = {}
    for cell in json.loads(text)["cells"] if text else ():
        bundles = [output.get("data", {}) for output in cell.get("outputs", ())]
        for number, bundle in enumerate(each for each in bundles if PICTURE in each):
            picture = Image.open(io.BytesIO(base64.b64decode(bundle[PICTURE])))
            shown[f"{cell['id']} {number}"] = picture.convert("RGB")
    return shown


def sheet(before: Pictures, now: Pictures) -> Image.Image:
    """Return all figures below each other, the old version on the left, a changed one on the right."""
    rows = [(before.get(name), now.get(name)) for name in {**before, **now}]
    left = max((old.width for old, _ in rows if old), default=0) + BETWEEN
    rows = [(old, None if old and old == new else new) for old, new in rows]
    heights = [BETWEEN + max(each.height for each in row if each) for row in rows]
    width = left + max((new.width for _, new in rows if new), default=0)
    paper = Image.new("RGB", (width, sum(heights) + 1), "white")
    for foot, (old, new) in enumerate(rows):
        for place, picture in ((0, old), (left, new)):
            if picture:
                paper.paste(picture, (place, sum(heights[:foot])))
    return paper


def main(commit: str, *numbers: str) -> None:
    known = ["git", "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"]
    if subprocess.run(known, cwd=NOTEBOOKS, capture_output=True, check=False).returncode:
        sys.exit(f"git knows no commit {commit!r}; give one such as HEAD, then numbers of lessons")
    SHEETS.mkdir(parents=True, exist_ok=True)
    for path in chosen(list(numbers)):
        git = ["git", "show", f"{commit}:./{path.name}"]
        before = subprocess.run(git, cwd=NOTEBOOKS, capture_output=True, text=True, check=False).stdout
        sheet(pictures(before), pictures(path.read_text(encoding="utf-8"))).save(SHEETS / f"{path.stem}.png")
    print(f"the contact sheets are in {SHEETS}")


if __name__ == "__main__":
    main(*sys.argv[1:])
