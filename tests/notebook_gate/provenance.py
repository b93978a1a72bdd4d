"""From what a lesson's outputs were computed: its own code, and the package's modules that it builds on.

A module counts if the lesson imports it, itself or through other modules: so an edit ages the lessons that
may show it and no others. The exercises do not count: they are edited often, and all that a lesson shows of
them is a verdict.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from nbformat import NotebookNode

from tests.notebook_gate.stored import ROOT, code_cells

PACKAGE = "transformer_lab"
NOT_COUNTED = f"{PACKAGE}.exercises"


def provenance(notebook: NotebookNode, root: Path = ROOT) -> dict:
    """Return the digests that are stored in the notebook's metadata."""
    code = "\n".join(cell.source for cell in code_cells(notebook))
    modules = sorted(modules_behind(code, root))
    files = {name: _file(name, root).read_text(encoding="utf-8") for name in modules}
    return {"code": _digest(code), "modules": {name: _digest(source) for name, source in files.items()}}


def modules_behind(code: str, root: Path = ROOT) -> set[str]:
    """Return the package's modules that the code imports, directly or not."""
    found: set[str] = set()
    waiting = list(_imported(code, root))
    while waiting:
        name = waiting.pop()
        if name not in found and not name.startswith(NOT_COUNTED):
            found.add(name)
            waiting += _imported(_file(name, root).read_text(encoding="utf-8"), root)
    return found


@cache  # all lessons build on the same modules
def _tree(source: str) -> ast.Module:
    return ast.parse(source)


def _imported(code: str, root: Path) -> Iterator[str]:
    for node in ast.walk(_tree(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _file(alias.name, root))
        elif isinstance(node, ast.ImportFrom) and node.module and _file(node.module, root):
            yield from (_home(node.module, alias.name, root) for alias in node.names)


def _home(module: str, name: str, root: Path) -> str:
    """Return the module that defines the name: a package hands on what its own modules define."""
    if _file(f"{module}.{name}", root):
        return f"{module}.{name}"
    source = _file(module, root).read_text(encoding="utf-8")
    for node in _tree(source).body:
        if isinstance(node, ast.ImportFrom) and name in (alias.asname or alias.name for alias in node.names):
            return node.module
    return module


def _file(module: str, root: Path) -> Path | None:
    """Return the file of one of the package's modules; None for any other module."""
    place = root.joinpath(*module.split("."))
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if module.split(".")[0] == PACKAGE and file.is_file()), None)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
