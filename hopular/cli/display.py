"""The live display of a benchmark or a fit: what runs, how far it is, and the best so far.

On a terminal it is a picture that is drawn anew several times a second, elsewhere plain lines. It has a standard error
of its own, so that the usual one can be sent elsewhere meanwhile.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from hopular.formatting import plural

if TYPE_CHECKING:
    from rich.console import Group

    from hopular.trials.events import Event
    from hopular.trials.trial import Trial

OVER = ("done", "reused", "failed")  # stages at which a unit ends
SHOWN_METHODS = 8  # of a fit, in the table
SHOWN_DATASETS = 5  # of a benchmark, in the table: the latest ones
FIT_STAGES = {"choose": "choosing and explaining the model", "write": "writing model and report"}
Listener = Callable[["Event"], None]
Write = Callable[[str], None]


class _Picture(Protocol):
    """A picture that changes with the events it is told of."""

    def __call__(self, event: Event) -> None: ...

    def draw(self) -> Group: ...


def show_progress(is_quiet: bool = False, is_verbose: bool = False) -> AbstractContextManager[Listener]:
    """Give a listener for the events of a benchmark: a picture, or a line per unit.

    With `is_verbose` there are lines above the picture too, and one for each trial.
    """

    def above(write: Write) -> Listener:
        return _BenchmarkLines(write, is_verbose) if is_verbose else partial(_keep_notes, write)

    return _show(is_quiet, _BenchmarkPicture(), above, lambda write: _BenchmarkLines(write, is_verbose))


def show_fit(
    seconds: float | None, trials: int | None = None, is_quiet: bool = False
) -> AbstractContextManager[Listener]:
    """Give a listener for the events of a fit that ends in `seconds`, or after so many trials.

    It draws a picture, or writes a line per better model.
    """
    picture = _FitPicture(seconds, trials)
    return _show(is_quiet, picture, lambda write: lambda event: None, lambda write: _FitLines(write, seconds, trials))


# ------------------------------------------------------------------------------------------------------------- shared


@contextmanager
def _show(
    is_quiet: bool, picture: _Picture, above: Callable[[Write], Listener], lines: Callable[[Write], Listener]
) -> Iterator[Listener]:
    """Give a listener: on a terminal the picture and what writes `above` it, elsewhere `lines`."""
    if is_quiet:
        yield lambda event: None
        return
    from rich.console import Console
    from rich.live import Live

    with os.fdopen(os.dup(2), "w", encoding="utf-8") as terminal:
        screen = Console(file=terminal, highlight=False)
        if not screen.is_terminal:
            yield lines(partial(print, file=terminal, flush=True))
            return
        write = above(partial(screen.print, markup=False))

        def tell(event: Event) -> None:
            picture(event)
            write(event)

        options: dict[str, Any] = {"refresh_per_second": 4, "transient": True, "redirect_stderr": False}
        with Live(get_renderable=picture.draw, console=screen, **options):
            yield tell


def _clock(seconds: float) -> str:
    """Return '1:05', or '1:00:05' from an hour on."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _bar(total: float, completed: float, text: str) -> Any:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    line = Table.grid(padding=(0, 1))
    line.add_row(ProgressBar(total=total, completed=completed, width=30), text)
    return line


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], is_ranked: bool = False) -> Any:
    """Return a table with numbers in all but the first column; the first row of a ranked one stands out."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for place, name in enumerate(columns):
        table.add_column(escape(name), justify="right" if place else "left")
    for place, row in enumerate(rows):
        table.add_row(*map(escape, row), style="bold green" if is_ranked and place == 0 else "")
    return table


# --------------------------------------------------------------------------------------------------------- a benchmark


class _Progress:
    """Counts of all units and of those that are over, from which the time left is guessed."""

    def __init__(self) -> None:
        self._units, self._over, self._reused, self._start = 0, 0, 0, time.monotonic()

    def __call__(self, event: Event) -> None:
        if event.stage == "planned":
            self._units = event.trials
        elif event.stage in OVER:
            self._over += 1
            self._reused += event.stage == "reused"

    def left(self) -> str:
        """Return ', about 1:30 left'; nothing before the first unit is trained and after the last."""
        trained, rest = self._over - self._reused, self._units - self._over
        if not trained or not rest:
            return ""
        return f", about {_clock((time.monotonic() - self._start) / trained * rest)} left"


class _BenchmarkLines(_Progress):
    """Plain lines: one per finished unit with the time left, and with `is_verbose` one per trial."""

    def __init__(self, write: Write, is_verbose: bool) -> None:
        super().__init__()
        self._write, self._is_verbose = write, is_verbose

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        _keep_notes(self._write, event)
        if event.stage == "planned":
            self._write(f"{event.message}: {plural(event.trials, 'unit')}")
        elif event.stage in OVER:
            unit = f"{event.dataset} {event.split} {event.method}"
            self._write(f"[{self._over}/{self._units}{self.left()}] {unit}: {_end(event)}")
        elif event.stage == "trial" and self._is_verbose:
            self._write(f"  {event.dataset} {event.split} {event.method}: {_trial(event)}")


class _BenchmarkPicture(_Progress):
    """The state of a benchmark."""

    def __init__(self) -> None:
        super().__init__()
        self._name = ""
        self._running: dict[tuple[str, str, str], Event] = {}
        self._scores: dict[str, dict[str, list[float]]] = {}
        self._failed: list[Event] = []

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        unit = (event.dataset, event.split, event.method)
        if event.stage == "planned":
            self._name = event.message
        elif event.stage in OVER:
            self._running.pop(unit, None)
            if event.stage == "failed":
                self._failed.append(event)
            elif event.best is not None:
                self._scores.setdefault(event.dataset, {}).setdefault(event.method, []).append(event.best)
        elif event.stage != "note":
            self._running[unit] = event

    def draw(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        elapsed = _clock(time.monotonic() - self._start)
        if not self._units:
            return Group(Text(f"Preparing ... {elapsed}", style="dim"))
        text = f"{self._over} of {plural(self._units, 'unit')}, {elapsed}{self.left()}"
        parts: list[Any] = [Text(self._name, style="bold"), _bar(self._units, self._over, text)]
        parts += [Text(f"  {_what(event)}", style="cyan") for event in self._running.values()]
        parts += [
            Text(f"  ✗ {event.method} on {event.dataset}: {event.message[:90]}", style="red")
            for event in self._failed[-3:]
        ]
        return Group(*parts, self._test_scores())

    def _test_scores(self) -> Any:
        """Return the test scores so far: a row per method, a column per dataset."""
        names = list(self._scores)[-SHOWN_DATASETS:]
        rows = []
        for method in dict.fromkeys(method for scores in self._scores.values() for method in scores):
            cells = (self._scores[name].get(method) for name in names)
            rows.append([method, *("" if not cell else f"{sum(cell) / len(cell):.4g}" for cell in cells)])
        return _table(["test score so far" if names else "", *(name[:24] for name in names)], rows)


def _keep_notes(write: Write, event: Event) -> None:
    """Write what is to be known of the run, or why a method is computed again, in a line that stays."""
    if event.stage == "note":
        write(f"{event.method or 'note'}: {event.message}")


def _trial(event: Event) -> str:
    """Say how far a search is, and the best validation score so far in the metric that decides."""
    metric = event.message.replace("_", " ")
    best = "" if event.best is None else f", best validation {metric} so far {abs(event.best):.4g}"
    return f"trial {event.trial} of {event.trials}{best}"


def _end(event: Event) -> str:
    """Say how a unit ended."""
    if event.stage == "failed":
        return f"failed: {event.message}"
    before = " (finished before)" if event.stage == "reused" else ""
    return f"{event.message} {event.best:z.4g}{before}"


def _what(event: Event) -> str:
    place = f"{event.dataset}  {event.method}"
    if event.stage == "trial":
        return f"{place}  {_trial(event)}"
    if event.stage == "train" and event.trials > 1:
        return f"{place}  training {event.trial + 1} of {event.trials}"
    return f"{place}  {event.stage}"


# --------------------------------------------------------------------------------------------------------------- a fit


class _FitProgress:
    """The standing of each method in a fit: its best trial, and how many there were. Many threads add to it."""

    def __init__(self, seconds: float | None, wanted: int | None) -> None:
        self._seconds, self._wanted = seconds, wanted
        self._start, self._lock = time.monotonic(), threading.Lock()
        self._best: dict[str, Trial] = {}
        self._trials: dict[str, int] = {}

    @property
    def _done(self) -> tuple[float, float, str]:
        """Return how much there is to do, how much of it is done, and what is left in words."""
        if self._seconds is None:
            tried = sum(self._trials.values())
            return self._wanted or 1, tried, f"{tried} of {plural(self._wanted or 1, 'setting')}"
        elapsed = min(time.monotonic() - self._start, self._seconds)
        return self._seconds, elapsed, f"{_clock(self._seconds - elapsed)} left"

    def _add(self, trial: Trial) -> bool:
        """Take note of a trial; return whether it is the best of all."""
        self._trials[trial.method] = self._trials.get(trial.method, 0) + 1
        if trial.state != "complete":
            return False
        known = self._best.get(trial.method)
        if known is None or _loss(trial) < _loss(known):
            self._best[trial.method] = trial
        return min(self._best.values(), key=_loss) is trial


class _FitLines(_FitProgress):
    """Plain lines: one whenever a better model is found, and one per stage, each with the time left."""

    def __init__(self, write: Write, seconds: float | None, wanted: int | None) -> None:
        super().__init__(seconds, wanted)
        self._write = write

    def __call__(self, event: Event) -> None:
        with self._lock:
            if event.stage == "planned":
                self._print(_plan(event))
            elif event.result is not None and self._add(event.result):
                loss = event.result.metrics.get("log_loss")
                details = _score(event.result) if loss is None else f"{_score(event.result)}, log loss {abs(loss):.4g}"
                self._print(f"best so far: {_title(event.result)}, {details} on rows held out")
            elif event.stage in FIT_STAGES:
                self._print(FIT_STAGES[event.stage])

    def _print(self, text: str) -> None:
        self._write(f"{_clock(time.monotonic() - self._start)}  {self._done[2]}  {text}")


class _FitPicture(_FitProgress):
    """The state of a fit."""

    def __init__(self, seconds: float | None, wanted: int | None) -> None:
        super().__init__(seconds, wanted)
        self._running, self._stage, self._methods = dict[str, float](), "getting ready", 0

    def __call__(self, event: Event) -> None:
        with self._lock:
            if event.stage == "planned":
                self._methods, self._stage = event.trials, _plan(event)
            elif event.stage == "start":
                self._running[event.method] = time.monotonic()
            elif event.result is not None:
                self._running.pop(event.method, None)
                self._add(event.result)
            elif event.stage in FIT_STAGES:
                self._running.clear()
                self._stage = FIT_STAGES[event.stage]

    def draw(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        from hopular.evaluation.results import title

        with self._lock:
            whole, done, left = self._done
            parts: list[Any] = [Text(), _bar(whole, done, f"{left}, {self._stage}"), Text()]
            if self._best:
                parts += [self._standing(), Text()]
            now = [f"{title(name)} {time.monotonic() - since:.0f} s" for name, since in sorted(self._running.items())]
            if now:
                parts.append(Text(f"now  {', '.join(now)}", style="cyan"))
            return Group(*parts)

    def _standing(self) -> Any:
        order = sorted(self._best.values(), key=_loss)
        first = f"best so far, {len(order)} of {plural(self._methods, 'method')}"
        rows = [[_title(best), _score(best), str(self._trials[best.method])] for best in order[:SHOWN_METHODS]]
        return _table([first, "held out", "settings tried"], rows, is_ranked=True)


def _plan(event: Event) -> str:
    resumed = f", going on after {plural(event.trial, 'setting')}" if event.trial else ""
    return f"trying {plural(event.trials, 'method')}{resumed}"


def _title(trial: Trial) -> str:
    from hopular.evaluation.results import title

    return title(trial.method, trial.params)


def _loss(trial: Trial) -> float:
    assert trial.score is not None  # the trial is complete
    return -trial.score


def _score(trial: Trial) -> str:
    metrics = trial.metrics
    return f"accuracy {metrics['accuracy']:.4f}" if "accuracy" in metrics else f"MSE {metrics['mse']:.4g}"
