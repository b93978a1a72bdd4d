"""How a lesson's author declares an exercise. The stub comes first; every other part is hung on its name:

    @exercise("03.1", "Score every query against every key", hints=["Which product …?", "The last axis …"])
    def scores(query, key):
        '''Shapes in, shapes out.'''
        raise NotImplementedError

    @scores.cases
    def scores(normal):
        yield {"query": normal(3, 5), "key": normal(7, 5)}

    @scores.specification
    def scores(query, key): ...          # the truth: plain loops, never the package's answer

    @scores.solution
    def scores(query, key): ...          # what the notebook shows, word for word

    @scores.alternative
    def scores(query, key): ...          # right as well, written otherwise

    scores.mistake("no scale", "You do not divide … why it matters … what to change", lambda q, k: q @ k.mT)

Every decorator returns the exercise, as `@x.setter` does for a property, so one name serves for all parts.
A mistake that people write in several ways takes several answers; one of several lines is decorated:
`@scores.mistake("name", "diagnosis")`. Texts may run over indented lines; their white space is collapsed.
A stub that is a class makes an exercise about an `nn.Module`; its cases are pairs (settings, inputs).

A killing test is tried on suspects instead, and needs neither cases nor a specification:

    @mutation_exercise("14.4", "A causal mask that leaks", hints=["Whom may …?", "Change the last …"])
    def keeps_04(attend):
        '''True if no token hears a later one.'''
        raise NotImplementedError

    @keeps_04.suspects
    def keeps_04():          # called anew for each attempt
        return Mutants({"a mask": causal}, cut_with_view, twin=causal, others={"no mask at all": attend})

    @keeps_04.solution
    def keeps_04(attend): ...
"""

import ast
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from transformer_course.checker import source
from transformer_course.checker.exercise_types import (
    Exercise,
    FunctionExercise,
    ModuleExercise,
    ValueExercise,
)
from transformer_course.checker.mutation_testing import MutationExercise


def exercise(
    id: str, title: str, *, hints: Sequence[str], kind: type[Exercise] | None = None, **options
) -> Callable[[Any], Exercise]:
    """Declare an exercise whose stub is the decorated function or `nn.Module`; options as in `Exercise`."""

    def declare(stub: Any) -> Exercise:
        default = ModuleExercise if isinstance(stub, type) else FunctionExercise
        return (kind or default)(id, title, stub.__name__, source.text_of(stub), hints, **options)

    return declare


mutation_exercise = partial(exercise, kind=MutationExercise)


def value_exercise(
    id: str, title: str, *, stub: str, solution: str, hints: Sequence[str], **options
) -> ValueExercise:
    """Declare an exercise whose answer is a value; stub and solution are the text of the learner's cell."""
    name = ast.parse(stub).body[-1].targets[0].id
    declared = ValueExercise(id, title, name, stub, hints, **options)
    declared.shown, declared.reference = solution, source.run(solution)[name]
    return declared
