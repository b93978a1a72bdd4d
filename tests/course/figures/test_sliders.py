"""A slider has a frame for each stop, and is a strip of pictures where no script runs."""

from html import unescape

import pytest

from tests.course.figures.drawn import still_and_data
from transformer_course import figures


def show(draw):
    figures.slider(draw, "angle", [1, 2, 3], strip=[3, 1], title="It turns", size=(1.5, 1), across=1)


def test_a_slider_is_one_plain_picture_with_a_frame_for_each_stop(published):
    drawn = []
    show(lambda ax, value: drawn.append(value) or ax.plot([0, value], label="way"))
    ((data, metadata),) = published
    still, slider = still_and_data(data["text/html"], "slider")
    assert still["src"] == f"data:image/png;base64,{data['image/png']}"
    about = metadata["image/png"]
    assert "It turns" in about["alt"] and about["alt"] == unescape(still["alt"])
    assert about["height"] > about["width"]  # one picture below the other
    assert (slider["name"], slider["first"]) == ("angle", 2)  # it begins where the strip does
    frames = slider["frames"]
    assert [frame["stop"] for frame in frames] == ["1", "2", "3"]
    assert len({frame["src"] for frame in frames}) == 3
    assert all(f"angle = {value}" in frame["alt"] for value, frame in enumerate(frames, 1))
    assert "2 points: (0, 0) (1, 2)" in about["contents"]  # of a picture that the strip has not
    assert "angle = 2: “way” from 0 to 2" in data["text/plain"]
    assert drawn == [3, 1, 2, 3, 1]  # the strip last, and no frame twice

    (before, _), (early, _), (after, _) = published.passing
    assert before == after == {}
    _, slider = still_and_data(early["text/html"], "slider")
    assert slider["frames"] == frames[2:] and "other pictures follow" in slider["wait"]
    assert (slider["first"], slider["last"]) == (2, 2)  # its handle is where it will be


def test_a_slider_that_cannot_be_drawn_leaves_no_picture(published):
    with pytest.raises(ZeroDivisionError):
        show(lambda ax, value: ax.plot([0, 1 / (value - 2)]))
    assert published == [] and published.passing[-1][0] == {}
