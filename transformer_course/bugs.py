"""The code of the bug museum, lesson 14: buggy exhibits, line-ups with one correct candidate, and specimens.

Each exhibit contains one bug, and nothing else of the project in which it was found. A specimen puts it next
to the right code, so that a test can be tried on both.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformer_lab import EncoderConfig, causal_mask, diagnostics, sinusoidal_encoding
from transformer_lab.encoder import standard_layer
from transformer_lab.multi_head_attention import MultiHeadAttention, split_heads
from transformer_lab.positional_encoding import angular_frequencies
from transformer_lab.rotary_embedding import RotaryEmbedding, rotate_half_split, rotate_interleaved, rotations

TEXTS, POSITIONS, HEADS, D_HEAD = 3, 5, 2, 14  # sizes that cannot be mistaken for each other
WIDTH = HEADS * D_HEAD

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


# --- right code, with a switch for each bug -----------------------------------------------------------------


def attend(
    x: Tensor,
    may_attend: Tensor | None = None,
    *,
    scale: float | None = None,
    dim: int = -1,
    split: Callable[[Tensor, int], Tensor] = split_heads,
) -> Tensor:
    """Self-attention of x with itself in HEADS heads, without projections."""
    heads = split(x, HEADS)
    scores = heads @ heads.mT * (heads.shape[-1] ** -0.5 if scale is None else scale)
    if may_attend is not None:
        scores = scores.masked_fill(~may_attend, -math.inf)
    return (scores.softmax(dim=dim).nan_to_num() @ heads).transpose(1, 2).flatten(-2)


def causal(x: Tensor, **changes) -> Tensor:
    """Causal attention: no token sees a later one."""
    return attend(x, causal_mask(x.shape[1]), **changes)


def attend_once(x: Tensor, keep: Tensor) -> Tensor:
    """Attention with one head and three axes."""
    scores = x @ x.mT / math.sqrt(x.shape[-1])
    return scores.masked_fill(~keep, -math.inf).softmax(dim=-1) @ x


# --- line-ups ---------------------------------------------------------------------------------------------


def line_up(exercise_id: str) -> dict[str, Callable]:
    """Five candidates without a label, A to E. One is right; each of the others has one bug of its own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        candidates = {"14.7": _attentions, "14.8": _layers, "14.20": _rotations}[exercise_id]()
    return dict(zip("ABCDE", candidates, strict=True))


def _attentions() -> list[Callable]:
    def candidate(change_mask=lambda may_attend: may_attend, **changes):
        def suspect(x: Tensor, may_attend: Tensor | None = None) -> Tensor:
            return attend(x, None if may_attend is None else change_mask(may_attend), **changes)

        return suspect

    def split_by_view(x, n_heads):
        return x.reshape(len(x), n_heads, x.shape[1], -1)

    return [
        candidate(scale=12**-0.5),  # the width of the line-up's inputs, wanted that of a head
        candidate(torch.logical_not),
        candidate(),
        candidate(split=split_by_view),
        candidate(dim=-2),
    ]


def _rotations() -> list[Callable]:
    def candidate(positions, shrink=1.0):
        def suspect(x: Tensor) -> Tensor:  # (batch, position, heads, d_head)
            rotation = rotations(positions(x), x.shape[-1])
            return rotate_half_split(x, rotation.real, rotation.imag) * shrink

        return suspect

    def count(x):
        return torch.arange(x.shape[1])[:, None]

    return [
        candidate(lambda x: torch.arange(x.shape[2])[None] + 0 * count(x)),
        candidate(lambda x: count(x).bfloat16().long()),
        candidate(lambda x: count(x) + 3 * torch.arange(len(x))[:, None, None]),
        candidate(count, shrink=0.97),
        candidate(count),
    ]


def _layers() -> list[Callable]:
    layer = standard_layer(EncoderConfig(50, 16, 2, 32, 1, 20)).eval()

    def candidate(change=lambda x: x, shrink=1.0, ignore_mask=False):
        def suspect(x: Tensor, may_attend: Tensor | None = None) -> Tensor:
            return layer(change(x), None if ignore_mask else may_attend)[0] * shrink

        return suspect

    return [
        candidate(lambda x: x + sinusoidal_encoding(x.shape[1], x.shape[2])),
        candidate(),
        candidate(shrink=math.sqrt(15 / 16)),  # as a norm that divides by n − 1 leaves it
        candidate(lambda x: x - x.mean(dim=0)),
        candidate(ignore_mask=True),
    ]


# --- specimens: what the overview of the lesson is made of ------------------------------------------------


def normal(*shape: int) -> Tensor:
    """Seeded standard normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def parameters_of(function: Callable | nn.Module) -> int:
    """The number of trained parameters; 0 for a plain function."""
    return sum(p.numel() for p in function.parameters()) if isinstance(function, nn.Module) else 0


@dataclass(frozen=True, eq=False)
class Specimen:
    """A bug of the museum next to the right code, to try the five kinds of tests on.

    Attributes:
        number: of the exhibit.
        right, wrong: functions or modules, from (batch, position, features) to vectors.
        keeps: whether a function keeps its promise on x.
        x: an input of sizes at which the bug raises no error.
        parameters: the number of parameters that a pencil counts.
    """

    number: int
    right: Callable[[Tensor], Tensor]
    wrong: Callable[[Tensor], Tensor]
    keeps: Callable[[Callable, Tensor], bool]
    x: Tensor
    parameters: int = 0


TESTS = ("sizes", "loop", "promise", "count", "nudge")
# What goes wrong in each exhibit, without saying why: that is for the learner to find out.
SYMPTOMS = {
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
    """Whether one of the five tests catches the bug, 1 or 0; 2 if an error stops it."""
    right, wrong, x, primes = specimen.right, specimen.wrong, specimen.x, normal(TEXTS, POSITIONS, WIDTH)

    def numbers_of_a_loop():
        output, wanted = wrong(x), right(x)
        return output.shape == wanted.shape and torch.allclose(output, wanted)

    passes = {
        "sizes": lambda: wrong(primes).shape == right(primes).shape,
        "loop": numbers_of_a_loop,
        "promise": lambda: specimen.keeps(wrong, x),
        "count": lambda: parameters_of(wrong) == specimen.parameters,
        "nudge": lambda: torch.equal(*(diagnostics.leak_map(code, x) > 1e-9 for code in (wrong, right))),
    }
    try:
        return int(not passes[test]())
    except (RuntimeError, ValueError, TypeError, IndexError):
        return 2


def _real_positions(x: Tensor) -> Tensor:
    """A made-up padding mask: the last position of each text is padding, of every second one the last two."""
    real = torch.ones(x.shape[:2], dtype=torch.bool)
    real[:, -1] = False
    real[1::2, -2] = False
    return real  # (batch, position)


def _ignores_padding(function: Callable, x: Tensor) -> bool:
    real, changed = _real_positions(x), x.clone()
    changed[~real] += 1
    before, after = function(x), function(changed)
    kept = real if before.shape[1] > 1 else slice(None)  # or one vector for the text
    return torch.allclose(before[kept], after[kept])


def _distance_only(function: Callable, x: Tensor) -> bool:
    return diagnostics.distance_only(
        lambda rows: function(rows[None])[0], x[0, 0], x[0, 1], length=len(x[0])
    ).holds


def _order_matters(function: Callable, x: Tensor) -> bool:
    return not diagnostics.permutation_equivariance(function, x).holds


def _independent_heads(function: Callable, x: Tensor) -> bool:
    return torch.allclose(function(x)[..., :D_HEAD], function(x[..., :D_HEAD]))


def _independent_texts(function: Callable, x: Tensor) -> bool:
    return diagnostics.batch_invariance(function, x).holds


def _units_learn_apart(stack: nn.Module, x: Tensor) -> bool:
    weights = [unit[0].weight for unit in stack.units[:2]]
    first, second = torch.autograd.grad(stack(x).square().sum(), weights)
    return not torch.equal(first, second)


def _refuses_unknown_names(module: nn.Module, x: Tensor) -> bool:
    try:
        type(module)(WIDTH, attn_head=7)
    except TypeError:
        return True
    return False


def _variance_is_one(function: Callable, x: Tensor) -> bool:
    variance = function(x).var(dim=-1, correction=0)
    return torch.allclose(variance, torch.ones(x.shape[:-1]), atol=1e-3)


class _FirstResult(nn.Module):
    """The output of PyTorch's self-attention, without its weights."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x, x, x)[0]


def specimens() -> list[Specimen]:
    """Fourteen bugs in the order of their exhibits, always with the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return sorted([*_functions(), *_modules()], key=lambda specimen: specimen.number)


def _functions() -> list[Specimen]:
    whole, fused = MultiHeadAttention(WIDTH, HEADS), F.scaled_dot_product_attention

    def first_of_two(x):
        output, _ = whole(x)[0]  # one tensor, two names
        return output

    def in_heads(x, attend_to=fused):
        heads = x.unflatten(-1, (-1, D_HEAD)).transpose(1, 2)
        return attend_to(heads, heads, heads).transpose(1, 2).flatten(-2)

    def rotate(x, dtype=torch.int64):
        table = turns(x.shape[1], WIDTH, dtype)
        return rotate_half_split(x, *table.chunk(2, dim=-1))

    def one_by_one(x):
        return torch.cat([rotate(x[:, i : i + 1]) for i in range(x.shape[1])], dim=1)

    def rotate_heads(x, head_axis=(None,)):
        heads, rotation = x.unflatten(-1, (HEADS, D_HEAD)), rotations(torch.arange(x.shape[1]), D_HEAD)
        rotation = rotation[:, *head_axis]
        return rotate_interleaved(heads, rotation.real, rotation.imag).flatten(-2)

    def placed(x, rows=None):
        return x + sinusoidal_encoding(rows or x.shape[1], WIDTH)[: x.shape[1]]

    def masked(x, change=lambda may_attend: may_attend):
        return attend(x, change(_real_positions(x)[:, None, None]))

    def masked_once(x, axes=(None,)):
        return attend_once(x, _real_positions(x)[:, *axes])

    def pooled(x, count=_real_positions):
        counted = count(x)
        return (masked(x) * counted[..., None]).sum(dim=1, keepdim=True) / counted.sum(dim=1)[:, None, None]

    def all_positions(x):
        return torch.ones(x.shape[:2])

    x = normal(2, 4, WIDTH)
    return [
        Specimen(1, rotate_heads, partial(rotate_heads, head_axis=()), _order_matters, normal(3, 2, WIDTH)),
        Specimen(4, causal, attend_causally, _ignores_padding, x),  # the pads are the last positions
        Specimen(5, rotate, one_by_one, _order_matters, x),
        Specimen(6, lambda x: F.layer_norm(x, (WIDTH,)), norm_by_hand, _variance_is_one, x),
        Specimen(10, lambda x: whole(x)[0], first_of_two, _independent_texts, x),
        Specimen(11, masked_once, partial(masked_once, axes=(None, None)), _ignores_padding, x),
        Specimen(12, in_heads, partial(in_heads, attend_to=attend_in_heads), _independent_heads, x),
        Specimen(13, placed, partial(placed, rows=1), _order_matters, x),
        Specimen(15, masked, partial(masked, change=torch.logical_not), _ignores_padding, x),
        Specimen(16, rotate, partial(rotate, dtype=torch.bfloat16), _distance_only, normal(1, 300, WIDTH)),
        Specimen(19, pooled, partial(pooled, count=all_positions), _ignores_padding, x),
    ]


def _modules() -> list[Specimen]:
    units, tied = Stack([unit(WIDTH) for _ in range(4)]), Units(WIDTH, 4)
    by_text = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    by_batch = nn.MultiheadAttention(WIDTH, HEADS)
    seven_heads, misspelt = nn.MultiheadAttention(WIDTH, 7, batch_first=True), Ordered(WIDTH, attn_head=7)
    pairs = [(units, tied), (by_text, by_batch), (seven_heads, misspelt.attention)]
    for right, wrong in pairs:
        wrong.load_state_dict(right.state_dict())
    of_units, of_attention = 4 * (2 * WIDTH + WIDTH * WIDTH + WIDTH + 1), 4 * (WIDTH * WIDTH + WIDTH)
    right, wrong, seven = _FirstResult(by_text), _FirstResult(by_batch), _FirstResult(seven_heads)
    x = normal(2, 4, WIDTH)
    return [
        Specimen(2, units, tied, _units_learn_apart, x, of_units),
        Specimen(3, right, wrong, _independent_texts, x, of_attention),
        Specimen(18, seven, misspelt, _refuses_unknown_names, x, of_attention),
    ]
