"""The start page, and how to run the course: mostly taken from the README, so that there is one text."""

import html
import re
import struct

from pages import links
from pages.texts import filled, of_readme
from transformer_lab.course.lessons import LESSONS, README, ROOT

PICTURE = ROOT / ".github" / "head.png"
WIDTH = 400  # of the picture, in the page


def index() -> str:
    """Return the start page: what this is, seen at a glance; what one gains; the lessons."""
    rows = [
        f"| [{number:02} {lesson.title}]({links.lesson(number)}.ipynb) | {lesson.question} |"
        for number, lesson in enumerate(LESSONS)
    ]
    return filled(
        "index.md",
        picture=_in_words(),
        height=_height(),
        gain=of_readme("What you gain"),
        lessons="\n".join(["| lesson | it answers |", "|---|---|", *rows]),
        contents="\n".join(map(links.lesson, range(len(LESSONS)))),
    )


def how_to_run() -> str:
    """Return the page that tells how the course is run, checked, and on which machines."""
    platforms = of_readme("Platforms").partition("\n\nThe pretrained")[0]
    checking = of_readme("How checking works")
    return filled("start.md", start=of_readme("Start"), checking=checking, platforms=platforms)


def _in_words() -> str:
    """Return what the README says of its picture, as an attribute."""
    words = re.search(r"!\[(.*?)\]\(\.github/head\.png\)", README.read_text("utf-8"), re.DOTALL)[1]
    return html.escape(" ".join(words.split()))


def _height() -> int:
    """Return how high the picture is in the page: a PNG tells its own width and height first of all."""
    width, height = struct.unpack(">II", PICTURE.read_bytes()[16:24])
    return round(WIDTH * height / width)
