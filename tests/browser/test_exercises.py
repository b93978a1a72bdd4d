"""A learner answers exercise 03.2 wrongly in several ways, gets it right, and looks at the hints."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.lab import OpenLesson
from tests.course.figures import colours

RIGHT = """\
def attention(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.softmax(dim=-1)
    return weights @ value, weights"""
WRONG = {
    "no scale": RIGHT.replace(" / math.sqrt(query.shape[-1])", ""),
    "softmax over the queries": RIGHT.replace("dim=-1", "dim=-2"),
    "scores returned as weights": RIGHT.replace("@ value, weights", "@ value, scores"),
}
SLIP = RIGHT.replace("scores.softmax", "scores.softmux")


def test_wrong_answer_does_not_stop_the_lesson(my_lesson: OpenLesson) -> None:
    assert (my_lesson.ask("errors"), my_lesson.ask("notRun")) == ([], [])
    expect(my_lesson.cell("exercise-03-2-use")).to_contain_text("the five steps by hand say the same: True")


@pytest.mark.parametrize("mistake", WRONG)
def test_mistake_is_named(my_lesson: OpenLesson, mistake: str) -> None:
    verdict = my_lesson.answer("03.2", WRONG[mistake])
    expect(verdict).to_contain_text(f"✗ 03.2 not yet: {mistake}.")


def test_line_of_an_error_is_shown(my_lesson: OpenLesson) -> None:
    verdict = my_lesson.answer("03.2", SLIP)
    expect(verdict).to_contain_text("✗ 03.2 not yet: line 3 of your cell raises an error.")
    expect(verdict).to_contain_text("weights = scores.softmux(dim=-1)")


def test_right_answer_is_correct(my_lesson: OpenLesson) -> None:
    expect(my_lesson.answer("03.2", RIGHT)).to_have_text("✓ 03.2 correct.")


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_verdicts_stand_out_from_their_ground(my_lesson: OpenLesson, theme: str) -> None:
    my_lesson.choose("Settings", "Theme", theme)
    expect(my_lesson.page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
    my_lesson.answer("03.2", RIGHT)
    my_lesson.answer("03.3", "def softmax(scores):\n    print(scores)\n    return scores.exp()")
    said = my_lesson.page.locator(".jp-Notebook-cell").get_by_role("status").all_text_contents()
    assert {"○", "✓", "✗"} <= {words[0] for words in said}  # a slider says its values in a status, too
    assert [inks for inks in my_lesson.ask("verdictInks") if contrast(*inks) < 4.5] == []


def test_hints_and_solution_unfold(my_lesson: OpenLesson) -> None:
    folds = my_lesson.cell("help-03-2").locator("details")
    expect(folds.locator("summary")).to_have_text(["Hint", "Another hint", "A third hint", "Solution"])
    for fold in folds.all():
        inside = fold.locator("p, pre").first
        expect(inside).to_be_hidden()
        fold.locator("summary").click()
        expect(inside).to_be_visible()
    solution = folds.last.locator("pre")
    expect(solution).to_contain_text("def attention(query, key, value):")
    assert solution.locator("span").count() > 10  # coloured as code


def test_lesson_worked_in_and_saved_passes_its_check(my_lesson: OpenLesson, notebooks: Path) -> None:
    """What `make check` runs: JupyterLab writes more into a file than is shipped, and that is no fault."""
    my_lesson.write("exercise-03-3", "def softmax(scores):\n    return scores")
    my_lesson.write("exercise-03-2", RIGHT)
    my_lesson.run_all()
    my_lesson.save()
    gate = [sys.executable, "-m", "pytest", "-c", "pyproject.toml", notebooks / my_lesson.name]
    run = subprocess.run(gate, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


def contrast(ink: str, ground: str) -> float:
    """Return the contrast of two colours as a page names them, such as rgb(0, 0, 0)."""
    return colours.contrast(*([int(n) / 255 for n in re.findall(r"\d+", each)[:3]] for each in (ink, ground)))
