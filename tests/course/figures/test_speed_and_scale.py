"""Tiles are reckoned as written, bytes are counted, and what is measured is drawn."""

import re

import numpy as np
import pytest

from transformer_course import figures
from transformer_course.figures import layout, speed_and_scale
from transformer_course.figures.colours import HERO


def words(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def test_what_a_pencil_reckons_from_the_numbers_of_a_tile_is_what_is_written_and_nearly_attention():
    generator = np.random.default_rng(0)
    for scores, values in generator.normal(size=(20, 2, 6)):
        ax = layout.canvas(1, (3, 3))[1][0]
        figures.draw_tile(ax, [scores], 2, (1, 2), values)
        lines = ax.get_xlabel().splitlines()[-2:]
        for line in lines:
            sides = line.split(": ")[1].replace("−", "-").replace("·", "*").split(" ≈ ")
            terms, told = (re.sub(r"(?<![\d.])0+(?=\d)", "", side) for side in sides)
            assert eval(terms) == pytest.approx(float(told), abs=0.00501)
        (output,) = [
            float(text.get_text().replace("−", "-")) for text in ax.texts if text.get_weight() == "bold"
        ]
        weights = np.exp(scores) / np.exp(scores).sum()
        assert output == pytest.approx(weights @ values, abs=0.03)


def test_every_byte_that_goes_to_and_fro_is_counted_and_the_map_moves_in_steps_only():
    steps, fused = figures.memory_traffic(1000, 100, 2, 250, title="").axes
    # q, k, v and the output have 100,000 numbers each, a map a million
    told = {
        "q, k\n400 kB",
        "scores\n2,000 kB",
        "weights\n2,000 kB",
        "v,\nweights\n2,200 kB",
        "output\n200 kB",
    }
    assert told == {text.get_text() for text in steps.texts if text.get_color() == HERO}
    assert steps.get_title() == "Step by step: 8,800 kB are moved"  # the scores twice
    told = {text.get_text() for text in fused.texts if text.get_color() == HERO}
    assert told == {"q\n200 kB", "k\n200 kB", "v\n200 kB", "output\n200 kB"}
    assert fused.get_title() == "Fused: 800 kB are moved"
    assert "scores, 1000 × 250" in words(fused) and any("4 rounds" in word for word in words(fused))


def draw_count(numbers, where):
    title = f"{numbers['count']} beads on {where}"
    return figures.line_plot([1, 2], {"a": [1, numbers["count"]]}, xlabel="", ylabel="", title=title)


def test_an_example_stands_below_the_button_and_nothing_was_measured(published, examples):
    figures.measured("beads", lambda: pytest.fail("measured without being asked"), draw_count)
    (live,), (data, metadata) = published
    assert list(live) == [
        "application/vnd.jupyter.widget-view+json"
    ]  # no text: nbval would miss it in the file
    assert "7 beads on an abacus" in data["text/plain"]
    assert metadata["image/png"]["alt"]


def test_what_is_measured_may_be_told_in_lines(published, examples):
    tell = lambda numbers, where: f"beads & co., on {where}:\n{numbers['count']}"  # noqa: E731
    figures.measured("beads", dict, tell)
    assert published[1][0] == {"text/plain": "beads & co., on an abacus:\n7"}
    box = speed_and_scale.Measurement(lambda: {"count": 5}, tell)
    box.button.click()
    assert box.picture.value == "<pre>beads &amp; co., on this machine:\n5</pre>"


def test_what_cannot_be_measured_is_told_and_the_last_picture_stays(quick):
    box = speed_and_scale.Measurement(lambda: {"count": 5}, draw_count)
    box.button.click()
    picture = box.picture.value

    def fail():
        raise RuntimeError("no compiler <here>.")

    box.measure = fail
    box.button.click()
    assert "could not be measured: no compiler &lt;here&gt;.</p>" in box.words.value
    assert box.picture.value == picture and not box.button.disabled


@pytest.fixture
def examples(monkeypatch, tmp_path):
    file = tmp_path / "examples.json"
    file.write_text('{"machine": "an abacus", "numbers": {"beads": {"count": 7}}}', encoding="utf-8")
    monkeypatch.setattr(speed_and_scale, "EXAMPLES", file)
