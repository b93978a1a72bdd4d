"""Lesson 13: several workers make the steps that one makes, and tell in words when one of them is lost.

Where two processes are needed, torchrun starts them. That takes seconds, so one start serves many tests: this
file is also the program that the two of them run (`measure`, at its end).
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from tests.references import assert_equal
from transformer_lab import Encoder, EncoderConfig, TokenHead
from transformer_lab.training import __main__ as program
from transformer_lab.training import checkpoints, shards
from transformer_lab.training.data import IGNORED, Batch
from transformer_lab.training.loop import TokenClassifier, TrainingConfig, accuracy, train
from transformer_lab.training.shards import Sharded
from transformer_lab.training.workers import (
    Workers,
    device_for,
    join,
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
starts_processes = pytest.mark.skipif(sys.platform == "win32", reason="torch has no libuv there")


class PowerCut(Exception):
    pass


def build_model(dropout=0.0, seed=2):
    torch.manual_seed(seed)
    config = EncoderConfig(
        vocab_size=13, d_model=6, n_heads=2, d_ff=11, n_layers=2, max_length=7, dropout=dropout
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


def go(model, place=None, cut=None, config=CONFIG, seen=None, **options):
    """Train, up to a power cut if there is one; note each step that is done."""

    def watch(history, config):
        if history.steps == cut:
            raise PowerCut
        if seen is not None:
            seen.append(history.steps)

    return train(model, batch_at, config, evaluate=evaluate, watch=watch, checkpoint=place, **options)


def cut_off(model, place, **options):
    with pytest.raises(PowerCut):
        go(model, place, CUT, **options)


def numbers_of(model):
    """All parameters, whole."""
    whole = lambda tensor: tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor  # noqa: E731
    return {name: whole(parameter.detach()).clone() for name, parameter in model.named_parameters()}


def same_run(ours, theirs, tolerance=1e-12):
    """Two runs, each a history and the parameters at its end."""
    (history, numbers), (wanted, wanted_numbers) = ours, theirs
    for name in ("loss", "learning_rate", "gradient_norm"):
        assert getattr(history, name) == pytest.approx(getattr(wanted, name), abs=tolerance, rel=0)
    assert history.scores == wanted.scores
    assert numbers.keys() == wanted_numbers.keys()
    for name, tensor in numbers.items():
        # Adam divides by the gradient's size: where that is nearly 0, rounding looks larger.
        assert_equal(tensor, wanted_numbers[name], 100 * tolerance)


@pytest.fixture(scope="module")
def alone():
    """The run that all others have to equal."""
    torch.set_num_threads(1)
    model = build_model()
    return go(model), numbers_of(model)


@pytest.fixture
def group():
    """This process, as a group of one."""
    store, _ = join()
    yield store
    dist.destroy_process_group()


def silent(line):
    """Say nothing."""


def launch(*arguments, **environment):
    """Start two processes, and return what they print, how they end, and after how many seconds."""
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=localhost"]
    line += ["--nproc-per-node=2", "-m"]
    began = time.monotonic()
    ended = subprocess.run(
        [*line, *map(str, arguments)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    return ended, time.monotonic() - began


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What each of two workers found; see `measure`."""
    folder = tmp_path_factory.mktemp("two")
    join()  # checkpoints that one process has written, for two to read
    cut_off(build_model(), folder / "by_one_replicated", workers=Workers(CPU, silent))
    cut_off(build_model(), folder / "by_one_sharded", workers=Sharded(CPU, silent))
    dist.destroy_process_group()
    ended, _ = launch("tests.training.test_workers", folder)
    assert ended.returncode == 0, ended.stderr
    assert not re.search(r"^(?!.*\[W\d).*Warning", ended.stderr, re.MULTILINE)  # c10d's log may warn of names
    return folder, [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]


# --- two workers and one


@starts_processes
@each_kind
def test_two_workers_make_the_steps_of_one(measured, alone, kind):
    """Clipped, with an odd number of rows, once without targets on one side, from unequal beginnings."""
    assert min(alone[0].gradient_norm) > CONFIG.max_grad_norm  # so that clipping counts
    for worker in measured[1]:
        same_run(worker[kind]["run"], alone)


@starts_processes
@each_kind
@pytest.mark.parametrize("written_by", ["by_one", "by_two"])
def test_a_run_goes_on_with_two_workers(measured, alone, kind, written_by):
    for worker in measured[1]:
        same_run(worker[kind][written_by], alone)
        assert worker[kind]["first steps"][written_by] == 5  # it did go on


@starts_processes
@each_kind
def test_what_two_have_written_one_goes_on_with(measured, alone, kind, group):
    lines = []
    model = build_model(seed=11)
    history = go(model, measured[0] / f"cut_{kind}", workers=KINDS[kind](CPU, lines.append))
    same_run((history, numbers_of(model)), alone)
    assert lines == ["1 worker on cpu; each holds 783 of 783 parameters; going on from step 4"]


@starts_processes
def test_a_file_that_two_have_written_is_one_of_the_loop_alone(measured, alone):
    place = shutil.copy(measured[0] / "cut_replicated", measured[0] / "for_the_loop")
    model = build_model(seed=11)
    same_run((go(model, place), numbers_of(model)), alone)
    tensors, _ = checkpoints.load_checkpoint(place)
    assert not [name for name in tensors if "module." in name]


@starts_processes
@each_kind
def test_dropout_differs_between_workers_and_comes_again_after_a_stop(measured, kind):
    first, second = (worker[kind] for worker in measured[1])
    assert not set(first["random"].tolist()) & set(second["random"].tolist())
    for worker in (first, second):
        same_run(worker["dropout, gone on"], worker["dropout"], 0)
        assert worker["random"].tolist() == worker["random again"].tolist()


@starts_processes
@each_kind
def test_worker_0_alone_writes_and_tells(measured, kind):
    first, second = (worker[kind] for worker in measured[1])
    assert (first["saved"], second["saved"]) == (2, 0)  # at steps 2 and 4
    parts = {"replicated": "783 of 783", "sharded": "at most 405 of 783"}
    assert first["told"] == [f"2 workers on cpu; each holds {parts[kind]} parameters"]
    assert second["told"] == []
    assert first["held"] + second["held"] == {"replicated": 2 * 783, "sharded": 783}[kind]


@starts_processes
@each_kind
@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("one row", "ValueError: got a batch of 1 rows for 2 workers, wanted at least one for each; make"),
        (
            "nothing asked",
            "ValueError: nothing is asked: every target is IGNORED (-100), wanted at least one",
        ),
        ("nan", "FloatingPointError: the loss is nan and its gradient's length nan, wanted finite numbers"),
        (
            "seen by one",
            "ValueError: got FOLDER in 1 of 2 workers, after [0, 0] steps, wanted the same",
        ),
    ],
)
def test_both_workers_refuse_in_the_same_words(measured, kind, what, words):
    first, second = (worker[kind]["refused"][what] for worker in measured[1])
    assert first == second
    assert first.startswith(words)


@starts_processes
def test_both_workers_refuse_a_damaged_folder(measured):
    first, second = (worker["sharded"]["refused"]["damaged"] for worker in measured[1])
    assert first == second
    assert "is not a whole checkpoint: got other contents than were written in __1_0.distcp, wanted" in first


# --- the parts, by hand


def test_rows_are_dealt_out_in_turn():
    batch = Batch((torch.arange(5),), torch.arange(5))
    assert [rows_of_worker(batch, rank, 2).targets.tolist() for rank in range(2)] == [[0, 2, 4], [1, 3]]
    assert rows_of_worker(batch, 0, 1).targets.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="got a batch of 5 rows for 7 workers, wanted at least one for each"):
        rows_of_worker(batch, 0, 7)
    with pytest.raises(ValueError, match="rank must be at most 1, got 2"):
        rows_of_worker(batch, 2, 2)


@pytest.mark.parametrize("parts", [[3, 5], [8], [1, 0, 7], [2, 2, 2, 2]])
def test_the_average_of_what_is_handed_in_is_the_mean_of_all(parts):
    losses = torch.arange(8.0, requires_grad=True)
    handed = [loss_to_hand_in(part, 8, len(parts)) for part in losses.split(parts)]
    average = sum(handed) / len(parts)
    assert_equal(average, losses.mean())
    assert_equal(torch.autograd.grad(average, losses)[0], torch.full((8,), 1 / 8))


def test_losses_that_are_averaged_already_are_refused():
    with pytest.raises(ValueError, match=r"losses must have the axis \(targets\), got shape \(\); take"):
        loss_to_hand_in(torch.ones(4).mean(), 4, 2)


@pytest.mark.parametrize(
    ("total", "n_workers", "name"),
    [(0, 2, "total"), (torch.tensor(-4), 2, "total"), (torch.rand(()), 2, "total"), (4, 2.0, "n_workers")],
)
def test_a_total_and_a_number_of_workers_are_integers_from_1_on(total, n_workers, name):
    """What would hand in a loss of 0, of infinity or of the wrong sign, and train on."""
    with pytest.raises((TypeError, ValueError), match=rf"^{name} must be .*, got"):
        loss_to_hand_in(torch.rand(4), total, n_workers)
    assert_equal(loss_to_hand_in(torch.ones(4), torch.tensor(4), 2), torch.tensor(2.0))


@each_kind
def test_a_group_of_one_makes_the_steps_of_the_loop(group, alone, kind):
    model = build_model()
    same_run((go(model, workers=KINDS[kind](CPU, silent)), numbers_of(model)), alone)


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


def test_what_cannot_be_trained_is_refused_before_it_is_shared(group):
    with pytest.raises(ValueError, match="in float16"):
        train(nn.Linear(3, 5).half(), batch_at, CONFIG, workers=Workers(CPU, print))


# --- checkpoints in a folder


def sharded(place, model=None, **options):
    model = model or build_model()
    return model, go(model, place, workers=Sharded(CPU, silent), **options)


@pytest.fixture
def cut_folder(group, tmp_path):
    with pytest.raises(PowerCut):
        sharded(tmp_path / "run", cut=CUT)
    return tmp_path / "run"


def test_a_kill_while_writing_leaves_the_checkpoint_before(cut_folder, monkeypatch):
    """Killed when all parts are written, but the file that names them is not; and amid the parts."""
    wanted = numbers_of(sharded(None)[0])
    before = (cut_folder / shards.RUN).read_bytes()
    for module, name in ((shards, "save_checkpoint"), (shards.dcp, "save")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, lambda *_, **__: (_ for _ in ()).throw(PowerCut))
            with pytest.raises(PowerCut):
                sharded(cut_folder)
        assert (cut_folder / shards.RUN).read_bytes() == before
        assert {path.name for path in cut_folder.iterdir()} == {shards.RUN, "step-4", "step-6"}
    model, history = sharded(cut_folder, build_model(seed=11))
    assert history.steps == CONFIG.steps
    assert {path.name for path in cut_folder.iterdir()} == {shards.RUN, "step-7"}
    for name, tensor in numbers_of(model).items():
        assert_equal(tensor, wanted[name], 0)


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda at: damage(at / "step-4" / "__0_0.distcp"), "got other contents than were written in __0_0"),
        (lambda at: (at / "step-4" / "__0_0.distcp").unlink(), "got other contents than were written in __0"),
        (lambda at: damage(at / shards.RUN), "is not a whole checkpoint"),
    ],
)
def test_a_folder_that_is_not_as_written_is_refused_and_the_model_stays(cut_folder, spoil, words):
    spoil(cut_folder)
    model = build_model(seed=11)
    before = numbers_of(model)
    with pytest.raises(ValueError, match=words):
        sharded(cut_folder, model)
    for name, tensor in numbers_of(model).items():
        assert_equal(tensor, before[name], 0)


def test_a_folder_of_another_model_or_run_is_refused(cut_folder):
    other = build_model()
    other.head = TokenHead(6, 5).double()
    with pytest.raises(ValueError, match=r"is of another model: got head.projection.bias \(3,\) float64, wa"):
        sharded(cut_folder, other)
    frozen = build_model()
    frozen.head.requires_grad_(False)
    with pytest.raises(ValueError, match=r"is of another run: got (kept|trained) = "):
        sharded(cut_folder, frozen)
    with pytest.raises(ValueError, match=r"is of another run: got evaluate_every = 3, wanted 0; go on with"):
        sharded(cut_folder, config=TrainingConfig(steps=7))


def test_a_place_for_no_folder_is_refused(group, tmp_path):
    (tmp_path / "file").write_text("x")
    for place, words in {
        tmp_path / "file": "got a file, wanted an empty folder",
        tmp_path: r"got a folder with other things \(file",
        tmp_path / "no" / "run": "got .*No such file",
    }.items():
        with pytest.raises(ValueError, match=f"is no place for a sharded checkpoint: {words}"):
            sharded(place)


def test_a_folder_is_no_file_for_workers_that_share_nothing(cut_folder):
    with pytest.raises(ValueError, match="run cannot be written: got a folder, wanted a file"):
        go(build_model(), cut_folder, workers=Workers(CPU, print))


def test_a_worker_that_does_not_see_the_folder_says_so(group, tmp_path, monkeypatch):
    monkeypatch.setattr(shards.Path, "is_dir", lambda path: not path.name.startswith("step-"))
    with pytest.raises(ValueError, match="worker 0 does not see the folder step-2 that worker 0 has made"):
        sharded(tmp_path / "run")


def test_a_part_that_cannot_be_written_is_told_in_words(group, tmp_path, monkeypatch):
    full = shards.CheckpointException("save", {1: (OSError("No space left"), None)})
    monkeypatch.setattr(shards.dcp, "save", lambda *_, **__: (_ for _ in ()).throw(full))
    with pytest.raises(OSError, match=r"worker 1 could not write or read its part \(No space left\); look"):
        sharded(tmp_path / "run")


# --- the environment


def test_each_worker_of_a_machine_has_a_gpu_of_its_own(monkeypatch):
    chosen = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert device_for(5) == CPU
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert device_for(1) == torch.device("cuda", 1) and chosen == [1]
    with pytest.raises(ValueError, match="got 3 workers or more on a machine with 2 GPUs, wanted one GPU"):
        device_for(2)


# --- the program

JOB = """
import os, signal, sys
sys.path.insert(0, os.getcwd())
from tests.training.test_workers import CONFIG as config, batch_at as rows_at, build_model, evaluate

def batch_at(step):
    if step == 5 and "KILLED" in os.environ and os.environ["KILLED"] == os.environ.get("RANK"):
        os.kill(os.getpid(), signal.SIGKILL)
    if step == int(os.environ.get("TOLD_TO_END_AT", -1)):
        os.kill(os.getpid(), signal.SIGTERM)
    if step == 5 and "SPOILT" in os.environ:
        raise KeyError("spoilt")
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


@starts_processes
def test_an_error_is_told_once_and_after_a_kill_too_the_same_line_goes_on(job, alone, tmp_path, capfd):
    """An error in both workers, then one worker killed: each time the run goes on from what was saved."""
    place = tmp_path / "run.safetensors"
    line = (job, "--checkpoint", place)
    ended, _ = launch("transformer_lab.training", *line, SPOILT="1")
    assert ended.returncode != 0
    assert ended.stderr.count("job.py, line 12: KeyError: 'spoilt'\n") == 1
    assert ended.stderr.count("spoilt") == 1
    assert ended.stderr.count("Traceback") == 1  # torchrun's own, about its children

    ended, seconds = launch("transformer_lab.training", *line, KILLED="1")
    assert ended.returncode != 0
    assert ended.stdout == "2 workers on cpu; each holds 783 of 783 parameters; going on from step 4\n"
    assert seconds < 45  # two imports of torch, and not the minute for which a silent worker is waited
    (told,) = [line for line in ended.stderr.splitlines() if "workers ends" in line]
    assert told.startswith("rank 0 of 2 workers ends after step 5: ")
    why = "(another worker is gone|told to end, as when another worker is gone)"
    assert re.search(f"{why}; the same line again goes on from step 4$", told)
    assert "gloo" not in ended.stderr
    assert ended.stderr.count("Traceback") == 1

    assert program.main([str(argument) for argument in line]) == program.DONE
    first, *others = capfd.readouterr().out.splitlines(keepends=True)
    assert first == "1 worker on cpu; each holds 783 of 783 parameters; going on from step 4\n"
    assert others == PRINTED.format(**vars(alone[0])).splitlines(keepends=True)[1:]
    tensors, facts = checkpoints.load_checkpoint(place)
    assert facts["history"]["loss"] == pytest.approx(alone[0].loss, abs=1e-12, rel=0)
    for name, tensor in alone[1].items():
        assert_equal(tensors[f"model/{name}"], tensor, 1e-10)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".py") == [place.name]


BAD = {
    "no config": ("config = TrainingConfig(steps=1)", "", "has no config, wanted config, build_model() and"),
    "no steps": ("steps=1", "steps=0", "job.py, line 4: ValueError: steps must be at least 1, got 0; choose"),
    "no model": ("return nn.Linear", "nn.Linear", "model must be an nn.Module, got NoneType; build it first"),
    "no Python": ("import torch", "import torch as", "job.py, line 1: SyntaxError: "),
    "its own error": ("# eval", "evaluate = lambda model: missing #", "job.py, line 8: NameError: name 'mi"),
}
GOOD = """import torch
from torch import nn
from transformer_lab.training.loop import Batch, TrainingConfig
config = TrainingConfig(steps=1)
def build_model():
    return nn.Linear(2, 3)
batch_at = lambda step: Batch((torch.ones(2, 2),), torch.tensor([0, 1]))
# evaluate
"""


@pytest.mark.parametrize(("old", "new", "words"), BAD.values(), ids=BAD.keys())
def test_a_job_that_cannot_be_is_told_in_one_line(tmp_path, capfd, old, new, words):
    path = tmp_path / "job.py"
    path.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    assert program.main([str(path)]) == program.WRONG
    printed = capfd.readouterr()
    assert words in printed.err
    assert printed.err.count("\n") == 1
    assert not dist.is_initialized()


def test_the_good_job_is_good(tmp_path, capfd):
    path = tmp_path / "job.py"
    path.write_text(GOOD, encoding="utf-8")
    assert program.main([str(path)]) == program.DONE
    assert capfd.readouterr().out.splitlines()[-1].startswith("done, 1 steps: loss ")


def test_a_line_that_cannot_be_is_told(capfd):
    assert program.main(["nowhere.py"]) == program.WRONG
    assert re.fullmatch(r".*No such file or directory: '.*nowhere\.py'\n", capfd.readouterr().err)
    with pytest.raises(SystemExit, match=str(program.WRONG)):
        program.main([])


def test_numbers_that_are_not_finite_are_told_in_one_line(tmp_path, capfd):
    path = tmp_path / "job.py"
    path.write_text(GOOD.replace("torch.ones(2, 2)", "torch.ones(2, 2) / 0"), encoding="utf-8")
    assert program.main([str(path)]) == program.STOPPED
    assert capfd.readouterr().err.startswith("the loss is nan and its gradient's length nan, wanted finite")


@pytest.mark.parametrize(
    ("step", "options", "words"),
    [
        (5, [], "begins anew; with --checkpoint PLACE it would go on from what was saved"),
        (5, ["--checkpoint", "run"], "goes on from step 4"),
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
    told = capfd.readouterr().err
    nothing_yet = "nothing is saved yet, so " if step == 1 else ""
    start = f"rank 0 of 1 worker ends after step {step}: told to end; {nothing_yet}the same line again"
    assert told == f"{start} {words}\n"
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_first_worker_to_end_speaks_for_all():
    store = dist.HashStore()
    assert [program.is_first(store) for _ in range(3)] == [True, False, False]
    assert program.is_first(None)

    class Gone:
        def add(self, key, number):
            raise dist.DistNetworkError("the connection is closed")

    assert program.is_first(Gone())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer"),
            "another worker is gone",
        ),
        (dist.DistBackendError("NCCL communicator was aborted"), "another worker is gone"),
        (RuntimeError("[gloo/x.cc:1] Timed out waiting 60000ms"), "another worker has not answered for 60 s"),
        (KeyboardInterrupt(), "told to end, as when another worker is gone"),
    ],
)
def test_why_a_worker_ends(group, error, words):
    workers = Workers(CPU, print)
    workers.rank, workers.count, workers.steps, workers.saved = 1, 3, 70, 50
    given = program.arguments_in(["job.py"])
    assert program.end_in_words(error, given, workers) == (
        f"rank 1 of 3 workers ends after step 70: {words}; the same line again goes on from step 50"
    )


def test_another_error_of_a_worker_is_no_loss_of_another(group):
    error, given = RuntimeError("shapes\ncannot be"), program.arguments_in(["job.py"])
    assert program.end_in_words(error, given, Workers(CPU, print)) == "RuntimeError: shapes"


def test_the_lessons_job_learns_to_read(capfd):
    assert program.main([str(ROOT / "transformer_course" / "digits.py")]) == program.DONE
    *_, last = capfd.readouterr().out.splitlines()
    assert float(last.rpartition(" ")[2]) >= 0.85


def test_the_loop_loads_nothing_of_several_workers():
    code = "import sys, transformer_lab.training.loop; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {"torch.distributed.fsdp", "torch.distributed.checkpoint", "sklearn"}
    assert "transformer_lab.training.workers" not in loaded


# --- what each of two workers does, and writes down


def measure(folder):
    _, device = join()
    found = {name: measure_kind(folder, name, kind, device) for name, kind in KINDS.items()}
    torch.save(found, folder / f"{dist.get_rank()}.pt")
    dist.barrier()
    dist.destroy_process_group()


def measure_kind(folder, name, kind, device):
    rank, told = dist.get_rank(), []

    def make():
        return kind(device, told.append if rank == 0 else fail)

    def run(place=None, seed=2, steps=None, **options):
        model = build_model(seed=seed, **options)
        return go(model, place, workers=make()), numbers_of(model)

    model = build_model(seed=2 + rank)  # not the same: that of worker 0 counts
    history = go(model, workers=make())
    found = {"run": (history, numbers_of(model)), "told": list(told)}
    found["held"] = sum(make().part(parameter).numel() for parameter in model.parameters())
    found["saved"] = count_saves(lambda: cut_off(build_model(), folder / f"cut_{name}", workers=make()))
    copy(folder / f"cut_{name}", folder / f"by_two_{name}")
    found["first steps"] = {}
    for by in ("by_one", "by_two"):
        model, seen = build_model(seed=5), []
        history = go(model, folder / f"{by}_{name}", seen=seen, workers=make())
        found[by], found["first steps"][by] = (history, numbers_of(model)), seen[0]
    found["dropout"] = run(dropout=0.3)
    cut_off(build_model(dropout=0.3), folder / f"dropped_{name}", workers=make())
    found["dropout, gone on"] = run(folder / f"dropped_{name}", dropout=0.3)
    found["random"], found["random again"] = drawn(make()), drawn(make())
    found["refused"] = refusals(folder, name, make)
    return found


def fail(line):
    raise RuntimeError(f"worker 1 wanted to say: {line}")


def drawn(workers):
    """The random numbers of a step's dropout."""
    workers.wrap(build_model())
    return torch.cat([(workers.share(batch_at(step), step), torch.rand(3))[1] for step in range(3)])


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
    with torch.no_grad():
        spoilt.head.projection.bias.fill_(torch.nan)
    hidden = folder / f"cut_{name}" if dist.get_rank() == 0 else folder / f"elsewhere_{name}"
    copy(folder / f"cut_{name}", folder / f"damaged_{name}")
    if name == "sharded" and dist.get_rank() == 0:
        damage(folder / f"damaged_{name}" / "step-4" / "__1_0.distcp")
    dist.barrier()
    attempts = {
        "one row": (build_model(), lambda step: batch_at(step).rows(slice(1)), None),
        "nothing asked": (build_model(), lambda step: nothing, None),
        "nan": (spoilt, batch_at, None),
        "seen by one": (build_model(), batch_at, hidden),
    }
    if name == "sharded":
        attempts["damaged"] = (build_model(), batch_at, folder / f"damaged_{name}")
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
