"""Lesson 10. Training: a loop that can be read, stopped, and taken up again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from tqdm import tqdm

from transformer_lab.encoder import Encoder, SequenceHead, TokenHead
from transformer_lab.training import checkpoints
from transformer_lab.training.checkpoints import History, check_place, device_of, names_of_trained
from transformer_lab.training.data import IGNORED, Batch, check_batch, check_targets
from transformer_lab.validation import check_integer, check_number, check_parts, check_positive


class TokenClassifier(nn.Module):
    """An encoder and a head: logits for every token."""

    def __init__(self, encoder: Encoder, head: TokenHead) -> None:
        super().__init__()
        check_parts(encoder=encoder, head=head)
        self.encoder = encoder
        self.head = head

    def forward(
        self, token_ids: Int[Tensor, "batch position"], may_attend: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "batch position n_classes"]:
        hidden, _ = self.encoder(token_ids, may_attend, need_weights=False)
        return self.head(hidden)


class SequenceClassifier(nn.Module):
    """An encoder and a head: logits for every sequence, from the mean of its real tokens."""

    def __init__(self, encoder: Encoder, head: SequenceHead) -> None:
        super().__init__()
        check_parts(encoder=encoder, head=head)
        self.encoder = encoder
        self.head = head

    def forward(
        self,
        token_ids: Int[Tensor, "batch position"],
        may_attend: Bool[Tensor, "batch 1 1 position"] | None = None,
    ) -> Float[Tensor, "batch n_classes"]:
        hidden, _ = self.encoder(token_ids, may_attend, need_weights=False)
        return self.head(hidden, may_attend)


@dataclass(frozen=True)
class TrainingConfig:
    """How to train: AdamW, linear warm-up, then linear decay to 0, as BERT was (Appendix A.2, 1810.04805).

    Attributes:
        steps: number of updates.
        learning_rate: the highest one, reached at the end of the warm-up.
        warmup_steps: during which the learning rate rises.
        weight_decay: by which every matrix shrinks, times the learning rate; biases and norms do not.
        max_grad_norm: a longer gradient is scaled down to this length.
        evaluate_every, save_every: steps between two evaluations, two checkpoints; 0 means at the end only.
    """

    steps: int
    learning_rate: float = 1e-3
    warmup_steps: int = 0
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    evaluate_every: int = 0
    save_every: int = 0

    def __post_init__(self) -> None:
        check_positive(steps=self.steps)
        check_integer(warmup_steps=self.warmup_steps)
        check_integer(evaluate_every=self.evaluate_every, save_every=self.save_every, at_least=0)
        check_number(learning_rate=self.learning_rate, max_grad_norm=self.max_grad_norm, above=0)
        check_number(weight_decay=self.weight_decay)
        if not 0 <= self.warmup_steps < self.steps:
            raise ValueError(
                f"warmup_steps must be from 0 to steps - 1 = {self.steps - 1}, got {self.warmup_steps}; "
                "the learning rate would never reach its height"
            )
        if self.weight_decay < 0:
            raise ValueError(f"weight_decay must be at least 0, got {self.weight_decay}; 0 switches it off")


def train(
    model: nn.Module,
    batch_at: Callable[[int], Batch],
    config: TrainingConfig,
    *,
    evaluate: Callable[[nn.Module], float] | None = None,
    watch: Callable[[History, TrainingConfig], None] | None = None,
    checkpoint: str | Path | None = None,
) -> History:
    """Train `model` in place, leave it in eval mode, and return what happened.

    Args:
        model: maps a batch's inputs to logits (..., n_classes).
        batch_at: returns the batch of a step, 0, 1, 2, …: the same one whenever it is asked.
        config: how to train.
        evaluate: returns a score of the model, which is in eval mode and without gradients meanwhile.
        watch: is called after each step, for example a `ProgressBar()`.
        checkpoint: a .safetensors file. If it exists the run goes on from there, to the same numbers that
            it would have reached without a stop.

    Raises:
        FloatingPointError: the loss or the gradient is not finite; the parameters are still those before.
        TypeError: an argument, a batch or a score of another kind.
        ValueError: targets that do not fit the logits, or a checkpoint that is damaged or of another run.
    """
    check_callable(batch_at=batch_at)
    check_callable(evaluate=len if evaluate is None else evaluate, watch=len if watch is None else watch)
    if checkpoint is not None:
        check_place(checkpoint)
    optimizer = build_optimizer(model, config)
    history = History()
    if checkpoint is not None and Path(checkpoint).exists():
        history = checkpoints.resume(checkpoint, model, optimizer, asdict(config))
    device = device_of(model)

    for step in range(history.steps, config.steps):
        model.train()
        learning_rate = learning_rate_at(step, config)
        batch = batch_at(step)
        check_batch(batch)
        loss, gradient_norm = training_step(
            model, optimizer, batch.to(device), learning_rate, config.max_grad_norm
        )
        history.loss.append(loss)
        history.learning_rate.append(learning_rate)
        history.gradient_norm.append(gradient_norm)
        if evaluate is not None and is_due(history.steps, config.evaluate_every, config.steps):
            with evaluating(model):
                history.scores[history.steps] = as_score(evaluate(model))
        if checkpoint is not None and is_due(history.steps, config.save_every, config.steps):
            checkpoints.keep(checkpoint, model, optimizer, asdict(config), history)
        if watch is not None:
            watch(history, config)
    model.eval()
    return history


def training_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    learning_rate: float,
    max_grad_norm: float,
) -> tuple[float, float]:
    """Update the parameters once; return the loss, and the length of the gradient before it was clipped."""
    names_of_trained(model, optimizer)  # refuses what is no model and its optimizer
    check_number(learning_rate=learning_rate, max_grad_norm=max_grad_norm, above=0)
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    if not loss.requires_grad:
        raise ValueError("the loss depends on no parameter that is trained; is there a no_grad or a detach?")
    loss.backward()
    gradient_norm = nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
    if not (loss.isfinite() and gradient_norm.isfinite()):
        raise FloatingPointError(
            f"the loss is {loss.item():.3g} and its gradient's length {gradient_norm.item():.3g}, wanted "
            "finite numbers; look for nan in the inputs, then lower the learning rate or lengthen the warm-up"
        )
    optimizer.step()
    return loss.item(), gradient_norm.item()


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.AdamW:
    """AdamW (arXiv:1711.05101) on what may be trained; only matrices decay, biases and norms do not."""
    check_model(model)
    check_config(config)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise ValueError("no parameter of the model requires a gradient; try model.requires_grad_(True)")
    if any(parameter.dtype == torch.float16 for parameter in trained):
        raise ValueError("got parameters in float16, in which AdamW's eps is 0; train in float32 or bfloat16")
    groups = [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate)


def learning_rate_at(step: int, config: TrainingConfig) -> float:
    """Return the learning rate of a step, counted from 0: never 0, and at its height after the warm-up."""
    check_config(config)
    check_integer(step=step, at_least=0)
    if step >= config.steps:
        raise ValueError(f"step must be below {config.steps}, got {step}; the run has no more")
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    return config.learning_rate * (config.steps - step) / (config.steps - config.warmup_steps)


def is_due(steps_done: int, every: int, steps: int) -> bool:
    """Whether something happens now that happens every so often, and at the end."""
    return steps_done == steps or (every > 0 and steps_done % every == 0)


def loss_of(model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
    """Return the mean cross-entropy, in nats, over the targets that are not IGNORED.

    Raises:
        ValueError: targets that do not fit the logits, or of which every one is IGNORED.
    """
    check_callable(model=model)
    check_batch(batch)
    logits = model(*batch.inputs)
    check_targets(logits, batch.targets)
    return F.cross_entropy(logits.flatten(0, -2), batch.targets.flatten(), ignore_index=IGNORED)


def accuracy(model: nn.Module, data: Batch, *, batch_size: int = 256) -> float:
    """Return the share of the targets, those IGNORED left out, whose class has the highest logit, not nan."""
    check_batch(data)
    check_positive(batch_size=batch_size)
    right = asked = 0
    with evaluating(model):
        device = device_of(model)
        for start in range(0, len(data), batch_size):
            batch = data.rows(slice(start, start + batch_size)).to(device)
            logits = model(*batch.inputs)
            check_targets(logits, batch.targets, some_asked=False)
            counts = batch.targets != IGNORED
            if logits[counts].isnan().any():
                raise FloatingPointError(
                    "a logit is nan, wanted numbers; look for nan in inputs and parameters"
                )
            right += (logits.argmax(dim=-1) == batch.targets).sum().item()  # a class is never IGNORED
            asked += counts.sum().item()
    if not asked:
        raise ValueError(f"nothing is asked: every target is IGNORED ({IGNORED}); look how they were made")
    return right / asked


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Within, no dropout and no gradients; afterwards every module is in the mode in which it was."""
    check_model(model)
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def as_score(score: float | Tensor) -> float:
    """Return what `evaluate` returned as a number; raise TypeError if it is none."""
    try:
        return float(score)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"evaluate must return a number, got {score!r}; try score.mean()") from error


def check_model(model: nn.Module) -> None:
    """Raise unless it is a module."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module, got {type(model).__name__}; build it first")


def check_config(config: TrainingConfig) -> None:
    """Raise unless it is a `TrainingConfig`."""
    if not isinstance(config, TrainingConfig):
        raise TypeError(f"config must be a TrainingConfig, got {type(config).__name__}; build one")


def check_callable(**functions: Callable) -> None:
    """Raise unless all of them can be called."""
    for name, function in functions.items():
        if not callable(function):
            raise TypeError(f"{name} must be a function, got {function!r}; write one, or a lambda")


class ProgressBar:
    """A bar that shows how far the training is, and the last loss: a `watch` for `train`."""

    def __init__(self, make_bar: Callable[..., tqdm] = tqdm) -> None:
        check_callable(make_bar=make_bar)
        self.make_bar = make_bar
        self.bar: tqdm | None = None

    def __call__(self, history: History, config: TrainingConfig) -> None:
        if self.bar is None:
            done_before = history.steps - 1  # more than 0 if the run goes on from a checkpoint
            self.bar = self.make_bar(total=config.steps, initial=done_before, desc="training")
        self.bar.set_postfix(loss=f"{history.loss[-1]:.3f}", refresh=False)
        self.bar.update()
        if history.steps == config.steps:
            self.bar.close()
            self.bar = None
