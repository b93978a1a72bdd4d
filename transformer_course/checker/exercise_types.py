"""An exercise: its texts, its cases, its truth, its bank of mistakes, and how an answer to it is run."""

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
    """A wrong answer that people give: its name, what it does, how to mend it, and the answer itself.

    changes: of the shown solution, which make the answer; none where it was written out
    text: the answer as a notebook shows it
    """

    name: str
    effect: str
    cure: str
    answer: Any
    changes: tuple = ()
    text: str = ""


class Exercise:
    """What all exercises share. A subclass says what an answer looks like and how it is called.

    returns: the names of the results, where there are several
    forbidden: what must not do the work, under no other name either: see `forbidden_calls.PATTERNS`
    keyword_arguments: those of the function, or of `forward`, that later cells pass by keyword
    tolerance: absolute and relative
    any_integer: where integers are wanted, whether those of any dtype will do
    gradients: whether those of a right answer must agree with the solution's: then the stub says so
    difficulty: from 1, a line or two at the first try, to 3, a stretch

    An exercise, called, does what its solution does: so solutions may build on one another, as answers do.
    """

    kind: str  # what an answer is, in words
    takes_tensors = True  # so that it may be tried with others, and a remark can say with which

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
        self.shared: list[Mistake] = []  # slips of all lessons, where their text occurs
        self.other_ways: list[tuple] = []  # changes of the solution that leave it right
        self.written_otherwise: list[str] = []  # the solution with each of them
        self.mistakes_otherwise: list[Mistake] = []  # the same mistakes in those
        self.namespace: dict[str, Any] = {}  # that of the module, for the changes of the guide

    def __call__(self, *arguments: Any, **by_name: Any) -> Any:
        return self.reference(*arguments, **by_name)

    def texts(self, text: str) -> tuple[str, str]:
        """The stub, and the solution as the notebook shows it."""
        return source.stub_of(text), source.solution_of(text)

    def cases(self, make: Callable[[Callable], Iterator[Any]]) -> Callable:
        """The inputs to try; `normal(*shape)` draws seeded float64. Distinct primes tell the axes apart.

        A case may leave out an argument that has a default.
        """
        self._make_cases = make
        return make

    def accepts(self, answer: Any) -> bool:
        """Whether the answer is of a kind that can be run at all."""
        raise NotImplementedError

    def call(self, answer: Any, case: Any) -> Any:
        """The answer's result in one case."""
        return self.use(self.ready(answer, case), self.inputs(case))

    def ready(self, answer: Any, case: Any, parameters: dict[str, Tensor] | None = None) -> Callable:
        """What is called: the function itself, or a module with these parameters or with seeded ones."""
        return answer

    def use(self, ready: Callable, inputs: dict[str, Any]) -> Any:
        """Call it."""
        return call_with(ready, inputs, self.keyword_arguments, like=self.reference)

    def misnamed(self, answer: Any) -> tuple[str, str] | None:
        """What should take an argument by its name and does not, and that name."""
        return None

    def inputs(self, case: Any) -> dict[str, Any]:
        """The named inputs of one case."""
        return case

    def arguments(self, case: Any) -> dict[str, Any]:
        """All that an answer gets and must leave as it was."""
        return case

    def describe(self, case: Any) -> str:
        """The case in words: a tensor by its shape, anything else by its value."""
        return ", ".join(_describe(name, value) for name, value in self.inputs(case).items())

    def fresh_cases(self) -> list[Any]:
        """All cases, built anew, so that no answer sees what another has done to its inputs."""
        generator = torch.Generator().manual_seed(0)
        with isolated():
            return list(self._make_cases(lambda *shape: torch.randn(shape, generator=generator)))

    def outcomes(self, answer: Any) -> list[Outcome]:
        """What the answer does in each case; none after one that does not end."""
        outcomes = []
        for case, same in zip(self.fresh_cases(), self.fresh_cases(), strict=True):
            call = partial(self.call, answer, case)
            outcomes.append(observe(call, self.arguments(case), self.arguments(same)))
            if isinstance(outcomes[-1].error, TimeLimitExceeded):
                break
        return outcomes

    @cached_property
    def wanted(self) -> list[Any]:
        """The solution's result in each case, which finds the same random numbers as an answer does."""
        results = []
        for case in self.fresh_cases():
            with isolated():
                results.append(self.call(self.reference, case))
        return results

    def difference(self, i: int, result: Any) -> Difference | None:
        """What is amiss with an answer's result in case i."""
        if result is None:
            return Difference("nothing returned", "Your code returns `None`. Did you forget `return`?")
        return replace(self.comparison, names=self.returns).difference(result, self.wanted[i], "Your result")

    def beyond(self, outcomes: list[Outcome]) -> list[str]:
        """What to say of a right answer, beside that it is right."""
        return []

    def deserves_honour(self, outcomes: list[Outcome]) -> bool:
        """Whether a right answer does more than was asked for: ✓✓ in place of ✓."""
        return False

    @cached_property
    def may_change(self) -> set[str]:
        """The arguments that the solution changes."""
        return {name for outcome in self.outcomes(self.reference) for name in outcome.changed}

    @cached_property
    def wrong_outcomes(self) -> list[tuple[Mistake, list[Outcome]]]:
        """Each mistake with what it does in each case; of the shared ones, and of those in solutions that
        are written otherwise, those that nothing else does.
        """
        found = [(mistake, self.outcomes(mistake.answer)) for mistake in self.mistakes]
        known = [self.outcomes(self.reference), *(outcomes for _, outcomes in found)]
        for mistake in [*self.shared, *self.mistakes_otherwise]:
            outcomes = self.outcomes(mistake.answer)
            if not any(alike(self.comparison, outcomes, other) for other in known):
                found.append((mistake, outcomes))
                known.append(outcomes)  # of two that do the same the first
        return found


class FunctionExercise(Exercise):
    """The learner writes a function. Its arguments may have other names, except `keyword_arguments`."""

    kind = "a function"

    def accepts(self, answer: Any) -> bool:
        return callable(answer)

    def misnamed(self, answer: Any) -> tuple[str, str] | None:
        name = first_unknown(answer, self.keyword_arguments)
        return name and ("your function", name)


class ModuleExercise(Exercise):
    """The learner writes an `nn.Module`: built with a case's settings, given seeded parameters, called."""

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
        """A module that has the right arguments."""
        with isolated():
            return self.build(self.reference, self.fresh_cases()[0][0])

    def build(self, answer: type[nn.Module], settings: dict[str, Any]) -> nn.Module:
        """The module that a case asks for."""
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
    """The learner assigns a value; the solution is a function of no arguments that returns it.

    stub: where it's not `...` for every literal of the solution
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
