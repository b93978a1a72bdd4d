"""Lesson 13. Sequence packing: the real tokens of a batch in one row, and attention within each sequence.

Everything in an encoder but attention treats each token by itself, so a padding token costs as much as a real
one and gives nothing.
"""

from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer_lab.encoder import Encoder
from transformer_lab.masking import check_padding_mask
from transformer_lab.modern_bert import LocalAttention
from transformer_lab.rotary_embedding import RotaryEmbedding
from transformer_lab.scaled_dot_product_attention import scaled_dot_product_attention

BLOCK = 128  # queries at a time: about as many as a window sees, so that little is computed in vain


def encode_packed(
    encoder: Encoder, token_ids: Int[Tensor, "batch position"], may_attend: Bool[Tensor, "batch 1 1 position"]
) -> Float[Tensor, "batch position d_model"]:
    """Return what `encoder(token_ids, may_attend)` returns for the real tokens, and zeros for the padding.

    It works in training too, and saves about the share of padding.

    Raises:
        ValueError: not a padding mask of these ids; or padding between real tokens in an encoder with rotary
            positions or windows, which count along the row: distances would shrink.
    """
    check_padding_mask(may_attend, token_ids)
    return encode_real(encoder, token_ids, may_attend)


@torch.compiler.disable  # each batch has other lengths, so that each would be compiled again
def encode_real(
    encoder: Encoder, token_ids: Int[Tensor, "batch position"], may_attend: Bool[Tensor, "batch 1 1 position"]
) -> Float[Tensor, "batch position d_model"]:
    """Pack, encode, and unpack the real tokens."""
    real = may_attend[:, 0, 0]  # (batch, position)
    counts = any(isinstance(part, RotaryEmbedding | LocalAttention) for part in encoder.modules())
    if counts and has_gaps(real):
        raise ValueError(
            "packing got padding between real tokens, which shrinks the distances that rotary positions and "
            "windows depend on; encode it padded"
        )
    x = encoder.embed(token_ids)
    if not real.any():
        return torch.zeros_like(x)
    attend = partial(attend_within, lengths=real.sum(dim=1).tolist())
    row = x[real][None]  # (1, real tokens, d_model)
    for layer in encoder.layers:
        row, _ = layer(row, need_weights=False, attend=attend)
    row = encoder.final_norm(row)  # under autocast its dtype may differ from the embedding's
    return torch.zeros_like(x, dtype=row.dtype).masked_scatter(real[..., None], row)


def has_gaps(real: Bool[Tensor, "batch position"]) -> bool:
    """Whether there is padding between the real tokens of any sequence."""
    begins = real & ~real.roll(1, dims=1)  # (batch, position): where real tokens follow padding
    begins[:, 0] = real[:, 0]
    return bool((begins.sum(dim=1) > 1).any())


def attend_within(
    query: Float[Tensor, "1 heads token d_head"],
    key: Float[Tensor, "1 heads token d_head"],
    value: Float[Tensor, "1 heads token d_value"],
    may_attend: None = None,
    *,
    lengths: list[int],
    window: int | None = None,
    **options,
) -> tuple[Float[Tensor, "1 heads token d_value"], None]:
    """Attend within each sequence of a packed row, `lengths[b]` tokens each, and never across.

    A `LocalAttention` gives its window, which is counted within each sequence.
    """
    if may_attend is not None:
        raise ValueError("packed attention takes no mask: lengths and window say who attends to whom")
    core = scaled_dot_product_attention if window is None else partial(attend_in_window, window=window)
    parts = (part.split_with_sizes(lengths, dim=-2) for part in (query, key, value))
    sequences = zip(*parts, strict=True)
    outputs = [core(*sequence, **options)[0] for sequence in sequences if sequence[0].shape[-2]]
    return torch.cat(outputs, dim=-2), None


def attend_in_window(
    query: Float[Tensor, "batch heads position d_head"],
    key: Float[Tensor, "batch heads position d_head"],
    value: Float[Tensor, "batch heads position d_value"],
    *,
    window: int,
    **options,
) -> tuple[Float[Tensor, "batch heads position d_value"], None]:
    """Compute `attend_nearby` of lesson 12 without the scores that its mask hides.

    A block of queries is compared only with the keys that one of them may attend to, so the work grows with
    the length, not with its square.
    """
    length, outputs = query.shape[-2], []
    position = torch.arange(length, device=query.device)
    for start in range(0, length, BLOCK):
        queries, keys = slice(start, start + BLOCK), slice(max(0, start - window), start + BLOCK + window)
        near = (position[queries, None] - position[keys]).abs() <= window  # (query_pos, key_pos) of the block
        output, _ = scaled_dot_product_attention(
            query[..., queries, :], key[..., keys, :], value[..., keys, :], near[None, None], **options
        )
        outputs.append(output)
    return torch.cat(outputs, dim=-2), None
