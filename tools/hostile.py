"""Run the tests as on a hostile machine: `python -m tools.hostile [options of pytest]`.

There is no network, the home folder is read-only, and the locale, the time zone and the terminal width are
unusual. Kernels without vector instructions are used, because numbers that do not change with the instruction
set do not change between machines.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

SETTINGS = {
    "ATEN_CPU_CAPABILITY": "default",  # PyTorch's kernels without vector instructions
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_CBWR": "COMPATIBLE",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "OMP_NUM_THREADS": "2",  # lesson.begin has to set it to 1
    "PYTHONHASHSEED": "9",
    "LC_ALL": "C",
    "TZ": "Asia/Kathmandu",
    "COLUMNS": "60",
}
# Variables that tell libraries to use another folder than the home.
PLACES = ("IPYTHONDIR", "JUPYTER_*_DIR", "MPLCONFIGDIR", "XDG_*_HOME", "XDG_RUNTIME_DIR")
# Linux namespaces, which isolate these changes from the rest of the system. Some systems forbid them.
APART = ["unshare", "--map-root-user", "--net", "--uts", "--mount", "sh", "-euc"]
CUT_OFF = 'ip link set lo up; hostname nowhere; mount -t tmpfs -o ro none "$HOME"; exec "$@"'


def main(options: list[str]) -> int:
    kept = {name: value for name, value in os.environ.items() if not any(map(Path(name).match, PLACES))}
    command = [sys.executable, "-m", "pytest", *options]
    with TemporaryDirectory(prefix="home-") as home:
        Path(home).chmod(0o555)  # has no effect for root
        env = kept | SETTINGS | {"HOME": home, "USERPROFILE": home}
        cut_off = [*APART, CUT_OFF, "sh"]
        if not shutil.which(APART[0]) or subprocess.run([*cut_off, "true"], env=env, check=False).returncode:
            print("This system refuses namespaces: the network stays, and root may write into the home.")
            cut_off = []
        return subprocess.call([*cut_off, *command], env=env)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
