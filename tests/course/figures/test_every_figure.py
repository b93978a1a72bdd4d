"""Every figure is closed, described in a sentence, refused beyond its scale, and never random."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text

from tests.course.figures.colours import contrast
from tests.gate.lint_notebooks import random_plots
from transformer_course import figures
from transformer_course.figures.layout import canvas, finished

TOKENS = ["$x$", "b", "$"]
WEIGHTS = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5]])
MODULES = sorted(Path(figures.__file__).parent.glob("*.py"))
every_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
COLOUR_NAMES = r"\b(red|blue|green|orange|yellow|pink|grey|purple|black|white)\b"


def sentences(tree):
    """The constant sentences that a module's figures carry as alternative texts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "alt":
            yield node.value
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("finished"):
            yield from node.args[2:]


@every_module
def test_an_alternative_text_is_a_sentence_without_the_name_of_a_colour(path):
    for sentence in sentences(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(sentence, ast.Constant) and sentence.value:
            assert 20 < len(sentence.value) <= 160 and sentence.value.endswith("."), sentence.value
            assert not re.search(COLOUR_NAMES, sentence.value), sentence.value


@every_module
def test_a_figure_is_closed_because_pyplot_does_not_know_it(path):
    assert "pyplot" not in re.sub(r'""".*?"""', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


@every_module
def test_no_plot_draws_random_numbers(path):
    """An error bar over resampled runs, or a jitter, would be another one in the next run."""
    assert list(random_plots(path.read_text(encoding="utf-8"))) == []


def ground(text):
    """The colour that a text is written on."""
    place = text.get_window_extent().get_points().mean(axis=0)
    patches = [patch for ax in text.figure.axes for patch in ax.patches if patch.get_fill()]
    under = [patch.get_facecolor() for patch in patches if patch.contains_point(place)]
    return under[-1] if under and under[-1][3] else "white"


@pytest.mark.parametrize(
    "name", ["encoder_map", "norm_orders", "minilm_and_modernbert", "kinds_of_tests", "ring_of_three"]
)
def test_words_contrast_with_the_boxes_that_they_are_written_on(name):
    figure = getattr(figures, name)(**{} if name == "encoder_map" else {"title": ""})
    figure.draw_without_rendering()
    for text in (text for ax in figure.axes for text in ax.texts if text.get_text().strip()):
        assert contrast(text.get_color(), ground(text)) >= 4.5, text.get_text()


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
