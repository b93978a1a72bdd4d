"""A lesson's first cell sets all that its numbers and its figures depend on, whatever was set before."""

import inspect
import random
import warnings
from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from transformer_course import lesson
from transformer_course.lessons import LESSONS, NAMES
from transformer_lab import Encoder, attention_weights


def settings_kept() -> None:
    """Everything."""


@pytest.fixture(autouse=True)
def settings_restored() -> Iterator[None]:
    printed = np.get_printoptions()
    with warnings.catch_warnings(), mpl.rc_context():
        yield
    np.set_printoptions(**printed)
    torch.set_printoptions(profile="default")
    plt.close("all")


def drawn_numbers() -> list[float]:
    return [torch.rand(()).item(), np.random.rand(), random.random()]


@pytest.mark.parametrize("number", [len(LESSONS), "3"])
def test_unknown_lesson_is_refused(number: object) -> None:
    told = rf"no lesson {number!r}: lessons go from 0 to {len(LESSONS) - 1}"
    with pytest.raises(ValueError, match=told):
        lesson.begin(number)


def test_source_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list = []
    monkeypatch.setattr(lesson, "display", lambda markdown: shown.append(markdown.data))
    lesson.show_source(attention_weights, Encoder.embed)
    assert shown == [
        f"```python\n{inspect.getsource(each)}```" for each in (attention_weights, Encoder.embed)
    ]


def test_every_lesson_repeats_its_own_random_numbers() -> None:
    drawn = {}
    for number in range(len(NAMES)):
        lesson.begin(number)
        drawn[number] = drawn_numbers()
        lesson.begin(number)
        assert drawn_numbers() == drawn[number]
    assert len({tuple(numbers) for numbers in drawn.values()}) == len(NAMES)


def test_settings_do_not_depend_on_what_was_set_before() -> None:
    lesson.begin(3)
    style, numpy_format = dict(mpl.rcParams), np.get_printoptions()
    torch.set_default_dtype(torch.float32)
    torch.set_default_device("meta")
    torch.set_num_threads(2)
    torch.set_printoptions(precision=9, sci_mode=True, threshold=2)
    np.set_printoptions(precision=9, threshold=2, floatmode="fixed")
    mpl.rcParams.update(
        {"figure.dpi": 200, "figure.facecolor": "none", "image.cmap": "jet", "lines.linewidth": 9}
    )
    plt.figure()
    with torch.no_grad():
        lesson.begin(3)
        assert torch.is_grad_enabled()
    assert (dict(mpl.rcParams), np.get_printoptions()) == (style, numpy_format)
    assert str(torch.tensor([1 / 3, 1e-7])) == "tensor([0.333, 0.000])"
    assert torch.zeros(1).dtype == torch.float64
    assert torch.zeros(1).device == torch.device("cpu")
    assert torch.get_num_threads() == 1
    assert plt.get_fignums() == []


def test_warnings_stay_out_of_the_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    lesson.begin(3)
    warnings.warn("noise", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == ""


class Shell(InteractiveShell):
    """A notebook's shell, without a kernel."""

    def enable_gui(self, gui: str | None = None) -> None:
        pass


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """Return a notebook's shell, as `get_ipython` would."""
    shell = Shell.instance()
    monkeypatch.setattr(lesson, "get_ipython", lambda: shell)
    backend = mpl.get_backend()
    yield shell
    plt.switch_backend(backend)
    Shell.clear_instance()


def test_figure_is_shown_with_its_words(shell: InteractiveShell) -> None:
    for _ in range(2):  # a first cell may be run again
        lesson.begin(3)
    figure = Figure()
    figure.subplots().set_title("Weights")
    data, metadata = shell.display_formatter.format(figure)
    assert data["text/plain"].startswith("Figure: “Weights”.")
    assert data["text/html"].startswith('<img alt="Figure: “Weights”.')
    assert metadata["image/png"]["alt"].startswith("Figure: “Weights”.")


def test_picture_is_opaque_and_the_same_each_time(shell: InteractiveShell) -> None:
    lesson.begin(3)
    figure = Figure()
    figure.subplots().plot([1, 2])
    first, second = (shell.display_formatter.format(figure)[0]["image/png"] for _ in range(2))
    assert first == second
    assert figure.get_facecolor() == (1, 1, 1, 1)
    assert "Software" not in first
