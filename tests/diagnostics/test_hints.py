"""Hints: what a property check that fails asks for first, when something is known."""

import copy

import pytest
import torch
from torch import nn

from tests.tensors import randn
from transformer_lab.diagnostics import (
    batch_invariance,
    distance_only,
    eval_determinism,
    padding_invariance,
    permutation_equivariance,
)
from transformer_lab.rotary_embedding import RotaryEmbedding, rotate_half_split

LAYER = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.1, batch_first=True).eval()


def masked(may_attend):
    """For PyTorch's layer, which calls True what is hidden."""
    return {"src_key_padding_mask": ~may_attend[:, 0, 0]}


@pytest.mark.parametrize("path", ["fast", "slow"])
def test_an_inverted_mask_is_asked_for(path):
    x = randn(2, 5, 8, dtype=torch.float32)
    layer = copy.deepcopy(LAYER).requires_grad_(path == "slow")

    def inverted(x, may_attend):
        with torch.set_grad_enabled(path == "slow"):
            return layer(x, src_key_padding_mask=may_attend[:, 0, 0])

    assert padding_invariance(lambda x, may_attend: layer(x, **masked(may_attend)), x).holds
    try:
        said = repr(padding_invariance(inverted, x))
    except RuntimeError as error:
        said = error.__notes__[0]
    assert "is your mask inverted?" in said


def test_a_module_is_in_eval_mode_when_its_mask_is_tried_the_other_way_round():
    class Inverted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = copy.deepcopy(LAYER).train()

        def forward(self, x, may_attend):
            return self.layer(x, src_key_padding_mask=may_attend[:, 0, 0])

    inverted = Inverted()
    assert "is your mask inverted?" in repr(padding_invariance(inverted, randn(2, 5, 8, dtype=torch.float32)))
    assert inverted.layer.training


def test_a_module_in_training_mode_is_asked_for():
    x = randn(2, 5, 8, dtype=torch.float32)
    layer = copy.deepcopy(LAYER).train()
    checks = [
        padding_invariance(lambda x, may_attend: layer(x, **masked(may_attend)), x),
        permutation_equivariance(lambda x: layer(x), x),
        batch_invariance(lambda x: layer(x), x),
        eval_determinism(lambda x: layer(x), x),
    ]
    for check in checks:
        assert "a module in training mode" in repr(check)
    assert "training" not in repr(permutation_equivariance(lambda x: x.cumsum(1), x))


def test_random_numbers_in_eval_mode_are_not_put_down_to_dropout_alone():
    x = randn(2, 5, 8, dtype=torch.float32)
    check = eval_determinism(lambda x: x[:, torch.randint(5, (5,))], x)
    assert "is something random" in repr(check)


def test_what_is_kept_from_call_to_call_is_not_put_down_to_dropout():
    x = randn(2, 5, 8, dtype=torch.float32)
    angles = torch.arange(16.0)

    def rolled(x, may_attend=None):
        angles.copy_(angles.roll(1))
        return x + angles[: x.shape[-2], None]

    for check in (eval_determinism(rolled, x), padding_invariance(rolled, x), batch_invariance(rolled, x)):
        assert "even with the same random seed: is state kept between calls" in repr(check)
        assert "dropout" not in repr(check)


def test_a_mask_that_is_not_used_is_asked_for():
    x = randn(2, 5, 8, dtype=torch.float32)
    ids = torch.tensor([[3, 1, 4, 1, 5], [2, 6, 5, 3, 5]])
    table = randn(7, 8, dtype=torch.float32)
    assert "does the function use it?" in repr(padding_invariance(lambda x, may_attend: LAYER(x), x))
    assert "does the function use it?" in repr(padding_invariance(lambda i, may_attend: LAYER(table[i]), ids))

    def weak(x, may_attend):  # hidden scores become 0, no low score
        scores = (x @ x.mT) * may_attend[:, 0]
        return scores.softmax(-1) @ x

    assert "does the function use it?" not in repr(padding_invariance(weak, x))


def test_one_mask_for_all_sequences_is_asked_for():
    x = randn(3, 5, 8, dtype=torch.float32)

    def of_the_first(x, may_attend):
        scores = (x @ x.mT).masked_fill(~may_attend[:1, 0], -torch.inf)
        return scores.softmax(-1) @ x

    assert "does each sequence get its own mask?" in repr(padding_invariance(of_the_first, x))
    assert padding_invariance(of_the_first, x[:1]).holds


def test_a_model_that_finds_its_padding_by_an_id_is_told_how():
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    table = randn(7, 3)

    def mean_of_real(ids):
        return (table[ids] * (ids != 0)[..., None]).sum(1, keepdim=True)

    by_id = padding_invariance(lambda ids, may_attend: mean_of_real(ids), ids)
    assert "it holds if the padding has the id 0" in repr(by_id)
    with_ids = padding_invariance(
        lambda ids, may_attend: mean_of_real(ids.masked_fill(~may_attend[:, 0, 0], 0)), ids
    )
    assert with_ids.holds
    assert "it holds" not in repr(
        padding_invariance(lambda ids, may_attend: table[ids].cumsum(1).flip(1), ids)
    )


def test_float32_inside_float64_is_asked_for():
    x = randn(2, 101, 8)
    assert "float32 internally?" in repr(
        permutation_equivariance(lambda x: x.float().sum(1)[:, None].double(), x)
    )


def test_a_hugging_face_output_is_told_apart():
    output = type("BaseModelOutput", (), {"last_hidden_state": None})()
    with pytest.raises(TypeError, match=r"BaseModelOutput; take its .last_hidden_state"):
        eval_determinism(lambda x: output, randn(2, 5, 8))


def test_a_rotation_that_rotates_nothing_is_refused_and_bfloat16_is_long_enough_to_show():
    query, key = randn(8), randn(8, seed=1)
    heads_counted = RotaryEmbedding(8)
    with pytest.raises(ValueError, match="same vector at every position"):
        distance_only(lambda x: heads_counted(x[:, None])[:, 0], query, key)

    def in_bfloat16(x):
        angle = (torch.arange(len(x)).bfloat16()[:, None] * 100 ** -(torch.arange(4) / 4)).double()
        return rotate_half_split(x, angle.cos(), angle.sin())

    assert not distance_only(in_bfloat16, query, key).holds
