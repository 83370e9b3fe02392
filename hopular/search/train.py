"""Training after the search: the best setting once more, in a process of its own, and its answer for the test rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd

from hopular.methods import Run, get_method
from hopular.search.budget import Budget
from hopular.search.fit import SOFT
from hopular.search.job import Job, Outcome, Rows
from hopular.search.problem import Problem
from hopular.search.record import Record
from hopular.search.warm import worker_for
from hopular.search.worker import LostError

PATIENCE = 3.0  # times the limit of a trial: the setting is known to work, and the machine may be busier now


class StoppedError(RuntimeError):
    """The caller wants no more."""


def train(
    problem: Problem,
    method: str,
    record: Record,
    budget: Budget,
    X_test: pd.DataFrame,
    *,
    seed: int | None = None,
    rows: Rows = "train",
    study: str = "",
    folder: Path | None = None,
    threads: int = 1,
    device: str = "cpu",
    should_stop: Callable[[], bool] | None = None,
) -> Outcome:
    """Fit the setting of `record`, predict the test rows, and save the model into `folder`.

    An ensemble has a trial's time for each of its members.

    With the trial's own seed this is the trial's own model (the paper's protocol): a process that is still warm from
    the search `study` has it, another one trains it again, which gives the same since methods are repeatable. With the
    rows "train+valid" boosting gets the number of rounds that was best in the trial, other methods hold out rows by
    themselves or need none; there is no validation score then.
    """

    def beat() -> None:
        if should_stop is not None and should_stop():
            raise StoppedError(f"the training of {method} on {problem.name} was stopped")

    params, each = dict(record.params), budget.seconds_per_trial
    max_seconds, members = record.max_seconds, 1
    if get_method(method).group == "ensemble":
        members = len(params.get("members") or [None])
        max_seconds = max_seconds or (each and SOFT * each * members)
    run = Run(record.seed if seed is None else seed, threads, device, max_seconds)
    if rows == "train+valid" and record.rounds is not None:
        params["n_estimators"] = max(1, record.rounds)
    job = Job(method, params, run, None, study, record.slot, rows, X_test, folder, budget.criterion)
    limit = each and PATIENCE * each * members
    with worker_for(problem, method, threads) as worker:
        try:
            outcome = worker.run(
                job, report=lambda _percent, _score: False, beat=beat, max_seconds=limit, max_memory=budget.memory
            )
        except LostError as error:
            return error.outcome
    if run.seed == record.seed:  # if the model was still there, its memory was that of the trial
        outcome = replace(outcome, peak_memory=max(outcome.peak_memory, record.peak_memory))
    return outcome
