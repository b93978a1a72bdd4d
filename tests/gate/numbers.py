"""Check that every number in the prose of a lesson has a source.

If an output changes, the text about it has to change as well. A number has a source if it is in the code or
in an output nearby, possibly as a percentage, or if it follows from other numbers of its paragraph in one
step of arithmetic. For the few others, `numbers.toml` gives the source, by lesson: "cell NAME", which must
contain the number, or a description of where it is published. Numbers in `quotations.toml` need no further
source.
"""

import json
import math
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import permutations

from nbformat import NotebookNode

from tests.gate.notebook_io import NOTEBOOKS, PICTURE, ROOT, WORDS, Lesson, is_personal, without_pictures
from transformer_course.exercises import exercise_titles

NEAR = 3  # cells before and after
LONG = 4  # digits: a number of this length is no coincidence, wherever the lesson prints it
SOURCES = tomllib.loads((ROOT / "tests/gate/numbers.toml").read_text(encoding="utf-8"))
QUOTED = tomllib.loads((ROOT / "tests/course/quotations.toml").read_text(encoding="utf-8"))["quotation"]
OVERVIEWS = "Recall|Summary"  # as in the title, their numbers may come from anywhere in the lesson
REMEDY = "compute it, or say where it comes from in tests/gate/numbers.toml"

NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d*\.\d+|\d+"
IN_PROSE = re.compile(rf"(?<![\w.,^/-])({NUMBER})(?![\d⁰¹²³⁴-⁹⁻/]|\.\d)(?:[ -]?(%))?")
POWER_OF_TEN = re.compile("10(⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$]*\$", re.DOTALL)
IN_FORMULA = re.compile(r"(?<![\w.,])(\d*\.\d+)")  # integers in a formula are algebra
NO_NUMBERS = re.compile(  # links, references, lessons (in the glossary, at the end), minutes, years
    r"\]\([^)]*\)|\[\d\d (?=[A-Z])|\((?:\d\d, )*\d\d\)$|arXiv:\S+|doi:\S+"
    r"|\b(?:sections?|equations?|eqs?\.|tables?|figures?|footnotes?|theorems?|lessons?|exercises?|cells?)"
    r"\s+\d[\d.]*(?:(?:,| and| to|–)\s*\d[\d.]*)*"
    r"|\d+ minutes?\b|\b(?:19|20)\d\d\b|\b0\d\b",
    re.MULTILINE | re.IGNORECASE,
)


def numbers_have_a_source(lesson: Lesson) -> Iterator[str]:
    """Yield each number without a source, and each unused entry of `numbers.toml`."""
    sources = SOURCES.get(lesson.path.name[:2], {})
    cells = [cell for cell in lesson.notebook.cells if not is_personal(cell)]
    printed = [_printed(cell) for cell in cells]
    of_cell = {cell.id: numbers for cell, numbers in zip(cells, printed, strict=True)}
    everywhere, used, heading = set().union(*printed), set(), ""
    sizes = {number for number in everywhere if len(number) >= LONG and "." not in number}.union(
        *(_numbers(_code_of(cell)) for cell in cells if cell.cell_type == "code")
    )
    for i, cell in enumerate(cells):
        if cell.cell_type == "code":
            continue
        heading = next(iter(re.findall("^##? (.*)", cell.source, re.MULTILINE)), heading)
        is_overview = i == 0 or re.match(OVERVIEWS, heading)
        near = everywhere if is_overview else set().union(*printed[max(0, i - NEAR) : i + NEAR + 1])
        near = near | _quoted_in(cell.source)
        for paragraph in re.split(
            r"\n\s*\n", CODE.sub(lambda code: re.sub(r"\n\s*\n", "\n", code[0]), cell.source)
        ):
            for number, is_share in _in_prose(paragraph):
                is_size = "." not in number and not is_share  # a size in the code holds for the whole lesson
                if (near | sizes if is_size else near) & _forms(number, is_share):
                    continue
                if number in _results(paragraph, number):
                    continue
                used.add(number)
                source = sources.get(number, "")
                is_cell = source.startswith("cell ")
                if not source or (is_cell and number not in of_cell.get(source.removeprefix("cell "), "")):
                    yield f"{cell.id} has {number}, which nothing near it computes; {REMEDY}"
    if lesson.path.parent == NOTEBOOKS:  # other paths contain test notebooks
        yield from (f"numbers.toml has {number}, which needs no source" for number in sources.keys() - used)


def _in_prose(source: str) -> Iterator[tuple[str, bool]]:
    """Yield each number with several digits, and whether it is a percentage; of formulas, only decimals."""
    words = CODE.sub(" ", source)
    for formula in FORMULA.findall(words):
        yield from ((_plain(number), False) for number in IN_FORMULA.findall(formula))
    bare = NO_NUMBERS.sub(" ", _of_exercises().sub(" ", FORMULA.sub(" ", words)))
    for match in IN_PROSE.finditer(bare):
        number, share = match.groups()
        if len(number) > 1 or share:
            yield _plain(number), bool(share)


@cache
def _of_exercises() -> re.Pattern:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, exercise_titles()))})\b")


def _printed(cell: NotebookNode) -> set[str]:
    """Return the numbers in a cell's code and outputs; numbers in comments do not count."""
    if cell.cell_type != "code":
        return set()
    texts = [_code_of(cell)]
    for output in cell.outputs:
        data = output.get("data", {})
        if PICTURE in data:  # its HTML contains a script and sizes, and the words of a drawing no numbers
            data = {WORDS: data.get(WORDS), **output.metadata[PICTURE]}
        shown = without_pictures(json.dumps(data, ensure_ascii=False))
        texts += [output.get("text", ""), output.get("evalue", ""), shown]
    return _numbers("\n".join(texts))


def _code_of(cell: NotebookNode) -> str:
    return re.sub(r"(^|\s)# .*", "", cell.source)


def _numbers(text: str) -> set[str]:
    return {_plain(number) for number in re.findall(rf"(?<!\w)(?:{NUMBER})", text)}


def _plain(number: str) -> str:
    number = number.replace(",", "")
    return number.lstrip("0") if "." in number else number


def _forms(number: str, is_share: bool) -> set[str]:
    """Return the forms in which a number may be printed: 8.3% may be .083."""
    digits = len(number.partition(".")[2])
    return {number, _plain(f"{float(number) / 100:.{digits + 2}f}")} if is_share else {number}


def _results(paragraph: str, number: str) -> set[str]:
    """Return the results of one step of arithmetic with the paragraph's other numbers, rounded alike."""
    in_order = [_plain(other) for other in re.findall(NUMBER, paragraph)]
    in_order = [float(other) for other in in_order if other != number]
    powers = [10.0 ** int(exponent.translate(SUPERSCRIPTS)) for exponent in POWER_OF_TEN.findall(paragraph)]
    values = _combinations(in_order, {*in_order, *powers})
    digits = len(number.partition(".")[2])
    return {_plain(f"{value:.{digits}f}") for value in values if abs(value) < 1e12}


def _combinations(in_order: list[float], numbers: set[float]) -> Iterator[float]:
    for x in numbers:
        yield from (x, 100 * x, math.exp(min(x, 64)))
        if x > 0:
            yield from (math.sqrt(x), 1 / math.sqrt(x), math.log(x))
    for x, y in permutations(numbers, 2):
        yield from (x + y, x - y, x * y, math.hypot(x, y))
        if y > 0:
            yield x / y
    yield from (x * y + z for x, y, z in zip(in_order, in_order[1:], in_order[2:], strict=False))


def _quoted_in(text: str) -> set[str]:
    quotations = (entry for entry in QUOTED if entry["words"] in text)
    return set().union(*(_numbers(f"{q['words']} {q['says']} {q['place']}") for q in quotations))
