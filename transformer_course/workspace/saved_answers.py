"""Right answers, kept as text that runs by itself: so later lessons run on the learner's own code."""

import ast
import builtins
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from inspect import ismodule
from pathlib import Path
from types import ModuleType
from typing import Any

from transformer_course.checker import source
from transformer_course.workspace import atomic_files

NEEDS = "# It needs what only the lesson's cells have: "


def place_of(exercise_id: str) -> Path:
    """The file of an answer."""
    return atomic_files.DESK / "answers" / f"{exercise_id}.py"


def keep(exercise_id: str, title: str, name: str, cells: Sequence[str], names: dict[str, Any]) -> None:
    """Keep a right answer; another one that was there goes into the folder `before`.

    Args:
        name: under which the cells have left the answer.
        cells: what was run so far, in order.
        names: what all names of the notebook stand for.

    Raises:
        OSError: the file cannot be written.
    """
    text = standing_alone(name, cells, names)
    if not text:
        return
    path = place_of(exercise_id)
    data = f"# {exercise_id} {title}\n{text}".encode()
    if path.exists() and path.read_bytes() != data:
        atomic_files.keep_beside(path, path.read_bytes())
    if not path.exists() or path.read_bytes() != data:
        atomic_files.write(path, data)


def solved() -> set[str]:
    """The exercises of which there is a right answer."""
    return {path.stem for path in place_of("").parent.glob("[0-9][0-9].*.py")}


def kept(exercise_id: str, name: str) -> Any:
    """What the kept answer is, run anew.

    Raises:
        Exception: whatever running it raises.
    """
    path = place_of(exercise_id)
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    return source.run(code, __name__="__main__")[name]


# From what was run to a text that needs nothing else


def standing_alone(name: str, cells: Sequence[str], names: dict[str, Any]) -> str:
    """The definition of a name, above it those that it needs and the imports; empty if nobody has defined it.

    What is neither imported nor defined, such as a lesson's tensor, is named in a remark.
    """
    found = _Gathered(cells, names)
    found.add(name, anything=True)
    if not found.statements:
        return ""
    remark = [f"{NEEDS}{', '.join(sorted(found.missing))}."] if found.missing else []
    imports = [*sorted(found.imports, key=plain_first), "", ""] if found.imports else []
    return "\n".join([*remark, *imports, "\n\n\n".join(found.statements), ""])


@dataclass
class _Gathered:
    """Definitions, each behind those that it needs."""

    cells: Sequence[str]
    names: dict[str, Any]
    statements: list[str] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)

    def add(self, name: str, anything: bool = False) -> None:
        """Add what defines the name; anything: also what is computed."""
        if name in self.seen:
            return
        self.seen.add(name)
        line = "" if anything else _import_of(name, self.names.get(name))
        found = "" if line else _definition(name, self.cells, anything)
        if line:
            self.imports.add(line)
        elif found:
            for needed in sorted(needed_names(found)):
                self.add(needed)
            self.statements.append(found)
        else:
            self.missing.add(name)


def plain_first(line: str) -> tuple[bool, str]:
    """How imports are ordered: `import …` before `from … import …`."""
    return line.startswith("from"), line


def needed_names(text: str) -> set[str]:
    """The names that a text takes from around it, without Python's own."""
    return set(_taken(symtable.symtable(text, "", "exec"))) - set(vars(builtins)) - {"__class__"}


def _taken(table: symtable.SymbolTable) -> Iterator[str]:
    is_cell = table.get_type() == "module"
    own = {each.get_name() for each in table.get_symbols() if is_cell and each.is_assigned()}
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (symbol.is_global() or is_cell) and symbol.get_name() not in own:
            yield symbol.get_name()
    for child in table.get_children():
        yield from (name for name in _taken(child) if name not in own)


def _import_of(name: str, thing: Any) -> str:
    """The line that imports the thing under this name; empty if it was made in the notebook."""
    if ismodule(thing):
        package, _, last = thing.__name__.rpartition(".")
        if package and last == name:
            return f"from {package} import {name}"
        return f"import {thing.__name__}" + (f" as {name}" if thing.__name__ != name else "")
    module = getattr(thing, "__module__", None)
    own = getattr(thing, "__name__", name)
    if not isinstance(module, str) or module == "__main__" or not isinstance(own, str):
        return ""
    try:
        home: ModuleType = __import__(module, fromlist=[own])
    except ImportError:
        return ""
    if getattr(home, own, None) is not thing:
        return ""
    return f"from {module} import {own}" + (f" as {name}" if own != name else "")


def _definition(name: str, cells: Sequence[str], anything: bool) -> str:
    """The statements that gave the name its thing, in the last cell that did.

    anything: also what is computed; else only functions, classes and numbers, which make sense elsewhere.
    """
    for cell in reversed(cells):
        found = _giving(name, cell)
        if found:
            fit = anything or all(map(_is_definition, found))
            return "\n".join(_with_decorators(node, cell) for node in found) if fit else ""
    return ""


def is_given(name: str, cells: Sequence[str]) -> bool:
    """Whether one of the cells gives the name a thing of its own; what a magic runs may do so, too."""
    return any("_magic(" in cell or _giving(name, cell) for cell in cells)


def _giving(name: str, cell: str) -> list[ast.stmt]:
    """The statements of a cell that give the name a thing; none of what is no Python."""
    try:
        body = ast.parse(cell).body
    except SyntaxError:
        return []
    return [node for node in body if name in _bound(node) and not _is_handed_out(node)]


def above(cell: str, line: int) -> str:
    """The statements of a cell above the one that stands in this line."""
    try:
        ends = [node.end_lineno for node in ast.parse(cell).body if node.end_lineno < line]
    except SyntaxError:
        return ""
    return "\n".join(cell.splitlines()[: max(ends, default=0)])


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    return {
        each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }


def _is_handed_out(node: ast.stmt) -> bool:
    """Whether it is `name = check(…)`, or `mine`, which define nothing."""
    call = getattr(node, "value", None)
    function = call.func if isinstance(call, ast.Call) else None
    return isinstance(function, ast.Name) and function.id in ("check", "mine")


def _is_definition(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return True
    try:
        ast.literal_eval(getattr(node, "value", None))
    except (ValueError, TypeError, SyntaxError):
        return False
    return True


def _with_decorators(node: ast.stmt, cell: str) -> str:
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    return "\n".join(cell.splitlines()[first - 1 : node.end_lineno])
