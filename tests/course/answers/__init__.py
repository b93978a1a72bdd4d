"""Right answers to the exercises: independent ones, with which the solutions must agree, and alternatives.

An independent answer computes the same by other means: PyTorch's own function, the package, which is tested
against its peers, or a plain loop. An alternative is one that the checker must accept, because a learner may
write it so. An answer may be both. Of a value both are functions that return it.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import cache, wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

INDEPENDENT: dict[str, Any] = {}
ALTERNATIVES: dict[str, list[Any]] = defaultdict(list)


def independent(id: str) -> Callable[[Any], Any]:
    """Decorate the independent answer to an exercise."""
    return lambda answer: INDEPENDENT.setdefault(id, answer)


def alternative(id: str) -> Callable[[Any], Any]:
    """Decorate one more right answer to an exercise."""
    return lambda answer: ALTERNATIVES[id].append(answer) or answer


@cache
def load() -> None:
    """Import the answers of all lessons."""
    for path in Path(__file__).parent.glob("[!_]*.py"):
        import_module(f"{__name__}.{path.stem}")


def torch_attention(query: Tensor, key: Tensor, value: Tensor, may_attend: Tensor | None = None) -> tuple:
    """PyTorch's own output, and its weights: they are what it makes of the identity."""
    identity = torch.eye(key.shape[-2]).expand(*key.shape[:-1], -1)
    return tuple(
        F.scaled_dot_product_attention(query, key, each, attn_mask=may_attend) for each in (value, identity)
    )


def parameter_count(*modules: nn.Module) -> int:
    """The number of parameters; those of a module that is given twice count twice."""
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def on_meta(answer: Callable) -> Callable:
    """Decorate an answer that builds modules of which only the sizes count."""

    @wraps(answer)
    def run(*arguments: Any) -> Any:
        with torch.device("meta"):
            return answer(*arguments)

    return run


@on_meta
def measured_flops(run: Callable[[], Any]) -> int:
    """The operations of the matrix products in a call, as PyTorch counts them: a multiply-add is two."""
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()
