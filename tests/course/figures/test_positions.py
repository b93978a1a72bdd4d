"""Curves over positions and lengths stand where their numbers are, with the names they belong to."""

import math

import numpy as np

from transformer_course import figures
from transformer_course.figures.layout import LINES

LABELS = {"xlabel": "", "ylabel": "", "title": ""}
LENGTHS = [32, 64, 128]
RUNS = {"rotary": [[1.0, 0.9, 0.7], [1.0, 0.7, 0.5]], "added": [[0.9, 0.4, 0.2]]}


def test_curves_apart_share_their_scale_and_mark_the_same_places():
    named = {"low": [0.0, 1.0, math.nan], "high": [2.0, 5.0, 3.0]}
    figure = figures.curves_apart([0, 10, 20], named, **LABELS, places={"seam": 12}, tops=True)
    low, high = figure.axes
    assert [ax.get_title(loc="left") for ax in (low, high)] == ["low", "high"]
    assert low.get_ylim() == high.get_ylim()
    np.testing.assert_array_equal(low.lines[0].get_ydata(), named["low"])
    for ax, top in ((low, (10, 1)), (high, (10, 5))):
        assert [tuple(line.get_xydata()[0]) for line in ax.lines if line.get_marker() == "o"] == [top]
        assert [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == "--"] == [12]
    assert [text.get_text() for text in low.texts] == ["10", "seam"]
    assert [text.get_text() for text in high.texts] == ["10"]  # the place is named once


def test_each_run_is_a_thin_line_and_the_mean_a_thick_one_named_at_its_end():
    before = {"rotary, before": [[0.5, 0.3, 0.1]], "added, before": [[0.4, 0.2, 0.0]]}
    figure = figures.length_curves(LENGTHS, RUNS, trained=32, chance=0.25, title="", before=before)
    (ax,) = figure.axes
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(lines["rotary"].get_ydata(), [1.0, 0.8, 0.6])
    np.testing.assert_allclose(lines["added, before"].get_ydata(), [0.4, 0.2, 0.0])
    thin = [line for line in ax.lines if line.get_linewidth() < 1]
    np.testing.assert_allclose([line.get_ydata() for line in thin], RUNS["rotary"] + RUNS["added"])
    ends = {text.get_text(): text.xy for text in ax.texts if text.get_text() in lines}
    assert ends == {name: tuple(lines[name].get_xydata()[-1]) for name in (*RUNS, *before)}
    for now, then, colour in zip(RUNS, before, LINES, strict=False):  # one kind, one colour
        assert lines[now].get_color() == lines[then].get_color() == colour
        assert (lines[now].get_linestyle(), lines[then].get_linestyle()) == ("-", "--")
    marked = [line for line in ax.lines if line.get_linestyle() == "--" and len(set(line.get_xdata())) == 1]
    assert [line.get_xdata()[0] for line in marked] == [32]
    assert {"chance", "length in training"} <= {text.get_text() for text in ax.texts}


def test_a_wave_is_high_where_its_digit_is_one():
    panels = figures.digits_and_waves(3, title="").axes
    for ax, digits in zip(panels, ["00001111", "00110011", "01010101"], strict=True):
        assert [f"{bar.get_height():.0f}" for bar in ax.patches] == list(digits)
        x, y = ax.lines[0].get_data()
        high = np.interp(range(8), x, y) > 0.5
        assert "".join("01"[int(each)] for each in high) == digits
