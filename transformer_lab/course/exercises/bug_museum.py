"""Exercises of lesson 14, the bug museum: in each, find the guilty line or the cause.

Below them stand specimens: some of the bugs in one form, beside the right code, so that tests can be tried.
"""

import math
from collections.abc import Callable, Mapping, Sequence
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
        return self.specified if is_also else answer


def exhibit(
    number: int,
    title: str,
    *,
    answer: int | str,
    also: int | str | None = None,
    why: str,
    hints: Sequence[str],
    innocent: Mapping[str, tuple],
) -> Exercise:
    """Declare an exhibit, whose answer is the number of a line, a count, or the letter of a cause.

    Args:
        number: its place in the museum.
        title: what one sees, never the cause.
        answer: a number, or a capital letter.
        also: another one that is as right.
        why: the comment beside the shown solution.
        hints: two.
        innocent: wrong answers by name; each a diagnosis and one or more numbers or letters.
    """
    name, shown = f"bug_{number:02}", f'"{answer}"' if isinstance(answer, str) else answer
    declared = Exhibit(f"14.{number}", title, name, f"{name} = ...", hints)
    declared.shown, declared.reference = f"{name} = {shown}  # {why}", answer
    declared.specification(lambda: answer)
    if also is not None:
        declared.also = also
        declared.alternative(lambda: also)
    for wrong, (diagnosis, *choices) in innocent.items():
        declared.mistake(
            wrong, diagnosis, *(spelling for choice in choices for spelling in spellings(choice))
        )
    if isinstance(answer, str):
        declared.alternative(lambda: str(np.str_(answer)))
        declared.mistake("a small letter", SMALL_LETTER, answer.lower())
    else:
        declared.alternative(lambda: torch.tensor(answer))
        declared.mistake("a number in quotes", IN_QUOTES, *(str(n) for n in (answer, also) if n is not None))
    return declared


def spellings(choice: int | str) -> list[int | str]:
    """A letter may come small, and a number in quotes: the wrong choice is the same."""
    return [choice, choice.lower()] if isinstance(choice, str) else [choice, str(choice)]


SMALL_LETTER = """You have the right one, and only the spelling differs: write the letter as a capital, as the
    task does, in quotes."""
IN_QUOTES = (
    """You have the right one, but as text. Write the number without quotes, so that it is an `int`."""
)

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
    innocent={
        "where the property is defined": (
            """Line 4 does define `dim`, and that is the riddle: it exists. What is missing is something
            that its body asks for. An AttributeError inside a property makes `nn.Module` say that the
            property is missing.""",
            4,
        ),
        "the first error's line": (
            """Line 6 asks for a `theta` that nobody gave, and that is the first of the two errors. The
            second comes up although `forward` is never called: reading `dim` does not run it.""",
            6,
        ),
        "the buffer": (
            """The buffer is stored under the name "inv_freq", and nothing here asks for it in vain. Look
            for a name that is read from `self` and was never written there.""",
            3,
        ),
        "set-up or rotation": (
            """That line runs without a complaint, or is never reached: to read `dim` runs the property's
            own body and nothing else. Ask what that body needs.""",
            *(1, 2, 7, 8),
        ),
    },
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
    innocent={
        "the table is built": (
            """To own a table is no crime: the first encoder needs one. The error comes when vectors are
            handed over where the table is read.""",
            1,
        ),
        "the projections": (
            """The three projections take vectors 16 wide, and that is what the first encoder returns.
            They would be content. Something before them is not.""",
            2,
        ),
        "the scores": (
            """The scores are made from vectors, whatever they come from. The second encoder never gets so
            far: its very first step fails.""",
            4,
        ),
        "what is returned": (
            """To return vectors is what an encoder is for. If it returned ids there would be nothing in
            context. Ask who cannot take them.""",
            5,
        ),
    },
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
    innocent={
        "one axis in the middle": (
            """(2, 1, 7) is lined up from the right: 7 keys, 1 for the queries, and the 2 texts come to
            stand under the 4 heads. It is an error here, and with as many heads as texts it would be
            none.""",
            "A",
        ),
        "axes at the end": (
            """(2, 7, 1, 1) puts the 7 keys under the 4 heads. The keys are the last axis of the scores,
            so they must stay last in the mask.""",
            "B",
        ),
        "transposed": (
            """(7, 2) puts the texts under the keys. Nothing has to change places; the mask has too few
            axes, and they must be put in.""",
            "D",
        ),
    },
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
    innocent={
        "the sines": (
            """For seven features line 2 makes four frequencies, and the columns 0, 2, 4, 6 are four as
            well: the sines fit. Count the columns of the other line.""",
            4,
        ),
        "the frequencies": (
            """Line 2 makes four frequencies for seven features, without an error. One could cut one off,
            but the line that runs into trouble with them is another.""",
            2,
        ),
        "the empty table": (
            """A table of length × 7 zeros is what was asked for. Nothing fails before something is
            written into it.""",
            3,
        ),
        "the positions": (
            """Positions have nothing to do with the number of features: one row each, whatever the width.""",
            1,
        ),
    },
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
    innocent={
        "positions in x's format": (
            """That does not even stop the error: the exponents are float32 still, and a product takes the
            finer format. And positions in float16 collide from 2049 on, in bfloat16 from 257 on. Convert
            later.""",
            3,
        ),
        "exponents in x's format": (
            """The exponents alone do not settle it: positions are still float32, and the product takes
            the finer format. And rounded exponents would spoil the angles. Round later.""",
            4,
        ),
        "angles in x's format": (
            """It runs, but large angles lose their fraction: near 1000 radians float16 keeps steps of .5,
            and the sine of such an angle is anything. Round one step later.""",
            5,
        ),
        "where it stops": (
            """Line 7 is where the two formats meet, and where Python stops. Converted at its end, it
            would be too late: the product inside has failed by then.""",
            7,
        ),
        "the projection or the sizes": (
            """The projection follows `.half()` as it should, and sizes have no format. It is what is
            added to x that is of another kind than x.""",
            *(1, 2),
        ),
    },
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
    innocent={
        "the scores": (
            """The scores are ordinary numbers of a few units, in every format. Look for a number that a
            small format cannot hold.""",
            1,
        ),
        "the softmax": (
            """Softmax does what it must: five equal numbers give five equal shares. That all five were
            made equal is the deed of an earlier line.""",
            3,
        ),
        "the mixture": (
            """The mixture takes the shares as they are. By then they are already wrong, and in float16 it
            is never reached.""",
            4,
        ),
    },
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
    innocent={
        "where it stops": (
            """Line 6 is where the numbers fail to fit, perhaps hours after the module was built. It
            trusts what it was given. Look for the line that gave it a width that is none.""",
            6,
        ),
        "the projection": (
            """The projection keeps 512 features, as it should. That 512 cannot be shared by 12 was known
            before a projection was made.""",
            *(3, 5),
        ),
        "the number of heads": (
            """12 heads are fine in themselves: with 384 features they work. It is the two numbers
            together that do not fit.""",
            1,
        ),
        "the sizes of x": (
            """x is as it should be: 512 features, the width that the module was built for. Another text
            would fail in the same way.""",
            4,
        ),
    },
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
    innocent={
        "a parameter": (
            """A parameter stands in the checkpoint as well, so the sizes clash as before. And training
            would change a table that is meant to be fixed.""",
            "B",
        ),
        "a plain attribute": (
            """That leaves the checkpoint, and the two models can exchange weights. But `.to(device)` and
            `.half()` do not see a plain tensor: the next error is waiting. Exhibit 17 shows it.""",
            "C",
        ),
        "strict=False": (
            """`strict=False` forgives names that are missing or unknown. A name that is there with
            another size remains an error.""",
            "D",
        ),
    },
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
    innocent={
        "the conversion": (
            """Line 3 converts x to what it is told. What it is told is out of date. Look for the line
            that wrote the note.""",
            3,
        ),
        "the projection": (
            """The projection has moved to float32 as it was asked to. It is the input that comes in the
            old format.""",
            1,
        ),
        "where it stops": (
            """Line 4 is where two formats meet. x came in as float32, like the weights; between the door
            and this line somebody changed it.""",
            4,
        ),
    },
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
    innocent={
        "the projections": (
            """Line 1 cuts along the last axis, on purpose and into three. What is cut in two by accident
            is the first axis, and outside of the module.""",
            1,
        ),
        "the weights": (
            """The weights are right, (2, 5, 5), and they never leave the module: that is the matter. Look
            for the line that decides what leaves it.""",
            2,
        ),
        "the mixture": (
            """The mixture has shape (2, 5, 16) and is right. Both texts are still there after line 3.""",
            3,
        ),
    },
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
    innocent={
        "a second head": (
            """There are no heads here. The second axis of the result comes from the scores' first axis,
            and that one counts texts.""",
            "A",
        ),
        "the other way round": (
            """Nearly: the two are exchanged. Lined up from the right, the mask has one axis more than the
            scores, so it is the mask's texts that come first.""",
            "C",
        ),
        "a copy": (
            """Broadcasting copies along axes of length 1 only, and the scores' axis of texts has length 2:
            its two entries stay two texts. Line the shapes up from the right.""",
            "D",
        ),
    },
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
    innocent={
        "the width": (
            """8 · 64 = 512 is the width of the model: a true number. Whether it is the right one under
            the root is decided where it is used.""",
            2,
        ),
        "the product": (
            """The dot products are right: they sum over the 64 features of each head, and that number is
            what the next step must know.""",
            3,
        ),
        "the softmax": (
            """The softmax runs over the keys, as it should. It makes flat rows out of small scores, so
            ask who made them small.""",
            5,
        ),
        "reading the sizes": (
            """Heads and width of a head are read off correctly: axis 1 and the last one. Look for where a
            wrong one of two right numbers is used.""",
            1,
        ),
    },
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
    innocent={
        "the first map": (
            """Line 2 is a linear map with fresh weights: it mixes the features, and line 3 sees only what
            it mixed. Nothing of x can be recognised there. Look for the place where x comes back as it
            was.""",
            *(2, 3),
        ),
        "the norm": (
            """The norm does rescale x, but what passes through lines 2 to 4 is mixed by two maps: query
            and key of one token are no more alike than others. Look for an x that goes around them.""",
            1,
        ),
        "the second map": (
            """Two different units make query and key, so their maps are strangers to each other. With
            lines 1 to 4 alone the diagonal would be as dark as the rest.""",
            4,
        ),
    },
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
    innocent={
        "the attention": (
            """Attention makes tokens more alike, in every encoder. It is not alone in a block, and what
            keeps the tokens apart usually stands beside it. Here it is missing.""",
            4,
        ),
        "putting side by side": (
            """Here x is still there, complete, in the second half of `both`. Two lines later it no longer
            is.""",
            5,
        ),
        "the network's sum": (
            """This is a residual connection, around the network. It is the block as a whole that has
            none.""",
            6,
        ),
        "a part that is built": (
            """The parts are built as they should be, and with the same parts the tokens stay apart in the
            mended block. It is about how they are joined.""",
            *(1, 2, 3),
        ),
    },
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
    innocent={
        "like 1 / eps": (
            """Then the gradient would grow 10,000-fold from 1e-5 to 1e-9. The output says 100-fold. A
            norm divides by a root.""",
            "C",
        ),
        "like −log eps": (
            """Then it would not even double from 1e-5 to 1e-9: 5 · 2.3 against 9 · 2.3. The output says
            100-fold.""",
            "B",
        ),
        "not at all": (
            """That holds for the ordinary row, whose variance is far larger than any eps. The constant
            row has nothing else to divide by.""",
            "A",
        ),
    },
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
    innocent={
        "the conversion": (
            """The conversion comes too late: it makes precise numbers out of positions that have
            coincided already. 257 became 256 before.""",
            2,
        ),
        "the frequencies": (
            """The frequencies are computed in float64, whatever the model's format is. With them alone
            all rows would differ.""",
            3,
        ),
        "the angles": (
            """A product of fine numbers is fine. What enters it is what was lost: two positions with one
            number have one angle.""",
            4,
        ),
        "cosine and sine": (
            """Sine and cosine tell 2048 different angles apart without trouble. They get only 641 to
            begin with.""",
            5,
        ),
    },
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
    innocent={
        "the angles": (
            """Angles in float64 are what one wants: they are computed finely and rounded later. That they
            are not rounded later is the fault of another line.""",
            1,
        ),
        "the buffers": (
            """The two buffers follow `.to()` in every respect, the first printed line shows it. They are
            not what `forward` reads.""",
            *(2, 3),
        ),
        "where they are read": (
            """This line reads what it is given under that name. It is the name that leads to old tensors:
            ask who made it.""",
            5,
        ),
        "the rotation": (
            """The rotation is right; in a product of two formats the finer one wins, and the result
            changes its format. The finer one should not be there.""",
            *(6, 7),
        ),
    },
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
    innocent={
        "expand": (
            """It looks like the guilty one, and it is the accomplice: `expand` makes a view that stores
            nothing new. The room is taken when somebody computes with all its entries.""",
            1,
        ),
        "hiding the scores": (
            """The result of this line is as large as the scores, with or without the bug. The question is
            about the mask.""",
            3,
        ),
        "the softmax": (
            """The weights are as large as the scores, whatever the mask was. The question is about the
            memory that the mask takes.""",
            4,
        ),
    },
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
    innocent={
        "all of them": (
            """You believe the comments. The code prints what it does: −1,000,000,000 and a result that is
            7 wide are two lines that say something else.""",
            4,
        ),
        "three": (
            """One is easy to see, the number in (b). There are others: ask whether anything depends on
            `eps`, and how wide the result is.""",
            3,
        ),
        "two": (
            """Nearly. Did you test (a)? An argument that is never used changes nothing, whatever is said
            about it. Or was it (d): 7, not 3.""",
            2,
        ),
        "none": (
            """(c) is true: the keys are transposed, so that row i holds the scores of query i, one for
            each key.""",
            0,
        ),
    },
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
    innocent={
        "a share of the features": (
            """That is what multi-head attention usually does, and what tutorial A says of this code.
            But 16 features cannot be shared by three heads, and this runs. Read the shapes.""",
            "A",
        ),
        "everything expanded": (
            """48 is the width before the cut. Each head gets one of three pieces.""",
            "C",
        ),
        "fewer, rounded down": (
            """5 · 3 = 15 would lose one feature. Nothing is lost here: the output of the expansion is cut
            into three equal pieces, and their shapes are printed.""",
            "D",
        ),
    },
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
    innocent={
        "how attention picks keys": (
            """Five keys and no choice at all would be .200 each. The weights run from .12 to .31: little
            is picked, and of random numbers there is nothing to pick.""",
            "A",
        ),
        "that the mask works": (
            """The last line compares with no mask at all: the same numbers. A mask that hides nothing
            cannot show that it would hide something.""",
            "B",
        ),
        "both": (
            """Neither, on a closer look. The weights are nearly even, and with the mask left out they are
            the same to the last digit.""",
            "C",
        ),
    },
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
    innocent={
        "minus ninety": (
            """−90° would take (1, 0) to (0, −1), straight down. The output has (0, 1). The minus in the
            code acts on the half that comes first, and there it stood before.""",
            "A",
        ),
        "half a turn": (
            """Half a turn takes (1, 0) to (−1, 0). That is what two calls do, the printed third line, so
            one call does half of it.""",
            "B",
        ),
        "a swap": (
            """A swap would take (1, 0) to (0, 1), true, but two swaps give back what was there. The third
            line says otherwise: twice gives (−1, 0).""",
            "D",
        ),
    },
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
    innocent={
        "backwards": (
            """The word "inverse" misleads, and tutorial A fell for it. But the number is multiplied by
            the position: pair 0, with 1.0, turns one radian at each step.""",
            "B",
        ),
        "the right rule, the wrong pairs": (
            """The number is indeed the speed. But read its values: pair 0 has 1.0, the largest, and the
            last pair .001.""",
            "C",
        ),
        "all alike": (
            """After ten positions the four pairs stand at 10, 1, .1 and .01 radians. They share the code,
            not the speed.""",
            "D",
        ),
    },
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
    innocent={
        "relative in x": (
            """A single vector has nothing to be relative to. The first line shows it: the same vector at
            two places has become two vectors.""",
            "A",
        ),
        "no position at all": (
            """Then the first line would say 0. The rotation does put the place into x; what the scores
            make of it is another question.""",
            "B",
        ),
        "absolute in both": (
            """The second line speaks against it: moved together by ten places, the two vectors have the
            same score as before.""",
            "D",
        ),
    },
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
    innocent={
        "W₂ raises": (
            """From 16 to 64 is the first map. The second one brings the 64 back to 16: look at its output
            features.""",
            "A",
        ),
        "scores are concatenated": (
            """What is put side by side must be as wide as one head's features, for each token. Scores are
            as wide as the text is long: the shapes tell them apart.""",
            "B",
        ),
        "later tokens win": (
            """Fewer than half of the seeds. Nothing was learned here: whether the weights rise or fall
            depends on two random maps, and the tutorial shows one case.""",
            "C",
        ),
    },
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
    innocent={
        "GPT-2 XL": (
            """48 layers, 1600 wide: the count from the table's row is the checkpoint's, to the last
            parameter. That row is right.""",
            "A",
        ),
        "the 70B model": (
            """80 layers, 8192 wide, 64 heads, and 8 heads for keys and values: counted so, it agrees to
            the last parameter. With 64 it would not.""",
            "C",
        ),
        "none": (
            """The difference in one row is .8 billion parameters, a tenth and more of the model. An exact
            count leaves no room for rounding.""",
            "D",
        ),
    },
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
    innocent={
        "without residuals": (
            """The sentence is about encoders that have residuals. What happens without them is no
            counterexample, whatever the number is.""",
            "A",
        ),
        "fresh, with both": (
            """That line agrees with the sentence: first and last layer hear about the same. It does not
            refute it, and does not prove it either.""",
            "B",
        ),
        "pre-norm": (
            """Here the gradient survives, so this line agrees with the sentence. To refute it you need a
            line with both parts and without a gradient.""",
            "D",
        ),
    },
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
    innocent={
        "any length": (
            """Then the first line would be as good at 512 as at 32. That a score depends on the distance
            only does not say that it knows every distance.""",
            "A",
        ),
        "large positions spoil it": (
            """With the window the same positions, up to 511, are answered correctly. It is not the
            position that is too large.""",
            "C",
        ),
        "it never learned": (
            """At length 32, the length of training, it answers (nearly) everything. It has learned the
            task.""",
            "D",
        ),
    },
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
    innocent={
        "post-norm vanishes": (
            """Its first layer hears at least half as much as its last. What goes wrong with post-norm
            comes later, in the first steps of training: exhibit 27.""",
            "B",
        ),
        "both vanish": (
            """In neither of them does the first layer hear next to nothing. Pre-norm's first layer even hears
            more than its last.""",
            "C",
        ),
        "pre-norm's first layer": (
            """It is the other way round: the printed ratios are above 1, so pre-norm's first layer hears more
            than its last.""",
            "D",
        ),
    },
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
    innocent={
        "the scores": (
            """The scores are right and know nothing of masks. Look for the line in which scores are taken
            away.""",
            2,
        ),
        "the softmax": (
            """The rows add up to one, as they should. The softmax shares among what is left to it; ask
            who was left.""",
            4,
        ),
    },
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
    innocent={
        "as it was meant": (
            """Text 0 has no padding at all, and yet three of its rows have zeros. So the rows of the mask
            are not texts here.""",
            "A",
        ),
        "heads": (
            """Lined up from the right, (4, 4) meets the last two axes. The heads are the second one.
            Read so, head 0 would see every key of text 0, and it does not.""",
            "C",
        ),
        "the other way round": (
            """Then the mask would lie there turned over, and query 2 would see the keys 0 and 2. It sees the
            keys 0, 1 and 2. So the last axis still counts keys. The first is the problem.""",
            "D",
        ),
    },
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
    innocent={
        "the wanted shape": (
            """(batch, heads, position, d_head) is the shape that attention needs. There are two ways to
            come by it, and one of them mixes up tokens.""",
            2,
        ),
        "the mask": (
            """The mask is the package's, and right for tokens in their order. It hides positions, and a
            position may hold pieces of several tokens.""",
            5,
        ),
        "the merge": (
            """The merge is right: move the heads back behind the positions, then put them side by side.
            It undoes a cut that was never made.""",
            7,
        ),
        "the attention": (
            """Scores, scale and mixture are as they should be, for the heads that they get. Look at what
            they get.""",
            *(4, 6),
        ),
        "the sizes": ("""The three sizes are read off correctly. It depends on what is done with them.""", 1),
    },
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
    innocent={
        "an axis in front": (
            """An axis of length 1 in front changes nothing: PyTorch would have put it there by itself.
            The positions still meet the heads.""",
            "A",
        ),
        "transposed": (
            """Then the features come first and the positions meet the features. Positions and features
            stand in the right order already; something between them is missing.""",
            "C",
        ),
        "an axis at the end": (
            """(1, position, pair, 1) brings the pairs under the heads. The pairs are the last axis of x,
            and must stay last.""",
            "D",
        ),
    },
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
    innocent={
        "the loop": (
            """To go token by token is what decoding means. The place of a token is known inside the loop;
            ask whether it is used.""",
            1,
        ),
        "what is kept": (
            """Keeping the keys is right, and keeping them turned is right too: a key's place never
            changes. They come here unturned.""",
            3,
        ),
        "the scores": (
            """One query against all keys so far: right. The scores are those of vectors that were never
            turned.""",
            4,
        ),
    },
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
    innocent={
        "the line that is gone": (
            """`python -O` has removed line 1, and so it does nothing, neither good nor bad. Of those that
            are left, one makes up a number of tokens.""",
            1,
        ),
        "the division": (
            """42 is wrong for this width, and by itself it would be found at once: 63 tokens of 504 are
            not 63 of 512. Another line hides the difference.""",
            2,
        ),
        "the attention": (
            """Attention works on 64 tokens as well as on 63. It is told that there are 64.""",
            4,
        ),
        "the merge": (
            """It forces the numbers back into the old shape, and so covers the traces. By then they have
            been mixed. Ask where a 64th token came from.""",
            5,
        ),
    },
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
    innocent={
        "the slice repeats": (
            """A slice never repeats anything. `table[:5]` of a table with one row has one row. Then comes
            the sum.""",
            "A",
        ),
        "the buffer grows": (
            """A buffer stays as it was registered. Nobody makes rows for positions that the table does
            not have.""",
            "C",
        ),
        "a row of zeros": (
            """The row of position 0 is (0, 1, 0, 1, …): sines of zero and cosines of zero. It is added to
            every token, the printed line shows the change.""",
            "B",
        ),
    },
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
    innocent={
        "neighbours": (
            """Then feature 0 would move 0 and 1. That is the other convention, and tutorial A describes it
            (even and odd), beside code that does not do it.""",
            "B",
        ),
        "mirror images": (
            """Then feature 0 would move 0 and 7. Count again in the printed list: look at the number
            beside 0.""",
            "C",
        ),
        "all with all": (
            """Then every list would hold eight numbers. Each holds two: a rotation acts in a plane.""",
            "D",
        ),
    },
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
    innocent={
        "one unit": (
            """One unit is built here, and that would be fine if it were copied, or built anew for each
            place. Look for the line that fills the other places.""",
            1,
        ),
        "the module list": (
            """A ModuleList keeps what it is given, and it is given four names of one thing. With four
            units it keeps four.""",
            3,
        ),
        "the loop": (
            """The loop calls each place in turn, as it should. That it is the same unit each time was
            settled before.""",
            4,
        ),
        "the sum": (
            """The residual sum is right, and has nothing to do with who is called.""",
            5,
        ),
    },
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
    innocent={
        "the vectors": (
            """Each token gets its own vector, and its own place, whoever stands behind it. Up to here the
            eight real ones are untouched.""",
            1,
        ),
        "the scores": (
            """A score belongs to two tokens; the scores among the eight are the same with pads and
            without. Not yet harmed.""",
            2,
        ),
        "the mixture": (
            """The mixture takes the shares as they come. They have been given to the pads one line
            earlier.""",
            4,
        ),
        "the norm": (
            """A layer norm works on each token by itself. It does not know that there are others.""",
            5,
        ),
    },
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
    innocent={
        "the default": (
            """A default of 2 is as good as another; it was meant for a caller who says nothing. This one
            did say something, and was not heard.""",
            2,
        ),
        "the dropout": (
            """This line takes its value in the same manner, and has the same trouble with a misspelt
            name. Neither can know what was meant. Somebody before them could have refused.""",
            3,
        ),
        "the attention": (
            """It gets 2 heads and makes 2 heads. The order was lost before it came here.""",
            4,
        ),
    },
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
    innocent={
        "the tokenizer": (
            """To pad the shorter texts is what makes a batch. The tokenizer also says which positions are
            padding; ask who does not listen.""",
            1,
        ),
        "the encoder": (
            """It gets the mask: the vectors of real tokens are the same with padding and without, to the
            last digits. Something later forgets the mask.""",
            2,
        ),
        "the length 1": (
            """To divide by the length is right: cosines need it. It turns a wrong vector into a wrong
            vector of length 1.""",
            4,
        ),
    },
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
    innocent={
        "eps outside the root": (
            """It is another departure, and a small one: 1e-6 beside a spread near 1 moves the sixth
            digit. The difference is 13 % at a width of 4.""",
            3,
        ),
        "the mean": (
            """The mean is right: what comes out has mean 0. Its spread is what is off.""",
            1,
        ),
        "weight and bias": (
            """Fresh weights are 1 and biases 0, so this line does nothing here. And it is what the norm
            of PyTorch does as well.""",
            4,
        ),
    },
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
    innocent={
        "the positions": (
            """The places are added along the axis of positions, the second, as they should. Each text
            keeps to itself up to here.""",
            2,
        ),
        "the call": (
            """Query, key and value are the same x: self-attention. The call is right for a module that
            reads x as (batch, position, width).""",
            3,
        ),
        "the mean": (
            """The mean runs over positions, axis 1, in each text by itself. It brings nothing from one
            text to another.""",
            4,
        ),
    },
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
