"""What is published while a cell runs."""

import pytest

from transformer_course.figures import explorer, interactive, sliders, speed_and_scale


class Published(list):
    """The outputs of a cell (data, metadata), in order, and what passing outputs have shown."""

    def __init__(self) -> None:
        super().__init__()
        self.passing = []

    def __call__(self, data: dict, metadata: dict | None = None, **more: object) -> None:
        (self.passing if more else self).append((data, metadata))


@pytest.fixture
def published(monkeypatch) -> Published:
    bundles = Published()
    for module in (explorer, interactive, sliders, speed_and_scale):
        monkeypatch.setattr(module, "publish_display_data", bundles)
    return bundles
