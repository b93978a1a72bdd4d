"""Lesson 13. Sequence packing: concatenate the real tokens of a batch, and attend within each sequence.

Every module of an encoder except attention processes each token separately, so a padding token costs as much
compute as a real token, for nothing.
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

BLOCK = 128  # queries per block: about the size of a window, so that few hidden scores are computed


def encode_packed(
    encoder: Encoder, token_ids: Int[Tensor, "batch position"], may_attend: Bool[Tensor, "batch 1 1 position"]
) -> Float[Tensor, "batch position d_model"]:
    """Return the output of `encoder(token_ids, may_attend)` for real tokens, and zeros for padding.

    It also works in training, and saves compute about in proportion to the fraction of padding.

    Raises:
        ValueError: if `may_attend` is not a padding mask of these ids, or if there is padding between real
            tokens and the encoder has rotary positions or sliding windows: packing would change distances.
    """
    check_padding_mask(may_attend, token_ids)
    return encode_real(encoder, token_ids, may_attend)


@torch.compiler.disable  # sequence lengths differ between batches, and each would be compiled again
def encode_real(
    encoder: Encoder, token_ids: Int[Tensor, "batch position"], may_attend: Bool[Tensor, "batch 1 1 position"]
) -> Float[Tensor, "batch position d_model"]:
    """Pack the real tokens, encode them, and unpack the result."""
    real = may_attend[:, 0, 0]  # (batch, position)
    counts = any(isinstance(part, RotaryEmbedding | LocalAttention) for part in encoder.modules())
    if counts and has_gaps(real):
        raise ValueError(
            "packing expects no padding between real tokens, which would change the distances that rotary "
            "positions and sliding windows depend on; encode this batch padded"
        )
    x = encoder.embed(token_ids)
    if not real.any():
        return torch.zeros_like(x)
    attend = partial(attend_within, lengths=real.sum(dim=1).tolist())
    row = x[real][None]  # (1, real tokens, d_model)
    for layer in encoder.layers:
        row, _ = layer(row, need_weights=False, attend=attend)
    row = encoder.final_norm(row)  # under autocast, its dtype may differ from the dtype of the embedding
    return torch.zeros_like(x, dtype=row.dtype).masked_scatter(real[..., None], row)


def has_gaps(real: Bool[Tensor, "batch position"]) -> bool:
    """Return whether any sequence has padding between real tokens."""
    begins = real & ~real.roll(1, dims=1)  # (batch, position): a real token after padding
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
    """Return the attention output within each sequence of a packed row, with `lengths[b]` tokens each.

    `LocalAttention` passes its `window`, which applies within each sequence.
    """
    if may_attend is not None:
        raise ValueError("packed attention takes no mask: lengths and window determine who attends to whom")
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
    """Return the output of `attend_nearby` from lesson 12, without computing most of the hidden scores.

    Each block of queries is compared only with the keys within the window of at least one of its queries, so
    the cost is linear in the sequence length, not quadratic.
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
