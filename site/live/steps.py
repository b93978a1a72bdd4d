"""The course's own encoder with its modules' intermediate tensors: what the live page runs and shows."""

from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from transformer_lab import Encoder
from transformer_lab.pretrained_encoder import TokenBatch

# The outputs of a layer's modules, (batch, position, features) each, in the order of the walk.
OF_LAYER = {
    "queries": "attention.query_projection",
    "keys": "attention.key_projection",
    "values": "attention.value_projection",
    "attended": "attention.output_projection",
    "middle": "attention_norm",
    "neurons": "feed_forward.activation",
    "fed": "feed_forward",
    "leaving": "",
}
INPUTS = ("ids", "may_attend", "positions", "heads", "layers")
OUTPUTS = ("words", "placed", "entering", *OF_LAYER)


class Steps(nn.Module):
    """Return the intermediate tensors of the encoder for token ids, as recorded by hooks on its modules.

    The exported model has no scores and weights: the page computes them from queries and keys.
    """

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.mean_position = nn.Buffer(encoder.positions.weight.mean(dim=0))
        self.made: dict[str, list[Tensor]] = {name: [] for name in OF_LAYER}
        self.kept: list[Tensor] = []  # for each layer: 1 for a head that is kept, 0 for an ablated one
        self.weights: list[Tensor] = []  # for each layer, (batch, heads, query_pos, key_pos)
        for number, layer in enumerate(encoder.layers):
            for name, part in OF_LAYER.items():
                layer.get_submodule(part).register_forward_hook(partial(self.note, name))
            layer.attention.output_projection.register_forward_pre_hook(partial(self.silence, number))

    def note(self, name: str, part: nn.Module, inputs: tuple, output: Tensor | tuple) -> None:
        """Record a module's output; of a layer, its tokens without the attention weights."""
        self.made[name].append(output[0] if isinstance(output, tuple) else output)

    def silence(self, number: int, part: nn.Module, inputs: tuple) -> tuple[Tensor]:
        """Zero-ablate heads: set their outputs to 0 before the output projection."""
        (heads,) = inputs  # (batch, position, d_model)
        kept = self.kept[number].repeat_interleave(heads.shape[-1] // len(self.kept[number]))
        return (heads * kept,)

    def forward(
        self, ids: Tensor, may_attend: Tensor, positions: Tensor, heads: Tensor, layers: Tensor
    ) -> tuple[Tensor, ...]:
        """Return `OUTPUTS`: words and placed (batch, length, d_model), the others with all layers in front.

        ids: (batch, length)
        may_attend: (batch, 1, 1, length), True = may be attended to
        positions: 1 as trained; 0 gives every token the same row, the mean of the table's rows
        heads: (layers, heads), 1 as trained; 0 ablates a head
        layers: (layers), 1 as trained; 0 passes the tokens on unchanged
        """
        self.made, self.kept, self.weights = {name: [] for name in OF_LAYER}, list(heads), []
        words = self.encoder.embedding(ids)
        rows = self.encoder.positions.weight[: ids.shape[1]]
        placed = words + self.mean_position + positions * (rows - self.mean_position)
        x, entering = self.encoder.embedding_norm(placed), []
        for number, layer in enumerate(self.encoder.layers):
            entering.append(x)
            changed, weights = layer(x, may_attend=may_attend)
            self.weights.append(weights)
            x = layers[number] * changed + (1 - layers[number]) * x
            self.made["leaving"][-1] = x
        return words, placed, torch.stack(entering), *(torch.stack(each) for each in self.made.values())


def inputs_of(batch: TokenBatch, positions: float = 1.0) -> tuple[Tensor, ...]:
    """Return the inputs for a batch, with every head and every layer."""
    return batch.token_ids, batch.may_attend, torch.tensor(positions), torch.ones(6, 12), torch.ones(6)


def rounded(numbers: Tensor) -> list:
    """Return nested lists, rounded to four decimals."""
    return np.round(numbers.double().numpy(), 4).tolist()
