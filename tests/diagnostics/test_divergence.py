"""The debugger finds the step where a layer leaves PyTorch's, and names each usual mistake and no other."""

import copy
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.reference_loops import randn
from tests.third_party import randomised
from transformer_lab import EncoderLayer
from transformer_lab.diagnostics.divergence import Divergence, first_divergence, search
from transformer_lab.diagnostics.divergence.mistakes import MISTAKES
from transformer_lab.diagnostics.divergence.steps import STEPS, PostNormSteps, PreNormSteps
from transformer_lab.encoder_layer import from_torch_layer

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
    return randomised(
        nn.TransformerEncoderLayer(D_MODEL, N_HEADS, D_FF, norm_first=norm_first, **options)
    ).double()


def pair(norm_first=False):
    """The reference, and this package's layer with its weights."""
    reference = torch_layer(norm_first)
    return reference, from_torch_layer(reference)


class Layer(nn.Module):
    """What a function makes of a copy of the reference, of x and of the mask."""

    def __init__(self, reference, compute):
        super().__init__()
        self.reference, self.compute = copy.deepcopy(reference), compute

    def forward(self, x, may_attend=None):
        return self.compute(self.reference, x, may_attend)


def with_mistake(reference, mistake):
    """PyTorch's layer written out in steps, with a mistake built in."""
    order = PreNormSteps if reference.norm_first else PostNormSteps
    return Layer(reference, lambda layer, x, may_attend: mistake.build(order(layer, x, may_attend)).output)


def with_steps(reference, steps):
    """PyTorch's layer written out in steps of one's own."""
    return Layer(reference, lambda layer, x, may_attend: steps(layer, x, may_attend).output)


def the_rest(layer, x, heads):
    """What comes behind the heads, in post-norm."""
    x = layer.norm1(x + layer.self_attn.out_proj(heads))
    return layer.norm2(x + layer.linear2(layer.linear1(x).relu()))


def projections(layer, x):
    return F.linear(x, layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias).chunk(3, dim=-1)


# --- layers that are right ------------------------------------------------------------------------


@both_orders
@pytest.mark.parametrize("may_attend", [None, MASK], ids=["open", "masked"])
@pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
def test_this_packages_layer_does_not_diverge(norm_first, may_attend, need_weights):
    reference, ours = pair(norm_first)
    ours.register_forward_pre_hook(
        lambda layer, args, kwargs: (args, kwargs | {"need_weights": need_weights}), with_kwargs=True
    )
    found = first_divergence(ours, reference, X, may_attend)
    assert found.step is None, found
    # What happens inside a fused kernel is not to be seen.
    assert set(STEPS) - set(found.agree) == (set() if need_weights else {"scores", "weights"})


@both_orders
@pytest.mark.parametrize(
    "options", [{"batch_first": False}, {"bias": False}, {"activation": "gelu"}], ids=str
)
def test_every_kind_of_reference_is_understood(norm_first, options):
    reference = torch_layer(norm_first, **options)
    assert first_divergence(from_torch_layer(reference), reference, X, MASK).step is None


def test_a_loop_over_the_heads_is_as_good():
    def loop(layer, x, may_attend):
        heads, width = [], D_MODEL // N_HEADS
        for q, k, v in zip(*(part.split(width, dim=-1) for part in projections(layer, x)), strict=True):
            heads.append((q @ k.mT / width**0.5).softmax(-1) @ v)
        return the_rest(layer, x, torch.cat(heads, dim=-1))

    reference = torch_layer()
    assert first_divergence(Layer(reference, loop), reference).step is None


# --- layers that are wrong ------------------------------------------------------------------------


def same(got, wanted):
    return got.shape == wanted.shape and torch.allclose(got, wanted, rtol=1e-9, atol=1e-9, equal_nan=True)


def told_apart(norm_first):
    """Every mistake that changes the output."""
    reference = torch_layer(norm_first).eval()
    right = from_torch_layer(reference)(X, may_attend=MASK)[0]
    return [mistake for mistake in MISTAKES if not same(with_mistake(reference, mistake)(X, MASK), right)]


@both_orders
def test_every_usual_mistake_is_named(norm_first, monkeypatch):
    kept, build = {}, search._built

    def build_once(mistake, right):  # it is the same each time, since reference and input are
        if mistake not in kept:
            kept[mistake] = build(mistake, right)
        return kept[mistake]

    monkeypatch.setattr(search, "_built", build_once)
    reference = torch_layer(norm_first)
    right = (PreNormSteps if norm_first else PostNormSteps)(reference.eval(), X, MASK)
    for mistake in told_apart(norm_first):
        found = first_divergence(with_mistake(reference, mistake), reference, X, MASK)
        assert found.cause.startswith(mistake.words), found
        assert found.cause.endswith("exactly your output")
        wrong = mistake.build(right)
        assert wrong.output.shape == right.output.shape  # so that the steps that it needs are computed
        members = vars(wrong)
        differs = [step not in members or not same(members[step], getattr(right, step)) for step in STEPS]
        assert STEPS.index(found.step) >= differs.index(True)


def test_every_mistake_shows_somewhere():
    shown = {mistake.words for norm_first in (False, True) for mistake in told_apart(norm_first)}
    # The reference's own activation and eps are no mistakes.
    own = {m.words for m in MISTAKES if m.words.startswith(("the activation is ReLU", "eps is 1e-5"))}
    assert {mistake.words for mistake in MISTAKES} - shown == own


def test_activations_are_compared_with_the_references_own():
    reference = torch_layer(activation="gelu")
    ours = from_torch_layer(reference)
    ours.feed_forward.activation = nn.ReLU()
    found = first_divergence(ours, reference)
    assert found.step == "activated"
    assert found.cause.startswith("the activation is ReLU")


@pytest.mark.parametrize(
    ("moved", "cause"),
    [(lambda x: x.transpose(0, 1), ""), (lambda x: x, "attention runs along the wrong axis, the sequences")],
    ids=["right", "sequences taken for positions"],
)
def test_pytorchs_own_attention_without_batch_first(moved, cause):
    """It joins batch and heads in one axis."""

    def compute(layer, x, may_attend):
        layer.self_attn.batch_first = False
        x = layer.norm1(x + moved(layer.self_attn(*[moved(x)] * 3)[0]))
        return layer.norm2(x + layer.linear2(layer.linear1(x).relu()))

    found = first_divergence(Layer(torch_layer(), compute), torch_layer())
    assert found.cause.startswith(cause)
    assert cause or set(found.agree) == set(STEPS)


def test_the_difference_and_its_place_are_those_of_the_closest_tensor():
    reference, ours = pair()
    ours.feed_forward.up_projection.bias.data[7] += 0.25
    ours.register_forward_pre_hook(lambda *_: (torch.ones(2, 5, D_FF), None)[1])  # of that shape, but far
    found = first_divergence(ours, reference)
    assert found.step == "hidden"
    assert found.difference == pytest.approx(0.25)
    assert found.where.endswith("feature 7")
    assert found.cause == ""
    assert found.agree[-1] == "feed_forward_input"
    assert "none of the usual mistakes" in repr(found)
    assert max(map(len, repr(found).splitlines())) <= 92


def test_what_is_right_at_another_step_is_not_taken_for_the_closest():
    """What enters the last norm has the shape of the output, and is far closer to it than this layer's is."""
    reference, ours = pair()
    for parameter in ours.feed_forward_norm.parameters():
        parameter.data *= 1000
    found = first_divergence(ours, reference, X, MASK)
    assert found.step == "output"
    wanted = PostNormSteps(reference, X, MASK).output.abs().max().item()
    assert found.difference == pytest.approx(999 * wanted)


def test_the_first_of_two_mistakes_is_named():
    reference, ours = pair()
    ours.feed_forward.activation = nn.GELU()
    ours.feed_forward_norm.weight.data[0] += 1
    found = first_divergence(ours, reference)
    assert found.step == "activated"
    assert found.cause.startswith("the activation is GELU,")
    assert found.cause.endswith("something behind it differs as well")


def test_of_two_mistakes_the_first_is_not_taken_for_one_that_it_passes_through():
    """Scores divided by √d_model were undivided for a moment; that is not what is wrong with them."""

    class Twice(PostNormSteps):
        scores = property(lambda self: self.queries @ self.keys.mT / D_MODEL**0.5)
        activated = property(lambda self: F.silu(self.hidden))

    found = first_divergence(with_steps(torch_layer(), Twice), torch_layer())
    assert found.step == "scores"
    assert found.cause.startswith("the scores are divided by √d_model")
    assert found.cause.endswith("differs as well")


@pytest.mark.parametrize(
    ("part", "step"),
    {
        "attention.query_projection": "queries",
        "attention.key_projection": "keys",
        "attention.value_projection": "values",
        "attention.output_projection": "attention_output",
        "attention_norm": "feed_forward_input",
        "feed_forward.up_projection": "hidden",
        "feed_forward.down_projection": "feed_forward_output",
        "feed_forward_norm": "output",
    }.items(),
)
def test_wrong_weights_are_found_in_each_part(part, step):
    reference, ours = pair()
    ours.get_submodule(part).weight.data.flatten()[1] += 0.5
    found = first_divergence(ours, reference)
    assert found.step == step and found.where
    if step in search.MATRICES:
        randomised(ours.get_submodule(part), seed=1)
        cause = first_divergence(ours, reference).cause
        assert cause.startswith(f"the weights of {step} are your layer's own, wanted the reference's ")


def test_dropout_at_work_in_evaluation_is_named():
    dropped = Layer(torch_layer().eval(), lambda layer, x, may_attend: F.dropout(layer(x), 0.5))
    found = first_divergence(dropped, torch_layer())
    assert found.step == "output"
    assert "dropout is at work in eval mode" in found.cause


@pytest.mark.parametrize(
    ("scale", "spoilt", "step", "words"),
    [(1.0, 0.0, "heads", "the scores are not divided"), (None, 0.5, "values", "")],
    ids=["a mistake inside", "a mistake before"],
)
def test_of_a_fused_kernel_what_it_hides_is_no_mistake_and_one_inside_is_told_where_it_comes_out(
    scale, spoilt, step, words
):
    def fused(layer, x, may_attend):
        parts = [part.unflatten(-1, (N_HEADS, -1)).transpose(1, 2) for part in projections(layer, x)]
        heads = F.scaled_dot_product_attention(*parts, scale=scale)
        return the_rest(layer, x, heads.transpose(1, 2).flatten(-2))

    reference = torch_layer()
    ours = Layer(reference, fused)
    ours.reference.self_attn.in_proj_weight.data[-1, 2] += spoilt
    found = first_divergence(ours, reference)
    assert found.step == step
    assert found.cause.startswith(words)


def test_queries_and_keys_that_changed_places_are_there_but_their_scores_are_not():
    reference = torch_layer()
    mistake = next(mistake for mistake in MISTAKES if mistake.words.startswith("queries and keys"))
    found = first_divergence(with_mistake(reference, mistake), reference)
    assert found.step == "scores"
    assert found.agree == ["attention_input", "queries", "keys", "values"]


def test_all_exact_causes_are_told():
    """With as many heads as features in each, √d_model is d_head: no number tells which of the two it was."""
    reference = randomised(nn.TransformerEncoderLayer(9, 3, D_FF, batch_first=True)).double()
    mistake = next(each for each in MISTAKES if each.words.startswith("the scores are divided by √d_model"))
    cause = first_divergence(with_mistake(reference, mistake), reference).cause
    assert "divided by d_head, without the root; or: the scores are divided by √d_model" in cause


@pytest.mark.parametrize(
    ("hidden", "blind"),
    [(-torch.inf, torch.nan), (-torch.inf, 0.0), (-1e4, 0.0)],
    ids=["nan", "zeros", "low"],
)
@pytest.mark.parametrize(
    ("words", "wrong"),
    [("the mask is inverted", lambda m: ~m), ("the mask hides rows, the queries, wanted", lambda m: m.mT)],
    ids=["inverted", "rows"],
)
def test_a_wrong_mask_is_named_whatever_the_number_that_hides(words, wrong, hidden, blind):
    """A sequence without padding sees nothing through an inverted mask."""
    mask = MASK.clone()
    mask[1] = True

    class Wrong(PostNormSteps):
        def hide(self, scores):
            return scores.masked_fill(~wrong(self.may_attend), hidden)

        weights = property(lambda self: self.hide(self.scores).softmax(-1).nan_to_num(blind))

    reference = torch_layer()
    found = first_divergence(with_steps(reference, Wrong), reference, X, mask)
    assert found.step == "weights"
    assert found.cause.startswith(words) and found.cause.endswith("exactly your output")


def test_weights_that_were_not_copied_are_told():
    theirs = from_torch_layer(randomised(torch_layer(), seed=1))
    found = first_divergence(theirs, torch_layer(), X, MASK)
    assert found.cause.startswith("the weights are not copied, your layer has its own; load the reference's")


def test_copies_rounded_to_float32_are_not_taken_for_other_weights():
    reference = torch_layer()
    for parameter in reference.parameters():
        parameter.data += 1e-9
    assert first_divergence(from_torch_layer(reference).float(), reference).cause == ""


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


def test_an_output_of_another_shape_is_told():
    weights_first = Layer(torch_layer(), lambda *_: (torch.ones(2, 3, 5, 5), X))
    found = first_divergence(weights_first, torch_layer())
    assert found.step == "output"
    assert re.search(r"returns shape \(2, 3, 5, 5\), wanted a tensor of shape \(2, 5, 21\)", found.cause)


# --- what it cannot see, and what it refuses ------------------------------------------------------


def test_a_freshly_built_layer_and_a_matrix_of_zeros_are_blind_spots():
    reference = nn.TransformerEncoderLayer(D_MODEL, N_HEADS, D_FF, batch_first=True)
    ours = from_torch_layer(reference)
    ours.attention_norm, ours.feed_forward_norm = ours.feed_forward_norm, ours.attention_norm
    before = torch.get_rng_state()
    found = first_divergence(ours, reference)
    assert found.step is None
    assert "norm1.weight, norm2.weight do nothing yet" in found.blind
    assert "Blind spot" in repr(found)

    assert torch.equal(before, torch.get_rng_state())  # and nothing is changed
    for layer in (ours, reference):
        assert layer.training
        assert {p.dtype for p in layer.parameters()} == {torch.float32}

    reference, ours = pair()
    assert first_divergence(ours, reference).blind == ""
    reference.linear2.weight.data.zero_()
    assert "linear2.weight do nothing yet" in first_divergence(ours, reference).blind


class Other(nn.TransformerEncoderLayer):
    def forward(self, *args, **kwargs):
        return 2 * super().forward(*args, **kwargs)


def no_number():
    layer = torch_layer()
    layer.linear1.bias.data[3] = torch.nan
    return layer


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": X / 0}, "x must hold finite tokens that differ, got NaN or infinity: .*another x"),
        ({"x": X[:, :1].expand_as(X)}, "x must hold finite tokens that differ, got equal tokens"),
        ({"yours": no_number()}, "parameters of yours must be .* in linear1.bias"),
        (
            {"reference": Other(D_MODEL, N_HEADS, D_FF, batch_first=True)},
            "else than its documented formula, got",
        ),
        ({"may_attend": MASK[:, 0, 0]}, r"may_attend has shape \(2, 5\), wanted 4 axes"),
        ({"may_attend": ONE_BLIND_QUERY}, "some query nothing to attend to, where PyTorch returns NaN"),
    ],
)
def test_refuses_what_does_not_fit(changes, message):
    reference, ours = pair()
    with pytest.raises(ValueError, match=message):
        first_divergence(**({"yours": ours, "reference": reference, "x": X, "may_attend": MASK} | changes))


def test_the_report_says_all_that_was_found():
    report = repr(Divergence(["queries"], "scores", 0.125, "sequence 0, head 1", "no scale"))
    assert report == (
        "✗ First divergence: scores; the closest of yours is off by up to 0.12, at sequence 0, head\n"
        "    1.\n"
        "  In agreement before it: queries.\n"
        "  Likely cause: no scale."
    )
    assert repr(Divergence(["output"])) == "✓ No divergence. Seen to agree: output."
