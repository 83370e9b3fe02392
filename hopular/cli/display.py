"""The live display of a benchmark: what runs, how far it is, and the scores so far."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from hopular.formatting import plural

if TYPE_CHECKING:
    from rich.console import Group

    from hopular.trials.events import Event

OVER = ("done", "reused", "failed")


@contextmanager
def show_progress(is_quiet: bool = False, is_verbose: bool = False) -> Iterator[Callable[[Event], None]]:
    """Gives a listener for the events of a run: a live picture on a terminal, otherwise a line per unit.

    With `is_verbose` there are lines above the picture too, and one for each trial. It has a standard error of its
    own, so that the usual one can be sent elsewhere meanwhile.
    """
    if is_quiet:
        yield lambda event: None
        return
    from rich.console import Console
    from rich.live import Live

    with os.fdopen(os.dup(2), "w", encoding="utf-8") as terminal:
        screen = Console(file=terminal, highlight=False)
        if screen.is_terminal:
            picture = _Picture()
            with Live(
                get_renderable=picture.draw, console=screen, refresh_per_second=4, transient=True, redirect_stderr=False
            ):
                write = partial(screen.print, markup=False)
                lines = _Lines(write, is_verbose) if is_verbose else partial(_keep_notes, write)
                yield partial(_tell, (picture, lines))
        else:
            yield _Lines(partial(print, file=terminal, flush=True), is_verbose)


def _tell(listeners: Sequence[Callable[[Event], None]], event: Event) -> None:
    for listener in listeners:
        listener(event)


def _keep_notes(write: Callable[[str], None], event: Event) -> None:
    """Write what is to be known of the run, or why a method is computed again, in a line that stays."""
    if event.stage == "note":
        write(f"{event.method or 'note'}: {event.message}")


class _Progress:
    """How many units there are and how many are over, from which the time left is guessed."""

    def __init__(self) -> None:
        self._units, self._over, self._reused, self._start = 0, 0, 0, time.monotonic()

    def __call__(self, event: Event) -> None:
        if event.stage == "planned":
            self._units = event.trials
        elif event.stage in OVER:
            self._over += 1
            self._reused += event.stage == "reused"

    def left(self) -> str:
        """', about 1:30 left'; nothing before the first unit is trained and after the last."""
        trained, rest = self._over - self._reused, self._units - self._over
        if not trained or not rest:
            return ""
        return f", about {_clock((time.monotonic() - self._start) / trained * rest)} left"


class _Lines(_Progress):
    """Plain lines: one per finished unit with the time left, and with `is_verbose` one per trial."""

    def __init__(self, write: Callable[[str], None], is_verbose: bool) -> None:
        super().__init__()
        self._write, self._is_verbose = write, is_verbose

    def __call__(self, event: Event) -> None:
        super().__call__(event)
        _keep_notes(self._write, event)
        if event.stage == "planned":
            self._write(f"{event.message}: {plural(event.trials, 'unit')}")
        elif event.stage in OVER:
            unit = f"{event.dataset} {event.split} {event.method}"
            self._write(f"[{self._over}/{self._units}{self.left()}] {unit}: {outcome(event)}")
        elif event.stage == "trial" and self._is_verbose:
            self._write(f"  {event.dataset} {event.split} {event.method}: {_trial(event)}")


def _trial(event: Event) -> str:
    """Say how far a search is, and the best validation score so far in the metric that decides."""
    metric = event.message.replace("_", " ")
    best = "" if event.best is None else f", best validation {metric} so far {abs(event.best):.4g}"
    return f"trial {event.trial} of {event.trials}{best}"


def outcome(event: Event) -> str:
    """How a unit ended, in words."""
    if event.stage == "failed":
        return f"failed: {event.message}"
    before = " (finished before)" if event.stage == "reused" else ""
    return f"{event.message} {event.best:z.4g}{before}"


class _Picture(_Progress):
    """The state of a run, drawn anew several times a second."""

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

        if not self._units:
            return Group(Text(f"Preparing ... {_clock(time.monotonic() - self._start)}", style="dim"))
        parts: list[Any] = [Text(self._name, style="bold"), self._bar()]
        parts += [Text(f"  {_what(event)}", style="cyan") for event in self._running.values()]
        parts += [
            Text(f"  ✗ {event.method} on {event.dataset}: {event.message[:90]}", style="red")
            for event in self._failed[-3:]
        ]
        return Group(*parts, self._table())

    def _bar(self) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        elapsed = time.monotonic() - self._start
        line = Table.grid(padding=(0, 1))
        line.add_row(
            ProgressBar(total=self._units, completed=self._over, width=30),
            f"{self._over} of {plural(self._units, 'unit')}, {_clock(elapsed)}{self.left()}",
        )
        return line

    def _table(self) -> Any:
        """Test scores so far: a row per method, a column per dataset, the latest ones if there are many."""
        from rich.markup import escape
        from rich.table import Table

        names = list(self._scores)[-5:]
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2))
        table.add_column("test score so far" if names else "")
        for name in names:
            table.add_column(escape(name[:24]), justify="right")
        for method in dict.fromkeys(method for scores in self._scores.values() for method in scores):
            cells = (self._scores[name].get(method) for name in names)
            table.add_row(escape(method), *("" if not cell else f"{sum(cell) / len(cell):.4g}" for cell in cells))
        return table


def _what(event: Event) -> str:
    place = f"{event.dataset}  {event.method}"
    if event.stage == "trial":
        return f"{place}  {_trial(event)}"
    if event.stage == "train" and event.trials > 1:
        return f"{place}  training {event.trial + 1} of {event.trials}"
    return f"{place}  {event.stage}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
