"""Does a test fail when the code is wrong?  python -m tests.planted_faults [module …]

Each fault of planted_faults.txt is planted in a copy of the package, the tests of its module run there, and a
table says which of them noticed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".txt")
AT_ONCE = 2
SECONDS = 300  # after which a run counts as broken


class Fault(NamedTuple):
    module: str
    words: str
    right: str
    wrong: str


def read_faults(text: str) -> list[Fault]:
    """Read a list of faults: `== module` or folder/file, then for each its words, `- right` and `+ wrong`."""
    faults = []
    for section in text.split("\n== ")[1:]:
        module, *blocks = section.strip().split("\n\n")
        for block in blocks:
            words, *lines = block.split("\n")
            right, wrong = (list(side) for _, side in groupby(lines, key=itemgetter(0)))
            faults.append(Fault(module, words, fragment(right), fragment(wrong)))
    return faults


def fragment(lines: list[str]) -> str:
    return "\n".join(line[2:] for line in lines)


FAULTS = read_faults(LIST.read_text(encoding="utf-8"))


def planted(fault: Fault, source: str) -> str:
    """Return the source with the fault; a fragment that does not occur exactly once is an error."""
    count = source.count(fault.right)
    if count != 1:
        raise ValueError(
            f"{fault.module}: {fault.right!r} occurs {count} times, wanted once; "
            f"the code has changed, so mend the fault {fault.words!r} in {LIST.name}"
        )
    return source.replace(fault.right, fault.wrong)


def copy_project(source: Path, target: Path) -> None:
    for part in ("transformer_lab", "tests"):
        shutil.copytree(source / part, target / part)


def notice(project: Path, fault: Fault) -> str:
    """Return the first test that fails with the fault, or nothing if all pass."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        copy_project(project, copy)
        path = copy / "transformer_lab" / f"{fault.module}.py"
        path.write_text(planted(fault, path.read_text(encoding="utf-8")), encoding="utf-8")
        return run_tests(copy, [room_of(fault.module)])


def room_of(module: str) -> str:
    """The name in the tests: of a file in a folder of the package, that of the folder."""
    return module.split("/")[0]


def run_tests(folder: Path, modules: list[str]) -> str:
    """Return the first test that fails, or nothing; a run that never gets to its tests proves nothing."""
    files = [f"tests/test_{module}.py" for module in modules]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", *files]
    # Plugins, which these tests do not use, take longer to load than most of the tests to run.
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}
    try:
        run = subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"BROKEN: no end after {SECONDS} s"
    failed = [line.split(" - ")[0] for line in run.stdout.splitlines() if line.startswith("FAILED ")]
    if failed:
        return failed[0].removeprefix("FAILED tests/")
    return "" if run.returncode == 0 else "BROKEN: " + " ".join((run.stdout + run.stderr).split()[-30:])


def main(chosen: list[str]) -> int:
    """Plant the faults of the chosen modules, or all; return 0 if a test noticed each of them."""
    known = list(dict.fromkeys(fault.module for fault in FAULTS))
    if unknown := set(chosen) - set(known):
        print(f"No faults for {', '.join(sorted(unknown))}; there are some for {', '.join(known)}.")
        return 2
    modules = chosen or known
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        copy_project(ROOT, project)  # what is edited while this runs has no part in it
        if failure := run_tests(project, sorted(set(map(room_of, modules)))):
            print(f"A test fails without any fault, so the others would prove nothing: {failure}")
            return 2
        return plant_all(project, [fault for fault in FAULTS if fault.module in modules])


def plant_all(project: Path, faults: list[Fault]) -> int:
    """Plant one fault after the other, and print which test noticed it."""
    noticed = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = pool.map(lambda fault: notice(project, fault), faults)
        for fault, test in zip(faults, results, strict=True):
            print(f"{fault.module:30}{fault.words:50}{test or 'SURVIVED'}", flush=True)
            noticed += bool(test) and not test.startswith("BROKEN")
    print(f"\n{noticed} of {len(faults)} faults noticed.")
    return int(noticed < len(faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
