"""Time what each departure of lesson 11's encoder costs: seconds until a small task is learned.

`make bench`, or `python -m benchmarks.departures`. Variants and task are the lesson's own cells.
All run in one process, in random order, round after round, on one thread, timed by that thread's own clock.
Printed is the median of each variant's seconds ÷ those of the paper's layer in the same round.
"""

import argparse
import contextlib
import io
import json
import random
import statistics
import time
from pathlib import Path

import torch

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "11_roformer.ipynb"
LAST_CELL = "why-train-started"
REFERENCE = "the paper's layer"


def lesson_names() -> dict:
    """Run the lesson as far as its race, and return what it has defined."""
    names: dict = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)  # the course's own code
        if cell["id"] == LAST_CELL:
            return names
    raise LookupError(f"{NOTEBOOK.name} has no cell {LAST_CELL}; name the one that holds the race")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default 5)")
    rounds = parser.parse_args().rounds
    lesson = lesson_names()
    race, stacks = lesson["train"], lesson["stacks"]
    print("\nseconds until learned, ÷ those of the paper's layer (seeds 1 and 2 together)")
    for depth in (1, 6):
        seconds = {name: [] for name in stacks}
        for _ in range(rounds):
            for name in random.sample(list(stacks), len(stacks)):
                start = time.thread_time()
                for seed in (1, 2):
                    race(stacks[name], seed, depth)
                seconds[name].append(time.thread_time() - start)
        for name, times in seconds.items():
            ratio = statistics.median(a / b for a, b in zip(times, seconds[REFERENCE], strict=True))
            print(f"  {depth} deep   {name:22} {statistics.median(times):6.2f} s   {ratio:5.2f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
