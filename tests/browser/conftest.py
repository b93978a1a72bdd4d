"""One JupyterLab and one Chromium for all tests. Lessons are copies, since JupyterLab saves what it opens."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tests.browser.lab import LOOPBACK, OpenLesson, jupyterlab
from tests.browser.site import SITE, SitePage, served

LESSONS = Path(__file__).parent.parent.parent / "notebooks"
CHROMIUM = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
HERE = (f"http://{LOOPBACK}:", f"ws://{LOOPBACK}:", "data:", "blob:")

Open = Callable[[str], OpenLesson]
OpenCells = Callable[..., OpenLesson]
Visit = Callable[..., SitePage]


@pytest.fixture(scope="session")
def notebooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(LESSONS, tmp_path_factory.mktemp("course") / "notebooks")


@pytest.fixture(scope="session")
def address(notebooks: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with jupyterlab(["-m", "jupyterlab", notebooks], tmp_path_factory.mktemp("home")) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = next(program for program in map(shutil.which, CHROMIUM) if program)
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=chromium) as browser:
        expect.set_options(timeout=10_000)
        yield browser


@pytest.fixture(scope="session")
def window(browser: Browser) -> BrowserContext:
    window = browser.new_context(viewport={"width": 1280, "height": 1000})
    window.set_default_timeout(60_000)
    return window


@pytest.fixture(scope="session")
def asked_for(window: BrowserContext) -> list[str]:
    """Every address that any page has asked for."""
    asked_for = []
    window.on("request", lambda request: asked_for.append(request.url))
    window.on("page", lambda page: page.on("websocket", lambda socket: asked_for.append(socket.url)))
    return asked_for


@pytest.fixture(autouse=True)
def nothing_from_elsewhere(asked_for: list[str]) -> Iterator[None]:
    yield
    elsewhere = [url for url in asked_for if not url.startswith(HERE)]
    asked_for.clear()
    assert elsewhere == []


@pytest.fixture(scope="session")
def open_lesson(window: BrowserContext, asked_for: list[str], address: str) -> Open:
    """Open a notebook by its file's name."""
    return lambda name: OpenLesson(window.new_page(), address, name)


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of the built site."""
    if not (SITE / "index.html").is_file():
        pytest.fail("there is no site in build/site: run `make site`")
    with served(SITE) as address:
        yield address


@pytest.fixture
def visit(browser: Browser, site: str) -> Iterator[Visit]:
    """Open a page of the site in a window of its own; nothing may complain, or come from elsewhere."""
    visits = []

    def visit(page: str, **window: object) -> SitePage:
        visits.append(SitePage(browser.new_context(**window), site, page))
        return visits[-1]

    yield visit
    for each in visits:
        each.window.close()
    assert [complaint for each in visits for complaint in each.complaints] == []


@pytest.fixture
def open_cells(notebooks: Path, open_lesson: Open) -> OpenCells:
    """Open a new notebook, of code cells given by their ids."""

    def open_cells(name: str, **cells: str) -> OpenLesson:
        notebook = new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
        notebook.cells = [new_code_cell(source, id=cell_id) for cell_id, source in cells.items()]
        nbformat.write(notebook, notebooks / name)
        return open_lesson(name)

    return open_cells
