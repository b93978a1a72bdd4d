"""Open JupyterLab on the learner's copies of the lessons, brought up to date: `make lab`.

    python -m transformer_course.workspace [--fresh 03] [--only-copies] [arguments of JupyterLab]

Opens the lesson that was worked in last; the first time, lesson 00. With `--only-copies` it opens nothing:
for containers, and for editors other than JupyterLab.
"""

import argparse
import os
import sys
import webbrowser
from pathlib import Path

from jupyter_server.serverapp import list_running_servers
from jupyterlab.labapp import LabApp

from transformer_course.lessons import ROOT, START
from transformer_course.workspace import copies
from transformer_course.workspace.atomic_files import WORKSPACE

NOTEBOOKS = ROOT / "notebooks"


def main(arguments: list[str]) -> int:
    """Return the status that the program ends with; JupyterLab ends it by itself."""
    parser = argparse.ArgumentParser(prog="make lab", description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--fresh", metavar="03", help="a new copy of this lesson; yours is set aside")
    parser.add_argument("--only-copies", action="store_true", help="do not open JupyterLab")
    options, for_jupyterlab = parser.parse_known_args(arguments)
    running = _address_of_running()
    if running:
        print(f"JupyterLab is open already: {running}\nLessons are brought up to date when it is closed.")
        if "--no-browser" not in for_jupyterlab:
            webbrowser.open(running)
        return 0
    if options.fresh:
        try:
            print(copies.renew(options.fresh, NOTEBOOKS, WORKSPACE))
        except (OSError, ValueError) as error:
            print(f"Nothing was set aside: {error}.", file=sys.stderr)
            return 2
    for sentence in copies.update(NOTEBOOKS, WORKSPACE):
        print(sentence)
    if options.only_copies:
        return 0
    lesson = copies.last_worked_in(WORKSPACE) or WORKSPACE / START.name
    print(f"Opening {lesson.name} in {WORKSPACE}; Ctrl+C here ends JupyterLab.", flush=True)
    # Kernels inherit it, so that a cell run too early says which cells to run first.
    os.environ.setdefault("PYTHONSTARTUP", str(Path(__file__).with_name("startup.py")))
    where = [f"--ServerApp.root_dir={WORKSPACE}", f"--LabApp.default_url=/lab/tree/{lesson.name}"]
    LabApp.launch_instance([*where, *for_jupyterlab])
    return 0


def _address_of_running() -> str:
    """The address of a JupyterLab that is open on these copies; empty if there is none."""
    for server in list_running_servers():
        if Path(server["root_dir"]).resolve() == WORKSPACE.resolve():
            return f"{server['url']}lab?token={server['token']}"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
