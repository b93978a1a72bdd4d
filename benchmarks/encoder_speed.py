"""Time this course's encoder beside those of PyTorch, Hugging Face and x-transformers, on the same weights.

`make bench`, or `python -m benchmarks.encoder_speed`. All of them run in one process, one after the other in
random order, round after round, on one thread, timed by that thread's own clock: a busy machine disturbs all
alike. The outputs are compared before anything is timed. Reported is the median of their time ÷ ours: above
1, ours is faster. A whole run writes `benchmarks/results.md` and `results.png`; a part (`--only`) is printed.

`--device cuda` times on a GPU, by the wall clock, each run until the GPU has finished. It has not been tried.
"""

import argparse
import random
import warnings
from pathlib import Path

import torch

from benchmarks.cases import AXES, CASES, measured
from benchmarks.parts import parts
from benchmarks.picture import draw
from benchmarks.results import machine, markdown

FOLDER = Path(__file__).parent
PARTS = "parts"


def main() -> None:
    options = arguments()
    warnings.simplefilter("ignore")  # nested tensors announce that they are a prototype
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    chosen = [options.only] if options.only else [*AXES, PARTS]
    limits = options.rounds, options.seconds
    found = []
    for case in CASES:
        if case.axis in chosen:
            print(f"{case.axis}: {case.label}", flush=True)
            found += measured(case, *limits, options.activation, options.device)
    on_cpu = options.device == "cpu"  # the parts are about operators of the CPU
    page = markdown(found, parts(*limits) if PARTS in chosen and on_cpu else [], options.device)
    print(f"\n{page}")
    if not options.only:
        (FOLDER / "results.md").write_text(page, encoding="utf-8")
        draw(found, machine(options.device), FOLDER / "results.png")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--only", choices=(*AXES, PARTS), help="a part of it, which is printed and not stored"
    )
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds at most (default 15)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=10,
        help="after which no more round begins (default 10, three at least)",
    )
    parser.add_argument("--activation", choices=("relu", "gelu"), default="relu", help="default relu")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default cpu")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}; give a larger number")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device is cuda, but this torch finds no GPU; leave the option out")
    return options


if __name__ == "__main__":
    main()
