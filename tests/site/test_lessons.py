"""Lessons as pages: all that is stored is shown, and what a reader is to guess is folded."""

import re
from html import escape
from itertools import filterfalse, pairwise
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from PIL import Image

from pages import lessons, links
from transformer_course.exercises import exercise_ids
from transformer_course.figures.alt_text import LONGEST_ALT_TEXT
from transformer_course.lessons import DISTRIBUTION, LESSONS, MODEL, first_cell, notebook

NUMBERS = range(len(LESSONS))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("figures")


@pytest.fixture(scope="module")
def made(pictures: Path) -> list[NotebookNode]:
    return [lessons.page(number, pictures) for number in NUMBERS]


def stored(number: int) -> NotebookNode:
    return nbformat.read(notebook(number), as_version=4)


def html(cell: NotebookNode) -> str:
    return "".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)


def is_left_out(cell: NotebookNode) -> bool:
    """Whether a cell is for learners at work only."""
    return cell.id.startswith("predict-") or (cell.id == "progress" and cell.cell_type == "code")


def test_every_cell_is_there_as_it_is_written(made: list[NotebookNode]) -> None:
    for number, page in enumerate(made):
        heading, box, rest, *others = [unfold(cell.source) for cell in page.cells]
        written = [
            cell.source.replace("  # fmt: skip", "") for cell in stored(number).cells if not is_left_out(cell)
        ]
        written.remove(first_cell(number))  # a page begins with the lesson
        assert f"```python\n{first_cell(number)}\n```" in box and not code(stored(number))[0].outputs
        assert [f"{heading}\n\n{rest}", *others] == written


def test_progress_is_text_without_links_that_only_jupyterlab_follows(made: list[NotebookNode]) -> None:
    [progress] = [cell for cell in made[0].cells if cell.id == "progress-figure"]
    assert list(progress.outputs[0].data) == ["text/plain"]
    assert not any("#cell-id=" in str(page.cells) for page in made)


def unfold(text: str) -> str:
    """The text without the fold around its answer."""
    if not text.startswith(lessons.ANSWER):
        return text
    return text.removeprefix(f"{lessons.ANSWER}\n\n").replace("\n\n</details>", "", 1)


def test_outputs_behind_a_prediction_are_folded_and_no_others(made: list[NotebookNode]) -> None:
    for page in made:
        asked, folded, expected = False, [], []
        for i, cell in enumerate(page.cells):
            if cell.cell_type == "markdown":
                # Below the title the word stands within a sentence.
                asked = i > 2 and any(line.startswith("**Predict") for line in cell.source.splitlines())
            elif cell.outputs:
                expected += [cell.id] * asked
                folded += [cell.id] * ("hide-output" in cell.metadata.tags)
        assert folded == expected
        assert page is made[0] or len(folded) >= 3, "at least three outputs come after a **Predict.**"


def test_the_answer_behind_a_prediction_is_folded_and_no_other_text(made: list[NotebookNode]) -> None:
    for before, cell in (pair for page in made for pair in pairwise(page.cells)):
        if cell.cell_type != "markdown":
            continue
        behind = "hide-output" in before.metadata.get("tags", [])
        # What opens with a fold of the lesson's own, or with the next question, gives no answer.
        answers = not cell.source.startswith(("<details><summary>", "**Predict", "#"))
        assert cell.source.startswith(lessons.ANSWER) == (behind and answers), cell.id


BEHIND = ["**Another bug.** It hides.", "## Next", "<details><summary>Hint</summary>", "**Predict.** 8?"]
LEADS_ON = ["And with eight heads?", "Its lines:"]


@pytest.mark.parametrize("behind", [*BEHIND, *LEADS_ON])
def test_the_fold_ends_where_a_new_matter_begins_or_the_text_leads_on(behind: str) -> None:
    told = ["It is 2.", "So the sum is 4.", "- **Both** count.", "**2. Not the root.** It is 3."]
    rest = f"{behind}\n\nWhat follows." if behind in BEHIND else behind
    made = lessons._answer_folded("\n\n".join([*told, rest]))
    assert made == "\n\n".join([lessons.ANSWER, *told, "</details>", rest])
    assert lessons._answer_folded(LEADS_ON[0]).endswith("</details>")  # the answer itself is folded


def test_every_picture_is_a_file_with_its_size_and_its_words(
    made: list[NotebookNode], pictures: Path
) -> None:
    pngs = 0
    cells = [
        pair
        for number, page in enumerate(made)
        for pair in zip(filterfalse(is_left_out, code(stored(number))[1:]), code(page), strict=True)
    ]
    for before, after in cells:
        drawn = [output for output in before.outputs if "image/png" in output.get("data", {})]
        text = html(after)
        for output in drawn:
            about = output.metadata["image/png"]
            assert len(about["alt"]) <= LONGEST_ALT_TEXT
            pngs += output.data["text/html"].count("base64,")
            assert f'width="{about["width"]}"' in text and f'height="{about["height"]}"' in text
            assert f'alt="{escape(about["alt"])}"' in text
        assert text.count("<img") == text.count('loading="lazy"') == len(drawn)
        assert not any("image/png" in output.get("data", {}) for output in after.outputs)
    files = list(pictures.iterdir())
    linked = {
        name for _, after in cells for name in re.findall(r"_static/figures/([\w-]+\.png)", html(after))
    }
    assert {file.name for file in files} == linked and len(files) == pngs > 100
    for file in files:
        with Image.open(file) as picture:
            assert picture.width > 100


def code(page: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in page.cells if cell.cell_type == "code"]


def test_in_place_of_a_verdict_stands_a_link_to_the_mistakes(made: list[NotebookNode]) -> None:
    pages = [html(cell) for page in made for cell in code(page)]
    shown = [id for id in exercise_ids() if any(f"#{links.exercise(id)}" in text for text in pages)]
    assert shown == exercise_ids()
    checks = [cell.source for page in made for cell in code(page) if "not attempted" in html(cell)]
    assert all("mine(" in source for source in checks)  # what later lessons take up is no verdict on the page


def test_every_lesson_says_how_to_run_it_and_names_what_belongs_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    box, file = lessons.how_to_run(3), notebook(3).name
    assert "make lab" in box and file in box
    assert "(../reference/scaled_dot_product_attention.md)" in box
    assert "(../field_guide/03_scaled_dot_product_attention.md)" in box
    assert "reference" not in lessons.how_to_run(13)  # a lesson without a module
    assert "colab" not in box  # a local build, whose repository nobody knows
    monkeypatch.setattr(links, "REPOSITORY", "some/body")
    box = lessons.how_to_run(3)
    assert f"(https://colab.research.google.com/github/some/body/blob/lessons/{file})" in box
    assert f"(https://mybinder.org/v2/gh/some/body/HEAD?urlpath=lab%2Ftree%2Fmy_lessons%2F{file})" in box
    assert "(https://codespaces.new/some/body)" in box


def test_a_lesson_to_take_along_gives_nothing_away_and_says_where_the_course_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for number in NUMBERS:
        taken = lessons.alone(number)
        nbformat.validate(taken)
        assert not any(cell.outputs for cell in code(taken))
        assert taken.cells[1].source == first_cell(number)
    monkeypatch.setattr(links, "SITE", "https://example.org/course/")
    address = f"{DISTRIBUTION}[course] @ https://example.org/course/transformer-lab.zip"
    assert f'%pip install "{address}" {MODEL}' in lessons.alone(3).cells[1].source
