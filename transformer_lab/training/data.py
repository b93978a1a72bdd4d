"""Lesson 10. Batches of inputs and targets."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

IGNORED = -100  # the target of positions that do not count: padding, or tokens that were not masked


@dataclass(frozen=True, eq=False)
class Batch:
    """Inputs of a model, and the target class of each row of its logits.

    Attributes:
        inputs: the model's arguments, each with the batch as its first axis.
        targets: int64, the shape of the logits without their last axis; IGNORED where no class is asked for.
    """

    inputs: tuple[Tensor, ...]
    targets: Int[Tensor, " batch *position"]

    def __post_init__(self) -> None:
        if not isinstance(self.inputs, tuple):
            raise TypeError(
                f"inputs must be a tuple of tensors, got {type(self.inputs).__name__}; "
                "for a single one write (token_ids,), with the comma"
            )
        lengths = [len(tensor) for tensor in (*self.inputs, self.targets)]
        if len(set(lengths)) > 1:
            raise ValueError(
                f"inputs and targets have {lengths} examples, wanted as many in each; "
                "the batch is the first axis of all"
            )

    def __len__(self) -> int:
        return len(self.targets)

    def rows(self, index: Tensor | slice) -> "Batch":
        """Return some of the examples: a slice, or a tensor of indices."""
        return Batch(tuple(tensor[index] for tensor in self.inputs), self.targets[index])

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch with its tensors on `device`."""
        return Batch(tuple(tensor.to(device) for tensor in self.inputs), self.targets.to(device))


def shuffled_batches(data: Batch, batch_size: int, *, seed: int = 0) -> Callable[[int], Batch]:
    """Return a function step → batch that goes through the data epoch by epoch, each in a new random order.

    The last batch of an epoch may be smaller. A batch depends on its step alone, so a run that resumes needs
    no state of a data loader.

    Raises:
        ValueError: no examples.
    """
    if not len(data):
        raise ValueError("data has no examples, wanted at least one; look how they were chosen")
    steps_per_epoch = -(-len(data) // batch_size)  # rounded up

    def batch_at(step: int) -> Batch:
        epoch, index = divmod(step, steps_per_epoch)
        generator = torch.Generator().manual_seed(int(1_000_003 * seed + epoch))
        order = torch.randperm(len(data), generator=generator)
        return data.rows(order[index * batch_size : (index + 1) * batch_size])

    return batch_at
