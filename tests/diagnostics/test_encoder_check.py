"""check_encoder: weights of any name and layout are paired; a right layer passes, a wrong one is named."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers import BertConfig, ViTConfig
from transformers.models.bert.modeling_bert import BertLayer
from transformers.models.vit.modeling_vit import ViTLayer

from transformer_lab import EncoderLayer, causal_mask
from transformer_lab.diagnostics import check_encoder
from transformer_lab.encoder_layer import from_torch_layer

D, HEADS, D_FF = 21, 3, 11
D_HEAD = D // HEADS


def reference(**options):
    return nn.TransformerEncoderLayer(D, HEADS, D_FF, batch_first=True, **options)


class Own(nn.Module):
    """A post-norm layer, right by itself; subclasses keep its weights in other ways."""

    def __init__(self):
        super().__init__()
        self.build_attention()
        self.build_feed_forward()
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)

    def build_attention(self):
        self.wq, self.wk, self.wv = (nn.Linear(D, D) for _ in "qkv")
        self.fc = nn.Linear(D, D)

    def build_feed_forward(self):
        self.up, self.down = nn.Linear(D, D_FF), nn.Linear(D_FF, D)

    def project(self, x):
        return self.wq(x), self.wk(x), self.wv(x)

    def out(self, x):
        return self.fc(x)

    def feed_forward(self, x):
        return self.down(self.up(x).relu())

    def split(self, x):
        return x.unflatten(-1, (HEADS, D_HEAD)).transpose(1, 2)

    def merge(self, heads):
        return heads.transpose(1, 2).flatten(-2)

    def forward(self, x, may_attend=None):
        q, k, v = map(self.split, self.project(x))
        scores = q @ k.mT / math.sqrt(D_HEAD)
        if may_attend is not None:
            scores = scores.masked_fill(~may_attend, -1e9)
        weights = scores.softmax(-1)
        x = self.norm1(x + self.out(self.merge(weights @ v)))
        return self.norm2(x + self.feed_forward(x)), weights


class InAList(Own):
    def build_attention(self):
        self.linears = nn.ModuleList(nn.Linear(D, D) for _ in range(4))

    def project(self, x):
        return [linear(x) for linear in self.linears[:3]]

    def out(self, x):
        return self.linears[3](x)


class ValuesFirstInAList(InAList):
    def project(self, x):
        return [linear(x) for linear in self.linears[:3]][::-1]


class Stacked(Own):
    def build_attention(self):
        self.qkv, self.proj = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D)

    def project(self, x):
        return self.qkv(x).chunk(3, dim=-1)

    def out(self, x):
        return self.proj(x)


class StackedByHead(Stacked):
    def project(self, x):
        return [part.flatten(-2) for part in self.qkv(x).unflatten(-1, (HEADS, 3 * D_HEAD)).chunk(3, dim=-1)]


class StackedByFeature(Stacked):
    """As b n (d k h), which is b n (k h d) with its rows in another order."""

    def project(self, x):
        parts = (
            self.qkv(x).unflatten(-1, (D_HEAD, 3, HEADS)).movedim(-2, 0)
        )  # (part, batch, position, d, head)
        return [part.mT.flatten(-2) for part in parts]


class StackedInAnotherOrder(Stacked):
    def build_attention(self):
        self.c_kqv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def project(self, x):
        k, q, v = self.c_kqv(x).chunk(3, dim=-1)
        return q, k, v


class KeysAndValuesTogether(Own):
    def build_attention(self):
        self.to_q, self.to_kv = nn.Linear(D, D), nn.Linear(D, 2 * D)
        self.to_out = nn.Sequential(nn.Linear(D, D), nn.Dropout(0.1))

    def project(self, x):
        return self.to_q(x), *self.to_kv(x).chunk(2, dim=-1)

    def out(self, x):
        return self.to_out(x)


class TimesW(Own):
    def build_attention(self):
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Parameter(torch.ones(D, D)) for _ in range(4))
        self.b_v = nn.Parameter(torch.ones(D))

    def build_feed_forward(self):
        self.W1, self.W2 = nn.Parameter(torch.ones(D, D_FF)), nn.Parameter(torch.ones(D_FF, D))
        self.b1, self.b2 = nn.Parameter(torch.ones(D_FF)), nn.Parameter(torch.ones(D))

    def project(self, x):
        return x @ self.W_q, x @ self.W_k, x @ self.W_v + self.b_v

    def out(self, x):
        return x @ self.W_o

    def feed_forward(self, x):
        return (x @ self.W1 + self.b1).relu() @ self.W2 + self.b2


class AppliedAsLinear(TimesW):
    """As F.linear, which the shapes of square matrices do not tell."""

    def project(self, x):
        return F.linear(x, self.W_q), F.linear(x, self.W_k), F.linear(x, self.W_v, self.b_v)

    def out(self, x):
        return F.linear(x, self.W_o)


class HeadByHead(Own):
    def build_attention(self):
        parts = ("k", "q", "v")
        self.heads = nn.ModuleList(
            nn.ModuleDict({part: nn.Linear(D, D_HEAD) for part in parts}) for _ in range(HEADS)
        )
        self.unify = nn.Linear(D, D)

    def project(self, x):
        parts = ("q", "k", "v")
        return [torch.cat([head[part](x) for head in self.heads], dim=-1) for part in parts]

    def out(self, x):
        return self.unify(x)


class WithAnAxisOfHeads(Own):
    def build_attention(self):
        self.query, self.key, self.value = (nn.Parameter(torch.ones(D, HEADS, D_HEAD)) for _ in "qkv")
        self.output = nn.Parameter(torch.ones(HEADS, D_HEAD, D))
        self.output_bias = nn.Parameter(torch.ones(D))

    def project(self, x):
        return [torch.einsum("bli,ihd->blhd", x, w).flatten(-2) for w in (self.query, self.key, self.value)]

    def out(self, x):
        return torch.einsum("blhd,hdo->blo", x.unflatten(-1, (HEADS, D_HEAD)), self.output) + self.output_bias


class Convolutions(Own):
    def build_feed_forward(self):
        self.up, self.down = nn.Conv1d(D, D_FF, 1), nn.Conv1d(D_FF, D, 1)

    def feed_forward(self, x):
        return self.down(self.up(x.mT).relu()).mT


class OneNumber(Own):
    """A norm with one number for all features, and another without any."""

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.alpha, self.bias = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return self.alpha * F.layer_norm(x, (D,)) + self.bias

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = self.Norm(), nn.LayerNorm(D, elementwise_affine=False)


class NormsTheOtherWayRound(Own):
    def __init__(self):
        super().__init__()
        del self.norm1, self.norm2
        self.norm_out, self.norm_mid = nn.LayerNorm(D), nn.LayerNorm(D)

    norm1 = property(lambda self: self.norm_mid)
    norm2 = property(lambda self: self.norm_out)


RIGHT = [
    *(
        Own,
        InAList,
        ValuesFirstInAList,
        Stacked,
        StackedByHead,
        StackedInAnotherOrder,
        TimesW,
        AppliedAsLinear,
    ),
    *(HeadByHead, WithAnAxisOfHeads, Convolutions, OneNumber, NormsTheOtherWayRound),
]


@pytest.mark.parametrize("own", RIGHT)
def test_a_right_layer_agrees_however_it_keeps_its_weights(own):
    found = check_encoder(own(), reference())
    assert found.holds and not found.guessed and not found.yours_only, found


@pytest.mark.parametrize("own", RIGHT)
def test_the_cause_is_found_however_it_keeps_its_weights(own):
    class Wrong(own):
        def merge(self, heads):
            return heads.reshape(len(heads), -1, D)

    found = check_encoder(Wrong(), reference())
    assert not found.holds and found.divergence.step == "attention_output"
    assert found.divergence.cause.startswith("the heads are merged without swapping heads"), found


@pytest.mark.parametrize("heads_first", [False, True])
@pytest.mark.parametrize(
    ("change", "step", "cause"),
    [
        ("", None, ""),
        ("scale", "scores", "the scores are not divided by √d_head"),
        ("softmax", "weights", "softmax runs over the queries"),
        ("mask", "weights", "the mask of one sequence is used for another"),
    ],
)
def test_batch_and_heads_may_share_an_axis_in_either_order(heads_first, change, step, cause):
    class Folded(Own):
        def fold(self, x):
            heads = self.split(x)
            return (heads.transpose(0, 1) if heads_first else heads).flatten(0, 1)

        def forward(self, x, may_attend):
            q, k, v = map(self.fold, self.project(x))
            scores = q @ k.mT / (1 if change == "scale" else math.sqrt(D_HEAD))
            whole = heads_first if change != "mask" else not heads_first
            mask = may_attend[:, 0]
            masks = mask.repeat(HEADS, 1, 1) if whole else mask.repeat_interleave(HEADS, dim=0)
            weights = scores.masked_fill(~masks, -1e9).softmax(-2 if change == "softmax" else -1)
            sizes = (HEADS, len(x)) if heads_first else (len(x), HEADS)
            heads = (weights @ v).unflatten(0, sizes)
            x = self.norm1(x + self.out(self.merge(heads.transpose(0, 1) if heads_first else heads)))
            return self.norm2(x + self.feed_forward(x))

    found = check_encoder(Folded(), reference()).divergence
    assert found.step == step and found.cause.startswith(cause), found
    if step is None:
        assert {"scores", "weights", "heads"} <= set(found.agree)


def test_exchanged_projections_are_named_where_names_tell():
    class Exchanged(Own):
        def project(self, x):
            return self.wk(x), self.wq(x), self.wv(x)

    found = check_encoder(Exchanged(), reference())
    assert found.divergence.cause.startswith("queries and keys")


def test_what_the_computation_does_not_confirm_is_said_to_be_guessed():
    class Lost(InAList):
        def forward(self, x, may_attend=None):
            return super().forward(x.flip(-1), may_attend)

    found = check_encoder(Lost(), reference())
    assert [pair.name for pair in found.guessed][::2] == [f"linears.{i}.weight" for i in range(4)]
    assert "linears.1.weight ← key.weight" in str(found) and "pairs={…}" in str(found)
    told = {"query": "linears.0", "key": "linears.1", "value": "linears.2", "out_proj": "linears.3"}
    assert not check_encoder(Lost(), reference(), pairs=told).guessed


class KeysAsValues(Own):
    def build_attention(self):
        self.wq, self.wk, self.linear = (nn.Linear(D, D) for _ in range(3))

    def project(self, x):
        return self.wq(x), self.wk(x), self.wk(x)

    def out(self, x):
        return self.linear(x)


class NoOutputProjection(KeysAsValues):
    def project(self, x):
        return self.wq(x), self.wk(x), self.linear(x)

    def out(self, x):
        return x


def test_where_two_are_lacking_the_one_without_a_telling_name_may_be_either():
    found = check_encoder(KeysAsValues(), reference())
    assert [str(pair) for pair in found.guessed] == [
        "linear.weight ← out_proj.weight",
        "linear.bias ← out_proj.bias",
    ]
    assert found.reference_only == ["value.weight", "value.bias"]
    assert "No parameter of yours corresponds to the reference's value.weight, value.bias." in str(found)
    found = check_encoder(NoOutputProjection(), reference())
    assert "linear.weight ← value.weight" in map(str, found.pairs) and not found.guessed
    assert found.divergence.cause.startswith("there is no output projection")


def test_a_bias_of_another_size_is_not_said_to_be_absent():
    found = check_encoder(Own(), nn.TransformerEncoderLayer(D, HEADS, D_FF + 2, batch_first=True))
    assert "Yours has no" not in str(found)
    assert "corresponds to the reference's linear1.weight, linear1.bias, linear2.weight, linear2.bias" in str(
        found
    )


def test_what_a_layer_keeps_from_the_run_in_float64_does_not_reach_the_property_checks():
    class Keeps(Own):
        low = None

        def forward(self, x, may_attend):
            if self.low is None:
                self.low = torch.finfo(x.dtype).min
            q, k, v = map(self.split, self.project(x))
            scores = (q @ k.mT / math.sqrt(D_HEAD)).masked_fill(~may_attend, self.low)
            x = self.norm1(x + self.out(self.merge(scores.softmax(-1) @ v)))
            return self.norm2(x + self.feed_forward(x))

    assert check_encoder(Keeps(), reference()).holds


def test_what_has_no_counterpart_is_listed():
    class More(Own):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(D, D, bias=False)
            self.table = nn.Embedding(5, 2)

    found = check_encoder(More(), reference())
    assert found.holds
    assert found.yours_only == ["table.weight (5, 2)"] and found.reference_only == ["out_proj.bias"]
    assert "Your parameters without a counterpart, left unchanged: table.weight (5, 2)." in str(found)


# --- references -----------------------------------------------------------------------------------


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_pytorchs_layer_agrees_with_this_packages_and_itself(norm_first, activation):
    options = {"norm_first": norm_first, "activation": activation}
    ours = from_torch_layer(reference(**options))
    assert check_encoder(ours, reference(**options, layer_norm_eps=1e-5)).holds
    theirs = reference(**options)
    assert check_encoder(theirs, ours, forward=lambda m, x, a: m(x, src_key_padding_mask=~a[:, 0, 0])).holds


def bert(eps):
    config = BertConfig(hidden_size=D, num_attention_heads=HEADS, intermediate_size=D_FF, layer_norm_eps=eps)
    config._attn_implementation = "eager"
    return BertLayer(config)


def test_a_hugging_face_layer_is_a_reference():
    ours = from_torch_layer(reference(activation="gelu", layer_norm_eps=1e-12))
    assert check_encoder(ours, bert(eps=1e-12)).holds
    found = check_encoder(from_torch_layer(reference(activation="gelu")), bert(eps=1e-12))
    assert found.divergence.cause.startswith("eps is 1e-5 in your layer norms, unlike")
    config = ViTConfig(hidden_size=D, num_attention_heads=HEADS, intermediate_size=D_FF)
    config._attn_implementation = "eager"  # its softmax is in float32
    pre_norm = from_torch_layer(reference(activation="gelu", norm_first=True, layer_norm_eps=1e-12))
    assert check_encoder(pre_norm, ViTLayer(config)).holds


def test_a_hugging_face_layer_is_checked():
    def call(layer, x, may_attend):
        return layer(x, torch.zeros(may_attend.shape, dtype=x.dtype).masked_fill(~may_attend, -torch.inf))

    theirs = reference(activation="gelu", layer_norm_eps=1e-12)
    assert check_encoder(bert(eps=1e-12), theirs, forward=call).holds


def test_an_attention_alone_is_compared_with_nn_multiheadattention():
    class Attention(InAList):
        def forward(self, x, may_attend=None):
            q, k, v = map(self.split, self.project(x))
            heads = F.scaled_dot_product_attention(q, k, v, may_attend, scale=self.scale)
            return self.out(self.merge(heads))

        def build_feed_forward(self):
            self.scale = D_HEAD**-0.5

    attention = Attention()
    del attention.norm1, attention.norm2
    assert check_encoder(attention, nn.MultiheadAttention(D, HEADS)).holds
    attention.scale = D**-0.5
    found = check_encoder(attention, nn.MultiheadAttention(D, HEADS))
    assert found.divergence.cause.startswith("the scores are divided by √d_model") and not found.guessed


def test_other_references_are_refused():
    with pytest.raises(TypeError, match=r"got TransformerEncoder; .* encoder.layers\[0\]"):
        check_encoder(Own(), nn.TransformerEncoder(reference(), 1, enable_nested_tensor=False))

    class Scaled(Own):
        def split(self, x):
            return super().split(x) * 2

    with pytest.raises(ValueError, match=r"formula of nn.TransformerEncoderLayer, got a Scaled"):
        check_encoder(Own(), Scaled())


# --- property checks ------------------------------------------------------------------------------


def test_property_checks_have_their_say():
    class ForgetsTheMask(Own):
        def forward(self, x, may_attend=None):
            return super().forward(x)

    found = check_encoder(ForgetsTheMask(), reference())
    assert [check.holds for check in found.checks] == [True, True, False, True]
    assert found.divergence.cause.startswith("the mask is not used")
    unmasked = check_encoder(ForgetsTheMask(), reference(), masked=False)
    assert unmasked.holds and len(unmasked.checks) == 3


def test_a_check_that_raises_leaves_the_others_their_say():
    class OneLength(Own):
        def forward(self, x, may_attend=None):
            output, weights = super().forward(x, may_attend)
            return output + torch.zeros(5, 1), weights

    found = check_encoder(OneLength(), reference())
    assert "✗ padding invariance cannot be checked: RuntimeError: The size of tensor a" in str(found)
    assert not found.holds and found.checks[0].holds and found.divergence.step is None


def test_a_causal_layer_is_compared_with_its_own_mask():
    class Causal(Own):
        def forward(self, x):
            return super().forward(x, causal_mask(x.shape[1]))

    assert check_encoder(Causal(), reference(), masked=False, may_attend=causal_mask(5)).holds
    found = check_encoder(Causal(), reference(), masked=False)
    assert found.divergence.cause.startswith("a causal mask is applied")


def test_without_a_reference_the_properties_alone_are_checked():
    ids = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
    model = nn.Sequential(nn.Embedding(11, D), nn.Linear(D, D))
    found = check_encoder(model, masked=False, x=ids)
    assert found.holds and str(found).count("✓") == 2 and found.divergence is None
    with pytest.raises(ValueError, match="x is required without a reference"):
        check_encoder(model)


# --- refusals, and what stays as it was -----------------------------------------------------------


def test_a_stack_of_layers_is_refused_and_so_is_an_unknown_role():
    with pytest.raises(
        ValueError, match=r"parameter for query, got 0.wq.weight, 1.wq.weight; pass one encoder"
    ):
        check_encoder(nn.Sequential(Own(), Own()), reference())
    with pytest.raises(ValueError, match=r"one of query, .* to a parameter, got 'q': 'wq'"):
        check_encoder(Own(), reference(), pairs={"q": "wq"})
    with pytest.raises(ValueError, match=r"got 'query': 'queries'"):
        check_encoder(Own(), reference(), pairs={"query": "queries"})


def test_sizes_that_shapes_could_not_tell_apart_are_refused():
    same = nn.TransformerEncoderLayer(D, HEADS, D, batch_first=True)
    with pytest.raises(ValueError, match=r"must differ from d_model, got 21 for both"):
        check_encoder(from_torch_layer(same), same)


def test_other_sizes_are_told():
    class Wide(Own):
        def build_feed_forward(self):
            self.up, self.down = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    with pytest.raises(
        ValueError, match=r"must have 42 values, .* build the reference with the sizes of your"
    ):
        check_encoder(Wide(), reference())
    message = r"axes of the scores, \(2, 3, 5, 5\), each full or of length 1, got \(1, 1, 7, 7\)"
    with pytest.raises(ValueError, match=message):
        check_encoder(Own(), reference(), may_attend=causal_mask(7))


def test_a_mask_before_the_division_is_right():
    class MaskedFirst(Own):
        softmax_over = -1

        def forward(self, x, may_attend):
            q, k, v = map(self.split, self.project(x))
            scores = (q @ k.mT).masked_fill(~may_attend, -1e4) / math.sqrt(D_HEAD)
            x = self.norm1(x + self.out(self.merge(scores.softmax(self.softmax_over) @ v)))
            return self.norm2(x + self.feed_forward(x))

    found = check_encoder(MaskedFirst(), reference())
    assert found.holds and "scores" in found.divergence.agree
    wrong = MaskedFirst()
    wrong.softmax_over = -2
    found = check_encoder(wrong, reference()).divergence
    assert found.step == "weights" and found.cause.startswith("softmax runs over the queries")


def test_other_options_than_the_references_are_told():
    own = from_torch_layer(reference(norm_first=True, activation="gelu", layer_norm_eps=1e-6))
    found = check_encoder(own, reference()).divergence
    assert "other options than the reference: norm_first=True, activation GELU, eps 1e-6" in found.cause
    other_heads = nn.TransformerEncoderLayer(D, 7, D_FF, batch_first=True)
    assert "other options than the reference: 3 heads" in check_encoder(Own(), other_heads).divergence.cause


def test_another_call_than_ours_is_asked_for():
    with pytest.raises(TypeError) as raised:
        check_encoder(reference(), reference())
    note = raised.value.__notes__[0]
    assert note.startswith(
        "Your module was called with x (2, 5, 21) and may_attend (2, 1, 1, 5): (batch, position"
    )
    assert "forward=lambda yours, x, may_attend: …" in note


def test_a_gated_feed_forward_is_refused():
    class Gated(Own):
        def build_feed_forward(self):
            super().build_feed_forward()
            self.gate = nn.Linear(D, D_FF)

    with pytest.raises(ValueError, match=r"parameter for linear1, got up.weight, gate.weight"):
        check_encoder(Gated(), reference())


def test_a_tensor_of_yours_in_float32_is_rounding():
    class Scaled(Own):
        def __init__(self):
            super().__init__()
            self.scale = torch.tensor(D_HEAD).float().sqrt()  # a plain attribute, and not as fine as float64

        def split(self, x):
            return super().split(x) * (math.sqrt(D_HEAD) / self.scale) ** 0.5

    found = check_encoder(Scaled(), reference())
    assert found.holds and "stores some values in float32" in found.divergence.blind


def test_your_module_stays_as_it_was():
    own, wanted = Own(), reference(dropout=0.5)
    before = [copy.deepcopy(module.state_dict()) for module in (own, wanted)]
    check_encoder(own, wanted)
    for module, state in zip((own, wanted), before, strict=True):
        assert module.training
        for name, tensor in module.state_dict().items():
            assert tensor.dtype == torch.float32 and torch.equal(tensor, state[name])


def test_the_weights_of_this_packages_layer_are_paired_by_name():
    found = check_encoder(from_torch_layer(reference()), reference())
    pairs = {pair.name: pair.counterparts for pair in found.pairs}
    assert pairs["attention.output_projection.bias"] == ("out_proj.bias",)
    assert pairs["feed_forward_norm.weight"] == ("norm2.weight",)
    assert isinstance(from_torch_layer(reference()), EncoderLayer) and len(pairs) == 16
