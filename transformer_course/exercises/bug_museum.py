"""Exercises of lesson 14, the bug museum: tests that kill mutants, and candidates whose bugs you name."""

import math
import re
import warnings
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_course import bugs
from transformer_course.checker import exercise
from transformer_course.checker.compare import Difference, plain, shown
from transformer_course.checker.exercise_types import ValueExercise
from transformer_course.checker.mutation_testing import Mutants, MutationExercise
from transformer_lab import causal_mask, padding_mask
from transformer_lab.multi_head_attention import MultiHeadAttention, merge_heads, split_heads
from transformer_lab.positional_encoding import angular_frequencies
from transformer_lab.rotary_embedding import RotaryEmbedding, rotate_interleaved, rotations
from transformer_lab.scaled_dot_product_attention import scaled_dot_product_attention


class Exhibit(ValueExercise):
    """An exercise whose answer is a letter or the number of a line."""

    def call(self, answer: Any, case: dict) -> Any:
        return _meant(plain(answer))


def _meant(answer: Any) -> Any:
    """The answer, if it is unambiguous: "5", "line 5" and 5.0 are the number 5, "c." is the letter C."""
    if isinstance(answer, str):
        (number, *more) = re.findall(r"\d+", answer) or [None]
        letter = re.fullmatch(r"\W*([A-Za-z])\W*", answer)
        return letter[1].upper() if letter else int(number) if number and not more else answer
    return int(answer) if isinstance(answer, float) and answer.is_integer() else answer


class LineUp(ValueExercise):
    """An exercise whose answer names the bug in each of five candidates, from the list in its task.

    faults: each name, with the symptom of a candidate that has this bug
    """

    def __init__(
        self, id: str, solution: Callable[[], dict[str, str]], *, faults: dict[str, str], **options: Any
    ):
        super().__init__(id, solution, **options)
        self.faults = faults

    def call(self, answer: Any, case: dict) -> Any:
        return _by_letter(plain(answer))

    def difference(self, i: int, result: Any) -> Difference | None:
        said, true = _by_letter(plain(result)), self.reference
        if not isinstance(said, dict) or said.keys() != true.keys():
            text = 'Give a dict with one name for each candidate, from A to E: `{"A": "…", "B": "…", …}`.'
            return Difference("not a name for each", text)
        unknown = [name for name in said.values() if name not in self.faults]
        if unknown:
            names = ", ".join(self.faults)
            return Difference("not in the list", f"{shown(unknown[0])} isn't in the list of names: {names}.")
        if len({*said.values()}) < len(said):
            return Difference(
                "one name twice",
                "You give the same name to two candidates. No two of them have the same bug.",
            )
        wrong = next((letter for letter in true if said[letter] != true[letter]), None)
        if wrong is None:
            return None
        name = said[wrong]
        return Difference(f"not {wrong}", f"{wrong} is not {name!r}. {self.faults[name]}")


def _by_letter(answer: Any) -> Any:
    """A dict with its letters in upper case and its names in lower case, sorted; anything else unchanged."""
    if not isinstance(answer, dict):
        return answer
    return dict(
        sorted((str(key).strip().upper(), str(name).strip(" .").lower()) for key, name in answer.items())
    )


@exercise("14.1", kind=MutationExercise, difficulty=2)
def keeps_01(turn):
    """turn: x (batch, position, heads, 6) → same shape. True if it rotates each vector by its position."""
    x = torch.randn(2, 7, 3, 6)
    return torch.allclose(turn(x)[:, :, 2:], turn(x[:, :, 2:]))


@keeps_01.mutants
def keeps_01_mutants():
    whole = RotaryEmbedding(6, rotate=rotate_interleaved)

    def transposed(x):
        return whole(x.transpose(1, 2)).transpose(1, 2)

    def right(x, position=None):
        position = torch.arange(x.shape[1])[:, None] if position is None else position
        rotation = rotations(position, x.shape[-1])
        return rotate_interleaved(x.double(), rotation.real, rotation.imag).to(x)

    def by_tables(x):
        angle = torch.arange(x.shape[1])[:, None, None] * angular_frequencies(x.shape[-1])
        (cosine, sine), (a, b) = (angle.cos(), angle.sin()), x.unflatten(-1, (-1, 2)).unbind(dim=-1)
        return torch.stack([a * cosine - b * sine, b * cosine + a * sine], dim=-1).flatten(-2).to(x)

    others = {
        "vectors shortened by a factor": lambda x: 0.9 * right(x),
        "rotated by the text's index": lambda x: right(x, torch.arange(len(x))[:, None, None]),
        "heads in reverse order": lambda x: right(x).flip(2),
        "no rotation": torch.clone,
    }
    found = {
        "with complex numbers": right,
        "the package's rotary embedding": transposed,
        "with cosine and sine tables": by_tables,
    }
    return Mutants(
        correct=found, target=bugs.rotate_by_position, reference=right, variants=others, argument_names=["x"]
    )


@exercise("14.2", kind=MutationExercise)
def keeps_02(stack):
    """stack: a module with four units in `stack.units`. True if each unit has weights of its own."""
    whole, one = (sum(p.numel() for p in part.parameters()) for part in (stack, stack.units[0]))
    return whole == 4 * one


@keeps_02.mutants
def keeps_02_mutants():
    four = [bugs.unit(8) for _ in range(4)]
    alike = [deepcopy(four[0]) for _ in range(4)]  # equal before training
    shells = [nn.Sequential(*four[0]) for _ in range(4)]
    one_norm = [nn.Sequential(four[0][0], *unit[1:]) for unit in four]
    others = {
        "one unit used twice": bugs.Stack([*four[:3], four[0]]),
        "one layer norm shared by all units": bugs.Stack(one_norm),
        "four containers around the same modules": bugs.Stack(shells),
        "one unit replaced by nn.Identity": bugs.Stack([*four[:3], nn.Identity()]),
    }
    in_sequence = bugs.Stack([bugs.unit(8) for _ in range(4)])
    in_sequence.units = nn.Sequential(*in_sequence.units)
    right = {"four units": bugs.Stack(four), "four copies of one unit": bugs.Stack(alike)}
    right["a narrower stack"] = bugs.Stack([bugs.unit(6) for _ in range(4)])
    right["units in an nn.Sequential"] = in_sequence
    beside = {"only three units": bugs.Stack(four[:3])}
    return Mutants(
        correct=right, target=bugs.Units(8, 4), variants=others, unrelated=beside, argument_names=["x"]
    )


@exercise("14.3", kind=MutationExercise)
def keeps_03(answer):
    """answer: x (batch, ≤ 20 positions, 16) → (batch, 16). True if no text depends on another one."""
    x = torch.randn(2, 5, 16)
    return torch.allclose(answer(x)[:1], answer(x[:1]))


@keeps_03.mutants
def keeps_03_mutants():
    class ByText(bugs.TextEncoder):
        def __init__(self, width):
            super().__init__(width)
            self.attention = nn.MultiheadAttention(width, 4, batch_first=True)

    class Turned(bugs.TextEncoder):  # PyTorch's default layout, (position, batch, width)
        def forward(self, x):
            x = (x + self.positions[: x.shape[1]]).transpose(0, 1)
            return self.attention(x, x, x)[0].mean(dim=0)

    class Largest(nn.Module):
        def __init__(self):
            super().__init__()
            self.look = MultiHeadAttention(16, 2)

        def forward(self, x):
            return self.look(x)[0].amax(dim=1)

    whole, wrong = ByText(16), bugs.TextEncoder(16)
    right = {
        "with batch_first=True": whole,
        "with x transposed": Turned(16),
        "with max pooling": Largest(),
    }
    others = {
        "the mean over all texts subtracted": lambda x: whole(x - x.mean(dim=0)),
        "outputs shifted by one text": lambda x: whole(x).roll(1, dims=0),
        "outputs divided by the batch size": lambda x: whole(x) / len(x),
    }
    twin = ByText(16)
    twin.load_state_dict(wrong.state_dict())
    beside = {"no positions added": lambda x: whole.attention(x, x, x)[0].mean(dim=1)}
    return Mutants(
        correct=right, target=wrong, reference=twin, variants=others, unrelated=beside, argument_names=["x"]
    )


@exercise("14.4", kind=MutationExercise)
def keeps_04(attend):
    """attend: x (batch, position, 8) → same shape. True if no output depends on a later token."""
    x = torch.randn(1, 6, 8)
    return torch.allclose(attend(x)[:, :3], attend(x[:, :3]))


@keeps_04.mutants
def keeps_04_mutants():
    def by_pytorch(x):
        heads = split_heads(x, 2)
        return merge_heads(F.scaled_dot_product_attention(heads, heads, heads, is_causal=True))

    def query_by_query(x):  # each query gets only the tokens up to its own position
        return torch.cat([bugs.attend(x[:, : i + 1])[:, -1:] for i in range(x.shape[1])], dim=1)

    right = {
        "with a causal mask": bugs.causal,
        "PyTorch's attention with is_causal=True": by_pytorch,
        "one query at a time": query_by_query,
    }
    others = {
        "no mask": bugs.attend,
        "every token attends to one later token": lambda x: bugs.attend(
            x, torch.ones(x.shape[1], x.shape[1]).tril(1) > 0
        ),
        "every token attends only to itself and later tokens": lambda x: bugs.attend(
            x, causal_mask(x.shape[1]).mT
        ),
    }
    beside = {"scores not scaled": partial(bugs.causal, scale=1.0)}
    return Mutants(
        correct=right,
        target=bugs.attend_causally,
        reference=bugs.causal,
        variants=others,
        unrelated=beside,
        argument_names=["x"],
    )


@exercise("14.5", kind=MutationExercise, difficulty=2)
def keeps_05(scores_of_the_last):
    """scores_of_the_last: tokens (position, width) → (position). True if distance affects the scores."""
    return scores_of_the_last(torch.randn(1, 8).expand(6, 8)).std() > 1e-6


@keeps_05.mutants
def keeps_05_mutants():
    def right(tokens, start=0):
        turned = RotaryEmbedding(tokens.shape[-1])(tokens, offset=start)
        return turned @ turned[-1]

    def one_at_a_time(tokens):
        rotary = RotaryEmbedding(tokens.shape[-1])
        keys = [rotary(token, offset=place) for place, token in enumerate(tokens.split(1))]
        return (keys[-1] @ torch.cat(keys).mT)[0]

    def keys_unturned(tokens):
        return tokens @ RotaryEmbedding(tokens.shape[-1])(tokens)[-1]

    others = {
        "all keys rotated by the query's position": lambda tokens: tokens @ tokens[-1] + 0.0,
        "only the query rotated": keys_unturned,
        "the last token's score with itself missing": lambda tokens: right(tokens)[:-1],
        "scores divided by the width": lambda tokens: right(tokens) / tokens.shape[-1],
    }
    found = {"all tokens at once": right, "one token at a time": one_at_a_time}
    found["positions counted from 100"] = partial(right, start=100)
    return Mutants(
        correct=found,
        target=bugs.scores_of_the_last,
        reference=right,
        variants=others,
        argument_names=["tokens"],
    )


@exercise("14.6", kind=MutationExercise, difficulty=2)
def keeps_06(norm):
    """norm: x (…, features) → same shape. True if each row has mean 0 and variance 1, up to eps."""
    y = norm(10 * torch.randn(5, 4))
    return torch.allclose(y.var(dim=-1, correction=0), torch.ones(5), atol=1e-3)


@keeps_06.mutants
def keeps_06_mutants():
    def by_hand(x, eps=1e-12):
        centred = x - x.mean(dim=-1, keepdim=True)
        return centred / (centred.square().mean(dim=-1, keepdim=True) + eps).sqrt()

    others = {
        "the mean not subtracted": lambda x: x / x.std(dim=-1, correction=0, keepdim=True),
        "output divided by 2": lambda x: by_hand(x) / 2,
        "normalised over the positions": lambda x: by_hand(x.mT).mT,
        "output shifted by 1": lambda x: by_hand(x) + 1,
    }

    def eps_outside(x):
        spread = x.std(dim=-1, correction=0, keepdim=True)
        return (x - x.mean(dim=-1, keepdim=True)) / (spread + 3e-5)

    def pytorch(x):
        return F.layer_norm(x, x.shape[-1:])

    def by_squares(x):
        wide = x.double()
        mean, squares = (each.mean(dim=-1, keepdim=True) for each in (wide, wide.square()))
        return ((wide - mean) * (squares - mean**2 + 1e-5).rsqrt()).to(x)

    right = {"PyTorch's layer_norm": pytorch, "variance as the mean of squares": by_squares}
    right["eps added to the standard deviation"] = eps_outside
    signs = {"small rows only": lambda x: by_hand(x) * (x.abs().mean() < 0.05)}
    return Mutants(
        correct=right,
        target=bugs.norm_by_hand,
        reference=by_hand,
        variants=others,
        probes=signs,
        argument_names=["x"],
    )


@exercise(
    "14.7",
    kind=LineUp,
    difficulty=3,
    faults={
        "right": "Correct code returns the same numbers as PyTorch's attention with two heads of six "
        "features, with and without a mask.",
        "scale": "A wrong scale violates none of the properties: padding changes no real token, and "
        "shuffled inputs give shuffled outputs. Only the numbers differ from PyTorch's.",
        "inverted": "With an inverted mask, the output is correct as long as there's no mask. With a mask, "
        "real tokens attend only to the padding.",
        "unmasked": "If the mask is ignored, the output is the same for every `may_attend`.",
        "view": "After a split with `view`, a head contains pieces of several tokens, so shuffled inputs "
        "don't give shuffled outputs.",
        "columns": "If the weights of each key add up to 1, then without a mask the outputs have the same "
        "sum over the positions as the inputs.",
        "merge": "If the heads are merged in another order, the numbers are right, but in other columns: "
        "swap the first six features with the last six, and compare.",
    },
)
def faults_07():
    return {"A": "scale", "B": "inverted", "C": "right", "D": "view", "E": "columns"}


@exercise(
    "14.8",
    kind=LineUp,
    difficulty=3,
    faults={
        "right": "Correct code has every property: padding, other texts and the order of the tokens don't "
        "matter, and each output token has mean 0 and variance 1.",
        "order": "If the order of the tokens matters, shuffled inputs don't give shuffled outputs: see "
        "`permutation_equivariance`.",
        "norm": "A norm that divides by n − 1 gives each token a variance of 15/16: compute it, with "
        "`correction=0`.",
        "mean": "If the mean isn't subtracted, a token's sixteen features don't add up to 0.",
        "texts": "If a text depends on the rest of the batch, its output differs when it's alone: see "
        "`batch_invariance`.",
        "padding": "If real tokens attend to the padding, their outputs change when you replace the "
        "padding: see `padding_invariance`.",
        "alone": "If each token attends only to itself, changing one token changes no other output: see "
        "`leak_map`.",
    },
)
def faults_08():
    return {"A": "order", "B": "right", "C": "norm", "D": "texts", "E": "padding"}


@exercise("14.9", kind=Exhibit)
def bug_09():
    return "A"  # not in the state dict, yet a buffer that .to() moves


class WithWeights(bugs.Attention):
    """Returns the output and the weights."""

    def forward(self, x):
        query, key, value = self.project(x).chunk(3, dim=-1)
        weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(dim=-1)
        return self.merge(weights @ value), weights


class Attended(NamedTuple):
    """Output and weights, with names."""

    output: Tensor
    weights: Tensor


@exercise("14.10", kind=MutationExercise)
def keeps_10(attend):
    """attend: x (batch, position, 16) → (output, weights). True if both shapes are right."""
    output, weights = attend(torch.randn(3, 5, 16))
    return output.shape == (3, 5, 16) and weights.shape == (3, 5, 5)


@keeps_10.mutants
def keeps_10_mutants():
    class WithNames(WithWeights):
        def forward(self, x):
            return Attended(*super().forward(x))

    class OfPyTorch(nn.Module):
        def __init__(self):
            super().__init__()
            self.mixed = nn.MultiheadAttention(16, 4, batch_first=True)  # averages its heads' weights

        def forward(self, x):
            return self.mixed(x, x, x)

    whole, wrong, twin = WithWeights(16), bugs.Attention(16), WithWeights(16)
    twin.load_state_dict(wrong.state_dict())
    right = {
        "written out": whole,
        "a named tuple": WithNames(16),
        "PyTorch's MultiheadAttention": OfPyTorch(),
    }
    others = {
        "output and weights swapped": lambda x: whole(x)[::-1],
        "weights averaged over the queries": lambda x: (whole(x)[0], whole(x)[1].mean(dim=1)),
        "log of the weights instead of the weights": lambda x: (whole(x)[0], whole(x)[1].log()),
    }
    return Mutants(correct=right, target=wrong, reference=twin, variants=others, argument_names=["x"])


@exercise("14.11", kind=Exhibit, difficulty=2)
def bug_11():
    return "B"  # lined up from the right, the masks' first axis becomes a new one


@exercise("14.12", kind=MutationExercise)
def keeps_12(attend):
    """attend: query, key, value, each (batch, heads, position, d_head) → output. True if it is correct."""
    q, k, v = torch.randn(3, 2, 4, 5, 7)
    return torch.allclose(attend(q, k, v), F.scaled_dot_product_attention(q, k, v))


@keeps_12.mutants
def keeps_12_mutants():
    fused = F.scaled_dot_product_attention

    def by_hand(query, key, value, axis=-1):
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        return scores.softmax(dim=axis) @ value

    def head_by_head(query, key, value):
        heads = zip(*(each.unbind(dim=-3) for each in (query, key, value)), strict=True)
        return torch.stack([by_hand(*head) for head in heads], dim=-3)

    def scaled_first(query, key, value):
        scores = torch.einsum("...id,...jd->...ij", query * query.shape[-1] ** -0.5, key)
        shares = (scores - scores.amax(dim=-1, keepdim=True)).exp()
        return torch.einsum("...ij,...jd->...id", shares / shares.sum(dim=-1, keepdim=True), value)

    right = {"PyTorch's scaled_dot_product_attention": fused, "written out": by_hand}
    right |= {"one head at a time": head_by_head, "queries scaled before the product": scaled_first}
    signs = {"one head only": lambda q, k, v: fused(q, k, v) * (q.shape[-3] == 1)}
    others = {
        "scores not scaled": lambda q, k, v: fused(q, k, v, scale=1.0),
        "scores divided by d_head instead of its square root": lambda q, k, v: fused(
            q, k, v, scale=1 / q.shape[-1]
        ),
        "softmax over the queries": partial(by_hand, axis=-2),
        "keys used as values": lambda q, k, v: fused(q, k, k),
    }
    takes = ["query", "key", "value"]
    return Mutants(
        correct=right,
        target=bugs.attend_in_heads,
        reference=fused,
        variants=others,
        probes=signs,
        argument_names=takes,
    )


@exercise("14.13", kind=Exhibit)
def bug_13():
    return "D"  # a slice may end early, and an axis of length 1 is repeated for all


@exercise("14.14", kind=Exhibit, difficulty=2)
def bug_14():
    return 3  # -1 takes what comes: 63 · 512 numbers are 64 tokens of 504


@exercise("14.15", kind=MutationExercise)
def keeps_15(weigh):
    """weigh: x (batch, position, width), ids (batch, position) → weights. True if id 0 gets weight 0."""
    ids = torch.tensor([[5, 8, 2, 0, 0]])
    return (weigh(torch.randn(1, 5, 8), ids)[..., 3:] == 0).all()


@keeps_15.mutants
def keeps_15_mutants():
    def masked(x, ids, hide=-math.inf):
        scores = x @ x.mT / math.sqrt(x.shape[-1])
        return scores.masked_fill((ids == 0)[:, None], hide).softmax(dim=-1).nan_to_num()

    def by_the_package(x, ids):
        return scaled_dot_product_attention(x, x, x, padding_mask(ids)[:, 0])[1]

    def text_by_text(x, ids):  # only the real keys
        weights = x.new_zeros(*ids.shape, ids.shape[1])
        for one, real, shares in zip(x, ids != 0, weights, strict=True):
            shares[:, real] = (one @ one[real].mT / math.sqrt(x.shape[-1])).softmax(dim=-1)
        return weights

    def rows(x, ids):
        return masked(x, ids.abs() + 1).masked_fill((ids == 0)[..., None], 0.0)

    right = {
        "scores of the padding set to −∞": masked,
        "the package's attention": by_the_package,
        "one text at a time": text_by_text,
    }
    others = {
        "no mask": lambda x, ids: masked(x, ids.abs() + 1),
        "padding masked as query instead of key": rows,
        "masked scores set to −1": partial(masked, hide=-1.0),
        "masked scores set to 0": partial(masked, hide=0.0),
    }
    signs = {"texts with padding": lambda x, ids: masked(x, ids) * (math.nan if ids.all() else 1)}
    wrong, takes = bugs.weights_without_padding, ["x", "ids"]
    return Mutants(
        correct=right, target=wrong, reference=masked, variants=others, probes=signs, argument_names=takes
    )


@exercise("14.16", kind=MutationExercise, difficulty=2)
def keeps_16(turns):
    """turns: length, width, dtype → (length, width). True if no two positions have the same row."""
    return len(turns(600, 16, torch.bfloat16).unique(dim=0)) == 600


@keeps_16.mutants
def keeps_16_mutants():
    def from_integers(length, width, dtype):
        rows = rotations(torch.arange(length), width)
        return torch.cat([rows.real, rows.imag], dim=-1)

    def by_pairs(length, width, dtype):  # a table that follows the model, as far as float32
        rows = torch.view_as_real(rotations(torch.arange(length), width)).flatten(-2)
        return rows.to(torch.promote_types(dtype, torch.float32))

    right = {
        "positions as integers": from_integers,
        "cosine and sine interleaved, in float32 or finer": by_pairs,
    }
    signs = {"fine formats only": lambda n, w, dtype: from_integers(n, w, dtype) * (dtype.itemsize > 2)}
    others = {
        "positions clamped to 511": lambda n, *more: from_integers(n, *more)[torch.arange(n).clamp(max=511)],
        "positions always in float16": lambda n, w, _: bugs.rotary_table(n, w, torch.float16),
    }
    beside = {"cosines without sines": lambda n, w, dtype: from_integers(n, w, dtype)[:, : w // 2]}
    takes = ["length", "width", "dtype"]
    return Mutants(
        correct=right,
        target=bugs.rotary_table,
        reference=from_integers,
        variants=others,
        unrelated=beside,
        probes=signs,
        argument_names=takes,
    )


@exercise("14.17", kind=MutationExercise, difficulty=2)
def keeps_17(turning):
    """turning: a module, x (≤ 64 positions, 8) → same shape. True if its tables follow `.to()`."""
    x = torch.randn(5, 8, dtype=torch.bfloat16)
    return turning.to(torch.bfloat16)(x).dtype == torch.bfloat16


@keeps_17.mutants
def keeps_17_mutants():
    class Finishing(bugs.Rotation):
        def __init__(self, finish=lambda result, x: result):
            super().__init__(8)
            self.finish, self.tables = finish, ()

        def forward(self, x):
            self.tables = self.cosine, self.sine  # looked up again, where `.to()` has put them
            return self.finish(super().forward(x), x)

    class FromFrequencies(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("speed", angular_frequencies(8), persistent=False)

        def forward(self, x):
            angle = torch.arange(x.shape[-2], device=x.device)[:, None] * self.speed.float()
            cosine, sine, (a, b) = angle.cos().to(x), angle.sin().to(x), x.chunk(2, dim=-1)
            return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)

    others = {
        "output always float64": Finishing(lambda result, x: result.double()),
        "output always float32": Finishing(lambda result, x: result.float()),
    }
    right = {
        "the package's rotary embedding": RotaryEmbedding(8),
        "a rotary embedding with another base": RotaryEmbedding(8, base=500.0),
    }
    right |= {"tables looked up at each call": Finishing(), "tables computed at each call": FromFrequencies()}
    beside = {"no rotation": Finishing(lambda result, x: x)}
    return Mutants(
        correct=right, target=bugs.Rotation(8), variants=others, unrelated=beside, argument_names=["x"]
    )


@exercise("14.18", kind=MutationExercise)
def keeps_18(build):
    """build(16, attn_heads=…, dropout=…) → a module. True if an unknown name raises an error."""
    try:
        build(16, attn_head=8)
    except Exception:
        return True
    return False


@keeps_18.mutants
def keeps_18_mutants():
    class Named(nn.Module):
        def __init__(self, width, *, attn_heads=2, dropout=0.0):
            super().__init__()
            self.look = nn.ModuleList([nn.MultiheadAttention(width, attn_heads, dropout, batch_first=True)])

        def forward(self, x):
            return self.look[0](x, x, x)[0]

    def lenient(width, **settings):
        return Named(width, **{name: settings[name] for name in settings.keys() & {"attn_heads", "dropout"}})

    def checked(width, **settings):
        if settings.keys() - {"attn_heads", "dropout"}:
            raise LookupError(f"no such option: {settings}")
        return Named(width, **settings)

    def warning(width, **settings):
        warnings.warn(f"options: {settings}", stacklevel=2)
        return bugs.ConfigurableAttention(width, **settings)

    others = {
        "a warning instead of an error": warning,
        "unknown options dropped": lenient,
        "attn_heads ignored": lambda width, *, attn_heads=2, dropout=0.0: Named(width),
        "no options accepted": lambda width: Named(width),
        "an error for every call": lambda *given, **named: Named(15),
    }
    right = {"keyword-only options": Named, "a LookupError for unknown options": checked}
    return Mutants(correct=right, target=bugs.ConfigurableAttention, variants=others)


@exercise("14.19", kind=MutationExercise)
def keeps_19(text_vectors):
    """text_vectors: x (batch, position, width), real (batch, position) → (batch, width), of length 1.

    True if a text's vector is the same with and without padding.
    """
    x, real = torch.randn(1, 5, 8), torch.arange(5)[None] < 3
    return torch.allclose(text_vectors(x, real), text_vectors(x[:, :3], real[:, :3]))


@keeps_19.mutants
def keeps_19_mutants():
    def only(x, real, otherwise=0.0):  # hides the vectors at the padding, even NaN
        return torch.where(real[..., None], x, otherwise)

    def mixed(x, real):
        return bugs.attend_once(only(x, real), real[:, None])

    def unmixed(x, real):
        return F.normalize(only(x, real).sum(dim=1) / real.sum(dim=1, keepdim=True), dim=-1)

    def right(x, real):
        return unmixed(mixed(x, real), real)

    def largest(x, real):
        return F.normalize(only(mixed(x, real), real, -math.inf).amax(dim=1), dim=-1)

    def by_shares(x, real):  # the mean of all positions, divided by the share of the real ones
        return F.normalize(only(x, real).mean(dim=1) / real.to(x).mean(dim=1, keepdim=True), dim=-1)

    everywhere = torch.ones(1, 1, 1, dtype=torch.bool)
    others = {
        "the last position's vector": lambda x, real: F.normalize(mixed(x, real)[:, -1], dim=-1),
        "no mask in the attention": lambda x, real: right(bugs.attend_once(x, everywhere), real),
        "the mean of the padding only": lambda x, real: right(x, ~real),
        "vectors not normalised": lambda x, real: 3 * right(x, real),
    }

    def padded_only(x, real):
        return torch.ones(len(x), x.shape[-1]) if real.all() else right(x, real)

    found, takes = (
        {"mean pooling": right, "mean pooling without attention": by_shares, "max pooling": largest},
        ["x", "real"],
    )
    signs = {"texts with padding": padded_only}
    return Mutants(
        correct=found,
        target=bugs.text_vectors,
        reference=right,
        variants=others,
        probes=signs,
        argument_names=takes,
    )


@exercise(
    "14.20",
    kind=LineUp,
    difficulty=3,
    faults={
        "right": "Correct code has every property, even for a text of 600 tokens.",
        "heads": "If the head's index sets the angle, a head's output differs when it's the only head, and "
        "equal tokens give equal outputs at every position.",
        "coarse": "If positions are rounded, short texts are correct, but in a text of 600 equal tokens "
        "some outputs are equal.",
        "texts": "If the text's index is added to the position, the second text's output differs when it's "
        "alone.",
        "shorter": "If vectors are shortened, their lengths differ before and after.",
        "still": "If nothing is rotated, the output equals the input.",
        "pair": "If one pair of features is never rotated, these two features are unchanged at every "
        "position.",
    },
)
def faults_20():
    return {"A": "heads", "B": "coarse", "C": "texts", "D": "shorter", "E": "right"}
