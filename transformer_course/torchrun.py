"""Several processes from a cell: what a terminal's `torchrun` does, and what each of them has to say."""

import inspect
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

AT_MOST = 120  # seconds; whoever waits longer in a lesson waits for ever
# One thread each, as everywhere in the course. c10d asks for a host's name at each connection; a network that
# never answers is asked once, for a second. PyTorch for Windows is built without libuv.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "RES_OPTIONS": "timeout:1 attempts:1"}
ENVIRONMENT |= {"USE_LIBUV": "0"} if os.name == "nt" else {}
# What PyTorch puts before a worker's line, and its log before one: warning or information, date, time, place.
RANK = re.compile(r"^\[rank\d+\]:\s*", re.MULTILINE)
STAMP = re.compile(r"\[[IW]\d+ [\d:.]+ \S+\] ")


def torchrun(job: Callable[[], None], *, workers: int = 2, using: Sequence[Callable] = ()) -> int:
    """Run a job in several processes, and print what each printed, the first one's first.

    In a terminal: `torchrun --standalone --nproc-per-node 2 job.py`, or `… -m module`; and before the job
    `--local-addr localhost` where a machine does not know its own name, as some do without a network.

    Args:
        job: a function of the notebook, without arguments, which stands on its own: it imports what it uses.
        workers: how many processes.
        using: other functions of the notebook, which the job calls.

    Returns the exit code; 0 if all went well.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={workers}"),
            "--local-addr=localhost",  # not this machine's name, which it may not know
            *("--redirects=3", f"--log-dir={folder}"),
            str(_as_file(job, using, Path(folder))),
        ]
        process = subprocess.Popen(
            command, env=os.environ | ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            code = process.wait(AT_MOST)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.send_signal(signal.SIGTERM)  # it ends its workers, and then itself
            process.wait()
            raise
        for rank in range(workers):
            print(_said(Path(folder), rank, "stdout"), end="")
        if code:
            print(_complaint(Path(folder), workers))
    return code


def _as_file(job: Callable, using: Sequence[Callable], folder: Path) -> Path:
    """The job as a program, below what it calls."""
    file = folder / "job.py"
    sources = [textwrap.dedent(inspect.getsource(function)) for function in (*using, job)]
    call = f"{job.__name__}()\n\nfrom transformer_lab.training.workers import leave\n\nleave(0)\n"
    file.write_text("\n\n".join([*sources, call]), encoding="utf-8")
    return file


def _said(folder: Path, rank: int, stream: str) -> str:
    """What a worker wrote."""
    return "".join(
        file.read_text("utf-8") for file in sorted(folder.glob(f"*/attempt_0/{rank}/{stream}.log"))
    )


def _complaint(folder: Path, workers: int) -> str:
    """The last line of each worker's complaint, each told once; how a process that was killed ended, too.

    A line of a library's log, with the time of day, is no complaint: without a network c10d warns of names
    that nobody knows. It is told, without its stamp, where no worker says anything else.
    """
    said = [re.sub(RANK, "", _said(folder, rank, "stderr").strip()).splitlines() for rank in range(workers)]
    last = [next((line for line in reversed(each) if not STAMP.match(line)), "") for each in said]
    if not any(last):
        last = [STAMP.sub("", each[-1]) if each else "" for each in said]
    told = dict.fromkeys(filter(None, last))
    return "\n".join(told) or "A worker ended without a word."
