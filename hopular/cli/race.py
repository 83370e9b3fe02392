"""The live display of a fit: time left, what is being tried, and the best methods so far."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from hopular.formatting import plural

if TYPE_CHECKING:
    from rich.console import Group

    from hopular.automl.news import News
    from hopular.trials.trial import Trial

SHOWN = 8  # methods in the table
STAGES = {
    "refit": "training the best once more, on all rows",
    "write": "writing model and report",
}


@contextmanager
def show_race(seconds: float, is_quiet: bool = False) -> Iterator[Callable[[News], None]]:
    """Gives a listener for the news of a fit that ends in `seconds`: a live picture on a terminal, otherwise lines.

    It has a standard error of its own, so that the usual one can be sent elsewhere meanwhile.
    """
    if is_quiet:
        yield lambda news: None
        return
    from rich.console import Console
    from rich.live import Live

    with os.fdopen(os.dup(2), "w", encoding="utf-8") as terminal:
        screen = Console(file=terminal, highlight=False)
        if screen.is_terminal:
            picture = _Picture(seconds)
            with Live(
                get_renderable=picture.draw, console=screen, refresh_per_second=4, transient=True, redirect_stderr=False
            ):
                yield picture
        else:
            yield _Lines(terminal, seconds)


class _Standing:
    """How the methods stand: the best trial of each, and how many there were."""

    def __init__(self) -> None:
        self.best: dict[str, Trial] = {}
        self.trials: dict[str, int] = {}
        self.failed: dict[str, str] = {}

    def add(self, method: str, record: Trial) -> bool:
        """Take note of a trial; whether it is the best of all."""
        self.trials[method] = self.trials.get(method, 0) + 1
        if record.state != "complete":
            self.failed[method] = record.message
            return False
        known = self.best.get(method)
        if known is None or _loss(record) < _loss(known):
            self.best[method] = record
        return min(self.best.values(), key=_loss) is record

    def order(self) -> list[str]:
        return sorted(self.best, key=lambda method: _loss(self.best[method]))


class _Lines:
    """Plain lines: one whenever a better model is found, and one per stage, each with the time left."""

    def __init__(self, file: TextIO, seconds: float) -> None:
        self._file, self._seconds = file, seconds
        self._start, self._lock = time.monotonic(), threading.Lock()
        self._standing = _Standing()

    def __call__(self, news: News) -> None:
        with self._lock:
            if news.stage == "plan":
                self._print(_plan(news))
            elif news.record is not None and self._standing.add(news.method, news.record):
                loss = news.record.metrics.get("log_loss")
                details = _score(news.record) if loss is None else f"{_score(news.record)}, log loss {abs(loss):.4g}"
                self._print(f"best so far: {_title(news.method, news.record)}, {details} on the validation rows")
            elif news.stage in STAGES:
                self._print(STAGES[news.stage])

    def _print(self, text: str) -> None:
        elapsed = time.monotonic() - self._start
        print(f"{_clock(elapsed)}  {_clock(self._seconds - elapsed)} left  {text}", file=self._file, flush=True)


class _Picture:
    """The state of a fit, drawn anew several times a second."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._start, self._lock = seconds, time.monotonic(), threading.Lock()
        self._standing, self._running, self._stage = _Standing(), dict[str, float](), "getting ready"
        self._methods = 0

    def __call__(self, news: News) -> None:
        with self._lock:
            if news.stage == "plan":
                self._methods, self._stage = len(news.methods), _plan(news)
            elif news.stage == "start":
                self._running[news.method] = time.monotonic()
            elif news.record is not None:
                self._running.pop(news.method, None)
                self._standing.add(news.method, news.record)
            elif news.stage in STAGES:
                self._running.clear()
                self._stage = STAGES[news.stage]

    def draw(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        with self._lock:
            now = [
                f"{_title(method)} {time.monotonic() - since:.0f} s" for method, since in sorted(self._running.items())
            ]
            parts: list[Any] = [Text(), self._bar(), Text()]
            if self._standing.best:
                parts += [self._table(), Text()]
            if now:
                parts.append(Text(f"now  {', '.join(now)}", style="cyan"))
            return Group(*parts)

    def _bar(self) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        elapsed = min(time.monotonic() - self._start, self._seconds)
        line = Table.grid(padding=(0, 1))
        line.add_row(
            ProgressBar(total=self._seconds, completed=elapsed, width=30),
            f"{_clock(self._seconds - elapsed)} left, {self._stage}",
        )
        return line

    def _table(self) -> Any:
        from rich.markup import escape
        from rich.table import Table

        order, trials = self._standing.order(), self._standing.trials
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        table.add_column(f"best so far, {len(order)} of {plural(self._methods, 'method')}")
        table.add_column("validation", justify="right")
        table.add_column("settings tried", justify="right")
        for place, method in enumerate(order[:SHOWN]):
            style = "bold green" if place == 0 else ""
            best = self._standing.best[method]
            table.add_row(escape(_title(method, best)), _score(best), str(trials[method]), style=style)
        return table


def _plan(news: News) -> str:
    from hopular.formatting import plural

    resumed = f", going on after {plural(news.trials, 'setting')}" if news.trials else ""
    return f"trying {plural(len(news.methods), 'method')}{resumed}"


def _title(method: str, record: Trial | None = None) -> str:
    from hopular.evaluation.results import title

    return title(method) if record is None else title(method, record.params)


def _loss(record: Trial) -> float:
    assert record.score is not None  # the trial is complete
    return -record.score


def _score(record: Trial) -> str:
    metrics = record.metrics
    return f"accuracy {metrics['accuracy']:.4f}" if "accuracy" in metrics else f"MSE {metrics['mse']:.4g}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
