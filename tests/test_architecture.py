"""The house rules: a tower of modules, one name in four rooms, nothing loaded in vain, nothing too long."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import transformer_lab

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "transformer_lab"
NOTEBOOKS = ROOT / "notebooks"

# From the ground up: each module may import those before it. A lesson's number is its module's place.
TOWER = [
    "checks",
    "positional_encoding",
    "rotary_embedding",
    "scaled_dot_product_attention",
    "masking",
    "multi_head_attention",
    "feed_forward",
    "encoder_layer",
    "encoder",
    "pretrained_encoder",
    "training_data",
    "checkpoints",
    "training",
    "roformer",
    "modern_encoder",
    "low_rank_adaptation",
    "packing",
]
HELPERS = {"checks", "training_data", "checkpoints", "packing", "low_rank_adaptation"}
LESSONS = [name for name in TOWER if name not in HELPERS]

# These teach, draw, examine, or load what was trained; the model knows nothing of them.
TEACHING = {
    "figures",
    "figure_text",
    "lesson",
    "exercises",
    "certificates",
    "environment",
    "first_divergence",
    "head_roles",
}
ABOVE_THE_MODEL = TEACHING | {"pretrained_encoder"}

# What `import transformer_lab` must not load: it takes seconds, and a model needs none of it.
NOT_LOADED = {"matplotlib", "seaborn", "IPython", "ipywidgets", "sklearn", "transformers", "tokenizers"}

LONGEST_FUNCTION = 45  # lines, the docstring not counted
LONGEST_FILE = {"model": 300, "other": 500}

modules = {path.stem for path in PACKAGE.glob("[a-z]*") if path.suffix == ".py" or path.is_dir()}
present = [name for name in TOWER if name in modules]
every_module = pytest.mark.parametrize("name", present)


def parametrized(sources):
    return pytest.mark.parametrize("path", sources, ids=lambda path: path.relative_to(PACKAGE).as_posix())


every_source = parametrized(sorted(PACKAGE.rglob("*.py")))
# An exercise's bank of mistakes is a collection, not code to be read in one go.
every_readable_source = parametrized(
    sorted(path for path in PACKAGE.rglob("*.py") if path.parent.name != "exercises")
)

notebooks = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
every_notebook = pytest.mark.parametrize("path", notebooks, ids=lambda path: path.stem)


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_modules(path):
    """Return the modules of this package that a source imports anywhere, by their first name."""
    names = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            names |= {f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names}
    assert not any(name.startswith(".") for name in names), f"{path.name}: imports are written in full"
    return {name.split(".")[1] for name in names if name.startswith("transformer_lab.")}


# --- the tower ------------------------------------------------------------------------------------


@every_module
def test_a_module_imports_only_modules_of_earlier_lessons(name):
    assert imported_modules(PACKAGE / f"{name}.py") <= set(TOWER[: TOWER.index(name)])


@pytest.mark.parametrize("name", [name for name in present if name not in ABOVE_THE_MODEL])
def test_the_model_knows_nothing_of_figures_lessons_exercises_or_trained_weights(name):
    assert not imported_modules(PACKAGE / f"{name}.py") & ABOVE_THE_MODEL


def test_every_module_has_its_place():
    assert modules <= set(TOWER) | TEACHING


def test_importing_the_package_loads_nothing_that_a_model_does_not_need():
    program = "import sys, transformer_lab; print(*{name.split('.')[0] for name in sys.modules})"
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "torch" in loaded
    assert not loaded & NOT_LOADED


@pytest.mark.parametrize("name", [name for name in present if TOWER.index(name) < TOWER.index("encoder")])
def test_parts_take_plain_integers_and_know_no_config(name):
    assert "EncoderConfig" not in (PACKAGE / f"{name}.py").read_text(encoding="utf-8")


# --- one name, four rooms -------------------------------------------------------------------------


@every_notebook
def test_a_lesson_is_numbered_by_its_place_in_the_tower(path):
    number, name = path.stem.split("_", maxsplit=1)
    if name in LESSONS:
        assert int(number) == 1 + LESSONS.index(name)
    else:
        assert int(number) not in range(1, 1 + len(LESSONS)), "the name of a lesson is that of its module"


@every_notebook
def test_a_lesson_has_its_module_its_exercises_and_its_tests(path):
    _, name = path.stem.split("_", maxsplit=1)
    rooms = [f"transformer_lab/{name}.py", f"tests/test_{name}.py"] if name in LESSONS else []
    if any(tag.startswith("exercise:") for tag in tags(path)):
        rooms.append(f"transformer_lab/exercises/{name}.py")
    assert [room for room in rooms if not (ROOT / room).exists()] == []


def tags(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [tag for cell in cells for tag in cell["metadata"].get("tags", [])]


@pytest.mark.parametrize("name", sorted(modules))
def test_every_module_has_its_tests(name):
    assert (ROOT / "tests" / f"test_{name}.py").exists()


@pytest.mark.parametrize("name", [name for name in LESSONS if name in present])
def test_a_module_says_which_lesson_it_belongs_to(name):
    wanted = f"Lesson {1 + LESSONS.index(name):02}. "
    assert ast.get_docstring(tree(PACKAGE / f"{name}.py")).startswith(wanted)


# --- words and sizes ------------------------------------------------------------------------------


def test_public_names_are_sorted_and_exist():
    assert transformer_lab.__all__ == sorted(transformer_lab.__all__)
    assert all(hasattr(transformer_lab, name) for name in transformer_lab.__all__)


@pytest.mark.parametrize("name", transformer_lab.__all__)
def test_every_public_name_has_a_docstring_of_its_own(name):
    thing = getattr(transformer_lab, name)
    bases = getattr(thing, "__mro__", (None,))[1:]
    assert thing.__doc__ and thing.__doc__ not in [base.__doc__ for base in bases]


@every_readable_source
def test_every_public_function_and_class_has_a_docstring(path):
    undocumented = [
        node.name
        for node in tree(path).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert undocumented == []


@every_readable_source
def test_no_function_is_too_long(path):
    too_long = {
        node.name: length(node)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef) and length(node) > LONGEST_FUNCTION
    }
    assert too_long == {}


def length(function):
    """Count a function's lines without its docstring."""
    first, lines = function.body[0], function.end_lineno - function.lineno + 1
    return lines - (first.end_lineno - first.lineno + 1) if ast.get_docstring(function) else lines


@every_readable_source
def test_no_file_is_too_long(path):
    kind = "model" if path.stem in TOWER else "other"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE[kind]


@every_source
def test_nothing_relies_on_assert(path):
    # `python -O` takes asserts out, and what they would have refused goes on unnoticed.
    assert not [node.lineno for node in ast.walk(tree(path)) if isinstance(node, ast.Assert)]


@every_module
def test_the_model_is_plain_eager_pytorch(name):
    text = (PACKAGE / f"{name}.py").read_text(encoding="utf-8")
    assert not re.search(r"torch\.(jit|compile)\b|warnings\.|print\(", text)


# --- the tree -------------------------------------------------------------------------------------


def test_no_file_holds_a_path_of_somebodys_machine():
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    run = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip("not a git checkout, so there is no list of files")
    somewhere = r"(?<![\w+/=.])/(home|Users|root)/(?!someone\b)\w|\b[A-Z]:\\+Users"
    home = re.compile(rf"{somewhere}|{re.escape(str(ROOT))}(?!\w)")
    found = {}
    for name in filter(None, run.stdout.split("\0")):
        path = ROOT / name
        if path.is_file() and (match := home.search(path.read_text(encoding="utf-8", errors="replace"))):
            found[name] = match.group()
    assert found == {}
