"""Lesson 05. Multi-head attention: several heads, each attending in its own slice of the features."""

from collections.abc import Callable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lab.scaled_dot_product_attention import scaled_dot_product_attention


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O: Section 3.2.2 of arXiv:1706.03762.

    Differs: the projections have biases, as in BERT and in PyTorch; the paper writes none.

    Args:
        d_model: features of each token vector, in and out.
        n_heads: number of heads; must divide d_model.
        bias: whether the four projections have one.
        dropout: probability of dropping an attention weight, in training.
        rotary: rotates queries and keys by their positions (`RotaryEmbedding(d_head)`), if given.
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
        """Attend from `query` to `key`; self-attention when only `query` is given.

        Args:
            query: where to write the results to.
            key: what to compare with; the query itself if None.
            value: what to take; the key itself if None.
            may_attend: (batch or 1, heads or 1, query_pos or 1, key_pos or 1), True = may attend.
            need_weights: False uses the fused kernel and returns None for the weights.
            attend: the function that each head computes; another one with the same interface may be given.

        Raises:
            ValueError: a mask of another shape than the weights.
            TypeError: a mask that is not boolean.
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
    """Give each head its own slice of the features: head 0 the first d_head, head 1 the next, …

    The features are split first and the axes swapped afterwards; one reshape would mix positions with heads.
    """
    split = x.unflatten(-1, (n_heads, -1))  # (*batch, position, n_heads, d_head)
    return split.transpose(-3, -2)  # (*batch, n_heads, position, d_head)


def merge_heads(
    x: Float[Tensor, "*batch n_heads position d_head"],
) -> Float[Tensor, "*batch position d_model"]:
    """Undo `split_heads`: concatenate the heads of each position again."""
    return x.transpose(-3, -2).flatten(-2)  # (*batch, position, n_heads · d_head)


def check_divisible(d_model: int, n_heads: int) -> None:
    """Raise ValueError unless the features can be divided equally among the heads."""
    if d_model % n_heads:
        nearest = (d_model // n_heads + 1) * n_heads
        raise ValueError(
            f"d_model ({d_model}) must be divisible by n_heads ({n_heads}); try d_model={nearest}"
        )
