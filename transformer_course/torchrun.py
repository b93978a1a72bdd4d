"""Run several processes from a notebook cell, as `torchrun` does in a terminal."""

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
    """Run a function in several processes, and print the output of each, rank 0 first.

    In a terminal this is `torchrun --standalone --nproc-per-node 2 job.py`, or `… -m module`. Add
    `--local-addr localhost` before the job if the machine cannot resolve its own name, as some without a
    network.

    Args:
        job: a function of the notebook, without arguments, that imports what it uses.
        workers: number of processes.

    Raises:
        ProcessRaisedException, ProcessExitedException: from PyTorch, if a process fails; the others are
            killed.
        TimeoutError: the processes took longer than TIME_LIMIT, and were killed.
    """
    with socket.socket() as probe:  # find a free port for the rendezvous
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    source = f"{textwrap.dedent(inspect.getsource(job))}\n{job.__name__}()"
    with tempfile.TemporaryDirectory() as folder:
        # Spawn, not fork, because a kernel has threads; so the function is passed as its source.
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
    """Run the source with the environment variables that torchrun sets, and write its output to a file."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(workers)}
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    # c10d resolves the host name at each connection; without a network, give up after one second.
    os.environ["RES_OPTIONS"] = "timeout:1 attempts:1"
    if os.name == "nt":  # PyTorch for Windows is built without libuv
        os.environ["USE_LIBUV"] = "0"
    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # discard the log of c10d; errors are raised as exceptions
    with Path(folder, f"{rank:03}").open("w", encoding="utf-8", buffering=1) as sys.stdout:
        exec(source, {"__name__": "__main__"})
    os._exit(0)  # skip Python's teardown, in which a gloo thread may abort the process
