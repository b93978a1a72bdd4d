"""The field guide: every mistake that the checker knows, with its effect, its cure, and the change as a diff."""

import json
import re
from collections.abc import Iterator
from difflib import unified_diff
from itertools import groupby
from typing import NamedTuple

from pages import links
from pages.themes import THEMES, Theme
from transformer_lab.course.checker import Exercise
from transformer_lab.course.checker.kinds import Mistake
from transformer_lab.course.exercises import exercise_ids, find
from transformer_lab.course.lessons import LESSONS, notebook


class Entry(NamedTuple):
    """A mistake in one exercise: what the guide says of it, and the wrong answers that it stands for."""

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
    def effect(self) -> str:
        return self.mistakes[0].effect

    @property
    def cure(self) -> str:
        return self.mistakes[0].cure


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
    found = {"field_guide/index.md": _index(known)}
    for number, of_lesson in groupby(known, key=lambda entry: entry.lesson):
        found[f"{links.guide(number)}.md"] = _lesson_page(number, list(of_lesson))
    for theme in THEMES:
        found[f"field_guide/{theme.name}.md"] = _theme_page(theme, known)
    found["_static/field_guide.json"] = json.dumps([_searched(entry) for entry in known], ensure_ascii=False)
    return found


def _searched(entry: Entry) -> dict[str, str]:
    """Return what the search for a symptom needs of an entry."""
    return {
        "name": entry.name,
        "effect": entry.effect,
        "cure": entry.cure,
        "exercise": f"{entry.exercise.id} {entry.exercise.title}",
        "page": f"{notebook(entry.lesson).stem}.html#{entry.anchor}",
    }


def _lesson_page(number: int, of_lesson: list[Entry]) -> str:
    lesson = LESSONS[number]
    lines = [
        f"# {number:02} {lesson.title}: what goes wrong",
        f"{len(of_lesson)} mistakes that the checker of [lesson {number:02}](../{links.lesson(number)}.ipynb) "
        "knows by name. A minus stands before a line of the lesson's solution, a plus before what is written "
        "by mistake.",
    ]
    for exercise, mistakes in groupby(of_lesson, key=lambda entry: entry.exercise):
        lines.append(f"({links.exercise(exercise.id)})=\n\n## {exercise.id} {exercise.title}")
        lines += [_described(entry) for entry in mistakes]
    return "\n\n".join(lines) + "\n"


def _described(entry: Entry) -> str:
    """Return one mistake: heading, effect, cure, and the change; more ways to make it are folded."""
    first, *others = entry.mistakes
    cure = [f"**Cure.** {entry.cure}"] if entry.cure else []
    more = [_fold("Written in another way", "\n\n".join(_diff(entry.exercise, each) for each in others))]
    parts = [
        f"({entry.anchor})=",
        f"### {_safe(entry.name)}",
        entry.effect,
        *cure,
        _diff(entry.exercise, first),
    ]
    return "\n\n".join(parts + more * bool(others))


def _safe(heading: str) -> str:
    """A heading in markdown: stars and underscores of a name are no emphasis, unless they are code."""
    pieces = re.split(r"(`+[^`]+`+)", heading)
    return "".join(
        each if each.startswith("`") else re.sub(r"([*_<>\[\]$])", r"\\\1", each) for each in pieces
    )


def _fold(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def _diff(exercise: Exercise, mistake: Mistake) -> str:
    """Return the change of the shown solution that makes the mistake, as a diff."""
    lines = list(unified_diff(exercise.shown.splitlines(), mistake.text.splitlines(), n=20, lineterm=""))[3:]
    return "\n".join(["```diff", *lines, "```"])


def _index(known: list[Entry]) -> str:
    exercises = len({entry.exercise.id for entry in known})
    rows = [
        f"- [{number:02} {LESSONS[number].title}]({notebook(number).stem}.md): {len(list(group))} mistakes"
        for number, group in groupby(known, key=lambda entry: entry.lesson)
    ]
    contents = [theme.name for theme in THEMES]
    contents += [
        f"{number:02} {LESSONS[number].title} <{notebook(number).stem}>"
        for number in sorted({entry.lesson for entry in known})
    ]
    themes = [f"- [{theme.title}]({theme.name}.md): {theme.about}" for theme in THEMES]
    return "\n\n".join(
        [
            "# Field guide of mistakes",
            f"What people get wrong when they write a Transformer encoder: {len(known):,} mistakes in {exercises} "
            "exercises, each with what it does, how to mend it, and the change that makes it. The course's "
            "checker knows them **by name**. The change is a diff of the lesson's solution; the tests prove that "
            "each one gives a wrong answer, and that no two look alike.",
            "## Search by symptom",
            "```{raw} html\n:file: ../symptoms.html\n```",
            "## Across lessons",
            "\n".join(themes),
            "## By lesson",
            "\n".join(rows),
            "\n".join(["```{toctree}", ":hidden:", "", *contents, "```"]),
        ]
    )


def _theme_page(theme: Theme, known: list[Entry]) -> str:
    """Return a page of one theme: each mistake once, with all exercises in which it is met."""
    by_name: dict[str, list[Entry]] = {}
    for entry in known:
        if theme.has(entry.name):
            by_name.setdefault(entry.name, []).append(entry)
    often_first = sorted(by_name.items(), key=lambda item: -len(item[1]))
    rows = [
        f"**{_safe(name)}.** {of_name[0].effect} *In* {', '.join(map(_link, of_name))}."
        for name, of_name in often_first
    ]
    head = [f"# {theme.title}", theme.about[0].upper() + theme.about[1:] + "."]
    count = f"{len(by_name)} names, met in {len({e.exercise.id for es in by_name.values() for e in es})} exercises."
    return "\n\n".join([*head, count, *rows]) + "\n"


def _link(entry: Entry) -> str:
    return f"[{entry.exercise.id}]({notebook(entry.lesson).stem}.md#{entry.anchor})"
