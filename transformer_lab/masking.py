"""Lesson 04. Masks: boolean tensors `may_attend`, True where query i may attend to key j.

Every mask has the four axes (batch, heads, query_pos, key_pos), each full or of length 1, so that masks
combine with `&` and none can be mistaken for another. Converters translate from and to other conventions:

| convention                                     | shape                      | a hidden place is        |
|------------------------------------------------|----------------------------|--------------------------|
| this package, `F.scaled_dot_product_attention` | (batch, heads, query, key) | False                    |
| `nn.MultiheadAttention(key_padding_mask=)`     | (batch, key)               | True                     |
| `nn.MultiheadAttention(attn_mask=)`            | (query, key), or per head  | True                     |
| Hugging Face `attention_mask`                  | (batch, key)               | 0                        |
| additive: added to the scores                  | that of the scores         | −inf, or a huge negative |
"""

import functools
import math
import operator

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from transformer_lab.checks import (
    can_be_read,
    check_device,
    check_fits,
    check_floating_dtype,
    check_integer,
    check_integers,
    check_number,
    check_positive,
    check_same_device,
    described,
)

Mask = Bool[Tensor, "batch heads query_pos key_pos"]
AXES = "(batch, heads, query_pos, key_pos)"


def padding_mask(
    token_ids: Integer[Tensor, "batch key_pos"], pad_id: int = 0
) -> Bool[Tensor, "batch 1 1 key_pos"]:
    """Hide every token whose id is `pad_id`, from all queries.

    Raises:
        TypeError: the ids, or pad_id, are not integers.
        ValueError: the ids are not (batch, key_pos).
    """
    check_integers("token_ids", token_ids)
    _check_rank("token_ids", token_ids, rank=2)
    check_fits(token_ids, pad_id=pad_id)
    return (token_ids != pad_id)[:, None, None, :]


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
    check_integers("lengths", lengths)
    _check_rank("lengths", lengths, rank=1)
    if lengths.numel() == 0:
        raise ValueError(
            f"lengths must hold one length per sequence, got shape {tuple(lengths.shape)}; give some"
        )
    if max_length is None:
        if not can_be_read(lengths):
            raise ValueError("max_length must be given inside vmap, which hides lengths, got None; set it")
        max_length = int(lengths.max())
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
    check_integer(window=window)
    if window < 0:
        raise ValueError(f"window must not be negative, got {window}; 0 lets each token see itself only")
    distance = _distance(query_length, key_length, device)
    return (distance.abs() <= min(window, distance.shape[-1]))[None, None]


def combine_masks(*masks: Bool[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """Allow what every mask allows.

    Raises:
        TypeError: a mask is not boolean.
        ValueError: no mask, a mask without four axes, or axes that differ and are not 1.
    """
    if not masks:
        raise ValueError(
            "combine_masks needs at least one mask, got none; leave may_attend=None to hide nothing"
        )
    for mask in masks:
        _check_boolean("may_attend", mask, rank=4)
    shapes = [tuple(mask.shape) for mask in masks]
    if any(len(set(sizes) - {1}) > 1 for sizes in zip(*shapes, strict=True)):
        raise ValueError(
            f"masks must agree on each of {AXES} or have length 1 there, got {shapes}; cut or expand"
        )
    check_same_device(**{f"mask {i}": mask for i, mask in enumerate(masks)})
    return functools.reduce(operator.and_, masks[1:], masks[0].clone())


# --- converters: from another convention to this package's, and back ------------------------------


def from_key_padding_mask(ignored: Bool[Tensor, "batch key_pos"]) -> Bool[Tensor, "batch 1 1 key_pos"]:
    """From nn.MultiheadAttention's `key_padding_mask`, where True means *ignore*."""
    _check_boolean("key_padding_mask", ignored, rank=2)
    return ~ignored[:, None, None, :]


def to_key_padding_mask(may_attend: Bool[Tensor, "batch 1 1 key_pos"]) -> Bool[Tensor, "batch key_pos"]:
    """To nn.MultiheadAttention's `key_padding_mask`, where True means *ignore*."""
    return ~_keys_only(may_attend)


def from_attn_mask(
    ignored: Bool[Tensor, "query_pos key_pos"] | Bool[Tensor, "batch_heads query_pos key_pos"],
    n_heads: int | None = None,
) -> Bool[Tensor, "..."]:
    """From nn.MultiheadAttention's `attn_mask` (True = *ignore*); `n_heads` unfolds a (batch·heads) axis."""
    if isinstance(ignored, Tensor) and ignored.dim() == 2:
        _check_boolean("attn_mask", ignored, rank=2)
        return ~ignored[None, None]
    _check_boolean("attn_mask", ignored, rank=3)
    check_positive(n_heads=1 if n_heads is None else n_heads)
    if n_heads is None or len(ignored) % n_heads:
        raise ValueError(
            f"attn_mask's first axis is batch·heads = {len(ignored)}; give n_heads, a divisor, got {n_heads}"
        )
    return ~ignored.unflatten(0, (-1, n_heads))


def to_attn_mask(may_attend: Mask, n_heads: int, batch: int | None = None) -> Bool[Tensor, "..."]:
    """To nn.MultiheadAttention's `attn_mask` (True = *ignore*).

    (query_pos, key_pos) if all sequences and heads share it, else (batch·heads, query_pos, key_pos).
    """
    _check_boolean("may_attend", may_attend, rank=4)
    check_positive(n_heads=n_heads)
    sequences, heads, *length = may_attend.shape
    check_positive(batch=sequences if batch is None else batch)
    is_one_query = (sequences, heads, length[0]) == (1, 1, 1)  # as `causal_mask(1, 5)`
    if 1 in length and not is_one_query:
        raise ValueError(
            "may_attend must have a row for every query and a column for every key, because attn_mask is not "
            f"broadcast, got shape {tuple(may_attend.shape)}; use to_key_padding_mask, or expand the axis"
        )
    if (sequences, heads) == (1, 1) and batch is None:
        return ~may_attend[0, 0]
    batch = sequences if batch is None else batch
    if sequences not in (1, batch) or heads not in (1, n_heads):
        raise ValueError(
            f"may_attend must have a batch axis of {batch} or 1 and a head axis of {n_heads} or 1, "
            f"got shape {tuple(may_attend.shape)}; pass the model's own batch and n_heads"
        )
    return ~may_attend.expand(batch, n_heads, -1, -1).flatten(0, 1)


def from_attention_mask(ones: Integer[Tensor, "batch key_pos"]) -> Bool[Tensor, "batch 1 1 key_pos"]:
    """From Hugging Face's `attention_mask`: 1 for a real token, 0 for padding."""
    check_integers("attention_mask", ones)
    _check_rank("attention_mask", ones, rank=2)
    if can_be_read(ones) and not ((ones == 0) | (ones == 1)).all():
        raise ValueError(
            f"attention_mask must hold only 0 and 1, got {ones.unique().tolist()}; see from_additive_mask"
        )
    return ones.bool()[:, None, None, :]


def to_attention_mask(may_attend: Bool[Tensor, "batch 1 1 key_pos"]) -> Integer[Tensor, "batch key_pos"]:
    """To Hugging Face's `attention_mask`: 1 for a real token, 0 for padding."""
    return _keys_only(may_attend).long()


def from_additive_mask(bias: Float[Tensor, "batch heads query_pos key_pos"]) -> Mask:
    """From a mask that is added to the scores: 0 keeps, −10⁴ or less hides: exp(−10⁴) is 0 in every dtype.

    Raises:
        ValueError: any other value, because it would shift scores rather than hide them.
    """
    if not isinstance(bias, Tensor) or not bias.is_floating_point() or bias.dim() != 4:
        raise TypeError(
            f"an additive mask is a floating-point tensor {AXES}, got {described(bias)}; see to_additive_mask"
        )
    hidden = bias <= -1e4
    if can_be_read(bias) and not (hidden | (bias == 0)).all():
        raise ValueError(
            "an additive mask holds 0 or a huge negative number, got others; add a score bias yourself"
        )
    return ~hidden


def to_additive_mask(
    may_attend: Mask, dtype: torch.dtype | None = None, hidden: float = -math.inf
) -> Float[Tensor, "batch heads query_pos key_pos"]:
    """To a mask that is added to the scores: 0 where attention is allowed, `hidden` elsewhere.

    Raises ValueError for a `hidden` above −10⁴, which would not hide, or beyond the dtype's numbers.
    """
    _check_boolean("may_attend", may_attend, rank=4)
    dtype = torch.get_default_dtype() if dtype is None else dtype
    check_floating_dtype(dtype)
    lowest = torch.finfo(dtype).min
    if not (isinstance(hidden, float) and hidden == -math.inf):
        check_number(hidden=hidden)
        if not lowest <= hidden <= -1e4:
            raise ValueError(
                f"hidden must be −inf, or from {lowest:.4g} to −10⁴ in {dtype}, got {hidden}; leave it out"
            )
    bias = torch.zeros(may_attend.shape, dtype=dtype, device=may_attend.device)
    return bias.masked_fill(~may_attend, hidden)


def _distance(query_length: int, key_length: int | None, device: torch.device | str | None) -> Tensor:
    """key position − query position, the last query standing at the last key.  (query_pos, key_pos)"""
    key_length = query_length if key_length is None else key_length
    check_positive(query_length=query_length, key_length=key_length)
    check_device(device)
    if key_length < query_length:
        raise ValueError(
            f"key_length ({key_length}) must be at least query_length ({query_length}): "
            "queries stand at the last positions; swap the two arguments?"
        )
    query_position = torch.arange(key_length - query_length, key_length, device=device)
    return torch.arange(key_length, device=device) - query_position[:, None]


def _keys_only(may_attend: Mask) -> Bool[Tensor, "batch key_pos"]:
    _check_boolean("may_attend", may_attend, rank=4)
    if may_attend.shape[1:3] != (1, 1):
        raise ValueError(
            f"only a padding mask (batch, 1, 1, key_pos) fits here, got shape {tuple(may_attend.shape)}; "
            "use to_attn_mask or to_additive_mask"
        )
    return may_attend[:, 0, 0, :]


def _check_boolean(name: str, mask: Tensor, rank: int) -> None:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise TypeError(
            f"{name} must be a boolean tensor, got {described(mask)}; compare first, for example ids == 0"
        )
    _check_rank(name, mask, rank)


def _check_rank(name: str, tensor: Tensor, rank: int) -> None:
    axes = {
        1: "(batch)",
        2: "(batch, key_pos) or (query_pos, key_pos)",
        3: "(batch·heads, query_pos, key_pos)",
        4: AXES,
    }
    if tensor.dim() != rank:
        raise ValueError(
            f"{name} must have the axes {axes[rank]}, got shape {tuple(tensor.shape)}; index with None"
        )
