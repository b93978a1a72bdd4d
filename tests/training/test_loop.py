"""Lesson 10: the loop is the one of the textbook, it stops where it must, and goes on where it stopped."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.references import assert_equal
from transformer_lab import Encoder, EncoderConfig, SequenceHead, TokenHead, padding_mask_from_lengths
from transformer_lab.training.checkpoints import load_checkpoint, save_checkpoint
from transformer_lab.training.data import IGNORED, Batch, shuffled_batches
from transformer_lab.training.loop import (
    ProgressBar,
    SequenceClassifier,
    TokenClassifier,
    TrainingConfig,
    accuracy,
    build_optimizer,
    evaluating,
    is_due,
    learning_rate_at,
    loss_of,
    train,
    training_step,
)

VOCABULARY, WIDTH, CLASSES, LENGTH = 13, 6, 3, 5


def small_encoder(dropout=0.0, **options):
    torch.manual_seed(2)
    config = EncoderConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, n_heads=2, d_ff=11, n_layers=1, max_length=7, dropout=dropout
    )
    return Encoder(config, **options)


def token_model(**options):
    return TokenClassifier(small_encoder(**options), TokenHead(WIDTH, CLASSES)).double()


def batch_at(step, examples=4):
    """Targets that can be learned: the id modulo 3."""
    generator = torch.Generator().manual_seed(step)
    token_ids = torch.randint(VOCABULARY, (examples, LENGTH), generator=generator)
    return Batch((token_ids,), token_ids % CLASSES)


# --- the learning rate


@pytest.mark.parametrize(
    ("warmup", "wanted"),
    [(2, [4.0, 8.0, 8.0, 6.0, 4.0, 2.0]), (0, [48 / 6, 40 / 6, 32 / 6, 4, 16 / 6, 8 / 6])],
)
def test_learning_rate_by_hand(warmup, wanted):
    config = TrainingConfig(steps=6, learning_rate=8.0, warmup_steps=warmup)
    assert [learning_rate_at(step, config) for step in range(6)] == wanted


@pytest.mark.parametrize("steps, warmup", [(1, 0), (7, 1), (97, 13), (50, 49)])
def test_learning_rate_is_never_zero_and_peaks_once_the_warm_up_is_over(steps, warmup):
    config = TrainingConfig(steps=steps, learning_rate=0.5, warmup_steps=warmup)
    rates = [learning_rate_at(step, config) for step in range(steps)]
    assert min(rates) > 0
    assert max(rates) == rates[max(warmup - 1, 0)] == 0.5
    assert rates[: warmup + 1] == sorted(rates[: warmup + 1])
    assert rates[warmup:] == sorted(rates[warmup:], reverse=True)


# --- one step


def test_first_step_equals_adamw_written_out():
    """Algorithm 2 of arXiv:1711.05101; after one step the corrected means are the gradient and its square."""
    model, config = token_model(), TrainingConfig(steps=1, weight_decay=0.25, max_grad_norm=0.125)
    batch, rate = batch_at(0), 0.01
    loss = F.cross_entropy(model(*batch.inputs).reshape(-1, CLASSES), batch.targets.reshape(-1))
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
    assert norm > config.max_grad_norm  # so that clipping counts
    clip = config.max_grad_norm / (norm + 1e-6)
    wanted = {}
    for (name, parameter), gradient in zip(model.named_parameters(), gradients, strict=True):
        shrunk = parameter * (1 - rate * config.weight_decay) if parameter.dim() > 1 else parameter
        wanted[name] = shrunk - rate * gradient * clip / ((gradient * clip).abs() + 1e-8)

    got = training_step(model, build_optimizer(model, config), batch, rate, config.max_grad_norm)
    assert got == pytest.approx((loss.item(), norm))
    for name, parameter in model.named_parameters():
        assert_equal(parameter.data, wanted[name].detach(), 1e-9)


def test_a_run_is_steps_with_the_schedules_rates_and_no_gradient_is_left_over():
    config = TrainingConfig(steps=5, learning_rate=0.01, warmup_steps=2)
    one, two = token_model(), token_model()
    history = train(one, batch_at, config)
    optimizer = build_optimizer(two, config)
    for step in range(5):
        optimizer.zero_grad()
        for group in optimizer.param_groups:
            group["lr"] = [0.005, 0.01, 0.01, 0.02 / 3, 0.01 / 3][step]
        batch = batch_at(step)
        loss = F.cross_entropy(two(*batch.inputs).mT, batch.targets)
        loss.backward()
        nn.utils.clip_grad_norm_(two.parameters(), 1.0)
        optimizer.step()
        assert history.loss[step] == pytest.approx(loss.item(), abs=1e-12)
    for ours, theirs in zip(one.parameters(), two.parameters(), strict=True):
        assert_equal(ours.data, theirs.data)
    assert history.learning_rate == pytest.approx([0.005, 0.01, 0.01, 0.02 / 3, 0.01 / 3])
    assert len(history.gradient_norm) == history.steps == 5


def test_only_matrices_decay_and_frozen_parameters_stay():
    model = token_model()
    model.encoder.embedding.requires_grad_(False)
    before = model.encoder.embedding.vectors.clone()
    groups = build_optimizer(model, TrainingConfig(steps=1, weight_decay=0.5)).param_groups
    assert [group["weight_decay"] for group in groups] == [0.5, 0.0]
    assert all(p.dim() >= 2 for p in groups[0]["params"]) and all(p.dim() < 2 for p in groups[1]["params"])
    held = sum(len(group["params"]) for group in groups)
    assert held == len(list(model.parameters())) - 1
    train(model, batch_at, TrainingConfig(steps=3, learning_rate=0.1))
    assert_equal(model.encoder.embedding.vectors.data, before, 0)


def test_training_learns():
    history = train(token_model(), batch_at, TrainingConfig(steps=300, learning_rate=0.03, warmup_steps=10))
    assert sum(history.loss[:10]) / 10 > 0.9
    assert sum(history.loss[-10:]) / 10 < 0.1


# --- loss and accuracy


class Given(nn.Module):
    """A model that returns its input."""

    def __init__(self):
        super().__init__()
        self.parameter = nn.Parameter(torch.ones(1))

    def forward(self, logits):
        return logits * self.parameter


def test_loss_by_hand_over_the_targets_that_are_asked():
    logits = torch.tensor([[[0.0, 0.0], [0.0, math.log(3)]], [[5.0, 0.0], [math.log(3), 0.0]]])
    targets = torch.tensor([[0, 1], [IGNORED, 1]])
    wanted = (math.log(2) + math.log(4 / 3) + math.log(4)) / 3
    assert loss_of(Given(), Batch((logits,), targets)).item() == pytest.approx(wanted)
    assert loss_of(Given(), Batch((logits[0],), targets[0])).item() == pytest.approx(math.log(8 / 3) / 2)


def test_accuracy_by_hand_does_not_depend_on_the_batches():
    logits = F.one_hot(torch.tensor([[0, 1, 2], [2, 2, 1], [0, 0, 0]])).double()
    targets = torch.tensor([[0, 1, IGNORED], [2, 0, IGNORED], [1, IGNORED, IGNORED]])
    for batch_size in (1, 2, 3, 7):
        assert accuracy(Given(), Batch((logits,), targets), batch_size=batch_size) == 3 / 5


def test_accuracy_of_nothing_is_refused():
    nothing = Batch((torch.zeros(2, 3, 4),), torch.full((2, 3), IGNORED))
    with pytest.raises(ValueError, match="nothing is asked"):
        accuracy(Given(), nothing)
    with pytest.raises(ValueError, match="nothing is asked"):
        loss_of(Given(), nothing)


# --- modes


def test_evaluation_is_without_dropout_and_gradients_and_every_mode_comes_back():
    model = token_model(dropout=0.5).train()
    model.encoder.layers[0].eval()
    modes = [module.training for module in model.modules()]
    with pytest.raises(KeyError), evaluating(model):
        assert not any(module.training for module in model.modules())
        assert not torch.is_grad_enabled()
        raise KeyError
    assert [module.training for module in model.modules()] == modes
    assert torch.is_grad_enabled()


def test_training_is_with_dropout_evaluation_without_and_afterwards_eval_mode():
    seen = {"training": [], "evaluation": []}
    model = token_model(dropout=0.5)
    batches = lambda step: (seen["training"].append(model.training), batch_at(step))[1]  # noqa: E731

    def evaluate(model):
        seen["evaluation"].append((model.training, torch.is_grad_enabled()))
        return 0.25

    model.eval()
    config = TrainingConfig(steps=7, evaluate_every=3)
    history = train(model, batches, config, evaluate=evaluate)
    assert seen["training"] == [True] * 7
    assert seen["evaluation"] == [(False, False)] * 3
    assert history.scores == {3: 0.25, 6: 0.25, 7: 0.25}
    assert not any(module.training for module in model.modules())


def test_evaluation_does_not_change_the_run():
    config = TrainingConfig(steps=5, evaluate_every=1)
    losses = []
    for evaluate in (None, lambda model: accuracy(model, batch_at(99))):
        model = token_model(dropout=0.5)
        torch.manual_seed(5)
        losses.append(train(model, batch_at, config, evaluate=evaluate).loss)
    assert losses[0] == losses[1]


@pytest.mark.parametrize("every, due", [(0, {7}), (3, {3, 6, 7}), (7, {7}), (9, {7})])
def test_what_is_due_every_so_often_is_due_at_the_end(every, due):
    assert {done for done in range(1, 8) if is_due(done, every, 7)} == due


# --- models


@pytest.mark.parametrize("lengths", [[5, 5], [3, 5]])
def test_classifiers_hand_the_mask_on(lengths):
    token_ids = batch_at(0, examples=2).inputs[0]
    may_attend = padding_mask_from_lengths(torch.tensor(lengths), LENGTH)
    encoder = small_encoder().double()
    hidden, _ = encoder(token_ids, may_attend)
    head = TokenHead(WIDTH, CLASSES).double()
    assert_equal(
        TokenClassifier(encoder, head)(token_ids, may_attend),
        hidden @ head.projection.weight.T + head.projection.bias,
    )
    head = SequenceHead(WIDTH, CLASSES).double()
    means = torch.stack([vectors[:n].mean(0) for vectors, n in zip(hidden, lengths, strict=True)])
    wanted = means @ head.projection.weight.T + head.projection.bias
    assert_equal(SequenceClassifier(encoder, head)(token_ids, may_attend), wanted)


# --- bad numbers stop the run before they reach the parameters


def test_a_loss_that_is_not_finite_stops_the_run():
    model = Given().double()
    logits = torch.tensor([[0.0, math.inf, 0.0], [0.0, 0.0, 0.0]]).double()
    with pytest.raises(FloatingPointError, match=r"the loss is nan.*wanted finite numbers; look for nan"):
        train(model, lambda step: Batch((logits,), torch.tensor([0, 1])), TrainingConfig(steps=1))
    assert_equal(model.parameter.data, torch.ones(1).double(), 0)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"steps": "7"}, "steps must be an integer, got '7'"),
        ({"warmup_steps": 10}, r"warmup_steps must be from 0 to steps - 1 = 9, got 10"),
        ({"learning_rate": math.nan}, "learning_rate must be above 0 and finite, got nan"),
        ({"max_grad_norm": -1.0}, "max_grad_norm must be above 0"),
        ({"evaluate_every": -5}, "evaluate_every must be at least 0"),
        ({"save_every": 0.5}, "save_every must be an integer"),
    ],
)
def test_a_config_that_cannot_be_is_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        TrainingConfig(**({"steps": 10} | options))


ONE = TrainingConfig(steps=1)
RIGHT = Batch((torch.zeros(2, 3),), torch.tensor([0, 1]))
UNTRAINED = nn.Linear(3, 5).requires_grad_(False)


def one_step(model=None, batch_at=batch_at, config=ONE, **options):
    return lambda: train(Given() if model is None else model, batch_at, config, **options)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (one_step(5), r"model must be an nn\.Module, got int"),
        (one_step(UNTRAINED), "no parameter of the model requires a gradient"),
        (one_step(Given().half()), "got parameters in float16"),
        (one_step(batch_at=None), "batch_at must be a function, got None"),
        (one_step(batch_at=lambda step: (1, 2)), "a batch must be a Batch, got tuple"),
        (one_step(config={"steps": 5}), "config must be a TrainingConfig, got dict"),
        (one_step(evaluate=0.5), "evaluate must be a function, got 0.5"),
        (one_step(watch="bar"), "watch must be a function, got 'bar'"),
        (one_step(workers=2), "workers must be Alone or Workers, got 2; see"),
        (one_step(checkpoint="/no/run"), "a folder that does not exist"),
        (lambda: accuracy(nn.Identity(), RIGHT), "Identity has no parameters"),
        (lambda: learning_rate_at(1, ONE), "step must be below 1, got 1"),
        (
            lambda: training_step(UNTRAINED, torch.optim.SGD(UNTRAINED.parameters()), RIGHT, 0.1, 1.0),
            "depends on no parameter that is trained",
        ),
        (
            lambda: training_step(Given(), torch.optim.SGD(UNTRAINED.parameters()), RIGHT, 0.1, 1.0),
            "the optimizer updates parameters of another model",
        ),
        (
            lambda: training_step(UNTRAINED, torch.optim.SGD(UNTRAINED.parameters()), RIGHT, math.nan, 1.0),
            "learning_rate must be above 0 and finite, got nan",
        ),
    ],
)
def test_refuses_in_words(call, words):
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def test_accuracy_of_what_is_no_number_is_refused_where_it_counts():
    logits = torch.zeros(2, 3)
    logits[0, 1] = math.nan
    assert accuracy(Given(), Batch((logits,), torch.tensor([IGNORED, 0]))) == 1.0
    with pytest.raises(FloatingPointError, match="a logit is nan, wanted numbers"):
        accuracy(Given(), Batch((logits,), torch.tensor([0, IGNORED])))


def test_a_gradient_that_is_not_finite_stops_the_run():
    model = Given().double()
    model.parameter.register_hook(lambda given: given * math.inf)
    with pytest.raises(FloatingPointError, match=r"its gradient's length (nan|inf), wanted finite"):
        train(model, lambda step: Batch((torch.eye(2, 3).double(),), torch.tensor([0, 1])), ONE)
    assert_equal(model.parameter.data, torch.ones(1).double(), 0)


def test_a_score_that_is_no_number_stops_the_run():
    with pytest.raises(FloatingPointError, match=r"^evaluate must return a number, got .*nan.*; look for"):
        train(Given(), lambda step: RIGHT, ONE, evaluate=lambda model: torch.tensor(math.nan))


# --- stopping and going on


class PowerCut(Exception):
    pass


def cut_at(step):
    def watch(history, config):
        if history.steps == step:
            raise PowerCut

    return watch


RUN = TrainingConfig(steps=12, learning_rate=0.02, warmup_steps=3, evaluate_every=5, save_every=4)
DATA = Batch((torch.arange(35).reshape(7, 5) % VOCABULARY,), torch.arange(35).reshape(7, 5) % CLASSES)


def run(path=None, watch=None, config=RUN, model=None):
    model = model or token_model(dropout=0.3)  # dropout: so that random numbers count
    torch.manual_seed(3)
    batches = shuffled_batches(DATA, 3)
    evaluate = lambda model: accuracy(model, DATA)  # noqa: E731
    return model, train(model, batches, config, evaluate=evaluate, watch=watch, checkpoint=path)


@pytest.mark.parametrize("step", [4, 6, 11])
def test_a_run_that_was_stopped_goes_on_to_the_same_numbers_bit_by_bit(tmp_path, step):
    wanted, history = run()
    path = tmp_path / "run.safetensors"
    with pytest.raises(PowerCut):
        run(path, watch=cut_at(step))
    torch.manual_seed(12345)  # another process has other random numbers, and other first parameters
    again = small_encoder(dropout=0.3)
    nn.init.normal_(again.embedding.vectors)
    model = TokenClassifier(again, TokenHead(WIDTH, CLASSES)).double()
    seen = []
    model, resumed = run(path, watch=lambda history, config: seen.append(history.steps), model=model)
    assert seen[0] == step // 4 * 4 + 1  # it did go on, from the last checkpoint
    assert resumed == history
    for ours, theirs in zip(model.parameters(), wanted.parameters(), strict=True):
        assert_equal(ours.data, theirs.data, 0)


def test_a_run_that_is_over_is_read_from_its_checkpoint(tmp_path):
    wanted, history = run(tmp_path / "run")
    model, again = run(str(tmp_path / "run"), watch=lambda *_: pytest.fail("a step was made"))
    assert again == history
    for ours, theirs in zip(model.parameters(), wanted.parameters(), strict=True):
        assert_equal(ours.data, theirs.data, 0)
    assert not model.training


def state_of(model):
    return [parameter.clone() for parameter in model.parameters()], torch.get_rng_state()


def is_refused(path, words, model=None, config=RUN):
    """A run refuses its checkpoint, and neither parameters nor random numbers have changed."""
    model = model or token_model(dropout=0.3)
    before = state_of(model)
    with pytest.raises(ValueError, match=words):
        train(model, shuffled_batches(DATA, 3), config, checkpoint=path)
    for kept, now in zip(before, state_of(model), strict=True):
        assert_equal(tuple(kept), tuple(now), 0)


def test_a_damaged_checkpoint_is_refused(tmp_path):
    run(tmp_path / "run")
    data = bytearray((tmp_path / "run").read_bytes())
    data[-3] ^= 4
    (tmp_path / "run").write_bytes(data)
    is_refused(tmp_path / "run", "run is not a whole checkpoint: got other contents than")


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    run(tmp_path / "run")
    is_refused(
        tmp_path / "run",
        r"got learning_rate = 0\.02, wanted 0\.01; go on with",
        config=replace(RUN, learning_rate=0.01),
    )


@pytest.mark.parametrize("part", ["encoder.embedding", "head"])
def test_a_run_that_trains_other_parameters_is_refused(tmp_path, part):
    run(tmp_path / "run")
    frozen = token_model(dropout=0.3)
    frozen.get_submodule(part).requires_grad_(False)
    is_refused(tmp_path / "run", r"is of another run: got trained = \['(encoder|head).*wanted \[\];", frozen)
    run(tmp_path / "other", model=frozen)
    is_refused(tmp_path / "other", r"got trained = \[\], wanted \['(encoder|head)")


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    save_checkpoint(tmp_path / "run", {"vectors": torch.ones(2)}, {"learning_rate": 0.02})
    is_refused(tmp_path / "run", r"is of another run: got evaluate_every = None, wanted 5; go on")


def test_a_checkpoint_that_lacks_a_moment_is_refused(tmp_path):
    run(tmp_path / "run")
    tensors, facts = load_checkpoint(tmp_path / "run")
    del tensors["optimizer/head.projection.bias/exp_avg"]
    save_checkpoint(tmp_path / "run", tensors, facts)
    is_refused(tmp_path / "run", "got kept = .*head.projection")


# --- the bar


class Bar:
    def __init__(self, total, initial, desc):
        self.total, self.n, self.closed, self.losses = total, initial, False, []

    def set_postfix(self, loss, refresh):
        self.losses.append(loss)

    def update(self):
        self.n += 1

    def close(self):
        self.closed = True


def test_the_bar_counts_steps_shows_the_loss_and_closes(tmp_path):
    bars = []
    watch = ProgressBar(lambda **options: bars.append(Bar(**options)) or bars[-1])
    _, history = run(watch=watch)
    (bar,) = bars
    assert (bar.total, bar.n, bar.closed) == (12, 12, True)
    assert bar.losses == [f"{loss:.3f}" for loss in history.loss]

    with pytest.raises(PowerCut):
        run(tmp_path / "run", watch=cut_at(9))
    run(tmp_path / "run", watch=watch)
    assert (bars[1].total, bars[1].n, len(bars[1].losses)) == (12, 12, 4)  # it began at 8


def test_the_real_bar_writes_to_the_error_stream(capsys):
    run(watch=ProgressBar())
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "12/12" in printed.err and "loss=" in printed.err
