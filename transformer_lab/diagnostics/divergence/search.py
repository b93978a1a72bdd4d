"""Search for the first divergence: record all computed tensors, and find the first wrong step."""

import textwrap
from copy import deepcopy
from dataclasses import dataclass, replace
from types import CellType, FunctionType

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from transformer_lab.diagnostics.divergence.mistakes import MISTAKES, other_options
from transformer_lab.diagnostics.divergence.steps import STEPS, EncoderLayerSteps
from transformer_lab.diagnostics.property_checks import output_of

REPORT_WIDTH = 92  # characters
# Everything is computed in float64, with values of the order of 1; a mistake may produce NaN.
ROUNDING = {"rtol": 1e-9, "atol": 1e-9, "equal_nan": True}
IN_FLOAT32 = 1e-5, 1e-5
PROVED = "Confirmed: PyTorch's layer, changed in this way, gives exactly your output"
# The first step that depends on each of these; every other step is an input of the next step.
FIRST_USE = {"queries": "scores", "keys": "scores", "values": "heads"}
# The weight matrix of each step; in_proj_weight consists of three.
WEIGHTS = {
    "queries": ("self_attn.in_proj_weight", 0),
    "keys": ("self_attn.in_proj_weight", 1),
    "values": ("self_attn.in_proj_weight", 2),
    "attention_output": ("self_attn.out_proj.weight", None),
    "hidden": ("linear1.weight", None),
    "feed_forward_output": ("linear2.weight", None),
}


@dataclass(frozen=True)
class Divergence:
    """The result of a comparison; its repr is a report.

    Attributes:
        agree: the steps before the divergence that your layer computes.
        step: the first tensor that differs; None if no tensor differs.
        difference: largest difference of your closest tensor; None if you compute no tensor of this shape.
        where: the position of this difference.
        cause: the likely cause; empty if unknown.
        blind: differences that this comparison could not detect; empty if there are none.
    """

    agree: list[str]
    step: str | None = None
    difference: float | None = None
    where: str = ""
    cause: str = ""
    blind: str = ""

    def __repr__(self) -> str:
        agree = ", ".join(self.agree)
        if self.step is None:
            lines = [f"✓ No divergence. Steps that agree: {agree}."]
        else:
            closest = "your layer computes no tensor of its shape"
            if self.difference is not None:
                closest = f"your closest tensor differs by up to {self.difference:.2g}, at {self.where}"
            cause = self.cause or "none of the common mistakes; check your code for this step"
            lines = [
                f"✗ First divergence: {self.step}; {closest}.",
                f"  Steps that agree before it: {agree or 'none'}.",
                f"  Likely cause: {cause}.",
            ]
        if self.blind:
            lines.append(f"  Blind spot: {self.blind}.")
        return "\n".join(textwrap.fill(line, REPORT_WIDTH, subsequent_indent="    ") for line in lines)


@torch.no_grad()
def first_divergence(
    yours: nn.Module,
    reference: nn.TransformerEncoderLayer,
    x: Float[Tensor, "batch position d_model"] | None = None,
    may_attend: Bool[Tensor, "..."] | None = None,
) -> Divergence:
    """Return the first intermediate tensor of `reference` that `yours` does not compute, and a likely cause.

    Copies of both are run on the CPU, in eval mode and in float64. They must already have the same weights.

    Args:
        yours: called as yours(x), or as yours(x, may_attend=may_attend) if a mask is given; returns the
            output, or (output, weights). If its mask has another name or format, wrap it in a module that
            converts the mask (see mask_conventions).
        reference: the correct layer.
        x: the input; if None, random vectors, with distinct primes as sizes.
        may_attend: (batch or 1, heads or 1, query_pos or 1, key_pos or 1), True = may attend.

    Raises:
        TypeError: if the reference is not an nn.TransformerEncoderLayer.
        ValueError: if x or the mask does not fit; if x or a weight is NaN; if a query may attend to no key,
            because PyTorch then returns NaN.
    """
    if not isinstance(reference, nn.TransformerEncoderLayer):
        raise TypeError(
            f"reference must be an nn.TransformerEncoderLayer, got {type(reference).__name__}; "
            "of an nn.TransformerEncoder pass one layer: encoder.layers[0]"
        )
    yours, reference = private_copy("yours", yours), private_copy("reference", reference)
    right = written_out(reference, x, may_attend)
    found = compare(yours, right)
    return replace(found, blind="; ".join(filter(None, [blind_spot(right), found.blind])))


def private_copy(name: str, module: nn.Module) -> nn.Module:
    """Return a copy on the CPU, in float64 and eval mode."""
    copied = copy_of(module, torch.float64).eval()
    for parameter, numbers in copied.named_parameters():
        if not numbers.isfinite().all():
            raise ValueError(f"the parameters of {name} must be finite, got NaN or infinity in {parameter}")
    return copied


def copy_of(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Return a copy on the CPU in another dtype, including tensors and closures in plain attributes."""
    copies: dict[int, object] = {}
    for tensor in plain_tensors(module):  # deepcopy rejects tensors that have a grad_fn
        copy = tensor.detach().cpu().clone()
        copies[id(tensor)] = copy.to(dtype) if copy.is_floating_point() else copy
    copied = deepcopy(module, copies).to("cpu", dtype)
    for part in copied.modules():
        for attribute, value in list(vars(part).items()):
            # For example self.f = lambda x: self.layer(x).
            if isinstance(value, FunctionType) and value.__closure__:
                vars(part)[attribute] = over_the_copy(value, copies)
    return copied


def over_the_copy(function: FunctionType, copies: dict[int, object]) -> FunctionType:
    """Return the function with a closure over the copies; deepcopy keeps the original objects."""
    held = (cell.cell_contents for cell in function.__closure__)
    cells = tuple(CellType(copies.get(id(value), value)) for value in held)
    return FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, cells
    )


def plain_tensors(module: nn.Module) -> list[Tensor]:
    """Return the tensors that are plain attributes, neither parameters nor buffers."""
    return [value for part in module.modules() for value in vars(part).values() if isinstance(value, Tensor)]


def all_numbers(module: nn.Module) -> Tensor:
    """Return all values of a module's tensors, in float32, so that values rounded to float32 are found."""
    tensors = [*module.parameters(), *module.buffers(), *plain_tensors(module)]
    return torch.cat([torch.empty(0), *(tensor.detach().flatten().float() for tensor in tensors)])


def random_tokens(d_model: int, dtype: torch.dtype = torch.float64) -> Float[Tensor, "2 5 d_model"]:
    """Return the default input, with distinct primes as sizes."""
    return torch.randn(2, 5, d_model, generator=torch.Generator().manual_seed(0), dtype=dtype)


def written_out(
    reference: nn.TransformerEncoderLayer, x: Tensor | None, may_attend: Tensor | None
) -> EncoderLayerSteps:
    """Return the steps of the reference; their last tensor is verified to be the reference's output."""
    if x is None:
        x = random_tokens(reference.linear1.in_features)
    if not x.isfinite().all() or (x == x[:, :1]).all():
        got = "equal tokens" if x.isfinite().all() else "NaN or infinity"
        raise ValueError(
            f"x must contain finite tokens that differ, got {got}: attention would have no visible effect; "
            "pass another x, or none"
        )
    batch, length, _ = x.shape
    mask = {}
    if may_attend is not None:
        if may_attend.dtype != torch.bool or may_attend.dim() != 4:
            raise ValueError(
                "may_attend must be boolean, with 4 axes (batch, heads, query_pos, key_pos), "
                f"got {may_attend.dtype} of shape {tuple(may_attend.shape)}; see mask_conventions"
            )
        may_attend = may_attend.cpu()
        hidden = ~may_attend.expand(batch, reference.self_attn.num_heads, length, length).flatten(0, 1)
        if hidden.all(dim=-1).any():
            raise ValueError(
                "may_attend must let each query attend to at least one key here, got a query without keys, "
                "for which PyTorch returns NaN"
            )
        mask = {"src_mask": hidden}
    steps = EncoderLayerSteps(reference, x.cpu().double(), may_attend)
    if reference.self_attn.batch_first:
        output = reference(steps.x, **mask)
    else:
        output = reference(steps.x.transpose(0, 1), **mask).transpose(0, 1)
    if not is_same(output, steps.output):
        raise ValueError(
            "this nn.TransformerEncoderLayer must compute its documented formula, "
            f"got a difference of {(output - steps.output).abs().max():.2g}; was it modified or subclassed?"
        )
    return steps


class TensorRecorder(TorchDispatchMode):
    """A dispatch mode that records a copy of every floating-point tensor that is computed."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: list[Tensor] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self.tensors += [tensor.clone() for tensor in tensors if tensor.is_floating_point()]
        return result


def call(layer: nn.Module, right: EncoderLayerSteps) -> Tensor:
    """Return the layer's output, without the attention weights."""
    mask = {} if right.may_attend is None else {"may_attend": right.may_attend}
    try:
        result = layer(right.x.clone(), **mask)
    except RuntimeError as error:
        if "dtype" in str(error):
            error.add_note(
                "A copy of your layer runs in float64 here. Does it convert dtypes, as .float() does, or "
                "create tensors, as torch.zeros(n) does? Use x.dtype there."
            )
        raise
    return output_of(result)


def _seeded_call(yours: nn.Module, right: EncoderLayerSteps) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return call(yours, right)


def compare(yours: nn.Module, right: EncoderLayerSteps) -> Divergence:
    """Return the first divergence of a layer in float64 and eval mode."""
    output, seen = record(yours, right)
    if not isinstance(output, Tensor) or output.shape != right.output.shape:
        got = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        wanted = tuple(right.output.shape)
        broadcast = isinstance(output, Tensor) and output.dim() > 3 and output.shape[-2:] == wanted[-2:]
        hint = (
            "does it expect a mask with fewer axes?"
            if broadcast
            else "the output must come first: return x, weights"
        )
        cause = f"your layer returns {got}, expected a tensor of shape {wanted}; {hint}"
        return Divergence([], "output", cause=cause)
    again = _seeded_call(yours, right)
    if not is_same(output, again):
        if is_same(again, _seeded_call(yours, right)):
            cause = (
                "two calls give different results, so something is random in eval mode: if it is dropout, "
                "pass self.training to it"
            )
        else:
            cause = (
                "two calls give different results, even with the same random seed: state is kept between "
                "calls, as in a counter, or random numbers are drawn without torch's generator"
            )
        off = (output - right.output).abs().max().item()
        return Divergence([], "output", off, "an entry that varies between calls", cause)
    found = first_wrong(right, output, seen, all_numbers(yours))
    if found.step and not found.cause and torch.allclose(output.double(), right.output, *IN_FLOAT32):
        blind = "your layer computes or stores some values in float32; smaller differences are not detected"
        return Divergence([*found.agree, "output"], blind=blind)
    return found


def record(yours: nn.Module, right: EncoderLayerSteps) -> tuple[object, list[Tensor]]:
    """Return a layer's result, and every tensor that it computes."""
    with TensorRecorder() as recorder:
        output = call(yours, right)
    return output, [right.x, *recorder.tensors]


def agreement(right: EncoderLayerSteps, output: object, seen: list[Tensor]) -> list[str]:
    """Return the steps that a layer computes."""
    agree = [step for step in STEPS[:-1] if is_among(seen, layouts(right, step))]
    if "scores" not in agree and right.may_attend is not None and are_scores_masked_first(right, seen):
        agree.insert(agree.index("values") + 1 if "values" in agree else 0, "scores")
    return [*agree, "output"] if isinstance(output, Tensor) and is_same(output, right.output) else agree


def are_scores_masked_first(right: EncoderLayerSteps, seen: list[Tensor]) -> bool:
    """Return whether the scores were masked before they were scaled, which is correct except where hidden."""
    visible = right.may_attend.expand_as(right.scores)
    return any(
        is_same(tensor.masked_fill(~where, 0), scores.masked_fill(~where, 0))
        for scores, where in zip(in_every_order(right.scores), in_every_order(visible), strict=True)
        for tensor in seen
        if tensor.shape == scores.shape
    )


def first_wrong(right: EncoderLayerSteps, output: Tensor, seen: list[Tensor], numbers: Tensor) -> Divergence:
    """Return the first step that is not computed, and on which no computed step depends."""
    agree = agreement(right, output, seen)
    wrong = [step for step in STEPS if step not in agree and not set(agree) & set(steps_needing(step))]
    if not wrong:
        return Divergence(agree)
    known = [tensor for step in STEPS for tensor in layouts(right, step)]
    candidates = [tensor for tensor in seen if not is_among(known, [tensor])]
    # Intermediate tensors of a fused kernel are not recorded: report the first step with a tensor to compare.
    step = next((step for step in wrong if nearest(right, step, candidates)), wrong[0])
    cause, with_mistake = likely_cause(right, step, output, seen, numbers)
    if with_mistake is not None and not is_same(getattr(with_mistake, step), getattr(right, step)):
        candidates = [getattr(with_mistake, step)]
    difference, where = nearest(right, step, candidates) or (None, "")
    before = [name for name in agree if STEPS.index(name) < STEPS.index(step)]
    return Divergence(before, step, difference, where, cause)


def steps_needing(step: str) -> list[str]:
    """Return the later steps that depend on this step."""
    return STEPS[STEPS.index(FIRST_USE[step]) if step in FIRST_USE else STEPS.index(step) + 1 :]


def likely_cause(
    right: EncoderLayerSteps, step: str, output: Tensor, seen: list[Tensor], numbers: Tensor
) -> tuple[str, EncoderLayerSteps | None]:
    """Return the likely cause, and the steps with this mistake.

    In order of priority: a mistake that reproduces your output exactly, weights that were not copied, other
    options than the reference's, a mistake that explains this step.
    """
    known = [tensor for name in STEPS for tensor in layouts(right, name)]

    def is_computed(steps: EncoderLayerSteps) -> bool:
        """Return whether your layer computes the changed tensors up to this step, and two from it on.

        A single tensor could be an intermediate result: scores are undivided for a moment.
        """
        changed = [name for name in STEPS if not is_among(known, layouts(steps, name))]
        later = [name for name in changed if STEPS.index(name) >= STEPS.index(step)][:2]
        if len(later) < 2:
            return False
        earlier = changed[: changed.index(later[0])]
        return all(is_among(seen, layouts(steps, name)) for name in earlier + later)

    wrongs = [(mistake, steps) for mistake in MISTAKES if (steps := mistake.build(right)) is not None]
    exact = [(mistake.words, steps) for mistake, steps in wrongs if is_same(output, steps.output)]
    if output.isnan().all():  # an output that many mistakes have in common
        exact = [(words, steps) for words, steps in exact if is_computed(steps)]
    if exact:
        words, first = exact[0]
        equal = [other for other, steps in exact if torch.equal(steps.output, first.output)]
        words = "; or: ".join(dict.fromkeys([words, *equal]))
        return f"{words}. {PROVED}", first
    if cause := own_weights(right.layer, step, numbers):
        return cause, None
    for words, steps in other_options(right):
        if is_same(output, steps.output):
            return f"{words}. {PROVED}", steps
    for mistake, steps in wrongs:
        if mistake.in_one_place and is_computed(steps):
            return f"{mistake.words}. There is at least one more difference after it", steps
    return "", None


def own_weights(reference: nn.TransformerEncoderLayer, step: str, numbers: Tensor) -> str:
    """Return a cause if the values of this step's weight matrix are not among yours, otherwise ""."""
    copied = {}
    for name, (parameter, third) in WEIGHTS.items():
        matrix = reference.get_parameter(parameter)
        matrix = matrix if third is None else matrix.chunk(3)[third]
        copied[name] = torch.isin(matrix.flatten().float(), numbers).double().mean() > 0.5
    if not any(copied.values()):
        return (
            "the weights are not copied: load the weights of the reference into your layer (in_proj_weight "
            "contains the weights of queries, keys and values, in this order), then compare again"
        )
    if not copied.get(step, True):
        return (
            f"the reference's {WEIGHTS[step][0]} is not among your weights: not copied, or {step} are missing"
        )
    norms = {"attention_input": "norm1", "feed_forward_input": "norm2"}
    if not reference.norm_first:
        norms = {"feed_forward_input": "norm1", "output": "norm2"}
    norm = f"{norms.get(step)}.weight"
    weight = reference.get_parameter(norm) if step in norms else torch.empty(0)
    if weight.numel() and not torch.isin(weight.float(), numbers).any():
        return f"the reference's {norm} is not among your weights: not copied, or the norm is missing"
    return ""


def layouts(steps: EncoderLayerSteps, step: str) -> list[Tensor]:
    """Return the layouts in which the same values may occur: heads concatenated, axes swapped or merged."""
    tensor = getattr(steps, step)
    if tensor.dim() == 3:
        return [tensor, tensor.transpose(0, 1), tensor.flatten(0, 1)]
    either = in_every_order(tensor)
    if step in ("scores", "weights"):
        return either  # without tensor.mT, which would be a mistake
    _, _, *joined = either
    merged = EncoderLayerSteps.merge(steps, tensor)
    return [
        *(*either, tensor.mT, tensor.transpose(1, 2)),
        *(both.mT for both in joined),
        *(merged, merged.transpose(0, 1), merged.flatten(0, 1)),
    ]


def in_every_order(tensor: Float[Tensor, "batch heads query_pos key_pos"]) -> list[Tensor]:
    """Return the tensor with batch or heads as the first axis, with both axes separate or merged."""
    heads_first = tensor.transpose(0, 1)
    return [tensor, heads_first, tensor.flatten(0, 1), heads_first.flatten(0, 1)]


def is_same(got: Tensor, wanted: Tensor) -> bool:
    """Return whether two tensors are equal up to rounding."""
    return got.shape == wanted.shape and torch.allclose(got.double(), wanted.double(), **ROUNDING)


def is_among(tensors: list[Tensor], wanted: list[Tensor]) -> bool:
    """Return whether any of the wanted tensors is among `tensors`."""
    return any(is_same(tensor, one) for one in wanted for tensor in tensors)


def nearest(right: EncoderLayerSteps, step: str, candidates: list[Tensor]) -> tuple[float, str] | None:
    """Return the largest difference of the closest tensor of the step's shape, and its position, or None."""
    wanted = getattr(right, step)
    if wanted.dim() == 4:
        candidates = [*candidates, *_heads_unfolded(wanted, candidates)]
    differences = [
        (wanted - tensor).abs().nan_to_num(torch.inf, torch.inf)
        for tensor in candidates
        if tensor.shape == wanted.shape
    ]
    if not differences:
        return None
    closest = min(differences, key=lambda difference: difference.mean().item())
    place = torch.unravel_index(closest.argmax(), closest.shape)
    axes = ["sequence", "position", "feature"]
    if wanted.dim() == 4:
        axes = ["sequence", "head", *(["query", "key"] if step in ("scores", "weights") else axes[1:])]
    return closest.max().item(), ", ".join(f"{axis} {int(i)}" for axis, i in zip(axes, place, strict=True))


def _heads_unfolded(wanted: Tensor, candidates: list[Tensor]) -> list[Tensor]:
    """Return the candidates with batch and heads merged, in either order, in the layout of `wanted`."""
    batch, n_heads = wanted.shape[:2]
    folded = [c for c in candidates if c.shape == wanted.flatten(0, 1).shape]
    batch_first = [c.unflatten(0, (batch, n_heads)) for c in folded]
    return batch_first + [c.unflatten(0, (n_heads, batch)).transpose(0, 1) for c in folded]


def blind_spot(right: EncoderLayerSteps) -> str:
    """Return which differences would not be visible because a parameter has no effect, as in a new layer."""
    parameters = dict(right.layer.named_parameters())
    idle = [name for name, p in parameters.items() if not p.any()]
    idle += [name for name in ("norm1.weight", "norm2.weight") if (parameters[name] == 1).all()]
    if not idle:
        return ""
    return f"{', '.join(idle)} have no effect yet; give them random values in both layers and compare again"
