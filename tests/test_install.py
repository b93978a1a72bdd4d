"""The set-up: uv is told what pip is told, and pip does what uv cannot."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

INSTALL = Path(__file__).parents[1] / ".ci" / "install.py"


@pytest.fixture
def install() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", INSTALL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def listing(install: ModuleType, text: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in ("UV_INDEX_STRATEGY", *(uv for uv, _ in install.SETTINGS.values())):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(install.subprocess, "run", lambda *args, **kwargs: SimpleNamespace(stdout=text))
    return install.settings_of_pip()


def test_uv_is_told_what_pip_is_told(install: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        ":env:.find-links='/wheels /more'\n:env:.default-timeout='180'\nglobal.find-links='/old'\n"
        "global.index-url='one'\nuser.extra-index-url='two\\nthree'\nglobal.cert='/a.pem'\n"
    )
    assert listing(install, text, monkeypatch) == {
        "UV_FIND_LINKS": "/wheels,/more",  # what the environment says rules
        "UV_DEFAULT_INDEX": "one",
        "UV_INDEX": "two three",
        "SSL_CERT_FILE": "/a.pem",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_uvs_own_settings_stay(install: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    found = listing(install, "global.index-url='one'\n", monkeypatch)
    assert "UV_DEFAULT_INDEX" in found
    monkeypatch.setenv("UV_DEFAULT_INDEX", "mine")
    assert "UV_DEFAULT_INDEX" not in install.settings_of_pip()


@pytest.mark.parametrize(
    ("refused", "wanted"),
    [
        ("nothing", ["pip uv", "uv requirements.txt", "uv requirements-model.txt"]),
        ("pip uv", ["pip uv", "pip requirements.txt", "pip requirements-model.txt"]),
        ("uv req", ["pip uv", "uv requirements.txt", "pip requirements.txt", "pip requirements-model.txt"]),
    ],
)
def test_pip_does_what_uv_cannot(
    install: ModuleType, refused: str, wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def run(command: list[str], surroundings: dict | None = None) -> int:
        asked.append(f"{command[2]} {command[-1]}")
        return asked[-1].startswith(refused)

    monkeypatch.setattr(install, "run", run)
    assert install.main("uv") == 0
    assert asked == wanted


def test_a_torch_for_the_cpu_is_asked_of_uv(install: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(install, "run", lambda command, more=None: asked.append(command) or 0)
    install.main("uv==1", "cpu")
    assert asked[0] == [sys.executable, "-m", "pip", "install", "--quiet", "uv==1"]
    assert asked[1][-4:] == ["--torch-backend", "cpu", "-r", "requirements.txt"]


def test_what_even_pip_cannot_install_is_the_status(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "run", lambda command, more=None: 3)
    assert install.main("uv") == 3
