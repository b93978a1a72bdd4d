"""First divergence: where your encoder layer and PyTorch's, with the same weights, part ways.

PyTorch's layer is written out in named steps. Yours is watched while it runs: whatever its inner structure,
it has to come by the same tensors. The first that it never computes is where it goes wrong; a bank of usual
mistakes, each built into the steps, tells the likely cause.
"""

from transformer_lab.diagnostics.divergence.search import Divergence, first_divergence

__all__ = ["Divergence", "first_divergence"]
