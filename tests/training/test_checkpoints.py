"""Checkpoints: what is written comes back bit by bit, and nothing else is ever taken for it."""

import copy

import pytest
import safetensors.torch
import torch
from torch import nn

from tests.reference_loops import assert_equal, randn
from transformer_lab.training.checkpoints import (
    History,
    Run,
    check_place,
    gather,
    keep,
    load_checkpoint,
    resume,
    save_checkpoint,
    scatter,
)

TENSORS = {
    "wide": randn(3, 5),
    "half": randn(7, dtype=torch.bfloat16),
    "scalar": torch.tensor(11.0),
    "bytes": torch.arange(13, dtype=torch.uint8),
    "transposed": randn(5, 2, seed=1).T,
}
TENSORS |= {"same memory": TENSORS["wide"], "a part of it": TENSORS["wide"][1:]}
FACTS = {"steps": [0.1, 1e-300, 2.0 / 3.0], "name": "näme", "nested": {"a": 1}}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run.safetensors"
    save_checkpoint(path, TENSORS, FACTS)
    return path


def test_what_was_saved_comes_back(path):
    tensors, facts = load_checkpoint(path)
    assert facts == FACTS
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert_equal(tensors[name], tensor, 0)
    assert safetensors.torch.load_file(path).keys() == TENSORS.keys()  # anybody can read it
    assert [file.name for file in path.parent.iterdir()] == [path.name]  # nothing is left beside it


def test_a_symbolic_link_stays_and_its_file_is_written(path, tmp_path):
    (tmp_path / "link").symlink_to(path)
    save_checkpoint(tmp_path / "link", {"new": torch.ones(1)}, {})
    assert (tmp_path / "link").is_symlink()
    assert not path.is_symlink()
    assert load_checkpoint(path)[0].keys() == {"new"}


def test_a_save_that_fails_leaves_the_old_file(path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, {}, {})
    assert path.read_bytes() == before


def test_a_byte_that_changes_and_a_file_cut_short_are_noticed(path):
    """Not every byte can be tried; these are spread over header, facts and numbers."""
    data = path.read_bytes()
    of_something_else = safetensors.torch.save({"wide": randn(2)})
    damaged = [b"", data[:-1], of_something_else]
    damaged += [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(0, len(data), 51)]
    for contents in damaged:
        path.write_bytes(contents)
        with pytest.raises(ValueError, match=r"run.safetensors is not a whole checkpoint: got .*; delete it"):
            load_checkpoint(path)


# --- model and optimizer


class Small(nn.Module):
    def __init__(self, width=5):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.unused = nn.Parameter(torch.ones(2))  # never gets a gradient: the optimizer knows nothing of it
        self.second = nn.Linear(width, 1)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        self.seen += 1
        return self.second(torch.dropout(self.first(x), 0.5, self.training))


def steps(model, optimizer, n):
    for _ in range(n):
        optimizer.zero_grad()
        model(torch.rand(7, 3)).square().mean().backward()
        optimizer.step()


def build(optimizer=torch.optim.AdamW, **options):
    torch.manual_seed(0)
    model = Small()
    return model, optimizer(model.parameters(), lr=0.1, **options)


@pytest.mark.parametrize(
    "optimizer, options", [(torch.optim.AdamW, {"amsgrad": True}), (torch.optim.SGD, {"momentum": 0.9})]
)
def test_a_run_goes_on_bit_by_bit(tmp_path, optimizer, options):
    model, optimizer_state = build(optimizer, **options)
    steps(model, optimizer_state, 3)
    keep(tmp_path / "run", Run(model, optimizer_state, {}), History([0.5], scores={1: 0.25}))
    steps(model, optimizer_state, 4)

    again, again_state = build(optimizer, **options)
    torch.manual_seed(77)
    assert resume(tmp_path / "run", Run(again, again_state, {})) == History([0.5], scores={1: 0.25})
    assert not again_state.state[again.unused]
    steps(again, again_state, 4)
    for name, tensor in model.state_dict().items():
        assert_equal(again.state_dict()[name], tensor, 0)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Small(7), r"first.weight \(5, 3\) torch.float32'\], wanted \['first.weight \(7, 3\)"),
        (Small().double(), r"unused \(2,\) torch.float32'\], wanted \['unused \(2,\) torch.float64"),
    ],
    ids=["wider", "double"],
)
def test_another_model_is_refused_and_nothing_changes(tmp_path, other, message):
    keep(tmp_path / "run", Run(*build(), {}), History())
    before, random = copy.deepcopy(other.state_dict()), torch.get_rng_state()
    with pytest.raises(ValueError, match=rf"run is of another run: got model = \['{message}"):
        resume(tmp_path / "run", Run(other, torch.optim.AdamW(other.parameters()), {}))
    for name, tensor in other.state_dict().items():
        assert_equal(tensor, before[name], 0)
    assert_equal(torch.get_rng_state(), random)


def test_the_optimizers_numbers_go_by_name():
    model, optimizer = build()
    steps(model, optimizer, 2)
    tensors = gather(Run(model, optimizer, {}))
    again, _ = build()
    reordered = torch.optim.AdamW(list(again.parameters())[::-1])
    scatter(tensors, Run(again, reordered, {}))
    moments = optimizer.state[model.first.weight]["exp_avg"]
    assert_equal(reordered.state[again.first.weight]["exp_avg"], moments)
    assert_equal(tensors["optimizer/first.weight/exp_avg"], moments)


def test_a_run_that_began_on_a_gpu_goes_on_without(monkeypatch):
    run = Run(*build(), {})
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda *_: pytest.fail("there is none"))
    scatter(gather(run) | {"random/cuda": torch.zeros(16, dtype=torch.uint8)}, run)


def test_a_place_where_nothing_can_be_written_is_told_before_the_work(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "file")
    for name, words in {
        "link": "No such file or directory: .*nowhere",
        ".": "cannot be written: got a folder, wanted a file",
    }.items():
        with pytest.raises((OSError, ValueError), match=words):
            check_place(tmp_path / name)
    check_place(tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["link"]  # nothing is left of the attempt
