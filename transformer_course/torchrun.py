"""Several processes from a cell: what `torchrun` does in a terminal."""

import inspect
import os
import socket
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.multiprocessing import start_processes

TIME_LIMIT = 120  # seconds


def torchrun(job: Callable[[], None], *, workers: int = 2) -> None:
    """Run a function in several processes, and print what each printed, rank 0 first.

    In a terminal: `torchrun --standalone --nproc-per-node 2 job.py`, or `… -m module`; and before the job
    `--local-addr localhost` where a machine does not know its own name, as some do without a network.

    Args:
        job: a function of the notebook, without arguments, which imports what it uses.
        workers: number of processes.

    Raises:
        ProcessRaisedException, ProcessExitedException: PyTorch's, when a process fails; the others are ended.
        TimeoutError: the processes took longer than TIME_LIMIT; they are ended.
    """
    with socket.socket() as probe:  # a free port, where the processes meet
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    source = f"{textwrap.dedent(inspect.getsource(job))}\n{job.__name__}()"
    with tempfile.TemporaryDirectory() as folder:
        # Spawned, not forked, because a kernel has threads; so the function is passed on as its source.
        arguments = (workers, port, source, folder)
        context = start_processes(_run_job, arguments, workers, join=False, start_method="spawn")
        deadline = time.monotonic() + TIME_LIMIT
        try:
            while not context.join(timeout=1):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the processes took longer than {TIME_LIMIT} seconds")
        finally:  # also when the cell is interrupted
            for process in context.processes:
                process.kill()
                process.join()
            for output in sorted(Path(folder).iterdir()):
                print(output.read_text("utf-8"), end="")


def _run_job(rank: int, workers: int, port: int, source: str, folder: str) -> None:
    """Run the source in the environment that torchrun gives to a worker, with its output in a file."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(workers)}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    # c10d asks for the host's name at each connection; ask a network that never answers once, for a second.
    os.environ["RES_OPTIONS"] = "timeout:1 attempts:1"
    if os.name == "nt":  # PyTorch for Windows is built without libuv
        os.environ["USE_LIBUV"] = "0"
    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # c10d's log; an error of the job arrives as an exception
    with Path(folder, f"{rank:03}").open("w", encoding="utf-8", buffering=1) as sys.stdout:
        exec(source, {"__name__": "__main__"})
    os._exit(0)  # not Python's teardown, in which a thread of gloo may still abort the process
