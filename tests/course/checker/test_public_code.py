"""What public code showed: mistakes keep their names whatever else is written otherwise."""

import pytest

from transformer_course.checker import judge, mistake_guide
from transformer_course.checker.verdict import CORRECT
from transformer_course.exercises import exercise_ids, find

OTHERWISE = [(id, text) for id in exercise_ids() for text in find(id).written_otherwise]
SECOND_TABLE = ("persistent=False)", "persistent=False)\n        self.omega = frequency")


def verdict(id, *edits):
    """On the solution with some of its text replaced."""
    text = find(id).shown
    for right, wrong in edits:
        assert right in text
        text = text.replace(right, wrong)
    return judge(find(id), mistake_guide.answer(find(id), text))


@pytest.mark.parametrize(("id", "text"), OTHERWISE)
def test_the_other_ways_of_writing_a_solution_are_right(id, text):
    assert judge(find(id), mistake_guide.answer(find(id), text)).state == CORRECT


@pytest.mark.parametrize("hide", ["masked_fill({}, -1e20)", "masked_fill({}, -1e4)", "add(({}) * -1e4)"])
@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("mask upside down", ("~may_attend", "may_attend")),
        ("softmax over the queries", ("softmax(dim=-1)", "softmax(dim=-2)")),
        ("softmax over the heads", ("softmax(dim=-1)", "softmax(dim=1)")),
    ],
)
def test_a_mistake_about_masks_or_softmax_keeps_its_name_whatever_hides_a_score(hide, name, edit):
    other_way = ("masked_fill(~may_attend, -math.inf)", hide.format("~may_attend"))
    assert verdict("05.4", other_way).state == CORRECT
    assert verdict("05.4", other_way, edit).name == name


@pytest.mark.parametrize("eps", ["1e-6", "1e-12"])
def test_another_default_eps_has_a_name_and_hides_no_other_mistake(eps):
    unbiased = (
        "layer_norm(x, self.weight, self.bias, self.eps)",
        "(x - x.mean(-1, True)) / (x.var(-1, keepdim=True) + self.eps).sqrt() * self.weight + self.bias",
    )
    assert verdict("07.2", ("1e-5", eps)).name == "another default eps"
    assert verdict("07.2", ("1e-5", eps), unbiased).name == "another default eps + unbiased variance"


def test_a_wrong_shape_behind_a_wrong_value_is_told():
    said = verdict(
        "05.4", ("self.output_projection(heads", "self.value_projection(heads"), (", weights", ", weights[0]")
    )
    assert (said.name, said.lines[0]) == (
        "wrong shape",
        "`weights` has shape (3, 5, 5), wanted (2, 3, 5, 5).",
    )


def test_a_tensor_that_stays_behind_on_another_device_is_no_buffer():
    assert (
        verdict("02.4", SECOND_TABLE, ("* self.frequency", "* self.omega")).name == "a copy beside the buffer"
    )
    moved = ("* self.frequency", "* self.omega.to(x.device)")
    assert verdict("02.4", SECOND_TABLE, moved).state == CORRECT
    assert verdict("02.4", (", device=x.device", "")).state == CORRECT  # the task does not ask for a device


WITH_DROPOUT = """
class FeedForward(right):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return DROPPED
"""


@pytest.mark.parametrize(
    "dropped", ["self.dropout(super().forward(x))", "F.dropout(super().forward(x), 0.1, self.training)"]
)
def test_dropout_that_nobody_asked_for_is_called_dropout(dropped):
    feed_forward = mistake_guide.answer(find("06.2"), WITH_DROPOUT.replace("DROPPED", dropped))
    assert "as dropout does" in judge(find("06.2"), feed_forward).lines[0]
