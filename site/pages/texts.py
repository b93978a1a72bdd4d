"""The pages' own texts: `texts/*.md`, in which `$name` is filled in."""

import re
from pathlib import Path
from string import Template

from transformer_course.lessons import README

FOLDER = Path(__file__).parent.parent / "texts"


def filled(page: str, **parts: object) -> str:
    """Return a page's text with its parts filled in; a KeyError names one that is missing."""
    return Template((FOLDER / page).read_text("utf-8")).substitute(parts)


def of_readme(title: str) -> str:
    """Return the text beneath a heading of the README, up to a table of lessons if there is one."""
    part = rf"^## {re.escape(title)}\n\n(.*?)(?=^## |^\| lesson |\Z)"
    return re.search(part, README.read_text("utf-8"), re.MULTILINE | re.DOTALL)[1].strip()
