"""A notebook as it runs in the learner's folder."""

import sys

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from transformer_course import exercises
from transformer_course.workspace import atomic_files


class Notebook:
    """A shell that runs cells and tells what they print."""

    def __init__(self, capsys):
        history = Config(HistoryManager={"hist_file": ":memory:"})  # else it is written when Python ends
        self.shell, self.capsys = InteractiveShell(config=history), capsys
        self.names = self.shell.user_ns

    def run(self, *cells, fails=False):
        self.capsys.readouterr()
        for cell in cells:
            result = self.shell.run_cell(cell, store_history=True)
            assert result.success != fails
        return self.capsys.readouterr().out


@pytest.fixture
def notebook(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(atomic_files, "WORKSPACE", tmp_path)
    monkeypatch.setattr(atomic_files, "IN_WORKSPACE", True)
    # A shell makes its own module `__main__`.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    made = Notebook(capsys)
    monkeypatch.setattr(exercises, "get_ipython", lambda: made.shell)
    made.run("import math, torch\nfrom torch import nn\nfrom transformer_course.exercises import check, mine")
    return made
