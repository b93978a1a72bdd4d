"""Each lesson runs to its end, and all of it can be read: on a wide and a narrow screen."""

from base64 import b64decode
from collections.abc import Callable, Iterator
from io import BytesIO

import matplotlib.pyplot as plt
import nbformat
import pytest

from tests.browser.conftest import LESSONS, Open
from tests.browser.lab import OpenLesson
from transformer_course.figures.png import DENSITY

SMALLEST = 0.75  # of a picture's own size; its letters are 10 pixels high or more


@pytest.fixture(scope="module", params=sorted(path.name for path in LESSONS.glob("*.ipynb")))
def lesson(request: pytest.FixtureRequest, open_lesson: Open) -> Iterator[OpenLesson]:
    """Each lesson in turn, after Run All."""
    lesson = open_lesson(request.param)
    lesson.run_all()
    yield lesson
    lesson.close()


@pytest.fixture
def narrow_lesson(lesson: OpenLesson) -> Iterator[OpenLesson]:
    lesson.resize(width=900)
    yield lesson
    lesson.resize(width=1280)


def test_all_cells_run(lesson: OpenLesson) -> None:
    assert (lesson.ask("errors"), lesson.ask("notRun")) == ([], [])


def test_pictures_are_those_stored(lesson: OpenLesson) -> None:
    stored = [
        cell.id
        for cell in nbformat.read(LESSONS / lesson.name, as_version=4).cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    # A slider or a live curve has a picture of its own, which is not stored.
    shown = [picture["cell"] for picture in lesson.ask("pictures") if not picture["live"]]
    assert sorted(shown) == sorted(stored)


def test_everything_is_legible(lesson: OpenLesson) -> None:
    assert unreadable(lesson, SMALLEST) == []


def test_everything_fits_a_narrow_window(narrow_lesson: OpenLesson) -> None:
    assert unreadable(narrow_lesson, smallest=0) == []


def unreadable(lesson: OpenLesson, smallest: float) -> list[str]:
    """Return what a reader cannot see as it is meant."""
    faults: dict[str, Callable[[dict], bool]] = {
        "a broken picture": lambda picture: picture["size"] == 0,
        "a picture without words": lambda picture: not picture["alt"].strip(),
        "a picture wider than its room": lambda picture: picture["shown"] > picture["room"],
        "a picture too small": lambda picture: picture["shown"] < smallest * picture["size"] / DENSITY,
        "a picture that a dark page shines through": lambda picture: is_see_through(picture["source"]),
    }
    return [
        *(
            f"{picture['cell']}: {fault}"
            for picture in lesson.ask("pictures")
            for fault, is_so in faults.items()
            if is_so(picture)
        ),
        *lesson.ask("rawFormulas"),
        *lesson.ask("cutOff"),
        *lesson.ask("overlapping"),
    ]


def is_see_through(source: str) -> bool:
    pixels = plt.imread(BytesIO(b64decode(source.partition("base64,")[2])))
    return pixels.shape[-1] == 4 and pixels[..., 3].min() < 1
