"""AutoML on one table: audit it, race all suitable methods for the given time, combine them, keep the best."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import numpy as np

from hopular.automl.candidate import Candidate
from hopular.automl.choice import Choice, rank_choices, write_model
from hopular.automl.fitted import MODEL_FOLDER, ROWS_FILE, Facts, Fitted
from hopular.automl.news import News
from hopular.automl.outcome import make_leaderboard, make_results
from hopular.automl.portfolio import choose_methods
from hopular.automl.race import MAX_WORKERS, Race
from hopular.automl.refit import NO_TIME, Spare, expected_seconds, refit
from hopular.automl.work import FitError, working_folder
from hopular.data.audit import Finding, audit
from hopular.data.dataset import Dataset
from hopular.data.schema import Schema
from hopular.data.splits import Split, make_splits
from hopular.evaluation.metrics import evaluate
from hopular.formatting import plural
from hopular.trials.problem import Problem, make_problem
from hopular.trials.refit import refit_rows
from hopular.trials.worker import WorkerPool
from hopular.util import InputError

FINISH, FINISH_SHARE = 3.0, 0.1  # seconds for scores, model and report after the race, at most this share of all
REFIT_SHARE = 0.2  # of the time: a refit that needs more is not begun
NO_MODEL = 30.0  # seconds that a race without any model goes on beyond its time
SLACK = 1.0  # seconds that may be lacking for a refit: what is expected has a margin
AGAIN = 3.0  # seconds left for which a race that was ended for a refit goes on
SHORTEST = 1.0  # seconds for anything at all
LOOK = 0.25  # seconds between looks at the clock


@dataclass(frozen=True)
class _Clock:
    start: float
    seconds: float

    @property
    def end(self) -> float:
        """When the race and the refit must be over."""
        return self.start + self.seconds - min(FINISH, FINISH_SHARE * self.seconds)

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
        """How many times as many rows a refit has."""
        return len(self.dataset) / len(self.split.train)

    @property
    def is_refittable(self) -> bool:
        """Whether all classes are among the training rows, so that models of other rows agree on the classes."""
        return self.dataset.task == "regression" or set(self.problem.classes) == set(self.dataset.classes)


def fit_table(
    dataset: Dataset,
    seconds: float = 60.0,
    *,
    methods: Sequence[str] | None = None,
    seed: int = 0,
    command: str = "",
    on_news: Callable[[News], None] = lambda news: None,
) -> Fitted:
    """Find the best model for a table within `seconds`: all suitable methods, or those named, and their ensemble.

    A test part is set aside first and only scored at the end. The final model is fitted again on all rows it can use;
    `facts.trained_on` says on how many, and why if there was no time for it. Interrupted, the same call goes on with
    what was tried. `on_news` is told what happens, from several threads.
    """
    if not seconds > 0:
        raise InputError(f"seconds is {seconds!r}: use a number above 0")
    clock = _Clock(time.monotonic(), seconds)
    names, left_out = choose_methods(dataset.task, seconds, methods)
    split = hold_out(dataset)
    table = _Table(dataset, split, make_problem(dataset, split))
    with WorkerPool(MAX_WORKERS) as pool, working_folder(table.problem, seed) as work:
        candidates = [Candidate(name, table.problem, seed, work / name) for name in names]
        known = [(candidate.name, record) for candidate in candidates for record in candidate.records]
        on_news(News("plan", methods=tuple(names), trials=len(known)))
        for name, record in known:
            on_news(News("done", name, record))
        findings, choices, final, no_refit = _race(table, candidates, clock, work / "refit", pool, on_news)
        on_news(News("write"))
        ensemble = next((one for one in choices if one.method == "ensemble"), None)
        keeper = tempfile.TemporaryDirectory(prefix="hopular-")
        folder = Path(keeper.name)
        write_model(final, table.problem, folder / MODEL_FOLDER)
        _write_rows(final, table, folder / ROWS_FILE)
        facts = _facts(table, final, no_refit, seed, time.monotonic() - clock.start, command)
        told = {"seconds": seconds, "seed": seed, "methods": names}
        classes = table.problem.classes or None
        results = make_results(dataset, split, findings, candidates, ensemble, classes, told, command, facts.delivered)
        board = make_leaderboard(results, {one.method: one.loss for one in choices}, final.method)
        return Fitted(Schema.of(dataset), facts, board, results, left_out, folder, keeper)


def hold_out(dataset: Dataset) -> Split:
    """One division of the rows: the first of the dataset's own if it has some, else a test part is drawn."""
    protocol = dataset.protocol
    return make_splits(dataset, protocol if protocol.scheme == "fixed" else replace(protocol, scheme="holdout"))[0]


def _race(
    table: _Table,
    candidates: list[Candidate],
    clock: _Clock,
    folder: Path,
    pool: WorkerPool,
    on_news: Callable[[News], None],
) -> tuple[list[Finding], list[Choice], Choice, str]:
    """Race, choose and refit: what the audit found, all choices, the first of them refitted, and why if it is not."""
    X_test = table.dataset.X.iloc[table.split.test].reset_index(drop=True)
    race = Race(candidates, table.problem, X_test, clock.end, pool, on_news)
    with Spare(candidates, table.problem, folder, race.threads, clock.end) as spare:
        with race.run() as threads:
            findings = audit(table.dataset, [table.split])
            on_news(News("audit", findings=tuple(findings)))
            import_module("hopular.report.page")  # while there is time
            _wait(race, threads, table, spare, clock)
        choices = rank_choices(candidates, table.problem)
        if choices and not table.is_refittable:
            return findings, choices, choices[0], "not all classes are among them, so a refit would be another model"
        if choices and (clock.left <= AGAIN or _needed(choices[0], table, race, spare) <= clock.left + SLACK):
            on_news(News("refit", choices[0].method))
            final, why_not = refit(
                choices[0], table.dataset, table.split, folder, clock.end, spare, pool, race.workers, race.threads
            )
            return findings, choices, final, why_not
        if clock.left > AGAIN:  # the last fits have made another choice, whose refit would take too long
            race.end = clock.end
            with race.run() as threads:
                for thread in threads:
                    thread.join()
            choices = rank_choices(candidates, table.problem)
    if not choices:
        raise FitError(_why_none(candidates, clock.seconds))
    return findings, choices, choices[0], NO_TIME


def _wait(race: Race, threads: list[threading.Thread], table: _Table, spare: Spare, clock: _Clock) -> None:
    """Wait for the end of the race, which leaves as much time as a refit of the best so far is expected to take."""
    pause = LOOK
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(pause / len(threads))
        if clock.left < -NO_MODEL:
            race.stop()
        if table.is_refittable and time.monotonic() < race.end:
            began = time.monotonic()
            with race.lock:
                choices = rank_choices(race.candidates, table.problem)
            needed = 0.0
            if choices:
                spare.wanted = {member.candidate.name for member in choices[0].members}
                needed = _needed(choices[0], table, race, spare)
            race.end = clock.end - (needed if needed <= REFIT_SHARE * clock.seconds else 0.0)
            pause = max(LOOK, 10 * (time.monotonic() - began))


def _needed(choice: Choice, table: _Table, race: Race, spare: Spare) -> float:
    """The seconds of a refit."""
    return expected_seconds(choice, table.growth, race.workers, spare)


def _why_none(candidates: Sequence[Candidate], seconds: float) -> str:
    failures = [f"{one.method.title}: {record.message}" for one in candidates for record in one.records]
    if failures:
        return f"no method could be fitted. {'; '.join(failures[:3])}"
    return f"no method was done within {plural(round(seconds), 'second')}: give it more time, or quicker methods"


def _write_rows(final: Choice, table: _Table, path: Path) -> None:
    """Which rows of the file Hopular has stored, if it is part of the model: it tells them for each answer."""
    hopular = next((member for member in final.members if member.candidate.name == "hopular"), None)
    if hopular is not None:
        rows = refit_rows(hopular.candidate.method, table.split) if hopular.is_refit else table.split.train
        places = table.dataset.file_rows
        np.save(path, rows if places is None else places.to_numpy()[rows])


def _facts(table: _Table, final: Choice, no_refit: str, seed: int, seconds: float, command: str) -> Facts:
    truth = table.dataset.y.iloc[table.split.test].to_numpy()
    test = evaluate(table.dataset.task, truth, final.test_predictions(), table.problem.classes or None)
    return Facts(
        method=final.method,
        members=tuple((member.candidate.name, member.weight) for member in final.members),
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
