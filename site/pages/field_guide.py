"""The field guide: every mistake that the checker knows, its effect, its fix, and the change as a diff."""

import json
import re
from collections.abc import Iterator
from difflib import unified_diff
from itertools import groupby
from typing import NamedTuple

from pages import links, symptoms
from pages.symptoms import Symptom
from pages.texts import filled
from pages.themes import THEMES, Theme
from transformer_course.checker import Exercise
from transformer_course.checker.exercise_types import Mistake
from transformer_course.exercises import exercise_ids, find
from transformer_course.lessons import LESSONS, notebook

SEARCHED = "field_guide.json"
READING = (
    "In each diff, a minus marks a line of the lesson's solution, and a plus marks the line that replaces it "
    "in the mistake."
)


class Entry(NamedTuple):
    """A mistake in one exercise: what the guide says about it, and the wrong answers that make it."""

    exercise: Exercise
    name: str
    mistakes: list[Mistake]

    @property
    def anchor(self) -> str:
        return links.mistake(self.exercise.id, self.name)

    @property
    def lesson(self) -> int:
        return int(self.exercise.id[:2])

    @property
    def told(self) -> list[str]:
        """Its effect and its fix, in a paragraph each."""
        effect, cure = self.mistakes[0].effect, self.mistakes[0].cure
        return [effect, f"**Fix.** {cure}"] if cure else [effect]


def entries() -> list[Entry]:
    """Return all mistakes of all exercises, in their order."""
    return [entry for id in exercise_ids() for entry in _of(find(id))]


def _of(exercise: Exercise) -> Iterator[Entry]:
    named: dict[str, list[Mistake]] = {}
    for mistake in exercise.mistakes:
        named.setdefault(mistake.name, []).append(mistake)
    yield from (Entry(exercise, name, mistakes) for name, mistakes in named.items())


def pages() -> dict[str, str]:
    """Return the guide's pages by their paths from the root, and what is searched, as JSON."""
    known = entries()
    told = {(entry.exercise.id, entry.name): entry.told for entry in known}
    seen = symptoms.read(set(told))
    found = {"field_guide/index.md": _index(known), **symptoms.pages(seen, told)}
    for number, of_lesson in groupby(known, key=lambda entry: entry.lesson):
        found[f"{links.guide(number)}.md"] = _lesson_page(number, list(of_lesson))
    for theme in THEMES:
        found[f"field_guide/{theme.name}.md"] = _theme_page(theme, known)
    searched = {"entries": [*map(_searched_symptom, seen), *map(_searched, known)]}
    found[f"_static/{SEARCHED}"] = json.dumps(searched, ensure_ascii=False)
    return found


def _searched_symptom(symptom: Symptom) -> dict[str, str | list[str]]:
    """Return what the search needs of a symptom."""
    return {
        "name": symptom.see,
        "words": symptom.words,
        "effect": symptom.likely,
        "cure": symptom.why,
        "errors": list(symptom.errors),
        "page": f"symptoms/{symptom.slug}.html",
    }


def _searched(entry: Entry) -> dict[str, str]:
    """Return what the search needs of a mistake."""
    return {
        "name": entry.name,
        "effect": entry.mistakes[0].effect,
        "cure": entry.mistakes[0].cure,
        "exercise": f"{entry.exercise.id} {entry.exercise.title}",
        "page": f"{_page(entry)}.html#{entry.anchor}",
    }


def _lesson_page(number: int, of_lesson: list[Entry]) -> str:
    lesson = f"[lesson {number:02}](../{links.lesson(number)}.ipynb)"
    lines = [
        f"# {number:02} {LESSONS[number].title}: what goes wrong",
        f"The checker of {lesson} knows these {len(of_lesson)} mistakes by name. {READING}",
    ]
    for exercise, mistakes in groupby(of_lesson, key=lambda entry: entry.exercise):
        lines += [f"({links.exercise(exercise.id)})=", f"## {exercise.id} {exercise.title}"]
        lines += [_described(entry) for entry in mistakes]
    return "\n\n".join(lines) + "\n"


def _described(entry: Entry) -> str:
    """Return one mistake: heading, effect, fix, and the change; more ways to make it are folded."""
    first, *others = [_diff(entry.exercise, mistake) for mistake in entry.mistakes]
    more = [_fold("Other code with the same mistake", "\n\n".join(others))] if others else []
    return "\n\n".join([f"({entry.anchor})=", f"### {_plain(entry.name)}", *entry.told, first, *more])


def _plain(name: str) -> str:
    """Return a name as markdown: its stars and underscores are no emphasis, unless they are code."""
    pieces = re.split(r"(`+[^`]+`+)", name)
    pieces[::2] = [re.sub(r"([*_<>\[\]$])", r"\\\1", piece) for piece in pieces[::2]]
    return "".join(pieces)


def _fold(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def _diff(exercise: Exercise, mistake: Mistake) -> str:
    """Return the change of the shown solution that makes the mistake, as a diff."""
    right, wrong = exercise.shown.splitlines(), mistake.text.splitlines()
    lines = list(unified_diff(right, wrong, n=len(right), lineterm=""))[3:]  # without the head of a patch
    return "\n".join(["```diff", *lines, "```"])


def _theme_page(theme: Theme, known: list[Entry]) -> str:
    """Return a page of one family: each name once, with all the exercises in which it is met."""
    by_name: dict[str, list[Entry]] = {}
    for entry in known:
        if theme.has(entry.name):
            by_name.setdefault(entry.name, []).append(entry)
    often_first = sorted(by_name.items(), key=lambda item: -len(item[1]))
    head = [f"# {theme.title}", f"{theme.about[0].upper()}{theme.about[1:]}. {READING}"]
    return "\n\n".join([*head, *(_met(name, entries) for name, entries in often_first)]) + "\n"


def _met(name: str, entries: list[Entry]) -> str:
    """Return a mistake as its first exercise tells it, and where else it is met."""
    first = entries[0]
    places = ", ".join(f"[{entry.exercise.id}]({_page(entry)}.md#{entry.anchor})" for entry in entries)
    change = _fold(
        f"The change to the code, in {first.exercise.id}", _diff(first.exercise, first.mistakes[0])
    )
    return "\n\n".join([f"## {_plain(name)}", *first.told, change, f"This mistake occurs in {places}."])


def _index(known: list[Entry]) -> str:
    by_lesson = {number: list(group) for number, group in groupby(known, key=lambda entry: entry.lesson)}
    names = {number: f"{number:02} {LESSONS[number].title}" for number in by_lesson}
    pages = {number: _page(entries[0]) for number, entries in by_lesson.items()}
    return filled(
        "field_guide/index.md",
        mistakes=f"{len(known):,}",
        exercises=len({entry.exercise.id for entry in known}),
        themes="\n".join(f"- [{theme.title}]({theme.name}.md): {theme.about}" for theme in THEMES),
        lessons="\n".join(
            f"- [{names[number]}]({pages[number]}.md): {len(entries)} mistakes"
            for number, entries in by_lesson.items()
        ),
        contents="\n".join(
            ["symptoms", *(theme.name for theme in THEMES)]
            + [f"{names[number]} <{pages[number]}>" for number in pages]
        ),
    )


def _page(entry: Entry) -> str:
    """Return the page of an entry's lesson, from the guide's own folder."""
    return notebook(entry.lesson).stem
