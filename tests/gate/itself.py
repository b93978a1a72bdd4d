"""Whether the gate's tests of itself, which start kernels and pytest anew, can tell anything new."""

import os
import subprocess

from tests.gate.notebook_io import ROOT

PINS = "transformer_course/constraints.txt"
PARTS = ("tests/gate", ".ci", "pyproject.toml", PINS, "Makefile")  # of which the gate is made
SKIPPED = "the gate's tests of itself: it has not changed. All, as in CI: GATE=1"


def is_to_be_tried() -> bool:
    """Whether something of the gate is not as it was committed last, or git does not know; always in CI."""
    if os.environ.get("CI") or os.environ.get("GATE"):
        return True
    status = ["git", "status", "--porcelain", "--", *PARTS]
    try:
        run = subprocess.run(status, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return True
    return bool(run.stdout)
