"""Lesson 10. Training: the loop, the batches it reads, and the checkpoints from which a run resumes."""

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
