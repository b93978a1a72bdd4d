"""The house rules: a tower of modules, one name in four rooms, nothing loaded in vain, nothing too long."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from transformer_course import lessons

ROOT = Path(__file__).parents[1]
PACKAGE, COURSE = ROOT / "transformer_lab", ROOT / "transformer_course"
NOTEBOOKS = ROOT / "notebooks"

# What `import transformer_lab` must not load: it takes seconds, and a model needs none of it.
NOT_LOADED = {"matplotlib", "seaborn", "IPython", "sklearn", "transformers", "tokenizers"}

LONGEST_FUNCTION = 80  # lines, the docstring not counted
LONGEST_FILE = {"encoder": 300, "other": 500}

encoder = sorted(path for path in PACKAGE.glob("*.py") if path.stem != "__init__")
package = sorted(PACKAGE.rglob("*.py"))
sources = [*package, *sorted(COURSE.rglob("*.py"))]
# An exercise's bank of mistakes is a collection, not code to be read in one go.
readable = [path for path in sources if path.parent.name != "exercises"]
notebooks = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))


def name_of(path):
    return (
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removeprefix("transformer_lab.")
    )


def each(paths):
    return pytest.mark.parametrize("path", paths, ids=name_of)


every_notebook = pytest.mark.parametrize("path", notebooks, ids=lambda path: path.stem)


@cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_modules(path):
    """Return our modules that a source imports anywhere, without `transformer_lab.`"""
    names = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path.name}: imports are written in full"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name.removeprefix("transformer_lab.") for name in names if name.startswith("transformer_")}


# What no test imports, because it needs a browser or other people's encoders, still has to fit the rest.
unimported = [
    *sorted((ROOT / "benchmarks").glob("*.py")),
    *sorted((ROOT / "site").glob("*.py")),
    *sorted((ROOT / "tests" / "browser").glob("*.py")),
]


@each(unimported)
def test_what_is_imported_from_another_room_is_there(path):
    for node in ast.walk(tree(path)):
        source = ROOT / f"{(getattr(node, 'module', None) or '').replace('.', '/')}.py"
        if isinstance(node, ast.ImportFrom) and source.is_file():
            defined = {each.id for each in ast.walk(tree(source)) if isinstance(each, ast.Name)}
            defined |= {each.name for each in tree(source).body if hasattr(each, "name")}
            missing = {alias.name for alias in node.names} - defined
            assert not missing, f"{path.name}: {node.module} has no {', '.join(missing)}"


# --- the tower ------------------------------------------------------------------------------------


def lesson_of(path):
    """The number of the lesson that a module belongs to, as its docstring says; 0 if it serves all."""
    found = re.search(r"\b[Ll]essons? (\d\d)", ast.get_docstring(tree(path)).splitlines()[0])
    return int(found[1]) if found else 0


@each(encoder)
def test_a_module_imports_only_modules_of_earlier_lessons(path):
    modules = {name_of(other): other for other in encoder}
    behind = [modules[name] for name in imported_modules(path) & modules.keys() if name != path.stem]
    own = lesson_of(path)
    assert all(lesson_of(other) < own or (own == lesson_of(other) and later(path, other)) for other in behind)


def later(path, other):
    """Whether, of two modules of one lesson, the first may import the second."""
    return path.stem not in imported_modules(other)


KNOWS_NOTHING_OF = {
    "encoder": (encoder, {"training", "diagnostics", "transformer_course"}),
    "training": (sorted((PACKAGE / "training").rglob("*.py")), {"transformer_course"}),
    "diagnostics": (sorted((PACKAGE / "diagnostics").rglob("*.py")), {"training", "transformer_course"}),
}


@pytest.mark.parametrize(("paths", "rooms"), KNOWS_NOTHING_OF.values(), ids=KNOWS_NOTHING_OF)
def test_a_room_imports_nothing_from_the_rooms_above_it(paths, rooms):
    imported = {
        name_of(path): {name.split(".")[0] for name in imported_modules(path)} & rooms for path in paths
    }
    assert {name: found for name, found in imported.items() if found} == {}


# What a library is called where it is imported, if otherwise than where it is installed.
IMPORTED_AS = {
    "pillow": "PIL",
    "scikit-learn": "sklearn",
    "ipython": "IPython",
    "jupyterlab": "jupyterlab ipykernel jupyter_core jupyter_server",
}


def declared(*extras):
    """Return what may be imported with these extras, as pyproject.toml says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *chain(*(project["optional-dependencies"][each] for each in extras))]
    names = [re.match(r"[\w-]+", each)[0] for each in needed]
    return {module for name in names for module in IMPORTED_AS.get(name, name).split()}


OPENS_JUPYTERLAB = [path for path in sources if path.match("workspace/__main__.py")]
COMES_WITH = {
    "lab": (package, []),
    "course": ([path for path in sources if path not in OPENS_JUPYTERLAB], ["course"]),
    "workspace": (OPENS_JUPYTERLAB, ["course", "workspace"]),
}


@pytest.mark.parametrize(("paths", "extras"), COMES_WITH.values(), ids=COMES_WITH)
def test_what_is_imported_comes_with_the_wheel(paths, extras):
    """The wheel brings what the encoder needs, `[course]` what lessons need, `[workspace]` JupyterLab."""
    known = declared(*extras) | sys.stdlib_module_names | {"transformer_lab", "transformer_course"}
    imported = set()
    for path in paths:
        for node in ast.walk(tree(path)):
            imported |= {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            imported |= {node.module} if isinstance(node, ast.ImportFrom) else set()
    assert {name.split(".")[0] for name in imported} - known == set()
    assert not declared() & {"IPython", "jupyterlab", "matplotlib"}


def test_importing_the_package_loads_nothing_that_a_model_does_not_need():
    program = "import sys, transformer_lab; print(*{name.split('.')[0] for name in sys.modules})"
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "torch" in loaded
    assert not loaded & NOT_LOADED


@each([path for path in sources if path.stem == "__init__"])
def test_no_module_is_hidden_by_a_name_of_its_package(path):
    modules = {other.stem for other in path.parent.iterdir() if other.suffix in ("", ".py")}
    imports = [node for node in tree(path).body if isinstance(node, ast.ImportFrom)]
    own = {alias.asname or alias.name for node in imports for alias in node.names}
    assert own & modules == set()


# --- one name, four rooms -------------------------------------------------------------------------


@every_notebook
def test_a_lesson_is_numbered_by_its_place_in_the_list(path):
    number, name = path.stem.split("_", maxsplit=1)
    entered = f"{name} is not lesson {number} in transformer_course/lessons.py: enter it there"
    assert name in lessons.NAMES and lessons.NAMES.index(name) == int(number), entered


@every_notebook
def test_a_lesson_has_its_module_its_exercises_and_its_tests(path):
    _, name = path.stem.split("_", maxsplit=1)
    has_module = any((PACKAGE / place).exists() for place in (f"{name}.py", f"{name}/__init__.py"))
    entry = lessons.LESSONS[lessons.NAMES.index(name)]
    rooms = [f"tests/encoder/test_{name}.py"] if (PACKAGE / f"{name}.py").exists() else []
    if any(tag.startswith("exercise:") for tag in tags(path)):
        rooms.append(f"transformer_course/exercises/{name}.py")
    assert [room for room in rooms if not (ROOT / room).exists()] == [], "write these files"
    remedy = f"write transformer_lab/{name}.py, or say has_module=False in transformer_course/lessons.py"
    assert has_module == entry.has_module, remedy


@every_notebook
def test_a_lesson_leads_to_the_next(path):
    number = int(path.name[:2])
    ahead = [other.name for other in notebooks if int(other.name[:2]) > number]
    text = path.read_text(encoding="utf-8")
    assert not ahead or ahead[0] in text, f"{path.name} has no link to the lesson behind it, {ahead[0]}"


@pytest.mark.parametrize(("file", "folder"), [(lessons.README, "notebooks/"), (lessons.START, "")])
def test_readme_and_lesson_00_list_every_lesson_by_its_title(file, folder):
    text = file.read_text(encoding="utf-8")
    rows = [
        f"| [{number:02} {lesson.title}]({folder}{lessons.notebook(number).name}) |"
        for number, lesson in enumerate(lessons.LESSONS)
        if number or folder
    ]
    assert [row for row in rows if row not in text] == []


def tags(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [tag for cell in cells for tag in cell["metadata"].get("tags", [])]


@each([path for path in encoder if path.stem in lessons.NAMES])
def test_a_module_says_which_lesson_it_belongs_to(path):
    assert ast.get_docstring(tree(path)).startswith(f"Lesson {lessons.NAMES.index(path.stem):02}. ")


# --- sizes ------------------------------------------------------------------------------------


@each(readable)
def test_no_function_and_no_file_is_too_long(path):
    functions = [node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef)]
    assert [each.name for each in functions if length(each) > LONGEST_FUNCTION] == []
    kind = "encoder" if path.parent in (PACKAGE, PACKAGE / "training") else "other"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST_FILE[kind]


def length(function):
    """Count a function's lines without its docstring."""
    first, lines = function.body[0], function.end_lineno - function.lineno + 1
    return lines - (first.end_lineno - first.lineno + 1) if ast.get_docstring(function) else lines


@each([*encoder, *sorted((PACKAGE / "training").glob("[!_]*.py"))])
def test_the_model_is_plain_eager_pytorch(path):
    assert not re.search(r"torch\.(jit|compile)\b|warnings\.|\bprint\(", path.read_text(encoding="utf-8"))


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
