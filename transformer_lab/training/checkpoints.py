"""A file of tensors and facts that knows whether it is whole: what a run goes on from. Used in lesson 10."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

FACTS, DIGEST = "facts", "sha256"  # the two entries of the file's metadata
PART = ".part"  # how the name of a file ends that is not whole yet


@dataclass
class History:
    """What happened at each step, and the scores: how many steps were done → what `evaluate` returned."""

    loss: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)
    gradient_norm: list[float] = field(default_factory=list)
    scores: dict[int, float] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """How many steps are done."""
        return len(self.loss)


@dataclass
class Run:
    """What is trained, by what, and how: the settings must be those that the run began with."""

    model: nn.Module
    optimizer: Optimizer
    settings: dict


def save_checkpoint(path: str | Path, tensors: Mapping[str, Tensor], facts: Mapping) -> None:
    """Write a safetensors file; `facts` must be made of what JSON knows.

    Whoever stops the program meanwhile finds the file that was there before: the new one is written beside
    it and takes its place when it is whole.
    """
    path = Path(path).resolve()  # what a symbolic link names, not the link
    text = json.dumps(facts)
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    metadata = {FACTS: text, DIGEST: digest(copies, text)}
    beside = path.with_name(path.name + PART)
    beside.write_bytes(safetensors.torch.save(copies, metadata))
    os.replace(beside, path)


def load_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict]:
    """Return the tensors, on the CPU, and the facts.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is cut short, damaged, or not written by `save_checkpoint`.
    """
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except safetensors.SafetensorError:
        metadata, tensors = {}, {}
    if digest(tensors, metadata.get(FACTS, "")) != metadata.get(DIGEST):
        raise ValueError(
            f"{path} is not a whole checkpoint: got other contents than were saved there; delete it to begin "
            "anew, or name another one"
        )
    return tensors, json.loads(metadata[FACTS])


def digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """Return the SHA-256 of all names, dtypes, shapes and numbers, and of the text."""
    return hashlib.sha256(safetensors.torch.save(dict(tensors)) + text.encode()).hexdigest()


def gather(run: Run) -> dict[str, Tensor]:
    """Return all numbers that the next step depends on: parameters, the optimizer's means, random numbers."""
    names = names_of_trained(run.model, run.optimizer)
    tensors = {f"model/{name}": tensor for name, tensor in run.model.state_dict().items()}
    for number, state in run.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{names[number]}/{quantity}": tensor for quantity, tensor in state.items()}
    device = device_of(run.model)
    tensors["random/cpu"] = torch.get_rng_state()
    if device.type == "cuda":
        tensors["random/cuda"] = torch.cuda.get_rng_state(device)
    return tensors


def scatter(tensors: Mapping[str, Tensor], run: Run) -> None:
    """Put back what `gather` returned, of the same model and an optimizer of the same parameters."""
    # Not PyTorch's set_optimizer_state_dict, which makes a step for parameters that had no gradient so far.
    names = names_of_trained(run.model, run.optimizer)
    state = run.optimizer.state_dict() | {"state": {}}
    for key, tensor in _under("optimizer/", tensors).items():
        name, _, quantity = key.rpartition("/")
        state["state"].setdefault(names.index(name), {})[quantity] = tensor
    run.model.load_state_dict(_under("model/", tensors))
    run.optimizer.load_state_dict(state)
    device = device_of(run.model)
    torch.set_rng_state(tensors["random/cpu"])
    if device.type == "cuda" and "random/cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random/cuda"], device)


def keep(path: str | Path, run: Run, history: History) -> None:
    """Write all that a run goes on from."""
    save_checkpoint(path, gather(run), {"history": asdict(history)} | what_must_agree(run))


def resume(path: str | Path, run: Run) -> History:
    """Fill model, optimizer and random numbers from a checkpoint, and return the history up to there.

    Raises:
        ValueError: the checkpoint is damaged, or of another model or run; nothing has changed then.
    """
    return put_back(path, *load_checkpoint(path), run)


def put_back(path: str | Path, tensors: Mapping[str, Tensor], facts: dict, run: Run) -> History:
    """Fill all from what was read, after seeing that it belongs to this run and model."""
    history = History(**facts.pop("history", {}))
    history.scores = {int(step): score for step, score in history.scores.items()}  # JSON's keys are text
    check_same_facts(path, facts, what_must_agree(run))
    scatter(tensors, run)
    return history


def what_must_agree(run: Run) -> dict:
    """Return the settings, what the model holds, and what of it is trained."""
    held = [f"{name} {tuple(each.shape)} {each.dtype}" for name, each in run.model.state_dict().items()]
    return run.settings | {"model": held, "trained": names_of_trained(run.model, run.optimizer)}


def device_of(model: nn.Module) -> torch.device:
    """Return where the model's parameters are; without any it may be anywhere."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def names_of_trained(model: nn.Module, optimizer: Optimizer) -> list[str]:
    """Return the names of the parameters that the optimizer updates, in its order."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    updated = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if not all(parameter in names for parameter in updated):
        raise ValueError(
            "the optimizer updates parameters of another model, wanted this one's; build it anew"
        )
    return [names[parameter] for parameter in updated]


def check_place(path: str | Path) -> None:
    """Raise unless a file can be written there: now, not when hours of training are to be kept."""
    path = Path(path).resolve()
    if path.is_dir():
        raise ValueError(f"{path} cannot be written: got a folder, wanted a file; name one in it")
    beside = path.with_name(path.name + PART)
    beside.touch()
    beside.unlink()


def check_same_facts(path: str | Path, got: Mapping, wanted: Mapping) -> None:
    """Raise ValueError unless all facts agree, as written in JSON."""
    for name in sorted(got.keys() | wanted.keys()):
        theirs, ours = got.get(name), wanted.get(name)
        if theirs != ours:
            if isinstance(theirs, list) and isinstance(ours, list):  # say only where they begin to differ
                theirs, ours = (
                    [each for each in a if each not in b][:1] for a, b in ((theirs, ours), (ours, theirs))
                )
            raise ValueError(
                f"{path} is of another run: got {name} = {theirs}, wanted {ours}; "
                "go on with the settings that it began with, or name another file"
            )


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}
