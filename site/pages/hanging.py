"""Code whose long lines can be broken where a screen is narrow, and still be read."""

import re
from collections.abc import Iterator
from html import unescape

from pygments.formatters import HtmlFormatter

NARROW = 36  # characters that fit on the narrowest phone


class Hanging(HtmlFormatter):
    """Mark the long lines: what does not fit hangs below the line's own indentation (course.css)."""

    def wrap(self, source: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        """Return all lines within their box; pygments calls this."""
        return super().wrap((is_code, _marked(line)) for is_code, line in source)


def _marked(line: str) -> str:
    text = unescape(re.sub("<[^>]*>", "", line)).rstrip("\n")
    if len(text) <= NARROW:
        return line
    indent = re.match(r"[-+]?\s*", text).end()  # in a diff, after its sign
    line = line.removesuffix("\n")
    return f'<span class="hang" style="--indent:{indent}">{line}</span>\n'
