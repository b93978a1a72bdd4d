"""Exercises and their checker. In a lesson: `attention = check("03.2", attention)`.

A later lesson takes up what was answered in an earlier one: `attention = mine("03.2")`.
"""

import re
import traceback
from copy import deepcopy
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from IPython import get_ipython
from IPython.core.interactiveshell import ExecutionResult
from IPython.display import Markdown, display

from transformer_course.checker import Exercise, judge, messages, mistake_guide
from transformer_course.checker.exercise_types import ValueExercise
from transformer_course.checker.verdict import CORRECT, Verdict
from transformer_course.lessons import NAMES
from transformer_course.workspace import atomic_files, saved_answers
from transformer_course.workspace import my_encoder as page

__all__ = ["check", "exercise_cells", "exercise_ids", "exercise_titles", "find", "mine"]


def check(exercise_id: str, attempt: Any) -> Any:
    """Show the verdict on an attempt; return the attempt if it is correct, the reference otherwise.

    So the cells below print the same either way. Nothing that the attempt does can raise here. On the
    learner's copies a right answer is saved, for `mine`.
    """
    global _last
    exercise = find(exercise_id)
    _watch_for_errors()
    _last = _verdict(exercise, attempt)
    display(_last)
    if _last.state != CORRECT:
        return _hand_back(exercise)
    if atomic_files.IN_WORKSPACE:
        _keep(exercise)
    return attempt


class HandedBack(NamedTuple):
    """A reference that was handed back in place of an answer, and how many cells had been run by then."""

    exercise: Exercise
    reference: Any
    cells: int


_handed_back: dict[str, HandedBack] = {}  # by exercise; the learner's name stands for it now


def _hand_back(exercise: Exercise) -> Any:
    """Return the reference; of a value a copy, which later cells may change."""
    is_value = isinstance(exercise, ValueExercise)
    reference = deepcopy(exercise.reference) if is_value else exercise.reference
    _handed_back[exercise.id] = HandedBack(exercise, reference, len(_cells()))
    return reference


def _cells() -> list[str]:
    """The cells that were run, this one too, each as far as it came; empty outside a notebook."""
    shell = get_ipython()
    cells = shell.user_ns.get("In", []) if shell else []
    return [
        saved_answers.statements_above(cell, _failed[i]) if i in _failed else cell
        for i, cell in enumerate(cells)
    ]


_failed: dict[int, int] = {}  # cells that raised an error: their numbers, and the line that did


def _watch_for_errors() -> None:
    """From now on, remember which cells fail: an answer's cell that does gives no answer."""
    shell = get_ipython()
    if shell:
        shell.events.register("post_run_cell", _remember_error)


def _remember_error(result: ExecutionResult) -> None:
    _failed.pop(result.execution_count, None)
    if result.error_in_exec is not None:
        names = get_ipython().user_ns
        lines = traceback.walk_tb(result.error_in_exec.__traceback__)
        first = (line for frame, line in lines if frame.f_globals is names)
        _failed[result.execution_count] = next(first, 1)


def _is_handed_back(exercise: Exercise, attempt: Any) -> bool:
    """Whether the attempt is what `check` handed back, and no cell has assigned the name since."""
    _, reference, count = _handed_back.get(exercise.id, HandedBack(exercise, ..., 0))
    since = _cells()[count:]
    is_same = attempt is reference and bool(since) and not saved_answers.is_bound(exercise.name, since)
    return is_same and exercise.difference(0, attempt) is None  # a list may have been changed in place


def _verdict(exercise: Exercise, attempt: Any) -> Verdict:
    try:
        if isinstance(exercise, ValueExercise) and _is_handed_back(exercise, attempt):
            return Verdict.not_attempted(exercise.id, messages.already_reference(exercise))
        return judge(exercise, attempt)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a result so odd that even looking at it fails
        line = f"Looking at what your code returns raises {type(error).__name__}."
        return Verdict.not_yet(exercise.id, "unreadable result", [line])


def _keep(exercise: Exercise) -> None:
    try:
        names = get_ipython().user_ns
        cells = [*_cells(), *_references_in_use(names, exercise)]
        saved_answers.save(exercise.id, exercise.title, exercise.name, cells)
        if exercise.id in PARTS:
            page.write(_parts())
    except OSError as error:
        print(f"It could not be kept for later lessons: {error.strerror}.")


def _references_in_use(names: dict[str, Any], besides: Exercise) -> list[str]:
    """Return the solutions of earlier exercises whose references the learner's cells call."""
    return [
        exercise.shown
        for exercise, reference, _ in _handed_back.values()
        if exercise is not besides and callable(reference) and names.get(exercise.name) is reference
    ]


PARTS = ("04.1", "04.4", "05.4", "06.2", "07.3", "08.2", "08.3")  # the parts of the learner's own encoder


def my_encoder() -> ModuleType:
    """The learner's own encoder: `my_encoder.py`, with the reference's parts where theirs are still missing.

    Its function `minilm()` returns MiniLM made of these parts, and the tokenizer.
    """
    return page.build(_parts())


def show_my_encoder() -> None:
    """Show its page."""
    display(Markdown(f"```python\n{page.text(_parts())}```"))


def _parts() -> dict[Exercise, bool]:
    """Each part, and whether there is an answer that is right today."""
    solved = saved_answers.solved() if atomic_files.IN_WORKSPACE else set()
    return {part: part.id in solved and _judge_again(part)[0].state == CORRECT for part in map(find, PARTS)}


def mine(exercise_id: str) -> Any:
    """The learner's own right answer to an exercise, of whatever lesson; the reference if there is none.

    It is run and judged anew. A line says which of the two it is.
    """
    exercise = find(exercise_id)
    verdict, answer = Verdict.not_attempted(exercise_id, f"`{exercise.name}` is the reference."), None
    if atomic_files.IN_WORKSPACE and exercise_id in saved_answers.solved():
        verdict, answer = _judge_again(exercise)
    display(verdict)
    return answer if verdict.state == CORRECT else _hand_back(exercise)


def _judge_again(exercise: Exercise) -> tuple[Verdict, Any]:
    """A kept answer, run and judged anew."""
    try:
        answer = saved_answers.load(exercise.id, exercise.name)
        verdict = _verdict(exercise, answer)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        verdict, answer = Verdict.not_yet(exercise.id, f"{type(error).__name__}: {error}", []), None
    if verdict.state == CORRECT:
        return replace(verdict, lines=(f"`{exercise.name}` is your own.",), printed=""), answer
    lines = ["Your kept answer is not right any more, or needs more than itself.", *verdict.lines[:-1]]
    return Verdict.not_yet(exercise.id, verdict.name, lines), None


_last: Verdict | None = None


def _cure() -> None:
    """Print how to mend what the last check has found."""
    print(_last.cure if _last and _last.cure else "The last check has nothing more to say.")


check.cure = _cure


def find(exercise_id: str) -> Exercise:
    """The exercise with this id; only its own lesson is imported. ValueError if there is none."""
    known = _exercises(int(exercise_id[:2])) if re.fullmatch(r"\d\d\.\d+", exercise_id) else {}
    if exercise_id not in known:
        raise ValueError(
            f"no exercise {exercise_id!r}; this lesson has: {', '.join(known) or 'none'}. "
            'An id is lesson and number, such as "03.2"; exercise_ids() lists all.'
        )
    return known[exercise_id]


def exercise_ids() -> list[str]:
    """The ids of all exercises, in order."""
    return [id for lesson in range(len(NAMES)) for id in _exercises(lesson)]


@cache
def exercise_titles(*, only_path: bool = False) -> dict[str, str]:
    """The titles of all exercises by their ids, from the field guides: no exercise is imported.

    only_path: leave out the exercises in *Deeper*
    """
    guides = [Path(__file__).with_name(f"{name}.md") for name in NAMES]
    texts = [guide.read_text(encoding="utf-8") for guide in guides if guide.exists()]
    texts = [text.partition(f"\n{mistake_guide.DEEPER}\n")[0] for text in texts] if only_path else texts
    headings = re.compile(r"^## (\d\d\.\d+) (.*)$", re.MULTILINE)
    return {id: title for text in texts for id, title in headings.findall(text)}


def _exercises(lesson: int) -> dict[str, Exercise]:
    """A lesson's exercises by id, in the order of their declaration; none where the lesson has none yet."""
    name = f"{__name__}.{NAMES[lesson]}" if lesson < len(NAMES) else ""
    if not name or find_spec(name) is None:
        return {}
    return _with_mistakes(import_module(name))


@cache
def _with_mistakes(module: ModuleType) -> dict[str, Exercise]:
    found = {thing.id: thing for thing in vars(module).values() if isinstance(thing, Exercise)}
    guide = _guide(module.__name__.rpartition(".")[2])
    mistake_guide.attach(found, guide, _guide("shared")[""].entries, vars(module))
    return found


def _guide(name: str) -> dict[str, mistake_guide.Section]:
    return mistake_guide.read(Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8"))


HINTS = ("Hint", "Another hint", "A third hint")


class Cells(NamedTuple):
    """The text of an exercise in a notebook: a heading, and below the task three cells."""

    heading: str
    exercise: str
    check: str
    help: str


def exercise_cells(exercise_id: str) -> Cells:
    """What to paste into a lesson: heading, stub, check, and hints and solution folded in markdown."""
    exercise = find(exercise_id)
    folds = [*zip(HINTS, exercise.hints, strict=False), ("Solution", f"```python\n{exercise.shown}\n```")]
    return Cells(
        heading=f"### {exercise.id} {exercise.title}",
        exercise=exercise.stub,
        check=f'{exercise.name} = check("{exercise.id}", {exercise.name})',
        help="\n".join(
            f"<details><summary>{title}</summary>\n\n{text}\n\n</details>" for title, text in folds
        ),
    )
