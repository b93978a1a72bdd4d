"""A pytest plugin that runs every notebook with nbval, but more strictly than nbval alone.

`pytest --nbval notebooks/` runs plain nbval, and this plugin does nothing. Without that option, notebooks are
collected here, for several reasons. Plain nbval compares neither pictures nor metadata, nor the type and the
order of outputs, nor any output of a cell that was never run. Comments and tags turn its checks off. It
notices a dead kernel only after half an hour. A single cell of a notebook fails, because the cells before it
are not run.

Here every output is compared in full, nothing turns that off, a dead kernel is noticed within seconds, and a
notebook runs either completely or not at all.

A learner's copy of a lesson runs too (`make check`), and is compared with the shipped lesson.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest
from nbval.plugin import IPyNbCell, IPyNbFile

from tests.gate.comparison import differences
from tests.gate.copies import beside_shipped, is_beside, is_copy, is_own, yours_and_ours
from tests.gate.kernel import CELL_TIMEOUT, KernelDied, WatchedKernel, clean_environment
from tests.gate.notebook_io import Lesson, code_cells, tags
from tests.gate.solve_exercises import tagged, verdict_of, with_exercises_solved

MESSAGE_TIMEOUT = 30  # seconds to wait for the last output of a cell, on a busy machine
STOCK = ("nbval", "nbval_lax")  # options that make nbval collect notebooks itself
STRICT = (
    "notebooks: every output of every cell is compared in full, pictures too, which is stricter than "
    "nbval; for nbval alone: pytest --nbval notebooks/"
)


class Notebook(IPyNbFile):
    """A notebook that runs in its own kernel; cells that use an answer run a second time, solved."""

    def collect(self) -> list["Cell"]:
        notebook = Lesson.load(self.path).notebook
        cells = beside_shipped(notebook) if is_copy(notebook) else with_exercises_solved(code_cells(notebook))
        self.cells = [Cell.of(self, number, cell) for number, cell in enumerate(cells)]
        return self.cells

    def setup(self) -> None:
        self.leave = ExitStack()
        self.leave.enter_context(clean_environment())
        self.kernel = WatchedKernel(str(self.path.parent))

    def teardown(self) -> None:
        super().teardown()
        self.leave.close()

    def get_kernel_message(self, timeout: float | None = None, stream: str = "iopub") -> dict:
        message = super().get_kernel_message(timeout, stream)
        if message["msg_type"] == "clear_output":
            raise RuntimeError("clear_output: show what changes in a `PassingOutput`, which is not stored")
        return message


class Cell(IPyNbCell):
    """A code cell. It fails if it was never run, or if any of its outputs differs from the stored one."""

    @classmethod
    def of(cls, notebook: Notebook, number: int, cell: dict) -> "Cell":
        name = cell.get("id", f"cell-{number}")
        options = {
            "check": not is_own(cell),
            "check_exception": "raises-exception" in tags(cell),
            "skip": False,
        }
        made = cls.from_parent(notebook, name=name, cell_num=number, cell=cell, options=options)
        made.output_timeout = MESSAGE_TIMEOUT
        return made

    def runtest(self) -> None:
        answered = self.name.startswith("solved-") and tagged(self.cell, "check")
        if answered:  # not at collection, where each worker would judge all exercises
            self.cell.outputs = [verdict_of(answered)]
        try:
            super().runtest()
        except KernelDied as died:
            self.raise_cell_error(str(died))
        if self.cell.execution_count is None:
            self.raise_cell_error("never run, so there is nothing to compare with: `make refresh`")

    def compare_outputs(self, test: list, ref: list, skip_compare: None = None) -> bool:
        if is_beside(self.cell):
            self.comparison_traceback = list(yours_and_ours(self.cell, test))
        else:
            self.comparison_traceback = list(differences(stored=ref, fresh=test))
        return not self.comparison_traceback

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.cell_num, self.name


def _is_stock(config: pytest.Config) -> bool:
    return any(getattr(config.option, name) for name in STOCK)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Notebook | None:
    is_ours = file_path.suffix == ".ipynb" and not _is_stock(parent.config)
    return Notebook.from_parent(parent, path=file_path) if is_ours else None


def pytest_report_header(config: pytest.Config) -> str | None:
    return None if _is_stock(config) else STRICT


def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    if not _is_stock(config) and (option.nbval_sanitize_with or option.sanitize_with):
        raise pytest.UsageError("--nbval-sanitize-with is for nbval alone: add --nbval")
    if getattr(option, "numprocesses", None) and option.dist != "loadfile":
        raise pytest.UsageError("the cells of a notebook share one kernel: -n needs --dist=loadfile")
    option.nbval_cell_timeout = min(option.nbval_cell_timeout, CELL_TIMEOUT)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Add the other cells of each notebook of which -k, --lf or a node id has selected a cell."""
    session.items[:] = _whole_notebooks(session.items)


def _whole_notebooks(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    whole = (item.parent.cells if isinstance(item, Cell) else [item] for item in items)
    return list(dict.fromkeys(cell for cells in whole for cell in cells))
