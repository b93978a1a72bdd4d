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

from transformer_lab.validation import check_readable

FACTS, DIGEST = "facts", "sha256"  # the two entries of the file's metadata


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


def save_checkpoint(path: str | Path, tensors: Mapping[str, Tensor], facts: Mapping) -> None:
    """Write a safetensors file; `facts` must be made of what JSON knows.

    Whoever stops the program meanwhile finds the file that was there before: the new one is written beside
    it and takes its place when it is whole.

    Raises:
        TypeError: a path, tensors or facts of another kind.
        ValueError: a place where no file can be.
    """
    path = check_place(path)
    check_tensors(tensors)
    if not isinstance(facts, Mapping):
        raise TypeError(f"facts must be a dict by name, got {facts!r}; try {{'facts': …}}")
    try:
        text = json.dumps(facts, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"facts must be made of text, numbers, lists and dicts, got others ({error}); convert them"
        ) from error
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
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
    if not as_path(path).is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}; look at the name, or begin without one")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except safetensors.SafetensorError as error:
        raise ValueError(refusal(path, f"got a file that cannot be read ({error})")) from error
    if not {FACTS, DIGEST} <= metadata.keys():
        raise ValueError(refusal(path, "got a safetensors file of something else"))
    if digest(tensors, metadata[FACTS]) != metadata[DIGEST]:
        raise ValueError(refusal(path, "got other contents than were written"))
    facts = json.loads(metadata[FACTS])
    if not isinstance(facts, dict):
        raise ValueError(refusal(path, f"got facts that are no mapping ({facts!r})"))
    return tensors, facts


def digest(tensors: Mapping[str, Tensor], text: str) -> str:
    """Return the SHA-256 of all names, dtypes, shapes and numbers, and of the text."""
    return hashlib.sha256(safetensors.torch.save(dict(tensors)) + text.encode()).hexdigest()


def gather(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return all numbers that the next step depends on: parameters, the optimizer's means, random numbers."""
    names = names_of_trained(model, optimizer)
    tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer/{names[number]}/{quantity}": tensor for quantity, tensor in state.items()}
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
        ValueError: names, shapes or dtypes are not those of `model`, the optimizer knows other parameters
            than are trained, or there are no random numbers; nothing has changed then.
    """
    parameters = _under("model/", tensors)
    check_same_tensors(path, parameters, model.state_dict())
    names = names_of_trained(model, optimizer)
    state = optimizer.state_dict() | {"state": {}}
    for key, tensor in _under("optimizer/", tensors).items():
        name, _, quantity = key.rpartition("/")
        check_trained(path, name, tensor, parameters if name in names else {})
        state["state"].setdefault(names.index(name), {})[quantity] = tensor
    check_random(path, tensors)
    model.load_state_dict(parameters)
    optimizer.load_state_dict(state)
    device = device_of(model)
    torch.set_rng_state(tensors["random/cpu"])
    if device.type == "cuda" and "random/cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random/cuda"], device)


def keep(
    path: str | Path, model: nn.Module, optimizer: torch.optim.Optimizer, settings: dict, history: History
) -> None:
    """Write all that a run goes on from."""
    if not isinstance(settings, dict) or not isinstance(history, History):
        got = f"{type(settings).__name__} and {type(history).__name__}"
        raise TypeError(f"wanted a dict of settings and a History, got {got}; see train")
    tensors = gather(model, optimizer)
    facts = {"history": asdict(history)} | what_must_agree(tensors, model, optimizer, settings)
    save_checkpoint(path, tensors, facts)


def resume(path: str | Path, model: nn.Module, optimizer: torch.optim.Optimizer, settings: dict) -> History:
    """Fill model, optimizer and random numbers from a checkpoint, and return the history up to there.

    Raises:
        ValueError: the checkpoint is damaged or of another run; nothing has changed then.
    """
    tensors, facts = load_checkpoint(path)
    history = as_history(path, facts.pop("history", None), settings["steps"])
    check_same_facts(path, facts, what_must_agree(tensors, model, optimizer, settings))
    scatter(path, tensors, model, optimizer)
    return history


def what_must_agree(
    tensors: Mapping[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer, settings: dict
) -> dict:
    """Return the settings of a run, what it trains, and what its optimizer has kept."""
    kept = sorted(name for name in tensors if name.startswith("optimizer/"))
    return settings | {"trained": names_of_trained(model, optimizer), "kept": kept}


def as_history(path: str | Path, kept: Mapping, steps: int) -> History:
    """Return the history of a checkpoint; raise ValueError unless a run of so many steps can have it."""
    try:
        history = History(**kept)
        history.scores = {int(step): score for step, score in history.scores.items()}  # JSON's keys are text
        lengths = {len(numbers) for numbers in (history.loss, history.learning_rate, history.gradient_norm)}
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(refusal(path, f"got no history of a run ({error})")) from error
    if len(lengths) > 1 or not 0 < history.steps <= steps:
        raise ValueError(refusal(path, f"got a history of {sorted(lengths)} steps in a run of {steps}"))
    return history


def device_of(model: nn.Module) -> torch.device:
    """Return where the model's parameters are; raise ValueError if it has none."""
    for parameter in model.parameters():
        return parameter.device
    raise ValueError(f"{type(model).__name__} has no parameters, wanted a model that can be trained")


def names_of_trained(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[str]:
    """Return the names of the parameters that the optimizer updates, in its order."""
    if not isinstance(model, nn.Module) or not isinstance(optimizer, torch.optim.Optimizer):
        got = f"{type(model).__name__} and {type(optimizer).__name__}"
        raise TypeError(f"wanted a model and its optimizer, got {got}; see build_optimizer")
    names = {parameter: name for name, parameter in model.named_parameters()}
    updated = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if not all(parameter in names for parameter in updated):
        raise ValueError(
            "the optimizer updates parameters of another model, wanted this one's; build it anew"
        )
    return [names[parameter] for parameter in updated]


def as_path(path: str | Path) -> Path:
    """Return the path of a file; raise TypeError if it is none."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"a checkpoint's path must be text or a Path, got {path!r}; try 'run.safetensors'")
    return Path(path)


def check_place(path: str | Path) -> Path:
    """Raise unless a file of that name can be; return its path: what a symbolic link names, not the link."""
    name = as_path(path)
    try:  # the name, the folder, its rights: told now, not when hours of training are to be kept
        path = name.resolve()
        got = "a folder" if path.is_dir() else "" if path.parent.is_dir() else "a folder that does not exist"
        if not got:
            beside = path.with_name(path.name + ".part")
            beside.touch()
            beside.unlink()
    except (OSError, ValueError) as error:
        got = str(error)
    if got:
        raise ValueError(
            f"{name!s:.80} cannot be written: got {got:.200}, wanted a file in one that exists; make it first"
        )
    return path


def check_tensors(tensors: Mapping[str, Tensor]) -> None:
    """Raise TypeError unless all are tensors, by name."""
    if not isinstance(tensors, Mapping):
        raise TypeError(f"tensors must be a dict by name, got {type(tensors).__name__}; try gather")
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == "__metadata__" or not isinstance(tensor, Tensor):
            raise TypeError(
                f"tensors must be tensors by name, got {name!r}: {type(tensor).__name__}; leave it out"
            )
        check_readable(**{name: tensor})
        if tensor.is_quantized or tensor.dtype == torch.complex32:
            raise TypeError(f"{name} must be of a dtype that a file can hold, got {tensor.dtype}; convert it")


def check_trained(path: str | Path, name: str, tensor: Tensor, trained: Mapping[str, Tensor]) -> None:
    """Raise ValueError unless the optimizer's tensor belongs to a parameter that is trained."""
    if name not in trained or tensor.shape not in (trained[name].shape, ()):
        wanted = _described(trained[name]) if name in trained else "no such parameter among the trained ones"
        raise ValueError(
            f"{path} is of another run: got the optimizer's numbers of {name} {_described(tensor)}, wanted "
            f"{wanted}; freeze the same parameters as then, or name another file"
        )


def check_random(path: str | Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise ValueError unless the state of the random numbers is there, and is one."""
    try:
        torch.Generator().set_state(tensors["random/cpu"])
    except (KeyError, TypeError, RuntimeError) as error:
        raise ValueError(refusal(path, f"got no state of random numbers ({error})")) from error


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
    if not isinstance(got, Mapping):
        raise ValueError(refusal(path, f"got no settings ({got!r})"))
    for name in sorted(got.keys() | wanted.keys()):
        theirs, ours = got.get(name), wanted.get(name)
        if theirs != ours:
            if isinstance(theirs, list) and isinstance(ours, list):  # say only in what they differ
                theirs, ours = (
                    [each for each in a if each not in b] for a, b in ((theirs, ours), (ours, theirs))
                )
            raise ValueError(
                f"{path} is of another run: got {name} = {theirs}, wanted {ours}; "
                "go on with the settings that it began with, or name another file"
            )


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}


def _described(tensor: Tensor | None) -> str:
    if tensor is None:
        return "absent"
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"


def refusal(path: str | Path, got: str) -> str:
    """Return why a checkpoint is refused that is not as it was saved."""
    return (
        f"{path} is not a whole checkpoint: {got}, wanted one as it was saved; "
        "delete it to begin anew, or name another file"
    )
