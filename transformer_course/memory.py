"""Measure memory: what one call allocates, and what a layer keeps for its backward pass."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.profiler import profile


def added_bytes(run: Callable[[], object]) -> int:
    """Return the peak of the memory that one call allocates, in bytes."""
    with profile(profile_memory=True) as record:
        run()
    held = most = 0
    for event in record.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()  # negative when memory is freed
            most = max(most, held)
    return most


def kept_numbers(module: nn.Module, *inputs: Tensor, **options: object) -> int:
    """Return how many values PyTorch keeps for the backward pass of one call, without the parameters."""
    parameters = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    kept = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()  # views share one storage, so it counts once
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        module(*inputs, **options)
    return sum(kept.values())
