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
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import torch
import torch.distributed as dist

from transformer_lab.training.checkpoints import History
from transformer_lab.training.loop import TrainingConfig, train
from transformer_lab.training.workers import TIMEOUT, Workers, join, leave

DONE, STOPPED, WRONG = 0, 1, 2  # what this program returns; WRONG: what was given cannot be
WRONGLY_GIVEN = (
    *(TypeError, ValueError, LookupError, NameError, AttributeError),
    *(SyntaxError, ImportError, FileNotFoundError),
)

SEED = 0  # the same for all workers, before the model is built


def load_job(path: str) -> SimpleNamespace:
    """Run a job file, and return what it defines.

    Raises:
        ValueError: something is missing.
    """
    sys.path.insert(0, str(Path(path).parent))  # as `python JOB.py` does
    job = {"evaluate": None} | runpy.run_path(path, run_name="job")
    missing = [name for name in ("config", "build_model", "batch_at") if name not in job]
    if missing:
        raise ValueError(
            f"{path} has no {' and no '.join(missing)}, wanted config, build_model() and batch_at(step); "
            "write it, as transformer_course/digits.py does"
        )
    return SimpleNamespace(**job)


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
    """Join the other workers, train, and return DONE, STOPPED or WRONG; an end is told in one line, once."""
    given = arguments_in(arguments)
    before = signal.signal(signal.SIGTERM, end)  # with it torchrun ends the workers that are left
    store, workers = None, None
    try:
        store, device = join()
        kind = Workers
        if given.sharded:  # what shares parameters is imported only where it is wanted
            from transformer_lab.training.shards import Sharded as kind
        workers = kind(device, say)
        run(given.job, given.checkpoint, workers)
        return DONE
    except (Exception, KeyboardInterrupt) as error:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # this worker is about to end anyway
        if is_first(store):
            sys.stderr.write(f"{end_in_words(error, given, workers)}\n")
        return WRONG if isinstance(error, WRONGLY_GIVEN) else STOPPED
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        signal.signal(signal.SIGTERM, before)


def arguments_in(arguments: list[str] | None) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m transformer_lab.training", description="Trains what a job file describes."
    )
    parser.add_argument("job", metavar="JOB.py", help="defines config, build_model() and batch_at(step)")
    parser.add_argument("--checkpoint", metavar="PLACE", help="what a run goes on from: a file, or a folder")
    parser.add_argument("--sharded", action="store_true", help="each worker holds a part of the parameters")
    return parser.parse_args(arguments)


def say(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


# --- how a run ends that does not reach its end


class Abandoned(KeyboardInterrupt):
    """torchrun ends this worker, as it does with all that are left when one is gone."""


def end(*_: object) -> NoReturn:
    """Be told to end: by torchrun if there are several workers, else as by Ctrl-C."""
    several = dist.is_initialized() and dist.get_world_size() > 1
    raise Abandoned if several else KeyboardInterrupt


def is_first(store: dist.Store | None) -> bool:
    """Return whether no other worker has said yet why the run ends."""
    try:
        return store is None or store.add("told", 1) == 1
    except RuntimeError:  # the worker that kept the store is gone, too
        return True


def end_in_words(error: BaseException, given: argparse.Namespace, workers: Workers | None) -> str:
    """Say in one line why the run ends and, if it had begun, how it goes on."""
    lost = is_lost(error)
    if workers is None or not (lost or isinstance(error, KeyboardInterrupt)):
        return error_in_words(error, given.job)
    others = ", as when another worker is gone" if workers.count > 1 else ""
    why = "another worker is gone" if lost else f"told to end{others}"
    if "timed out" in str(error).lower():
        why = f"another worker has not answered for {TIMEOUT.seconds} s"
    if workers.saved:
        how = f"the same line again goes on from step {workers.saved}"
    elif given.checkpoint:
        how = "nothing is saved yet, so the same line again begins anew (save_every saves on the way)"
    else:
        how = "the same line again begins anew; with --checkpoint PLACE it would go on from what was saved"
    who = f"rank {workers.rank} of {workers.count} worker{'s' * (workers.count > 1)}"
    return f"{who} ends after step {workers.steps}: {why}; {how}"


def is_lost(error: BaseException) -> bool:
    """Return whether another worker is gone."""
    # torchrun may be quicker to end this worker than the broken connection is to be noticed.
    known = isinstance(error, dist.DistError | Abandoned)
    return known or (isinstance(error, RuntimeError) and "gloo" in str(error))


def error_in_words(error: BaseException, job: str) -> str:
    """Return an error's first line and, if it comes out of the job file, where it arose."""
    text = (str(error).splitlines() or [""])[0]
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == job]
    if isinstance(error, SyntaxError) and error.filename == job:
        text, lines = error.msg, [error.lineno]
    if lines:
        return f"{job}, line {lines[-1]}: {type(error).__name__}: {text}"
    ours = isinstance(error, TypeError | ValueError | OSError | FloatingPointError)
    return text if ours else f"{type(error).__name__}: {text}"


if __name__ == "__main__":
    leave(main())
