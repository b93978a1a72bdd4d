"""Lesson 13. Several processes train one model: each reads its rows of a batch, all make the same step."""

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from transformer_lab.training import checkpoints
from transformer_lab.training.checkpoints import History, Run, check_place
from transformer_lab.training.data import IGNORED, Batch, check_targets
from transformer_lab.training.loop import Alone

# How long a worker waits for the others. One that dies is noticed at once, since its connections close. One
# whose machine loses its power says nothing, and only waiting too long tells; but it must be longer than the
# first worker takes to write a checkpoint, and the slowest to read the job.
TIMEOUT = timedelta(seconds=60)


def join() -> torch.device:
    """Meet the other workers; return the device of this one.

    Started by torchrun, the environment says who is who. Started alone, this process is a group of one.
    """
    alone = {"store": dist.HashStore(), "rank": 0, "world_size": 1}
    device, backend = torch.device("cpu"), "gloo"
    if torch.cuda.is_available():  # each worker of a machine has a GPU of its own
        device, backend = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))), "nccl"
        torch.cuda.set_device(device)
    dist.init_process_group(backend, timeout=TIMEOUT, **({} if "RANK" in os.environ else alone))
    return device


def rows_of_worker(batch: Batch, rank: int, count: int) -> Batch:
    """Return the rows rank, rank + count, rank + 2 · count, … of a batch: every row goes to one worker."""
    if len(batch) < count:
        raise ValueError(
            f"got a batch of {len(batch)} rows for {count} workers, wanted at least one for each; make the "
            "batch larger, or start fewer workers"
        )
    return batch.rows(slice(rank, None, count))


def loss_to_hand_in(
    losses: Float[Tensor, " targets"], total: int | Tensor, n_workers: int
) -> Float[Tensor, ""]:
    """Return the number of which a worker computes the gradient.

    The workers' gradients are averaged: added, then divided by `n_workers`. Here the sum is divided by
    `total`, the number of targets of *all* workers, and multiplied by `n_workers`, which the average takes
    away again. So the average is the gradient of the mean over all targets, however many each worker has.

    Raises:
        ValueError: losses not one after the other: their mean would be divided twice.
    """
    if losses.dim() != 1:
        raise ValueError(
            f"losses must have the axis (targets), got shape {tuple(losses.shape)}; take reduction='none'"
        )
    return losses.sum() * n_workers / total


class Workers(Alone):
    """Several processes, each with the whole model: this is one of them. For `train(..., workers=...)`.

    Attributes:
        device: where this worker computes.
        rank, count: which worker this is, from 0, and of how many.
        steps, saved: how many steps are done (whoever watches counts them), and how many are safe in the
            checkpoint.
    """

    def __init__(self, device: torch.device, write: Callable[[str], None]) -> None:
        self.device = device
        self.write = write
        self.rank, self.count = dist.get_rank(), dist.get_world_size()
        self.steps = self.saved = 0
        self.seed = 0

    def tell(self, line: str) -> None:
        """Write a line of words, if this is worker 0."""
        if self.rank == 0:
            self.write(line)

    def wrap(self, model: nn.Module) -> nn.Module:
        """Move the model to the device, make it equal to that of worker 0, and return what averages."""
        self.seed = torch.initial_seed() % 2**32
        model.to(self.device)
        for tensor in chain(model.parameters(), model.buffers()):
            dist.broadcast(tensor.detach(), src=0)
        return self.spread(model)

    def spread(self, model: nn.Module) -> nn.Module:
        """Every worker holds the whole model; after each backward pass all hold the averaged gradient."""
        # static_graph: parameters that the loss never depends on are no error, as they are none alone.
        return DistributedDataParallel(model, static_graph=True)

    def resume(self, place: str | Path | None, run: Run) -> History:
        """Go on from the checkpoint, if it is there already: all workers from the same one."""
        if place is not None and self.rank == 0:
            self.check(place)
        seen = gathered(place is not None and self.file_of(place).exists())
        if any(seen) and not all(seen):
            raise ValueError(
                f"got {place} in {sum(seen)} of {self.count} workers, wanted the same for all; put it where "
                "every machine reads it"
            )
        history = self.read(place, run) if all(seen) else History()
        self.steps = self.saved = history.steps
        goes_on = f"; going on from step {history.steps}" if history.steps else ""
        self.tell(self.in_words(run.model) + goes_on)
        return history

    check = staticmethod(check_place)  # raises unless a checkpoint can be written there

    def file_of(self, place: str | Path) -> Path:
        """Return the file that is there if there is a checkpoint."""
        return Path(place)

    def read(self, place: str | Path, run: Run) -> History:
        """Read the checkpoint that is there."""
        return checkpoints.resume(place, run)

    def in_words(self, model: nn.Module) -> str:
        """Say how many workers there are, and what each holds."""
        total = sum(parameter.numel() for parameter in model.parameters())
        here = sum(self.part(parameter).numel() for parameter in model.parameters())
        at_most = "" if here in (total, total / self.count) else "at most "
        workers = "1 worker" if self.count == 1 else f"{self.count} workers"
        return f"{workers} on {self.device.type}; each holds {at_most}{here:,} of {total:,} parameters"

    def part(self, parameter: nn.Parameter) -> Tensor:
        """Return what this worker holds of a parameter."""
        return parameter

    def share(self, batch: Batch, step: int) -> Batch:
        """Return this worker's rows of a step's batch, and let it draw random numbers of its own.

        What is dropped depends on worker and step alone, so a run that goes on after a stop has the same
        numbers as one without.
        """
        torch.manual_seed(self.seed + 1 + step * self.count + self.rank)
        return rows_of_worker(batch, self.rank, self.count)

    def loss(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        """Return the number of which this worker computes the gradient; its rows may have no target."""
        total = (batch.targets != IGNORED).sum()
        dist.all_reduce(total)
        if not total:
            raise ValueError(
                f"nothing is asked: every target is IGNORED ({IGNORED}), wanted at least one in each batch; "
                "look how they were made"
            )
        logits = model(*batch.inputs)
        check_targets(logits, batch.targets, some_asked=False)
        losses = F.cross_entropy(
            logits.flatten(0, -2), batch.targets.flatten(), ignore_index=IGNORED, reduction="none"
        )
        return loss_to_hand_in(losses, total, self.count)

    def of_all(self, loss: Tensor, gradient_norm: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean of what was handed in, the loss of the whole batch, and the gradient's length."""
        mean = loss.detach() / self.count
        dist.all_reduce(mean)
        return mean, gradient_norm

    def keep(self, place: str | Path, run: Run, history: History) -> None:
        """Worker 0 writes the same file as a process alone; the others wait until it is there."""
        if self.rank == 0:
            super().keep(place, run, history)
        dist.barrier()
        self.saved = history.steps


def leave(code: int) -> NoReturn:
    """End this process at once, with an exit code.

    The usual end takes the interpreter down first. If a thread of gloo lets go of a tensor meanwhile, C++
    ends the process with "terminate called without an active exception", after all work was done.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def gathered(thing: Any) -> list[Any]:
    """Return what every worker hands in, in the workers' order."""
    things = [None] * dist.get_world_size()
    dist.all_gather_object(things, thing)
    return things
