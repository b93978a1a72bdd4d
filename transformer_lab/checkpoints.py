"""A file of tensors and facts that knows whether it is whole. Used in lesson 10."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

FACTS, DIGEST = "facts", "sha256"  # the two entries of the file's metadata


def save_checkpoint(path: str | Path, tensors: Mapping[str, Tensor], facts: Mapping) -> None:
    """Write a safetensors file; `facts` must be made of what JSON knows.

    Whoever stops the program meanwhile finds the file that was there before: the new one is written beside
    it and takes its place when it is whole.
    """
    path = Path(path)
    copies = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    text = json.dumps(facts, sort_keys=True)
    metadata = {FACTS: text, DIGEST: digest(copies, text)}
    beside = path.with_name(path.name + ".part")
    beside.write_bytes(safetensors.torch.save(copies, metadata))
    os.replace(beside, path)


def load_checkpoint(path: str | Path) -> tuple[dict[str, Tensor], dict]:
    """Return the tensors, on the CPU, and the facts.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is cut short, damaged, or not written by `save_checkpoint`.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}; look at the name, or begin without one")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except safetensors.SafetensorError as error:
        raise ValueError(_refusal(path, f"got a file that cannot be read ({error})")) from error
    if not {FACTS, DIGEST} <= metadata.keys():
        raise ValueError(_refusal(path, "got a safetensors file of something else"))
    if digest(tensors, metadata[FACTS]) != metadata[DIGEST]:
        raise ValueError(_refusal(path, "got other contents than were written"))
    return tensors, json.loads(metadata[FACTS])


def digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """Return the SHA-256 of all names, dtypes, shapes and numbers, and of the text."""
    return hashlib.sha256(safetensors.torch.save(dict(tensors)) + text.encode()).hexdigest()


def gather(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return all numbers that the next step depends on: parameters, the optimizer's means, random numbers."""
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{number}/{name}": tensor for name, tensor in state.items()}
    device = device_of(model)
    tensors["random/cpu"] = torch.get_rng_state()
    if device.type == "cuda":
        tensors["random/cuda"] = torch.cuda.get_rng_state(device)
    return tensors


def scatter(
    path: str | Path, tensors: Mapping[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer
) -> None:
    """Put back what `gather` returned.

    Raises:
        ValueError: names, shapes or dtypes are not those of `model`; nothing has changed then.
    """
    parameters = _under("model/", tensors)
    check_same_tensors(path, parameters, model.state_dict())
    model.load_state_dict(parameters)
    state = optimizer.state_dict()
    state["state"] = {}
    for name, tensor in _under("optimizer/", tensors).items():
        number, _, quantity = name.partition("/")
        state["state"].setdefault(int(number), {})[quantity] = tensor
    optimizer.load_state_dict(state)
    device = device_of(model)
    torch.set_rng_state(tensors["random/cpu"])
    if device.type == "cuda" and "random/cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random/cuda"], device)


def device_of(model: nn.Module) -> torch.device:
    """Return where the model's parameters are."""
    return next(model.parameters()).device


def check_same_tensors(path: str | Path, got: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Raise ValueError unless both have the same names, shapes and dtypes."""
    for name in sorted(got.keys() | wanted.keys()):
        ours, theirs = (_described(tensors.get(name)) for tensors in (wanted, got))
        if ours != theirs:
            raise ValueError(
                f"{path} is of another model: got {name} {theirs}, wanted {ours}; "
                "build the model as it was built then, or name another file"
            )


def check_same_facts(path: str | Path, got: Mapping, wanted: Mapping) -> None:
    """Raise ValueError unless all facts agree, as written in JSON."""
    for name in sorted(got.keys() | wanted.keys()):
        if got.get(name) != wanted.get(name):
            raise ValueError(
                f"{path} is of another run: got {name} = {got.get(name)}, wanted {wanted.get(name)}; "
                "go on with the settings that it began with, or name another file"
            )


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}


def _described(tensor: Tensor | None) -> str:
    if tensor is None:
        return "absent"
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def _refusal(path: str | Path, got: str) -> str:
    return (
        f"{path} is not a whole checkpoint: {got}, wanted one as it was saved; "
        "delete it to begin anew, or name another file"
    )
