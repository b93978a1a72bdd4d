"""What the parts ask of their input where a mistake would pass in silence, or surface far from its cause.

Each error says what came, what was wanted and what to do about it. What Python or PyTorch says clearly enough
is left to them.
"""

import math
from numbers import Integral, Real

import torch
from torch import Tensor


def check_integer(at_least: int | None = None, at_most: int | None = None, **integers: int) -> None:
    """Raise unless every named number is an integer, Python's or NumPy's, within the bounds."""
    for name, number in integers.items():
        if isinstance(number, bool) or not isinstance(number, Integral | torch.SymInt):
            kind = type(number).__name__
            raise TypeError(f"{name} must be an integer, got {number!r:.40} ({kind}); try int({name})")
        if at_least is not None and number < at_least:
            raise ValueError(f"{name} must be at least {at_least}, got {number}; choose a larger one")
        if at_most is not None and number > at_most:
            raise ValueError(f"{name} must be at most {at_most:,}, got {number}; choose a smaller one")


def check_positive(**sizes: int) -> None:
    """Raise unless every named size is an integer of at least one."""
    check_integer(at_least=1, **sizes)


def check_even(**sizes: int) -> None:
    """Raise unless every named size is positive and even, because features are used in pairs."""
    check_positive(**sizes)
    for name, size in sizes.items():
        if size % 2:
            raise ValueError(f"{name} must be even (features go in pairs), got {size}; try {name}={size + 1}")


def check_number(above: float | int = -math.inf, usual: str = "another", **numbers: float | int) -> None:
    """Raise unless every named number is finite and larger than `above`; `usual` is what to try."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, Real | torch.SymFloat):
            kind = type(number).__name__
            raise TypeError(f"{name} must be a number, got {number!r:.40} ({kind}); try float({name})")
        if not above < number < math.inf:
            wanted = "finite" if above == -math.inf else f"above {above} and finite"
            raise ValueError(f"{name} must be {wanted}, got {number}; try {usual}")


def check_flag(**flags: bool) -> None:
    """Raise unless every named flag is True or False: "no" would count as True."""
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be True or False, got {flag!r:.40}; choose one")


def check_floating(**tensors: Tensor) -> None:
    """Raise unless every named argument is a dense tensor of floating-point numbers.

    With some sparse and nested tensors PyTorch computes, with others it fails without naming the cause.
    """
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            remedy = f"{name}, weights = …" if isinstance(tensor, tuple) else f"torch.as_tensor({name})"
            raise TypeError(
                f"{name} must be a floating-point tensor, got {type(tensor).__name__}; try {remedy}"
            )
        if not tensor.is_floating_point():
            raise TypeError(
                f"{name} must be a floating-point tensor, got {tensor.dtype}; convert it with .float(), "
                "or, if it is a mask, pass it as may_attend="
            )
        if tensor.layout != torch.strided or tensor.is_nested:
            layout = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
            remedy = "pad it, with a padding mask" if tensor.is_nested else f"try {name}.to_dense()"
            raise TypeError(f"{name} must be a dense tensor, got a {layout} one; {remedy}")


def check_readable(**tensors: Tensor) -> None:
    """Raise unless the named tensors hold numbers, which on the meta device none does."""
    for name, tensor in tensors.items():
        if tensor.is_meta:
            raise ValueError(f"{name} must hold numbers, got a tensor on meta, which has none; use the CPU")


def check_shape_kept(part: str, got: Tensor, x: Tensor) -> None:
    """Raise unless what a part that was handed in returned is a tensor like x: no broadcasting later."""
    if not isinstance(got, Tensor) or got.shape != x.shape:
        raise ValueError(
            f"{part} must return {described(x)}, as it came, got {described(got)}; mend that part"
        )


def check_integers(name: str, tensor: Tensor, *axes: str) -> None:
    """Raise unless the tensor holds integers, and has these axes if they are named."""
    integers = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    if not isinstance(tensor, Tensor) or tensor.dtype not in integers:
        raise TypeError(
            f"{name} must be an integer tensor, got {described(tensor)}; try torch.tensor(…).long()"
        )
    if axes:
        check_axes(name, tensor, *axes)


def check_axes(name: str, tensor: Tensor, *axes: str) -> None:
    """Raise unless the tensor has as many axes: broadcasting would make up for one too few."""
    if tensor.dim() != len(axes):
        raise ValueError(
            f"{name} must have the axes ({', '.join(axes)}), got shape {tuple(tensor.shape)}; "
            "add a missing one with [None]"
        )


def described(thing: object) -> str:
    """What a thing is, in words: a tensor by its dtype and shape, anything else by its type."""
    if isinstance(thing, Tensor):
        return f"{thing.dtype} of shape {tuple(thing.shape)}"
    return type(thing).__name__


def check_alike(**tensors: Tensor) -> None:
    """Raise unless the named tensors are floating-point and share one dtype and one device."""
    check_floating(**tensors)
    check_same_device(**tensors)
    (first, reference), *others = tensors.items()
    for name, tensor in others:
        if tensor.dtype != reference.dtype:
            raise TypeError(
                f"{name} is {tensor.dtype} but {first} is {reference.dtype}; "
                f"convert one of them, for example {name}.to({reference.dtype})"
            )


def check_same_device(**tensors: Tensor) -> None:
    """Raise unless the named tensors are on one device: beside meta, a product may be on meta."""
    (first, reference), *others = tensors.items()
    for name, tensor in others:
        if tensor.device != reference.device:
            raise ValueError(
                f"{name} is on {tensor.device} but {first} is on {reference.device}; "
                f"move one of them, for example {name}.to('{reference.device}')"
            )


def check_vectors(name: str, x: Tensor, width: int | None = None, *, rank: int | None = 3) -> None:
    """Raise unless `x` holds vectors of `width` features (of any if None).

    With `rank=3` the axes must be (batch, position, width); with `rank=None` any leading axes will do.
    """
    check_floating(**{name: x})
    if rank is not None:
        check_axes(name, x, "batch", "position", "features")
    if width is not None and (x.dim() == 0 or x.shape[-1] != width):
        raise ValueError(
            f"{name} must be {width} wide on its last axis, got shape {tuple(x.shape)}; "
            "check d_model or d_head"
        )
    check_not_empty(name, x)


def is_autocast_on(device: torch.device) -> bool:
    """Whether autocast chooses the dtype of each matrix product, so that mixed dtypes are no mistake."""
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def can_be_read(x: Tensor) -> bool:
    """Whether a check may look at the numbers: not on the meta device, while compiling, or inside vmap."""
    if x.is_meta or torch.compiler.is_compiling():
        return False
    return torch._C._functorch.maybe_current_level() is None  # no torch.func transform is at work


def check_not_empty(name: str, x: Tensor, axis: int = -2) -> None:
    """Raise where the axis of positions has length zero: there is nothing to attend to."""
    if x.dim() >= 2 and x.shape[axis] == 0:
        raise ValueError(f"{name} has no positions, got shape {tuple(x.shape)}; give at least one token")


def check_may_attend(may_attend: Tensor, scores_shape: tuple[int, ...], query: Tensor) -> None:
    """Raise unless `may_attend` is boolean, on the query's device, and has the axes of the scores.

    Each axis is full or of length 1.

    The rank must match exactly: broadcasting would let a (batch, key_pos) mask pass for (query_pos, key_pos)
    whenever the two lengths happen to be equal.
    """
    if not isinstance(may_attend, Tensor):
        raise TypeError(
            f"may_attend must be a boolean tensor, got {type(may_attend).__name__}; try torch.tensor(…)"
        )
    if may_attend.dtype != torch.bool:
        raise TypeError(
            f"may_attend must be boolean (True = may attend), got {may_attend.dtype}; "
            "mask_conventions converts: from_attention_mask (0/1), from_additive_mask (0/−inf)"
        )
    check_same_device(query=query, may_attend=may_attend)
    if may_attend.dim() != len(scores_shape):
        raise ValueError(
            f"may_attend has shape {tuple(may_attend.shape)}, wanted {len(scores_shape)} axes "
            f"({_each_or_1(scores_shape)}); "
            "a (batch, key_pos) mask becomes mask[:, None, None, :], "
            "a (query_pos, key_pos) mask becomes mask[None, None]"
        )
    if any(size not in (full, 1) for size, full in zip(may_attend.shape, scores_shape, strict=True)):
        raise ValueError(
            f"may_attend has shape {tuple(may_attend.shape)}, wanted ({_each_or_1(scores_shape)}); "
            "its axes are (batch, heads, query_pos, key_pos)"
        )


def _each_or_1(shape: tuple[int, ...]) -> str:
    return ", ".join(f"{size} or 1" for size in shape)


def check_token_ids(token_ids: Tensor, vocab_size: int, device: torch.device) -> None:
    """Raise unless the ids are integers (batch, position) within the vocabulary, on the model's device."""
    if not isinstance(token_ids, Tensor) or token_ids.dtype not in (torch.int64, torch.int32):
        got = token_ids.dtype if isinstance(token_ids, Tensor) else type(token_ids).__name__
        raise TypeError(
            f"token_ids must be a tensor of int64 or int32, got {got}; try torch.tensor(ids).long()"
        )
    check_axes("token_ids", token_ids, "batch", "position")
    check_not_empty("token_ids", token_ids, axis=1)
    if token_ids.device != device:  # ids on meta would make vectors on meta
        raise ValueError(
            f"token_ids are on {token_ids.device}, the model on {device}; use token_ids.to('{device}')"
        )
    if not can_be_read(token_ids):
        return
    if token_ids.numel() and (token_ids.min() < 0 or token_ids.max() >= vocab_size):
        raise ValueError(
            f"token ids must be from 0 to {vocab_size - 1}, "
            f"got {int(token_ids.min())} to {int(token_ids.max())}; does the tokenizer belong to this model?"
        )
