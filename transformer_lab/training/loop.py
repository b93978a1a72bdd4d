"""Lesson 10. The training loop, with classifiers, loss and accuracy."""

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
    """Base class: an encoder and a classification head."""

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head


class TokenClassifier(Classifier):
    """A token classifier: an encoder and a `TokenHead`, which returns logits for every token."""

    def forward(
        self, token_ids: Int[Tensor, "batch position"], may_attend: Bool[Tensor, "..."] | None = None
    ) -> Float[Tensor, "batch position n_classes"]:
        hidden, _ = self.encoder(token_ids, may_attend, need_weights=False)
        return self.head(hidden)


class SequenceClassifier(Classifier):
    """A sequence classifier: an encoder and a `SequenceHead`, which returns logits for every sequence."""

    def forward(
        self,
        token_ids: Int[Tensor, "batch position"],
        may_attend: Bool[Tensor, "batch 1 1 position"] | None = None,
    ) -> Float[Tensor, "batch n_classes"]:
        hidden, _ = self.encoder(token_ids, may_attend, need_weights=False)
        return self.head(hidden, may_attend)


def check_target_shape(logits: Tensor, targets: Tensor) -> None:
    """Raise unless there is one target per row of logits; after flattening, other shapes could also fit."""
    if targets.shape != logits.shape[:-1]:
        raise ValueError(
            f"targets have shape {tuple(targets.shape)}, expected {tuple(logits.shape[:-1])}, the shape of "
            "the logits without their last axis; a token classification head needs a target for each token"
        )


def cross_entropy_loss(
    logits: Float[Tensor, "batch *position n_classes"],
    targets: Int[Tensor, " batch *position"],
    reduction: str = "mean",
) -> Float[Tensor, "..."]:
    """Return the mean cross-entropy, in nats, over all targets except IGNORED ones."""
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
        model: maps the inputs of a batch to logits (..., n_classes).
        batch_at: returns the batch of a step (0, 1, 2, …); must return the same batch for the same step.
        config: the hyperparameters of the run.
        loss_fn: maps logits and targets to the loss, a scalar.
        evaluate: returns a score of the model, which is in eval mode and without gradients during the call.
        watch: called after each step, for example a `ProgressBar()`.
        checkpoint: path of a .safetensors file. If it exists, the run resumes from it, with the same results
            as an uninterrupted run.

    Raises:
        FloatingPointError: if the loss or the gradient norm is not finite; the parameters are still those
            before this step.
        ValueError: if the checkpoint is damaged or belongs to another run.
    """
    optimizer, history = build_optimizer(model, config), History()
    if checkpoint is not None and Path(checkpoint).is_file():
        history = restore(checkpoint, model, optimizer, config)
    elif checkpoint is not None:  # fail now, not after hours, if the folder is not writable
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
                f"the loss is {loss.item():.3g} and the gradient norm {gradient_norm.item():.3g}, expected "
                "finite numbers; check the inputs for NaN, and for a batch in which every target is IGNORED; "
                "then decrease the learning rate or increase warmup_steps"
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
    """Return AdamW (arXiv:1711.05101) for the trainable parameters; only matrices have weight decay."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if any(parameter.dtype == torch.float16 for parameter in trained):
        raise ValueError(
            "expected parameters in float32 or bfloat16, got float16, in which AdamW's eps rounds to 0; "
            "convert the model"
        )
    groups = [
        {"params": [p for p in trained if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate)


def accuracy(model: nn.Module, data: Batch, *, batch_size: int = 256) -> float:
    """Return the fraction of targets, except IGNORED ones, whose class has the highest logit."""
    n_correct = n_targets = 0
    device = next(model.parameters()).device
    with evaluating(model):
        for start in range(0, len(data), batch_size):
            batch = data.rows(slice(start, start + batch_size)).to(device)
            logits = model(*batch.inputs)
            check_target_shape(logits, batch.targets)
            counts = batch.targets != IGNORED
            if logits[counts].isnan().any():  # argmax would return the index of the NaN
                raise FloatingPointError("a logit is NaN; check the inputs and the parameters for NaN")
            unknown = counts & ((batch.targets < 0) | (batch.targets >= logits.shape[-1]))
            if unknown.any():  # it would count as a wrong prediction
                target = batch.targets[unknown][0].item()
                raise ValueError(
                    f"targets must be from 0 to {logits.shape[-1] - 1}, or {IGNORED}, got {target}"
                )
            n_correct += (logits.argmax(dim=-1) == batch.targets).sum().item()  # no class is IGNORED
            n_targets += counts.sum().item()
    return n_correct / n_targets


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Context manager: eval mode and no gradients; afterwards every module is in its previous mode."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode


class ProgressBar:
    """A progress bar that shows the current loss, to be passed to `train` as `watch`."""

    def __init__(self, make_bar: Callable[..., tqdm] = tqdm) -> None:
        self.make_bar = make_bar
        self.bar: tqdm | None = None

    def __call__(self, history: History, config: TrainingConfig) -> None:
        if self.bar is None:  # created at the first call, because a resumed run does not start at step 0
            self.bar = self.make_bar(total=config.steps, initial=history.steps - 1, desc="training")
        self.bar.set_postfix(loss=f"{history.loss[-1]:.3f}", refresh=False)
        self.bar.update()
        if history.steps == config.steps:
            self.bar.close()
            self.bar = None
