"""What people see, in their own words, and the mistakes that may be behind it: `symptoms.toml`."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from pages import links
from transformer_course.lessons import notebook
from transformer_lab import diagnostics

FILE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Symptom:
    """Something seen, other words for it, likely mistakes by exercise and name, an experiment to be sure."""

    see: str
    words: str
    mistakes: list[tuple[str, str]]
    ask: str = ""

    @property
    def anchor(self) -> str:
        return "s-" + re.sub(r"\W+", "-", self.see.lower()).strip("-")


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


def page(symptoms: list[Symptom], effects: dict[tuple[str, str], str]) -> str:
    """Return the page of symptoms; effects: what each mistake of the guide does."""
    head = "What you see, and what is usually behind it. The words in italics are others for the same."
    return "\n\n".join(["# Symptoms", head, *(_described(symptom, effects) for symptom in symptoms)]) + "\n"


def _described(symptom: Symptom, effects: dict[tuple[str, str], str]) -> str:
    likely = [
        f"- [{name.replace('`', '')}]({notebook(int(id[:2])).stem}.md#{links.mistake(id, name)}) ({id}): "
        f"{effects[id, name]}"
        for id, name in symptom.mistakes
    ]
    parts = [f"({symptom.anchor})=", f"## {symptom.see}", f"*{symptom.words}*", "\n".join(likely)]
    if symptom.ask:
        parts.append(f"To be sure, ask [`{symptom.ask}`](../diagnostics.md).")
    return "\n\n".join(parts)
