"""A notebook's shell, as it runs in the learner's folder."""

import sys

import pytest
from IPython.core.interactiveshell import InteractiveShell

from transformer_course import exercises
from transformer_course.workspace import atomic_files


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_files, "WORKSPACE", tmp_path)
    monkeypatch.setattr(atomic_files, "IN_WORKSPACE", True)
    # A shell makes its own module `__main__`.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    made = InteractiveShell()
    monkeypatch.setattr(exercises, "get_ipython", lambda: made)
    made.run_cell("from transformer_course.exercises import check, mine", store_history=True)
    return made


def run(shell, *cells):
    for cell in cells:
        shell.run_cell(cell, store_history=True).raise_error()
