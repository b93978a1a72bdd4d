"""Measure the CPU time of a command, kernels included, as a multiple of `import torch`.

`python -m tools.cost COMMAND ...`, or `make cost` for the tests. Seconds depend on the machine; the multiple
hardly does, so it can be compared between machines.
"""

import ctypes
import os
import resource
import statistics
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36  # <linux/prctl.h>
IMPORTS = 5  # of which the median is used
ORPHAN_TIMEOUT = 30  # seconds to wait for processes that outlive the command


def cpu_seconds(command: list[str]) -> tuple[float, int]:
    """Return the CPU seconds of a command and all its descendants, and its exit status.

    On Linux, a process whose parent has ended, such as a kernel's fork server, becomes a child of this
    process, which waits for it. On other systems its time is not counted.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = _children()
    status = subprocess.call(command)
    deadline = time.monotonic() + ORPHAN_TIMEOUT
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.1)
        except ChildProcessError:  # no child is left
            break
    return _children() - before, status


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main(command: list[str]) -> int:
    importing = [sys.executable, "-c", "import torch"]
    unit = statistics.median(cpu_seconds(importing)[0] for _ in range(IMPORTS))
    seconds, status = cpu_seconds(command)
    print(f"{seconds:.0f} s of CPU: {seconds / unit:.0f} times `import torch` ({unit:.2f} s)")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
