"""Lesson 13. Workers that each hold a part of the parameters, and checkpoints that they write together."""

import os
import shutil
from dataclasses import asdict
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

from transformer_lab.training.checkpoints import (
    History,
    Run,
    gather,
    load_checkpoint,
    put_back,
    save_checkpoint,
    what_must_agree,
)
from transformer_lab.training.workers import Workers

RUN = "run.safetensors"  # history and settings, and the name of the folder in which the numbers are
STEP = "step-"  # how the names of these folders begin


def check_folder(place: str | Path) -> None:
    """Make the folder; raise ValueError unless it is one for checkpoints: others of their names go."""
    place = Path(place)
    place.mkdir(exist_ok=True)
    others = [path.name for path in place.iterdir() if not path.name.startswith((RUN, STEP))]
    if others or not os.access(place, os.W_OK):
        got = f"one with {min(others)}" if others else "one in which nothing can be written"
        raise ValueError(
            f"{place} is no folder for a sharded checkpoint: got {got}, wanted an empty one, or one of such "
            "a run; name another, or leave --sharded out"
        )


class Sharded(Workers):
    """Several processes, each with an equal part of parameters, gradients and the optimizer's means.

    A checkpoint is a folder. Each worker writes its part; any number of workers can read it, each what it
    needs. Only read what you trust: the list of the parts is a pickle.
    """

    check = staticmethod(check_folder)

    def spread(self, model: nn.Module) -> nn.Module:
        """Deal out every layer of each list of layers, then what is left of the model.

        A layer's parameters are fetched from all workers when it is its turn, and let go afterwards.
        """
        for module in reversed(list(model.modules())):  # inner lists first
            if isinstance(module, nn.ModuleList):
                for layer in module:
                    if not isinstance(layer, nn.ModuleList | nn.ModuleDict):  # they are not called
                        fully_shard(layer)
        model.register_forward_hook(as_no_view)
        # By default the model would not let go what is not in a layer, and after an evaluation still have it.
        return fully_shard(model, reshard_after_forward=True)

    def part(self, parameter: nn.Parameter) -> Tensor:
        """Return what this worker holds of a parameter."""
        return parameter.to_local()

    def of_all(self, loss: Tensor, gradient_norm: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of the whole batch, and the length of its gradient, of which each has a part."""
        return super().of_all(loss, gradient_norm.full_tensor())

    def keep(self, place: str | Path, run: Run, history: History) -> None:
        """Write a new folder, all together; then worker 0 lets the file `RUN` name it, and deletes the old.

        Whoever stops the program meanwhile finds the checkpoint that was there before.
        """
        tensors = gather(run)
        random = {name: tensors.pop(name) for name in list(tensors) if name.startswith("random/")}
        folder = Path(place) / f"{STEP}{history.steps}"
        if self.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)  # of a run that was stopped while it wrote
            folder.mkdir(parents=True)
        dist.barrier()
        if not folder.is_dir():
            raise ValueError(
                f"worker {self.rank} does not see the folder {folder.name} that worker 0 has made, wanted "
                "one for all; name a place that every machine can reach"
            )
        dcp.save(tensors, checkpoint_id=folder)
        if self.rank == 0:
            facts = {"history": asdict(history), "folder": folder.name} | what_must_agree(run)
            save_checkpoint(Path(place) / RUN, random, facts)
            for other in Path(place).glob(f"{STEP}*"):
                if other != folder:
                    shutil.rmtree(other)
        dist.barrier()
        self.saved = history.steps

    def file_of(self, place: str | Path) -> Path:
        """Return the file that is there if there is a checkpoint."""
        return Path(place) / RUN

    def read(self, place: str | Path, run: Run) -> History:
        """Read the checkpoint that is there: each worker its part."""
        tensors, facts = load_checkpoint(self.file_of(place))
        tensors |= self.load(Path(place) / facts.pop("folder"), run.model)
        return put_back(place, tensors, facts, run)

    def load(self, folder: Path, model: nn.Module) -> dict[str, Tensor]:
        """Return what `gather` returned, dealt out as this model's parameters are."""
        parameters = dict(model.named_parameters())
        tensors = {}
        for key, kept in dcp.FileSystemReader(folder).read_metadata().state_dict_metadata.items():
            of_optimizer = key.removeprefix("optimizer/").rpartition("/")[0]  # optimizer/NAME/quantity
            like = parameters.get(key.removeprefix("model/"), parameters.get(of_optimizer))
            dealt = like is not None and like.shape == kept.size
            make = like.detach().new_zeros if dealt else torch.zeros
            tensors[key] = make(kept.size, dtype=kept.properties.dtype)
        dcp.load(tensors, checkpoint_id=folder)
        return tensors


def as_no_view(model: nn.Module, inputs: tuple, output: Tensor) -> Tensor:
    """Return a copy: a view that is changed in place would not tell when its gradient is there."""
    return output.clone() if isinstance(output, Tensor) else output
