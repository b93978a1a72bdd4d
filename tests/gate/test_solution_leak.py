"""Measure how much of an exercise's solution is shown above it, on made-up cells."""

import textwrap

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

from tests.gate.solution_leak import shown_above
from transformer_course.exercises import find
from transformer_course.workspace.my_encoder import TITLE

SHOWN = find("03.2").shown
RENAMED = SHOWN.replace("scaled", "x").replace("weights", "y").replace("query", "q")
CALLED_OTHERWISE = RENAMED.replace(".mT", ".T").replace("softmax", "f").replace("sqrt", "g")
FENCED = f"```python\n{SHOWN}\n```"


def printed(code: str) -> list:
    return [new_output("display_data", {"text/markdown": f"```python\n{code}\n```"})]


ABOVE = {
    "a cell": (new_code_cell(SHOWN), 1),
    "with other names": (new_code_cell(RENAMED), 1),
    "of other functions": (new_code_cell(CALLED_OTHERWISE), 0.6),
    "shown source": (new_code_cell("show()", outputs=printed(textwrap.indent(SHOWN, "    "))), 1),
    "in prose": (new_markdown_cell(f"So:\n\n{FENCED}"), 1),
    "in a fold": (new_markdown_cell(f"<details>\n\n{FENCED}\n\n</details>"), 0),
    "hints": (new_markdown_cell(FENCED, id="help-03-2"), 0),
    "their own page": (new_code_cell("show()", outputs=printed(f"{TITLE}\n{SHOWN}")), 0),
    "a part of it": (new_code_cell("a = b.softmax(dim=-1)\nc = a @ b  # of 7"), 0.2),
}


@pytest.mark.parametrize("what", ABOVE)
def test_what_is_shown_above_is_counted(what: str) -> None:
    cell, share = ABOVE[what]
    exercise = new_code_cell(find("03.2").stub, metadata={"tags": ["exercise:03.2"]})
    assert shown_above("03.2", [cell, exercise]) == pytest.approx(share, abs=0.1)
    assert shown_above("03.2", [exercise, cell]) == 0
