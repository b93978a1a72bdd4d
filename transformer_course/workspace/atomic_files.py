"""The learner's folder, and atomic writing: a file is replaced completely, or not at all."""

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

from transformer_course.lessons import IS_ALONE, ROOT

# `make lab MY_LESSONS=<folder>` chooses another folder. Without a clone of the course, it is next to the
# notebook, because a kernel starts in its notebook's folder.
WORKSPACE = (Path.cwd() if IS_ALONE else ROOT) / (os.environ.get("MY_LESSONS") or "my_lessons")
# In notebooks/, for example in CI, answers are neither saved nor loaded.
IN_WORKSPACE = IS_ALONE or Path.cwd().resolve() == WORKSPACE.resolve()
UNFINISHED = ".unfinished"


def write(path: Path, data: bytes) -> None:
    """Write a file so that after an interruption either the old or the new content is there.

    Raises:
        OSError: the file cannot be written; the old file is unchanged.
    """
    path = path.resolve()  # write to the target of a link
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


def replace(path: Path, data: bytes) -> None:
    """Write a file; if it has another content, that is moved to the folder `before` next to it.

    Raises:
        OSError: the file cannot be written.
    """
    if path.exists():
        if path.read_bytes() == data:
            return
        set_aside(path)
    write(path, data)


def remove_unfinished(folder: Path) -> None:
    """Remove the partial files that an interrupted process has left."""
    with suppress(OSError):
        for unfinished in folder.rglob(f".*{UNFINISHED}"):
            unfinished.unlink()


def set_aside(path: Path) -> Path:
    """Move a file into the folder `before` next to it, once for each content, and return its new path."""
    folder, data = path.parent / "before", path.read_bytes()
    folder.mkdir(exist_ok=True)
    for number in count(1):
        place = folder / f"{path.stem} ({number}){path.suffix}"
        if not place.exists() or place.read_bytes() == data:
            return path.replace(place)
