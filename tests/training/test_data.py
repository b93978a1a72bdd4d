"""Training data: every example once a round, the same batch for the same step, holes where they may be."""

import pytest
import torch

from tests.reference_loops import assert_equal
from transformer_lab.training.data import IGNORED, Batch, check_targets, mask_tokens, shuffled_batches


def numbered(n):
    """Examples that can be told apart: input i is [i, i + 100], target i."""
    return Batch(
        (torch.stack([torch.arange(n), torch.arange(n) + 100], 1), torch.arange(n) * 2), torch.arange(n)
    )


# --- batches


def test_rows_are_taken_from_inputs_and_targets_alike():
    batch = numbered(7).rows(torch.tensor([5, 2]))
    assert len(batch) == 2
    assert batch.inputs[0].tolist() == [[5, 105], [2, 102]]
    assert batch.inputs[1].tolist() == [10, 4]
    assert batch.targets.tolist() == [5, 2]
    moved = batch.to("meta")
    assert all(tensor.is_meta for tensor in (*moved.inputs, moved.targets))


def test_a_batch_that_cannot_be_is_refused():
    with pytest.raises(TypeError, match=r"inputs must be a tuple of tensors, got Tensor; .* \(token_ids,\)"):
        Batch(torch.ones(3, 2), torch.ones(3))
    with pytest.raises(ValueError, match=r"have \[5, 3\] examples, wanted as many in each"):
        Batch((torch.ones(5, 2),), torch.ones(3))


@pytest.mark.parametrize("n, batch_size", [(7, 3), (2, 11)])
def test_each_round_shows_every_example_once(n, batch_size):
    batch_at = shuffled_batches(numbered(n), batch_size)
    per_round = -(-n // batch_size)
    for round_number in range(3):
        steps = range(round_number * per_round, (round_number + 1) * per_round)
        batches = [batch_at(step) for step in steps]
        assert sorted(torch.cat([batch.targets for batch in batches]).tolist()) == list(range(n))
        assert max(map(len, batches)) == min(n, batch_size)


def test_no_round_and_no_seed_repeats_the_order_of_another():
    order = lambda seed, step: shuffled_batches(numbered(23), 23, seed=seed)(step).targets.tolist()  # noqa: E731
    assert len({tuple(order(seed, step)) for seed in range(5) for step in range(5)}) == 25
    assert order(3, 4) == order(3, 4)  # whatever was asked meanwhile


def test_no_examples_are_refused():
    with pytest.raises(ValueError, match="data has no examples"):
        shuffled_batches(numbered(0), 5)


# --- targets


@pytest.mark.parametrize(
    "targets, message",
    [
        (torch.zeros(3, 2).long(), r"shape \(3, 2\), wanted \(2, 3\)"),
        (torch.full((2, 3), IGNORED), "nothing is asked"),
        (torch.tensor([[0, 1, 5], [1, 0, 0]]), "from 0 to 4, or -100 .* got 0 to 5"),
        (torch.tensor([[0, 1, -1], [1, 0, 4]]), "got -1 to 4"),
    ],
)
def test_targets_that_do_not_fit_are_refused(targets, message):
    logits = torch.zeros(2, 3, 5)
    with pytest.raises(ValueError, match=message):
        check_targets(logits, targets)
    check_targets(logits, torch.tensor([[0, 4, IGNORED], [IGNORED, 1, 2]]))  # these fit
    check_targets(logits, torch.full((2, 3), IGNORED), some_asked=False)


# --- masked tokens

VOCABULARY, MASK = 1009, 1008
MANY = torch.arange(7, 7 + 200 * 500).reshape(200, 500) % MASK  # 100,000 tokens, none of them the mask
MAY_MASK = (torch.arange(500) % 3 > 0).expand(200, 500)


def masked(seed=0, **options):
    given = {"token_ids": MANY, "mask_id": MASK, "vocab_size": VOCABULARY} | options
    return mask_tokens(**given, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("share", "may_mask"), [(0.15, None), (1.0, MAY_MASK)])
def test_a_share_is_asked_and_of_it_80_10_10_are_hidden_replaced_and_left(share, may_mask):
    hidden, targets = masked(share=share, may_mask=may_mask)
    asked, may_be = targets != IGNORED, torch.ones_like(MAY_MASK) if may_mask is None else may_mask
    assert asked[may_be].double().mean().item() == pytest.approx(share, abs=0.01)
    assert not asked[~may_be].any()
    assert (targets[asked] == MANY[asked]).all() and (hidden[~asked] == MANY[~asked]).all()
    assert hidden.dtype == targets.dtype == torch.int64
    kinds = torch.stack([hidden == MASK, (hidden != MANY) & (hidden != MASK), hidden == MANY])
    assert_equal(kinds[:, asked].double().mean(dim=1), torch.tensor([0.8, 0.1, 0.1]).double(), 0.02)


def test_random_ids_come_from_the_whole_vocabulary():
    hidden, _ = masked(share=1.0)
    replaced = hidden[(hidden != MANY) & (hidden != MASK)]
    assert replaced.min() < 20 and replaced.max() > VOCABULARY - 20
    assert len(replaced.unique()) > 0.9 * VOCABULARY
    again, targets = masked(share=1.0, token_ids=MANY.int())
    assert_equal(again, hidden.int(), 0)  # by the same generator, in the type that the ids came in
    assert targets.dtype == torch.int64


def test_a_share_in_percent_is_refused():
    with pytest.raises(ValueError, match="share must be above 0 and at most 1, got 15"):
        masked(share=15)
