"""The gate that every lesson passes: run it again, and what is stored must come out.

`refresh` runs lessons and stores them, in the form that `stored` lays down. `plugin` runs them again under
pytest and compares. `rules` reads them without running. `hostile` runs all tests on a hostile machine.
"""

import sys

# An optional part of jsonschema, which nbformat imports: it spends a second on a grammar no notebook needs.
sys.modules.setdefault("rfc3987_syntax", None)
