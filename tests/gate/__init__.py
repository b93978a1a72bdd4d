"""The gate that every lesson passes: run it again, and what is stored must come out.

`tools.refresh` runs lessons and stores them, in the form of `notebook_io`. `plugin` runs them again under
pytest and compares. `lint_notebooks` reads them without running them.
"""

import gc
import sys

# Thousands of tests are collected, and stay: to look among them for garbage takes a fifth of the time.
gc.set_threshold(100_000, 20, 100)

# An optional part of jsonschema, which nbformat imports: it spends a second on a grammar no notebook needs.
sys.modules.setdefault("rfc3987_syntax", None)
