"""Kernels as copies of one process that has imported the large libraries: to read them anew takes seconds."""

import gc
import multiprocessing
import os
import signal
import sys
from typing import Any

from jupyter_client import KernelManager
from jupyter_client.provisioning import LocalProvisioner

# What lessons import first or soonest, and nothing of this course: seaborn with the first heatmap, PyTorch's
# compiler with the first optimizer.
IMPORTED = ["torch", "torch._dynamo", "matplotlib.pyplot", "seaborn", "ipywidgets", "ipykernel.kernelapp"]


class ForkingManager(KernelManager):
    """Starts such a kernel where jupyter_client would start an interpreter."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.provisioner = Forked(parent=self, kernel_spec=self.kernel_spec)


class Forked(LocalProvisioner):
    """A kernel's process, made by Python's fork server."""

    async def launch_kernel(self, cmd: list[str], **settings: Any) -> dict:
        """Start the kernel that the command would start, in its folder and with its environment."""
        forking = multiprocessing.get_context("forkserver")
        forking.set_forkserver_preload(IMPORTED)
        process = forking.Process(target=_serve, args=(cmd[-1], settings["env"], settings["cwd"]))
        process.start()
        # Without a process group: it has none of its own, and a signal would reach pytest.
        self.process, self.pid = ForkedProcess(process), process.pid
        return self.connection_info


class ForkedProcess:
    """A process of `multiprocessing` with the methods of one of `subprocess`, which jupyter_client calls."""

    stdin = stdout = stderr = None

    def __init__(self, process: multiprocessing.Process) -> None:
        self.process = process
        self.kill, self.terminate = process.kill, process.terminate

    def poll(self) -> int | None:
        """Return the exit status; None while it runs."""
        return self.process.exitcode

    def wait(self) -> int | None:
        """Wait for its end, and return its exit status."""
        self.process.join()
        return self.process.exitcode

    def send_signal(self, signum: int) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.process.pid, signum)


def _serve(connection_file: str, environment: dict[str, str], folder: str) -> None:
    """Be a kernel: what a fresh interpreter takes from its surroundings as it starts is set here."""
    from ipykernel.kernelapp import launch_new_instance

    gc.freeze()  # what is imported stays: to look in it for garbage would copy all of its memory
    os.environ.clear()
    os.environ.update(environment, JPY_PARENT_PID=str(os.getppid()))  # it ends with the fork server
    os.chdir(folder)
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(os.devnull, "w") as nowhere:  # ipykernel's own advice; what a cell writes comes as output
        os.dup2(nowhere.fileno(), sys.stderr.fileno())
    launch_new_instance(["-f", connection_file])
