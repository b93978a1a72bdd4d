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


def test_uv_is_told_what_pip_is_told_and_its_own_settings_stay(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        ":env:.find-links='/wheels /more'\n:env:.default-timeout='180'\nglobal.find-links='/old'\n"
        "global.index-url='one'\nuser.extra-index-url='two\\nthree'\nglobal.cert='/a.pem'\n"
    )
    for name in ("UV_INDEX_STRATEGY", *(uv for uv, _ in install.SETTINGS.values())):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(install.subprocess, "run", lambda *args, **kwargs: SimpleNamespace(stdout=text))
    told = {
        "UV_FIND_LINKS": "/wheels,/more",  # what the environment says rules
        "UV_DEFAULT_INDEX": "one",
        "UV_INDEX": "two three",
        "SSL_CERT_FILE": "/a.pem",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
    assert install.settings_of_pip() == told
    monkeypatch.setenv("UV_DEFAULT_INDEX", "mine")
    del told["UV_DEFAULT_INDEX"]
    assert install.settings_of_pip() == told


PIP = ["pip requirements.txt", "pip requirements-model.txt"]


@pytest.mark.parametrize(
    ("refused", "wanted", "status"),
    [
        ("nothing", ["pip uv", "uv requirements.txt", "uv requirements-model.txt"], 0),
        ("pip uv", ["pip uv", *PIP], 0),
        ("uv req", ["pip uv", "uv requirements.txt", *PIP], 0),
        ("", ["pip uv", *PIP[:1]], 1),  # what even pip cannot install
    ],
)
def test_pip_does_what_uv_cannot(
    install: ModuleType, refused: str, wanted: list[str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def run(command: list[str], surroundings: dict | None = None) -> int:
        asked.append(f"{command[2]} {command[-1]}")
        return int(asked[-1].startswith(refused))

    monkeypatch.setattr(install, "run", run)
    assert install.main("uv") == status
    assert asked == wanted


def test_a_torch_for_the_cpu_is_asked_of_uv(install: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(install, "run", lambda command, more=None: asked.append(command) or 0)
    install.main("uv==1", "cpu")
    assert asked[0] == [sys.executable, "-m", "pip", "install", "--quiet", "uv==1"]
    assert asked[1][-4:] == ["--torch-backend", "cpu", "-r", "requirements.txt"]
