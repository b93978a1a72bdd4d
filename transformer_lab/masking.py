"""Lesson 04. Masks: boolean tensors `may_attend`, True where query i may attend to key j.

Every mask has the four axes (batch, heads, query_pos, key_pos), each full or of length 1, so that masks
combine with `&` and none can be mistaken for another. `mask_conventions` converts those of other libraries.
"""

import functools
import operator

import torch
from jaxtyping import Bool, Integer
from torch import Tensor

from transformer_lab.validation import (
    can_be_read,
    check_axes,
    check_integer,
    check_integers,
    check_positive,
    check_same_device,
    described,
)

Mask = Bool[Tensor, "batch heads query_pos key_pos"]
AXES = ("batch", "heads", "query_pos", "key_pos")


def padding_mask(
    token_ids: Integer[Tensor, "batch key_pos"], pad_id: int = 0
) -> Bool[Tensor, "batch 1 1 key_pos"]:
    """Hide every token whose id is `pad_id`, from all queries.

    Raises:
        TypeError: the ids, or pad_id, are not integers.
        ValueError: the ids are not (batch, key_pos).
    """
    check_integers("token_ids", token_ids, "batch", "key_pos")
    check_integer(pad_id=pad_id)
    # As int64: uint8 has no 256, and would take it for 0.
    return (token_ids.long() != pad_id)[:, None, None, :]


def padding_mask_from_lengths(
    lengths: Integer[Tensor, " batch"], max_length: int | None = None
) -> Bool[Tensor, "batch 1 1 key_pos"]:
    """Hide every position from `lengths[b]` on, in each sequence b.

    Args:
        lengths: number of real tokens in each sequence.
        max_length: length of the padded sequences; the longest one if None.

    Raises:
        TypeError: the lengths are not integers.
        ValueError: a length is negative or exceeds `max_length`.
    """
    check_integers("lengths", lengths, "batch")
    max_length = int(lengths.max()) if max_length is None else max_length
    check_positive(max_length=max_length)
    if can_be_read(lengths) and (lengths.min() < 0 or lengths.max() > max_length):
        raise ValueError(
            f"lengths must be from 0 to max_length={max_length}, got {lengths.tolist()}; raise max_length"
        )
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
    distance = _distance(query_length, key_length, device)
    return (distance <= 0)[None, None]


def local_mask(
    query_length: int, window: int, key_length: int | None = None, *, device: torch.device | str | None = None
) -> Bool[Tensor, "1 1 query_pos key_pos"]:
    """Let each query attend to the positions at most `window` away, on both sides: sliding-window attention.

    Raises:
        ValueError: a negative window, or fewer keys than queries.

    >>> local_mask(4, window=1)[0, 0].int().tolist()
    [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    """
    check_integer(window=window, at_least=0)
    distance = _distance(query_length, key_length, device)
    return (distance.abs() <= min(window, distance.shape[-1]))[None, None]


def combine_masks(*masks: Bool[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """Allow what every mask allows.

    Raises:
        TypeError: a mask is not boolean.
        ValueError: a mask without four axes.
    """
    for mask in masks:
        check_boolean("may_attend", mask, *AXES)
    check_same_device(**{f"mask {i}": mask for i, mask in enumerate(masks)})
    return functools.reduce(operator.and_, masks[1:], masks[0].clone())


def _distance(query_length: int, key_length: int | None, device: torch.device | str | None) -> Tensor:
    """key position − query position, the last query standing at the last key.  (query_pos, key_pos)"""
    key_length = query_length if key_length is None else key_length
    check_positive(query_length=query_length, key_length=key_length)
    if key_length < query_length:
        raise ValueError(
            f"key_length ({key_length}) must be at least query_length ({query_length}): "
            "queries stand at the last positions; swap the two arguments?"
        )
    query_position = torch.arange(key_length - query_length, key_length, device=device)
    return torch.arange(key_length, device=device) - query_position[:, None]


# --- checks ---------------------------------------------------------------------------------------


def check_boolean(name: str, mask: Tensor, *axes: str) -> None:
    """Raise unless the mask is boolean and has these axes."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise TypeError(
            f"{name} must be a boolean tensor, got {described(mask)}; compare first, for example ids == 0"
        )
    check_axes(name, mask, *axes)


def check_padding_mask(may_attend: Tensor, tokens: Tensor) -> None:
    """Raise unless `may_attend` is the padding mask of these tokens: boolean, (batch, 1, 1, position)."""
    shape = (len(tokens), 1, 1, tokens.shape[1])
    check_boolean("may_attend", may_attend, *AXES)
    check_same_device(tokens=tokens, may_attend=may_attend)
    if tuple(may_attend.shape) != shape:
        raise ValueError(
            f"may_attend must be a padding mask of shape {shape}, got {tuple(may_attend.shape)}; "
            "see padding_mask"
        )
