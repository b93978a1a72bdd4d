"""Test the gate with planted faults: each of them must be caught and named, and sound cells must pass.

A single strict run covers everything: sound cells, the same cells with faults, two exercises, a learner's
    copy.
"""

import base64
import gc
import io
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import nbformat
import numpy as np
import pytest
from IPython.core.pylabtools import print_figure
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from tests.gate import plugin
from tests.gate.comparison import differences
from tests.gate.notebook_io import NOTEBOOKS, PICTURE, Lesson, as_text, code_cells
from tools.refresh import refresh
from transformer_course.figures import encoder_map
from transformer_course.figures.png import in_palette, palette_of
from transformer_course.workspace import copies

# nbval leaves the sockets of a stopped kernel to the garbage collector.
LEFT_OPEN = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
pytestmark = [pytest.mark.gate, LEFT_OPEN]


@pytest.fixture(scope="module", autouse=True)
def sockets_closed() -> Iterator[None]:
    """Close them before the tests of other files run, which turn warnings into errors."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


GATE = ("-p", "tests.gate.plugin", "-p", "no:cacheprovider", "-q", "--color=no")

BEGIN = """
    import sys

    import matplotlib.pyplot as plt
    import torch
    from IPython.display import HTML, clear_output, display

    from transformer_course import figures, lesson
    from transformer_course.figures.interactive import PassingOutput

    lesson.begin(3)
    queries, keys = torch.randn(4, 2), torch.randn(4, 2)


    def heatmap(aspect="equal", scale=1.4):
        figure, ax = plt.subplots(layout="constrained", figsize=(4, 3))
        mesh = ax.pcolormesh((queries @ keys.T / scale).softmax(-1))
        ax.set_xticks([0.5, 1.5, 2.5, 3.5], ["the", "cat", "sat", "down"])
        ax.set(xlabel="key", ylabel="query", title="Attention", aspect=aspect)
        figure.colorbar(mesh, label="weight")


    def turn(shift=0.0):
        draw = lambda ax, n: ax.plot([0, n + shift * (n > 1)])
        figures.slider(draw, "n", [1, 2], strip=[1], title="It turns")


    def curve(colour="tab:blue"):
        figure, ax = plt.subplots(figsize=(4, 3))
        ax.plot([0.9**step for step in range(50)], color=colour, label="loss")
"""
Plant = Callable[[NotebookNode], object]


def edited(before: str, after: str) -> Plant:
    def plant(cell: NotebookNode) -> None:
        assert before in cell.source
        cell.source = cell.source.replace(before, after)

    return plant


def _stale_and(tag: str) -> Plant:
    def plant(cell: NotebookNode) -> None:
        cell.outputs[0].text = "loss 1.0052\n"
        cell.metadata.tags = [tag]

    return plant


def recoloured(cell: NotebookNode, *place: slice, by: int) -> None:
    """Change one of three channels, by too little to be noticed in their mean."""
    data = cell.outputs[0].data
    pixels = np.array(Image.open(io.BytesIO(base64.b64decode(data[PICTURE]))).convert("RGB"))
    pixels[*place, 0] -= by
    data[PICTURE] = encoded(Image.fromarray(pixels))


def encoded(image: Image.Image) -> str:
    image.save(buffer := io.BytesIO(), "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


ADDED = new_output("display_data", {"text/plain": "more"})
LOSS = "print(f'loss {0.9**50:.4f}')"
UPDATE = "display(1, display_id='one').update(2)"
# For each fault: the source of the cell, a function that plants the fault, and the expected message.
FAULTS: dict[str, tuple[str, Plant, str]] = {
    "wrong-weights": ("heatmap()", edited("()", "(scale=2)"), "Largest in each row"),
    "aspect": ("heatmap()", edited("()", "(aspect='auto')"), "image/png: the size was"),
    "line-colour": ("curve()", edited("()", "('tab:red')"), "+  line “loss” #d62728"),
    "one-channel-of-a-picture": (
        "curve()",
        lambda cell: recoloured(cell, slice(10, 40), slice(10, 40), by=16),
        "pixels have changed",
    ),
    "other-alt": (
        "heatmap()",
        lambda cell: cell.outputs[0].metadata[PICTURE].update(alt="A."),
        "image/png alt",
    ),
    "moved-less-than-pictures-show": (
        "heatmap()",
        lambda cell: cell.outputs[0].metadata[PICTURE].update(contents="  arrow (0, 0) to (1, 1)"),
        "image/png contents",
    ),
    "wrong-tensor": ("queries", edited("queries", "queries + 0.1"), "tensor("),
    "wrong-verdict": ("HTML('<b>✓</b>')", edited("✓", "✗"), "text/html"),
    "deleted-output": (LOSS, lambda cell: cell.outputs.clear(), "0 output(s) stored, 1 now"),
    "added-output": (LOSS, lambda cell: cell.outputs.append(ADDED), "missing:\nkind"),
    "never-run": (LOSS, lambda cell: cell.update(execution_count=None, outputs=[]), "never run"),
    "swapped-outputs": (f"{LOSS}\ndisplay(1)", lambda cell: cell.outputs.reverse(), "kind"),
    "shown-not-returned": ("1 + 1", edited("1 + 1", "display(1 + 1)"), "+display_data"),
    "ignored-by-tag": (LOSS, _stale_and("nbval-ignore-output"), "-loss 1.0052"),
    "skipped-by-tag": (LOSS, _stale_and("nbval-skip"), "-loss 1.0052"),
    "ignored-by-comment": (LOSS, edited("print", "# NBVAL_IGNORE_OUTPUT\nprint(1), print"), "+1"),
    "to-stderr": ("print('loss')", edited("s')", "s', file=sys.stderr)"), "+stderr"),
    "rewritten": (LOSS, edited("print", "clear_output(); print"), "clear_output"),
    "updated": (LOSS, edited(LOSS, UPDATE), "+1"),
    "frame-of-a-slider": ("turn()", edited("()", "(shift=0.4)"), "text/html, picture 3: image/png:"),
    "new-error": (LOSS, edited("print", "print(1 / 0), print"), "ZeroDivisionError"),
    "error-in-other-words": ("int('three')", edited("three", "four"), "+invalid literal for int() with"),
    "error-of-another-kind": ("raise ValueError('x')", edited("Value", "Type"), "+TypeError"),
}
SOUND = {
    "progress": "with PassingOutput() as output:\n    output.show('half')",
    "progress-that-stays": "PassingOutput().show('done')",
    "hidden-result": "queries;",
    "error-expected": "1 / 0",
}


NAMED = ("see-it-heads", "see-it-heads-1")  # the ids that refresh gives to new cells, after their section


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a stored notebook with a cell for every fault, before any fault is planted."""
    sources = {name: source for name, (source, _, _) in FAULTS.items()} | SOUND
    cells = [new_code_cell(source, id=name) for name, source in sources.items()]
    for cell in cells:
        cell.metadata.tags = ["raises-exception"] if cell.id.startswith("error") else []
    cells.append(new_markdown_cell("## See it: 2 `heads`", id="see"))
    cells += [new_code_cell("1", id="0b5c7f1e"), new_code_cell("2", id="1b5c7f1e")]
    begin = [new_markdown_cell("# A lesson", id="title"), new_code_cell(dedent(BEGIN).strip(), id="begin")]
    path = tmp_path_factory.mktemp("gate") / "stored.ipynb"
    path.write_text(as_text(new_notebook(cells=begin + cells)), encoding="utf-8")
    assert refresh(path)
    error = next(cell for cell in Lesson.load(path).notebook.cells if cell.id == "error-expected")
    assert error.outputs[0].traceback == ["ZeroDivisionError: division by zero"], "frames name files"
    return path


class Reports:
    """A pytest plugin that records which cells are collected, how each one failed, and how long it took."""

    def __init__(self) -> None:
        self.names, self.failures, self.seconds = [], {}, {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.names = [item.name for item in session.items]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file, _, cell = report.nodeid.partition("::")
        name = f"{Path(file).stem}::{cell}"
        failure = report.longreprtext if report.failed else ""
        self.failures[name] = self.failures.get(name, "") + failure
        self.seconds[name] = self.seconds.get(name, 0) + report.duration


@pytest.fixture(scope="module")
def run(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """Run the gate once, on all notebooks of these tests."""
    folder, reports = tmp_path_factory.mktemp("run"), Reports()
    (folder / "copies").mkdir()
    made = {"faulty": faulty(stored), "exercises": with_exercises(), "copies/copy": copied()}
    for name, notebook in made.items():
        (folder / f"{name}.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_LESSONS", str(folder / "copies"))
        patch.setenv("MPLBACKEND", "svg")  # a user's setting, which lessons ignore
        pytest.main([*GATE, str(folder)], plugins=[reports])
    answers = [path.name for path in folder.rglob("answers/*")]
    assert answers == ["00.1.py"], "a copy keeps its answers, and nothing else does"
    return reports


def faulty(stored: Path) -> NotebookNode:
    """Return the stored cells, then the same cells with their faults; the last cell kills the kernel."""
    notebook, again = Lesson.load(stored).notebook, code_cells(Lesson.load(stored).notebook)[1:]
    for cell in again:
        if cell.id in FAULTS:
            FAULTS[cell.id][1](cell)
        cell.id = f"again-{cell.id}"
    dies = new_code_cell("import os\n\nos._exit(1)", id="dies", execution_count=1)
    notebook.cells += [*again, dies]
    return notebook


def with_exercises() -> NotebookNode:
    """Return two unsolved exercises of lesson 03, and a cell that shows whether the second one is solved."""
    lesson = Lesson.load(NOTEBOOKS / "03_scaled_dot_product_attention.ipynb").notebook
    names = ("begin", "hand-loops", "exercises-import", "exercise-03-1", "check-03-1")
    kept = (*names, "exercise-03-2", "check-03-2")
    lesson.cells = [cell for cell in lesson.cells if cell.id in kept]
    tell_tale = new_code_cell(
        "from transformer_course.exercises import find\nattention is find('03.2').reference",
        id="tell-tale",
        execution_count=1,
        outputs=[new_output("execute_result", {"text/plain": "True"}, execution_count=1)],
    )
    lesson.cells.append(tell_tale)
    return lesson


def copied() -> NotebookNode:
    """Return a copy of lesson 00 with an answer, a changed cell, and a cell of the learner's own."""
    name = "00_start_here.ipynb"
    copy = nbformat.from_dict(copies.fresh(copies.read(NOTEBOOKS / name), name))
    changes = {"exercise-00-1": "d_head = 384 // 12", "after-00-1": "print('twelve')"}
    for cell in copy.cells:
        cell.source = changes.get(cell.id, cell.source)
    copy.cells.append(new_code_cell("print('mine')", id="own"))
    return copy


@pytest.mark.parametrize("cell", ["begin", *FAULTS, *SOUND, *(f"again-{name}" for name in SOUND)])
def test_sound_cell_passes(cell: str, run: Reports) -> None:
    assert not run.failures[f"faulty::{cell}"]


@pytest.mark.parametrize("cell", FAULTS)
def test_planted_fault_is_caught_and_named(cell: str, run: Reports) -> None:
    assert FAULTS[cell][2] in run.failures[f"faulty::again-{cell}"]


def test_dead_kernel_is_noticed_at_once(run: Reports) -> None:
    assert "the kernel died" in run.failures["faulty::dies"]
    assert run.seconds["faulty::dies"] < 30


def failures_of(notebook: str, run: Reports) -> dict[str, str]:
    return {name: text for name, text in run.failures.items() if name.startswith(notebook) and text}


def test_answers_fit_the_references_and_what_tells_them_apart_is_caught(run: Reports) -> None:
    assert list(failures_of("exercises", run)) == ["exercises::solved-tell-tale"]
    assert "exercises::solved-check-03-2" in run.failures


def test_a_copy_is_run_beside_the_shipped_lesson(run: Reports) -> None:
    assert list(failures_of("copy", run)) == ["copy::after-00-1"]
    said = run.failures["copy::after-00-1"]
    cells = nbformat.read(NOTEBOOKS / "00_start_here.ipynb", as_version=4).cells
    ours = next(cell for cell in cells if cell.id == "after-00-1")
    assert f"the course's cell:\n{ours.source}" in said
    assert f"-{ours.outputs[0].text.strip()}\n+twelve" in said


@pytest.mark.parametrize(("keyword", "runs"), [("aspect", True), ("nothing", False)])
def test_notebook_runs_whole_or_not_at_all(keyword: str, runs: bool, stored: Path) -> None:
    pytest.main([*GATE, "--collect-only", "-k", keyword, str(stored)], plugins=[collected := Reports()])
    assert collected.names == (["begin", *FAULTS, *SOUND, *NAMED] if runs else [])


@pytest.mark.parametrize("option", ["--nbval", ""])
def test_nbval_alone_runs_where_it_is_asked_for_and_the_stricter_run_says_so(
    option: str, stored: Path, capsys: pytest.CaptureFixture
) -> None:
    options = [
        *GATE,
        "-c",
        str(NOTEBOOKS.parent / "pyproject.toml"),
        *option.split(),
        "-v",
        "--collect-only",
        str(stored),
    ]
    collected = Reports()
    assert pytest.main(options, plugins=[collected]) == 0
    is_stock = {name.startswith("Cell ") for name in collected.names}
    said = plugin.STRICT in capsys.readouterr().out.splitlines()
    assert (is_stock, said) == (({True}, False) if option else ({False}, True))


@pytest.mark.parametrize("weakening", ["--nbval-sanitize-with=x", "-n2 --dist=load"])
def test_option_that_weakens_the_gate_is_refused(weakening: str, stored: Path) -> None:
    options = [*GATE, "--collect-only", *weakening.split(), str(stored)]
    assert pytest.main(options) == pytest.ExitCode.USAGE_ERROR


def test_refresh_keeps_every_byte_and_puts_back_a_pixel_that_the_gate_lets_pass(stored: Path) -> None:
    notebook = Lesson.load(stored).notebook
    names = ("begin", "line-colour", "never-run")
    notebook.cells = [cell for cell in notebook.cells if cell.id in names]
    for count, cell in enumerate(notebook.cells, 1):
        cell.execution_count = count
    path, text = stored.with_name("short.ipynb"), as_text(notebook)
    path.write_text(text, encoding="utf-8")
    assert not refresh(path)
    recoloured(notebook.cells[1], 0, 0, by=4)  # one pixel, slightly darker
    path.write_text(as_text(notebook), encoding="utf-8")
    assert refresh(path)
    assert path.read_text(encoding="utf-8") == text


def test_refresh_leaves_the_file_of_a_failing_lesson(tmp_path: Path) -> None:
    path = tmp_path / "failing.ipynb"
    path.write_text(as_text(new_notebook(cells=[new_code_cell("1 / 0", id="fails")])), encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        refresh(path)
    assert path.read_bytes() == before


def _stored_as(picture: np.ndarray, palette: np.ndarray) -> list[NotebookNode]:
    image = in_palette(Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8)), palette)
    return [new_output("display_data", {PICTURE: encoded(image)})]


def test_the_edges_of_a_picture_may_be_a_shade_off() -> None:
    figure = encoder_map(0)  # the figure with the most colours
    drawn = np.asarray(Image.open(io.BytesIO(print_figure(figure, dpi=180))).convert("RGB"), dtype=int)
    is_edge = np.zeros(drawn.shape[:2], dtype=bool)
    is_edge[1:, 1:] = np.abs(drawn[1:, 1:] - drawn[:-1, :-1]).max(axis=-1) > 3
    shades = np.random.default_rng(7).integers(-2, 3, drawn.shape)
    other = drawn + np.where(is_edge[..., None], shades, 0)
    was, now = (_stored_as(each, palette_of(figure)) for each in (drawn, other))
    assert list(differences(was, now)) == []
