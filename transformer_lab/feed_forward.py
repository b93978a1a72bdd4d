"""Lesson 06. The position-wise feed-forward network: two linear layers, applied to each token separately."""

from jaxtyping import Float
from torch import Tensor, nn


class FeedForward(nn.Module):
    """FFN(x) = activation(x W_1 + b_1) W_2 + b_2: Eq. 2 of arXiv:1706.03762, where the activation is ReLU.

    Args:
        d_model: number of features of each token vector, in the input and in the output.
        d_ff: number of hidden features; 4 · d_model in the paper.
        activation: module that is applied to the hidden features; if None, nn.ReLU().
        dropout: probability of dropping a hidden feature during training.
        bias: whether the two projections have biases.
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
        """Apply the network to each vector separately."""
        hidden = self.hidden(x)  # (*batch, d_ff)
        return self.down_projection(self.dropout(hidden))

    def hidden(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_ff"]:
        """Return the hidden features after the activation, often called neurons."""
        return self.activation(self.up_projection(x))


class GatedFeedForward(FeedForward):
    """FFN(x) = (activation(x W) ⊙ x V) W_2: Eq. 6 of arXiv:2002.05202, where no projection has a bias.

    With nn.SiLU() it is called SwiGLU, with nn.GELU() GeGLU. It has three weight matrices instead of two, so
    ⅔ of the d_ff of `FeedForward` gives the same number of parameters.

    Args:
        d_model, d_ff, dropout, bias: as in `FeedForward`.
        activation: module that is applied to the gate; if None, nn.SiLU().
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
        """Return the hidden features, each multiplied by its gate."""
        return self.activation(self.gate_projection(x)) * self.up_projection(x)
