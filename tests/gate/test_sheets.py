"""A sheet has every picture of both, and one that is as it was only once."""

import base64
import io
import json

from PIL import Image

from tools.contact_sheets import BETWEEN, pictures, sheet


def stored(**shown):
    cells = []
    for name, (size, colour) in shown.items():
        Image.new("RGB", size, colour).save(buffer := io.BytesIO(), "png")
        data = {"image/png": base64.b64encode(buffer.getvalue()).decode()}
        cells.append({"id": name, "outputs": [{"text": "a line"}, {"data": data}]})
    return pictures(json.dumps({"cells": [{"id": "words"}, *cells]}))


def test_what_was_stands_at_the_left_and_what_is_new_or_changed_beside_it():
    before = stored(same=((5, 3), "red"), changed=((7, 2), "red"), gone=((2, 2), "blue"))
    now = stored(same=((5, 3), "red"), changed=((4, 6), "green"), new=((3, 1), "blue"))
    assert [*before] == ["same 0", "changed 0", "gone 0"] and pictures("") == {}
    paper, right = sheet(before, now), 7 + BETWEEN
    assert paper.size == (right + 4, 3 + 6 + 2 + 1 + 4 * BETWEEN + 1)
    second = 3 + BETWEEN
    assert paper.getpixel((0, 0)) == (255, 0, 0) and paper.getpixel((right, 0)) == (255, 255, 255)
    assert paper.getpixel((0, second)) == (255, 0, 0) and paper.getpixel((right, second)) == (0, 128, 0)
    last = paper.height - 1 - BETWEEN - 1
    assert paper.getpixel((0, last)) == (255, 255, 255) and paper.getpixel((right, last)) == (0, 0, 255)
