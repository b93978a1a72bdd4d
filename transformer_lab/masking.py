"""Lesson 04. Attention masks: boolean tensors `may_attend`, True where query i may attend to key j.

Every mask has the four axes (batch, heads, query_pos, key_pos), each full or of length 1. Masks can therefore
be combined with `&`, and no axis can be confused with another. `mask_conventions` converts them to the
formats of other libraries.
"""

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from transformer_lab.validation import described


def padding_mask(
    token_ids: Integer[Tensor, "batch key_pos"], pad_id: int = 0
) -> Bool[Tensor, "batch 1 1 key_pos"]:
    """Return the padding mask of a batch: False for every token whose id is `pad_id`, for all queries."""
    # Compare as int64: in uint8, a pad_id of 256 would wrap around to 0.
    return (token_ids.long() != pad_id)[:, None, None, :]


def padding_mask_from_lengths(
    lengths: Integer[Tensor, " batch"], max_length: int | None = None
) -> Bool[Tensor, "batch 1 1 key_pos"]:
    """Return the padding mask of a batch: False from position `lengths[b]` onwards in sequence b.

    Args:
        lengths: number of real tokens in each sequence.
        max_length: length of the padded sequences; if None, the length of the longest sequence.
    """
    max_length = int(lengths.max()) if max_length is None else max_length
    position = torch.arange(max_length, device=lengths.device)
    return (position < lengths[:, None])[:, None, None, :]


def causal_mask(
    query_length: int, key_length: int | None = None, *, device: torch.device | str | None = None
) -> Bool[Tensor, "1 1 query_pos key_pos"]:
    """Return the causal mask: each query may attend to its own position and to earlier positions.

    If there are more keys than queries, the queries are the *last* positions, as in decoding with a key-value
    cache. (PyTorch's `is_causal=True` aligns the queries with the first keys instead.)

    Raises:
        ValueError: if there are fewer keys than queries.

    >>> causal_mask(3)[0, 0].int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    return (relative_positions(query_length, key_length, device) <= 0)[None, None]


def local_mask(
    query_length: int, window: int, key_length: int | None = None, *, device: torch.device | str | None = None
) -> Bool[Tensor, "1 1 query_pos key_pos"]:
    """Return the mask of sliding-window attention: at most `window` positions away, on both sides.

    Raises:
        ValueError: if there are fewer keys than queries, or the window is negative.

    >>> local_mask(4, window=1)[0, 0].int().tolist()
    [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    """
    if window < 0:
        raise ValueError(f"window must be at least 0, got {window}")
    return (relative_positions(query_length, key_length, device).abs() <= window)[None, None]


def relative_positions(
    query_length: int, key_length: int | None, device: torch.device | str | None
) -> Integer[Tensor, "query_pos key_pos"]:
    """Return key position − query position; the last query has the position of the last key."""
    key_length = query_length if key_length is None else key_length
    if key_length < query_length:
        raise ValueError(
            f"key_length ({key_length}) must be at least query_length ({query_length}): "
            "the queries are the last positions; are the two arguments swapped?"
        )
    query_position = torch.arange(key_length - query_length, key_length, device=device)
    return torch.arange(key_length, device=device) - query_position[:, None]


def check_padding_mask(may_attend: Tensor, tokens: Tensor) -> None:
    """Raise unless `may_attend` is a padding mask of `tokens`: boolean, (batch, 1, 1, position)."""
    shape = (tokens.shape[0], 1, 1, tokens.shape[1])
    if may_attend.dtype != torch.bool or may_attend.shape != shape:
        raise ValueError(
            f"may_attend must be a padding mask, torch.bool of shape {shape}, got {described(may_attend)}; "
            "build it with padding_mask"
        )
