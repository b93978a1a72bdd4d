"""The start page, and how to run the course: mostly the README's text, so that there is only one."""

import html
import re
import struct
from pathlib import Path

import nbformat

from pages import links
from pages.texts import filled, of_readme
from transformer_course.lessons import LESSONS, README, ROOT, notebook

PICTURE = ROOT / ".github" / "head.png"
WIDTH = 400  # of the picture, in the page


def index() -> str:
    """Return the start page: what this is, seen at a glance; what one gains; the lessons."""
    numbers = range(len(LESSONS))
    rows = [
        f"| [{n:02} {LESSONS[n].title}]({links.lesson(n)}.ipynb) | {LESSONS[n].question} | {minutes(n)} |"
        for n in numbers
    ]
    hours = round(sum(map(minutes, numbers)) / 60)
    width, height = size()
    return filled(
        "index.md",
        picture=html.escape(in_words()),
        height=round(WIDTH * height / width),
        gain=of_readme("What you gain"),
        hours=hours,
        lessons="\n".join(["| lesson | the question it answers | minutes |", "|---|---|--:|", *rows]),
        contents="\n".join(map(links.lesson, numbers)),
    )


def how_to_run(course: Path) -> str:
    """Return the page that tells how the course is run, checked, and on which machines.

    course: the file that holds it all, to be taken along
    """
    return filled(
        "start.md",
        megabytes=f"{course.stat().st_size / 1e6:.0f}",
        start=of_readme("Start").replace("In a clone of this repository:", "In the course's folder:"),
        # The rest is for people who work on the course.
        checking=of_readme("How checking works").partition("\n\n[CONTRIBUTING.md]")[0],
        platforms=of_readme("Platforms").partition("\n\nThe pretrained")[0],
    )


def minutes(number: int) -> int:
    """Return how long a lesson takes, exercises included, as its first cell says."""
    title = nbformat.read(notebook(number), as_version=4).cells[0].source
    takes = re.search(r"\*\*It takes\*\* (half an hour|about (\d+) minutes)", title)
    return int(takes[2] or 30)


def in_words() -> str:
    """Return what the README says of its picture."""
    words = re.search(r"!\[(.*?)\]\(\.github/head\.png\)", README.read_text("utf-8"), re.DOTALL)[1]
    return " ".join(words.split())


def size() -> tuple[int, int]:
    """Return the picture's width and height: a PNG tells them first of all."""
    return struct.unpack(">II", PICTURE.read_bytes()[16:24])
