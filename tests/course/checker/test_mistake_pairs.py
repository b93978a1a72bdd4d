"""Two mistakes in one answer are both named, if no other pair explains the answer as well."""

import math
import time
from dataclasses import replace

import torch

from transformer_course.checker import exercise, judge, mistake_guide, mistake_pairs, time_limit
from transformer_course.checker.sandbox import Outcome


@exercise("96.1")
def attend(query, key, value):
    """Scaled dot-product attention."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1) @ value


@attend.cases
def attend_cases(normal):
    yield {"query": normal(3, 5), "key": normal(7, 5), "value": normal(7, 2)}
    yield {"query": normal(2, 3), "key": normal(5, 3), "value": normal(5, 7)}


GUIDE = """## 96.1 Attend

- **no scale.** The scores are too large. **Cure.** Divide them.
  - drop `/ math.sqrt(query.shape[-1])`
- **divided by the width.** The scores are too small. **Cure.** Take the root.
  - `math.sqrt(query.shape[-1])` → `query.shape[-1]`
- **softmax over the queries.** The columns add up to 1. **Cure.** Use `dim=-1`.
  - `dim=-1` → `dim=0`
- **values doubled.** Every value counts twice. **Cure.** Take each once.
  - `@ value` → `@ (2 * value)`
- **scores halved.** Every score is half. **Cure.** Leave them.
  - `scores.softmax` → `(scores / 2).softmax`
- **query doubled.** The query is doubled, in its place. **Cure.** Leave it.
  - `query @ key.mT` → `query.mul_(2) @ key.mT`
- **no softmax.** The weights may be negative. **Cure.** Take the softmax.
  - `(query @ key.mT) @ value`
"""
mistake_guide.attach({"96.1": attend}, mistake_guide.read(GUIDE), [], {"math": math})


def test_both_mistakes_are_named():
    for _ in range(2):  # among the pairs tried is one that writes into the case
        verdict = judge(attend, lambda q, k, v: (q @ k.mT).softmax(0) @ v)
        assert verdict.name == "no scale + softmax over the queries"
        assert verdict.lines[0] == "Your answer contains two mistakes:"
        assert verdict.lines[1:3] == ("The scores are too large.", "The columns add up to 1.")
        assert verdict.cure == "Divide them. Use `dim=-1`."


def test_a_shared_mistake_has_the_guide_s_name_where_both_make_the_same_program():
    shared = mistake_guide.Entry(
        "no root", "Too large.", "Take it.", [(mistake_guide.Change("math.sqrt", ""),)]
    )
    mistake_guide._try(attend, shared)
    mistake_pairs.pairs.cache_clear()
    verdict = judge(attend, lambda q, k, v: (q @ k.mT / q.shape[-1]).softmax(0) @ v)
    attend.shared.clear()
    mistake_pairs.pairs.cache_clear()
    assert verdict.name == "divided by the width + softmax over the queries"


def test_of_several_pairs_none_is_named(monkeypatch):
    (one, code), (other, _) = mistake_pairs.pairs(attend)[:2]
    answer = mistake_guide.answer(attend, code)
    monkeypatch.setattr(mistake_pairs, "pairs", lambda exercise: [(one, code), (one, code)])
    assert judge(attend, answer).name == " + ".join(mistake.name for mistake in one)
    monkeypatch.setattr(mistake_pairs, "pairs", lambda exercise: [(one, code), (other, code)])
    assert judge(attend, answer).name in ("wrong value", "wrong shape")


@exercise("96.3")
def hide(scores, value, hidden):
    """Zeros are no scores: hidden ones are very low."""
    weights = (scores / 2).masked_fill(hidden, -math.inf).softmax(dim=-1)
    return weights @ value


@hide.cases
def hide_cases(normal):
    yield {"scores": normal(3, 5), "value": normal(5, 7), "hidden": torch.zeros(3, 5, dtype=torch.bool)}
    yield {"scores": normal(3, 5), "value": normal(5, 7), "hidden": torch.arange(5).expand(3, 5) > 2}


HIDING = """## 96.3 Hide

= `-math.inf` → `-1e9`

- **not halved.** The scores are too large. **Cure.** Halve them.
  - `(scores / 2)` → `scores`
- **softmax over the queries.** The columns add up to 1. **Cure.** Use `dim=-1`.
  - `dim=-1` → `dim=0`
- **values doubled.** Every value counts twice. **Cure.** Take each once.
  - `@ value` → `@ (2 * value)`
"""
mistake_guide.attach({"96.3": hide}, mistake_guide.read(HIDING), [], {"math": math})


def test_a_pair_is_known_in_a_solution_that_is_written_otherwise():
    """A column of −∞ makes NaN of a softmax over the queries, one of −1e9 does not."""

    def attempt(scores, value, hidden, low=-math.inf):
        return scores.masked_fill(hidden, low).softmax(0) @ value

    for low in (-math.inf, -1e9):
        verdict = judge(hide, lambda scores, value, hidden, low=low: attempt(scores, value, hidden, low))
        assert verdict.name == "not halved + softmax over the queries"


@exercise("96.2")
def count(n, d):
    return n * d + d


@count.cases
def count_cases(normal):
    for n, d in ((2, 3), (5, 7), (11, 13)):
        yield {"n": n, "d": d}


IN_COUNTING = """## 96.2 Count the numbers

- **rows twice.** Each row counts twice. **Cure.** Once.
  - `n * d` → `2 * n * d`
- **bias three times.** The bias counts three times. **Cure.** Add it once.
  - `+ d` → `+ 3 * d`
"""
mistake_guide.attach({"96.2": count}, mistake_guide.read(IN_COUNTING), [], {})


def test_a_count_may_have_come_about_in_another_way_than_by_two_mistakes():
    verdict = judge(count, lambda n, d: (2 * n + 3) * d)
    assert verdict.name == "wrong value"
    assert verdict.lines[1] == (
        'Two mistakes together would give exactly this number: "rows twice" and "bias three times". '
        "Is that the cause?"
    )
    assert verdict.cure == "Once. Add it once."


def test_no_pair_is_named_if_not_all_could_be_tried(monkeypatch):
    pair, code = mistake_pairs.pairs(attend)[0]
    outcomes = attend.outcomes(mistake_guide.answer(attend, code))
    assert mistake_pairs.explanation(attend, outcomes) == pair
    with monkeypatch.context() as context:
        context.setattr(mistake_pairs, "SECONDS", 0.0)
        assert mistake_pairs.explanation(attend, outcomes) is None
    loop = compile("def attend(query, key, value):\n    while True: pass", "", "exec")
    monkeypatch.setattr(mistake_pairs, "pairs", lambda exercise: [(pair, loop)])
    monkeypatch.setattr(time_limit, "SECONDS", 0.1)
    assert mistake_pairs.explanation(attend, outcomes) is None


def test_of_several_pairs_the_one_is_named_whose_changes_all_others_have():
    scale, softmax = (mistake_guide.Change(right, "") for right in ("/ math.sqrt", "softmax"))
    one, other, both = (
        replace(attend.mistakes[0], changes=c) for c in ((scale,), (softmax,), (scale, softmax))
    )
    assert mistake_pairs._simplest([(one, both), (one, other)]) == (one, both)
    assert mistake_pairs._simplest([(one, one), (other, other)]) is None
    assert mistake_pairs._simplest([(other, both), (one, one)]) == (one, one)
    assert mistake_pairs._simplest([]) is None


def test_the_time_for_preparing_the_pairs_does_not_count(monkeypatch):
    found = mistake_pairs.pairs(attend)
    outcomes = attend.outcomes(mistake_guide.answer(attend, found[0][1]))

    def slowly(exercise):
        begin = time.process_time()
        while time.process_time() < begin + 0.4:
            pass
        return found[:1]

    monkeypatch.setattr(mistake_pairs, "SECONDS", 0.3)
    monkeypatch.setattr(mistake_pairs, "pairs", slowly)
    assert mistake_pairs.explanation(attend, outcomes) == found[0][0]


def test_a_pair_may_fail_where_the_answer_fails_too(monkeypatch):
    """The first case is only wrong, the second raises an error: of the same words."""

    def code(second):
        weights = f"(scores.softmax(dim=0) if len(query) == 3 else {second})"
        return compile(attend.shown.replace("scores.softmax(dim=-1)", weights), "", "exec")

    pair, _ = mistake_pairs.pairs(attend)[0]
    monkeypatch.setattr(mistake_pairs, "pairs", lambda exercise: [(pair, code("query @ query"))])
    assert " + " in judge(attend, mistake_guide.answer(attend, code("query @ query"))).name
    assert " + " not in judge(attend, mistake_guide.answer(attend, code("key @ key"))).name


def test_truth_values_are_too_few_to_tell_pairs_apart(monkeypatch):
    pair, code = mistake_pairs.pairs(attend)[0]
    monkeypatch.setattr(mistake_pairs, "pairs", lambda exercise: [(pair, code)])
    monkeypatch.setattr(mistake_pairs, "_agreements", lambda exercise, code, cases, outcomes: len(cases))
    for result, found in [(True, None), (("B", "C"), None), ({"a": 2, "b": 0.3}, pair)]:
        assert mistake_pairs.explanation(attend, [Outcome(result, None)]) == found
