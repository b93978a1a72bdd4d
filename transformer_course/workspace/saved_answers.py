"""Right answers, saved as text that runs by itself: so later lessons run on the learner's own code."""

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
    """The file of an answer."""
    return atomic_files.WORKSPACE / "answers" / f"{exercise_id}.py"


def save(exercise_id: str, title: str, name: str, cells: Sequence[str]) -> None:
    """Save a right answer; a different one that was there goes into the folder `before`.

    Args:
        name: the name that the cells have given the answer.
        cells: what was run so far, in order.

    Raises:
        OSError: the file cannot be written.
    """
    text = self_contained(name, cells)
    path, data = answer_file(exercise_id), f"# {exercise_id} {title}\n{text}".encode()
    if not text or (path.exists() and path.read_bytes() == data):
        return
    if path.exists():
        atomic_files.set_aside(path)
    atomic_files.write(path, data)


def solved() -> set[str]:
    """The ids of the exercises with a saved answer."""
    return {path.stem for path in answer_file("").parent.glob("[0-9][0-9].*.py")}


def load(exercise_id: str, name: str) -> Any:
    """Run a saved answer again and return what it calls `name`.

    Raises:
        Exception: whatever running it raises.
    """
    path = answer_file(exercise_id)
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    return source.run(code, __name__="__main__")[name]


def self_contained(name: str, cells: Sequence[str]) -> str:
    """The definition of a name, after those that it needs and the imports; empty if no cell defines it.

    What is neither imported nor defined, such as a lesson's tensor, is named in a comment.
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
    comment = [f"# It needs what only the lesson's cells have: {names}."] if missing else []
    head = [*sorted(imports, key=plain_first), "", ""] if imports else []
    return "\n".join([*comment, *head, "\n\n\n".join(definitions), ""])


def plain_first(line: str) -> tuple[bool, str]:
    """A key that sorts `import …` before `from … import …`."""
    return line.startswith("from"), line


def needed_names(text: str) -> set[str]:
    """The names that a text takes from around it, without Python's own."""
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
    """Whether one of the cells binds the name itself; the code that a magic runs may do so, too."""
    return any("_magic(" in cell or _binding(name, cell) for cell in cells)


def statements_above(cell: str, line: int) -> str:
    """The statements of a cell that end above this line."""
    try:
        ends = [node.end_lineno for node in ast.parse(cell).body if node.end_lineno < line]
    except SyntaxError:
        return ""
    return "\n".join(cell.splitlines()[: max(ends, default=0)])


def _binding(name: str, cell: str) -> list[ast.stmt]:
    """The statements of a cell that bind the name, but for `name = check(…)` or `mine(…)`."""
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
    """Whether it makes sense outside its notebook: a function, a class, or a literal."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return True
    try:
        ast.literal_eval(getattr(node, "value", None))
    except (ValueError, TypeError, SyntaxError):
        return False
    return True


def _import_line(node: ast.Import | ast.ImportFrom, name: str) -> str:
    """The import of this name alone."""
    node.names = [alias for alias in node.names if name == (alias.asname or alias.name.partition(".")[0])]
    return ast.unparse(node)


def _source(node: ast.stmt, cell: str) -> str:
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    return "\n".join(cell.splitlines()[first - 1 : node.end_lineno])
