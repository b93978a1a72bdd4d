"""What the site's search looks through: sections, terms, mistakes, symptoms, names of the reference."""

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import desc
from sphinx.application import Sphinx

from pages.posted import plain

SITE = Path(__file__).parents[1]
FILE = "search.json"
# What people call a thing that neither the title nor the bold terms of its section name.
ALSO = tomllib.loads((SITE / "pages" / "search_words.toml").read_text("utf-8"))
SHOWN = 150  # characters of a section that a result shows
KEPT = 14  # further words of a section, those that tell it from others; all of them would double the file
# Pages that are not searched: a mistake is found on the page of its topic.
LEFT_OUT = re.compile(r"search|licences|field_guide/\d\d_.*")
# What is not searched on a page: code, outputs, figures, formulas, boxes that are the same everywhere.
SKIPPED = (nodes.section, nodes.literal_block, nodes.math_block, nodes.raw, nodes.admonition, desc)
# How lessons, exercises and sections begin; what is bold without being a term.
USUAL_BOLD = ("Predict", "It takes")
USUAL = re.compile(r"What you.ll learn\. |(Before you start\.|It takes|Good for:|●).*", re.DOTALL)
FORMULA = re.compile(r"\\[a-zA-Z]+\*?|[{}$\\]")
WORD = re.compile(r"[^\W\d][\w.√∞-]*[\w√∞]|\d{2,}")
# Words that the search ignores in a query are not stored.
DESK = (SITE / "style" / "desk.js").read_text("utf-8")
IGNORED = set(re.search(r"EMPTY = new Set\(\s*`([^`]*)`", DESK)[1].split())
Unit = tuple[str, str, str, str]  # anchor, title, terms that are explained, text


def collect(app: Sphinx, doctree: nodes.document) -> None:
    """Remember what can be found on a page, as soon as it is read."""
    page = app.env.docname
    if not LEFT_OUT.fullmatch(page):
        also, found = dict(ALSO.get(page, {})), []
        for anchor, title, terms, text in units(doctree, by_title_alone=page.startswith("field_guide/")):
            more = also.pop(title if page == "glossary" else anchor, "")
            found.append((anchor, title, f"{terms} {more}".strip(), text))
        if also:
            raise ValueError(f"search_words.toml names sections that {page} doesn't have: {', '.join(also)}")
        app.env.metadata[page]["found"] = found


def units(doctree: nodes.document, by_title_alone: bool = False) -> Iterator[Unit]:
    """The sections of a page, the terms of a glossary, the names of a reference, each with its own text."""
    for section in doctree.findall(nodes.section):
        own = [] if by_title_alone else [each for each in section.children[1:] if not _is_skipped(each)]
        bold = [word.astext() for each in own for word in each.findall(nodes.strong)]
        terms = " ".join(word for word in bold if not word.endswith(".") and word not in USUAL_BOLD)
        yield section["ids"][0], _plain(section[0]), terms, _joined(own)
    for item in doctree.findall(nodes.definition_list_item):
        if item[0]["ids"]:
            yield item[0]["ids"][0], _plain(item[0]), "", _joined(item.children[1:])
    for thing in doctree.findall(desc):
        signature = thing[0]
        if signature["ids"]:
            own = [each for each in thing[-1].children if isinstance(each, nodes.paragraph)]
            yield signature["ids"][0], signature["fullname"], "", _joined(own)


def _is_skipped(node: nodes.Node) -> bool:
    return isinstance(node, SKIPPED) or "cell" in node.get("classes", [])


def _plain(node: nodes.Node) -> str:
    return " ".join(FORMULA.sub("", plain(node)).split())


def _joined(children: list[nodes.Node]) -> str:
    return " ".join(filter(None, (USUAL.sub("", _plain(child)) for child in children)))


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the index: for each page its address, its title, and what can be found on it."""
    if error:
        return
    found = {page: about["found"] for page, about in app.env.metadata.items() if "found" in about}
    everything = [_words(text) for each in found.values() for *_, text in each]
    sections = Counter(word for words in everything for word in words)
    rarity = {word: math.log(len(everything) / times) for word, times in sections.items()}
    pages = [
        [f"{page}.html", app.env.titles[page].astext(), [_entry(*unit, rarity) for unit in each]]
        for page, each in found.items()
    ]
    index = json.dumps(pages, ensure_ascii=False, separators=(",", ":"))
    (Path(app.outdir) / "_static" / FILE).write_text(index, "utf-8")


def _entry(anchor: str, title: str, terms: str, text: str, rarity: dict[str, float]) -> list[str]:
    """A unit as it is stored: title, anchor, terms, beginning of the text, its further words."""
    begins = text if len(text) <= SHOWN else f"{text[:SHOWN].rsplit(' ', 1)[0]} …"
    words = _words(text)
    more = words.keys() - IGNORED - _words(f"{title} {terms} {begins}").keys()
    telling = sorted(more, key=lambda word: (-words[word] * rarity[word], word))[:KEPT]
    entry = [title, "" if anchor == _slug(title) else anchor, terms, begins, " ".join(telling)]
    while not entry[-1]:
        entry.pop()
    return entry


def _slug(title: str) -> str:
    """The anchor of most titles, which needn't be stored; search.js has the same rule."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _words(text: str) -> Counter[str]:
    return Counter(WORD.findall(text.lower().replace("’", "'")))
