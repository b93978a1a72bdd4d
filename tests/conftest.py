"""Every test starts from the same random numbers, in float32, on one thread, and opens no window."""

import os
from collections.abc import Iterator

import matplotlib
import pytest
import torch

matplotlib.use("agg")


@pytest.fixture(scope="session", autouse=True)
def own_ipython(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nobody's profile is read, nor does anybody's home have to be one that can be written."""
    os.environ["IPYTHONDIR"] = str(tmp_path_factory.mktemp("ipython"))


@pytest.fixture(autouse=True)
def same_start() -> Iterator[None]:
    torch.set_num_threads(1)
    torch.default_generator.manual_seed(0)  # torch.manual_seed asks every kind of device: 2 ms a test
    yield
    torch.set_default_dtype(torch.float32)
