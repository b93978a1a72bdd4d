"""Mistakes that come back from lesson to lesson, and how each family is told by its names."""

import re
from typing import NamedTuple


class Theme(NamedTuple):
    """A family of mistakes: its page, and the words in a mistake's name that make it a member."""

    name: str  # of its page
    title: str
    about: str  # one sentence, to stand behind a colon
    words: str  # a regular expression

    def has(self, mistake: str) -> bool:
        """Return whether a mistake of this name belongs to the family."""
        return bool(re.search(self.words, mistake, re.IGNORECASE))


THEMES = (
    Theme(
        "scale",
        "Scale: what the scores are divided by",
        "scores have a spread of about √d_head, and everything but that divisor makes attention too sharp or "
        "too even",
        r"√|root|\bscal(e|ed|ing)|divisor|divided by (d_|the (width|heads|length))|never divided"
        r"|division missing",
    ),
    Theme(
        "softmax",
        "Softmax and its axis",
        "it is the keys that share out a total of one, for each query, each head and each text anew",
        r"softmax|exponential|sigmoid|normalised? (twice|once|afterwards)|not normalised|entropy|maximum",
    ),
    Theme(
        "masks",
        "Masks",
        "True may mean the opposite, axes may be missing, and what is hidden too late leaks",
        r"mask|hidden|padding|\bpads?\b|causal|window|−∞|upside down|True and False|may_attend",
    ),
    Theme(
        "heads",
        "Heads: cut, mixed and merged",
        "a reshape keeps numbers in their order; who forgets the transpose mixes positions with heads",
        r"\bheads?\b|n_heads|d_head|reshape|view|merged|transpose|cards|axes swapped",
    ),
    Theme(
        "shapes",
        "Axes and broadcasting",
        "a tensor of the wrong shape often fits by stretching, and nobody complains",
        r"\bax(is|es)\b|broadcast|keepdim|stretch|stacked|concatenat|joined|flatten|along|counted from|column"
        r"|rows?\b",
    ),
    Theme(
        "norms",
        "Norms and residuals",
        "which sum is normalised, what goes round it, and where the eps stands",
        r"norm(s|ed|alised)?\b|residual|\beps\b|variance|pre-norm|post-norm|\bRMS",
    ),
    Theme(
        "positions",
        "Positions and rotation",
        "off by one, paired with the wrong partner, turned the wrong way",
        r"position|rotat|\bcos\b|\bturn|angle|cosine|\bsine|degree|frequenc|exponent \w+/d|2i |start|wave"
        r"|partner|paired|offset|rotary",
    ),
    Theme(
        "weights",
        "Parameters, weights and biases",
        "shared by accident, transposed by convention, forgotten in the count",
        r"\bbias(es)?\b|weight|parameter|projection|buffer|frozen|counted|transposed",
    ),
    Theme(
        "results",
        "What is returned",
        "the right thing is computed, and something else is handed over",
        r"return|only the|results? in|\border|output and weights|None for|the scores|the pair|unpacked"
        r"|thrown away",
    ),
    Theme(
        "precision",
        "Numbers: formats, overflow and NaN",
        "infinities, roots of zero, integers where fractions are needed",
        r"float|NaN|∞|overflow|rounded|integer|quotes|precision|bfloat|log 0|dtype|whole-number"
        r"|floor division|//",
    ),
    Theme(
        "training",
        "Training, dropout and state",
        "what should happen in training only, or once only, and does not",
        r"train|dropp?|dropout|eval|gradient|clip|step|seed|in place\b(?! of)|loss|detach|warm-up",
    ),
)
