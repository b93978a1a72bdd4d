"""What is shown of a page elsewhere: a title that stands alone, two sentences, a picture."""

import re
from types import SimpleNamespace

import pygments
import pytest
from pygments import lexers

from pages import hanging, posted
from pages.field_guide import READING


def page(*paragraphs: str, meta: str = "", headings: tuple[str, ...] = ()) -> object:
    """A page as docutils holds it, as far as a description asks."""
    docutils = pytest.importorskip("docutils.nodes")
    found = docutils.section("", docutils.title(text="Title"))
    found += [docutils.paragraph(text=text) for text in paragraphs]
    found += [docutils.section("", docutils.title(text=text)) for text in headings]
    found += [docutils.meta("", name="description", content=meta)] if meta else []
    return found


def test_a_description_is_the_promise_or_the_mistakes_or_what_the_page_says_itself() -> None:
    promise = "You will be able to divide by \\sqrt{d_k}; and more."
    assert posted.description("lessons/03", page("Title.", promise)) == promise.replace("\\sqrt{d_k}", "√d_k")
    assert (
        posted.description("lessons/05", page("Title.", "What you’ll learn. You’ll write."))
        == "You'll write."
    )
    mistakes = page(f"Two mistakes. {READING}".replace("'", "’"), headings=("no scale", "no mask"))
    assert posted.description("field_guide/03", mistakes) == "Two mistakes. Among them: no scale; no mask."
    assert posted.description("field_guide/nan", page("NaN.", meta="Why NaN?")) == "Why NaN?"
    assert posted.description("reference/masking", None).startswith("Lesson 04. Attention masks")
    assert "masks" in posted.description("_modules/transformer_lab/masking", None)


def test_a_long_description_ends_with_a_clause() -> None:
    cut = posted.description("live", page("Type a sentence, and look; " * 20))
    assert 100 < len(cut) <= posted.LONGEST and cut.endswith((" look …", "sentence …"))
    assert posted._cut("word " * 50).endswith("word …")


def test_a_picture_is_offered_where_its_address_is_known() -> None:
    assert "og:image" not in posted.tags("live", "Live", 'It is "live".', "")
    tags = posted.tags("live", "Live", 'It is "live".', "https://example.org/course/")
    assert '<meta property="og:image" content="https://example.org/course/_static/head.png">' in tags
    assert '<meta name="description" content="It is &quot;live&quot;.">' in tags
    assert int(re.search(r'image:width" content="(\d+)"', tags)[1]) > 600


def test_the_tags_of_html_meta_are_not_said_twice() -> None:
    context = {"title": "a <em>b</em>", "metatags": '<meta content="c" name="description" /><meta name="d">'}
    app = SimpleNamespace(config=SimpleNamespace(html_baseurl=""))
    posted.add(app, "x", "", context, page(meta="c"))
    assert context["metatags"] == '<meta name="d">'
    assert 'property="og:title" content="a b"' in context["posted"]


def test_long_lines_of_code_hang_behind_their_indentation_and_nothing_is_lost() -> None:
    source = 'def f():\n    text = "' + "long " * 9 + '"\n\n    return text\n'
    made = pygments.highlight(source, lexers.PythonLexer(), hanging.Hanging())
    assert re.findall(r'class="hang" style="--indent:(\d+)"', made) == ["4"]
    plain = pygments.highlight(source, lexers.PythonLexer(), hanging.HtmlFormatter())
    assert re.sub(r'<span class="hang"[^>]*>(.*)</span>\n', r"\1\n", made) == plain
    change = pygments.highlight("-" + " " * 8 + "long" * 9, lexers.DiffLexer(), hanging.Hanging())
    assert "--indent:9" in change
