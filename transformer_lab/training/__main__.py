"""Lesson 13. Command line: train the model of a job file, in one process or in several with torchrun.

    python -m transformer_lab.training JOB.py [--checkpoint FILE]
    torchrun --nproc-per-node 2 -m transformer_lab.training JOB.py [--checkpoint FILE]

JOB.py is a Python file that defines `config`, a TrainingConfig; `build_model()`, which returns the model;
`batch_at(step)`, which returns the whole batch of a step, from which each worker selects its shard; and
optionally `evaluate(model)`, which returns a score. `transformer_course/digits.py` is an example.
"""

import argparse
import runpy
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from transformer_lab.training.checkpoints import History
from transformer_lab.training.loop import train
from transformer_lab.training.schedule import TrainingConfig, every_n_steps
from transformer_lab.training.workers import exit_now, init_process_group, train_data_parallel


def report(history: History, config: TrainingConfig) -> None:
    """Print the loss, and the score if there is one, at each evaluation step."""
    if every_n_steps(history.steps, config.evaluate_every, config.steps):
        score = history.scores.get(history.steps)
        score = "" if score is None else f", score {score:.3f}"
        print(f"step {history.steps} of {config.steps}: loss {history.loss[-1]:.3f}{score}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Train the job; if another worker is lost, print how to resume the run."""
    parser = argparse.ArgumentParser(
        prog="python -m transformer_lab.training", description="Train the model of a job file."
    )
    parser.add_argument("job", metavar="JOB.py", help="defines config, build_model() and batch_at(step)")
    parser.add_argument("--checkpoint", metavar="FILE", help="file to save the run to, and to resume it from")
    options = parser.parse_args(arguments)

    device = init_process_group()
    torch.manual_seed(0)
    sys.path.insert(0, str(Path(options.job).parent))  # as `python JOB.py` does
    job = runpy.run_path(options.job, run_name="job")
    is_parallel = dist.is_initialized()
    rank = dist.get_rank() if is_parallel else 0
    if is_parallel:  # torchrun sends SIGTERM to the remaining workers: treat it like Ctrl-C
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        (train_data_parallel if is_parallel else train)(
            job["build_model"]().to(device),
            job["batch_at"],
            job["config"],
            evaluate=job.get("evaluate"),
            watch=report if rank == 0 else None,
            checkpoint=options.checkpoint,
        )
    except (RuntimeError, KeyboardInterrupt) as error:
        is_lost = isinstance(error, dist.DistError | KeyboardInterrupt) or "gloo" in str(error)
        if not (is_parallel and is_lost):
            raise
        is_saved = options.checkpoint is not None and Path(options.checkpoint).is_file()
        how = "resume from the last checkpoint" if is_saved else "start again"
        sys.stderr.write(f"rank {rank} stops because another worker ended; run the same command to {how}\n")
        exit_now(1)
    if is_parallel:
        dist.destroy_process_group()
        exit_now(0)


if __name__ == "__main__":
    main()
