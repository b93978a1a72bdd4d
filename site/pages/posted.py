"""What a search engine or a posted link shows of a page: its title, two sentences, a picture."""

import re
from html import escape, unescape
from typing import Any

from pages.field_guide import READING
from pages.lookup import first_line
from pages.start import PICTURE, in_words, size

LONGEST = 200  # characters of a description; what is longer nobody shows
# What a page's heading leaves out because the pages around it say it.
KINDS = {
    r"field_guide/(?!index|symptoms/)[a-z].*": "mistakes in Transformer code",
    r"reference/(?!index).*": "reference of transformer_lab",
    r"_modules/(?!index).*": "source",
    r"_modules/index": "transformer_lab, a readable Transformer encoder",
    r"glossary": "terms of Transformer encoders",
    r"notation": "symbols, names and shapes in a Transformer encoder",
    r"licences": "the course, the model and the libraries",
}
# Pages whose own text begins with something else than what they are.
TOLD = {
    "index": "A free course of fifteen Jupyter notebooks: write attention, masks, heads and layers yourself "
    "in PyTorch, until your own code runs a real model. A checker names your mistakes.",
    "start": "How to run the course on your own computer, without a GPU: one command installs it and opens "
    "JupyterLab, and a checker answers every exercise.",
    "glossary": "The terms of Transformer encoders, each in a sentence, with the lessons that explain it.",
    "notation": "The symbols and shapes that all lessons use: d_model, heads, query, key, value and masks.",
    "licences": "The licences of the course, of the model, and of the libraries that the site contains.",
    "search": "Search the lessons, the field guide of mistakes, the glossary and the reference.",
    "field_guide/index": "What goes wrong in Transformer code: describe a symptom, or look up a mistake by "
    "lesson or by kind. Each has its effect, its fix and the change as a diff.",
    "_modules/index": "The source code of transformer_lab, a readable Transformer encoder in PyTorch.",
}


def title(page: str, heading: str) -> str:
    """Return a page's title, from its path and its heading, so that it makes sense alone in a list."""
    more = [words for pages, words in KINDS.items() if re.fullmatch(pages, page)]
    return " · ".join([heading, *more])


# How a lesson's promise begins.
PROMISES = ("You will be able to", "What you'll learn. ")


def description(page: str, text: Any) -> str:
    """Return a page in one or two sentences: its own, where it has said them in its `html_meta`."""
    if page in TOLD:
        return TOLD[page]
    if page.startswith("_modules/"):
        return f"Source code, with links to the reference. {_module(page)}"
    if page.startswith("reference/") and page != "reference/index":
        return _module(page)
    given = [meta["content"] for meta in _all("meta", text) if meta.get("name") == "description"]
    if given:
        return _cut(given[0])
    paragraphs = [plain(paragraph) for paragraph in _all("paragraph", text)]
    told = next((each for each in paragraphs if each.startswith(PROMISES)), paragraphs[0])
    about, reading, _ = told.removeprefix("What you'll learn. ").partition(READING)
    if reading:  # how a change is read, is of no use outside: rather what mistakes there are
        about += f"Among them: {'; '.join(_innermost(text))}."
    return _cut(about)


def _module(page: str) -> str:
    """Return the first line of a module's docstring, without its markup."""
    name = page.removeprefix("reference/").removeprefix("_modules/transformer_lab/").replace("/", ".")
    return first_line(name).replace("`", "")


def _all(kind: str, text: Any) -> list[Any]:
    """Return all nodes of a kind, without docutils itself, which `make test` does not need otherwise."""
    return list(text.findall(lambda node: node.tagname == kind))


def plain(paragraph: Any) -> str:
    """Return the words of a node in one line, without HTML."""
    words = re.sub(r"<[^>]*>", "", paragraph.astext())  # HTML of the page's own
    return " ".join(re.sub(r"\\sqrt\{(.*?)\}", r"√\1", words).replace("’", "'").split())


def _innermost(text: Any) -> list[str]:
    """Return the headings that have none below them."""
    return [section[0].astext() for section in _all("section", text) if len(_all("section", section)) == 1]


def _cut(text: str) -> str:
    """Return as many whole clauses as there is room for, or words."""
    if len(text) <= LONGEST:
        return text
    room = LONGEST - 2
    found = re.match(rf"(.{{1,{room}}})[.;:,] ", text) or re.match(rf"(.{{1,{room}}}) ", text)
    return f"{found[1]} …"


def tags(page: str, heading: str, about: str, base: str) -> str:
    """Return a page's tags for its head.

    base: the site's address; where it isn't known, there is no picture, whose address must be whole
    """
    found = {"description": about, "og:type": "website", "og:site_name": "transformer-lab"}
    found |= {"og:title": heading, "og:description": about}
    if base:
        width, height = size()
        found |= {"og:url": f"{base}{page}.html", "og:image": f"{base}_static/{PICTURE.name}"}
        found |= {"og:image:width": str(width), "og:image:height": str(height), "og:image:alt": in_words()}
        found["twitter:card"] = "summary_large_image"
    kinds = {name: "property" if name.startswith("og:") else "name" for name in found}
    return "\n".join(
        f'<meta {kinds[name]}="{name}" content="{escape(text)}">' for name, text in found.items()
    )


def add(app, page: str, template: str, context: dict, text: Any) -> None:
    """Give a page its title and its tags, as Sphinx is about to write it."""
    context["title"] = title(page, context.get("title", "Search"))
    plain = unescape(re.sub("<[^>]*>", "", context["title"]))
    context["posted"] = tags(page, plain, description(page, text), app.config.html_baseurl)
    # What `html_meta` says is among our tags, and must not appear twice.
    if text is not None:
        context["metatags"] = re.sub(r'<meta [^>]*name="description"[^>]*>', "", context["metatags"])
