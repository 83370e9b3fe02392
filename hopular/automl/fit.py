"""AutoML on one table: audit it, race all suitable methods for the given time, combine them, keep the best.

As many fits run side by side as there are cores, each in a process with one thread, which is the better use of cores on
small tables: most fits are too short to be shared out. Any process fits any method, so that the seconds of imports are
spent once.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np

from hopular import __version__, settings
from hopular.automl.fitted import MODEL_FOLDER, ROWS_FILE, Facts, Fitted
from hopular.automl.portfolio import choose_methods
from hopular.automl.results import make_leaderboard, make_results
from hopular.automl.spare import Spare, refit_seconds
from hopular.data.audit import Finding, audit
from hopular.data.dataset import Dataset
from hopular.data.schema import Schema
from hopular.data.splits import Split, make_splits
from hopular.evaluation.metrics import evaluate
from hopular.formatting import plural
from hopular.methods import get_method
from hopular.trials.budget import Budget
from hopular.trials.events import Event
from hopular.trials.policy import Race
from hopular.trials.problem import Problem, make_problem
from hopular.trials.refit import refit_each, refit_rows
from hopular.trials.run import Loop, MethodSearch
from hopular.trials.select import Choice, Chosen, rank_choices, write_model
from hopular.trials.space import Proposer
from hopular.trials.study import UnsharedStudy, open_storage
from hopular.trials.trial import Trial
from hopular.trials.worker import Stopped, Worker, WorkerPool
from hopular.util import InputError, OperationError, cores

FORMAT = 3  # of the folder of an interrupted fit; one of another format is not resumed
POOL = "all methods"  # the name of the workers in the pool
MAX_WORKERS = 8  # processes run side by side; on more cores each gets several threads
KEPT_MODELS = 3  # so many models of each method are kept for the ensemble
FINISH_SECONDS = 3.0  # scores, model and report get this long after the race and the refit
FINISH_SHARE = 0.1  # scores, model and report get no more than this share of all the time
REFIT_SHARE = 0.2  # a refit that needs more than this share of the time is not begun
NO_MODEL_SECONDS = 30.0  # a race without any model goes on for this long beyond its time
SLACK_SECONDS = 1.0  # a refit is begun though it lacks this long: what is expected has a margin
AGAIN_SECONDS = 3.0  # a race that was ended for a refit goes on only if more than this is left
LEAST_SECONDS = 1.0  # a fit gets at least this long
LOOK_SECONDS = 0.25  # the clock is looked at this often
NO_TIME = "no time was left to refit"


class FitError(OperationError):
    """No model came out; the message says what to do."""


@dataclass(frozen=True)
class _Clock:
    start: float
    seconds: float

    @property
    def end(self) -> float:
        """Return when the race and the refit must be over."""
        return self.start + self.seconds - min(FINISH_SECONDS, FINISH_SHARE * self.seconds)

    @property
    def left(self) -> float:
        return self.end - time.monotonic()


@dataclass(frozen=True)
class _Table:
    """The table with one division of its rows: test rows decide nothing, so that the leaderboard is honest."""

    dataset: Dataset
    split: Split
    problem: Problem

    @property
    def growth(self) -> float:
        """Return how many times as many rows a refit has."""
        return len(self.dataset) / len(self.split.train)

    @property
    def is_refittable(self) -> bool:
        """Tell whether all classes are among the training rows, so that models of other rows agree on the classes."""
        return self.dataset.task == "regression" or set(self.problem.classes) == set(self.dataset.classes)


def fit_table(
    dataset: Dataset,
    seconds: float = 60.0,
    *,
    methods: Sequence[str] | None = None,
    seed: int = 0,
    command: str = "",
    on_event: Callable[[Event], None] = lambda event: None,
) -> Fitted:
    """Find the best model for a table within `seconds`: all suitable methods, or those named, and their ensemble.

    A test part is set aside first and only scored at the end. The final model is fitted again on all rows it can use;
    `facts.trained_on` says on how many, and why if there was no time for it. Interrupted, the same call goes on with
    what was tried. `on_event` is told what happens, from several threads.
    """
    if not seconds > 0:
        raise InputError(f"seconds is {seconds!r}: use a number above 0")
    clock = _Clock(time.monotonic(), seconds)
    names, left_out = choose_methods(dataset.task, seconds, methods)
    split = hold_out(dataset)
    table = _Table(dataset, split, make_problem(dataset, split))
    with WorkerPool(MAX_WORKERS) as pool, _working_folder(table.problem, seed) as work:
        searches = _open_searches(names, table.problem, seed, work)
        known = [trial for search in searches for trial in search.trials]
        on_event(Event("planned", dataset.name, split.id, trial=len(known), trials=len(names)))
        fit = _Fit(table, searches, clock, work / "refit", pool, on_event)
        for trial in known:
            fit.tell(trial)
        findings, choices, final, no_refit = fit.run()
        on_event(Event("write", dataset.name, split.id))
        ensemble = next((one for one in choices if one.method == "ensemble"), None)
        keeper = tempfile.TemporaryDirectory(prefix="hopular-")
        folder = Path(keeper.name)
        saved = [(member.method, member.weight, member.folder) for member in final.members]
        write_model(saved, dataset.X.shape[1], table.problem.classes, folder / MODEL_FOLDER)
        _write_rows(final, table, folder / ROWS_FILE)
        facts = _facts(table, final, no_refit, seed, time.monotonic() - clock.start, command)
        told = {"seconds": seconds, "seed": seed, "methods": names}
        classes = table.problem.classes or None
        results = make_results(dataset, split, findings, searches, ensemble, classes, told, command, facts.delivered)
        board = make_leaderboard(results, {one.method: one.loss for one in choices}, final.method)
        return Fitted(Schema.of(dataset), facts, board, results, left_out, folder, keeper)


def hold_out(dataset: Dataset) -> Split:
    """Divide the rows once: as the first split of the dataset's own if it has some, else a test part is drawn."""
    protocol = dataset.protocol
    return make_splits(dataset, protocol if protocol.scheme == "fixed" else replace(protocol, scheme="holdout"))[0]


@contextmanager
def _working_folder(problem: Problem, seed: int) -> Iterator[Path]:
    """Give the folder that the trials on these rows with this seed are kept in while the fit lasts.

    It is named by content, and stays if the block is interrupted: the same fit goes on with it.
    """
    digest = hashlib.sha256(f"{FORMAT} {__version__} {problem.fingerprint} {seed}".encode()).hexdigest()[:16]
    name = re.sub(r"[^\w-]+", "-", problem.name).strip("-")[:40]
    folder = settings.make_runs_folder() / "fits" / f"{name}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperationError(
                f"the same fit of {problem.name!r} is running in another process: wait for it"
            ) from None
        try:
            yield folder
        except FitError:  # another try is to begin anew
            shutil.rmtree(folder)
            raise
    shutil.rmtree(folder)


def _open_searches(names: Sequence[str], problem: Problem, seed: int, folder: Path) -> list[MethodSearch]:
    """Open a study of each method below `folder`, where an interrupted fit may have left its trials."""
    storage = open_storage(f"sqlite:///{folder / 'studies.db'}")
    searches = []
    for name in names:
        proposer, method = Proposer(name, problem.size, seed, prunes=False, defaults_first=True), get_method(name)
        searches.append(
            MethodSearch(
                problem,
                name,
                UnsharedStudy(storage, f"{problem.name[:100]} {name[:50]}"),
                proposer,
                seed,
                settings=partial(Budget().settings_of, method),
                slots=None if proposer.grid is None else len(proposer.grid),
                folder=folder / name,
                models=KEPT_MODELS,
            )
        )
    return searches


class _Fit:
    """The race, the choice and the refit."""

    def __init__(
        self,
        table: _Table,
        searches: Sequence[MethodSearch],
        clock: _Clock,
        folder: Path,
        pool: WorkerPool,
        on_event: Callable[[Event], None],
    ) -> None:
        self._table, self._searches, self._clock, self._folder = table, searches, clock, folder
        self._pool, self._on_event = pool, on_event
        self._workers = min(cores(), MAX_WORKERS)
        self._threads = max(1, cores() // self._workers)
        self._race = Race(searches, clock.end, self._workers)
        X_test = table.dataset.X.iloc[table.split.test].reset_index(drop=True)
        self._loop = Loop(
            self._race,
            pool,
            POOL,
            workers=self._workers,
            threads=self._threads,
            X_test=X_test,
            on_start=self._tell_start,
        )

    def run(self) -> tuple[list[Finding], list[Choice], Choice, str]:
        """Return what the audit found, all choices, the first of them refitted, and why if it is not."""
        table, clock = self._table, self._clock
        with Spare(self._searches, self._folder, self._threads, clock.end) as spare:
            with self._loop.run(self.tell) as threads:
                findings = audit(table.dataset, [table.split])
                self._on_event(Event("audit", table.dataset.name, table.split.id))
                import_module("hopular.report.page")  # while there is time
                self._wait(threads, spare)
            choices = rank_choices(self._searches)
            if choices and not table.is_refittable:
                why_not = "not all classes are among them, so a refit would be another model"
                return findings, choices, choices[0], why_not
            is_late = clock.left <= AGAIN_SECONDS
            if choices and (is_late or self._needed(choices[0], spare) <= clock.left + SLACK_SECONDS):
                self._on_event(Event("refit", table.dataset.name, table.split.id, choices[0].method))
                return findings, choices, *self._refit(choices[0], spare)
            if not is_late:  # the last fits have made another choice, whose refit would take too long
                self._race.end = clock.end
                with self._loop.run(self.tell) as threads:
                    for thread in threads:
                        thread.join()
                choices = rank_choices(self._searches)
        if not choices:
            raise FitError(_why_none(self._searches, clock.seconds))
        return findings, choices, choices[0], NO_TIME

    def tell(self, trial: Trial | None) -> None:
        """Tell that a trial has ended."""
        if trial is not None:
            table = self._table
            self._on_event(Event("trial", table.dataset.name, table.split.id, trial.method, result=trial))

    def _tell_start(self, trial: Trial) -> None:
        self._on_event(Event("start", self._table.dataset.name, self._table.split.id, trial.method))

    def _wait(self, threads: list[threading.Thread], spare: Spare) -> None:
        """Wait for the end of the race, which leaves as much time as a refit of the best so far is expected to take."""
        pause, clock, race = LOOK_SECONDS, self._clock, self._race
        while any(thread.is_alive() for thread in threads):
            for thread in threads:
                thread.join(pause / len(threads))
            if clock.left < -NO_MODEL_SECONDS:
                self._loop.stop()
            if self._table.is_refittable and time.monotonic() < race.end:
                began = time.monotonic()
                with self._loop.lock:
                    choices = rank_choices(self._searches)
                needed = 0.0
                if choices:
                    spare.wanted = {member.method for member in choices[0].members}
                    needed = self._needed(choices[0], spare)
                race.end = clock.end - (needed if needed <= REFIT_SHARE * clock.seconds else 0.0)
                pause = max(LOOK_SECONDS, 10 * (time.monotonic() - began))

    def _needed(self, choice: Choice, spare: Spare) -> float:
        """Return the seconds of a refit."""
        return min(refit_seconds(choice, self._table.growth, self._workers, spare))

    def _refit(self, choice: Choice, spare: Spare) -> tuple[Choice, str]:
        """Fit every member again on all rows it can use, the weightiest first.

        A member that fails or is not done in time stays what it was; the sentence says why, and is empty if all are
        done.
        """

        def beat() -> None:
            if self._clock.left <= 0:
                raise Stopped

        def lend(place: int, problem: Problem) -> AbstractContextManager[Worker]:
            if place == 0:
                return spare.lend(choice, self._pool, POOL, problem)
            return self._pool.lend(problem, POOL, self._threads)

        table, settings = self._table, [replace(member.trial, state="running") for member in choice.members]
        alone, together = refit_seconds(choice, table.growth, self._workers, spare)
        workers = 1 if alone <= together else self._workers
        rows = (table.dataset, table.split)
        trained = refit_each(settings, *rows, self._folder, lend, self._threads, beat=beat, workers=workers)
        members, failures = [], []
        for place, (member, trial) in enumerate(zip(choice.members, trained, strict=True)):
            if trial.state == "complete" and not trial.unsaved:
                member = replace(member, folder=self._folder / str(place), rows=trial.rows, is_refit=True)
            elif trial.state != "running":
                failures.append(f"{member.search.method.title}: {trial.message}")
            members.append(member)
        return replace(choice, members=tuple(members)), _why_not(members, failures)


def _why_not(members: Sequence[Chosen], failures: Sequence[str]) -> str:
    left = sum(not member.is_refit for member in members)
    if not left:
        return ""
    which = "" if left == len(members) else f" {left} of {len(members)} members"
    return f"the refit{' of' + which if which else ''} failed ({failures[0]})" if failures else f"{NO_TIME}{which}"


def _why_none(searches: Sequence[MethodSearch], seconds: float) -> str:
    failures = [f"{search.method.title}: {trial.message}" for search in searches for trial in search.trials]
    if failures:
        return f"no method could be fitted. {'; '.join(failures[:3])}"
    return f"no method was done within {plural(round(seconds), 'second')}: give it more time, or quicker methods"


def _write_rows(final: Choice, table: _Table, path: Path) -> None:
    """Write which rows of the file Hopular has stored, if it is part of the model: it tells them for each answer."""
    hopular = next((member for member in final.members if member.method == "hopular"), None)
    if hopular is not None:
        rows = refit_rows(hopular.search.method, table.split) if hopular.is_refit else table.split.train
        places = table.dataset.file_rows
        np.save(path, rows if places is None else places.to_numpy()[rows])


def _facts(table: _Table, final: Choice, no_refit: str, seed: int, seconds: float, command: str) -> Facts:
    truth = table.dataset.y.iloc[table.split.test].to_numpy()
    test = evaluate(table.dataset.task, truth, final.test_predictions(), table.problem.classes or None)
    return Facts(
        method=final.method,
        members=tuple((member.method, member.weight) for member in final.members),
        rows=tuple(member.rows for member in final.members),
        table_rows=len(table.dataset),
        no_refit=no_refit,
        dataset=table.dataset.name,
        fingerprint=table.dataset.fingerprint,
        seed=seed,
        metrics={"validation": dict(final.metrics), "test": test},
        seconds=seconds,
        command=command,
    )
