"""A lesson's first cell sets all that its numbers and its figures depend on, whatever was set before."""

import inspect
import random
import warnings
from collections.abc import Iterator

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt

from transformer_course import lesson
from transformer_course.lessons import LESSONS, NAMES
from transformer_lab import Encoder, attention_weights


@pytest.fixture(autouse=True)
def settings_restored() -> Iterator[None]:
    printed = np.get_printoptions()
    with warnings.catch_warnings(), mpl.rc_context():
        yield
    np.set_printoptions(**printed)
    torch.set_printoptions(profile="default")
    plt.close("all")


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
    def drawn(number: int) -> tuple[float, ...]:
        lesson.begin(number)
        return torch.rand(()).item(), np.random.rand(), random.random()

    numbers = range(len(NAMES))
    assert [drawn(number) for number in numbers] == [drawn(number) for number in numbers]
    assert all(len({*each}) == len(NAMES) for each in zip(*map(drawn, numbers), strict=True))


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
