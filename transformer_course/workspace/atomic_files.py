"""The learner's folder, and how a file in it is written: whole, or not at all."""

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

from transformer_course.lessons import IS_ALONE, ROOT

# make lab MY_LESSONS=<folder> puts it somewhere else. Of a lesson alone it lies beside the notebook, in whose
# folder a kernel starts.
WORKSPACE = (Path.cwd() if IS_ALONE else ROOT) / (os.environ.get("MY_LESSONS") or "my_lessons")
# In notebooks/, as in CI, no answer is saved or looked for.
IN_WORKSPACE = IS_ALONE or Path.cwd().resolve() == WORKSPACE.resolve()
UNFINISHED = ".unfinished"


def write(path: Path, data: bytes) -> None:
    """Write a file so that, killed at any point, either the old one or the new one is there.

    Raises:
        OSError: the file system refuses; the old file is as it was.
    """
    path = path.resolve()  # of a link, the file that it stands for
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}{UNFINISHED}")
    try:
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process has left half written."""
    with suppress(OSError):
        for unfinished in folder.rglob(f".*{UNFINISHED}"):
            unfinished.unlink()


def set_aside(path: Path) -> Path:
    """Move a file into the folder `before` next to it, once for each content, and return its new place."""
    folder, data = path.parent / "before", path.read_bytes()
    folder.mkdir(exist_ok=True)
    for number in count(1):
        place = folder / f"{path.stem} ({number}){path.suffix}"
        if not place.exists() or place.read_bytes() == data:
            return path.replace(place)
