"""The checker's engine: how an exercise is declared, an attempt run, compared, diagnosed and answered."""

from transformer_lab.course.checker.declaring import exercise, value_exercise
from transformer_lab.course.checker.judging import judge
from transformer_lab.course.checker.kinds import Exercise

__all__ = ["Exercise", "exercise", "judge", "value_exercise"]
