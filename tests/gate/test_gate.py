"""The gate is tried with planted faults: each has to be caught, and named; a sound notebook has to pass."""

import base64
import io
import os
import subprocess
import sys
import xml.etree.ElementTree as xml
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import nbformat
import numpy as np
import pytest
from IPython.core.pylabtools import print_figure
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

from tests.gate import hostile
from tests.gate.comparison import differences
from tests.gate.refresh import chosen, refresh
from tests.gate.stored import PICTURE, ROOT, Lesson, as_text
from transformer_course.figures import encoder_map
from transformer_course.figures.pictures import in_palette, palette_of

pytestmark = pytest.mark.gate_itself

GATE = ("-p", "tests.gate.plugin")

BEGIN = """
    import matplotlib.pyplot as plt
    import torch
    from IPython.display import HTML, display

    from transformer_course import lesson

    lesson.begin(3)
    queries, keys = torch.randn(4, 2), torch.randn(4, 2)


    def heatmap(tokens=("the", "cat", "sat", "down"), label="key", cmap="viridis", aspect="equal", scale=1.4):
        figure, ax = plt.subplots(layout="constrained", figsize=(4, 3))
        mesh = ax.pcolormesh((queries @ keys.T / scale).softmax(-1), cmap=cmap)
        ax.set_xticks([0.5, 1.5, 2.5, 3.5], tokens)
        ax.set(xlabel=label, ylabel="query", title="Attention", aspect=aspect)
        figure.colorbar(mesh, label="weight")


    def curve(colour="tab:blue"):
        figure, ax = plt.subplots(figsize=(4, 3))
        ax.plot([0.9**step for step in range(50)], color=colour, label="loss")
"""


class Fault(NamedTuple):
    """A cell as it was stored, what is done to it afterwards, and how the gate has to name it."""

    source: str
    plant: Callable[[NotebookNode], None]
    named: str


def edited(before: str, after: str) -> Callable[[NotebookNode], None]:
    def plant(cell: NotebookNode) -> None:
        assert before in cell.source
        cell.source = cell.source.replace(before, after)

    return plant


def _never_run(cell: NotebookNode) -> None:
    cell.execution_count, cell.outputs = None, []


def _delete_output(cell: NotebookNode) -> None:
    cell.outputs = []


def _add_output(cell: NotebookNode) -> None:
    cell.outputs.append(new_output("display_data", {"text/plain": "more"}))


def _tamper_picture(cell: NotebookNode) -> None:
    data = cell.outputs[0].data
    image = Image.open(io.BytesIO(base64.b64decode(data[PICTURE]))).convert("RGB")
    image.paste((255, 0, 0), (10, 10, 40, 40))
    image.save(buffer := io.BytesIO(), "PNG")
    data[PICTURE] = base64.b64encode(buffer.getvalue()).decode()


def _redder(cell: NotebookNode) -> None:
    """One of three channels, by so little that their mean would let it pass."""
    data = cell.outputs[0].data
    pixels = np.array(Image.open(io.BytesIO(base64.b64decode(data[PICTURE]))).convert("RGB"))
    pixels[10:40, 10:40, 0] -= 16
    Image.fromarray(pixels).save(buffer := io.BytesIO(), "PNG")
    data[PICTURE] = base64.b64encode(buffer.getvalue()).decode()


def _tamper_alt(cell: NotebookNode) -> None:
    cell.outputs[0].metadata[PICTURE].alt = "A figure."


def _swap_outputs(cell: NotebookNode) -> None:
    cell.outputs.reverse()


def _stale(cell: NotebookNode) -> None:
    cell.outputs[0].text = cell.outputs[0].text.replace("0.", "1.")


def _stale_and(tag: str) -> Callable[[NotebookNode], None]:
    def plant(cell: NotebookNode) -> None:
        _stale(cell)
        cell.metadata.tags = [tag]

    return plant


LOSS = "print(f'loss {0.9**50:.4f}')"
FAULTS = {
    "wrong-weights": Fault("heatmap()", edited("()", "(scale=2)"), "Largest in each row"),
    "colour-map": Fault("heatmap()", edited("()", "(cmap='magma')"), "+  Colour map magma"),
    "axis-label": Fault("heatmap()", edited("()", "(label='keys')"), "+x axis “keys”"),
    "swapped-token": Fault(
        "heatmap()", edited("()", "(('the', 'sat', 'cat', 'down'))"), "+x axis “key”: the; sat; cat; down."
    ),
    "aspect": Fault("heatmap()", edited("()", "(aspect='auto')"), "image/png: the size was"),
    "line-colour": Fault("curve()", edited("()", "('tab:red')"), "+Line “loss”, red"),
    "tampered-picture": Fault("heatmap()", _tamper_picture, "of the pixels have changed"),
    "tampered-alt": Fault("heatmap()", _tamper_alt, "image/png alt"),
    "extra-picture": Fault("curve()", edited("()", "(); curve()"), "1 output(s) stored, 2 now"),
    "wrong-tensor": Fault("queries", edited("queries", "queries + 0.1"), "tensor("),
    "wrong-verdict": Fault("HTML('<b>✓</b>')", edited("✓", "✗"), "text/html"),
    "stale-output": Fault(LOSS, _stale, "-loss 1.0052"),
    "deleted-output": Fault(LOSS, _delete_output, "0 output(s) stored, 1 now"),
    "added-output": Fault(LOSS, _add_output, "2 output(s) stored, 1 now"),
    "never-run": Fault(LOSS, _never_run, "never run"),
    "swapped-outputs": Fault(f"{LOSS}\ndisplay(1)", _swap_outputs, "kind"),
    "shown-not-returned": Fault("1 + 1", edited("1 + 1", "display(1 + 1)"), "+display_data"),
    "ignored-by-tag": Fault(LOSS, _stale_and("nbval-ignore-output"), "-loss 1.0052"),
    "skipped-by-tag": Fault(LOSS, _stale_and("nbval-skip"), "-loss 1.0052"),
    "ignored-by-comment": Fault(LOSS, edited("print", "# NBVAL_IGNORE_OUTPUT\nprint(1), print"), "+1"),
    "warning": Fault(LOSS, edited("print", "import sys; sys.stderr.write('Beware'); print"), "stderr"),
    "rewritten-output": Fault(
        LOSS,
        edited("print", "from IPython.display import clear_output; clear_output(); print"),
        "clear_output",
    ),
    "new-error": Fault(LOSS, edited("print", "print(1 / 0), print"), "ZeroDivisionError"),
    "other-words-of-an-error": Fault(
        "int('three')", edited("three", "four"), "+invalid literal for int() with"
    ),
    "one-channel-of-a-picture": Fault("curve()", _redder, "of the pixels have changed"),
}
SOUND = {
    "slider": "import ipywidgets\n\nipywidgets.IntSlider()",
    "progress-bar": "from tqdm.notebook import tqdm\n\nfor step in tqdm(range(3)):\n    print(step)",
    "hidden-result": "queries;",
    "expected-error": "1 / 0",
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a stored notebook with a cell for every fault, none of them planted."""
    sources = {name: fault.source for name, fault in FAULTS.items()} | SOUND
    cells = [new_code_cell(source, id=name) for name, source in sources.items()]
    for cell in cells:
        cell.metadata.tags = ["raises-exception"] if "error" in cell.id and cell.id != "new-error" else []
    begin = [new_markdown_cell("# A lesson", id="title"), new_code_cell(dedent(BEGIN).strip(), id="begin")]
    path = tmp_path_factory.mktemp("gate") / "sound.ipynb"
    path.write_text(as_text(new_notebook(cells=begin + cells)), encoding="utf-8")
    assert refresh(path)
    return path


@pytest.fixture(scope="module")
def outcome(sound: Path) -> dict[str, xml.Element]:
    """Run the gate once on a sound, a faulty and a dying notebook; return what it said of each cell."""
    faulty, dying = Lesson.load(sound).notebook, Lesson.load(sound).notebook
    for cell in faulty.cells:
        if cell.id in FAULTS:
            FAULTS[cell.id].plant(cell)
    dying.cells = [new_code_cell("import os\n\nos._exit(1)", id="dies", execution_count=1)]
    for name, notebook in {"faulty": faulty, "dying": dying}.items():
        sound.with_name(f"{name}.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    report = sound.with_name("report.xml")
    command = [sys.executable, "-m", "pytest", *GATE, f"--junitxml={report}", "--color=no", str(sound.parent)]
    subprocess.run(command, cwd=ROOT, capture_output=True)
    cases = xml.parse(report).iter("testcase")
    return {f"{case.get('classname').split('.')[-2]}::{case.get('name')}": case for case in cases}


def _failure(case: xml.Element) -> str:
    return "".join(child.text or "" for child in case if child.tag in ("failure", "error"))


@pytest.mark.parametrize("cell", ["begin", *FAULTS, *SOUND])
def test_sound_cell_passes(cell: str, outcome: dict[str, xml.Element]) -> None:
    assert not _failure(outcome[f"sound::{cell}"])


@pytest.mark.parametrize("cell", FAULTS)
def test_planted_fault_is_caught_and_named(cell: str, outcome: dict[str, xml.Element]) -> None:
    assert FAULTS[cell].named in _failure(outcome[f"faulty::{cell}"])


@pytest.mark.parametrize("cell", SOUND)
def test_cell_beside_the_faults_passes(cell: str, outcome: dict[str, xml.Element]) -> None:
    assert not _failure(outcome[f"faulty::{cell}"])


def test_dead_kernel_is_noticed_at_once(outcome: dict[str, xml.Element]) -> None:
    case = outcome["dying::dies"]
    assert "the kernel died" in _failure(case)
    assert float(case.get("time")) < 30


class Collected:
    """A pytest plugin that remembers which cells would be run."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.names = [item.name for item in session.items]


@pytest.mark.parametrize(
    ("cell", "keyword", "runs"), [("", "aspect", True), ("::aspect", "", True), ("", "nothing", False)]
)
def test_notebook_runs_whole_or_not_at_all(cell: str, keyword: str, runs: bool, sound: Path) -> None:
    collected = Collected()
    pytest.main([*GATE, "--collect-only", "-q", "-k", keyword, f"{sound}{cell}"], plugins=[collected])
    assert collected.names == (["begin", *FAULTS, *SOUND] if runs else [])


@pytest.mark.parametrize(
    "weakening", ["--nbval", "--nbval-lax", "--nbval-sanitize-with=x", "-n2 --dist=load"]
)
def test_option_that_weakens_the_gate_is_refused(weakening: str, sound: Path) -> None:
    options = [*GATE, "--collect-only", *weakening.split(), str(sound)]
    assert pytest.main(options) == pytest.ExitCode.USAGE_ERROR


def test_refresh_keeps_every_byte_when_nothing_has_changed(sound: Path) -> None:
    notebook = Lesson.load(sound).notebook
    notebook.cells = [cell for cell in notebook.cells if cell.id in ("begin", "line-colour", "stale-output")]
    path = sound.with_name("short.ipynb")
    path.write_text(as_text(notebook), encoding="utf-8")
    assert refresh(path)
    assert not refresh(path)


def test_refresh_leaves_the_file_of_a_failing_lesson(tmp_path: Path) -> None:
    path = tmp_path / "failing.ipynb"
    path.write_text(as_text(new_notebook(cells=[new_code_cell("1 / 0", id="fails")])), encoding="utf-8")
    before = path.read_bytes()
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        refresh(path)
    assert path.read_bytes() == before


def test_refresh_names_new_cells_after_their_section(tmp_path: Path) -> None:
    cells = [new_markdown_cell("## See it: 2 `heads`", id="see"), new_code_cell("1", id="0b5c7f1e")]
    path = tmp_path / "random.ipynb"
    path.write_text(
        as_text(new_notebook(cells=[*cells, new_code_cell("2", id="1b5c7f1e")])), encoding="utf-8"
    )
    refresh(path)
    assert [cell.id for cell in Lesson.load(path).notebook.cells] == ["see", "see-it-heads", "see-it-heads-1"]


def test_refresh_keeps_a_picture_that_looks_the_same(tmp_path: Path) -> None:
    path = tmp_path / "picture.ipynb"
    cells = [new_code_cell(dedent(BEGIN).strip(), id="begin"), new_code_cell("heatmap()", id="draw")]
    path.write_text(as_text(new_notebook(cells=cells)), encoding="utf-8")
    refresh(path)
    lesson = Lesson.load(path)
    data = lesson.notebook.cells[1].outputs[0].data
    image = Image.open(io.BytesIO(base64.b64decode(data["image/png"]))).convert("RGBA")
    image.putpixel((0, 0), (251, 255, 255, 255))  # one pixel, a shade darker
    buffer = io.BytesIO()
    image.save(buffer, "png")
    data["image/png"] = base64.b64encode(buffer.getvalue()).decode()
    path.write_text(as_text(lesson.notebook), encoding="utf-8")
    assert not refresh(path)


def _stored_as(picture: np.ndarray, palette: np.ndarray) -> list[NotebookNode]:
    in_palette(Image.fromarray(picture), palette).save(buffer := io.BytesIO(), "png")
    data = {PICTURE: base64.b64encode(buffer.getvalue()).decode()}
    return [new_output("display_data", data)]


@pytest.mark.parametrize(("edges", "inside", "differs"), [(2, 0, False), (0, 30, True)])
def test_edges_may_be_a_shade_off_but_not_a_part_of_the_picture(
    edges: int, inside: int, differs: bool
) -> None:
    figure = encoder_map(7)
    drawn = np.asarray(Image.open(io.BytesIO(print_figure(figure, dpi=180))).convert("RGB"), dtype=int)
    is_edge = np.zeros(drawn.shape[:2], dtype=bool)
    is_edge[1:, 1:] = np.abs(drawn[1:, 1:] - drawn[:-1, :-1]).max(axis=-1) > 3
    shades = np.random.default_rng(7).integers(-edges, edges + 1, drawn.shape)
    other = drawn + np.where(is_edge[..., None], shades, 0)
    other[200:260, 200:260] -= inside
    was, now = (
        _stored_as(np.clip(each, 0, 255).astype(np.uint8), palette_of(figure)) for each in (drawn, other)
    )
    assert bool(list(differences(was, now))) == differs


def test_unknown_lesson_cannot_be_refreshed() -> None:
    with pytest.raises(SystemExit, match="no lesson 99"):
        chosen(["99"])


@pytest.mark.skipif(sys.platform != "linux", reason="`make hostile` is for Linux")
def test_a_hostile_machine_is_hostile_in_every_way_and_a_friendly_one_is_told(tmp_path: Path) -> None:
    """So a setting that is taken out, or that a library follows no more, is noticed: here, and by the run."""
    with hostile.hostile(sys.executable) as python:
        lacking = set(hostile.without_effect(**python))
    assert lacking <= (set() if hostile.may_have_namespaces() else set(hostile.WITH_NAMESPACES))

    friendly = {"OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC", "COLUMNS": "80"}
    lacking = hostile.without_effect([sys.executable], os.environ | friendly | {"HOME": str(tmp_path)})
    assert {*friendly, "a home that cannot be written"} <= set(lacking)
