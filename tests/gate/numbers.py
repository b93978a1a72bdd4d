"""A number in a lesson's prose stands in an output or in the code near it, or it says where it comes from.

Where it comes from stands in `numbers.toml`, by lesson and number: "= exp(2)", which is computed and must
round to it; "cell NAME", whose code or output must hold it, or "lesson NN", one of whose cells must; else, in
words, the place where somebody prints it. What `quotations.toml` quotes is known from there.
"""

import json
import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache

from nbformat import NotebookNode

from tests.gate.notebook_io import NOTEBOOKS, PICTURE, ROOT, Lesson, without_pictures
from transformer_course.exercises import exercise_titles

NEAR = 3  # cells before and behind: a number from further away says so
SOURCES = tomllib.loads((ROOT / "tests/gate/numbers.toml").read_text(encoding="utf-8"))
QUOTED = tomllib.loads((ROOT / "tests/course/quotations.toml").read_text(encoding="utf-8"))["quotation"]
OVERVIEWS = "Recall|Summary"  # with the title: what stands there is from anywhere in the lesson
REMEDY = "compute it, or say where it comes from in tests/gate/numbers.toml"

NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.\d+|\d+"
IN_PROSE = re.compile(rf"(?<![\w.,^/-])({NUMBER})(?![\d⁰¹²³⁴-⁹⁻/]|\.\d)(?:[ -]?(%))?")
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$]*\$", re.DOTALL)
IN_FORMULA = re.compile(r"(?<![\w.,])(\d*\.\d+)")  # whole numbers are algebra there
NO_NUMBERS = re.compile(  # links, places in a text, lessons (in the glossary at the end), minutes, years
    r"\]\([^)]*\)|\[\d\d (?=[A-Z])|\((?:\d\d, )*\d\d\)$|arXiv:\S+|doi:\S+"
    r"|\b(?:sections?|equations?|eqs?\.|tables?|figures?|footnotes?|theorems?|lessons?|exercises?|cells?)"
    r"\s+\d[\d.]*(?:(?:,| and| to|–)\s*\d[\d.]*)*"
    r"|\d+ minutes?\b|\b(?:19|20)\d\d\b|\b0\d\b",
    re.MULTILINE | re.IGNORECASE,
)


def numbers_have_a_source(lesson: Lesson) -> Iterator[str]:
    """An output that has changed leaves the words around it as they were."""
    cells, sources = lesson.notebook.cells, SOURCES.get(lesson.path.name[:2], {})
    held = [_held(cell) for cell in cells]
    everywhere, told, heading = _union(held), set(), ""
    sizes = _union(_in(_code_of(cell)) for cell in cells if cell.cell_type == "code")
    for i, cell in enumerate(cells):
        if cell.cell_type == "code":
            continue
        heading = next(iter(re.findall("^##? (.*)", cell.source, re.MULTILINE)), heading)
        is_overview = i == 0 or re.match(OVERVIEWS, heading)
        near = everywhere if is_overview else _union(held[max(0, i - NEAR) : i + NEAR + 1])
        near = near | _quoted_in(cell.source)
        for number, is_share in _in_prose(cell.source):
            told.add(number)
            is_size = "." not in number and not is_share  # a width in the code holds for the whole lesson
            known = near | sizes if is_size else near
            source = sources.get(number)
            if not known & _forms(number, is_share) and not _is_source(source, number, held, cells):
                yield f"{cell.id} tells {number}, which nothing near it computes; {REMEDY}: {source!r}"
    if lesson.path.parent == NOTEBOOKS:  # elsewhere it may be a part, or made up
        yield from (f"numbers.toml knows {number}, and no text tells it" for number in sources.keys() - told)


def _in_prose(source: str) -> Iterator[tuple[str, bool]]:
    """Yield each number of more than one digit, and whether it is a percentage; of formulas the decimals."""
    words = CODE.sub(" ", source)
    for formula in FORMULA.findall(words):
        yield from ((_plain(number), False) for number in IN_FORMULA.findall(formula))
    bare = NO_NUMBERS.sub(" ", _of_exercises().sub(" ", FORMULA.sub(" ", words)))
    for found in IN_PROSE.finditer(bare):
        number, share = found.groups()
        if len(number) > 1 or share:
            yield _plain(number), bool(share)


@cache
def _of_exercises() -> re.Pattern:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, exercise_titles()))})\b")


def _held(cell: NotebookNode) -> set[str]:
    """Return the numbers in a cell's code and outputs; comments are words, too."""
    if cell.cell_type != "code":
        return set()
    texts = [_code_of(cell)]
    for output in cell.outputs:
        data = {mime: text for mime, text in output.get("data", {}).items() if mime != PICTURE}
        shown = without_pictures(json.dumps(data, ensure_ascii=False))
        texts += [output.get("text", ""), output.get("evalue", ""), shown]
    return _in("\n".join(texts))


def _code_of(cell: NotebookNode) -> str:
    return re.sub(r"(^|\s)# .*", "", cell.source)


def _in(text: str) -> set[str]:
    return {_plain(number) for number in re.findall(rf"(?<!\w)(?:{NUMBER})", text)}


def _plain(number: str) -> str:
    number = number.replace(",", "")
    return number.lstrip("0") if "." in number else number


def _forms(number: str, is_share: bool) -> set[str]:
    """Return what a number may be written as: 8.3% is .083."""
    digits = len(number.partition(".")[2])
    return {number, _plain(f"{float(number) / 100:.{digits + 2}f}")} if is_share else {number}


def _is_source(source: str | None, number: str, held: list[set[str]], cells: list[NotebookNode]) -> bool:
    if source is None:
        return False
    if source.startswith("="):
        value = eval(source[1:], vars(math).copy())
        return _plain(f"{value:.{len(number.partition('.')[2])}f}") == number
    if cell := re.fullmatch(r"cell (\S+)", source):
        return any(number in numbers for numbers, each in zip(held, cells, strict=True) if each.id == cell[1])
    if other := re.fullmatch(r"lesson (\d\d)", source):
        return number in _of_lesson(other[1])
    return len(source) > 10


def _quoted_in(text: str) -> set[str]:
    quoted = (each for each in QUOTED if each["words"] in text)
    return _union(_in(f"{each['words']} {each['says']} {each['place']}") for each in quoted)


@cache
def _of_lesson(number: str) -> set[str]:
    (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
    return _union(map(_held, Lesson.load(path).notebook.cells))


def _union(sets: Iterable[set[str]]) -> set[str]:
    return set().union(*sets)
