"""Lesson 10. Training: a loop that can be read, stopped, and taken up again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from tqdm import tqdm

from transformer_lab.encoder import Encoder
from transformer_lab.training import checkpoints
from transformer_lab.training.checkpoints import History, Run, check_place, device_of, names_of_trained
from transformer_lab.training.data import IGNORED, Batch, check_targets
from transformer_lab.training.schedule import TrainingConfig, is_due, learning_rate_at


class Classifier(nn.Module):
    """An encoder and a head."""

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head


class TokenClassifier(Classifier):
    """Logits for every token, by a `TokenHead`."""

    def forward(
        self, token_ids: Int[Tensor, "batch position"], may_attend: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "batch position n_classes"]:
        hidden, _ = self.encoder(token_ids, may_attend, need_weights=False)
        return self.head(hidden)


class SequenceClassifier(Classifier):
    """Logits for every sequence, from the mean of its real tokens, by a `SequenceHead`."""

    def forward(
        self,
        token_ids: Int[Tensor, "batch position"],
        may_attend: Bool[Tensor, "batch 1 1 position"] | None = None,
    ) -> Float[Tensor, "batch n_classes"]:
        hidden, _ = self.encoder(token_ids, may_attend, need_weights=False)
        return self.head(hidden, may_attend)


class Alone:
    """One process that does all the work: what `train` asks of its workers. Lesson 13 has several."""

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return what computes the logits; its parameters are those of `model`."""
        return model

    def resume(self, place: str | Path | None, run: Run) -> History:
        """Go on from the checkpoint, if it is there already, and return the history up to it."""
        if place is None:
            return History()
        check_place(place)
        return checkpoints.resume(place, run) if Path(place).exists() else History()

    def share(self, batch: Batch, step: int) -> Batch:
        """Return the rows of a step's batch that this worker reads."""
        return batch

    def loss(self, model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
        """Return the number of which this worker computes the gradient."""
        return loss_of(model, batch)

    def of_all(self, loss: Tensor, gradient_norm: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of the whole batch, and the length of its gradient."""
        return loss, gradient_norm

    def keep(self, place: str | Path, run: Run, history: History) -> None:
        """Write all that a run goes on from."""
        checkpoints.keep(place, run, history)


ALONE = Alone()


def train(
    model: nn.Module,
    batch_at: Callable[[int], Batch],
    config: TrainingConfig,
    *,
    evaluate: Callable[[nn.Module], float] | None = None,
    watch: Callable[[History, TrainingConfig], None] | None = None,
    checkpoint: str | Path | None = None,
    workers: Alone = ALONE,
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
        workers: who shares the work, such as `Workers` of lesson 13.

    Raises:
        FloatingPointError: the loss or the gradient is not finite; the parameters are still those before.
        ValueError: targets that do not fit the logits, or a checkpoint that is damaged or of another run.
    """
    wrapped = workers.wrap(model)
    run = Run(model, build_optimizer(model, config), asdict(config))
    history = workers.resume(checkpoint, run)
    device = device_of(model)

    for step in range(history.steps, config.steps):
        model.train()
        learning_rate = learning_rate_at(step, config)
        batch = workers.share(batch_at(step), step).to(device)
        loss, gradient_norm = training_step(
            wrapped, run.optimizer, batch, learning_rate, config.max_grad_norm, workers
        )
        history.loss.append(loss)
        history.learning_rate.append(learning_rate)
        history.gradient_norm.append(gradient_norm)
        if evaluate is not None and is_due(history.steps, config.evaluate_every, config.steps):
            with evaluating(model):
                history.scores[history.steps] = float(evaluate(model))
        if checkpoint is not None and is_due(history.steps, config.save_every, config.steps):
            workers.keep(checkpoint, run, history)
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
    workers: Alone = ALONE,
) -> tuple[float, float]:
    """Update the parameters once; return the loss, and the length of the gradient before it was clipped."""
    names_of_trained(model, optimizer)  # refuses what is no model and its optimizer
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.zero_grad()
    loss = workers.loss(model, batch)
    if not loss.requires_grad:
        raise ValueError("the loss depends on no parameter that is trained; is there a no_grad or a detach?")
    loss.backward()
    gradient_norm = nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
    loss, gradient_norm = workers.of_all(loss, gradient_norm)
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
    if any(parameter.dtype == torch.float16 for parameter in trained):
        raise ValueError("got parameters in float16, in which AdamW's eps is 0; train in float32 or bfloat16")
    groups = [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate)


def loss_of(model: nn.Module, batch: Batch) -> Float[Tensor, ""]:
    """Return the mean cross-entropy, in nats, over the targets that are not IGNORED.

    Raises:
        ValueError: targets that do not fit the logits, or of which every one is IGNORED.
    """
    logits = model(*batch.inputs)
    check_targets(logits, batch.targets)
    return F.cross_entropy(logits.flatten(0, -2), batch.targets.flatten(), ignore_index=IGNORED)


def accuracy(model: nn.Module, data: Batch, *, batch_size: int = 256) -> float:
    """Return the share of the targets, those IGNORED left out, whose class has the highest logit, not nan."""
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
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


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
