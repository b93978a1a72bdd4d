"""Lesson 13. Trains what a job file describes, alone or, under torchrun, with several workers.

    python -m transformer_lab.training JOB.py [--checkpoint PLACE] [--sharded]
    torchrun --nproc-per-node 2 -m transformer_lab.training JOB.py [--checkpoint PLACE] [--sharded]

JOB.py is plain Python and defines `config`, a TrainingConfig; `build_model()`, which returns the model;
`batch_at(step)`, which returns the whole batch of a step, of which each worker reads its rows; and, if
wanted, `evaluate(model)`, which returns a score. The course has one, `transformer_course/digits.py`.
"""

import argparse
import runpy
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import torch
import torch.distributed as dist

from transformer_lab.training.checkpoints import History
from transformer_lab.training.loop import TrainingConfig, train
from transformer_lab.training.workers import TIMEOUT, Workers, join, leave

DONE, STOPPED = 0, 1  # what this program returns; an error of the job comes with Python's own words
SEED = 0  # the same for all workers, before the model is built


def load_job(path: str) -> SimpleNamespace:
    """Run a job file, and return what it defines."""
    sys.path.insert(0, str(Path(path).parent))  # as `python JOB.py` does
    return SimpleNamespace(**{"evaluate": None} | runpy.run_path(path, run_name="job"))


def last_numbers(history: History) -> str:
    """Return the last loss in words, and the score if there is one."""
    score = history.scores.get(history.steps)
    return f"loss {history.loss[-1]:.3f}" + ("" if score is None else f", score {score:.3f}")


def run(path: str, checkpoint: str | None, workers: Workers) -> None:
    """Train what a job file describes, and tell of each evaluation in a line."""

    def watch(history: History, config: TrainingConfig) -> None:
        workers.steps = history.steps
        if history.steps in history.scores and history.steps < config.steps:
            workers.tell(f"step {history.steps} of {config.steps}: {last_numbers(history)}")

    torch.manual_seed(SEED)
    job = load_job(path)
    history = train(
        job.build_model(),
        job.batch_at,
        job.config,
        evaluate=job.evaluate,
        watch=watch,
        checkpoint=checkpoint,
        workers=workers,
    )
    workers.tell(f"done, {history.steps} steps: {last_numbers(history)}")


def main(arguments: list[str] | None = None) -> int:
    """Join the other workers and train; return DONE, or STOPPED, told in a line, if the run was ended."""
    parser = argparse.ArgumentParser(
        prog="python -m transformer_lab.training", description="Trains what a job file describes."
    )
    parser.add_argument("job", metavar="JOB.py", help="defines config, build_model() and batch_at(step)")
    parser.add_argument("--checkpoint", metavar="PLACE", help="what a run goes on from: a file, or a folder")
    parser.add_argument("--sharded", action="store_true", help="each worker holds a part of the parameters")
    given = parser.parse_args(arguments)

    before = signal.signal(signal.SIGTERM, end)  # with it torchrun ends the workers that are left
    workers = None
    try:
        kind = Workers
        if given.sharded:  # what shares parameters is imported only where it is wanted
            from transformer_lab.training.shards import Sharded as kind
        workers = kind(join(), say)
        run(given.job, given.checkpoint, workers)
        return DONE
    except (RuntimeError, KeyboardInterrupt) as error:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # this worker is about to end anyway
        if workers is None or not (is_lost(error) or isinstance(error, KeyboardInterrupt)):
            raise
        sys.stderr.write(f"{end_in_words(error, workers, given.checkpoint)}\n")
        return STOPPED
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        signal.signal(signal.SIGTERM, before)


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


# --- how a run ends that does not reach its end


def end(*_: object) -> NoReturn:
    """Be told to end, by torchrun say, as by Ctrl-C."""
    raise KeyboardInterrupt


def is_lost(error: BaseException) -> bool:
    """Return whether another worker is gone."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


def end_in_words(error: BaseException, workers: Workers, checkpoint: str | None) -> str:
    """Say in one line why the run ends and how it goes on."""
    if "timed out" in str(error).lower():
        why = f"another worker has not answered for {TIMEOUT.seconds} s"
    elif is_lost(error):
        why = "another worker is gone"
    else:  # torchrun may be quicker to end this worker than the broken connection is to be noticed
        why = "told to end" + (", as when another worker is gone" if workers.count > 1 else "")
    if workers.saved:
        how = f"the same line again goes on from step {workers.saved}"
    elif checkpoint:
        how = "nothing is saved yet, so the same line again begins anew (save_every saves on the way)"
    else:
        how = "the same line again begins anew; with --checkpoint PLACE it would go on from what was saved"
    who = f"rank {workers.rank} of {workers.count} worker{'s' * (workers.count > 1)}"
    return f"{who} ends after step {workers.steps}: {why}; {how}"


if __name__ == "__main__":
    leave(main())
