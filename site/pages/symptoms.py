"""What people see, in their own words, and the mistakes that may cause it: `symptoms.toml`."""

import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from pages import links
from transformer_course.lessons import notebook
from transformer_lab import diagnostics

FILE = Path(__file__).with_suffix(".toml")
FOLDER = "field_guide/symptoms"
GAP = "…"  # in an error message: what differs from case to case


@dataclass(frozen=True)
class Symptom:
    """A symptom, and what may cause it.

    words: other words for it
    mistakes: the likely ones, by exercise and name
    why: what it means, and where to look first
    ask: an experiment to be sure
    errors: what PyTorch or Python says, with code that makes it say so
    """

    see: str
    words: str
    mistakes: list[tuple[str, str]]
    why: str = ""
    ask: str = ""
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        return re.sub(r"\W+", "-", self.see.lower()).strip("-")

    @property
    def likely(self) -> str:
        """Its mistakes in a line, or what else it means."""
        names = list(dict.fromkeys(name for _, name in self.mistakes))
        return f"Perhaps: {'; '.join(names)}." if names else self.why


def read(known: set[tuple[str, str]]) -> list[Symptom]:
    """Return all symptoms.

    Args:
        known: the mistakes of the guide, by exercise and name.

    Raises:
        ValueError: a symptom names a mistake or an experiment that there is not.
    """
    found = []
    for entry in tomllib.loads(FILE.read_text("utf-8"))["symptom"]:
        symptom = Symptom(**entry | {"mistakes": [tuple(pair) for pair in entry["mistakes"]]})
        missing = [f"{id} {name}" for id, name in symptom.mistakes if (id, name) not in known]
        if symptom.ask and not hasattr(diagnostics, symptom.ask):
            missing.append(symptom.ask)
        if missing:
            raise ValueError(f"{FILE.name}: {symptom.see!r} names {', '.join(missing)}, which there is not")
        found.append(symptom)
    return found


def pages(symptoms: list[Symptom], told: dict[tuple[str, str], list[str]]) -> dict[str, str]:
    """Return a page for each symptom and one that lists them; told: what the guide says of each mistake."""
    found = {f"{FOLDER}/{symptom.slug}.md": _page(symptom, told) for symptom in symptoms}
    parts = ["# Symptoms and error messages", "What you see, and what usually causes it."]
    for title, are_errors in (("Symptoms", False), ("Error messages from PyTorch and Python", True)):
        parts += [f"## {title}"]
        parts += [_listed(symptom) for symptom in symptoms if _is_error(symptom) == are_errors]
    return found | {f"{FOLDER}.md": "\n\n".join(parts) + "\n"}


def _is_error(symptom: Symptom) -> bool:
    return bool(re.match(r"\w+Error: ", symptom.see))


def _listed(symptom: Symptom) -> str:
    """Return a symptom's line, at the anchor that it had when all were on one page."""
    return f"(s-{symptom.slug})=\n**[{symptom.see}](symptoms/{symptom.slug}.md)** {symptom.likely}"


def _page(symptom: Symptom, told: dict[tuple[str, str], list[str]]) -> str:
    described = " ".join(f"{symptom.see}. {symptom.why or symptom.likely}".replace("`", "").split())
    description = json.dumps(described if len(described) < 300 else described[:297] + "…", ensure_ascii=False)
    parts = [
        f'---\norphan: true\nmyst:\n  html_meta:\n    "description": {description}\n---',
        f"# {symptom.see}",
    ]
    parts += [symptom.why] if symptom.why else []
    if symptom.mistakes:
        parts.append("## Mistakes that cause it")
        parts += [_mistake(*mistake, told[mistake]) for mistake in symptom.mistakes]
    if symptom.ask:
        parts.append(f"To make sure, run the experiment [`{symptom.ask}`](../../diagnostics.md).")
    if symptom.errors:
        source = "PyTorch" if "torch" in str(symptom.errors) else "Python"
        parts.append(f"## {source}'s error message")
        said = "\n\n".join(f"# {says}\n{code.strip()}" for says, code in symptom.errors.items())
        parts.append(f"```python\n{said}\n```")
    parts.append(f"*Other words for it:* {symptom.words}. [All symptoms](../symptoms.md)")
    return "\n\n".join(parts) + "\n"


def _mistake(id: str, name: str, told: list[str]) -> str:
    """Return a likely mistake, linked to its change, with its effect and its fix."""
    page = f"../{notebook(int(id[:2])).stem}.md#{links.mistake(id, name)}"
    return "\n\n".join([f"### [{name.replace('`', '')}]({page}) ({id})", *told])
