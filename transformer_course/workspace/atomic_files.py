"""Where a learner's own lessons lie, and how a file there is written: whole, or not at all."""

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

from transformer_course.lessons import IS_ALONE, ROOT

# make lab MY_LESSONS=<folder> puts the desk somewhere else. A lesson alone has its desk beside it: a kernel
# starts in its notebook's folder.
DESK = (Path.cwd() if IS_ALONE else ROOT) / (os.environ.get("MY_LESSONS") or "my_lessons")
# In notebooks/, as in CI, no answer is kept or looked for.
ON_DESK = IS_ALONE or Path.cwd().resolve() == DESK.resolve()
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
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def sweep(desk: Path) -> None:
    """Remove what a killed run has left half written."""
    for unfinished in desk.rglob(f".*{UNFINISHED}"):
        unfinished.unlink()


def keep_beside(path: Path, data: bytes) -> None:
    """Write these bytes of a file into the desk's folder `before`, unless they are there."""
    place = next(each for each in _places(path) if not each.exists() or each.read_bytes() == data)
    if not place.exists():
        write(place, data)


def set_aside(path: Path) -> Path:
    """Move a file into the folder `before`; return where it lies now."""
    place = next(place for place in _places(path) if not place.exists())
    place.parent.mkdir(parents=True, exist_ok=True)
    return path.rename(place)


def _places(path: Path):
    folder = path.parent / "before"
    return (folder / f"{path.stem} ({number}){path.suffix}" for number in count(1))
