"""Checkpoints: a run resumes bit by bit, and nothing but its own whole checkpoint is accepted."""

import copy
import os
from dataclasses import replace

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from tests.tensors import assert_equal, randn
from transformer_lab.training import History, TrainingConfig
from transformer_lab.training.checkpoints import (
    read_checkpoint,
    restore,
    save,
    state_to_tensors,
    tensors_to_state,
    write_checkpoint,
)

TENSORS = {
    "wide": randn(3, 5),
    "half": randn(7, dtype=torch.bfloat16),
    "scalar": torch.tensor(11.0),
    "boolean": torch.tensor([True, False]),
    "transposed": randn(5, 2, seed=1).T,
}
TENSORS |= {"same memory": TENSORS["wide"], "a part of it": TENSORS["wide"][1:]}
FACTS = {"steps": [0.1, 1e-300, 2.0 / 3.0], "name": "näme", "nested": {"a": 1}}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run.safetensors"
    write_checkpoint(path, TENSORS, FACTS)
    return path


def test_what_was_written_is_read(path):
    tensors, facts = read_checkpoint(path)
    assert facts == FACTS
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert_equal(tensors[name], tensor, 0)
    assert safetensors.torch.load_file(path).keys() == TENSORS.keys()  # anybody can read it
    assert [file.name for file in path.parent.iterdir()] == [path.name]  # nothing is left beside it


def test_a_symbolic_link_stays_and_its_file_is_written(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    write_checkpoint(tmp_path / "link", {"new": torch.ones(1)}, {})
    assert (tmp_path / "link").is_symlink()
    assert read_checkpoint(path)[0].keys() == {"new"}


def test_what_was_read_stays_when_the_file_is_written_over_in_place(path):
    tensors, _ = read_checkpoint(path)
    path.write_bytes(bytes(len(path.read_bytes())))
    assert_equal(tensors["wide"], TENSORS["wide"], 0)


def test_a_folder_is_not_called_a_missing_file(path):
    with pytest.raises(IsADirectoryError):
        read_checkpoint(path.parent)


def test_another_run_may_write_to_the_same_place_meanwhile(path, monkeypatch):
    sync = os.fsync

    def sync_while_another_process_writes(file):
        monkeypatch.undo()
        monkeypatch.setattr("os.getpid", lambda: 7)
        write_checkpoint(path, {"theirs": torch.ones(1)}, {})
        sync(file)

    monkeypatch.setattr("os.fsync", sync_while_another_process_writes)
    write_checkpoint(path, {"ours": torch.ones(1)}, {})
    assert read_checkpoint(path)[0].keys() == {"ours"}
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("killed_at", ["fsync", "replace"])
def test_a_kill_while_writing_leaves_the_old_file(path, monkeypatch, killed_at):
    before = path.read_bytes()
    monkeypatch.setattr(f"os.{killed_at}", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write_checkpoint(path, {}, {})
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_changed_byte_or_a_file_cut_short_is_noticed(path):
    """Not every byte can be tried; these are spread over header, facts and values."""
    data = path.read_bytes()
    damaged = [b"", data[:-1], safetensors.torch.save({"wide": randn(2)})]
    damaged += [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(0, len(data), 51)]
    for contents in damaged:
        path.write_bytes(contents)
        with pytest.raises(ValueError, match=r"run.safetensors is not a complete checkpoint: .*; delete it"):
            read_checkpoint(path)


# --- the state of a run

CONFIG = TrainingConfig(steps=9)


class Small(nn.Module):
    def __init__(self, width=5):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.unused = nn.Parameter(torch.ones(2))  # never gets a gradient: the optimizer has no state for it
        self.second = nn.Linear(width, 1)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        return self.second(self.first(x))


def build():
    torch.manual_seed(0)
    model = Small()
    return model, torch.optim.AdamW(model.parameters())


def test_the_optimizers_state_goes_by_name():
    model, optimizer = build()
    model(torch.rand(7, 3)).square().mean().backward()
    optimizer.step()
    again, _ = build()
    reordered = torch.optim.AdamW(list(again.parameters())[::-1])
    tensors_to_state(state_to_tensors(model, optimizer), again, reordered)
    moments = optimizer.state[model.first.weight]["exp_avg"]
    assert_equal(reordered.state[again.first.weight]["exp_avg"], moments)
    assert not reordered.state[again.unused]


SMALL = Small()
OTHER_RUNS = {
    r"got first.bias = \(5,\) torch.float32, trained, expected \(7,\)": {"other": Small(7)},
    r"got calls = \(1,\) torch.float32, expected \(1,\) torch.float64": {"other": Small().double()},
    r"got bias = None, expected \(5,\) torch.float32, trained": {"other": nn.Linear(3, 5)},
    r"got second.bias = \(1,\) torch.float32, trained, expected \(1,\) ": {"trained": SMALL.first},
    r"got learning_rate = 0.001, expected 0.5; resume with": {"config": replace(CONFIG, learning_rate=0.5)},
}


@pytest.mark.parametrize("message", OTHER_RUNS)
def test_another_run_is_refused_and_nothing_changes(tmp_path, message):
    save(tmp_path / "run", *build(), CONFIG, History())
    run = {"other": SMALL, "config": CONFIG} | OTHER_RUNS[message]
    other, optimizer = run["other"], torch.optim.AdamW(run.get("trained", run["other"]).parameters())
    before, random = copy.deepcopy(other.state_dict()), torch.get_rng_state()
    with pytest.raises(ValueError, match=f"run belongs to another run: {message}"):
        restore(tmp_path / "run", other, optimizer, run["config"])
    for name, tensor in other.state_dict().items():
        assert_equal(tensor, before[name], 0)
    assert_equal(torch.get_rng_state(), random)


def test_a_run_may_become_longer_or_be_saved_at_other_steps_but_not_shorter(tmp_path):
    model, optimizer = build()
    save(tmp_path / "run", model, optimizer, CONFIG, History([0.5] * 9))
    for config in (TrainingConfig(steps=20), TrainingConfig(steps=9, save_every=3, evaluate_every=2)):
        assert restore(tmp_path / "run", model, optimizer, config).steps == 9
    with pytest.raises(ValueError, match=r"has 9 steps, expected at most config.steps = 8"):
        restore(tmp_path / "run", model, optimizer, TrainingConfig(steps=8))


def test_a_config_of_numpys_numbers_is_saved(tmp_path):
    config = TrainingConfig(steps=np.int64(10), learning_rate=np.float32(0.1), warmup_steps=np.int64(5))
    model, optimizer = build()
    save(tmp_path / "run", model, optimizer, config, History())
    assert restore(tmp_path / "run", model, optimizer, config) == History()
