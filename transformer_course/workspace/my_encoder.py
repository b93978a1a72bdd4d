"""The learner's own encoder in one file, `my_encoder.py`, which is rewritten with every correct answer.

Its parts are saved answers. If there is none yet, the reference solution is used, and a comment says so.
"""

import ast
import hashlib
import re
from collections.abc import Mapping
from types import ModuleType

from transformer_course.checker import Exercise
from transformer_course.workspace import atomic_files
from transformer_course.workspace.saved_answers import answer_file, plain_first, self_contained

USUAL = "import math\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn"
TITLE = '"""My encoder, as I wrote it in lessons 04 to 08. The course rewrites it when a part changes."""'
LAST = '''
# From the course: MiniLM, built from the parts above.


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
    """Write the file. If the learner has edited it, the edited file is first moved to the folder `before`.

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
    """Return the source: the imports, the parts in order, and the function that builds MiniLM from them.

    parts: whether each exercise has a saved correct answer
    """
    imports, defined, blocks = {LOADS, "from torch import nn"}, set(), []
    for part, is_solved in parts.items():
        if is_solved:
            mark, answer = "", answer_file(part.id).read_text(encoding="utf-8")
        else:
            mark = ": the reference solution, until yours is correct"
            answer = self_contained(part.name, [USUAL, part.shown])
        lines, body = _without_imports(answer)
        names = _defined_names(body)
        for name in names & defined - {part.name}:  # a helper function whose name another part uses too
            body = re.sub(rf"(?<![\w.]){name}\b", f"{name}_{part.id.replace('.', '_')}", body)
        defined |= names
        imports |= lines
        blocks.append(f"# {part.id} {part.title}{mark}\n\n\n{body}")
    ordered = sorted(imports, key=plain_first)
    return "\n".join([TITLE, "", *ordered, "", "\n\n\n".join(blocks), "", LAST])


def _without_imports(answer: str) -> tuple[set[str], str]:
    """The imports of an answer, and the rest of it without its first comment."""
    lines, imports = answer.splitlines(), set()
    for node in reversed(ast.parse(answer).body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.add("\n".join(lines[node.lineno - 1 : node.end_lineno]))
            del lines[node.lineno - 1 : node.end_lineno]
    is_comment = lines[0].startswith("# ")
    return imports, "\n".join(lines[is_comment:]).strip()


def _defined_names(body: str) -> set[str]:
    definitions = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(body).body if isinstance(node, definitions)}


def build(parts: Mapping[Exercise, bool]) -> ModuleType:
    """Run the source, and return it as a module."""
    module = ModuleType("my_encoder", "The learner's own encoder.")
    exec(compile(text(parts), "my_encoder.py", "exec"), vars(module))
    return module
