"""A killing test: the learner writes a test that what is right passes, and what is wrong does not."""

import io
import random
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from transformer_course.checker.compare import Comparison, Difference, plain, shown
from transformer_course.checker.exercise_types import FunctionExercise
from transformer_course.checker.input_mutation import with_tensors
from transformer_course.checker.sandbox import Outcome, isolated

RIGHT, WRONG, OTHER, BESIDE, SIGN = "right", "wrong", "other", "beside", "sign"
WANTED = {RIGHT: True, WRONG: False}  # of the others a test may say either
TRIES = 10  # a test may draw its input, or flip a coin: it has to say the same each time
BY_CHANCE, BY_LOOKS, UNCALLED = "by chance", "by looks", "without a call"
TOO_CLOSE, TOO_LOOSE = "too close", "too loose"  # its comparisons, not what it asks
UNSEEN, UNNOTICED = "right on these inputs", "wrong on these inputs"  # why the wrong one passes
CLOSE = Comparison(1e-6)


@dataclass
class Mutants:
    """What a test is tried on: functions, modules, or classes to build.

    Attributes:
        correct: those that keep the promise, by how they are written: other code, formats, weights, sizes.
        target: the wrong one that a test must find.
        reference: what the target should be, number by number.
        variants: hidden variants of the bug, other ways to break the promise, by what is wrong with them; a
            test may catch them or not, and one that catches all gets ✓✓.
        unrelated: bugs of which the promise does not speak; to let them pass is no fault of the test.
        probes: correct for some inputs only. They are never named; they tell two weak tests apart.
        argument_names: of the mutants, as the stub has them.
    """

    correct: dict[str, Any]
    target: Any
    reference: Any = None
    variants: dict[str, Any] = field(default_factory=dict)
    unrelated: dict[str, Any] = field(default_factory=dict)
    probes: dict[str, Any] = field(default_factory=dict)
    argument_names: Sequence[str] = ()


class Entry(NamedTuple):
    """A suspect: in what part, by what name, and among whom."""

    part: str
    name: str
    thing: Any
    among: Mutants


class MutationExercise(FunctionExercise):
    """The learner writes a function of one argument, the suspect, that returns True if nothing is amiss.

    An error that a suspect raises is as good as False, but not if the suspect is right; a failed `assert` is
    False everywhere. Each is tried several times, in disguise: what counts is what it does.
    """

    kind = "a function of what it tests"
    takes_tensors = False
    mutants = FunctionExercise.cases  # what to try it on, built anew for each attempt: a function of nothing

    def fresh_cases(self) -> list[Entry]:
        with isolated():
            made = self._make_cases()
        parts = {RIGHT: made.correct, WRONG: {"the wrong one": made.target}}
        parts |= {OTHER: made.variants, BESIDE: made.unrelated, SIGN: made.probes}
        return [
            Entry(part, name, thing, made) for part, things in parts.items() for name, thing in things.items()
        ]

    def arguments(self, case: Entry) -> dict[str, Any]:
        return {}  # a test may do with a suspect what it likes: each call gets a copy

    def call(self, answer: Callable, suspect: Entry) -> Any:
        """What the test says of the suspect, whatever it draws; of the wrong one also why it passes."""
        calls = Calls()
        try:
            said = _all_said(answer, suspect, calls)
        except Exception:
            if _is_known_by_its_looks(answer, suspect):
                return BY_LOOKS
            raise
        other = next((each for each in said if not isinstance(each, bool)), None)
        if other is not None:
            return other
        if suspect.part not in WANTED:
            return BY_CHANCE if len(set(said)) > 1 else said[0]
        if suspect.part == RIGHT and not all(said) and _says(True, answer, suspect, max):
            return TOO_CLOSE
        if len(set(said)) > 1:
            return BY_CHANCE
        if said[0] is not WANTED[suspect.part] and _is_known_by_its_looks(answer, suspect):
            return BY_LOOKS
        if self.is_to_be_called and not calls and not (suspect.part == RIGHT and said[0]):
            return UNCALLED
        if suspect.part != WRONG or not said[0]:
            return said[0]
        why = calls.judged_by(suspect.among.reference)
        return TOO_LOOSE if why != UNSEEN and _is_too_loose(answer, suspect) else why

    @cached_property
    def is_to_be_called(self) -> bool:
        """Whether what is promised shows in a call, and not in what a suspect holds."""
        wrong, calls = next(each for each in self.fresh_cases() if each.part == WRONG), Calls()
        with isolated():
            _said(self.reference, wrong, disguised(wrong, calls), seed=0)
        return bool(calls)

    @cached_property
    def parts(self) -> list[tuple[str, str]]:
        """The part of each suspect, and its name."""
        return [suspect[:2] for suspect in self.fresh_cases()]

    def difference(self, i: int, result: Any) -> Difference | None:
        part, name = self.parts[i]
        if part not in WANTED or result is WANTED[part]:
            return None
        if result is None:
            return Difference("nothing returned", "Your test returns `None`. Did you forget `return`?")
        if isinstance(result, bool | str) and result in WORDS:
            kind, text = WORDS.get((part, result)) or WORDS[result]
            return Difference(kind, text.format(name=name))
        text = f"Your test returns {shown(result)}; True or False is wanted. Compare, or use `.all()`."
        return Difference("neither True nor False", text)

    def beyond(self, outcomes: list[Outcome]) -> list[str]:
        """Which hidden variants of the fault it notices as well."""
        noticed, missed = self._named(outcomes, OTHER, False), self._named(outcomes, OTHER, True)
        if missed and not noticed:
            return [
                f"It kills this one alone. Can you make it notice more? It lets pass: {', '.join(missed)}."
            ]
        told = {
            "It notices as well": noticed + self._named(outcomes, BESIDE, False),
            "It notices now and then": self._named(outcomes, OTHER, BY_CHANCE),
            "It would let pass": missed,
        }
        return [f"{words}: {', '.join(names)}." for words, names in told.items() if names]

    def deserves_honour(self, outcomes: list[Outcome]) -> bool:
        """Whether it notices every hidden variant, each time."""
        variants = [name for part, name in self.parts if part == OTHER]
        return bool(variants) and self._named(outcomes, OTHER, False) == variants

    def _named(self, outcomes: list[Outcome], part: str, said: Any) -> list[str]:
        """The suspects of a part of which the test says this."""
        pairs = zip(self.parts, outcomes, strict=True)
        return [name for (p, name), each in pairs if p == part and each.result is said]


WORDS = {
    BY_CHANCE: (
        "it says now this, now that",
        f"Called {TRIES} times with the same suspect ({{name}}), your test says True and False. It draws "
        "random numbers, and they decide: ask for something that shows with every draw, or draw more.",
    ),
    (RIGHT, BY_CHANCE): (
        "it says now this, now that",
        f"Called {TRIES} times with the same suspect, a right one ({{name}}), your test says True and False. "
        "It draws random numbers, and they decide: for some it asks too much, or compares too closely.",
    ),
    BY_LOOKS: (
        "it goes by looks",
        "Your test says something else of the same suspect ({name}) when that bears another name and type. "
        "They tell nothing, and neither does its source: call it, and look at what comes out.",
    ),
    UNCALLED: (
        "it is never called",
        "Your test decides about a suspect ({name}) without a call. What is inside may be written in many "
        "ways: call it, and look at what comes out.",
    ),
    TOO_CLOSE: (
        "too close a comparison",
        "Your test says False of one that keeps the promise ({name}), and True with more room in its "
        "comparisons. Right code rounds differently: compare with `torch.allclose`, if need be with a larger "
        "`atol`.",
    ),
    TOO_LOOSE: (
        "too loose a comparison",
        "Your test says True of the wrong one as well, and False with less room in its comparisons: your "
        "tolerance is wide enough to hide the fault.",
    ),
    False: (
        "a right one is refused",
        "Your test says False of one that keeps the promise ({name}). Does it ask for more than was "
        "promised, compare with something else, or more closely than rounding allows?",
    ),
    True: (
        "the wrong one passes",
        "Your test says True of the wrong one as well. What would it do that the promise forbids, and on "
        "which input does that show?",
    ),
    UNSEEN: (
        "inputs on which the wrong one is right",
        "Your test says True of the wrong one as well. On all your inputs it returns what it should, so that "
        "no comparison can tell. With which sizes, values or formats would it not?",
    ),
    UNNOTICED: (
        "wrong numbers pass",
        "Your test says True of the wrong one as well. On your own inputs it returns something else than it "
        "should, and what you ask of it does not show that. Which word of the promise is broken there, and "
        "in which of its numbers would you see it?",
    ),
}


def _all_said(answer: Callable, suspect: Entry, calls: "Calls") -> list[Any]:
    """What the test says of it in disguise, several times."""
    tries = TRIES if suspect.part in WANTED else TRIES // 2
    return [_said(answer, suspect, disguised(suspect, calls), seed) for seed in range(tries)]


def _says(what: bool, answer: Callable, suspect: Entry, limit: Callable) -> bool:
    """Whether the test says that of it each time, if its comparisons have another tolerance."""
    try:
        with Tolerance(limit), redirect_stdout(io.StringIO()):
            # Three times as often as usual: a test that flips a coin says the same of it now and then.
            return all(said is what for _ in range(3) for said in _all_said(answer, suspect, Calls()))
    except Exception:
        return False


def _is_too_loose(answer: Callable, suspect: Entry) -> bool:
    """Whether a test, if it compared closely, would no longer pass the wrong one, and would a right one."""
    name, right = next(iter(suspect.among.correct.items()))
    one = Entry(RIGHT, name, right, suspect.among)
    return _says(False, answer, suspect, min) and _says(True, answer, one, min)


def _said(answer: Callable, suspect: Entry, given: Any, seed: int) -> Any:
    """What the test says of it, with these random numbers."""
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    try:
        with redirect_stdout(io.StringIO() if seed else sys.stdout):  # what it prints is told once
            return plain(answer(given))
    except Exception as error:
        if suspect.part != RIGHT or isinstance(error, AssertionError):
            return False
        if error.args:
            error.args = (f"{error} (The suspect is a right one: {suspect.name}.)",)
        raise


def _is_known_by_its_looks(answer: Callable, suspect: Entry) -> bool:
    """Whether the test says the right thing of it, once it is not in disguise."""
    try:
        return _said(answer, suspect, deepcopy(suspect.thing), seed=1) is WANTED.get(suspect.part)
    except Exception:
        return False


ROOM = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 1e-1}
USUAL = {"rtol": 1e-5, "atol": 1e-8}  # of torch.allclose


class Tolerance(TorchFunctionMode):
    """Within it, all comparisons of numbers leave room for rounding, or none leaves more than that.

    What a test says under it tells whether its tolerance is at fault, or what it asks.
    """

    def __init__(self, limit: Callable) -> None:
        super().__init__()
        self.limit = limit  # max: at least the room; min: at most the room

    def __torch_function__(self, function: Callable, types: Any, given: tuple = (), named: Any = None) -> Any:
        """The call, with another tolerance if it compares."""
        named, name, (a, b, *own) = named or {}, function.__name__, (*given, None, None)[: max(2, len(given))]
        close = name in ("allclose", "isclose")
        compares = close or (self.limit is max and name in ("equal", "eq", "__eq__"))
        if not compares or b is None or getattr(a, "dtype", None) not in ROOM:
            return function(*given, **named)
        b, room = torch.as_tensor(b), ROOM[a.dtype]
        if b.dtype != a.dtype and b.dim():
            return function(*given, **named)
        own = {**USUAL, **dict(zip(USUAL, own, strict=False)), **named} if close else {}
        own |= {each: self.limit(own.get(each, room), room) for each in USUAL}
        if name in ("isclose", "eq", "__eq__"):
            return torch.isclose(a, b.to(a), **own)
        return (close or a.shape == b.shape) and torch.allclose(a, b, **own)


# ------------------------------------------------------------------------------------------------- disguise


def disguised(suspect: Entry, calls: "Calls") -> Any:
    """A copy that tells neither its name nor its type nor its source, and whose calls are noted."""
    thing, takes = deepcopy(suspect.thing), suspect.among.argument_names
    if not callable(thing):
        return thing
    if any(isinstance(each, nn.Module) for each in suspect.among.correct.values()):
        return Suspect(thing if isinstance(thing, nn.Module) else _as_module(thing), takes, calls)

    def suspect(*given, **named):
        made = calls.make(thing, *_by_place(given, named, takes))
        return Suspect(made, takes, calls) if isinstance(made, nn.Module) else made

    return suspect


def _as_module(function: Callable) -> nn.Module:
    module = nn.Module()
    module.forward = function
    return module


class Suspect(nn.Module):
    """A module without its type: it holds what another one holds, and does what that does."""

    def __init__(self, module: nn.Module, takes: Sequence[str], calls: "Calls") -> None:
        self.__dict__ = module.__dict__ | {"_kind": type(module), "_takes": takes, "_calls": calls}

    def forward(self, *given: Any, **named: Any) -> Any:
        """What the other one returns."""
        inside = self._kind.__new__(self._kind)
        inside.__dict__ = self.__dict__  # so that a copy of this one, or one that was moved, is itself
        return self._calls.make(inside.forward, *_by_place(given, named, self._takes))


def _by_place(given: tuple, named: dict[str, Any], takes: Sequence[str]) -> tuple[tuple, dict[str, Any]]:
    """The same arguments; those that the stub names by their places, for each suspect has its own names."""
    placed = [named.pop(name) for name in takes[len(given) :] if name in named]
    return (*given, *placed), named


class Calls(list[tuple]):
    """What a test has handed to a suspect, and what came of it."""

    def __deepcopy__(self, memo: dict) -> Self:
        return self  # a copied module goes on writing into the same list

    def make(self, function: Callable, given: tuple, named: dict[str, Any]) -> Any:
        """Make the call, and note it; an error is noted as None."""
        kept = _kept(given), _kept(named)
        self.append((*kept, None))
        place = len(self) - 1
        result = function(*given, **named)
        self[place] = (*kept, _kept(result))
        return result

    def judged_by(self, twin: Callable | None) -> str | bool:
        """Why the wrong one passes: whether it has returned what it should."""
        if twin is None or not self:
            return True
        for given, named, result in self:
            try:
                same = CLOSE.difference(result, twin(*given, **named), "") is None
            except Exception:
                same = False
            if not same:
                return UNNOTICED
        return UNSEEN


def _kept(value: Any) -> Any:
    """Tensors as they are now, whatever a test will do to them."""
    return with_tensors(value, lambda tensor: tensor.detach().clone())
