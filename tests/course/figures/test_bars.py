"""Bars are as long as their numbers."""

from transformer_course import figures


def test_a_factor_too_small_for_two_decimals_has_three():
    columns = [{"a": [0.004, 0.25]}, {"b": [2.5, 4]}, {"c": [0.01, 1]}]
    told = [
        [text.get_text() for text in ax.texts]
        for ax in figures.bar_plot(columns, ["x", "y"], "×=", title="").axes
    ]
    assert {".004", ".250"} <= set(told[0]) and {"2.50", "=", ".01"} <= {*told[1], *told[2]}


def test_columns_of_one_quantity_share_colour_and_scale():
    figure = figures.bar_plot([{"a": [0.5, 1]}, {"b": [0.1, 0.2], "c": [0.4, 0]}], ["x", "y"], title="")
    first, second, third = figure.axes
    assert second.get_xlim() == third.get_xlim() != first.get_xlim()
    colours = [ax.patches[0].get_facecolor() for ax in figure.axes]
    assert colours[1] == colours[2] != colours[0]
    assert [bar.get_width() for bar in third.patches] == [0.4, 0]
