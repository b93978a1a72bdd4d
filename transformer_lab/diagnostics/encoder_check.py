"""Check your own encoder: copy a reference's weights into your layer, then ask everything at once."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import product

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Integer
from torch import Tensor, nn

from transformer_lab.diagnostics.divergence.search import (
    PROVED,
    Divergence,
    agreement,
    compare,
    copy_of,
    private_copy,
    record,
    written_out,
)
from transformer_lab.diagnostics.divergence.steps import EncoderLayerSteps
from transformer_lab.diagnostics.property_checks import (
    PropertyCheck,
    batch_invariance,
    eval_determinism,
    padding_invariance,
    permutation_equivariance,
)
from transformer_lab.diagnostics.weight_pairing import Pair, Weights, pairings, weights_of
from transformer_lab.masking import padding_mask_from_lengths

# What nn.TransformerEncoderLayer does not tell by its shapes, to be found out by trying.
ACTIVATIONS = (F.relu, F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu)
EPS = (1e-5, 1e-6, 1e-12)
# The step that shows that a weight is in its place.
SEEN_IN = {
    **{"query": "queries", "key": "keys", "value": "values", "out_proj": "attention_output"},
    **{"linear1": "hidden", "linear2": "feed_forward_output", "norm1": "output", "norm2": "output"},
}
CLOSE = 1e-5  # to a reference, which may compute its softmax in float32


@dataclass(frozen=True)
class EncoderCheck:
    """What check_encoder found; printed, it is a report.

    Attributes:
        checks: the property checks; words for one that your module could not run.
        pairs: which parameter of yours got which of the reference's.
        guessed: those that names and shapes leave open and the computation does not confirm.
        yours_only: your parameters without a counterpart, left as they are.
        reference_only: the reference's without a counterpart; biases and norms among them were made idle.
        divergence: the first one; None without a reference.
    """

    checks: list[PropertyCheck | str]
    pairs: list[Pair]
    guessed: list[Pair]
    yours_only: list[str]
    reference_only: list[str]
    divergence: Divergence | None

    @property
    def holds(self) -> bool:
        """Whether every check holds and nothing diverges."""
        agrees = self.divergence is None or self.divergence.step is None
        return agrees and all(isinstance(check, PropertyCheck) and check.holds for check in self.checks)

    def __repr__(self) -> str:
        lines = [str(check) for check in self.checks]
        if self.divergence is not None:
            lines += [f"{len(self.pairs)} parameters got the reference's numbers.", *self._doubts()]
            lines.append(str(self.divergence))
        return "\n".join(lines)

    def _doubts(self) -> list[str]:
        lines = []
        if self.guessed:
            lines += ["  Guessed by their order or shape; if one is wrong, say so with pairs={…}:"]
            lines += [f"    {pair}" for pair in self.guessed]
        if self.yours_only:
            lines.append(f"  Yours without a counterpart, left as they are: {', '.join(self.yours_only)}.")
        if self.reference_only:
            lines.append(f"  The reference's without a counterpart: {', '.join(self.reference_only)}.")
        return lines


class Called(nn.Module):
    """A module, called as its owner says, that returns its output alone."""

    def __init__(self, module: nn.Module, forward: Callable, *, masked: bool) -> None:
        super().__init__()
        self.module, self.call, self.masked = module, forward, masked

    def forward(self, x: Tensor, may_attend: Tensor | None = None) -> Tensor:
        """Without a mask, every token may be attended to."""
        if may_attend is None:
            batch, length = x.shape[:2]
            may_attend = x.new_ones(batch, 1, 1, length, dtype=torch.bool)
        return _first(self.call(self.module, x, may_attend) if self.masked else self.call(self.module, x))


class AroundAttention(nn.Module):
    """An attention in a post-norm layer whose other parts are the reference's."""

    def __init__(self, attention: nn.Module, layer: nn.TransformerEncoderLayer) -> None:
        super().__init__()
        self.attention, self.layer = attention, layer

    def forward(self, x: Tensor, may_attend: Tensor | None = None) -> Tensor:
        """As nn.TransformerEncoderLayer with norm_first=False."""
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
    """Run the property checks on your module, and compare it with a reference on the same weights.

    Parameters are paired by name and shape; random weights are copied into copies of both, so no mistake
    hides behind a bias of 0. Where names leave a choice, the one is taken with which most steps agree, and
    the report says which pairs are guessed.

    Args:
        yours: an encoder layer, or an attention if the reference is an nn.MultiheadAttention. Without a
            reference, any encoder.
        reference: an nn.TransformerEncoderLayer, or a layer that computes the same, such as Hugging Face's
            BertLayer or this package's EncoderLayer; or an nn.MultiheadAttention. With the sizes of yours.
        forward: calls your module: forward(yours, x, may_attend), where may_attend is True for a token that
            may be attended to, (batch, 1, 1, position); see mask_conventions for other forms. Returns the
            output, or (output, …). If None, yours(x, may_attend=may_attend).
        masked: False for a module without a padding mask, called as forward(yours, x).
        x: the input of the checks and of the comparison; if None, random vectors. Needed without a reference.
        may_attend: the mask of the comparison; if None, it hides the end of each sequence. What your layer
            hides by itself, as causal_mask(5) for a causal one, is given here.
        pairs: where a guess is wrong: a role (query, key, value, out_proj, linear1, linear2, norm1, norm2)
            and the name of your parameter or of the module that holds it.

    Raises:
        TypeError: a reference that is no module, or a whole nn.TransformerEncoder.
        ValueError: neither reference nor x; a reference that computes another formula, or whose feed-forward
            is as wide as the model; several parameters of one role, as in a stack of layers.
    """
    forward = forward or (_with_may_attend if masked else nn.Module.__call__)
    if reference is None:
        if x is None:
            raise ValueError("x must be given where there is no reference, got neither; it tells the sizes")
        return EncoderCheck(_checks(Called(yours, forward, masked=masked), x), [], [], [], [], None)

    mine, layer = private_copy("yours", yours), as_torch_layer(reference)
    if x is None:
        x = torch.randn(2, 5, layer.linear1.in_features, generator=torch.Generator().manual_seed(0))
    lengths = torch.tensor([x.shape[1] - 1 - i % 2 for i in range(len(x))])  # another one for each sequence
    mask = padding_mask_from_lengths(lengths, x.shape[1]) if masked and may_attend is None else may_attend
    sizes = layer.linear1.in_features, layer.linear1.out_features, layer.self_attn.num_heads

    whole = not isinstance(reference, nn.MultiheadAttention)  # not an attention alone
    best, agree = None, None
    for candidate in pairings(mine, *sizes, pairs or {}):
        filled, same = copy_weights(mine, layer, candidate, whole=whole)
        called = Called(filled, forward, masked=masked)
        called = called if whole else AroundAttention(called, same)
        right = EncoderLayerSteps(same, x.double(), may_attend)
        steps = agreement(right, *record(called, right))
        if best is None or len(steps) > len(agree):
            best, agree = (candidate, filled, same, called), steps
        if "output" in agree:
            break
    candidate, filled, same, called = best
    divergence = compare(called, written_out(same, x, mask))
    if PROVED in divergence.cause:
        agree = ["output"]
    paired = {pair.name for pair in candidate}
    return EncoderCheck(
        _checks(Called(copy_of(filled, x.dtype), forward, masked=masked), x, is_layer=may_attend is None),
        candidate,
        [pair for pair in candidate if pair.guessed and not _is_confirmed(pair, agree)],
        [f"{name} {tuple(p.shape)}" for name, p in yours.named_parameters() if name not in paired],
        _lacking(weights_of(same), candidate, whole=whole),
        divergence,
    )


def _with_may_attend(yours: nn.Module, x: Tensor, may_attend: Tensor) -> object:
    try:
        return yours(x, may_attend=may_attend)
    except TypeError as error:
        error.add_note(
            "Yours is called as yours(x, may_attend=may_attend); if that is not its way, pass forward=lambda "
            "yours, x, may_attend: …, or masked=False if it takes no mask."
        )
        raise


def _is_confirmed(pair: Pair, agree: list[str]) -> bool:
    """Whether your layer was seen to compute what these weights lead to."""
    return "output" in agree or all(SEEN_IN[name.partition(".")[0]] in agree for name in pair.counterparts)


def _checks(called: Called, x: Tensor, *, is_layer: bool = False) -> list[PropertyCheck | str]:
    """Each property check, or what your module says instead. A bare layer does not know the order."""
    checks = [eval_determinism, batch_invariance]
    checks += [padding_invariance] if called.masked else []
    checks += [permutation_equivariance] if is_layer else []
    results: list[PropertyCheck | str] = []
    for check in checks:
        try:
            results.append(check(called, x))
        except Exception as error:  # the other checks have answers all the same
            name = check.__name__.replace("_", " ")
            notes = "".join(f"; {note}" for note in getattr(error, "__notes__", []))
            results.append(f"✗ {name} cannot be checked: {type(error).__name__}: {error}{notes}")
    return results


# --- the same weights on both sides ---------------------------------------------------------------


def copy_weights(
    yours: nn.Module, layer: nn.TransformerEncoderLayer, pairs: list[Pair], *, whole: bool = True
) -> tuple[nn.Module, nn.TransformerEncoderLayer]:
    """Copies of both with the same weights; what yours lacks does nothing in the reference.

    A bias becomes 0, a norm's weight 1, and one number for all features stays one number.
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
        else:
            parameter.copy_(pair.numbers(weights, layer.self_attn.num_heads).reshape(parameter.shape))
    return yours, layer


def _lacking(weights: Weights, pairs: list[Pair], *, whole: bool) -> list[str]:
    """The reference's weights that yours has no place for."""
    paired = {name for pair in pairs for name in pair.counterparts}
    beside = () if whole else ("linear", "norm")
    return [name for name in weights if name not in paired and not name.startswith(beside)]


def _output(layer: nn.TransformerEncoderLayer, x: Tensor) -> Tensor:
    return layer(x) if layer.self_attn.batch_first else layer(x.transpose(0, 1)).transpose(0, 1)


# --- references -----------------------------------------------------------------------------------


def as_torch_layer(reference: nn.Module) -> nn.TransformerEncoderLayer:
    """An nn.TransformerEncoderLayer that computes what the reference does, with random weights.

    Raises:
        TypeError: no module, or a whole encoder.
        ValueError: the reference computes another formula.
    """
    if isinstance(reference, nn.TransformerEncoder) or not isinstance(reference, nn.Module):
        raise TypeError(
            f"reference must be one layer, such as nn.TransformerEncoderLayer, got "
            f"{type(reference).__name__}; of an nn.TransformerEncoder give encoder.layers[0]"
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
    """PyTorch's layer with the number of heads and the options that give the reference's output."""
    sizes = [size for p in reference.parameters() if p.dim() == 2 for size in p.shape]
    d_model = max(set(sizes), key=sizes.count, default=1)
    others = [size for size in sizes if size not in (d_model, 2 * d_model, 3 * d_model)]
    layer = _randomised(
        nn.TransformerEncoderLayer(d_model, 1, max(others, default=d_model), batch_first=True)
    )
    layer.activation_relu_or_gelu = 0  # keeps the fused kernel away, which knows no other activation
    x = torch.randn(2, 5, d_model, generator=torch.Generator().manual_seed(0)).double()
    closest, difference = layer, CLOSE
    for n_heads in [n for n in range(1, d_model + 1) if d_model % n == 0]:
        layer.self_attn.num_heads, layer.self_attn.head_dim = n_heads, d_model // n_heads
        for pairs in pairings(reference, d_model, layer.linear1.out_features, n_heads, {}):
            filled, same = copy_weights(reference, layer, pairs)
            wanted = _first(filled(x.clone()))
            for norm_first, activation, eps in product((False, True), ACTIVATIONS, EPS):
                same.norm_first, same.activation, same.norm1.eps, same.norm2.eps = (
                    norm_first,
                    activation,
                    eps,
                    eps,
                )
                off = (_output(same, x) - wanted).abs().max().item()
                if off < difference:
                    closest, difference = deepcopy(same), off
    if difference == CLOSE:
        raise ValueError(
            "reference must compute the formula of nn.TransformerEncoderLayer, got a "
            f"{type(reference).__name__}, whose output it gives for no number of heads, order of norms, "
            "activation or eps; give nn.TransformerEncoderLayer, or no reference, which leaves the property "
            "checks"
        )
    return closest


def _first(result: object) -> object:
    """The output of a module that returns (output, weights)."""
    return result[0] if isinstance(result, tuple | list) and result else result


def _randomised(layer: nn.TransformerEncoderLayer) -> nn.TransformerEncoderLayer:
    """Every parameter random, so that none does nothing: a bias of 0, a norm's weight of 1."""
    generator = torch.Generator().manual_seed(0)
    layer = layer.double().eval()
    for name, parameter in layer.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if parameter.dim() > 1:
            parameter.copy_(noise / parameter.shape[1] ** 0.5)
        else:
            parameter.copy_(noise / 4 + float(name.startswith("norm") and name.endswith("weight")))
    return layer
