"""A wave goes as its digit does."""

import numpy as np

from transformer_course import figures


def test_a_wave_is_high_where_its_digit_is_one():
    panels = figures.digits_and_waves(3, title="").axes
    for ax, digits in zip(panels, ["00001111", "00110011", "01010101"], strict=True):
        assert [f"{bar.get_height():.0f}" for bar in ax.patches] == list(digits)
        x, y = ax.lines[0].get_data()
        high = np.interp(range(8), x, y) > 0.5
        assert "".join("01"[int(each)] for each in high) == digits
