"""What stands in a panel, as tests read it."""

from matplotlib.text import Annotation


def words(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


def arrows(ax):
    """Start and end of every arrow."""
    drawn = [text for text in ax.texts if isinstance(text, Annotation) and text.arrow_patch]
    return [(text.xyann, text.xy) for text in drawn]
