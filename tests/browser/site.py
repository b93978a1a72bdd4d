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

from tests.browser.lab import LOOPBACK

ROOT = Path(__file__).parent.parent.parent
SITE = ROOT / "build" / "site"
AXE = ROOT / "site" / "node_modules" / "axe-core" / "axe.min.js"


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
