"""Mutation exercises: the learner writes a test that correct code passes and a mutant does not."""

import io
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from torch import nn

from transformer_course.checker.compare import Comparison, Difference, plain, shown
from transformer_course.checker.exercise_types import FunctionExercise
from transformer_course.checker.input_mutation import with_tensors
from transformer_course.checker.sandbox import Outcome, isolated, seed_all

CORRECT, TARGET, VARIANT, UNRELATED, PROBE = "correct", "target", "variant", "unrelated", "probe"
WANTED = {CORRECT: True, TARGET: False}  # of the others a test may return either
TRIES = 10  # a test may draw its input, or flip a coin: it has to return the same each time
BY_CHANCE = "by chance"
EQUAL_ON_INPUTS, UNEQUAL_ON_INPUTS = (
    "equal on these inputs",
    "unequal on these inputs",
)  # why the target passes
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


class Candidate(NamedTuple):
    """Correct code or a mutant, which a test meets as a suspect: its part, its name, the code."""

    part: str
    name: str
    code: Any
    mutants: Mutants


class MutationExercise(FunctionExercise):
    """The learner writes a function of one argument, the suspect, that returns True if nothing is wrong.

    An error that a suspect raises counts as False, but not if the suspect is correct; a failed `assert` is
    always False. Each suspect is tried several times, under a neutral name: what counts is what it does.
    """

    kind = "a function whose argument is the code under test"
    takes_tensors = False
    mutants = FunctionExercise.cases  # a function without arguments that returns the `Mutants`

    def fresh_cases(self) -> list[Candidate]:
        with isolated():
            made = self._make_cases()
        parts = {CORRECT: made.correct, TARGET: {"the mutant": made.target}, VARIANT: made.variants}
        parts |= {UNRELATED: made.unrelated, PROBE: made.probes}
        return [Candidate(part, name, code, made) for part in parts for name, code in parts[part].items()]

    def arguments(self, case: Candidate) -> dict[str, Any]:
        return {}  # a test may change a suspect: each call gets a copy

    def call(self, answer: Callable, candidate: Candidate) -> Any:
        """What the test returns for the suspect, whatever it draws; for the target also why it passes."""
        agreements: list[bool] = []
        tries = TRIES if candidate.part in WANTED else TRIES // 2
        results = [_returned(answer, candidate, seed, agreements) for seed in range(tries)]
        for result in results:
            if not isinstance(result, bool):
                return result
        if len({*results}) > 1:
            return BY_CHANCE
        if results[0] and agreements:
            return EQUAL_ON_INPUTS if all(agreements) else UNEQUAL_ON_INPUTS
        return results[0]

    @cached_property
    def parts(self) -> list[tuple[str, str]]:
        """Part and name of each suspect."""
        return [candidate[:2] for candidate in self.fresh_cases()]

    def difference(self, i: int, result: Any) -> Difference | None:
        part, name = self.parts[i]
        if part not in WANTED or result is WANTED[part]:
            return None
        if result is None:
            return Difference("nothing returned", "Your test returns `None`. Did you forget `return`?")
        if isinstance(result, bool | str) and result in REMARKS:
            title, text = REMARKS[result]
            return Difference(title, text.format(name=name))
        text = (
            f"Your test returns {shown(result)}, but it must return True or False. Compare, or use `.all()`."
        )
        return Difference("neither True nor False", text)

    def beyond(self, outcomes: list[Outcome]) -> list[str]:
        """Which hidden variants the test catches as well."""
        caught, missed = self._named(outcomes, VARIANT, False), self._named(outcomes, VARIANT, True)
        if missed and not caught:
            text = "Your test kills this mutant only. Can you make it kill more? Mutants that survive:"
            return [f"{text} {', '.join(missed)}."]
        lists = {
            "Your test also kills": caught + self._named(outcomes, UNRELATED, False),
            "It sometimes kills": self._named(outcomes, VARIANT, BY_CHANCE),
            "Mutants that survive": missed,
        }
        return [f"{words}: {', '.join(names)}." for words, names in lists.items() if names]

    def deserves_honour(self, outcomes: list[Outcome]) -> bool:
        """Whether the test catches every hidden variant, each time."""
        variants = [name for part, name in self.parts if part == VARIANT]
        return bool(variants) and self._named(outcomes, VARIANT, False) == variants

    def _named(self, outcomes: list[Outcome], part: str, result: Any) -> list[str]:
        """The suspects of a part for which the test returns this."""
        pairs = zip(self.parts, outcomes, strict=True)
        return [name for (of, name), outcome in pairs if of == part and outcome.result is result]


REMARKS = {
    BY_CHANCE: (
        "a flaky test",
        f"Called {TRIES} times with the same code ({{name}}), your test sometimes returns True and "
        "sometimes False: its random inputs decide. If the code is correct, your test asks too much of "
        "some inputs, or its tolerance is too small. If it's a mutant, check something that fails on "
        "every input, or use more of them.",
    ),
    False: (
        "a correct implementation is rejected",
        "Your test returns False for correct code ({name}). Does it ask for more than the property says, "
        "compare with something else, or leave no room for rounding? `torch.allclose` leaves some, and "
        "more with a larger `atol`.",
    ),
    True: (
        "the mutant survives",
        "Your test returns True for the mutant, too. What does the mutant do that the property forbids, "
        "and on which input does it show? Its name and its type tell you nothing: call it, and look at its "
        "results.",
    ),
    EQUAL_ON_INPUTS: (
        "inputs on which the mutant is right",
        "Your test returns True for the mutant, too. On all your inputs the mutant's output is correct, so "
        "no comparison can tell it apart. For which sizes, values or dtypes would its output be wrong?",
    ),
    UNEQUAL_ON_INPUTS: (
        "wrong outputs pass",
        "Your test returns True for the mutant, too. The mutant's output on your inputs is wrong, but your "
        "test doesn't look at the part that's wrong. Which part of the property is violated, and in which "
        "values would you see it? Or is your tolerance large enough to hide the bug?",
    ),
}


def _returned(answer: Callable, candidate: Candidate, seed: int, agreements: list[bool]) -> Any:
    """What the test returns for a copy of the suspect, with the random numbers of this seed."""
    seed_all(seed)
    copied = _neutral(candidate, agreements)
    try:
        with redirect_stdout(io.StringIO() if seed else sys.stdout):  # what it prints is shown once
            return plain(answer(copied))
    except Exception as error:
        if candidate.part != CORRECT or isinstance(error, AssertionError):
            return False
        if error.args:
            error.args = (f"{error} (The code under test is correct: {candidate.name}.)",)
        raise


def _neutral(candidate: Candidate, agreements: list[bool]) -> Any:
    """A copy that shows neither name nor type nor source.

    agreements: where the target notes for each call whether it returned what the reference does
    """
    code, mutants = deepcopy(candidate.code), candidate.mutants
    names, reference = mutants.argument_names, mutants.reference if candidate.part == TARGET else None

    def call(function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        args = (*args, *(kwargs.pop(name) for name in names[len(args) :] if name in kwargs))
        if reference is None:
            return function(*args, **kwargs)
        agreements.append(False)
        copied_args, copied_kwargs = with_tensors((args, kwargs), lambda x: x.detach().clone())
        result = function(*args, **kwargs)
        with suppress(Exception):
            wanted = reference(*copied_args, **copied_kwargs)
            agreements[-1] = CLOSE.difference(result, wanted, "") is None
        return result

    def suspect(*args, **kwargs):
        made = call(code, args, kwargs)
        return Suspect(made, call) if isinstance(made, nn.Module) else made

    if not callable(code):
        return code
    if not any(isinstance(correct, nn.Module) for correct in mutants.correct.values()):
        return suspect
    if not isinstance(code, nn.Module):
        module = nn.Module()
        module.forward = code
        return Suspect(module, call)
    return Suspect(code, call)


class Suspect(nn.Module):
    """A module without its class: it has the attributes of another one, and does what that one does."""

    def __init__(self, module: nn.Module, call: Callable) -> None:
        self.__dict__ = module.__dict__ | {"_class": type(module), "_call": call}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inside = self._class.__new__(self._class)
        inside.__dict__ = self.__dict__  # so that a copy of this one, or one that was moved, is itself
        return self._call(inside.forward, args, kwargs)
