"""The checker says what it should, and no answer can break it."""

import html
import math
import random
import re
import signal
import sys
import threading
import warnings
from contextlib import nullcontext
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from IPython import InteractiveShell
from IPython.display import display
from torch import nn
from torch.nn import functional as F

from tests.course.cells import cell, said
from transformer_course import exercises
from transformer_course.checker import exercise, judge, sandbox, source, time_limit
from transformer_course.checker.exercise_types import Mistake, ValueExercise
from transformer_course.checker.source import run
from transformer_course.checker.verdict import COLOURS, CORRECT, NOT_YET, Verdict
from transformer_course.exercises import check
from transformer_lab import causal_mask


def knows(exercise, name, answer):
    """Add a mistake to an exercise."""
    exercise.mistakes.append(Mistake(name, "…", "Mend it.", answer))


def table_of(*rows):
    """Tests of attempts with their texts; `text` must occur in what the checker says."""
    return pytest.mark.parametrize(("attempt", "text"), rows)


# ------------------------------------------------------------------------------------------------- functions


@exercise("99.1", gradients=True)
def doubled(table):
    """(rows, columns) → the same, doubled"""
    return 2 * table


@doubled.cases
def doubled_cases(normal):
    yield {"table": normal(3, 5)}
    yield {"table": normal(2, 7)}


knows(doubled, "on its side", lambda table: 2 * table.mT)
knows(doubled, "a matrix product", lambda table: table @ table)


def body(text):
    """An answer with this body."""
    return cell(f"def doubled(table):\n    {text}", "doubled")


def raising(error):
    def attempt(table):
        raise error

    return attempt


@table_of(
    # a known mistake, and what is none
    (lambda table: torch.matmul(table, table), "a matrix product"),  # an error of the same words
    (body("return table @ table[:, :2]"), "line 2 of your cell raises an error"),  # of other words
    (lambda table: 2 * (table.mT if len(table) == 2 else table), "wrong shape"),  # not in every case
    # nothing to judge
    (body("pass"), "○ 99.1 not attempted."),
    (body('"""Doubles."""\n    ...'), "○ 99.1 not attempted."),
    (doubled.reference, "○ 99.1 not attempted.\n`doubled` is still the reference solution"),
    (body("result = 2 * table\n    raise NotImplementedError"), "Remove that line"),
    # errors
    (lambda table: table.long().softmax(-1), "not implemented for 'Long'"),
    (body("return F.layer_norm(table, (4,))"), "line 2 of your cell raises an error"),
    (body("twice = lambda x: x.twice()\n    return twice(table)"), "line 2 of your cell raises an error"),
    (
        body("twice = 2\n    return twice * tabel"),
        "✗ 99.1 not yet: line 3 of your cell raises an error.\n"
        "`return twice * tabel` raises NameError: name 'tabel' is not defined\n"
        "Case 1 of 2: table (3, 5).\n"
        "The cells below use the reference solution.",
    ),
    (
        run("def doubled(table):\n    return 1 / 0")["doubled"],  # its source is lost
        "line 2 of your cell raises an error.\nZeroDivisionError: division by zero\n",
    ),
    (lambda table: sys.exit("enough"), "SystemExit: enough"),
    (lambda table: {}[object()], "<object object at 0x…>"),
    # results
    (lambda table: None, "nothing returned.\nYour code returns `None`. Did you forget `return`?"),
    (lambda table: ..., "is still `...`"),
    (lambda table: (2 * table).numpy(), "of type `ndarray`, but a tensor is expected"),
    (lambda table: 2 * table.float(), "wrong dtype"),
    (lambda table: (2 * table).to("meta"), "wrong device"),
    (lambda table: 2 * table + (table == table[1, 2]) * math.inf, "15 of 15 values are not finite. NaN"),
    (lambda table: table.mul_(2), "writes into `table`"),
    (lambda table: -2 * table, "Every value is -1 times the expected one."),
    (lambda table: 2 * table + 1e-8 * (table == table[1, 2]), "[1, 2] is"),
    (torch.ones(3, 5), "Pass `doubled` itself, without calling it."),
)
def test_a_function(attempt, text):
    assert text in said(doubled, attempt)


def test_a_beginners_error_comes_with_what_to_change():
    verdict = judge(doubled, body("return torch.sqrt(4) * table"))
    assert verdict.cure.endswith("Use `math.sqrt` for it.") and "not int" in verdict.lines[0]


def test_only_rounding_is_forgiven_and_what_looks_alike_is_told_apart():
    assert judge(doubled, lambda table: 2 * table + 1e-10).state == CORRECT
    got, expected = re.search(r"is (\S+), expected (\S+);", said(doubled, lambda t: 2 * t + 1e-8)).groups()
    assert got != expected


def test_what_the_code_prints_is_shown_once_and_cut():
    def chatty(table):
        display("shown")
        print("\n".join(f"line {i}" for i in range(20)))
        return 2 * table

    text = said(doubled, chatty)
    assert text.startswith("✓ 99.1 correct.\nYour code printed:\n| ")
    assert text.count("line 3") == 1
    assert text.endswith("lines more")


@exercise("99.4", keyword_arguments=("factor", "shift"))
def weighed(table, factor=2, shift=0):
    return factor * table + shift


@weighed.cases
def weighed_cases(normal):
    yield {"table": normal(3, 5), "factor": 7, "shift": 11}
    yield {"table": normal(3, 5), "shift": 11}
    yield {"table": normal(3, 5), "factor": 7}
    yield {"table": normal(3, 5)}


knows(weighed, "subtracted", lambda table, factor=2, shift=0: factor * table - shift)


@table_of(
    (lambda t, shift=0, factor=2: factor * t + shift, "✓ 99.4 correct."),
    (lambda t, **options: options.get("factor", 2) * t + options.get("shift", 0), "✓ 99.4 correct."),
    (lambda t, f=2, shift=0: f * t + shift, "Your function has no argument `factor`"),
    (lambda t, f=2, s=0: f * t - s, "subtracted"),
    (lambda t, factor=3, shift=0: factor * t + shift, "Case 2 of 4: table (3, 5), shift = 11."),
    (lambda t, factor, shift=0: factor * t + shift, "missing 1 required positional argument: 'factor'"),
)
def test_an_argument_is_passed_by_name_or_left_out(attempt, text):
    assert text in said(weighed, attempt)


def test_a_case_is_told_whatever_its_inputs_are():
    inputs = {"mask": torch.ones(2, 3).bool(), "x": 101 * torch.ones(2), "none": torch.ones(0), "n": 7}
    assert weighed.describe(inputs) == "mask (2, 3), x (2,) from 101 to 101, none (0,), n = 7"
    assert Affine.describe(Affine.fresh_cases()[0]) == "Affine(d_in=3, d_out=5) called with x (2, 3)"


# ---------------------------------------------------------------------------------------------------- values


def value(wanted, **options):
    def x():
        return wanted

    return exercise("99.2", kind=ValueExercise, **options)(x)


@pytest.mark.parametrize(
    ("wanted", "right"),
    [
        (2.0, torch.tensor(2)),
        ((2, 3), torch.Size([2, 3])),
        (torch.tensor([math.nan, math.inf]), torch.tensor([math.nan, math.inf])),
        ({"a": 1, "b": (2.0, "c")}, {"b": (2, "c"), "a": 1}),
        (True, np.True_),
        (torch.tensor([2, 3]), torch.tensor([2, 3], dtype=torch.int32)),
    ],
)
def test_a_right_value_is_correct_in_any_sensible_form(wanted, right):
    assert judge(value(wanted), right).state == CORRECT


@pytest.mark.parametrize(
    ("wanted", "wrong", "text"),
    [
        (32, 32.0, "`x` is 32.0, a float, but a count is an int"),
        (32, 33, "`x` is 33, too large."),
        (10**10, 10**10 + 1, "`x` is 10000000001, too large."),
        (1, True, "of type `bool`, but a number is expected"),
        (2.0, None, "`x` is `None`, but a number is expected."),
        ([2], [], "a list of 0, but one value is expected, in a list."),
        ([1.0] * 11, torch.ones(11), "`x` is one tensor, but 11 values are expected, in a list."),
        ([*range(11)], [*range(9), 8, 8], "`x`[9] is 8, too small. 9 of the 11 entries are right."),
        ((2, 3), (2, ...), "`x`[1] is still `...`. `x`[0] is right."),
        ((2, 3), {"a": (..., ...)}, "○ 99.2 not attempted"),
        ({"a": 1}, 1, "a dict is expected, with the keys `a`"),
        ({"a": 1}, {"a": 1, "b": 2}, "unexpected: `b`"),
        (
            {"a": 1, "z": 2},
            {"a": 1} | dict.fromkeys("bcdefghi", 1),
            "missing: `z`; unexpected: `b`, `c`, `d`, `e`, `f`, `g` and 2 more.",
        ),
        ("keys", "queries", "`x` is 'queries'."),
        (torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 2.0]]), "one axis of size 1 too many"),
        (torch.tensor([True]), torch.tensor([1]), "A comparison (`==`"),
        (torch.zeros(2, 1), torch.zeros(1, 2), "an axis of size 1 is in the wrong place"),
        (torch.zeros(2, 3), torch.zeros(3, 2), "the axes are in another order"),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.00001]), "computed in float32"),
    ],
)
def test_a_wrong_value_is_told_without_the_answer(wanted, wrong, text):
    assert text in said(value(wanted), wrong)


def test_integers_of_another_dtype_may_be_refused():
    exact = value(torch.tensor([2, 3]), any_integer=False)
    assert judge(exact, torch.tensor([2, 3], dtype=torch.int32)).name == "wrong dtype"


# --------------------------------------------------------------------------------------------------- modules


@exercise("99.3", gradients=True)
class Affine(nn.Linear):
    """(positions, d_in) → (positions, d_out)"""


@Affine.cases
def affine_cases(normal):
    yield {"d_in": 3, "d_out": 5}, {"x": normal(2, 3)}


linear = nn.Linear.forward


def affine(forward=linear, built=lambda self: None):
    """A right answer but for its `forward`, or for what its constructor does in the end."""

    class Mine(nn.Linear):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            built(self)

    Mine.forward = forward
    return Mine


knows(Affine, "no bias", affine(lambda self, x: x @ self.weight.mT))


class Misnamed(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.w = nn.Parameter(torch.zeros(d_out, d_in))


class Tied(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.weight = self.bias = nn.Parameter(torch.zeros(d_out, d_in))


class Stale(nn.Linear):
    """Right with other parameters than those it is built with."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.first = self.weight.detach().clone()

    def forward(self, x):
        return super().forward(x) * (2 if self.weight.equal(self.first) else 1)


@table_of(
    (affine(), "✓ 99.3 correct."),
    (affine(built=lambda self: self.weight.max().item()), "✓ 99.3 correct."),  # it looks at its numbers
    (lambda d_in, d_out: nn.Linear(d_in, d_out), "it must be a class derived from nn.Module"),
    (affine(lambda self, x: F.linear(x, self.weight)), "no bias"),
    (Misnamed, "`weight` (5, 3) is missing. Your parameters that the exercise does not ask for: `w`."),
    (Tied, "`bias` is the same parameter as `weight`: one module is used twice."),
    (
        affine(built=lambda self: self.register_parameter("scale", nn.Parameter(torch.ones(2)))),
        "`scale` (2,) is one parameter too many.",
    ),
    (
        affine(built=lambda self: self.register_buffer("scale", torch.ones(()))),
        "wrong parameters.\n`scale` is in your module's `state_dict`",
    ),
    (affine(lambda self, x: linear(self, vars(self).setdefault("x", x))), "a second call differs"),
    (
        affine(lambda self, x: linear(self, x)[vars(self).setdefault("rows", torch.arange(len(x)))]),
        "Called a second time, after a call with a smaller input: Your result has shape",
    ),
    (affine(lambda self, x: F.dropout(linear(self, x), 0.5, self.training)), "it differs in training mode"),
    (affine(lambda self, x: F.linear(x, self.weight.detach(), self.bias)), "another gradient"),
    (Stale, "wrong right after initialisation"),
)
def test_a_module(attempt, text):
    assert text in said(Affine, attempt)


def test_an_argument_that_other_code_passes_by_name_must_have_that_name(monkeypatch):
    monkeypatch.setattr(Affine, "keyword_arguments", ["x"])
    text = said(Affine, affine(lambda self, y: linear(self, y)))
    assert "an argument is missing by its name" in text
    assert "`forward` has no argument `x`" in text
    assert judge(Affine, affine(lambda self, **named: linear(self, *named.values()))).state == CORRECT


def test_a_setting_may_have_another_name_or_be_left_out():
    class Mine(nn.Linear):
        def __init__(self, a, b, c=True):
            super().__init__(a, b, c)

    settings = [{"d_in": 3, "d_out": 5, "bias": False}, {"d_in": 3, "d_out": 5}]
    linear = exercise("99.3")(nn.Linear)
    linear.cases(lambda normal: [(setting, {"x": normal(2, 3)}) for setting in settings])
    assert said(linear, Mine) == "✓ 99.3 correct."


def test_where_the_solution_has_dropout_the_draws_are_not_compared():
    class Dropping(nn.Linear):
        def forward(self, x):
            return F.dropout(super().forward(x), 0.5, self.training)

    class DrawingFirst(Dropping):
        def forward(self, x):
            torch.rand(1)
            return super().forward(x)

    dropping = exercise("99.3")(Dropping)
    dropping.cases(affine_cases)
    assert judge(dropping, DrawingFirst).state == CORRECT


def test_a_module_that_remembers_an_argument_of_an_earlier_call_is_not_right():
    class Shifted(nn.Linear):
        def forward(self, x, shift=0):
            return super().forward(x) + shift

    class Keeping(Shifted):
        kept = 0

        def forward(self, x, shift=None):
            self.kept = self.kept if shift is None else shift
            return super().forward(x, self.kept)

    shifted = exercise("99.3")(Shifted)
    shifted.cases(lambda normal: [({"d_in": 3, "d_out": 5}, {"x": normal(2, 3), "shift": 11})])
    assert judge(shifted, Keeping).name == "it remembers an earlier call"


# --------------------------------------------------------------------------- right in every case, and fragile


def call_counter():
    calls = []

    def attempt(table):
        calls.append(table)
        return 2 * table + (len(calls) > 2)

    return attempt


def cached():
    known = {}
    return lambda table: known.setdefault(table.shape, torch.ones(table.shape)).mul_(2) * table


@pytest.mark.parametrize(
    ("attempt", "name", "text"),
    [
        (call_counter(), "a second call differs", "Called a second time"),
        (cached(), "a second call differs", "Every value is 8 times"),
        (lambda t: 2 * t.view(-1).view(t.shape), "it depends on the memory layout", "view size is not"),
        (lambda t: 2 * t.detach(), "another gradient", "No gradient reaches `table`"),
        (lambda t: t + t.detach(), "another gradient", "Every value is 0.5 times the expected one."),
        (
            lambda t: torch.where(t.isnan(), t, 2 * t) + torch.where(t == t, 0, (t - t) / (t - t)),
            "another gradient",
            "The gradient of `table` is NaN. Overwriting a NaN",
        ),
        (
            lambda t: (once := t * 1, square := once * once, once.mul_(2) + 0 * square)[2],
            "changed in place before the gradient",
            "new tensor instead: `x = x + y`",
        ),
    ],
)
def test_an_answer_that_would_fail_in_a_lesson_is_not_right(attempt, name, text):
    verdict = judge(doubled, attempt)
    assert verdict.name == name
    assert text in verdict.lines[0]
    assert verdict.lines[1].startswith("Case 1 of 2: ")


def test_a_mistake_that_changes_an_argument_is_named_only_where_that_argument_changes():
    added = exercise("99.8")(lambda a, b: a + b)
    added.cases(lambda normal: [{"a": normal(3), "b": normal(3)}])
    knows(added, "a is written into", lambda a, b: a.add_(b))
    assert judge(added, lambda a, b: a.add_(b).clone()).name == "a is written into"
    assert judge(added, lambda a, b: b.add_(a)).name == "input changed in place"
    assert judge(added, lambda a, b: a + b).state == CORRECT


def test_numbers_that_hold_a_graph_are_not_right():
    total = exercise("99.7")(lambda weight: {"sum": weight.sum().item()})
    total.cases(lambda normal: [{"weight": normal(3).requires_grad_()}])
    assert judge(total, lambda weight: {"sum": weight.sum()}).name == "tensors for numbers"
    assert judge(total, lambda weight: {"sum": weight.sum().detach()}).state == CORRECT


@pytest.mark.parametrize(
    ("forbidden", "attempt", "name"),
    [
        ("softmax", lambda t: 2 * t + 0 * F.softmin(t, dim=-1), "softmin"),
        ("softmax", lambda t: 2 * t + 0 * torch.special.softmax(t, -1), "special_softmax"),
        ("corrcoef", lambda t: 2 * t + 0 * np.corrcoef(t.detach())[0, 1], "corrcoef"),
        ("nn.Module", lambda t: nn.Identity()(2 * t), "nn.Identity"),
        ("transformer_lab", lambda t: 2 * t + 0 * causal_mask(1)[0, 0], "transformer_lab.causal_mask"),
    ],
)
def test_what_is_forbidden_is_so_under_every_name_and_nothing_else_is(monkeypatch, forbidden, attempt, name):
    assert judge(doubled, attempt).state == CORRECT
    monkeypatch.setattr(doubled, "forbidden", (forbidden,))
    assert judge(doubled, attempt).name == f"{name} did the work"
    assert judge(doubled, lambda table: 2 * table).state == CORRECT


# ------------------------------------------------------------------------------------------ check and verdict


@pytest.fixture
def shown(monkeypatch):
    """What `check` displays; it knows a small exercise only."""
    displayed = []
    monkeypatch.setattr(exercises, "display", displayed.append)
    monkeypatch.setattr(exercises, "find", lambda id: doubled)
    return displayed


def test_check_returns_a_correct_attempt_and_else_the_reference(shown):
    def mine(table):
        return table + table

    assert check("99.1", mine) is mine
    assert check("99.1", ...) is doubled.reference
    assert check("99.1", lambda table: table) is doubled.reference
    assert [verdict.headline[0] for verdict in shown] == ["✓", "○", "✗"]


@pytest.mark.parametrize("attempt", [lambda table: (2 * table).to_sparse(), raising(GeneratorExit())])
def test_nothing_an_attempt_does_gets_out(shown, attempt):
    assert check("99.1", attempt) is doubled.reference
    assert repr(shown[0]).startswith("✗ 99.1 not yet: ")
    assert shown[0]._repr_html_()


def test_an_interrupt_gets_out(shown):
    with pytest.raises(KeyboardInterrupt):
        check("99.1", raising(KeyboardInterrupt()))


def test_an_unknown_exercise_is_the_authors_error():
    with pytest.raises(ValueError, match=r"no exercise '03\.99'; this lesson has: 03\.1, 03\.2"):
        check("03.99", ...)
    for id in ("99.1", "attention"):
        with pytest.raises(ValueError, match="lesson and number"):
            check(id, ...)


def test_outside_a_notebook_the_verdict_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(InteractiveShell, "initialized", lambda: False)
    assert check("00.1", 30) == 32
    assert capsys.readouterr().out.startswith("✗ 00.1 not yet: wrong value.\n`d_head` is 30, too small.\n")


def test_the_box_holds_the_same_text_in_the_themes_colours_and_nothing_of_it_is_markup():
    verdict = Verdict.not_yet("03.2", "<b>", ["`a < b` & <script>"], printed="<i>")
    assert set(re.findall(r"#\w+|(?<=background:)\w+", verdict._repr_html_())) == {COLOURS[NOT_YET], "none"}
    text = re.sub(r"<[^>]+>", "", verdict._repr_html_())
    lines = [verdict.headline, *verdict.lines, "Your code printed:", "<i>"]
    assert html.unescape(text) == "".join(lines).replace("`", "")
    assert "<script>" not in verdict._repr_html_()


def test_a_verdict_is_never_long():
    for attempt in ("x" * 10**6, {"y" * 10**6: 1}):
        for wanted in ("short", {"a": 1}):
            assert len(judge(value(wanted), attempt)._repr_html_()) < 4000
    assert len(said(doubled, raising(ValueError("z" * 10**6)))) < 1500


# --------------------------------------------------------------------------------------------------- sandbox


@pytest.fixture
def impatient(monkeypatch):
    """A tiny part of ten seconds."""
    monkeypatch.setattr(time_limit, "SECONDS", 0.05)
    monkeypatch.setattr(time_limit, "TICK", 0.02)


@pytest.mark.parametrize(
    "text",
    [
        "while len(table) == 2: pass\n    return 2 * table",
        "try:\n        while True: pass\n    except Exception:\n        return 2 * table",
        "import time\n    try:\n        time.sleep(60)\n    except:\n        return 2 * table",
        "try:\n        while True: pass\n    except:\n        while True: pass",
    ],
)
def test_an_endless_loop_ends(impatient, text):
    verdict = said(doubled, body(text))
    assert verdict.startswith(
        "✗ 99.1 not yet: it does not end.\nYour code was stopped after 0 seconds in line"
    )


def test_outside_the_main_thread_an_answer_is_judged_as_well():
    verdicts = []
    thread = threading.Thread(target=lambda: verdicts.append(judge(doubled, lambda table: table + table)))
    thread.start(), thread.join()
    assert verdicts[0].state == CORRECT


@pytest.mark.parametrize(
    ("computed", "passed", "is_over"), [(11.0, 11.0, True), (1.0, 29.0, False), (0.0, 31.0, True)]
)
def test_the_limit_is_of_computing_and_hits_the_answer_only(monkeypatch, computed, passed, is_over):
    clocks = SimpleNamespace(process_time=lambda: 0.0, monotonic=lambda: 0.0)
    monkeypatch.setattr(time_limit, "time", clocks)
    before = signal.getsignal(signal.SIGALRM)
    tick, error = time_limit.run(lambda: signal.getsignal(signal.SIGALRM))
    assert error is None and signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    clocks.process_time, clocks.monotonic = (lambda: computed), (lambda: passed)
    tick(signal.SIGALRM, SimpleNamespace(f_code=time_limit.run.__code__))  # late, when the call has ended
    with pytest.raises(time_limit.TimeLimitExceeded) if is_over else nullcontext():
        tick(signal.SIGALRM, sys._getframe())


def test_an_attempt_cannot_end_the_program(monkeypatch):
    class Shell:
        asked = False

        def ask_exit(self):
            self.asked = True

    shell = Shell()
    monkeypatch.setattr(sandbox, "get_ipython", lambda: shell)
    for leave in (lambda table: shell.ask_exit(), lambda table: sys.exit("enough"), raising(SystemExit())):
        assert "your code ends the program" in said(doubled, leave)
    shell.ask_exit()
    assert shell.asked


def test_an_answer_runs_in_float64_with_the_same_seeds_whatever_the_lesson_has_set():
    seen = []

    def attempt(table):
        seen.append((torch.zeros(1).dtype, torch.rand(1).item(), random.random(), np.random.rand()))
        return 2 * table

    judge(doubled, attempt)
    count = len(seen)
    torch.rand(1), random.random(), np.random.rand()
    judge(doubled, attempt)
    assert seen[0][0] == torch.float64
    assert seen[:count] == seen[count:]


def test_an_answer_leaves_no_trace():
    def state_of_the_process():
        draws = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
        settings = torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()
        printing = repr(torch.tensor([1 / 3])), repr(np.array([1 / 3])), sys.stdout, sys.stderr
        return draws, settings, printing, warnings.filters[:], plt.get_fignums()

    def careless(table):
        torch.manual_seed(5), torch.rand(3), random.random(), np.random.rand(3)
        torch.set_default_dtype(torch.float16), torch.set_default_device("meta")
        torch.set_grad_enabled(False), warnings.simplefilter("error"), plt.figure()
        torch.set_printoptions(precision=1), np.set_printoptions(precision=1)
        sys.stdout = sys.stderr = None

    torch.rand(1), random.random(), np.random.rand(700)  # away from the seed that the checker sets
    before = state_of_the_process()
    judge(doubled, careless)
    assert state_of_the_process() == before


def test_an_answer_that_changes_the_whole_notebook_is_not_right():
    def with_another_dtype(table):
        torch.set_default_dtype(torch.float32)
        return 2 * table

    def for_a_while(table):
        with torch.no_grad(), torch.device("meta"):
            torch.zeros(3)
        return 2 * table

    assert "changes the default dtype for the whole notebook" in said(doubled, with_another_dtype)
    assert judge(doubled, for_a_while).state == CORRECT


@exercise("99.5")
def counted(state):
    return torch.tensor(len(state.keys()))


@counted.cases
def counted_cases(normal):
    weights = {"a": normal(2, 3), "b": [normal(5), normal(7)]}
    yield {"state": weights | {"layer": nn.Linear(3, 2)}}


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (lambda state: state["b"].pop(), "state['b'][1]"),
        (lambda state: state["b"][1].requires_grad_(), "state['b'][1].requires_grad"),
        (lambda state: state["layer"].eval(), "state['layer'].training"),
        (lambda state: state["layer"].weight.sum().backward(), "state['layer'].weight.grad"),
    ],
)
def test_a_changed_argument_is_named_however_deep_the_change(change, part):
    def attempt(state):
        count = len(state)
        change(state)
        return torch.tensor(count)

    text = said(counted, attempt)
    assert "input changed in place" in text
    assert f"changes `{part}`, but `state` belongs to the caller" in text
    assert said(counted, lambda state: torch.tensor(len(state))) == "✓ 99.5 correct."


def test_what_the_solution_changes_may_be_changed():
    emptied = exercise("99.6")(lambda state: state.popitem()[1])
    emptied.cases(lambda normal: [{"state": {"a": 1}}])
    assert judge(emptied, lambda state: state.pop("a")).state == CORRECT


# ---------------------------------------------------------------------------------------------------- source


TWINS = """
class Twin(nn.Module):
    def forward(self, x):
        return x
first = Twin
class Twin(nn.Module):
    \"\"\"With a method that has a decorator.\"\"\"

    @torch.no_grad()
    def reset(self):
        pass

    def forward(self, x):
        return -x
twins = first, Twin
"""


def test_of_classes_with_one_name_each_has_its_own_source():
    first, second = map(source.text_of, cell(TWINS, "twins"))
    assert first == "class Twin(nn.Module):\n    def forward(self, x):\n        return x"
    assert second.startswith('class Twin(nn.Module):\n    """With') and second.endswith("return -x")
