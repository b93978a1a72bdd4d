"""Show which exercises are solved, lesson by lesson, and which one is next on the path."""

from dataclasses import dataclass
from urllib.parse import quote

from IPython.display import display

from transformer_course.exercises import exercise_titles
from transformer_course.lessons import LESSONS, notebook
from transformer_course.workspace import atomic_files, saved_answers


def progress(lesson: int | None = None) -> None:
    """Show how many exercises are solved, and the next one: of a lesson, or of all lessons in a table."""
    solved = saved_answers.solved() if atomic_files.IN_WORKSPACE else set()
    display(_all_lessons(solved) if lesson is None else _one_lesson(lesson, solved))


@dataclass(frozen=True)
class Shown:
    """A text, and the same in Markdown for a notebook."""

    text: str
    markdown: str

    def __repr__(self) -> str:
        return self.text

    def _repr_markdown_(self) -> str:
        return self.markdown


def upcoming(solved: set[str], lesson: int = 0) -> str:
    """The next exercise on the path: the first unsolved one after the last solved one.

    If none is left there, it is the first unsolved one; if nothing is solved yet, the first one of `lesson`.
    Empty if the whole path is solved.
    """
    path = [*exercise_titles(only_path=True)]
    first = next(place for place, id in enumerate(path) if id.startswith(f"{lesson:02}."))
    last = max((place for place, id in enumerate(path, 1) if id in solved), default=first)
    return next((id for id in [*path[last:], *path] if id not in solved), "")


def _all_lessons(solved: set[str]) -> Shown:
    """The numbers, the next exercise, and a row of squares for each lesson."""
    path, deeper = _squares("", solved)
    head = f"Solved: {_of(path)} exercises on the path, and {_of(deeper)} in Deeper."
    following = _next(solved)
    text, table = [head, following.text], ["| lesson | on the path | in *Deeper* |", "|:--|:--|:--|"]
    for number, lesson in enumerate(LESSONS):
        path, deeper = _squares(f"{number:02}.", solved)
        name = f"{number:02} {lesson.title}"
        solved_here = f"{path} {_of(path)}", f"{deeper} {_of(deeper)}" if deeper else ""
        text.append("{:46} {:14} {}".format(name, *solved_here).rstrip())
        table.append("| [{}]({}) | {} | {} |".format(name, notebook(number).name, *solved_here))
    return Shown("\n".join(text), "\n".join([f"{head} {following.markdown}", "", *table]))


def _one_lesson(number: int, solved: set[str]) -> Shown:
    path, deeper = _squares(f"{number:02}.", solved)
    head = (
        f"Solved: {_of(path)} exercises on this lesson's path {path}, and {_of(deeper)} in Deeper {deeper}."
    )
    following = _next(solved, number)
    return Shown(f"{head}\n{following.text}", f"{head} {following.markdown}")


def _squares(start: str, solved: set[str]) -> tuple[str, str]:
    """A square for each exercise whose id starts this way, on the path and in *Deeper*."""
    path, ids = exercise_titles(only_path=True), [id for id in exercise_titles() if id.startswith(start)]
    squares = {id: "□■"[id in solved] for id in ids}
    return (
        "".join(squares[id] for id in ids if id in path),
        "".join(squares[id] for id in ids if id not in path),
    )


def _of(squares: str) -> str:
    return f"{squares.count('■')} of {len(squares)}"


def _next(solved: set[str], lesson: int | None = None) -> Shown:
    """The sentence about the next exercise; in Markdown, its title is a link that opens it."""
    id = upcoming(solved, lesson or 0)
    if not id:
        done = "You've solved the whole path."
        return Shown(done, done)
    title, file = f"{id} {exercise_titles()[id]}", notebook(int(id[:2])).name
    # In a lesson that is not open yet, JupyterLab finds only cells, by their ids, and no headings.
    cell = f"cell-id=exercise-{id.replace('.', '-')}"
    place = quote(title.replace(" ", "-")) if int(id[:2]) == lesson else cell
    link = f"{file}#{place}"
    return Shown(f"Next: {title}, in {file}.", f"**Next:** [{title}]({link})")
