"""How a lesson's author declares an exercise: one function or class, which is the solution.

    @exercise("03.1", forbidden=["einsum"])
    def scores(query, key):
        '''How well each key answers each query: shapes in, shapes out.'''
        return query @ key.mT

    @scores.cases
    def scores_cases(normal):
        yield {"query": normal(3, 5), "key": normal(7, 5)}

The learner's stub is derived from it: signature and docstring, and `raise NotImplementedError` for the body.
Where some lines are given, `# yours:` says where the learner's part begins (`source.stub_of`). Title, hints
and mistakes stand in NAME.md, see `mistake_guide`; other right answers in `tests/course/answers/NAME.py`. A
class declares an exercise about an `nn.Module`; its cases are pairs (settings, inputs).

A value is what a function of no arguments returns; the learner assigns it to the function's name:

    @exercise("00.1", kind=ValueExercise)
    def d_head():
        return 384 // 12

A test that the learner writes is tried on mutants, and needs no cases:

    @exercise("14.4", kind=MutationExercise)
    def keeps_04(attend):
        '''True if no token hears a later one.'''
        ...

    @keeps_04.mutants
    def keeps_04_mutants():  # called anew for each attempt
        return Mutants(correct={"a mask": causal}, target=cut_with_view, reference=causal)
"""

from collections.abc import Callable
from typing import Any

from transformer_course.checker.exercise_types import Exercise, FunctionExercise, ModuleExercise


def exercise(id: str, *, kind: type[Exercise] | None = None, **options: Any) -> Callable[[Any], Exercise]:
    """Declare an exercise by its solution, a function or an `nn.Module`; options as in `Exercise`."""

    def declare(solution: Any) -> Exercise:
        usual = ModuleExercise if isinstance(solution, type) else FunctionExercise
        return (kind or usual)(id, solution, **options)

    return declare
