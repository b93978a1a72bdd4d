"""Every figure is closed, refused beyond its scale, and never random."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text

from tests.gate.lint_notebooks import random_plots
from transformer_course import figures
from transformer_course.figures.layout import canvas, finished

TOKENS = ["$x$", "b", "$"]
WEIGHTS = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5]])


def test_no_figure_is_left_open_or_draws_random_numbers():
    """pyplot keeps what it opens; a jitter, or an error bar over resampled runs, differs from run to run."""
    for path in Path(figures.__file__).parent.glob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert "pyplot" not in re.sub(r'""".*?"""', "", source, flags=re.DOTALL), path
        assert list(random_plots(source)) == [], path


def test_a_dollar_is_a_dollar_and_no_formula():
    figure, (ax,) = canvas(1, (3, 3))
    ax.text(0, 0, "$y$")
    finished(figure, "$x$", "A panel with one word in it, and nothing else.")
    for drawn in (figure, figures.attention_heatmap(WEIGHTS, TOKENS, title="$t$")):
        drawn.draw_without_rendering()  # ticks are named while they are drawn
        dollars = [text for text in drawn.findobj(Text) if "$" in text.get_text()]
        assert len(dollars) >= 2 and not any(text.get_parse_math() for text in dollars)


def test_no_number_is_drawn_as_the_end_of_its_scale():
    figures.attention_heatmap(WEIGHTS + 2e-7, TOKENS)  # what rounding may do
    for off in (-WEIGHTS * 3, WEIGHTS * 3):
        with pytest.raises(ValueError, match=r"on the scale from .* to .*, got .* to .*; widen"):
            figures.attention_heatmap(off, TOKENS)
        with pytest.raises(ValueError, match=r"on the scale from .* to .*, got .* to .*; widen"):
            figures.cosine_heatmaps({"": off}, TOKENS)
    figures.draw_matrix(Figure().add_subplot(), WEIGHTS * 0, TOKENS, TOKENS)


def test_seaborn_is_imported_by_the_first_figure_that_needs_it():
    """It takes two seconds, which a lesson's first cell is not to pay."""
    program = "import sys; from transformer_course import figures, lesson; sys.exit('seaborn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_redraw_that_heatmaps_do_without_is_still_seaborns():
    """A private name: where it is gone, `draw_cells` would leave nothing out, and be slow."""
    import seaborn

    before = seaborn.matrix._draw_figure
    figures.attention_heatmap(WEIGHTS, TOKENS)
    assert seaborn.matrix._draw_figure is before
