"""The gate that every lesson passes: it is run again, and its outputs must equal the stored ones.

`tools.refresh` runs and stores the lessons, in the format of `notebook_io`. `plugin` runs them again under
pytest and compares the outputs. `lint_notebooks` checks them without running them.
"""

import gc
import sys

# pytest keeps thousands of collected tests, and searching them for garbage takes a fifth of the time.
gc.set_threshold(100_000, 20, 100)

# An optional dependency of jsonschema, which nbformat imports. It takes a second, and no notebook needs it.
sys.modules.setdefault("rfc3987_syntax", None)
