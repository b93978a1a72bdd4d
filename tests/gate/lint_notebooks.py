"""Rules for stored lessons. Each rule yields its complaints, with the cell and the fix."""

import ast
import re
from collections.abc import Callable, Iterator
from itertools import pairwise

from nbformat import NotebookNode

from tests.gate import lesson_length
from tests.gate.notebook_io import PAGE, PICTURE, WORDS, Lesson, as_text, code_cells, tags, without_pictures
from tests.gate.numbers import numbers_have_a_source
from tests.gate.solution_leak import nothing_asked_stands_above
from tests.gate.solve_exercises import exercises_in, tagged
from transformer_course.exercises import exercise_cells, exercise_titles
from transformer_course.lessons import first_cell
from transformer_course.workspace.predictions import PLACE

Rule = Callable[[Lesson], Iterator[str]]

LONGEST_CELL = 25  # lines
LARGEST_FILE = 2_500_000  # bytes
WIDEST = 900  # the largest width of a picture, in page pixels
SHOWN = {"text/plain", "text/html", "text/markdown", PICTURE}  # the MIME types that every viewer supports
STABLE_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
# Options that seaborn needs to draw nothing at random, and the values with that effect.
ERRORBAR = {"errorbar": ("None", "('pi', 100)")}
REPEATABLE = dict.fromkeys(("lineplot", "barplot", "pointplot"), ERRORBAR) | {
    "stripplot": {"jitter": ("False",)}
}
RANDOM_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f-]{27})?")  # in the format of nbformat and JupyterLab
PATH = re.compile(r"(?<![\w.:/])/(home|root|tmp|var|opt|usr|Users)/|\b[A-Z]:\\(Users|Program|Windows)")
VOLATILE = {
    "an address": re.compile(r"\b0x[0-9a-f]{6,}"),
    "a path": PATH,
    "the name of a process": re.compile(r"ipykernel_\d+"),
    "a time": re.compile(r"\d ?(ns|µs|ms|it/s|s/it)\b|\d\.\d+ ?s(ec|econds)?\b"),
    "a progress bar": re.compile(r"\d%\||\r|\x08"),
}


# Its cells


def ids_are_stable(lesson: Lesson) -> Iterator[str]:
    """Translations and messages refer to cells by their ids."""
    seen: set[str] = set()
    for number, cell in enumerate(lesson.raw_cells):
        name = cell.get("id", "")
        if name in seen:
            yield f"two cells have the id {name!r}: choose another for the second"
        elif not is_stable(name):
            yield f"cell {number} has the id {name!r}: choose words for it, such as 'softmax-by-hand'"
        seen.add(name)


def is_stable(name: str) -> bool:
    """Whether an id consists of words and is not random."""
    return bool(STABLE_ID.fullmatch(name)) and not RANDOM_ID.fullmatch(name)


def cells_are_short(lesson: Lesson) -> Iterator[str]:
    for cell in code_cells(lesson.notebook):
        lines = len(cell.source.splitlines())
        if lines > LONGEST_CELL:
            yield f"{cell.id} has {lines} lines: split it, a reader follows {LONGEST_CELL} at most"


def cells_were_run_in_order(lesson: Lesson) -> Iterator[str]:
    for count, cell in enumerate(code_cells(lesson.notebook), 1):
        if not cell.source.strip():
            yield f"{cell.id} is empty: remove it"
        elif cell.execution_count != count:
            yield f"{cell.id} has the count {cell.execution_count}, not {count}: `make refresh`"


def no_result_is_hidden_by_a_semicolon(lesson: Lesson) -> Iterator[str]:
    """A final `;` hides a result only in JupyterLab: nbval runs such a cell and shows it."""
    for cell in code_cells(lesson.notebook):
        if cell.source.rstrip().endswith(";"):
            yield f"{cell.id} ends in `;`: write `_ = …` to hide a result, nbval shows it otherwise"


def nothing_is_exempt(lesson: Lesson) -> Iterator[str]:
    allowed = re.compile(r"raises-exception|(exercise|check):\d\d\.\d+")
    for cell in lesson.notebook.cells:
        for tag in tags(cell):
            if not allowed.fullmatch(tag):
                yield f"{cell.id} has the tag {tag!r}: remove it, no cell is skipped or ignored"


# Its outputs


def outputs_are_clean(lesson: Lesson) -> Iterator[str]:
    for cell in code_cells(lesson.notebook):
        is_error = any(output.output_type == "error" for output in cell.outputs)
        if ("raises-exception" in tags(cell)) != is_error:
            yield f"{cell.id}: an error, and the tag raises-exception, come together or not at all"
        for output in cell.outputs:
            yield from (f"{cell.id}: {complaint}" for complaint in _about_output(output))


def _about_output(output: NotebookNode) -> Iterator[str]:
    if output.get("name") == "stderr":
        yield f"something was written to stderr: {output.text.strip()[:80]!r}"
    texts = {"text": output.get("text", ""), "evalue": output.get("evalue", "")} | output.get("data", {})
    for mime in output.get("data", {}).keys() - SHOWN:
        yield f"not every viewer can show {mime}"
    for mime, text in texts.items():
        if mime != PICTURE:
            found = {what: form.search(without_pictures(str(text))) for what, form in VOLATILE.items()}
            yield from (f"{mime} holds {what}: {match[0]!r}" for what, match in found.items() if match)


def pictures_have_words_and_fit_the_page(lesson: Lesson) -> Iterator[str]:
    for cell in code_cells(lesson.notebook):
        for output in cell.outputs:
            if PICTURE in output.get("data", {}):
                yield from (f"{cell.id}: a picture {complaint}" for complaint in _about_picture(output))


def _about_picture(output: NotebookNode) -> Iterator[str]:
    words, about = output.data.get(WORDS, ""), output.metadata.get(PICTURE, {})
    if not words or not about.get("alt") or words.startswith("<"):  # <Figure size 640x480 with 1 Axes>
        yield "without words: draw it with matplotlib after lesson.begin"
    width = about.get("width", 0)
    if f'base64,{output.data[PICTURE]}"' not in output.data.get(PAGE, ""):
        yield "whose page has another one, or none: `make refresh`"
    if width > WIDEST:
        yield f"{width} pixels wide, at most {WIDEST}: fewer, smaller panels"


def plots_repeat(lesson: Lesson) -> Iterator[str]:
    """seaborn draws random numbers for error bars of a mean and for the jitter of a strip plot."""
    for cell in code_cells(lesson.notebook):
        yield from (f"{cell.id}: {complaint}" for complaint in random_plots(cell.source))


def random_plots(source: str) -> Iterator[str]:
    """Yield the seaborn plots in this code that differ from run to run."""
    for call in ast.walk(ast.parse(source)):
        match call:
            case ast.Call(ast.Attribute(ast.Name("sns" | "seaborn"), name)):
                given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
                for option, repeatable in REPEATABLE.get(name, {}).items():
                    if given.get(option) not in repeatable and given.get("estimator") != "None":
                        yield f"sns.{name} needs {option}={' or '.join(repeatable)}: else it draws at random"


# Its file


def file_is_as_stored(lesson: Lesson) -> Iterator[str]:
    """One layout for all files, so that a diff shows only real changes.

    JupyterLab adds the version of Python when it saves; this alone is accepted.
    """
    text = re.sub(
        r'^(   "pygments_lexer": "ipython3"),\n   "version": ".*"$', r"\1", lesson.text, flags=re.MULTILINE
    )
    if as_text(lesson.notebook) != text:
        yield "the file holds more than is stored, or in another layout: `make refresh`"
    size = len(lesson.text.encode())
    if size > LARGEST_FILE:
        yield f"the file has {size:,} bytes, at most {LARGEST_FILE:,}: fewer or smaller figures"


def nothing_is_left_to_write(lesson: Lesson) -> Iterator[str]:
    """Placeholders that `tools.author` writes must be replaced."""
    for cell in lesson.notebook.cells:
        if re.search(r"^The task, in words\.$|(^|^- |\*\* |: )…", cell.source, re.MULTILINE):
            yield f"{cell.id} still has the skeleton's words: write yours"


# Its parts, as a lesson


def begins_by_its_number(lesson: Lesson) -> Iterator[str]:
    """The first cell fixes seeds, number format and figure style, or says what to install."""
    wanted = first_cell(int(lesson.path.name[:2]))
    if code_cells(lesson.notebook)[0].source != wanted:
        yield f"the first code cell must be as `first_cell` in lessons.py has it:\n{wanted}"


def has_the_headings(lesson: Lesson) -> Iterator[str]:
    """All lessons have the same headings, so that a learner can find their way."""
    headings = list(_headings(lesson.notebook))
    titles = [text for level, text in headings if level == 1]
    sections = tuple(text.partition(":")[0] for level, text in headings if level == 2)  # name: subject
    if len(titles) != 1 or headings[0][0] != 1:
        yield f"a lesson has one title, on top; here are {titles}"
    wanted = (lesson_length.HEADINGS, (*lesson_length.HEADINGS, "Deeper"))
    if lesson_length.has_one_path(lesson) and sections not in wanted:
        yield f"the headings must be {', '.join(lesson_length.HEADINGS)}; here they are {', '.join(sections)}"


def keeps_to_its_path(lesson: Lesson) -> Iterator[str]:
    """The minutes are correct, and no exercise is solved above its stub."""
    if lesson_length.has_one_path(lesson):
        yield from lesson_length.minutes_are_counted(lesson)
        yield from nothing_asked_stands_above(lesson)


def has_room_for_the_learner(lesson: Lesson) -> Iterator[str]:
    """A prediction has a place to be written down, and a path ends with the learner's progress."""
    number = int(lesson.path.name[:2])
    for cell, after in pairwise(lesson.notebook.cells):
        asks = cell.cell_type == "markdown" and re.search(r"^\*\*Predict\b", cell.source, re.MULTILINE)
        if asks and after.cell_type == "code" and after.source != PLACE:
            yield f"{after.id} comes after a **Predict**: put a code cell `{PLACE}` between them"
        if after.source.startswith(lesson_length.DEEPER) and cell.source != f"lesson.progress({number})":
            yield f"{after.id}: before it, put a code cell `lesson.progress({number})`"


def _headings(notebook: NotebookNode) -> Iterator[tuple[int, str]]:
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            prose = re.sub(r"^```.*?^```", "", cell.source, flags=re.DOTALL | re.MULTILINE)
            yield from ((len(m[1]), m[2].strip()) for m in re.finditer(r"^(#+) (.*)$", prose, re.MULTILINE))


def exercises_are_whole(lesson: Lesson) -> Iterator[str]:
    """The exercises match the guide, in its order; stub, check and help are adjacent and unsolved."""
    cells, known = lesson.notebook.cells, exercise_titles()
    names, guide = exercises_in(cells), [name for name in known if name[:2] == lesson.path.name[:2]]
    if names != guide:
        yield f"its exercises are {', '.join(names)}; its guide has, in this order, {', '.join(guide)}"
    elif names != (in_order := [f"{lesson.path.name[:2]}.{place}" for place in range(1, len(names) + 1)]):
        yield f"its exercises are {', '.join(names)}; number them as they appear: {', '.join(in_order)}"
    on_path = [name for name in exercise_titles(only_path=True) if name in names]
    if exercises_in(lesson_length.parts(lesson)[0]) != on_path:
        yield f"its guide has {', '.join(on_path)} on the path: move the guide's line `# Deeper`"
    for i, cell in enumerate(cells):
        name = tagged(cell, "exercise")
        if name in known:
            yield from (f"exercise {name}: {c}" for c in _about_exercise(name, cells[:i], cells[i : i + 3]))
        if tagged(cell, "check") and not tagged(cells[i - 1], "exercise"):
            yield f"check {tagged(cell, 'check')} has no exercise before it"


def _about_exercise(name: str, above: list[NotebookNode], shown: list[NotebookNode]) -> Iterator[str]:
    heading, *declared = exercise_cells(name)
    texts = "\n".join(cell.source for cell in above)
    headings = set(re.findall(rf"^#+ ({name} .*)$", texts, re.MULTILINE))
    if [cell.source for cell in shown] != declared or headings - {heading.lstrip("# ")}:
        yield f"it is not as declared: .venv/bin/python -m tools.author exercise {name}"
    check = shown[1]
    if tagged(check, "check") != name:
        yield f"the next cell must have the tag check:{name}"
    elif not any(output.get("data", {}).get(WORDS, "").startswith(f"○ {name}") for output in check.outputs):
        yield "its stored verdict must be ○, not attempted"


ALL: tuple[Rule, ...] = (
    ids_are_stable,
    cells_are_short,
    cells_were_run_in_order,
    no_result_is_hidden_by_a_semicolon,
    nothing_is_exempt,
    outputs_are_clean,
    pictures_have_words_and_fit_the_page,
    plots_repeat,
    file_is_as_stored,
    nothing_is_left_to_write,
    begins_by_its_number,
    has_the_headings,
    keeps_to_its_path,
    has_room_for_the_learner,
    exercises_are_whole,
    numbers_have_a_source,
)
