"""What moves is drawn where it is at each moment, and as large as it is."""

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
    assert [told.count("forgotten"), told.count("not yet")] == [1, 4]
    assert ax.get_xlabel() == "sum of q0: 1.00 · e^(.00 − 1.00) + 1 ≈ 1.37"
    assert told[0] == "1"  # the score of the tile
    # of query 0, after keys 0 and 1: largest 1, sum 1/e + 1, mixture 1/e · 1 + 1 · 2
    assert {"largest", "1.00", "1.37", "2.37"} <= set(told)
    assert ax.collections[0].get_array().ravel().tolist() == [-1, 0, 1, 1, 1, 1]


def test_a_packed_row_counts_its_places_and_stands_over_its_mask():
    batch, row, mask = figures.packed_row([["a", "b"], ["c"]], title="").axes
    assert "4 places, 1 of them" in batch.get_title("left") and "3 places" in row.get_title("left")
    assert words(row) == ["a", "b", "c"]
    assert mask.collections[0].get_array().tolist() == [
        [0, 0, 0],
        [0, 0, 0],
        [0, 0, 1],
    ]  # in the colours of the texts
    assert sum(each.get_hatch() is not None for each in mask.patches) == 4
    assert mask.get_xlim() == row.get_xlim()


def test_a_ring_ends_with_all_sums_everywhere_and_every_arrow_carries_what_is_framed():
    frames = figures.ring_of_three(title="").axes
    for ax in frames:
        framed = [p for p in ax.patches if to_hex(p.get_edgecolor()) == HERO]
        middles = [(p.get_x() + p.get_width() / 2, p.get_y() + p.get_height() / 2) for p in framed]
        inside = [t.get_text() for m in middles for t in ax.texts if t.get_position() == pytest.approx(m)]
        sent = [text.get_text() for text in ax.texts if text.get_color() == HERO]
        assert len(framed) == len(sent) and set(sent) == set(inside)
    pieces = [sorted(word) for word in words(frames[-1]) if "worker" not in word]
    assert pieces == [list("abc")] * 9


def test_what_a_token_has_heard_of_grows_by_each_window_and_ends_with_the_text():
    (ax,) = figures.reach({"": [1, 2, None, 1]}, 9, 3, title="").axes
    bars = [(bar.get_x(), bar.get_width()) for bar in ax.patches]
    assert bars[:4] == [(2, 3), (0, 7), (0, 9), (0, 9)]  # heard of by now
    assert bars[4:] == [(2, 3), (1, 5), (0, 9), (2, 3)]  # seen in this layer
    assert pytest.approx(3) == ax.lines[0].get_xdata()[0]
