"""How much of an exercise's solution is shown above it, on made-up cells."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from tests.gate.solution_leak import phrases, shown_above
from transformer_course.exercises import find
from transformer_course.workspace.my_encoder import TITLE

SHOWN = find("03.2").shown
RENAMED = (
    SHOWN.replace("scaled", "x").replace("weights", "y").replace("query", "q").replace("d_head", "width")
)
PRINTED = [
    new_output(
        "display_data", {"text/markdown": f"```python\n    {SHOWN.replace(chr(10), chr(10) + '    ')}\n```"}
    )
]
OWN = [new_output("display_data", {"text/markdown": f"```python\n{TITLE}\n{SHOWN}\n```"})]
ABOVE = {
    "a cell": (new_code_cell(SHOWN), 1),
    "with other names": (new_code_cell(RENAMED), 1),
    "shown source": (new_code_cell("show()", outputs=PRINTED), 1),
    "in prose": (new_markdown_cell(f"So:\n\n```python\n{SHOWN}\n```"), 1),
    "in a fold": (new_markdown_cell(f"<details>\n\n```python\n{SHOWN}\n```\n\n</details>"), 0),
    "hints": (new_markdown_cell(f"```python\n{SHOWN}\n```", id="help-03-2"), 0),
    "their own page": (new_code_cell("show()", outputs=OWN), 0),
    "something else": (new_code_cell("print(1 + 2 + 3 + 4 + 5)"), 0),
    "a part of it": (new_code_cell("a = b.softmax(dim=-1)\nc = a @ b"), 0.2),
}


@pytest.mark.parametrize("what", ABOVE)
def test_what_is_shown_above_is_counted(what: str) -> None:
    cell, share = ABOVE[what]
    exercise = new_code_cell(find("03.2").stub, metadata={"tags": ["exercise:03.2"]})
    assert shown_above("03.2", [cell, exercise]) == pytest.approx(share, abs=0.1)
    assert shown_above("03.2", [exercise, cell]) == 0


def test_variables_are_alike_and_what_is_called_is_not() -> None:
    assert phrases("def f(a):\n    return a @ a.mT / g(a)") == phrases(
        "def f(x):  # x\n    return x @ x.mT / g(x)"
    )
    assert phrases("def f(a):\n    return a @ a.mT / g(a)") != phrases("def f(a):\n    return a @ a.T / g(a)")
