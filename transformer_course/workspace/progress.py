"""What is solved, lesson by lesson, and what to do next."""

from transformer_course.exercises import exercise_titles
from transformer_course.lessons import LESSONS, notebook
from transformer_course.workspace import atomic_files, saved_answers


def progress() -> None:
    """Print what is solved, what comes next, and for each lesson its exercises: a full square is solved."""
    titles = exercise_titles()
    solved = saved_answers.solved() & titles.keys() if atomic_files.ON_DESK else set()
    print(in_words(titles, solved))
    for number, lesson in enumerate(LESSONS):
        marks = [id in solved for id in titles if id.startswith(f"{number:02}.")]
        if marks:
            squares = "".join("□■"[mark] for mark in marks)
            print(f"{number:02} {lesson.title:31} {squares} {sum(marks)} of {len(marks)}")


def in_words(titles: dict[str, str], solved: set[str]) -> str:
    """How many exercises are solved, and the first one that is not, in the lesson where the last one was."""
    said = f"Solved: {len(solved)} of {len(titles)} exercises."
    open_ones = [id for id in titles if id not in solved]
    if not open_ones:
        return f"{said} All of them."
    last = max(solved, default="00", key=_place)[:2]
    coming = next((id for id in open_ones if id >= last), open_ones[0])
    where = notebook(int(coming[:2])).name
    return f"{said} Next: {coming} {titles[coming]}, in {where}."


def _place(id: str) -> tuple[int, int]:
    lesson, number = id.split(".")
    return int(lesson), int(number)
