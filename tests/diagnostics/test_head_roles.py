"""Roles of heads: the score is a mean by hand, and an ablated head is gone and comes back."""

import pytest
import torch
from torch import nn

from tests.reference_loops import BATCH, assert_equal, randn
from transformer_lab import MultiHeadAttention
from transformer_lab.diagnostics import attention_on, without_head
from transformer_lab.low_rank_adaptation import adapt
from transformer_lab.modern_encoder import GroupedQueryAttention

HEADS, LENGTH, D_HEAD = 3, 5, 7


@pytest.fixture
def attention():
    torch.manual_seed(1)
    return MultiHeadAttention(HEADS * D_HEAD, HEADS).double()


def output_by_loop(attention, x, ablated):
    """Add up the heads one after the other, all but one."""
    total = attention.output_projection.bias.expand(*x.shape).clone()
    parts = [getattr(attention, f"{name}_projection") for name in ("query", "key", "value")]
    for head in range(HEADS):
        rows = slice(head * D_HEAD, (head + 1) * D_HEAD)
        query, key, value = (x @ part.weight[rows].T + part.bias[rows] for part in parts)
        weights = torch.softmax(query @ key.mT / D_HEAD**0.5, dim=-1)
        if head != ablated:
            total = total + weights @ value @ attention.output_projection.weight[:, rows].T
    return total


def test_without_a_head_the_others_and_the_bias_are_left(attention):
    head, x = 1, randn(BATCH, LENGTH, HEADS * D_HEAD)
    before = attention(x)[0]
    with pytest.raises(KeyError), without_head(attention, head):
        assert_equal(attention(x)[0], output_by_loop(attention, x, head))
        assert_equal(attention(x, need_weights=False)[0], output_by_loop(attention, x, head))
        raise KeyError
    assert_equal(attention(x)[0], before, 0)  # the head is back, even after an error


def computed(attention):
    nn.utils.parametrizations.weight_norm(attention.output_projection)


def adapted(attention):
    adapt(attention, 2, projections=["output_projection"])
    nn.init.normal_(attention.output_projection.up)


@pytest.mark.parametrize("change", [computed, adapted])
def test_a_head_is_removed_whatever_computes_the_projection(attention, change):
    x = randn(BATCH, LENGTH, HEADS * D_HEAD)
    change(attention)
    projection = attention.output_projection
    bias = projection(torch.zeros(HEADS * D_HEAD).double())
    whole, parts = attention(x)[0], []
    for head in range(HEADS):
        with without_head(attention, head):
            parts.append(whole - attention(x)[0])
    assert_equal(sum(parts), whole - bias)  # what the heads add, one by one
    others = [head for head in range(HEADS) if head != 1]
    with without_head(attention, others[0]):
        with without_head(attention, others[1]):
            assert_equal(attention(x)[0], parts[1] + bias)
        assert_equal(attention(x)[0], whole - parts[others[0]])
    assert "forward" not in vars(projection)


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
    with pytest.raises(ValueError, match=f"heads go from 0 to 2, got {head}"), without_head(attention, head):
        pass


def test_score_by_hand():
    weights = torch.tensor([[[1.0, 0.0, 0.0], [0.3, 0.7, 0.0], [0.1, 0.4, 0.5]]])
    previous = torch.tensor([[False, False, False], [True, False, False], [False, True, False]])
    assert_equal(attention_on(weights, previous), torch.tensor([(0.3 + 0.4) / 2]))
    assert_equal(attention_on(weights, torch.ones(3, 3).bool()), torch.tensor([1.0]))
    assert_equal(attention_on(weights, previous | previous.T), torch.tensor([(0.0 + 0.3 + 0.4) / 3]))


def test_score_keeps_the_leading_axes_and_equals_loops():
    weights = torch.softmax(randn(2, HEADS, LENGTH, LENGTH), dim=-1)
    wanted = randn(LENGTH, LENGTH, seed=1) > 0.9
    asked = [i for i in range(LENGTH) if wanted[i].any()]
    assert 0 < len(asked) < LENGTH
    loop = sum(weights[..., i, j] for i in asked for j in range(LENGTH) if wanted[i, j]) / len(asked)
    assert_equal(attention_on(weights, wanted), loop)


WEIGHTS, ALL = torch.eye(3).expand(2, 3, 3), torch.ones(3, 3).bool()


@pytest.mark.parametrize(
    ("weights", "wanted", "message"),
    [
        (WEIGHTS, ALL[:, :1], r"\(3, 1\), wanted .* = \(3, 3\); make it"),
        (WEIGHTS, ~ALL, "False everywhere"),
        (-WEIGHTS, ALL, "weights must be from 0 to 1, .*, got .*; take those after"),
        (1.1 * WEIGHTS, ALL, "and 1 in sum for each query, got .*; take those after"),
    ],
)
def test_what_is_refused(weights, wanted, message):
    with pytest.raises(ValueError, match=message):
        attention_on(weights, wanted)
