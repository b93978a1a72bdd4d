"""Lesson 10. Training configuration, and the learning rate schedule."""

from dataclasses import dataclass

from transformer_lab.validation import check_integer, check_positive


@dataclass(frozen=True)
class TrainingConfig:
    """The hyperparameters of a run: AdamW, linear warm-up, then linear decay to 0, as in BERT.

    Appendix A.2 of arXiv:1810.04805.

    Attributes:
        steps: number of optimizer steps.
        learning_rate: the maximum learning rate, reached at the end of the warm-up.
        warmup_steps: number of steps during which the learning rate increases.
        weight_decay: weight decay of matrices, multiplied by the learning rate; biases and norms have none.
        max_grad_norm: gradients with a larger norm are scaled down to this norm.
        evaluate_every, save_every: number of steps between evaluations or checkpoints; 0 means only at the
            end.
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
            raise ValueError(f"max_grad_norm must be above 0, got {self.max_grad_norm}; 1.0 is common")


def learning_rate_at(step: int, config: TrainingConfig) -> float:
    """Return the learning rate of a step, counted from 0; it is never 0."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    return config.learning_rate * (config.steps - step) / (config.steps - config.warmup_steps)


def every_n_steps(steps_done: int, n: int, steps: int) -> bool:
    """Return whether an action that runs every n steps and at the end is due; n = 0 means only at the end."""
    return steps_done == steps or (n > 0 and steps_done % n == 0)
