"""Cells that are run without comparing their outputs. Empty on purpose: let a cell print a verdict instead.

An entry is "03_lesson.ipynb::cell-id": "the reason why this cell cannot show the same twice".
"""

NOT_COMPARED: dict[str, str] = {}
