"""Lesson 10. Batches of inputs and targets, and their shuffling."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

IGNORED = -100  # target of positions that the loss ignores: padding, or tokens that were not masked


@dataclass(frozen=True, eq=False)
class Batch:
    """The inputs of a model, and a target class for each row of its logits.

    Attributes:
        inputs: the arguments of the model; the first axis of each is the batch.
        targets: int64, with the shape of the logits without their last axis; IGNORED where the loss should
            ignore the position.
    """

    inputs: tuple[Tensor, ...]
    targets: Int[Tensor, " batch *position"]

    def __post_init__(self) -> None:
        if not isinstance(self.inputs, tuple):
            raise TypeError(
                f"inputs must be a tuple of tensors, got {type(self.inputs).__name__}; "
                "write a single input as (token_ids,), with the comma"
            )
        lengths = [len(tensor) for tensor in (*self.inputs, self.targets)]
        if len(set(lengths)) > 1:
            raise ValueError(
                f"inputs and targets must have the same number of examples, got {lengths}; "
                "the first axis of each tensor is the batch"
            )

    def __len__(self) -> int:
        return len(self.targets)

    def rows(self, index: Tensor | slice) -> "Batch":
        """Return the examples that a slice or a tensor of indices selects."""
        return Batch(tuple(tensor[index] for tensor in self.inputs), self.targets[index])

    def to(self, device: torch.device | str) -> "Batch":
        """Return this batch with its tensors on `device`."""
        return Batch(tuple(tensor.to(device) for tensor in self.inputs), self.targets.to(device))


def shuffled_batches(data: Batch, batch_size: int, *, seed: int = 0) -> Callable[[int], Batch]:
    """Return a function step → batch that iterates over the data in epochs, each in a new random order.

    The last batch of an epoch may be smaller. A batch depends only on its step, so a resumed run does not
    need the state of a data loader.

    Raises:
        ValueError: if there are no examples.
    """
    if not len(data):
        raise ValueError("data has no examples, expected at least one; check how they were selected")
    steps_per_epoch = -(-len(data) // batch_size)  # rounded up

    def batch_at(step: int) -> Batch:
        epoch, index = divmod(step, steps_per_epoch)
        generator = torch.Generator().manual_seed(int(1_000_003 * seed + epoch))
        order = torch.randperm(len(data), generator=generator)
        return data.rows(order[index * batch_size : (index + 1) * batch_size])

    return batch_at
