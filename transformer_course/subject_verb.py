"""Lesson 10. A small language whose rules are known: a verb agrees with its subject, not with the other noun.

There are two kinds of sentences: "the cats near the dog run", and "near the dog run the cats".
"""

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor, nn

from transformer_lab.training.data import Batch

NOUNS = ["cat", "cats", "dog", "dogs", "bird", "birds"]
VERBS = ["sleeps", "runs", "sleep", "run"]
PLURAL = {"cats", "dogs", "birds", "sleep", "run"}
ROLES = ["the", "subject", "near / behind", "the", "other noun", "verb"]
SUBJECT, VERB = 1, 5

words = ["[MASK]", "the", "near", "behind", *NOUNS, *VERBS]  # id 0 is the mask
is_plural, is_verb = (torch.tensor([word in some for word in words]) for some in (PLURAL, VERBS))


def _sentences() -> Tensor:
    found = []
    for subject, place, other, verb in product(NOUNS, ["near", "behind"], NOUNS, VERBS):
        if (subject in PLURAL) == (verb in PLURAL):  # they agree
            found.append(f"the {subject} {place} the {other} {verb}")
            found.append(f"{place} the {other} {verb} the {subject}")
    return torch.tensor([[words.index(word) for word in text.split()] for text in found])


language = _sentences()  # (288 sentences, 6 words)
_mixed = torch.randperm(len(language), generator=torch.Generator().manual_seed(10))
unseen, known = language[_mixed[:96]], language[_mixed[96:]]  # 96 sentences are never trained on


def text_of(token_ids: Tensor) -> str:
    """Return a sentence (position,) in words."""
    return " ".join(words[id] for id in token_ids.tolist())


def roles_of(texts: Tensor) -> Tensor:
    """Return the role of each word, a place in ROLES. (sentence, position)"""
    begins_with = torch.where(texts[:, 0] == words.index("the"), 0, 2)  # kind 2 begins with role 2
    return (torch.arange(6) + begins_with[:, None]) % 6


def with_a_hole(texts: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Hide the word at one place of each sentence; return what a model sees, and what it is asked.

    Nothing is asked where the target is -100.
    """
    hole = torch.arange(6) == places[:, None]
    return texts.masked_fill(hole, 0), texts.masked_fill(~hole, -100)


def batches_of(texts: Tensor, seed: int, steps: int = 160) -> list[tuple[Tensor, Tensor]]:
    """Return for each step up to 48 sentences, each with a hole at a random place."""
    generator, batches = torch.Generator().manual_seed(seed), []
    for _ in range(steps):
        some = texts[torch.randperm(len(texts), generator=generator)[:48]]
        batches.append(with_a_hole(some, torch.randint(6, (len(some),), generator=generator)))
    return batches


def by_step(batches: list[tuple[Tensor, Tensor]]) -> Callable[[int], Batch]:
    """Return the batches as a function of the step, as the package's `train` wants them."""
    return lambda step: Batch(batches[step][:1], batches[step][1])


def draw_weights(model: nn.Module, seed: int) -> nn.Module:
    """Draw random weights in the order of their names: the same, whoever wrote the parts."""
    torch.manual_seed(seed)
    for name, numbers in sorted(model.named_parameters()):
        is_table = name in ("encoder.embedding.weight", "encoder.positions.weight")
        if numbers.dim() == 2:
            nn.init.normal_(numbers, std=1.0 if is_table else numbers.shape[1] ** -0.5)
        elif name.endswith("bias"):
            nn.init.zeros_(numbers)
    return model


def heads_say(encoder: nn.Module, layer: int, token_ids: Tensor) -> Tensor:
    """Return what a layer's output projection gets: map · values of each head, side by side."""
    got = []
    projection = encoder.layers[layer].attention.output_projection
    listener = projection.register_forward_pre_hook(lambda _, given: got.append(given[0].detach()))
    encoder(token_ids)
    listener.remove()
    return got[0]
