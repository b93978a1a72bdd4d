"""One encoder in four libraries, with the same weights: ours, PyTorch, Hugging Face, x-transformers."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel
from x_transformers import Encoder as XEncoder

from tests.third_party import to_torch_encoder
from transformer_lab import Encoder, EncoderConfig
from transformer_lab.encoder import ACTIVATIONS
from transformer_lab.mask_conventions import to_attention_mask, to_key_padding_mask
from transformer_lab.packing import encode_packed
from transformer_lab.pretrained_encoder import SEGMENTS, parameter_names

VOCAB = 1000
# (token ids, padding mask or None) → the tokens' vectors
Encode = Callable[[Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class Shape:
    """What is encoded, and by how large a network."""

    batch: int
    positions: int
    d_model: int
    n_heads: int
    n_layers: int


@dataclass(frozen=True)
class Networks:
    """The same network five times."""

    ours: Encoder
    torchs: nn.TransformerEncoder
    nested: nn.TransformerEncoder
    bert: BertModel
    x: XEncoder

    def all(self) -> tuple[nn.Module, ...]:
        return self.ours, self.torchs, self.nested, self.bert, self.x

    def to(self, **where) -> "Networks":
        """Move all to a dtype or a device."""
        for network in self.all():
            network.to(**where)
        return self

    def train(self, mode: bool) -> None:
        for network in self.all():
            network.train(mode)

    def padded(self) -> dict[str, Encode]:
        """Name → how it encodes a batch as it stands, padding included; ours is the first."""
        return {
            "ours": lambda ids, mask: self.ours(ids, mask, need_weights=False)[0],
            "torch.nn": lambda ids, mask: self.by_torch(self.torchs, ids, mask),
            "Hugging Face": self.by_bert,
            "x-transformers": self.by_x,
        }

    def ragged(self) -> dict[str, Encode]:
        """Name → how it encodes a batch of unequal texts; the first is ours, without the padding."""
        padded = self.padded()
        return {
            "ours packed": lambda ids, mask: encode_packed(self.ours, ids, mask),
            "ours padded": padded.pop("ours"),
            "torch.nn nested": lambda ids, mask: self.by_torch(self.nested, ids, mask),
        } | padded

    def compiled(self) -> dict[str, Encode]:
        """Name → what torch.compile makes of ours and of PyTorch's, for one shape and no padding."""
        ours, torchs = (torch.compile(network, dynamic=False) for network in (self.ours, self.torchs))
        return {
            "ours compiled": lambda ids, _: ours(ids, None, need_weights=False)[0],
            "torch.nn compiled": lambda ids, _: torchs(self.ours.embed(ids)),
        }

    def by_torch(self, encoder: nn.TransformerEncoder, ids: Tensor, mask: Tensor | None) -> Tensor:
        """Encode with one of PyTorch's, which has no embedding and takes ours."""
        ignored = None if mask is None else to_key_padding_mask(mask)
        return encoder(self.ours.embed(ids), src_key_padding_mask=ignored)

    def by_bert(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        attention_mask = None if mask is None else to_attention_mask(mask)
        return self.bert(ids, attention_mask=attention_mask).last_hidden_state

    def by_x(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        return self.x(self.ours.embed(ids), mask=None if mask is None else mask[:, 0, 0])


def networks(shape: Shape, activation: str = "relu") -> Networks:
    """Build one network with random weights, and give the same weights to all."""
    sizes = shape.d_model, shape.n_heads, 4 * shape.d_model, shape.n_layers
    bert = random_bert(*sizes, shape.positions, activation)
    config = EncoderConfig(
        VOCAB, *sizes, max_length=shape.positions, dropout=0.0, activation=activation,
        positions="learned", scale_embedding=False, embedding_norm=True,
    )  # fmt: skip
    ours = Encoder(config)
    published = bert.state_dict()
    weights = {name: published[its] for name, its in parameter_names(shape.n_layers).items()}
    segment = published[SEGMENTS][0]  # BERT adds it to every token of a first text
    ours.load_state_dict(weights | {"positions.weight": weights["positions.weight"] + segment})
    layers = {name: tensor for name, tensor in ours.state_dict().items() if name.startswith("layers.")}
    torchs, nested = (torch_encoder(config, layers, nested=nested) for nested in (False, True))
    return Networks(ours, torchs, nested, bert, x_encoder(config, layers))


def random_bert(
    d_model: int, n_heads: int, d_ff: int, n_layers: int, positions: int, activation: str
) -> BertModel:
    """Build a BertModel with random weights.

    The biases of its attention and of its norms stay zero, because x-transformers has none.
    """
    settings = BertConfig(
        vocab_size=VOCAB, hidden_size=d_model, num_attention_heads=n_heads, intermediate_size=d_ff,
        num_hidden_layers=n_layers, max_position_embeddings=positions, layer_norm_eps=1e-5,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, hidden_act=activation,
        attn_implementation="sdpa",
    )  # fmt: skip
    bert = BertModel(settings, add_pooling_layer=False)
    with torch.no_grad():
        for name, parameter in bert.named_parameters():
            in_feed_forward = name.endswith("dense.bias") and "attention" not in name
            if in_feed_forward or name.endswith("LayerNorm.weight"):
                parameter += 0.1 * torch.randn_like(parameter)
    return bert


def torch_encoder(
    config: EncoderConfig, weights: dict[str, Tensor], *, nested: bool
) -> nn.TransformerEncoder:
    """Build nn.TransformerEncoder with our weights; `nested` lets it drop the padding, in inference only."""
    layer = nn.TransformerEncoderLayer(
        config.d_model, config.n_heads, config.d_ff, 0.0, config.activation, batch_first=True
    )
    encoder = nn.TransformerEncoder(layer, config.n_layers, enable_nested_tensor=nested)
    encoder.load_state_dict(to_torch_encoder(weights))
    return encoder


# A part's name in our layer, and in x-transformers, where attention and feed-forward are layers of their own.
X_NAMES = {
    "attention.query_projection": (0, "1.to_q"),
    "attention.key_projection": (0, "1.to_k"),
    "attention.value_projection": (0, "1.to_v"),
    "attention.output_projection": (0, "1.to_out"),
    "attention_norm": (0, "0.2"),
    "feed_forward.up_projection": (1, "1.ff.0.0"),
    "feed_forward.down_projection": (1, "1.ff.2"),
    "feed_forward_norm": (1, "0.2"),
}


def x_encoder(config: EncoderConfig, weights: dict[str, Tensor]) -> XEncoder:
    """Build x-transformers' encoder, post-norm and with the fused kernel, from our layers' weights."""
    encoder = XEncoder(
        dim=config.d_model, depth=config.n_layers, heads=config.n_heads, attn_dim_head=config.d_head,
        ff_mult=config.d_ff / config.d_model, ff_custom_activation=ACTIVATIONS[config.activation](),
        pre_norm=False, attn_flash=True,
    )  # fmt: skip
    theirs = {}
    for name, tensor in weights.items():
        _, layer, part_and_kind = name.split(".", 2)
        part, kind = part_and_kind.rsplit(".", 1)
        place, its = X_NAMES[part]
        if part.endswith("norm") and kind == "weight":
            kind, tensor = "gamma", tensor - 1  # kept as the distance from 1
        theirs[f"layers.{2 * int(layer) + place}.{its}.{kind}"] = tensor
    known = encoder.state_dict()
    lost = [name for name in theirs if name not in known and theirs[name].any()]
    if lost:
        raise ValueError(
            f"x-transformers has no {', '.join(lost)}, got numbers for them; set them to zero: wanted the "
            "same network everywhere"
        )
    encoder.load_state_dict({name: tensor for name, tensor in theirs.items() if name in known})
    return encoder
