"""How long and how fast a run learns: its settings, and the learning rate of each step. Used in lesson 10."""

from dataclasses import dataclass

from transformer_lab.validation import check_integer, check_number, check_positive


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
        if not 0 <= self.warmup_steps < self.steps:
            raise ValueError(
                f"warmup_steps must be from 0 to steps - 1 = {self.steps - 1}, got {self.warmup_steps}; "
                "the learning rate would never reach its height"
            )
        for name, number in vars(self).items():  # NumPy's become Python's, which a checkpoint can hold
            object.__setattr__(self, name, getattr(number, "item", lambda number=number: number)())


def learning_rate_at(step: int, config: TrainingConfig) -> float:
    """Return the learning rate of a step, counted from 0: never 0, and at its height after the warm-up."""
    check_integer(step=step, at_least=0, at_most=config.steps - 1)
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / config.warmup_steps
    return config.learning_rate * (config.steps - step) / (config.steps - config.warmup_steps)


def is_due(steps_done: int, every: int, steps: int) -> bool:
    """Whether something happens now that happens every so often, and at the end."""
    return steps_done == steps or (every > 0 and steps_done % every == 0)
