"""What to change after an error of Python or PyTorch that no known mistake explains: `error_cures.toml`."""

import re
import tomllib
from functools import cache
from pathlib import Path


def cure(error: BaseException) -> str:
    """What to change after this error; empty if it is not a typical one."""
    message = f"{type(error).__name__}: {error}"
    found = ((re.search(says, message), text) for says, text in known())
    return next((match.expand(text) for match, text in found if match), "")


@cache
def known() -> tuple[tuple[str, str], ...]:
    """Pattern and cure of each typical error."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tuple((entry["says"], entry["cure"]) for entry in tomllib.loads(text)["error"])
