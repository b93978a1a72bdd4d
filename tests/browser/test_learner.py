"""A learner works in a clone of the course: first start, answers, a restart, a newer lesson, later lessons.

The tests are one session, in order; each goes on where the one before it stopped.
"""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.lab import TOKEN, OpenLesson, jupyterlab
from tests.browser.test_lessons import unreadable
from tests.course.figures import colours
from tests.gate import lint_notebooks
from tests.gate.notebook_io import ROOT, Lesson
from transformer_course.exercises import PARTS, exercise_titles, find

FIRST = "00_start_here.ipynb"
THIRD = "03_scaled_dot_product_attention.ipynb"
FOURTH = "04_masking.ipynb"
NINTH = "09_pretrained_encoder.ipynb"
RIGHT = """\
def attention(query, key, value):
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    weights = scores.softmax(dim=-1)
    return weights @ value, weights"""
WRONG = {
    "missing scale": RIGHT.replace(" / math.sqrt(query.shape[-1])", ""),
    "missing scale + softmax over the queries": RIGHT.replace(" / math.sqrt(query.shape[-1])", "").replace(
        "dim=-1", "dim=-2"
    ),
    "line 3 of your cell raises an error": RIGHT.replace("scores.softmax", "scores.softmux"),
}


class Clone:
    """The course in a folder of its own, and JupyterLab on the learner's copies in it."""

    def __init__(self, folder: Path, window: BrowserContext) -> None:
        self.folder, self.window = folder, window
        for part in ("transformer_lab", "transformer_course", "notebooks"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        self.my_lessons = folder / "my_lessons"
        self.servers = ExitStack()

    def start(self) -> str:
        """Do what `make lab` does; return what it prints."""
        self.servers.close()
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        lab = jupyterlab(["-m", "transformer_course.workspace"], home, self.folder)
        self.address = self.servers.enter_context(lab)
        return (home / "log").read_text()

    def open(self, name: str) -> OpenLesson:
        return OpenLesson(self.window.new_page(), self.address, name)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, window: BrowserContext) -> Iterator[Clone]:
    clone = Clone(tmp_path_factory.mktemp("a clone"), window)
    yield clone
    clone.servers.close()


def low_contrasts(lesson: OpenLesson) -> list[list[list[float]]]:
    """Return the colours of verdicts that stand out too little from their ground, each with its ground."""
    pairs = [[[n / 255 for n in colour] for colour in pair] for pair in lesson.ask("verdictInks")]
    assert pairs
    return [pair for pair in pairs if colours.contrast(*pair) < 4.5]


def test_the_first_lesson(clone: Clone) -> None:
    printed = clone.start()
    assert "14 copied." in printed and f"Opening {FIRST}" in printed
    page = clone.window.new_page()
    page.goto(f"{clone.address}/?token={TOKEN}")  # as printed, and as the browser is sent to
    expect(page.locator(".lm-TabBar-tab.lm-mod-current", has_text=FIRST)).to_be_visible()
    page.close()

    lesson = clone.open(FIRST)
    assert lesson.ask("isSavedWhenOpened")
    cut = "names => names.filter(name => name.scrollWidth > name.clientWidth).map(name => name.textContent)"
    assert lesson.page.locator(".jp-DirListing-itemText").evaluate_all(cut) == []
    assert len(lesson.ask("notRun")) > 5  # a copy gives nothing away
    expect(lesson.page.locator(".jp-OutputArea-output")).to_have_count(0)
    lesson.go_to_and_run("after-00-1")  # too early
    expect(lesson.cell("after-00-1")).to_contain_text(
        "`d_head` is defined in another cell of this lesson: `d_head = ...`."
    )

    lesson.run_all()
    assert lesson.ask("errors") == []
    progress, count = lesson.cell("progress-figure"), len(exercise_titles(only_path=True))
    expect(progress).to_contain_text(f"Solved: 0 of {count} exercises on the path")
    expect(lesson.answer("00.1", "d_head = 384 / 12")).to_contain_text(
        "✗ 00.1 not yet: float instead of int."
    )
    verdict = lesson.cell("check-00-1").get_by_role("status")
    lesson.go_to_and_run("check-00-1")
    expect(verdict).to_contain_text(
        "Run the cell with your answer first, then this one"
    )  # it's the reference now
    lesson.run_all()
    expect(verdict).to_contain_text("✗ 00.1 not yet: float instead of int.")
    answer = clone.my_lessons / "answers" / "00.1.py"
    assert not answer.exists()
    expect(lesson.answer("00.1", "d_head = 384 // 12")).to_have_text("✓ 00.1 correct.")
    lesson.go_to_and_run("check-00-1")
    expect(verdict).to_have_text("✓ 00.1 correct.")
    assert answer.read_text().endswith("d_head = 384 // 12\n")
    lesson.go_to_and_run("progress-figure")
    expect(progress).to_contain_text(f"Solved: 1 of {count} exercises on the path")

    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        lesson.choose("Settings", "Theme", theme)
        expect(lesson.page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
        assert low_contrasts(lesson) == []
        lesson.resize(width=900)
        assert unreadable(lesson, smallest=0) == []
        lesson.resize(width=1280)
        assert unreadable(lesson, smallest=0.75) == []
    lesson.save()
    progress.get_by_role("link", name="01.1").click()  # opens its lesson, which is now the current one
    lesson.page.wait_for_function("lesson.isReady() && lesson.isInSight('exercise-01-1')")
    lesson.close()


def test_wrong_and_right_answers(clone: Clone) -> None:
    lesson = clone.open(THIRD)
    lesson.write("exercise-03-2", "def attention(query, key, value):\n    return query, key, value")
    lesson.write("predict-hand", "# Your prediction: cat, isn't it?\nMost of the weight.")
    lesson.run_all()
    assert (lesson.ask("errors"), lesson.ask("notRun")) == ([], [])  # a wrong answer does not stop the lesson
    expect(lesson.cell("exercise-03-2-use")).to_contain_text("same as in By hand: True")
    expect(lesson.cell("hand-loops")).to_contain_text("You predicted: cat, isn't it? Most of the weight.")
    for mistake, answer in WRONG.items():
        verdict = lesson.answer("03.2", answer)
        expect(verdict).to_contain_text(f"✗ 03.2 not yet: {mistake}.")
        if "+" in mistake:
            cure = verdict.locator("details p")
            expect(cure).to_be_hidden()
            verdict.locator("summary").click()
            expect(cure).to_be_visible()
    expect(verdict).to_contain_text("weights = scores.softmux(dim=-1)")
    assert low_contrasts(lesson) == []

    folds = lesson.cell("help-03-2").locator("details")
    expect(folds.locator("summary")).to_have_text(["Hint", "Another hint", "A third hint", "Solution"])
    for fold in folds.all():
        inside = fold.locator("p, pre").first
        expect(inside).to_be_hidden()
        fold.locator("summary").click()
        expect(inside).to_be_visible()
    solution = folds.last.locator("pre")
    expect(solution).to_contain_text("def attention(query, key, value):")
    assert solution.locator("span").count() > 10  # coloured as code

    moves_as_one_picture(lesson, "0.25", "0.5")
    slider = lesson.cell("see-slider").get_by_role("slider")
    slider.press("Shift+Enter")  # still runs the cell
    expect(slider).to_have_attribute("aria-valuetext", "0.25")

    expect(lesson.answer("03.2", RIGHT)).to_have_text("✓ 03.2 correct.")
    lesson.go_to_and_run("progress")
    lesson.cell("progress").get_by_role("link", name="03.3").click()
    lesson.page.wait_for_function("lesson.isInSight('exercise-03-3-task')")
    lesson.restart()
    expect(lesson.cell("check-03-2").get_by_role("status")).to_have_text("✓ 03.2 correct.")
    lesson.save()
    lesson.close()
    lesson = clone.open(THIRD)  # with a new kernel, which has run nothing
    moves_as_one_picture(lesson, "0.25", "0.5")
    expect(lesson.page.get_by_text("Error displaying")).to_have_count(0)
    lesson.close()


def moves_as_one_picture(lesson: OpenLesson, first: str, second: str) -> None:
    """Check that there is one picture, and that it moves with the keyboard, as the slider says."""
    cell = lesson.cell("see-slider")
    slider, picture = cell.get_by_label("temperature"), cell.locator("img")
    expect(slider).to_be_enabled()  # at first, the other pictures follow
    expect(picture).to_have_count(1)
    expect(slider).to_have_attribute("aria-valuetext", first)
    before = picture.get_attribute("src")
    slider.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", second)
    expect(slider).to_be_focused()  # JupyterLab would go to the next heading
    expect(picture).to_have_attribute("alt", re.compile(f"temperature = {re.escape(second)}”"))
    expect(picture).not_to_have_attribute("src", before)


def test_a_newer_lesson_keeps_the_answer_and_marks_it(clone: Clone) -> None:
    path = clone.folder / "notebooks" / THIRD
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = {cell["id"]: cell for cell in notebook["cells"]}
    cells["hand"]["source"] = "## By hand\n\nAll of this is newer."
    cells["exercise-03-2"]["source"] = [
        "def attention(query, key, value, scale):\n",
        "    raise NotImplementedError",
    ]
    path.write_text(json.dumps(notebook), encoding="utf-8")
    printed = clone.start()
    assert (
        "03 updated; your changes are kept. Notes show the course's new version of cells that you changed."
        in printed
    )
    assert f"Opening {THIRD}" in printed  # where one left off
    lesson = clone.open(THIRD)
    expect(lesson.cell("hand")).to_contain_text("All of this is newer.")
    copy = json.loads((clone.my_lessons / THIRD).read_text(encoding="utf-8"))["cells"]
    note = copy[[cell["id"] for cell in copy].index("exercise-03-2") - 1]["id"]
    expect(lesson.cell(note)).to_contain_text("def attention(query, key, value, scale):")
    expect(lesson.cell("exercise-03-2")).to_contain_text("weights = scores.softmax(dim=-1)")
    expect(lesson.cell("predict-hand")).to_contain_text("Most of the weight.")
    # The file was written by another program, so JupyterLab runs no script in it: a plain strip of pictures.
    strip = lesson.cell("see-slider")
    expect(strip.get_by_role("slider")).to_have_count(0)
    expect(strip.locator("img")).to_have_count(1)
    assert strip.locator("img").evaluate("image => image.naturalWidth") > 500
    lesson.close()


def test_later_lessons_run_on_ones_own_answers(clone: Clone) -> None:
    lesson = clone.open(FOURTH)
    lesson.run_all()
    verdict = lesson.cell("exercise-04-3-use").get_by_role("status")
    expect(verdict).to_contain_text("✓ 03.2 correct.")
    expect(verdict).to_contain_text("attention is your own.")
    assert lesson.ask("errors") == []
    lesson.close()

    imports = "# its title\nimport math\n\nimport torch\nfrom torch import nn\n\n\n"
    for id in PARTS:
        (clone.my_lessons / "answers" / f"{id}.py").write_text(imports + find(id).shown, encoding="utf-8")
    lesson = clone.open(NINTH)
    lesson.run_all()
    expect(lesson.cell("exercise-09-2-use")).to_contain_text("equal to the package's, to 1e-9: True")
    assert lesson.ask("errors") == []
    lesson.close()


def test_a_shipped_lesson_opened_and_saved_keeps_the_rules(clone: Clone) -> None:
    """What JupyterLab adds to a file is no fault, so that `make check` passes a lesson that was worked in."""
    shutil.copy(ROOT / "notebooks" / THIRD, clone.my_lessons / THIRD)
    lesson = clone.open(THIRD)
    lesson.save()
    lesson.close()
    saved = Lesson.load(clone.my_lessons / THIRD)
    assert [complaint for rule in lint_notebooks.ALL for complaint in rule(saved)] == []
