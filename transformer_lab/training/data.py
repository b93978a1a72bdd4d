"""Examples and right answers, batch by batch. Used in lesson 10."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

IGNORED = -100  # the target where nothing is asked: of padding, or of a token that was not masked


@dataclass(frozen=True, eq=False)
class Batch:
    """What goes into a model, and the class that is right for each row of logits that comes out.

    Attributes:
        inputs: the model's arguments, each with the batch as its first axis.
        targets: int64, the shape of the logits without their last axis; IGNORED where nothing is asked.
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
        """Return some of the examples: a slice, or a tensor of their numbers."""
        return Batch(tuple(tensor[index] for tensor in self.inputs), self.targets[index])

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch with its tensors on `device`."""
        return Batch(tuple(tensor.to(device) for tensor in self.inputs), self.targets.to(device))


def check_targets(logits: Tensor, targets: Tensor, *, some_asked: bool = True) -> None:
    """Raise unless each target is a class of its row of logits, or IGNORED."""
    if targets.shape != logits.shape[:-1]:
        raise ValueError(
            f"targets have shape {tuple(targets.shape)}, wanted {tuple(logits.shape[:-1])}, that of the "
            "logits without their last axis; a head for tokens wants one for each token"
        )
    asked = targets[targets != IGNORED]
    if some_asked and not len(asked):
        raise ValueError(f"nothing is asked: every target is IGNORED ({IGNORED}); look how they were made")
    n_classes = logits.shape[-1]
    if len(asked) and (asked.min() < 0 or asked.max() >= n_classes):
        raise ValueError(
            f"targets must be from 0 to {n_classes - 1}, or {IGNORED} to ask nothing, "
            f"got {asked.min().item()} to {asked.max().item()}; has the head enough classes?"
        )


def shuffled_batches(data: Batch, batch_size: int, *, seed: int = 0) -> Callable[[int], Batch]:
    """Return a function step → batch: all examples in a new order, then all in another, and so on.

    The last batch of each round may be smaller. A batch depends on its step alone, so that a run which
    goes on after a stop needs to know nothing else.

    Raises:
        ValueError: no examples.
    """
    if not len(data):
        raise ValueError("data has no examples, wanted at least one; look how they were chosen")
    per_round = -(-len(data) // batch_size)  # rounded up

    def batch_at(step: int) -> Batch:
        round_number, place = divmod(step, per_round)
        generator = torch.Generator().manual_seed(int(1_000_003 * seed + round_number))
        order = torch.randperm(len(data), generator=generator)
        return data.rows(order[place * batch_size : (place + 1) * batch_size])

    return batch_at


def mask_tokens(
    token_ids: Int[Tensor, "batch position"],
    *,
    mask_id: int,
    vocab_size: int,
    may_mask: Bool[Tensor, "batch position"] | None = None,
    share: float = 0.15,
    generator: torch.Generator | None = None,
) -> tuple[Int[Tensor, "batch position"], Int[Tensor, "batch position"]]:
    """Hide some tokens; return the ids with the holes, and the targets: the hidden ids, IGNORED elsewhere.

    Of the chosen tokens 80% become `mask_id`, 10% a random id and 10% stay, so that the model cannot
    rely on what it sees: Section 3.1 of arXiv:1810.04805 (BERT).

    Args:
        token_ids: integers below vocab_size.
        mask_id: the id that stands for a hole.
        vocab_size: random ids are below it.
        may_mask: False where a token must stay, such as padding and [CLS]; None lets all be chosen.
        share: of the tokens that may be chosen, the probability of being so.
        generator: where the random numbers come from, on the device of the ids.

    Raises:
        ValueError: a share outside (0, 1].
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, got {share}; BERT's is 0.15")
    chance, fate = (
        torch.rand(token_ids.shape, generator=generator, device=token_ids.device) for _ in range(2)
    )
    chosen = chance < share if may_mask is None else (chance < share) & may_mask
    others = torch.randint(vocab_size, token_ids.shape, generator=generator, device=token_ids.device)
    hidden = token_ids.masked_fill(chosen & (fate < 0.8), mask_id)
    hidden = torch.where(chosen & (fate >= 0.9), others.to(token_ids.dtype), hidden)
    return hidden, token_ids.long().masked_fill(~chosen, IGNORED)
