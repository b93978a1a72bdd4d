"""Is everything here that the lessons need? What is missing is said in words, with its remedy."""

from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from transformer_course.lessons import DISTRIBUTION, IS_ALONE

TESTED = Path(__file__).with_name("constraints.txt")
INSTALL = (
    f'run `python -m pip install -c "{TESTED}" "WHEEL[course]"`, where WHEEL is the course\'s wheel'
    if IS_ALONE
    else "in the course's folder run: python -m pip install -r requirements.txt"
)


def check_environment() -> None:
    """Print one line for each thing that the lessons need: it is there, or what is wrong and what to do.

    ✗ is a problem; ○ is none, but what lessons print and draw may differ from what is stored in them.
    """
    questions = {
        "this course's own package": wrong_package(),
        "every library, in the version that the course was tested with": (libraries := wrong_libraries()),
        "the pretrained model": wrong_model(),
    }
    remark = "" if libraries else other_versions()
    for thing, problem in questions.items():
        if problem:
            print(f"✗ {thing}: {problem}")
        elif remark and thing.startswith("every library"):
            print(f"○ every library, but {remark}")
        else:
            print(f"✓ {thing}")
    problems = sum(map(bool, questions.values()))
    if problems:
        print(f"Problems: {problems}. Mend the first one first.")
    else:
        print("Ready, but for the remark at ○." if remark else "All is ready.")


def wrong_package() -> str:
    """Return where `transformer_lab` comes from, if another lies beside the lesson: copies drift apart."""
    folder, beside = course_folder(), Path.cwd().parent
    if folder == beside or not (beside / "transformer_lab").is_dir():
        return ""
    return f"found in {folder}, not in {beside}; start JupyterLab with the Python of the course's folder"


def course_folder() -> Path:
    """Return the folder that `transformer_lab` lies in."""
    spec = find_spec("transformer_lab")
    return Path(spec.origin).parent.parent if spec and spec.origin else Path()


def wrong_libraries() -> str:
    """Return the libraries that are missing, or of a version that the course does not work with."""
    try:
        wrong = [
            f"got {each.name} {installed(each) or 'not at all'}, wanted {each}"
            for each in needed_libraries()
            if not _fits(each)
        ]
    except PackageNotFoundError:
        return f"the course is not installed; {INSTALL}"
    return f"{', '.join(wrong)}; {INSTALL}" if wrong else ""


def other_versions() -> str:
    """Return the libraries whose version is not the one that the course was tested with."""
    try:
        pins = tested_versions()
    except (OSError, ValueError):
        return f"no readable {TESTED} says with which versions it was tested; get it again"
    others = []
    for each in needed_libraries():
        pin = pins.get(canonicalize_name(each.name))
        if pin is None or not _fits(pin):
            wanted = str(pin.specifier).removeprefix("==") if pin else "none"
            others.append(f"{each.name} {installed(each)} (tested: {wanted})")
    if not others:
        return ""
    return (
        f"not each in the tested version: {', '.join(others)}; lessons should run, but what they "
        f"print and draw may differ; for the tested versions {INSTALL}"
    )


def needed_libraries() -> list[Requirement]:
    """What the encoder and the course ask for, without what is for testing them."""
    return [each for each in map(Requirement, requires(DISTRIBUTION) or []) if _is_for_here(each)]


def tested_versions() -> dict[str, Requirement]:
    """Return the lines of constraints.txt that are for this machine, by name."""
    lines = TESTED.read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in (line.split("#")[0].strip() for line in lines) if line]
    return {canonicalize_name(pin.name): pin for pin in pins if _is_for_here(pin)}


def installed(library: Requirement) -> str:
    """Return the version that is installed; nothing if none is."""
    try:
        return version(library.name)
    except PackageNotFoundError:
        return ""


def _is_for_here(library: Requirement) -> bool:
    return library.marker is None or library.marker.evaluate({"extra": "course"})


def _fits(library: Requirement) -> bool:
    found = installed(library)
    return bool(found) and library.specifier.contains(found, prereleases=True)


def wrong_model() -> str:
    """Return what is wrong with the pretrained model, or with what reads it."""
    try:  # imported here, so that a missing library does not keep this module from saying so
        from transformer_lab.pretrained_encoder import SHA256, check_published, find_model
    except ImportError as error:
        return f"it cannot be read without {error.name or error}; {INSTALL}"
    try:
        for name in SHA256:
            check_published(find_model() / name)
    except (OSError, ValueError) as error:
        return str(error)
    return ""
