"""The checker's engine: how an exercise is declared, an attempt run, compared, diagnosed and answered."""

from transformer_course.checker.declaring import exercise, killing_test, value_exercise
from transformer_course.checker.judging import judge
from transformer_course.checker.kinds import Exercise

__all__ = ["Exercise", "exercise", "judge", "killing_test", "value_exercise"]
