"""Lesson 07. The encoder layer: self-attention and a feed-forward network around one residual stream."""

from copy import deepcopy

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lab.feed_forward import FeedForward
from transformer_lab.multi_head_attention import MultiHeadAttention
from transformer_lab.validation import described

Weights = Float[Tensor, "batch n_heads query_pos key_pos"]


class EncoderLayer(nn.Module):
    """x = LayerNorm(x + Sublayer(x)), twice: Section 3.1 of arXiv:1706.03762 (post-norm).

    The submodules are arguments, so each can be replaced by a module with the same interface.

    Args:
        attention: called as attention(x, may_attend=…, need_weights=…), returns (output, weights).
        feed_forward: maps (batch, position, d_model) to the same shape.
        attention_norm: layer norm of the attention sublayer.
        feed_forward_norm: layer norm of the feed-forward sublayer; a different module.
        dropout: probability of dropping a feature of a sublayer's output during training (Section 5.4).

    Raises:
        ValueError: if both norms are the same module, which would tie their parameters.
    """

    def __init__(
        self,
        attention: nn.Module,
        feed_forward: nn.Module,
        attention_norm: nn.Module,
        feed_forward_norm: nn.Module,
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if attention_norm is feed_forward_norm and list(attention_norm.parameters()):
            raise ValueError(
                "attention_norm and feed_forward_norm must be two modules, got the same module twice: "
                "they would share their parameters; build a second norm"
            )
        self.attention = attention
        self.feed_forward = feed_forward
        self.attention_norm = attention_norm
        self.feed_forward_norm = feed_forward_norm
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Float[Tensor, "batch position d_model"],
        may_attend: Bool[Tensor, "..."] | None = None,
        need_weights: bool = True,
        **options,
    ) -> tuple[Float[Tensor, "batch position d_model"], Weights | None]:
        """Return the residual stream after this layer, and the attention weights (or None).

        Args:
            x: the residual stream, one vector per token.
            may_attend: True where query i may attend to key j; passed on to the attention.
            need_weights: False returns None for the attention weights, which is faster.
            options: further keyword arguments of the attention.
        """
        attended, weights = self.attention(x, may_attend=may_attend, need_weights=need_weights, **options)
        x = self.attention_norm(self.residual(x, attended))
        x = self.feed_forward_norm(self.residual(x, self.feed_forward(x)))
        return x, weights

    def residual(self, x: Tensor, update: Tensor) -> Tensor:
        """Return x + dropout(update); raise ValueError if the shapes differ, instead of broadcasting."""
        if update.shape != x.shape:
            raise ValueError(
                f"a sublayer must return the shape of its input, {tuple(x.shape)}, got {described(update)}; "
                "an attention module returns (output, weights), or (output, None)"
            )
        return x + self.dropout(update)


class PreNormEncoderLayer(EncoderLayer):
    """x = x + Sublayer(LayerNorm(x)), twice: the pre-norm order of arXiv:2002.04745.

    The residual stream itself is never normalised, so the encoder needs a final norm after its last layer.
    """

    def forward(
        self,
        x: Float[Tensor, "batch position d_model"],
        may_attend: Bool[Tensor, "..."] | None = None,
        need_weights: bool = True,
        **options,
    ) -> tuple[Float[Tensor, "batch position d_model"], Weights | None]:
        """Return the residual stream after this layer, and the attention weights, as `EncoderLayer` does."""
        normed = self.attention_norm(x)
        attended, weights = self.attention(
            normed, may_attend=may_attend, need_weights=need_weights, **options
        )
        x = self.residual(x, attended)
        x = self.residual(x, self.feed_forward(self.feed_forward_norm(x)))
        return x, weights


# --- conversion from and to nn.TransformerEncoderLayer, whose norm_first is the order of the norms --

# Submodule names: in this package → in nn.TransformerEncoderLayer.
TORCH_NAMES = {
    "attention.output_projection": "self_attn.out_proj",
    "feed_forward.up_projection": "linear1",
    "feed_forward.down_projection": "linear2",
    "feed_forward.activation": "activation",
    "attention_norm": "norm1",
    "feed_forward_norm": "norm2",
}
PROJECTIONS = ("query_projection", "key_projection", "value_projection")
TORCH_ACTIVATIONS = {F.relu: nn.ReLU, F.gelu: nn.GELU}


def from_torch_layer(theirs: nn.TransformerEncoderLayer) -> EncoderLayer:
    """Return an `EncoderLayer` with the output of `theirs`, and with copies of its weights.

    norm_first=True becomes a `PreNormEncoderLayer`. Our layer always expects (batch, position, d_model),
    PyTorch's layer only with batch_first=True.

    Raises:
        TypeError: if `theirs` is a subclass, which could compute anything.
        KeyError: if the activation is a function other than F.relu or F.gelu.
    """
    if type(theirs) is not nn.TransformerEncoderLayer:
        raise TypeError(
            f"expected an nn.TransformerEncoderLayer, not a subclass, got {type(theirs).__name__}"
        )
    d_ff, d_model = theirs.linear1.weight.shape
    bias = theirs.linear1.bias is not None
    attention, activation = theirs.self_attn, theirs.activation
    if not isinstance(activation, nn.Module):
        activation = TORCH_ACTIVATIONS[activation]()
    order = PreNormEncoderLayer if theirs.norm_first else EncoderLayer
    ours = order(
        MultiHeadAttention(d_model, attention.num_heads, bias=bias, dropout=attention.dropout),
        FeedForward(d_model, d_ff, activation=deepcopy(activation), dropout=theirs.dropout.p, bias=bias),
        nn.LayerNorm(d_model, eps=theirs.norm1.eps, bias=bias),
        nn.LayerNorm(d_model, eps=theirs.norm2.eps, bias=bias),
        dropout=theirs.dropout1.p,
    )
    ours.to(theirs.linear1.weight).load_state_dict(from_torch_names(theirs.state_dict()))
    return ours.train(theirs.training)


def to_torch_layer(ours: EncoderLayer) -> nn.TransformerEncoderLayer:
    """Return an nn.TransformerEncoderLayer (batch_first) with the output of `ours`, and with copied weights.

    Raises:
        TypeError: if the layer, its attention or its feed-forward network is of another class than
            `EncoderLayer`, `MultiHeadAttention` or `FeedForward`, or the attention has rotary positions.
        ValueError: if dropout probabilities or eps differ, because PyTorch's layer has one of each.
    """
    parts = {
        "the layer": (ours, (EncoderLayer, PreNormEncoderLayer)),
        "attention": (ours.attention, (MultiHeadAttention,)),
        "feed_forward": (ours.feed_forward, (FeedForward,)),
    }
    for name, (part, allowed) in parts.items():
        if type(part) not in allowed:
            raise TypeError(f"{name} is a {type(part).__name__}, which PyTorch's layer does not support")
    if not isinstance(ours.attention.rotary, nn.Identity):
        raise TypeError("the attention has rotary positions, which PyTorch's layer does not support")
    dropouts = {ours.dropout.p, ours.attention.dropout, ours.feed_forward.dropout.p}
    eps = {ours.attention_norm.eps, ours.feed_forward_norm.eps}
    if len(dropouts) > 1 or len(eps) > 1:
        raise ValueError(
            f"PyTorch's layer has one dropout and one eps, got dropouts {dropouts} and eps {eps}"
        )
    up_projection = ours.feed_forward.up_projection
    theirs = nn.TransformerEncoderLayer(
        up_projection.in_features,
        ours.attention.n_heads,
        up_projection.out_features,
        dropout=ours.dropout.p,
        activation=deepcopy(ours.feed_forward.activation),
        layer_norm_eps=ours.attention_norm.eps,
        batch_first=True,
        norm_first=isinstance(ours, PreNormEncoderLayer),
        bias=up_projection.bias is not None,
    )
    theirs.to(up_projection.weight).load_state_dict(to_torch_names(ours.state_dict()))
    return theirs.train(ours.training)


def from_torch_names(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Convert a state dict of PyTorch's layer to a state dict of our layer."""
    names = {torch_name: name for name, torch_name in TORCH_NAMES.items()}
    ours = {}
    for name, tensor in theirs.items():
        part, kind = name.rsplit(".", 1)
        if part == "self_attn":  # in_proj_weight and in_proj_bias: three projections stacked
            kind = kind.removeprefix("in_proj_")
            for projection, third in zip(PROJECTIONS, tensor.chunk(3), strict=True):
                ours[f"attention.{projection}.{kind}"] = third
        else:
            ours[f"{names[part]}.{kind}"] = tensor
    return ours


def to_torch_names(ours: dict[str, Tensor]) -> dict[str, Tensor]:
    """Convert a state dict of our layer to a state dict of PyTorch's layer."""
    theirs = {}
    for name, tensor in ours.items():
        part, kind = name.rsplit(".", 1)
        if part in TORCH_NAMES:
            theirs[f"{TORCH_NAMES[part]}.{kind}"] = tensor
        else:
            thirds = [ours[f"attention.{projection}.{kind}"] for projection in PROJECTIONS]
            theirs[f"self_attn.in_proj_{kind}"] = torch.cat(thirds)
    return theirs
