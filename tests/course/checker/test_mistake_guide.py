"""A guide is read as it stands, and its changes are applied to the text that they name, once."""

import pytest
import torch

from transformer_course.checker import exercise, mistake_guide
from transformer_course.checker.mistake_guide import Change, Entry

GUIDE = """# Mistakes

## 97.1 Weigh

- **no scale.** You do not divide. **Cure.** Divide by `math.sqrt(width)`.
  - drop `/ width`
  - `width` → `2` or `3`, `scores` → `raw`
- **another sum.** You add along the rows.
  ```python
  def weigh(scores):
      return scores.sum(0)
  ```
- **nothing.**
"""


def test_a_guide_is_read_as_it_stands():
    (scale, another, nothing) = mistake_guide.read(GUIDE)["97.1"].entries
    assert (scale.effect, scale.cure) == ("You do not divide.", "Divide by `math.sqrt(width)`.")
    assert scale.answers == [
        (Change("/ width", ""),),
        (Change("width", "2"), Change("scores", "raw")),
        (Change("width", "3"), Change("scores", "raw")),
    ]
    assert another.blocks == ["def weigh(scores):\n    return scores.sum(0)"]
    assert nothing == Entry("nothing")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("  - a → b", "an item must be a change, such as `right` → `wrong`, got 'a → b'"),
        ("  - `a` → `b` and more", "an item must be a change"),
        ("- **no stop** Text", "a line must be .* got '- "),
    ],
)
def test_refuses_what_would_be_lost(line, told):
    with pytest.raises(ValueError, match=told):
        mistake_guide.read(f"## 97.1 x\n- **name.** Text.\n{line}\n")


SOLUTION = "def f(x, dim):\n    if dim:\n        x = x - x.max()\n    return x.sum(dim)\n"


@pytest.mark.parametrize(
    ("item", "wanted"),
    [
        ("- drop `- x.max()`", "        x = x \n"),
        ("- `x.max()` → `dim` or `0`", "        x = x - dim\n"),
        ("- `x - x.max()` → nothing", "        x = \n"),
        ("- `dim` → `axis` everywhere", "    if axis:\n"),
        ("- `x = x - x.max()` → `y = x ⏎ if y: ⏎     x = y`", "        if y:\n            x = y\n"),
        ("- `if dim: ⏎ x = x - x.max()` → `pass`", "    pass\n    return"),
        ("- `2 * x`", "    return 2 * x"),
    ],
)
def test_a_change_is_made_where_its_text_stands(item, wanted):
    first, *_ = mistake_guide.read(f"## 97.1 x\n- **name.** Text.\n  {item}\n")["97.1"].entries[0].answers
    assert wanted in mistake_guide.changed(SOLUTION, first)


@pytest.mark.parametrize("right", ["dim", "xx", "su", "return x.sum(dim) ⏎ x"])
def test_a_text_that_stands_nowhere_or_twice_or_within_a_word_is_not_changed(right):
    assert Change(right, "y").of(SOLUTION) is None


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
        ("## 97.1 x\n- **name.** Text.\n", "97.1, 'name', has not an answer"),
        ("## 97.1 x\n- **name.**\n  - drop `/ total`\n", "97.1, 'name', has not a text"),
        ("## 97.1 x\n- **name.** Text.\n  - drop `gone`\n", "must have 'gone' once, got it 0 times"),
    ],
)
def test_a_guide_that_does_not_fit_is_refused(guide, message):
    weigh.mistakes, weigh.shared = [], []
    with pytest.raises(ValueError, match=message):
        mistake_guide.attach({"97.1": weigh}, mistake_guide.read(guide), [], {"torch": torch})
