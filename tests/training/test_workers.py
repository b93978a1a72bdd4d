"""Lesson 13: several workers make the steps that one makes, and tell in words when one of them is lost.

Where two processes are needed, torchrun starts them. That takes seconds, so one start serves all: this file
is also the program that the two of them run (`measure`, at its end).
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn

from tests.reference_loops import assert_equal
from transformer_lab import Encoder, EncoderConfig, TokenHead
from transformer_lab.training import __main__ as program
from transformer_lab.training import checkpoints, shards
from transformer_lab.training.data import IGNORED, Batch
from transformer_lab.training.loop import TokenClassifier, TrainingConfig, accuracy, train
from transformer_lab.training.shards import Sharded
from transformer_lab.training.workers import (
    Workers,
    join,
    leave,
    loss_to_hand_in,
    rows_of_worker,
)

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")
KINDS = {"replicated": Workers, "sharded": Sharded}
CONFIG = TrainingConfig(
    steps=7, learning_rate=0.05, warmup_steps=2, max_grad_norm=0.05, evaluate_every=3, save_every=2
)
CUT = 5  # a run that is stopped here goes on from 4

each_kind = pytest.mark.parametrize("kind", KINDS)


class PowerCut(Exception):
    pass


def build_model(seed=2):
    torch.manual_seed(seed)
    config = EncoderConfig(
        vocab_size=13, d_model=6, n_heads=2, d_ff=11, n_layers=2, max_length=7, dropout=0.0
    )
    model = TokenClassifier(Encoder(config), TokenHead(6, 3)).double()
    model.unused = nn.Parameter(torch.ones(2).double())  # the loss does not depend on it
    model.register_buffer("mask", torch.ones(3, dtype=torch.bool))
    return model


def batch_at(step):
    """Five rows, so that two workers have three and two; few targets, and in step 3 none for worker 1."""
    generator = torch.Generator().manual_seed(step)
    token_ids = torch.randint(13, (5, 4), generator=generator)
    is_asked = torch.rand(5, 4, generator=generator) < torch.tensor([0.9, 0.2, 0.9, 0.4, 0.9])[:, None]
    if step == 3:
        is_asked[1::2] = False
    is_asked[0, 0] = True
    return Batch((token_ids,), (token_ids % 3).masked_fill(~is_asked, IGNORED))


def evaluate(model):
    return accuracy(model, batch_at(99))


def go(model, place=None, cut=None, config=CONFIG, **options):
    """Train, up to a power cut if there is one; return the history, and all parameters, whole."""

    def watch(history, config):
        if history.steps == cut:
            raise PowerCut

    history = train(model, batch_at, config, evaluate=evaluate, watch=watch, checkpoint=place, **options)
    return history, numbers_of(model)


def cut_off(place, **options):
    with pytest.raises(PowerCut):
        go(build_model(), place, CUT, **options)


def numbers_of(model):
    whole = lambda tensor: tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor  # noqa: E731
    return {name: whole(parameter.detach()).clone() for name, parameter in model.named_parameters()}


def same_run(ours, theirs, tolerance=1e-12):
    """Two runs, each a history and the parameters at its end."""
    (history, numbers), (wanted, wanted_numbers) = ours, theirs
    for name in ("loss", "learning_rate", "gradient_norm"):
        assert getattr(history, name) == pytest.approx(getattr(wanted, name), abs=tolerance, rel=0)
    assert history.scores == wanted.scores
    # Adam divides by the gradient's size: where that is nearly 0, rounding looks larger.
    torch.testing.assert_close(numbers, wanted_numbers, atol=100 * tolerance, rtol=0)


@pytest.fixture(scope="module")
def alone():
    """The run that all others have to equal."""
    torch.set_num_threads(1)
    return go(build_model())


@pytest.fixture
def group():
    """This process, as a group of one."""
    join()
    yield
    dist.destroy_process_group()


def silent(line):
    """Say nothing."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The folder in which two workers were, what each of them found, and how they ended; see `measure`."""
    if sys.platform == "win32":
        pytest.skip("torch has no libuv there")
    folder = tmp_path_factory.mktemp("two")
    (folder / "job.py").write_text(JOB, encoding="utf-8")
    join()  # checkpoints that one process has written, for two to read
    for name, kind in KINDS.items():
        cut_off(folder / f"by_one_{name}", workers=kind(CPU, silent))
    dist.destroy_process_group()
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=localhost"]
    line += ["--nproc-per-node=2", "-m", "tests.training.test_workers", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180)
    found = [folder / f"{rank}.pt" for rank in range(2)]
    assert all(path.exists() for path in found), ended.stderr
    return folder, [torch.load(path, weights_only=False) for path in found], ended


# --- two workers and one


@each_kind
def test_two_workers_make_the_steps_of_one(measured, alone, kind):
    """Clipped, with an odd number of rows, once without targets on one side, from unequal beginnings."""
    assert min(alone[0].gradient_norm) > CONFIG.max_grad_norm  # so that clipping counts
    for worker in measured[1]:
        same_run(worker[kind]["run"], alone)


@each_kind
@pytest.mark.parametrize("written_by", ["by_one", "by_two"])
def test_a_run_goes_on_with_two_workers(measured, alone, kind, written_by):
    for worker in measured[1]:
        same_run(worker[kind][written_by], alone)


@each_kind
def test_what_two_have_written_one_goes_on_with(measured, alone, kind, group):
    lines = []
    workers = KINDS[kind](CPU, lines.append)
    same_run(go(build_model(seed=11), measured[0] / f"cut_{kind}", workers=workers), alone)
    assert lines == ["1 worker on cpu; each holds 783 of 783 parameters; going on from step 4"]


def test_a_file_that_two_have_written_is_one_of_the_loop_alone(measured, alone):
    place = shutil.copy(measured[0] / "by_two_replicated", measured[0] / "for_the_loop")
    same_run(go(build_model(seed=11), place), alone)
    assert not [name for name in checkpoints.load_checkpoint(place)[0] if "module." in name]


@each_kind
def test_dropout_differs_between_workers_and_steps_and_comes_again(measured, kind):
    first, second = (worker[kind]["random"] for worker in measured[1])
    for once, again in (first, second):
        assert once == again
    assert len({*first[0], *second[0]}) == len(first[0]) + len(second[0])


@each_kind
def test_worker_0_alone_writes_and_tells(measured, kind):
    first, second = (worker[kind] for worker in measured[1])
    assert (first["saved"], second["saved"]) == (2, 0)  # at steps 2 and 4
    parts = {"replicated": "783 of 783", "sharded": "at most 405 of 783"}
    begins = f"2 workers on cpu; each holds {parts[kind]} parameters"
    assert first["told"] == [begins, begins, *[f"{begins}; going on from step 4"] * 2]
    assert second["told"] == []
    assert first["held"] + second["held"] == {"replicated": 2 * 783, "sharded": 783}[kind]


REFUSED = {
    "one row": "ValueError: got a batch of 1 rows for 2 workers, wanted at least one for each; make",
    "nothing asked": r"ValueError: nothing is asked: every target is IGNORED \(-100\), wanted at least one",
    "nan": "FloatingPointError: the loss is nan and its gradient's length nan, wanted finite numbers",
    "seen by one": "ValueError: got FOLDER in 1 of 2 workers, wanted the same for all",
}


@each_kind
def test_both_workers_refuse_in_the_same_words(measured, kind):
    first, second = (worker[kind]["refused"] for worker in measured[1])
    assert first == second
    assert first.keys() == REFUSED.keys()
    for what, words in first.items():
        assert re.match(REFUSED[what], words)


# --- the parts, by hand


def test_rows_are_dealt_out_in_turn():
    batch = Batch((torch.arange(5),), torch.arange(5))
    assert [rows_of_worker(batch, rank, 2).targets.tolist() for rank in range(2)] == [[0, 2, 4], [1, 3]]
    assert [rows_of_worker(batch, rank, 5).targets.tolist() for rank in range(5)] == [[0], [1], [2], [3], [4]]
    with pytest.raises(ValueError, match="got a batch of 5 rows for 6 workers, wanted at least one for each"):
        rows_of_worker(batch, 0, 6)


def test_losses_that_are_a_mean_already_are_refused():
    with pytest.raises(ValueError, match="reduction='none'"):
        loss_to_hand_in(torch.tensor(2.0), torch.tensor(8), 2)


@pytest.mark.parametrize("parts", [[3, 5], [1, 0, 7]])
def test_the_average_of_what_is_handed_in_is_the_mean_of_all(parts):
    losses = torch.arange(8.0, requires_grad=True)
    handed = [loss_to_hand_in(part, torch.tensor(8), len(parts)) for part in losses.split(parts)]
    average = sum(handed) / len(parts)
    assert_equal(average, losses.mean())
    assert_equal(torch.autograd.grad(average, losses)[0], torch.full((8,), 1 / 8))


def test_lists_in_lists_of_layers_are_dealt_out(group):
    inner = nn.ModuleList([nn.Linear(3, 3), nn.Identity()])
    model = nn.Module()
    model.layers = nn.ModuleList([nn.Linear(3, 3), inner])
    model.forward = lambda x: inner[1](inner[0](model.layers[0](x)))
    wrapped = Sharded(CPU, silent).wrap(model)
    wrapped(torch.ones(2, 3)).sum().backward()
    for layer in (model.layers[0], inner[0], inner[1]):
        assert type(layer).__name__.startswith("FSDP")
    assert all(parameter.grad is not None for parameter in model.parameters())


# --- checkpoints in a folder


def sharded(place, model=None, **options):
    return go(model or build_model(), place, workers=Sharded(CPU, silent), **options)


@pytest.fixture
def cut_folder(group, tmp_path):
    cut_off(tmp_path / "run", workers=Sharded(CPU, silent))
    return tmp_path / "run"


def raising(error):
    """A function that does not get far."""
    return lambda *_, **__: (_ for _ in ()).throw(error)


def test_a_kill_while_writing_leaves_the_checkpoint_before(cut_folder, alone, monkeypatch):
    """Killed when all parts are written, but the file that names them is not; and amid the parts."""
    before = (cut_folder / shards.RUN).read_bytes()
    for module, name in ((shards, "save_checkpoint"), (shards.dcp, "save")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, raising(PowerCut))
            with pytest.raises(PowerCut):
                sharded(cut_folder)
        assert (cut_folder / shards.RUN).read_bytes() == before
        assert {path.name for path in cut_folder.iterdir()} == {shards.RUN, "step-4", "step-6"}
    same_run(sharded(cut_folder, build_model(seed=11)), alone)
    assert {path.name for path in cut_folder.iterdir()} == {shards.RUN, "step-7"}


def test_a_folder_of_another_model_is_refused_and_the_model_stays(cut_folder):
    other = build_model()
    other.head = TokenHead(6, 5).double()
    before = numbers_of(other)
    with pytest.raises(
        ValueError, match=r"is of another run: got model = \['head.projection.weight \(3, 6\)"
    ):
        sharded(cut_folder, other)
    torch.testing.assert_close(numbers_of(other), before, atol=0, rtol=0)
    with pytest.raises(ValueError, match="run cannot be written: got a folder, wanted a file"):
        go(build_model(), cut_folder, workers=Workers(CPU, silent))


def test_a_folder_of_something_else_is_refused(group, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="is no folder for a sharded checkpoint: got one with file, wanted"):
        sharded(tmp_path)


def test_a_folder_that_other_machines_do_not_see_is_told(group, tmp_path, monkeypatch):
    monkeypatch.setattr(shards.Path, "is_dir", lambda path: not path.name.startswith("step-"))
    with pytest.raises(ValueError, match="worker 0 does not see the folder step-2 that worker 0 has"):
        sharded(tmp_path / "run")


# --- the program

JOB = """
import os, signal, sys
sys.path.insert(0, os.getcwd())
from tests.training.test_workers import CONFIG as config, batch_at as rows_at, build_model, evaluate

def batch_at(step):
    if step == 5 and os.environ.get("RANK") == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    if step == int(os.environ.get("TOLD_TO_END_AT", -1)):
        os.kill(os.getpid(), signal.SIGTERM)
    return rows_at(step)
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    path = tmp_path / "job.py"
    path.write_text(JOB, encoding="utf-8")
    return path


PRINTED = """\
step 3 of 7: loss {loss[2]:.3f}, score {scores[3]:.3f}
step 6 of 7: loss {loss[5]:.3f}, score {scores[6]:.3f}
done, 7 steps: loss {loss[6]:.3f}, score {scores[7]:.3f}
"""


@each_kind
def test_the_program_alone(job, alone, capfd, kind):
    assert program.main([str(job), *["--sharded"] * (kind == "sharded")]) == program.DONE
    printed = capfd.readouterr()
    wanted = "1 worker on cpu; each holds 783 of 783 parameters\n" + PRINTED.format(**vars(alone[0]))
    assert (printed.out, printed.err) == (wanted, "")
    assert not dist.is_initialized()


def test_a_killed_worker_is_told_and_the_same_line_goes_on(measured, alone, capfd, monkeypatch):
    folder, _, ended = measured
    job, place = folder / "job.py", folder / "program"
    assert ended.returncode != 0
    assert ended.stdout.splitlines()[0] == "2 workers on cpu; each holds 783 of 783 parameters"
    (told,) = [line for line in ended.stderr.splitlines() if "workers ends" in line]
    assert told.startswith("rank 0 of 2 workers ends after step 5: ")  # not after the minute of a silent one
    why = "(another worker is gone|told to end, as when another worker is gone)"
    assert re.search(f"{why}; the same line again goes on from step 4$", told)
    assert "gloo" not in ended.stderr
    assert ended.stderr.count("Traceback") == 1  # torchrun's own, about its children
    assert not re.search(r"^(?!.*\[W\d).*Warning", ended.stderr, re.MULTILINE)  # c10d's log may warn of names

    monkeypatch.chdir(ROOT)
    assert program.main([str(job), "--checkpoint", str(place)]) == program.DONE
    first, *others = capfd.readouterr().out.splitlines(keepends=True)
    assert first == "1 worker on cpu; each holds 783 of 783 parameters; going on from step 4\n"
    assert others == PRINTED.format(**vars(alone[0])).splitlines(keepends=True)[1:]
    tensors, facts = checkpoints.load_checkpoint(place)
    assert facts["history"]["loss"] == pytest.approx(alone[0].loss, abs=1e-12, rel=0)
    for name, tensor in alone[1].items():
        assert_equal(tensors[f"model/{name}"], tensor, 1e-10)


def test_a_job_imports_what_stands_beside_it_and_its_error_keeps_pythons_own_words(tmp_path):
    path = tmp_path / "job.py"
    path.write_text("import beside_the_job\nconfig = missing")
    (tmp_path / "beside_the_job.py").touch()
    with pytest.raises(NameError, match="missing"):
        program.main([str(path)])
    assert not dist.is_initialized()


@pytest.mark.parametrize(
    ("step", "options", "words"),
    [
        (5, [], "begins anew; with --checkpoint PLACE it would go on from what was saved"),
        (5, ["--checkpoint", "run", "--sharded"], "goes on from step 4"),
        (1, ["--checkpoint", "run"], "begins anew (save_every saves on the way)"),
    ],
)
def test_a_run_that_is_told_to_end_says_how_it_goes_on(
    job, tmp_path, capfd, monkeypatch, step, options, words
):
    """SIGTERM is what torchrun sends to those that are left."""
    monkeypatch.setenv("TOLD_TO_END_AT", str(step))
    before = signal.getsignal(signal.SIGTERM)
    options = [str(tmp_path / "run") if option == "run" else option for option in options]
    assert program.main([str(job), *options]) == program.STOPPED
    nothing_yet = "nothing is saved yet, so " if step == 1 else ""
    start = f"rank 0 of 1 worker ends after step {step}: told to end; {nothing_yet}the same line again"
    assert capfd.readouterr().err == f"{start} {words}\n"
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (dist.DistBackendError("NCCL communicator was aborted"), "another worker is gone"),
        (RuntimeError("[gloo/x.cc:1] Timed out waiting 60000ms"), "another worker has not answered for 60 s"),
        (KeyboardInterrupt(), "told to end, as when another worker is gone"),
    ],
)
def test_why_a_worker_ends(error, words):
    workers = SimpleNamespace(rank=1, count=2, steps=70, saved=50)
    lost = f"rank 1 of 2 workers ends after step 70: {words}; the same line again goes on from step 50"
    assert program.end_in_words(error, workers, None) == lost
    assert program.is_lost(error) == (not isinstance(error, KeyboardInterrupt))
    assert not program.is_lost(RuntimeError("shapes cannot be"))


def test_a_worker_that_loses_another_ends_in_words(job, capfd, monkeypatch):
    monkeypatch.setattr(program, "run", raising(dist.DistBackendError("NCCL communicator was aborted")))
    assert program.main([str(job)]) == program.STOPPED
    assert "ends after step 0: another worker is gone; the same line again" in capfd.readouterr().err


# --- what each of two workers does, and writes down


def measure(folder):
    device = join()
    rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
    found = {name: measure_kind(folder, name, kind, device) for name, kind in KINDS.items()}
    torch.save(found, folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
    # The program, once more in these processes: with what each start has, a store of its own.
    dist.distributed_c10d.rendezvous = lambda *_, **__: iter([(dist.PrefixStore("again", store), rank, 2)])
    leave(program.main([str(folder / "job.py"), "--checkpoint", str(folder / "program")]))


def measure_kind(folder, name, kind, device):
    rank, told = dist.get_rank(), []

    def make():
        return kind(device, told.append if rank == 0 else fail)

    model = build_model(seed=2 + rank)  # not the same: that of worker 0 counts
    found = {"run": go(model, workers=make())}
    found["held"] = sum(make().part(parameter).numel() for parameter in model.parameters())
    found["saved"] = count_saves(lambda: cut_off(folder / f"cut_{name}", workers=make()))
    copy(folder / f"cut_{name}", folder / f"by_two_{name}")
    for by in ("by_one", "by_two"):
        found[by] = go(build_model(seed=5), folder / f"{by}_{name}", workers=make())
    found["told"] = list(told)
    found["random"] = drawn(make()), drawn(make())
    found["refused"] = refusals(folder, name, make)
    return found


def fail(line):
    raise RuntimeError(f"worker 1 wanted to say: {line}")


def drawn(workers):
    """The random numbers of three steps' dropout."""
    workers.wrap(build_model())
    numbers = []
    for step in range(3):
        workers.share(batch_at(step), step)
        numbers += torch.rand(3).tolist()
    return numbers


def count_saves(work):
    """How often this process writes a file with what is needed to go on."""
    places, save = [], checkpoints.save_checkpoint

    def counted(place, tensors, facts):
        places.append(place)
        save(place, tensors, facts)

    checkpoints.save_checkpoint = shards.save_checkpoint = counted
    work()
    checkpoints.save_checkpoint = shards.save_checkpoint = save
    return len(places)


def copy(place, to):
    if dist.get_rank() == 0:
        (shutil.copytree if place.is_dir() else shutil.copy)(place, to)
    dist.barrier()


def refusals(folder, name, make):
    """The errors' words, by what is wrong."""
    nothing = Batch(batch_at(0).inputs, torch.full((5, 4), IGNORED))
    spoilt = build_model()
    nn.init.constant_(spoilt.head.projection.bias, torch.nan)
    hidden = folder / f"cut_{name}" if dist.get_rank() == 0 else folder / f"elsewhere_{name}"
    attempts = {
        "one row": (build_model(), lambda step: batch_at(step).rows(slice(1)), None),
        "nothing asked": (build_model(), lambda step: nothing, None),
        "nan": (spoilt, batch_at, None),
        "seen by one": (build_model(), batch_at, hidden),
    }
    words = {}
    for what, (model, batches, place) in attempts.items():
        try:
            train(model, batches, CONFIG, checkpoint=place, workers=make())
        except (ValueError, ArithmeticError) as error:
            words[what] = f"{type(error).__name__}: {error}".replace(str(place), "FOLDER")
    return words


if __name__ == "__main__":
    torch.set_num_threads(1)
    measure(Path(sys.argv[1]))
