"""Fork kernels from a process that has imported the large libraries, because imports take seconds."""

import gc
import multiprocessing
import os
import signal
import sys
from typing import Any

from jupyter_client import KernelManager
from jupyter_client.provisioning import LocalProvisioner

# The libraries that lessons import early, but no module of this course. seaborn is imported with the first
# heatmap, and PyTorch's compiler with the first optimizer.
IMPORTED = ["torch", "torch._dynamo", "matplotlib.pyplot", "seaborn", "ipykernel.kernelapp"]


class ForkingManager(KernelManager):
    """A kernel manager that forks kernels instead of starting an interpreter for each."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.provisioner = Forked(parent=self, kernel_spec=self.kernel_spec)


class Forked(LocalProvisioner):
    """The process of a kernel, forked from Python's fork server."""

    async def launch_kernel(self, cmd: list[str], **settings: Any) -> dict:
        """Start the kernel that the command would start, in the same folder and environment."""
        forking = multiprocessing.get_context("forkserver")
        forking.set_forkserver_preload(IMPORTED)
        process = forking.Process(target=_serve, args=(cmd[-1], settings["env"], settings["cwd"]))
        process.start()
        # Set no process group: the kernel has none of its own, so a signal would reach pytest.
        self.process, self.pid = ForkedProcess(process), process.pid
        return self.connection_info


class ForkedProcess:
    """A `multiprocessing` process with the `subprocess` methods that jupyter_client calls."""

    stdin = stdout = stderr = None

    def __init__(self, process: multiprocessing.Process) -> None:
        self.process = process
        self.kill, self.terminate = process.kill, process.terminate

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""
        return self.process.exitcode

    def wait(self) -> int | None:
        """Wait for the process to end, and return its exit status."""
        self.process.join()
        return self.process.exitcode

    def send_signal(self, signum: int) -> None:
        """Send the process a signal if it is still running."""
        if self.poll() is None:
            os.kill(self.process.pid, signum)


def _serve(connection_file: str, environment: dict[str, str], folder: str) -> None:
    """Run a kernel, after setting everything that a new interpreter would take from its environment."""
    from ipykernel.kernelapp import launch_new_instance

    gc.freeze()  # imported modules stay; scanning them for garbage would copy all of their memory
    os.environ.clear()
    os.environ.update(environment, JPY_PARENT_PID=str(os.getppid()))  # the kernel ends with the fork server
    os.chdir(folder)
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open(os.devnull, "w") as nowhere:  # discard ipykernel's log; a cell's stderr is an output
        os.dup2(nowhere.fileno(), sys.stderr.fileno())
    launch_new_instance(["-f", connection_file])
