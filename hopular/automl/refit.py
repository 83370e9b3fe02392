"""Refit: the chosen model once more on all rows, if there is time for it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hopular.automl.choice import Choice, Member
from hopular.automl.race import POOL, Stopped
from hopular.data.dataset import Dataset
from hopular.data.splits import Split
from hopular.methods import Run
from hopular.search.job import Job
from hopular.search.problem import Problem
from hopular.search.warm import worker_for
from hopular.search.worker import InfrastructureError

SAFETY = 1.2  # times the expected seconds: the machine may be busier now
START = 1.0  # seconds for each fit beside the fit itself
NEED_VALIDATION = ("deep", "plain", "modern")  # groups of networks, which cannot tell by themselves when to stop
Rows = np.ndarray[Any, np.dtype[np.int64]]


def expected_seconds(choice: Choice, growth: float, workers: int) -> float:
    """How long a refit is going to take with `growth` times as many training rows."""
    fits = [_expected(member, growth) for member in choice.members]
    return max(max(fits), sum(fits) / workers)


def _expected(member: Member, growth: float) -> float:
    """A fit takes longer with more rows; one of a network keeps to the time it had."""
    before, seconds = member.record.fit_seconds, growth * member.record.fit_seconds
    if member.candidate.method.has_curve and member.record.max_seconds is not None:
        seconds = max(before, min(seconds, member.record.max_seconds))
    return SAFETY * seconds + START


def refit_rows(group: str, split: Split) -> Rows:
    """The rows that a refit trains on: all; a network keeps the validation rows, to tell when to stop."""
    parts = (split.train, split.test) if group in NEED_VALIDATION else (split.train, split.valid, split.test)
    return np.sort(np.concatenate(parts))


def refit(
    choice: Choice, dataset: Dataset, split: Split, folder: Path, end: float, workers: int, threads: int
) -> Choice | None:
    """Fit every member again and save it below `folder`; None if one of them fails or is not done by `end`.

    Boosting gets the number of rounds that was best on the validation rows.
    """
    halted = threading.Event()
    problems = {group: _problem(dataset, split, group) for group in {m.candidate.method.group for m in choice.members}}

    def beat() -> None:
        if time.monotonic() >= end or halted.is_set():
            raise Stopped

    def fit(place: int) -> Member | None:
        member, method = choice.members[place], choice.members[place].candidate.method
        record, target = member.record, folder / str(place)
        rounds = {} if record.rounds is None else {"n_estimators": max(1, record.rounds)}
        job = Job(method.name, {**record.params, **rounds}, Run(record.seed, threads, max_seconds=record.max_seconds))
        try:
            with worker_for(problems[method.group], POOL, threads) as worker:
                outcome = worker.run(replace(job, folder=target), report=lambda _percent, _score: False, beat=beat)
        except (Stopped, InfrastructureError):
            halted.set()
            return None
        return replace(member, folder=target) if outcome.state == "complete" else None

    with ThreadPoolExecutor(workers) as pool:
        try:
            members = list(pool.map(fit, range(len(choice.members))))
        except BaseException:
            halted.set()
            raise
    done = tuple(member for member in members if member is not None)
    return replace(choice, members=done) if len(done) == len(members) else None


def _problem(dataset: Dataset, split: Split, group: str) -> Problem:
    rows = refit_rows(group, split)
    return Problem(
        name=f"{dataset.name} all rows",
        task=dataset.task,
        rows=len(dataset),
        fingerprint=dataset.fingerprint,
        X_train=dataset.X.iloc[rows].reset_index(drop=True),
        y_train=dataset.y.iloc[rows].reset_index(drop=True),
        X_valid=dataset.X.iloc[split.valid].reset_index(drop=True),
        y_valid=dataset.y.iloc[split.valid].reset_index(drop=True),
    )
