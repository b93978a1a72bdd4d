"""Install the course into the Python that runs this: `python .ci/install.py uv==0.13.9 [cpu]`.

uv needs seconds where pip needs a minute. It does not read pip's settings, so they are handed on: whoever has
told pip where packages come from is obeyed. Where uv cannot be had, or fails, pip does the work.
"""

import ast
import os
import subprocess
import sys

LISTS = (["-r", "requirements.txt"], ["--no-deps", "-r", "requirements-model.txt"])
# pip's settings, and what uv calls them. Both take several addresses, uv with another sign between them.
SETTINGS = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "cert": ("SSL_CERT_FILE", " "),
    "proxy": ("ALL_PROXY", " "),
}


def main(uv: str, torch: str = "") -> int:
    pip = [sys.executable, "-m", "pip", "install"]
    if run([*pip, "--quiet", uv]) == 0:
        install = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable]
        backend = ["--torch-backend", torch] if torch else []
        if all(run([*install, *backend, *each], settings_of_pip()) == 0 for each in LISTS):
            return 0
        print("uv could not do it; now pip.", flush=True)
    return next((status for each in LISTS if (status := run([*pip, *each]))), 0)


def run(command: list[str], surroundings: dict[str, str] | None = None) -> int:
    return subprocess.run(command, env=os.environ | (surroundings or {}), check=False).returncode


def settings_of_pip() -> dict[str, str]:
    """Return pip's settings as uv reads them; those of uv's own that are set already stay.

    pip takes the best version from all its addresses, and so shall uv.
    """
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    found = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):  # these rule
        name, _, value = line.partition("=")
        setting = SETTINGS.get(name.rpartition(".")[2])
        if setting:
            found[setting[0]] = setting[1].join(str(ast.literal_eval(value)).split())
    return {name: value for name, value in found.items() if name not in os.environ}


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
