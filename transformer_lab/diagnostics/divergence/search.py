"""Watch a layer run, look for PyTorch's tensors among those that it computes, tell the first one missing."""

import textwrap
from copy import deepcopy
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from transformer_lab.diagnostics.divergence.mistakes import MISTAKES
from transformer_lab.diagnostics.divergence.steps import STEPS, PostNormSteps, PreNormSteps
from transformer_lab.validation import check_may_attend

WIDTH = 92  # of a report, in characters
# Everything is computed in float64, and its numbers are of the order of 1; NaN may be what a mistake gives.
NEAR = {"rtol": 1e-9, "atol": 1e-9, "equal_nan": True}
VECTOR_AXES = ("sequence", "position", "feature")
HEAD_AXES = ("sequence", "head", "position", "feature")
SCORE_AXES = ("sequence", "head", "query", "key")
# Nothing but these can be right while what stands before it in the list of steps is wrong.
FIRST_USE = {"queries": "scores", "keys": "scores", "values": "heads"}
# The parameters of the reference that a step multiplies with; in_proj_weight in thirds.
MATRICES = {
    "queries": ("self_attn.in_proj_weight", 0),
    "keys": ("self_attn.in_proj_weight", 1),
    "values": ("self_attn.in_proj_weight", 2),
    "attention_output": ("self_attn.out_proj.weight", 0),
    "hidden": ("linear1.weight", 0),
    "feed_forward_output": ("linear2.weight", 0),
}


@dataclass(frozen=True)
class Divergence:
    """What the comparison found; printed, it is a report.

    Attributes:
        agree: the steps before the divergence that your layer was seen to compute.
        step: the first tensor that differs; None if none does.
        difference: how far your closest tensor is off; None if you compute none of that shape.
        where: the place of that difference.
        cause: in words; empty if unknown.
        blind: what this comparison could not have seen; empty if nothing.
    """

    agree: list[str]
    step: str | None = None
    difference: float | None = None
    where: str = ""
    cause: str = ""
    blind: str = ""

    def __repr__(self) -> str:
        note = [f"  Blind spot: {self.blind}."] if self.blind else []
        agree = ", ".join(self.agree)
        if self.step is None:
            return _wrapped([f"✓ No divergence. Seen to agree: {agree}.", *note])
        amount = "your layer computes nothing of that shape"
        if self.difference is not None:
            amount = f"the closest of yours is off by up to {self.difference:.2g}, at {self.where}"
        cause = self.cause or "none of the usual mistakes; read your code for this step"
        lines = [
            f"✗ First divergence: {self.step}; {amount}.",
            f"  In agreement before it: {agree or 'nothing'}.",
            f"  Likely cause: {cause}.",
            *note,
        ]
        return _wrapped(lines)


def _wrapped(lines: list[str]) -> str:
    """No line longer than a notebook is wide."""
    return "\n".join(textwrap.fill(line, WIDTH, subsequent_indent="    ") for line in lines)


@torch.no_grad()
def first_divergence(
    yours: nn.Module,
    reference: nn.TransformerEncoderLayer,
    x: Float[Tensor, "batch position d_model"] | None = None,
    may_attend: Bool[Tensor, "..."] | None = None,
) -> Divergence:
    """Name the first intermediate tensor of `reference` that `yours` does not compute, and the likely cause.

    Copies of both are run on the CPU, in eval mode and in float64. They must have the same weights already.

    Args:
        yours: called as yours(x), or as yours(x, may_attend=may_attend) where a mask is given; returns the
            output, or (output, weights). If its mask has another name or form, write a module around it
            that converts, see mask_conventions.
        reference: the layer that is right.
        x: the input; if None, random, with distinct prime sizes.
        may_attend: (batch or 1, heads or 1, query_pos or 1, key_pos or 1), True = may attend.

    Raises:
        ValueError: x or the mask does not fit; x or a weight is NaN; a query may attend to nothing, where
            PyTorch gives NaN.
    """
    yours, reference = private_copy("yours", yours), private_copy("reference", reference)
    right = written_out(reference, x, may_attend)
    with Watch() as watcher:
        output = call(yours, right)
    if not isinstance(output, Tensor) or output.shape != right.output.shape:
        got = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        cause = f"your layer returns {got}, wanted a tensor of shape {tuple(right.output.shape)}; "
        return Divergence([], "output", cause=cause + "the output comes first: return x, weights")
    if is_random(yours, right):
        cause = "two calls give two results, so dropout is at work in eval mode: pass it self.training"
        return Divergence([], "output", cause=cause)
    return compare(right, output, [right.x, *watcher.seen], numbers_of(yours))


def private_copy(name: str, module: nn.Module) -> nn.Module:
    """A copy on the CPU, in float64 and eval mode, of its plain tensors too."""
    plain = plain_tensors(module)
    copies = [tensor.detach().cpu().clone() for tensor in plain]
    copies = [copy.double() if copy.is_floating_point() else copy for copy in copies]
    copied = deepcopy(module, {id(tensor): copy for tensor, copy in zip(plain, copies, strict=True)})
    copied = copied.to("cpu", torch.float64).eval()
    for parameter, numbers in copied.named_parameters():
        if not numbers.isfinite().all():
            raise ValueError(
                f"the parameters of {name} must be finite, got NaN or infinity in {parameter}; build it anew"
            )
    return copied


def written_out(
    reference: nn.TransformerEncoderLayer, x: Tensor | None, may_attend: Tensor | None
) -> PostNormSteps:
    """Return the steps of the reference, after seeing that they end in what the reference itself returns."""
    d_model, n_heads = reference.linear1.in_features, reference.self_attn.num_heads
    if x is None:
        x = torch.randn(2, 5, d_model, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    check_input(x)
    batch, length, _ = x.shape
    if may_attend is not None:
        check_may_attend(may_attend, (batch, n_heads, length, length), x)
        may_attend = may_attend.cpu()
        hidden = ~may_attend.expand(batch, n_heads, length, length).flatten(0, 1)
        if hidden.all(dim=-1).any():
            raise ValueError(
                "may_attend leaves some query nothing to attend to, where PyTorch returns NaN; "
                "let each query see at least one key here"
            )
    steps = (PreNormSteps if reference.norm_first else PostNormSteps)(reference, x.cpu().double(), may_attend)
    first = steps.x if reference.self_attn.batch_first else steps.x.transpose(0, 1)
    theirs = reference(first, src_mask=None if may_attend is None else hidden)
    theirs = theirs if reference.self_attn.batch_first else theirs.transpose(0, 1)
    if not is_same(theirs, steps.output):
        raise ValueError(
            "this nn.TransformerEncoderLayer computes something else than its documented formula, "
            f"got a difference of {(theirs - steps.output).abs().max():.2g}; was it changed, or derived from?"
        )
    return steps


def check_input(x: Tensor) -> None:
    """Raise unless attention has something to choose from: finite vectors, not all of a sequence equal."""
    if not x.isfinite().all() or (x == x[:, :1]).all():
        got = "equal tokens" if x.isfinite().all() else "NaN or infinity"
        raise ValueError(
            f"x must hold finite tokens that differ, got {got}: whom they attend to would not show; give "
            "another x, or none"
        )


class Watch(TorchDispatchMode):
    """Keeps a copy of every tensor that is computed, however deep inside."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self.seen += [tensor.clone() for tensor in tensors if tensor.is_floating_point()]
        return result


def call(layer: nn.Module, right: PostNormSteps) -> Tensor:
    """What the layer returns, without the weights that may stand beside the output."""
    mask = {} if right.may_attend is None else {"may_attend": right.may_attend}
    result = layer(right.x.clone(), **mask)
    return result[0] if isinstance(result, tuple | list) and result else result


def plain_tensors(module: nn.Module) -> list[Tensor]:
    """Those that are neither parameters nor buffers, but attributes."""
    return [thing for part in module.modules() for thing in vars(part).values() if isinstance(thing, Tensor)]


def numbers_of(module: nn.Module) -> Tensor:
    """All numbers that a module holds, in float32, so that a copy that was rounded to it counts."""
    tensors = [*module.parameters(), *module.buffers(), *plain_tensors(module)]
    return torch.cat([torch.empty(0), *(tensor.detach().flatten().float() for tensor in tensors)])


def is_random(layer: nn.Module, right: PostNormSteps) -> bool:
    """Whether two calls that draw other random numbers differ."""
    outputs = []
    with torch.random.fork_rng(devices=[]):
        for seed in (0, 1):
            torch.manual_seed(seed)
            outputs.append(call(layer, right))
    return not is_same(*outputs)


def compare(right: PostNormSteps, output: Tensor, seen: list[Tensor], numbers: Tensor) -> Divergence:
    """Walk the steps in order; the first one that was not seen, nor any that needs it, is the divergence."""
    found = {step for step in STEPS if is_among(seen, layouts(right, step))} - {"output"}
    found |= {"output"} if is_same(output, right.output) else set()
    wrong = [step for step in STEPS if not found & {step, *needing(step)}]
    blind = blind_spot(right)
    if not wrong:
        return Divergence([step for step in STEPS if step in found], blind=blind)
    known = [tensor for step in STEPS for tensor in layouts(right, step)]
    strangers = [tensor for tensor in seen if not is_among(known, [tensor])]
    # What a fused kernel computes inside cannot be seen; the first step with something to compare is told.
    step = next((step for step in wrong if nearest(right, step, strangers)), wrong[0])
    before = [name for name in STEPS[: STEPS.index(step)] if name in found]
    cause, culprit = likely_cause(right, step, output, seen, numbers)
    if culprit is not None and not is_same(getattr(culprit, step), getattr(right, step)):
        strangers = [getattr(culprit, step)]
    return Divergence(before, step, *(nearest(right, step, strangers) or (None, "")), cause, blind)


def needing(step: str) -> list[str]:
    """The later steps that cannot be right unless this one is."""
    if step in FIRST_USE:
        return STEPS[STEPS.index(FIRST_USE[step]) :]
    return STEPS[STEPS.index(step) + 1 :]


def likely_cause(
    right: PostNormSteps, step: str, output: Tensor, seen: list[Tensor], numbers: Tensor
) -> tuple[str, PostNormSteps | None]:
    """The mistake that gives exactly your output, and the steps with it.

    Failing that, that the weights are not copied; failing that, a mistake that explains this step.
    """
    wrongs = [(mistake.words, steps) for mistake in MISTAKES if (steps := _built(mistake, right)) is not None]
    exact = [wrong for wrong in wrongs if is_same(output, wrong[1].output)]
    if not exact and (own := own_weights(right.layer, step, numbers)):
        return own, None
    # Scores that are divided by a wrong number were once undivided: of several, the last one seen counts.
    words, steps = max(exact or wrongs, key=lambda wrong: when_seen(wrong[1], right, step, seen))
    if exact:
        equal = [other for other, its in exact if torch.equal(its.output, steps.output)]
        words = "; or: ".join(dict.fromkeys([words, *equal]))
        return f"{words}. With this mistake built in, PyTorch's formula gives exactly your output", steps
    if when_seen(steps, right, step, seen) < 0:
        return "", None
    return f"{words}. That is not all: something behind it differs as well", steps


def own_weights(reference: nn.TransformerEncoderLayer, step: str, numbers: Tensor) -> str:
    """Whether the weights were copied: in words, if the numbers of this step's matrix are not among yours."""
    copied = {}
    for part, (name, third) in MATRICES.items():
        matrix = reference.get_parameter(name)
        matrix = matrix.chunk(3)[third] if "in_proj" in name else matrix
        copied[part] = torch.isin(matrix.flatten().float(), numbers).double().mean() > 0.5
    if not any(copied.values()):
        return (
            "the weights are not copied, your layer has its own; load the reference's into it "
            "(in_proj_weight holds those of queries, keys, values, one below the other), then compare again"
        )
    if not copied.get(step, True):
        return f"the weights of {step} are your layer's own, wanted the reference's {MATRICES[step][0]}"
    return ""


def _built(mistake, right: PostNormSteps) -> PostNormSteps | None:
    """The steps with the mistake; None where it makes no sense, such as a wrong mask without a mask."""
    try:
        steps = mistake.build(right)
        _ = steps.output
    except (AttributeError, RuntimeError, TypeError):
        return None
    return steps


def when_seen(steps: PostNormSteps, right: PostNormSteps, step: str, seen: list[Tensor]) -> int:
    """When the first tensor that the mistake makes new, not before this step, was last seen; −1 if never."""
    known = [getattr(right, name) for name in STEPS]
    for name in STEPS:
        forms = layouts(steps, name)
        if not is_among(known, forms):  # in no form: where a projection is left out, the queries are x itself
            if STEPS.index(name) < STEPS.index(step):
                return -1
            return max((i for i, tensor in enumerate(seen) if is_among([tensor], forms)), default=-1)
    return -1


def layouts(steps: PostNormSteps, step: str) -> list[Tensor]:
    """The layouts in which the same numbers may appear: heads side by side, axes swapped, axes joined."""
    tensor = getattr(steps, step)
    if tensor.dim() == 3:
        return [tensor, tensor.transpose(0, 1), tensor.flatten(0, 1)]
    if step in ("scores", "weights"):
        return [tensor, tensor.flatten(0, 1)]  # not transposed: that would be a mistake
    merged = PostNormSteps.merge(steps, tensor)
    return [
        *(tensor, tensor.mT, tensor.transpose(1, 2)),
        *(tensor.flatten(0, 1), tensor.mT.flatten(0, 1)),
        *(merged, merged.transpose(0, 1), merged.flatten(0, 1)),
    ]


def is_same(got: Tensor, wanted: Tensor) -> bool:
    """Equal but for rounding."""
    return got.shape == wanted.shape and torch.allclose(got.double(), wanted.double(), **NEAR)


def is_among(many: list[Tensor], wanted: list[Tensor]) -> bool:
    """Whether any of the wanted tensors is there."""
    return any(is_same(one, tensor) for tensor in wanted for one in many)


def nearest(right: PostNormSteps, step: str, candidates: list[Tensor]) -> tuple[float, str] | None:
    """How far the closest tensor of the same shape is from the step, and where; None if there is none."""
    wanted = getattr(right, step)
    differences = [
        (wanted - tensor).abs().nan_to_num(torch.inf, torch.inf)
        for tensor in candidates
        if tensor.shape == wanted.shape
    ]
    if not differences:
        return None
    closest = min(differences, key=lambda difference: difference.mean().item())
    place = torch.unravel_index(closest.argmax(), closest.shape)
    heads = SCORE_AXES if step in ("scores", "weights") else HEAD_AXES
    axes = VECTOR_AXES if wanted.dim() == 3 else heads
    return closest.max().item(), ", ".join(f"{axis} {int(i)}" for axis, i in zip(axes, place, strict=True))


def blind_spot(right: PostNormSteps) -> str:
    """What cannot show because a parameter does nothing, as in a new layer."""
    parameters = dict(right.layer.named_parameters())
    idle = [name for name, p in parameters.items() if not p.any()]
    idle += [name for name in ("norm1.weight", "norm2.weight") if (parameters[name] == 1).all()]
    if not idle:
        return ""
    return f"{', '.join(idle)} do nothing yet; fill them with random numbers in both layers and compare again"
