"""Exercises of lesson 14, the bug museum: in each, find the guilty line or the cause.

Below them stand specimens: some of the bugs in one form, beside the right code, so that tests can be tried.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lab import causal_mask, sinusoidal_encoding
from transformer_lab.course.checker import Exercise
from transformer_lab.course.checker.kinds import ValueExercise
from transformer_lab.diagnostics import certificates
from transformer_lab.multi_head_attention import MultiHeadAttention, split_heads
from transformer_lab.positional_encoding import angular_frequencies
from transformer_lab.roformer import ExpandingMultiHeadAttention
from transformer_lab.rotary_embedding import rotate_half_split, rotate_interleaved, rotations


class Exhibit(ValueExercise):
    """An exercise whose answer is the number of a line, a count, or a letter; another may be as right."""

    also: int | str | None = None

    def call(self, answer: Any, case: dict) -> Any:
        is_also = self.also is not None and self.comparison.difference(answer, self.also, "") is None
        return self.specified if is_also else self._spelled_as_asked(answer)

    def _spelled_as_asked(self, answer: Any) -> Any:
        """A wrong letter may come small, and a wrong number in quotes: the choice is the same."""
        if not isinstance(answer, str):
            return answer
        meant = int(answer) if answer.isdigit() else answer.upper()
        return answer if meant in (self.specified, self.also) else meant


def exhibit(
    number: int,
    title: str,
    *,
    answer: int | str,
    also: int | str | None = None,
    why: str,
    hints: Sequence[str],
) -> Exercise:
    """Declare an exhibit, whose answer is the number of a line, a count, or the letter of a cause.

    Args:
        number: its place in the museum.
        title: what one sees, never the cause.
        answer: a number, or a capital letter.
        also: another one that is as right.
        why: the comment beside the shown solution.
        hints: two.
    """
    name, shown = f"bug_{number:02}", f'"{answer}"' if isinstance(answer, str) else answer
    declared = Exhibit(f"14.{number}", title, name, f"{name} = ...", hints)
    declared.shown, declared.reference = f"{name} = {shown}  # {why}", answer
    declared.specification(lambda: answer)
    if also is not None:
        declared.also = also
        declared.alternative(lambda: also)
    if isinstance(answer, str):
        declared.alternative(lambda: str(np.str_(answer)))
        declared.mistake("a small letter", answer.lower())
    else:
        declared.alternative(lambda: torch.tensor(answer))
        declared.mistake("a number in quotes", *(str(n) for n in (answer, also) if n is not None))
    return declared


# ------------------------------------------------------------------------------- Room 1: it stops at once

bug_01 = exhibit(
    1,
    "An attribute that is there and is not",
    answer=5,
    why="`pairs` was never stored; PyTorch reports the property instead",
    hints=[
        """A property is a function in disguise: to read `dim` runs its body. What does the body ask for?""",
        """Look through `__init__` for everything that is stored on `self`. One name that is read later is
        not among it.""",
    ],
)

bug_02 = exhibit(
    2,
    "An encoder on top of an encoder",
    answer=3,
    why="it looks up ids, and gets the vectors that line 5 returned",
    hints=[
        """What does the second encoder get as `x`: which numbers, of which type, of which shape?""",
        """The message speaks of indices that should be Long or Int. Which line uses x as indices?""",
    ],
)

bug_03 = exhibit(
    3,
    "Two axes against four",
    answer="C",
    why="batch and keys in their own places, heads and queries of length 1",
    hints=[
        """PyTorch lines axes up from the right. Write the four axes of the scores, and below them where
        each axis of the mask must come to stand.""",
        """`None` puts in an axis of length 1, where one value serves for all. Heads and queries share the
        mask; batch and keys do not.""",
    ],
)

# ----------------------------------------------- Room 2: it stops far away, or only for some

bug_04 = exhibit(
    4,
    "Seven features",
    answer=5,
    why="with 7 features there are 4 sines but only 3 places for cosines",
    hints=[
        """Count for seven features: how many frequencies does line 2 make? How many columns are `0::2`,
        how many `1::2`?""",
        """Columns 0, 2, 4, 6 are four; columns 1, 3, 5 are three. Frequencies: four.""",
    ],
)

bug_05 = exhibit(
    5,
    "Half precision, and a product that fails",
    answer=6,
    why="the finished table must take x's format; earlier, precision is lost",
    hints=[
        """float16 plus float32 is float32: a sum takes the finer format. So which summand in line 7 is to
        blame, and where is it finished?""",
        """In float16, positions from 2049 on can no longer be told apart. So convert as late as possible:
        compute the table finely, then round it once.""",
    ],
)

bug_06 = exhibit(
    6,
    "A number too large, and not large enough",
    answer=2,
    why="-1e9 does not exist in float16, and hides nothing where all are equal",
    hints=[
        """What is the largest number of float16? About 65,504. Where does a larger one stand?""",
        """Softmax looks at differences only. What does it make of five scores that are all
        −1,000,000,000?""",
    ],
)

bug_07 = exhibit(
    7,
    "Built without a complaint",
    answer=2,
    why="512 // 12 is 42 and drops a remainder of 8; here one could still say so",
    hints=[
        """12 heads of 42 features: how many features is that? And how many has the model?""",
        """The error comes in line 6, but a module that cannot work should not let itself be built. Where
        are both numbers known for the first time, and used together?""",
    ],
)

bug_08 = exhibit(
    8,
    "A checkpoint that no longer fits",
    answer="A",
    why="not in the state dict, yet a buffer that .to() moves",
    hints=[
        """Nothing in the table was learned: it can be computed again. Must it stand in the checkpoint?""",
        """Three kinds of attributes: a parameter is trained and stored; a buffer is moved by `.to()` and
        usually stored; a plain tensor is neither.""",
    ],
)

bug_09 = exhibit(
    9,
    "Moved, and yet at home",
    answer=2,
    why="a note of the format at birth; .to() moves tensors, not notes",
    hints=[
        """`.to(torch.float32)` changes the parameters and buffers of a module. What else does this module
        remember?""",
        """The message says that a Double meets a Float. The weights are Float. Who made x a Double, and
        on whose word?""",
    ],
)

# ------------------------------------------------------- Room 3: wrong numbers, which show if you look

bug_10 = exhibit(
    10,
    "Two results, one axis too few",
    answer=4,
    why="one tensor is returned; unpacking cuts it along the batch",
    hints=[
        """What does Python do with `a, b = tensor`? Try it with a tensor of shape (2, 3), and of shape
        (3, 3).""",
        """The caller unpacks two things. How many does the module hand over?""",
    ],
)

bug_11 = exhibit(
    11,
    "From three axes to four",
    answer="B",
    why="lined up from the right, the masks' first axis becomes a new one",
    hints=[
        """Write (2, 1, 1, 5) above (2, 5, 5), lined up from the right. Which axis of which tensor becomes
        the first axis of the result, which the second?""",
        """The first axis of the result counts the masks, the second the texts. Now read [0, 1].""",
    ],
)

bug_12 = exhibit(
    12,
    "Eight heads that look at everything",
    answer=4,
    why="a score sums 64 products, so √64; √512 belongs to one head of 512",
    hints=[
        """A score is a sum of how many products? Its variance grows with that number, and the root of it
        brings the variance back to 1.""",
        """Everything agrees with PyTorch when there is one head. What do 512 and 64 become then?""",
    ],
)

bug_13 = exhibit(
    13,
    "Everybody looks at themselves",
    answer=5,
    why="query and key both contain x, and x · x is large",
    hints=[
        """A score is the dot product of a query and a key. Suppose that both are nearly x. How large is
        the score of a token with itself, how large with another one?""",
        """x · x is about 64 here and a dot product of two different tokens about ±8. Where does x itself
        get into query and key?""",
    ],
)

bug_14 = exhibit(
    14,
    "Six blocks, and all tokens are one",
    answer=7,
    why="x is mixed into something new; nothing carries it past the block",
    hints=[
        """Residual connections let a token keep what it was. Where in this block does x get past
        everything?""",
        """Line 5 puts x beside, and line 6 adds to that. But what does line 7 do with the x inside
        `both`?""",
    ],
)

bug_15 = exhibit(
    15,
    "A row without a difference",
    answer="D",
    why="a constant row has variance 0, so the norm divides by √eps",
    hints=[
        """A norm divides by √(variance + eps). What is the variance of (3, 3, 3, …)?""",
        """From eps = 1e-5 to 1e-9 is a factor of 10,000. By which factor does the printed gradient grow?""",
    ],
)

bug_16 = exhibit(
    16,
    "Places that coincide",
    answer=1,
    why="8 significant bits: above 256 only every second position exists",
    hints=[
        """Up to position 256 all is well. What happens there in a format with eight significant bits?""",
        """One line decides in which format positions are kept. All later lines can only use what it left.""",
    ],
)

bug_17 = exhibit(
    17,
    "An old copy",
    answer=4,
    why="a tuple of tensors is no buffer: .to() replaces the buffers, not the tuple",
    hints=[
        """`.to()` goes through parameters and buffers and puts new tensors in their place. Who still
        holds the old ones?""",
        """Which line gives a second name to the tensors, one that PyTorch does not know of?""",
    ],
)

bug_18 = exhibit(
    18,
    "Sixty-four mebibytes for nothing",
    answer=2,
    why="expand makes a view; the comparison writes out every entry",
    hints=[
        """`expand` stores nothing: it only says "read the same number again". How long does that last?""",
        """An operation that computes a new tensor needs room for every entry of its result.""",
    ],
)

bug_19 = exhibit(
    19,
    "Four comments",
    answer=1,
    why="only (c); the printed lines refute the other three",
    hints=[
        """Take them one by one. For (a): change eps, and look whether the result changes. For (b): read
        the code, then the comment.""",
        """For (d): the values are 7 wide, the keys 3. How wide is what comes out?""",
    ],
)

bug_20 = exhibit(
    20,
    "What a head gets",
    answer="B",
    why="expand makes 3 · 16 features, and each head gets a piece of 16",
    hints=[
        """How wide is what the expansion returns, and into how many pieces is it cut?""",
        """If heads shared the 16 features, three heads could not be built at all: 16 is not divisible by
        3.""",
    ],
)

bug_21 = exhibit(
    21,
    "A heatmap of nothing",
    answer="D",
    why="positive random numbers give even rows, and a mask of ones hides nothing",
    hints=[
        """If attention picked keys, what would the largest weight of a row be, for five keys? And if it
        picked none?""",
        """To show that a mask works, something must be hidden. What does a mask of ones hide? Compare the
        last printed line.""",
    ],
)

bug_22 = exhibit(
    22,
    "Which way does it turn?",
    answer="C",
    why="(1, 0) goes to (0, 1): a quarter turn from the first axis to the second",
    hints=[
        """Draw it: the first feature to the right, the second upwards. Where is (1, 0)? Where is (0, 1)?""",
        """Counter-clockwise is counted as positive. The second line gives the position's own turn: which
        sign has its sine?""",
    ],
)

bug_23 = exhibit(
    23,
    "Fast and slow features",
    answer="A",
    why="the number is an angle for each position: 1 is fast, .001 is slow",
    hints=[
        """How far has each pair turned after ten positions? Which of them has gone round?""",
        """A period is how many positions a full turn takes. Long period: slow. Compare with the number
        that is called inverse frequency.""",
    ],
)

bug_24 = exhibit(
    24,
    "What x carries after the rotation",
    answer="C",
    why="x itself differs with its place; only the score of two stays the same",
    hints=[
        """First line: the same vector at positions 3 and 13. If it carried something relative only, would
        it differ?""",
        """Second line: a score at (3, 5) and at (13, 15). What do the two pairs of positions have in
        common?""",
    ],
)

bug_25 = exhibit(
    25,
    "Four sentences",
    answer="D",
    why="eight significant bits: three rounded shares need not add up to 1",
    hints=[
        """One printed line belongs to each sentence. Which three of them say the opposite?""",
        """For C ask what "later tokens win" would mean for the share of seeds: nearly all of them, or
        about half?""",
    ],
)

bug_26 = exhibit(
    26,
    "One row of the table",
    answer="B",
    why="with 8 heads for keys and values it would have 0.8 billion fewer",
    hints=[
        """The released checkpoints can be counted exactly. In which row do table and checkpoint differ?""",
        """Heads for keys and values decide how wide two of the four projections are. Fewer heads, fewer
        parameters.""",
    ],
)

bug_27 = exhibit(
    27,
    "A guarantee",
    answer="C",
    why="all parts are there, and after 20 steps the first layer hardly hears anything",
    hints=[
        """A guarantee is refuted by one counterexample. It must have both residuals and norms, otherwise
        the sentence says nothing about it.""",
        """Which line has both, and a gradient that is a small part of what it was?""",
    ],
)

bug_28 = exhibit(
    28,
    "Longer than in training",
    answer="B",
    why="only the trained distances can be relied upon; the window shows it",
    hints=[
        """Compare 32 with 512 in the first line. Then look at the second, in which each token may see 31
        places to either side, as in training.""",
        """If the angles themselves went wrong at large positions, would the window help?""",
    ],
)

bug_29 = exhibit(
    29,
    "Before the first step",
    answer="A",
    why="in the fresh post-norm encoder first and last layer hear about the same",
    hints=[
        """"Vanishing" would mean: next to nothing arrives in the first layer, compared with the last.
        Form the ratio for each line.""",
        """Post-norm: from .7 to 1.3, with three seeds. Would you call that next to nothing?""",
    ],
)

# ---------------------------------------------------------- Room 4: wrong, and nothing shows

bug_30 = exhibit(
    30,
    "A mask that fits",
    answer=3,
    also=1,  # mended there, `ignored` would be True for real tokens, and line 3 right
    why="where `ignored` is 0 stands a real token, and that is what is hidden",
    hints=[
        """Follow one real token: what does `ignored` say of it, and what becomes of its score?""",
        """`ignored == 0` turns the meaning round once more. Where is that right, and where not?""",
    ],
)

bug_31 = exhibit(
    31,
    "Four texts of four tokens",
    answer="B",
    why="from the right: keys under keys, and the texts under the queries",
    hints=[
        """Write (4, 4) under (4, 3, 4, 4), lined up from the right. Under which axis do the texts come to
        stand?""",
        """Look at text 0, which has four real tokens: in which of its rows is something hidden?""",
    ],
)

bug_32 = exhibit(
    32,
    "A causal mask that leaks",
    answer=3,
    why="it counts numbers off in their order, and never moves any",
    hints=[
        """The last token was changed. With a causal mask nobody but the last may notice. So somebody sees
        pieces of the last token at another place.""",
        """`view` fills the new shape in the order of memory. The first head then gets the first numbers:
        whose are they?""",
    ],
)

bug_33 = exhibit(
    33,
    "It worked for the first text",
    answer="B",
    why="positions under positions, and one axis of length 1 for the heads",
    hints=[
        """Write the axes of `pairs` and below them those of `rotation`, lined up from the right. Whom do
        the positions meet?""",
        """The heads stand between position and features. The rotation needs an axis of length 1 there.""",
    ],
)

bug_34 = exhibit(
    34,
    "One token at a time",
    answer=2,
    why="each token alone stands at position 0, where nothing turns",
    hints=[
        """The rotation counts positions from 0 on. How many tokens does it get in one call?""",
        """Position 0 is turned by an angle of 0. Compare with the printed line: the scores are those
        without any rotation.""",
    ],
)

bug_35 = exhibit(
    35,
    "The same program, optimised",
    answer=3,
    why="-1 takes what comes: 63 · 512 numbers are 64 tokens of 504",
    hints=[
        """12 heads of 42 features are 504. How many rows of 504 can be made of 63 · 512 numbers?""",
        """One line does not say how many tokens there are, and lets PyTorch work it out.""",
    ],
)

bug_36 = exhibit(
    36,
    "Four rows are too few, one is enough",
    answer="D",
    why="a slice may end early, and an axis of length 1 is repeated for all",
    hints=[
        """How many rows has `table[:5]`, if the table has four? And if it has one?""",
        """What does PyTorch do when it adds (5, 8) and (4, 8)? And (5, 8) and (1, 8)?""",
    ],
)

bug_37 = exhibit(
    37,
    "Who is paired with whom?",
    answer="A",
    why="the first half is paired with the second, feature by feature",
    hints=[
        """If features i and j are a pair, a change of i moves i and j, and nobody else. Read the printed
        lists.""",
        """Feature 0 moves 0 and 4. What would it move if neighbours were paired?""",
    ],
)

bug_38 = exhibit(
    38,
    "Four of them",
    answer=2,
    why="a list with one object at four places",
    hints=[
        """Two things are printed that look right. The third: four different units went in, what came out?""",
        """`[0] * 4` is harmless. What does `[thing] * 4` do with the thing: copy it?""",
    ],
)

bug_39 = exhibit(
    39,
    "Eight words, and some company",
    answer=3,
    why="the softmax shares among all columns; nobody told it which are real",
    hints=[
        """Eight real tokens are the same each time. What else takes part, and in which step do tokens
        take from each other?""",
        """A mask must come between the scores and the step that turns them into shares. Between which two
        lines is that?""",
    ],
)

bug_40 = exhibit(
    40,
    "Eight heads were ordered",
    answer=1,
    why="**settings takes every name, also one that nobody will ask for",
    hints=[
        """Compare the names in the call with the names in the class, letter by letter.""",
        """Python refuses an unknown keyword by itself, unless a signature says that it takes anything.""",
    ],
)

bug_41 = exhibit(
    41,
    "The company a text keeps",
    answer=3,
    why="the mean counts the padding's vectors too",
    hints=[
        """Attention gets the mask, so the vectors of the real tokens are right. What else enters the
        text's vector?""",
        """The pads have vectors as well. Over which positions is the mean taken?""",
    ],
)

bug_42 = exhibit(
    42,
    "Nearly a layer norm",
    answer=2,
    why="`std` divides by n − 1; the norm needs n",
    hints=[
        """The results are too small by a factor that depends on the width only. Compare it with √((n − 1)
        / n) for n = 4 and for n = 384.""",
        """A small number like 1e-6 cannot make a difference of 13 %. Which line counts features, and how?""",
    ],
)

bug_43 = exhibit(
    43,
    "Neighbours in the batch",
    answer=1,
    why="without batch_first=True the first axis is the position",
    hints=[
        """Only the second text was changed, and the first one's answer moved. Along which axis does this
        attention attend?""",
        """What does `nn.MultiheadAttention` take the first axis for, unless it is told?""",
    ],
)

# ------------------------------------------------------------------------------------- specimens

TEXTS, POSITIONS, HEADS, D_HEAD = 3, 5, 2, 14  # sizes that cannot be mistaken for each other
WIDTH = HEADS * D_HEAD


@dataclass(frozen=True, eq=False)
class Specimen:
    """A bug of the museum in one form, beside the right code: something to try tests on.

    Attributes:
        number: of the exhibit.
        right, wrong: functions or modules, from (batch, position, features) to vectors.
        x: an input of sizes at which the bug does not stop.
        promise: what such code promises, in words.
        keeps: whether a function keeps the promise on x.
        parameters: how many a pencil counts.
    """

    number: int
    right: Callable[[Tensor], Tensor]
    wrong: Callable[[Tensor], Tensor]
    x: Tensor
    promise: str
    keeps: Callable[[Callable, Tensor], bool]
    parameters: int = 0

    @property
    def primes(self) -> Tensor:
        """An input whose sizes are all different."""
        return normal(TEXTS, POSITIONS, WIDTH)


def normal(*shape: int) -> Tensor:
    """Seeded standard normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def specimens() -> list[Specimen]:
    """Sixteen bugs, always with the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return [*of_shapes(), *of_rotations(), *of_masks(), *of_modules()]


def real_positions(x: Tensor) -> Tensor:
    """A made-up padding mask: the last position of each text is padding, of every second one the last two."""
    real = torch.ones(x.shape[:2], dtype=torch.bool)
    real[:, -1] = False
    real[1::2, -2] = False
    return real  # (batch, position)


def attend(x: Tensor, keep: Tensor | None = None, *, scale: float | None = None, cut=split_heads) -> Tensor:
    """Self-attention of x with itself, in HEADS heads; `keep` is laid over the scores as it comes."""
    heads = cut(x, HEADS)
    scores = heads @ heads.mT * (heads.shape[-1] ** -0.5 if scale is None else scale)
    if keep is not None:
        scores = scores.masked_fill(~keep, -math.inf)
    return (scores.softmax(dim=-1) @ heads).transpose(1, 2).flatten(-2)


def attend_once(x: Tensor, keep: Tensor) -> Tensor:
    """The same with one head and three axes."""
    scores = x @ x.mT / math.sqrt(x.shape[-1])
    return scores.masked_fill(~keep, -math.inf).softmax(dim=-1) @ x


def pads_change_nothing(function: Callable, x: Tensor) -> bool:
    """Is what stands in the padding without influence on the real positions, or on the text's one vector?"""
    real, changed = real_positions(x), x.clone()
    changed[~real] += 1
    before, after = function(x), function(changed)
    if before.shape[1] == 1:
        return torch.allclose(before, after)
    return torch.allclose(before[real], after[real])


def equal_stay_equal(function: Callable, x: Tensor) -> bool:
    """Do equal tokens come out as they went in? (A mean of equal things is that thing.)"""
    same = x[:, :1].expand_as(x).contiguous()
    return torch.allclose(function(same), same)


def keeps_lengths(function: Callable, x: Tensor) -> bool:
    """Does every vector keep its length?"""
    return torch.allclose(function(x).norm(dim=-1), x.norm(dim=-1))


def keeps_distance(function: Callable, x: Tensor) -> bool:
    """Does the score of two vectors depend on their distance only?"""
    return certificates.distance_only(
        lambda rows: function(rows[None])[0], *x[0, :2], length=x.shape[1]
    ).holds


def order_matters(function: Callable, x: Tensor) -> bool:
    """Does another order of the tokens change more than the order of the output?"""
    return not certificates.permutation_equivariance(function, x).holds


def texts_are_alone(function: Callable, x: Tensor) -> bool:
    """Is a text the same by itself as among others?"""
    return certificates.batch_invariance(function, x).holds


def spread_is_one(function: Callable, x: Tensor) -> bool:
    """Has each token mean 0 and variance 1?"""
    y = function(x)
    return torch.allclose(y.var(dim=-1, correction=0), torch.ones(x.shape[:-1]), atol=1e-3)


def of_shapes() -> list[Specimen]:
    """Results with an axis too few or too many, and heads that are scaled or cut wrongly."""
    whole = MultiHeadAttention(WIDTH, HEADS)

    def unpacked(x):
        output, _ = whole(x)[0]  # one tensor, two names
        return output

    def four_axes(x):
        return attend_once(x, real_positions(x)[:, None, None])

    def by_view(x, n_heads):
        return x.view(len(x), n_heads, x.shape[1], -1)

    def causal(x):
        return attend(x, causal_mask(x.shape[1]))

    return [
        Specimen(
            *(10, lambda x: whole(x)[0], unpacked, normal(2, 4, WIDTH)), "texts are alone", texts_are_alone
        ),
        Specimen(
            *(11, lambda x: attend_once(x, real_positions(x)[:, None]), four_axes, normal(2, 4, WIDTH)),
            "pads change nothing",
            pads_change_nothing,
        ),
        Specimen(
            *(12, attend, lambda x: attend(x, scale=WIDTH**-0.5), normal(2, 4, WIDTH)),
            "equal stay equal",
            equal_stay_equal,
        ),
        Specimen(
            *(32, causal, lambda x: attend(x, causal_mask(x.shape[1]), cut=by_view), normal(2, 4, WIDTH)),
            "equal stay equal",
            equal_stay_equal,
        ),
    ]


def of_rotations() -> list[Specimen]:
    """Rotary code that turns by the wrong thing, or not at all."""

    def turned(x, dtype=torch.int64):
        positions = torch.arange(x.shape[1]).to(dtype).double()
        angle = positions[:, None] * angular_frequencies(WIDTH)
        return rotate_half_split(x, torch.polar(torch.ones_like(angle), angle))

    def by_head(x, between=(None,)):
        heads, turn = x.unflatten(-1, (HEADS, D_HEAD)), rotations(torch.arange(x.shape[1]), D_HEAD)
        return rotate_interleaved(heads, turn[:, *between]).flatten(-2)

    def one_at_a_time(x):
        return torch.cat([turned(x[:, i : i + 1]) for i in range(x.shape[1])], dim=1)

    return [
        Specimen(
            *(16, turned, lambda x: turned(x, torch.bfloat16), normal(1, 300, WIDTH)),
            "score by distance",
            keeps_distance,
        ),
        Specimen(
            *(33, by_head, lambda x: by_head(x, ()), normal(3, 2, WIDTH)), "lengths stay", keeps_lengths
        ),
        Specimen(*(34, turned, one_at_a_time, normal(2, 4, WIDTH)), "score by distance", keeps_distance),
        Specimen(
            36,
            lambda x: x + sinusoidal_encoding(x.shape[1], WIDTH),
            lambda x: x + sinusoidal_encoding(1, WIDTH)[: x.shape[1]],
            normal(2, 4, WIDTH),
            "order matters",
            order_matters,
        ),
    ]


def of_masks() -> list[Specimen]:
    """Masks upside down, misread, missing."""

    def masked(x):
        return attend(x, real_positions(x)[:, None, None])

    def pooled(x, real):
        return (masked(x) * real[..., None]).sum(dim=1, keepdim=True) / real.sum(dim=1)[:, None, None]

    promise = ("pads change nothing", pads_change_nothing)
    return [
        Specimen(
            30, masked, lambda x: attend(x, ~real_positions(x)[:, None, None]), normal(2, 4, WIDTH), *promise
        ),
        Specimen(31, masked, lambda x: attend(x, real_positions(x)), normal(4, 4, WIDTH), *promise),
        Specimen(39, masked, attend, normal(2, 4, WIDTH), *promise),
        Specimen(
            41,
            lambda x: pooled(x, real_positions(x)),
            lambda x: pooled(x, torch.ones(x.shape[:2])),
            normal(2, 4, WIDTH),
            *promise,
        ),
    ]


class Stack(nn.Module):
    """Units one after the other, each with its residual."""

    def __init__(self, units: Sequence[nn.Module]) -> None:
        super().__init__()
        self.units = nn.ModuleList(units)

    def forward(self, x: Tensor) -> Tensor:
        """(…, WIDTH) → the same"""
        for unit in self.units:
            x = x + unit(x)
        return x


class FirstResult(nn.Module):
    """Only the first of two results, so that all specimens have one."""

    def __init__(self, module: nn.Module, *, times: int = 1) -> None:
        super().__init__()
        self.module, self.times = module, times

    def forward(self, x: Tensor) -> Tensor:
        """The output of self-attention."""
        return self.module(*[x] * self.times)[0]


def of_modules() -> list[Specimen]:
    """Modules that share parameters, ignore what they were told, normalise or attend along the wrong axis."""

    def unit():
        return nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.PReLU())

    distinct, tied = Stack([unit() for _ in range(4)]), Stack([unit()] * 4)
    tied.load_state_dict(distinct.state_dict())
    two_heads = FirstResult(ExpandingMultiHeadAttention(WIDTH, 2))  # eight were ordered
    by_text = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    by_batch = nn.MultiheadAttention(WIDTH, HEADS)
    by_batch.load_state_dict(by_text.state_dict())
    four_units = 4 * (2 * WIDTH + WIDTH * WIDTH + WIDTH + 1)
    four_maps = 4 * (WIDTH * WIDTH + WIDTH)
    return [
        Specimen(38, distinct, tied, normal(2, 4, WIDTH), "none", lambda *_: True, four_units),
        Specimen(
            *(40, two_heads, two_heads, normal(2, 4, WIDTH), "texts are alone", texts_are_alone),
            parameters=parameters_of(ExpandingMultiHeadAttention(WIDTH, 8)),
        ),
        Specimen(
            42,
            lambda x: F.layer_norm(x, (WIDTH,)),
            lambda x: (x - x.mean(dim=-1, keepdim=True)) / (x.std(dim=-1, keepdim=True) + 1e-6),
            normal(2, 4, WIDTH),
            "mean 0, variance 1",
            spread_is_one,
        ),
        Specimen(
            *(43, FirstResult(by_text, times=3), FirstResult(by_batch, times=3), normal(2, 4, WIDTH)),
            "texts are alone",
            texts_are_alone,
            four_maps,
        ),
    ]


def parameters_of(thing: Callable | nn.Module) -> int:
    """How many numbers a module trains; none for a plain function."""
    return sum(p.numel() for p in thing.parameters()) if isinstance(thing, nn.Module) else 0
