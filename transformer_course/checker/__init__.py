"""The checker's engine: how an exercise is declared, an attempt run, compared, diagnosed and answered."""

from transformer_course.checker.decorators import exercise
from transformer_course.checker.exercise_types import Exercise
from transformer_course.checker.grading import judge

__all__ = ["Exercise", "exercise", "judge"]
