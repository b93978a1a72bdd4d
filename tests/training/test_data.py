"""Training data: every example once a round, the same batch for the same step, holes where they may be."""

import pytest
import torch

from tests.references import assert_equal
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
    assert numbered(7).rows(slice(1, 3)).targets.tolist() == [1, 2]


def test_a_batch_moves_to_another_device():
    moved = numbered(3).to("meta")
    assert all(tensor.is_meta for tensor in (*moved.inputs, moved.targets))


def test_a_batch_that_cannot_be_is_refused():
    with pytest.raises(TypeError, match=r"inputs must be a tuple of tensors, got Tensor; .* \(token_ids,\)"):
        Batch(torch.ones(3, 2), torch.ones(3))
    with pytest.raises(ValueError, match=r"have \[5, 3\] examples, wanted as many in each"):
        Batch((torch.ones(5, 2),), torch.ones(3))


@pytest.mark.parametrize("n, batch_size", [(7, 3), (6, 3), (5, 1), (2, 11)])
def test_each_round_shows_every_example_once_in_another_order(n, batch_size):
    batch_at = shuffled_batches(numbered(n), batch_size)
    per_round = -(-n // batch_size)
    rounds = [
        torch.cat([batch_at(r * per_round + i).targets for i in range(per_round)]).tolist() for r in range(9)
    ]
    for seen in rounds:
        assert sorted(seen) == list(range(n))
    assert len({tuple(seen) for seen in rounds}) > 1
    assert max(len(batch_at(i)) for i in range(9)) == min(n, batch_size)


def test_no_seed_repeats_the_rounds_of_another():
    rounds = [shuffled_batches(numbered(23), 23, seed=seed)(r).targets for seed in range(5) for r in range(5)]
    assert len({tuple(seen.tolist()) for seen in rounds}) == 25


def test_a_batch_depends_on_its_step_and_the_seed_alone():
    steps = [4, 0, 9, 4, 1]
    first, again, other = (
        [shuffled_batches(numbered(17), 5, seed=seed)(step).targets.tolist() for step in steps]
        for seed in (3, 3, 4)
    )
    torch.rand(1)
    assert first == again
    assert first != other
    assert first[0] == first[3]
    batch = shuffled_batches(numbered(17), 5)(2)
    assert batch.inputs[0][:, 0].tolist() == batch.targets.tolist()


def test_no_examples_or_no_batch_are_refused():
    with pytest.raises(ValueError, match="data has no examples"):
        shuffled_batches(numbered(0), 5)
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        shuffled_batches(numbered(3), 0)


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
    with pytest.raises(ValueError, match=message):
        check_targets(torch.zeros(2, 3, 5), targets)


def test_targets_that_fit():
    check_targets(torch.zeros(2, 3, 5), torch.tensor([[0, 4, IGNORED], [IGNORED, 1, 2]]))
    check_targets(torch.zeros(2, 3, 5), torch.full((2, 3), IGNORED), some_asked=False)
    check_targets(torch.zeros(2, 5), torch.tensor([4, 0]))


# --- masked tokens

VOCABULARY, MASK = 1009, 1008
MANY = torch.arange(7, 7 + 200 * 500).reshape(200, 500) % MASK  # 100,000 tokens, none of them the mask


def masked(seed=0, **options):
    generator = torch.Generator().manual_seed(seed)
    return mask_tokens(MANY, mask_id=MASK, vocab_size=VOCABULARY, generator=generator, **options)


@pytest.mark.parametrize("share", [0.15, 0.6, 1.0])
def test_a_share_is_asked_and_of_it_80_10_10_are_hidden_replaced_and_left(share):
    hidden, targets = masked(share=share)
    asked = targets != IGNORED
    assert asked.double().mean().item() == pytest.approx(share, abs=0.01)
    of_asked = [
        (hidden[asked] == MASK).double().mean(),
        ((hidden != MANY) & (hidden != MASK))[asked].double().mean(),
        (hidden == MANY)[asked].double().mean(),
    ]
    assert_equal(torch.stack(of_asked), torch.tensor([0.8, 0.1, 0.1]).double(), 0.02)


def test_targets_are_the_hidden_ids_and_the_rest_is_untouched():
    hidden, targets = masked()
    asked = targets != IGNORED
    assert (targets[asked] == MANY[asked]).all()
    assert (hidden[~asked] == MANY[~asked]).all()
    assert hidden.dtype == MANY.dtype and targets.dtype == torch.int64


def test_random_ids_come_from_the_whole_vocabulary():
    hidden, _ = masked(share=1.0)
    replaced = hidden[(hidden != MANY) & (hidden != MASK)]
    assert replaced.min() < 20 and replaced.max() > VOCABULARY - 20
    assert len(replaced.unique()) > 0.9 * VOCABULARY


def test_tokens_that_may_not_be_masked_stay():
    may_mask = torch.arange(500) % 3 > 0
    hidden, targets = masked(may_mask=may_mask.expand(200, 500), share=1.0)
    assert (targets[:, ~may_mask] == IGNORED).all()
    assert (hidden[:, ~may_mask] == MANY[:, ~may_mask]).all()
    assert (targets[:, may_mask] != IGNORED).all()


def test_a_generator_repeats_the_same_holes():
    for ours, theirs in zip(masked(1), masked(1), strict=True):
        assert_equal(ours, theirs, 0)
    assert (masked(1)[1] != masked(2)[1]).any()


def test_what_cannot_be_masked_is_refused():
    for share in (0, 1.5):
        with pytest.raises(ValueError, match=rf"share must be above 0 and at most 1, got {share}"):
            masked(share=share)
    with pytest.raises(ValueError, match=r"may_mask has shape \(500,\), wanted \(200, 500\)"):
        masked(may_mask=torch.ones(500).bool())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mask_id": VOCABULARY}, "mask_id must be at most 1,008, got 1009"),
        ({"token_ids": MANY + 7}, "from 0 to 1008, got 7 to 1014"),
    ],
)
def test_ids_outside_the_vocabulary_are_refused(changes, words):
    """Else the model, or the random ids, would hear of them much later."""
    with pytest.raises(ValueError, match=words):
        mask_tokens(**({"token_ids": MANY, "mask_id": MASK, "vocab_size": VOCABULARY} | changes))
