"""The first cell of every lesson: the same numbers and the same pictures on every machine."""

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
from transformer_course.workspace.name_error_hint import watch
from transformer_lab.pretrained_encoder import find_model

STYLE = {
    "figure.dpi": 90,  # pixels of the page to an inch; the picture has twice as many
    "figure.facecolor": "white",  # opaque: labels stay readable on JupyterLab's dark theme
    "savefig.facecolor": "white",
    "figure.figsize": (6.4, 4.0),
    "axes.titlesize": 10.5,  # a panel's label; the figure's claim stands above it, larger
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def begin(number: int) -> None:
    """Set all that a lesson's numbers and pictures depend on, whatever was set before.

    Float64, one thread and fixed seeds make what is printed the same on every processor. One thread is also
    much faster on tensors as small as a lesson's. In a notebook, every figure shown carries its description.

    Raises:
        ValueError: if there is no lesson of that number.
    """
    if number not in range(len(NAMES)):
        raise ValueError(
            f"there is no lesson {number!r}: lessons go from 0 to {len(NAMES) - 1}; give the number "
            "that the notebook's file name begins with, and enter a new lesson in lessons.py"
        )
    warnings.simplefilter("ignore")  # their text names files of this machine
    _set_arithmetic(seed=number)
    _set_number_format()
    plt.close("all")
    shell = get_ipython()
    _tell_if_the_model_is_missing()
    if shell is not None:
        _describe_figures(shell)
        watch(shell)
    plt.style.use(["default", "petroff10", STYLE])  # petroff10: colours told apart with any colour vision


def _tell_if_the_model_is_missing() -> None:
    try:
        find_model()
    except FileNotFoundError as error:
        print(f"What follows needs a real model in places, and fails there: {error}.")


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
    select_figure_formats(shell, ())  # the pictures come from our bundle alone
    shell.display_formatter.mimebundle_formatter.for_type(Figure, mime_bundle)


def show_source(*things: type | Callable) -> None:
    """Show the source of classes and functions as it is in their modules."""
    for thing in things:
        display(Markdown(f"```python\n{inspect.getsource(thing)}```"))
