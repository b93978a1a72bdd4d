"""Property checks: a property that holds is confirmed, one that is broken is found, with its place."""

import math

import pytest
import torch
from torch import nn

from transformer_lab import (
    Encoder,
    EncoderConfig,
    MultiHeadAttention,
    RotaryEmbedding,
    causal_mask,
    local_mask,
)
from transformer_lab.diagnostics import (
    batch_invariance,
    distance_only,
    eval_determinism,
    leak_map,
    padding_invariance,
    permutation_equivariance,
)

BATCH, LENGTH, WIDTH = 3, 7, 10
MASKS = {"causal": causal_mask(LENGTH), "local": local_mask(LENGTH, 2), "none": None}


@pytest.fixture(autouse=True)
def in_float64():
    torch.set_default_dtype(torch.float64)


@pytest.fixture
def x():
    return torch.randn(BATCH, LENGTH, WIDTH)


@pytest.fixture
def attention():
    return MultiHeadAttention(WIDTH, 5)


@pytest.fixture
def ids():
    return torch.randint(11, (BATCH, LENGTH))


def encoder(**settings):
    sizes = {"vocab_size": 11, "d_model": 10, "n_heads": 5, "d_ff": 13, "n_layers": 2, "dropout": 0.5}
    return Encoder(EncoderConfig(**sizes | settings))


class Planted(nn.Module):
    """Copies a little of what stands at one place into another."""

    def __init__(self, source, target, amount=1e-6):
        super().__init__()
        self.source, self.target, self.amount = source, target, amount

    def forward(self, x, may_attend=None):
        output = x.clone()
        output[self.target] += self.amount * x[self.source]
        return output


# --- the leak map


@pytest.mark.parametrize("name", MASKS)
def test_the_leak_map_of_attention_is_its_mask(name, attention, x):
    mask = MASKS[name]
    leaks = leak_map(lambda x: attention(x, may_attend=mask), x) > 0
    wanted = torch.ones(LENGTH, LENGTH, dtype=torch.bool) if mask is None else mask[0, 0]
    assert torch.equal(leaks, wanted)


def test_a_planted_leak_is_located(x):
    """In one feature of one sequence, of another one; and behind a norm."""
    leaks = leak_map(Planted((1, 5, 3), (2, 2, 6)), x)
    assert leaks.gt(0).nonzero().tolist() == sorted([[i, i] for i in range(LENGTH)] + [[2, 5]])
    assert leaks[2, 5] < 1e-4
    behind = nn.Sequential(nn.LayerNorm(WIDTH), Planted((0, 5), (0, 2)))
    assert leak_map(behind, x)[2, 5] > 0


def test_the_leak_map_takes_token_ids(ids):
    ids[0, 0] = 0
    assert (leak_map(encoder(), ids) > 0).all()
    for few in (ids[:1], torch.tensor([[1, 2]])):
        assert torch.equal(leak_map(nn.Embedding(11, 3), few) > 0, torch.eye(few.shape[1], dtype=torch.bool))


def test_dropout_is_no_leak_and_not_a_number_is_one(x):
    dropout = nn.Dropout(0.5)  # inside a function its mode stays as it is
    assert (leak_map(lambda x: dropout(x), x).fill_diagonal_(0) == 0).all()
    assert leak_map(lambda x: x / 0, x).diagonal().isinf().all()


# --- properties that hold


@pytest.mark.parametrize(("positions", "dtype"), [("learned", torch.float32), ("none", torch.float64)])
def test_the_encoder_has_its_properties(positions, dtype, ids):
    model = encoder(positions=positions).to(dtype)
    assert repr(padding_invariance(model, ids)).startswith("✓ padding invariance holds")
    assert repr(batch_invariance(model, ids)).startswith("✓ batch invariance holds")
    assert repr(eval_determinism(model, ids)).startswith("✓ eval determinism holds")
    assert permutation_equivariance(model, ids).holds == (positions == "none")


def test_rotary_scores_depend_on_distance_only():
    assert distance_only(RotaryEmbedding(6), *torch.randn(2, 6)).holds


# --- properties that are broken


def test_padding_that_is_not_hidden_is_found(x, attention):
    check = padding_invariance(lambda x, may_attend: x + x.mean(dim=1, keepdim=True), x)
    padded = torch.cat([x, x[:, :5]], dim=1)
    moved = (padded.mean(1) - x.mean(1)).abs()
    assert check.difference == pytest.approx(moved.max().item())
    assert not padding_invariance(lambda x, may_attend: attention(x, may_attend=~may_attend), x, pads=1).holds


IGNORING = {
    "mean": lambda x: x + x.mean(dim=1, keepdim=True),
    "attention": lambda x: x + (x @ x.mT).softmax(dim=-1) @ x,
}


@pytest.mark.parametrize("mix", IGNORING.values(), ids=IGNORING)
@pytest.mark.parametrize("length", [1, 5])
def test_no_module_that_ignores_its_mask_passes(mix, length):
    """Copies of all tokens, each equally often, change neither a mean nor attention."""
    vectors = nn.Embedding(11, WIDTH)
    for scale in (1e-6, 1e6):
        x = torch.randn(2, length, WIDTH) * scale
        assert not padding_invariance(lambda x, may_attend: mix(x), x).holds
    for ids in (torch.arange(length)[None] + 1, torch.full((2, length), 10), torch.arange(5)[None]):
        assert not padding_invariance(lambda i, may_attend: mix(vectors(i)), ids).holds


@pytest.mark.parametrize("whose", [0, 1])
def test_a_mask_of_one_sequence_for_all_is_found(whose, x, attention, ids):
    def careless(x, may_attend):
        return attention(x, may_attend=may_attend[whose % len(x)][None])

    assert not padding_invariance(careless, x).holds
    assert padding_invariance(careless, x[:1]).holds  # there it is right


def test_neighbours_that_are_heard_are_not_taken_for_padding(x, attention):
    def mixing(x, may_attend=None):
        for _ in range(2):  # in the second layer a neighbour has heard its own pads
            x, _ = attention(x - x.mean(dim=0), may_attend=may_attend)
        return x

    assert padding_invariance(mixing, x).holds
    assert not batch_invariance(mixing, x).holds


def test_pads_are_tokens_that_exist(attention):
    """An id above the largest of x might not be in the vocabulary."""
    vectors = nn.Embedding(4, WIDTH)
    for ids in ([[3]], [[0, 3, 0]], [[1, 1, 1]]):
        check = padding_invariance(
            lambda i, may_attend: attention(vectors(i), may_attend=may_attend), torch.tensor(ids)
        )
        assert check.holds
    with pytest.raises(ValueError, match="other ids than 0"):
        padding_invariance(lambda i, may_attend: vectors(i), torch.zeros(2, 3, dtype=torch.long))
    with pytest.raises(ValueError, match="other ids than 0"):
        leak_map(vectors, torch.zeros(2, 3, dtype=torch.long))


def test_a_position_that_is_treated_apart_is_found(x):
    check = permutation_equivariance(Planted((..., 0, 3), (..., 4, 6)), x)
    assert not check.holds
    assert "feature 6" in check.where
    # Neighbours on a circle: a shift alone would change nothing.
    assert not permutation_equivariance(lambda x: x + x.roll(1, dims=1) + x.roll(-1, dims=1), x).holds
    # One vector for the sequence.
    assert permutation_equivariance(lambda x: x.mean(dim=1, keepdim=True), x).holds
    assert not permutation_equivariance(lambda x: x[:, :1], x).holds


def test_sentence_vectors_can_be_checked(x):
    def pooled(x, may_attend=None):
        real = may_attend[:, 0, 0, :, None]
        return ((x * real).sum(dim=1) / real.sum(dim=1))[:, None]

    assert padding_invariance(pooled, x).holds
    assert padding_invariance(lambda x, may_attend: pooled(x, may_attend).expand(-1, x.shape[1], -1), x).holds
    assert not padding_invariance(lambda x, may_attend: x.mean(dim=1)[:, None], x).holds


def test_a_leak_between_sequences_is_located(x):
    check = batch_invariance(lambda x: Planted((0, 1, 3), (-1, 4, 6), 100)(x) if len(x) > 1 else x, x)
    assert not check.holds
    assert check.where == "sequence 2, position 4, feature 6"
    assert check.difference == pytest.approx(100 * x[0, 1, 3].abs().item())


def test_the_place_on_a_diagonal_is_named():
    def nudged(x):
        output = x.clone()
        output[3] *= 1.5
        return output

    query, key = torch.tensor([1.0, 0.0]), torch.tensor([4.0, 0.0])
    check = distance_only(nudged, query, key, length=5)
    assert check.where == "query 3, key 3"
    assert check.difference == 5.0  # 1.5 · 1.5 · 4 in place of 4


def test_nan_never_holds(x):
    check = eval_determinism(lambda x: x * math.nan, x)
    assert (check.holds, check.difference) == (False, math.inf)
    assert repr(check).endswith(
        "cannot be checked: the output is NaN or infinite, at sequence 0, position 0, feature 0"
    )
    assert eval_determinism(lambda x: x * math.nan, x[0]).where == "position 0, feature 0"


def test_dropout_is_found_on_few_numbers_too():
    """Most single draws spare all of three numbers."""
    x = torch.ones(1, 1, 3)
    assert not any(eval_determinism(lambda x: nn.functional.dropout(x, 0.05), x).holds for _ in range(5))
    generator = torch.Generator().manual_seed(0)  # its own: fixed random numbers do not reach it
    assert not eval_determinism(lambda x: x * torch.rand(3, generator=generator).gt(0.02), x).holds
    assert eval_determinism(lambda x: x * torch.rand(3, generator=generator.manual_seed(0)), x).holds


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_rounding_is_a_share_of_the_size(size, x):
    """An absolute bound would pass everything small, and nothing large."""
    noise = torch.rand(BATCH, LENGTH, LENGTH) * 1e-6
    assert batch_invariance(lambda x: size * x * (1 + 1e-13 * len(x)), x).holds
    assert not batch_invariance(lambda x: size * (x + 1e-6 * len(x)), x).holds
    assert not permutation_equivariance(lambda x: size * (x + noise @ x), x).holds
    assert leak_map(lambda x: x.cumsum(dim=1), size * x)[1, 0] > 0.01 * size


def test_what_a_maximum_does_not_hear_of_a_little_is_a_leak(x):
    """Nor of a fall: of one feature a change has one direction, another from place to place."""
    x = 50 + 50 * x.abs()
    x[:, 3] /= 50
    assert (leak_map(lambda x: x + x.amax(dim=1, keepdim=True), x) > 0).all()
    assert (leak_map(lambda x: x + x.amax(dim=1, keepdim=True), torch.ones(1, 13, 1)) > 0).all()


def test_axes_are_counted_from_the_right(x):
    heads = lambda x: x[:, None].expand(-1, 2, -1, -1) * torch.arange(1.0, 1 + len(x))[0]  # noqa: E731
    check = eval_determinism(lambda x: heads(x) + torch.rand(1) * (x[:, None] == x[1, 4, 6]), x)
    assert check.where == "sequence 1, axis 1 0, position 4, feature 6"


# --- manners


def test_nothing_is_left_behind(x):
    module = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5).eval(), nn.Linear(WIDTH, WIDTH))
    before, state = x.clone(), torch.get_rng_state()
    for check in (batch_invariance, eval_determinism, permutation_equivariance, leak_map):
        check(module, x)
    with pytest.raises(RuntimeError, match="shapes"):
        eval_determinism(module, x[..., 1:])
    eval_determinism(lambda x: x.zero_(), x)
    assert [part.training for part in module] == [True, False, True]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(x, before)


OWN = torch.Generator()  # fixed random numbers do not reach it
ROTARY = RotaryEmbedding(6)
IDENTITY = lambda x, may_attend=None: x  # noqa: E731
ONES = torch.ones(6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        # functions that cannot be examined
        (lambda x: leak_map(lambda x: None, x), "must return a floating-point tensor .*, got NoneType"),
        (lambda x: eval_determinism(lambda x: x.mean(1), x), r"of shape \(3, 10\); .*output\[:, None\]"),
        (lambda x: eval_determinism(lambda x: x[:, :2], x), r"function must .*, got shape \(3, 2, 10\)"),
        (lambda x: eval_determinism(lambda x: x[:1], x), r"function must .*, got shape \(1, 7, 10\)"),
        (lambda x: leak_map(lambda x: x * torch.rand(1, generator=OWN), x), "the same .* for the same"),
        (lambda x: padding_invariance(IDENTITY, x, pads=0), "pads must be at least 1, got 0"),
        # an x that could not tell: equal tokens or sequences, no batch, NaN, ids with features, nothing
        (lambda x: permutation_equivariance(IDENTITY, x[:, :1].expand_as(x)), "x must contain .*, got "),
        (lambda x: batch_invariance(IDENTITY, x[:1].expand_as(x)), "x must contain .*, got "),
        (lambda x: padding_invariance(IDENTITY, x[0]), "x must contain .*, got "),
        (lambda x: leak_map(IDENTITY, x / 0), "x must contain .*, got "),
        (lambda x: leak_map(IDENTITY, x.long()), "x must contain .*, got "),
        (lambda x: eval_determinism(IDENTITY, x[:0]), "x must contain .*, got "),
        # vectors whose scores tell nothing
        (lambda x: distance_only(ROTARY, ONES, torch.zeros(6)), "must not be 0.*got "),
        (lambda x: distance_only(ROTARY, ONES, ONES, length=1), "length must be at least 2.*got "),
        (lambda x: distance_only(lambda x: x[:, :3], ONES, ONES), "rotate must keep the shape.*got "),
    ],
)
def test_refuses_what_could_not_be_examined(call, words, x):
    with pytest.raises((TypeError, ValueError), match=words):
        call(x)
