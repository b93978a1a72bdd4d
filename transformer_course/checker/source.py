"""From code to the text that a notebook shows, and from an error back to the learner's line."""

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
    first_line = ast.parse(text).body[0].lineno  # of `def` or `class`: decorators stand above
    return "\n".join(text.splitlines()[first_line - 1 :])


def _source_of_class(definition: type) -> str:
    """The class that holds this very method: of several with one name, `inspect` may find another."""
    methods = filter(inspect.isfunction, vars(definition).values())
    own = [inspect.unwrap(method).__code__ for method in methods]  # a decorator's code stands elsewhere
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


def is_text_of(definition: Any, text: str) -> bool:
    """Whether the definition still reads like this; so too where its source cannot be found."""
    try:
        return text_of(definition) == text
    except (OSError, TypeError, SyntaxError):
        return True


def run(text: str | CodeType, **namespace: Any) -> dict[str, Any]:
    """The names that a cell with this text would leave behind."""
    exec(text, namespace)
    return namespace


def is_empty(answer: Any) -> bool:
    """Whether nothing was filled in: `...`, or a definition of nothing but docstring, `pass` and `...`."""
    if isinstance(answer, tuple | list):
        return len(answer) > 0 and all(map(is_empty, answer))
    if isinstance(answer, dict):
        return is_empty(list(answer.values()))
    return answer is ... or (inspect.isfunction(answer) and _has_empty_body(answer))


def _has_empty_body(function: Any) -> bool:
    try:
        definition = ast.parse(text_of(function)).body[0]
    except (OSError, SyntaxError):  # no source to look at: let the function speak for itself
        return False
    return isinstance(definition, ast.FunctionDef) and all(map(_does_nothing, definition.body))


def _does_nothing(statement: ast.stmt) -> bool:
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass) or is_constant


def failing_line(error: BaseException, answer: Any) -> tuple[int, str] | None:
    """Number and text of the line in the learner's cell where the error arose, if it arose there."""
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
