"""Print which exercises are solved, lesson by lesson, and which one is next."""

from transformer_course.exercises import exercise_titles
from transformer_course.lessons import LESSONS, notebook
from transformer_course.workspace import atomic_files, saved_answers


def progress() -> None:
    """Print how many exercises are solved, the next one, and a row of squares for each lesson."""
    titles = exercise_titles()
    solved = saved_answers.solved() & titles.keys() if atomic_files.IN_WORKSPACE else set()
    print(summary(titles, solved))
    for number, lesson in enumerate(LESSONS):
        is_solved = [id in solved for id in titles if id.startswith(f"{number:02}.")]
        if is_solved:
            squares = "".join("□■"[solved] for solved in is_solved)
            print(f"{number:02} {lesson.title:31} {squares} {sum(is_solved)} of {len(is_solved)}")


def summary(titles: dict[str, str], solved: set[str]) -> str:
    """How many exercises are solved, and the next one, from the lesson of the last solved one on."""
    count = f"Solved: {len(solved)} of {len(titles)} exercises."
    unsolved = [id for id in titles if id not in solved]
    if not unsolved:
        return f"{count} All of them."
    last_lesson = max((id[:2] for id in solved), default="00")
    upcoming = next((id for id in unsolved if id >= last_lesson), unsolved[0])
    return f"{count} Next: {upcoming} {titles[upcoming]}, in {notebook(int(upcoming[:2])).name}."
