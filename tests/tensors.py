"""Helpers for all tests: seeded inputs with distinct sizes, one comparison, and gradients."""

from collections.abc import Callable, Iterable

import pytest
import torch
from hypothesis import settings
from torch import Tensor

# Distinct primes: swapped or wrongly broadcast axes raise an error or change the shape.
BATCH, HEADS, QUERIES, KEYS, D_HEAD, D_VALUE = 2, 3, 5, 7, 11, 13

# The largest absolute difference allowed between values of magnitude 1.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}

both_paths = pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)

# For property tests: the same examples in every run on every machine, and no time limit.
properties = settings(max_examples=25, deadline=None, derandomize=True)


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return standard normal values: the same ones in every dtype, up to rounding."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def numbers(values: list) -> Tensor:
    """Return a tensor in float64."""
    return torch.tensor(values, dtype=torch.float64)


def random_mask(*shape: int, seed: int = 0, share: float = 0.5) -> Tensor:
    """Return a boolean tensor in which about this share of the values is True."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < share


def assert_equal(ours: Tensor | tuple, theirs: Tensor | tuple, tolerance: float | None = None) -> None:
    """Compare tensors, or tuples of them: shape, dtype and device exactly, and each value to `tolerance`.

    The tolerance is absolute; if None, it is the default for our dtype.
    """
    first = ours if isinstance(ours, Tensor) else ours[0]
    atol = tolerance if tolerance is not None else TOLERANCE.get(first.dtype, 0)
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=0)


def gradients(function: Callable[..., Tensor], *inputs: Tensor, parameters: Iterable[Tensor] = ()) -> tuple:
    """Return the gradients of the randomly weighted output, first for the inputs, then for the parameters."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    output = function(*inputs)
    weighting = randn(*output.shape, seed=99, dtype=output.dtype)
    return torch.autograd.grad(output, [*inputs, *parameters], grad_outputs=weighting)
