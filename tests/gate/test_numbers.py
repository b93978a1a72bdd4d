"""A number that has gone stale in the words around an output is found."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.gate import numbers
from tests.gate.notebook_io import NOTEBOOKS, Lesson


def complaints(
    words, *, code="draw(384)", printed="0.17 of .640, 1,024 in all, 8.30 and 0.083", far=0, error=""
):
    """What the rule says of these words, so many cells behind a cell that prints numbers."""
    outputs = [new_output("stream", text=printed), new_output("error", ename="E", evalue=error)]
    cell = new_code_cell(code, id="shown", outputs=outputs)
    between = [new_code_cell("pass", id=f"between-{i}") for i in range(far)]
    heading = new_markdown_cell("# Title\n\n**It takes** about 75 minutes.", id="title")
    told = new_markdown_cell(f"## The problem\n\n{words}", id="words")
    notebook = new_notebook(cells=[heading, cell, *between, told])
    return list(numbers.numbers_have_a_source(Lesson(NOTEBOOKS / "99_made_up.ipynb", "", notebook)))


@pytest.mark.parametrize(
    "words",
    [
        "It is .17, or −.17, and .640.",
        "With 1,024 of them, 8.3% are left.",
        "Each of 384 features; in 2017, lesson 05, section 3.2.1, exercise 03.2, `x = 77` and $x^{55}$.",
        "In [this](https://example.org/123) a head, L2.H9, of all-MiniLM-L6-v2 in float32.",
    ],
)
def test_a_number_that_stands_nearby_needs_no_source(words):
    assert not complaints(words)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("It is .18.", ".18"),
        ("About .64.", ".64"),
        ("With 1,025.", "1025"),
        ("8.4% are left.", "8.4"),
        ("385.", "385"),
        ("So $e^{.17} ≈ 1.19$.", "1.19"),
        ("| name | 1,024 | .65 |", ".65"),
        ("- **One**: .17.\n- **Two**: .66.", ".66"),
        ("9% are left.", "9"),
    ],
)
def test_a_stale_number_is_found(words, number):
    assert [each for each in complaints(words) if f"tells {number}," in each]


def test_a_number_from_far_away_says_so(monkeypatch):
    assert complaints("It is .17.", far=3)
    assert complaints("With 1,024 of them.", far=3)
    assert complaints("And 384% are left.", far=3)
    assert not complaints("Each of 384 features.", far=3)  # a size in the code holds for the whole lesson
    monkeypatch.setitem(numbers.SOURCES, "99", {".17": "cell shown"})
    assert not complaints("It is .17.", far=3)
    assert complaints("It is .17.", far=3, printed="It is .18.")
    monkeypatch.setitem(numbers.SOURCES, "99", {".17": "cell between-0"})
    assert complaints("It is .17.", far=3)


def test_a_number_in_the_words_of_an_error_counts():
    assert not complaints("It is .55.", error="got 0.55")


def test_a_number_in_a_comment_is_words_too():
    assert complaints("It is .55.", code="draw()  # .55")


@pytest.mark.parametrize(
    ("source", "is_one"),
    [
        ("= exp(2)", True),
        ("= exp(2) + .1", False),
        ("printed in Table 3 of the paper", True),
        ("lesson 14", False),  # which has no map, and so not its coordinates
        ("cell begin", False),
        ("Table 3", False),  # of which paper?
    ],
)
def test_a_source_is_computed_or_named(monkeypatch, source, is_one):
    monkeypatch.setitem(numbers.SOURCES, "99", {"7.39": source})
    assert bool(complaints("It is 7.39.")) is not is_one


def test_a_source_without_a_number_is_told(monkeypatch):
    monkeypatch.setitem(numbers.SOURCES, "99", {"7.39": "= exp(2)"})
    assert "no text tells it" in complaints("It is .17.")[0]
