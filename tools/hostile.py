"""Run everything on a hostile machine: `python -m tools.hostile [options]`.

No network, and so nobody who knows this machine's name; a home that cannot be written; another language, time
zone and width of the terminal; and its plainest arithmetic: numbers that come out the same with vector
instructions and without them come out on other machines too. All at once.

Options are handed on to pytest, paths among them; without a path it runs all that `make test` runs.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

ENVIRONMENT = {
    "ATEN_CPU_CAPABILITY": "default",  # PyTorch's own kernels
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_CBWR": "COMPATIBLE",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "OMP_NUM_THREADS": "2",  # lesson.begin has to set one
    "OMP_WAIT_POLICY": "PASSIVE",
    "PYTHONHASHSEED": "9",
    "LC_ALL": "C",
    "TZ": "Asia/Kathmandu",
    "COLUMNS": "60",
}
# They say where libraries keep things, in place of the home.
PLACES = ("IPYTHONDIR", "JUPYTER_*_DIR", "MPLCONFIGDIR", "XDG_*_HOME", "XDG_RUNTIME_DIR")

# Namespaces of Linux: in them one may cut the network, rename the machine and lay something read-only over a
# folder, and nobody outside notices. Some systems allow them to no one but root.
NAMESPACES = ("unshare", "--map-root-user", "--net", "--uts", "--mount")
ENTER = """
import fcntl, os, socket, struct, subprocess, sys
home, *command = sys.argv[1:]
socket.sethostname("nowhere")
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as anyone:  # a new network's own loopback is down
    fcntl.ioctl(anyone, 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS: IFF_UP
subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", home], check=True)
os.execvp(command[0], command)
"""

# What the libraries report of themselves; a library that is not there reports nothing.
PROBE = """
import locale, os, pathlib, shutil, socket, tempfile, time, torch
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
print("torch:", torch.backends.cpu.get_cpu_capability())
print("numpy:", [name for name in __cpu_dispatch__ if __cpu_features__[name]])
print("threads:", torch.get_num_threads())
print("locale:", locale.setlocale(locale.LC_ALL, ""))
print("zone:", time.strftime("%z"))
print("columns:", shutil.get_terminal_size().columns)
print("interfaces:", [name for _, name in socket.if_nameindex()])
try:
    print("own name:", socket.gethostbyname(socket.gethostname()))
except OSError as error:
    print("own name: unknown")
try:
    with tempfile.TemporaryFile(dir=pathlib.Path.home()):
        print("home: can be written")
except OSError as error:
    print("home:", error)
torch.nn.functional.gelu(torch.ones(64, 64) @ torch.ones(64, 64))
"""
CONTRADICTIONS = {
    "ATEN_CPU_CAPABILITY": r"torch: (?!DEFAULT)",
    "ONEDNN_MAX_CPU_ISA": r"onednn_verbose.*,cpu,isa:(?!.*SSE4\.1)",
    "MKL_CBWR": r"MKL_VERBOSE.* CNR:(?!COMPATIBLE)",
    "NPY_DISABLE_CPU_FEATURES": r"numpy: (?!\[\])",
    "OMP_NUM_THREADS": r"threads: (?!2$)",
    "LC_ALL": r"locale: (?!C$)",
    "TZ": r"zone: (?!\+0545)",
    "COLUMNS": r"columns: (?!60$)",
    "no network": r"interfaces: (?!\['lo'\]$)",
    "a name that nobody knows": r"own name: (?!unknown)",
    "a home that cannot be written": r"home: can be written",
}
WITH_NAMESPACES = ("no network", "a name that nobody knows", "a home that cannot be written")


@cache
def may_have_namespaces() -> bool:
    """Whether this system lets us cut its network off, for a process and its children alone."""
    if not shutil.which(NAMESPACES[0]):
        return False
    with TemporaryDirectory() as home:
        return not subprocess.run(_apart(home, "true"), capture_output=True).returncode


def _apart(home: str, *command: str) -> list[str]:
    return [*NAMESPACES, sys.executable, "-c", ENTER, home, *command]


@contextmanager
def hostile(*command: str) -> Iterator[dict]:
    """Yield what runs a command as on a hostile machine: `args` and `env` for `subprocess.run`."""
    kept = {name: value for name, value in os.environ.items() if not any(map(Path(name).match, PLACES))}
    with TemporaryDirectory(prefix="home-") as home:
        args = _apart(home, *command) if may_have_namespaces() else [*command]
        if not may_have_namespaces():
            Path(home).chmod(0o555)  # for root it means nothing
        yield {"args": args, "env": kept | ENVIRONMENT | {"HOME": home, "USERPROFILE": home}}


def without_effect(args: list[str], env: dict[str, str]) -> list[str]:
    """Return the settings that the libraries do not follow: `args` and `env` run a Python for PROBE."""
    verbose = env | {"ONEDNN_VERBOSE": "1", "MKL_VERBOSE": "1"}
    report = subprocess.run(
        [*args, "-c", PROBE], env=verbose, capture_output=True, text=True, check=True
    ).stdout
    return [name for name, sign in CONTRADICTIONS.items() if re.search(sign, report, re.MULTILINE)]


def main(options: list[str]) -> int:
    with hostile(sys.executable) as python:
        ineffective = without_effect(**python)
        if not may_have_namespaces():
            lacking = [name for name in WITH_NAMESPACES if name in ineffective]
            print(f"no `{' '.join(NAMESPACES)}` here, so not tried: {', '.join(lacking)}")
            ineffective = [name for name in ineffective if name not in lacking]
        if ineffective:
            print(f"no effect here: {', '.join(ineffective)}; the run would prove nothing", file=sys.stderr)
            return 1
        return subprocess.call([*python["args"], "-m", "pytest", *options], env=python["env"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
