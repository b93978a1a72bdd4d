"""What is timed along three axes: the length of the texts, how ragged a batch is, the numbers' format."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.networks import VOCAB, Encode, Networks, Shape, networks
from benchmarks.timing import Run, Times, able, check_equal, measure
from transformer_lab import padding_mask_from_lengths

# The largest difference that rounding makes after six layers, whose outputs are up to 4.
TOLERANCES = {"float32": 2e-5, "float16": 5e-2, "bfloat16": 0.3, "bfloat16 autocast": 0.3}
MIDDLE = Shape(8, 128, 256, 4, 6)
# Lengths of eight texts of which the longest has 128 tokens.
LENGTHS = {0.37: (128, 72, 48, 40, 32, 24, 20, 15), 0.60: (128, 112, 96, 80, 72, 56, 40, 30)}


@dataclass(frozen=True)
class Case:
    """One network, one batch, one format of numbers."""

    axis: str
    label: str
    shape: Shape
    lengths: tuple[int, ...] = ()
    dtype: str = "float32"
    compiled: bool = False


CASES = (
    Case("length", "32 texts of 10", Shape(32, 10, 512, 8, 6)),
    Case("length", "8 texts of 128", MIDDLE, compiled=True),
    Case("length", "1 text of 128", Shape(1, 128, 256, 4, 4)),
    Case("length", "1 text of 512", Shape(1, 512, 256, 4, 4)),
    Case("length", "1 text of 2048", Shape(1, 2048, 256, 4, 2), compiled=True),
    Case("length", "1 text of 8192", Shape(1, 8192, 256, 4, 1)),
    *(
        Case("raggedness", f"{share:.0%} real tokens", MIDDLE, lengths=lengths)
        for share, lengths in LENGTHS.items()
    ),
    *(Case("dtype", dtype, Shape(8, 128, 256, 4, 2), dtype=dtype) for dtype in TOLERANCES),
)
AXES = tuple(dict.fromkeys(case.axis for case in CASES))


@dataclass(frozen=True)
class Measured:
    """What came of a case, with or without the backward pass: the times, and why some could not run."""

    case: Case
    train: bool
    times: Times
    unable: dict[str, str]
    difference: float


def measured(case: Case, rounds: int, seconds: float, activation: str, device: str) -> Iterator[Measured]:
    """Build the networks of a case, compare their outputs, and time them forward, then with the backward."""
    everyone = networks(case.shape, activation).to(device=device)
    if case.dtype in ("float16", "bfloat16"):
        everyone.to(dtype=getattr(torch, case.dtype))
    ids = torch.randint(VOCAB, (case.shape.batch, case.shape.positions), device=device)
    mask = padding_mask_from_lengths(torch.tensor(case.lengths, device=device)) if case.lengths else None
    real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask[:, 0, 0]
    torch.compiler.reset()  # what was compiled for the case before
    for train in (False, True):
        everyone.train(train)
        encodes = contestants(everyone, case)
        unable = {}
        if train and encodes.pop("torch.nn nested", None):
            unable["torch.nn nested"] = "drops the padding in inference only; trains as torch.nn"
        runs = {name: bound(encode, ids, mask, case.dtype) for name, encode in encodes.items()}
        runs, reasons = able(runs, train=train)
        difference = check_equal(runs, real, TOLERANCES[case.dtype])
        times = measure(runs, rounds, seconds, train=train, device=device)
        yield Measured(case, train, times, unable | reasons, difference)


def contestants(everyone: Networks, case: Case) -> dict[str, Encode]:
    """Return who takes part; the others are compared with the first."""
    if case.lengths:
        return everyone.ragged()
    return everyone.padded() | (everyone.compiled() if case.compiled else {})


def bound(encode: Encode, ids: Tensor, mask: Tensor | None, dtype: str) -> Run:
    """Return a run that encodes these ids, under autocast if the dtype says so."""

    def run() -> Tensor:
        is_mixed = dtype == "bfloat16 autocast"
        with torch.autocast(ids.device.type, torch.bfloat16) if is_mixed else nullcontext():
            return encode(ids, mask)

    return run
