"""The learner's own encoder on one page: their parts as written, the reference's where none is right."""

import re

import torch
from IPython.core.interactiveshell import InteractiveShell

from tests.course.workspace.conftest import run
from transformer_course import exercises
from transformer_course.exercises import PARTS, find
from transformer_course.workspace import atomic_files, my_encoder
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
CHECKS = {id: f'{find(id).name} = check("{id}", {find(id).name})' for id in PARTS}
NAMED_OTHERWISE = (  # the norms; a right answer may do so
    find("08.3")
    .shown.replace("embedding_norm, final_norm):", "entrance, end):")
    .replace("= embedding_norm, final_norm", "= entrance, end")
)


def page() -> str:
    return (atomic_files.WORKSPACE / "my_encoder.py").read_text(encoding="utf-8")


def solve(shell: InteractiveShell, id: str, *cells: str) -> None:
    run(shell, "import math\nimport torch\nfrom torch import nn", *cells, CHECKS[id])


def test_made_of_the_references_parts_it_is_minilm() -> None:
    encoder, tokenizer = exercises.my_encoder().minilm()
    published, _ = load_minilm()
    batch = tokenizer(["The old cat met the young cat.", "Dog bites man."])
    real = batch.may_attend[:, 0, 0]
    queries = real[:, None].expand(-1, 12, -1)
    ours, maps = encoder.double()(batch.token_ids, batch.may_attend)
    theirs, their_maps = published.double()(batch.token_ids, batch.may_attend)
    torch.testing.assert_close(ours[real], theirs[real], rtol=0, atol=1e-9)
    for mine, wanted in zip(maps, their_maps, strict=True):
        torch.testing.assert_close(mine[queries], wanted[queries], rtol=0, atol=1e-9)


def test_a_right_answer_comes_onto_the_page_as_it_was_written(shell: InteractiveShell) -> None:
    solve(shell, "04.1", HIDE)
    assert HIDE[HIDE.index("def hide") :].strip() in page()
    assert "# 04.1 Hide the padding\n" in page()
    assert page().count("the reference's, until yours is right") == len(PARTS) - 1
    names: dict = {}
    exec(page(), names)
    mask = names["hide_padding"](torch.tensor([[5, 7, 0]]), 0)
    assert mask.tolist() == [[[[True, True, False]]]]
    assert re.match(r'"""My encoder.*?"""\n\nimport math\nimport torch\nfrom torch import nn\n', page())


def test_minilm_runs_on_an_encoder_that_names_its_norms_otherwise(shell: InteractiveShell) -> None:
    solve(shell, "08.3", NAMED_OTHERWISE)
    assert "entrance, end):" in page()
    assert len(exercises.my_encoder().minilm()[0].layers) == 6


def test_two_helpers_of_one_name_keep_apart(shell: InteractiveShell) -> None:
    solve(shell, "07.3", HELPER, LAYER)
    another = "def helper(ids, pad):\n    return ids != pad\n\n"
    solve(shell, "04.1", f"{another}{HIDING}")
    assert "return helper(token_ids, pad_id)" in page()
    assert "def helper_07_3(part" in page() and "helper_07_3(self.attention, x" in page()
    assert exercises.my_encoder().minilm()


def test_a_page_that_was_edited_is_kept_beside(shell: InteractiveShell) -> None:
    solve(shell, "04.1", HIDE)
    edited = page().replace("# my own comment", "# another comment")
    (atomic_files.WORKSPACE / "my_encoder.py").write_text(edited, encoding="utf-8")
    solve(shell, "04.1", HIDE.replace("other", "another"))
    solve(shell, "04.1", HIDE)
    beside = [path.read_text(encoding="utf-8") for path in (atomic_files.WORKSPACE / "before").iterdir()]
    assert beside == [edited]
    assert "# my own comment" in page()


def test_an_answer_that_is_not_right_any_more_is_not_on_the_page(shell: InteractiveShell) -> None:
    solve(shell, "04.1", HIDE)
    (atomic_files.WORKSPACE / "answers" / "05.4.py").write_text(
        "MultiHeadAttention = print", encoding="utf-8"
    )
    solve(shell, "04.1", HIDE)
    assert "# 05.4 Write multi-head attention: the reference's" in page()


def test_an_answer_that_calls_an_earlier_one_takes_the_reference_along(shell: InteractiveShell) -> None:
    run(shell, "import math\nfrom torch import nn", find("03.2").stub, 'attention = check("03.2", attention)')
    run(shell, find("03.4").shown, 'SelfAttention = check("03.4", SelfAttention)')
    text = (atomic_files.WORKSPACE / "answers" / "03.4.py").read_text(encoding="utf-8")
    assert find("03.2").shown in text and "NotImplementedError" not in text
    assert my_encoder.text({find("04.1"): False}).count("def ") == 2
