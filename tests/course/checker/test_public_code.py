"""What public code showed: mistakes keep their names whatever else is written otherwise."""

from itertools import islice

import pytest
import torch

from transformer_course.checker import judge, mistake_guide, mistake_pairs, precision
from transformer_course.checker.verdict import CORRECT
from transformer_course.exercises import exercise_ids, find

OTHERWISE = [(id, text) for id in exercise_ids() for text in find(id).written_otherwise]
MERGED = "heads.transpose(1, 2).flatten(-2)"
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
        ("inverted mask", ("~may_attend", "may_attend")),
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
    assert verdict("07.2", ("1e-5", eps)).name == "wrong default eps"
    assert verdict("07.2", ("1e-5", eps), unbiased).name == "wrong default eps + unbiased variance"


def test_a_wrong_shape_behind_a_wrong_value_is_told():
    said = verdict(
        "05.4", ("self.output_projection(heads", "self.value_projection(heads"), (", weights", ", weights[0]")
    )
    assert (said.name, said.lines[0]) == (
        "wrong shape",
        "`weights` has shape (3, 5, 5), expected (2, 3, 5, 5).",
    )


def test_a_tensor_that_stays_behind_on_another_device_is_no_buffer():
    assert verdict("02.4", SECOND_TABLE, ("* self.frequency", "* self.omega")).name == "a copy of the buffer"
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
    assert "as with dropout" in judge(find("06.2"), feed_forward).lines[0]


FLOAT_ROOT = ("math.sqrt(self.d_head)", "torch.sqrt(torch.FloatTensor([self.d_head]))")
FLOAT_POSITIONS = ("torch.arange(length)[:, None]", "torch.arange(length).float()[:, None]")
NEIGHBOURS = [
    ("x.chunk(2, dim=-1)", "x[..., 0::2], x[..., 1::2]"),
    ("return torch.cat([", "return torch.stack(["),
    ("angle.cos()], dim=-1)", "angle.cos()], dim=-1).flatten(-2)"),
]


@pytest.mark.parametrize(
    ("id", "edits", "name"),
    [
        ("05.4", [FLOAT_ROOT], "computed in float32"),
        ("12.7", [("x.square()", "x.float().square()")], "computed in float32"),
        ("02.5", [("angle), angle)", "angle).float(), angle.float())")], "computed in float32"),
        # positions are exact in float32
        ("02.2", [*NEIGHBOURS, FLOAT_POSITIONS], "neighbours paired instead of halves"),
        (
            "02.2",
            [*NEIGHBOURS, (" * frequency", " * frequency.float()")],
            "neighbours paired instead of halves + computed in float32",
        ),
        ("08.1", [("math.sqrt(d_model)", "torch.FloatTensor([d_model]).sqrt() + 1e-8")], "wrong value"),
    ],
)
def test_float32_is_named_where_float64_in_its_place_explains_everything(id, edits, name):
    assert verdict(id, *edits).name == name


def test_an_input_in_float32_is_not_called_a_mistake():
    moved = verdict("01.5", ("offset)", "offset + 1)"))
    assert moved.name == "off by one"
    exercise = find("01.5")
    assert (
        precision.without_float32(exercise, exercise.reference, exercise.outcomes(exercise.reference)) is None
    )


@pytest.mark.parametrize(
    ("id", "name", "edits"),
    [
        (
            "05.4",
            "square root of the number of queries",
            [("math.sqrt(self.d_head)", "np.sqrt(query.shape[1])")],
        ),
        (
            "05.4",
            "causal mask applied by default",
            [
                (
                    "if may_attend is not None",
                    "if may_attend is None:\n"
                    "            scores = scores + torch.full_like(scores, -math.inf).triu(1)\n"
                    "        else",
                ),
            ],
        ),
        (
            "05.4",
            "projection biases missing",
            [
                (
                    "self.query_projection = nn.Linear(d_model, d_model",
                    "self.query_projection = nn.Linear(d_model, d_model, bias=False",
                )
            ],
        ),
        (
            "05.4",
            "heads merged by reshape alone + mask ignored",
            [
                ("transpose(1, 2).flatten(-2)", "contiguous().view(*query.shape)"),
                ("if may_attend is not None", "if False"),
            ],
        ),
        (
            "07.3",
            "padding vectors zeroed",
            [
                (
                    "return x, weights",
                    "return (x if may_attend is None else x * may_attend.flatten(1)[..., None]), weights",
                )
            ],
        ),
        (
            "08.3",
            "layer norms missing + token vectors scaled by √d_model",
            [
                ("self.embedding_norm(x)", "x"),
                ("self.final_norm(x)", "x"),
                (
                    "self.embedding(token_ids)",
                    "self.embedding(token_ids) * self.embedding.embedding_dim**0.5",
                ),
            ],
        ),
        (
            "03.2",
            "bmm needs exactly three axes",
            [("query @ key.mT", "torch.bmm(query, key.swapaxes(1, 2))")],
        ),
    ],
)
def test_what_twenty_more_public_implementations_do_has_a_name(id, name, edits):
    assert verdict(id, *edits).name == name


def test_a_parameter_too_many_is_told_with_the_layer_whose_it_is():
    inside = (
        "self.n_heads, self.d_head",
        "self.norm = nn.LayerNorm(d_model)\n        self.n_heads, self.d_head",
    )
    assert (
        verdict("05.4", inside).lines[0]
        == "`norm.weight` (6,) is one parameter too many, of an `nn.LayerNorm`."
    )


def test_parameters_of_another_shape_are_named_whatever_the_answer_computes():
    one_number = ("torch.ones(d_model)", "torch.ones(1)"), ("torch.zeros(d_model)", "torch.zeros(1)")
    unbiased = (
        "layer_norm(x, self.weight, self.bias, self.eps)",
        "self.weight * x / x.std(-1, keepdim=True)",
    )
    assert verdict("07.2", *one_number).name == "one value for all features"
    assert verdict("07.2", *one_number, unbiased).name == "one value for all features"
    no_bias = ("nn.Linear(d_model, d_head)", "nn.Linear(d_model, d_head, bias=False)")
    causal = ("return attention(query, key", "return attention(query.cumsum(-2), key")
    assert verdict("03.4", no_bias, causal).name == "projection biases missing"


SOFTMAX = [(" / math.sqrt(self.d_head)", ""), ("softmax(dim=-1)", "softmax(dim=-2)")]
MERGE = [("sqrt(self.d_head)", "sqrt(query.shape[-1])"), (MERGED, "heads.reshape(query.shape)")]
MASK = [(f"self.output_projection({MERGED})", MERGED), ("~may_attend", "may_attend")]


@pytest.mark.parametrize(
    ("name", "low", "edits"),
    [
        ("missing scale + softmax over the queries", "-math.inf", SOFTMAX),
        ("missing scale + softmax over the queries", "-1e20", SOFTMAX),
        ("divided by √d_model + heads merged by reshape alone", "-1e9", MERGE),
        ("output projection missing + inverted mask", "-1e9", MASK),
    ],
)
def test_two_mistakes_in_multi_head_attention_are_both_named(monkeypatch, name, low, edits):
    monkeypatch.setattr(mistake_pairs, "SECONDS", 60.0)  # this machine may be slow
    assert verdict("05.4", ("-math.inf", low), *edits).name == name


def test_a_module_that_is_not_set_up_is_told_so():
    answer = verdict("06.2", ("super().__init__()", "pass"))
    assert (answer.name, answer.cure) == ("super not called", "Begin `__init__` with `super().__init__()`.")


@pytest.mark.parametrize("id", ["03.4", "05.4"])
def test_one_layer_may_have_two_names_or_three(id):
    width = "d_head" if id == "03.4" else "d_model"
    right = f"self.key_projection = nn.Linear(d_model, {width})"
    answer = verdict(id, (right, "self.key_projection = self.query_projection"))
    assert answer.name == "one layer under several names"
    assert "two or" in answer.lines[0]


WRITTEN_OUT = {
    "01.5": """
class SinusoidalEncoding(nn.Module):
    def __init__(self, d_model, max_length):
        super().__init__()
        position = torch.arange(max_length).unsqueeze(1)
        div = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_length, d_model)
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.register_buffer("table", pe, persistent=False)

    def forward(self, x, offset=0):
        return x + self.table[offset : offset + x.size(1)]
""",
    "03.4": """
class SelfAttention(nn.Module):
    def __init__(self, d_model, d_head):
        super().__init__()
        for name in ("query", "key", "value"):
            setattr(self, f"{name}_projection", nn.Linear(d_model, d_head))

    def forward(self, x):
        q, k, v = self.query_projection(x), self.key_projection(x), self.value_projection(x)
        w = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1)
        return w @ v, w
""",
}


@pytest.mark.parametrize(
    ("id", "right", "wrong", "name"),
    [
        ("01.5", "0, d_model, 2)", "0, d_model, 2) * 2", "exponent 4i/d instead of 2i/d"),
        ("01.5", "arange(0, d_model, 2)", "arange(d_model // 2)", "exponent i/d instead of 2i/d"),
        ("01.5", "(-math", "(math", "wrong sign"),
        ("01.5", "d_model, 2)", "d_model, 2).float()", "computed in float32"),
        ("01.5", "arange(max_length)", "arange(1, max_length + 1)", "positions counted from 1"),
        ("01.5", "x.size(1)", "x.size(0)", "wrong number of rows"),
        ("03.4", " / math.sqrt(q.shape[-1])", "", "missing scale"),
        ("03.4", "math.sqrt(q.shape[-1])", "q.shape[-1]", "divided by d_head"),
        ("03.4", "dim=-1", "dim=-2", "softmax over the queries"),
        ("03.4", "dim=-1", "dim=1", "softmax over a fixed axis"),
        ("03.4", "k.transpose(-2, -1)", "k.T", "`.T` reverses all axes"),
        ("03.4", "q @ k.transpose(-2, -1)", "k @ q.transpose(-2, -1)", "query and key swapped"),
    ],
)
def test_a_mistake_keeps_its_name_where_an_earlier_exercise_is_written_out_again(id, right, wrong, name):
    text = WRITTEN_OUT[id]
    assert right in text
    assert judge(find(id), mistake_guide.answer(find(id), text)).state == CORRECT
    assert judge(find(id), mistake_guide.answer(find(id), text.replace(right, wrong))).name == name


def test_a_stream_may_be_read_by_the_dozen_and_not_as_a_whole():
    def attend(size):
        def streaming_attention(query, pairs):
            largest, total, output = torch.tensor(-torch.inf), 0, 0
            while chunk := list(islice(pairs, size)):
                keys, values = map(torch.stack, zip(*chunk, strict=True))
                scores = keys @ query / len(query) ** 0.5
                new = torch.maximum(largest, scores.max())
                weights, shrink = torch.exp(scores - new), torch.exp(largest - new)
                total = total * shrink + weights.sum()
                output, largest = output * shrink + weights @ values, new
            return output / total

        return streaming_attention

    assert judge(find("03.8"), attend(16)).state == CORRECT
    assert judge(find("03.8"), attend(None)).name == "whole stream stored"


def test_an_error_that_two_mistakes_raise_has_a_name_that_fits_both():
    slices = ("for head in self.heads:", "for head, x in zip(self.heads, x.chunk(len(self.heads), dim=-1)):")
    one_by_one = ("outputs.append(output)", "outputs.append(output)\n            x = output")
    for edit in (slices, one_by_one):
        assert verdict("05.1", edit).name == "head input isn't the full x"
    twice = ("for key, value in pairs:", "for _ in pairs: pass\n    for key, value in pairs:")
    floats = ("torch.exp(largest - new_largest)", "math.exp(largest - new_largest)")
    for edits in ([twice], [floats, ("total * correction", "total / correction")]):
        answer = verdict("03.8", *edits)
        assert answer.name == "division by zero"
        assert "Either nothing was added to the sums" in answer.lines[0]


def test_a_tensor_may_be_kept_where_only_what_came_in_has_buffers():
    """Rotary, which 12.1 is handed, has some; the window is for the answer to make, and may be made once."""
    head = "class ModernAttention"
    cached = (head, f"import functools\n\narange = functools.cache(torch.arange)\n\n\n{head}")
    assert verdict("12.1", cached, ("torch.arange(x.shape[1])", "arange(x.shape[1])")).state == CORRECT


def test_bmm_in_a_function_of_its_own_has_a_name():
    helper = """
def scaled(query, key, value):
    weights = (torch.bmm(query, key.transpose(1, 2)) / np.sqrt(query.size(-1))).softmax(dim=-1)
    return torch.bmm(weights, value), weights


"""
    text = helper + find("03.4").shown.replace("attention(query, key", "scaled(query, key")
    assert (
        judge(find("03.4"), mistake_guide.answer(find("03.4"), text)).name == "bmm needs exactly three axes"
    )
