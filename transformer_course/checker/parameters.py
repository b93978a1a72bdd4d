"""Seeded parameters for an answer that is an `nn.Module`."""

import torch
from torch import Tensor, nn


class ParameterMismatch(ValueError):
    """The answer's parameters bear other names or shapes than the exercise asks for."""


def set_parameters(module: nn.Module, like: nn.Module, given: dict[str, Tensor] | None = None) -> None:
    """Give every parameter its value, or draw it, so that no bias hides behind a zero.

    Buffers stay as the answer built them: a table is part of the answer.
    """
    generator = torch.Generator().manual_seed(0)
    drawn = {name: torch.randn(p.shape, generator=generator) / 2 for name, p in like.named_parameters()}
    give(module, given or drawn)
    _refuse_surplus(module.state_dict().keys() - like.state_dict().keys())


def give(module: nn.Module, values: dict[str, Tensor]) -> None:
    """Give every parameter its value; ParameterMismatch if the names or the shapes are others."""
    own = dict(module.named_parameters())
    _refuse_mismatch(_shapes(own), _shapes(values))
    with torch.no_grad():
        for name, value in values.items():
            own[name].copy_(value)


def _shapes(tensors: dict[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}


def _refuse_surplus(names: set[str]) -> None:
    for name in sorted(names):
        raise ParameterMismatch(
            f"`{name}` is in your module's `state_dict`, and not among the names wanted: a file with those "
            "could not be loaded. A buffer stays out with `persistent=False`, and a part has one name."
        )


def _refuse_mismatch(got: dict[str, torch.Size], wanted: dict[str, torch.Size]) -> None:
    for name, shape in wanted.items():
        if name not in got:
            found = ", ".join(f"`{name}`" for name in got) or "none"
            raise ParameterMismatch(f"`{name}` {tuple(shape)} is missing; your parameters are: {found}.")
        if got[name] != shape:
            raise ParameterMismatch(f"`{name}` has shape {tuple(got[name])}, wanted {tuple(shape)}.")
    for name in got:
        if name not in wanted:
            raise ParameterMismatch(f"`{name}` {tuple(got[name])} is one too many.")
