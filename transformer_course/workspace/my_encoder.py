"""The learner's own encoder on one page: `my_encoder.py`, written anew with every right answer.

Its parts are saved answers; where there is none yet, the reference's part stands in, and says so.
"""

import ast
import hashlib
import re
from collections.abc import Mapping
from types import ModuleType

from transformer_course.checker import Exercise
from transformer_course.workspace import atomic_files
from transformer_course.workspace.saved_answers import NEEDS, answer_file, needed_names, plain_first

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
    encoder.load_state_dict(published.state_dict())
    return encoder.eval(), tokenizer
'''
LOADS = "from transformer_lab.pretrained_encoder import load_minilm"
SIGNED = re.compile(r"\n# Unchanged since it was written: (\w+)\n$")


def write(parts: Mapping[Exercise, bool]) -> None:
    """Write the page. One that its owner has edited goes into the folder `before` first.

    Raises:
        OSError: the file cannot be written.
    """
    page, path = text(parts), atomic_files.WORKSPACE / "my_encoder.py"
    data = f"{page}\n# Unchanged since it was written: {_signature(page)}\n".encode()
    old = path.read_bytes() if path.exists() else b""
    if old and _is_edited(old.decode("utf-8", "replace")):
        atomic_files.set_aside(path)
    if old != data:
        atomic_files.write(path, data)


def _signature(page: str) -> str:
    return hashlib.sha256(page.encode()).hexdigest()[:8]


def _is_edited(content: str) -> bool:
    signed = SIGNED.search(content)
    return not signed or signed[1] != _signature(content[: signed.start()])


def text(parts: Mapping[Exercise, bool]) -> str:
    """Return the page: imports, then the parts in their order, then what makes MiniLM of them.

    parts: whether there is a right answer to each
    """
    imports, defined, blocks = {LOADS, USUAL["nn"]}, set(), []
    for part, is_solved in parts.items():
        answer = _answer(part) if is_solved else None
        if answer:
            lines, body = answer
        else:
            lines, body = {USUAL[name] for name in needed_names(part.shown) & USUAL.keys()}, part.shown
        names = _defined_names(body)
        for name in names & defined - {part.name}:  # a helper that another part has too
            body = re.sub(rf"(?<![\w.]){name}\b", f"{name}_{part.id.replace('.', '_')}", body)
        defined |= names
        imports |= lines
        mark = "" if answer else ": the reference's, until yours is right"
        blocks.append(f"# {part.id} {part.title}{mark}\n\n\n{body}")
    ordered = sorted(imports, key=plain_first)
    return "\n".join([TITLE, "", *ordered, "", "\n\n\n".join(blocks), "", LAST])


def _answer(part: Exercise) -> tuple[set[str], str] | None:
    """The imports and the rest of a saved answer; none where it needs what only the lesson's cells have."""
    content = answer_file(part.id).read_text(encoding="utf-8")
    if NEEDS in content:
        return None
    lines, imports = content.splitlines()[1:], set()  # the first is the title
    for node in reversed(ast.parse("\n".join(lines)).body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.add("\n".join(lines[node.lineno - 1 : node.end_lineno]))
            del lines[node.lineno - 1 : node.end_lineno]
    return imports, "\n".join(lines).strip()


def _defined_names(body: str) -> set[str]:
    definitions = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(body).body if isinstance(node, definitions)}


def build(parts: Mapping[Exercise, bool]) -> ModuleType:
    """Return the page, run, as a module."""
    module = ModuleType("my_encoder", "The learner's own encoder.")
    exec(compile(text(parts), "my_encoder.py", "exec"), vars(module))
    return module
