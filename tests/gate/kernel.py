"""Kernels that run the lessons: with this interpreter and this checkout, and without the user's settings."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty
from tempfile import TemporaryDirectory
from unittest.mock import patch

from jupyter_client import AsyncKernelManager, KernelManager
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, NbvalKernelspecManager, RunningKernel

from tests.gate.fork_server import ForkingManager
from tests.gate.notebook_io import ROOT

CELL_TIMEOUT = 120  # seconds; the slowest cell of a lesson takes a fraction of this
HEARTBEAT = 1.0  # seconds without a message before checking that the kernel is alive

MANAGER = ForkingManager if sys.platform == "linux" else KernelManager  # elsewhere, forking is not safe


class KernelDied(RuntimeError):
    """The process of the kernel ended while it ran a cell."""


class WatchedKernel(RunningKernel):
    """A kernel whose death is noticed within seconds; nbval alone would wait for the time-out of the cell."""

    def __init__(self, folder: str) -> None:
        with patch("nbval.kernel.KernelManager", MANAGER):
            super().__init__(CURRENT_ENV_KERNEL_NAME, cwd=folder)

    def execute_cell_input(self, cell_input: str, allow_stdin: bool | None = None) -> str:
        """Run a cell with history, as a notebook does: otherwise a final `;` would not hide the result."""
        return self.kc.execute(cell_input, allow_stdin=allow_stdin, stop_on_error=False)

    def get_message(self, stream: str, timeout: float | None = None) -> dict:
        """Return the next message; raise Empty after the time-out, KernelDied if the kernel has died."""
        deadline = time.monotonic() + (CELL_TIMEOUT if timeout is None else timeout)
        while True:
            wait = min(HEARTBEAT, max(0.0, deadline - time.monotonic()))
            try:
                return super().get_message(stream, timeout=wait)
            except Empty:
                if not self.is_alive():
                    raise KernelDied("the kernel died while it ran this cell") from None
                if time.monotonic() >= deadline:
                    raise


class ThisPython(AsyncKernelManager):
    """A kernel manager that starts this interpreter, even if another kernel is installed as `python3`."""

    def _kernel_spec_manager_default(self) -> NbvalKernelspecManager:
        return NbvalKernelspecManager()


@contextmanager
def clean_environment() -> Iterator[None]:
    """Let new kernels import this checkout, ignore the IPython profile of the user, and draw inline."""
    with TemporaryDirectory(prefix="ipython-", ignore_cleanup_errors=True) as profile, patch.dict(os.environ):
        os.environ["IPYTHONDIR"] = profile
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(
            os.pathsep
        )
        os.environ.pop("MPLBACKEND", None)
        yield
