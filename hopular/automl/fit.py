"""AutoML on one table: audit it, try all suitable methods on its inner folds, choose the best blend, explain it.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hopular import __version__, settings
from hopular.automl.choice import Choice, OutOfFold, choose_model, metric_named, score
from hopular.automl.fitted import MODEL_FOLDER, ROWS_FILE, Facts, Fitted
from hopular.automl.portfolio import Portfolio, choose_methods, read_portfolio
from hopular.data.audit import Finding, audit
from hopular.data.dataset import Dataset
from hopular.data.schema import Schema
from hopular.data.splits import Split, inner_folds, make_splits
from hopular.evaluation.results import describe
from hopular.formatting import plural
from hopular.methods import get_method
from hopular.methods.ensemble import write_ensemble
from hopular.methods.saved import load_model
from hopular.trials.budget import Budget
from hopular.trials.events import Event
from hopular.trials.problem import Fold, Problem, make_problem
from hopular.trials.race import Race
from hopular.trials.run import Loop, MethodSearch
from hopular.trials.space import Proposer
from hopular.trials.study import UnsharedStudy, open_storage
from hopular.trials.trial import Trial
from hopular.trials.worker import WorkerPool
from hopular.util import InputError, OperationError, cores

FORMAT = 4  # of the folder of a fit; one of another format is not resumed
POOL = "all methods"  # the name of the workers in the pool
MAX_WORKERS = 8  # processes run side by side; on more cores each gets several threads
KEPT_MODELS = 4  # so many models of each method are kept for the choice
KEPT_DAYS = 14  # trials of a finished fit are kept for so long, for those who go on with it
FINISH_SECONDS = 3.0  # for choosing the model, writing it and its report
FINISH_SHARE = 0.2  # those take no more than this share of a short time
EXPLAIN_FROM = 120.0  # a fit of so many seconds or more explains its model: libraries have to be loaded for it
EXPLAIN_SHARE, EXPLAIN_SECONDS = 0.08, 20.0  # that takes this share of the time, and at most so many seconds
REPORT_SECONDS = 1.5  # for writing the report
NO_MODEL_SECONDS = 30.0  # a race without any model goes on for this long beyond its time
LOOK_SECONDS = 0.25  # the clock is looked at this often
DONE_FILE = "finished"  # in the folder of a fit that has ended
Array = np.ndarray[Any, Any]


class FitError(OperationError):
    """No model came out; the message says what to do."""


@dataclass(frozen=True)
class _Table:
    """The table, its rows that the search may see with their inner folds, and those it may not."""

    dataset: Dataset
    rows: Array  # positions that the search sees, in the order of the problem
    test: Array  # positions that nothing sees before the model is there
    problem: Problem


@dataclass
class _Clock:
    """The time of a fit: what it was spent on, and what is left."""

    start: float
    seconds: float | None  # None for a fit of so many trials
    spent: dict[str, float] = field(default_factory=dict)
    _since: float = 0.0

    @property
    def end(self) -> float:
        """Return when the race must be over."""
        if self.seconds is None:
            return float("inf")
        finish = min(FINISH_SECONDS, FINISH_SHARE * self.seconds)
        if self.explains:
            finish += min(EXPLAIN_SHARE * self.seconds, EXPLAIN_SECONDS)
        return self.start + self.seconds - finish

    @property
    def explains(self) -> bool:
        """Tell whether there is time to explain the model; a fit of so many trials leaves that to whoever asks."""
        return self.seconds is not None and self.seconds >= EXPLAIN_FROM

    @property
    def explain_until(self) -> float:
        """Return when an explanation that begins now must be over."""
        return min(time.monotonic() + EXPLAIN_SECONDS, self.start + (self.seconds or 0.0) - REPORT_SECONDS)

    def note(self, what: str) -> None:
        """Count the seconds since the last note, or since the start, as spent on something."""
        now = time.monotonic()
        self.spent[what] = self.spent.get(what, 0.0) + now - (self._since or self.start)
        self._since = now


def fit_table(
    dataset: Dataset,
    seconds: float = 60.0,
    *,
    methods: Sequence[str] | None = None,
    metric: str | None = None,
    trials: int | None = None,
    holdout: float = 0.0,
    test: tuple[pd.DataFrame, pd.Series[Any]] | None = None,
    max_predict_ms: float | None = None,
    memory: float | None = None,
    seed: int = 0,
    command: str = "",
    start: float | None = None,
    portfolio: Portfolio | None = None,
    goes_on: bool = False,
    on_event: Callable[[Event], None] = lambda event: None,
) -> Fitted:
    """Find the best model for a table within `seconds`, or with so many `trials`, which gives the same model each time.

    Every setting of every suitable method, or of those named, is cross-validated on the same inner folds of all rows.
    The model is a blend of the best ones' fold models, chosen by `metric` on what they say about rows held out; its
    score is that of a choice in which the row had no part. A share `holdout` of the rows, or `test` (features and
    target), is scored by the finished model alone. `max_predict_ms` limits what the model may need for a row, and
    `memory` the bytes that a trial may use.

    Interrupted, the same call goes on with what was tried; with `goes_on` so does a call after the end. The clock runs
    from `start`, a moment of time.monotonic(). `on_event` is told what happens, from several threads.
    """
    _check(seconds, trials, holdout, test is not None, max_predict_ms, memory)
    clock = _Clock(time.monotonic() if start is None else start, seconds if trials is None else None)
    decides = metric_named(metric, dataset.task)
    names, left_out = choose_methods(dataset.task, float("inf") if trials is not None else seconds, methods)
    first = [entry for entry in portfolio or read_portfolio(dataset.task) if entry[0] in names]
    table = _divide(dataset, holdout, seed)
    clock.note("getting ready")
    with WorkerPool(MAX_WORKERS) as pool, _working_folder(table.problem, seed, goes_on) as work:
        searches = _open_searches(names, first, table.problem, seed, work)
        known = [trial for search in searches for trial in search.trials]
        on_event(Event("planned", dataset.name, trial=len(known), trials=len(names)))
        race = Race(searches, [name for name, _ in first], end=clock.end, trials=trials, memory=memory)
        findings, curve = _search(table, race, clock, pool, known, on_event)
        if not any(search.kept for search in searches):
            raise FitError(_why_none(searches, seconds))
        on_event(Event("choose", dataset.name))
        limit = None if max_predict_ms is None else max_predict_ms / 1000
        choice = choose_model(table.problem, searches, decides, seed, rows=table.rows, max_row_seconds=limit)
        clock.note("choosing the model")
        keeper = tempfile.TemporaryDirectory(prefix="hopular-")
        folder = Path(keeper.name)
        _write_model(choice, table, folder)
        tested, test_X = None, None
        metrics, intervals = {"out_of_fold": choice.metrics}, {"out_of_fold": choice.intervals}
        if len(table.test) or test is not None:
            test_X, test_y = test or (dataset.X.iloc[table.test], dataset.y.iloc[table.test])
            tested = _predict_test(load_model(folder / MODEL_FOLDER), table, test_X, test_y)
            given = (tested.truth, tested.predictions, table.problem.classes or None, tested.labels, decides)
            metrics["test"], intervals["test"] = score(dataset.task, *given)
        clock.note("writing the model")
        fitted = Fitted(
            schema=Schema.of(dataset),
            facts=_facts(table, choice, metrics, intervals, tested, seed, clock, command),
            leaderboard=choice.leaderboard,
            out_of_fold=choice.out_of_fold,
            importance=None,
            curve=curve,
            described=describe(dataset, findings),
            left_out=left_out | choice.excluded,
            folder=folder,
            tested=tested,
            test_table=test_X,
            dataset=dataset,
            trials=tuple(trial for search in searches for trial in search.trials),
            _keeper=keeper,
        )
        if clock.explains:
            until = clock.explain_until
            fitted = replace(fitted, importance=fitted.measure_importance(lambda: time.monotonic() > until))
            clock.note("importance of columns")
        on_event(Event("write", dataset.name))
        facts = replace(fitted.facts, seconds=time.monotonic() - clock.start, spent=dict(clock.spent))
        return replace(fitted, facts=facts)


def _check(
    seconds: float,
    trials: int | None,
    holdout: float,
    has_test: bool,
    max_predict_ms: float | None,
    memory: float | None,
) -> None:
    """Refuse arguments that cannot be meant."""
    for name, value in (("seconds", seconds), ("max_predict_ms", max_predict_ms), ("memory", memory)):
        if value is not None and not value > 0:
            raise InputError(f"{name} is {value!r}: use a number above 0")
    if trials is not None and (isinstance(trials, bool) or not isinstance(trials, int) or trials < 1):
        raise InputError(f"trials is {trials!r}: use a whole number from 1 on")
    if not 0 <= holdout < 1:
        raise InputError(f"holdout is {holdout!r}: use a share from 0 to below 1")
    if holdout and has_test:
        raise InputError("holdout and test were both given: rows that nothing sees come from one of them")


# ------------------------------------------------------------------------------------------------- before the search


def _divide(dataset: Dataset, holdout: float, seed: int) -> _Table:
    """Divide the rows: those of a hold-out, if there is one, and inner folds of the others.

    A dataset that comes with parts keeps its test rows, and its validation rows, if any are marked, are the only fold.
    """
    rows, test, pairs = np.arange(len(dataset), dtype=np.int64), np.zeros(0, dtype=np.int64), None
    if dataset.protocol.scheme == "fixed" and dataset.parts is not None:
        split = make_splits(dataset)[0]
        rows, test = np.union1d(split.train, split.valid), split.test
        if (dataset.parts.iloc[:, 0] == "valid").any():
            pairs = [(split.train, split.valid)]
    elif holdout:
        split = make_splits(dataset, replace(dataset.protocol, scheme="holdout", test_share=holdout, seed=seed))[0]
        rows, test = np.union1d(split.train, split.valid), split.test
    folds = [Fold(train, valid) for train, valid in pairs or inner_folds(dataset, rows, seed)]
    problem = make_problem(dataset, Split("all rows", rows, np.zeros(0, dtype=np.int64), test), folds)
    return _Table(dataset, rows, test, problem)


@contextmanager
def _working_folder(problem: Problem, seed: int, goes_on: bool) -> Iterator[Path]:
    """Give the folder that the trials on these rows with this seed are kept in.

    It is named by content. Interrupted, the same fit goes on with it. That of a finished fit stays for some time, and
    is used if the fit `goes_on`; otherwise it is begun anew.
    """
    digest = hashlib.sha256(f"{FORMAT} {__version__} {problem.fingerprint} {seed}".encode()).hexdigest()[:16]
    name = re.sub(r"[^\w-]+", "-", problem.name).strip("-")[:40]
    above = settings.make_runs_folder() / "fits"
    folder = above / f"{name}-{digest}"
    for old in above.glob(f"*/{DONE_FILE}"):
        if time.time() - old.stat().st_mtime > 86_400 * KEPT_DAYS and old.parent != folder:
            shutil.rmtree(old.parent, ignore_errors=True)
    if goes_on and not folder.is_dir():
        raise InputError(
            f"the trials of this fit are not in {above}, where they are kept for {KEPT_DAYS} days: fit the table again"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OperationError(
                f"the same fit of {problem.name!r} is running in another process: wait for it"
            ) from None
        if (folder / DONE_FILE).exists() and not goes_on:
            _empty(folder)
        (folder / DONE_FILE).unlink(missing_ok=True)
        try:
            yield folder
        except FitError:  # another try is to begin anew
            _empty(folder)
            raise
        (folder / DONE_FILE).touch()


def _empty(folder: Path) -> None:
    """Delete all but the lock."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()


def _open_searches(
    names: Sequence[str], first: Portfolio, problem: Problem, seed: int, folder: Path
) -> list[MethodSearch]:
    """Open a study of each method below `folder`: the settings of the portfolio first, or the method's defaults."""
    storage = open_storage(f"sqlite:///{folder / 'studies.db'}")
    listed: dict[str, list[Mapping[str, Any]]] = {name: [] for name in names}
    for name, params in first:
        listed[name].append(params)
    searches = []
    for name in names:
        proposer = Proposer(name, problem.size, seed, prunes=False, first=listed[name] or [{}])
        searches.append(
            MethodSearch(
                problem,
                name,
                UnsharedStudy(storage, f"{problem.name[:100]} {name[:50]}"),
                proposer,
                seed,
                settings=partial(Budget().settings_of, get_method(name)),
                slots=None if proposer.grid is None else len(proposer.grid),
                folder=folder / name,
                models=KEPT_MODELS,
            )
        )
    return searches


# --------------------------------------------------------------------------------------------------------- the search


def _search(
    table: _Table,
    race: Race,
    clock: _Clock,
    pool: WorkerPool,
    known: Sequence[Trial],
    on_event: Callable[[Event], None],
) -> tuple[list[Finding], list[tuple[float, float]]]:
    """Run the race; meanwhile, audit the table. Return its findings, and the best loss so far by seconds."""
    curve: list[tuple[float, float]] = []
    name = table.dataset.name

    def tell(trial: Trial | None) -> None:
        if trial is not None:
            on_event(Event("trial", name, method=trial.method, result=trial))
            if trial.score is not None and (not curve or -trial.score < curve[-1][1]):
                curve.append((time.monotonic() - clock.start, -trial.score))

    def start(trial: Trial) -> None:
        on_event(Event("start", name, method=trial.method))

    for trial in known:
        tell(trial)
    workers = min(cores(), MAX_WORKERS)
    loop = Loop(race, pool, POOL, workers=workers, threads=max(1, cores() // workers), on_start=start)
    with loop.run(tell) as threads:
        findings = audit(table.dataset, [])
        on_event(Event("audit", name))
        clock.note("audit, beside the first fits")
        import_module("hopular.automl.story")  # while there is time
        while any(thread.is_alive() for thread in threads):
            _join(threads, LOOK_SECONDS)
            if time.monotonic() > clock.end + NO_MODEL_SECONDS:
                loop.stop()
    clock.note("fits")
    return findings, curve


def _join(threads: Sequence[threading.Thread], seconds: float) -> None:
    for thread in threads:
        thread.join(seconds / len(threads))


def _why_none(searches: Sequence[MethodSearch], seconds: float) -> str:
    failures = [
        f"{search.method.title}: {trial.message or trial.unsaved}" for search in searches for trial in search.trials
    ]
    if failures:
        return f"no method could be fitted. {'; '.join(failures[:3])}"
    return f"no method was done within {plural(round(seconds), 'second')}: give it more time, or quicker methods"


# ---------------------------------------------------------------------------------------------------- after the search


def _write_model(choice: Choice, table: _Table, folder: Path) -> None:
    """Write the model from the saved bags of its members, and which rows of the file Hopular has stored."""
    members = [(m.search.method.name, m.weight, m.search.model(m.trial)) for m in choice.members]
    write_ensemble(
        folder / MODEL_FOLDER,
        members,
        table.dataset.X.shape[1],
        table.problem.classes or None,
        temperature=choice.temperature,
        multipliers=choice.multipliers,
    )
    if "hopular" in {name for name, _, _ in members}:
        folds = table.problem.folds
        rows = table.rows if len(folds) > 1 else table.rows[folds[0].train]  # that it was given, in their order
        places = table.dataset.file_rows
        np.save(folder / ROWS_FILE, rows if places is None else places.to_numpy()[rows])


def _predict_test(model: Any, table: _Table, X: pd.DataFrame, y: pd.Series[Any]) -> OutOfFold:
    """Let the model predict rows that nothing saw."""
    rows = table.test if len(table.test) else np.arange(len(X))
    X, fold = X.reset_index(drop=True), np.zeros(len(X), dtype=np.int64)
    if table.dataset.task == "regression":
        return OutOfFold(rows, fold, y.to_numpy(dtype=np.float64), np.asarray(model.predict(X)))
    labels = None if model.multipliers_ is None else np.asarray(model.predict(X)).astype(str)
    truth = np.array([str(label) for label in y])
    return OutOfFold(rows, fold, truth, np.asarray(model.predict_proba(X)), labels)


def _facts(
    table: _Table,
    choice: Choice,
    metrics: Mapping[str, Mapping[str, float]],
    intervals: Mapping[str, Mapping[str, tuple[float, float]]],
    tested: OutOfFold | None,
    seed: int,
    clock: _Clock,
    command: str,
) -> Facts:
    trained = np.unique(np.concatenate([fold.train for fold in table.problem.folds]))
    return Facts(
        method=choice.title,
        members=tuple((m.search.method.name, m.weight, dict(m.trial.params)) for m in choice.members),
        rows=len(trained),
        table_rows=len(table.dataset),
        folds=len(table.problem.folds),
        held_out=len(choice.out_of_fold.rows),
        test_rows=0 if tested is None else len(tested.rows),
        temperature=choice.temperature,
        multipliers=choice.multipliers,
        row_seconds=sum(m.trial.row_seconds or 0.0 for m in choice.members),
        dataset=table.dataset.name,
        fingerprint=table.dataset.fingerprint,
        seed=seed,
        metric=choice.metric,
        metrics=metrics,
        intervals=intervals,
        seconds=time.monotonic() - clock.start,
        spent=dict(clock.spent),
        command=command,
        version=__version__,
    )
