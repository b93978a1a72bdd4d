"""Lesson 10. Training: a loop that can be read, stopped, and taken up again."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from tqdm import tqdm

from transformer_lab.checkpoints import (
    check_same_facts,
    device_of,
    gather,
    load_checkpoint,
    save_checkpoint,
    scatter,
)
from transformer_lab.checks import check_positive
from transformer_lab.encoder import Encoder, SequenceHead, TokenHead
from transformer_lab.training_data import IGNORED, Batch, check_targets


class TokenClassifier(nn.Module):
    """An encoder and a head: logits for every token."""

    def __init__(self, encoder: Encoder, head: TokenHead) -> None:
        super().__init__()
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
        if not 0 <= self.warmup_steps < self.steps:
            raise ValueError(
                f"warmup_steps must be from 0 to steps - 1 = {self.steps - 1}, got {self.warmup_steps}; "
                "the learning rate would never reach its height"
            )
        for name in ("learning_rate", "max_grad_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}; try the default")
        for name in ("weight_decay", "evaluate_every", "save_every"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)}; 0 switches it off")


@dataclass
class History:
    """What happened at each step, and the scores: how many steps were done → what `evaluate` returned."""

    loss: list[float] = field(default_factory=list)
    learning_rate: list[float] = field(default_factory=list)
    gradient_norm: list[float] = field(default_factory=list)
    scores: dict[int, float] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """How many steps are done."""
        return len(self.loss)


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
        ValueError: targets that do not fit the logits, or a checkpoint that is damaged or of another run.
    """
    optimizer = build_optimizer(model, config)
    history = History()
    if checkpoint is not None and Path(checkpoint).exists():
        history = resume(checkpoint, model, optimizer, config)
    device = device_of(model)

    for step in range(history.steps, config.steps):
        model.train()
        learning_rate = learning_rate_at(step, config)
        batch = batch_at(step).to(device)
        loss, gradient_norm = training_step(model, optimizer, batch, learning_rate, config.max_grad_norm)
        history.loss.append(loss)
        history.learning_rate.append(learning_rate)
        history.gradient_norm.append(gradient_norm)
        if evaluate is not None and is_due(history.steps, config.evaluate_every, config.steps):
            with evaluating(model):
                history.scores[history.steps] = float(evaluate(model))
        if checkpoint is not None and is_due(history.steps, config.save_every, config.steps):
            keep(checkpoint, model, optimizer, config, history)
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
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.zero_grad()
    loss = loss_of(model, batch)
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
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        raise ValueError("no parameter of the model requires a gradient; try model.requires_grad_(True)")
    groups = [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate)


def learning_rate_at(step: int, config: TrainingConfig) -> float:
    """Return the learning rate of a step, counted from 0: never 0, and at its height after the warm-up."""
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
    logits = model(*batch.inputs)
    check_targets(logits, batch.targets)
    return F.cross_entropy(logits.flatten(0, -2), batch.targets.flatten(), ignore_index=IGNORED)


def accuracy(model: nn.Module, data: Batch, *, batch_size: int = 256) -> float:
    """Return the share of the targets, those IGNORED left out, whose class has the highest logit."""
    check_positive(batch_size=batch_size)
    right = asked = 0
    with evaluating(model):
        device = device_of(model)
        for start in range(0, len(data), batch_size):
            batch = data.rows(slice(start, start + batch_size)).to(device)
            logits = model(*batch.inputs)
            check_targets(logits, batch.targets, some_asked=False)
            right += (logits.argmax(dim=-1) == batch.targets).sum().item()  # a class is never IGNORED
            asked += (batch.targets != IGNORED).sum().item()
    if not asked:
        raise ValueError(f"nothing is asked: every target is IGNORED ({IGNORED}); look how they were made")
    return right / asked


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Within, no dropout and no gradients; afterwards every module is in the mode in which it was."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


def keep(
    path: str | Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    config: TrainingConfig,
    history: History,
) -> None:
    """Write a checkpoint."""
    facts = {"config": asdict(config), "history": asdict(history)}
    save_checkpoint(path, gather(model, optimizer), facts)


def resume(
    path: str | Path, model: nn.Module, optimizer: torch.optim.Optimizer, config: TrainingConfig
) -> History:
    """Fill model, optimizer and random numbers from a checkpoint, and return the history up to there."""
    tensors, facts = load_checkpoint(path)
    check_same_facts(path, facts["config"], asdict(config))
    scatter(path, tensors, model, optimizer)
    history = History(**facts["history"])
    history.scores = {int(step): score for step, score in history.scores.items()}  # JSON knows only text keys
    return history


class ProgressBar:
    """A bar that shows how far the training is, and the last loss: a `watch` for `train`."""

    def __init__(self, make_bar: Callable[..., tqdm] = tqdm) -> None:
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
