"""Add a hint to a NameError: which cell of the notebook has to be run first."""

import ast
import json
import os
from pathlib import Path

from IPython import InteractiveShell


def watch(shell: InteractiveShell) -> None:
    """Print a hint before every NameError about a name that another cell of the notebook defines."""
    shell.set_custom_exc((NameError,), _show_with_hint)


def _show_with_hint(shell: InteractiveShell, kind: type, error: NameError, traceback, tb_offset=None) -> None:
    line = defining_line(error.name, _code_cells()) if kind is NameError else ""
    if line:
        print(
            f"`{error.name}` is defined in another cell of this lesson: `{line}`. "
            "Run the cells above first: Run ▸ Run All Above Selected Cell."
        )
    shell.showtraceback((kind, error, traceback), tb_offset=tb_offset)


def _code_cells() -> list[str]:
    """The code cells of the notebook that JupyterLab started this kernel for; empty if it cannot be read."""
    try:
        path = Path.cwd() / Path(os.environ["JPY_SESSION_NAME"]).name
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def defining_line(name: str, cells: list[str]) -> str:
    """The first line of the statement in these cells that binds the name; empty if there is none."""
    for cell in cells:
        try:
            statements = ast.parse(cell).body
        except SyntaxError:
            continue
        for statement in statements:
            if name in bound_names(statement):
                return cell.splitlines()[statement.lineno - 1].strip()
    return ""


def bound_names(statement: ast.stmt) -> set[str]:
    """The names that a statement defines, imports or assigns, including inside an `if` or a `for`."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    names = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.alias):
            names.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names
