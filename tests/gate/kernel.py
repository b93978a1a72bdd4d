"""The kernels that run the lessons: this interpreter, this checkout, nobody's own settings."""

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

CELL_TIMEOUT = 120  # seconds; the slowest cell of a lesson needs a fraction of it
HEARTBEAT = 1.0  # seconds after which a kernel that is silent is asked whether it lives

MANAGER = ForkingManager if sys.platform == "linux" else KernelManager  # elsewhere a fork is not safe


class KernelDied(RuntimeError):
    """The kernel's process has ended in the middle of a cell."""


class WatchedKernel(RunningKernel):
    """A kernel whose death is noticed within seconds: nbval alone would wait for the cell's time-out."""

    def __init__(self, folder: str) -> None:
        with patch("nbval.kernel.KernelManager", MANAGER):
            super().__init__(CURRENT_ENV_KERNEL_NAME, cwd=folder)

    def execute_cell_input(self, cell_input: str, allow_stdin: bool | None = None) -> str:
        """Run a cell as a notebook does, with history: without it, a `;` at the end hides nothing."""
        return self.kc.execute(cell_input, allow_stdin=allow_stdin, stop_on_error=False)

    def get_message(self, stream: str, timeout: float | None = None) -> dict:
        """Return the next message; raise Empty after the time-out, KernelDied if none can come any more."""
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
    """Starts the running interpreter as a kernel, even where the user has installed another as `python3`."""

    def _kernel_spec_manager_default(self) -> NbvalKernelspecManager:
        return NbvalKernelspecManager()


@contextmanager
def clean_environment() -> Iterator[None]:
    """Let a kernel started here import this checkout, read no personal IPython profile, and draw inline."""
    with TemporaryDirectory(prefix="ipython-", ignore_cleanup_errors=True) as profile, patch.dict(os.environ):
        os.environ["IPYTHONDIR"] = profile
        os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(
            os.pathsep
        )
        os.environ.pop("MPLBACKEND", None)
        yield
