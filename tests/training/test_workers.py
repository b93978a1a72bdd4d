"""Lesson 13: several workers make the steps of one process, and a lost worker is reported.

Processes take seconds to start, so torchrun starts two of them once, for all tests: this file is also the
program that they run (`run_worker`, at its end).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from tests.tensors import assert_equal
from transformer_lab import Encoder, EncoderConfig, TokenHead
from transformer_lab.training import (
    IGNORED,
    Batch,
    TokenClassifier,
    TrainingConfig,
    accuracy,
    checkpoints,
    loss_to_hand_in,
    train,
    train_data_parallel,
)
from transformer_lab.training import __main__ as program
from transformer_lab.training.workers import exit_now

ROOT = Path(__file__).parents[2]
CONFIG = TrainingConfig(
    steps=7, learning_rate=0.05, warmup_steps=2, max_grad_norm=0.05, evaluate_every=3, save_every=2
)
CUT = 5  # a run that is stopped here resumes from step 4


class PowerCut(Exception):
    pass


def build_model(seed=2, dropout=0.0):
    torch.manual_seed(seed)
    config = EncoderConfig(
        vocab_size=13, d_model=6, n_heads=2, d_ff=11, n_layers=2, max_length=7, dropout=dropout
    )
    model = TokenClassifier(Encoder(config), TokenHead(6, 3)).double()
    model.unused = nn.Parameter(torch.ones(2).double())  # the loss does not depend on it
    model.register_buffer("mask", torch.ones(3, dtype=torch.bool))
    return model


def batch_at(step):
    """Five rows, so that two workers have three and two; in step 3 no target, in step 4 no row for rank 1."""
    generator = torch.Generator().manual_seed(step)
    token_ids = torch.randint(13, (5, 4), generator=generator)
    is_asked = torch.rand(5, 4, generator=generator) < torch.tensor([0.9, 0.2, 0.9, 0.4, 0.9])[:, None]
    if step == 3:
        is_asked[1::2] = False
    is_asked[0, 0] = True
    batch = Batch((token_ids,), (token_ids % 3).masked_fill(~is_asked, IGNORED))
    return batch.rows(slice(1)) if step == 4 else batch


def evaluate(model):
    return accuracy(model, batch_at(99))


def run(train_fn, model, checkpoint=None, cut=None, batch_at=batch_at):
    """Train, up to a power cut if there is one; return the history and the parameters."""

    def watch(history, config):
        if history.steps == cut:
            raise PowerCut

    try:
        history = train_fn(model, batch_at, CONFIG, evaluate=evaluate, watch=watch, checkpoint=checkpoint)
    except PowerCut:
        return None
    return history, {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def assert_same_run(ours, theirs, tolerance=1e-12):
    (history, parameters), (wanted, wanted_parameters) = ours, theirs
    for name in ("loss", "learning_rate", "gradient_norm"):
        assert getattr(history, name) == pytest.approx(getattr(wanted, name), abs=tolerance, rel=0)
    assert history.scores == wanted.scores
    # Adam divides by the gradient's size: where that is nearly 0, rounding looks larger.
    torch.testing.assert_close(parameters, wanted_parameters, atol=100 * tolerance, rtol=0)


@pytest.fixture(scope="module")
def alone():
    """The run of one process, which two workers have to equal."""
    torch.set_num_threads(1)
    return run(train, build_model())


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory):
    """The folder in which two workers were, the results of each, and how torchrun ended."""
    if sys.platform == "win32":
        pytest.skip("torch has no libuv there")
    folder = tmp_path_factory.mktemp("two")
    (folder / "job.py").write_text(JOB, encoding="utf-8")
    run(train, build_model(), folder / "by_one", CUT)
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=localhost"]
    line += ["--nproc-per-node=2", "-m", "tests.training.test_workers", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180)
    files = [folder / f"{rank}.pt" for rank in range(2)]
    assert all(path.exists() for path in files), ended.stderr
    return folder, [torch.load(path, weights_only=False) for path in files], ended


@pytest.mark.parametrize("name", ["uninterrupted", "by_one", "by_two"])
def test_two_workers_make_the_steps_of_one(two_workers, alone, name):
    """From the start, from other parameters, and from checkpoints that one process or two have written."""
    assert min(alone[0].gradient_norm) > CONFIG.max_grad_norm  # so that clipping counts
    for results in two_workers[1]:
        assert_same_run(results[name], alone)


def test_dropout_differs_between_workers_and_steps_and_a_run_with_it_resumes_bit_by_bit(two_workers):
    first, second = (results["random"] for results in two_workers[1])
    assert len({*first, *second}) == 2 * CONFIG.steps
    for results in two_workers[1]:
        assert_same_run(results["dropout, resumed"], results["dropout"], tolerance=0)


def test_both_workers_stop_with_the_same_words(two_workers):
    first, second = (results["refused"] for results in two_workers[1])
    assert first == second
    for error, words in zip(first, ["the loss is nan", "expected FOLDER in all 2 workers"], strict=True):
        assert error.startswith(words)


def test_losses_that_are_a_mean_already_are_refused():
    with pytest.raises(ValueError, match="reduction='none'"):
        loss_to_hand_in(torch.tensor(2.0), torch.tensor(8), 2)


# --- the program

JOB = """
import os, signal, sys
sys.path.insert(0, os.getcwd())
from tests.training.test_workers import CONFIG as config, batch_at as rows_at, build_model, evaluate

def batch_at(step):
    if step == 5 and os.environ.get("RANK") == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    return rows_at(step)
"""
PRINTED = """\
step 3 of 7: loss {loss[2]:.3f}, score {scores[3]:.3f}
step 6 of 7: loss {loss[5]:.3f}, score {scores[6]:.3f}
step 7 of 7: loss {loss[6]:.3f}, score {scores[7]:.3f}
"""


def test_a_killed_worker_is_reported_and_one_process_resumes_the_run(two_workers, alone, capfd, monkeypatch):
    folder, _, ended = two_workers
    lines = PRINTED.format(**vars(alone[0])).splitlines(keepends=True)
    assert ended.returncode != 0
    assert ended.stdout == lines[0]
    words = (
        "rank 0 stops because another worker ended; run the same command to resume from the last checkpoint"
    )
    assert words in ended.stderr
    assert "gloo" not in ended.stderr
    assert ended.stderr.count("Traceback") == 1  # torchrun's own, about its children

    monkeypatch.chdir(ROOT)
    program.main([str(folder / "job.py"), "--checkpoint", str(folder / "program")])
    assert capfd.readouterr() == ("".join(lines[1:]), "")
    tensors, facts = checkpoints.read_checkpoint(folder / "program")
    assert facts["history"]["loss"] == pytest.approx(alone[0].loss, abs=1e-12, rel=0)
    for name, tensor in alone[1].items():
        assert_equal(tensors[f"model/{name}"], tensor, 1e-10)


def test_a_job_imports_what_is_beside_it_and_its_error_is_pythons(tmp_path):
    path = tmp_path / "job.py"
    path.write_text("import beside_the_job\nconfig = missing")
    (tmp_path / "beside_the_job.py").touch()
    with pytest.raises(NameError, match="missing"):
        program.main([str(path)])


# --- what each of two workers does


def run_worker(folder):
    dist.init_process_group("gloo")
    rank, results, random = dist.get_rank(), {}, []
    if rank:  # rank 0 alone writes
        checkpoints.write_checkpoint = lambda *_: exit_now(3)

    def run_two(*arguments, **options):
        result = run(train_data_parallel, *arguments, **options)
        dist.barrier()  # rank 0 has written its checkpoint
        return result

    def recording(step):
        random.append(torch.rand(1).item())
        return batch_at(step)

    results["uninterrupted"] = run_two(build_model(seed=2 + rank))  # those of rank 0 count
    run_two(build_model(), folder / "by_two", CUT)
    if rank == 0:
        shutil.copy(folder / "by_two", folder / "elsewhere_0")
    dist.barrier()
    for name in ("by_one", "by_two"):
        results[name] = run_two(build_model(seed=5), folder / name)

    results["dropout"] = run_two(build_model(dropout=0.3), batch_at=recording)
    results["random"] = list(random)
    run_two(build_model(dropout=0.3), folder / "dropout", CUT, batch_at=recording)
    torch.rand(rank)
    results["dropout, resumed"] = run_two(build_model(dropout=0.3), folder / "dropout", batch_at=recording)

    spoilt = build_model()
    nn.init.constant_(spoilt.head.projection.bias, torch.nan)
    results["refused"] = []
    for model, place in ((spoilt, None), (build_model(), folder / f"elsewhere_{rank}")):
        try:
            run(train_data_parallel, model, place)
        except (ValueError, ArithmeticError) as error:
            results["refused"].append(str(error).replace(str(place), "FOLDER"))
    torch.save(results, folder / f"{rank}.pt")
    program.init_process_group = lambda: torch.device("cpu")  # they have met already
    program.main([str(folder / "job.py"), "--checkpoint", str(folder / "program")])


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_worker(Path(sys.argv[1]))
