"""Mistakes that come back from lesson to lesson, and the words that make a family of them."""

import re
from typing import NamedTuple


class Theme(NamedTuple):
    """A family of mistakes: its page, and the words in a mistake's name that make it a member."""

    name: str  # of its page
    title: str
    about: str  # one sentence, which follows a colon
    words: str  # a regular expression

    def has(self, mistake: str) -> bool:
        """Return whether a mistake of this name belongs to the family."""
        return bool(re.search(self.words, mistake, re.IGNORECASE))


THEMES = (
    Theme(
        "scale",
        "Scale: dividing the scores by √d_head",
        "the standard deviation of the scores is about √d_head, and any other divisor makes attention too "
        "sharp or too uniform",
        r"√|root|\bscal(e|ed|ing)|divisor|divided by (d_|the (width|heads|length))|never divided"
        r"|division missing",
    ),
    Theme(
        "softmax",
        "Softmax and its axis",
        "for each query of each head and each text, the attention weights of the keys add up to 1",
        r"softmax|exponential|sigmoid|normalised? (twice|once|afterwards)|not normalised|entropy|maximum",
    ),
    Theme(
        "masks",
        "Masks: padding, causal masks and windows",
        "True may mean the opposite of what you expect, axes may be missing, and a late mask leaks",
        r"mask|hidden|padding|\bpads?\b|causal|window|−∞|upside down|True and False|may_attend",
    ),
    Theme(
        "heads",
        "Heads: splitting and merging",
        "a reshape keeps the values in memory order, so without a transpose positions and heads get mixed up",
        r"\bheads?\b|n_heads|d_head|reshape|view|merged|transpose|cards|axes swapped",
    ),
    Theme(
        "shapes",
        "Axes and broadcasting",
        "a tensor of the wrong shape is often broadcast to the right one, and no error is raised",
        r"\bax(is|es)\b|broadcast|keepdim|stretch|stacked|concatenat|joined|flatten|along|counted from|column"
        r"|rows?\b",
    ),
    Theme(
        "norms",
        "Layer norms and residual connections",
        "which sum is normalised, what the residual connection adds, and where the eps goes",
        r"norm(s|ed|alised)?\b|residual|\beps\b|variance|pre-norm|post-norm|\bRMS",
    ),
    Theme(
        "positions",
        "Positional encodings and rotary embedding",
        "positions off by one, features paired with the wrong partner, rotations in the wrong direction",
        r"position|rotat|\bcos\b|\bturn|angle|cosine|\bsine|degree|frequenc|exponent \w+/d|2i |start|wave"
        r"|partner|paired|offset|rotary",
    ),
    Theme(
        "weights",
        "Parameters, weights and biases",
        "parameters that are shared by accident, transposed by convention, or forgotten in the count",
        r"\bbias(es)?\b|weight|parameter|projection|buffer|frozen|counted|transposed",
    ),
    Theme(
        "results",
        "Return values",
        "the right result is computed, and something else is returned",
        r"return|only the|results? in|\border|output and weights|None for|the scores|the pair|unpacked"
        r"|thrown away",
    ),
    Theme(
        "precision",
        "Numerical problems: dtypes, overflow and NaN",
        "infinities, square roots of zero, and integers where floating-point numbers are needed",
        r"float|NaN|∞|overflow|rounded|integer|quotes|precision|bfloat|log 0|dtype|whole-number"
        r"|floor division|//",
    ),
    Theme(
        "training",
        "Training, dropout and state",
        "things that should happen only in training, or only once, and don't",
        r"train|dropp?|dropout|eval|gradient|clip|step|seed|in place\b(?! of)|loss|detach|warm-up",
    ),
)
