"""A learner's desk in a clone of the course: first start, answers, a restart, a newer lesson, a later lesson.

The tests are one session, in order.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.lab import TOKEN, OpenLesson, jupyterlab
from tests.browser.test_exercises import RIGHT, contrast
from tests.browser.test_lessons import unreadable
from tests.gate import lint_notebooks
from tests.gate.notebook_io import ROOT, Lesson
from transformer_course.exercises import PARTS, exercise_ids, find

FIRST, THIRD, FOURTH, NINTH = (
    "00_start_here.ipynb",
    "03_scaled_dot_product_attention.ipynb",
    "04_masking.ipynb",
    "09_pretrained_encoder.ipynb",
)
TWO_SLIPS = RIGHT.replace(" / math.sqrt(query.shape[-1])", "").replace("dim=-1", "dim=-2")


class Clone:
    """The course in a folder of its own, and JupyterLab on its desk."""

    def __init__(self, folder: Path, window: BrowserContext) -> None:
        self.folder, self.window = folder, window
        for part in ("transformer_lab", "transformer_course", "notebooks"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        self.desk = folder / "my_lessons"
        self.leave = ExitStack()

    def start(self) -> str:
        """What `make lab` does; return what it says."""
        self.stop()
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        lab = jupyterlab(["-m", "transformer_course.workspace"], home, self.folder)
        self.address = self.leave.enter_context(lab)
        return (home / "log").read_text()

    def stop(self) -> None:
        self.leave.close()

    def open(self, name: str) -> OpenLesson:
        return OpenLesson(self.window.new_page(), self.address, name)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, window: BrowserContext) -> Iterator[Clone]:
    made = Clone(tmp_path_factory.mktemp("a clone"), window)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def first(clone: Clone) -> OpenLesson:
    """Lesson 00 as it is opened the first time."""
    said = clone.start()
    assert "14 copied." in said and f"Opening {FIRST}" in said
    page = clone.window.new_page()
    page.goto(f"{clone.address}/?token={TOKEN}")  # as printed, and as the browser is sent to
    expect(page.locator(".lm-TabBar-tab.lm-mod-current", has_text=FIRST)).to_be_visible()
    page.close()
    return clone.open(FIRST)


def test_a_copy_gives_nothing_away(first: OpenLesson) -> None:
    assert len(first.ask("notRun")) > 5
    expect(first.page.locator(".jp-OutputArea-output")).to_have_count(0)


def test_a_cell_run_too_early_names_the_one_that_it_needs(first: OpenLesson) -> None:
    first.go_to_and_run("after-00-1")
    expect(first.cell("after-00-1")).to_contain_text(
        "`d_head` comes from another cell of this lesson, the one with `d_head = ...`."
    )


def test_progress_grows_with_a_right_answer(first: OpenLesson, clone: Clone) -> None:
    first.run_all()
    assert first.ask("errors") == []
    expect(first.cell("progress-figure")).to_contain_text(
        f"Solved: 0 of {len(exercise_ids())} exercises. Next: 00.1"
    )
    expect(first.answer("00.1", "d_head = 384 / 12")).to_contain_text("✗ 00.1 not yet: a float.")
    check = first.cell("check-00-1").get_by_role("status")
    first.go_to_and_run("check-00-1")
    expect(check).to_contain_text("run the cell with your answer, then this one")  # it is the reference now
    first.run_all()
    expect(check).to_contain_text("✗ 00.1 not yet: a float.")
    assert not (clone.desk / "answers" / "00.1.py").exists()
    expect(first.answer("00.1", "d_head = 384 // 12")).to_have_text("✓ 00.1 correct.")
    first.go_to_and_run("check-00-1")
    expect(check).to_have_text("✓ 00.1 correct.")
    first.go_to_and_run("progress-figure")
    expect(first.cell("progress-figure")).to_contain_text(
        f"Solved: 1 of {len(exercise_ids())} exercises. Next: 01.1"
    )
    assert (clone.desk / "answers" / "00.1.py").read_text().endswith("d_head = 384 // 12\n")


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_progress_is_legible_in_every_theme_and_a_narrow_window(first: OpenLesson, theme: str) -> None:
    first.choose("Settings", "Theme", theme)
    expect(first.page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
    assert [inks for inks in first.ask("verdictInks") if contrast(*inks) < 4.5] == []
    first.resize(width=900)
    assert unreadable(first, smallest=0) == []
    first.resize(width=1280)
    assert unreadable(first, smallest=0.75) == []


@pytest.fixture(scope="module")
def third(first: OpenLesson, clone: Clone) -> OpenLesson:
    first.save()
    first.close()
    lesson = clone.open(THIRD)
    lesson.run_all()
    return lesson


def test_two_slips_are_named_and_the_cure_is_folded(third: OpenLesson) -> None:
    verdict = third.answer("03.2", TWO_SLIPS)
    expect(verdict).to_contain_text("✗ 03.2 not yet: no scale + softmax over the queries.")
    cure = verdict.locator("details p")
    expect(cure).to_be_hidden()
    verdict.locator("summary").click()
    expect(cure).to_be_visible()


def test_a_right_answer_outlives_a_restart(third: OpenLesson) -> None:
    expect(third.answer("03.2", RIGHT)).to_have_text("✓ 03.2 correct.")
    third.restart()
    expect(third.cell("check-03-2").get_by_role("status")).to_have_text("✓ 03.2 correct.")
    third.save()
    third.close()


@pytest.fixture(scope="module")
def updated(third: OpenLesson, clone: Clone) -> OpenLesson:
    """Lesson 03 has become newer, its exercise 03.2 too; JupyterLab is started again."""

    def change(cells: dict[str, dict]) -> None:
        cells["hand"]["source"] = "## By hand\n\nAll of this is newer."
        cells["exercise-03-2"]["source"] = "# Another stub"

    ship(clone.folder / "notebooks" / THIRD, change)
    said = clone.start()
    assert "03 updated; what you wrote is kept, notes show what the course has there." in said
    assert f"Opening {THIRD}" in said  # where one left off
    return clone.open(THIRD)


def ship(path: Path, change: Callable[[dict[str, dict]], None]) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    change({cell["id"]: cell for cell in notebook["cells"]})
    path.write_text(json.dumps(notebook), encoding="utf-8")


def test_a_newer_lesson_keeps_the_answer_and_marks_it(updated: OpenLesson) -> None:
    expect(updated.cell("hand")).to_contain_text("All of this is newer.")
    note = updated.ask("ids")[updated.ask("ids").index("exercise-03-2") - 1]
    expect(updated.cell(note)).to_contain_text("# Another stub")
    expect(updated.cell("exercise-03-2")).to_contain_text("weights = scores.softmax(dim=-1)")
    updated.run_all()
    expect(updated.cell("check-03-2").get_by_role("status")).to_have_text("✓ 03.2 correct.")
    updated.close()


def test_a_later_lesson_runs_on_ones_own_answer(updated: OpenLesson, clone: Clone) -> None:
    later = clone.open(FOURTH)
    later.run_all()
    verdict = later.cell("exercise-04-3-use").get_by_role("status")
    expect(verdict).to_contain_text("✓ 03.2 correct.")
    expect(verdict).to_contain_text("attention is your own.")
    assert later.ask("errors") == []
    later.close()


def test_the_learners_own_parts_run_the_model(updated: OpenLesson, clone: Clone) -> None:
    imports = "# its title\nimport math\n\nimport torch\nfrom torch import nn\n\n\n"
    for id in PARTS:
        (clone.desk / "answers" / f"{id}.py").write_text(imports + find(id).shown, encoding="utf-8")
    lesson = clone.open(NINTH)
    lesson.run_all()
    expect(lesson.cell("exercise-09-2-use")).to_contain_text("the same as the package's, to 1e-9: True")
    assert lesson.ask("errors") == []
    lesson.close()


def test_a_shipped_lesson_opened_and_saved_keeps_the_rules(
    open_lesson: Callable[[str], OpenLesson], notebooks: Path
) -> None:
    name = "02_rotary_embedding.ipynb"
    lesson = open_lesson(name)
    lesson.save()
    lesson.close()
    saved = Lesson.load(notebooks / name)
    assert [complaint for rule in lint_notebooks.ALL for complaint in rule(saved)] == []
