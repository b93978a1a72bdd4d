"""JupyterLab as `make lab` starts it, and a lesson opened in it."""

import json
import os
import re
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page

LOOPBACK = "127.0.0.1"
TOKEN = secrets.token_hex(16)
# What `make` sets once for its virtual environment: nobody is asked whether to fetch news.
NO_NEWS = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}


@contextmanager
def jupyterlab(started: list[str | Path], home: Path, folder: Path | None = None) -> Iterator[str]:
    """Serve notebooks, with a fresh learner's settings, and yield the address.

    Args:
        started: what Python is told, such as `-m jupyterlab` and a folder.
        home: for the settings, and for the log of what the program says.
        folder: of the course, if not this one.
    """
    port = _free_port()
    flags = [
        *("--no-browser", f"--ip={LOOPBACK}", f"--port={port}", "--ServerApp.port_retries=0"),
        "--allow-root",  # the tests may run in a container
        "--LabApp.expose_app_in_browser=True",  # makes window.jupyterapp, which lesson.js asks
    ]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, *started, *flags],
            env=_fresh_settings(home) | ({"PYTHONPATH": str(folder)} if folder else {}),
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        _wait_until_served(port, server, home / "log")
        yield f"http://{LOOPBACK}:{port}"
    finally:
        server.terminate()
        try:
            server.wait(timeout=30)
        except subprocess.TimeoutExpired:  # it waits for kernels that no longer answer; they end with it
            server.kill()
            server.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        return listener.getsockname()[1]


def _fresh_settings(home: Path) -> dict[str, str]:
    """Return an environment in which JupyterLab finds and leaves nothing outside this folder."""
    page_config = home / "config" / "labconfig" / "page_config.json"
    page_config.parent.mkdir(parents=True, exist_ok=True)
    page_config.write_text(json.dumps(NO_NEWS))
    return os.environ | {
        "JUPYTER_TOKEN": TOKEN,
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
    }


def _wait_until_served(port: int, server: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + 90
    while server.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"http://{LOOPBACK}:{port}/api/status?token={TOKEN}", timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


class OpenLesson:
    """One notebook on the screen, its cells called by their ids."""

    def __init__(self, page: Page, address: str, name: str) -> None:
        self.page, self.name = page, name
        page.add_init_script(path=Path(__file__).with_name("lesson.js"))
        # A workspace of its own: JupyterLab would open the tabs of an earlier test again.
        page.goto(f"{address}/lab/workspaces/{id(page)}/tree/{name}?token={TOKEN}")
        page.wait_for_function("lesson.isReady()")

    def ask(self, question: str) -> Any:
        """Return what lesson.js says."""
        return self.page.evaluate(f"lesson.{question}()")

    def cell(self, cell_id: str) -> Locator:
        """Return a cell."""
        return self.page.locator(".jp-Notebook-cell").nth(self.ask("ids").index(cell_id))

    def choose(self, *menus: str) -> None:
        """Click through a menu."""
        labels = self.page.locator(".lm-MenuBar-itemLabel, .lm-Menu-itemLabel")
        for name in menus:
            labels.filter(has_text=re.compile(f"^{name}$")).click()

    def run_all(self) -> None:
        """Run all cells, until all have run or one has failed."""
        self.choose("Edit", "Clear Outputs of All Cells")  # stored counts look like fresh ones
        self.choose("Run", "Run All Cells")
        done = "lesson.notRun().length === 0 || lesson.errors().length > 0"
        self.page.wait_for_function(done, timeout=300_000)

    def write(self, cell_id: str, source: str) -> None:
        """Write a cell anew."""
        self.cell(cell_id).locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(source)

    def run(self, *cell_ids: str) -> None:
        """Press Shift+Enter once for each of these cells, beginning where the cursor is."""
        for cell_id in cell_ids:
            before = self.page.evaluate("id => lesson.count(id)", cell_id)
            self.page.keyboard.press("Shift+Enter")
            has_run = "([id, before]) => ![null, before].includes(lesson.count(id))"
            self.page.wait_for_function(has_run, arg=[cell_id, before])

    def go_to_and_run(self, cell_id: str) -> None:
        """Click into a cell and press Shift+Enter."""
        self.cell(cell_id).locator(".cm-content").click()
        self.run(cell_id)

    def answer(self, number: str, source: str) -> Locator:
        """Answer an exercise, run it and its check, and return the verdict."""
        exercise, check = (f"{kind}-{number.replace('.', '-')}" for kind in ("exercise", "check"))
        self.write(exercise, source)
        self.run(exercise, check)
        return self.cell(check).get_by_role("status")

    def restart(self) -> None:
        """Restart the kernel and run all cells."""
        self.choose("Edit", "Clear Outputs of All Cells")
        self.choose("Kernel", "Restart Kernel and Run All Cells…")
        self.page.locator(".jp-Dialog").get_by_role("button", name="Confirm Kernel Restart").click()
        self.page.wait_for_function("lesson.notRun().length === 0", timeout=300_000)

    def save(self) -> None:
        """Save the notebook."""
        self.choose("File", "Save Notebook")
        self.page.wait_for_function("lesson.isSaved()")

    def resize(self, width: int) -> None:
        """Make the window narrower or wider."""
        self.page.set_viewport_size({"width": width, "height": 1000})
        self.page.wait_for_function("lesson.fits()")

    def close(self) -> None:
        """End the kernel and close the page."""
        self.choose("Kernel", "Shut Down Kernel")
        self.page.wait_for_function("!lesson.hasKernel()")
        self.page.close()
