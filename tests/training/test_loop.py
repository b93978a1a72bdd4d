"""Lesson 10: the loop is that of the textbook, stops at nan, and resumes where it stopped."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

from tests.tensors import assert_equal
from transformer_lab import Encoder, EncoderConfig, SequenceHead, TokenHead, padding_mask_from_lengths
from transformer_lab.training import (
    IGNORED,
    Batch,
    ProgressBar,
    SequenceClassifier,
    TokenClassifier,
    TrainingConfig,
    accuracy,
    cross_entropy_loss,
    learning_rate_at,
    shuffled_batches,
    train,
)
from transformer_lab.training.loop import evaluating

VOCABULARY, WIDTH, CLASSES, LENGTH = 13, 6, 3, 5


def small_encoder(dropout=0.0):
    torch.manual_seed(2)
    config = EncoderConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, n_heads=2, d_ff=11, n_layers=1, max_length=7, dropout=dropout
    )
    return Encoder(config)


def token_model(dropout=0.0):
    return TokenClassifier(small_encoder(dropout), TokenHead(WIDTH, CLASSES)).double()


def batch_at(step, examples=4):
    generator = torch.Generator().manual_seed(step)
    token_ids = torch.randint(VOCABULARY, (examples, LENGTH), generator=generator)
    return Batch((token_ids,), token_ids % CLASSES)


def assert_same_parameters(ours, theirs, tolerance=0):
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_equal(one.data, other.data, tolerance)


# --- steps


@pytest.mark.parametrize(
    ("warmup", "rates"), [(2, [4.0, 8.0, 8.0, 6.0, 4.0, 2.0]), (5, [1.6, 3.2, 4.8, 6.4, 8.0, 8.0])]
)
def test_learning_rate_by_hand(warmup, rates):
    config = TrainingConfig(steps=6, learning_rate=8.0, warmup_steps=warmup)
    assert [learning_rate_at(step, config) for step in range(6)] == pytest.approx(rates)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"warmup_steps": 10}, "warmup_steps must be at most 9, got 10"),
        ({"warmup_steps": 0.5}, "warmup_steps must be an integer"),  # a ratio would double the first rate
        ({"max_grad_norm": -1.0}, "max_grad_norm must be above 0"),
    ],
)
def test_a_config_that_cannot_be_is_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        TrainingConfig(**({"steps": 10} | options))


def test_a_run_is_pytorchs_adamw_with_the_schedule_decayed_matrices_and_clipped_gradients():
    config = TrainingConfig(
        steps=5, learning_rate=0.01, warmup_steps=2, weight_decay=0.25, max_grad_norm=0.125
    )
    rates = [0.005, 0.01, 0.01, 0.02 / 3, 0.01 / 3]
    one, two = token_model(), token_model()
    history = train(one, batch_at, config)
    matrices = [parameter for parameter in two.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in two.parameters() if parameter.dim() < 2]
    groups = [{"params": matrices, "weight_decay": 0.25}, {"params": vectors, "weight_decay": 0}]
    optimizer = torch.optim.AdamW(groups)
    for step, rate in enumerate(rates):
        optimizer.zero_grad()
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = batch_at(step)
        loss = F.cross_entropy(two(*batch.inputs).mT, batch.targets)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(two.parameters(), 0.125)
        assert norm > 0.125  # so that clipping counts
        optimizer.step()
        assert history.loss[step] == pytest.approx(loss.item(), abs=1e-12)
        assert history.gradient_norm[step] == pytest.approx(norm.item(), abs=1e-12)
    assert_same_parameters(one, two, 1e-10)
    assert history.learning_rate == pytest.approx(rates)


# --- models, loss and accuracy


def test_classifiers_pass_the_mask_on():
    token_ids, lengths = batch_at(0, examples=2).inputs[0], [3, 5]
    may_attend = padding_mask_from_lengths(torch.tensor(lengths), LENGTH)
    encoder = small_encoder().double()
    hidden, _ = encoder(token_ids, may_attend)
    means = torch.stack([vectors[:n].mean(0) for vectors, n in zip(hidden, lengths, strict=True)])
    kinds = (TokenClassifier, TokenHead, hidden), (SequenceClassifier, SequenceHead, means)
    for kind, make_head, vectors in kinds:
        head = make_head(WIDTH, CLASSES).double()
        wanted = vectors @ head.projection.weight.T + head.projection.bias
        assert_equal(kind(encoder, head)(token_ids, may_attend), wanted)


class Scaled(nn.Module):
    """A model that returns its input, times a parameter of 1."""

    def __init__(self):
        super().__init__()
        self.parameter = nn.Parameter(torch.ones(1))

    def forward(self, logits):
        return logits * self.parameter


def test_loss_by_hand_ignores_targets():
    logits = torch.tensor([[[0.0, 0.0], [0.0, math.log(3)]], [[5.0, 0.0], [math.log(3), 0.0]]])
    targets = torch.tensor([[0, 1], [IGNORED, 1]])
    wanted = (math.log(2) + math.log(4 / 3) + math.log(4)) / 3
    assert cross_entropy_loss(logits, targets).item() == pytest.approx(wanted)
    assert cross_entropy_loss(logits[0], targets[0]).item() == pytest.approx(math.log(8 / 3) / 2)


def test_accuracy_by_hand_does_not_depend_on_the_batches():
    logits = F.one_hot(torch.tensor([[0, 1, 2], [2, 2, 1], [0, 0, 0]])).double()
    targets = torch.tensor([[0, 1, IGNORED], [2, 0, IGNORED], [1, IGNORED, IGNORED]])
    for batch_size in (1, 2, 7):
        assert accuracy(Scaled(), Batch((logits,), targets), batch_size=batch_size) == 3 / 5


def test_nan_is_refused_by_accuracy_where_it_counts():
    logits = torch.zeros(2, 3)
    logits[0, 1] = math.nan
    assert accuracy(Scaled(), Batch((logits,), torch.tensor([IGNORED, 0]))) == 1.0
    with pytest.raises(FloatingPointError, match="a logit is NaN"):
        accuracy(Scaled(), Batch((logits,), torch.tensor([0, IGNORED])))


def test_targets_that_do_not_fit_are_refused():
    batch = Batch((torch.zeros(2, 3, 5),), torch.zeros(2, 1).long())  # accuracy would broadcast them
    for call in (
        lambda: cross_entropy_loss(batch.inputs[0], torch.zeros(3, 2)),
        lambda: accuracy(Scaled(), batch),
    ):
        with pytest.raises(ValueError, match=r"targets have shape .*, expected \(2, 3\)"):
            call()
    for target in (-1, 5):
        with pytest.raises(ValueError, match=f"targets must be from 0 to 4, or -100, got {target}"):
            accuracy(Scaled(), Batch((torch.zeros(1, 5),), torch.tensor([target])))


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


def test_training_is_in_train_mode_and_evaluation_and_the_end_are_in_eval_mode():
    in_train_mode = []
    model = token_model(dropout=0.5).eval()

    def batches(step):
        in_train_mode.append(model.training)
        return batch_at(step)

    def evaluate(model):
        assert not model.training and not torch.is_grad_enabled()
        return 0.25

    history = train(model, batches, TrainingConfig(steps=7, evaluate_every=3), evaluate=evaluate)
    assert in_train_mode == [True] * 7
    assert history.scores == {3: 0.25, 6: 0.25, 7: 0.25}
    assert not any(module.training for module in model.modules())


# --- numbers that are not finite stop the run before they reach the parameters

ONE_STEP = TrainingConfig(steps=1)
FINITE = Batch((torch.eye(2, 3),), torch.tensor([0, 1]))
INFINITE = Batch((torch.tensor([[0.0, math.inf, 0.0], [0.0, 0.0, 0.0]]),), torch.tensor([0, 1]))
NO_TARGET = Batch((torch.eye(2, 3),), torch.full((2,), IGNORED))


@pytest.mark.parametrize(
    ("batch", "factor", "words"),
    [
        (INFINITE, 1, "the loss is nan"),
        (NO_TARGET, 1, "the loss is nan .* a batch in which every target is IGNORED"),
        (FINITE, math.inf, "the gradient norm (nan|inf), expected finite"),
    ],
    ids=["loss", "no target", "gradient"],
)
def test_what_is_not_finite_stops_the_run(batch, factor, words):
    model = Scaled()
    model.parameter.register_hook(lambda gradient: gradient * factor)
    with pytest.raises(FloatingPointError, match=words):
        train(model, lambda step: batch, ONE_STEP)
    assert_equal(model.parameter.data, torch.ones(1), 0)


def test_float16_is_refused():
    with pytest.raises(ValueError, match="got float16"):
        train(Scaled().half(), lambda step: FINITE, ONE_STEP)


# --- interruption


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
    evaluate = lambda model: accuracy(model, DATA)  # noqa: E731
    batches = shuffled_batches(DATA, 3)
    return model, train(model, batches, config, evaluate=evaluate, watch=watch, checkpoint=path)


def test_a_run_that_was_stopped_resumes_bit_by_bit_and_its_end_is_read(tmp_path):
    uninterrupted, history = run()
    path = tmp_path / "run.safetensors"
    with pytest.raises(PowerCut):
        run(path, watch=cut_at(11))
    other = token_model(dropout=0.3)  # another process has other first parameters
    nn.init.normal_(other.head.projection.weight)
    steps = []
    model, resumed = run(path, watch=lambda history, config: steps.append(history.steps), model=other)
    assert steps == [9, 10, 11, 12]  # from the last checkpoint on
    assert resumed == history
    assert_same_parameters(model, uninterrupted)

    model, again = run(str(path), watch=lambda *_: pytest.fail("a step was made"))
    assert again == history
    assert_same_parameters(model, uninterrupted)
    assert not model.training


@pytest.mark.parametrize("place", ["", "missing/run"])
def test_a_place_that_cannot_be_written_is_noticed_before_the_first_step(tmp_path, place):
    with pytest.raises(OSError):
        run(tmp_path / place, watch=lambda *_: pytest.fail("a step was made"))


def test_the_bar_of_a_run_that_resumes_counts_on_and_another_run_gets_its_own(tmp_path):
    bars = []
    watch = ProgressBar(lambda **options: bars.append(tqdm(**options)) or bars[-1])
    with pytest.raises(PowerCut):
        run(tmp_path / "run", watch=cut_at(9))
    run(tmp_path / "run", watch=watch)
    run(watch=watch)
    assert [(bar.initial, bar.n, bar.total) for bar in bars] == [(8, 12, 12), (0, 12, 12)]
    assert all(bar.disable for bar in bars)  # closed
