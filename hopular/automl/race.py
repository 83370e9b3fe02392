"""The race: every method is tried once, the cheap ones first; then time goes to the methods in proportion to promise.

As many fits run side by side as there are cores, each in a process with one thread, which is the better use of cores on
small tables: most fits are too short to be shared out. Any process fits any method, so that the seconds of imports are
spent once. A fit still running when time is up is ended with its process.
"""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pandas as pd

from hopular.automl.candidate import Candidate
from hopular.automl.news import News
from hopular.trials.problem import Problem
from hopular.trials.trial import Job
from hopular.trials.worker import InfrastructureError, WorkerPool
from hopular.util import cores

POOL = "all methods"  # the name under which processes are kept warm
MAX_WORKERS = 8  # processes side by side; on more cores each gets several threads
GRACE, GRACE_SECONDS = 2.0, (15.0, 20.0)  # times its limit, and at least so long, before a fit that goes on is ended
FIRST_SHARE = 0.6  # of the time left that the first round may take
SHORTEST = 1.0  # seconds that any fit is given
SURE = 2.0  # times its usual seconds that must be left for a fit to begin, if it cannot be cut short
FADING = 0.75  # how much less time a method gets than the one ranked before it
POLL = 0.1  # seconds between looks for something to do


class Stopped(Exception):  # noqa: N818
    """Time is up, or the caller wants no more."""


class Race:
    """Candidates at work until `end`, a moment of time.monotonic()."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        problem: Problem,
        X_test: pd.DataFrame,
        end: float,
        pool: WorkerPool,
        on_news: Callable[[News], None],
    ) -> None:
        self.candidates, self._problem, self._X_test, self.end = list(candidates), problem, X_test, end
        self.workers = min(cores(), MAX_WORKERS)
        self.threads = max(1, cores() // self.workers)
        self._pool, self._tell = pool, on_news
        self.lock, self._stopped = threading.Lock(), threading.Event()
        self._errors: list[BaseException] = []

    @contextmanager
    def run(self) -> Iterator[list[threading.Thread]]:
        """Let the candidates race within the block, which gets the threads to wait for; all is quiet after it."""
        self._stopped.clear()
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self.workers)]
        try:
            for thread in threads:
                thread.start()
            yield threads
        finally:
            self.stop()
            for thread in threads:
                thread.join()
        if self._errors:
            raise self._errors[0]

    def stop(self) -> None:
        """Begin no fit and end those that run."""
        self._stopped.set()

    @property
    def has_model(self) -> bool:
        return any(candidate.best is not None for candidate in self.candidates)

    # -------------------------------------------------------------------------------------------------- one thread

    def _work(self) -> None:
        try:
            while not self._is_over():
                with self.lock:
                    candidate = self._choose()
                    if candidate is not None:
                        candidate.is_running = True
                        seconds = self._limit(candidate)
                if candidate is None:
                    if not any(other.is_running for other in self.candidates):
                        return  # there is nothing left to try, or no time for it
                    self._stopped.wait(POLL)
                    continue
                try:
                    self._try(candidate, seconds)
                finally:
                    candidate.is_running = False
        except Stopped:
            pass
        except BaseException as error:
            self._errors.append(error)
            self.stop()

    def _is_over(self) -> bool:
        """A race without any model yet goes on a little longer: `fit_table` says for how long."""
        return self._stopped.is_set() or (time.monotonic() >= self.end and self.has_model)

    def _try(self, candidate: Candidate, seconds: float) -> None:
        def beat() -> None:
            if self._is_over():
                raise Stopped

        setting = candidate.next_setting()
        folder = candidate.folder / str(setting.trial.slot)
        shutil.rmtree(folder, ignore_errors=True)  # what an interrupted fit may have left
        left = max(self.end - time.monotonic(), SHORTEST)
        limit = max(GRACE * seconds, min(max(left / 2, GRACE_SECONDS[0]), GRACE_SECONDS[1]))
        job = Job(
            setting.trial,
            self.threads,
            max_seconds=seconds,
            deadline=time.time() + left,
            X_test=self._X_test,
            folder=folder,
        )
        self._tell(News("start", candidate.name))
        try:
            with self._pool.lend(self._problem, POOL, self.threads) as worker:
                (ended,) = worker.run([job], report=lambda *_: False, beat=beat, max_seconds=limit)
        except InfrastructureError as error:  # no fault of the method, but no use for it either
            ended = replace(setting.trial, state="failed", failure="crash", message=str(error))
        with self.lock:
            record = candidate.add(setting, ended)
        self._tell(News("done", candidate.name, record))

    # ---------------------------------------------------------------------------------------- who is next, how long

    def _choose(self) -> Candidate | None:
        """Whoever has not been tried; then the one that has had the least time for its promise.

        A fit that is not likely to end in time is not begun.
        """
        free = [candidate for candidate in self.candidates if not candidate.is_running and not candidate.is_over]
        untried = [candidate for candidate in free if not candidate.records]
        if untried:
            return min(untried, key=lambda candidate: candidate.cost)
        left = self.end - time.monotonic()
        promise = self._promise()
        able = [candidate for candidate in free if _likely(candidate) < left]
        return min(able, key=lambda candidate: candidate.seconds / promise[candidate.name], default=None)

    def _promise(self) -> dict[str, float]:
        """The share of the time that each method deserves by its best validation score so far."""
        order = sorted(self.candidates, key=_rank)
        return {candidate.name: FADING**place for place, candidate in enumerate(order)}

    def _limit(self, candidate: Candidate) -> float:
        """The seconds of the next fit: at first by expected cost, then a few times what was usual."""
        left = self.end - time.monotonic()
        if candidate.records:
            return max(SHORTEST, min(left, max(3 * _expected(candidate), left / 4)))
        waiting = sum(other.cost for other in self.candidates if not other.records and not other.is_running)
        waiting += candidate.cost  # it counts as running by now
        return max(SHORTEST, FIRST_SHARE * left * min(1.0, self.workers * candidate.cost / waiting))


def _expected(candidate: Candidate) -> float:
    """How long a fit of a method usually takes."""
    return statistics.median(record.fit_seconds + record.predict_seconds for record in candidate.records)


def _likely(candidate: Candidate) -> float:
    """How long a fit takes at most, if nothing odd happens; one that trains by epochs ends when it has to."""
    return _expected(candidate) if candidate.method.has_curve else SURE * _expected(candidate)


def _rank(candidate: Candidate) -> float:
    """Return what methods are sorted by: the score of their best trial, or last if there is none."""
    best = candidate.best
    return float("inf") if best is None or best.score is None else -best.score
