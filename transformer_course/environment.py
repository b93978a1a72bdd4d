"""Check whether PyTorch and the pretrained model are the versions that the lessons were tested with."""

import re
from pathlib import Path

import torch

from transformer_lab.pretrained_encoder import SHA256, check_published, find_model

TESTED = Path(__file__).with_name("constraints.txt")


def check_environment() -> None:
    """Print a line about PyTorch and a line about the model: ✓, or what is wrong and how to fix it."""
    lines = [torch_status(), model_status()]
    print(*lines, sep="\n")
    if lines[1].startswith("✗"):
        print("First follow the line with ✗.")
    else:
        print(
            "Everything is ready, apart from the note at ○."
            if lines[0].startswith("○")
            else "Everything is ready."
        )


def torch_status() -> str:
    """Compare the version of PyTorch with the tested one, ignoring its CUDA or CPU build."""
    tested = re.search(r"^torch==(\S+)", TESTED.read_text(encoding="utf-8"), re.MULTILINE)[1]
    installed = torch.__version__.partition("+")[0]
    if installed == tested:
        return "✓ PyTorch, in the version that the course was tested with"
    return (
        f"○ PyTorch {installed}; the course was tested with {tested}. Lessons should run, but what they "
        "print and draw may differ. For the tested version, in the course's folder: "
        "python -m pip install -r requirements.txt"
    )


def model_status() -> str:
    """Check that the model's files exist and are the published ones."""
    try:
        for name in SHA256:
            check_published(find_model() / name)
    except (OSError, ValueError) as error:
        return f"✗ the pretrained model: {error}"
    return "✓ the pretrained model"
