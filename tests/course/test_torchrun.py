"""Several processes from a cell: the output of each is printed, in order, and a failure is raised."""

import pytest
from torch.multiprocessing import ProcessRaisedException

from transformer_course import torchrun as module
from transformer_course.torchrun import torchrun


def job():
    import os
    import time

    import torch
    from torch import distributed

    distributed.init_process_group("gloo")
    total = torch.tensor(int(os.environ["RANK"]) + 1)
    distributed.all_reduce(total)
    time.sleep(0.3 * (os.environ["RANK"] == "0"))  # rank 0 prints last
    print(os.environ["RANK"], os.environ["WORLD_SIZE"], total.item(), "µ")
    os.write(2, b"a line of c10d's log\n")
    if os.environ["RANK"] == "0":
        raise ValueError("got 3, wanted beads")
    time.sleep(600)  # ended by the failure of rank 0


def test_each_process_is_printed_in_the_order_of_the_ranks_and_a_failure_is_raised(capfd):
    with pytest.raises(ProcessRaisedException, match="got 3, wanted beads"):
        torchrun(job)
    printed = capfd.readouterr()
    assert printed.out == "0 2 3 µ\n1 2 3 µ\n"
    assert "c10d" not in printed.err


def test_processes_that_never_end_are_ended(monkeypatch):
    monkeypatch.setattr(module, "TIME_LIMIT", 0)
    with pytest.raises(TimeoutError, match="longer than 0 seconds"):
        torchrun(job)
