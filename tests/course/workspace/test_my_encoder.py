"""The learner's own encoder in one file: their answers as written, and reference solutions for the rest."""

import re

import pytest
import torch

from transformer_course import exercises
from transformer_course.exercises import PARTS, find
from transformer_course.workspace import atomic_files, my_encoder, saved_answers
from transformer_lab.pretrained_encoder import load_minilm

HIDE = '''\
# Padding has the id 0.
def other(ids):
    return ids.ne(0)


def hide_padding(token_ids, pad_id):
    """Mine."""
    seen = torch.logical_not(token_ids == pad_id)  # my own comment
    return seen[:, None, None]
'''
HIDING = "def hide_padding(token_ids, pad_id):\n    return helper(token_ids, pad_id)[:, None, None]"
LAYER = find("07.3").shown.replace("self.attention(x", "helper(self.attention, x")
HELPER = "def helper(part, *given, **named):\n    return part(*given, **named)\n"
NAMED_OTHERWISE = (  # the norms; a right answer may do so
    find("08.3")
    .shown.replace("embedding_norm, final_norm):", "entrance, end):")
    .replace("= embedding_norm, final_norm", "= entrance, end")
)


def page():
    return (atomic_files.WORKSPACE / "my_encoder.py").read_text(encoding="utf-8")


@pytest.fixture
def solve(notebook):
    def run(id, *cells):
        name = find(id).name
        notebook.run(*cells, f'{name} = check("{id}", {name})')

    return run


def test_made_of_the_references_parts_it_is_minilm():
    encoder, tokenizer = exercises.my_encoder().minilm()
    published, _ = load_minilm()
    batch = tokenizer(["The old cat met the young cat.", "Dog bites man."])
    ours, maps = encoder.double()(batch.token_ids, batch.may_attend)
    theirs, their_maps = published.double()(batch.token_ids, batch.may_attend)
    real = batch.may_attend[:, 0, 0]
    torch.testing.assert_close(ours[real], theirs[real], rtol=0, atol=1e-9)
    for mine, wanted in zip(maps, their_maps, strict=True):  # of the text without padding
        torch.testing.assert_close(mine[0], wanted[0], rtol=0, atol=1e-9)


def test_a_right_answer_comes_onto_the_page_as_it_was_written(solve):
    solve("04.1", HIDE)
    assert HIDE[HIDE.index("def hide") :].strip() in page()
    assert "# 04.1 Hide the padding\n" in page()
    assert page().count("the reference solution, until yours is correct") == len(PARTS) - 1
    names = {}
    exec(page(), names)
    mask = names["hide_padding"](torch.tensor([[5, 7, 0]]), 0)
    assert mask.tolist() == [[[[True, True, False]]]]
    assert re.match(r'"""My encoder.*?"""\n\nimport math\nimport torch\nfrom torch import nn\n', page())


def test_minilm_runs_on_an_encoder_that_names_its_norms_otherwise(solve):
    solve("08.3", NAMED_OTHERWISE)
    assert "entrance, end):" in page()
    assert len(exercises.my_encoder().minilm()[0].layers) == 6


def test_two_helpers_of_one_name_keep_apart(solve):
    solve("07.3", HELPER, LAYER)
    solve("04.1", f"def helper(ids, pad):\n    return ids != pad\n\n{HIDING}")
    assert "return helper(token_ids, pad_id)" in page()
    assert "def helper_07_3(part" in page() and "helper_07_3(self.attention, x" in page()
    assert exercises.my_encoder().minilm()


def test_a_page_that_was_edited_is_kept_beside(solve):
    solve("04.1", HIDE)
    edited = page().replace("# my own comment", "# another comment")
    (atomic_files.WORKSPACE / "my_encoder.py").write_text(edited, encoding="utf-8")
    solve("04.1", HIDE.replace("other", "another"))
    solve("04.1", HIDE)
    beside = [path.read_text(encoding="utf-8") for path in atomic_files.WORKSPACE.glob("before/*")]
    assert beside == [edited]
    assert "# my own comment" in page()


def test_an_answer_that_is_not_right_any_more_is_not_on_the_page(solve):
    solve("04.1", HIDE)
    saved_answers.answer_file("05.4").write_text("MultiHeadAttention = print", encoding="utf-8")
    solve("04.1", HIDE)
    assert "# 05.4 Write multi-head attention: the reference solution" in page()


def test_an_answer_that_calls_an_earlier_one_takes_the_reference_along(solve):
    solve("03.2", find("03.2").stub)
    solve("03.4", find("03.4").shown)
    text = saved_answers.answer_file("03.4").read_text(encoding="utf-8")
    assert find("03.2").shown in text and "NotImplementedError" not in text
    assert my_encoder.text({find("04.1"): False}).count("def ") == 2
