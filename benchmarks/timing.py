"""Timing side by side: in one process, in random order, round after round; all are disturbed alike."""

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

LEVEL = 1.05  # within 5% nobody is called faster

Run = Callable[[], Tensor]
FEWEST = 3  # rounds, however long they take


@dataclass(frozen=True)
class Times:
    """Seconds of each run in each round; the others are compared with the first."""

    seconds: dict[str, list[float]]

    def base(self) -> tuple[str, float]:
        """Return the first run's name, and its median in seconds."""
        name, times = next(iter(self.seconds.items()))
        return name, statistics.median(times)

    def ratios(self, name: str) -> list[float]:
        """Return the time of a run ÷ that of the first one in the same round, in ascending order."""
        first = next(iter(self.seconds.values()))
        return sorted(b / a for a, b in zip(first, self.seconds[name], strict=True))


def measure(runs: dict[str, Run], rounds: int, seconds: float, *, train: bool, device: str = "cpu") -> Times:
    """Time each run, with its backward pass if `train`, in so many rounds or until the seconds are over.

    Nothing is warmed up here: `able` has run each once.
    """
    found = {name: [] for name in runs}
    begin = time.perf_counter()
    for done in range(rounds):
        if done >= FEWEST and time.perf_counter() - begin > seconds:
            break
        for name in random.sample(list(runs), len(runs)):
            found[name].append(seconds_of(runs[name], train=train, device=device))
    return Times(found)


def seconds_of(run: Run, *, train: bool, device: str) -> float:
    """Time one run: on a CPU by the clock of this thread, which stands still while another has the core."""
    clock = time.thread_time if device == "cpu" else finished_time
    start = clock()
    once(run, train=train)
    return clock() - start


def finished_time() -> float:
    """Return the time when the GPU has done all that it was told; it works on while Python goes on."""
    torch.cuda.synchronize()
    return time.perf_counter()


def once(run: Run, *, train: bool) -> Tensor:
    """Return the output; when training, the gradients are computed too, and added to those before."""
    with torch.inference_mode(not train):
        output = run()
        if train:
            output.sum().backward()
    return output


def able(runs: dict[str, Run], *, train: bool) -> tuple[dict[str, Run], dict[str, str]]:
    """Try each run once; return those that work, and why the others do not."""
    working, reasons = {}, {}
    for name, run in runs.items():
        try:
            once(run, train=train)
            working[name] = run
        except RuntimeError as error:  # NotImplementedError is one: an operator without this dtype
            reasons[name] = str(error).strip().splitlines()[0]
    return working, reasons


def check_equal(runs: dict[str, Run], real: Tensor, tolerance: float) -> float:
    """Return the largest difference from the first output on real tokens; raise if it is beyond rounding."""
    with torch.inference_mode():
        first, *others = [run()[real].float() for run in runs.values()]
    difference = max((first - other).abs().max().item() for other in others)
    if not difference <= tolerance:
        raise RuntimeError(
            f"the outputs differ by {difference:.1e}, wanted at most {tolerance:.0e}: they are not the same "
            "work; compare the weights"
        )
    return difference


def middle_half(ratios: list[float]) -> tuple[float, float, float]:
    """Return the first quartile, the median and the third quartile."""
    if len(ratios) == 1:
        return ratios[0], ratios[0], ratios[0]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return low, middle, high


def summary(ratios: list[float]) -> str:
    """Return the median, and in brackets the quartiles."""
    low, middle, high = middle_half(ratios)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"
