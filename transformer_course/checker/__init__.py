"""Declare exercises, run answers to them, compare the results, and name the mistakes."""

from transformer_course.checker.decorators import exercise
from transformer_course.checker.exercise_types import Exercise
from transformer_course.checker.grading import judge

__all__ = ["Exercise", "exercise", "judge"]
