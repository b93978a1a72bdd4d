"""The steps of PyTorch's encoder layer: each property is the intermediate tensor with its name."""

import math
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class EncoderLayerSteps:
    """The intermediate tensors of an nn.TransformerEncoderLayer in eval mode, for one input."""

    def __init__(self, layer: nn.TransformerEncoderLayer, x: Tensor, may_attend: Tensor | None) -> None:
        self.layer, self.x, self.may_attend = layer, x, may_attend
        self.n_heads, self.d_head = layer.self_attn.num_heads, layer.self_attn.head_dim

    @cached_property
    def attention_input(self) -> Tensor:
        return (
            self.norm(self.layer.norm1, self.x) if self.norm_first else self.x
        )  # (batch, position, d_model)

    @cached_property
    def queries(self) -> Tensor:
        return self.split(self.project(0))  # (batch, heads, position, d_head), like keys and values

    @cached_property
    def keys(self) -> Tensor:
        return self.split(self.project(1))

    @cached_property
    def values(self) -> Tensor:
        return self.split(self.project(2))

    @cached_property
    def scores(self) -> Tensor:
        return self.queries @ self.keys.mT / math.sqrt(self.d_head)  # (batch, heads, query_pos, key_pos)

    @cached_property
    def weights(self) -> Tensor:
        return self.apply_mask(self.scores).softmax(dim=-1)

    @cached_property
    def heads(self) -> Tensor:
        return self.weights @ self.values  # (batch, heads, position, d_head)

    @cached_property
    def attention_output(self) -> Tensor:
        return self.layer.self_attn.out_proj(self.merge(self.heads))  # (batch, position, d_model)

    @cached_property
    def residual_after_attention(self) -> Tensor:
        return self.x + self.attention_output

    @cached_property
    def feed_forward_input(self) -> Tensor:
        norm = self.layer.norm2 if self.norm_first else self.layer.norm1
        return self.norm(norm, self.residual_after_attention)

    @cached_property
    def hidden(self) -> Tensor:
        return self.layer.linear1(self.feed_forward_input)  # (batch, position, d_ff)

    @cached_property
    def activated(self) -> Tensor:
        return self.layer.activation(self.hidden.clone())  # a copy: the activation may be in-place

    @cached_property
    def feed_forward_output(self) -> Tensor:
        return self.layer.linear2(self.activated)  # (batch, position, d_model)

    @cached_property
    def residual_after_feed_forward(self) -> Tensor:
        return self.residual_stream + self.feed_forward_output

    @cached_property
    def output(self) -> Tensor:
        after = self.residual_after_feed_forward
        return after if self.norm_first else self.norm(self.layer.norm2, after)

    @property
    def norm_first(self) -> bool:
        """True for pre-norm, x + sublayer(norm(x)); False for post-norm, norm(x + sublayer(x))."""
        return self.layer.norm_first

    @property
    def residual_stream(self) -> Tensor:
        """The tensor to which the output of the feed-forward network is added."""
        return self.residual_after_attention if self.norm_first else self.feed_forward_input

    def project(self, part: int) -> Tensor:
        """Return queries, keys or values (0, 1, 2), all heads concatenated: (batch, position, d_model)."""
        return self.project_all().chunk(3, dim=-1)[part]

    def project_all(self) -> Tensor:
        """Return queries, keys and values, stacked as in PyTorch: (batch, position, 3 · d_model)."""
        attention = self.layer.self_attn
        return F.linear(self.attention_input, attention.in_proj_weight, attention.in_proj_bias)

    def split(self, x: Tensor) -> Tensor:
        """Split heads: (batch, position, d_model) → (batch, heads, position, d_head)."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def merge(self, heads: Tensor) -> Tensor:
        """Merge heads: (batch, heads, position, d_head) → (batch, position, d_model)."""
        return heads.transpose(1, 2).flatten(-2)

    def apply_mask(self, scores: Tensor) -> Tensor:
        """Return the scores with −∞ for hidden keys."""
        return scores if self.may_attend is None else scores.masked_fill(~self.may_attend, -torch.inf)

    def norm(self, norm: nn.LayerNorm, x: Tensor) -> Tensor:
        """Return norm(x); a separate method, so that one mistake can change both norms."""
        return norm(x)


STEPS = [name for name, member in vars(EncoderLayerSteps).items() if isinstance(member, cached_property)]
