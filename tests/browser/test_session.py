"""A learner works through every exercise of lesson 09."""

import nbformat
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import LESSONS, Open
from tests.browser.lab import OpenLesson
from transformer_course.exercises import exercise_ids, find

# Of each exercise, a slip in the solution: what stands there, and what the learner writes.
SLIPS = {
    "09.1": ("+ first_text", ""),
    "09.2": ("(hidden * real).sum(dim=1) / real.sum(dim=1)", "hidden.mean(dim=1)"),
    "09.3": (".topk(k)", ".topk(k, largest=False)"),
    "09.4": (" / math.sqrt(q.shape[-1])", ""),
    "09.5": ("layer.{layer}.", "layer.{layer + 1}."),
    "09.6": ("weights.diagonal(-1,", "weights.diagonal(1,"),
    "09.7": ("weight[:, columns].clone()", "weight[:, columns]"),
    "09.8": ("values.argsort().argsort()", "values.argsort()"),
}


LESSON = "09_pretrained_encoder.ipynb"
CELLS = [cell.id for cell in nbformat.read(LESSONS / LESSON, as_version=4).cells]


@pytest.fixture(scope="module")
def lesson(open_lesson: Open) -> OpenLesson:
    """Lesson 09, everything run once with nothing solved."""
    lesson = open_lesson(LESSON)
    lesson.run_all()
    return lesson


def test_every_exercise_has_a_slip() -> None:
    assert SLIPS.keys() == {id for id in exercise_ids() if id.startswith("09.")}


@pytest.mark.parametrize("id", SLIPS)
def test_an_exercise_is_answered_with_a_slip_and_then_rightly(lesson: OpenLesson, id: str) -> None:
    right, (stands, written) = find(id).shown, SLIPS[id]
    assert right.count(stands) == 1
    told = lesson.answer(id, right.replace(stands, written))
    expect(told).to_contain_text(f"✗ {id} not yet: ")
    assert told.inner_text().split(": ", 1)[1].split(".")[0] in {m.name for m in find(id).mistakes}
    expect(lesson.answer(id, right)).to_have_text(f"✓ {id} correct.")
    use = f"exercise-{id.replace('.', '-')}-use"
    if use in CELLS:
        lesson.go_to_and_run(use)
    assert lesson.ask("errors") == []
