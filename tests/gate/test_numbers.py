"""The gate finds an outdated number in the prose around an output."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.gate import numbers
from tests.gate.notebook_io import NOTEBOOKS, Lesson


def complaints(
    words, *, code="draw(384)", printed="0.17 of .640, 1,024 in all, 8.30 and 0.083", far=0, error=""
):
    """Return the complaints about this prose, `far` cells after a cell that prints numbers."""
    outputs = [new_output("stream", text=printed), new_output("error", ename="E", evalue=error)]
    cell = new_code_cell(code, id="shown", outputs=outputs)
    between = [new_code_cell("pass", id=f"between-{i}") for i in range(far)]
    heading = new_markdown_cell("# Title\n\n**It takes** about 75 minutes.", id="title")
    prose = new_markdown_cell(f"## The problem\n\n{words}", id="words")
    notebook = new_notebook(cells=[heading, cell, *between, prose])
    return list(numbers.numbers_have_a_source(Lesson(NOTEBOOKS / "99_made_up.ipynb", "", notebook)))


@pytest.mark.parametrize(
    "words",
    [
        "It is .17, or −.17, and .640. With 1,024 of them, 8.3% are left.",
        "Each of 384 features; in 2017, lesson 05, section 3.2.1, exercise 03.2, `x = 77` and $x^{55}$.",
        "In [this](https://example.org/123) a head, L2.H9, of all-MiniLM-L6-v2 in float32.",
        "From .17 to .640 it grows by .47. 12 · 42 = 504, and √.17 ≈ .41.",
        "$e^2 ≈ 7.39$, and 384 · 12 + 5 = 4,613.",
        "A bias of 10⁻⁵ is divided by 384: .000000026.",
    ],
)
def test_a_number_that_is_printed_or_follows_from_others_needs_no_source(words):
    assert not complaints(words)


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("It is .18.", ".18"),
        ("With 1,025.", "1025"),
        ("It is 17.", "17"),
        ("8.4% are left.", "8.4"),
        ("So $e^{.17} ≈ 1.20$.", "1.20"),
        ("| name | 1,024 | .65 |", ".65"),
        ("From .17 to .640 it grows by .48.", ".48"),
        ("It is 12 · 42.\n\nThat is 504.", "504"),
    ],
)
def test_a_stale_number_is_found(words, number):
    assert any(f"has {number}," in complaint for complaint in complaints(words))


def test_a_number_from_far_away_needs_a_source(monkeypatch):
    assert complaints("It is .17.", far=3)
    assert not complaints(
        "1,024 features, each of 384.", far=3
    )  # a size in the code holds for the whole lesson
    assert complaints("And 384% are left.", far=3)
    for source, is_enough in {"cell shown": True, "cell gone": False, "Table 3": True}.items():
        monkeypatch.setitem(numbers.SOURCES, "99", {".17": source})
        assert bool(complaints("It is .17.", far=3)) != is_enough
    monkeypatch.setitem(numbers.SOURCES, "99", {".17": "cell shown"})
    assert complaints("It is .17.", far=3, printed="It is .18.")
    assert complaints("It is .17.") == ["numbers.toml has .17, which needs no source"]


def test_a_number_in_an_error_counts_and_a_number_in_a_comment_does_not():
    assert not complaints("It is .55.", error="got 0.55")
    assert complaints("It is .55.", code="draw()  # .55")
