"""What is missing in the environment, or another version, is said with its remedy."""

import pytest

from transformer_course import environment


@pytest.mark.parametrize(
    ("installed", "status", "last"),
    [
        ("2.13.0+cu130", "✓ PyTorch", "Everything is ready."),
        (
            "2.12.0",
            "○ PyTorch 2.12.0; the course was tested with 2.13.0.",
            "Everything is ready, apart from the note at ○.",
        ),
    ],
)
def test_versions_of_torch(installed, status, last, monkeypatch, tmp_path, capsys):
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\ntorch-einops-utils==0.2.0\n")
    monkeypatch.setattr(environment, "TESTED", tmp_path / "constraints.txt")
    monkeypatch.setattr(environment.torch, "__version__", installed)
    environment.check_environment()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(status) and lines[-1] == last


def test_a_model_that_is_missing_or_another(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TRANSFORMER_LAB_MODEL", str(tmp_path))
    environment.check_environment()
    out = capsys.readouterr().out
    assert "✗ the pretrained model: expected the folder of the pretrained model, got" in out
    assert str(tmp_path) in out
    assert "without model.safetensors and tokenizer.json" in out
    assert out.endswith("First follow the line with ✗.\n")
    for name in ("model.safetensors", "tokenizer.json"):
        (tmp_path / name).write_text("garbage")
    assert "model.safetensors is not the published file" in environment.model_status()
