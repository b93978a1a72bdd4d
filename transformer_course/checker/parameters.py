"""Seeded parameters for an answer that is an `nn.Module`."""

import torch
from torch import Tensor, nn


class ParameterMismatch(ValueError):
    """The answer's parameters have other names or shapes than the exercise asks for."""


def set_parameters(module: nn.Module, like: nn.Module) -> None:
    """Draw every parameter, so that no bias hides behind a zero; buffers stay as the answer built them.

    Raises:
        ParameterMismatch: names or shapes differ from those of `like`.
    """
    generator = torch.Generator().manual_seed(0)
    drawn = {name: torch.randn(p.shape, generator=generator) / 2 for name, p in like.named_parameters()}
    copy_parameters(module, drawn)
    for name in sorted(module.state_dict().keys() - like.state_dict().keys()):
        raise ParameterMismatch(
            f"`{name}` is in your module's `state_dict`, but the exercise does not ask for it, so a "
            "checkpoint could not be loaded. Register a buffer with `persistent=False`, and give each "
            "submodule one name."
        )


def copy_parameters(module: nn.Module, values: dict[str, Tensor]) -> None:
    """Give every parameter its value; ParameterMismatch if the names or the shapes are others."""
    own = dict(module.named_parameters())
    for name, value in values.items():
        shape = tuple(value.shape)
        if name not in own and name in (shared := dict(module.named_parameters(remove_duplicate=False))):
            first = next(other for other in own if own[other] is shared[name])
            raise ParameterMismatch(f"`{name}` is the same parameter as `{first}`: one module is used twice.")
        if name not in own:
            unknown = ", ".join(f"`{other}`" for other in own if other not in values) or "none"
            raise ParameterMismatch(
                f"`{name}` {shape} is missing. Your parameters that the exercise does not ask for: {unknown}."
            )
        if own[name].shape != shape:
            raise ParameterMismatch(f"`{name}` has shape {tuple(own[name].shape)}, expected {shape}.")
    for name in [name for name in own if name not in values]:
        raise ParameterMismatch(
            f"`{name}` {tuple(own[name].shape)} is one parameter too many{_owner(module, name)}."
        )
    with torch.no_grad():
        for name, value in values.items():
            own[name].copy_(value)


def _owner(module: nn.Module, name: str) -> str:
    """Whose the parameter is, if a layer of PyTorch's has it: `, of an nn.LayerNorm`."""
    owner = type(module.get_submodule(name.rpartition(".")[0]))
    return f", of an `nn.{owner.__name__}`" if getattr(nn, owner.__name__, None) is owner else ""


def require_buffer(module: nn.Module, name: str) -> None:
    """ParameterMismatch if the module has no such buffer, which no result on one device shows."""
    buffers = dict(module.named_buffers())
    if name not in buffers:
        own = ", ".join(f"`{buffer}`" for buffer in buffers) or "none"
        raise ParameterMismatch(
            f"The buffer `{name}` is missing (a buffer moves with `.to`). Your buffers: {own}."
        )
