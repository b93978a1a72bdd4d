"""First divergence: the step where a layer leaves PyTorch's; each usual mistake is named, and no other."""

import copy
import random
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.tensors import randn
from tests.third_party import randomised
from transformer_lab import EncoderLayer
from transformer_lab.diagnostics import first_divergence
from transformer_lab.diagnostics.divergence.mistakes import MISTAKES, Mistake
from transformer_lab.diagnostics.divergence.search import WEIGHTS
from transformer_lab.diagnostics.divergence.steps import STEPS, EncoderLayerSteps
from transformer_lab.encoder_layer import from_torch_layer
from transformer_lab.rotary_embedding import RotaryEmbedding, rotate_half_split, rotate_interleaved

D_MODEL, N_HEADS, D_FF = 21, 3, 11
# Each sequence may see other keys, and each query at least one.
MASK = torch.tensor([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]], dtype=torch.bool)[:, None, None]
ONE_BLIND_QUERY = torch.ones(2, 1, 5, 5, dtype=torch.bool)
ONE_BLIND_QUERY[1, :, 3] = False
X = randn(2, 5, D_MODEL, seed=3)

both_orders = pytest.mark.parametrize("norm_first", [False, True], ids=["post", "pre"])


def torch_layer(norm_first=False, **options):
    """Return a layer none of whose parameters is zero or one."""
    options = {"dropout": 0.1, "batch_first": True, "activation": "relu"} | options
    layer = nn.TransformerEncoderLayer(D_MODEL, N_HEADS, D_FF, norm_first=norm_first, **options)
    return randomised(layer).double()


def pair(norm_first=False):
    """The reference, and this package's layer with its weights."""
    reference = torch_layer(norm_first)
    return reference, from_torch_layer(reference)


class Layer(nn.Module):
    """A layer that computes a function of a copy of the reference, of x and of the mask."""

    def __init__(self, reference, compute):
        super().__init__()
        self.reference, self.compute = copy.deepcopy(reference), compute

    def forward(self, x, may_attend=None):
        return self.compute(self.reference, x, may_attend)


def with_steps(reference, steps):
    """PyTorch's layer written out in other steps."""
    return Layer(reference, lambda *inputs: steps(*inputs).output)


def steps_with(**changes):
    """The right steps, some of them replaced."""
    return type("Steps", (EncoderLayerSteps,), {name: property(step) for name, step in changes.items()})


def projections(layer, x):
    return F.linear(x, layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias).chunk(3, dim=-1)


def after_attention(layer, x, attention_output):
    """The second half of a post-norm layer."""
    x = layer.norm1(x + attention_output)
    return layer.norm2(x + layer.linear2(layer.linear1(x).relu()))


# --- layers that are right ------------------------------------------------------------------------


@both_orders
@pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
def test_this_packages_layer_does_not_diverge(norm_first, need_weights):
    reference, ours = pair(norm_first)
    ours.register_forward_pre_hook(
        lambda layer, args, kwargs: (args, kwargs | {"need_weights": need_weights}), with_kwargs=True
    )
    found = first_divergence(ours, reference, X, MASK)
    assert found.step is None, found
    # A fused kernel does not show what it computes inside.
    assert set(STEPS) - set(found.agree) == (set() if need_weights else {"scores", "weights"})


@pytest.mark.parametrize("options", [{"batch_first": False}, {"bias": False}, {"activation": "gelu"}])
def test_every_kind_of_reference_is_understood(options):
    reference = torch_layer(**options)
    assert first_divergence(from_torch_layer(reference), reference, X, MASK).step is None


def loop_over_heads(layer, x, may_attend):
    heads, width = [], D_MODEL // N_HEADS
    for q, k, v in zip(*(part.split(width, dim=-1) for part in projections(layer, x)), strict=True):
        heads.append((q @ k.mT / width**0.5).softmax(-1) @ v)
    return after_attention(layer, x, layer.self_attn.out_proj(torch.cat(heads, dim=-1)))


def batch_second(layer, x, may_attend, move=lambda x: x.transpose(0, 1)):
    """PyTorch's own attention joins batch and heads in one axis."""
    layer.self_attn.batch_first = False
    return after_attention(layer, x, move(layer.self_attn(*[move(x)] * 3)[0]))


@pytest.mark.parametrize("compute", [loop_over_heads, batch_second])
def test_another_inner_structure_is_as_good(compute):
    assert first_divergence(Layer(torch_layer(), compute), torch_layer()).step is None


# --- layers with a mistake ------------------------------------------------------------------------


def is_same(got, wanted):
    return got.shape == wanted.shape and torch.allclose(got, wanted, rtol=1e-9, atol=1e-9, equal_nan=True)


def visible_mistakes(norm_first):
    """Every mistake that changes the output."""
    reference = torch_layer(norm_first).eval()
    right = from_torch_layer(reference)(X, may_attend=MASK)[0]
    steps = EncoderLayerSteps(reference, X, MASK)
    wrongs = [(mistake, mistake.build(steps)) for mistake in MISTAKES]
    return [mistake for mistake, wrong in wrongs if wrong is not None and not is_same(wrong.output, right)]


@both_orders
def test_every_usual_mistake_is_named(norm_first, monkeypatch):
    reference = torch_layer(norm_first)
    right = EncoderLayerSteps(reference.eval(), X, MASK)
    built = {mistake: mistake.build(right) for mistake in MISTAKES}  # once, not for each of them
    monkeypatch.setattr(Mistake, "build", lambda mistake, right: built[mistake])
    for mistake in visible_mistakes(norm_first):
        found = first_divergence(with_steps(reference, mistake.wrong_steps), reference, X, MASK)
        wrong = built[mistake]
        # A tiny eps is alike in and outside the root; NaN says nothing.
        same_weights = (m for m in MISTAKES if built[m] and is_same(built[m].weights, wrong.weights))
        alike = (m for m in same_weights if is_same(built[m].output, wrong.output))
        assert found.cause.startswith(next(alike, mistake).words), found
        assert found.cause.endswith("exactly your output")
        assert right.output.shape == wrong.output.shape  # so that the steps that it needs are computed
        members = vars(wrong)
        differs = [step not in members or not is_same(members[step], getattr(right, step)) for step in STEPS]
        assert STEPS.index(found.step) >= differs.index(True)


def test_every_mistake_shows_somewhere():
    shown = {mistake.words for norm_first in (False, True) for mistake in visible_mistakes(norm_first)}
    # The reference's own activation and eps are no mistakes.
    hidden = {mistake.words for mistake in MISTAKES} - shown
    own = {words for words in hidden if words.startswith(("the activation is ReLU", "eps is 1e-5"))}
    assert len(own) == 2 and all("in addition, eps is 1e-5" in words for words in hidden - own)


def test_activations_are_compared_with_the_references_own():
    reference = torch_layer(activation="gelu")
    ours = from_torch_layer(reference)
    ours.feed_forward.activation = nn.ReLU()
    found = first_divergence(ours, reference)
    assert found.step == "activated" and found.cause.startswith("the activation is ReLU")


def test_pytorchs_own_attention_without_batch_first_is_named():
    mixed = Layer(torch_layer(), lambda *inputs: batch_second(*inputs, move=lambda x: x))
    cause = first_divergence(mixed, torch_layer()).cause
    assert cause.startswith("attention runs along the wrong axis, over the sequences of the batch")


def test_mistakes_that_cannot_be_told_apart_are_all_named():
    """With as many heads as features in each, √d_model is d_head."""
    reference = randomised(nn.TransformerEncoderLayer(9, 3, D_FF, batch_first=True)).double()
    words = "the scores are divided by √d_model"
    mistake = next(mistake for mistake in MISTAKES if mistake.words.startswith(words))
    cause = first_divergence(with_steps(reference, mistake.wrong_steps), reference).cause
    assert f"divided by d_head, expected √d_head; or: {words}" in cause


def test_a_mask_that_hides_nothing_in_the_first_sequence_leaves_two_causes():
    mask = MASK.clone()
    mask[0] = True
    mistake = next(m for m in MISTAKES if m.words.startswith("the mask of the first sequence"))
    cause = first_divergence(with_steps(torch_layer(), mistake.wrong_steps), torch_layer(), X, mask).cause
    assert cause.startswith("the mask is not used; or: the mask of the first sequence is used for all")


@pytest.mark.parametrize("rotate", [rotate_half_split, rotate_interleaved])
def test_rotated_queries_and_keys_are_named_in_the_usual_formats(rotate):
    reference = nn.TransformerEncoderLayer(24, 3, D_FF, batch_first=True).double()
    embedding = RotaryEmbedding(8, rotate=rotate)
    for rotary in (embedding.double(), embedding.float().double()):

        def turned(s, part, rotary=rotary):
            return rotary(EncoderLayerSteps.split(s, s.project(part)))

        steps = steps_with(queries=lambda s: turned(s, 0), keys=lambda s: turned(s, 1))
        cause = first_divergence(with_steps(reference, steps), reference).cause
        assert cause.startswith("queries and keys are rotated by their positions (RoPE)")
        assert cause.endswith("exactly your output")


@pytest.mark.parametrize("eps", [1e-6, 1e-5])
def test_rms_norm_in_float32_is_named_where_other_mistakes_follow(eps):
    def norm(s, norm, x):
        x = x.float()
        return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)).double() * norm.weight + norm.bias

    changes = {"norm": norm, "activated": property(lambda s: F.silu(s.hidden))}
    steps = type("Steps", (EncoderLayerSteps,), changes)
    found = first_divergence(with_steps(torch_layer(True), steps), torch_layer(True))
    assert found.step == "attention_input"
    assert (
        "that is RMSNorm, computed in float32" in found.cause
        and "at least one more difference" in found.cause
    )
    assert ("eps is 1e-6" in found.cause) == (eps == 1e-6)


def test_masks_that_are_repeated_in_another_order_than_the_heads_are_named():
    reference = torch_layer()

    def weights(s):
        scores = s.scores.flatten(0, 1)  # (batch · heads, query_pos, key_pos)
        masks = s.may_attend[:, 0].repeat(N_HEADS, 1, 1)
        return scores.masked_fill(~masks, -1e9).softmax(-1).view(s.scores.shape)

    found = first_divergence(with_steps(reference, steps_with(weights=weights)), reference, X, MASK)
    assert found.step == "weights"
    assert found.cause.startswith("the mask of one sequence is used for another")


def test_a_layer_that_stays_in_float32_is_told_why():
    with pytest.raises(RuntimeError) as raised:
        first_divergence(Layer(torch_layer(), lambda layer, x, _: layer(x.float())), torch_layer())
    assert "runs in float64 here" in raised.value.__notes__[0]


def test_a_softmax_in_float32_is_no_divergence():
    in_float32 = steps_with(weights=lambda s: s.scores.float().softmax(-1).double())
    reference = torch_layer()
    found = first_divergence(with_steps(reference, in_float32), reference)
    assert found.step is None and "float32" in found.blind and "output" in found.agree


def test_a_function_that_a_module_holds_over_itself_belongs_to_the_copy():
    class Holds(nn.Module):
        def __init__(self, reference):
            super().__init__()
            self.layer = copy.deepcopy(reference)
            self.function = lambda x: self.layer(x)

        def forward(self, x):
            return self.function(x)

    reference = torch_layer()
    assert first_divergence(Holds(reference).float(), reference.float()).step is None


@both_orders
@pytest.mark.parametrize("part", ["attention_norm", "feed_forward_norm"])
def test_a_norm_that_was_not_copied_is_told(norm_first, part):
    reference, ours = pair(norm_first)
    setattr(ours, part, nn.LayerNorm(D_MODEL).double())
    wanted = {"attention_norm": "norm1", "feed_forward_norm": "norm2"}[part]
    cause = first_divergence(ours, reference, X, MASK).cause
    assert (
        cause
        == f"the reference's {wanted}.weight is not among your weights: not copied, or the norm is missing"
    )


def test_a_whole_encoder_is_no_reference():
    encoder = nn.TransformerEncoder(torch_layer(), 2, enable_nested_tensor=False)
    with pytest.raises(TypeError, match=r"got TransformerEncoder; .* encoder.layers\[0\]"):
        first_divergence(torch_layer(), encoder)


@pytest.mark.parametrize(("hidden", "blind"), [(-torch.inf, torch.nan), (-torch.inf, 0.0), (-1e4, 0.0)])
@pytest.mark.parametrize(
    ("words", "wrong"),
    [("the mask is inverted", lambda m: ~m), ("the mask hides queries (rows), expected", lambda m: m.mT)],
    ids=["inverted", "rows"],
)
def test_a_wrong_mask_is_named_whatever_the_number_that_hides(words, wrong, hidden, blind):
    """A sequence without padding sees nothing through an inverted mask."""
    mask = MASK.clone()
    mask[1] = True

    def weights(s):
        return s.scores.masked_fill(~wrong(s.may_attend), hidden).softmax(-1).nan_to_num(blind)

    reference = torch_layer()
    found = first_divergence(with_steps(reference, steps_with(weights=weights)), reference, X, mask)
    assert found.step == "weights"
    assert found.cause.startswith(words) and found.cause.endswith("exactly your output")


@pytest.mark.parametrize(
    ("scale", "spoilt", "step", "words"),
    [(1.0, 0.0, "heads", "the scores are not divided"), (None, 0.5, "values", "")],
    ids=["inside", "before"],
)
def test_a_mistake_inside_a_fused_kernel_shows_at_its_output(scale, spoilt, step, words):
    def fused(layer, x, may_attend):
        parts = [part.unflatten(-1, (N_HEADS, -1)).transpose(1, 2) for part in projections(layer, x)]
        heads = F.scaled_dot_product_attention(*parts, scale=scale).transpose(1, 2).flatten(-2)
        return after_attention(layer, x, layer.self_attn.out_proj(heads))

    ours = Layer(torch_layer(), fused)
    ours.reference.self_attn.in_proj_weight.data[-1, 2] += spoilt
    found = first_divergence(ours, torch_layer())
    assert found.step == step and found.cause.startswith(words)


# --- two mistakes, and unknown ones ---------------------------------------------------------------

SQRT_D_MODEL = {"scores": lambda s: s.queries @ s.keys.mT / D_MODEL**0.5}


GELU_ACTIVATION = {"activated": lambda s: F.gelu(s.hidden)}
NO_LAST_NORM = {"output": lambda s: s.residual_after_feed_forward}


@pytest.mark.parametrize(
    ("changes", "step", "words"),
    [
        (SQRT_D_MODEL | GELU_ACTIVATION, "scores", "the scores are divided by √d_"),
        (GELU_ACTIVATION | NO_LAST_NORM, "activated", "the activation is GELU,"),
    ],
)
def test_the_first_of_two_mistakes_is_named(changes, step, words):
    found = first_divergence(with_steps(torch_layer(), steps_with(**changes)), torch_layer())
    assert found.step == step
    assert found.cause.startswith(words) and found.cause.endswith("one more difference after it")


UNKNOWN = {
    # Undivided for a moment.
    "scale": {"scores": lambda s: s.queries @ s.keys.mT / 5},
    # What is projected is there in any case.
    "output projection transposed": {
        "attention_output": lambda s: s.merge(s.heads) @ s.layer.self_attn.out_proj.weight
    },
    "keys used as values only in the scores": {"scores": lambda s: s.queries @ s.values.mT / s.d_head**0.5},
    # NaN everywhere is what several mistakes give.
    "nan": {"attention_output": lambda s: s.x * torch.nan},
    # Begins as post-norm.
    "pre: first norm missing": {"attention_input": lambda s: s.x},
    "pre: another first norm": {"attention_input": lambda s: s.layer.norm1(s.x) * 1.5},
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_no_mistake_is_named_that_was_not_made(name):
    reference = torch_layer(norm_first=name.startswith("pre"))
    found = first_divergence(with_steps(reference, steps_with(**UNKNOWN[name])), reference, X, MASK)
    assert found.step and found.cause == ""
    assert "none of the common mistakes" in repr(found)


# --- other weights --------------------------------------------------------------------------------


PARTS = {
    "attention.query_projection": "queries",
    "attention.key_projection": "keys",
    "attention.value_projection": "values",
    "attention.output_projection": "attention_output",
    "attention_norm": "feed_forward_input",
    "feed_forward.up_projection": "hidden",
    "feed_forward.down_projection": "feed_forward_output",
    "feed_forward_norm": "output",
}


@pytest.mark.parametrize(("part", "step"), PARTS.items())
def test_wrong_weights_are_found_in_each_part(part, step):
    reference, ours = pair()
    ours.get_submodule(part).weight.data.flatten()[1] += 0.5
    found = first_divergence(ours, reference)
    assert found.step == step and found.where and not found.cause
    if step in WEIGHTS:
        randomised(ours.get_submodule(part), seed=1)
        cause = first_divergence(ours, reference).cause
        assert cause.endswith(f"not among your weights: not copied, or {step} are missing")


def test_weights_that_were_not_copied_are_named_and_rounded_copies_are_not():
    reference = torch_layer()
    cause = first_divergence(from_torch_layer(randomised(torch_layer(), seed=1)), reference, X, MASK).cause
    assert cause.startswith("the weights are not copied: load the weights of the reference")
    for parameter in reference.parameters():
        parameter.data += 1e-9
    assert first_divergence(from_torch_layer(reference).float(), reference).cause == ""


# --- the report -----------------------------------------------------------------------------------


def test_the_difference_and_its_place_are_those_of_the_closest_tensor():
    reference, ours = pair()
    ours.feed_forward.up_projection.bias.data[7] += 0.25
    ours.register_forward_pre_hook(lambda *_: (torch.ones(2, 5, D_FF), None)[1])  # of that shape, but far
    found = first_divergence(ours, reference)
    assert found.step == "hidden" and found.agree[-1] == "feed_forward_input"
    assert found.difference == pytest.approx(0.25)
    assert found.where.endswith("feature 7")


def test_a_tensor_that_is_right_at_another_step_is_not_the_closest():
    """The input of the last norm has the output's shape, and is far closer to it than this layer's output."""
    reference, ours = pair()
    for parameter in ours.feed_forward_norm.parameters():
        parameter.data *= 1000
    found = first_divergence(ours, reference, X, MASK)
    assert found.step == "output"
    wanted = EncoderLayerSteps(reference, X, MASK).output.abs().max().item()
    assert found.difference == pytest.approx(999 * wanted)


OUTPUTS = {
    "something is random in eval mode": lambda layer, x, may_attend: F.dropout(layer(x), 0.5),
    r"returns shape \(2, 3, 5, 5\), expected .* \(2, 5, 21\); the output must come first": lambda *_: (
        torch.ones(2, 3, 5, 5),
        X,
    ),
    r"returns shape \(2, 1, 2, 5, 21\), .* a mask with fewer axes": lambda layer, x, _: layer(x).expand(
        2, 1, 2, 5, 21
    ),
}


@pytest.mark.parametrize("words", OUTPUTS)
def test_an_output_that_is_dropped_or_of_another_shape_is_named(words):
    found = first_divergence(Layer(torch_layer().eval(), OUTPUTS[words]), torch_layer())
    assert found.step == "output" and re.search(words, found.cause)


@pytest.mark.parametrize("draw", [None, random.random])
def test_what_is_kept_from_call_to_call_is_not_put_down_to_dropout(draw):
    class Counts(Layer):
        calls = 0

        def forward(self, x, may_attend=None):
            Counts.calls += 1
            return super().forward(x, may_attend) + (draw() if draw else Counts.calls)

    found = first_divergence(Counts(torch_layer().eval(), lambda layer, x, _: layer(x)), torch_layer())
    assert "is kept between calls, as in a counter, or random numbers are drawn without" in found.cause
    assert "dropout" not in found.cause


# --- what it leaves alone, what it cannot see, and what it refuses --------------------------------


def test_a_new_layer_is_a_blind_spot_and_left_as_it_is():
    reference = nn.TransformerEncoderLayer(D_MODEL, N_HEADS, D_FF, batch_first=True)
    ours = from_torch_layer(reference)
    ours.attention_norm, ours.feed_forward_norm = ours.feed_forward_norm, ours.attention_norm
    before = torch.get_rng_state()
    found = first_divergence(ours, reference)
    assert found.step is None
    assert "norm1.weight, norm2.weight have no effect yet" in repr(found)
    assert torch.equal(before, torch.get_rng_state())
    for layer in (ours, reference):
        assert layer.training
        assert {p.dtype for p in layer.parameters()} == {torch.float32}


def test_a_matrix_of_zeros_is_a_blind_spot():
    reference, ours = pair()
    assert first_divergence(ours, reference).blind == ""
    reference.linear2.weight.data.zero_()
    assert "linear2.weight have no effect yet" in first_divergence(ours, reference).blind


def test_what_a_layer_keeps_of_an_earlier_call_does_not_matter():
    """Weights kept for a picture have a gradient, and tensors made in __init__ are float32."""

    class Keeping(EncoderLayer):
        kept, one = None, None

        def forward(self, x):
            x, self.kept = super().forward(x)
            self.one = torch.eye(D_MODEL) if self.one is None else self.one
            return x @ self.one

    reference = torch_layer().float()
    ours = from_torch_layer(reference)
    keeping = Keeping(ours.attention, ours.feed_forward, ours.attention_norm, ours.feed_forward_norm)
    keeping(X.float())
    assert keeping.kept.requires_grad
    assert first_divergence(keeping, reference).step is None
    assert keeping.one.dtype == torch.float32


class Doubled(nn.TransformerEncoderLayer):
    def forward(self, *args, **kwargs):
        return 2 * super().forward(*args, **kwargs)


DOUBLED = Doubled(D_MODEL, N_HEADS, D_FF, batch_first=True)
WITH_NAN = torch_layer()
WITH_NAN.linear1.bias.data[3] = torch.nan


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": X / 0}, "x must contain finite tokens that differ, got NaN or infinity: .*another x"),
        ({"x": X[:, :1].expand_as(X)}, "x must contain finite tokens that differ, got equal tokens"),
        ({"yours": WITH_NAN}, "parameters of yours must be .* in linear1.bias"),
        ({"reference": DOUBLED}, "must compute its documented formula, got"),
        ({"may_attend": MASK[:, 0, 0]}, r"4 axes .*, got torch.bool of shape \(2, 5\)"),
        ({"may_attend": ONE_BLIND_QUERY}, "got a query without keys, for which PyTorch returns NaN"),
    ],
)
def test_refuses_what_does_not_fit(changes, message):
    reference, ours = pair()
    inputs = {"yours": ours, "reference": reference, "x": X, "may_attend": MASK} | changes
    with pytest.raises(ValueError, match=message):
        first_divergence(**inputs)
