"""A lesson's guide, `exercises/NAME.md`: titles, hints, and mistakes as changes of the shown solutions.

A change is an edit of the solution's text, so whoever rewrites a solution goes through its changes again.

    ## 03.1 Score every query against every key

    > A hint: which product gives all sums at once?
    > Another hint: the last axis …

    = `math.sqrt(d_head)` → `d_head**0.5`

    - **no scale.** Wide heads get large scores. **Cure.** Divide by `math.sqrt(d_head)`.
      - drop `/ math.sqrt(d_head)`
      - `query @ key.mT`

What follows `=` is another right way: each mistake is looked for in answers that are written so, too.

A mistake is an item with its name; each item beneath is one wrong answer, or several, as a change of the
solution that the lesson shows:

    - `right` → `wrong`                  a text that occurs once; a line break is written ⏎
    - `right` → `wrong` or `other`       two wrong answers
    - `a` → `b`, `c` → `d`               two changes in one wrong answer, one after the other
    - `right` → `wrong` everywhere       a text that occurs more often
    - drop `text`                        without it
    - `expression`                       returned instead; of a value exercise, the value

For what no change expresses there are blocks of Python beneath, each a whole answer. Everything may use the
names of NAME.py and of `COMMON`; `right` is the right answer, and a class may derive from it. A name without
a text takes that of the first exercise that has one, or that of `shared.md`; what stands there with a change
is tried on every one.
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
HEADING = re.compile(r"## (\S+) (.*)")
MISTAKE = re.compile(r"- \*\*(.+?)\.\*\*(?: (.*?))?(?: \*\*Cure\.\*\* (.*))?")
BREAK = " ⏎ "
CODE = "`([^`]+)`"
OTHERS = "((?: or `[^`]+`)*)"
EDIT = re.compile(f"(?:{CODE} → (?:{CODE}{OTHERS}|nothing)( everywhere)?|drop {CODE}|{CODE}{OTHERS})(?:, |$)")
BLOCK = re.compile(r"^  ```python\n(.*?)^  ```$", re.DOTALL | re.MULTILINE)


class Change(NamedTuple):
    """Text of the solution and what stands in its place; without `right` another expression is the result."""

    right: str
    wrong: str
    everywhere: bool = False

    def of(self, text: str) -> str | None:
        """The text with the change; None where the right text does not occur, or not just once."""
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
    """Where a text occurs: as whole words, its lines indented as they may be."""
    before = r"(?<!\w)" if re.match(r"\w", right) else ""
    behind = r"(?!\w)" if re.search(r"\w$", right) else ""
    return re.compile(before + r" *\n *".join(map(re.escape, right.split(BREAK))) + behind)


def _with_result(text: str, expression: str) -> str:
    """The text that returns, or assigns, another expression in the end."""
    tree = ast.parse(text)
    returns = [node for node in ast.walk(tree) if isinstance(node, ast.Return)]
    last = max(returns, key=lambda node: node.lineno) if returns else tree.body[-1]
    lines = text.splitlines()
    head = "return" if returns else f"{lines[last.lineno - 1].split(' = ')[0]} ="
    lines[last.lineno - 1 : last.end_lineno] = [f"{' ' * last.col_offset}{head} {expression}"]
    return "\n".join(lines)


def changed(text: str | None, changes: Iterable[Change]) -> str | None:
    """The text with all changes; None if one does not fit."""
    for change in changes:
        text = text and change.of(text)
    return text


@dataclass
class Entry:
    """A mistake as the guide describes it: several changes make one wrong answer, a block is one."""

    name: str
    effect: str = ""
    cure: str = ""
    answers: list[tuple[Change, ...]] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)


@dataclass
class Section:
    """What the guide says of one exercise."""

    title: str = ""
    hints: list[str] = field(default_factory=list)
    other_ways: list[tuple[Change, ...]] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)


def read(text: str) -> dict[str, Section]:
    """The sections of a guide by exercise; what stands above the first exercise under "".

    Raises:
        ValueError: an item that is no change, or a line that is neither a hint, a mistake nor beneath one.
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
            elif section.title or section.entries:
                raise ValueError(
                    "a line must be `> a hint`, `= another right way`, `- **name.** text`, or "
                    f"`  - a change` beneath, got {line!r}"
                )
        if block:
            section.entries[-1].blocks.append(dedent(block).rstrip())
    return sections


def _answers(item: str) -> Iterator[tuple[Change, ...]]:
    """The wrong answers of one item, each as its changes."""
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
    """Give each exercise its title, hints and mistakes from the guide, and the shared mistakes that fit it.

    Raises:
        ValueError: an exercise that is in one of the two only; a text that is missing, a change that does
            not fit, or a mistake without an answer.
    """
    texts = {entry.name: entry for entry in shared}
    for exercise in exercises.values():
        exercise.namespace = COMMON | namespace
    for id in (guide.keys() - {""}) ^ exercises.keys():
        place = "among the exercises" if id in exercises else "in the guide"
        raise ValueError(f"{id} is {place} only; the exercises are {', '.join(exercises)}")
    for id, exercise in exercises.items():  # by their numbers, whatever the guide's order
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
        raise ValueError(f"{exercise.id}, {entry.name!r}, has not {missing}; write it")
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
    """The mistakes in a solution that is written another way; each is the same mistake."""
    exercise.other_ways.append(way)
    exercise.written_otherwise.append(changed(exercise.shown, way))
    for mistake in [*exercise.mistakes, *exercise.shared]:
        text = mistake.changes and changed(mistake.text, way)
        if text:
            exercise.mistakes_otherwise.append(replace(mistake, answer=answer(exercise, text), text=text))


def answer(exercise: Exercise, text: str | CodeType) -> Any:
    """What a cell with this text would leave under the exercise's name."""
    known = {exercise.name: exercise.reference, "right": exercise.reference}
    return source.run(text, **{**exercise.namespace, **known})[exercise.name]
