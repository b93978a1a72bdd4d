"""Read a lesson's guide, `exercises/NAME.md`: titles, hints, and mistakes as edits of the shown solutions.

Because a change is an edit of the solution's text, go through the changes when you rewrite a solution.

    ## 03.1 Score every query against every key

    > A hint: which product gives all sums at once?
    > Another hint: the last axis …

    = `math.sqrt(d_head)` → `d_head**0.5`

    - **missing scale.** Wide heads get large scores. **Cure.** Divide by `math.sqrt(d_head)`.
      - drop `/ math.sqrt(d_head)`
      - `query @ key.mT`

The exercises below the line `# Deeper` are in the lesson's *Deeper*, after its path.

A line that begins with `=` is a change after which the solution is still correct. Every mistake is looked for
in solutions that are written this way, too.

A mistake is a list item with its name. Each item below it describes one wrong answer, or several, as a change
of the solution that the lesson shows:

    - `right` → `wrong`                  replace text that occurs once; ⏎ stands for a line break
    - `right` → `wrong` or `other`       two wrong answers
    - `a` → `b`, `c` → `d`               two changes in one wrong answer, one after the other
    - `right` → `wrong` everywhere       replace text that occurs several times
    - drop `text`                        remove text
    - `expression`                       return this instead; in a value exercise, assign it

If no change can express a mistake, a block of Python below the item contains the whole wrong answer. Changes
and blocks may use the names of NAME.py and of `COMMON`; `right` is the correct answer, and a class may derive
from it. A mistake without a text takes the text of the first exercise with a mistake of that name, or the
text in `shared.md`. A mistake in `shared.md` that has a change is tried on every exercise.
"""

import ast
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from textwrap import dedent
from types import CodeType
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_course.checker import source
from transformer_course.checker.exercise_types import Exercise, Mistake

COMMON = {"F": F, "Tensor": Tensor, "itertools": itertools, "math": math, "nn": nn, "np": np, "torch": torch}
DEEPER = "# Deeper"
HEADING = re.compile(r"## (\S+) (.*)")
MISTAKE = re.compile(r"- \*\*(.+?)\.\*\*(?: (.*?))?(?: \*\*Cure\.\*\* (.*))?")
BREAK = " ⏎ "
CODE = "`([^`]+)`"
OTHERS = "((?: or `[^`]+`)*)"
EDIT = re.compile(f"(?:{CODE} → (?:{CODE}{OTHERS}|nothing)( everywhere)?|drop {CODE}|{CODE}{OTHERS})(?:, |$)")
BLOCK = re.compile(r"^  ```python\n(.*?)^  ```$", re.DOTALL | re.MULTILINE)


class Change(NamedTuple):
    """An edit of the solution. Without `right`, `wrong` replaces the expression that is returned."""

    right: str
    wrong: str
    everywhere: bool = False

    def of(self, text: str) -> str | None:
        """The edited text; None if the text to replace does not occur, or occurs more than once."""
        if not self.right:
            return _with_result(text, self.wrong)
        places = list(_form(self.right).finditer(text))
        if not places or (len(places) > 1 and not self.everywhere):
            return None
        for place in reversed(places):
            line = text[: place.start()].rpartition("\n")[2]
            indent = line[: len(line) - len(line.lstrip())]
            wrong = self.wrong.replace(BREAK, f"\n{indent}")
            text = text[: place.start()] + wrong + text[place.end() :]
        return text


def _form(right: str) -> re.Pattern:
    """A pattern for the text as whole words, with any indentation of its lines."""
    before = r"(?<!\w)" if re.match(r"\w", right) else ""
    behind = r"(?!\w)" if re.search(r"\w$", right) else ""
    return re.compile(before + r" *\n *".join(map(re.escape, right.split(BREAK))) + behind)


def _with_result(text: str, expression: str) -> str:
    """The text with another expression in its last `return`, or in its last assignment."""
    tree = ast.parse(text)
    returns = [node for node in ast.walk(tree) if isinstance(node, ast.Return)]
    last = max(returns, key=lambda node: node.lineno) if returns else tree.body[-1]
    lines = text.splitlines()
    head = "return" if returns else f"{lines[last.lineno - 1].split(' = ')[0]} ="
    lines[last.lineno - 1 : last.end_lineno] = [f"{' ' * last.col_offset}{head} {expression}"]
    return "\n".join(lines)


def changed(text: str | None, changes: Iterable[Change]) -> str | None:
    """The text after all changes; None if one of them cannot be applied."""
    for change in changes:
        text = text and change.of(text)
    return text


@dataclass
class Entry:
    """A mistake as the guide describes it.

    Each tuple of changes makes one wrong answer, and each block is one.
    """

    name: str
    effect: str = ""
    cure: str = ""
    answers: list[tuple[Change, ...]] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)


@dataclass
class Section:
    """The part of the guide that is about one exercise."""

    title: str = ""
    hints: list[str] = field(default_factory=list)
    other_ways: list[tuple[Change, ...]] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)


def read(text: str) -> dict[str, Section]:
    """The sections of a guide by exercise id; the text before the first exercise has the id "".

    Raises:
        ValueError: an item that is not a change, or a line that is neither a hint nor part of a mistake.
    """
    sections = {"": Section()}
    section = sections[""]
    pieces = BLOCK.split(text)
    for prose, block in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        for line in filter(None, prose.splitlines()):
            if heading := HEADING.fullmatch(line):
                id, title = heading.groups()
                section = sections[id] = Section(title)
            elif mistake := MISTAKE.fullmatch(line):
                section.entries.append(Entry(*(group or "" for group in mistake.groups())))
            elif section.entries and line.startswith("  - "):
                section.entries[-1].answers += _answers(line[4:].strip())
            elif section.title and not section.entries and line.startswith("> "):
                section.hints.append(line[2:])
            elif section.title and not section.entries and line.startswith("= "):
                section.other_ways += _answers(line[2:])
            elif line != DEEPER and (section.title or section.entries):
                raise ValueError(
                    "a line must be `> a hint`, `= another right way`, `- **name.** text`, or "
                    f"`  - a change` beneath, got {line!r}"
                )
        if block:
            section.entries[-1].blocks.append(dedent(block).rstrip())
    return sections


def _answers(item: str) -> Iterator[tuple[Change, ...]]:
    """Yield each wrong answer of an item as its changes."""
    edits = list(EDIT.finditer(item))
    if "".join(edit[0] for edit in edits) != item or not edits:
        raise ValueError(f"an item must be a change, such as `right` → `wrong`, got {item!r}")
    return product(*map(_choices, edits))


def _choices(edit: re.Match) -> list[Change]:
    right, wrong, others, everywhere, dropped, result, results = edit.groups()
    if dropped:
        return [Change(dropped, "")]
    first, more = (wrong or "", others) if right else (result, results)
    return [Change(right or "", each, bool(everywhere)) for each in [first, *re.findall(CODE, more or "")]]


def attach(
    exercises: dict[str, Exercise],
    guide: dict[str, Section],
    shared: list[Entry],
    namespace: dict[str, Any],
) -> None:
    """Give each exercise its title, hints and mistakes from the guide, and the shared mistakes that apply.

    Raises:
        ValueError: an exercise is only in the guide or only in the module, a mistake has no text or no
            answer, or a change cannot be applied.
    """
    texts = {entry.name: entry for entry in shared}
    for exercise in exercises.values():
        exercise.namespace = COMMON | namespace
    for id in (guide.keys() - {""}) ^ exercises.keys():
        place = "among the exercises" if id in exercises else "in the guide"
        raise ValueError(f"{id} is {place} only; the exercises are {', '.join(exercises)}")
    for id, exercise in exercises.items():  # in the order of the exercises, not of the guide
        exercise.title, exercise.hints = guide[id].title, guide[id].hints
        for entry in guide[id].entries:
            known = entry if entry.effect else texts.get(entry.name, entry)
            texts.setdefault(entry.name, known)
            _add(exercise, entry, known)
    for exercise in exercises.values():
        names = {mistake.name for mistake in exercise.mistakes}
        for entry in shared:
            if entry.name not in names:
                _try(exercise, entry)
        for way in guide[exercise.id].other_ways:
            _try_otherwise(exercise, way)


def _add(exercise: Exercise, entry: Entry, known: Entry) -> None:
    answers = [*_wrong(exercise, entry), *((answer(exercise, block), (), block) for block in entry.blocks)]
    if not (answers and known.effect):
        missing = "a text" if answers else "an answer: a change or a block"
        raise ValueError(f"{exercise.id}, {entry.name!r}, lacks {missing}; write it")
    exercise.mistakes += [Mistake(entry.name, known.effect, known.cure, *each) for each in answers]


def _wrong(exercise: Exercise, entry: Entry) -> Iterator[tuple[Any, tuple[Change, ...], str]]:
    for changes in entry.answers:
        text = exercise.shown
        for change in changes:
            before, text = text, change.of(text)
            if text is None:
                times = len(list(_form(change.right).finditer(before)))
                raise ValueError(
                    f"{exercise.id}, {entry.name!r}: the shown solution, as the changes before have left it, "
                    f"must have {change.right!r} once, got it {times} times; name more of what stands "
                    f"around it, or say `everywhere`"
                )
        yield answer(exercise, text), changes, text


def _try(exercise: Exercise, entry: Entry) -> None:
    for changes in entry.answers:
        text = changed(exercise.shown, changes)
        if text not in (None, exercise.shown):
            wrong = answer(exercise, text)
            exercise.shared.append(Mistake(entry.name, entry.effect, entry.cure, wrong, changes, text))


def _try_otherwise(exercise: Exercise, way: tuple[Change, ...]) -> None:
    """Apply the mistakes to a solution that is written in another way; each keeps its name and text."""
    exercise.other_ways.append(way)
    exercise.written_otherwise.append(changed(exercise.shown, way))
    for mistake in [*exercise.mistakes, *exercise.shared]:
        text = mistake.changes and changed(mistake.text, way)
        if text:
            exercise.mistakes_otherwise.append(replace(mistake, answer=answer(exercise, text), text=text))


def answer(exercise: Exercise, text: str | CodeType) -> Any:
    """The object that a cell with this text would assign to the exercise's name."""
    known = {exercise.name: exercise.reference, "right": exercise.reference}
    return source.run(text, **{**exercise.namespace, **known})[exercise.name]
