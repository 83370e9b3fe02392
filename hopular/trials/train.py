"""Training after the search, in a process of its own: the best setting once more, or on all rows to be handed out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from hopular.data.dataset import Dataset
from hopular.methods import Run, get_method
from hopular.methods.ensemble import write_ensemble
from hopular.trials.budget import Budget
from hopular.trials.fit import SOFT
from hopular.trials.job import Job, Outcome
from hopular.trials.problem import Problem
from hopular.trials.record import Record
from hopular.trials.refit import refit_problem, refit_record
from hopular.trials.warm import worker_for
from hopular.trials.worker import LostError

if TYPE_CHECKING:
    from hopular.data.splits import Split

PATIENCE = 3.0  # times the limit of a trial: the setting is known to work, and the machine may be busier now


class StoppedError(RuntimeError):
    """The caller wants no more."""


def train(
    problem: Problem,
    method: str,
    record: Record,
    budget: Budget,
    X_test: pd.DataFrame | None,
    *,
    seed: int | None = None,
    study: str = "",
    folder: Path | None = None,
    threads: int = 1,
    device: str = "cpu",
    should_stop: Callable[[], bool] | None = None,
) -> Outcome:
    """Fit the setting of `record`, predict the test rows, and save the model into `folder`.

    An ensemble has a trial's time for each of its members.

    With the trial's own seed this is the trial's own model (the paper's protocol): a process that is still warm from
    the search `study` has it, another one trains it again, which gives the same since methods are repeatable.
    """

    def beat() -> None:
        if should_stop is not None and should_stop():
            raise StoppedError(f"the training of {method} on {problem.name} was stopped")

    params, each = dict(record.params), budget.seconds_per_trial
    max_seconds, members = record.max_seconds, 1
    if get_method(method).is_ensemble:
        members = len(params.get("members") or [None])
        max_seconds = max_seconds or (each and SOFT * each * members)
    run = Run(record.seed if seed is None else seed, threads, device, max_seconds)
    job = Job(method, params, run, None, study, record.slot, X_test, folder, budget.criterion)
    limit = each and PATIENCE * each * members
    with worker_for(problem, method, threads) as worker:
        try:
            (outcome,) = worker.run(
                [job], report=lambda *_: False, beat=beat, max_seconds=limit, max_memory=budget.memory
            )
        except LostError as error:
            return error.outcome
    if run.seed == record.seed:  # if the model was still there, its memory was that of the trial
        outcome = replace(outcome, peak_memory=max(outcome.peak_memory, record.peak_memory))
    return outcome


@dataclass(frozen=True)
class Refitted:
    """A saved model of all rows it can use: on how many rows each of its members was trained, and its classes."""

    rows: tuple[int, ...]
    classes: list[str]


class RefitError(RuntimeError):
    """A model could not be trained on all rows; the message says why."""


def refit(
    dataset: Dataset,
    split: Split,
    method: str,
    record: Record,
    budget: Budget,
    folder: Path,
    *,
    members: Sequence[tuple[int, float, int | None]] = (),
    threads: int = 1,
    device: str = "cpu",
    should_stop: Callable[[], bool] | None = None,
) -> Refitted:
    """Train the setting that was best on `split` on all rows it can use, and save the model into `folder`.

    `members` are those that an ensemble of `record` consists of, as its training said. Each is trained by itself and
    keeps its weight: on rows that it was trained on, a weight would say nothing.
    """

    def fit(name: str, setting: Record, target: Path) -> Outcome:
        outcome = train(
            refit_problem(dataset, split, get_method(name)),
            name,
            refit_record(setting),
            budget,
            None,
            folder=target,
            threads=threads,
            device=device,
            should_stop=should_stop,
        )
        if outcome.state != "complete":
            raise RefitError(f"{name} failed on all rows: {outcome.kind}: {outcome.message}")
        if outcome.unsaved:
            raise RefitError(outcome.unsaved)
        return outcome

    if not members:
        outcome = fit(method, record, folder)
        return Refitted((outcome.rows,), outcome.classes)
    saved, outcomes = [], []
    limit = budget.seconds_per_trial and SOFT * budget.seconds_per_trial
    with tempfile.TemporaryDirectory() as scratch:
        for place, weight, rounds in members:
            name, params, seed = record.params["members"][place]
            target = Path(scratch, str(place))
            own_seed = record.seed if seed is None else seed
            setting = replace(record, params=params, seed=own_seed, rounds=rounds, max_seconds=limit)
            outcomes.append(fit(name, setting, target))
            saved.append((name, weight, target))
        classes = outcomes[0].classes
        write_ensemble(folder, saved, dataset.X.shape[1], classes if dataset.task == "classification" else None)
    return Refitted(tuple(outcome.rows for outcome in outcomes), classes)
