"""Update the learner's copies of the lessons, and open them in JupyterLab: `make lab`.

    python -m transformer_course.workspace [--fresh 03] [--only-copies] [arguments of JupyterLab]

Opens the lesson that was saved last; the first time, lesson 00. With `--only-copies` JupyterLab is not
started, which is useful in containers and for other editors.
"""

import argparse
import os
import sys
import webbrowser
from pathlib import Path

from ipykernel.ipkernel import IPythonKernel
from jupyter_core.paths import jupyter_config_dir
from jupyter_server.serverapp import list_running_servers
from jupyterlab.labapp import LabApp

from transformer_course.lessons import ROOT, START
from transformer_course.workspace import copies
from transformer_course.workspace.atomic_files import WORKSPACE

NOTEBOOKS = ROOT / "notebooks"


def main(arguments: list[str]) -> int:
    """Return the exit status; JupyterLab exits by itself."""
    parser = argparse.ArgumentParser(prog="make lab", description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument(
        "--fresh", metavar="03", help="make a new copy of this lesson, and keep yours in before/"
    )
    parser.add_argument("--only-copies", action="store_true", help="do not open JupyterLab")
    options, for_jupyterlab = parser.parse_known_args(arguments)
    running = _address_of_running()
    if running:
        print(f"JupyterLab is already running: {running}\nLessons are updated the next time you start it.")
        if "--no-browser" not in for_jupyterlab:
            webbrowser.open(running)
        return 0
    if options.fresh:
        try:
            print(copies.renew(options.fresh, NOTEBOOKS, WORKSPACE))
        except (OSError, ValueError) as error:
            print(f"Nothing was set aside: {error}.", file=sys.stderr)
            return 2
    for sentence in copies.update(NOTEBOOKS, WORKSPACE, IPythonKernel.language_info):
        print(sentence)
    if options.only_copies:
        return 0
    lesson = copies.last_worked_in(WORKSPACE) or WORKSPACE / START.name
    print(f"Opening {lesson.name} in {WORKSPACE}; press Ctrl+C here to stop JupyterLab.", flush=True)
    # Kernels inherit this setting, so a NameError names the cell that has to be run first.
    os.environ.setdefault("PYTHONSTARTUP", str(Path(__file__).with_name("startup.py")))
    where = [f"--ServerApp.root_dir={WORKSPACE}", f"--LabApp.default_url=/lab/tree/{lesson.name}"]
    LabApp.launch_instance([*where, *_appearance(), *for_jupyterlab])
    return 0


def _appearance() -> list[str]:
    """Set defaults that a learner can change, and return the options for them.

    JupyterLab saves every 20 seconds, and its file browser has room for the lessons' names.
    """
    ours = Path(__file__).with_name("jupyter")
    paths = [str(ours), *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(paths)
    # Of two style files, the first that exists counts: a learner's own.
    styles = [str(folder / "custom") for folder in (Path(jupyter_config_dir()), ours)]
    return ["--LabApp.custom_css=True", f"--ServerApp.tornado_settings={ {'static_custom_path': styles} }"]


def _address_of_running() -> str:
    """The address of a running JupyterLab that has these copies open; empty if there is none."""
    for server in list_running_servers():
        if Path(server["root_dir"]).resolve() == WORKSPACE.resolve():
            return f"{server['url']}lab?token={server['token']}"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
