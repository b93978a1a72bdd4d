"""Check the form of a lesson and of its exercises, and list all complaints at once.

`author exercise` and `refresh` print them, and the tests require that there are none. How answers are judged
is tested elsewhere.
"""

import re
from collections.abc import Iterator

from tests.gate import glossary, lint_notebooks
from tests.gate.notebook_io import Lesson
from tests.gate.solve_exercises import exercises_in, tagged
from transformer_course.exercises import HINTS, find

LONGEST, WIDEST = 24, 107  # of a stub or solution; JupyterLab scrolls sideways beyond 107 characters
LEAST_LETTERS = 50  # of the text about a mistake's effect
NO = re.compile(r"\b(without|not|no|neither)\b", re.IGNORECASE)
CALLED = {"nn.Module": "nn", "multi_head_attention_forward": "scaled_dot_product_attention"}


def complaints(lesson: Lesson) -> Iterator[str]:
    """Yield what is wrong with a lesson, its terms and its exercises."""
    for rule in lint_notebooks.ALL:
        yield from rule(lesson)
    yield from glossary.complaints(lesson)
    for id in exercises_in(lesson.notebook.cells):
        yield from of_exercise(id, lesson)


def of_exercise(id: str, lesson: Lesson) -> Iterator[str]:
    """Yield what an exercise lacks, and which of its texts are too long or malformed."""
    each = find(id)
    names = {mistake.name for mistake in each.mistakes}
    if not 2 <= len(each.hints) <= len(HINTS):
        yield f"{id}: give it 2 or 3 hints"
    if len(names) < 3:
        yield f"{id}: its guide knows {len(names)} mistakes; describe at least 3"
    for text in (each.stub, each.shown):
        if len(text.splitlines()) > LONGEST:
            yield f"{id}: a stub or a solution of more than {LONGEST} lines: ask for less"
        widest = max(map(len, text.splitlines()))
        if widest > WIDEST:
            yield f"{id}: a line of {widest} characters, at most {WIDEST}"
    told: dict[str, str] = {}
    for mistake in each.mistakes:
        text = f"{mistake.effect} {mistake.cure}".strip()
        same = told.setdefault(mistake.name, text) == text
        about = [*_about_words(mistake.effect, mistake.cure), *([] if same else ["one name, two texts"])]
        yield from (f"{id}, {mistake.name!r}: {complaint}" for complaint in about)
    yield from _untold(id, task(id, lesson))


def _about_words(effect: str, cure: str) -> Iterator[str]:
    text = f"{effect} {cure}".strip()
    outside_code = re.sub(r"`[^`]+`", "", text)
    if len(effect) < LEAST_LETTERS:
        yield "say what it does and why that matters"
    if not all(part.endswith((".", ".)", "?")) for part in (effect, cure) if part):
        yield "a sentence ends in a full stop"
    if "`" in outside_code:
        yield "a backtick too many"
    if re.search(r"\*\w|\w\*", outside_code):  # verdicts are not rendered as markdown
        yield "emphasis would show as asterisks"


def task(id: str, lesson: Lesson) -> str:
    """Return what a learner reads before answering: the text below the heading, and the stub."""
    cells = lesson.notebook.cells
    at = next(i for i, each in enumerate(cells) if tagged(each, "exercise") == id)
    above = "\n".join(each.source for each in cells[:at] if each.cell_type == "markdown")
    return f"{above.rpartition(f'# {id} ')[2]}\n{find(id).stub}"


def _untold(id: str, task: str) -> Iterator[str]:
    """Yield requirements of the check that the task does not state."""
    sentences = re.split(r"[.:;](?=\s)", " ".join(task.split()))
    refusals = [sentence for sentence in sentences if NO.search(sentence)]
    for ban in find(id).forbidden:
        name = CALLED.get(ban, ban.removeprefix("log_"))
        told = rf"(?<!\w){name}\b|own ({name.replace('_', ' ')}|attention|norm)|ready-made"
        if not any(re.search(told, each) for each in refusals):
            yield f"{id}: its task must tell of {ban}, which is not allowed"
    if find(id).gradients and "gradient" not in find(id).stub.lower():
        yield f"{id}: the check asks for gradients, the stub does not"
