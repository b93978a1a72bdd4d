"""When the gate's tests of itself are left out, and when not."""

from types import SimpleNamespace

import pytest

from tests.gate import itself
from tests.gate.stored import ROOT


@pytest.mark.parametrize(
    ("args", "asked", "changed", "left_out"),
    [
        (["transformer_lab", "tests", "notebooks"], "", False, True),
        (["."], "", False, True),
        (["tests"], "CI", False, False),
        (["tests"], "GATE", False, False),
        (["tests"], "", True, False),
        (["tests/gate/test_gate.py"], "", False, False),  # named, so wanted
    ],
)
def test_they_are_left_out_of_a_whole_run_where_the_gate_has_not_changed(
    args: list[str], asked: str, changed: bool, left_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CI", "GATE"):
        monkeypatch.setenv(name, "1" if name == asked else "")
    monkeypatch.setattr(itself, "has_changed", lambda: changed)
    config = SimpleNamespace(args=args, rootpath=ROOT)
    assert itself.is_left_out(config) is left_out


def test_only_marked_tests_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(itself, "is_left_out", lambda config: True)
    marked, plain = (SimpleNamespace(get_closest_marker=lambda name, is_=is_: is_) for is_ in (True, False))
    gone = []
    config = SimpleNamespace(hook=SimpleNamespace(pytest_deselected=lambda items: gone.extend(items)))
    items = [marked, plain]
    itself.pytest_collection_modifyitems(config, items)
    assert (items, gone) == ([plain], [marked])
    monkeypatch.setattr(itself, "is_left_out", lambda config: False)
    itself.pytest_collection_modifyitems(config, both := [marked, plain])
    assert both == [marked, plain]


def test_where_git_does_not_know_the_gate_has_changed(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(itself, "ROOT", tmp_path)
    itself.has_changed.cache_clear()
    assert itself.has_changed()
    itself.has_changed.cache_clear()
