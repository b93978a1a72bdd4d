"""Lesson 10: the loop is the one of the textbook, it stops where it must, and goes on where it stopped."""

import inspect
import json
import math
import re
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

from tests.reference_loops import assert_equal
from transformer_lab import Encoder, EncoderConfig, SequenceHead, TokenHead, padding_mask_from_lengths
from transformer_lab.training import checkpoints, data, loop, schedule
from transformer_lab.training.checkpoints import save_checkpoint
from transformer_lab.training.data import IGNORED, Batch, shuffled_batches
from transformer_lab.training.loop import (
    ProgressBar,
    SequenceClassifier,
    TokenClassifier,
    TrainingConfig,
    accuracy,
    build_optimizer,
    evaluating,
    learning_rate_at,
    loss_of,
    train,
    training_step,
)

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
    ("warmup", "wanted"),
    [
        (2, [4.0, 8.0, 8.0, 6.0, 4.0, 2.0]),
        (5, [8 / 5, 16 / 5, 24 / 5, 32 / 5, 8.0, 8.0]),
    ],
)
def test_learning_rate_by_hand(warmup, wanted):
    config = TrainingConfig(steps=6, learning_rate=8.0, warmup_steps=warmup)
    assert [learning_rate_at(step, config) for step in range(6)] == wanted


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
    rates = [0.005, 0.01, 0.01, 0.02 / 3, 0.01 / 3]
    one, two = token_model(), token_model()
    history = train(one, batch_at, config)
    optimizer = build_optimizer(two, config)
    for step, rate in enumerate(rates):
        optimizer.zero_grad()
        for group in optimizer.param_groups:
            group["lr"] = rate
        batch = batch_at(step)
        loss = F.cross_entropy(two(*batch.inputs).mT, batch.targets)
        loss.backward()
        nn.utils.clip_grad_norm_(two.parameters(), 1.0)
        optimizer.step()
        assert history.loss[step] == pytest.approx(loss.item(), abs=1e-12)
    assert_same_parameters(one, two, 1e-10)
    assert history.learning_rate == pytest.approx(rates)
    assert len(history.gradient_norm) == history.steps == 5


# --- models, loss and accuracy


def test_classifiers_hand_the_mask_on():
    token_ids, lengths = batch_at(0, examples=2).inputs[0], [3, 5]
    may_attend = padding_mask_from_lengths(torch.tensor(lengths), LENGTH)
    encoder, head = small_encoder().double(), SequenceHead(WIDTH, CLASSES).double()
    hidden, _ = encoder(token_ids, may_attend)
    means = torch.stack([vectors[:n].mean(0) for vectors, n in zip(hidden, lengths, strict=True)])
    for kind, vectors in ((TokenClassifier, hidden), (SequenceClassifier, means)):
        head = (TokenHead if kind is TokenClassifier else SequenceHead)(WIDTH, CLASSES).double()
        wanted = vectors @ head.projection.weight.T + head.projection.bias
        assert_equal(kind(encoder, head)(token_ids, may_attend), wanted)


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
    for batch_size in (1, 2, 7):
        assert accuracy(Given(), Batch((logits,), targets), batch_size=batch_size) == 3 / 5


def test_accuracy_of_what_is_no_number_is_refused_where_it_counts():
    logits = torch.zeros(2, 3)
    logits[0, 1] = math.nan
    assert accuracy(Given(), Batch((logits,), torch.tensor([IGNORED, 0]))) == 1.0
    with pytest.raises(FloatingPointError, match="a logit is nan, wanted numbers"):
        accuracy(Given(), Batch((logits,), torch.tensor([0, IGNORED])))


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
    model = token_model(dropout=0.5).eval()
    batches = lambda step: (seen["training"].append(model.training), batch_at(step))[1]  # noqa: E731

    def evaluate(model):
        seen["evaluation"].append((model.training, torch.is_grad_enabled()))
        return 0.25

    history = train(model, batches, TrainingConfig(steps=7, evaluate_every=3), evaluate=evaluate)
    assert seen["training"] == [True] * 7
    assert seen["evaluation"] == [(False, False)] * 3
    assert history.scores == {3: 0.25, 6: 0.25, 7: 0.25}
    assert not any(module.training for module in model.modules())


# --- what is refused, and bad numbers stop the run before they reach the parameters


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be at least 1"),
        ({"warmup_steps": 10}, r"warmup_steps must be from 0 to steps - 1 = 9, got 10"),
        ({"warmup_steps": 0.5}, "warmup_steps must be an integer"),
        ({"learning_rate": math.nan}, "learning_rate must be above 0 and finite, got nan"),
        ({"max_grad_norm": -1.0}, "max_grad_norm must be above 0"),
        ({"evaluate_every": -5}, "evaluate_every must be at least 0"),
    ],
)
def test_a_config_that_cannot_be_is_refused(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        TrainingConfig(**({"steps": 10} | options))


def test_a_config_of_numpys_numbers_can_be_kept_in_a_checkpoint():
    config = TrainingConfig(np.int64(10), learning_rate=np.float32(0.5))
    assert json.loads(json.dumps(asdict(config)))["steps"] == 10


ONE = TrainingConfig(steps=1)
RIGHT = Batch((torch.zeros(2, 3),), torch.tensor([0, 1]))
NOTHING = Batch((torch.zeros(2, 3),), torch.full((2,), IGNORED))
INFINITE = Batch((torch.tensor([[0.0, math.inf, 0.0], [0.0, 0.0, 0.0]]),), torch.tensor([0, 1]))
UNTRAINED = nn.Linear(3, 5).requires_grad_(False)
SGD = torch.optim.SGD(UNTRAINED.parameters())


def one_step(model, batch=RIGHT, **options):
    return train(model, lambda step: batch, ONE, **options)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: one_step(UNTRAINED), "depends on no parameter that is trained"),
        (lambda: one_step(Given().half()), "got parameters in float16"),
        (lambda: one_step(Given(), NOTHING), "nothing is asked"),
        (lambda: one_step(Given(), checkpoint="/no/run"), "No such file or directory"),
        (lambda: accuracy(Given(), NOTHING), "nothing is asked"),
        (lambda: learning_rate_at(1, ONE), "step must be at most 0, got 1"),
        (lambda: training_step(Given(), SGD, RIGHT, 0.1, 1.0), "updates parameters of another model"),
    ],
)
def test_refuses_in_words(call, words):
    with pytest.raises((ValueError, OSError), match=words):
        call()


@pytest.mark.parametrize(
    ("batch", "factor", "words"),
    [
        (INFINITE, 1, r"the loss is nan.*wanted finite numbers; look for nan"),
        (
            Batch((torch.eye(2, 3),), RIGHT.targets),
            math.inf,
            r"its gradient's length (nan|inf), wanted finite",
        ),
    ],
    ids=["loss", "gradient"],
)
def test_what_is_not_finite_stops_the_run(batch, factor, words):
    model = Given()
    model.parameter.register_hook(lambda gradient: gradient * factor)
    with pytest.raises(FloatingPointError, match=words):
        one_step(model, batch)
    assert_equal(model.parameter.data, torch.ones(1), 0)


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
    evaluate = lambda model: accuracy(model, DATA)  # noqa: E731
    batches = shuffled_batches(DATA, 3)
    return model, train(model, batches, config, evaluate=evaluate, watch=watch, checkpoint=path)


def test_a_run_that_was_stopped_goes_on_to_the_same_numbers_bit_by_bit(tmp_path):
    wanted, history = run()
    path = tmp_path / "run.safetensors"
    with pytest.raises(PowerCut):
        run(path, watch=cut_at(11))
    other = token_model(dropout=0.3)  # another process has other first parameters
    nn.init.normal_(other.encoder.embedding.vectors)
    seen = []
    model, resumed = run(path, watch=lambda history, config: seen.append(history.steps), model=other)
    assert seen[0] == 9  # it did go on, from the last checkpoint
    assert resumed == history
    assert_same_parameters(model, wanted)


def test_a_run_that_is_over_is_read_from_its_checkpoint(tmp_path):
    wanted, history = run(tmp_path / "run")
    model, again = run(str(tmp_path / "run"), watch=lambda *_: pytest.fail("a step was made"))
    assert again == history
    assert_same_parameters(model, wanted)
    assert not model.training


def is_refused(path, words, model=None, config=RUN):
    """A run refuses its checkpoint, and neither parameters nor random numbers have changed."""
    model = model or token_model(dropout=0.3)
    before = [*(parameter.clone() for parameter in model.parameters()), torch.get_rng_state()]
    with pytest.raises(ValueError, match=words):
        train(model, shuffled_batches(DATA, 3), config, checkpoint=path)
    assert_equal((*model.parameters(), torch.get_rng_state()), tuple(before), 0)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    path, frozen = tmp_path / "run", token_model(dropout=0.3)
    frozen.head.requires_grad_(False)
    run(path)
    slower = replace(RUN, learning_rate=0.01)
    is_refused(path, r"is of another run: got learning_rate = 0\.02, wanted 0\.01; go on with", config=slower)
    is_refused(path, r"is of another run: got trained = \['head.*wanted \[\];", frozen)
    save_checkpoint(path, {"vectors": torch.ones(2)}, {"learning_rate": 0.02})
    is_refused(path, r"is of another run: got evaluate_every = None, wanted 5; go on")


# --- the bar, and what is loaded


def test_the_bar_counts_steps_shows_the_loss_and_closes(tmp_path, capsys):
    bars = []
    watch = ProgressBar(lambda **options: bars.append(tqdm(**options)) or bars[-1])
    with pytest.raises(PowerCut):
        run(tmp_path / "run", watch=cut_at(9))
    _, history = run(tmp_path / "run", watch=watch)
    run(watch=watch)
    assert [(bar.initial, bar.n, bar.total, bar.disable) for bar in bars] == [
        (8, 12, 12, True),
        (0, 12, 12, True),
    ]
    assert bars[0].postfix == f"loss={history.loss[-1]:.3f}"
    printed = capsys.readouterr()
    assert printed.out == "" and "12/12" in printed.err


def test_one_process_loads_nothing_of_several():
    for module in (checkpoints, data, loop, schedule):
        imports = re.findall(r"^(?:import|from) .*", inspect.getsource(module), re.MULTILINE)
        assert not [line for line in imports if re.search(r"distributed|workers|shards", line)]
