"""A cell run before those that it needs says so, beside its NameError."""

import ast
import json
import os
from pathlib import Path

from IPython import InteractiveShell


def watch(shell: InteractiveShell) -> None:
    """From now on, a NameError about a name that a cell of this notebook gives comes with a sentence."""
    shell.set_custom_exc((NameError,), _tell)


def _tell(shell: InteractiveShell, kind: type, error: NameError, traceback, tb_offset=None) -> None:
    line = giving_line(error.name, _this_notebook()) if kind is NameError else ""
    if line:
        print(
            f"`{error.name}` comes from another cell of this lesson, the one with `{line}`. "
            "Run the cells above first: Run ▸ Run All Above Selected Cell."
        )
    shell.showtraceback((kind, error, traceback), tb_offset=tb_offset)


def _this_notebook() -> list[str]:
    """The code cells of the notebook that JupyterLab has started this kernel for; none if not at hand."""
    try:
        path = Path(os.environ["JPY_SESSION_NAME"])
        cells = json.loads((Path.cwd() / path.name).read_text(encoding="utf-8"))["cells"]
        return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def giving_line(name: str, cells: list[str]) -> str:
    """The first line in these cells that defines, imports or assigns the name; empty if none does."""
    for cell in cells:
        try:
            nodes = ast.walk(ast.parse(cell))
        except SyntaxError:
            continue
        lines = [node.lineno for node in nodes if name in _given_by(node)]
        if lines:
            return cell.splitlines()[min(lines) - 1].strip()
    return ""


def _given_by(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    return [node.id] if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else []
