"""Declare an exercise by its solution, which is one function or class.

    @exercise("03.1", forbidden=["einsum"])
    def scores(query, key):
        '''How well each key answers each query: shapes in, shapes out.'''
        return query @ key.mT

    @scores.cases
    def scores_cases(normal):
        yield {"query": normal(3, 5), "key": normal(7, 5)}

The learner's stub is derived from the solution: it keeps the signature and the docstring, and its body is
`raise NotImplementedError`. If some lines are given, `# yours:` marks where the learner's part begins (see
`source.stub_of`). Title, hints and mistakes are in NAME.md (see `mistake_guide`), and other correct answers
in `tests/course/answers/NAME.py`. A class declares an exercise about an `nn.Module`; its cases are pairs
(settings, inputs).

If the answer is a value, the solution is a function without arguments that returns it. The learner assigns
the value to the function's name:

    @exercise("00.1", kind=ValueExercise)
    def d_head():
        return 384 // 12

If the answer is a test, it is run on mutants, and the exercise needs no cases:

    @exercise("14.4", kind=MutationExercise)
    def keeps_04(attend):
        '''True if no token attends to a later one.'''
        ...

    @keeps_04.mutants
    def keeps_04_mutants():  # called again for each attempt
        return Mutants(correct={"a mask": causal}, target=cut_with_view, reference=causal)
"""

from collections.abc import Callable
from typing import Any

from transformer_course.checker.exercise_types import Exercise, FunctionExercise, ModuleExercise


def exercise(id: str, *, kind: type[Exercise] | None = None, **options: Any) -> Callable[[Any], Exercise]:
    """Declare an exercise by its solution, a function or an `nn.Module`; for the options see `Exercise`."""

    def declare(solution: Any) -> Exercise:
        usual = ModuleExercise if isinstance(solution, type) else FunctionExercise
        return (kind or usual)(id, solution, **options)

    return declare
