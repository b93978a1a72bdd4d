"""First divergence: the first intermediate tensor in which your encoder layer differs from PyTorch's.

PyTorch's layer is written out in named steps. Yours is recorded while it runs: whatever its inner structure,
it has to compute the same tensors. The first step that it never computes is the divergence. Usual mistakes,
each built into the steps, tell the likely cause.
"""

from transformer_lab.diagnostics.divergence.search import Divergence, first_divergence

__all__ = ["Divergence", "first_divergence"]
