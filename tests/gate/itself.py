"""The gate's tests of itself start kernels and pytest anew: left out where they cannot tell anything new.

They run in CI, where the gate has changed since the last commit, where they are named, and with `GATE=1`.
"""

import os
import subprocess
from functools import cache

import pytest

from tests.gate.stored import ROOT

PARTS = ("tests/gate", ".ci", "pyproject.toml", "constraints.txt", "Makefile")  # of which the gate is made
LEFT_OUT = "The gate's tests of itself are left out: it has not changed. All, as in CI: make test GATE=1"


@cache
def has_changed() -> bool:
    """Whether something of the gate is not as it was committed last; where git does not know, it has."""
    status = ["git", "status", "--porcelain", "--", *PARTS]
    run = subprocess.run(status, cwd=ROOT, capture_output=True, text=True, check=False)
    return run.returncode != 0 or bool(run.stdout)


def is_left_out(config: pytest.Config) -> bool:
    """Whether this run would have them, and goes without."""
    asked = any(os.environ.get(name) for name in ("CI", "GATE"))
    whole = any((config.rootpath / arg).resolve() in (ROOT, ROOT / "tests") for arg in config.args)
    return whole and not asked and not has_changed()


def pytest_configure(config: pytest.Config) -> None:
    """Declare their mark."""
    config.addinivalue_line("markers", "gate_itself: a planted fault that the gate has to notice")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say at the end what is left out."""
    if is_left_out(config):
        terminalreporter.write_line(LEFT_OUT)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take them out of what is run."""
    marked = [item for item in items if item.get_closest_marker("gate_itself")]
    if marked and is_left_out(config):
        config.hook.pytest_deselected(items=marked)
        items[:] = [item for item in items if not item.get_closest_marker("gate_itself")]
