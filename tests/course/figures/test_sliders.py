"""A slider moves over pictures, and leaves a strip of them where no kernel runs."""

import ipywidgets

from transformer_course import figures


def test_a_slider_moves_over_pictures_and_leaves_a_strip(monkeypatch, published):
    boxes, make_box = [], ipywidgets.VBox
    monkeypatch.setattr(ipywidgets, "VBox", lambda *parts: boxes.append(make_box(*parts)) or boxes[-1])
    draw = lambda ax, value: ax.plot([0, value], label="way")  # noqa: E731
    figures.slider(draw, "angle", [1, 2, 3], strip=[3, 1], title="It turns", size=(1.5, 1), across=1)
    (live,), (data, metadata) = published
    assert "application/vnd.jupyter.widget-view+json" in live and "image/png" not in live
    about = metadata["image/png"]
    assert "It turns" in about["alt"] and about["height"] > about["width"]  # one picture below the other
    stops, frames = about["stops"], about["stops"]["frames"]
    assert (stops["name"], stops["first"]) == ("angle", 2)  # it begins where the strip does
    assert [frame["stop"] for frame in frames] == ["angle = 1", "angle = 2", "angle = 3"]
    assert len({frame["png"] for frame in frames}) == 3
    assert "2 points: (0, 0) (1, 2)" in frames[1]["contents"]  # of a picture that the strip has not
    assert "angle = 2: “way” from 0 to 2" in data["text/plain"]
    chooser, picture = boxes[0].children
    assert frames[2]["png"] in picture.value
    chooser.value = 1
    assert frames[1]["png"] in picture.value and 'role="status">angle = 2' in picture.value
