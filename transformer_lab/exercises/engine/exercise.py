"""An exercise: its texts, its cases, its truth, its bank of mistakes, and how an answer to it is run."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import torch
from torch import nn

from transformer_lab.exercises.engine import source
from transformer_lab.exercises.engine.parameters import set_parameters
from transformer_lab.exercises.engine.run import Outcome, isolated, observe


@dataclass(frozen=True, eq=False)
class Mistake:
    """A wrong answer that people give: its name, what to tell them, and the wrong answer itself."""

    name: str
    diagnosis: str
    answer: Any


class Exercise:
    """What all exercises share. A subclass says what an answer looks like and how it is called.

    returns: the names of the results, where there are several
    without: torch functions that must not do the work
    by_name: arguments of a module's `forward` that other code hands over by name
    tolerance: absolute and relative
    """

    kind: str  # what an answer is, in words

    def __init__(
        self,
        id: str,
        title: str,
        name: str,
        stub: str,
        hints: Sequence[str],
        *,
        returns: Sequence[str] = (),
        without: Sequence[str] = (),
        by_name: Sequence[str] = (),
        tolerance: float = 1e-9,
    ):
        self.id, self.title, self.name, self.stub = id, title, name, stub
        self.hints = [_one_line(hint) for hint in hints]
        self.returns, self.without, self.tolerance = returns, frozenset(without), tolerance
        self.by_name = by_name
        self.alternatives: list[Any] = []
        self.mistakes: list[Mistake] = []

    def cases(self, make: Callable[[Callable], Iterator[Any]]) -> Self:
        """The inputs to try; `normal(*shape)` draws seeded float64. Distinct primes tell the axes apart."""
        self._make_cases = make
        return self

    def specification(self, answer: Any) -> Self:
        """The truth, in plain loops."""
        self.specified = answer
        return self

    def solution(self, answer: Any) -> Self:
        """The answer that the notebook shows, and that is handed out until the learner's own is right."""
        self.reference, self.shown = answer, source.text_of(answer)
        return self

    def alternative(self, answer: Any) -> Self:
        """Another right answer, written differently: the tests prove that it is accepted."""
        self.alternatives.append(answer)
        return self

    def mistake(self, name: str, diagnosis: str, *answers: Any) -> Callable[[Any], Self]:
        """Wrong answers that share a diagnosis: what they do, why that matters, what to change."""

        def declare(answer: Any) -> Self:
            self.mistakes.append(Mistake(name, _one_line(diagnosis), answer))
            return self

        for answer in answers:
            declare(answer)
        return declare

    def accepts(self, answer: Any) -> bool:
        """Whether the answer is of a kind that can be run at all."""
        raise NotImplementedError

    def call(self, answer: Any, case: Any) -> Any:
        """The answer's result in one case."""
        raise NotImplementedError

    def misnamed(self, answer: Any) -> str | None:
        """An argument that the answer does not take by its name, although other code uses it."""
        if not self.by_name:
            return None
        arguments = inspect.signature(answer.forward).parameters
        takes_any = any(argument.kind == argument.VAR_KEYWORD for argument in arguments.values())
        return next((name for name in self.by_name if not takes_any and name not in arguments), None)

    def inputs(self, case: Any) -> dict[str, Any]:
        """The named inputs of one case."""
        return case

    def describe(self, case: Any) -> str:
        """The case in words: a tensor by its shape, anything else by its value."""
        return ", ".join(_in_words(name, value) for name, value in self.inputs(case).items())

    def fresh_cases(self) -> list[Any]:
        """All cases, built anew, so that no answer sees what another has done to its inputs."""
        generator = torch.Generator().manual_seed(0)
        with isolated():
            return list(self._make_cases(lambda *shape: torch.randn(shape, generator=generator)))

    def outcomes(self, answer: Any) -> list[Outcome]:
        """What the answer does in each case."""
        return [
            observe(lambda case=case: self.call(answer, case), self.inputs(case), before=self.inputs(same))
            for case, same in zip(self.fresh_cases(), self.fresh_cases(), strict=True)
        ]

    @cached_property
    def wanted(self) -> list[Any]:
        """The specification's result in each case, which finds the same random numbers as an answer does."""
        results = []
        for case in self.fresh_cases():
            with isolated():
                results.append(self.call(self.specified, case))
        return results

    @cached_property
    def wrong_outcomes(self) -> list[tuple[Mistake, list[Outcome]]]:
        """Each mistake of the bank with what it does in each case."""
        return [(mistake, self.outcomes(mistake.answer)) for mistake in self.mistakes]


class FunctionExercise(Exercise):
    """The learner writes a function. It is called by position: its arguments may bear other names."""

    kind = "a function"

    def accepts(self, answer: Any) -> bool:
        return callable(answer)

    def call(self, answer: Callable, case: dict[str, Any]) -> Any:
        return answer(*case.values())


class ModuleExercise(Exercise):
    """The learner writes an `nn.Module`: built with a case's settings, given seeded parameters, called."""

    kind = "a class derived from nn.Module"

    def accepts(self, answer: Any) -> bool:
        return isinstance(answer, type) and issubclass(answer, nn.Module)

    def call(self, answer: type[nn.Module], case: tuple[dict, dict]) -> Any:
        settings, inputs = case
        module = answer(*settings.values())
        set_parameters(module, like=self.specified(*settings.values()))
        return module.eval()(*inputs.values())

    def inputs(self, case: tuple[dict, dict]) -> dict[str, Any]:
        return case[1]

    def describe(self, case: tuple[dict, dict]) -> str:
        settings = ", ".join(f"{name}={value}" for name, value in case[0].items())
        return f"{self.name}({settings}) called with {super().describe(case)}"


class ValueExercise(Exercise):
    """The learner assigns a value. Specification and alternatives are functions that return one."""

    kind = "a value"

    def accepts(self, answer: Any) -> bool:
        return True

    def call(self, answer: Any, case: dict[str, Any]) -> Any:
        return answer

    def fresh_cases(self) -> list[Any]:
        return [{}]

    def specification(self, answer: Callable[[], Any]) -> Self:
        return super().specification(answer())

    def alternative(self, answer: Callable[[], Any]) -> Self:
        return super().alternative(answer())


def _one_line(text: str) -> str:
    """Prose declared over several indented lines."""
    return " ".join(text.split())


def _in_words(name: str, value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{name} = {value}"
    words = f"{name} {tuple(value.shape)}"
    if value.dtype == torch.bool or value.numel() == 0 or value.abs().max() <= 100:
        return words
    return f"{words} from {value.min():.0f} to {value.max():.0f}"
