"""What moves is drawn where it is at each moment, and as large as it is."""

import re

import numpy as np
import pytest
from matplotlib.colors import to_hex

from transformer_course import figures
from transformer_course.figures import layout
from transformer_course.figures.colours import HERO


def words(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def test_a_tile_shows_its_scores_and_what_is_kept_of_all_before():
    ax = layout.canvas(1, (3, 3))[1][0]
    figures.draw_tile(ax, [[0, 1, 2], [3, 4, 5]], 1, (1, 1), [1, 2, 0])
    told = words(ax)
    assert told.count("forgotten") == 1
    assert ax.get_xlabel().splitlines() == [
        "q0: e^0 = 1",
        "the largest has grown: what was held, times e^(.00 − 1.00) ≈ .37",
        "sum: 1.00 · .37 + 1 ≈ 1.37",
        "mixture: 1.00 · .37 + 1 · 2.00 ≈ 2.37",
    ]
    assert told[0] == "1"  # the score of the tile, larger than that before it
    assert ax.xaxis.label.get_color() == HERO
    assert {"largest", ".00\n→ 1.00", "1.00\n→ 1.37", "1.00\n→ 2.37"} <= set(told)
    assert ax.collections[0].get_array().ravel().tolist() == [-1, 0, 1, 1, 1, 1]


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


def test_an_arrow_between_the_memories_is_as_thick_as_its_bytes_and_points_where_they_go():
    (steps, _) = figures.memory_traffic(1000, 100, 2, 250, title="").axes
    arrows = [text.arrow_patch for text in steps.texts if getattr(text, "arrow_patch", None)]
    ends = [(round(text.xyann[0], 1), text.xy[0]) for text in steps.texts if hasattr(text, "xyann")]
    assert [start < end for start, end in ends] == [True] * 3 + [False] * 3  # reads, then writes
    assert [each.get_linewidth() for each in arrows] == pytest.approx([1.6, 4, 4.3, 4, 4, 1.3])


def test_a_ring_ends_with_all_sums_everywhere_and_an_arrow_leaves_every_framed_piece():
    frames = figures.ring_of_three(title="").axes
    assert words(frames.pop(0)) == [f"worker {w}\ngradient {letter}" for w, letter in enumerate("abc")]
    for ax in frames:
        boxed = [p for p in ax.patches if to_hex(p.get_edgecolor()) == HERO and hasattr(p, "get_x")]
        feet = {(p.get_x() + p.get_width() / 2, p.get_y()) for p in boxed}
        starts = {each.xyann for each in ax.texts if hasattr(each, "xyann")}
        assert all(any(foot == pytest.approx(start) for start in starts) for foot in feet)
        assert len(boxed) == (0 if ax is frames[4] else 3)
    cells = [word for word in words(frames[0]) if "worker" not in word]
    assert cells == ["a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1", "c2"]
    cells = [word for word in words(frames[4]) if "worker" not in word]
    assert cells == ["a0+b0+c0", "b1+c1+a1", "c2+a2+b2"] * 3


def test_what_a_token_has_heard_of_grows_by_each_window_and_ends_with_the_text():
    ax, below = figures.receptive_field({"": [1, 2, None, 1]}, 9, 3, title="").axes
    bars = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    assert bars[:4] == [(2, 3), (1, 5), (0, 9), (2, 3)]  # seen in this layer
    assert bars[4:] == [(2, 3), (0, 7), (0, 9), (0, 9)]  # heard of by now
    assert words(ax) == ["this token", "sees 3"] and ax.get_title() == "\nhears of 9 tokens"
    assert words(below) == ["0 million pairs"]
    # a window of 0: each of 2,000 tokens meets itself; a global layer: 4 million pairs
    below = figures.receptive_field({"": [0, None]}, 2_000, 3, title="").axes[1]
    assert words(below) == ["4 million pairs"]


def test_a_query_is_done_behind_its_last_tile_and_its_mixture_divided():
    ax = layout.canvas(1, (3, 3))[1][0]
    figures.draw_tile(ax, [[0, 0], [1, 1]], 1, (1, 1), [1, 2])
    assert {"2.00", "3.00", "1.50"} <= set(words(ax)[-12:])
    assert [label.get_text() for label in ax.get_xticklabels()] == ["k0", "k1\nv1\n2.00"]
