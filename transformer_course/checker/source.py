"""An exercise's stub and solution as a notebook shows them, and the line of the learner's cell that fails."""

import ast
import inspect
import linecache
import textwrap
from types import CodeType
from typing import Any


def text_of(definition: Any) -> str:
    """The source of a function or class as a notebook shows it: without decorators or indentation."""
    source = _source_of_class if inspect.isclass(definition) else inspect.getsource
    text = textwrap.dedent(source(definition)).rstrip()
    first_line = ast.parse(text).body[0].lineno  # the line of `def` or `class`, after the decorators
    return "\n".join(text.splitlines()[first_line - 1 :])


def _source_of_class(definition: type) -> str:
    """The source of a class, found by the line numbers of its methods.

    `inspect` may find another class if several in the file have the same name.
    """
    methods = filter(inspect.isfunction, vars(definition).values())
    own = [inspect.unwrap(method).__code__ for method in methods]  # a decorator has its code in another file
    if not own:
        return inspect.getsource(definition)
    lines = linecache.getlines(own[0].co_filename)
    around = [
        node
        for node in ast.walk(ast.parse("".join(lines)))
        if isinstance(node, ast.ClassDef) and node.lineno <= own[0].co_firstlineno <= node.end_lineno
    ]
    if not around:
        raise OSError(f"the source of {definition.__name__} is not at hand")
    innermost = max(around, key=lambda node: node.lineno)
    return "".join(lines[innermost.lineno - 1 : innermost.end_lineno])


YOURS = "# yours:"


def stub_of(text: str) -> str:
    """The stub of a solution: its signatures and docstrings, with `raise NotImplementedError` as the body.

    If some lines are given, the line `# yours:` marks where the learner's part begins; comments directly
    below it appear only in the stub. As the last line of a method it keeps the whole method; above a method
    it removes it.
    """
    lines, definition = text.splitlines(), ast.parse(text).body[-1]
    members = definition.body if isinstance(definition, ast.ClassDef) else [definition]
    for function in reversed([member for member in members if isinstance(member, ast.FunctionDef)]):
        begin, end = _begin_of_body(function, lines), _end_of_body(function, lines)
        indent = " " * function.body[0].col_offset
        marker = next((i for i in range(function.lineno, end) if lines[i].strip() == YOURS), None)
        if function.lineno > 1 and lines[function.lineno - 2].strip() == YOURS:
            lines[function.lineno - 3 : end] = []
        elif marker is not None:
            rest = [] if marker == end - 1 else [f"{indent}raise NotImplementedError"]
            lines[marker:end] = [*lines[marker + 1 : _end_of_comments(marker + 1, lines)], *rest]
        elif begin < end:
            lines[begin:end] = [f"{indent}raise NotImplementedError"]
    return "\n".join(lines)


def solution_of(text: str) -> str:
    """The solution as a notebook shows it: without `# yours:` and docstrings, which are in the stub."""
    lines, hidden = text.splitlines(), set()
    for node in ast.walk(ast.parse(text)):
        is_definition = isinstance(node, ast.FunctionDef | ast.ClassDef)
        if is_definition and ast.get_docstring(node) is not None and len(node.body) > 1:
            end = node.body[0].end_lineno
            while not lines[end].strip():
                end += 1
            hidden |= {*range(node.body[0].lineno - 1, end)}
    for i, line in enumerate(lines):
        if line.strip() == YOURS:
            hidden |= {*range(i, _end_of_comments(i + 1, lines))}
    return "\n".join(line for i, line in enumerate(lines) if i not in hidden)


def _begin_of_body(function: ast.FunctionDef, lines: list[str]) -> int:
    """The index of the first line after the docstring and a plain `super().__init__()`."""
    kept = int(ast.get_docstring(function) is not None)
    if len(function.body) > kept and ast.unparse(function.body[kept]) == "super().__init__()":
        kept += 1
    if kept:
        return function.body[kept - 1].end_lineno
    begin = function.body[0].lineno - 1
    while lines[begin - 1].lstrip().startswith("#"):
        begin -= 1
    return begin


def _end_of_body(function: ast.FunctionDef, lines: list[str]) -> int:
    """The index after the last line, including a final `# yours:`."""
    end = function.end_lineno
    last = " " * function.body[0].col_offset + YOURS
    return end + 1 if lines[end : end + 1] == [last] else end


def _end_of_comments(begin: int, lines: list[str]) -> int:
    while begin < len(lines) and lines[begin].lstrip().startswith("#"):
        begin += 1
    return begin


def value_stub_of(text: str) -> str:
    """The stub of a value: every literal becomes `...`; statements that combine named values are kept."""
    lines = text.splitlines()
    names: set[str] = set()
    for statement in ast.parse(text).body:
        if not names & {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}:
            first = lines[statement.lineno - 1][: statement.value.col_offset]
            lines[statement.lineno - 1 : statement.end_lineno] = [f"{first}..."] + [""] * (
                statement.end_lineno - statement.lineno
            )
        names |= {target.id for target in statement.targets}
    return "\n".join(filter(None, lines))


def value_of(text: str, name: str) -> str:
    """The cell that assigns the value which a function without arguments returns."""
    body = text.splitlines()[ast.parse(text).body[-1].body[0].lineno - 1 :]
    return textwrap.dedent("\n".join(body)).replace("return ", f"{name} = ")


def is_text_of(definition: Any, text: str) -> bool:
    """Whether the source of the definition is this text; True if its source cannot be found."""
    try:
        return text_of(definition) == text
    except (OSError, TypeError, SyntaxError):
        return True


def run(text: str | CodeType, **namespace: Any) -> dict[str, Any]:
    """The namespace after running a cell with this text."""
    exec(text, namespace)
    return namespace


def is_empty(answer: Any) -> bool:
    """Whether the answer is still empty: `...`, or a function with only a docstring, `pass` or `...`."""
    if isinstance(answer, tuple | list):
        return len(answer) > 0 and all(map(is_empty, answer))
    if isinstance(answer, dict):
        return is_empty(list(answer.values()))
    return answer is ... or (inspect.isfunction(answer) and _has_empty_body(answer))


def _has_empty_body(function: Any) -> bool:
    try:
        definition = ast.parse(text_of(function)).body[0]
    except (OSError, SyntaxError):  # without its source, run the function to find out
        return False
    return isinstance(definition, ast.FunctionDef) and all(map(_does_nothing, definition.body))


def _does_nothing(statement: ast.stmt) -> bool:
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass) or is_constant


def failing_line(error: BaseException, answer: Any) -> tuple[int, str] | None:
    """Number and text of the line in the learner's cell that raised the error; None if it is elsewhere."""
    files = {code.co_filename for code in _code_objects(answer)}
    found, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename in files:
            found = step
        step = step.tb_next
    if found is None:
        return None
    return found.tb_lineno, linecache.getline(found.tb_frame.f_code.co_filename, found.tb_lineno).strip()


def _code_objects(answer: Any) -> list[Any]:
    definitions = vars(answer).values() if inspect.isclass(answer) else [inspect.unwrap(answer)]
    return [definition.__code__ for definition in definitions if hasattr(definition, "__code__")]
