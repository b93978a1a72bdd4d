"""What every part asks of its input before it computes.

Each error says what came, what was wanted and what to do about it.
"""

import math
import sys
from numbers import Real

import torch
from torch import Tensor

LARGEST = 10**9  # what is larger is a slip: no memory holds it
MOST = {"n_layers": 10_000, "pads": 10_000}  # of what is made one by one, which would never end
NUMPY = ("int32", "int64")  # narrower or unsigned ones overflow where they meet Python's


def check_integer(at_least: int | None = None, at_most: int | None = None, **integers: int) -> None:
    """Raise unless every named number is an integer, Python's or NumPy's, within the bounds."""
    for name, number in integers.items():
        kind = type(number).__name__
        if isinstance(number, bool) or not (isinstance(number, int | torch.SymInt) or kind in NUMPY):
            raise TypeError(f"{name} must be an integer, got {number!r:.40} ({kind}); try int({name})")
        if at_least is not None and number < at_least:
            raise ValueError(f"{name} must be at least {at_least}, got {number}; choose a larger one")
        if at_most is not None and number > at_most:
            raise ValueError(f"{name} must be at most {at_most:,}, got {number}; choose a smaller one")


def check_positive(**sizes: int) -> None:
    """Raise unless every named size is an integer of at least one, and none is beyond all memory."""
    for name, size in sizes.items():
        check_integer(**{name: size}, at_least=1, at_most=MOST.get(name, LARGEST))


def check_even(**sizes: int) -> None:
    """Raise unless every named size is positive and even, because features are used in pairs."""
    check_positive(**sizes)
    for name, size in sizes.items():
        if size % 2:
            raise ValueError(f"{name} must be even (features go in pairs), got {size}; try {name}={size + 1}")


def check_number(above: float | int = -math.inf, usual: str = "another", **numbers: float | int) -> None:
    """Raise unless every named number is finite and larger than `above`; `usual` is what to try."""
    for name, number in numbers.items():
        _check_real(name, number)
        beyond = isinstance(number, int) and number > sys.float_info.max  # no float holds it
        if not above < number < math.inf or beyond:
            wanted = "finite" if above == -math.inf else f"above {above} and finite"
            raise ValueError(f"{name} must be {wanted}, got {number}; try {usual}")


def _check_real(name: str, number: float | int) -> None:
    known = isinstance(number, int | float | torch.SymFloat)
    if isinstance(number, bool) or not (known or (isinstance(number, Real) and hasattr(number, "dtype"))):
        raise TypeError(
            f"{name} must be a number, got {number!r:.40} ({type(number).__name__}); try float({name})"
        )


def check_flag(**flags: bool) -> None:
    """Raise unless every named flag is True or False: "no" would count as True."""
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be True or False, got {flag!r:.40}; choose one")


def check_probability(**probabilities: float) -> None:
    """Raise unless every named dropout probability p satisfies 0 ≤ p < 1."""
    for name, p in probabilities.items():
        _check_real(name, p)
        if not 0.0 <= p < 1.0:
            raise ValueError(
                f"{name} must be at least 0 and below 1, got {p}; it is the share that is dropped"
            )


def check_parts(**parts: object) -> None:
    """Raise unless every named part is a module or a function, built and ready to be called."""
    for name, part in parts.items():
        if isinstance(part, type):
            raise TypeError(f"{name} must be built, got the class {part.__name__}; try {part.__name__}(…)")
        if not callable(part):
            raise TypeError(
                f"{name} must be a module or a function, got {part!r:.40} ({type(part).__name__}); "
                "build the part and hand it over"
            )


def check_floating(**tensors: Tensor) -> None:
    """Raise unless every named argument is a floating-point tensor."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            remedy = f"{name}, weights = …" if isinstance(tensor, tuple) else f"torch.as_tensor({name})"
            raise TypeError(
                f"{name} must be a floating-point tensor, got {type(tensor).__name__}; try {remedy}"
            )
        if not tensor.is_floating_point() or tensor.dtype.itemsize < 2:
            raise TypeError(
                f"{name} must be a floating-point tensor, got {tensor.dtype}; convert it with .float(), "
                "or, if it is a mask, pass it as may_attend="
            )
        check_dense(**{name: tensor})


def check_dense(**tensors: Tensor) -> None:
    """Raise if a named tensor is sparse or nested: attention reads whole rows."""
    for name, tensor in tensors.items():
        if isinstance(tensor, Tensor) and (tensor.layout != torch.strided or tensor.is_nested):
            remedy = f"{name}.to_dense()"
            if tensor.is_nested:
                remedy = f"torch.nested.to_padded_tensor({name}, 0) and a padding mask"
            layout = "nested" if tensor.is_nested else str(tensor.layout).removeprefix("torch.")
            raise TypeError(f"{name} must be a dense tensor, got a {layout} one; try {remedy}")


def check_readable(**tensors: Tensor) -> None:
    """Raise unless the named tensors are dense and hold numbers, which on the meta device none does."""
    check_dense(**tensors)
    for name, tensor in tensors.items():
        if isinstance(tensor, Tensor) and tensor.is_meta:
            raise ValueError(f"{name} must hold numbers, got a tensor on meta, which has none; use the CPU")


def check_shape_kept(part: str, got: Tensor, x: Tensor) -> None:
    """Raise unless what a part that was handed in returned is a tensor like x: no broadcasting later."""
    if not isinstance(got, Tensor) or got.shape != x.shape:
        raise ValueError(
            f"{part} must return {described(x)}, as it came, got {described(got)}; mend that part"
        )


def check_integers(name: str, tensor: Tensor) -> None:
    """Raise unless the tensor holds integers."""
    check_dense(**{name: tensor})
    integers = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
    if not isinstance(tensor, Tensor) or tensor.dtype not in integers:
        raise TypeError(
            f"{name} must be an integer tensor, got {described(tensor)}; try torch.tensor(…).long()"
        )


def check_floating_dtype(dtype: torch.dtype) -> None:
    """Raise unless `dtype` is one of floating-point numbers."""
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point or dtype.itemsize < 2:
        raise TypeError(f"dtype must be floating-point, got {dtype}; try torch.float32, or leave it out")


def check_device(device: torch.device | str | None) -> None:
    """Raise unless the device has a name that PyTorch knows, or is None."""
    try:
        torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be a device's name, got {device!r}; try 'cpu' or 'cuda'") from error


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
    """Raise unless the named tensors are dense and on one device."""
    check_dense(**tensors)
    (first, reference), *others = tensors.items()
    for name, tensor in others:
        if tensor.device != reference.device:
            raise ValueError(
                f"{name} is on {tensor.device} but {first} is on {reference.device}; "
                f"move one of them, for example {name}.to('{reference.device}')"
            )


def check_vectors(
    name: str, x: Tensor, width: int | None = None, weight: Tensor | None = None, *, rank: int | None = 3
) -> None:
    """Raise unless `x` holds vectors of `width` features (of any if None) that `weight` can multiply.

    With `rank=3` the axes must be (batch, position, width); with `rank=None` any leading axes will do.
    """
    check_floating(**{name: x})
    if rank is not None and x.dim() != rank:
        axes = f"(batch, position, {width or 'features'})"
        raise ValueError(
            f"{name} must have {rank} axes {axes}, got shape {tuple(x.shape)}; "
            "for a single sequence add the batch axis with [None]"
        )
    if width is not None and (x.dim() == 0 or x.shape[-1] != width):
        raise ValueError(
            f"{name} must be {width} wide on its last axis, got shape {tuple(x.shape)}; "
            "check d_model or d_head"
        )
    check_not_empty(name, x)
    if isinstance(weight, Tensor):  # a quantised Linear has a method of that name, and checks for itself
        check = check_same_device if is_autocast_on(x.device) else check_alike
        check(weights=weight, **{name: x})


def is_autocast_on(device: torch.device) -> bool:
    """Whether autocast chooses the dtype of each matrix product, so that mixed dtypes are no mistake."""
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def can_be_read(x: Tensor) -> bool:
    """Whether a check may look at the numbers: not on the meta device, while compiling, or inside vmap."""
    if x.is_meta or torch.compiler.is_compiling():
        return False
    return torch._C._functorch.maybe_current_level() is None  # no torch.func transform is at work


def check_not_empty(name: str, x: Tensor) -> None:
    """Raise where the position axis, the last but one, has length zero: there is nothing to attend to."""
    if x.dim() >= 2 and x.shape[-2] == 0:
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
    check_dense(token_ids=token_ids)
    if not isinstance(token_ids, Tensor) or token_ids.dtype not in (torch.int64, torch.int32):
        got = token_ids.dtype if isinstance(token_ids, Tensor) else type(token_ids).__name__
        raise TypeError(
            f"token_ids must be a tensor of int64 or int32, got {got}; try torch.tensor(ids).long()"
        )
    if token_ids.dim() != 2:
        raise ValueError(
            f"token_ids must have the axes (batch, position), got shape {tuple(token_ids.shape)}; "
            "for a single sequence add the batch axis with [None]"
        )
    if token_ids.shape[1] == 0:
        raise ValueError(
            f"token_ids has no positions, got shape {tuple(token_ids.shape)}; give at least one token"
        )
    if token_ids.device != device:
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
