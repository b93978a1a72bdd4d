"""What widgets publish, and their pictures as the words that are written in them."""

import pytest
from matplotlib.text import Text

from transformer_course.figures import explorer, sliders, speed_and_scale, training


@pytest.fixture
def published(monkeypatch):
    bundles = []
    monkeypatch.setattr(sliders, "publish_display_data", lambda *bundle: bundles.append(bundle))
    return bundles


@pytest.fixture
def quick(monkeypatch):
    """A widget's picture becomes the texts in it, and isn't drawn."""

    def texts(figure):
        return " | ".join(text.get_text() for text in figure.findobj(Text))

    for module in (explorer, speed_and_scale, training):
        monkeypatch.setattr(module, "as_html", texts)
