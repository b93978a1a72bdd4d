"""Run the lessons on this machine's plainest arithmetic: `python -m tests.gate.hostile [options]`.

Numbers that come out the same with vector instructions and without them come out on other machines too.
Options are handed on to pytest.
"""

import os
import re
import subprocess
import sys

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
}

# What the libraries report of themselves; a library that is not there reports nothing.
PROBE = """
import time, torch
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
print("torch:", torch.backends.cpu.get_cpu_capability())
print("numpy:", [name for name in __cpu_dispatch__ if __cpu_features__[name]])
print("threads:", torch.get_num_threads())
print("zone:", time.strftime("%z"))
torch.nn.functional.gelu(torch.ones(64, 64) @ torch.ones(64, 64))
"""
CONTRADICTIONS = {
    "ATEN_CPU_CAPABILITY": r"torch: (?!DEFAULT)",
    "ONEDNN_MAX_CPU_ISA": r"onednn_verbose.*,cpu,isa:(?!.*SSE4\.1)",
    "MKL_CBWR": r"MKL_VERBOSE.* CNR:(?!COMPATIBLE)",
    "NPY_DISABLE_CPU_FEATURES": r"numpy: (?!\[\])",
    "OMP_NUM_THREADS": r"threads: (?!2$)",
    "TZ": r"zone: (?!\+0545)",
}


def without_effect(environment: dict[str, str]) -> list[str]:
    """Return the settings that the libraries do not follow in a process started with this environment."""
    verbose = os.environ | environment | {"ONEDNN_VERBOSE": "1", "MKL_VERBOSE": "1"}
    report = subprocess.run(
        [sys.executable, "-c", PROBE], env=verbose, capture_output=True, text=True, check=True
    ).stdout
    return [name for name, sign in CONTRADICTIONS.items() if re.search(sign, report, re.MULTILINE)]


def main(options: list[str]) -> int:
    ineffective = without_effect(ENVIRONMENT)
    if ineffective:
        print(f"no effect here: {', '.join(ineffective)}; the run would prove nothing", file=sys.stderr)
        return 1
    command = [sys.executable, "-m", "pytest", "notebooks", *options]
    return subprocess.call(command, env=os.environ | ENVIRONMENT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
