"""Lesson 10. Checkpoints: the complete state of a run in one safetensors file, with a checksum."""

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
    """Loss, learning rate and gradient norm of each step, and scores by number of completed steps."""

    loss: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)
    gradient_norm: list[float] = field(default_factory=list)
    scores: dict[int, float] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Number of completed steps."""
        return len(self.loss)


def save(
    path: str | Path, model: nn.Module, optimizer: Optimizer, config: TrainingConfig, history: History
) -> None:
    """Write a checkpoint; with several workers, whose state is identical, only rank 0 writes it."""
    if dist.is_initialized() and dist.get_rank() != 0:
        return
    model = unwrapped(model)
    facts = {"history": asdict(history), "run": run_fingerprint(model, optimizer, config)}
    write_checkpoint(path, state_to_tensors(model, optimizer), facts)


def restore(path: str | Path, model: nn.Module, optimizer: Optimizer, config: TrainingConfig) -> History:
    """Restore the model, the optimizer and the random number generator; return the history of the run.

    `evaluate_every`, `save_every` and `steps` may differ from the saved run. With more `steps`, the remaining
    steps follow the longer learning rate schedule.

    Raises:
        ValueError: if the checkpoint is damaged, or belongs to another model or run; nothing is changed.
    """
    model = unwrapped(model)
    tensors, facts = read_checkpoint(path)
    saved, expected = facts.get("run", {}), run_fingerprint(model, optimizer, config)
    for name in sorted(saved.keys() | expected.keys()):
        if saved.get(name) != expected.get(name):
            raise ValueError(
                f"{path} belongs to another run: got {name} = {saved.get(name)}, expected "
                f"{expected.get(name)}; resume with the original settings, or choose another file"
            )
    history = History(**facts["history"])
    history.scores = {int(step): score for step, score in history.scores.items()}  # JSON keys are strings
    if history.steps > config.steps:
        raise ValueError(f"{path} has {history.steps} steps, expected at most config.steps = {config.steps}")
    tensors_to_state(tensors, model, optimizer)
    return history


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside a DistributedDataParallel wrapper, or the model itself."""
    return model.module if isinstance(model, DistributedDataParallel) else model


def run_fingerprint(model: nn.Module, optimizer: Optimizer, config: TrainingConfig) -> dict:
    """Return what must be equal to resume a run: hyperparameters, and names and shapes of parameters."""
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
    """Load the tensors from `state_to_tensors` into a model and an optimizer with the same parameters."""
    # PyTorch's set_optimizer_state_dict would create state for parameters that have had no gradient yet.
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
    """Write tensors, and facts that JSON can represent, to a safetensors file.

    A process that is killed while it writes leaves the old file intact: the new file has a temporary name,
    unique to the process, and replaces the old file once it is complete and on disk.
    """
    path = Path(path).resolve()  # replace the target of a symbolic link, not the link
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps(facts, default=float)  # default: NumPy scalars become floats
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
    if os.name == "posix":  # the rename is on disk only after the folder is synced
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def read_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict]:
    """Return the tensors, on the CPU, and the facts of a checkpoint.

    Raises:
        OSError: if the file does not exist or is not readable.
        ValueError: if the file is truncated, damaged, or not from `write_checkpoint`.
    """
    with open(path, "rb"):  # safetensors would report an unreadable file as missing
        pass
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # Clone, because these tensors are memory-mapped and would change with the file.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - not a dict
    except safetensors.SafetensorError:
        metadata, tensors = {}, {}
    if checksum(tensors, metadata.get("facts", "")) != metadata.get("sha256"):
        raise ValueError(
            f"{path} is not a complete checkpoint: its checksum is wrong; delete it to start again, or "
            "choose another file"
        )
    return tensors, json.loads(metadata["facts"])


def checksum(tensors: Mapping[str, Tensor], facts: str) -> str:
    """Return the SHA-256 of the facts, and of the name, dtype, shape and values of every tensor."""
    sha256 = hashlib.sha256(facts.encode())
    for name, tensor in sorted(tensors.items()):
        sha256.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        sha256.update(tensor.flatten().view(torch.uint8).numpy())
    return sha256.hexdigest()
