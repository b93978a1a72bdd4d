"""Training: curves of runs that are over, and a curve that grows while a run goes on."""

import time
from collections.abc import Mapping

import ipywidgets
import tqdm.notebook
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from transformer_lab.course.figures.base import canvas, check_named, finished, line_styles, numbers_of
from transformer_lab.course.figures.words import mime_bundle
from transformer_lab.training.loop import History, ProgressBar, TrainingConfig
from transformer_lab.validation import check_number, check_positive, described

REDRAWN_AFTER = 1.0  # seconds: seldom enough to leave the time to the training


def training_curves(
    histories: Mapping[str, History],
    *,
    title: str = "",
    score: str = "accuracy",
    chance: float | None = None,
    best_loss: float | None = None,
    steps: int | None = None,
) -> Figure:
    """Draw each run's loss, and beside it its score where one was taken.

    Args:
        histories: named runs.
        title: says what to see.
        score: what `evaluate` returned.
        chance: the score of guessing, drawn as a dotted line if given.
        best_loss: the loss that no model can go below, drawn as a dashed line if given.
        steps: where the step axis ends, for a run that still goes on; with the longest run if None.
    """
    check_named(histories, in_legend=True)
    for name, history in histories.items():
        if not isinstance(history, History):
            raise TypeError(f"{name} must be a History, got {type(history).__name__}; train returns one")
        numbers_of([*history.loss, *history.scores.values()], name=name)
    if steps is not None:
        check_positive(steps=steps)
        if steps < max(history.steps for history in histories.values()):
            raise ValueError(f"steps must be at least those of the longest run, got {steps}; leave it out")
    check_number(
        **{name: level for name, level in (("chance", chance), ("best_loss", best_loss)) if level is not None}
    )
    line_styles(histories, "-", of="runs")  # refuses more than there are colours
    scored = any(history.scores for history in histories.values())
    figure, axes = canvas(1, 1 + scored, (4.9 * (1 + scored), 3.2))
    _draw_losses(axes[0, 0], histories, best_loss)
    if scored:
        _draw_scores(axes[0, 1], histories, score, chance)
    if len(histories) > 1 or chance is not None or best_loss is not None:
        handles = {label: handle for ax in axes.flat for handle, label in zip(*_legend_of(ax), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside right center", fontsize=9)
    for ax in axes.flat:
        ax.set_xlim(0, steps)
    figure.suptitle(title)
    return finished(figure)


def _draw_losses(ax: Axes, histories: Mapping[str, History], best_loss: float | None) -> None:
    for name, history in histories.items():
        ax.plot(range(1, history.steps + 1), history.loss, label=name, linewidth=1.2)
    if best_loss is not None:
        ax.axhline(best_loss, color="black", linestyle="--", linewidth=1, label="best possible loss")
    ax.set(xlabel="step", ylabel="training loss (nats)", ylim=(min(0, ax.dataLim.y0), None))
    ax.grid(alpha=0.3)


def _draw_scores(ax: Axes, histories: Mapping[str, History], score: str, chance: float | None) -> None:
    for name, history in histories.items():
        ax.plot(list(history.scores), list(history.scores.values()), marker="o", markersize=4, label=name)
    if chance is not None:
        ax.axhline(chance, color="black", linestyle=":", linewidth=1, label="chance")
    ax.set(xlabel="step", ylabel=score)
    if ax.dataLim.y0 >= 0 and ax.dataLim.y1 <= 1:
        ax.set_ylim(0, 1.03)
    ax.grid(alpha=0.3)


def _legend_of(ax: Axes) -> tuple[list, list]:
    return ax.get_legend_handles_labels()


class LiveCurve(ProgressBar):
    """Watch a run in a notebook: a bar, and under it the curves as far as they have come.

    Nothing of it is stored with the notebook, so draw `training_curves` when the run is over.
    """

    def __init__(self) -> None:
        super().__init__(self._show)
        self.drawn_at = 0.0

    def __call__(self, history: History, config: TrainingConfig) -> None:
        if not isinstance(history, History) or not isinstance(config, TrainingConfig):
            raise TypeError(
                "wanted a History and a TrainingConfig, "
                f"got {described(history)} and {described(config)}; give it to train as watch="
            )
        if self.bar is None:  # a new run: wait until there is a curve to see
            self.drawn_at = time.monotonic()
        super().__call__(history, config)
        if time.monotonic() - self.drawn_at > REDRAWN_AFTER or history.steps == config.steps:
            title = f"after {history.steps} steps"
            so_far = training_curves({"this run": history}, title=title, steps=config.steps)
            self.picture.value = mime_bundle(so_far)[0]["text/html"]
            self.drawn_at = time.monotonic()

    def _show(self, **options: object) -> tqdm.notebook.tqdm:
        bar = tqdm.notebook.tqdm(display=False, **options)
        self.picture = ipywidgets.HTML()
        display(ipywidgets.VBox([bar.container, self.picture]))
        return bar


def live_curve() -> LiveCurve:
    """Return a `watch` for `train` that shows, in a notebook, how the run goes."""
    return LiveCurve()
