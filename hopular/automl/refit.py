"""Refit: the chosen model once more on all rows it can use, in a process that was ready before the race ended."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hopular.automl.candidate import Candidate
from hopular.automl.choice import Choice, Member
from hopular.automl.race import POOL, Stopped
from hopular.data.dataset import Dataset
from hopular.data.splits import Split
from hopular.trials.problem import Fold, Problem
from hopular.trials.refit import refit_problem, refit_trial
from hopular.trials.trial import Job, Trial
from hopular.trials.worker import InfrastructureError, Worker, WorkerPool

SAFETY = 1.2  # times the expected seconds: the machine may be busier now
BESIDE = 0.25  # seconds for each fit in a process that is ready, beside the fit itself
LOOK = 0.2  # seconds between looks for methods that have a model
FEW_ROWS = 5  # of each class, or ten times as many numbers, that a rehearsal fits
REHEARSAL = (0.2, 10.0)  # seconds after which a rehearsal is to end by itself, and is ended
NO_TIME = "no time was left to refit"


class Spare:
    """A process that takes no part in the race, so that a refit never has to wait for one to start.

    Fits that run when the race is over are ended with their processes. This one rehearses meanwhile: it fits and saves
    the methods that would be refitted now, on a few rows, so that their imports are done.
    """

    def __init__(
        self, candidates: Sequence[Candidate], problem: Problem, folder: Path, threads: int, end: float
    ) -> None:
        self.worker = Worker(_few_rows(problem), threads)
        self.start_seconds = 0.0  # the longest that a rehearsal took, which is the time of imports
        self.wanted: set[str] = set()  # methods that would be refitted now; the best one until the first choice
        self._candidates, self._folder, self._threads, self._end = candidates, folder, threads, end
        self._rehearsed: set[str] = set()
        self._halted, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._rehearse_all, daemon=True)

    def __enter__(self) -> Spare:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self.free(wait=True)
        self.worker.close()

    def free(self, *, wait: bool) -> bool:
        """Begin no other rehearsal. Returns whether the process is free; if `wait`, it is, unless time is up."""
        self._halted.set()
        self._thread.join(None if wait else LOOK)
        return not self._thread.is_alive()

    def has_rehearsed(self, choice: Choice) -> bool:
        """Return whether the imports of all members are done in the process."""
        return self.worker.is_alive and {member.candidate.name for member in choice.members} <= self._rehearsed

    def _rehearse_all(self) -> None:
        with suppress(Stopped, InfrastructureError):  # the next rehearsal starts the process again
            self._rehearse(self._candidates[0].name, {}, 0)  # the cheapest, for what all methods import
        while not self._halted.wait(LOOK):
            tried = [(one, best) for one in self._candidates if (best := one.best) is not None]
            first = sorted(tried, key=lambda pair: pair[1].rank[:2])[:1]
            wanted = self.wanted or {one.name for one, _ in first}
            for candidate, best in tried:
                if candidate.name in wanted - self._rehearsed and not self._halted.is_set():
                    try:
                        self._rehearse(candidate.name, best.params, best.seed)
                    except Stopped:
                        return
                    except InfrastructureError:  # the process is gone, and with it what was imported
                        self._rehearsed.clear()

    def _rehearse(self, method: str, params: dict[str, Any], seed: int) -> None:
        began = time.monotonic()
        trial = Trial(0, seed, params, method=method)
        job = Job(trial, self._threads, max_seconds=REHEARSAL[0], folder=self._folder / method)
        self.worker.run([job], report=lambda *_: False, beat=self._beat, max_seconds=REHEARSAL[1])
        if not self.worker.is_alive:  # the rehearsal has cost it
            self._rehearsed.clear()
        self._rehearsed.add(method)
        self.start_seconds = max(self.start_seconds, time.monotonic() - began)

    def _beat(self) -> None:
        if time.monotonic() >= self._end or self._closed.is_set():
            raise Stopped


def expected_seconds(choice: Choice, growth: float, workers: int, spare: Spare) -> float:
    """Return how long a refit takes with `growth` times as many rows: in the spare process alone, or in all."""
    return min(_expected_ways(choice, growth, workers, spare))


def _expected_ways(choice: Choice, growth: float, workers: int, spare: Spare) -> tuple[float, float]:
    """Return the seconds of the spare process alone, and of `workers` processes that may have to be started."""
    fits = [_expected(member, growth) for member in choice.members]
    alone = sum(fits) if spare.has_rehearsed(choice) else spare.start_seconds + sum(fits)
    return alone, spare.start_seconds + max(max(fits), sum(fits) / workers)


def _expected(member: Member, growth: float) -> float:
    """A fit takes longer with more rows; one of a network keeps to the time it had."""
    before, seconds = member.record.fit_seconds, growth * member.record.fit_seconds
    if member.candidate.method.has_curve and member.record.max_seconds is not None:
        seconds = max(before, min(seconds, member.record.max_seconds))
    return SAFETY * seconds + BESIDE


def refit(
    choice: Choice,
    dataset: Dataset,
    split: Split,
    folder: Path,
    end: float,
    spare: Spare,
    pool: WorkerPool,
    workers: int,
    threads: int,
) -> tuple[Choice, str]:
    """Fit every member again on all rows it can use, the weightiest first, and save it below `folder`.

    A member that fails or is not done by `end` stays what it was; the sentence says why, and is empty if all are done.
    """
    halted = threading.Event()
    places = deque(range(len(choice.members)))
    members, failures = list(choice.members), list[str]()
    methods = {member.candidate.name: member.candidate.method for member in choice.members}
    problems = {
        needs: refit_problem(dataset, split, next(one for one in methods.values() if one.needs_validation == needs))
        for needs in {method.needs_validation for method in methods.values()}
    }

    def beat() -> None:
        if time.monotonic() >= end or halted.is_set():
            raise Stopped

    def work(is_first: bool) -> None:
        first = problems[choice.members[0].candidate.method.needs_validation]
        try:
            with (
                _ready_worker(choice, spare, pool, first, threads)
                if is_first
                else pool.lend(first, POOL, threads) as worker
            ):
                worker.start(beat)  # before it takes a member that another could fit at once
                while places:
                    fit(worker, places.popleft())
        except (Stopped, IndexError):  # time is up, or another process has taken the last member
            return
        except InfrastructureError as error:
            failures.append(str(error))

    def fit(worker: Worker, place: int) -> None:
        beat()
        member, method = choice.members[place], choice.members[place].candidate.method
        setting, target = refit_trial(member.record), folder / str(place)
        worker.use(problems[method.needs_validation])
        job = Job(setting, threads, max_seconds=setting.max_seconds, folder=target)
        (trained,) = worker.run([job], report=lambda *_: False, beat=beat)
        if trained.state == "complete" and not trained.unsaved:
            members[place] = replace(member, folder=target, rows=trained.rows, is_refit=True)
        else:
            failures.append(f"{method.title}: {trained.message}")

    alone, together = _expected_ways(choice, len(dataset) / len(split.train), workers, spare)
    count = 1 if alone <= together else workers
    with ThreadPoolExecutor(count) as executor:
        try:
            list(executor.map(work, [place == 0 for place in range(count)]))
        except BaseException:
            halted.set()
            raise
    return replace(choice, members=tuple(members)), _why_not(members, failures)


@contextmanager
def _ready_worker(choice: Choice, spare: Spare, pool: WorkerPool, problem: Problem, threads: int) -> Iterator[Worker]:
    """Give the spare process; one of the race if that is alive and the spare one is busy or lacks imports.

    It is the one that the last fit was done in, so it has the libraries of a model that came at the last moment.
    """
    if spare.free(wait=False) and spare.has_rehearsed(choice):
        yield spare.worker
        return
    with pool.lend(problem, POOL, threads) as worker:
        if worker.is_alive:
            yield worker
        else:
            spare.free(wait=True)
            yield spare.worker


def _why_not(members: Sequence[Member], failures: Sequence[str]) -> str:
    left = sum(not member.is_refit for member in members)
    if not left:
        return ""
    which = "" if left == len(members) else f" {left} of {len(members)} members"
    return f"the refit{' of' + which if which else ''} failed ({failures[0]})" if failures else f"{NO_TIME}{which}"


def _few_rows(problem: Problem) -> Problem:
    """Return a problem of a few rows of each class, or of a few rows."""
    target = problem.y.iloc[problem.folds[0].train]
    few = target.head(10 * FEW_ROWS)
    if problem.task == "classification":
        few = target.groupby(target, observed=True).head(FEW_ROWS)
    rows = np.arange(len(few))
    X, y = problem.X.loc[few.index].reset_index(drop=True), few.reset_index(drop=True)
    return replace(problem, X=X, y=y, folds=(Fold(rows, rows),))
