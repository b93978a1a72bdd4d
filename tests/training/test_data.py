"""Training data: every example once an epoch, and the same batch for the same step."""

import pytest
import torch

from transformer_lab.training import Batch, shuffled_batches


def numbered(n):
    """Examples that can be told apart: input i is [i, i + 100] and 2i, target i."""
    numbers = torch.arange(n)
    return Batch((torch.stack([numbers, numbers + 100], 1), numbers * 2), numbers)


def test_rows_come_from_all_inputs_and_targets():
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
    with pytest.raises(ValueError, match=r"the same number of examples, got \[5, 3\]"):
        Batch((torch.ones(5, 2),), torch.ones(3))
    with pytest.raises(ValueError, match="data has no examples"):
        shuffled_batches(numbered(0), 5)


@pytest.mark.parametrize("n, batch_size", [(7, 3), (2, 11)])
def test_each_epoch_has_every_example_once(n, batch_size):
    batch_at = shuffled_batches(numbered(n), batch_size)
    per_epoch = -(-n // batch_size)
    for epoch in range(3):
        batches = [batch_at(step) for step in range(epoch * per_epoch, (epoch + 1) * per_epoch)]
        assert sorted(torch.cat([batch.targets for batch in batches]).tolist()) == list(range(n))
        assert max(map(len, batches)) == min(n, batch_size)


def test_every_epoch_and_every_seed_has_its_own_order():
    order = lambda seed, step: shuffled_batches(numbered(23), 23, seed=seed)(step).targets.tolist()  # noqa: E731
    assert len({tuple(order(seed, step)) for seed in range(5) for step in range(5)}) == 25
    assert order(3, 4) == order(3, 4)
