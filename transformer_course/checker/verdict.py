"""A verdict as the learner sees it: as plain text, and as HTML in a box."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from transformer_course.checker.compare import shorten

CORRECT, NOT_ATTEMPTED, NOT_YET = "correct", "not attempted", "not yet"
SYMBOLS = {CORRECT: "✓", NOT_ATTEMPTED: "○", NOT_YET: "✗"}
# Text and background are the theme's. A state's colour is mixed with the text's, so that it's dark in a light
# theme and light in a dark one.
COLOURS = {CORRECT: "#1a7f37", NOT_ATTEMPTED: "#6e7781", NOT_YET: "#cf222e"}
PLAIN = "color:inherit;background:none"
FALLBACK = "The cells below use the reference solution."
PRINTED = "Your code printed:"
FOLD = "What to change"


@dataclass(frozen=True)
class Verdict:
    """The state, the name of the mistake, sentences about it, printed output, and the cure.

    honour: whether a correct answer does more than was asked for; its symbol is shown twice
    """

    exercise_id: str
    state: str
    name: str = ""
    lines: tuple[str, ...] = ()
    printed: str = ""
    cure: str = ""
    honour: bool = False

    @classmethod
    def not_attempted(cls, exercise_id: str, line: str = FALLBACK) -> Self:
        """The verdict if there is no answer to judge yet."""
        return cls(exercise_id, NOT_ATTEMPTED, lines=(line,))

    @classmethod
    def not_yet(
        cls, exercise_id: str, name: str, lines: Sequence[str], printed: str = "", cure: str = ""
    ) -> Self:
        """The verdict on a wrong answer, with the name of its mistake."""
        sentences = [shorten(line, 600) for line in lines]
        return cls(exercise_id, NOT_YET, shorten(name, 100), (*sentences, FALLBACK), printed, cure)

    @property
    def headline(self) -> str:
        """Symbol, exercise, state and name: `✗ 03.2 not yet: missing scale.`"""
        name = f": {self.name}" if self.name else ""
        return f"{SYMBOLS[self.state] * (1 + self.honour)} {self.exercise_id} {self.state}{name}."

    def __repr__(self) -> str:
        printed = [PRINTED, *(f"| {line}" for line in _excerpt(self.printed))] if self.printed else []
        folded = [f"{FOLD}: check.cure()"] if self.cure else []
        return _without_addresses("\n".join([self.headline, *self.lines, *printed, *folded]))

    def _repr_html_(self) -> str:
        colour = f"color:color-mix(in srgb, {COLOURS[self.state]} 60%, currentColor)"
        paragraphs = [_paragraph(f'<b style="{colour}">{_to_html(self.headline)}</b>')]
        paragraphs += [_paragraph(_to_html(line)) for line in self.lines]
        if self.printed:
            text = _without_addresses("\n".join(_excerpt(self.printed)))
            paragraphs.append(_paragraph(PRINTED))
            paragraphs.append(f'<pre style="margin:0;{PLAIN}">{html.escape(text)}</pre>')
        if self.cure:
            fold = f'<summary style="{colour};cursor:pointer">{FOLD}</summary>'
            paragraphs.append(f"<details>{fold}{_paragraph(_to_html(self.cure))}</details>")
        box = f"border-left:5px solid {COLOURS[self.state]};padding:.4em .9em;max-width:60em;line-height:1.5"
        return f'<div role="status" style="{box}">{"".join(paragraphs)}</div>'


def _paragraph(content: str) -> str:
    return f'<p style="margin:0">{content}</p>'


def _to_html(text: str) -> str:
    """The text escaped for HTML, with `code` marked up."""
    code = f'<code style="{PLAIN};padding:0">\\1</code>'
    return re.sub(r"`([^`]+)`", code, html.escape(_without_addresses(text)))


def _excerpt(printed: str, lines: int = 8, width: int = 110) -> list[str]:
    everything = printed.splitlines()
    shown = [shorten(line, width) for line in everything[:lines]]
    return shown + [f"… and {len(everything) - lines} lines more"] * (len(everything) > lines)


def _without_addresses(text: Any) -> str:
    """The text without memory addresses, which differ from run to run."""
    return re.sub(r"0x[0-9a-fA-F]{6,}", "0x…", text)
