"""The list of planted faults fits the code of today. To plant them takes minutes: see planted_faults.py."""

import ast
from collections import Counter

import pytest

from tests.planted_faults import FAULTS, ROOT, Fault, planted, read_faults, room_of
from tests.test_architecture import TOWER, modules, present

every_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.module}: {fault.words}")


@every_fault
def test_each_fault_fits_in_one_place_and_leaves_valid_code(fault):
    source = (ROOT / "transformer_lab" / f"{fault.module}.py").read_text(encoding="utf-8")
    assert ast.dump(ast.parse(planted(fault, source))) != ast.dump(ast.parse(source))


def test_each_fault_has_its_own_words():
    counts = Counter((fault.module, fault.words) for fault in FAULTS)
    assert [fault for fault, count in counts.items() if count > 1] == []


def test_every_part_of_the_model_has_faults_and_tests():
    names = {room_of(fault.module) for fault in FAULTS}
    assert set(TOWER[: 1 + TOWER.index("encoder")]) <= names <= set(present) | modules
    assert all((ROOT / "tests" / f"test_{name}.py").exists() for name in names)


def test_a_list_of_faults_is_read_as_it_stands():
    text = "A list.\n\n== one\n\nFirst\n- a\n+ b\n\nSecond\n- c\n-     d\n+ e\n\n== two\n\nThird\n- f\n+ g\n"
    one = Fault("one", "First", "a", "b"), Fault("one", "Second", "c\n    d", "e")
    assert read_faults(text) == [*one, Fault("two", "Third", "f", "g")]


def test_refuses_a_fragment_that_is_missing_or_there_twice():
    for right in ("b", "c"):
        with pytest.raises(ValueError, match=rf"'{right}' occurs [02] times, wanted once; .*mend the fault"):
            planted(Fault("module", "words", right, "x"), "a b b")
