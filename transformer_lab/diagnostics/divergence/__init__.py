"""First divergence: the first intermediate tensor in which your encoder layer differs from PyTorch's layer.

PyTorch's layer is written out in named steps. All tensors that your layer computes are recorded: whatever its
structure, it must compute the same tensors. The first step that is not among them is the divergence. To find
the likely cause, common mistakes are built into the steps and the results are compared with your output.
"""

from transformer_lab.diagnostics.divergence.search import Divergence, first_divergence

__all__ = ["Divergence", "first_divergence"]
