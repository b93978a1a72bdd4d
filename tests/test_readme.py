"""The README shows what the lessons show: `python -m tests.test_readme` copies its picture from lesson 00."""

import base64
import re
from pathlib import Path

import nbformat

from tests.gate.lesson_length import IN_TITLE
from tests.gate.notebook_io import LESSONS, Lesson
from transformer_course.exercises import exercise_ids, find

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / ".github" / "head.png"


def stored_head() -> bytes:
    """One head, as lesson 00 stores it."""
    lesson = nbformat.read(ROOT / "notebooks" / "00_start_here.ipynb", as_version=4)
    cell = next(cell for cell in lesson.cells if cell.id == "wow-figure")
    return base64.b64decode(cell.outputs[0].data["image/png"])


def test_readme_shows_the_head_of_lesson_00():
    assert PICTURE.read_bytes() == stored_head(), "run: python -m tests.test_readme"


def test_readme_names_only_files_that_exist():
    links = re.findall(r"\]\((?!http)([^)#]+)", (ROOT / "README.md").read_text("utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_readme_examples_run():
    encoder, diagnostics = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL
    )
    names = {}
    exec(encoder, names)
    assert (names["hidden"].shape, names["weights"][0].shape) == ((2, 4, 16), (2, 2, 4, 4))
    exec(diagnostics, names)
    said = re.search(r"# … (.*) …", diagnostics)[1]
    assert said in " ".join(repr(names["report"]).split())


def test_readme_quotes_the_checker():
    text = (ROOT / "README.md").read_text("utf-8")
    id, name, effect = re.search(r"✗ (\S+) not yet: (.+)\.\n +(.+) …", text).groups()
    assert any(mistake.name == name and mistake.effect.startswith(effect) for mistake in find(id).mistakes)


def test_readme_says_how_many_mistakes_are_known_and_how_long_the_course_takes():
    text = (ROOT / "README.md").read_text("utf-8")
    known = sum(len({mistake.name for mistake in find(id).mistakes}) for id in exercise_ids())
    assert int(re.search(r"more than (\S+) mistakes", text)[1].replace(",", "")) == known // 100 * 100
    titles = [Lesson.shipped(path).notebook.cells[0].source for path in LESSONS[1:]]  # 00: half an hour
    hours = 0.5 + sum(int(IN_TITLE.search(title)[0].split()[0]) for title in titles) / 60
    assert int(re.search(r"about (\d+) hours", text)[1]) == round(hours)


if __name__ == "__main__":
    PICTURE.write_bytes(stored_head())
