"""Seeded parameters for answers that are `nn.Module`s."""

import torch
from torch import Tensor, nn


class ParameterMismatch(ValueError):
    """The names or shapes of the answer's parameters differ from what the exercise asks for."""


def set_parameters(module: nn.Module, like: nn.Module) -> None:
    """Draw every parameter at random, so that no bias is zero; buffers stay as the answer built them.

    Raises:
        ParameterMismatch: names or shapes differ from the parameters of `like`.
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
    """Copy these values into the parameters of the module.

    Raises:
        ParameterMismatch: names or shapes differ.
    """
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
    """A phrase such as `, of an nn.LayerNorm` if one of PyTorch's layers owns the parameter, else ""."""
    owner = type(module.get_submodule(name.rpartition(".")[0]))
    return f", of an `nn.{owner.__name__}`" if getattr(nn, owner.__name__, None) is owner else ""


def require_buffer(module: nn.Module, name: str) -> None:
    """Check that the module has this buffer, since no result on a single device would show its absence.

    Raises:
        ParameterMismatch: there is no such buffer.
    """
    buffers = dict(module.named_buffers())
    if name not in buffers:
        own = ", ".join(f"`{buffer}`" for buffer in buffers) or "none"
        raise ParameterMismatch(
            f"The buffer `{name}` is missing (a buffer moves with `.to`). Your buffers: {own}."
        )
