"""Glossary, notation and reference: what a reader looks up. Each is taken from where it is declared."""

import re
from collections.abc import Iterator

import nbformat

from pages import links
from pages.texts import filled
from transformer_course.lessons import NAMES, ROOT, notebook

PACKAGE = ROOT / "transformer_lab"
# What surrounds the encoder.
AROUND = {
    "training": ("loop", "data", "checkpoints", "schedule", "workers"),
    "diagnostics": ("encoder_check", "weight_pairing", "property_checks", "divergence.search", "head_roles"),
}
TERM = re.compile(r"^\*\*(.+?)\.\*\* (.*) \((\d\d(?:, \d\d)*)\)$", re.MULTILINE)


def glossary() -> str:
    """Return the glossary of lesson 00, each term with links to the lessons that explain it.

    Raises:
        ValueError: a paragraph that is not **Term.** text (lessons).
    """
    text = _cell("glossary")
    terms = [f"{term}\n: {about} ({_lessons(numbers)})" for term, about, numbers in TERM.findall(text)]
    others = len(re.findall(r"^\*\*", text, re.MULTILINE)) - len(terms)
    if others:
        raise ValueError(f"{others} terms of lesson 00's glossary are not written `**Term.** text (03)`")
    head = ["# Glossary", f"{len(terms)} terms, each with the lessons that explain it."]
    return "\n\n".join([*head, "{.glossary}\n" + "\n\n".join(terms)]) + "\n"


def notation() -> str:
    """Return the tables of names, words and shapes of lesson 00."""
    return _cell("notation").replace("## Notation", "# Notation", 1) + "\n"


def _cell(cell_id: str) -> str:
    cells = nbformat.read(notebook(0), as_version=4).cells
    return next(cell.source for cell in cells if cell.id == cell_id)


def _lessons(numbers: str) -> str:
    return ", ".join(f"[{number}]({links.lesson(int(number))}.ipynb)" for number in numbers.split(", "))


def reference() -> dict[str, str]:
    """Return a page for each module of the encoder, of training and of diagnostics, and their contents."""
    encoder, around = list(_encoder()), list(_around())
    found = {f"reference/{module}.md": _module_page(module) for module in encoder + around}
    found["reference/index.md"] = filled(
        "reference/index.md",
        encoder=_list(encoder),
        around=_list(around),
        contents="\n".join(encoder + around),
    )
    return found


def _encoder() -> Iterator[str]:
    """Yield the encoder's modules: those of a lesson in its order, then the others."""
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    yield from (name for name in NAMES if name in modules)
    yield from sorted(modules - set(NAMES))


def _around() -> Iterator[str]:
    yield from (f"{package}.{module}" for package, modules in AROUND.items() for module in modules)


def _list(modules: list[str]) -> str:
    return "\n".join(f"- [{module}]({module}.md): {first_line(module)}" for module in modules)


def first_line(module: str) -> str:
    """Return the first line of a module's docstring, its markup for code kept."""
    text = (PACKAGE / f"{module.replace('.', '/')}.py").read_text("utf-8")
    return re.match(r'"""(.*?)("""|\n)', text)[1]


def _module_page(module: str) -> str:
    source = f'<a href="../_modules/transformer_lab/{module.replace(".", "/")}.html">Source code</a>'
    taught = ""
    if module in NAMES:
        number = NAMES.index(module)
        taught = f", and [the lesson that builds it](../{links.lesson(number)}.ipynb)"
    directive = [".. automodule:: " + f"transformer_lab.{module}", "   :members:", "   :undoc-members:"]
    lines = [f"# {module}", f"{source}{taught}.", "\n".join(["```{eval-rst}", *directive, "```"])]
    return "\n\n".join(lines) + "\n"
