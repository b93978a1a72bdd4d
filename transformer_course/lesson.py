"""Set up a lesson in its first cell, so that its numbers and figures are the same on every machine."""

import inspect
import random
import warnings
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython import InteractiveShell, get_ipython
from IPython.core.pylabtools import select_figure_formats
from IPython.display import Markdown, display
from matplotlib.figure import Figure

from transformer_course.figures.png import mime_bundle
from transformer_course.lessons import NAMES
from transformer_course.workspace import name_error_hint, predictions
from transformer_course.workspace.progress import progress
from transformer_lab.pretrained_encoder import find_model

__all__ = ["begin", "progress", "show_source"]

STYLE = {
    "figure.dpi": 90,  # page pixels per inch; the stored picture has twice as many
    "figure.facecolor": "white",  # opaque: labels stay readable on JupyterLab's dark theme
    "savefig.facecolor": "white",
    "figure.figsize": (6.4, 4.0),
    "axes.titlesize": 10.5,  # a panel's title; the figure's title is larger
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def begin(number: int) -> None:
    """Set everything that a lesson's numbers and figures depend on.

    Float64, one thread and fixed seeds make the printed values the same on every processor. One thread is
    also much faster for tensors as small as a lesson's. In a notebook, every figure is shown with its
    alternative text.

    Raises:
        ValueError: there is no lesson with this number.
    """
    if number not in range(len(NAMES)):
        raise ValueError(
            f"there is no lesson {number!r}: lessons go from 0 to {len(NAMES) - 1}; give the number "
            "at the start of the notebook's file name, and enter a new lesson in lessons.py"
        )
    warnings.simplefilter("ignore")  # a warning contains paths of this machine
    _set_arithmetic(seed=number)
    _set_number_format()
    plt.close("all")
    shell = get_ipython()
    _tell_if_the_model_is_missing()
    if shell is not None:
        _describe_figures(shell)
        name_error_hint.watch(shell)
        predictions.watch(shell, number)
    plt.style.use(["default", "petroff10", STYLE])  # petroff10: distinguishable with any colour vision


def _tell_if_the_model_is_missing() -> None:
    try:
        find_model()
    except FileNotFoundError as error:
        print(f"Some cells of this lesson need a pretrained model and will fail: {error}.")


def _set_arithmetic(seed: int) -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_default_device(None)
    torch.set_num_threads(1)
    torch.set_grad_enabled(True)
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def _set_number_format() -> None:
    torch.set_printoptions(precision=3, threshold=1000, edgeitems=3, linewidth=100, sci_mode=False)
    np.set_printoptions(
        precision=3, threshold=1000, edgeitems=3, linewidth=100, suppress=True, sign="-", floatmode="maxprec"
    )


def _describe_figures(shell: InteractiveShell) -> None:
    shell.run_line_magic("matplotlib", "inline")
    select_figure_formats(shell, ())  # pictures come only from our own MIME bundle
    shell.display_formatter.mimebundle_formatter.for_type(Figure, mime_bundle)


def show_source(*things: type | Callable) -> None:
    """Show the source of classes and functions."""
    for thing in things:
        display(Markdown(f"```python\n{inspect.getsource(thing)}```"))
