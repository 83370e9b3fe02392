"""The loop: lease a slot, propose a setting, fit it in a worker process, store the trial; until the policy has enough.

Slots whose settings can share one training are leased and fitted together; each has a trial and a record of its own.
"""

from __future__ import annotations

import hashlib
import queue
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hopular.methods import MethodError, get_method
from hopular.methods.fingerprint import take_fingerprint
from hopular.methods.saved import CLASS_FILE
from hopular.trials.budget import Budget, metric_of
from hopular.trials.policy import FixedBudget, Limits, Policy
from hopular.trials.problem import Problem
from hopular.trials.select import best_of, ranked
from hopular.trials.space import Proposal, Proposer
from hopular.trials.study import Study, open_storage
from hopular.trials.trial import Job, Trial, trial_seed
from hopular.trials.worker import InfrastructureError, LostError, Stopped, Worker, WorkerPool
from hopular.util import InputError, cores, whole_file

BEAT_SECONDS = 5.0  # the lease of a running trial is renewed this often
SHOW_SECONDS = 0.25  # the study is shown a point of a learning curve at most this often
RETRY_PAUSE = 1.0  # a trial whose process was lost is tried again after this many seconds, then twice as many
Array = np.ndarray[Any, Any]


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
        """Tell whether the whole budget of trials is used; it is not if time ran out."""
        return len(self.trials) == self.slots

    @property
    def summary(self) -> str:
        """Count trials in words: '12 trials: 9 complete, 1 pruned, 2 failed (1 time-out, 1 crash)'."""
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
    workers: int = 1,
    threads: int | None = None,
    device: str = "cpu",
    predictions: Path | None = None,
    pool: WorkerPool | None = None,
    on_trial: Callable[[Trial, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> SearchResult:
    """Use the budget up and return all trials. `on_trial(trial, slots)` is called for each one finished here.

    Each of the `workers` fits with `threads` threads, by default its share of the cores. Predictions of the validation
    rows are kept below `predictions`. Once `should_stop()` says so, running trials are given up and the search returns
    as it stands.
    """
    found = _open(problem, method, budget, seed, storage, device, predictions)
    loop = _loop(found, budget, device, workers=workers, threads=threads, pool=pool, should_stop=should_stop)
    with closing(found.study):
        with closing(loop.iterate()) as trials:
            for trial in trials:
                if on_trial is not None:
                    on_trial(trial, _slots(found))
        return _result(found)


def read_result(
    problem: Problem,
    method: str,
    budget: Budget,
    *,
    seed: int = 0,
    storage: str | None = None,
    device: str = "cpu",
) -> SearchResult:
    """Return what `search` with these arguments has found so far; nothing is tried."""
    found = _open(problem, method, budget, seed, storage, device, None)
    with closing(found.study):
        return _result(found)


def iterate(
    problem: Problem,
    method: str,
    budget: Budget,
    *,
    seed: int = 0,
    storage: str | None = None,
    device: str = "cpu",
    predictions: Path | None = None,
    **options: Any,
) -> Generator[Trial]:
    """Do the same as `search`, but yield each trial as it is finished here. Closing the iterator stops the search."""
    return _loop(
        _open(problem, method, budget, seed, storage, device, predictions), budget, device, **options
    ).iterate()


def _open(
    problem: Problem,
    method: str,
    budget: Budget,
    seed: int,
    storage: str | None,
    device: str,
    predictions: Path | None,
) -> MethodSearch:
    """Open the study that a search with these arguments uses."""
    known = get_method(method)
    if problem.task not in known.tasks:
        raise MethodError(f"method {method!r} is not for {problem.task}, which {problem.name!r} is")
    architecture = budget.architecture_of(known)
    proposer = Proposer(method, problem.size, seed, prunes=budget.prunes, architecture=architecture)
    slots = budget.slots(None if proposer.grid is None else len(proposer.grid))
    name = study_name(problem, method, budget, seed, device)
    metric = metric_of(budget.criterion, problem.task)
    value = metric if metric == "accuracy" else f"minus {metric}"
    limits = repr(budget.concerning(known))
    facts = {"problem": problem.name, "method": method, "budget": limits, "value": f"validation {value}"}
    return MethodSearch(
        problem,
        method,
        Study(open_storage(storage), name, facts),
        proposer,
        seed,
        settings=partial(budget.settings_of, known, trials=slots),
        slots=slots,
        shares=known.shares,
        folder=None if predictions is None else predictions / name.rpartition(" ")[2],
    )


def _loop(
    found: MethodSearch,
    budget: Budget,
    device: str,
    *,
    workers: int = 1,
    threads: int | None = None,
    pool: WorkerPool | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Loop:
    if workers < 1:
        raise InputError(f"workers is {workers!r}: use a whole number from 1 on")
    policy, threads = FixedBudget(found, budget, should_stop), threads or max(1, cores() // workers)
    return Loop(policy, pool or WorkerPool(), found.method.name, workers=workers, threads=threads, device=device)


def _result(found: MethodSearch) -> SearchResult:
    found.study.trials()
    return SearchResult(found.study.name, _slots(found), found.trials)


def _slots(found: MethodSearch) -> int:
    assert found.slots is not None
    return found.slots


# ---------------------------------------------------------------------------------------------------------- one method


@dataclass
class Running:
    """A trial at work."""

    trial: Trial
    proposal: Proposal
    curve: list[tuple[int, float]] = field(default_factory=list)
    shown: float = 0.0  # when the study was last shown a point of it


class MethodSearch:
    """The trials of one method on a problem: proposed, leased and stored in its study.

    `settings` completes what is proposed; `slots` is None if there is no end of them. Predictions are kept in `folder`,
    and so are the `models` best models.
    """

    def __init__(
        self,
        problem: Problem,
        method: str,
        study: Study,
        proposer: Proposer,
        seed: int,
        *,
        settings: Callable[[dict[str, Any]], dict[str, Any]],
        slots: int | None,
        shares: Sequence[str] = (),
        folder: Path | None = None,
        models: int = 0,
    ) -> None:
        self.problem, self.method, self.study, self.slots = problem, get_method(method), study, slots
        self.folder, self.models, self.running = folder, models, 0
        self._proposer, self._settings, self._seed, self._shares = proposer, settings, seed, shares
        self._trials: dict[int, Trial] = {}
        self.has_model = self.best is not None

    @property
    def trials(self) -> list[Trial]:
        """Return the finished trials as far as they are known here, in the order of their slots."""
        finished: Mapping[int, Any] = self.study.finished
        for slot in finished.keys() - self._trials.keys():
            self._trials[slot] = Trial.from_json(finished[slot].user_attrs["record"])
        return [self._trials[slot] for slot in sorted(self._trials)]

    @property
    def best(self) -> Trial | None:
        """Return the best trial so far."""
        return best_of(self.trials)

    @property
    def seconds(self) -> float:
        """Return the time that was spent on trials, also before a restart."""
        return sum(trial.seconds for trial in self.trials)

    @property
    def kept(self) -> list[Trial]:
        """Return the best trials, whose models are on disk; the best one first."""
        return [trial for trial in ranked(self.trials)[: self.models] if (self.model(trial) / CLASS_FILE).is_file()]

    @property
    def least_score(self) -> float | None:
        """Return the score below which another trial's model would not be kept."""
        best = ranked(self.trials)[: self.models]
        return best[-1].score if len(best) == self.models and best else None

    def model(self, trial: Trial) -> Path:
        """Return the folder of a trial's model."""
        assert self.folder is not None
        return self.folder / str(trial.slot)

    def predictions(self, trial: Trial) -> Array:
        """Return what a trial's model predicted for the validation rows."""
        assert self.folder is not None
        return np.asarray(np.load(self.folder / f"{trial.slot}.npy", allow_pickle=False), dtype=np.float64)

    def lease(self) -> list[Running]:
        """Lease the next open slot, and with it the open ones that can share its training, and start their trials."""
        slots = range(len(self.study.finished) + 1 if self.slots is None else self.slots)
        first = self.study.lease(slots)
        if first is None:
            return []
        leased = [first]
        try:
            for other in self._proposer.alike(first, self._shares):
                if first < other < len(slots) and self.study.lease([other]) is not None:
                    leased.append(other)
            self._proposer.learn(self.study.finished)
            started = [self._start(slot) for slot in leased]
        except BaseException:
            self.give_up(leased)
            raise
        self.running += 1
        return started

    def _start(self, slot: int) -> Running:
        proposal = self._proposer.propose(slot)
        self.study.start(slot, proposal.params, proposal.distributions)
        params = self._settings(proposal.settings)
        return Running(Trial(slot, trial_seed(self._seed, slot), params, method=self.method.name), proposal)

    def should_prune(self, running: Running, percent: int, score: float) -> bool:
        """Add a point to the learning curve of a trial; tell whether the pruner has seen enough."""
        running.proposal.trial.report(score, percent)
        return running.proposal.trial.should_prune()

    def keep(self, trial: Trial) -> None:
        """Keep the predictions of a trial that is about to be stored: a trial with a record is whole."""
        if self.folder is not None and trial.predictions is not None and self.study.holds(trial.slot):
            _keep(self.folder / f"{trial.slot}.npy", trial.predictions)

    def store(self, running: Running, trial: Trial) -> bool:
        """Store a finished trial; False if its lease was lost to another process."""
        self._proposer.forget(running.proposal)
        is_stored = self.study.add(trial)
        self.has_model = self.has_model or trial.state == "complete"
        if is_stored and self.models:
            self._delete_other_models()
        return is_stored

    def give_up(self, slots: Sequence[int]) -> None:
        """End the trials of some slots without a result."""
        for slot in slots:
            self.study.give_up(slot)

    def _delete_other_models(self) -> None:
        """Delete models and validation predictions of all but the best trials."""
        assert self.folder is not None
        kept = {trial.slot for trial in ranked(self.trials)[: self.models]}
        for trial in self.trials:
            if trial.slot not in kept:
                shutil.rmtree(self.model(trial), ignore_errors=True)
                (self.folder / f"{trial.slot}.npy").unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------------------ the loop


class Loop:
    """One process's part in a search: `workers` threads that each do one trial after another, as the policy says.

    A trial that is still running when the policy has enough is given up. `on_start` is called from those threads.
    """

    def __init__(
        self,
        policy: Policy,
        pool: WorkerPool,
        name: str,
        *,
        workers: int,
        threads: int,
        device: str = "cpu",
        on_start: Callable[[Trial], None] = lambda trial: None,
    ) -> None:
        """Set up the loop; `name` is that of the workers in the pool."""
        self.policy, self.pool, self.name = policy, pool, name
        self.workers, self.threads, self.device = workers, threads, device
        self.lock = threading.Lock()  # of all that the policy and the searches know
        self._on_start, self._problem = on_start, policy.searches[0].problem
        self._stopped, self._changed = threading.Event(), threading.Condition()
        self._errors: list[BaseException] = []

    def iterate(self) -> Generator[Trial]:
        """Yield the trials as they are finished here; closing the iterator gives up those that run."""
        finished: queue.SimpleQueue[Trial | None] = queue.SimpleQueue()
        with self.run(finished.put) as threads:
            working = len(threads)
            while working:
                try:
                    item = finished.get(timeout=1.0)  # in short steps, between which a time-out can interrupt a thread
                except queue.Empty:
                    continue
                if item is None:
                    working -= 1
                else:
                    yield item

    @contextmanager
    def run(self, on_trial: Callable[[Trial | None], None]) -> Iterator[list[threading.Thread]]:
        """Work within the block, which gets the threads to wait for; all is quiet after it.

        `on_trial` is called from those threads with each trial that is finished here, and with None when a thread ends.
        """
        self._stopped.clear()
        self.policy.begin()
        threads = [threading.Thread(target=self._work, args=(on_trial,), daemon=True) for _ in range(self.workers)]
        try:
            for thread in threads:
                thread.start()
            yield threads
        finally:
            self.stop()
            for thread in threads:
                if thread.ident is not None:  # it was started
                    thread.join()
            self.policy.spend()
            for search in self.policy.searches:
                search.study.close()
        if self._errors:
            raise self._errors[0]

    def stop(self) -> None:
        """Begin no trial and give up those that run."""
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()

    def _is_over(self, is_running: bool = False) -> bool:
        return self._stopped.is_set() or self.policy.is_over(is_running)

    def _work(self, on_trial: Callable[[Trial | None], None]) -> None:
        """Lease, fit, store; until nothing is left to do. This is one thread."""
        wait, longest = self.policy.pauses
        try:
            with self.pool.lend(self._problem, self.name, self.threads) as worker:
                while not self._is_over():
                    with self.lock:
                        search = self.policy.next_search()
                        running = search.lease() if search is not None else []
                        is_done = not running and self.policy.is_done()
                    if search is None or not running:
                        if is_done:
                            break
                        with self._changed:
                            self._changed.wait(wait)
                        wait = min(1.2 * wait, longest)
                        continue
                    wait = self.policy.pauses[0]
                    for trial in self._try(worker, search, running):
                        on_trial(trial)
                    with self._changed:
                        self._changed.notify_all()
        except Stopped:
            pass
        except BaseException as error:
            self._errors.append(error)
            self.stop()
        finally:
            on_trial(None)

    def _try(self, worker: Worker, search: MethodSearch, running: Sequence[Running]) -> list[Trial]:
        """Fit and store leased trials. Return those that are stored: not those whose lease was lost meanwhile."""
        try:
            for one in running:
                self._on_start(one.trial)
            with self.lock:
                limits = self.policy.limits(search, len(running))
            ended = self._fit(worker, search, running, limits)
            stored = []
            for one, trial in zip(running, ended, strict=True):
                trial = replace(trial, curve=sorted(dict(one.curve).items()))
                search.keep(trial)
                with self.lock:
                    if search.store(one, trial):
                        stored.append(trial)
            self.policy.spend()
            return stored
        except BaseException:
            search.give_up([one.trial.slot for one in running])
            raise
        finally:
            with self.lock:
                search.running -= 1

    def _fit(self, worker: Worker, search: MethodSearch, running: Sequence[Running], limits: Limits) -> list[Trial]:
        """Fit trials in one training. Those that fail in company are tried once more, each by itself."""
        ended = self._fit_at_once(worker, search, running, limits)
        if len(running) > 1:
            alone = self.policy.limits(search, 1)
            for place, trial in enumerate(ended):
                if trial.state == "failed":
                    (ended[place],) = self._fit_at_once(worker, search, [running[place]], alone)
        return ended

    def _fit_at_once(
        self, worker: Worker, search: MethodSearch, running: Sequence[Running], limits: Limits
    ) -> list[Trial]:
        last = time.monotonic()

        def report(place: int, percent: int, score: float) -> bool:
            one = running[place]
            one.curve.append((percent, score))
            if time.monotonic() - one.shown > SHOW_SECONDS:
                search.study.report(one.trial.slot, percent, score)
                one.shown = time.monotonic()
            with self.lock:
                return self.policy.should_prune(search, one, percent, score)

        def beat() -> None:
            nonlocal last
            if self._is_over(is_running=True):
                raise Stopped
            if time.monotonic() - last > BEAT_SECONDS:
                for one in running:
                    search.study.beat(one.trial.slot)
                last = time.monotonic()
            self.policy.spend(is_due=True)

        jobs = [self._job(search, one.trial, limits) for one in running]
        for attempt in range(self.policy.retries + 1):
            for one in running:
                one.curve.clear()
            try:
                return worker.run(
                    jobs, report=report, beat=beat, max_seconds=limits.hard, max_memory=self.policy.memory
                )
            except InfrastructureError as error:
                if attempt < self.policy.retries:
                    self._stopped.wait(RETRY_PAUSE * 2**attempt)
                elif isinstance(error, LostError):
                    return error.trials
                elif self.policy.raises:
                    raise
                else:  # no fault of the method, but no use for it either
                    return [replace(job.trial, state="failed", failure="crash", message=str(error)) for job in jobs]
        raise AssertionError("unreachable")

    def _job(self, search: MethodSearch, trial: Trial, limits: Limits) -> Job:
        folder = search.model(trial) if search.models else None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)  # an interrupted fit may have left something
        return Job(
            trial,
            self.threads,
            self.device,
            limits.soft,
            limits.deadline,
            search.study.name,
            folder=folder,
            least_score=search.least_score,
            criterion=self.policy.criterion,
        )


def _keep(path: Path, values: Array) -> None:
    """Write predictions, whole or not at all. Parts that a killed process left go."""
    for left in path.parent.glob(f".{path.name}.*.part"):  # nobody else has the lease of this slot
        left.unlink(missing_ok=True)
    with whole_file(path) as part, part.open("wb") as file:
        np.save(file, values)
