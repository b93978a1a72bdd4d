"""An exercise gets the mistakes of its guide; an item or a text that does not fit is refused."""

import pytest
import torch

from transformer_course.checker import exercise, mistake_guide
from transformer_course.checker.mistake_guide import Change, Entry


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("  - a → b", "an item must be a change, such as `right` → `wrong`, got 'a → b'"),
        ("  - `a` → `b`, and more", "an item must be a change"),
        ("- **no stop** Text", "a line must be .* got '- "),
    ],
)
def test_refuses_what_would_be_lost(line, told):
    with pytest.raises(ValueError, match=told):
        mistake_guide.read(f"## 97.1 x\n- **name.** Text.\n{line}\n")


@exercise("97.1")
def weigh(scores):
    """(rows, columns) → the share of each"""
    total = scores.sum(dim=-1, keepdim=True)
    return scores / total


@weigh.cases
def weigh_cases(normal):
    yield {"scores": normal(3, 5).abs()}


OF_WEIGH = """## 97.1 Weigh

> Which axis?
> The last one.

- **along the columns.** You add along the columns.
  - `dim=-1` → `dim=0`
  - `right(scores.mT).mT`
- **in python only.** You take one away.
  ```python
  def weigh(scores):
      return scores - 1
  ```
- **shared text.**
  - `scores / total` → `total / scores`
"""
SHARED = [
    Entry("shared text", "You divide the wrong way round.", "Swap them."),
    Entry("keepdim forgotten", "The axis is gone.", "Keep it.", [(Change(", keepdim=True", ""),)]),
    Entry("not here", "It does not fit.", "", [(Change("softmax", "exp"),)]),
]


def test_an_exercise_gets_the_mistakes_of_its_guide_and_the_shared_ones_whose_text_it_has():
    weigh.mistakes, weigh.shared = [], []
    mistake_guide.attach({"97.1": weigh}, mistake_guide.read(OF_WEIGH), SHARED, {"torch": torch})
    names = ["along the columns", "along the columns", "in python only", "shared text"]
    assert [mistake.name for mistake in weigh.mistakes] == names
    assert (weigh.title, weigh.hints) == ("Weigh", ["Which axis?", "The last one."])
    assert weigh.mistakes[3].effect == "You divide the wrong way round."
    scores = torch.tensor([[1.0, 3.0], [4.0, 2.0]])
    for mistake in weigh.mistakes[:2]:
        assert mistake.answer(scores).equal(scores / torch.tensor([5.0, 5.0]))
    assert [mistake.name for mistake in weigh.shared] == ["keepdim forgotten"]


@pytest.mark.parametrize(
    ("guide", "message"),
    [
        ("## 97.1 x\n## 97.9 x\n", "97.9 is in the guide only; the exercises are 97.1"),
        ("# 97.1 x\n", "97.1 is among the exercises only; the exercises are 97.1"),
        ("## 97.1 x\n- **name.** Text.\n", "97.1, 'name', lacks an answer"),
        ("## 97.1 x\n- **name.**\n  - drop `/ total`\n", "97.1, 'name', lacks a text"),
        ("## 97.1 x\n- **name.** Text.\n  - drop `gone`\n", "must have 'gone' once, got it 0 times"),
        ("## 97.1 x\n- **name.** Text.\n  - drop `scores`\n", "must have 'scores' once, got it 3 times"),
        ("## 97.1 x\n- **name.** Text.\n  - drop `score`\n", "must have 'score' once, got it 0 times"),
        (
            "## 97.1 x\n- **name.** Text.\n  - drop `cores / total`\n",
            "must have 'cores / total' once, got it 0",
        ),
    ],
)
def test_a_guide_that_does_not_fit_is_refused(guide, message):
    weigh.mistakes, weigh.shared = [], []
    with pytest.raises(ValueError, match=message):
        mistake_guide.attach({"97.1": weigh}, mistake_guide.read(guide), [], {"torch": torch})
