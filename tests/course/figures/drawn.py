"""What stands in a panel, as tests read it."""

import json
import re
from html import unescape

from matplotlib.text import Annotation


def words(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def arrows(ax):
    """Start and end of every arrow."""
    drawn = [text for text in ax.texts if isinstance(text, Annotation) and text.arrow_patch]
    return [(text.xyann, text.xy) for text in drawn]


def still_and_data(html, name):
    """The <img> that remains where no script runs, and what its script reads."""
    (tag,) = re.findall(r"<\w+", html)
    assert tag == "<img"
    attributes = dict(re.findall(r'([\w-]+)="([^"]*)"', html))
    assert "this.replaceWith(box)" in unescape(attributes["onload"])
    return attributes, json.loads(unescape(attributes[f"data-{name}"]))
