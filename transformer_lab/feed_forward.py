"""Lesson 06. The position-wise feed-forward network: two linear layers, applied to every token by itself."""

from jaxtyping import Float
from torch import Tensor, nn


class FeedForward(nn.Module):
    """FFN(x) = activation(x W_1 + b_1) W_2 + b_2: Eq. 2 of arXiv:1706.03762, where the activation is ReLU.

    Args:
        d_model: features of each token vector, in and out.
        d_ff: features in between; the paper takes 4 · d_model.
        activation: a module applied in between; nn.ReLU() if None.
        dropout: probability of dropping a feature in between, in training.
        bias: whether the two projections have one.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: nn.Module | None = None,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.up_projection = nn.Linear(d_model, d_ff, bias=bias)
        self.activation = activation if activation is not None else nn.ReLU()
        self.dropout = nn.Dropout(dropout)
        self.down_projection = nn.Linear(d_ff, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Transform each vector by itself."""
        hidden = self.hidden(x)  # (*batch, d_ff)
        return self.down_projection(self.dropout(hidden))

    def hidden(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_ff"]:
        """Return the features in between, which later work calls the neurons."""
        return self.activation(self.up_projection(x))


class GatedFeedForward(FeedForward):
    """FFN(x) = (activation(x W) ⊙ x V) W_2: Eq. 6 of arXiv:2002.05202, where no projection has a bias.

    With nn.SiLU() it is called SwiGLU, with nn.GELU() GeGLU. Three matrices instead of two: for as many
    parameters as `FeedForward` has, take ⅔ of its d_ff.

    Args:
        d_model, d_ff, dropout, bias: as in `FeedForward`.
        activation: a module applied to the gate; nn.SiLU() if None.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        activation: nn.Module | None = None,
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        activation = activation if activation is not None else nn.SiLU()
        super().__init__(d_model, d_ff, activation=activation, dropout=dropout, bias=bias)
        self.gate_projection = nn.Linear(d_model, d_ff, bias=bias)

    def hidden(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_ff"]:
        """Return the features in between, each multiplied by its gate."""
        return self.activation(self.gate_projection(x)) * self.up_projection(x)
