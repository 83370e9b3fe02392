"""Training after the search, in a process of its own: the best setting once more, or on all rows to be handed out.

A model that is handed out is trained on all rows it can use: boosting with the number of rounds that was best on the
validation rows, networks without the validation rows, which tell them when to stop.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hopular.data.dataset import Dataset
from hopular.methods import Method, get_method
from hopular.trials.budget import Budget
from hopular.trials.fit import SOFT
from hopular.trials.problem import Fold, Problem, Rows
from hopular.trials.select import write_model
from hopular.trials.trial import Job, Trial
from hopular.trials.worker import LostError, WorkerPool
from hopular.util import OperationError

if TYPE_CHECKING:
    from hopular.data.splits import Split

TRAIN_FACTOR = 3.0  # training may take this many times a trial's limit: the setting works, the machine may be busier


class StoppedError(OperationError):
    """The caller wants no more."""


class RefitError(OperationError):
    """A model could not be trained on all rows; the message says why."""


@dataclass(frozen=True)
class Refitted:
    """A saved model of all rows it can use: on how many rows each of its members was trained, and its classes."""

    rows: tuple[int, ...]
    classes: tuple[str, ...]


def replicate_seeds(trial: Trial, replicates: int) -> list[int]:
    """Return the seeds to train a setting with: the trial's own first, which gives the trial's own model."""
    return [trial.seed + 7919 * place for place in range(replicates)]


def train(
    problem: Problem,
    method: str,
    trial: Trial,
    budget: Budget,
    X_test: pd.DataFrame | None,
    *,
    seed: int | None = None,
    study: str = "",
    folder: Path | None = None,
    threads: int = 1,
    device: str = "cpu",
    pool: WorkerPool | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Trial:
    """Fit the setting of `trial` again, predict the test rows, and save the model into `folder`.

    An ensemble has a trial's time for each of its members.

    With the trial's own seed this is the trial's own model (the paper's protocol): a process of the pool that has
    worked for the search `study` may still have it, another one trains it again, which gives the same since methods
    are repeatable.
    """

    def beat() -> None:
        if should_stop is not None and should_stop():
            raise StoppedError(f"the training of {method} on {problem.name} was stopped")

    each, max_seconds, members = budget.seconds_per_trial, trial.max_seconds, 1
    if get_method(method).is_ensemble:
        members = len(trial.params.get("members") or [None])
        max_seconds = max_seconds or (each and SOFT * each * members)
    again = Trial(trial.slot, trial.seed if seed is None else seed, dict(trial.params), method=method)
    job = Job(again, threads, device, max_seconds, None, study, X_test, folder, criterion=budget.criterion)
    limit = each and TRAIN_FACTOR * each * members
    with (pool or WorkerPool()).lend(problem, method, threads) as worker:
        try:
            (trained,) = worker.run(
                [job], report=lambda *_: False, beat=beat, max_seconds=limit, max_memory=budget.memory
            )
        except LostError as error:
            return error.trials[0]
    if trained.seed == trial.seed:  # if the model was still there, its memory was that of the trial
        trained = replace(trained, peak_memory=max(trained.peak_memory, trial.peak_memory))
    return trained


def refit(
    dataset: Dataset,
    split: Split,
    method: str,
    trial: Trial,
    budget: Budget,
    folder: Path,
    *,
    members: Sequence[tuple[int, float, int | None]] = (),
    threads: int = 1,
    device: str = "cpu",
    pool: WorkerPool | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Refitted:
    """Train the setting that was best on `split` on all rows it can use, and save the model into `folder`.

    `members` are those that an ensemble of `trial` consists of, as its training said. Each is trained by itself and
    keeps its weight: on rows that it was trained on, a weight would say nothing.
    """

    def beat() -> None:
        if should_stop is not None and should_stop():
            raise StoppedError(f"the refit of {method} on {dataset.name} was stopped")

    own_pool, each = pool or WorkerPool(), budget.seconds_per_trial
    settings, weights = [replace(trial, method=method)], [1.0]
    if members:
        limit = each and SOFT * each
        found = [(trial.params["members"][place], rounds) for place, _, rounds in members]
        settings = [
            Trial(place, trial.seed if seed is None else seed, params, method=name, rounds=rounds, max_seconds=limit)
            for place, ((name, params, seed), rounds) in enumerate(found)
        ]
        weights = [weight for _, weight, _ in members]
    problems = [_refit_problem(dataset, split, get_method(setting.method)) for setting in settings]
    limits = {"max_seconds": each and TRAIN_FACTOR * each, "max_memory": budget.memory}
    with tempfile.TemporaryDirectory() as temp_folder, own_pool.lend(problems[0], method, threads) as worker:
        refitted = []
        for place, (setting, problem) in enumerate(zip(settings, problems, strict=True)):
            worker.use(problem)
            again = _refit_trial(setting)
            job = Job(again, threads, device, again.max_seconds, folder=Path(temp_folder, str(place)))
            try:
                (one,) = worker.run([job], report=lambda *_: False, beat=beat, **limits)
            except LostError as error:
                (one,) = error.trials
            if one.state != "complete":
                raise RefitError(f"{one.method} failed on all rows: {one.failure}: {one.message}")
            if one.unsaved:
                raise RefitError(one.unsaved)
            refitted.append(one)
        saved = [
            (one.method, weight, Path(temp_folder, str(place)))
            for place, (one, weight) in enumerate(zip(refitted, weights, strict=True))
        ]
        write_model(saved, dataset.X.shape[1], refitted[0].classes, folder)
    return Refitted(tuple(one.rows for one in refitted), refitted[0].classes)


def refit_rows(method: Method, split: Split) -> Rows:
    """Return the rows that a model of the method is refitted on: all of the split, for a network all but validation."""
    parts = (split.train, split.test) if method.needs_validation else (split.train, split.valid, split.test)
    return np.sort(np.concatenate(parts))


def _refit_problem(dataset: Dataset, split: Split, method: Method) -> Problem:
    """Return the problem whose training rows are those of a refit."""
    fold = Fold(refit_rows(method, split), split.valid)
    name, rows = f"{dataset.name} all rows", len(dataset)
    return Problem(name, dataset.task, rows, dataset.fingerprint, dataset.X, dataset.y, (fold,))


def _refit_trial(trial: Trial) -> Trial:
    """Return the trial of a refit: with the best number of rounds, since no rows are left to find it by."""
    rounds = {} if trial.rounds is None else {"n_estimators": max(1, trial.rounds)}
    params = {**trial.params, **rounds}
    return Trial(trial.slot, trial.seed, params, method=trial.method, max_seconds=trial.max_seconds)
