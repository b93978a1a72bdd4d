"""What the live page shows before anything is loaded: its tries, as it would compute them."""

import base64
import json
import re
from pathlib import Path

import torch
from torch import Tensor, nn

from live.steps import OF_LAYER, OUTPUTS, Steps, inputs_of, rounded
from transformer_lab.encoder import mean_pool
from transformer_lab.pretrained_encoder import TokenBatch, Tokenizer

AS_TRAINED = {"positions": True, "mask": True}
TRIES = [AS_TRAINED | each for each in json.loads((Path(__file__).parent / "tries.json").read_text("utf-8"))]
BANKS = (
    "They fished from the muddy bank.",
    "She opened an account at the bank.",
    "He borrowed money from the bank.",
)
SHOWN_NEURONS = 8


@torch.no_grad()
def stored(model: Steps, tokenizer: Tokenizer, wanted: dict) -> dict:
    """Return the run that a try asks for, and, where that takes something away, the run as trained."""
    batch, layer = tokenizer(wanted["texts"]), wanted["layer"]
    taken = {name: wanted[name] for name in AS_TRAINED}
    trained = None if taken == AS_TRAINED else record(model, batch, layer, **AS_TRAINED)
    return {"taken": taken, "run": record(model, batch, layer, **taken), "trained": trained}


def record(model: Steps, batch: TokenBatch, layer: int, positions: bool, mask: bool) -> dict:
    """Return what the page needs of a run: tokens, all maps, texts' vectors, and the steps of one layer."""
    may_attend = batch.may_attend if mask else torch.ones_like(batch.may_attend)
    _, _, *switches = inputs_of(batch, float(positions))
    made = dict(zip(OUTPUTS, model(batch.token_ids, may_attend, *switches), strict=True))
    lengths = batch.may_attend.flatten(1).sum(dim=1).tolist()
    cuts = [
        {"ids": ids[:length], "tokens": tokens[:length], "left": 0}
        for ids, tokens, length in zip(batch.token_ids.tolist(), batch.tokens, lengths, strict=True)
    ]
    ends = packed(mean_pool(made["leaving"][-1], batch.may_attend))
    whole = (255 * torch.stack(model.weights)).round().to(torch.uint8)  # (layer, text, heads, query, key)
    run = {"cuts": cuts, "length": max(lengths), "mask": mask, "layer": layer}
    if len(cuts) > 1:
        run["compared"] = compared(made, batch)
    return run | {"maps": in_base_64(whole), "ends": ends} | steps(made, layer)


def steps(made: dict[str, Tensor], layer: int) -> dict:
    """Return what the parts before the layers, and those of one layer, have made of the first text."""
    found = {name: made[name][0] for name in ("words", "placed")} | {"normed": made["entering"][0, 0]}
    found |= {name: made[name][layer, 0] for name in ("entering", *OF_LAYER)}
    values, numbers = found.pop("neurons").topk(SHOWN_NEURONS)  # of each token
    neurons = [list(zip(*both, strict=True)) for both in zip(numbers.tolist(), rounded(values), strict=True)]
    return {"steps": {name: packed(step) for name, step in found.items()}, "neurons": neurons}


@torch.no_grad()
def banks(model: Steps, tokenizer: Tokenizer) -> dict:
    """Return three texts with *bank*, compared."""
    batch = tokenizer(list(BANKS))
    made = dict(zip(OUTPUTS, model(*inputs_of(batch)), strict=True))
    return {"texts": BANKS} | compared(made, batch)


def compared(made: dict[str, Tensor], batch: TokenBatch) -> dict:
    """Return how alike texts are, and the longest word that all share, entering and after each layer."""
    vectors = nn.functional.normalize(mean_pool(made["leaving"][-1], batch.may_attend), dim=-1)
    found = {"cosines": rounded(vectors @ vectors.mT)}
    shared = [
        word
        for word in batch.tokens[0][1:-1]
        if re.match(r"(?!the$|and$)[a-z]{3}", word) and all(word in tokens for tokens in batch.tokens)
    ]
    if not shared:
        return found
    word = max(shared, key=len)
    place = [tokens.index(word) for tokens in batch.tokens]
    words = torch.cat([made["entering"][:1], made["leaving"]])[:, range(len(place)), place]
    alike = [rounded(unit @ unit.mT) for unit in nn.functional.normalize(words, dim=-1)]  # of each stage
    return found | {"word": word, "stages": alike}


def packed(rows: Tensor) -> list:
    """Return (rows, features) as each row's unit, and whole numbers of 16 bits in base 64."""
    units = rows.abs().amax(dim=-1, keepdim=True) / 32_767
    return [units.flatten().tolist(), in_base_64((rows / units).round().to(torch.int16))]


def in_base_64(whole: Tensor) -> str:
    return base64.b64encode(whole.numpy().tobytes()).decode()
