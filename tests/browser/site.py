"""The built site, served as any static host would, and what its pages hold, read without a browser."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Request, Response

from tests.browser.lab import LOOPBACK

ROOT = Path(__file__).parent.parent.parent
SITE = ROOT / "build" / "site"
AXE = ROOT / "site" / "node_modules" / "axe-core" / "axe.min.js"
DRAWN = "() => !document.querySelector('[aria-busy=true]')"
FADED = "() => Promise.all(document.getAnimations().map(each => each.finished))"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder, and yield its address."""
    with ThreadingHTTPServer((LOOPBACK, 0), partial(Quiet, directory=folder)) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{LOOPBACK}:{server.server_address[1]}"
        server.shutdown()


@dataclass
class Page(HTMLParser):
    """A page's anchors, and what it links to and loads."""

    file: Path
    ids: set[str] = field(default_factory=set)
    links: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what is of interest."""
        for name, value in attributes:
            if name == "id":
                self.ids.add(value)
            if name in ("href", "src", "data-entries") and value:
                self.links.append((tag, value))


def pages(folder: Path = SITE) -> dict[Path, Page]:
    """Return every page of the site by its file; the theme leaves templates in `_static`."""
    files = [file for file in folder.rglob("*.html") if "_static" not in file.parts]
    return {file: Page(file) for file in files}


def broken(known: dict[Path, Page]) -> list[str]:
    """Return every link whose page, file or anchor is missing, and what would be loaded from elsewhere."""
    found = []
    for file, page in known.items():
        for tag, link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                fine = tag == "a" or address.scheme == "data"
            else:
                target = (file.parent / unquote(address.path)).resolve() if address.path else file
                anchors = known[target].ids if target in known else set()
                fine = target.is_file() and (not address.fragment or unquote(address.fragment) in anchors)
            if not fine:
                found.append(f"{file.name}: <{tag}> {link}")
    return found


class SitePage:
    """A page of the site, opened in a window of its own.

    complaints: errors and warnings of the console, requests that failed or went elsewhere
    """

    def __init__(self, window: BrowserContext, address: str, page: str) -> None:
        self.window, self.address = window, address
        window.add_init_script(path=AXE)
        self.complaints: list[str] = []
        self.view = window.new_page()
        self.view.on("console", self._console)
        self.view.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.view.on("request", self._request)
        self.view.on("response", self._response)
        self.go(page)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{self.view.url}: {message.text}")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.complaints.append(f"{self.view.url} asks for {request.url}")

    def _response(self, response: Response) -> None:
        if response.status >= 400:
            self.complaints.append(f"{self.view.url}: {response.status} for {response.url}")

    def go(self, page: str) -> None:
        """Open another page in the same window, and wait until its formulas are set."""
        self.view.goto(f"{self.address}/{page}")
        self.view.evaluate("() => window.MathJax?.startup?.promise")

    def theme(self, name: str) -> None:
        """Let the machine prefer light or dark, and the page follow."""
        self.view.emulate_media(color_scheme=name, reduced_motion="reduce")
        self.view.wait_for_function("name => document.documentElement.dataset.theme === name", arg=name)
        # What fades from one colour to the other has to be there before it is measured.
        self.view.evaluate(FADED)

    def overhang(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        return self.view.evaluate("document.documentElement.scrollWidth - window.innerWidth")

    def violations(self, *rules: str) -> list[str]:
        """Return what axe finds amiss, by all its rules or by some."""
        # What is still drawn, or fades, has to be there before it is measured.
        self.view.wait_for_function(DRAWN)
        self.view.evaluate(FADED)
        options = {"runOnly": list(rules)} if rules else {}
        found = self.view.evaluate("options => axe.run(options).then(({violations}) => violations)", options)
        return [
            f"{self.view.url}: {each['id']}: {' '.join(map(str, node['target']))}: {node['failureSummary']}"
            for each in found
            for node in each["nodes"]
        ]
