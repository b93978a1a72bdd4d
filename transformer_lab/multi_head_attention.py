"""Lesson 05. Multi-head attention: several attention heads in parallel, each on its own slice of features."""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lab.scaled_dot_product_attention import scaled_dot_product_attention


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O: Section 3.2.2 of arXiv:1706.03762.

    Differs from the paper: the projections have biases, as in BERT and in PyTorch.

    Args:
        d_model: number of features of each token vector, in the input and in the output.
        n_heads: number of heads; must divide d_model.
        bias: whether the four projections have biases.
        dropout: probability of dropping an attention weight during training.
        rotary: if given, a module that rotates queries and keys by their positions
            (`RotaryEmbedding(d_head)`).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        rotary: nn.Module | None = None,
    ) -> None:
        super().__init__()
        check_divisible(d_model, n_heads)
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.dropout = dropout
        self.query_projection = nn.Linear(d_model, d_model, bias=bias)
        self.key_projection = nn.Linear(d_model, d_model, bias=bias)
        self.value_projection = nn.Linear(d_model, d_model, bias=bias)
        self.output_projection = nn.Linear(d_model, d_model, bias=bias)
        self.rotary = rotary if rotary is not None else nn.Identity()

    def forward(
        self,
        query: Float[Tensor, "batch query_pos d_model"],
        key: Float[Tensor, "batch key_pos d_model"] | None = None,
        value: Float[Tensor, "batch key_pos d_model"] | None = None,
        *,
        may_attend: Bool[Tensor, "..."] | None = None,
        need_weights: bool = True,
        attend: Callable = scaled_dot_product_attention,
    ) -> tuple[
        Float[Tensor, "batch query_pos d_model"], Float[Tensor, "batch n_heads query_pos key_pos"] | None
    ]:
        """Return the attention output and the attention weights; self-attention if only `query` is given.

        Args:
            query: vectors from which the queries are projected; one output vector is returned for each.
            key: vectors from which the keys are projected; if None, `query`.
            value: vectors from which the values are projected; if None, `key`.
            may_attend: (batch or 1, heads or 1, query_pos or 1, key_pos or 1), True = may attend.
            need_weights: if False, the fused kernel is used and None is returned for the weights.
            attend: the attention function, with the interface of `scaled_dot_product_attention`.

        Raises:
            ValueError: if the mask does not fit the shape of the attention weights.
            TypeError: if the mask is not boolean.
        """
        key = query if key is None else key
        value = key if value is None else value
        # (batch, position, d_model) → (batch, n_heads, position, d_head)
        queries = self.rotary(split_heads(self.query_projection(query), self.n_heads))
        keys = self.rotary(split_heads(self.key_projection(key), self.n_heads))
        values = split_heads(self.value_projection(value), self.n_heads)
        dropout = self.dropout if self.training else 0.0
        heads, weights = attend(
            queries, keys, values, may_attend, dropout=dropout, need_weights=need_weights
        )  # (batch, n_heads, query_pos, d_head)
        return self.output_projection(merge_heads(heads)), weights  # (batch, query_pos, d_model)


def split_heads(
    x: Float[Tensor, "*batch position d_model"], n_heads: int
) -> Float[Tensor, "*batch n_heads position d_head"]:
    """Split the features into heads: head 0 has the first d_head features, head 1 the next d_head, …

    The feature axis is split first, then the axes are swapped. A single reshape to the final shape would mix
    positions with features.
    """
    split = x.unflatten(-1, (n_heads, -1))  # (*batch, position, n_heads, d_head)
    return split.transpose(-3, -2)  # (*batch, n_heads, position, d_head)


def merge_heads(
    x: Float[Tensor, "*batch n_heads position d_head"],
) -> Float[Tensor, "*batch position d_model"]:
    """Concatenate the heads of each position: the inverse of `split_heads`."""
    return x.transpose(-3, -2).flatten(-2)  # (*batch, position, n_heads · d_head)


def check_divisible(d_model: int, n_heads: int) -> None:
    """Raise ValueError unless n_heads divides d_model."""
    if d_model % n_heads:
        nearest = (d_model // n_heads + 1) * n_heads
        raise ValueError(
            f"d_model ({d_model}) must be divisible by n_heads ({n_heads}); try d_model={nearest}"
        )
