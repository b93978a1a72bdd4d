"""Lesson 10. The training loop, the models it trains, the loss and the accuracy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from tqdm import tqdm

from transformer_lab.encoder import Encoder
from transformer_lab.training.checkpoints import History, restore, save
from transformer_lab.training.data import IGNORED, Batch
from transformer_lab.training.schedule import TrainingConfig, every_n_steps, learning_rate_at


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


def check_target_shape(logits: Tensor, targets: Tensor) -> None:
    """Raise unless there is a target for each row of logits: others of the same number would fit silently."""
    if targets.shape != logits.shape[:-1]:
        raise ValueError(
            f"targets have shape {tuple(targets.shape)}, wanted {tuple(logits.shape[:-1])}, that of the "
            "logits without their last axis; a head for tokens needs one for each token"
        )


def cross_entropy_loss(
    logits: Float[Tensor, "batch *position n_classes"],
    targets: Int[Tensor, " batch *position"],
    reduction: str = "mean",
) -> Float[Tensor, "..."]:
    """Return the mean cross-entropy, in nats, over the targets that are not IGNORED."""
    check_target_shape(logits, targets)
    return F.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), ignore_index=IGNORED, reduction=reduction
    )


def train(
    model: nn.Module,
    batch_at: Callable[[int], Batch],
    config: TrainingConfig,
    *,
    loss_fn: Callable[[Tensor, Tensor], Tensor] = cross_entropy_loss,
    evaluate: Callable[[nn.Module], float] | None = None,
    watch: Callable[[History, TrainingConfig], None] | None = None,
    checkpoint: str | Path | None = None,
) -> History:
    """Train `model` in place with AdamW, leave it in eval mode, and return the history of the run.

    Args:
        model: maps a batch's inputs to logits (..., n_classes).
        batch_at: returns the batch of a step, 0, 1, 2, …: always the same batch for the same step.
        config: how to train.
        loss_fn: maps logits and targets to the loss, a scalar.
        evaluate: returns a score of the model, which is in eval mode and without gradients meanwhile.
        watch: is called after each step, for example a `ProgressBar()`.
        checkpoint: a .safetensors file. If it exists the run resumes from it, and gives the same numbers as
            without an interruption.

    Raises:
        FloatingPointError: the loss or the gradient is not finite; the parameters are still those before.
        ValueError: a checkpoint that is damaged or of another run.
    """
    optimizer, history = build_optimizer(model, config), History()
    if checkpoint is not None and Path(checkpoint).is_file():
        history = restore(checkpoint, model, optimizer, config)
    elif checkpoint is not None:  # a folder that cannot be written is noticed now, not after hours
        save(checkpoint, model, optimizer, config, history)
    device = next(model.parameters()).device

    for step in range(history.steps, config.steps):
        model.train()
        batch = batch_at(step).to(device)
        optimizer.zero_grad()
        logits = model(*batch.inputs)
        loss = loss_fn(logits, batch.targets)
        loss.backward()
        gradient_norm = nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
        if not (loss.isfinite() and gradient_norm.isfinite()):
            raise FloatingPointError(
                f"the loss is {loss.item():.3g} and the gradient norm {gradient_norm.item():.3g}, wanted "
                "finite numbers; look for nan in the inputs, or a batch in which every target is IGNORED; "
                "then lower the learning rate or lengthen the warm-up"
            )
        learning_rate = learning_rate_at(step, config)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
        optimizer.step()

        history.loss.append(loss.item())
        history.learning_rate.append(learning_rate)
        history.gradient_norm.append(gradient_norm.item())
        if evaluate is not None and every_n_steps(history.steps, config.evaluate_every, config.steps):
            with evaluating(model):
                history.scores[history.steps] = float(evaluate(model))
        if checkpoint is not None and every_n_steps(history.steps, config.save_every, config.steps):
            save(checkpoint, model, optimizer, config, history)
        if watch is not None:
            watch(history, config)
    model.eval()
    return history


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


def accuracy(model: nn.Module, data: Batch, *, batch_size: int = 256) -> float:
    """Return the fraction of the targets, without IGNORED ones, whose class has the highest logit."""
    n_correct = n_targets = 0
    device = next(model.parameters()).device
    with evaluating(model):
        for start in range(0, len(data), batch_size):
            batch = data.rows(slice(start, start + batch_size)).to(device)
            logits = model(*batch.inputs)
            check_target_shape(logits, batch.targets)
            counts = batch.targets != IGNORED
            if logits[counts].isnan().any():  # argmax would call nan the highest
                raise FloatingPointError("a logit is nan; look for nan in the inputs and the parameters")
            unknown = counts & ((batch.targets < 0) | (batch.targets >= logits.shape[-1]))
            if unknown.any():  # it would count as a mistake of the model
                target = batch.targets[unknown][0].item()
                raise ValueError(
                    f"targets must be from 0 to {logits.shape[-1] - 1}, or {IGNORED}, got {target}"
                )
            n_correct += (logits.argmax(dim=-1) == batch.targets).sum().item()  # no class is IGNORED
            n_targets += counts.sum().item()
    return n_correct / n_targets


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode and no gradients inside the block; afterwards every module is in its mode of before."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


class ProgressBar:
    """A progress bar with the last loss: a `watch` for `train`."""

    def __init__(self, make_bar: Callable[..., tqdm] = tqdm) -> None:
        self.make_bar = make_bar
        self.bar: tqdm | None = None

    def __call__(self, history: History, config: TrainingConfig) -> None:
        if self.bar is None:  # a run that resumes begins with more than 0 steps
            self.bar = self.make_bar(total=config.steps, initial=history.steps - 1, desc="training")
        self.bar.set_postfix(loss=f"{history.loss[-1]:.3f}", refresh=False)
        self.bar.update()
        if history.steps == config.steps:
            self.bar.close()
            self.bar = None
