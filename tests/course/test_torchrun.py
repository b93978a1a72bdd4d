"""Several processes from a cell: each is heard, in order, and who ends badly says so."""

import pytest

from transformer_course.torchrun import _complaint, torchrun


def count_beads():
    return 7


def tell_all():
    import atexit
    import os
    import time

    time.sleep(0.5 * (os.environ["RANK"] == "0"))  # the first is the last to speak
    told = ("RANK", "WORLD_SIZE", "OMP_NUM_THREADS", "MASTER_ADDR")
    print(count_beads(), *(os.environ[name] for name in told), end=".")
    atexit.register(os.abort)  # as gloo's threads do at times, when the interpreter is taken down


def test_each_process_is_heard_in_the_order_of_the_ranks_and_not_taken_down_piece_by_piece(capfd):
    """They meet where no name of a machine is asked for, and a function may use another."""
    assert torchrun(tell_all, using=[count_beads]) == 0
    assert capfd.readouterr() == ("7 0 2 1 localhost.7 1 2 1 localhost.", "")


LOG = "[W1124 03:17:10.726963564 socket.cpp:207] [c10d] no name"  # the time, and this machine's network


def fail():
    import os
    import sys

    log = "[W1124 03:17:10.726963564 socket.cpp:207] [c10d] no name"
    for said in (": Traceback", ": ValueError: got 3, wanted beads; count again", f":{log}"):
        print(f"[rank{os.environ['RANK']}]{said}", file=sys.stderr)
    sys.exit(1)


def test_a_failure_is_told_once_without_the_rest(capfd):
    assert torchrun(fail) != 0
    assert capfd.readouterr() == ("ValueError: got 3, wanted beads; count again\n", "")


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        (["", f"[rank1]:{LOG}"], "[c10d] no name"),  # where nothing else is said the log is told
        (["", ""], "A worker ended without a word."),
        (["one\nno room", "no beads"], "no room\nno beads"),
    ],
)
def test_what_workers_complain_of_is_told_without_a_logs_stamp(tmp_path, stderr, told):
    for rank, text in enumerate(stderr):
        folder = tmp_path / "run" / "attempt_0" / str(rank)
        folder.mkdir(parents=True)
        (folder / "stderr.log").write_text(text)
    assert _complaint(tmp_path, len(stderr)) == told
