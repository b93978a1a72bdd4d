"""Check that no exercise is solved above it: how much of its solution was already shown?

Solutions are compared as sequences of seven Python tokens. All variables count as equal, because a renamed
solution is still the solution; called functions and attributes count by their names.
"""

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator

from nbformat import NotebookNode

from tests.gate.notebook_io import Lesson
from tests.gate.solve_exercises import exercises_in, tagged
from transformer_course.exercises import find
from transformer_course.workspace.my_encoder import TITLE

PHRASE, MOST = 7, 0.4
SKIPPED = {getattr(tokenize, n) for n in ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER")}
FENCED = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def shown_above(id: str, cells: list[NotebookNode]) -> float:
    """Return the share of a solution's phrases in code above the exercise, including shown sources."""
    at = next(i for i, cell in enumerate(cells) if tagged(cell, "exercise") == id)
    seen = {phrase for cell in cells[:at] for code in _code_of(cell) for phrase in phrases(code)}
    asked = phrases(find(id).shown) - phrases(find(id).stub)
    return len(asked & seen) / len(asked) if asked else 0.0


def _code_of(cell: NotebookNode) -> Iterator[str]:
    """The code that a learner reads in a cell: its source, and source code in its outputs; no folded code."""
    if cell.cell_type == "code":
        yield cell.source
        for output in cell.get("outputs", []):
            shown = FENCED.findall(output.get("data", {}).get("text/markdown", ""))
            yield from (code for code in shown if not code.startswith(TITLE))  # the learner's own encoder
    elif not cell.id.startswith("help-"):
        yield from FENCED.findall(re.sub(r"<details>.*?</details>", "", cell.source, flags=re.DOTALL))


def phrases(code: str) -> set[tuple[str, ...]]:
    """Return all sequences of seven tokens, with every variable replaced by `_`."""
    tokens = list(_tokens(textwrap.dedent(code)))
    return {tuple(tokens[i : i + PHRASE]) for i in range(len(tokens) - PHRASE + 1)}


def _tokens(code: str) -> Iterator[str]:
    variables = _variables(code)
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type in SKIPPED or _is_docstring(token):
            continue
        is_variable = token.type == tokenize.NAME and before != "." and token.string in variables
        yield "_" if is_variable else token.string
        before = token.string


def _is_docstring(token: tokenize.TokenInfo) -> bool:
    return token.type == tokenize.STRING and token.line.lstrip().startswith(('"""', token.string))


def _variables(code: str) -> set[str]:
    """The names that the code assigns, and the names of its parameters."""
    nodes = list(ast.walk(ast.parse(code)))
    stored = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return stored | {each.arg for each in nodes if isinstance(each, ast.arg)} - {"self"}


def nothing_asked_stands_above(lesson: Lesson) -> Iterator[str]:
    """No code above an exercise may contain most of its solution."""
    cells = lesson.notebook.cells
    for id in exercises_in(cells):
        share = shown_above(id, cells)
        if share > MOST:
            yield f"{id}: {share:.0%} of its solution stands above it, at most {MOST:.0%}: show it afterwards"
