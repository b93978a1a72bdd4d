"""Lesson 10. Training: the training loop, its batches, checkpoints, and data-parallel workers (lesson 13)."""

from transformer_lab.training.checkpoints import History
from transformer_lab.training.data import IGNORED, Batch, shuffled_batches
from transformer_lab.training.loop import (
    ProgressBar,
    SequenceClassifier,
    TokenClassifier,
    accuracy,
    cross_entropy_loss,
    train,
)
from transformer_lab.training.schedule import TrainingConfig, learning_rate_at
from transformer_lab.training.workers import (
    data_parallel_loss,
    loss_to_hand_in,
    shard_rows,
    train_data_parallel,
)

__all__ = [
    "IGNORED",
    "Batch",
    "History",
    "ProgressBar",
    "SequenceClassifier",
    "TokenClassifier",
    "TrainingConfig",
    "accuracy",
    "cross_entropy_loss",
    "data_parallel_loss",
    "learning_rate_at",
    "loss_to_hand_in",
    "shard_rows",
    "shuffled_batches",
    "train",
    "train_data_parallel",
]
