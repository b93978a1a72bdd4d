"""Exercises of lesson 00. The first one is easy on purpose: it shows how the checker speaks."""

from transformer_course.checker import exercise
from transformer_course.checker.exercise_types import ValueExercise


@exercise("00.1", kind=ValueExercise)
def d_head():
    return 384 // 12
