"""The learner's own encoder on one page: `my_encoder.py` on the desk, written anew with every right answer.

Its parts are kept answers; where there is none yet, the reference's part stands in, and says so.
"""

import ast
import hashlib
import re
from collections.abc import Mapping
from types import ModuleType

from transformer_course.checker import Exercise
from transformer_course.workspace import atomic_files, saved_answers

USUAL = {
    "math": "import math",
    "torch": "import torch",
    "nn": "from torch import nn",
    "F": "import torch.nn.functional as F",
}
TITLE = '"""My encoder, as I wrote it in lessons 04 to 08. The course writes it anew when a part changes."""'
LAST = '''
# The course's: MiniLM, built of the parts above.


def minilm():
    """Return MiniLM with its published weights, and its tokenizer."""
    published, tokenizer = load_minilm()
    config = published.config
    encoder = MyEncoder(
        config.vocab_size,
        config.max_length,
        config.d_model,
        config.n_layers,
        lambda: make_layer(config, MultiHeadAttention, FeedForward, EncoderLayer),
        nn.LayerNorm(config.d_model, eps=config.norm_eps),
        nn.Identity(),
    )
    names = {"embedding.vectors": "embedding.weight", "positions.table": "positions.weight"}
    encoder.load_state_dict({names.get(name, name): each for name, each in published.state_dict().items()})
    return encoder.eval(), tokenizer
'''
LOADS = "from transformer_lab.pretrained_encoder import load_minilm"
SIGNED = re.compile(r"\n# Unchanged since it was written: (\w+)\n$")


def write(parts: Mapping[Exercise, bool]) -> None:
    """Write the page. One that its owner has edited goes into the folder `before` first.

    Raises:
        OSError: the file cannot be written.
    """
    page, place = text(parts), atomic_files.DESK / "my_encoder.py"
    data = f"{page}\n# Unchanged since it was written: {_signature(page)}\n".encode()
    old = place.read_bytes() if place.exists() else b""
    if old and _is_edited(old.decode("utf-8", "replace")):
        atomic_files.keep_beside(place, old)
    if old != data:
        atomic_files.write(place, data)


def _signature(page: str) -> str:
    return hashlib.sha256(page.encode()).hexdigest()[:8]


def _is_edited(content: str) -> bool:
    found = SIGNED.search(content)
    return not found or found[1] != _signature(content[: found.start()])


def text(parts: Mapping[Exercise, bool]) -> str:
    """Return the page: imports, then the parts in their order, then what makes MiniLM of them.

    parts: whether there is a right answer to each
    """
    imports, given, blocks = {LOADS, USUAL["nn"]}, set(), []
    for part, is_solved in parts.items():
        own = _own(part) if is_solved else None
        lines, body = own or _reference(part)
        body = _renamed(body, _defined(body) & given - {part.name}, part.id)
        given |= _defined(body)
        imports |= lines
        mark = "" if own else ": the reference's, until yours is right"
        blocks.append(f"# {part.id} {part.title}{mark}\n\n\n{body}")
    ordered = sorted(imports, key=saved_answers.plain_first)
    return "\n".join([TITLE, "", *ordered, "", "\n\n\n".join(blocks), "", LAST])


def _own(part: Exercise) -> tuple[set[str], str] | None:
    """The imports and the rest of a kept answer; none where it needs what only the lesson's cells have."""
    content = saved_answers.place_of(part.id).read_text(encoding="utf-8")
    if saved_answers.NEEDS in content:
        return None
    lines, imports = content.splitlines()[1:], set()  # the first is the title
    for node in reversed(ast.parse("\n".join(lines)).body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.add("\n".join(lines[node.lineno - 1 : node.end_lineno]))
            del lines[node.lineno - 1 : node.end_lineno]
    return imports, "\n".join(lines).strip()


def _reference(part: Exercise) -> tuple[set[str], str]:
    return {USUAL[name] for name in saved_answers.needed_names(part.shown) & USUAL.keys()}, part.shown


def _defined(body: str) -> set[str]:
    """The names that a part gives."""
    named = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(body).body if isinstance(node, named)}


def _renamed(body: str, names: set[str], id: str) -> str:
    """A helper that another part has too, under a name of its own."""
    for name in names:
        body = re.sub(rf"(?<![\w.]){name}\b", f"{name}_{id.replace('.', '_')}", body)
    return body


def build(parts: Mapping[Exercise, bool]) -> ModuleType:
    """Return the page, run, as a module."""
    module = ModuleType("my_encoder", "The learner's own encoder.")
    exec(compile(text(parts), "my_encoder.py", "exec"), vars(module))
    return module
