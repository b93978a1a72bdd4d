"""A killing test: the learner writes a test that what is right passes, and what is wrong does not."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import torch

from transformer_lab.course.checker.compare import Difference, plain, shown
from transformer_lab.course.checker.kinds import FunctionExercise
from transformer_lab.course.checker.run import Outcome, isolated

RIGHT, WRONG, OTHER, BESIDE = "right", "wrong", "other", "beside"
SEEDS = range(5)  # a test may draw its input: it has to say the same of every draw
BY_CHANCE = "by chance"


@dataclass
class Suspects:
    """What a test is tried on: functions, modules, or classes to build.

    Attributes:
        right: one or more that keep the promise, such as others of the same kind with other weights.
        wrong: the one to be found.
        others: usual faults that break the promise, by what is wrong with them, in words; a test may notice
            them or not.
        beside: faults of which the promise does not speak; to let them pass is no fault of the test.
    """

    right: list[Any]
    wrong: Any
    others: dict[str, Any] = field(default_factory=dict)
    beside: dict[str, Any] = field(default_factory=dict)


class Suspect(NamedTuple):
    """One of them, and in what part."""

    part: str
    name: str
    thing: Any


class KillingTest(FunctionExercise):
    """The learner writes a function of one argument, the suspect, that returns True if nothing is amiss.

    An error that a suspect raises is as good as False, but not if the suspect is right.
    """

    kind = "a function of what it tests"
    takes_tensors = False
    PARTS = ("suspects", "solution")

    def has(self, part: str) -> bool:
        return hasattr(self, "_make_suspects") if part == "suspects" else super().has(part)

    def suspects(self, make: Callable[[], Suspects]) -> Self:
        """What to try it on, built anew for each attempt."""
        self._make_suspects = make
        return self

    def fresh_cases(self) -> list[dict[str, Suspect]]:
        with isolated():
            made = self._make_suspects()
        names = [f"right one {i} of {len(made.right)}" for i in range(1, len(made.right) + 1)]
        all_of_them = [
            *map(Suspect, [RIGHT] * len(names), names, made.right),
            Suspect(WRONG, "the wrong one", made.wrong),
            *(Suspect(OTHER, name, thing) for name, thing in made.others.items()),
            *(Suspect(BESIDE, name, thing) for name, thing in made.beside.items()),
        ]
        return [{"suspect": suspect} for suspect in all_of_them]

    def arguments(self, case: dict[str, Suspect]) -> dict[str, Any]:
        return {}  # a test may do with a suspect what it likes: each call gets a copy

    def call(self, answer: Callable, case: dict[str, Suspect]) -> Any:
        """What the test says of the suspect, whatever it draws."""
        part, _, thing = case["suspect"]
        said = []
        for seed in SEEDS:
            torch.manual_seed(seed)
            try:
                said.append(plain(answer(deepcopy(thing))))
            except Exception:
                if part == RIGHT:
                    raise
                said.append(False)
        other = next((each for each in said if not isinstance(each, bool)), None)
        if other is not None:
            return other
        return said[0] if len(set(said)) == 1 else BY_CHANCE

    @cached_property
    def parts(self) -> list[tuple[str, str]]:
        """The part of each suspect, and its name."""
        return [(part, name) for part, name, _ in (case["suspect"] for case in self.fresh_cases())]

    @cached_property
    def wanted(self) -> list[bool | None]:
        """What a test must say of each; None where it may say either."""
        return [{RIGHT: True, WRONG: False}.get(part) for part, _ in self.parts]

    def difference(self, i: int, result: Any) -> Difference | None:
        part, name = self.parts[i]
        if self.wanted[i] is None or result is self.wanted[i]:
            return None
        if result is None:
            return Difference("nothing returned", "Your test returns `None`. Did you forget `return`?")
        if result == BY_CHANCE:
            return Difference("it says now this, now that", _ABOUT_CHANCE.format(name))
        if isinstance(result, bool):
            return _A_RIGHT_ONE_REFUSED if part == RIGHT else _THE_WRONG_ONE_PASSES
        text = f"Your test returns {shown(result)}; True or False is wanted. Compare, or use `.all()`."
        return Difference("neither True nor False", text)

    def beyond(self, outcomes: list[Outcome]) -> list[str]:
        """Which of the usual other faults it notices as well."""

        def named(part: str, *, passing: bool) -> list[str]:
            pairs = zip(self.parts, outcomes, strict=True)
            return [name for (p, name), each in pairs if p == part and (each.result is True) == passing]

        noticed, missed = named(OTHER, passing=False), named(OTHER, passing=True)
        if missed and not noticed:
            return [
                f"It kills this one alone. Can you make it notice more? It lets pass: {', '.join(missed)}."
            ]
        told = {"It notices as well": noticed + named(BESIDE, passing=False), "It would let pass": missed}
        return [f"{words}: {', '.join(names)}." for words, names in told.items() if names]


_ABOUT_CHANCE = (
    "Called five times with the same suspect ({}), your test says True and False. It draws random "
    "numbers, and they decide: ask for something that holds for every draw, or draw more."
)
_A_RIGHT_ONE_REFUSED = Difference(
    "a right one is refused",
    "Your test says False of one that keeps the promise. Does it ask for more than was promised, or for "
    "equal numbers where rounding differs?",
)
_THE_WRONG_ONE_PASSES = Difference(
    "the wrong one passes",
    "Your test says True of the wrong one as well. What would it do that the promise forbids, and on which "
    "input does that show?",
)
