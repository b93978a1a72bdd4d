"""The exercise classes: their texts, cases, expected results and known mistakes, and how an answer is run."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn

from transformer_course.checker import source
from transformer_course.checker.arguments import call_with, first_unknown
from transformer_course.checker.compare import Comparison, Difference, shown
from transformer_course.checker.parameters import copy_parameters, set_parameters
from transformer_course.checker.sandbox import Outcome, alike, isolated, observe
from transformer_course.checker.time_limit import TimeLimitExceeded


@dataclass(frozen=True, eq=False)
class Mistake:
    """A typical wrong answer: its name, its effect, how to fix it, and the answer itself.

    changes: the edits of the shown solution that produce the answer; empty if the answer is written out
    text: the answer as a notebook shows it
    """

    name: str
    effect: str
    cure: str
    answer: Any
    changes: tuple = ()
    text: str = ""


class Exercise:
    """Base class of all exercises. A subclass defines what an answer is and how it is called.

    returns: the names of the results, if there are several
    forbidden: functions and modules that the answer must not use, under any name (`forbidden_calls.PATTERNS`)
    keyword_arguments: arguments of the function, or of `forward`, that later cells pass by keyword
    tolerance: absolute and relative
    any_integer: whether an expected integer tensor may have any integer dtype
    gradients: whether gradients are compared with the solution's too; if so, the stub has to say it
    difficulty: from 1, a line or two that usually work at once, to 3, a stretch exercise

    Calling an exercise calls its solution, so a solution can use earlier exercises as an answer can.
    """

    kind: str  # what an answer is, as a phrase for messages
    takes_tensors = True  # so that it can be run on other inputs, and a message can describe them

    def __init__(
        self,
        id: str,
        solution: Any,
        *,
        returns: Sequence[str] = (),
        forbidden: Sequence[str] = (),
        keyword_arguments: Sequence[str] = (),
        tolerance: float = 1e-9,
        any_integer: bool = True,
        gradients: bool = False,
        difficulty: int = 1,
    ):
        self.id, self.name, self.reference = id, solution.__name__, solution
        self.stub, self.shown = self.texts(source.text_of(solution))
        self.returns, self.forbidden, self.keyword_arguments = returns, forbidden, keyword_arguments
        self.gradients, self.difficulty = gradients, difficulty
        self.comparison = Comparison(tolerance, any_integer=any_integer)
        # From the guide:
        self.title = ""
        self.hints: list[str] = []
        self.mistakes: list[Mistake] = []
        self.shared: list[Mistake] = []  # mistakes that all lessons share, where they apply
        self.other_ways: list[tuple] = []  # edits after which the solution is still correct
        self.written_otherwise: list[str] = []  # the solution after each of these edits
        self.mistakes_otherwise: list[Mistake] = []  # the same mistakes in these variants
        self.namespace: dict[str, Any] = {}  # the namespace of the exercise module, in which edits are run

    def __call__(self, *arguments: Any, **by_name: Any) -> Any:
        return self.reference(*arguments, **by_name)

    def texts(self, text: str) -> tuple[str, str]:
        """The stub, and the solution as the notebook shows it."""
        return source.stub_of(text), source.solution_of(text)

    def cases(self, make: Callable[[Callable], Iterator[Any]]) -> Callable:
        """Register the function that yields the test inputs.

        `normal(*shape)` draws seeded float64 values. Sizes are distinct primes, so that no two axes can be
        confused. A case may omit an argument that has a default.
        """
        self._make_cases = make
        return make

    def accepts(self, answer: Any) -> bool:
        """Whether the answer is of a type that can be run at all."""
        raise NotImplementedError

    def call(self, answer: Any, case: Any) -> Any:
        """The result of the answer for one case."""
        return self.use(self.ready(answer, case), self.inputs(case))

    def ready(self, answer: Any, case: Any, parameters: dict[str, Tensor] | None = None) -> Callable:
        """The callable to run: the function itself, or a module with these parameters or seeded ones."""
        return answer

    def use(self, ready: Callable, inputs: dict[str, Any]) -> Any:
        """Call what `ready` returned with the inputs."""
        return call_with(ready, inputs, self.keyword_arguments, like=self.reference)

    def misnamed(self, answer: Any) -> tuple[str, str] | None:
        """The callable that lacks a parameter which is passed by keyword, and its name; None if all exist."""
        return None

    def inputs(self, case: Any) -> dict[str, Any]:
        """The named inputs of one case."""
        return case

    def arguments(self, case: Any) -> dict[str, Any]:
        """Everything that is passed to an answer and that it must not change."""
        return case

    def describe(self, case: Any) -> str:
        """A description of the case: tensors by their shape, everything else by its value."""
        return ", ".join(_describe(name, value) for name, value in self.inputs(case).items())

    def fresh_cases(self) -> list[Any]:
        """All cases, rebuilt on every call, so that no answer sees inputs that another one has changed."""
        generator = torch.Generator().manual_seed(0)
        with isolated():
            return list(self._make_cases(lambda *shape: torch.randn(shape, generator=generator)))

    def outcomes(self, answer: Any) -> list[Outcome]:
        """The outcome of the answer for each case. Stops after a case that exceeds the time limit."""
        outcomes = []
        for case, same in zip(self.fresh_cases(), self.fresh_cases(), strict=True):
            call = partial(self.call, answer, case)
            outcomes.append(observe(call, self.arguments(case), self.arguments(same)))
            if isinstance(outcomes[-1].error, TimeLimitExceeded):
                break
        return outcomes

    @cached_property
    def wanted(self) -> list[Any]:
        """The solution's result for each case, computed with the same random state as an answer."""
        results = []
        for case in self.fresh_cases():
            with isolated():
                results.append(self.call(self.reference, case))
        return results

    def difference(self, i: int, result: Any) -> Difference | None:
        """The difference between an answer's result for case i and the expected one, or None."""
        if result is None:
            return Difference("nothing returned", "Your code returns `None`. Did you forget `return`?")
        return replace(self.comparison, names=self.returns).difference(result, self.wanted[i], "Your result")

    def beyond(self, outcomes: list[Outcome]) -> list[str]:
        """Further remarks about a correct answer."""
        return []

    def deserves_honour(self, outcomes: list[Outcome]) -> bool:
        """Whether a correct answer does more than was asked for; it gets ✓✓ instead of ✓."""
        return False

    @cached_property
    def may_change(self) -> set[str]:
        """The arguments that the solution changes."""
        return {name for outcome in self.outcomes(self.reference) for name in outcome.changed}

    @cached_property
    def wrong_outcomes(self) -> list[tuple[Mistake, list[Outcome]]]:
        """The known mistakes, each with its outcome for every case.

        A shared mistake, or a mistake in a variant of the solution, is included only if no mistake before it,
        and not the solution either, has the same outcomes.
        """
        found = [(mistake, self.outcomes(mistake.answer)) for mistake in self.mistakes]
        known = [self.outcomes(self.reference), *(outcomes for _, outcomes in found)]
        for mistake in [*self.shared, *self.mistakes_otherwise]:
            outcomes = self.outcomes(mistake.answer)
            if not any(alike(self.comparison, outcomes, other) for other in known):
                found.append((mistake, outcomes))
                known.append(outcomes)  # keep the first of two that behave the same
        return found


class FunctionExercise(Exercise):
    """The answer is a function. Its parameters may have any names, except for `keyword_arguments`."""

    kind = "a function"

    def accepts(self, answer: Any) -> bool:
        return callable(answer)

    def misnamed(self, answer: Any) -> tuple[str, str] | None:
        name = first_unknown(answer, self.keyword_arguments)
        return name and ("your function", name)


class ModuleExercise(Exercise):
    """The answer is an `nn.Module` class: built with a case's settings, then given seeded parameters."""

    kind = "a class derived from nn.Module"

    def accepts(self, answer: Any) -> bool:
        return isinstance(answer, type) and issubclass(answer, nn.Module)

    def ready(self, answer: type[nn.Module], case: tuple[dict, dict], parameters=None) -> nn.Module:
        module = self.build(answer, case[0])
        if parameters:
            copy_parameters(module, parameters)
        else:
            set_parameters(module, self.build(self.reference, case[0]))
        return module.eval()

    def use(self, ready: nn.Module, inputs: dict[str, Any]) -> Any:
        return call_with(ready, inputs, self.keyword_arguments, like=self.model)

    @cached_property
    def model(self) -> nn.Module:
        """A module of the reference, for the names of its arguments."""
        with isolated():
            return self.build(self.reference, self.fresh_cases()[0][0])

    def build(self, answer: type[nn.Module], settings: dict[str, Any]) -> nn.Module:
        """A module with these settings."""
        return call_with(answer, settings, (), like=self.reference)

    def misnamed(self, answer: Any) -> tuple[str, str] | None:
        name = first_unknown(answer.forward, self.keyword_arguments) if self.keyword_arguments else None
        return name and ("`forward`", name)

    def inputs(self, case: tuple[dict, dict]) -> dict[str, Any]:
        return case[1]

    def arguments(self, case: tuple[dict, dict]) -> dict[str, Any]:
        return {**case[0], **case[1]}

    def describe(self, case: tuple[dict, dict]) -> str:
        settings = ", ".join(f"{name}={shown(value)}" for name, value in case[0].items())
        return f"{self.name}({settings}) called with {super().describe(case)}"


class ValueExercise(Exercise):
    """The answer is a value; the solution is a function without arguments that returns it.

    stub: the stub, unless every literal of the solution is replaced by `...`
    """

    kind = "a value"
    takes_tensors = False

    def __init__(self, id: str, solution: Callable[[], Any], *, stub: str = "", **options: Any):
        super().__init__(id, solution, **options)
        self.reference, self.stub = solution(), stub or self.stub

    def texts(self, text: str) -> tuple[str, str]:
        shown = source.value_of(text, self.name)
        return source.value_stub_of(shown), shown

    def accepts(self, answer: Any) -> bool:
        return True

    def call(self, answer: Any, case: dict[str, Any]) -> Any:
        return answer

    def fresh_cases(self) -> list[Any]:
        return [{}]

    def difference(self, i: int, result: Any) -> Difference | None:
        hidden = replace(self.comparison, names=self.returns, reveal=False)
        return hidden.difference(result, self.wanted[i], f"`{self.name}`")


def _describe(name: str, value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{name} = {shown(value)}"
    words = f"{name} {tuple(value.shape)}"
    if value.dtype == torch.bool or value.numel() == 0 or value.abs().max() <= 100:
        return words
    return f"{words} from {value.min():.0f} to {value.max():.0f}"
