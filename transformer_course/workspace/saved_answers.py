"""Save correct answers as self-contained source, so that later lessons run on the learner's own code."""

import ast
import builtins
import symtable
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from transformer_course.checker import source
from transformer_course.workspace import atomic_files
from transformer_course.workspace.name_error_hint import bound_names


def answer_file(exercise_id: str) -> Path:
    """The file in which an answer is saved."""
    return atomic_files.WORKSPACE / "answers" / f"{exercise_id}.py"


def save(exercise_id: str, title: str, name: str, cells: Sequence[str]) -> None:
    """Save a correct answer; an earlier, different answer is moved to the folder `before`.

    Args:
        name: the name that the cells give the answer.
        cells: the source of the cells run so far, in order.

    Raises:
        OSError: the file cannot be written.
    """
    text = self_contained(name, cells)
    if text:
        atomic_files.replace(answer_file(exercise_id), f"# {exercise_id} {title}\n{text}".encode())


def solved() -> set[str]:
    """The ids of the exercises with a saved answer."""
    return {path.stem for path in answer_file("").parent.glob("[0-9][0-9].*.py")}


def load(exercise_id: str, name: str) -> Any:
    """Run a saved answer and return the object called `name`.

    Raises:
        Exception: any error that the answer raises.
    """
    path = answer_file(exercise_id)
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    return source.run(code, __name__="__main__")[name]


def self_contained(name: str, cells: Sequence[str]) -> str:
    """The definition of a name with the definitions and imports that it needs; empty if no cell defines it.

    Needed names that are neither imported nor defined, such as a tensor of the lesson, are listed in a
    comment.
    """
    imports: set[str] = set()
    definitions: list[str] = []
    missing: set[str] = set()
    seen: set[str] = set()

    def add(name: str, may_be_computed: bool = False) -> None:
        if name in seen:
            return
        seen.add(name)
        cell = next((cell for cell in reversed(cells) if _binding(name, cell)), "")
        statements = _binding(name, cell)
        if statements and (may_be_computed or all(map(_is_definition, statements))):
            text = "\n".join(_source(statement, cell) for statement in statements)
            for needed in sorted(needed_names(text)):
                add(needed)
            definitions.append(text)
        elif statements and isinstance(statements[-1], ast.Import | ast.ImportFrom):
            imports.add(_import_line(statements[-1], name))
        else:
            missing.add(name)

    add(name, may_be_computed=True)
    if not definitions:
        return ""
    names = ", ".join(sorted(missing))
    comment = [f"# Defined only in the lesson's cells: {names}."] if missing else []
    head = [*sorted(imports, key=plain_first), "", ""] if imports else []
    return "\n".join([*comment, *head, "\n\n\n".join(definitions), ""])


def plain_first(line: str) -> tuple[bool, str]:
    """A key that sorts `import …` before `from … import …`."""
    return line.startswith("from"), line


def needed_names(text: str) -> set[str]:
    """The names that a text uses but does not define, except for built-ins."""
    return set(_free_names(symtable.symtable(text, "", "exec"))) - set(vars(builtins)) - {"__class__"}


def _free_names(table: symtable.SymbolTable) -> Iterator[str]:
    is_module = table.get_type() == "module"
    assigned = {symbol.get_name() for symbol in table.get_symbols() if is_module and symbol.is_assigned()}
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or is_module) and symbol.get_name() not in assigned:
            yield symbol.get_name()
    for child in table.get_children():
        yield from (name for name in _free_names(child) if name not in assigned)


def is_bound(name: str, cells: Sequence[str]) -> bool:
    """Whether one of the cells binds the name; a cell with a magic is assumed to do so."""
    return any("_magic(" in cell or _binding(name, cell) for cell in cells)


def statements_above(cell: str, line: int) -> str:
    """The statements of a cell that end above this line."""
    try:
        ends = [node.end_lineno for node in ast.parse(cell).body if node.end_lineno < line]
    except SyntaxError:
        return ""
    return "\n".join(cell.splitlines()[: max(ends, default=0)])


def _binding(name: str, cell: str) -> list[ast.stmt]:
    """The statements of a cell that bind the name, except for `name = check(…)` and `name = mine(…)`."""
    try:
        body = ast.parse(cell).body
    except SyntaxError:
        return []
    return [node for node in body if name in bound_names(node) and not _is_check(node)]


def _is_check(node: ast.stmt) -> bool:
    call = getattr(node, "value", None)
    function = call.func if isinstance(call, ast.Call) else None
    return isinstance(function, ast.Name) and function.id in ("check", "mine")


def _is_definition(node: ast.stmt) -> bool:
    """Whether a statement works outside its notebook: a function, a class, or a literal."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return True
    try:
        ast.literal_eval(getattr(node, "value", None))
    except (ValueError, TypeError, SyntaxError):
        return False
    return True


def _import_line(node: ast.Import | ast.ImportFrom, name: str) -> str:
    """The import statement, reduced to this name."""
    node.names = [alias for alias in node.names if name == (alias.asname or alias.name.partition(".")[0])]
    return ast.unparse(node)


def _source(node: ast.stmt, cell: str) -> str:
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    return "\n".join(cell.splitlines()[first - 1 : node.end_lineno])
