"""Mutation testing of one part of the code: `python tools/faults.py ROOM [SIZE] [NAME ...]`.

Prints every mutant that survives the tests. SIZE is the number of mutants to draw, the same ones each time;
without it, and without names, every mutant is tested, which takes hours. A name may be a pattern, such as
"transformer_lab.masking*".

mutmut has one group of settings, [tool.mutmut] in pyproject.toml; each room adds the modules to mutate and
its tests.
"""

import random
import shutil
import sys

from mutmut.__main__ import cli
from mutmut.configuration import ForkServerWarmup, ProcessIsolation, config
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.file_utils import walk_mutatable_files
from mutmut.utils.format_utils import get_mutant_name

# For each room: the modules to mutate, the modules to leave out, and the tests.
ROOMS = {
    # Leave out the pretrained model, because its tests contain an invalid Unicode string, which the command
    # line refuses; and the slow tests that compile code or run other tools.
    "encoder": (
        ["transformer_lab/*"],
        ["*/diagnostics/*", "*/training/*", "*/pretrained_encoder.py"],
        [
            "tests/encoder",
            "--ignore=tests/encoder/test_pytorch_tools.py",
            "--ignore=tests/encoder/test_annotations.py",
            "--ignore=tests/encoder/test_pretrained_encoder.py",
        ],
    ),
    "training": (["transformer_lab/training/*"], [], ["tests/training"]),
    "diagnostics": (["transformer_lab/diagnostics/*"], [], ["tests/diagnostics"]),
    "checker": (["transformer_course/checker/*"], [], ["tests/course/checker"]),
    "workspace": (["transformer_course/workspace/*"], [], ["tests/course/workspace"]),
}
NOTICED = ("killed", "timeout", "not checked")


def main(room: str, *names: str) -> None:
    settings = config()
    settings.only_mutate, settings.do_not_mutate, settings.pytest_add_cli_args_test_selection = ROOMS[room]
    if room != "encoder":  # other rooms compute at import: fork a new server
        settings.process_isolation = ProcessIsolation.FORKSERVER
        settings.forkserver_warmup = ForkServerWarmup.NONE
    if names and names[0].isdecimal():
        names = (*draw(int(names[0])), *names[1:])
    shutil.rmtree("mutants", ignore_errors=True)
    cli(["run", "--max-children", "2", *names], standalone_mode=False)
    for path in walk_mutatable_files():
        results = SourceFileMutationData(path=path)
        results.load()
        for name, code in results.exit_code_by_key.items():
            if status_by_exit_code[code] not in NOTICED:
                cli(["show", name], standalone_mode=False)


def draw(size: int) -> list[str]:
    faults = [
        get_mutant_name(path, name)
        for path in sorted(walk_mutatable_files())
        for name in mutate_file_contents(str(path), path.read_text(encoding="utf-8")).mutant_names
    ]
    return random.Random(0).sample(faults, min(size, len(faults)))


if __name__ == "__main__":
    main(*sys.argv[1:])
