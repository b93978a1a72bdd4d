"""The start page, and how to run the course: taken from the README, so that there is one text."""

import re

from pages import links
from transformer_lab.course.lessons import LESSONS, README


def index() -> str:
    """Return the start page: what this is, seen at a glance; the lessons; what one gains."""
    rows = [
        f"| [{number:02} {lesson.title}]({links.lesson(number)}.ipynb) | {lesson.question} |"
        for number, lesson in enumerate(LESSONS)
    ]
    return "\n\n".join(
        [
            "# Build a Transformer encoder by hand",
            HERO.format(alt=_picture_in_words()),
            "## What you gain",
            _section("What you gain"),
            "## The lessons",
            "\n".join(["| lesson | it answers |", "|---|---|", *rows]),
            _contents(),
        ]
    )


HERO = """```{{raw}} html
<div class="hero">
<div>
<p class="lead">A course of fifteen Jupyter notebooks. You write attention, masks, heads and layers yourself in
PyTorch, and at the end <strong>your own code runs a real model</strong>.</p>
<nav aria-label="Begin">
<a href="lessons/00_start_here.html">Start with lesson 00</a>
<a href="live.html">Try the encoder live</a>
<a href="field_guide/index.html">What goes wrong, and why</a>
</nav>
</div>
<div><a href="live.html"><img src="_static/head.png" alt="{alt}" width="400"></a></div>
</div>
```
"""


def how_to_run() -> str:
    """Return the page that tells how the course is run."""
    parts = [
        "# How to run the course",
        _section("Start"),
        "## How checking works",
        _section("How checking works"),
    ]
    return (
        "\n\n".join([*parts, "## Platforms", _section("Platforms").partition("\n\nThe pretrained")[0]]) + "\n"
    )


def _section(title: str) -> str:
    """Return the text beneath a heading of the README, up to a table of lessons if there is one."""
    text = README.read_text("utf-8")
    found = re.search(
        rf"^## {re.escape(title)}\n\n(.*?)(?=^## |^\| lesson |\Z)", text, re.MULTILINE | re.DOTALL
    )
    return found[1].strip()


def _picture_in_words() -> str:
    alt = re.search(r"!\[(.*?)\]\(\.github/head\.png\)", README.read_text("utf-8"), re.DOTALL)[1]
    return " ".join(alt.split()).replace('"', "&quot;")


def _contents() -> str:
    lessons = "\n".join(links.lesson(number) for number in range(len(LESSONS)))
    parts = {
        "Try it": "live\nstart",
        "Lessons": lessons,
        "What goes wrong": "field_guide/index\ndiagnostics",
        "Look up": "glossary\nnotation\nreference/index",
    }
    return "\n\n".join(
        f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```" for caption, pages in parts.items()
    )
