"""Lesson 12: a low-rank update beside a frozen projection, trained alone, merged without a trace."""

import pytest
import torch
from torch import nn

from tests.tensors import assert_equal, numbers
from tests.third_party import randomised
from transformer_lab import Encoder, EncoderConfig
from transformer_lab.low_rank_adaptation import LowRankLinear, adapt, merge

CONFIG = EncoderConfig(vocab_size=29, d_model=12, n_heads=3, d_ff=11, n_layers=2, dropout=0.0)
IDS = torch.arange(2 * 7).reshape(2, 7) * 11 % 29


def build():
    return randomised(Encoder(CONFIG)).double().eval()


def adapted(**options):
    torch.manual_seed(0)
    encoder = adapt(build(), rank=2, **options)
    for part in encoder.modules():
        if isinstance(part, LowRankLinear):
            nn.init.normal_(part.up)
    return encoder


def test_the_update_by_hand():
    part = LowRankLinear(nn.Linear(2, 2), 1, alpha=3).double()
    part.linear.weight.data, part.linear.bias.data = torch.eye(2).double(), numbers([0.5, 0.25])
    part.down.data, part.up.data = numbers([[1.0, 2.0]]), numbers([[10.0], [20.0]])
    # A x = 1·5 + 2·7 = 19; B A x = (190, 380); times 3
    assert_equal(part(numbers([5.0, 7.0])), numbers([575.5, 1147.25]))
    merged = merge(part)  # a part alone is merged too
    assert type(merged) is nn.Linear
    assert_equal(merged(numbers([5.0, 7.0])), numbers([575.5, 1147.25]))
    assert merged.weight.requires_grad and not part.linear.weight.requires_grad
    assert_equal(part.linear.weight, torch.eye(2).double(), 0)


def test_an_update_begins_at_zero_with_entries_of_size_one_over_the_root_of_its_width():
    torch.manual_seed(0)
    linear = nn.Linear(400, 3)
    part, x = LowRankLinear(linear, rank=100), torch.randn(5, 400)
    assert_equal(part(x), linear(x), 0)
    assert part.down.std().item() == pytest.approx(1 / 20, rel=0.02)


@pytest.mark.parametrize("alpha", [None, 8])
def test_merged_equals_unmerged(alpha):
    encoder = adapted(alpha=alpha)
    wanted, _ = encoder(IDS)
    assert not torch.allclose(wanted, build()(IDS)[0], atol=1e-3)
    merged = merge(encoder)
    assert not any(isinstance(part, LowRankLinear) for part in merged.modules())
    assert merged.state_dict().keys() == build().state_dict().keys()
    assert_equal(merged(IDS)[0], wanted)


@pytest.mark.parametrize("projections", [("query_projection", "value_projection"), ("down_projection",)])
def test_only_the_chosen_updates_are_trained(projections):
    encoder = adapted(projections=projections)
    trained = {name for name, p in encoder.named_parameters() if p.requires_grad}
    assert {name.split(".")[-2] for name in trained} == set(projections)
    assert {name.split(".")[-1] for name in trained} == {"up", "down"}


def test_a_projection_in_two_places_gets_one_update():
    encoder = build()
    one, two = (layer.attention for layer in encoder.layers)
    two.query_projection = one.query_projection
    two.key_projection = two.value_projection
    adapt(encoder, 2, projections=["query_projection", "key_projection", "value_projection"])
    assert one.query_projection is two.query_projection and two.key_projection is two.value_projection
    assert sum(isinstance(part, LowRankLinear) for part in encoder.modules()) == 4
    nn.init.normal_(one.query_projection.up)
    nn.init.normal_(two.key_projection.up)
    wanted, _ = encoder(IDS)
    merge(encoder)
    assert one.query_projection is two.query_projection and two.key_projection is two.value_projection
    assert_equal(encoder(IDS)[0], wanted)


def tied():
    encoder = build()
    one, two = (layer.attention for layer in encoder.layers)
    two.value_projection.weight = one.value_projection.weight
    return encoder


REFUSED = {
    r"got 'query_projection'; try \['query_": (build, {"projections": "query_projection"}),
    r"named \[\], expected \[\]": (build, {"projections": []}),
    "'qeury'\\]": (build, {"projections": ["query_projection", "qeury"]}),
    "two of the projections share one weight": (tied, {}),
    "would be ignored": (lambda: nn.TransformerEncoderLayer(12, 2, 5), {"projections": ["linear1"]}),
    "LowRankLinear does not call this": (lambda: adapt(build(), 2), {"projections": ["linear"]}),
}


@pytest.mark.parametrize("words", REFUSED)
def test_adapt_refuses_and_leaves_the_model_as_it_was(words):
    build_model, options = REFUSED[words]
    model = build_model()
    parts = dict(model.named_modules())
    trained = {name: p.requires_grad for name, p in model.named_parameters()}
    with pytest.raises((TypeError, ValueError), match=words):
        adapt(model, rank=2, **options)
    assert dict(model.named_modules()) == parts
    assert {name: p.requires_grad for name, p in model.named_parameters()} == trained
