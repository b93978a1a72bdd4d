"""What stands in a panel, as tests read it."""

from matplotlib.colors import to_hex
from matplotlib.text import Annotation


def words(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def arrows(ax):
    """Start and end of every arrow."""
    drawn = [text for text in ax.texts if isinstance(text, Annotation) and text.arrow_patch]
    return [(text.xyann, text.xy) for text in drawn]


def boxed(ax):
    """The numbers and words that have a frame, each with its hatch or colour."""
    boxes = [(patch.get_window_extent(), patch) for patch in ax.patches]
    places = [(text.get_text(), ax.transData.transform(text.get_position())) for text in ax.texts]
    found = [(text, patch) for text, place in places for box, patch in boxes if box.contains(*place)]
    return [(text, patch.get_hatch() or to_hex(patch.get_facecolor())) for text, patch in found]
