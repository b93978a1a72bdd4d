"""Where things are on the site."""

import os
import re

from transformer_course.lessons import notebook

SIGNS = {"√": "root", "+": "plus", "−": "minus", "≤": "at most", "<": "below", "∞": "infinity"}
COURSE = "transformer-lab.zip"  # all that is committed, at the site's root
# The site's address, and the repository, owner/name. A local build knows neither.
SITE = re.sub(r"(?<=[^/])$", "/", os.environ.get("SITE_URL", ""))
REPOSITORY = os.environ.get("REPOSITORY", "")
COLAB = "https://colab.research.google.com/github/{repository}/blob/lessons/{file}"
BINDER = "https://mybinder.org/v2/gh/{repository}/HEAD?urlpath=lab%2Ftree%2Fmy_lessons%2F{file}"
CODESPACES = "https://codespaces.new/{repository}"


def elsewhere(file: str) -> dict[str, str]:
    """Return where a lesson can be opened without installing anything, by name; nothing in a local build."""
    if not REPOSITORY:
        return {}
    places = {"Colab": COLAB, "Binder": BINDER, "Codespaces": CODESPACES}
    return {name: address.format(repository=REPOSITORY, file=file) for name, address in places.items()}


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
