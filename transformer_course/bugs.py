"""What hangs in the bug museum, lesson 14: wrong code, line-ups with one right one in five, and specimens.

The code that hangs there keeps a mistake and nothing else of where it was found. Beside it stands the right
code, so that a test can be tried on both.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_course.buggy_attention import (
    D_HEAD,
    HEADS,
    POSITIONS,
    TEXTS,
    WIDTH,
    attend,
    by_view,
    causal,
    turned,
)
from transformer_lab import EncoderConfig, causal_mask, sinusoidal_encoding
from transformer_lab.diagnostics import certificates
from transformer_lab.encoder import standard_layer
from transformer_lab.multi_head_attention import MultiHeadAttention
from transformer_lab.positional_encoding import angular_frequencies
from transformer_lab.rotary_embedding import RotaryEmbedding, rotate_half_split, rotate_interleaved, rotations

# --- the exhibits of the path: wrong, every one -----------------------------------------------------------


class Attention(nn.Module):
    """Returns (output, weights)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x).chunk(3, dim=-1)
        weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(dim=-1)
        mixed = weights @ value
        return self.mix(mixed)


def attend_in_heads(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention in several heads, scaled."""
    n_heads, d_head = query.shape[1], query.shape[-1]
    width = n_heads * d_head
    scores = query @ key.mT
    scores = scores / math.sqrt(width)
    return scores.softmax(dim=-1) @ value


def turns(length: int, width: int, dtype: torch.dtype) -> Tensor:
    """Cosines and sines of the positions, for a model in this format."""
    position = torch.arange(length, dtype=dtype)
    position = position.double()
    frequency = angular_frequencies(width)
    angle = position[:, None] * frequency
    return torch.cat([angle.cos(), angle.sin()], dim=-1)


class Turning(nn.Module):
    """A rotation whose tables follow the model."""

    def __init__(self, width: int, length: int = 64) -> None:
        super().__init__()
        angle = torch.arange(length)[:, None] * angular_frequencies(width)
        self.register_buffer("cosine", angle.cos())
        self.register_buffer("sine", angle.sin())
        self.tables = self.cosine, self.sine

    def forward(self, x: Tensor) -> Tensor:
        cosine, sine = (table[: x.shape[-2]] for table in self.tables)
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)


def weights_without_padding(x: Tensor, ids: Tensor) -> Tensor:
    """Weights of attention without the padding; id 0 is padding."""
    ignored = ids == 0
    scores = x @ x.mT / math.sqrt(x.shape[-1])
    scores = scores.masked_fill(ignored[:, None, :] == 0, -math.inf)
    return scores.softmax(dim=-1)


def attend_causally(x: Tensor, n_heads: int = 2) -> Tensor:
    """No token hears of a later one."""
    batch, length, width = x.shape
    heads = x.view(batch, n_heads, length, width // n_heads)
    scores = heads @ heads.mT / math.sqrt(width // n_heads)
    scores = scores.masked_fill(~causal_mask(length), -math.inf)
    mixed = scores.softmax(dim=-1) @ heads
    return mixed.transpose(1, 2).flatten(-2)


def turn_by_position(x: Tensor) -> Tensor:
    """(batch, position, heads, d_head), each vector turned by its position."""
    rotation = rotations(torch.arange(x.shape[1]), x.shape[-1])  # (position, pair), complex
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * rotation).flatten(-2)


def scores_of_the_last(tokens: Tensor) -> Tensor:
    """Token by token: the scores of the last one with all so far."""
    rotary, kept = RotaryEmbedding(tokens.shape[-1]), []
    for token in tokens.split(1):
        query, key = rotary(token), rotary(token)
        kept.append(key)
    return (query @ torch.cat(kept).mT)[0]


class Units(nn.Module):
    """Units one after the other, each with its own weights."""

    def __init__(self, width: int, n_layers: int) -> None:
        super().__init__()
        unit = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.PReLU())
        units = [unit] * n_layers
        self.units = nn.ModuleList(units)

    def forward(self, x: Tensor) -> Tensor:
        for unit in self.units:
            x = x + unit(x)
        return x


class Ordered(nn.Module):
    """Attention as ordered."""

    def __init__(self, width: int, **settings: int | float) -> None:
        super().__init__()
        n_heads = settings.get("attn_heads", 2)
        dropout = settings.get("dropout", 0.0)
        self.attention = nn.MultiheadAttention(width, n_heads, dropout, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0]


def text_vectors(x: Tensor, real: Tensor) -> Tensor:
    """One vector for each text, of length 1; `real` is (batch, position)."""
    scores = x @ x.mT / math.sqrt(x.shape[-1])
    scores = scores.masked_fill(~real[:, None], -math.inf)
    vectors = (scores.softmax(dim=-1) @ x).mean(dim=1)
    return F.normalize(vectors, dim=-1)


def norm_by_hand(x: Tensor, eps: float = 1e-6) -> Tensor:
    """A layer norm."""
    mean = x.mean(dim=-1, keepdim=True)
    spread = x.std(dim=-1, keepdim=True)
    return (x - mean) / (spread + eps)


class Answer(nn.Module):
    """One answer for each text."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4)
        self.places = nn.Parameter(torch.randn(20, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.places[: x.shape[1]]
        mixed, _ = self.attention(x, x, x)
        return mixed.mean(dim=1)


class Stack(Units):
    """Units one after the other, those that are given."""

    def __init__(self, units: Sequence[nn.Module]) -> None:
        nn.Module.__init__(self)
        self.units = nn.ModuleList(units)


def unit(width: int) -> nn.Module:
    """One of them."""
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.PReLU())


# --- line-ups ---------------------------------------------------------------------------------------------


def line_up(exercise_id: str) -> dict[str, Callable]:
    """Five suspects without a label, A to E. One is right; each of the others has one fault of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = {"14.7": _attentions, "14.8": _layers, "14.20": _rotations}[exercise_id]()
    return dict(zip("ABCDE", made, strict=True))


def _attentions() -> list[Callable]:
    def of(mask=lambda may_attend: may_attend, **otherwise):
        def suspect(x: Tensor, may_attend: Tensor | None = None) -> Tensor:
            return attend(x, None if may_attend is None else mask(may_attend), **otherwise)

        return suspect

    width = 12  # of whom the line-up's task speaks
    return [of(scale=width**-0.5), of(mask=torch.logical_not), of(), of(cut=by_view), of(axis=-2)]


def _rotations() -> list[Callable]:
    def of(position, shrink=1.0):
        def suspect(x: Tensor) -> Tensor:
            return turned(x, position(x)) * shrink

        return suspect

    def counted(x: Tensor) -> Tensor:
        return torch.arange(x.shape[1])[:, None]

    return [
        of(lambda x: torch.arange(x.shape[2])[None] + 0 * counted(x)),
        of(lambda x: counted(x).bfloat16().long()),
        of(lambda x: counted(x) + 3 * torch.arange(len(x))[:, None, None]),
        of(counted, shrink=0.97),
        of(counted),
    ]


def _layers() -> list[Callable]:
    layer = standard_layer(EncoderConfig(50, 16, 2, 32, 1, 20)).eval()

    def of(change=lambda x: x, shrink=1.0, deaf=False):
        def suspect(x: Tensor, may_attend: Tensor | None = None) -> Tensor:
            return layer(change(x), None if deaf else may_attend)[0] * shrink

        return suspect

    return [
        of(lambda x: x + sinusoidal_encoding(x.shape[1], x.shape[2])),
        of(),
        of(shrink=math.sqrt(15 / 16)),  # as a norm that divides by n − 1 leaves it
        of(lambda x: x - x.mean(dim=0)),
        of(deaf=True),
    ]


# --- specimens: what the map of the lesson is made of -----------------------------------------------------


@dataclass(frozen=True, eq=False)
class Specimen:
    """A bug of the museum in one form, beside the right code: something to try the five tests on.

    Attributes:
        number: of the exhibit.
        right, wrong: functions or modules, from (batch, position, features) to vectors.
        x: an input of sizes at which the bug does not stop.
        keeps: whether a function keeps its promise on x.
        parameters: how many a pencil counts.
    """

    number: int
    right: Callable[[Tensor], Tensor]
    wrong: Callable[[Tensor], Tensor]
    x: Tensor
    keeps: Callable[[Callable, Tensor], bool]
    parameters: int = 0

    def sizes(self) -> bool:
        """Does it take an input whose sizes are all different, and return the right shape?"""
        primes = normal(TEXTS, POSITIONS, WIDTH)
        return self.wrong(primes).shape == self.right(primes).shape

    def loop(self) -> bool:
        """Are all numbers those of the right code?"""
        got, wanted = self.wrong(self.x), self.right(self.x)
        return got.shape == wanted.shape and torch.allclose(got, wanted)

    def promise(self) -> bool:
        """Does it keep the promise?"""
        return self.keeps(self.wrong, self.x)

    def count(self) -> bool:
        """Has it as many parameters as a pencil counts?"""
        return parameters_of(self.wrong) == self.parameters

    def nudge(self) -> bool:
        """Does a change of one position move those whom it should move?"""
        wrong, right = (certificates.leak_map(each, self.x) > 1e-9 for each in (self.wrong, self.right))
        return torch.equal(wrong, right)


TESTS = ("sizes", "loop", "promise", "count", "nudge")
# What each specimen does wrong, as far as one may be told who has yet to find out why
MEANS = {
    1: "rotary turns by something else than the position",
    2: "one unit four times, not four units",
    3: "texts hear each other",
    4: "a causal mask lets the future through",
    5: "scores do not know the distance",
    6: "a layer norm leaves a wrong variance",
    10: "attention returns something else than promised",
    11: "a mask brings an axis too many",
    12: "all weights are too even",
    13: "a table of positions has too few rows",
    15: "queries take from the padding",
    16: "positions coincide",
    18: "fewer heads than were ordered",
    19: "a text's vector depends on its padding",
}


def notices(specimen: Specimen, test: str) -> int:
    """Whether one of the five tests does not let it pass, 1 or 0; 2 if an error stops it."""
    try:
        return int(not getattr(specimen, test)())
    except (RuntimeError, ValueError, TypeError, IndexError):
        return 2


def normal(*shape: int) -> Tensor:
    """Seeded standard normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def parameters_of(thing: Callable | nn.Module) -> int:
    """How many numbers a module trains; none for a plain function."""
    return sum(p.numel() for p in thing.parameters()) if isinstance(thing, nn.Module) else 0


def specimens() -> list[Specimen]:
    """Fourteen bugs in the order of their exhibits, always with the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return sorted([*of_shapes(), *of_rotations(), *of_masks(), *of_modules()], key=lambda one: one.number)


def real_positions(x: Tensor) -> Tensor:
    """A made-up padding mask: the last position of each text is padding, of every second one the last two."""
    real = torch.ones(x.shape[:2], dtype=torch.bool)
    real[:, -1] = False
    real[1::2, -2] = False
    return real  # (batch, position)


def attend_once(x: Tensor, keep: Tensor) -> Tensor:
    """Attention with one head and three axes."""
    scores = x @ x.mT / math.sqrt(x.shape[-1])
    return scores.masked_fill(~keep, -math.inf).softmax(dim=-1) @ x


def pads_change_nothing(function: Callable, x: Tensor) -> bool:
    """Is what stands in the padding without influence on the real positions, or on the text's one vector?"""
    real, changed = real_positions(x), x.clone()
    changed[~real] += 1
    before, after = function(x), function(changed)
    heard = real if before.shape[1] > 1 else slice(None)
    return torch.allclose(before[heard], after[heard])


def keeps_distance(function: Callable, x: Tensor) -> bool:
    """Does the score of two vectors depend on their distance only?"""
    found = certificates.distance_only(lambda rows: function(rows[None])[0], *x[0, :2], length=len(x[0]))
    return found.holds


def order_matters(function: Callable, x: Tensor) -> bool:
    """Does another order of the tokens change more than the order of the output?"""
    return not certificates.permutation_equivariance(function, x).holds


def heads_are_alone(function: Callable, x: Tensor) -> bool:
    """Does the first head get the same with others beside it and without them?"""
    return torch.allclose(function(x)[..., :D_HEAD], function(x[..., :D_HEAD]))


def texts_are_alone(function: Callable, x: Tensor) -> bool:
    """Is a text the same by itself as among others?"""
    return certificates.batch_invariance(function, x).holds


def learn_apart(stack: nn.Module, x: Tensor) -> bool:
    """Has each of the first two units a gradient of its own?"""
    weights = [unit[0].weight for unit in stack.units[:2]]
    one, other = torch.autograd.grad(stack(x).square().sum(), weights)
    return not torch.equal(one, other)


def refuses_unknown(built: nn.Module, x: Tensor) -> bool:
    """Does what has built it refuse a name that it does not know?"""
    try:
        type(built)(WIDTH, attn_head=7)
    except TypeError:
        return True
    return False


def spread_is_one(function: Callable, x: Tensor) -> bool:
    """Has each token variance 1?"""
    variance = function(x).var(dim=-1, correction=0)
    return torch.allclose(variance, torch.ones(x.shape[:-1]), atol=1e-3)


def of_shapes() -> list[Specimen]:
    """Results with an axis too few or too many, and heads that are scaled or cut wrongly."""
    whole, x, trusted = MultiHeadAttention(WIDTH, HEADS), normal(2, 4, WIDTH), F.scaled_dot_product_attention

    def in_heads(attend_to, x):
        heads = x.unflatten(-1, (-1, D_HEAD)).transpose(1, 2)
        return attend_to(heads, heads, heads).transpose(1, 2).flatten(-2)

    def unpacked(x):
        output, _ = whole(x)[0]  # one tensor, two names
        return output

    return [
        Specimen(10, lambda x: whole(x)[0], unpacked, x, texts_are_alone),
        Specimen(
            *(11, lambda x: attend_once(x, real_positions(x)[:, None])),
            *(lambda x: attend_once(x, real_positions(x)[:, None, None]), x, pads_change_nothing),
        ),
        Specimen(12, partial(in_heads, trusted), partial(in_heads, attend_in_heads), x, heads_are_alone),
        Specimen(4, causal, attend_causally, x, pads_change_nothing),  # pads stand at the end
    ]


def of_rotations() -> list[Specimen]:
    """Rotary code that turns by the wrong thing, or not at all; positions that are all the first."""

    def whole(x, dtype=torch.int64):
        table = turns(x.shape[1], WIDTH, dtype)
        return rotate_half_split(x, torch.complex(*table.chunk(2, dim=-1)))

    def by_head(x, between=(None,)):
        heads, turn = x.unflatten(-1, (HEADS, D_HEAD)), rotations(torch.arange(x.shape[1]), D_HEAD)
        return rotate_interleaved(heads, turn[:, *between]).flatten(-2)

    def one_at_a_time(x):
        return torch.cat([whole(x[:, i : i + 1]) for i in range(x.shape[1])], dim=1)

    def placed(x, rows=None):
        return x + sinusoidal_encoding(rows or x.shape[1], WIDTH)[: x.shape[1]]

    coarse, x = partial(whole, dtype=torch.bfloat16), normal(2, 4, WIDTH)
    return [
        Specimen(16, whole, coarse, normal(1, 300, WIDTH), keeps_distance),
        Specimen(1, by_head, partial(by_head, between=()), normal(3, 2, WIDTH), order_matters),
        Specimen(5, whole, one_at_a_time, x, order_matters),
        Specimen(13, placed, partial(placed, rows=1), x, order_matters),
    ]


def of_masks() -> list[Specimen]:
    """Masks upside down, or forgotten in the end."""

    def masked(x):
        return attend(x, real_positions(x)[:, None, None])

    def pooled(x, real):
        return (masked(x) * real[..., None]).sum(dim=1, keepdim=True) / real.sum(dim=1)[:, None, None]

    right, wrong = lambda x: pooled(x, real_positions(x)), lambda x: pooled(x, torch.ones(x.shape[:2]))
    upside_down, x = lambda x: attend(x, ~real_positions(x)[:, None, None]), normal(2, 4, WIDTH)
    return [
        Specimen(15, masked, upside_down, x, pads_change_nothing),
        Specimen(19, right, wrong, x, pads_change_nothing),
    ]


def of_modules() -> list[Specimen]:
    """Modules that share parameters, ignore what they were told, normalise or attend along the wrong axis."""
    distinct, tied = Stack([unit(WIDTH) for _ in range(4)]), Units(WIDTH, 4)
    tied.load_state_dict(distinct.state_dict())
    by_text = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    by_batch = nn.MultiheadAttention(WIDTH, HEADS)
    by_batch.load_state_dict(by_text.state_dict())
    four_units = 4 * (2 * WIDTH + WIDTH * WIDTH + WIDTH + 1)
    four_maps, x = 4 * (WIDTH * WIDTH + WIDTH), normal(2, 4, WIDTH)
    right, wrong = FirstResult(by_text, times=3), FirstResult(by_batch, times=3)
    seven, misspelt = nn.MultiheadAttention(WIDTH, 7, batch_first=True), Ordered(WIDTH, attn_head=7)
    misspelt.attention.load_state_dict(seven.state_dict())
    return [
        Specimen(2, distinct, tied, x, learn_apart, four_units),
        Specimen(18, FirstResult(seven, times=3), misspelt, x, refuses_unknown, four_maps),
        Specimen(6, lambda x: F.layer_norm(x, (WIDTH,)), norm_by_hand, x, spread_is_one),
        Specimen(3, right, wrong, x, texts_are_alone, four_maps),
    ]


class FirstResult(nn.Module):
    """Only the first of two results, so that all specimens have one."""

    def __init__(self, module: nn.Module, *, times: int = 1) -> None:
        super().__init__()
        self.module, self.times = module, times

    def forward(self, x: Tensor) -> Tensor:
        """The output of self-attention."""
        return self.module(*[x] * self.times)[0]
