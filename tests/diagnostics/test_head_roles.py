"""Roles of heads: the score is a mean by hand, and an ablated head is gone and comes back."""

import copy

import pytest
import torch
from torch import nn

from tests.tensors import BATCH, assert_equal, randn
from transformer_lab import MultiHeadAttention
from transformer_lab.diagnostics import attention_on, without_head
from transformer_lab.low_rank_adaptation import adapt
from transformer_lab.modern_encoder import GroupedQueryAttention

HEADS, LENGTH, D_HEAD = 3, 5, 7


@pytest.fixture
def attention():
    torch.manual_seed(1)
    return MultiHeadAttention(HEADS * D_HEAD, HEADS).double()


def with_zero_values(attention, head):
    """Return a copy in which a head adds nothing, whatever it attends to."""
    attention = copy.deepcopy(attention)
    for parameter in attention.value_projection.parameters():
        parameter.data[head * D_HEAD : (head + 1) * D_HEAD] = 0
    return attention


def computed(attention):
    nn.utils.parametrizations.weight_norm(attention.output_projection)


def adapted(attention):
    adapt(attention, 2, projections=["output_projection"])
    nn.init.normal_(attention.output_projection.up)


@pytest.mark.parametrize("change", [lambda attention: None, computed, adapted])
@pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
def test_a_head_is_removed_whatever_computes_the_projection_and_comes_back(attention, change, need_weights):
    x = randn(BATCH, LENGTH, HEADS * D_HEAD)
    change(attention)
    before = attention(x)[0]
    without_one = with_zero_values(attention, 1)
    with pytest.raises(KeyError), without_head(attention, 1):
        assert_equal(attention(x, need_weights=need_weights)[0], without_one(x)[0])
        with without_head(attention, 2):
            assert_equal(attention(x)[0], with_zero_values(without_one, 2)(x)[0])
        assert_equal(attention(x)[0], without_one(x)[0])
        raise KeyError
    assert_equal(attention(x)[0], before, 0)  # the heads are back, even after an error
    assert "forward" not in vars(attention.output_projection)


def test_grouped_queries_can_do_without_a_head_too():
    ours = GroupedQueryAttention(HEADS * D_HEAD, HEADS, 1, bias=True).double()
    x, bias, parts = randn(BATCH, LENGTH, HEADS * D_HEAD), ours.output_projection.bias, []
    for head in range(HEADS):
        with without_head(ours, head):
            parts.append(ours(x)[0] - bias)
    assert_equal(sum(parts), (HEADS - 1) * (ours(x)[0] - bias))


def test_compiled_code_notices_that_a_head_is_gone(attention):
    compiled, x = torch.compile(attention, backend="eager"), randn(BATCH, LENGTH, HEADS * D_HEAD)
    assert_equal(compiled(x)[0], attention(x)[0])
    with without_head(attention, 2):
        assert_equal(compiled(x)[0], attention(x)[0])
    assert_equal(compiled(x)[0], attention(x)[0])


@pytest.mark.parametrize("head", [-1, HEADS])
def test_refuses_a_head_that_is_not_there(attention, head):
    with (
        pytest.raises(ValueError, match=f"head must be from 0 to 2, got {head}"),
        without_head(attention, head),
    ):
        pass


def test_score_by_hand():
    weights = torch.tensor([[[1.0, 0.0, 0.0], [0.3, 0.7, 0.0], [0.1, 0.4, 0.5]]])
    previous = torch.tensor([[False, False, False], [True, False, False], [False, True, False]])
    assert_equal(attention_on(weights, previous), torch.tensor([(0.3 + 0.4) / 2]))
    assert_equal(attention_on(weights, torch.ones(3, 3).bool()), torch.tensor([1.0]))
    assert_equal(attention_on(weights, previous | previous.T), torch.tensor([(0.0 + 0.3 + 0.4) / 3]))


WEIGHTS, ALL = torch.eye(3).expand(2, 3, 3), torch.ones(3, 3).bool()


@pytest.mark.parametrize(
    ("weights", "wanted", "message"),
    [
        (WEIGHTS, ALL[:, :1], r"\(3, 1\), expected .* = \(3, 3\); build it"),
        (WEIGHTS, ~ALL, "False everywhere"),
        (-WEIGHTS, ALL, "weights must be from 0 to 1 .*, got .*; pass the attention weights after"),
        (1.1 * WEIGHTS, ALL, "sum to 1 for each query, got .*; pass the attention weights after"),
    ],
)
def test_what_is_refused(weights, wanted, message):
    with pytest.raises(ValueError, match=message):
        attention_on(weights, wanted)
