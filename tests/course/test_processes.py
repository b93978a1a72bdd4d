"""Several processes from a cell: each is heard, in order, and who ends badly says so."""

from pathlib import Path

import pytest

from transformer_course.processes import torchrun


def tell_ranks():
    import os
    import sys
    import time

    time.sleep(0.5 * (os.environ["RANK"] == "0"))  # the first is the last to speak
    told = {name: os.environ[name] for name in ("RANK", "WORLD_SIZE", "OMP_NUM_THREADS")}
    print(told)
    sys.exit(0)


def test_each_process_is_heard_in_the_order_of_the_ranks(capfd):
    assert torchrun(tell_ranks, workers=3) == 0
    said, complained = capfd.readouterr()
    told = [{"RANK": rank, "WORLD_SIZE": "3", "OMP_NUM_THREADS": "1"} for rank in "012"]
    assert said.splitlines() == [str(each) for each in told]
    assert not complained


def count_beads():
    return 7


def tell_beads():
    print(count_beads())


def test_a_function_may_use_another(capfd):
    assert torchrun(tell_beads, workers=1, using=[count_beads]) == 0
    assert capfd.readouterr().out == "7\n"


def trip_over_the_doorstep():
    import atexit
    import os

    print("all work is done", end="")
    atexit.register(os.abort)  # as gloo's threads do at times, when the interpreter is taken down


def test_a_job_that_is_done_is_not_taken_down_piece_by_piece(capfd):
    assert torchrun(trip_over_the_doorstep, workers=1) == 0
    assert capfd.readouterr().out == "all work is done"


def fail_alike():
    raise ValueError("got 7 beads, wanted 8; count again")


def test_a_failure_is_told_once_without_the_rest(capfd):
    assert torchrun(fail_alike) != 0
    said, complained = capfd.readouterr()
    assert said == "ValueError: got 7 beads, wanted 8; count again\n"
    assert not complained


def warn_and_fail():
    import os
    import sys

    rank = os.environ["RANK"]
    if rank == "0":
        print("no room for seven beads", file=sys.stderr)
    print(f"[rank{rank}]:[W1124 03:17:10.726963564 socket.cpp:207] [c10d] no name", file=sys.stderr)
    os._exit(1)


def test_a_line_of_a_log_is_no_complaint(capfd):
    """It has the time of day, and what it says depends on the machine's network."""
    assert torchrun(warn_and_fail) != 0
    assert capfd.readouterr().out == "no room for seven beads\n"


def only_warn():
    import os
    import sys

    print("[W1124 03:17:10.726963564 socket.cpp:207] [c10d] no name", file=sys.stderr)
    os._exit(1)


def test_where_nothing_else_is_said_the_log_is_told_without_its_stamp(capfd):
    assert torchrun(only_warn) != 0
    assert capfd.readouterr().out == "[c10d] no name\n"


def say_where_they_meet():
    import os

    print(os.environ["MASTER_ADDR"])


def test_they_meet_where_no_name_of_a_machine_is_asked_for(capfd):
    assert torchrun(say_where_they_meet, workers=1) == 0
    assert capfd.readouterr().out == "localhost\n"


def test_a_file_takes_arguments(tmp_path: Path, capfd):
    file = tmp_path / "a job.py"
    file.write_text("import sys\nprint(sys.argv[1:])\n")
    assert torchrun(file, "one", tmp_path, workers=1) == 0
    assert capfd.readouterr().out == f"{['one', str(tmp_path)]}\n"


@pytest.mark.parametrize(
    ("job", "arguments", "workers", "words"),
    [
        (3, (), 2, "job must be a function, a Path or a module's name, got 3"),
        (tell_ranks, ("x",), 2, "a function takes no arguments here, got"),
        (tell_ranks, (), 0, "workers must be"),
    ],
)
def test_what_is_no_job_is_refused(job, arguments, workers, words):
    with pytest.raises((TypeError, ValueError), match=words):
        torchrun(job, *arguments, workers=workers)
