"""The debugger finds the step where a layer leaves PyTorch's, and names each usual mistake and no other."""

import copy
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.peers import randomised
from tests.references import assert_equal, randn
from transformer_lab import EncoderLayer, FeedForward, MultiHeadAttention, PreNormEncoderLayer
from transformer_lab.diagnostics.divergence import Divergence, first_divergence
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
with_and_without_mask = pytest.mark.parametrize("may_attend", [None, MASK], ids=["open", "masked"])


def torch_layer(norm_first=False, **options):
    """Return a layer none of whose parameters is zero or one."""
    options = {"dropout": 0.1, "batch_first": True, "activation": "relu"} | options
    return randomised(
        nn.TransformerEncoderLayer(D_MODEL, N_HEADS, D_FF, norm_first=norm_first, **options)
    ).double()


def no_number(layer):
    layer.linear1.bias.data[3] = torch.nan
    layer.forward = lambda x, may_attend: x
    return layer


class Written(nn.Module):
    """PyTorch's layer written out in steps, with a mistake built in, or with none."""

    def __init__(self, reference, mistake=None):
        super().__init__()
        self.reference, self.mistake = reference, mistake

    def forward(self, x, may_attend=None):
        order = PreNormSteps if self.reference.norm_first else PostNormSteps
        right = order(self.reference, x, may_attend)
        return (right if self.mistake is None else self.mistake.build(right)).output


# --- layers that are right ------------------------------------------------------------------------


@both_orders
@with_and_without_mask
def test_the_steps_end_in_what_pytorch_returns(norm_first, may_attend):
    reference = torch_layer(norm_first).eval()
    order = PreNormSteps if norm_first else PostNormSteps
    hidden = None if may_attend is None else ~may_attend[:, 0, 0]
    assert_equal(order(reference, X, may_attend).output, reference(X, src_key_padding_mask=hidden))


@both_orders
@with_and_without_mask
@pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
def test_this_packages_layer_does_not_diverge(norm_first, may_attend, need_weights):
    reference = torch_layer(norm_first)
    ours = from_torch_layer(reference)
    ours.register_forward_pre_hook(
        lambda layer, args, kwargs: (args, kwargs | {"need_weights": need_weights}), with_kwargs=True
    )
    found = first_divergence(ours, reference, X, may_attend)
    assert found.step is None, found
    # What happens inside a fused kernel is not to be seen.
    unseen = set() if need_weights else {"scores", "weights"}
    assert set(STEPS) - set(found.agree) == unseen


@both_orders
@pytest.mark.parametrize(
    "options", [{"batch_first": False}, {"bias": False}, {"activation": "gelu"}], ids=str
)
def test_every_kind_of_reference_is_understood(norm_first, options):
    reference = torch_layer(norm_first, **options)
    assert first_divergence(from_torch_layer(reference), reference, X, MASK).step is None


def test_a_loop_over_the_heads_is_as_good():
    class Loop(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            attention = self.layer.self_attn
            q, k, v = F.linear(x, attention.in_proj_weight, attention.in_proj_bias).chunk(3, dim=-1)
            width = D_MODEL // N_HEADS
            heads = [
                (q[..., i : i + width] @ k[..., i : i + width].mT / width**0.5).softmax(-1)
                @ v[..., i : i + width]
                for i in range(0, D_MODEL, width)
            ]
            x = self.layer.norm1(x + attention.out_proj(torch.cat(heads, dim=-1)))
            return self.layer.norm2(x + self.layer.linear2(self.layer.linear1(x).relu()))

    reference = torch_layer()
    assert first_divergence(Loop(copy.deepcopy(reference)), reference).step is None


# --- layers that are wrong ------------------------------------------------------------------------


def told_apart(norm_first):
    """Every mistake that changes the output."""
    reference = torch_layer(norm_first).eval()
    right = Written(reference)(X, MASK)
    for mistake in MISTAKES:
        if not torch.allclose(Written(reference, mistake)(X, MASK), right, rtol=1e-9, atol=1e-9):
            yield mistake


@both_orders
def test_every_usual_mistake_is_named(norm_first):
    reference = torch_layer(norm_first)
    right = (PreNormSteps if norm_first else PostNormSteps)(reference.eval(), X, MASK)
    for mistake in told_apart(norm_first):
        found = first_divergence(Written(reference, mistake), reference, X, MASK)
        assert found.cause.startswith(mistake.words), found
        assert found.cause.endswith("exactly your output")
        wrong = mistake.build(right)
        assert wrong.output.shape == right.output.shape  # so that the steps that it needs are computed
        members = vars(wrong)
        differs = [step not in members or not same(members[step], getattr(right, step)) for step in STEPS]
        assert STEPS.index(found.step) >= differs.index(True)


def same(got, wanted):
    return got.shape == wanted.shape and torch.allclose(got, wanted, rtol=1e-9, atol=1e-9, equal_nan=True)


def test_without_a_mask_mistakes_in_masks_do_not_disturb():
    reference = torch_layer()
    for mistake in MISTAKES:
        if mistake.words.startswith(("the scores are not divided", "the first residual is missing")):
            assert first_divergence(Written(reference, mistake), reference).cause.startswith(mistake.words)


def test_every_mistake_shows_somewhere():
    shown = {mistake.words for norm_first in (False, True) for mistake in told_apart(norm_first)}
    # The reference's own activation and eps are no mistakes.
    own = {m.words for m in MISTAKES if m.words.startswith(("the activation is ReLU", "eps is 1e-5"))}
    assert {mistake.words for mistake in MISTAKES} - shown == own


@pytest.mark.parametrize(
    ("activation", "words"), [("gelu", "the activation is ReLU"), ("relu", "the activation is GELU,")]
)
def test_activations_are_compared_with_the_references_own(activation, words):
    reference = torch_layer(activation=activation)
    ours = from_torch_layer(reference)
    ours.feed_forward.activation = nn.ReLU() if activation == "gelu" else nn.GELU()
    found = first_divergence(ours, reference)
    assert found.step == "activated"
    assert found.cause.startswith(words)


def test_the_difference_and_its_place_are_those_of_the_tensors():
    reference = torch_layer()
    ours = from_torch_layer(reference)
    with torch.no_grad():
        ours.feed_forward.up_projection.bias[7] += 0.25
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
    reference = torch_layer()
    ours = from_torch_layer(reference)
    with torch.no_grad():
        for parameter in ours.feed_forward_norm.parameters():
            parameter *= 1000
    found = first_divergence(ours, reference, X, MASK)
    assert found.step == "output"
    wanted = PostNormSteps(reference, X, MASK).output.abs().max().item()
    assert found.difference == pytest.approx(999 * wanted)


def test_the_first_of_two_mistakes_is_named():
    reference = torch_layer()
    ours = from_torch_layer(reference)
    ours.feed_forward.activation = nn.GELU()
    with torch.no_grad():
        ours.feed_forward_norm.weight[0] += 1
    found = first_divergence(ours, reference)
    assert found.step == "activated"
    assert found.cause.startswith("the activation is GELU,")
    assert found.cause.endswith("something behind it differs as well")


def test_of_two_mistakes_the_first_is_not_taken_for_one_that_it_passes_through():
    """Scores divided by √d_model were undivided for a moment; that is not what is wrong with them."""

    class Twice(PostNormSteps):
        @property
        def scores(self):
            return self.queries @ self.keys.mT / D_MODEL**0.5

        @property
        def activated(self):
            return F.silu(self.hidden)

    class Layer(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return Twice(self.layer, x, None).output

    found = first_divergence(Layer(torch_layer()), torch_layer())
    assert found.step == "scores"
    assert found.cause.startswith("the scores are divided by √d_model")
    assert found.cause.endswith("differs as well")


def test_a_wrong_weight_is_found_in_each_part():
    for part, step in {
        "attention.query_projection": "queries",
        "attention.key_projection": "keys",
        "attention.value_projection": "values",
        "attention.output_projection": "attention_output",
        "attention_norm": "feed_forward_input",
        "feed_forward.up_projection": "hidden",
        "feed_forward.down_projection": "feed_forward_output",
        "feed_forward_norm": "output",
    }.items():
        reference = torch_layer()
        ours = from_torch_layer(reference)
        with torch.no_grad():
            ours.get_submodule(part).weight.flatten()[1] += 0.5
        found = first_divergence(ours, reference)
        assert found.step == step, part
        assert found.where


def test_dropout_at_work_in_evaluation_is_named():
    class Careless(EncoderLayer):
        def residual(self, x, update):
            return x + F.dropout(update, 0.5)

    reference = torch_layer()
    ours = from_torch_layer(reference)
    careless = Careless(ours.attention, ours.feed_forward, ours.attention_norm, ours.feed_forward_norm)
    found = first_divergence(careless, reference)
    assert found.step == "output"
    assert "dropout is at work in eval mode" in found.cause


def test_what_a_fused_kernel_hides_is_not_taken_for_a_mistake():
    class Fused(nn.Module):
        def forward(self, x, *, may_attend=None, need_weights=True):
            return self.part(x, may_attend=may_attend, need_weights=False)

    reference = torch_layer()
    ours = from_torch_layer(reference)
    fused = Fused()
    fused.part = ours.attention
    ours.attention = fused
    with torch.no_grad():
        fused.part.value_projection.weight[2, 2] += 0.5
    assert first_divergence(ours, reference).step == "values"


def test_a_mistake_inside_a_fused_kernel_is_told_where_it_comes_out():
    class Unscaled(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            attention = self.layer.self_attn
            parts = F.linear(x, attention.in_proj_weight, attention.in_proj_bias).chunk(3, dim=-1)
            parts = [part.unflatten(-1, (N_HEADS, -1)).transpose(1, 2) for part in parts]
            heads = F.scaled_dot_product_attention(*parts, scale=1.0)
            x = self.layer.norm1(x + attention.out_proj(heads.transpose(1, 2).flatten(-2)))
            return self.layer.norm2(x + self.layer.linear2(self.layer.linear1(x).relu()))

    reference = torch_layer()
    found = first_divergence(Unscaled(copy.deepcopy(reference)), reference)
    assert found.step == "heads"
    assert found.cause.startswith("the scores are not divided")


def test_queries_and_keys_that_changed_places_are_there_but_their_scores_are_not():
    reference = torch_layer()
    mistake = next(mistake for mistake in MISTAKES if mistake.words.startswith("queries and keys"))
    found = first_divergence(Written(reference, mistake), reference)
    assert found.step == "scores"
    assert found.agree == ["attention_input", "queries", "keys", "values"]


def test_all_exact_causes_are_told():
    """With as many heads as features in each, √d_model is d_head: no number tells which of the two it was."""
    reference = randomised(nn.TransformerEncoderLayer(9, 3, D_FF, batch_first=True)).double()
    for mistake in MISTAKES:
        if mistake.words.startswith(
            ("the scores are divided by d_head", "the scores are divided by √d_model")
        ):
            cause = first_divergence(Written(reference, mistake), reference).cause
            assert "divided by d_head, without the root; or: the scores are divided by √d_model" in cause


@pytest.mark.parametrize("hidden", [-torch.inf, -1e4, torch.finfo(torch.float64).min])
@pytest.mark.parametrize(
    ("words", "wrong"),
    [("the mask is inverted", lambda m: ~m), ("the mask hides rows, the queries, wanted", lambda m: m.mT)],
    ids=["inverted", "rows"],
)
def test_a_wrong_mask_is_named_whatever_the_number_that_hides(words, wrong, hidden):
    """A sequence without padding sees nothing through an inverted mask."""
    mask = MASK.clone()
    mask[1] = True

    class Wrong(PostNormSteps):
        def hide(self, scores):
            return scores.masked_fill(~wrong(self.may_attend), hidden)

    reference = torch_layer()

    class Layer(Written):
        def forward(self, x, may_attend=None):
            return Wrong(self.reference, x, may_attend).output

    found = first_divergence(Layer(reference), reference, X, mask)
    assert found.step == "weights"
    assert found.cause.startswith(words)


@both_orders
def test_weights_that_were_not_copied_are_told(norm_first):
    reference = torch_layer(norm_first)
    found = first_divergence(
        from_torch_layer(randomised(torch_layer(norm_first), seed=1)), reference, X, MASK
    )
    assert found.cause.startswith("the weights are not copied, your layer has its own; load the reference's")


@pytest.mark.parametrize(
    ("part", "step"),
    [("attention.value_projection", "values"), ("feed_forward.up_projection", "hidden")],
)
def test_a_matrix_that_was_not_copied_is_told(part, step):
    reference = torch_layer()
    ours = from_torch_layer(reference)
    randomised(ours.get_submodule(part), seed=1)
    found = first_divergence(ours, reference)
    assert found.cause.startswith(f"the weights of {step} are your layer's own, wanted the reference's ")


def test_copies_rounded_to_float32_are_not_taken_for_other_weights():
    reference = torch_layer()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter += 1e-9
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


@pytest.mark.parametrize(
    ("result", "got"),
    [(None, "NoneType"), ((torch.ones(2, 3, 5, 5), X), r"shape \(2, 3, 5, 5\)")],
    ids=["none", "weights"],
)
def test_an_output_of_another_kind_or_shape_is_told(result, got):
    class Strange(nn.Module):
        def forward(self, x):
            return result

    found = first_divergence(Strange(), torch_layer())
    assert found.step == "output"
    assert re.search(rf"returns {got}, wanted a tensor of shape \(2, 5, 21\)", found.cause)


def test_what_a_layer_never_computes_is_told():
    found = first_divergence(nn.Linear(D_MODEL, D_MODEL), torch_layer())
    assert found.step == "attention_output"
    assert found.agree == ["attention_input"]
    assert found.difference > 0


# --- what it cannot see, and what it refuses ------------------------------------------------------


def test_a_freshly_built_layer_has_a_blind_spot():
    reference = nn.TransformerEncoderLayer(D_MODEL, N_HEADS, D_FF, batch_first=True)
    ours = from_torch_layer(reference)
    ours.attention_norm, ours.feed_forward_norm = ours.feed_forward_norm, ours.attention_norm
    found = first_divergence(ours, reference)
    assert found.step is None
    assert "norm1.weight, norm2.weight do nothing yet" in found.blind
    assert "Blind spot" in repr(found)
    assert first_divergence(from_torch_layer(torch_layer()), torch_layer()).blind == ""


def test_matrices_of_zeros_are_blind_spots():
    reference = torch_layer()
    reference.linear2.weight.data.zero_()
    assert "linear2.weight do nothing yet" in first_divergence(from_torch_layer(reference), reference).blind


def test_neither_layer_is_changed():
    reference = nn.TransformerEncoderLayer(D_MODEL, N_HEADS, D_FF, batch_first=True)
    ours = from_torch_layer(reference)
    before = torch.get_rng_state()
    first_divergence(ours, reference)
    assert torch.equal(before, torch.get_rng_state())
    for layer in (ours, reference):
        assert layer.training
        assert {p.dtype for p in layer.parameters()} == {torch.float32}


def test_a_layer_with_frozen_numbers_is_refused():
    class Other(nn.TransformerEncoderLayer):
        def forward(self, *args, **kwargs):
            return 2 * super().forward(*args, **kwargs)

    with pytest.raises(ValueError, match="something else than its documented formula, got a difference of"):
        first_divergence(torch_layer(), Other(D_MODEL, N_HEADS, D_FF, batch_first=True))


def test_refuses_what_does_not_fit():
    reference = torch_layer()
    for changes, message in [
        ({"x": X / 0}, "x must hold finite tokens that differ, got NaN or infinity: .*another x"),
        ({"x": X[:, :1]}, r"x must hold finite tokens that differ, got shape \(2, 1, 21\)"),
        ({"x": X[:, :1].expand_as(X)}, "x must hold finite tokens that differ, got equal tokens"),
        ({"yours": no_number(torch_layer())}, "parameters of yours must be .* in linear1.bias"),
        ({"reference": no_number(torch_layer())}, "parameters of reference .* in linear1.bias"),
        ({"may_attend": MASK[:, 0, 0]}, r"may_attend has shape \(2, 5\), wanted 4 axes"),
        ({"may_attend": torch.zeros_like(MASK)}, "nothing to attend to, where PyTorch returns NaN"),
        ({"may_attend": ONE_BLIND_QUERY}, "leaves some query nothing to attend to"),
    ]:
        arguments = {"yours": from_torch_layer(reference), "reference": reference, "x": X, "may_attend": MASK}
        with pytest.raises(ValueError, match=message):
            first_divergence(**(arguments | changes))


def test_the_report_says_all_that_was_found():
    report = repr(Divergence(["queries"], "scores", 0.125, "sequence 0, head 1", "no scale"))
    assert report == (
        "✗ First divergence: scores; the closest of yours is off by up to 0.12, at sequence 0, head\n"
        "    1.\n"
        "  In agreement before it: queries.\n"
        "  Likely cause: no scale."
    )
    assert repr(Divergence(["output"])) == "✓ No divergence. Seen to agree: output."


def test_a_mask_is_handed_on():
    """Without it, what is masked would be compared with what is not."""
    seen = {}

    class Curious(PreNormEncoderLayer):
        def forward(self, x, may_attend=None):
            seen["mask"] = may_attend
            return super().forward(x, may_attend=may_attend)

    parts = (MultiHeadAttention(D_MODEL, N_HEADS), FeedForward(D_MODEL, D_FF))
    first_divergence(Curious(*parts, nn.LayerNorm(D_MODEL), nn.LayerNorm(D_MODEL)), torch_layer(), X, MASK)
    assert torch.equal(seen["mask"], MASK)
