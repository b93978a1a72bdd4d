"""What is found is marked where its number is, and bars are shares."""

from matplotlib.colors import to_hex

from transformer_course import figures
from transformer_course.figures.colours import COMPONENTS, HERO


def test_searches_name_what_is_furthest():
    answers = {"a": 0, "b": 1}
    (ax,) = figures.searches([[0.5, 0.2, 0.7], [0.1, 0.9, 0.3]], answers, ["x", "y", "z"], title="").axes
    others, own, wrong = (each.get_offsets().tolist() for each in ax.collections)
    assert own == [[0.5, 0], [0.9, 1]] and others == [[0.2, 0], [0.7, 0], [0.1, 1], [0.3, 1]]
    assert wrong == [[0.7, 0]]  # where the row's furthest is
    written = {text.get_text().strip(): text.get_color() for text in ax.texts}
    assert written[".70  z ✗"] == HERO and written[".90  y ✓"] == "black" and "should be: x" in written


def test_bars_are_shares_of_whatever_they_are_told_to_be_of():
    (ax,) = figures.parameter_bars({"x": {"a": 0.5, "b": 1.5}}, title="", of="time").axes
    assert [bar.get_width() for bar in ax.patches] == [0.25, 0.75]
    assert ax.get_xlabel() == "share of the time"
    look = {"title": "", "together": "both", "ends": ["b", "c"]}
    (ax,) = figures.parameter_bars({"x": {"a": 3, "b": 0.99, "c": 0.01}}, **look).axes
    assert [text.get_text() for text in ax.texts] == ["75.0%", "24.8%", "", "both: 25.0%"]
    assert [bool(bar.get_hatch()) for bar in ax.patches] == [False, True, True]


def test_a_part_has_the_colour_of_its_component_and_others_have_their_own():
    names = ["attention: projections", "norm", "a", "b"]
    (ax,) = figures.parameter_bars({"x": dict.fromkeys(names, 1)}, title="").axes
    colours = {name: to_hex(bar.get_facecolor()) for name, bar in zip(names, ax.patches, strict=True)}
    assert colours["attention: projections"] == COMPONENTS["attention"]
    assert colours["norm"] == COMPONENTS["norm"]
    assert len(set(colours.values())) == 4
