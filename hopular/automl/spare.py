"""A spare process for the refit, which is ready before the race ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hopular.trials.problem import Fold, Problem
from hopular.trials.run import MethodSearch
from hopular.trials.select import Choice, Chosen
from hopular.trials.trial import Job, Trial
from hopular.trials.worker import InfrastructureError, Stopped, Worker, WorkerPool

SAFETY = 1.2  # a refit is expected to take this many times its seconds, since the machine may be busier then
BESIDE_SECONDS = 0.25  # each fit in a process that is ready takes this long beside the fit itself
LOOK_SECONDS = 0.2  # methods that have a model are looked for this often
FEW_ROWS = 5  # a rehearsal fits so many rows of each class, or ten times as many numbers
REHEARSAL_SECONDS = (0.2, 10.0)  # a rehearsal is to end by itself after the first, and is ended after the second


class Spare:
    """A process that takes no part in the race, so that a refit never has to wait for one to start.

    Fits that run when the race is over are ended with their processes. This one rehearses meanwhile: it fits and saves
    the methods that would be refitted now, on a few rows, so that their imports are done.
    """

    def __init__(self, searches: Sequence[MethodSearch], folder: Path, threads: int, end: float) -> None:
        self.worker = Worker(_few_rows(searches[0].problem), threads)
        self.start_seconds = 0.0  # the longest that a rehearsal took, which is the time of imports
        self.wanted: set[str] = set()  # methods that would be refitted now; the best one until the first choice
        self._searches, self._folder, self._threads, self._end = searches, folder, threads, end
        self._rehearsed: set[str] = set()
        self._halted, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._rehearse_all, daemon=True)

    def __enter__(self) -> Spare:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._free(wait=True)
        self.worker.close()

    @contextmanager
    def lend(self, choice: Choice, pool: WorkerPool, name: str, problem: Problem) -> Iterator[Worker]:
        """Give the spare process; one of the race if that is alive and the spare one is busy or lacks imports.

        It is the one that the last fit was done in, so it has the libraries of a model that came at the last moment.
        """
        if self._free(wait=False) and self.has_rehearsed(choice):
            yield self.worker
            return
        with pool.lend(problem, name, self._threads) as worker:
            if worker.is_alive:
                yield worker
            else:
                self._free(wait=True)
                yield self.worker

    def has_rehearsed(self, choice: Choice) -> bool:
        """Return whether the imports of all members are done in the process."""
        return self.worker.is_alive and {member.method for member in choice.members} <= self._rehearsed

    def _free(self, *, wait: bool) -> bool:
        """Begin no other rehearsal. Returns whether the process is free; if `wait`, it is, unless time is up."""
        self._halted.set()
        self._thread.join(None if wait else LOOK_SECONDS)
        return not self._thread.is_alive()

    def _rehearse_all(self) -> None:
        with suppress(Stopped, InfrastructureError):  # the next rehearsal starts the process again
            self._rehearse(self._searches[0].method.name, {}, 0)  # the cheapest, for what all methods import
        while not self._halted.wait(LOOK_SECONDS):
            tried = [best for search in self._searches if search.has_model and (best := search.best) is not None]
            wanted = self.wanted or {best.method for best in sorted(tried, key=lambda trial: trial.rank[:2])[:1]}
            for best in tried:
                if best.method in wanted - self._rehearsed and not self._halted.is_set():
                    try:
                        self._rehearse(best.method, best.params, best.seed)
                    except Stopped:
                        return
                    except InfrastructureError:  # the process is gone, and with it what was imported
                        self._rehearsed.clear()

    def _rehearse(self, method: str, params: dict[str, Any], seed: int) -> None:
        began, (soft, hard) = time.monotonic(), REHEARSAL_SECONDS
        job = Job(Trial(0, seed, params, method=method), self._threads, max_seconds=soft, folder=self._folder / method)
        self.worker.run([job], report=lambda *_: False, beat=self._beat, max_seconds=hard)
        if not self.worker.is_alive:  # the rehearsal has cost it
            self._rehearsed.clear()
        self._rehearsed.add(method)
        self.start_seconds = max(self.start_seconds, time.monotonic() - began)

    def _beat(self) -> None:
        if time.monotonic() >= self._end or self._closed.is_set():
            raise Stopped


def refit_seconds(choice: Choice, growth: float, workers: int, spare: Spare) -> tuple[float, float]:
    """Return how long a refit takes with `growth` times as many rows: in the spare process alone, and in `workers`."""
    fits = [_seconds(member, growth) for member in choice.members]
    alone = sum(fits) if spare.has_rehearsed(choice) else spare.start_seconds + sum(fits)
    return alone, spare.start_seconds + max(max(fits), sum(fits) / workers)


def _seconds(member: Chosen, growth: float) -> float:
    """Return the seconds of a fit: more with more rows, but a network keeps to the time it had."""
    before, seconds = member.trial.fit_seconds, growth * member.trial.fit_seconds
    if member.search.method.has_curve and member.trial.max_seconds is not None:
        seconds = max(before, min(seconds, member.trial.max_seconds))
    return SAFETY * seconds + BESIDE_SECONDS


def _few_rows(problem: Problem) -> Problem:
    """Return a problem of a few rows of each class, or of a few rows."""
    target = problem.y.iloc[problem.folds[0].train]
    few = target.head(10 * FEW_ROWS)
    if problem.task == "classification":
        few = target.groupby(target, observed=True).head(FEW_ROWS)
    rows = np.arange(len(few))
    X, y = problem.X.loc[few.index].reset_index(drop=True), few.reset_index(drop=True)
    return replace(problem, X=X, y=y, folds=(Fold(rows, rows),))
