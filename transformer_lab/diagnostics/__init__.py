"""Diagnostics for any module, not only this package's: property checks, first divergence, head roles."""

from transformer_lab.diagnostics.divergence import Divergence, first_divergence
from transformer_lab.diagnostics.encoder_check import EncoderCheck, check_encoder
from transformer_lab.diagnostics.head_roles import attention_on, without_head
from transformer_lab.diagnostics.property_checks import (
    PropertyCheck,
    batch_invariance,
    distance_only,
    eval_determinism,
    leak_map,
    padding_invariance,
    permutation_equivariance,
)

__all__ = [
    "Divergence",
    "EncoderCheck",
    "PropertyCheck",
    "attention_on",
    "batch_invariance",
    "check_encoder",
    "distance_only",
    "eval_determinism",
    "first_divergence",
    "leak_map",
    "padding_invariance",
    "permutation_equivariance",
    "without_head",
]
