"""The same weights in other people's models: state dicts with other names, and some tensors stacked.

Each function takes a state dict and returns the other model's, to be loaded strictly, so that a name left out
is an error. Where tensors are only renamed and stacked, the same function translates gradients.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tests.tensors import assert_equal, gradients, randn
from transformer_lab.encoder_layer import to_torch_names

State = dict[str, Tensor]


def to_torch_attention(ours: State) -> State:
    """MultiHeadAttention → nn.MultiheadAttention, which keeps the first three projections in one matrix."""
    parts = ("query_projection", "key_projection", "value_projection")
    theirs = {}
    for kind in below("query_projection.", ours):  # weight, and bias if there is one
        theirs[f"in_proj_{kind}"] = torch.cat([ours[f"{part}.{kind}"] for part in parts])
        theirs[f"out_proj.{kind}"] = ours[f"output_projection.{kind}"]
    return theirs


def to_torch_encoder(ours: State) -> State:
    """The layers of an Encoder and its final norm, if any → nn.TransformerEncoder, which has no embedding."""
    n_layers = 1 + max(int(name.split(".")[1]) for name in ours if name.startswith("layers."))
    theirs = {
        f"layers.{i}.{name}": tensor
        for i in range(n_layers)
        for name, tensor in to_torch_names(below(f"layers.{i}.", ours)).items()
    }
    return theirs | {f"norm.{name}": tensor for name, tensor in below("final_norm.", ours).items()}


def below(prefix: str, state: State) -> State:
    """The entries whose name starts with `prefix`, without it: the state of one part."""
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def renamed(state: State, names: dict[str, str]) -> State:
    """The same tensors, each old name in `names` replaced by the new one, in that order."""
    result = {}
    for name, tensor in state.items():
        for old, new in names.items():
            name = name.replace(old, new)
        result[name] = tensor
    return result


# --- for every comparison -------------------------------------------------------------------------


def randomised(module: nn.Module, seed: int = 0) -> nn.Module:
    """Fill every parameter with random numbers: a bias of 0 or a norm's weight of 1 would hide mistakes."""
    with torch.no_grad():
        for i, parameter in enumerate(trainable(module).values()):
            parameter.copy_(randn(*parameter.shape, seed=1000 * seed + i) * 0.4)
    return module


def all_gradients(module: nn.Module, function: Callable[..., Tensor], *inputs: Tensor) -> tuple[tuple, State]:
    """Return the gradients by the inputs, and those by the parameters under the names of the state dict."""
    parameters = trainable(module)
    found = gradients(function, *inputs, parameters=parameters.values())
    return found[: len(inputs)], dict(zip(parameters, found[len(inputs) :], strict=True))


def trainable(module: nn.Module) -> State:
    """The parameters by name, without those that are frozen."""
    return {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}


def assert_same_state(ours: State, theirs: State, tolerance: float | None = None) -> None:
    """Compare two state dicts, of weights or of gradients: their names, and each whole tensor."""
    assert sorted(ours) == sorted(theirs)
    assert_equal(tuple(ours[name] for name in ours), tuple(theirs[name] for name in ours), tolerance)
