"""Checkpoints: what is written comes back bit by bit, and nothing else is ever taken for it."""

import copy

import pytest
import safetensors.torch
import torch
from torch import nn

from tests.references import assert_equal, randn
from transformer_lab.training.checkpoints import (
    DIGEST,
    History,
    as_history,
    check_place,
    check_same_facts,
    check_same_tensors,
    digest,
    gather,
    keep,
    load_checkpoint,
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


def test_a_symbolic_link_into_no_folder_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "file")
    with pytest.raises(ValueError, match="link cannot be written: got a folder that does not exist"):
        check_place(tmp_path / "link")


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.ones(2, device="meta"), "x must hold numbers, got a tensor on meta"),
        (torch.ones(2).to_sparse(), "x must be a dense tensor, got a sparse_coo one"),
    ],
    ids=["meta", "sparse"],
)
def test_what_a_file_cannot_hold_is_refused(path, tensor, words):
    with pytest.raises((TypeError, ValueError), match=words):
        save_checkpoint(path, {"x": tensor}, {})
    assert load_checkpoint(path)[1] == FACTS


@pytest.mark.filterwarnings("ignore:.*ComplexHalf")
def test_a_dtype_that_a_file_cannot_hold_is_refused(path):
    with pytest.raises(TypeError, match=r"^x must be of a dtype that a file can hold, got torch\.complex32"):
        save_checkpoint(path, {"x": torch.ones(2, dtype=torch.complex32)}, {})


@pytest.mark.parametrize("name", ["__metadata__", 3])
def test_a_name_that_would_spoil_the_file_is_refused(path, name):
    with pytest.raises(TypeError, match=f"tensors must be tensors by name, got {name!r}"):
        save_checkpoint(path, {name: torch.ones(1)}, {})


def test_tensors_that_share_memory_are_saved_too(tmp_path):
    tied = randn(3, 2)
    save_checkpoint(tmp_path / "tied", {"one": tied, "two": tied, "part": tied[1:]}, {})
    tensors, _ = load_checkpoint(tmp_path / "tied")
    assert_equal(tensors["two"], tied)
    assert_equal(tensors["part"], tied[1:])


def test_a_save_that_fails_leaves_the_old_file(path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, {}, {})
    assert path.read_bytes() == before


def test_any_byte_that_changes_is_noticed(path):
    """Not every byte can be tried; these are spread over header, facts and numbers."""
    data = path.read_bytes()
    for place in range(0, len(data), 17):
        damaged = bytearray(data)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"run.safetensors is not a whole checkpoint: got .*; delete it"):
            load_checkpoint(path)


@pytest.mark.parametrize("length", [0, 1, 8, 100, -1])
def test_a_file_cut_short_is_refused(path, length):
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ValueError, match="cannot be read"):
        load_checkpoint(path)


def test_other_files_are_refused(path, tmp_path):
    safetensors.torch.save_file(TENSORS | {"transposed": randn(2)}, path)
    with pytest.raises(ValueError, match="got a safetensors file of something else"):
        load_checkpoint(path)
    torch.save(TENSORS, path)
    with pytest.raises(ValueError, match="cannot be read"):
        load_checkpoint(path)
    with pytest.raises(FileNotFoundError, match=r"there is no checkpoint .*nowhere"):
        load_checkpoint(tmp_path / "nowhere")


# --- model and optimizer


class Small(nn.Module):
    def __init__(self, width=5):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.unused = nn.Parameter(
            torch.ones(2)
        )  # never gets a gradient, so the optimizer knows nothing of it
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
    save_checkpoint(tmp_path / "run", gather(model, optimizer_state), {})
    steps(model, optimizer_state, 4)

    again, again_state = build(optimizer, **options)
    torch.manual_seed(77)
    scatter("run", load_checkpoint(tmp_path / "run")[0], again, again_state)
    steps(again, again_state, 4)
    for name, tensor in model.state_dict().items():
        assert_equal(again.state_dict()[name], tensor, 0)


def test_another_model_is_refused_and_nothing_changes():
    model, optimizer = build()
    tensors = gather(model, optimizer)
    for other, message in [
        (Small(7), r"got first.bias \(5,\) float32, wanted \(7,\) float32"),
        (Small().double(), r"got first.bias \(5,\) float32, wanted \(5,\) float64"),
        (nn.Linear(3, 5), r"got bias absent, wanted \(5,\) float32"),
    ]:
        before = copy.deepcopy(other.state_dict())
        random = torch.get_rng_state()
        with pytest.raises(ValueError, match=f"file is of another model: {message}; build the model"):
            scatter("file", tensors, other, torch.optim.AdamW(other.parameters()))
        for name, tensor in other.state_dict().items():
            assert_equal(tensor, before[name], 0)
        assert_equal(torch.get_rng_state(), random)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda at: save_checkpoint(5, {}, {}), TypeError, "must be text or a Path, got 5"),
        (lambda at: load_checkpoint(None), TypeError, "must be text or a Path, got None"),
        (lambda at: save_checkpoint(at, {}, {}), ValueError, "got a folder, wanted a file"),
        (
            lambda at: save_checkpoint(at / "no" / "run", {}, {}),
            ValueError,
            "got a folder that does not exist",
        ),
        (
            lambda at: save_checkpoint(at / "run", [torch.ones(2)], {}),
            TypeError,
            "tensors must be a dict by name",
        ),
        (lambda at: save_checkpoint(at / "run", {"a": 5}, {}), TypeError, "got 'a': int; leave it out"),
        (
            lambda at: save_checkpoint(at / "run", {}, [1, 2]),
            TypeError,
            r"facts must be a dict by name, got \[1, 2\]",
        ),
        (
            lambda at: gather(nn.Linear(3, 5), None),
            TypeError,
            "wanted a model and its optimizer, got Linear and None",
        ),
        (lambda at: keep(at / "run", *build(), [], History()), TypeError, "got list and History"),
        (
            lambda at: save_checkpoint(at / "run", {}, {"a": torch.ones(2)}),
            TypeError,
            "facts must be made of text",
        ),
    ],
)
def test_refuses_in_words(tmp_path, call, error, words):
    with pytest.raises(error, match=words):
        call(tmp_path)
    assert not list(tmp_path.iterdir())


def test_facts_must_be_a_mapping(tmp_path):
    safetensors.torch.save_file({}, tmp_path / "run", {"facts": "[1, 2]", DIGEST: digest({}, "[1, 2]")})
    with pytest.raises(ValueError, match=r"got facts that are no mapping \(\[1, 2\]\)"):
        load_checkpoint(tmp_path / "run")


def test_the_optimizers_numbers_go_by_name():
    model, optimizer = build()
    steps(model, optimizer, 2)
    tensors = gather(model, optimizer)
    assert {name for name in tensors if name.startswith("optimizer/first.bias")} == {
        f"optimizer/first.bias/{quantity}" for quantity in ("step", "exp_avg", "exp_avg_sq")
    }
    again, _ = build()
    reordered = torch.optim.AdamW(list(again.parameters())[::-1], lr=0.1)
    scatter("file", tensors, again, reordered)
    assert_equal(
        reordered.state[again.first.weight]["exp_avg"], optimizer.state[model.first.weight]["exp_avg"]
    )
    fewer = torch.optim.AdamW(again.second.parameters())
    with pytest.raises(
        ValueError, match=r"optimizer's numbers of first.* wanted no such parameter among the"
    ):
        scatter("file", tensors, again, fewer)
    with pytest.raises(ValueError, match="the optimizer updates parameters of another model"):
        gather(again, optimizer)


def test_histories_that_no_run_can_have_are_refused():
    numbers = {
        "loss": [0.5] * 3,
        "learning_rate": [0.1] * 3,
        "gradient_norm": [0.2] * 3,
        "scores": {"2": 0.75},
    }
    assert as_history("file", numbers, 5).scores == {2: 0.75}
    for other in (None, {"loss": 5}, numbers | {"loss": [0.5] * 2}, numbers | {"epochs": 7}):
        with pytest.raises(ValueError, match=r"file is not a whole checkpoint: got .*history"):
            as_history("file", other, 5)
    with pytest.raises(ValueError, match=r"got a history of \[3\] steps in a run of 2"):
        as_history("file", numbers, 2)


def test_same_names_shapes_and_facts_pass():
    check_same_tensors("file", {"a": torch.ones(2)}, {"a": torch.zeros(2)})
    check_same_facts("file", {"steps": 3}, {"steps": 3})


def test_facts_of_another_run_are_refused():
    with pytest.raises(ValueError, match="file is of another run: got steps = 3, wanted 4; go on with"):
        check_same_facts("file", {"rate": 1, "steps": 3}, {"rate": 1, "steps": 4})
    with pytest.raises(ValueError, match="got steps = None, wanted 4"):
        check_same_facts("file", {}, {"steps": 4})


@pytest.mark.parametrize("name", ["x" * 300, "x\0y"], ids=["too long", "a zero byte"])
def test_a_place_where_nothing_can_be_written_is_told_before_the_work(tmp_path, name):
    with pytest.raises(ValueError, match=r"cannot be written: got .*; make it first"):
        check_place(tmp_path / name)
    assert not list(tmp_path.iterdir())
