"""Lesson 04. Masks: boolean tensors `may_attend`, True where query i may attend to key j.

Every mask has the four axes (batch, heads, query_pos, key_pos), each full or of length 1, so that masks
combine with `&` and none can be mistaken for another. `mask_conventions` has those of other libraries.
"""

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from transformer_lab.validation import described


def padding_mask(
    token_ids: Integer[Tensor, "batch key_pos"], pad_id: int = 0
) -> Bool[Tensor, "batch 1 1 key_pos"]:
    """Hide every token whose id is `pad_id`, from all queries."""
    # As int64: uint8 has no 256, and would take it for 0.
    return (token_ids.long() != pad_id)[:, None, None, :]


def padding_mask_from_lengths(
    lengths: Integer[Tensor, " batch"], max_length: int | None = None
) -> Bool[Tensor, "batch 1 1 key_pos"]:
    """Hide every position from `lengths[b]` on, in each sequence b.

    Args:
        lengths: number of real tokens in each sequence.
        max_length: length of the padded sequences; the longest one if None.
    """
    max_length = int(lengths.max()) if max_length is None else max_length
    position = torch.arange(max_length, device=lengths.device)
    return (position < lengths[:, None])[:, None, None, :]


def causal_mask(
    query_length: int, key_length: int | None = None, *, device: torch.device | str | None = None
) -> Bool[Tensor, "1 1 query_pos key_pos"]:
    """Let each query attend to its own position and to earlier ones.

    With more keys than queries the queries are the *last* positions, as in decoding with a cache.
    (PyTorch's `is_causal=True` aligns them with the first ones instead.)

    Raises:
        ValueError: fewer keys than queries.

    >>> causal_mask(3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    return (relative_positions(query_length, key_length, device) <= 0)[None, None]


def local_mask(
    query_length: int, window: int, key_length: int | None = None, *, device: torch.device | str | None = None
) -> Bool[Tensor, "1 1 query_pos key_pos"]:
    """Let each query attend to the positions at most `window` away, on both sides: sliding-window attention.

    Raises:
        ValueError: fewer keys than queries, or a negative window.

    >>> local_mask(4, window=1)[0, 0].int().tolist()
    [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    """
    if window < 0:
        raise ValueError(f"window must be at least 0, got {window}")
    return (relative_positions(query_length, key_length, device).abs() <= window)[None, None]


def relative_positions(
    query_length: int, key_length: int | None, device: torch.device | str | None
) -> Integer[Tensor, "query_pos key_pos"]:
    """Return key position − query position, where the last query is at the position of the last key."""
    key_length = query_length if key_length is None else key_length
    if key_length < query_length:
        raise ValueError(
            f"key_length ({key_length}) must be at least query_length ({query_length}): "
            "queries are at the last positions; swap the two arguments?"
        )
    query_position = torch.arange(key_length - query_length, key_length, device=device)
    return torch.arange(key_length, device=device) - query_position[:, None]


def check_padding_mask(may_attend: Tensor, tokens: Tensor) -> None:
    """Raise unless `may_attend` is the padding mask of these tokens: boolean, (batch, 1, 1, position)."""
    shape = (tokens.shape[0], 1, 1, tokens.shape[1])
    if may_attend.dtype != torch.bool or may_attend.shape != shape:
        raise ValueError(
            f"may_attend must be a padding mask, torch.bool of shape {shape}, got {described(may_attend)}; "
            "see padding_mask"
        )
