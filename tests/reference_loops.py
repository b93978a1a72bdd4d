"""What the tests share: seeded inputs whose axes cannot be confused, one comparison, gradients, loops."""

import math
from collections.abc import Callable, Iterable

import pytest
import torch
from hypothesis import settings
from torch import Tensor, nn

# Distinct primes: two axes swapped, or broadcast over one another, cannot pass unnoticed.
BATCH, HEADS, QUERIES, KEYS, D_HEAD, D_VALUE = 2, 3, 5, 7, 11, 13

# Largest difference allowed for entries of the order of 1.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}

both_paths = pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)

# For properties: the same examples on every run and machine, and no time limit on a busy one.
properties = settings(max_examples=25, deadline=None, derandomize=True)


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return normal random numbers: the same ones in every dtype, up to rounding."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def numbers(values: list) -> Tensor:
    """Return a tensor in float64."""
    return torch.tensor(values, dtype=torch.float64)


def random_mask(*shape: int, seed: int = 0, share: float = 0.5) -> Tensor:
    """Return a boolean tensor in which about the given share is True."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < share


def assert_equal(ours: Tensor | tuple, theirs: Tensor | tuple, tolerance: float | None = None) -> None:
    """Compare whole tensors, or tuples of them: shape, dtype and device exactly, each entry to `tolerance`.

    The tolerance is absolute; the one of our dtype if None.
    """
    first = ours if isinstance(ours, Tensor) else ours[0]
    atol = tolerance if tolerance is not None else TOLERANCE.get(first.dtype, 0)
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=0)


def gradients(function: Callable[..., Tensor], *inputs: Tensor, parameters: Iterable[Tensor] = ()) -> tuple:
    """Return the gradients of the randomly weighted output, by the inputs and then by the parameters."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    output = function(*inputs)
    weighting = randn(*output.shape, seed=99, dtype=output.dtype)
    return torch.autograd.grad(output, [*inputs, *parameters], grad_outputs=weighting)


# --- the formulas with numbers only, for one vector as a list -------------------------------------


def linear_by_loops(projection: nn.Linear, x: list[float]) -> list[float]:
    """y_o = Σ_i W_oi x_i + b_o; without a bias where there is none."""
    rows = projection.weight.tolist()
    bias = projection.bias.tolist() if projection.bias is not None else [0.0] * len(rows)
    return [sum(w * a for w, a in zip(row, x, strict=True)) + b for row, b in zip(rows, bias, strict=True)]


def layer_norm_by_loops(norm: nn.LayerNorm, x: list[float], eps: float) -> list[float]:
    """(x − mean) / √(biased variance + ε) · weight + bias."""
    mean = sum(x) / len(x)
    std = math.sqrt(sum((feature - mean) ** 2 for feature in x) / len(x) + eps)
    scaled = zip(x, norm.weight.tolist(), norm.bias.tolist(), strict=True)
    return [(feature - mean) / std * weight + bias for feature, weight, bias in scaled]


def rotated_by_loops(x: list[float], position: int) -> list[float]:
    """Turn the pair (i, i + d/2) by position · 10000^(−2i/d): the half-split pairing of rotary positions."""
    half, result = len(x) // 2, list(x)
    for i in range(half):
        angle = position * 10_000 ** (-2 * i / len(x))
        result[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
        result[i + half] = x[i] * math.sin(angle) + x[i + half] * math.cos(angle)
    return result


def attend_by_loops(query: list, keys: list, values: list, allowed: list) -> tuple[list, list]:
    """Eq. 1 of arXiv:1706.03762 for one query: output and weights, zeros where it may look at nothing."""
    scores = [sum(q * k for q, k in zip(query, key, strict=True)) / math.sqrt(len(query)) for key in keys]
    exponentials = [math.exp(score) if allow else 0.0 for score, allow in zip(scores, allowed, strict=True)]
    weights = [exponential / (sum(exponentials) or 1.0) for exponential in exponentials]
    columns = zip(*values, strict=True)
    return [sum(w * v for w, v in zip(weights, column, strict=True)) for column in columns], weights
