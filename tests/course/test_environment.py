"""What a learner is told about the environment: each defect is named, with its remedy."""

import importlib.machinery
import sys

import pytest

from transformer_course import environment


def test_a_complete_environment_has_nothing_to_say(capsys):
    environment.check_environment()
    assert capsys.readouterr().out.splitlines() == [
        "✓ this course's own package",
        "✓ every library, in the version that the course was tested with",
        "✓ the pretrained model",
        "All is ready.",
    ]


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setattr(environment, "requires", lambda _: ["torch==2.13.0", "no-such-library>=1.2"])
    wanted = f"got no-such-library not at all, wanted no-such-library>=1.2; {environment.INSTALL}"
    assert environment.wrong_libraries() == wanted


def test_a_version_that_does_not_work_is_named(monkeypatch):
    monkeypatch.setattr(environment, "requires", lambda _: ["torch==2.12.0", "numpy"])
    monkeypatch.setattr(environment, "version", lambda _: "2.13.0+cpu")
    assert environment.wrong_libraries().startswith("got torch 2.13.0+cpu, wanted torch==2.12.0; ")


@pytest.fixture
def constraints(monkeypatch, tmp_path):
    """Return the constraints.txt of another course's folder."""
    monkeypatch.setattr(environment, "TESTED", tmp_path / "constraints.txt")
    monkeypatch.setattr(environment, "requires", lambda _: ["numpy>=2.4", "Scikit_Learn>=1"])
    monkeypatch.setattr(environment, "version", lambda name: {"numpy": "2.5.0"}.get(name, "1.9.1"))
    return tmp_path / "constraints.txt"


PINS = """# a comment
numpy==2.4.6 ; sys_platform == 'no-such-system'
numpy==2.5.0 ; sys_platform != 'no-such-system'  # this one
scikit-learn==1.9.1
pytest==9.2.0
"""


def test_versions_are_compared_with_those_tested_on_such_a_machine(constraints):
    constraints.write_text(PINS)
    assert environment.other_versions() == ""
    constraints.write_text(PINS.replace("!=", "=="))
    assert environment.other_versions().startswith(
        "not each in the tested version: numpy 2.5.0 (tested: none); lessons should run, "
    )


def test_another_version_is_told_apart_from_a_missing_one(constraints, capsys):
    constraints.write_text(PINS.replace("2.5.0", "2.4.6"))
    environment.check_environment()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == (
        "○ every library, but not each in the tested version: "
        "numpy 2.5.0 (tested: 2.4.6); lessons should run, "
        f"but what they print and draw may differ; for the tested versions {environment.INSTALL}"
    )
    assert lines[3] == "Ready, but for the remark at ○."


@pytest.mark.parametrize("text", [None, "numpy is nice"])
def test_tested_versions_that_are_not_known_are_told(constraints, text, capsys):
    if text:
        constraints.write_text(text)
    environment.check_environment()
    line = capsys.readouterr().out.splitlines()[1]
    assert line.startswith(f"○ every library, but no readable {constraints} says ")


def test_neither_the_build_of_torch_matters_nor_what_is_only_for_testing(monkeypatch):
    wanted = ["torch==2.13.0", 'no-such-library; extra == "test"']
    monkeypatch.setattr(environment, "requires", lambda _: wanted)
    monkeypatch.setattr(environment, "version", lambda _: "2.13.0+cu130")
    assert environment.wrong_libraries() == ""


def test_a_course_that_is_not_installed_is_noticed(monkeypatch, capsys):
    def not_found(_):
        raise environment.PackageNotFoundError

    monkeypatch.setattr(environment, "requires", not_found)
    assert "not installed" in environment.wrong_libraries()
    environment.check_environment()
    assert "✗ every library, in the version" in capsys.readouterr().out


def test_a_copy_elsewhere_is_noticed(monkeypatch, tmp_path):
    copy = importlib.machinery.ModuleSpec(
        "transformer_lab", None, origin=str(tmp_path / "lib" / "x" / "__init__.py")
    )
    monkeypatch.setattr(environment, "find_spec", lambda _: copy)
    assert environment.wrong_package() == ""  # beside a lesson that is alone
    (tmp_path / "course" / "transformer_lab").mkdir(parents=True)
    (tmp_path / "course" / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "course" / "notebooks")
    wanted = f"found in {tmp_path / 'lib'}, not in {tmp_path / 'course'}; "
    assert environment.wrong_package().startswith(wanted)


@pytest.fixture
def model(monkeypatch, tmp_path):
    """Return a folder that is looked into for the model."""
    monkeypatch.setenv("TRANSFORMER_LAB_MODEL", str(tmp_path))
    return tmp_path


def test_a_missing_model_is_told_and_counted(model, capsys):
    environment.check_environment()
    out = capsys.readouterr().out
    assert f"✗ the pretrained model: {str(model)!r} has no model.safetensors and no tokenizer.json" in out
    assert out.endswith("Problems: 1. Mend the first one first.\n")


def test_files_with_other_content_are_no_model(model):
    for name in ("model.safetensors", "tokenizer.json"):
        (model / name).write_text("garbage")
    assert "model.safetensors is not the published file" in environment.wrong_model()


def test_a_library_that_reads_the_model_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformer_lab.pretrained_encoder", None)
    assert environment.wrong_model().startswith(
        "it cannot be read without transformer_lab.pretrained_encoder; "
    )
