"""Lesson 10. The settings of a training run, and the learning rate of each step."""

from dataclasses import dataclass

from transformer_lab.validation import check_integer, check_positive


@dataclass(frozen=True)
class TrainingConfig:
    """How to train: AdamW, linear warm-up, then linear decay to 0, as BERT was (Appendix A.2, 1810.04805).

    Attributes:
        steps: number of updates.
        learning_rate: the highest one, reached at the end of the warm-up.
        warmup_steps: number of steps during which the learning rate rises.
        weight_decay: the decay of every matrix, times the learning rate; biases and norms do not decay.
        max_grad_norm: a gradient whose norm is larger is scaled down to this norm.
        evaluate_every, save_every: steps between two evaluations or checkpoints; 0 means at the end only.
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
        check_integer(warmup_steps=self.warmup_steps, at_least=0, at_most=self.steps - 1)
        if not self.max_grad_norm > 0:
            raise ValueError(f"max_grad_norm must be above 0, got {self.max_grad_norm}; 1.0 is usual")


def learning_rate_at(step: int, config: TrainingConfig) -> float:
    """Return the learning rate of a step, counted from 0: never 0, and at its maximum after the warm-up."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    return config.learning_rate * (config.steps - step) / (config.steps - config.warmup_steps)


def every_n_steps(steps_done: int, n: int, steps: int) -> bool:
    """Return whether it is time for what happens every n steps and at the end; n = 0: at the end only."""
    return steps_done == steps or (n > 0 and steps_done % n == 0)
