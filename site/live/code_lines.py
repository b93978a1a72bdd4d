"""The lines of the package's code that the steps of the live page's walk show.

`steps.js` names a function and how the line begins: `code: "FeedForward.forward: return"`.
"""

import inspect
import json
import re
from operator import attrgetter

import transformer_lab

ROTARY = re.compile(r"self\.rotary\((.+)\)$")  # MiniLM has learned positions: there it returns its input
NAMED = re.compile(r'code: "([\w.]+): ([^"]+)"')


def with_code(steps: str) -> str:
    """Return the source of `steps.js` with each line of code in the place of its name."""
    return NAMED.sub(
        lambda named: f"code: {json.dumps(line_of_code(*named.groups()), ensure_ascii=False)}", steps
    )


def line_of_code(function: str, beginning: str) -> str:
    """Return the only line of a function of `transformer_lab` that begins so, as MiniLM runs it, no comment.

    Raises:
        ValueError: not one line begins so; change the step in `steps.js`.
    """
    source = inspect.getsource(attrgetter(function)(transformer_lab))
    lines = [line.strip() for line in source.splitlines() if line.strip().startswith(beginning)]
    if len(lines) != 1:
        raise ValueError(
            f"{function} has {len(lines)} lines that begin {beginning!r}, wanted 1; see steps.js"
        )
    return ROTARY.sub(r"\1", lines[0].split("  #")[0])
