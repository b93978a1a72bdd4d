"""Lesson 13. Data-parallel training: several processes train one model, each on a shard of every batch."""

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from transformer_lab.training.checkpoints import History
from transformer_lab.training.data import IGNORED, Batch
from transformer_lab.training.loop import cross_entropy_loss, train
from transformer_lab.training.schedule import TrainingConfig

# How long a worker waits for the others. If a worker crashes, its connections close, which is detected at
# once; a power failure is detected only by this timeout. It must exceed the time to write a checkpoint.
TIMEOUT = timedelta(seconds=60)


def init_process_group() -> torch.device:
    """Initialise the process group if torchrun started this process; return the device of this worker."""
    device, backend = torch.device("cpu"), "gloo"
    if torch.cuda.is_available():  # one GPU per worker
        device, backend = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))), "nccl"
        torch.cuda.set_device(device)
    if dist.is_torchelastic_launched():
        dist.init_process_group(backend, timeout=TIMEOUT)
    return device


def shard_rows(batch: Batch, rank: int, n_workers: int) -> Batch:
    """Return this worker's shard of a batch: the rows rank, rank + n_workers, rank + 2 · n_workers, …"""
    return batch.rows(slice(rank, None, n_workers))


def loss_to_hand_in(
    losses: Float[Tensor, " targets"], total: int | Tensor, n_workers: int
) -> Float[Tensor, ""]:
    """Return the per-worker loss, scaled so that DDP's average is the gradient of the global mean.

    DistributedDataParallel averages the gradients of the workers: it sums them and divides by `n_workers`.
    Each worker therefore divides the sum of its losses by `total`, the number of targets of *all* workers,
    and multiplies by `n_workers`. The average is then the gradient of the mean over all targets, even if the
    workers have different numbers of targets.

    Raises:
        ValueError: if `losses` is a mean instead of one loss per target; it would be divided twice.
    """
    if losses.dim() != 1:
        raise ValueError(
            f"losses must have the axis (targets), got shape {tuple(losses.shape)}; use reduction='none'"
        )
    return losses.sum() * n_workers / total


def data_parallel_loss(
    logits: Float[Tensor, "batch *position n_classes"], targets: Int[Tensor, " batch *position"]
) -> Float[Tensor, ""]:
    """Return the mean cross-entropy over all workers' targets, with the gradient of this worker's loss."""
    total = (targets != IGNORED).sum()
    dist.all_reduce(total)  # the sum over all workers
    losses = cross_entropy_loss(logits, targets, reduction="none")
    loss = loss_to_hand_in(losses, total, dist.get_world_size())
    mean = loss.detach() / dist.get_world_size()
    dist.all_reduce(mean)
    return loss + (mean - loss.detach())  # the value is the global mean, the gradient is this worker's


def train_data_parallel(
    model: nn.Module,
    batch_at: Callable[[int], Batch],
    config: TrainingConfig,
    *,
    evaluate: Callable[[nn.Module], float] | None = None,
    watch: Callable[[History, TrainingConfig], None] | None = None,
    checkpoint: str | Path | None = None,
) -> History:
    """Train as `train` does, with DistributedDataParallel; called in every process, with the same arguments.

    Without dropout the results are those of a single process. With dropout each worker has its own random
    numbers, which depend on the step and the rank, so that a run can be resumed.

    Raises:
        ValueError: if only some of the workers find the checkpoint.
    """
    rank, n_workers, seed = dist.get_rank(), dist.get_world_size(), torch.initial_seed()
    exists = [None] * n_workers
    dist.all_gather_object(exists, checkpoint is not None and Path(checkpoint).is_file())
    if len(set(exists)) > 1:
        raise ValueError(
            f"expected {checkpoint} in all {n_workers} workers or in none, got it in {sum(exists)}; put it "
            "where every machine can read it"
        )

    def rows_at(step: int) -> Batch:
        torch.manual_seed((seed + 1 + step * n_workers + rank) % 2**63)
        return shard_rows(batch_at(step), rank, n_workers)

    return train(
        DistributedDataParallel(model, static_graph=True),  # static_graph allows parameters without gradients
        rows_at,
        config,
        loss_fn=data_parallel_loss,
        evaluate=evaluate and (lambda _: evaluate(model)),
        watch=watch,
        checkpoint=checkpoint,
    )


def exit_now(code: int) -> NoReturn:
    """End this process without Python's teardown, during which a thread of gloo could abort the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
