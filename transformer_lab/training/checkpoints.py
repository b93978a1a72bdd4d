"""Lesson 10. Checkpoints: one safetensors file with the whole state of a run, and a checksum."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import safetensors
import safetensors.torch
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from transformer_lab.training.schedule import TrainingConfig


@dataclass
class History:
    """The numbers of each step, and the scores: number of steps done → what `evaluate` returned."""

    loss: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)
    gradient_norm: list[float] = field(default_factory=list)
    scores: dict[int, float] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Number of steps done."""
        return len(self.loss)


def save(
    path: str | Path, model: nn.Module, optimizer: Optimizer, config: TrainingConfig, history: History
) -> None:
    """Write the checkpoint of a run; of several workers, whose state is the same, rank 0 writes it."""
    if dist.is_initialized() and dist.get_rank() != 0:
        return
    model = unwrapped(model)
    facts = {"history": asdict(history), "run": run_fingerprint(model, optimizer, config)}
    write_checkpoint(path, state_to_tensors(model, optimizer), facts)


def restore(path: str | Path, model: nn.Module, optimizer: Optimizer, config: TrainingConfig) -> History:
    """Fill the model, the optimizer and the random number generator from a checkpoint; return its history.

    The run may go on with another `evaluate_every` or `save_every`, and with more `steps`: the steps that are
    left then follow the longer schedule.

    Raises:
        ValueError: the checkpoint is damaged, or of another model or run; nothing has changed then.
    """
    model = unwrapped(model)
    tensors, facts = read_checkpoint(path)
    saved, wanted = facts.get("run", {}), run_fingerprint(model, optimizer, config)
    for name in sorted(saved.keys() | wanted.keys()):
        if saved.get(name) != wanted.get(name):
            raise ValueError(
                f"{path} is of another run: got {name} = {saved.get(name)}, wanted {wanted.get(name)}; "
                "resume with the settings that it began with, or name another file"
            )
    history = History(**facts["history"])
    history.scores = {int(step): score for step, score in history.scores.items()}  # JSON's keys are text
    if history.steps > config.steps:
        raise ValueError(f"{path} has {history.steps} steps, more than config.steps = {config.steps}")
    tensors_to_state(tensors, model, optimizer)
    return history


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside a DistributedDataParallel wrapper, or the model itself."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def run_fingerprint(model: nn.Module, optimizer: Optimizer, config: TrainingConfig) -> dict:
    """Return what a run that resumes must have in common: settings, parameters, which of them are trained."""
    trained = trained_names(model, optimizer)
    shapes = {
        name: f"{tuple(tensor.shape)} {tensor.dtype}{', trained' if name in trained else ''}"
        for name, tensor in model.state_dict().items()
    }
    settings = asdict(config)
    for name in ("steps", "evaluate_every", "save_every"):
        del settings[name]
    return settings | shapes


def state_to_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the state of the model, the optimizer and the random number generators as named tensors."""
    names = trained_names(model, optimizer)
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{names[index]}/{quantity}": tensor for quantity, tensor in state.items()}
    tensors["random/cpu"] = torch.get_rng_state()
    device = next(model.parameters()).device
    if device.type == "cuda":
        tensors["random/cuda"] = torch.cuda.get_rng_state(device)
    return tensors


def tensors_to_state(tensors: Mapping[str, Tensor], model: nn.Module, optimizer: Optimizer) -> None:
    """Load the tensors of `state_to_tensors` into the same model and an optimizer of the same parameters."""
    # Not PyTorch's set_optimizer_state_dict, which makes up state for parameters that had no gradient so far.
    names = trained_names(model, optimizer)
    weights, state = {}, {}
    for key, tensor in tensors.items():
        kind, _, name = key.partition("/")
        if kind == "model":
            weights[name] = tensor
        if kind == "optimizer":
            name, _, quantity = name.rpartition("/")
            state.setdefault(names.index(name), {})[quantity] = tensor
    model.load_state_dict(weights)
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
    torch.set_rng_state(tensors["random/cpu"])
    device = next(model.parameters()).device
    if device.type == "cuda" and "random/cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random/cuda"], device)


def trained_names(model: nn.Module, optimizer: Optimizer) -> list[str]:
    """Return the names of the parameters that the optimizer updates, in its order."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    return [names[parameter] for group in optimizer.param_groups for parameter in group["params"]]


def write_checkpoint(path: str | Path, tensors: Mapping[str, Tensor], facts: Mapping) -> None:
    """Write tensors, and facts that JSON knows, to a safetensors file.

    A process that is killed meanwhile leaves the old file: the new one is written beside it, under a name of
    this process's own, and replaces it when it is complete and on the disk.
    """
    path = Path(path).resolve()  # the file that a symbolic link points to, not the link
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps(facts, default=float)  # a number of NumPy's becomes Python's
    data = safetensors.torch.save(tensors, {"facts": text, "sha256": checksum(tensors, text)})
    incomplete = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with incomplete.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(incomplete, path)
    finally:
        incomplete.unlink(missing_ok=True)
    if os.name == "posix":  # the new name is on the disk when the folder is
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def read_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict]:
    """Return the tensors, on the CPU, and the facts.

    Raises:
        OSError: there is no such file, or it may not be read.
        ValueError: the file is cut short, damaged, or not written by `write_checkpoint`.
    """
    with open(path, "rb"):  # safetensors would call a file that may not be read a missing one
        pass
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # Copies: its tensors are the file itself, mapped into memory, and change when the file does.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not a dict
    except safetensors.SafetensorError:
        metadata, tensors = {}, {}
    if checksum(tensors, metadata.get("facts", "")) != metadata.get("sha256"):
        raise ValueError(
            f"{path} is not a whole checkpoint: its checksum is wrong; delete it to start again, or name "
            "another file"
        )
    return tensors, json.loads(metadata["facts"])


def checksum(tensors: Mapping[str, Tensor], facts: str) -> str:
    """Return the SHA-256 of the facts and of all names, dtypes, shapes and values."""
    sha256 = hashlib.sha256(facts.encode())
    for name, tensor in sorted(tensors.items()):
        sha256.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        sha256.update(tensor.flatten().view(torch.uint8).numpy())
    return sha256.hexdigest()
