"""The search: lease a slot, propose a setting, fit it in a worker process, store its record; until no slot is left.

Slots whose settings can share one training are leased and fitted together; each has a trial and a record of its own.
"""

from __future__ import annotations

import hashlib
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from hopular.methods import MethodError, get_method
from hopular.methods.fingerprint import take_fingerprint
from hopular.trials.budget import Budget, metric_of
from hopular.trials.fit import SOFT
from hopular.trials.problem import Problem
from hopular.trials.select import best_of
from hopular.trials.space import Proposal, Proposer
from hopular.trials.study import Study, open_storage
from hopular.trials.trial import Job, Trial, trial_seed
from hopular.trials.worker import InfrastructureError, LostError, Worker, WorkerPool
from hopular.util import InputError, cores

BEAT = 5.0  # seconds between beats of a lease
SHOW = 0.25  # seconds at least between the points of a learning curve that the study shows
WAIT = (0.2, 2.0)  # seconds between looks at slots that others have, at first and later on
GRACE, MAX_GRACE = 0.2, 10.0  # share of a search's time, and seconds, that a first trial may still use after the end
RETRIES = 2  # of a trial whose process could not be started or was lost
PAUSE = 1.0  # seconds before the first of them


@dataclass(frozen=True)
class SearchResult:
    """A search as it stands: all finished trials, also those of earlier calls and other processes."""

    study: str
    slots: int
    trials: list[Trial]

    @property
    def best(self) -> Trial | None:
        return best_of(self.trials)

    @property
    def complete(self) -> bool:
        """Whether the whole budget of trials is used; not so if time ran out."""
        return len(self.trials) == self.slots

    @property
    def summary(self) -> str:
        """Counts in words: '12 trials: 9 complete, 1 pruned, 2 failed (1 time-out, 1 crash)'."""
        states = Counter(trial.state for trial in self.trials)
        failures = Counter(trial.failure for trial in self.trials if trial.failure)
        parts = [f"{count} {state}" for state, count in sorted(states.items())]
        failed = f" ({', '.join(f'{count} {name}' for name, count in sorted(failures.items()))})" if failures else ""
        return f"{len(self.trials)} of {self.slots} trials: {', '.join(parts) or 'none'}{failed}"


def study_name(problem: Problem, method: str, budget: Budget, seed: int = 0, device: str = "cpu") -> str:
    """Name the study that `search` with these arguments uses.

    The name says what the study is of, and changes with anything that its trials depend on, code included.
    """
    limits = replace(budget.concerning(get_method(method)), replicates=1)  # training afterwards is no matter of it
    maker = take_fingerprint(method, device)
    parts = (problem.fingerprint, problem.size, method, maker.digest, repr(limits), seed)
    digest = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()
    return f"{problem.name[:100]} {method[:50]} {digest[:16]}"


def search(
    problem: Problem,
    method: str,
    budget: Budget,
    *,
    seed: int = 0,
    storage: str | None = None,
    jobs: int = 1,
    threads: int | None = None,
    device: str = "cpu",
    predictions: Path | None = None,
    pool: WorkerPool | None = None,
    on_trial: Callable[[Trial, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> SearchResult:
    """Use the budget up and return all trials. `on_trial(trial, slots)` is called for each one finished here.

    Each job fits with `threads` threads, by default its share of the cores. Once `should_stop()` says so, running
    trials are given up and the search returns as it stands.
    """
    run = _Search(problem, method, budget, seed, storage, jobs, device, predictions, threads, pool, should_stop)
    with closing(run.study):
        with closing(run.iterate()) as records:
            for record in records:
                if on_trial is not None:
                    on_trial(record, run.slots)
        return run.result()


def read_result(
    problem: Problem,
    method: str,
    budget: Budget,
    *,
    seed: int = 0,
    storage: str | None = None,
    device: str = "cpu",
) -> SearchResult:
    """What `search` with these arguments has found so far; nothing is tried."""
    run = _Search(problem, method, budget, seed, storage, jobs=1, device=device, predictions=None)
    with closing(run.study):
        return run.result()


def iterate(problem: Problem, method: str, budget: Budget, **options: Any) -> Generator[Trial]:
    """The same as `search`, but yields each trial as it is finished here. Closing the iterator stops the search."""
    defaults = {"seed": 0, "storage": None, "jobs": 1, "device": "cpu", "predictions": None}
    return _Search(problem, method, budget, **{**defaults, **options}).iterate()


class _Cancelled(Exception):  # noqa: N818
    """The caller wants no more trials, or time is up."""


@dataclass
class _Running:
    """A trial at work."""

    trial: Trial
    proposal: Proposal
    curve: list[tuple[int, float]] = field(default_factory=list)
    shown: float = 0.0  # when the study was last shown a point of it


class _Search:
    """One process's part in a search."""

    def __init__(
        self,
        problem: Problem,
        method: str,
        budget: Budget,
        seed: int,
        storage: str | None,
        jobs: int,
        device: str,
        predictions: Path | None,
        threads: int | None = None,
        pool: WorkerPool | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> None:
        self._method = get_method(method)
        if problem.task not in self._method.tasks:
            raise MethodError(f"method {method!r} is not for {problem.task}, which {problem.name!r} is")
        if jobs < 1:
            raise InputError(f"jobs is {jobs!r}: use a whole number from 1 on")
        self.problem, self.method, self.budget, self.seed = problem, method, budget, seed
        self.jobs, self.device = jobs, device
        self.threads = threads or max(1, cores() // jobs)
        self._pool = pool or WorkerPool()
        self._should_stop = should_stop or (lambda: False)
        self.proposer = Proposer(
            method, problem.size, seed, prunes=budget.prunes, architecture=budget.architecture_of(self._method)
        )
        self.slots = budget.slots(None if self.proposer.grid is None else len(self.proposer.grid))
        name = study_name(problem, method, budget, seed, device)
        metric = metric_of(budget.criterion, problem.task)
        value = metric if metric == "accuracy" else f"minus {metric}"
        limits = repr(budget.concerning(self._method))
        facts = {"problem": problem.name, "method": method, "budget": limits, "value": f"validation {value}"}
        self.study = Study(open_storage(storage), name, facts)
        self.predictions = None if predictions is None else predictions / name.rpartition(" ")[2]
        self._lock, self._stop, self._changed = threading.Lock(), threading.Event(), threading.Condition()
        self._start = self._spent_at = 0.0
        self._deadline = float("inf")
        self._grace = min(GRACE * (budget.seconds or 0.0), MAX_GRACE)
        self._is_empty = True  # no trial is complete yet

    def result(self) -> SearchResult:
        records = [Trial.from_json(trial.user_attrs["record"]) for trial in self.study.trials().values()]
        return SearchResult(self.study.name, self.slots, records)

    # -------------------------------------------------------------------------------------------------- the loop

    def iterate(self) -> Generator[Trial]:
        """Run `jobs` trials side by side, each in a process of its own, and yield records as they come."""
        self._start = self._spent_at = time.monotonic()
        self.study.bury()
        if self.budget.seconds is not None:
            self._is_empty, spent = self.result().best is None, self.study.spent()
            if self._is_empty and spent >= self.budget.seconds:
                spent = 0.0  # all time is used and nothing came of it: worth another try
            self._deadline = self._start + self.budget.seconds - spent
        finished: queue.SimpleQueue[Trial | BaseException | None] = queue.SimpleQueue()
        threads = [threading.Thread(target=self._work, args=(finished,), daemon=True) for _ in range(self.jobs)]
        working = len(threads)
        try:
            for thread in threads:
                thread.start()
            while working:
                try:
                    item = finished.get(timeout=1.0)  # in short steps, between which a time-out can interrupt a thread
                except queue.Empty:
                    continue
                if item is None:
                    working -= 1
                elif isinstance(item, BaseException):
                    raise item
                else:
                    yield item
        finally:
            self._stop.set()
            with self._changed:
                self._changed.notify_all()
            for thread in threads:
                if thread.ident is not None:  # it was started
                    thread.join()
            self._spend()
            self.study.close()

    def _spend(self) -> None:
        """Note the time used, where there is a limit, for those who go on with this search."""
        self._spent_at = time.monotonic()
        if self.budget.seconds is not None:
            self.study.spend(self._spent_at - self._start)

    def _work(self, finished: queue.SimpleQueue[Trial | BaseException | None]) -> None:
        """One thread: lease, fit, store; until nothing is left to do."""
        wait = WAIT[0]
        try:
            with self._pool.lend(self.problem, self.method, self.threads) as worker:
                while not self._is_over():
                    with self._lock:
                        slot = self.study.lease(range(self.slots))
                    if slot is None:
                        if len(self.study.trials()) >= self.slots:
                            self.study.sweep()
                            break
                        with self._changed:  # others are at work; a lease of theirs may still fall to us
                            self._changed.wait(wait)
                        wait = min(1.2 * wait, WAIT[1])
                        continue
                    wait = WAIT[0]
                    for record in self._run(worker, slot):
                        finished.put(record)
                    with self._changed:
                        self._changed.notify_all()
        except _Cancelled:
            pass
        except BaseException as error:
            finished.put(error)
        finally:
            finished.put(None)

    def _is_over(self, is_running: bool = False) -> bool:
        """Whether to start no more trials; or, if one is running, whether to give it up."""
        grace = self._grace if is_running and self._is_empty else 0.0
        return self._stop.is_set() or self._should_stop() or time.monotonic() >= self._deadline + grace

    def _run(self, worker: Worker, slot: int) -> list[Trial]:
        """Run the trial of a leased slot, and with it the open ones that can share its training.

        Returns the records that are stored: not those of slots whose lease was lost meanwhile.
        """
        slots = [slot]
        try:
            with self._lock:
                for other in self.proposer.alike(slot, self._method.shares):
                    if slot < other < self.slots and self.study.lease([other]) is not None:
                        slots.append(other)
                self.proposer.learn(self.study.finished)
                trials = [self._start_trial(each) for each in slots]
            ended = self._fit(worker, trials)
            records = [self._store(one, trial) for one, trial in zip(trials, ended, strict=True)]
            self._spend()
            return [record for record in records if record is not None]
        except BaseException:
            for each in slots:
                self.study.give_up(each)
            raise

    def _start_trial(self, slot: int) -> _Running:
        proposal = self.proposer.propose(slot)
        self.study.start(slot, proposal.params, proposal.distributions)
        params = self.budget.settings_of(self._method, proposal.settings, self.slots)
        return _Running(Trial(slot, trial_seed(self.seed, slot), params, method=self.method), proposal)

    def _store(self, running: _Running, trial: Trial) -> Trial | None:
        trial = replace(trial, curve=sorted(dict(running.curve).items()))
        if self.predictions is not None and trial.predictions is not None and self.study.holds(trial.slot):
            _keep(self.predictions / f"{trial.slot}.npy", trial.predictions)
        with self._lock:
            self.proposer.forget(running.proposal)
            is_stored = self.study.add(trial)
        self._is_empty = self._is_empty and trial.state != "complete"
        return trial if is_stored else None

    def _fit(self, worker: Worker, trials: Sequence[_Running]) -> list[Trial]:
        """Fit trials in one training. Those that fail in company are tried once more, each by itself."""
        ended = self._fit_at_once(worker, trials)
        if len(trials) > 1:
            for place, trial in enumerate(ended):
                if trial.state == "failed":
                    (ended[place],) = self._fit_at_once(worker, [trials[place]])
        return ended

    def _fit_at_once(self, worker: Worker, trials: Sequence[_Running]) -> list[Trial]:
        last = time.monotonic()

        def report(place: int, percent: int, score: float) -> bool:
            running = trials[place]
            running.curve.append((percent, score))
            if time.monotonic() - running.shown > SHOW:
                self.study.report(running.trial.slot, percent, score)
                running.shown = time.monotonic()
            with self._lock:
                running.proposal.trial.report(score, percent)
                return running.proposal.trial.should_prune()

        def beat() -> None:
            nonlocal last
            if self._is_over(is_running=True):
                raise _Cancelled
            if time.monotonic() - last > BEAT:
                for running in trials:
                    self.study.beat(running.trial.slot)
                last = time.monotonic()
            if time.monotonic() - self._spent_at > BEAT:
                self._spend()

        each = self.budget.seconds_per_trial
        seconds = None if each is None else each * len(trials)
        limits = {"max_seconds": seconds, "max_memory": self.budget.memory}
        for attempt in range(RETRIES + 1):
            for running in trials:
                running.curve.clear()
            try:
                return worker.run(
                    [self._job(running.trial, seconds) for running in trials], report=report, beat=beat, **limits
                )
            except InfrastructureError as error:
                if attempt == RETRIES:
                    if isinstance(error, LostError):
                        return error.trials
                    raise
                self._stop.wait(PAUSE * 2**attempt)
        raise AssertionError("unreachable")

    def _job(self, trial: Trial, seconds: float | None) -> Job:
        left = self._deadline - time.monotonic()
        soft = None if seconds is None else SOFT * seconds
        deadline = None if left == float("inf") else time.time() + left
        criterion = self.budget.criterion
        return Job(trial, self.threads, self.device, soft, deadline, self.study.name, criterion=criterion)


def _keep(path: Path, values: np.ndarray[Any, Any]) -> None:
    """Validation predictions, for the ensemble: whole or not at all. Parts that a killed process left go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{path.stem}-*.npy"):  # nobody else has the lease of this slot
        left.unlink(missing_ok=True)
    part = path.with_name(f".{path.stem}-{os.getpid()}.npy")
    np.save(part, values)
    os.replace(part, path)
