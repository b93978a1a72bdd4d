"""Lesson 10. A toy language with a known grammar: a verb agrees with its subject, not with the other noun.

There are two kinds of sentences: "the cats near the dog run", and "near the dog run the cats".
"""

from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor, nn

from transformer_lab.training import Batch

NOUNS = ["cat", "cats", "dog", "dogs", "bird", "birds"]
VERBS = ["sleeps", "runs", "sleep", "run"]
PLURAL = {"cats", "dogs", "birds", "sleep", "run"}
ROLES = ["the", "subject", "near / behind", "the", "other noun", "verb"]
SUBJECT, VERB = 1, 5

words = ["[MASK]", "the", "near", "behind", *NOUNS, *VERBS]  # id 0 is the mask
is_plural = torch.tensor([word in PLURAL for word in words])
is_verb = torch.tensor([word in VERBS for word in words])


def _sentences() -> Tensor:
    sentences = []
    for subject, place, other, verb in product(NOUNS, ["near", "behind"], NOUNS, VERBS):
        if (subject in PLURAL) == (verb in PLURAL):  # subject and verb agree
            sentences.append(f"the {subject} {place} the {other} {verb}")
            sentences.append(f"{place} the {other} {verb} the {subject}")
    return torch.tensor([[words.index(word) for word in text.split()] for text in sentences])


language = _sentences()  # (288 sentences, 6 words)
_mixed = torch.randperm(len(language), generator=torch.Generator().manual_seed(10))
unseen, known = language[_mixed[:96]], language[_mixed[96:]]  # 96 sentences are never trained on


def text_of(token_ids: Tensor) -> str:
    """Return the words of a sentence, (position,)."""
    return " ".join(words[id] for id in token_ids.tolist())


def roles_of(texts: Tensor) -> Tensor:
    """Return the role of each word, an index into ROLES (sentence, position)."""
    begins_with = torch.where(texts[:, 0] == words.index("the"), 0, 2)  # the second kind begins with role 2
    return (torch.arange(6) + begins_with[:, None]) % 6


def mask_one_word(texts: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Mask the word at one position of each sentence; return inputs and targets, which are -100 elsewhere."""
    masked = torch.arange(6) == positions[:, None]
    return texts.masked_fill(masked, 0), texts.masked_fill(~masked, -100)


def batches_of(texts: Tensor, seed: int, steps: int = 160) -> list[tuple[Tensor, Tensor]]:
    """Return, for each step, up to 48 sentences with one word masked at a random position."""
    generator, batches = torch.Generator().manual_seed(seed), []
    for _ in range(steps):
        sentences = texts[torch.randperm(len(texts), generator=generator)[:48]]
        positions = torch.randint(6, (len(sentences),), generator=generator)
        batches.append(mask_one_word(sentences, positions))
    return batches


def by_step(batches: list[tuple[Tensor, Tensor]]) -> Callable[[int], Batch]:
    """Return the batches as a function of the step, as the package's `train` expects."""
    return lambda step: Batch(batches[step][:1], batches[step][1])


def draw_weights(model: nn.Module, seed: int) -> nn.Module:
    """Initialise the weights in the order of their names, whatever the order of construction."""
    torch.manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        is_table = name in ("encoder.embedding.weight", "encoder.positions.weight")
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=1.0 if is_table else parameter.shape[1] ** -0.5)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return model


def head_outputs(encoder: nn.Module, layer: int, token_ids: Tensor) -> Tensor:
    """Return the input of a layer's output projection: the outputs of its heads, concatenated."""
    inputs = []
    projection = encoder.layers[layer].attention.output_projection
    hook = projection.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0].detach()))
    encoder(token_ids)
    hook.remove()
    return inputs[0]
