"""Tiles are reckoned as written, bytes are counted, and what is measured is drawn."""

import re

import numpy as np
import pytest

from tests.course.figures.drawn import words
from transformer_course import figures
from transformer_course.figures import layout, speed_and_scale
from transformer_course.figures.colours import HERO


def test_what_a_pencil_reckons_from_the_numbers_of_a_tile_is_what_is_written_and_nearly_attention():
    for scores, values in np.random.default_rng(0).normal(size=(20, 2, 6)):
        ax = layout.canvas(1, (3, 3))[1][0]
        figures.draw_tile(ax, [scores], 2, (1, 2), values)
        for line in ax.get_xlabel().splitlines()[-2:]:
            sides = line.split(": ")[1].replace("−", "-").replace("·", "*").split(" ≈ ")
            terms, told = (re.sub(r"(?<![\d.])0+(?=\d)", "", side) for side in sides)
            assert eval(terms) == pytest.approx(float(told), abs=0.00501)
        (output,) = [text.get_text() for text in ax.texts if text.get_weight() == "bold"]
        weights = np.exp(scores) / np.exp(scores).sum()
        assert float(output.replace("−", "-")) == pytest.approx(weights @ values, abs=0.03)


def test_every_byte_that_goes_to_and_fro_is_counted_and_the_map_moves_in_steps_only():
    panels = figures.memory_traffic(1000, 100, 2, 250, title="").axes
    steps, fused = ({text.get_text() for text in ax.texts if text.get_color() == HERO} for ax in panels)
    # q, k, v and the output have 100,000 numbers each, a map a million
    maps = {"scores\n2,000 kB", "weights\n2,000 kB", "v,\nweights\n2,200 kB"}
    assert steps == {"q, k\n400 kB", "output\n200 kB", *maps}
    assert fused == {"q\n200 kB", "k\n200 kB", "v\n200 kB", "output\n200 kB"}
    titles = ["Step by step: 8,800 kB moved", "Fused: 800 kB moved"]  # the scores twice
    assert [ax.get_title() for ax in panels] == titles
    written = words(panels[1])
    assert "scores, 1000 × 250" in written and any("4 rounds" in word for word in written)


def draw_count(numbers, where):
    title = f"{numbers['count']} beads on {where}"
    return figures.line_plot([1, 2], {"a": [1, numbers["count"]]}, xlabel="", ylabel="", title=title)


def tell_count(numbers, where):
    return f"beads & co., on {where}:\n{numbers['count']}"


@pytest.fixture
def examples(monkeypatch, tmp_path):
    file = tmp_path / "examples.json"
    file.write_text('{"machine": "an abacus", "numbers": {"beads": {"count": 7}}}', encoding="utf-8")
    monkeypatch.setattr(speed_and_scale, "EXAMPLES", file)


def test_an_example_is_shown_and_nothing_is_measured_unless_asked(published, examples):
    figures.measured("beads", lambda: pytest.fail("measured without being asked"), draw_count)
    figures.measured("beads", lambda: pytest.fail("measured without being asked"), tell_count)
    (data, metadata), told = published
    assert "7 beads on an abacus" in data["text/plain"]
    assert metadata["image/png"]["alt"]
    assert told == ({"text/plain": "beads & co., on an abacus:\n7"}, {})
    assert published.passing == []


def test_what_is_measured_here_is_shown_in_place_of_the_example(published, examples):
    figures.measured("beads", lambda: {"count": 5}, tell_count, here=True)
    assert published == [({"text/plain": "beads & co., on this machine:\n5"}, {})]
    _, (waiting, _), (after, _) = published.passing
    assert "Measuring" in waiting["text/html"] and after == {}
