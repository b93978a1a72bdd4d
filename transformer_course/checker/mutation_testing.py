"""Mutation exercises: the learner writes a test that accepts correct code and kills a mutant."""

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
WANTED = {CORRECT: True, TARGET: False}  # for the other parts, a test may return either
TRIES = 10  # a test may draw random inputs, but has to return the same each time
BY_CHANCE = "by chance"
EQUAL_ON_INPUTS, UNEQUAL_ON_INPUTS = (
    "equal on these inputs",
    "unequal on these inputs",
)  # why the target passes
CLOSE = Comparison(1e-6)


@dataclass
class Mutants:
    """The code that a test is run on: functions, modules, or classes to build.

    Attributes:
        correct: implementations that have the property, by description: other code, dtypes, weights, sizes.
        target: the mutant that the test must kill.
        reference: the correct function, whose outputs are compared with the outputs of the target.
        variants: other mutants that violate the property, hidden from the learner, by their bug. A test may
            miss them; one that kills all of them gets ✓✓.
        unrelated: mutants whose bugs do not violate the property, so that a test may accept them.
        probes: code that is correct for some inputs only. Never named; they distinguish weak tests.
        argument_names: of the mutants, as in the stub.
    """

    correct: dict[str, Any]
    target: Any
    reference: Any = None
    variants: dict[str, Any] = field(default_factory=dict)
    unrelated: dict[str, Any] = field(default_factory=dict)
    probes: dict[str, Any] = field(default_factory=dict)
    argument_names: Sequence[str] = ()


class Candidate(NamedTuple):
    """One implementation, correct or a mutant, that a test is called with: its part, its name, the code."""

    part: str
    name: str
    code: Any
    mutants: Mutants


class MutationExercise(FunctionExercise):
    """The answer is a test: a function of one argument, the code under test, that returns True or False.

    If the code under test raises an error, that counts as False, unless the code is correct; a failed
    `assert` is always False. Each candidate is tested several times, and hides its name, type and source.
    """

    kind = "a function whose argument is the code under test"
    takes_tensors = False
    mutants = FunctionExercise.cases  # decorates a function without arguments that returns the `Mutants`

    def fresh_cases(self) -> list[Candidate]:
        with isolated():
            made = self._make_cases()
        parts = {CORRECT: made.correct, TARGET: {"the mutant": made.target}, VARIANT: made.variants}
        parts |= {UNRELATED: made.unrelated, PROBE: made.probes}
        return [Candidate(part, name, code, made) for part in parts for name, code in parts[part].items()]

    def arguments(self, case: Candidate) -> dict[str, Any]:
        return {}  # a test may change the code under test, so each call gets a copy

    def call(self, answer: Callable, candidate: Candidate) -> Any:
        """The result of the test for one candidate, or BY_CHANCE if it depends on the seed.

        If the target passes, the result says why: EQUAL_ON_INPUTS or UNEQUAL_ON_INPUTS.
        """
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
        """The part and the name of each candidate."""
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
        """Remarks about the hidden variants: which ones the test kills, and which survive."""
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
        """Whether the test kills every hidden variant, with every seed."""
        variants = [name for part, name in self.parts if part == VARIANT]
        return bool(variants) and self._named(outcomes, VARIANT, False) == variants

    def _named(self, outcomes: list[Outcome], part: str, result: Any) -> list[str]:
        """The names of the candidates of a part for which the test returns this result."""
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
    """The result of the test for a copy of the candidate, with this random seed."""
    seed_all(seed)
    copied = _neutral(candidate, agreements)
    try:
        with redirect_stdout(io.StringIO() if seed else sys.stdout):  # show printed output only once
            return plain(answer(copied))
    except Exception as error:
        if candidate.part != CORRECT or isinstance(error, AssertionError):
            return False
        if error.args:
            error.args = (f"{error} (The code under test is correct: {candidate.name}.)",)
        raise


def _neutral(candidate: Candidate, agreements: list[bool]) -> Any:
    """A copy of the code without its name, type or source.

    agreements: records for each call of the target whether it returned the same as the reference
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
    """A module without its class: it has another module's attributes, and runs that module's `forward`."""

    def __init__(self, module: nn.Module, call: Callable) -> None:
        self.__dict__ = module.__dict__ | {"_class": type(module), "_call": call}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        inside = self._class.__new__(self._class)
        inside.__dict__ = self.__dict__  # so that copies, and modules moved to another device, work
        return self._call(inside.forward, args, kwargs)
