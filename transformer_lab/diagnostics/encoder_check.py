"""Check your own encoder: copy the weights of a reference into your layer, then run all diagnostics."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from transformer_lab.diagnostics.divergence.mistakes import ACTIVATIONS, divisors
from transformer_lab.diagnostics.divergence.search import (
    PROVED,
    Divergence,
    agreement,
    compare,
    copy_of,
    private_copy,
    random_tokens,
    record,
    written_out,
)
from transformer_lab.diagnostics.divergence.steps import EncoderLayerSteps
from transformer_lab.diagnostics.property_checks import (
    PropertyCheck,
    batch_invariance,
    eval_determinism,
    output_of,
    padding_invariance,
    permutation_equivariance,
)
from transformer_lab.diagnostics.weight_pairing import Pair, Weights, pairings, weights_of
from transformer_lab.masking import padding_mask_from_lengths

EPS = (1e-5, 1e-6, 1e-12)  # of references; 1e-8 is indistinguishable from 1e-12 with a float32 softmax
CLOSE = 1e-5  # maximum difference from a reference, which may compute its softmax in float32


@dataclass(frozen=True)
class EncoderCheck:
    """The result of `check_encoder`; its repr is a report.

    Attributes:
        checks: the results of the property checks; a message for a check that your module could not run.
        masked: whether padding invariance was checked.
        pairs: your parameters, each with the parameters of the reference that were copied into it.
        guessed: pairs that names, shapes and computed tensors do not determine.
        yours_only: your parameters without a counterpart, which were left unchanged.
        reference_only: parameters of the reference without a counterpart; its biases and norms among them
            were given values without effect.
        divergence: the first divergence; None without a reference.
    """

    checks: list[PropertyCheck | str]
    masked: bool
    pairs: list[Pair]
    guessed: list[Pair]
    yours_only: list[str]
    reference_only: list[str]
    divergence: Divergence | None

    @property
    def holds(self) -> bool:
        """Whether every property holds and there is no divergence."""
        agrees = self.divergence is None or self.divergence.step is None
        return agrees and all(isinstance(check, PropertyCheck) and check.holds for check in self.checks)

    def __repr__(self) -> str:
        lines = [str(check) for check in self.checks]
        if not self.masked:
            lines.append("– padding invariance was not checked: masked=False")
        if self.divergence is not None:
            lines += [f"{len(self.pairs)} of your parameters were set to the values of the reference."]
            lines += [*self._doubts(), str(self.divergence)]
        return "\n".join(lines)

    def _doubts(self) -> list[str]:
        lines = []
        if self.guessed:
            lines += ["  Guessed by their order; correct a wrong pair with pairs={…}:"]
            lines += [f"    {pair}" for pair in self.guessed]
        idle = [
            name
            for name in self.reference_only
            if name.startswith("norm")
            or (name.endswith("bias") and name.replace("bias", "weight") not in self.reference_only)
        ]
        missing = [name for name in self.reference_only if name not in idle]
        if idle:
            lines.append(f"  Your layer has no {', '.join(idle)}: disabled in the reference as well.")
        if missing:
            lines.append(f"  No parameter of yours corresponds to the reference's {', '.join(missing)}.")
        if self.yours_only:
            lines.append(
                f"  Your parameters without a counterpart, left unchanged: {', '.join(self.yours_only)}."
            )
        return lines


class Called(nn.Module):
    """A wrapper that calls a module with `forward` and returns only its output."""

    def __init__(self, module: nn.Module, forward: Callable, *, masked: bool) -> None:
        super().__init__()
        self.module, self.call, self.masked = module, forward, masked

    def forward(self, x: Tensor, may_attend: Tensor | None = None) -> Tensor:
        """Return the module's output; without a mask, every token may attend to every token."""
        if may_attend is None:
            batch, length = x.shape[:2]
            may_attend = x.new_ones(batch, 1, 1, length, dtype=torch.bool)
        try:
            return output_of(
                self.call(self.module, x, may_attend) if self.masked else self.call(self.module, x)
            )
        except Exception as error:
            mask = f" and may_attend {tuple(may_attend.shape)}" if self.masked else " and no mask"
            error.add_note(
                f"Your module was called with x {tuple(x.shape)}{mask}: (batch, position, …). If it expects "
                "other inputs, pass forward=lambda yours, x, may_attend: …, or masked=False if it takes no "
                "mask. Is batch_first=True missing?"
            )
            raise


class AroundAttention(nn.Module):
    """An attention module in a post-norm layer whose other submodules are those of the reference."""

    def __init__(self, attention: nn.Module, layer: nn.TransformerEncoderLayer) -> None:
        super().__init__()
        self.attention, self.layer = attention, layer

    def forward(self, x: Tensor, may_attend: Tensor | None = None) -> Tensor:
        """Return the output of nn.TransformerEncoderLayer with norm_first=False and this attention."""
        layer = self.layer
        x = layer.norm1(x + self.attention(x, may_attend))
        return layer.norm2(x + layer.linear2(layer.linear1(x).relu()))


@torch.no_grad()
def check_encoder(
    yours: nn.Module,
    reference: nn.Module | None = None,
    *,
    forward: Callable | None = None,
    masked: bool = True,
    x: Float[Tensor, "batch position d_model"] | Integer[Tensor, "batch position"] | None = None,
    may_attend: Bool[Tensor, "..."] | None = None,
    pairs: Mapping[str, str] | None = None,
) -> EncoderCheck:
    """Run the property checks on your module, and compare it with a reference that has the same weights.

    Parameters are paired by name and shape. A copy of your module and a copy of the reference are given the
    same random weights, so that no mistake is hidden by a bias of 0; your objects are not changed. If several
    pairings are possible, the pairing with which most steps agree is used, and the report lists the guesses.

    Args:
        yours: an encoder layer, or an attention module if the reference is an nn.MultiheadAttention. Without
            a reference, any encoder.
        reference: an nn.TransformerEncoderLayer or an nn.MultiheadAttention, or a layer that computes the
            same, such as the BertLayer of Hugging Face or this package's EncoderLayer; with the sizes of your
            module.
        forward: calls your module as forward(yours, x, may_attend), where may_attend is True for a token that
            may be attended to, (batch, 1, 1, position); see mask_conventions for other formats. Returns the
            output, or (output, …). If None, yours(x, may_attend=may_attend).
        masked: False for a module without a padding mask, which is called as forward(yours, x).
        x: input of the checks and of the comparison; if None, random vectors. Required without a reference.
        may_attend: mask of the comparison; if None, it hides the end of each sequence. If your layer applies
            a mask of its own, pass the same mask here, for example causal_mask(5).
        pairs: corrects wrong guesses: a role (query, key, value, out_proj, linear1, linear2, norm1, norm2) →
            the name of your parameter, or of the module that contains it.

    Raises:
        TypeError: if the reference is not a module, or is a whole nn.TransformerEncoder.
        ValueError: if neither reference nor x is given; if the reference computes another formula, or its
            d_ff equals d_model; if several parameters have the same role, as in a stack of layers.
    """
    if forward is None:
        forward = (
            (lambda yours, x, may_attend: yours(x, may_attend=may_attend)) if masked else nn.Module.__call__
        )
    if reference is None:
        if x is None:
            raise ValueError("x is required without a reference, got neither; it gives the sizes")
        return EncoderCheck(_checks(Called(yours, forward, masked=masked), x), masked, [], [], [], [], None)

    mine, layer = private_copy("yours", yours), as_torch_layer(reference)
    if x is None:
        x = random_tokens(layer.linear1.in_features, torch.float32)
    batch, length = x.shape[:2]
    d_model, n_heads = layer.linear1.in_features, layer.self_attn.num_heads
    if may_attend is not None and not _fits(may_attend, (batch, n_heads, length, length)):
        raise ValueError(
            f"may_attend must have the 4 axes of the scores, {(batch, n_heads, length, length)}, each full "
            f"or of length 1, got {tuple(may_attend.shape)}; x has {length} positions (5 by default)"
        )
    mask = may_attend
    if masked and may_attend is None:  # sequences of different lengths
        mask = padding_mask_from_lengths(torch.tensor([length - 1 - i % 2 for i in range(batch)]), length)

    whole = not isinstance(reference, nn.MultiheadAttention)  # a whole layer, not only attention
    agree, tried = [], []
    for candidate in pairings(mine, d_model, layer.linear1.out_features, n_heads, pairs or {}):
        filled, same = copy_weights(mine, layer, candidate, whole=whole)
        called = Called(filled, forward, masked=masked)
        called = called if whole else AroundAttention(called, same)
        right = EncoderLayerSteps(same, x.double(), may_attend)
        steps = agreement(right, *record(called, right))
        if not tried or len(steps) > len(agree):
            agree, tried = steps, []
        if len(steps) == len(agree):
            tried.append((candidate, same, called))
        if "output" in agree:
            break
    chosen, same, called = tried[0]
    divergence = compare(called, written_out(same, x, mask))
    settled = "output" in agree or PROVED in divergence.cause
    paired = {pair.name for pair in chosen}
    unused, _ = copy_weights(mine, layer, chosen, whole=whole)  # `called` may have cached float64 tensors
    return EncoderCheck(
        _checks(Called(copy_of(unused, x.dtype), forward, masked=masked), x, is_layer=may_attend is None),
        masked,
        chosen,
        [] if settled else _unsettled([candidate for candidate, *_ in tried]),
        [f"{name} {tuple(p.shape)}" for name, p in yours.named_parameters() if name not in paired],
        _lacking(weights_of(same), chosen, whole=whole),
        divergence,
    )


def _unsettled(candidates: list[list[Pair]]) -> list[Pair]:
    """Return the pairs of the first candidate that differ in at least one other candidate."""
    return [pair for pair in candidates[0] if any(pair not in other for other in candidates[1:])]


def _checks(called: Called, x: Tensor, *, is_layer: bool = False) -> list[PropertyCheck | str]:
    """Run each property check; if your module raises, its message is the result.

    Permutation equivariance is checked only for a layer, which has no positional encoding.
    """
    checks = [eval_determinism, batch_invariance]
    checks += [padding_invariance] if called.masked else []
    checks += [permutation_equivariance] if is_layer else []
    results: list[PropertyCheck | str] = []
    for check in checks:
        try:
            results.append(check(called, x))
        except Exception as error:  # run the other checks nevertheless
            name = check.__name__.replace("_", " ")
            notes = "".join(f". {note}" for note in getattr(error, "__notes__", []))
            results.append(f"✗ {name} cannot be checked: {type(error).__name__}: {error}{notes}")
    return results


# --- the same weights in both modules -------------------------------------------------------------


def copy_weights(
    yours: nn.Module, layer: nn.TransformerEncoderLayer, pairs: list[Pair], *, whole: bool = True
) -> tuple[nn.Module, nn.TransformerEncoderLayer]:
    """Return copies of both with the same weights; what yours lacks has no effect in the reference.

    In the reference, such a bias is 0 and such a norm weight is 1. If your parameter is a scalar for all
    features, it is a constant in the reference as well.
    """
    yours, layer = copy_of(yours, torch.float64), deepcopy(layer)
    weights = weights_of(layer)
    for name in _lacking(weights, pairs, whole=whole):
        if name.endswith("bias") or name.startswith("norm"):
            weights[name].fill_(float(name.endswith("weight")))
    for pair in pairs:
        parameter = yours.get_parameter(pair.name)
        if parameter.numel() == 1:
            weights[pair.counterparts[0]].fill_(weights[pair.counterparts[0]][0])
            parameter.fill_(weights[pair.counterparts[0]][0])
            continue
        numbers = pair.numbers(weights, layer.self_attn.num_heads)
        if numbers.numel() != parameter.numel():
            raise ValueError(
                f"{pair.name} must have {numbers.numel()} values, as {', '.join(pair.counterparts)}, got "
                f"shape {tuple(parameter.shape)}; build the reference with the sizes of your layer: d_model, "
                "heads, dim_feedforward"
            )
        parameter.copy_(numbers.reshape(parameter.shape))
    return yours, layer


def _fits(mask: Tensor, shape: tuple[int, ...]) -> bool:
    return mask.dim() == 4 and all(got in (1, full) for got, full in zip(mask.shape, shape, strict=True))


def _lacking(weights: Weights, pairs: list[Pair], *, whole: bool) -> list[str]:
    """Return the names of the reference's weights without a counterpart in your module."""
    paired = {name for pair in pairs for name in pair.counterparts}
    beside = () if whole else ("linear", "norm")
    return [name for name in weights if name not in paired and not name.startswith(beside)]


def _output(layer: nn.TransformerEncoderLayer, x: Tensor) -> Tensor:
    return layer(x) if layer.self_attn.batch_first else layer(x.transpose(0, 1)).transpose(0, 1)


# --- references -----------------------------------------------------------------------------------


def as_torch_layer(reference: nn.Module) -> nn.TransformerEncoderLayer:
    """Return an nn.TransformerEncoderLayer with the reference's formula and random weights.

    Raises:
        TypeError: if the reference is not a module, or is a whole encoder.
        ValueError: if the reference computes another formula.
    """
    if isinstance(reference, nn.TransformerEncoder) or not isinstance(reference, nn.Module):
        raise TypeError(
            f"reference must be one layer, such as nn.TransformerEncoderLayer, got "
            f"{type(reference).__name__}; of an nn.TransformerEncoder pass encoder.layers[0]"
        )
    reference = private_copy("reference", reference)
    if isinstance(reference, nn.MultiheadAttention):
        d_model, n_heads = reference.embed_dim, reference.num_heads
        layer = nn.TransformerEncoderLayer(d_model, n_heads, d_model + 1, batch_first=reference.batch_first)
        layer.self_attn = reference
        return _randomised(layer)
    if isinstance(reference, nn.TransformerEncoderLayer):
        return _randomised(reference)
    return _found_by_trying(reference)


def _found_by_trying(reference: nn.Module) -> nn.TransformerEncoderLayer:
    """Return PyTorch's layer with the number of heads and the options that reproduce `reference`."""
    sizes = [size for p in reference.parameters() if p.dim() == 2 for size in p.shape]
    d_model = max(set(sizes), key=sizes.count, default=1)
    others = [size for size in sizes if size not in (d_model, 2 * d_model, 3 * d_model)]
    layer = _randomised(
        nn.TransformerEncoderLayer(d_model, 1, max(others, default=d_model), batch_first=True)
    )
    layer.activation_relu_or_gelu = 0  # disables the fused kernel, which supports no other activation
    x = random_tokens(d_model)
    closest, difference = layer, CLOSE
    for n_heads in divisors(d_model):
        layer.self_attn.num_heads, layer.self_attn.head_dim = n_heads, d_model // n_heads
        for pairs in pairings(reference, d_model, layer.linear1.out_features, n_heads, {}):
            filled, same = copy_weights(reference, layer, pairs)
            wanted = output_of(filled(x.clone()))
            for same.norm_first, same.activation, eps in product((False, True), ACTIVATIONS.values(), EPS):
                same.norm1.eps = same.norm2.eps = eps
                off = (_output(same, x) - wanted).abs().max().item()
                if off < difference:
                    closest, difference = deepcopy(same), off
    if difference == CLOSE:
        raise ValueError(
            "reference must compute the formula of nn.TransformerEncoderLayer, got a "
            f"{type(reference).__name__}, whose output matches no combination of heads, order of norms, "
            "activation and eps; pass an nn.TransformerEncoderLayer, or no reference, to run only the "
            "property checks"
        )
    return closest


def _randomised(layer: nn.TransformerEncoderLayer) -> nn.TransformerEncoderLayer:
    """Set all parameters to random values, so that none is without effect, as a bias of 0 would be."""
    generator = torch.Generator().manual_seed(0)
    layer = layer.double().eval()
    for name, parameter in layer.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if parameter.dim() > 1:
            parameter.copy_(noise / parameter.shape[1] ** 0.5)
        else:
            parameter.copy_(noise / 4 + float(name.startswith("norm") and name.endswith("weight")))
    return layer
