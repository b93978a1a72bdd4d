"""Lesson 13. A job for `python -m transformer_lab.training`: an encoder learns to read handwritten digits.

A token is a pixel, and an image has 64. There is a token id for every position with every amount of ink, 0 to
16, so the embedding holds the positions too, and the encoder needs no others.
"""

import torch
from sklearn.datasets import load_digits

from transformer_lab import Encoder, EncoderConfig, SequenceHead
from transformer_lab.training import Batch, SequenceClassifier, TrainingConfig, accuracy, shuffled_batches

PIXELS, INKS, CLASSES = 64, 17, 10

digits = load_digits()
ink = torch.tensor(digits.data).long()  # (1797 images, 64 pixels), 0 to 16
token_ids = torch.arange(PIXELS) * INKS + ink
labels = torch.tensor(digits.target).long()  # (1797 images,)
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
training, held_out = (Batch((token_ids[rows],), labels[rows]) for rows in (order[360:], order[:360]))

config = TrainingConfig(steps=90, learning_rate=0.01, warmup_steps=10, evaluate_every=30, save_every=30)
batch_at = shuffled_batches(training, batch_size=33)  # an odd number: two workers read 17 rows and 16


def build_model() -> SequenceClassifier:
    """Return an encoder of two layers, with a head for ten classes."""
    sizes = EncoderConfig(
        vocab_size=PIXELS * INKS, d_model=32, n_heads=4, d_ff=64, n_layers=2, positions="none", dropout=0.0
    )
    return SequenceClassifier(Encoder(sizes), SequenceHead(sizes.d_model, CLASSES))


def evaluate(model: SequenceClassifier) -> float:
    """Return the accuracy on the held-out images."""
    return accuracy(model, held_out)
