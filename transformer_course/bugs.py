"""The code of the bug museum, lesson 14: mutants, correct code, and sets of five candidates.

Each mutant contains one bug, and otherwise nothing of the project in which the bug was found. `mutants` pairs
each of them with the correct code, so that a test can be run on both.
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

TEXTS, POSITIONS, HEADS, D_HEAD = 3, 5, 2, 14  # all different, so that no two axes can be confused
WIDTH = HEADS * D_HEAD

# --- the mutants that the learner reads -------------------------------------------------------------------


class Attention(nn.Module):
    """Self-attention; returns (output, weights)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x).chunk(3, dim=-1)
        weights = (query @ key.mT / math.sqrt(query.shape[-1])).softmax(dim=-1)
        output = weights @ value
        return self.merge(output)


def attend_in_heads(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Multi-head scaled dot-product attention."""
    n_heads, d_head = query.shape[1], query.shape[-1]
    width = n_heads * d_head
    scores = query @ key.mT
    scores = scores / math.sqrt(width)
    return scores.softmax(dim=-1) @ value


def rotary_table(length: int, width: int, dtype: torch.dtype) -> Tensor:
    """Cosines and sines of all positions, for a model in this dtype."""
    position = torch.arange(length, dtype=dtype)
    position = position.double()
    frequency = angular_frequencies(width)
    angle = position[:, None] * frequency
    return torch.cat([angle.cos(), angle.sin()], dim=-1)


class Rotation(nn.Module):
    """A rotary embedding whose tables follow the model to another dtype or device."""

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
    """Attention weights that hide the padding, which has the id 0."""
    ignored = ids == 0
    scores = x @ x.mT / math.sqrt(x.shape[-1])
    scores = scores.masked_fill(ignored[:, None, :] == 0, -math.inf)
    return scores.softmax(dim=-1)


def attend_causally(x: Tensor, n_heads: int = 2) -> Tensor:
    """Causal self-attention: no token attends to a later one."""
    batch, length, width = x.shape
    heads = x.view(batch, n_heads, length, width // n_heads)
    scores = heads @ heads.mT / math.sqrt(width // n_heads)
    scores = scores.masked_fill(~causal_mask(length), -math.inf)
    outputs = scores.softmax(dim=-1) @ heads
    return outputs.transpose(1, 2).flatten(-2)


def rotate_by_position(x: Tensor) -> Tensor:
    """Rotate each vector of x, (batch, position, heads, d_head), by the angles of its position."""
    rotation = rotations(torch.arange(x.shape[1]), x.shape[-1])  # (position, pair), complex
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * rotation).flatten(-2)


def scores_of_the_last(tokens: Tensor) -> Tensor:
    """Decode token by token, and return the scores of the last token's query with all keys so far."""
    rotary, keys = RotaryEmbedding(tokens.shape[-1]), []
    for token in tokens.split(1):
        query, key = rotary(token), rotary(token)
        keys.append(key)
    return (query @ torch.cat(keys).mT)[0]


class Units(nn.Module):
    """A stack of units with residual connections, each unit with its own weights."""

    def __init__(self, width: int, n_layers: int) -> None:
        super().__init__()
        unit = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.PReLU())
        units = [unit] * n_layers
        self.units = nn.ModuleList(units)

    def forward(self, x: Tensor) -> Tensor:
        for unit in self.units:
            x = x + unit(x)
        return x


class ConfigurableAttention(nn.Module):
    """Self-attention with options."""

    def __init__(self, width: int, **settings: int | float) -> None:
        super().__init__()
        n_heads = settings.get("attn_heads", 2)
        dropout = settings.get("dropout", 0.0)
        self.attention = nn.MultiheadAttention(width, n_heads, dropout, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0]


def text_vectors(x: Tensor, real: Tensor) -> Tensor:
    """One vector of length 1 for each text; `real`, (batch, position), is True for real tokens."""
    scores = x @ x.mT / math.sqrt(x.shape[-1])
    scores = scores.masked_fill(~real[:, None], -math.inf)
    vectors = (scores.softmax(dim=-1) @ x).mean(dim=1)
    return F.normalize(vectors, dim=-1)


def norm_by_hand(x: Tensor, eps: float = 1e-6) -> Tensor:
    """A layer norm."""
    mean = x.mean(dim=-1, keepdim=True)
    standard_deviation = x.std(dim=-1, keepdim=True)
    return (x - mean) / (standard_deviation + eps)


class TextEncoder(nn.Module):
    """One vector for each text of a batch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 4)
        self.positions = nn.Parameter(torch.randn(20, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.positions[: x.shape[1]]
        outputs, _ = self.attention(x, x, x)
        return outputs.mean(dim=1)


class Stack(Units):
    """A stack of the units that it is given."""

    def __init__(self, units: Sequence[nn.Module]) -> None:
        nn.Module.__init__(self)
        self.units = nn.ModuleList(units)


def unit(width: int) -> nn.Module:
    """One unit of a stack."""
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.PReLU())


# --- correct code, with a switch for each bug --------------------------------------------------------------


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
    """Causal attention: no token attends to a later one."""
    return attend(x, causal_mask(x.shape[1]), **changes)


def attend_once(x: Tensor, keep: Tensor) -> Tensor:
    """Attention with one head and three axes."""
    scores = x @ x.mT / math.sqrt(x.shape[-1])
    return scores.masked_fill(~keep, -math.inf).softmax(dim=-1) @ x


# --- five candidates, one of them correct -----------------------------------------------------------------


def candidates(exercise_id: str) -> dict[str, Callable]:
    """Five candidates, A to E: one is correct, and each of the other four has a different bug."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        five = {"14.7": _attentions, "14.8": _layers, "14.20": _rotations}[exercise_id]()
    return dict(zip("ABCDE", five, strict=True))


def _attentions() -> list[Callable]:
    def make(change_mask=lambda may_attend: may_attend, **changes):
        def candidate(x: Tensor, may_attend: Tensor | None = None) -> Tensor:
            return attend(x, None if may_attend is None else change_mask(may_attend), **changes)

        return candidate

    def split_by_view(x, n_heads):
        return x.reshape(len(x), n_heads, x.shape[1], -1)

    return [
        make(scale=12**-0.5),  # scales by 12 features instead of the 6 of a head
        make(torch.logical_not),
        make(),
        make(split=split_by_view),
        make(dim=-2),
    ]


def _rotations() -> list[Callable]:
    def make(positions, shrink=1.0):
        def candidate(x: Tensor) -> Tensor:  # (batch, position, heads, d_head)
            rotation = rotations(positions(x), x.shape[-1])
            return rotate_half_split(x, rotation.real, rotation.imag) * shrink

        return candidate

    def count(x):
        return torch.arange(x.shape[1])[:, None]

    return [
        make(lambda x: torch.arange(x.shape[2])[None] + 0 * count(x)),
        make(lambda x: count(x).bfloat16().long()),
        make(lambda x: count(x) + 3 * torch.arange(len(x))[:, None, None]),
        make(count, shrink=0.97),
        make(count),
    ]


def _layers() -> list[Callable]:
    layer = standard_layer(EncoderConfig(50, 16, 2, 32, 1, 20)).eval()

    def make(change=lambda x: x, shrink=1.0, ignore_mask=False):
        def candidate(x: Tensor, may_attend: Tensor | None = None) -> Tensor:
            return layer(change(x), None if ignore_mask else may_attend)[0] * shrink

        return candidate

    return [
        make(lambda x: x + sinusoidal_encoding(x.shape[1], x.shape[2])),
        make(),
        make(shrink=math.sqrt(15 / 16)),  # like a norm that divides by n − 1
        make(lambda x: x - x.mean(dim=0)),
        make(ignore_mask=True),
    ]


# --- mutants next to correct code, for the comparison of five kinds of tests ------------------------------


def normal(*shape: int) -> Tensor:
    """Seeded standard normal values."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def parameters_of(function: Callable | nn.Module) -> int:
    """The number of trainable parameters; 0 for a plain function."""
    return sum(p.numel() for p in function.parameters()) if isinstance(function, nn.Module) else 0


@dataclass(frozen=True, eq=False)
class Mutant:
    """A mutant with the corresponding correct code, for the comparison of five kinds of tests.

    Attributes:
        number: the number of its exercise.
        correct, mutated: functions or modules, from (batch, position, features) to vectors.
        has_property: whether a function has, on x, the property that the mutant violates.
        x: an input of a size at which the mutant raises no error.
        parameters: the number of parameters, counted by hand.
    """

    number: int
    correct: Callable[[Tensor], Tensor]
    mutated: Callable[[Tensor], Tensor]
    has_property: Callable[[Callable, Tensor], bool]
    x: Tensor
    parameters: int = 0


TESTS = ("shape", "reference", "property", "count", "perturbation")
# The symptom of each bug, without its cause, which the learner has to find.
SYMPTOMS = {
    1: "rotary: angle isn't that of the position",
    2: "one unit four times, not four units",
    3: "output depends on other texts",
    4: "output depends on later tokens",
    5: "scores don't depend on distance",
    6: "layer norm leaves a wrong variance",
    10: "wrong return value",
    11: "mask adds an axis to the output",
    12: "attention weights too even",
    13: "position table has too few rows",
    15: "queries attend to the padding",
    16: "several positions share a row",
    18: "fewer heads than asked for",
    19: "text vector depends on the padding",
}


def kills(mutant: Mutant, test: str) -> int:
    """1 if the test kills the mutant, 0 if the mutant survives, 2 if it raises an error in the test."""
    correct, mutated, x = mutant.correct, mutant.mutated, mutant.x
    different_sizes = normal(TEXTS, POSITIONS, WIDTH)

    def equals_the_reference():
        output, expected = mutated(x), correct(x)
        return output.shape == expected.shape and torch.allclose(output, expected)

    passes = {
        "shape": lambda: mutated(different_sizes).shape == correct(different_sizes).shape,
        "reference": equals_the_reference,
        "property": lambda: mutant.has_property(mutated, x),
        "count": lambda: parameters_of(mutated) == mutant.parameters,
        "perturbation": lambda: torch.equal(
            *(diagnostics.leak_map(code, x) > 1e-9 for code in (mutated, correct))
        ),
    }
    try:
        return int(not passes[test]())
    except (RuntimeError, ValueError, TypeError, IndexError):
        return 2


def _real_positions(x: Tensor) -> Tensor:
    """A padding mask (batch, position): the last position is padding; in every second text, the last two."""
    real = torch.ones(x.shape[:2], dtype=torch.bool)
    real[:, -1] = False
    real[1::2, -2] = False
    return real


def _ignores_padding(function: Callable, x: Tensor) -> bool:
    real, changed = _real_positions(x), x.clone()
    changed[~real] += 1
    before, after = function(x), function(changed)
    kept = real if before.shape[1] > 1 else slice(None)  # otherwise the output is one vector for each text
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
    """The output of PyTorch's self-attention, without the attention weights."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return self.module(x, x, x)[0]


def mutants() -> list[Mutant]:
    """The fourteen mutants in the order of their exercises, always with the same weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return sorted([*_functions(), *_modules()], key=lambda mutant: mutant.number)


def _functions() -> list[Mutant]:
    whole, fused = MultiHeadAttention(WIDTH, HEADS), F.scaled_dot_product_attention

    def first_of_two(x):
        output, _ = whole(x)[0]  # unpacks one tensor into two names
        return output

    def in_heads(x, attend_to=fused):
        heads = x.unflatten(-1, (-1, D_HEAD)).transpose(1, 2)
        return attend_to(heads, heads, heads).transpose(1, 2).flatten(-2)

    def rotate(x, dtype=torch.int64):
        table = rotary_table(x.shape[1], WIDTH, dtype)
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
        Mutant(1, rotate_heads, partial(rotate_heads, head_axis=()), _order_matters, normal(3, 2, WIDTH)),
        Mutant(4, causal, attend_causally, _ignores_padding, x),  # the padding is at the last positions
        Mutant(5, rotate, one_by_one, _order_matters, x),
        Mutant(6, lambda x: F.layer_norm(x, (WIDTH,)), norm_by_hand, _variance_is_one, x),
        Mutant(10, lambda x: whole(x)[0], first_of_two, _independent_texts, x),
        Mutant(11, masked_once, partial(masked_once, axes=(None, None)), _ignores_padding, x),
        Mutant(12, in_heads, partial(in_heads, attend_to=attend_in_heads), _independent_heads, x),
        Mutant(13, placed, partial(placed, rows=1), _order_matters, x),
        Mutant(15, masked, partial(masked, change=torch.logical_not), _ignores_padding, x),
        Mutant(16, rotate, partial(rotate, dtype=torch.bfloat16), _distance_only, normal(1, 300, WIDTH)),
        Mutant(19, pooled, partial(pooled, count=all_positions), _ignores_padding, x),
    ]


def _modules() -> list[Mutant]:
    units, tied = Stack([unit(WIDTH) for _ in range(4)]), Units(WIDTH, 4)
    by_text = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    by_batch = nn.MultiheadAttention(WIDTH, HEADS)
    seven_heads, misspelt = (
        nn.MultiheadAttention(WIDTH, 7, batch_first=True),
        ConfigurableAttention(WIDTH, attn_head=7),
    )
    pairs = [(units, tied), (by_text, by_batch), (seven_heads, misspelt.attention)]
    for right, wrong in pairs:
        wrong.load_state_dict(right.state_dict())
    of_units, of_attention = 4 * (2 * WIDTH + WIDTH * WIDTH + WIDTH + 1), 4 * (WIDTH * WIDTH + WIDTH)
    right, wrong, seven = _FirstResult(by_text), _FirstResult(by_batch), _FirstResult(seven_heads)
    x = normal(2, 4, WIDTH)
    return [
        Mutant(2, units, tied, _units_learn_apart, x, of_units),
        Mutant(3, right, wrong, _independent_texts, x, of_attention),
        Mutant(18, seven, misspelt, _refuses_unknown_names, x, of_attention),
    ]
