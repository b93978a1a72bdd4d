"""Glossary, notation and reference: what a reader looks up. Each is taken from where it is declared."""

import re
from collections.abc import Iterator

import nbformat

from pages import links
from transformer_lab.course.lessons import LESSONS, NAMES, ROOT, notebook

TERM = re.compile(r"^\*\*(.+?)\.\*\* (.*) \((\d\d(?:, \d\d)*)\)$", re.MULTILINE)
AROUND = {
    "training": ("loop", "data", "checkpoints", "schedule", "shards", "workers"),
    "diagnostics": ("certificates", "divergence.search", "head_roles"),
}


def glossary() -> str:
    """Return the glossary of lesson 00, each term with links to the lessons that explain it."""
    text = _cell("glossary")
    terms = [f"{term}\n: {about} {_lessons(numbers)}" for term, about, numbers in TERM.findall(text)]
    paragraphs = len(re.findall(r"^\*\*", text, re.MULTILINE))
    if len(terms) != paragraphs:
        raise ValueError(
            f"{paragraphs - len(terms)} terms of lesson 00's glossary are not `**Term.** … (03)`"
        )
    return (
        "\n\n".join(["# Glossary", f"{len(terms)} terms, and the lessons that explain them.", *terms]) + "\n"
    )


def notation() -> str:
    """Return the tables of names and shapes of lesson 00."""
    return _cell("notation").replace("## Notation", "# Notation", 1) + "\n"


def _cell(cell_id: str) -> str:
    cells = nbformat.read(notebook(0), as_version=4).cells
    return next(cell.source for cell in cells if cell.id == cell_id)


def _lessons(numbers: str) -> str:
    found = [f"[{number}]({links.lesson(int(number))}.ipynb)" for number in numbers.split(", ")]
    return f"({', '.join(found)})"


def reference() -> dict[str, str]:
    """Return a page for each module of the encoder, of training and of diagnostics, and their contents."""
    modules = list(_modules())
    titles = [f"- [{module}]({module}.md): {_first_line(module)}" for module in modules]
    encoder, around = (
        [line for line, module in zip(titles, modules, strict=True) if ("." in module) == inside]
        for inside in (False, True)
    )
    pages = {f"reference/{module}.md": _module_page(module) for module in modules}
    pages["reference/index.md"] = "\n\n".join(
        [
            "# Reference of the package",
            "Every public function and class, with the shapes of what goes in and out, the paper's equation, and "
            "the errors raised. Shapes are part of the annotations: `Float[Tensor, 'batch position d_model']` is a "
            "tensor of floating-point numbers with these three axes.",
            "## The encoder, in the order of the lessons",
            "\n".join(encoder),
            "## Around it",
            "\n".join(around),
            "```{toctree}\n:hidden:\n\n" + "\n".join(modules) + "\n```",
        ]
    )
    return pages


def _modules() -> Iterator[str]:
    """Yield the modules of the package in the order of the lessons, then what surrounds the encoder."""
    folder = ROOT / "transformer_lab"
    yield from (name for name in NAMES if (folder / f"{name}.py").exists())
    others = {path.stem for path in folder.glob("*.py")} - set(NAMES) - {"__init__"}
    yield from sorted(others)
    yield from (f"{package}.{module}" for package, modules in AROUND.items() for module in modules)


def _first_line(module: str) -> str:
    path = ROOT / "transformer_lab" / f"{module.replace('.', '/')}.py"
    return re.match(r'"""(.*?)(?:"""|\n)', path.read_text("utf-8"))[1]


def _module_page(module: str) -> str:
    lesson = (
        f"Taught in [lesson {NAMES.index(module):02}](../{links.lesson(NAMES.index(module))}.ipynb)."
        if module in NAMES
        else ""
    )
    source = f'<a href="../_modules/transformer_lab/{module.replace(".", "/")}.html">Its whole source.</a>'
    directive = (
        f"```{{eval-rst}}\n.. automodule:: transformer_lab.{module}\n   :members:\n   :undoc-members:\n```"
    )
    return f"# {module}\n\n{lesson} {source}\n\n{directive}\n"
