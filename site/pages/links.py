"""Where things are on the site."""

import re

from transformer_course.lessons import notebook

SIGNS = {"√": "root", "+": "plus", "−": "minus", "≤": "at most", "<": "below", "∞": "infinity"}


def anchor(heading: str) -> str:
    """Return the anchor of a heading as JupyterLab makes it, so that the lessons' links work in both."""
    return heading.replace(" ", "-")


def lesson(number: int) -> str:
    """Return a lesson's page, from the root, without its ending."""
    return f"lessons/{notebook(number).stem}"


def guide(number: int) -> str:
    """Return the page with a lesson's mistakes, from the root, without its ending."""
    return f"field_guide/{notebook(number).stem}"


def exercise(exercise_id: str) -> str:
    """Return the anchor of an exercise's mistakes in the guide."""
    return f"e-{exercise_id.replace('.', '-')}"


def mistake(exercise_id: str, name: str) -> str:
    """Return the anchor of a mistake: the exercise's number and the letters of the name."""
    for sign, word in SIGNS.items():
        name = name.replace(sign, f" {word} ")
    words = re.sub(r"\W+", "-", name.lower()).strip("-")
    return f"m-{exercise_id.replace('.', '-')}-{words}"
