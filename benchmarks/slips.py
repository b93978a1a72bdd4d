"""How many pairs of slips does the checker tell apart? `python -m benchmarks.slips [pairs per exercise]`

Of each exercise some pairs of changes are drawn and tried as a learner's answer. Printed by lesson: how many
were named both; how many by the one that is certain; not at all; wrongly; how many are no pair to the eye,
because one slip alone does the same, or raise an error, which is told by its line; and the slowest.
"""

import random
import sys
import time
from collections import Counter
from itertools import groupby

from transformer_course.checker import mistake_pairs
from transformer_course.checker.exercise_types import Exercise
from transformer_course.checker.grading import recognised
from transformer_course.checker.sandbox import alike
from transformer_course.exercises import exercise_ids, find

KINDS = ("both", "one", "none", "wrong", "single", "error")


def verdicts(exercise: Exercise, count: int) -> tuple[Counter, float]:
    """Return how often each kind came out of so many pairs, and the longest search in seconds."""
    known = mistake_pairs.pairs(exercise)
    sample = random.Random(0).sample(known, min(count, len(known)))
    right = exercise.outcomes(exercise.reference)
    found, slowest = Counter(), 0.0
    for pair, code in sample:
        outcomes = exercise.outcomes(mistake_pairs.answer_of(exercise, code))
        begin = time.process_time()
        named = {mistake.name for mistake in mistake_pairs.explaining(exercise, outcomes)}
        slowest = max(slowest, time.process_time() - begin)
        found[_kind(exercise, outcomes, right, named, {mistake.name for mistake in pair})] += 1
    return found, slowest


def _kind(exercise: Exercise, outcomes: list, right: list, named: set[str], made: set[str]) -> str:
    if any(outcome.error for outcome in outcomes):
        return "error"
    if recognised(exercise, outcomes) or alike(exercise.comparison, outcomes, right):
        return "single"
    if not named:
        return "none"
    return "both" if named == made else "one" if named < made else "wrong"


def main(count: int) -> None:
    print("lesson ", *(f"{kind:>7}" for kind in KINDS), " slowest")
    total: Counter = Counter()
    for lesson, ids in groupby(exercise_ids(), key=lambda id: id[:2]):
        pairs = [verdicts(find(id), count) for id in ids]
        found = sum((each for each, _ in pairs), Counter())
        total += found
        slowest = max(seconds for _, seconds in pairs)
        print(f"{lesson:7}", *(f"{found[kind]:7}" for kind in KINDS), f"{slowest:6.2f} s", flush=True)
    print("all    ", *(f"{total[kind]:7}" for kind in KINDS))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
